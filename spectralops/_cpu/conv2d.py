"""Cross-correlation over channels: a matrix product over columns, shifts for depthwise kernels, or tiles of spectra.

Arrays have the channel axis split: x (N, G, C, H, W), weight (G, O, C, K_h, K_w), out (N, G, O, H_out, W_out).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from spectralops._cpu.blocks import run
from spectralops._cpu.conv_blocks import backward, forward
from spectralops._cpu.conv_direct import shifted_sums
from spectralops._cpu.conv_fft import gather

__all__ = ["direct", "spread", "tiled"]

Array = Any
# What is done to a stored block of results: the block, and its slices of groups and of output channels.
Finish = Callable[[Array, slice, slice], None]

# Elements of columns multiplied at a time, and of tiles with all their channels.
COLUMNS_BLOCK = 2**18
TILES_BLOCK = 2**20
# Elements of weight spectra held at a time.
WEIGHTS_BLOCK = 2**24


def spread(x: Array, steps: Sequence[int]) -> Array:
    """The last axes with zeros between their elements, or `x` itself where none are wanted."""
    if all(step == 1 for step in steps):
        return x
    sizes = ((n - 1) * step + 1 for n, step in zip(x.shape[-len(steps) :], steps, strict=True))
    wide: Array = np.zeros((*x.shape[: -len(steps)], *sizes), x.dtype)
    wide[(..., *(slice(None, None, step) for step in steps))] = x
    return wide


def direct(
    x: Array,
    weight: Array,
    out: Array,
    stride: Sequence[int],
    dilation: Sequence[int],
    finish: Finish,
    workers: int,
) -> None:
    """Sums over taps and input channels."""
    if weight.shape[2] == 1:

        def stored(block: Array, box: tuple[slice, ...]) -> None:
            _, mine, some = box
            finish(block, mine, some)

        shifted_sums(x, weight[None, :, :, 0], out, (0, 0), dilation, stride, workers, stored)
    else:
        _columns(x, weight, out, stride, dilation, finish, workers)


def _columns(
    x: Array,
    weight: Array,
    out: Array,
    stride: Sequence[int],
    dilation: Sequence[int],
    finish: Finish,
    workers: int,
) -> None:
    """For a block of rows, what each output sees as a column, times the weights as a matrix."""
    n, groups, outputs, height, width = out.shape
    extent = tuple(d * (k - 1) + 1 for k, d in zip(weight.shape[-2:], dilation, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(x, extent, axis=(-2, -1))
    windows = windows[..., :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]].transpose(0, 1, 2, 5, 6, 3, 4)
    matrices = weight.reshape(groups, outputs, -1)
    rows = max(1, COLUMNS_BLOCK // (matrices.shape[-1] * width))

    def one_block(item: tuple[int, int, int]) -> None:
        image, group, row = item
        columns = windows[image, group, ..., row : row + rows, :]
        target = out[image, group, :, row : row + rows]
        result = matrices[group] @ columns.reshape(matrices.shape[-1], -1)
        target[...] = result.reshape(target.shape)
        finish(target[None], slice(group, group + 1), slice(None))

    run(one_block, list(product(range(n), range(groups), range(0, height, rows))), workers)


def tiled(
    x: Array,
    weight: Array,
    out: Array,
    tile: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    finish: Finish,
    workers: int,
) -> None:
    """Overlap-save: a tile of P elements gives P - K + 1 results, of which every stride-th is kept."""
    weight = spread(weight, dilation)
    groups, outputs, inputs = weight.shape[:3]
    size = int(np.prod(tile))
    steps = [p - k + 1 for p, k in zip(tile, weight.shape[-2:], strict=True)]
    dense = [(n - 1) * s + 1 for n, s in zip(out.shape[-2:], stride, strict=True)]
    places = list(product(range(out.shape[0]), *(range(0, n, step) for n, step in zip(dense, steps, strict=True))))
    windows = [slice(step) for step in steps]
    halved = out.dtype.kind == "f"
    mix = _depthwise if inputs == 1 else _over_channels

    def share(mine: slice, some: slice) -> None:
        """Every tile of these groups and output channels."""
        factor = forward(weight[mine, some].conj(), tile, (-2, -1), halved).conj()
        together = max(1, TILES_BLOCK // (factor.shape[0] * (factor.shape[1] + inputs) * size))
        if inputs > 1:
            factor = _by_frequency(factor)

        spare = workers if len(places) <= together else 1

        def some_tiles(first: int) -> None:
            chosen = places[first : first + together]
            tiles = np.stack([gather(x[image, mine], corner, tile) for image, *corner in chosen])
            spectrum = mix(forward(tiles, tile, (-2, -1), halved, spare), factor)
            for result, (image, *corner) in zip(
                backward(spectrum, tile, (-2, -1), windows, halved, spare), chosen, strict=True
            ):
                _keep(result, out[image, mine, some], corner, stride, lambda block: finish(block, mine, some))

        run(some_tiles, range(0, len(places), together), workers)

    if inputs == 1:
        few = max(1, min(WEIGHTS_BLOCK // (outputs * size), TILES_BLOCK // ((outputs + 1) * size)))
        for group in range(0, groups, few):
            share(slice(group, group + few), slice(None))
    else:
        few = max(1, WEIGHTS_BLOCK // (inputs * size))
        for group, output in product(range(groups), range(0, outputs, few)):
            share(slice(group, group + 1), slice(output, output + few))


def _depthwise(spectrum: Array, factor: Array) -> Array:
    """Tiles (T, G, 1, ...) times weights (G, O, 1, ...)."""
    return spectrum * factor[:, :, 0]


def _by_frequency(factor: Array) -> Array:
    """Weights (1, O, C, ...) as one matrix (C, O) for each frequency."""
    _, outputs, inputs = factor.shape[:3]
    return np.ascontiguousarray(factor.reshape(outputs * inputs, -1).T).reshape(-1, outputs, inputs).transpose(0, 2, 1)


def _over_channels(spectrum: Array, factor: Array) -> Array:
    """A matrix product at each frequency: tiles (T, 1, C, ...) times weights (frequencies, C, O)."""
    count, _, inputs, *bins = spectrum.shape
    left = np.ascontiguousarray(spectrum.reshape(count * inputs, -1).T).reshape(-1, count, inputs)
    mixed = (left @ factor).reshape(left.shape[0], -1)
    return np.ascontiguousarray(mixed.T).reshape(count, 1, -1, *bins)


def _keep(
    result: Array, out: Array, corner: Sequence[int], stride: Sequence[int], finish: Callable[[Array], None]
) -> None:
    """Store the results of one tile that the stride keeps."""
    reads, writes = [], []
    for place, step, n, wanted in zip(corner, stride, result.shape[-2:], out.shape[-2:], strict=True):
        first = -(-place // step)
        last = min(wanted, -(-(place + n) // step))
        writes.append(slice(first, last))
        reads.append(slice(first * step - place, n, step))
    target = out[(..., *writes)]
    if target.size:
        target[...] = result[(..., *reads)][(..., *(slice(m) for m in target.shape[-2:]))]
        finish(target)
