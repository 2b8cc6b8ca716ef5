"""Small fits of every kind, whose results are compared bit for bit with those of an earlier version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import bpfa

Arrays = dict[str, Any]


def table(n_rows: int = 300, n_columns: int = 12, *, missing: float = 0.1, seed: int = 0) -> Any:
    """Draw a table from the model, with a share of its entries missing."""
    data = bpfa.draw_data(n_rows, n_columns, 5, g_o=50.0, g_w=1.0, seed=seed).y
    data[np.random.default_rng(seed).random(data.shape) < missing] = np.nan
    return data


def of_posterior(posterior: Any) -> Arrays:
    """Return the numbers that describe a posterior of the globals."""
    if isinstance(posterior, bpfa.ChainPosterior):
        last = posterior.views[-1]
        return {"phi": last.phi, "logit": last.logit, "g_o": last.g_o, "z": posterior.state.z}
    arrays = {name: getattr(posterior, name) for name in "abcdef"}
    return arrays | {"mean": posterior.features.mean}


def trained(algorithm: str, *, missing: float, device: str = "cpu", **options: Any) -> Arrays:
    """Train for a few steps from a random start."""
    *_, last = bpfa.train(
        table(missing=missing),
        8,
        algorithm=algorithm,
        n_steps=6,
        batch_size=64,
        seed=3,
        device=device,
        **options,
    )
    return of_posterior(last.posterior)


def fitted(X: Any = None, **parameters: Any) -> Arrays:
    """Fit a BPFA and call all of its methods."""
    X = table() if X is None else X
    model = bpfa.BPFA(random_state=1, device="cpu", **parameters).fit(X)
    return of_model(model, X)


def of_model(model: Any, X: Any) -> Arrays:
    """Return what the methods of a fitted model return for a table."""
    filled, std = model.impute(X[:50], return_std=True, n_draws=5)
    history = {
        f"history {name}": model.history_[name] for name in ("step", "noise_std", "n_active", "held_out_mse")
    }
    return {
        **of_posterior(model.posterior_),
        **history,
        "components": model.components_,
        "probabilities": model.component_probabilities_,
        "noise": model.noise_std_,
        "weights": model.transform(X[:50]),
        "filled": filled,
        "std": std,
        "score": model.score(X),
        "sample": model.sample(5, random_state=0),
    }


def partial() -> Arrays:
    """Learn from two parts of a table, one after the other."""
    X = table(600)
    model = bpfa.BPFA(6, batch_size=100, random_state=2, device="cpu", total_rows=600)
    model.partial_fit(X[:350]).partial_fit(X[350:])
    return of_model(model, X)


def diagnosed() -> Arrays:
    """Return the tables of diagnostics of a model."""
    X = table(400)
    model = bpfa.BPFA(6, max_steps=30, random_state=2, device="cpu").fit(X)
    frames = {
        "summary": model.component_summary(X),
        "explained": model.variance_explained(X, per_column=True),
        "calibration": model.calibration(X),
        "residuals": model.residuals(X),
    }
    return {name: frame.select_dtypes("number").to_numpy(float) for name, frame in frames.items()}


def picture(*, missing: float, noise: float) -> tuple[Any, Any]:
    """Return a small picture and which of its pixels are missing."""
    rng = np.random.default_rng(0)
    truth = (
        100 + 50 * np.sin(np.add.outer(np.arange(40) / 3, np.arange(36) / 5)) + 20 * (np.arange(36) % 7 < 3)
    )
    return truth + noise * rng.normal(size=truth.shape), rng.random(truth.shape) < missing


def restored(method: Callable[..., Any], *, missing: float, noise: float, **parameters: Any) -> Arrays:
    """Restore a picture."""
    image, mask = picture(missing=missing, noise=noise)
    result = method(
        image,
        mask,
        patch_size=6,
        n_components=12,
        max_steps=25,
        random_state=0,
        device="cpu",
        refine=None,
        **parameters,
    )
    return {
        "image": result.image,
        "std": result.std,
        "noise": result.noise_std,
        "from prior": result.from_prior,
    }


def cases(dropout: str, weight_precision: str) -> Iterator[tuple[str, Callable[[], Arrays]]]:
    """Yield the name and the function of every case; two parameters had other names before."""
    sampled = ("mf-ssvi", "titsias-ssvi", "gibbs-ssvi", "gibbs")
    for name in bpfa.ALGORITHMS:
        for missing in (0.0, 0.2):
            yield f"train {name} {missing}", lambda name=name, missing=missing: trained(name, missing=missing)
            if name in sampled or not missing:
                yield (
                    f"train {name} {missing} joint",
                    lambda name=name, missing=missing: trained(name, missing=missing, features="joint"),
                )
        yield (
            f"train {name} specification",
            lambda name=name: trained(name, missing=0.2, device="numpy"),
        )
    for init in ("random", "data", "principal", "common", "gibbs"):
        yield f"start {init}", lambda init=init: trained("gibbs-ssvi", missing=0.2, init=init)
    yield "train active", lambda: trained("gibbs-ssvi", missing=0.2, **{weight_precision: "active"})
    yield "train dropout", lambda: trained("gibbs-ssvi", missing=0.2, **{dropout: 0.2})
    yield "train two-step", lambda: trained("gibbs-ssvi", missing=0.2, blocked=False)
    yield "train double", lambda: trained("gibbs-ssvi", missing=0.2, dtype="float64")
    yield "train carried chains", lambda: trained("gibbs-ssvi", missing=0.2, chains=bpfa.ChainStore(300, 8))
    yield "fit defaults", lambda: fitted(max_steps=40)
    yield (
        "fit sparse",
        lambda: fitted(bpfa.draw_data(1000, 20, 40, g_o=100.0, g_w=1.0, seed=0).y, max_steps=5),
    )
    yield "fit without scaling", lambda: fitted(max_steps=20, standardize=False, noise="shared")
    yield "fit held out", lambda: fitted(max_steps=300, held_out=0.1, patience=2, n_components=6)
    yield "fit revised", lambda: fitted(max_steps=120, held_out=0.1, revise=True)
    yield "fit mean field", lambda: fitted(max_steps=20, algorithm="mf-svi")
    yield "fit sampler", lambda: fitted(max_steps=10, algorithm="gibbs", n_components=5)
    yield "fit single precision", lambda: fitted(table().astype(np.float32), max_steps=20)
    yield "partial fit", partial
    yield "diagnostics", diagnosed
    yield "inpaint", lambda: restored(bpfa.inpaint, missing=0.5, noise=0.0)
    yield "inpaint few", lambda: restored(bpfa.inpaint, missing=0.8, noise=0.0)
    yield "denoise", lambda: restored(bpfa.denoise, missing=0.3, noise=10.0)
    yield (
        "denoise mean field",
        lambda: restored(bpfa.denoise, missing=0.3, noise=10.0, algorithm="titsias-svi"),
    )
