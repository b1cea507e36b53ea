"""The steps of truncated transforms by FFT: what :mod:`pruned` reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from spectralops._cpu.vector import fields, host, kernels, tables
from spectralops._cpu.vector import truncation_fields as f
from spectralops._cpu.vector.choice import has_passes
from spectralops._cpu.vector.fourier_matrices import padded
from spectralops._cpu.vector.truncation_steps import Columns, Grid, Rows, Step

__all__ = ["wave_columns", "wave_rows", "wave_sum_rows"]

Array = np.ndarray[Any, Any]

# Bytes of all groups of columns in one sweep over the rows of an image.
GROUPS_BYTES = 1 << 18


def wave_sum_rows(highest: int) -> tuple[Array, Array]:
    """Where the sums of cosines and of sines of each wavenumber 0 … highest stand."""
    k = np.arange(highest + 1)
    return 2 * k, 2 * k + 1


def _record(axis: tables.Axis, inverse: bool, dtype: str, chosen: dict[int, int]) -> Array:
    record = np.zeros(f.WAVE_FIELDS, np.int64)
    filled = {
        f.WAVE_TRANSFORM: kernels.address(axis.inverse if inverse else axis.forward, dtype),
        f.WAVE_PLAN: axis.plan.ctypes.data,
        f.WAVE_TWIDDLES: axis.twiddles.ctypes.data,
        f.WAVE_POSITION: axis.position.ctypes.data,
        **chosen,
    }
    record[list(filled)] = list(filled.values())
    record.setflags(write=False)
    return record


def wave_columns(of: Grid, at: Columns, inverse: bool) -> Step:
    """An axis along columns."""
    lanes, n = host.lanes(of.dtype), of.sizes[at.axis]
    kind = fields.PAIR if n % 2 else fields.EVEN
    axis = tables.axis(n if n % 2 else n // 2, of.dtype)
    roots = tables.untangling_roots(n, of.dtype)
    group = max(axis.n, axis.space) * 2 * lanes
    breadth = fields.BREADTH[kind] * lanes
    units = -(-at.columns // breadth)
    item = host.ITEM_BYTES[of.dtype]
    sweep = min(max(1, min(host.SWEEP_BYTES // (breadth * item), GROUPS_BYTES // (group * item))), units)
    chosen = {
        f.LENGTH: n,
        f.COLUMNS: at.columns,
        f.STRIPS: units,
        f.FIELD_GROUP: at.field_group,
        f.FIELD_ROW: at.field_row,
        f.KEPT_GROUP: at.kept_group,
        f.KEPT_ROW: at.kept_row,
        f.WAVE_ROOTS: roots.ctypes.data,
        f.WAVE_COUNT: at.highest + 1,
        f.WAVE_GROUP: group,
        f.WAVE_SWEEP: sweep,
    }
    record = _record(axis, inverse, of.dtype, chosen)
    name = f"wave_columns_{kind}_{'spread' if inverse else 'kept'}"
    field, kept = at.groups * at.field_group, at.groups * at.kept_group
    return Step(name, record, at.groups * units, field, kept, sweep * group, (axis, roots), gain=2.0)


def wave_rows(of: Grid, at: Rows, inverse: bool) -> Step:
    """The last axis."""
    lanes, n, m = host.lanes(of.dtype), of.sizes[-1], of.modes[-1]
    kind = fields.COMPLEX if not of.halved else fields.ZERO if n % 2 else fields.EVEN
    axis = tables.axis(n // 2 if kind == fields.EVEN else n, of.dtype)
    radix, name = 0, kind
    if kind == fields.EVEN and has_passes(axis.n) and (radix := tables.last_radix(axis.n, m)):
        axis, name = tables.shortened_axis(axis.n, radix, of.dtype), "short"
    roots = tables.untangling_roots(n, of.dtype)
    k = of.lowest[-1] + np.arange(m)
    places, mirrors = (axis.position[side % axis.n] for side in (k, -k))
    group = max(padded(n, lanes) * fields.VECTORS[kind] * lanes, axis.space * 2 * lanes)
    chosen = {
        f.LENGTH: n,
        f.COLUMNS: n * of.numbers,
        f.FIELD_ROW: at.field_row,
        f.KEPT_ROW: at.kept_row,
        f.WAVE_ROOTS: roots.ctypes.data,
        f.WAVE_PLACES: places.ctypes.data,
        f.WAVE_MIRRORS: mirrors.ctypes.data,
        f.WAVE_COUNT: m,
        f.WAVE_IMAG: at.imag,
        f.WAVE_GROUP: group,
        f.WAVE_RADIX: radix,
    }
    record = _record(axis, inverse, of.dtype, chosen)
    name = f"wave_rows_{name}_{'spread' if inverse else 'kept'}"
    gain = 2.0 if kind == fields.EVEN and not inverse else 1.0
    scratch = group + padded(m, lanes) * 2 * lanes
    keep = (axis, roots, places, mirrors)
    field, kept = at.rows * at.field_row, at.rows * at.kept_row
    return Step(name, record, at.rows, field, kept, scratch, keep, gain, lanes)
