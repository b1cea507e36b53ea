"""Python's loops as kernels: each function does the same compiled as in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectralops import _compiler

pytestmark = pytest.mark.skipif(bool(_compiler.unavailable()), reason=_compiler.unavailable() or "llvmlite is there")

if not _compiler.unavailable():
    from kernels_as_python import Pointer, _shift, _write

    from spectralops._cpu.vector import arrange, kernels
    from spectralops._cpu.vector.emit import at, call, floats, integers, lanes, shift, write

PLAIN, WIDE = False, 3
PAIRS = [(a, b) for a in (-7, -6, -1, 0, 1, 6, 7) for b in (-4, -3, 2, 3)]


def divided(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    """Integers, downwards."""
    write(out, 0, a // b)
    write(out, 1, a % b)
    write(out, 2, -a + b * 2 - 1)
    write(out, 3, abs(a) + 10 * min(a, b, 1) + 100 * max(b, a))
    write(out, 4, WIDE // 2 + WIDE % 2 - -WIDE)


def compared(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    """Truth values, of which the second may not be looked at."""
    write(out, 0, (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b) + 16 * (a == b) + 32 * (a != b))
    write(out, 1, 1 if a > 0 and 10 // a > 2 else 0)
    write(out, 2, 1 if a == 0 or b or 10 // a > 2 else 0)
    write(out, 3, (2 if not a else 3) + 10 * ((a < b) + (a < 7)) - -(b > 2) + 100 * max(a < b, b > 2))
    write(out, 4, 5 if PLAIN and at(out, 1 << 40) else 6)


def repeated(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    """Loops up, down, by steps, while; names that change."""
    total, turn = 0, 1
    for i in range(3, a + 9, 2):
        for j in range(i, -2, -1):
            total += i * j if j % 2 else turn
        turn = -turn
    while total > 50 or total == 49:
        total -= 7
    write(out, 0, total)
    write(out, 1, turn)
    for k in range(b):
        turn, total = total, turn
        write(out, 2, k)
    write(out, 3, turn)


def _clipped(k: Any, limit: Any) -> Any:
    if k < 0:
        return 0
    if k > limit:
        return limit
    return k


def _halves(a: Any) -> Any:
    half = a // 2
    return half, a - half


def called(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    """Functions, of early returns or several values, and places."""
    low, high = _halves(a)
    one, other = (low, high) if b > 0 else (high, low)
    write(shift(out, 1), 0, _clipped(a, 2) + 10 * _clipped(b, WIDE))
    write(out, 2, one + 100 * other)
    if PLAIN:
        write(out, 1 << 40, 0)
    else:
        write(integers(at(fields, 0)), 3, lanes(numbers))


def mixed(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    """Numbers, which literals and integers widen."""
    x, y = at(numbers, 0), at(floats(at(fields, 1), numbers), 1)
    write(numbers, 2, x * y - (x + y))
    write(numbers, 3, (0.1 * x + a) / b)
    write(numbers, 4, -abs(x) if x < y else y)
    write(numbers, 5, min(x, 0.25) + max(y, a))
    write(numbers, 6, a / 4)
    write(out, 0, 1 if x != x else 2)
    write(out, 1, 3 if x else 4)


def passed_on(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    """Another kernel."""
    call(at(fields, 2), (out, numbers, fields, a + 1, b))


FUNCTIONS = [divided, compared, repeated, called, mixed, passed_on]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Kernels from functions of this module."""
    monkeypatch.setenv("SPECTRALOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "_loaded", {})

    def kernel(function: Any, dtype: str) -> Any:
        monkeypatch.setattr(arrange, function.__name__, function, raising=False)
        monkeypatch.setitem(kernels.KERNELS, function.__name__, ("arrange", "qfqii"))
        return kernels.kernel(function.__name__, dtype), kernels.address(function.__name__, dtype)

    return kernel


def in_python(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """The operations, on ctypes."""
    replaced = {
        "at": lambda pointer, offset: pointer.cell(offset).value,
        "write": _write,
        "shift": _shift,
        "lanes": lambda pointer: width,
        "integers": lambda place: Pointer(place, "int64"),
        "floats": lambda place, like: Pointer(place, like.kind),
        "call": lambda place, arguments: divided(*arguments),
    }
    for name, operation in replaced.items():
        monkeypatch.setitem(globals(), name, operation)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_compiled_as_in_python(function: Any, compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = "float64" if function is mixed else "float32"
    kernel, _ = compiled(function, dtype)
    _, other = compiled(divided, dtype)

    def results(run: Any) -> list[list[float]]:
        found = []
        for a, b in PAIRS:
            out, numbers, fields = np.full(5, -1), np.array([a / 3, b / 7, *[0.0] * 6], dtype), np.array([0, 0, other])
            fields[:2] = out.ctypes.data, numbers.ctypes.data
            run(out, numbers, fields, a, b)
            found.append([*out.tolist(), *numbers.tolist()])
        return found

    machine = results(lambda o, n, f, a, b: kernel(o.ctypes.data, n.ctypes.data, f.ctypes.data, a, b))
    in_python(monkeypatch, kernels.host.lanes(dtype))

    def by_python(o: Any, n: Any, f: Any, a: Any, b: Any) -> None:
        function(*(Pointer(v.ctypes.data, k) for v, k in ((o, "int64"), (n, dtype), (f, "int64"))), a, b)

    assert machine == results(by_python)


def test_single_precision_widens_where_literals_stand(compiled: Any) -> None:
    kernel, _ = compiled(mixed, "float32")
    out, numbers, fields = np.zeros(5, np.int64), np.array([1 / 3, 1 / 7, *[0] * 6], np.float32), np.zeros(3, np.int64)
    fields[1] = numbers.ctypes.data
    kernel(out.ctypes.data, numbers.ctypes.data, fields.ctypes.data, 1, 3)
    x, y = numbers[:2]
    assert numbers[2] == x * y - (x + y)
    assert numbers[3] == np.float32((0.1 * float(x) + 1) / 3)
    assert (numbers[4], numbers[5], numbers[6]) == (y, 1.25, 0.25)
    assert out[:2].tolist() == [2, 3]
    numbers[0] = np.nan
    kernel(out.ctypes.data, numbers.ctypes.data, fields.ctypes.data, 1, 3)
    assert out[0] == 1


def changing(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    number = at(numbers, 0)
    for _ in range(a):
        number = number * 0.5
    write(numbers, 1, number)


def strange(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    write(out, 0, a**b)


def stranger(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    del a


def one_of_both(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    write(out, 0, a or b)


def after_its_loop(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    for i in range(b):
        write(out, 1, i)
    write(out, 0, i)


def beside_its_branch(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    if a > 0:
        twice = 2 * a
    if a > 0:
        write(out, 0, twice)


def no_range(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    for i in reversed((a, b)):
        write(out, 0, i)


def otherwise(out: Any, numbers: Any, fields: Any, a: Any, b: Any) -> None:
    for i in range(b):
        write(out, 0, i)
    else:
        write(out, 0, -1)


def test_a_name_keeps_its_kind(compiled: Any) -> None:
    with pytest.raises(TypeError, match="changing: a name is float first and double later"):
        compiled(changing, "float32")


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (strange, NotImplementedError, r"a \*\* b"),
        (stranger, NotImplementedError, "del a"),
        (one_of_both, TypeError, "one_of_both: a is no truth value"),
        (after_its_loop, NameError, "after_its_loop: i is not assigned here"),
        (beside_its_branch, NameError, "beside_its_branch: twice is not assigned here"),
        (no_range, NotImplementedError, "for i in reversed"),
        (otherwise, NotImplementedError, "else:"),
    ],
)
def test_what_is_not_compiled(compiled: Any, function: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        compiled(function, "float32")


def test_operations_are_not_for_python() -> None:
    with pytest.raises(NotImplementedError, match="compiled"):
        at(None, 0)
