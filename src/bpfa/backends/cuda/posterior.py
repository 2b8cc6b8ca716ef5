"""The global posterior in the memory of a device, for which views and steps are queued without waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bpfa._support.philox import GlobalDraws
from bpfa.backends.cuda.rows import C_TYPES
from bpfa.backends.cuda.runtime import CurrentDevice, cupy_module, kernel, launch, on_device
from bpfa.backends.cuda.step_arguments import StepOnDevice, number_arguments, size_arguments
from bpfa.backends.cuda.sums import DeviceSums
from bpfa.backends.cuda.view import DeviceView, blocks_of
from bpfa.backends.kernel_methods import MEAN_FIELD
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.posterior import GlobalPosterior
from bpfa.model.summary import Summary

__all__ = ["DevicePosterior", "PendingSummary"]

# How often the host asks the device whether all steps so far have succeeded.
STEPS_BETWEEN_CHECKS = 50

# Indices into `DevicePosterior.state`, as in posterior.cu.
C, D_RATE, E, F_RATE, NOISE_STD, N_ACTIVE, FAILED, STATE_LENGTH = range(8)


@dataclass(frozen=True)
class PendingSummary:
    """A summary that is still on the device, so that the host need not wait for it."""

    numbers: Any
    """noise_std and n_active, on the device."""

    @staticmethod
    def read(summaries: Sequence[PendingSummary]) -> list[Summary]:
        """Wait for the device and copy several summaries together."""
        numbers = cupy_module().concatenate([summary.numbers for summary in summaries]).get()
        return [Summary(float(noise_std), int(n)) for noise_std, n in numbers.reshape(len(summaries), 2)]


@dataclass(frozen=True)
class DevicePosterior:
    """A `GlobalPosterior` on a device. It is immutable: a step returns a new one.

    Steps are queued, and the host does not wait for them. It does wait for `noise_std`, `n_active()` and
    `host()`, which return numbers in its own memory.
    """

    origin: GlobalPosterior
    """The posterior this one began as, for all that steps do not change: priors, number of rows, settings."""
    device: str
    real: str
    """Precision of the kernels, "float32" or "float64"."""
    ab: Any
    """a and b, 2 x K."""
    state: Any
    """c, d, e, f, noise_std, n_active, and the number of the first step that failed, or 0."""
    precision: Any
    """tau of factorised features, or P of joint ones."""
    linear: Any
    """mu of factorised features, or h of joint ones."""

    @classmethod
    def of(cls, posterior: GlobalPosterior, device: str, real: str) -> DevicePosterior:
        """Copy a posterior to a device."""
        with on_device(device):
            cupy, features = cupy_module(), posterior.features
            state = [posterior.c, posterior.d, posterior.e, posterior.f]
            state += [posterior.noise_std, float(posterior.n_active()), 0.0]
            if isinstance(features, JointFeatures):
                precision, linear = features.P, features.h
            else:
                precision, linear = features.tau, features.mu
            return cls(
                origin=posterior,
                device=device,
                real=real,
                ab=cupy.asarray(np.stack([posterior.a, posterior.b])),
                state=cupy.asarray(state),
                precision=cupy.asarray(precision),
                linear=cupy.asarray(linear),
            )

    @property
    def arrays(self) -> tuple[Any, Any, Any, Any]:
        """The arrays that a step changes."""
        return self.ab, self.state, self.precision, self.linear

    def empty_like(self) -> DevicePosterior:
        """Return a posterior of the same shape for a kernel to fill."""
        cupy = cupy_module()
        ab, state, precision, linear = (cupy.empty(array.shape) for array in self.arrays)
        return replace(self, ab=ab, state=state, precision=precision, linear=linear)

    @property
    def joint(self) -> bool:
        """Whether features are joint."""
        return isinstance(self.origin.features, JointFeatures)

    @property
    def features_complete(self) -> bool:
        """Whether no missing entry has been seen."""
        return len(self.precision) == 1 if self.joint else bool(self.precision.shape[1] == 1)

    @property
    def n_rows(self) -> int:
        """Size N of the whole data set."""
        return self.origin.n_rows

    @property
    def n_features(self) -> int:
        """Number of features K."""
        return self.origin.n_features

    @property
    def n_columns(self) -> int:
        """Number of columns D."""
        return self.origin.n_columns

    @property
    def noise_std(self) -> float:
        """Noise standard deviation at the expected precision."""
        return float(self.state[NOISE_STD])

    def n_active(self) -> int:
        """Count the features that more than one row in a thousand, and more than one row, use."""
        return int(self.state[N_ACTIVE])

    def summary(self) -> PendingSummary:
        """Return what the history of a fit records of this posterior, to be read later."""
        return PendingSummary(self.state[NOISE_STD : N_ACTIVE + 1])

    def host(self) -> GlobalPosterior:
        """Wait for the device and return a copy in the memory of the host."""
        return self._copy

    @cached_property
    def _copy(self) -> GlobalPosterior:
        a, b = self.ab.get()
        c, d, e, f = self.state[:4].get().tolist()
        precision, linear = self.precision.get(), self.linear.get()
        features = JointFeatures(precision, linear) if self.joint else FactorisedFeatures(precision, linear)
        return replace(self.origin, a=a, b=b, c=c, d=d, e=e, f=f, features=features)

    # --- views ---------------------------------------------------------------------------------------------

    def expected(self) -> DeviceView:
        """Return the expected view."""
        cupy = cupy_module()
        with on_device(self.device):
            if not self.joint:
                view = DeviceView.empty(self.n_features, self.n_columns, self.real, v=1 / self.precision)
                self._fill_except_features(view, None)
                self._fill_factorised(view, None)
                view.place()
                return view
            if len(self.precision) != 1:
                raise ValueError(
                    f"P: {len(self.precision)} matrices; the expected view needs one for all columns"
                )
            # As in JointFeatures.expected, the covariance of the features becomes K more columns.
            K, D = self.n_features, self.n_columns
            view = DeviceView.empty(K, D + K, self.real)
            self._fill_except_features(view, None)
            view.phi[:, :D] = self._solved(None)
            view.phi[:, D:] = D**0.5 * cupy.linalg.cholesky(cupy.linalg.inv(self.precision[0]))
            view.place()
            return view

    def sampled(self, draws: GlobalDraws | np.random.Generator) -> DeviceView:
        """Return a sampled view; the next number of a NumPy generator serves as the seed."""
        if isinstance(draws, np.random.Generator):
            draws = GlobalDraws(int(draws.integers(2**63)), step=0)
        with on_device(self.device):
            view = DeviceView.empty(self.n_features, self.n_columns, self.real)
            self._fill_except_features(view, draws)
            if self.joint:
                view.phi[...] = self._solved(draws)
                view.place()
            else:
                self._fill_factorised(view, draws)
            return view

    def _kernel(self, name: str) -> Any:
        return kernel("posterior.cu", name, f"REAL={C_TYPES[self.real]}")

    def _fill_except_features(self, view: DeviceView, draws: GlobalDraws | None) -> None:
        """Fill in the log odds and the precisions of a view: drawn, or expected if there are no draws."""
        launch(
            self._kernel("view_except_features"), blocks_of(len(view.logit2) + 1, 64), 64,
            self.ab, self.state, self.n_features, *_keyed(draws), view.logit, view.logit2, view.precisions,
        )  # fmt: skip

    def _fill_factorised(self, view: DeviceView, draws: GlobalDraws | None) -> None:
        """Fill in the factorised features of a view: drawn, or their mean if there are no draws."""
        K, D = self.n_features, self.n_columns
        launch(
            self._kernel("view_factorised"), blocks_of(K * D), 256,
            self.precision, self.precision.shape[1], self.linear, K, D, *_keyed(draws),
            view.phi, view.tiles, view.rows,
        )  # fmt: skip

    def _solved(self, draws: GlobalDraws | None) -> Any:
        """Return P_d^-1 h_d of every column, or a draw from N(P_d^-1 h_d, P_d^-1)."""
        K, D = self.n_features, self.n_columns
        factors, transposed = self._factors()
        phi = cupy_module().empty((K, D))
        stride = 0 if len(self.precision) == 1 else K * K
        launch(
            self._kernel("view_joint"), D, 256,
            factors, transposed, np.int64(stride), self.linear, K, D, *_keyed(draws), phi, shared=8 * K,
        )  # fmt: skip
        return phi

    def _factors(self) -> tuple[Any, Any]:
        """Return the Cholesky factors of all matrices, and their transposes."""
        cupy, K = cupy_module(), self.n_features
        shared = 8 * K * (K | 1)
        if shared <= CurrentDevice.shared_memory():
            factors, transposed = cupy.empty_like(self.precision), cupy.empty_like(self.precision)
            launch(
                self._kernel("cholesky"), len(factors), 256,
                self.precision, K, factors, transposed, shared=shared,
            )  # fmt: skip
            return factors, transposed
        import cupyx

        # The device is not asked whether this succeeded: a factor that is not finite shows in the sums.
        with cupyx.errstate(linalg="ignore"):
            factors = cupy.linalg.cholesky(self.precision)
        return factors, cupy.ascontiguousarray(factors.swapaxes(1, 2))

    # --- steps ---------------------------------------------------------------------------------------------

    def step(self, sums: DeviceSums, rho: float | StepOnDevice, g_o: Any) -> DevicePosterior:
        """Move every natural parameter by rho towards the prior plus the sums scaled to N rows.

        If the sums of a step are not finite, the device makes neither this step nor any later one, and keeps
        the last good state. The host checks for this every 50 steps, and then raises a ValueError.
        """
        cupy, origin, K, D = cupy_module(), self.origin, self.n_features, self.n_columns
        view, priors = sums.view, origin.priors
        with on_device(self.device):
            ab, state = cupy.empty_like(self.ab), cupy.empty_like(self.state)
            scale = self.n_rows / sums.n_rows
            mean_field = sums.method == MEAN_FIELD
            size, size_there = size_arguments(rho)
            number = 0.0 if isinstance(sums.step, StepOnDevice) else float(sums.step)
            launch(
                self._kernel("step_except_features"), 1, 256,
                self.ab, self.state, sums.n, sums.total_zw2, sums.scalars, sums.extra_error(),
                sums.w2 if mean_field else None, sums.bad, view.precisions, K, sums.n_samples,
                float(sums.n_rows), float(self.n_rows), *priors.beta(K),
                priors.c0, priors.d0, priors.e0, priors.f0, origin.weight_precision == "active",
                size, number, size_there, ab, state,
            )  # fmt: skip
            shared = (self.state, sums.bad, view.precisions, K, D, sums.n_samples, scale, size, size_there)
            linear = cupy.empty_like(self.linear)
            complete = self.features_complete and sums.complete
            if self.joint:
                precision = cupy.empty((1 if complete else D, K, K))
                launch(
                    self._kernel("step_joint"), (blocks_of(max(K * K, K * D)), len(precision)), 256,
                    self.precision, len(self.precision), self.linear, sums.second_moments(), len(sums.xx),
                    sums.xd, *shared, precision, linear,
                )  # fmt: skip
            else:
                precision = cupy.empty((K, 1 if complete else D))
                T = sums.T
                launch(
                    self._kernel("step_factorised"), blocks_of(K * D), 256,
                    self.precision, self.precision.shape[1], self.linear,
                    T, T if sums.x2 is None else sums.x2, T.shape[1], sums.xd, view.phi,
                    *shared, precision, precision.shape[1], linear,
                )  # fmt: skip
        moved = replace(self, ab=ab, state=state, precision=precision, linear=linear)
        return moved if isinstance(sums.step, StepOnDevice) else moved.checked(sums.step)

    def checked(self, step: int) -> DevicePosterior:
        """Return this posterior; after every 50th step, first ask the device whether all steps succeeded."""
        if step % STEPS_BETWEEN_CHECKS == 0:
            self.check_finite()
        return self

    def check_finite(self) -> None:
        """Raise a ValueError if a step could not be made."""
        failed = int(self.state[FAILED])
        if failed:
            raise ValueError(f"the sums of step {failed} are not finite, or a precision is out of range")


def _keyed(draws: GlobalDraws | None) -> tuple[Any, ...]:
    """Return the arguments of a kernel that say whether to draw, and what keys the random numbers."""
    if draws is None:
        return False, np.uint32(0), np.uint32(0), *number_arguments(0)
    return True, np.uint32(draws.key & 0xFFFFFFFF), np.uint32(draws.key >> 32), *number_arguments(draws.step)
