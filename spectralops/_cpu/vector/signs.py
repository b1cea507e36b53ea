"""From sums of cosines and sines to signed wavenumbers, and back.

A column axis is transformed into C_k = Σ_j x_j cos(2πjk/n) and −S_k = −Σ_j x_j sin(2πjk/n) for k ≥ 0, both complex
because of the axes transformed before; the wavenumbers ±k are C_k ± i (−S_k). The inverse, Σ_k Y_k exp(2πijk/n), is
made of C_k = Y_k + Y_−k times cosines and S_k = i (Y_k − Y_−k) times sines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spectralops._cpu.vector.emit import Emitter, Value, vector_op

__all__ = [
    "from_blocks", "from_both", "from_negative", "from_positive", "to_blocks", "to_negative", "to_positive",
]  # fmt: skip

Complex = tuple[Value, Value]


def _along(e: Emitter, count: Value, visit: Callable[[Value, Value | None], None]) -> None:
    whole = count // e.lanes * e.lanes
    with e.loop(0, whole, e.lanes) as i:
        visit(i, None)
    with e.loop(whole, count, e.lanes) as i:
        visit(i, count - i)


def _load(e: Emitter, array: Value, place: Value, imag: Value) -> Complex:
    return e.load(array, place), e.load(array, place + imag)


def _store(e: Emitter, array: Value, place: Value, imag: Value, left: Value | None, z: Complex) -> None:
    for part, distance in zip(z, (e.constant(0), imag), strict=True):
        if left is None:
            e.store(array, place + distance, part)
        else:
            e.store_part(array, place + distance, part, left)


def _to(name: str, join: Callable[[Complex, Complex], Complex]) -> Any:
    def operation(
        e: Emitter,
        source: Value,
        cosine: Value,
        sine: Value,
        imag: Value,
        target: Value,
        place: Value,
        target_imag: Value,
        count: Value,
    ) -> None:
        def visit(i: Value, left: Value | None) -> None:
            c, s = _load(e, source, cosine + i, imag), _load(e, source, sine + i, imag)
            _store(e, target, place + i, target_imag, left, join(c, s))

        _along(e, count, visit)

    operation.__name__ = name
    return vector_op(operation)


to_positive = _to("to_positive", lambda c, s: (c[0] - s[1], c[1] + s[0]))
to_negative = _to("to_negative", lambda c, s: (c[0] + s[1], c[1] - s[0]))


def _from(name: str, split: Callable[[Complex, Complex], tuple[Complex, Complex]]) -> Any:
    def operation(
        e: Emitter,
        source: Value,
        positive: Value,
        negative: Value,
        imag: Value,
        target: Value,
        cosine: Value,
        sine: Value,
        target_imag: Value,
        count: Value,
    ) -> None:
        def visit(i: Value, left: Value | None) -> None:
            c, s = split(_load(e, source, positive + i, imag), _load(e, source, negative + i, imag))
            _store(e, target, cosine + i, target_imag, left, c)
            _store(e, target, sine + i, target_imag, left, s)

        _along(e, count, visit)

    operation.__name__ = name
    return vector_op(operation)


from_both = _from("from_both", lambda p, n: ((p[0] + n[0], p[1] + n[1]), (n[1] - p[1], p[0] - n[0])))
from_positive = _from("from_positive", lambda p, _: (p, (-p[1], p[0])))
from_negative = _from("from_negative", lambda _, n: (n, (n[1], -n[0])))


@vector_op
def to_blocks(e: Emitter, dense: Value, imag: Value, modes: Value, count: Value, blocks: Value, step: Value) -> None:
    """Modes of one image to blocks of real and imaginary parts, `step` apart; zeros beyond them.

    Zeros, since an inverse by products may run over what lies there, where a NaN of an earlier call could be.
    """
    whole = modes // e.lanes
    with e.loop(0, whole) as i:
        z = _load(e, dense, i * e.lanes, imag)
        _store(e, blocks, i * step, e.constant(e.lanes), None, z)
    with e.loop(whole, count) as i:
        place, left = i * e.lanes, modes - i * e.lanes
        z = e.load_part(dense, place, left), e.load_part(dense, place + imag, left)
        _store(e, blocks, i * step, e.constant(e.lanes), None, z)


@vector_op
def from_blocks(e: Emitter, dense: Value, imag: Value, count: Value, blocks: Value, step: Value) -> None:
    """The opposite of :func:`to_blocks`."""
    with e.loop(0, count) as i:
        z = _load(e, blocks, i * step, e.constant(e.lanes))
        _store(e, dense, i * e.lanes, imag, None, z)
