"""Convolution by direct sums: which kernel, how its blocks share the results, and its arguments."""

from __future__ import annotations

import math

import numpy as np

from spectralops._cuda.convolution_problem import FINISH, KERNEL, OUT, Problem, X
from spectralops._cuda.launch import Kernel
from spectralops._cuda.program import Address, Program

__all__ = ["direct", "family"]

FILE = "conv_direct.cu"
AXES = ("size", "taps", "stride", "dilation", "before", "out")
DIRECT = np.dtype(
    [(name, np.int64, 3) for name in AXES]
    + [
        (name, np.int64)
        for name in (
            "planes", "image_divisor", "image_count", "kernel_divisor", "kernel_count", "inputs", "outputs", "flip"
        )
    ]
    + [("fill", np.float64, 2)]
)  # fmt: skip

# Kernels of so many elements are unrolled.
MOST_TAPS, MOST_CHANNEL_TAPS, MOST_VOLUME_TAPS, LONGEST = 121, 25, 343, 11
# Planes of a kernel of volumes, of each of which a thread has sums in registers, by bytes of a number.
MOST_PLANES = {4: 9, 8: 5}
# Results of a thread along a row, and along a column without and with channels; threads of a block, across and down.
ACROSS, DOWN, ROWS, VOLUME_ROWS = 4, 8, 2, 2
TEAMS = [(tx, ty) for tx in (4, 8, 16) for ty in (4, 7, 8, 14, 16, 28) if 48 <= tx * ty <= 128]
CHANNEL_TEAM = (8, 16)
VOLUME_TEAMS = ((8, 8), (8, 16), (16, 8), (16, 16))
# Threads of a multiprocessor that have registers enough, for few taps and for many, and multiprocessors.
FEW, MANY, MULTIPROCESSORS = 512, 384, 132
# Channels of a thread, by bytes of a number: registers hold their sums.
OUTPUTS = {4: 8, 8: 4}
# Static shared memory of a block.
SHARED_BYTES = 40 * 1024


def family(task: Problem) -> str:
    """The kernel that sums: one for planes, one for channels, one for volumes, and one for everything else."""
    plain = (
        len(task.size) > 1
        and not any(task.is_complex)
        and all(n == 1 for n in task.stride + task.dilation)
        and max(task.taps) <= LONGEST
    )
    taps = math.prod(task.taps)
    if len(task.size) == 3:
        few = plain and taps <= MOST_VOLUME_TAPS and task.taps[0] <= MOST_PLANES[task.itemsize]
        return "direct_volumes" if few else "direct_any"
    if plain and task.inputs == 1 and taps <= MOST_TAPS:
        return "direct_planes"
    if plain and task.inputs > 1 and taps <= MOST_CHANNEL_TAPS:
        return "direct_channels"
    return "direct_any"


def direct(program: Program, task: Problem, options: tuple[str, ...], inner: dict[int, Address]) -> None:
    """Append the one launch. `inner`: addresses in the last argument by word."""
    name, d = family(task), len(task.size)
    arguments = np.zeros(1, DIRECT)
    for field in AXES:
        arguments[field] = 0 if field == "before" else 1
        arguments[field][0, 3 - d :] = getattr(task, field)
    for field, value in {
        "planes": task.planes, "image_divisor": task.image[0], "image_count": task.image[1],
        "kernel_divisor": task.kernel[0], "kernel_count": task.kernel[1], "inputs": task.inputs,
        "outputs": task.outputs, "flip": task.flip,
    }.items():  # fmt: skip
        arguments[field] = value
    arguments["fill"] = task.fill.real, task.fill.imag
    finish = np.zeros(1, FINISH)
    finish["channels"] = task.channels
    if name == "direct_volumes":
        kernel, slab = _volumes(task, options)
        program.add(kernel, Address(X), Address(KERNEL), Address(OUT), arguments, np.int64(slab))
        return
    kernel = {"direct_planes": _planes, "direct_channels": _channels, "direct_any": _any}[name](task, options)
    program.add(
        kernel, Address(X), Address(KERNEL), Address(OUT), arguments, finish,
        inner={(4, word): at for word, at in inner.items()},
    )  # fmt: skip


def _any(task: Problem, options: tuple[str, ...]) -> Kernel:
    kinds = ", ".join(task.number(kind) for kind in task.is_complex)
    grid = -(-task.planes * math.prod(task.out) // 256)
    return Kernel(FILE, f"direct_any<{kinds}, {task.beyond}, {task.activation}>", (grid,), (256,), 0, options)


def _types(task: Problem) -> str:
    return f"{task.stored}, {task.beyond}, {task.activation}, {task.taps[0]}, {task.taps[1]}, {_shift(task)}"


def _blocks(task: Problem, across: int, down: int) -> int:
    """Blocks of a plane."""
    return -(-task.out[-2] // down) * -(-task.out[-1] // across)


def _shift(task: Problem) -> int:
    """Cells before the first one that is needed, for rows to begin where 16 bytes do."""
    return -task.before[-1] % (16 // task.itemsize)


def _read(task: Problem) -> int:
    """Cells of a row that a thread reads at a time."""
    part = 16 // task.itemsize
    return -(-(_shift(task) + ACROSS + task.taps[-1] - 1) // part) * part


def _cells(task: Problem, tx: int, ty: int, rows: int) -> int:
    return (ty * rows + task.taps[-2] - 1) * ((tx - 1) * ACROSS + _read(task))


def _planes(task: Problem, options: tuple[str, ...]) -> Kernel:
    def cost(team: tuple[int, int]) -> tuple[float, int]:
        tx, ty = team
        blocks = _blocks(task, tx * ACROSS, ty * DOWN)
        # A cell fetched counts as some multiply-adds.
        work = tx * ty * ACROSS * DOWN * (math.prod(task.taps) + 4) + 8 * _cells(task, tx, ty, DOWN)
        return blocks * work, -tx * ty

    fitting = [t for t in TEAMS if _cells(task, *t, DOWN) * task.itemsize <= SHARED_BYTES]
    tx, ty = min(fitting, key=cost)
    grid = task.planes * _blocks(task, tx * ACROSS, ty * DOWN)
    return Kernel(FILE, f"direct_planes<{_types(task)}, {tx}, {ty}>", (grid,), (tx * ty,), 0, options)


def _channels(task: Problem, options: tuple[str, ...]) -> Kernel:
    (tx, ty), outputs = CHANNEL_TEAM, OUTPUTS[task.itemsize]
    cells, taps = _cells(task, tx, ty, ROWS), math.prod(task.taps)
    chunk = next(c for c in (4, 2, 1) if c * (cells + taps * outputs) * task.itemsize <= SHARED_BYTES or c == 1)
    images = task.planes // task.outputs
    grid = images * _blocks(task, tx * ACROSS, ty * ROWS) * -(-task.outputs // outputs)
    name = f"direct_channels<{_types(task)}, {tx}, {ty}, {outputs}, {chunk}>"
    return Kernel(FILE, name, (grid,), (tx * ty,), 0, options)


def _volumes(task: Problem, options: tuple[str, ...]) -> tuple[Kernel, int]:
    """The kernel, and planes of results that a block goes through."""
    taps, depth = math.prod(task.taps), task.out[0]
    threads = FEW if task.taps[0] <= 5 and taps <= 125 else MANY

    def cost(way: tuple[int, int, int]) -> tuple[float, int]:
        tx, ty, slabs = way
        blocks = task.planes * slabs * _blocks(task, tx * ACROSS, ty * VOLUME_ROWS)
        at_once = MULTIPROCESSORS * (threads // (tx * ty))
        # Planes that no result of a block ends in; a cell fetched counts as some multiply-adds.
        planes = -(-depth // slabs) + task.taps[0] - 1
        work = tx * ty * ACROSS * VOLUME_ROWS * (taps + 4) + 8 * _cells(task, tx, ty, VOLUME_ROWS)
        return -(-blocks // at_once) * planes * work * at_once, -tx * ty

    most = max(1, depth // max(4, 2 * task.taps[0]))
    weights = taps // task.taps[2] * (-(-task.taps[2] // 4) * 4)
    fitting = [
        (tx, ty, slabs)
        for tx, ty in VOLUME_TEAMS
        if threads % (tx * ty) == 0
        for slabs in range(1, min(most, 64) + 1)
        if (2 * _cells(task, tx, ty, VOLUME_ROWS) + weights) * task.itemsize <= SHARED_BYTES
    ]
    tx, ty, slabs = min(fitting, key=cost)
    slab = -(-depth // slabs)
    grid = task.planes * -(-depth // slab) * _blocks(task, tx * ACROSS, ty * VOLUME_ROWS)
    sizes = ", ".join(map(str, (*task.taps, _shift(task), tx, ty, VOLUME_ROWS)))
    return Kernel(FILE, f"direct_volumes<{task.stored}, {task.beyond}, {sizes}>", (grid,), (tx * ty,), 0, options), slab
