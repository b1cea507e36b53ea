"""What the plans of both convolutions share: result dtypes and the words about the chosen algorithm."""

from __future__ import annotations

from functools import reduce

import numpy as np

from spectralops import _checks
from spectralops._arrays import Operand

__all__ = ["METHODS", "bytes_moved", "explain_method", "result_dtype"]

METHODS = ("auto", "direct", "fft", "tiles")

MEANING = {
    "direct": "shifted multiply-adds; a NaN reaches only the outputs that depend on it",
    "fft": "one transform per image; a NaN reaches its whole image",
    "tiles": "overlap-save; a NaN reaches the tiles that contain it",
}


def result_dtype(op: str, dtypes: dict[str, str], default: str) -> str:
    """NumPy's promotion of the arguments' dtypes, integers and bool counting as `default`; bfloat16 stays alone."""
    names = [_checks.inexact_dtype(op, dtype, name, default) for name, dtype in dtypes.items()]
    if len(set(names)) == 1:
        return names[0]
    return reduce(np.promote_types, (np.dtype(_checks.compute_dtype(name)) for name in names)).name


def operand_dtype(dtype: str, out_dtype: str) -> str:
    """What an argument of `dtype` is calculated in: the result's precision, and real stays real."""
    compute = _checks.compute_dtype(out_dtype)
    return compute if dtype in _checks.COMPLEXES else _checks.real_dtype(compute)


def bytes_moved(operands: tuple[Operand, ...], out_shape: tuple[int, ...], out_dtype: str) -> int:
    """Fewest bytes between memory and processor: every argument in, the result out."""
    read = sum(_checks.nbytes(operand.spec.shape, operand.spec.dtype) for operand in operands)
    return read + _checks.nbytes(out_shape, out_dtype)


def explain_method(
    method: str, requested: str, lengths: tuple[int, ...], seconds: tuple[tuple[str, float], ...], backend: str
) -> str:
    """Two or three lines: which algorithm, who chose it and what the cost model says of the others."""
    if backend == "reference":
        return f"method: explicit sums in 64 bit, whatever was asked for ({requested!r})"
    size = f", lengths {'x'.join(map(str, lengths))}" if lengths else ""
    why = "asked for" if requested == method else f"chosen by {requested!r}"
    model = ", ".join(f"{name} {1e3 * value:.3g} ms" for name, value in seconds)
    return f"method: {method}{size}, {why}: {MEANING[method]}\ncost model: {model}"
