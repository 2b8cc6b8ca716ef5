"""The sums over the rows of a batch (docs/math.md section 4), in the memory of a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa.backends.cuda.gibbs import KeptSamples
from bpfa.backends.cuda.rows import C_TYPES, DeviceBatch
from bpfa.backends.cuda.runtime import CurrentDevice, cupy_module, kernel, launch
from bpfa.backends.cuda.step_arguments import StepOnDevice
from bpfa.backends.cuda.view import DeviceView, blocks_of
from bpfa.backends.kernel_methods import MEAN_FIELD
from bpfa.backends.kernel_sums import sums_from_totals
from bpfa.model.sums import Sums

__all__ = ["DeviceSums", "joint_chunks", "sparse_rows", "tensor_buffers"]

# Sums are first taken over chunks of rows: the smallest number of rows of a chunk, and the approximate number
# of chunks. Both are the same on every device.
CHUNK_ROWS, N_CHUNKS = 64, 128
# The rows that a block processes together, its columns, features and threads, as in sums.cu and
# sums_tensor.cu.
BLOCK_ROWS, BLOCK_COLUMNS, BLOCK_FEATURES, BLOCK_THREADS = 32, 64, 256, 512
# For dense_joint in sums.cu: the features of a block, its threads, and the approximate number of blocks.
TILE, TILE_THREADS, MANY_BLOCKS = 64, 256, 1024
# Where entries are missing, dense_joint serves at most DENSE_FEATURES features, because rows use only a small
# share of a larger number, and at most MOST_MATRICES columns, because a grid has no more blocks along an
# axis.
DENSE_FEATURES, MOST_MATRICES = 128, 65_535


def tensor_buffers(memory: int) -> tuple[int, int]:
    """Return how many buffers for rows sums_tensor.cu has, and the bytes of shared memory that they take.

    Examples
    --------
    >>> tensor_buffers(232_448), tensor_buffers(101_376)
    ((2, 105600), (1, 53312))
    """
    buffer = BLOCK_ROWS * (BLOCK_FEATURES + 8 + 2 * (BLOCK_COLUMNS + 8)) + BLOCK_THREADS // 32
    taken = {buffers: 4 * (buffers * buffer + BLOCK_FEATURES) for buffers in (2, 1)}
    buffers = 2 if taken[2] <= memory else 1
    return buffers, taken[buffers]


def joint_chunks(n_lists: int, n_blocks: int) -> tuple[int, int]:
    """Return how many lists of features a block of dense_joint goes through, and how many chunks that makes.

    Parameters
    ----------
    n_lists : int
        Rows times samples.
    n_blocks : int
        Blocks of threads that work on each chunk.

    Examples
    --------
    >>> joint_chunks(3072, 40), joint_chunks(3072, 1), joint_chunks(100_000, 2000)
    ((128, 24), (64, 48), (100000, 1))
    """
    n_chunks = max(1, min(N_CHUNKS, MANY_BLOCKS // n_blocks))
    chunk_lists = max(CHUNK_ROWS, -(-n_lists // (32 * n_chunks)) * 32)
    return chunk_lists, max(1, -(-n_lists // chunk_lists))


def sparse_rows(memory: int, real: str) -> tuple[int, int]:
    """Return how many rows sums.cu processes together, and the bytes of shared memory that they take.

    Examples
    --------
    >>> sparse_rows(101_376, "float64"), sparse_rows(65_536, "float64"), sparse_rows(65_536, "float32")
    ((32, 87296), (16, 46208), (32, 44288))
    """
    size = np.dtype(real).itemsize
    taken = {
        rows: size * (rows * (BLOCK_FEATURES + BLOCK_COLUMNS) + 2 * BLOCK_FEATURES)
        + 4 * (BLOCK_FEATURES + 2 * rows)
        for rows in (BLOCK_ROWS, BLOCK_ROWS // 2)
    }
    rows = BLOCK_ROWS if taken[BLOCK_ROWS] <= memory else BLOCK_ROWS // 2
    return rows, taken[rows]


class DeviceSums:
    """Sums over rows under a view, which stay on the device; the rows are added in parts.

    The attributes have the names of the arguments of `sums_from_totals`, which explains them.
    """

    def __init__(
        self,
        view: DeviceView,
        n_rows: int,
        *,
        complete: bool,
        joint: bool,
        method: int,
        n_samples: int,
        step: int | StepOnDevice,
    ) -> None:
        cupy, (K, D) = cupy_module(), view.phi.shape
        self.view, self.n_rows, self.complete, self.joint = view, n_rows, complete, joint
        self.method, self.n_samples, self.step = method, n_samples, step
        n_matrices = (1 if complete else 2) * K * D
        # All of it is one piece of memory, which is set to zero at once. The arrays in it are not made by
        # slicing, which would take the host longer than the kernels take the device.
        memory = cupy.zeros(n_matrices + 2 * K + 3)

        def piece(first: int, *shape: int, dtype: Any = np.float64) -> Any:
            return cupy.ndarray(shape, dtype, memory.data + 8 * first)

        self.xd = piece(0, K, D)
        self.zw2 = None if complete else piece(K * D, K, D)
        self.n, self.total_zw2 = piece(n_matrices, K), piece(n_matrices + K, K)
        self.scalars = piece(n_matrices + 2 * K, 2)
        """The sum of squared residuals, and the number of observed entries."""
        self.bad = piece(n_matrices + 2 * K + 2, 2, dtype=np.int32)
        """Not zero if a sum is not finite."""
        self.xx: Any = cupy.zeros((1 if complete else D, K, K)) if joint else None
        self.x2: Any = None
        self.w2: Any = None

    def add_kept(self, kept: KeptSamples, batch: DeviceBatch) -> None:
        """Add the samples that the chains of some rows have kept."""
        cupy, view, n_rows = cupy_module(), self.view, len(batch)
        (K, D), real = view.phi.shape, view.real
        if n_rows == 0:
            return
        chunk_rows = max(CHUNK_ROWS, -(-n_rows // N_CHUNKS))
        n_chunks = -(-n_rows // chunk_rows)
        xd = cupy.empty((n_chunks, K, D), real)
        zw2 = None if self.complete else cupy.empty((n_chunks, K, D), real)
        n, total = cupy.empty((n_chunks, K), real), cupy.empty((n_chunks, K), real)
        macro = f"REAL={C_TYPES[real]}"
        data, stride = (batch.dense(real)[0], 0) if self.joint else (kept.residuals, n_rows * D)
        rows = cupy.empty((2, n_chunks))
        given = (
            kept.counts, kept.entries, data, np.int64(stride), kept.masks, kept.squares, kept.n_observed,
            np.int64(n_rows), self.n_samples, K, D,
        )  # fmt: skip
        grid = n_chunks, -(-K // BLOCK_FEATURES), -(-D // BLOCK_COLUMNS)
        if real == "float32" and CurrentDevice.tensor_cores():
            buffers, memory = tensor_buffers(CurrentDevice.shared_memory())
            tiles = min(BLOCK_COLUMNS, -(-D // 8) * 8) // 8
            for squares, partial in enumerate((xd,) if self.complete else (xd, zw2)):
                macros = macro, f"TILES={tiles}", f"BUFFERS={buffers}", f"SQUARES={squares}"
                launch(
                    kernel("sums_tensor.cu", "tensor_sums", *macros), grid, BLOCK_THREADS,
                    *given, partial, n, total, rows, shared=memory,
                )  # fmt: skip
        else:
            block_rows, memory = sparse_rows(CurrentDevice.shared_memory(), real)
            fewer = () if block_rows == BLOCK_ROWS else (f"ROWS={block_rows}",)
            launch(
                kernel("sums.cu", "sparse_sums", macro, *fewer), grid, BLOCK_THREADS,
                *given, chunk_rows, xd, zw2, n, total, rows, shared=memory,
            )  # fmt: skip
        launch(
            kernel("sums.cu", "reduce_sums", macro), blocks_of(K * D, 64) + blocks_of(K, 64) + 1, 256,
            xd, zw2, n, total, rows, n_chunks, K, D,
            self.xd, self.zw2, self.n, self.total_zw2, self.scalars, self.bad,
        )  # fmt: skip
        if self.joint:
            self._add_products(kept, n_rows)

    def _add_products(self, kept: KeptSamples, n_rows: int) -> None:
        """Add o_id x_i x_i^T over all rows and samples."""
        K, D = self.view.phi.shape
        macro = f"REAL={C_TYPES[self.view.real]}"
        given = kept.counts, kept.entries, kept.masks, np.int64(n_rows), self.n_samples, K, D
        if not self.complete and (K > DENSE_FEATURES or D > MOST_MATRICES):
            launch(kernel("sums.cu", "sparse_joint", macro), D, 1024, *given, self.xx)
            return
        n_matrices, n_tiles = len(self.xx), (-(-K // TILE)) ** 2
        chunk_lists, n_chunks = joint_chunks(self.n_samples * n_rows, n_tiles * n_matrices)
        partial = cupy_module().empty((n_chunks, *self.xx.shape))
        launch(
            kernel("sums.cu", "dense_joint", macro), (n_tiles, n_matrices, n_chunks), TILE_THREADS,
            *given, np.int64(chunk_lists), partial,
        )  # fmt: skip
        launch(
            kernel("sums.cu", "reduce_joint", macro), blocks_of(self.xx.size), 256,
            partial, n_chunks, np.int64(self.xx.size), self.xx,
        )  # fmt: skip

    def add_moments(self, theta: Any, m: Any, kappa: Any, residuals: Any, dense: Any, mask: Any) -> None:
        """Add rows whose local posterior has these parameters; `mask` is None where nothing is missing."""
        cupy = cupy_module()
        x, second = theta * m, m * m + 1 / kappa
        zw2, x2 = theta * second, x * x
        self.n += theta.sum(axis=0, dtype=np.float64)
        self.total_zw2 += zw2.sum(axis=0, dtype=np.float64)
        self.xd += cupy.matmul(x.T, dense if self.joint else residuals)
        if mask is None:
            own_x2 = x2.sum(axis=0, dtype=np.float64)[:, None]
        else:
            own_x2 = cupy.matmul(x2.T, mask)
            self.zw2 += cupy.matmul(zw2.T, mask)
        self.x2 = own_x2.astype(np.float64) if self.x2 is None else self.x2 + own_x2
        self.scalars[0] += cupy.square(residuals).sum(dtype=np.float64)
        self.scalars[1] += dense.size if mask is None else mask.sum(dtype=np.float64)
        if self.method == MEAN_FIELD:
            w2 = second.sum(dtype=np.float64)
            self.w2 = w2 if self.w2 is None else self.w2 + w2
        if self.joint and mask is None:
            self.xx[0] += cupy.matmul(x.T, x)
        elif self.joint:
            for d in range(mask.shape[1]):
                self.xx[d] += cupy.matmul((x * mask[:, d : d + 1]).T, x)
        self.bad |= (~cupy.isfinite(self.xd).all()).astype(cupy.int32)

    @property
    def T(self) -> Any:
        """sum_i o_id E[z_ik w_ik^2], K x D or K x 1, before the average over samples."""
        return self.total_zw2[:, None] if self.zw2 is None else self.zw2

    def extra_error(self) -> Any:
        """Return what the variances of x and phi add to the squared error, or None if they are zero."""
        if self.x2 is None and self.view.v is None:
            return None
        phi2 = self.view.phi**2
        v = 0.0 if self.view.v is None else self.view.v
        T = self.T / self.n_samples
        return (T * (phi2 + v) - (T if self.x2 is None else self.x2) * phi2).sum()

    def second_moments(self) -> Any:
        """Return sum_i o_id E[x_i x_i^T], before the average over samples."""
        if self.x2 is None:
            return self.xx
        # E[x_k^2] is E[z w^2], not E[x_k]^2.
        diagonal = cupy_module().arange(self.view.n_features)
        self.xx[:, diagonal, diagonal] += (self.T - self.x2).T
        self.x2 = self.T
        return self.xx

    def cropped_to(self, n_columns: int) -> DeviceSums:
        """Return the sums without the columns that were added for the view (docs/math.md section 5)."""
        n_extra = self.xd.shape[1] - n_columns
        if n_extra:
            self.xd = cupy_module().ascontiguousarray(self.xd[:, :n_columns])
            self.scalars[1] -= n_extra * self.n_rows
        return self

    def host(self) -> Sums:
        """Copy the sums to the host."""
        rr, n_observed = self.scalars.get().tolist()
        return sums_from_totals(
            self.method,
            self.n_samples,
            self.view.host(),
            n_rows=self.n_rows,
            n_observed=n_observed,
            n=self.n.get(),
            total_zw2=self.total_zw2.get(),
            zw2=None if self.zw2 is None else self.zw2.get(),
            x2=None if self.x2 is None else self.x2.get(),
            w2=0.0 if self.w2 is None else float(self.w2),
            rr=rr,
            xd=self.xd.get(),
            xx=None if self.xx is None else self.xx.get(),
        )
