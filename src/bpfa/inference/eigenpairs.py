"""The largest eigenvalues of a covariance matrix that may be too large to be written down.

The matrix is A^T A / n + diag(extra), with A of shape (n, D). Up to EXACT_COLUMNS columns it is computed and
decomposed as a whole. For more columns only products with A and its transpose are used (subspace iteration),
so that time and memory grow with n D k and (n + D) k instead of D^3 and D^2.
"""

from __future__ import annotations

import numpy as np

from bpfa._support.checks import Array

__all__ = ["EXACT_COLUMNS", "largest_eigenpairs"]

# With at most this many columns, the decomposition of the whole matrix takes little time.
EXACT_COLUMNS = 256
# The number of products in a subspace iteration that starts from a good guess, and in one that does not; and
# how many directions more than asked for it follows, which makes those that are asked for converge faster.
GUIDED_PRODUCTS, BLIND_PRODUCTS, SPARE_DIRECTIONS = 2, 8, 8
# The directions that a guess does not have start from these random numbers.
SEED = 0


def largest_eigenpairs(
    A: Array, extra: Array, n_pairs: int, guess: Array | None = None
) -> tuple[Array, Array]:
    """Return the largest eigenvalues of A^T A / n + diag(extra), the smallest of them first, and the vectors.

    Parameters
    ----------
    A : array, shape (n, D)
    extra : array, shape (D,)
        What is added to the diagonal.
    n_pairs : int
        The number of eigenvalues, at most D.
    guess : array, shape (D, m), optional
        Directions near the eigenvectors. They are used with more than EXACT_COLUMNS columns only.

    Returns
    -------
    eigenvalues : array, shape (n_pairs,)
    vectors : array, shape (D, n_pairs)
        The columns are orthonormal.

    Examples
    --------
    >>> A = np.random.default_rng(0).normal(size=(50, 400)) * np.linspace(1, 9, 400)
    >>> values, vectors = largest_eigenpairs(A, np.zeros(400), 2)
    >>> np.allclose(values[-1], np.linalg.svd(A, compute_uv=False)[0] ** 2 / 50, rtol=1e-2)
    True
    """
    n, D = A.shape
    if D <= EXACT_COLUMNS:
        eigenvalues, vectors = np.linalg.eigh(A.T @ A / n + np.diag(extra))
        return eigenvalues[D - n_pairs :], vectors[:, D - n_pairs :]
    n_directions = min(n_pairs + SPARE_DIRECTIONS, D)
    directions = np.random.default_rng(SEED).normal(size=(D, n_directions))
    n_products = BLIND_PRODUCTS
    if guess is not None:
        n_guessed = min(guess.shape[1], n_directions)
        directions[:, n_directions - n_guessed :] = guess[:, guess.shape[1] - n_guessed :]
        n_products = GUIDED_PRODUCTS if n_guessed >= n_pairs else BLIND_PRODUCTS
    for _ in range(n_products):
        directions, _ = np.linalg.qr(directions)
        image = A.T @ (A @ directions) / n + extra[:, None] * directions
        previous, directions = directions, image
    # The best approximations within the subspace (Rayleigh and Ritz).
    eigenvalues, rotation = np.linalg.eigh(previous.T @ image)
    return eigenvalues[n_directions - n_pairs :], (previous @ rotation)[:, n_directions - n_pairs :]
