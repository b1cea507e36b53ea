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
    "Complex", "blank", "full_in", "full_out", "join_pair", "load_pair", "multiply", "multiply_conjugate",
    "passed_through", "place_of", "retangle", "retangle_packed", "retangled", "scalar", "scale", "scale_conjugate",
    "split_pair", "store_pair", "through_full", "through_half", "times", "untangle", "untangle_packed", "untangled",
]  # fmt: skip

Complex = tuple[Value, Value]


def times(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] - a[1] * b[1], a[1] * b[0] + a[0] * b[1]


def _times_conjugate(a: Complex, b: Complex) -> Complex:
    return a[0] * b[0] + a[1] * b[1], a[1] * b[0] - a[0] * b[1]


def load_pair(e: Emitter, array: Value, offset: Value, imag: Any) -> Complex:
    return e.load(array, offset), e.load(array, offset + imag)


def store_pair(e: Emitter, array: Value, offset: Value, imag: Any, z: Complex) -> None:
    e.store(array, offset, z[0])
    e.store(array, offset + imag, z[1])


def scalar(e: Emitter, table: Value, index: Value) -> Complex:
    return e.broadcast(table, index * 2), e.broadcast(table, index * 2 + 1)


def place_of(e: Emitter, position: Value, frequency: Value) -> Value:
    return e.integer(position, frequency) * (2 * e.lanes)


def untangled(a: Complex, b: Complex, root: Complex) -> tuple[Complex, Complex]:
    """2X_k and 2X_{m−k} from Z_k and Z_{m−k}: X_k = E_k + w^k O_k, X_{m−k} = conj(E_k − w^k O_k)."""
    even = a[0] + b[0], a[1] - b[1]
    odd = times((a[1] + b[1], b[0] - a[0]), root)
    return (even[0] + odd[0], even[1] + odd[1]), (even[0] - odd[0], odd[1] - even[1])


def retangled(x: Complex, y: Complex, root: Complex) -> tuple[Complex, Complex]:
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
        real, other = load_pair(e, group, e.constant(0), e.lanes)
        top = offset + half * stride
        total, difference = real + other, real - other
        if packed:
            store_pair(e, spectrum, offset, imag, (total + total, difference + difference))
        else:
            store_pair(e, spectrum, offset, imag, (total + total, e.zero()))
            store_pair(e, spectrum, top, imag, (difference + difference, e.zero()))
        with e.loop(1, half // 2 + 1) as k:
            a = load_pair(e, group, place_of(e, position, k), e.lanes)
            b = load_pair(e, group, place_of(e, position, half - k), e.lanes)
            x, y = untangled(a, b, scalar(e, roots, k))
            store_pair(e, spectrum, offset + k * stride, imag, x)
            store_pair(e, spectrum, top - k * stride, imag, y)

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
        store_pair(e, group, e.constant(0), e.lanes, (low + high, low - high))
        with e.loop(1, half // 2 + 1) as k:
            x = load_pair(e, spectrum, offset + k * stride, imag)
            y = load_pair(e, spectrum, top - k * stride, imag)
            a, b = retangled(x, y, scalar(e, roots, k))
            store_pair(e, group, place_of(e, position, k), e.lanes, a)
            store_pair(e, group, place_of(e, position, half - k), e.lanes, b)

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
    real, other = load_pair(e, group, e.constant(0), e.lanes)
    store_pair(e, spectrum, offset, imag, (real + real, e.zero()))
    store_pair(e, spectrum, second, imag, (other + other, e.zero()))
    with e.loop(1, (n + 1) // 2) as k:
        a = load_pair(e, group, place_of(e, position, k), e.lanes)
        b = load_pair(e, group, place_of(e, position, n - k), e.lanes)
        store_pair(e, spectrum, offset + k * stride, imag, (a[0] + b[0], a[1] - b[1]))
        store_pair(e, spectrum, second + k * stride, imag, (a[1] + b[1], b[0] - a[0]))


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
    store_pair(e, group, e.constant(0), e.lanes, (e.load(spectrum, offset), e.load(spectrum, second)))
    with e.loop(1, (n + 1) // 2) as k:
        x = load_pair(e, spectrum, offset + k * stride, imag)
        y = load_pair(e, spectrum, second + k * stride, imag)
        store_pair(e, group, place_of(e, position, k), e.lanes, (x[0] - y[1], x[1] + y[0]))
        store_pair(e, group, place_of(e, position, n - k), e.lanes, (x[0] + y[1], y[0] - x[1]))


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
        store_pair(e, spectrum, offset + i * stride, imag, load_pair(e, group, i * (2 * e.lanes), e.lanes))


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
        store_pair(e, group, i * (2 * e.lanes), e.lanes, load_pair(e, spectrum, offset + i * stride, imag))


@vector_op
def multiply(e: Emitter, group: Value, n: Value, factors: Value) -> None:
    """A complex group times factors of the same layout."""
    with e.loop(0, n) as i:
        here = i * (2 * e.lanes)
        store_pair(
            e, group, here, e.lanes, times(load_pair(e, group, here, e.lanes), load_pair(e, factors, here, e.lanes))
        )


@vector_op
def multiply_conjugate(e: Emitter, group: Value, n: Value, factors: Value) -> None:
    """A complex group times the conjugates of factors of the same layout."""
    with e.loop(0, n) as i:
        here = i * (2 * e.lanes)
        product = _times_conjugate(load_pair(e, group, here, e.lanes), load_pair(e, factors, here, e.lanes))
        store_pair(e, group, here, e.lanes, product)


def passed_through(
    e: Emitter, group: Value, first: Value, second: Value, own: Complex, across: Complex, opposite: Complex
) -> None:
    """The frequencies k and n/2 - k of a group of kind even through the three factors of `tables.half_transfer`."""
    here = load_pair(e, group, first, e.lanes)
    real, imag = load_pair(e, group, second, e.lanes)
    there = real, -imag
    a, b = times(here, own), times(there, opposite)
    c, d = times(there, across), times(here, across)
    store_pair(e, group, first, e.lanes, (a[0] + c[0], a[1] + c[1]))
    store_pair(e, group, second, e.lanes, (b[0] - d[0], d[1] - b[1]))


@vector_op
def through_half(e: Emitter, group: Value, position: Value, n: Value, transfer: Value) -> None:
    """A group of kind even through a filter, the same in every lane: see `tables.half_transfer` for its factors."""
    half = n // 2
    real, imag = load_pair(e, group, e.constant(0), e.lanes)
    mean, apart = e.broadcast(transfer, 0), e.broadcast(transfer, 1)
    store_pair(e, group, e.constant(0), e.lanes, (mean * real + apart * imag, mean * imag + apart * real))
    with e.loop(1, half // 2 + 1) as k:
        own, across, opposite = (scalar(e, transfer, k * 3 + i) for i in range(3))
        passed_through(e, group, place_of(e, position, k), place_of(e, position, half - k), own, across, opposite)


@vector_op
def through_full(e: Emitter, group: Value, position: Value, n: Value, transfer: Value) -> None:
    """A complex group times a full spectrum in digit-reversed order, the same in every lane."""
    _scaled(e, group, n, transfer, times)


def _scaled(e: Emitter, group: Value, n: Value, numbers: Value, product: Any) -> None:
    with e.loop(0, n) as i:
        here = i * (2 * e.lanes)
        store_pair(e, group, here, e.lanes, product(load_pair(e, group, here, e.lanes), scalar(e, numbers, i)))


@vector_op
def scale(e: Emitter, group: Value, n: Value, numbers: Value) -> None:
    """The first n positions times a complex number each, the same in every lane."""
    _scaled(e, group, n, numbers, times)


@vector_op
def scale_conjugate(e: Emitter, group: Value, n: Value, numbers: Value) -> None:
    """The first n positions times the conjugate of a complex number each."""
    _scaled(e, group, n, numbers, _times_conjugate)


@vector_op
def blank(e: Emitter, group: Value, first: Value, last: Value) -> None:
    """Zeros at positions first … last."""
    with e.loop(first, last) as i:
        store_pair(e, group, i * (2 * e.lanes), e.lanes, (e.zero(), e.zero()))
