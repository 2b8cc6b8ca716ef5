"""Online dictionary learning by other packages, on the same complete rows and at about the same sparsity."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.problems import Problem

BATCH_SIZE = 256


def matching_penalty(problem: Problem, active: float) -> float:
    """Return the l1 penalty at which SPAMS uses this many atoms per row with the dictionary it learns."""
    low, high = 1e-3, 10.0
    for _ in range(10):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if atoms_a_row(problem, middle) > active else (low, middle)
    return (low * high) ** 0.5


def documented_penalty(problem: Problem) -> float:
    """Return the penalty of the examples of SPAMS, 1.2 / sqrt(D) for rows of length 1, scaled to our rows."""
    values = problem.batch.values
    return float(1.2 / values.shape[1] ** 0.5 * np.sqrt((values**2).sum(axis=1)).mean())


def atoms_a_row(problem: Problem, penalty: float, n_rows: int = 4096) -> float:
    """Return how many atoms SPAMS uses for a row after a short training run."""
    import spams

    atoms = spams_learner(problem, penalty, n_rows, n_threads=1)()
    rows = np.asfortranarray(problem.batch.values[:1000].T.astype(np.float64))
    return float(spams.lasso(rows, atoms, lambda1=penalty, numThreads=1).nnz / rows.shape[1])


def spams_learner(problem: Problem, penalty: float, n_rows: int, n_threads: int) -> Callable[[], np.ndarray]:
    """Return a function that runs trainDL of SPAMS: one pass over the rows in mini-batches."""
    import spams

    rows = np.asfortranarray(problem.batch.values[:n_rows].T.astype(np.float64))
    return lambda: spams.trainDL(
        rows,
        K=problem.view.n_features,
        lambda1=penalty,
        numThreads=n_threads,
        batchsize=BATCH_SIZE,
        iter=n_rows // BATCH_SIZE,
        verbose=False,
    )


def sklearn_learner(problem: Problem, penalty: float, n_rows: int) -> Callable[[], object]:
    """Return a function that runs MiniBatchDictionaryLearning of scikit-learn: one pass over the rows.

    It uses coordinate descent, the faster of its two algorithms, and no worker processes, which only slow it
    down at this size. NumPy uses as many threads as it likes.
    """
    from sklearn.decomposition import MiniBatchDictionaryLearning

    rows = problem.batch.values[:n_rows].astype(np.float64)
    start = problem.view.phi / np.linalg.norm(problem.view.phi, axis=1, keepdims=True)

    def work() -> object:
        return MiniBatchDictionaryLearning(
            n_components=problem.view.n_features,
            alpha=penalty,
            batch_size=BATCH_SIZE,
            max_iter=1,
            fit_algorithm="cd",
            dict_init=start,
            random_state=0,
        ).fit(rows)

    return work
