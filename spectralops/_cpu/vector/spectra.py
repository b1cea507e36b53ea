"""From transforms in digit-reversed order to spectra that a filter multiplies, and back.

even   n real numbers were transformed as n/2 complex ones: Z_k and Z_{n/2−k} untangle into X_k and X_{n/2−k} (Press et
       al., Numerical Recipes, §12.3);
pair   two real transforms were done as one: Z_k and Z_{n−k} are sums and differences of both;
full   a complex transform is its own spectrum and stays in digit-reversed order.

The real X_0 and X_{n/2} of kind even are two rows of the spectrum, or one where they are packed.

To save multiplications, untangling and splitting give twice the spectrum, and so do their opposites; the scale of the
filter makes up for it. `position` says where frequency k stands in a group; `offset` is where the spectrum of its lanes
begins, `stride` the distance between frequencies and `imag` that of imaginary parts.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector.emit import Emitter, Value, vector_op

__all__ = [
    "blank", "scale", "scale_conjugate",
    "full_in", "full_out", "join_pair", "multiply", "multiply_conjugate", "retangle", "split_pair", "through_full",
    "retangle_packed", "through_half", "untangle", "untangle_packed",
]  # fmt: skip

Complex = tuple[Value, Value]


def _times(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[1] * b[0] + a[0] * b[1]


def _times_conjugate(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] + a[1] * b[1], a[1] * b[0] - a[0] * b[1]


def _load(e: Emitter, array: Value, offset: Value, imag: Any) -> Complex:
    return e.load(array, offset), e.load(array, offset + imag)


def _store(e: Emitter, array: Value, offset: Value, imag: Any, z: Complex) -> None:
    e.store(array, offset, z[0])
    e.store(array, offset + imag, z[1])


def _scalar(e: Emitter, table: Value, index: Value) -> Complex:
    return e.broadcast(table, index * 2), e.broadcast(table, index * 2 + 1)


def _place(e: Emitter, position: Value, frequency: Value) -> Value:
    return e.integer(position, frequency) * (2 * e.lanes)


def _untangled(a: Complex, b: Complex, root: Complex) -> tuple[Complex, Complex]:
    """2X_k and 2X_{m−k} from Z_k and Z_{m−k}: X_k = E_k + w^k O_k, X_{m−k} = conj(E_k − w^k O_k)."""
    even = a[0] + b[0], a[1] - b[1]
    odd = _times((a[1] + b[1], b[0] - a[0]), root)
    return (even[0] + odd[0], even[1] + odd[1]), (even[0] - odd[0], odd[1] - even[1])


def _retangled(x: Complex, y: Complex, root: Complex) -> tuple[Complex, Complex]:
    """2Z_k and 2Z_{m−k} from X_k and X_{m−k}."""
    even = x[0] + y[0], x[1] - y[1]
    odd = _times_conjugate((x[0] - y[0], x[1] + y[1]), root)
    return (even[0] - odd[1], even[1] + odd[0]), (even[0] + odd[1], odd[0] - even[1])


def _untangler(packed: bool) -> Any:
    def untangle(
        e: Emitter,
        group: Value,
        position: Value,
        roots: Value,
        n: Value,
        spectrum: Value,
        offset: Value,
        stride: Value,
        imag: Value,
    ) -> None:
        half = n // 2
        real, other = _load(e, group, e.constant(0), e.lanes)
        top = offset + half * stride
        total, difference = real + other, real - other
        if packed:
            _store(e, spectrum, offset, imag, (total + total, difference + difference))
        else:
            _store(e, spectrum, offset, imag, (total + total, e.zero()))
            _store(e, spectrum, top, imag, (difference + difference, e.zero()))
        with e.loop(1, half // 2 + 1) as k:
            a = _load(e, group, _place(e, position, k), e.lanes)
            b = _load(e, group, _place(e, position, half - k), e.lanes)
            x, y = _untangled(a, b, _scalar(e, roots, k))
            _store(e, spectrum, offset + k * stride, imag, x)
            _store(e, spectrum, top - k * stride, imag, y)

    return vector_op(untangle)


def _retangler(packed: bool) -> Any:
    def retangle(
        e: Emitter,
        group: Value,
        position: Value,
        roots: Value,
        n: Value,
        spectrum: Value,
        offset: Value,
        stride: Value,
        imag: Value,
    ) -> None:
        half = n // 2
        top = offset + half * stride
        low, high = e.load(spectrum, offset), e.load(spectrum, offset + imag if packed else top)
        _store(e, group, e.constant(0), e.lanes, (low + high, low - high))
        with e.loop(1, half // 2 + 1) as k:
            x = _load(e, spectrum, offset + k * stride, imag)
            y = _load(e, spectrum, top - k * stride, imag)
            a, b = _retangled(x, y, _scalar(e, roots, k))
            _store(e, group, _place(e, position, k), e.lanes, a)
            _store(e, group, _place(e, position, half - k), e.lanes, b)

    return vector_op(retangle)


# A group of kind even to twice its half spectrum.
untangle, untangle_packed = _untangler(False), _untangler(True)
# A half spectrum to twice the group of kind even; the imaginary parts of k = 0 and n/2 are ignored.
retangle, retangle_packed = _retangler(False), _retangler(True)


@vector_op
def split_pair(
    e: Emitter,
    group: Value,
    position: Value,
    roots: Value,
    n: Value,
    spectrum: Value,
    offset: Value,
    stride: Value,
    imag: Value,
) -> None:
    """A group of kind pair to twice the half spectra of its two blocks of columns."""
    second = offset + e.lanes
    real, other = _load(e, group, e.constant(0), e.lanes)
    _store(e, spectrum, offset, imag, (real + real, e.zero()))
    _store(e, spectrum, second, imag, (other + other, e.zero()))
    with e.loop(1, (n + 1) // 2) as k:
        a = _load(e, group, _place(e, position, k), e.lanes)
        b = _load(e, group, _place(e, position, n - k), e.lanes)
        _store(e, spectrum, offset + k * stride, imag, (a[0] + b[0], a[1] - b[1]))
        _store(e, spectrum, second + k * stride, imag, (a[1] + b[1], b[0] - a[0]))


@vector_op
def join_pair(
    e: Emitter,
    group: Value,
    position: Value,
    roots: Value,
    n: Value,
    spectrum: Value,
    offset: Value,
    stride: Value,
    imag: Value,
) -> None:
    """Two half spectra to the group of kind pair; the imaginary parts of k = 0 are ignored."""
    second = offset + e.lanes
    _store(e, group, e.constant(0), e.lanes, (e.load(spectrum, offset), e.load(spectrum, second)))
    with e.loop(1, (n + 1) // 2) as k:
        x = _load(e, spectrum, offset + k * stride, imag)
        y = _load(e, spectrum, second + k * stride, imag)
        _store(e, group, _place(e, position, k), e.lanes, (x[0] - y[1], x[1] + y[0]))
        _store(e, group, _place(e, position, n - k), e.lanes, (x[0] + y[1], y[0] - x[1]))


@vector_op
def full_in(
    e: Emitter,
    group: Value,
    position: Value,
    roots: Value,
    n: Value,
    spectrum: Value,
    offset: Value,
    stride: Value,
    imag: Value,
) -> None:
    """A complex group to its spectrum, in digit-reversed order."""
    with e.loop(0, n) as i:
        _store(e, spectrum, offset + i * stride, imag, _load(e, group, i * (2 * e.lanes), e.lanes))


@vector_op
def full_out(
    e: Emitter,
    group: Value,
    position: Value,
    roots: Value,
    n: Value,
    spectrum: Value,
    offset: Value,
    stride: Value,
    imag: Value,
) -> None:
    """A spectrum in digit-reversed order to its complex group."""
    with e.loop(0, n) as i:
        _store(e, group, i * (2 * e.lanes), e.lanes, _load(e, spectrum, offset + i * stride, imag))


@vector_op
def multiply(e: Emitter, group: Value, n: Value, factors: Value) -> None:
    """A complex group times factors of the same layout."""
    with e.loop(0, n) as i:
        here = i * (2 * e.lanes)
        _store(e, group, here, e.lanes, _times(_load(e, group, here, e.lanes), _load(e, factors, here, e.lanes)))


@vector_op
def multiply_conjugate(e: Emitter, group: Value, n: Value, factors: Value) -> None:
    """A complex group times the conjugates of factors of the same layout."""
    with e.loop(0, n) as i:
        here = i * (2 * e.lanes)
        product = _times_conjugate(_load(e, group, here, e.lanes), _load(e, factors, here, e.lanes))
        _store(e, group, here, e.lanes, product)


@vector_op
def through_half(e: Emitter, group: Value, position: Value, n: Value, transfer: Value) -> None:
    """A group of kind even through a filter, the same in every lane: see `tables.half_transfer` for its factors."""
    half = n // 2
    real, imag = _load(e, group, e.constant(0), e.lanes)
    mean, apart = e.broadcast(transfer, 0), e.broadcast(transfer, 1)
    _store(e, group, e.constant(0), e.lanes, (mean * real + apart * imag, mean * imag + apart * real))
    with e.loop(1, half // 2 + 1) as k:
        first, second = _place(e, position, k), _place(e, position, half - k)
        here = _load(e, group, first, e.lanes)
        real, imag = _load(e, group, second, e.lanes)
        there = real, -imag
        own, across, opposite = (_scalar(e, transfer, k * 3 + i) for i in range(3))
        a, b = _times(here, own), _times(there, opposite)
        c, d = _times(there, across), _times(here, across)
        _store(e, group, first, e.lanes, (a[0] + c[0], a[1] + c[1]))
        _store(e, group, second, e.lanes, (b[0] - d[0], d[1] - b[1]))


@vector_op
def through_full(e: Emitter, group: Value, position: Value, n: Value, transfer: Value) -> None:
    """A complex group times a full spectrum in digit-reversed order, the same in every lane."""
    _scaled(e, group, n, transfer, _times)


def _scaled(e: Emitter, group: Value, n: Value, numbers: Value, product: Any) -> None:
    with e.loop(0, n) as i:
        here = i * (2 * e.lanes)
        _store(e, group, here, e.lanes, product(_load(e, group, here, e.lanes), _scalar(e, numbers, i)))


@vector_op
def scale(e: Emitter, group: Value, n: Value, numbers: Value) -> None:
    """The first n positions times a complex number each, the same in every lane."""
    _scaled(e, group, n, numbers, _times)


@vector_op
def scale_conjugate(e: Emitter, group: Value, n: Value, numbers: Value) -> None:
    """The first n positions times the conjugate of a complex number each."""
    _scaled(e, group, n, numbers, _times_conjugate)


@vector_op
def blank(e: Emitter, group: Value, first: Value, last: Value) -> None:
    """Zeros at positions first … last."""
    with e.loop(first, last) as i:
        _store(e, group, i * (2 * e.lanes), e.lanes, (e.zero(), e.zero()))
