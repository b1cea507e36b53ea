"""A library of arrays that Dask can have as blocks, as CuPy's, and that never meet NumPy's unless brought along.

The module is the library: NumPy's functions of the array API standard, on arrays of its own.
"""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy as xp
import numpy as np

DEVICE = "elsewhere:0"


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """Values that NumPy's functions reach by NumPy's protocols alone."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "values":
            raise AttributeError(name)
        found = getattr(self.values, name)
        return (lambda *args, **kwargs: given(found, args, kwargs)) if callable(found) else wrapped(found)

    def __getitem__(self, index: Any) -> Any:
        return wrapped(self.values[bare(index)])

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __float__(self) -> float:
        return float(self.values)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return given(getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return given(function, args, kwargs)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        import elsewhere

        return elsewhere

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.values.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()

    @property
    def device(self) -> str:
        return DEVICE

    def to_device(self, device: str, stream: None = None) -> Any:
        return {"cpu": self.values, DEVICE: self}[device]


def bare(x: Any) -> Any:
    """NumPy's arrays in place of ours, and an error for any that was NumPy's before."""
    if isinstance(x, Array):
        return x.values
    if isinstance(x, np.ndarray) and x.ndim:
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(x, list | tuple):
        return type(x)(map(bare, x))
    return x


def wrapped(x: Any) -> Any:
    if isinstance(x, np.ndarray | np.generic):
        return Array(np.asarray(x))
    return tuple(map(wrapped, x)) if isinstance(x, tuple) and any(isinstance(each, np.ndarray) for each in x) else x


def given(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What a function of NumPy's makes of arrays of ours."""
    options = {name: bare(value) for name, value in kwargs.items() if name != "device"}
    return wrapped(function(*bare(tuple(args)), **options))


def asarray(x: Any, dtype: Any = None, device: str | None = None, copy: bool | None = None) -> Array:
    """The one way here from NumPy."""
    return Array(xp.asarray(x.values if isinstance(x, Array) else x, dtype=dtype, copy=copy))


def from_dlpack(x: Any) -> Array:
    return Array(np.from_dlpack(x))


class __array_namespace_info__:  # noqa: N801
    def default_device(self) -> str:
        return DEVICE


def function_of(module: Any, name: str) -> Any:
    found = getattr(module, name)
    if isinstance(found, type) or not callable(found):
        return found
    return lambda *args, **kwargs: given(found, args, kwargs)


class Transforms:
    def __getattr__(self, name: str) -> Any:
        return function_of(xp.fft, name)


fft = Transforms()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return function_of(xp, name)
