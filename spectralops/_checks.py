"""Canonical forms of the arguments that every operator shares, one function each.

The first argument of each function is the public operator's name, which opens the message of what it raises.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeVar

import numpy as np

from spectralops._arrays import MOST_AXES, dtype_name, is_array, is_recorded
from spectralops._sixteen_bits import HALVES

__all__ = [
    "axes",
    "called",
    "choice",
    "dtype",
    "fits_memory",
    "flag",
    "inexact_dtype",
    "integer",
    "lasting",
    "length",
    "nonnegative",
    "number",
    "per_axis",
    "positive",
    "shape",
    "shown",
    "workers",
]

FLOATS = ("float32", "float64")
COMPLEXES = ("complex64", "complex128")
EXACT = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
KNOWN = frozenset(FLOATS + COMPLEXES + HALVES + EXACT)
REAL_PREFIXES = ("float", "bfloat", "longdouble", "int", "uint", "bool")

# No array has more elements or bytes, and no loop over one takes more steps.
LARGEST = 2**63 - 1
# Floats count up to here without gaps, so that dt times a number of steps is right.
MOST_STEPS = 2**53
# More threads than operating systems give a process.
MOST_WORKERS = 2**15

# Lengths whose squares, and those of their inverses, are numbers.
SHORTEST, LONGEST = 1e-150, 1e150
# Sequences of single numbers that are not meant as such.
BUFFERS = (str, bytes, bytearray, memoryview)

# The hash of what has none of its own.
BY_PLACE: Any = object.__hash__

T = TypeVar("T")


def shape(op: str, value: Any, name: str = "shape") -> tuple[int, ...]:
    """A tuple of Python ints (never NumPy ints, whose products overflow)."""
    try:
        sizes = tuple(operator.index(n) for n in _listed(value))
    except TypeError as error:
        raise TypeError(f"{op}: {name} is {shown(value)}, but must be integers") from error
    if any(n < 0 for n in sizes):
        raise ValueError(f"{op}: {name} is {shown(sizes)}, but must not be negative")
    if any(n > LARGEST for n in sizes):
        raise ValueError(f"{op}: {name} is {shown(sizes)}, but must be at most {LARGEST} along each axis")
    if name == "shape" and len(sizes) > MOST_AXES:
        raise ValueError(f"{op}: {name} has {len(sizes)} entries, but must have at most {MOST_AXES}")
    return sizes


def integer(op: str, name: str, value: Any, least: int | None = None, most: int = LARGEST) -> int:
    """A Python int from `least` to `most`."""
    try:
        result = operator.index(value)
    except TypeError as error:
        raise TypeError(f"{op}: {name} is {shown(value)}, but must be an integer") from error
    if least is not None and result < least:
        raise ValueError(f"{op}: {name} is {shown(result)}, but must be at least {least}")
    if abs(result) > most:
        raise ValueError(f"{op}: {name} is {shown(result)}, but must be at most {most}")
    return result


def flag(op: str, name: str, value: Any) -> bool:
    """A Python bool; words such as "no" and numbers are none."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{op}: {name} is {shown(value)}, but must be True or False")
    return bool(value)


def fits_memory(op: str, name: str, value: Any, shape: tuple[int, ...], dtype: str) -> None:
    """Raise ValueError where an argument asks for an array that no address reaches the end of."""
    if nbytes(shape, dtype) > LARGEST:
        raise ValueError(
            f"{op}: {name} is {shown(value)}, but must be small enough for an array of less than 2**63 bytes"
        )


def _listed(value: Any) -> tuple[Any, ...]:
    """The entries of a sequence; anything else is its own only entry: also bytes and 0-d arrays, and unordered sets."""
    if not isinstance(value, Iterable) or isinstance(value, (*BUFFERS, Set, Mapping)):
        return (value,)
    return tuple(value) if getattr(value, "ndim", 1) == 1 else (value,)


def shown(value: Any) -> str:
    """How a message quotes a value: on one short line, or by its type alone."""
    try:
        text = repr(value)
    except Exception:  # an integer with too many digits, somebody's broken class
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 and "\n" not in text else f"a {type(value).__name__}"


def axes(
    op: str,
    value: int | Sequence[int] | None,
    ndim: int,
    counts: Mapping[str, int | None] | None = None,
    array: str = "x",
) -> tuple[int, ...]:
    """Non-negative, distinct axes of an array of `ndim` dimensions.

    `counts` maps each argument that has one entry per axis to its number of entries (None: it is a scalar and
    fixes nothing). Without `value` they fix the number of axes, which are then the last ones; without those, too,
    a 1-d array gives its only axis and any other its last two.
    """
    fixed = {name: count for name, count in (counts or {}).items() if count is not None}
    if value is None:
        if len(set(fixed.values())) > 1:
            (a, na), (b, nb) = next((p, q) for p in fixed.items() for q in fixed.items() if p[1] != q[1])
            raise ValueError(
                f"{op}: {a} has {na} entries and {b} has {nb}, but both must have one per axis; "
                f"pass axes={tuple(range(-na, 0))} or axes={tuple(range(-nb, 0))} and make them agree"
            )
        count = next(iter(fixed.values()), min(ndim, 2))
        if not 0 < count <= ndim:
            name = next(iter(fixed), "axes")
            raise ValueError(
                f"{op}: {array} has {ndim} dimensions, but must have at least {max(count, 1)} to match {name}"
            )
        return tuple(range(ndim - count, ndim))
    items = _listed(value)
    try:
        result = tuple(operator.index(axis) for axis in items)
    except TypeError as error:
        raise TypeError(f"{op}: axes is {shown(value)}, but must be integers") from error
    if not result:
        raise ValueError(f"{op}: axes is empty, but must name at least one axis")
    for axis in result:
        if not -ndim <= axis < ndim:
            raise ValueError(
                f"{op}: axes has {shown(axis)}, but must lie in [{-ndim}, {ndim}) for {array} with {ndim} dimensions"
            )
    result = tuple(axis % ndim for axis in result)
    if len(set(result)) != len(result):
        raise ValueError(f"{op}: axes is {shown(value)}, but must not name an axis twice")
    for name, count in fixed.items():
        if count != len(result):
            raise ValueError(
                f"{op}: {name} has {count} entries, but must have {len(result)}, one per axis of axes={shown(items)}"
            )
    return result


def entries(value: Any) -> int | None:
    """Number of entries of a per-axis argument, None for a scalar."""
    return len(value) if isinstance(value, Sequence) and not isinstance(value, BUFFERS) else None


def per_axis(op: str, name: str, value: T | Sequence[T], count: int) -> tuple[T, ...]:
    """One entry per axis: a scalar is repeated, a sequence must have `count` entries."""
    if entries(value) is None:
        return (value,) * count  # type: ignore[return-value]
    items = tuple(value)  # type: ignore[arg-type]
    if len(items) != count:
        raise ValueError(f"{op}: {name} has {len(items)} entries, but must have {count}, one per axis")
    return items


def number(op: str, name: str, value: Any) -> float:
    """A finite Python float from a Python or NumPy real scalar or 0-d array; zeros of both signs are one."""
    if type(value) is float and math.isfinite(value):
        return value + 0.0
    if isinstance(value, BUFFERS) or getattr(value, "ndim", 0) > 0:
        raise TypeError(f"{op}: {name} is a {type(value).__name__}, but must be a real number")
    if is_recorded(value):
        raise TypeError(
            f"{op}: {name} requires grad, but must not, since it is a constant that no gradient reaches; "
            f"pass float({name})"
        )
    # float() would take the real part, a span of time and digits in a string
    if hasattr(value, "dtype") and not dtype_name(value.dtype).startswith(REAL_PREFIXES):
        raise TypeError(f"{op}: {name} is {shown(value)}, but must be a real number")
    try:
        result = float(value)
    except OverflowError:  # an integer that no float reaches
        result = math.inf if value > 0 else -math.inf
    except (TypeError, ValueError) as error:
        raise TypeError(f"{op}: {name} is {shown(value)}, but must be a real number") from error
    if not math.isfinite(result):
        raise ValueError(f"{op}: {name} is {result}, but must be finite")
    return result + 0.0


def positive(op: str, name: str, value: Any) -> float:
    """A finite Python float above zero."""
    result = number(op, name, value)
    if result <= 0:
        raise ValueError(f"{op}: {name} is {result}, but must be positive")
    return result


def length(op: str, name: str, value: Any) -> float:
    """A positive Python float that can be squared and divided by."""
    if getattr(value, "ndim", 0) > 0:
        raise TypeError(
            f"{op}: {name} is an array of shape {tuple(value.shape)}, but must be a number, or a sequence of one per "
            f"axis, since all cells are of one size; write tuple({name}) if these are the axes"
        )
    result = positive(op, name, value)
    if not SHORTEST <= result <= LONGEST:
        raise ValueError(f"{op}: {name} is {result}, but must lie between {SHORTEST} and {LONGEST}")
    return result


def nonnegative(op: str, name: str, value: Any) -> float:
    """A finite Python float, zero or above."""
    result = number(op, name, value)
    if result < 0:
        raise ValueError(f"{op}: {name} is {result}, but must not be negative")
    return result


def choice(op: str, name: str, value: Any, options: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str):
        raise TypeError(f"{op}: {name} is a {type(value).__name__}, but must be {_either(options)}")
    if value not in options:
        raise ValueError(f"{op}: {name} is {shown(value)}, but must be {_either(options)}")
    return value


def _either(options: Sequence[str]) -> str:
    words = [repr(option) for option in options]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def called(op: str, name: str, function: Callable[..., Any], given: str, *arguments: Any, **keywords: Any) -> Any:
    """Call a user's function; one that does not take what it is `given` is refused, errors inside it are its own."""
    try:
        return function(*arguments, **keywords)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        raise TypeError(f"{op}: {name} failed as it was called ({error}), but must take {given}") from error


def lasting(arguments: tuple[Any, ...]) -> bool:
    """Whether arguments, and those in tuples among them, are the same for good where they are equal."""
    try:
        hash(arguments)
    except (TypeError, ValueError):
        return False
    inside = [item for each in arguments if type(each) is tuple for item in each]
    return not any(map(_changes, {*map(type, arguments), *map(type, inside)}))


def _changes(kind: type) -> bool:
    """Whether values may change and keep their hash: PyTorch's tensors, and what is hashed by where it lies."""
    return hasattr(kind, "__dlpack__") or (kind.__hash__ is BY_PLACE and kind not in (type, type(None)))


def dtype(op: str, value: Any, name: str = "x") -> str:
    """Name of a dtype the package knows; TypeError for longdouble, complex32, objects, strings and dates."""
    if type(value) is str and value in KNOWN:
        return value
    result = dtype_name(value)
    if result not in KNOWN:
        quoted = shown(value) if is_array(value) else result
        raise TypeError(
            f"{op}: {name} has dtype {quoted}, but must be float16, bfloat16, float32, float64, complex64, complex128, "
            "integer or bool; convert it first"
        )
    return result


def inexact_dtype(op: str, value: Any, name: str = "x", default: str = "float64") -> str:
    """Like :func:`dtype`, integers and bool replaced by `default`: the dtype of the result."""
    result = dtype(op, value, name)
    return default if result in EXACT else result


def compute_dtype(dtype: str) -> str:
    """The type an operator calculates in: float32 for 16-bit storage, else the type itself."""
    return "float32" if dtype in HALVES else dtype


def real_dtype(dtype: str) -> str:
    """The real type of the same precision."""
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def complex_dtype(dtype: str) -> str:
    """The complex type of the same precision (complex64 for 16-bit storage)."""
    return "complex128" if dtype in ("float64", "complex128") else "complex64"


def workers(op: str, value: int | None, device_kind: str = "cpu") -> int:
    """Number of threads with SciPy's meaning: None is one, negative counts back from the number of cores."""
    if value is None:
        return 1
    if device_kind != "cpu":
        raise ValueError(
            f"{op}: workers is {shown(value)}, but must be None for arrays on a GPU, where it has no effect"
        )
    count = integer(op, "workers", value, most=MOST_WORKERS)
    cores = os.cpu_count() or 1
    result = count + 1 + cores if count < 0 else count
    if result < 1:
        raise ValueError(
            f"{op}: workers is {value}, but must be at least 1, "
            f"or negative down to {-cores} to count from {cores} cores"
        )
    return result


def index_bits(*shapes: tuple[int, ...]) -> int:
    """32 if every offset of arrays of these shapes fits a signed 32-bit index, else 64."""
    return 32 if max((math.prod(s) for s in shapes), default=0) <= np.iinfo(np.int32).max else 64


def nbytes(shape: tuple[int, ...], dtype: str) -> int:
    """Size of an array in bytes, in Python integers."""
    return math.prod(shape) * {"bool": 1, "bfloat16": 2}.get(dtype, 0) or math.prod(shape) * np.dtype(dtype).itemsize
