"""Channel mixing: in which tiles a kernel multiplies spectra and weights, wavenumber by wavenumber."""

from __future__ import annotations

import numpy as np

from spectralops._cuda.launch import Kernel

__all__ = ["MIX", "mix_kernel"]

MIX = np.dtype(
    [
        (name, np.int64)
        for name in (
            "modes",
            "samples",
            "in",
            "out",
            "x_sample",
            "x_in",
            "weight_in",
            "weight_out",
            "last",
            "read",
            "written",
        )
    ]
    + [("scale", np.float64), ("sign", np.float64)]
)
LANES = 32
# Tiles of the mixing, the preferred ones first: samples and channels of a warp, warps along samples and along channels,
# and for how many blocks a multiprocessor there must be work.
TILES = [
    (8, 4, 1, 4, 2.0),
    (4, 4, 2, 2, 0.9),
    (4, 4, 1, 4, 0.9),
    (2, 4, 1, 8, 1.5),
    (2, 4, 2, 2, 1.5),
    (2, 2, 2, 2, 0.9),
    (1, 4, 1, 8, 0.9),
    (1, 4, 1, 4, 0.9),
    (1, 2, 1, 4, 0.9),
    (1, 1, 1, 4, 0.9),
    (1, 1, 1, 1, 0.0),
]
# Channels on their way through shared memory: stages, and bytes of one of them for each warp.
STAGES = 3
STAGE_BYTES = 4 * 1024


def mix_kernel(
    real: str,
    samples: int,
    written: int,
    modes: int,
    conjugate: str,
    multiprocessors: int,
    options: tuple[str, ...],
    wide: bool = False,
    early: bool = False,
) -> Kernel:
    """The largest tile that still gives every multiprocessor a block; small ones where the problem is small.

    `wide`: modes and all distances are even, and both arrays aligned to two numbers. `early`: no earlier launch of the
    program computes the weights.
    """
    itemsize = 4 if real == "float" else 8
    tiles = [t for t in TILES if t[0] * t[2] < 2 * samples or t[0] * t[2] == 1]
    tiles = [t for t in tiles if t[1] * t[3] < 2 * written or t[1] * t[3] == 1]

    def blocks(tile: tuple[int, int, int, int, float]) -> int:
        return -(-modes // LANES) * -(-written // (tile[1] * tile[3])) * -(-samples // (tile[0] * tile[2]))

    chosen = next((t for t in tiles if blocks(t) >= t[4] * multiprocessors), tiles[-1])
    rows, warps = chosen[0] * chosen[2] + chosen[1] * chosen[3], chosen[2] * chosen[3]
    chunk = max(1, min(8, STAGE_BYTES * warps // (rows * LANES * 2 * itemsize)))
    shared = STAGES * chunk * rows * LANES * 2 * itemsize
    name = f"mix<{real}, {', '.join(map(str, chosen[:4]))}, {chunk}, {STAGES}, {2 if wide else 1}, {conjugate}>"
    return Kernel("mix.cu", name, (blocks(chosen),), (LANES * warps,), shared, options, early=early)
