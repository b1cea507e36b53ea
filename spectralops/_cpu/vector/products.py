# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call"
"""Products of real matrices in registers: what truncated Fourier transforms are, where few modes are kept."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from spectralops._cpu.vector.emit import Emitter, Value, external, vector_op
from spectralops._cpu.vector.moves import Totals

__all__ = ["add_rows", "by_count", "prefetch", "product", "shared_out"]

# Rows of the result of which one or two vectors are summed side by side: this keeps the multipliers busy and leaves
# room for the factors in 16 registers.
ROWS = 6


def prefetch(e: Emitter, array: Value, place: Value, write: bool = False) -> None:
    """Ask for the cache line at a place that may not exist: nothing happens there."""
    byte = ir.IntType(8).as_pointer()
    address = e.builder.bitcast(e.builder.gep(array.ir, [place.ir]), byte)
    int32 = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32])
    function = external(e.builder, kind, "llvm.prefetch.p0")
    e.builder.call(function, [address, *(ir.Constant(int32, number) for number in (int(write), 3, 1))])


def by_count(e: Emitter, count: Value, most: int, emit: Any) -> None:
    """Run emit(c) with the constant c that `count`, in 1 … most, equals."""
    if most == 1:
        emit(1)
        return
    e.choose(e.less(count, most), lambda: by_count(e, count, most - 1, emit), lambda: emit(most))


def shared_out(e: Emitter, total: Value, most: int, visit: Any) -> None:
    """Cut range(total) into the fewest parts of at most `most`, all nearly equal: visit(start, size) for each."""
    parts = (total + (most - 1)) // most
    base = total // e.value(e.builder.select(e.less(parts, 1).ir, ir.Constant(parts.ir.type, 1), parts.ir))
    extra = total - base * parts
    with e.loop(0, parts) as part:
        larger = e.less(part, extra)
        before = e.value(e.builder.select(larger.ir, part.ir, extra.ir))
        visit(part * base + before, base + e.one_if(larger))


@vector_op
def multiply_matrices(
    e: Emitter,
    a: Value,
    a_stride: Value,
    b: Value,
    b_stride: Value,
    c: Value,
    c_stride: Value,
    rows: Value,
    columns: Value,
    depth: Value,
) -> None:
    """C = A B, row by row. Rows of B are read in whole vectors, beyond `columns` too; nothing is written there."""

    def block(row: Value, column: Value, count: int, vectors: int) -> None:
        sums = Totals(e, count * vectors)
        starts = [(row + i) * a_stride for i in range(count)]
        with e.loop(0, depth) as k:
            here = k * b_stride + column
            loaded = [e.load(b, here + v * e.lanes) for v in range(vectors)]
            for i in range(count):
                factor = e.broadcast(a, starts[i] + k)
                for v in range(vectors):
                    sums.set(i * vectors + v, sums.get(i * vectors + v) + factor * loaded[v])

        def store(part: bool) -> None:
            for i in range(count):
                for v in range(vectors):
                    place = (row + i) * c_stride + column + v * e.lanes
                    if part and v == vectors - 1:
                        e.store_part(c, place, sums.get(i * vectors + v), columns - column - v * e.lanes)
                    else:
                        e.store(c, place, sums.get(i * vectors + v))

        e.choose(e.less(columns, column + vectors * e.lanes), lambda: store(True), lambda: store(False))

    def strip(column: Value, vectors: int) -> None:
        shared_out(
            e, rows, ROWS, lambda row, size: by_count(e, size, ROWS, lambda count: block(row, column, count, vectors))
        )

    with e.loop(0, columns, 2 * e.lanes) as column:
        e.choose(e.less(column + e.lanes, columns), lambda: strip(column, 2), lambda: strip(column, 1))


@vector_op
def add_rows(
    e: Emitter, source: Value, source_stride: Value, target: Value, target_stride: Value, rows: Value, columns: Value
) -> None:
    """Add rows of numbers to others. The source has room for whole vectors; nothing is written beyond `columns`."""
    with e.loop(0, rows) as row, e.loop(0, columns, e.lanes) as column:
        here, there = row * source_stride + column, row * target_stride + column
        left = columns - column
        e.store_part(target, there, e.load_part(target, there, left) + e.load(source, here), left)


def product(
    a: Any, a_stride: Any, b: Any, b_stride: Any, c: Any, c_stride: Any, rows: Any, columns: Any, depth: Any
) -> None:
    """The kernel of :func:`multiply_matrices`, for others to call."""
    multiply_matrices(a, a_stride, b, b_stride, c, c_stride, rows, columns, depth)
