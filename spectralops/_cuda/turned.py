"""Layers of one axis and many samples: spectra that have the wavenumber first, mixed on tensor cores."""

from __future__ import annotations

from spectralops._cuda import launch
from spectralops._cuda.geometry import SHARED_BYTES, Lines
from spectralops._cuda.launch import Kernel

__all__ = ["groups_kernel", "mixed_by_groups", "turned_kernel", "turned_lines"]

# Bytes of neighbouring lines at one wavenumber, which a block reads and writes together: the most that fits.
SEGMENTS = (128, 64, 32)
MOST_THREADS = 512
# Samples of a group of four warps at a time, channels of a block, and bytes that weights of a channel take there.
SAMPLES, CHANNELS, CHANNEL_BYTES = 64, 32, 1024
# Groups of a block; pieces of 8 channels on their way to each of them, and bytes of one.
GROUPS, AHEAD, PIECE_BYTES = (4, 2, 1), (4, 2, 1), 4096


def mixed_by_groups(device: launch.Device, samples: int, read: int, written: int) -> bool:
    """Whether groups of warps mix so many channels, of samples enough for what they do first with the weights."""
    fits = read * CHANNEL_BYTES + GROUPS[0] * PIECE_BYTES <= device.shared_bytes
    many = samples >= max(SAMPLES, read)
    return device.warp_groups and many and read % 8 == 0 and written % CHANNELS == 0 and fits


def _room(row: Lines) -> int:
    """Bytes of shared memory of a transform: `room_of` in the kernels."""
    return (max(row.passes.padded, row.passes.size) | 1) * 8


def turned_lines(row: Lines, form: str) -> Lines | None:
    """The transforms of a block, None where too few fit."""
    for nbytes in SEGMENTS:
        together = nbytes // (16 if form == "SPLIT" else 8)
        if together * row.passes.threads <= MOST_THREADS and together * _room(row) <= SHARED_BYTES:
            return Lines(row.passes, together)
    return None


def turned_kernel(
    name: str,
    reals: tuple[str, str],
    form: str,
    kept: tuple[int, int],
    row: Lines,
    lines: int,
    options: tuple[str, ...],
) -> Kernel:
    """`turned_forward` or `turned_inverse` of so many transforms."""
    return Kernel(
        "turned.cu",
        f"{name}<{', '.join(reals)}, {form}, {kept[0]}, {kept[1]}, {row.template}>",
        (-(-lines // row.lines),),
        (row.threads,),
        _room(row) * row.lines,
        options,
        early=True,
    )


def groups_kernel(
    samples: int,
    read: int,
    written: int,
    modes: int,
    conjugate: str,
    device: launch.Device,
    options: tuple[str, ...],
) -> Kernel:
    """`mix_groups`, with a block for each wavenumber and 32 channels, or several where these are few."""
    tiles, pieces = -(-samples // SAMPLES), read // 8
    blocks = modes * (written // CHANNELS)
    groups = next(n for n in GROUPS if n <= tiles)
    weights, room = read * CHANNEL_BYTES, groups * PIECE_BYTES
    ahead = next(n for n in AHEAD if pieces % n == 0 and weights + n * room <= device.shared_bytes)
    shares = max(1, min(device.multiprocessors // blocks, -(-tiles // groups)))
    return Kernel(
        "mix_groups.cu",
        f"mix_groups<{read}, {groups}, {ahead}, {conjugate}>",
        (blocks * shares,),
        (128 * groups,),
        weights + ahead * room,
        (*options, "-arch=sm_90a"),
        early=True,
    )
