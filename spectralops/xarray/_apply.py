"""From labelled arrays to plain ones and back: coordinates, attributes, encoding, data sets, Dask."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import xarray as xr

from spectralops import _arrays
from spectralops.xarray._grid import GridLayout, chosen_dims
from spectralops.xarray._pint import with_units
from spectralops.xarray._units import product

__all__ = [
    "applied",
    "check_library",
    "commensurable",
    "described",
    "each_variable",
    "matched",
    "regular",
    "same_points",
]

# What still holds for other values than those that were read, and for another shape; packing does not.
KEPT_ENCODING = ("zlib", "complevel", "shuffle", "compression", "compression_opts", "grid_mapping", "coordinates")
# What is said of the values themselves, and not of the quantity derived from them.
OF_VALUES = (
    "standard_name",
    "units",
    "valid_min",
    "valid_max",
    "valid_range",
    "actual_range",
    "missing_value",
    "cell_methods",
)


def each_variable(op: str, x: Any, dims: Any, function: Callable[[xr.DataArray], xr.DataArray]) -> Any:
    """Apply a function to an array, or to the variables of a data set that have all the dimensions."""
    if isinstance(x, xr.DataArray):
        return with_units(function, x)
    if not isinstance(x, xr.Dataset):
        raise TypeError(f"{op}: x is a {type(x).__name__}, but must be a DataArray or a Dataset")
    names = chosen_dims(op, x, dims)
    suited = [name for name, v in x.data_vars.items() if set(names) <= set(v.dims) and v.dtype.kind in "fciu"]
    if not suited:
        raise ValueError(f"{op}: no variable of the Dataset has numbers along {names}, but one must")
    return x.assign({name: with_units(function, x[name]) for name in suited})


def regular(op: str, layout: GridLayout) -> GridLayout:
    """The layout if a transform can run along all its axes together."""
    for axis in layout.axes:
        if not axis.regular:
            remedy = {
                "time": "bring it to equal steps by resample",
                "latitude": f"interpolate by interp({axis.dim}=...) or transform longitude alone",
            }.get(axis.kind, f"interpolate by interp({axis.dim}=...)")
            raise ValueError(f"{op}: {axis.dim!r} has uneven spacing, but must be regular; {remedy}")
    return commensurable(op, layout)


def commensurable(op: str, layout: GridLayout) -> GridLayout:
    """The layout if distances along all its axes are known in the same unit."""
    first = layout.axes[0].dim
    for axis in layout.axes:
        if axis.unit != layout.unit:
            raise ValueError(
                f"{op}: {first!r} and {axis.dim!r} have different units, but must have the same; pass one in dims"
            )
    if any(axis.kind == "longitude" for axis in layout.axes) and not layout.latitudes:
        raise ValueError(
            f"{op}: longitude has no latitude beside it, but must have one, as a dimension or scalar coordinate, to "
            "have a length"
        )
    return layout


def applied(
    op: str, x: xr.DataArray, layout: GridLayout, kernel: Callable[..., Any], *more: xr.DataArray
) -> xr.DataArray:
    """The result of a kernel on the data, with the same coordinates, attributes and name, and no packing."""
    arrays = [x.data, *(each.data for each in more)]
    if x.chunks is None and all(each.chunks is None for each in more):
        data = kernel(*arrays)
    else:
        data = _blockwise(layout, kernel, arrays)
    result = x.copy(deep=False, data=data)
    result.encoding = {key: value for key, value in x.encoding.items() if key in KEPT_ENCODING}
    if "chunksizes" in x.encoding and x.encoding.get("original_shape") == x.shape:
        result.encoding["chunksizes"] = x.encoding["chunksizes"]
    return result


def _blockwise(layout: GridLayout, kernel: Callable[..., Any], arrays: list[Any]) -> Any:
    """The same kernel on each block of a Dask array: one layer, nothing computed."""
    import dask.array as da

    from spectralops.xarray import _dask

    lazy = next(array for array in arrays if hasattr(array, "__dask_graph__"))
    blocks = [array if hasattr(array, "__dask_graph__") else da.asarray(array) for array in arrays]
    blocks = [array.rechunk(lazy.chunks, method="tasks") for array in blocks]
    # A mask beside the field has no say.
    alone = getattr(kernel, "first_alone", False)
    kinds = [x.dtype for number, x in enumerate(blocks) if number == 0 or not (alone or x.dtype == bool)]
    dtype = np.result_type(*[_result_dtype(kind) for kind in kinds])
    if any(lazy.numblocks[number] > 1 for number in layout.whole):
        return _dask.split(kernel, blocks, layout, dtype)
    return da.map_blocks(kernel, *blocks, dtype=dtype, meta=lazy._meta.astype(dtype))


def _result_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def matched(op: str, x: xr.DataArray, other: Any, name: str) -> xr.DataArray:
    """Another array on the very grid of the first, with its dimensions in the same order."""
    if not isinstance(other, xr.DataArray):
        raise TypeError(f"{op}: {name} is a {type(other).__name__}, but must be a DataArray")
    if set(other.dims) != set(x.dims):
        raise ValueError(f"{op}: {name} has dimensions {other.dims}, but must have {x.dims}")
    for dim in x.dims:
        if not same_points(x, other, dim):
            raise ValueError(f"{op}: {name} has other coordinates along {dim!r}, but must be on the same grid")
    check_library(op, x, other, name)
    return other.transpose(*x.dims)


def check_library(op: str, x: xr.DataArray, other: xr.DataArray, name: str) -> None:
    """Raise TypeError if two arrays, or the blocks that they are computed from, are of different libraries."""
    own, found = (_arrays.library_of(getattr(each.data, "_meta", each.data)) for each in (x, other))
    if own and found and own != found:
        raise TypeError(
            f"{op}: {name} is a {found} array, but must be a {own} array like the field; move one of them explicitly"
        )


def same_points(x: xr.DataArray, other: xr.DataArray, dim: Hashable) -> bool:
    """Whether two arrays agree along a dimension of both, in size and, if both have it, coordinate."""
    same = x.sizes[dim] == other.sizes[dim]
    if same and dim in x.coords and dim in other.coords:
        same = np.array_equal(x.coords[dim].values, other.coords[dim].values)
    return same


def described(result: xr.DataArray, source: xr.DataArray, prefix: str, unit: str, exponent: int) -> xr.DataArray:
    """The result with attributes of a derived quantity: units times `unit`, "m" or "s", to some power.

    Units that are unknown, of the values or of the coordinate, are left out.
    """
    attrs = {key: value for key, value in source.attrs.items() if key not in OF_VALUES}
    units = product(source.attrs.get("units"), 1, {unit: exponent}) if unit in ("m", "s") else None
    label = source.attrs.get("long_name", source.attrs.get("standard_name", source.name))
    if label is not None:
        attrs["long_name"] = f"{prefix} of {label}"
    if units is not None:
        attrs["units"] = units
    result.attrs = attrs
    return result
