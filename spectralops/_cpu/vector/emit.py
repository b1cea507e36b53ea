# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call, no-any-return"
"""Explicit vectors: operations written over LLVM values.

The vector arithmetic of the engine is written once, in Python, over :class:`Value` objects; running it emits LLVM
instructions. Kernels call these operations on pointers and integers, in plain loops that :mod:`loops` compiles.

Of the fast-math flags only ``contract`` is used: it lets a product and a sum become one fused multiply-add, which
rounds once rather than twice and treats NaN, infinities and signed zeros as IEEE 754 says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from llvmlite import ir

from spectralops._cpu.vector.host import lanes as host_lanes

__all__ = [
    "INT", "TRUTH", "Emitter", "Operation", "Value", "at", "call", "common", "converted", "external", "floats",
    "integers", "is_whole", "lanes", "loop", "raw", "shift", "slot", "vector_op", "write",
]  # fmt: skip

FLAGS = ("contract",)
INT = ir.IntType(64)
INT32 = ir.IntType(32)
TRUTH = ir.IntType(1)
DOUBLE = ir.DoubleType()


def is_whole(kind: Any) -> bool:
    """Whether a type is one of integers."""
    return isinstance(kind, ir.IntType)


def raw(value: Any) -> Any:
    """A constant as an LLVM value, an LLVM value as it is."""
    if isinstance(value, bool):
        return ir.Constant(TRUTH, int(value))
    if isinstance(value, int | float):
        return ir.Constant(INT if isinstance(value, int) else DOUBLE, value)
    return value


def common(a: Any, b: Any, whole: bool = True) -> Any:
    """The type of both values where they have the same; else integers, if both may stay such, or float64."""
    a, b = raw(a).type, raw(b).type
    if a == b and (whole or not is_whole(a)):
        return a
    return INT if whole and is_whole(a) and is_whole(b) else DOUBLE


def converted(builder: Any, value: Any, kind: Any) -> Any:
    """A number as one of another type, a constant as an LLVM value."""
    value = raw(value)
    if value.type == kind:
        return value
    if is_whole(value.type):
        wide = builder.zext(value, INT) if value.type == TRUTH else value
        return wide if kind == INT else builder.sitofp(wide, kind)
    return builder.fpext(value, kind) if kind == DOUBLE else builder.fptrunc(value, kind)


def slot(builder: Any, kind: Any, size: int | None = None) -> Any:
    """Memory for as long as the function runs."""
    with builder.goto_entry_block():
        return builder.alloca(kind, size=size)


def external(builder: Any, kind: Any, name: str) -> Any:
    """A function of LLVM's own."""
    return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)


@contextmanager
def loop(builder: Any, start: Any, stop: Any, step: Any, down: bool = False) -> Iterator[Any]:
    """The body of a loop over range(start, stop, step), given the index; `down`, if the step is negative."""
    before, test, body, end = builder.block, *(builder.append_basic_block() for _ in range(3))
    builder.branch(test)
    builder.position_at_end(test)
    index = builder.phi(INT)
    builder.cbranch(builder.icmp_signed(">" if down else "<", index, stop), body, end)
    builder.position_at_end(body)
    yield index
    index.add_incoming(start, before)
    index.add_incoming(builder.add(index, step), builder.block)
    builder.branch(test)
    builder.position_at_end(end)


class Value:
    """An LLVM integer, float or vector with arithmetic that emits instructions."""

    __slots__ = ("builder", "ir")

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.ir = value

    def _operand(self, other: Any) -> Any:
        if isinstance(other, Value):
            return other.ir
        kind = self.ir.type
        return ir.Constant(kind, [other] * kind.count if isinstance(kind, ir.VectorType) else other)

    def _apply(self, on_ints: str, on_floats: str, left: Any, right: Any) -> Value:
        if isinstance(self.ir.type, ir.IntType):
            return Value(self.builder, getattr(self.builder, on_ints)(left, right))
        return Value(self.builder, getattr(self.builder, on_floats)(left, right, flags=FLAGS))

    def __add__(self, other: Any) -> Value:
        return self._apply("add", "fadd", self.ir, self._operand(other))

    def __sub__(self, other: Any) -> Value:
        return self._apply("sub", "fsub", self.ir, self._operand(other))

    def __mul__(self, other: Any) -> Value:
        return self._apply("mul", "fmul", self.ir, self._operand(other))

    def __radd__(self, other: Any) -> Value:
        return self + other

    def __rmul__(self, other: Any) -> Value:
        return self * other

    def __floordiv__(self, other: Any) -> Value:
        return Value(self.builder, self.builder.sdiv(self.ir, self._operand(other)))

    def __neg__(self) -> Value:
        whole = isinstance(self.ir.type, ir.IntType)
        return Value(self.builder, (self.builder.neg if whole else self.builder.fneg)(self.ir))


class Emitter:
    """Loads, stores, shuffles and loops of one vector operation; offsets count elements."""

    def __init__(self, builder: Any, element: Any, count: int) -> None:
        self.builder = builder
        self.element = element
        self.lanes = count
        self.vector = ir.VectorType(element, count)
        self.bytes = 4 if isinstance(element, ir.FloatType) else 8

    def value(self, raw: Any) -> Value:
        return Value(self.builder, raw)

    def constant(self, number: int) -> Value:
        return self.value(ir.Constant(INT, number))

    def _address(self, pointer: Value, offset: Any, kind: Any) -> Any:
        if not isinstance(offset, Value):
            offset = self.constant(offset)
        element = self.builder.gep(pointer.ir, [offset.ir], inbounds=True)
        return self.builder.bitcast(element, kind.as_pointer())

    def load(self, pointer: Value, offset: Any) -> Value:
        raw = self.builder.load(self._address(pointer, offset, self.vector))
        raw.align = self.bytes
        return self.value(raw)

    def store(self, pointer: Value, offset: Any, vector: Value) -> None:
        raw = self.builder.store(vector.ir, self._address(pointer, offset, self.vector))
        raw.align = self.bytes

    def _mask(self, count: Value) -> Any:
        """The first `count` lanes; none where it is not positive, all where it exceeds the lanes."""
        kind = ir.VectorType(INT, self.lanes)
        numbers = ir.Constant(kind, list(range(self.lanes)))
        return self.builder.icmp_signed("<", numbers, self._splat(count.ir, kind))

    def _masked(self, name: str, result: Any, arguments: list[Any]) -> Any:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        suffix = f"v{self.lanes}f{8 * self.bytes}.p0"
        return self.builder.call(external(self.builder, kind, f"llvm.masked.{name}.{suffix}"), arguments)

    def load_part(self, pointer: Value, offset: Any, count: Value) -> Value:
        """The first `count` lanes from memory, zeros in the others; nothing beyond them is read."""
        address = self._address(pointer, offset, self.vector)
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        align = ir.Constant(INT32, self.bytes)
        return self.value(self._masked("load", self.vector, [address, align, self._mask(count), zero]))

    def load_between(self, pointer: Value, offset: Any, low: Value, high: Value) -> Value:
        """The lanes low … high − 1 from memory, zeros in the others; nothing but them is read."""
        address = self._address(pointer, offset, self.vector)
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        inside = self.builder.and_(self._mask(high), self.builder.not_(self._mask(low)))
        return self.value(self._masked("load", self.vector, [address, ir.Constant(INT32, self.bytes), inside, zero]))

    def store_part(self, pointer: Value, offset: Any, vector: Value, count: Value) -> None:
        """Only the first `count` lanes to memory."""
        address = self._address(pointer, offset, self.vector)
        align = ir.Constant(INT32, self.bytes)
        self._masked("store", ir.VoidType(), [vector.ir, address, align, self._mask(count)])

    def _splat(self, scalar: Any, kind: Any) -> Any:
        empty = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(empty, scalar, ir.Constant(INT32, 0))
        zeros = ir.Constant(ir.VectorType(INT32, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, empty, zeros)

    def broadcast(self, pointer: Value, offset: Any) -> Value:
        """One number from memory in every lane."""
        return self.value(self._splat(self.builder.load(self._address(pointer, offset, self.element)), self.vector))

    def integer(self, pointer: Value, offset: Any) -> Value:
        return self.value(self.builder.load(self._address(pointer, offset, INT)))

    def zero(self) -> Value:
        return self.value(ir.Constant(self.vector, [0.0] * self.lanes))

    def shuffle(self, low: Value, high: Value, indices: list[int]) -> Value:
        chosen = ir.Constant(ir.VectorType(INT32, len(indices)), indices)
        return self.value(self.builder.shuffle_vector(low.ir, high.ir, chosen))

    def transpose(self, rows: list[Value]) -> list[Value]:
        """The transposed square of as many vectors as lanes, by exchanging ever smaller off-diagonal blocks."""
        span = self.lanes // 2
        while span:
            swapped = list(rows)
            for r in (r for r in range(self.lanes) if not r & span):
                low, high = rows[r], rows[r + span]
                swapped[r] = self.shuffle(
                    low, high, [c if not c & span else self.lanes + c - span for c in range(self.lanes)]
                )
                swapped[r + span] = self.shuffle(
                    low, high, [c + span if not c & span else self.lanes + c for c in range(self.lanes)]
                )
            rows = swapped
            span //= 2
        return rows

    def deinterleave(self, low: Value, high: Value) -> tuple[Value, Value]:
        """(a0 b0 a1 b1 …) in two vectors to (a0 a1 …), (b0 b1 …)."""
        return (
            self.shuffle(low, high, list(range(0, 2 * self.lanes, 2))),
            self.shuffle(low, high, list(range(1, 2 * self.lanes, 2))),
        )

    def interleave(self, a: Value, b: Value) -> tuple[Value, Value]:
        """(a0 a1 …), (b0 b1 …) to (a0 b0 a1 b1 …) in two vectors."""
        order = [lane + half * self.lanes for lane in range(self.lanes) for half in (0, 1)]
        return self.shuffle(a, b, order[: self.lanes]), self.shuffle(a, b, order[self.lanes :])

    @contextmanager
    def loop(self, start: Any, stop: Any, step: Any = 1) -> Iterator[Value]:
        """The body of a loop over range(start, stop, step)."""
        first, last, by = (v.ir if isinstance(v, Value) else ir.Constant(INT, v) for v in (start, stop, step))
        with loop(self.builder, first, last, by) as index:
            yield self.value(index)

    def less(self, a: Value, b: Any) -> Value:
        """Whether a < b, for :meth:`choose`."""
        other = b.ir if isinstance(b, Value) else ir.Constant(INT, b)
        return self.value(self.builder.icmp_signed("<", a.ir, other))

    def both(self, a: Value, b: Value) -> Value:
        """Whether two conditions hold."""
        return self.value(self.builder.and_(a.ir, b.ir))

    def pick(self, condition: Value, yes: Value, no: Value) -> Value:
        """One of two values of a type, pointers too."""
        return self.value(self.builder.select(condition.ir, yes.ir, no.ir))

    def moved(self, pointer: Value, offset: Value) -> Value:
        """The pointer, so many elements further."""
        return self.value(self.builder.gep(pointer.ir, [offset.ir], inbounds=True))

    def one_if(self, condition: Value) -> Value:
        """The integer 1 where the condition holds, else 0."""
        return self.value(self.builder.zext(condition.ir, INT))

    def choose(self, condition: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Run `yes` or `no`."""
        with self.builder.if_else(condition.ir) as (then, otherwise):
            with then:
                yes()
            with otherwise:
                no()


class Operation:
    """What kernels call to have LLVM instructions written."""

    def __init__(self, emit: Callable[..., Any]) -> None:
        self._emit = emit

    def __call__(self, *arguments: Any) -> Any:
        raise NotImplementedError("operations are compiled")

    def emit(self, builder: Any, *arguments: Any) -> Any:
        """Write the instructions: arguments are constants, LLVM values or tuples of them."""
        return self._emit(builder, *(_declared(builder, argument) for argument in arguments))


def _declared(builder: Any, argument: Any) -> Any:
    """What is no pointer and no number is a 64-bit integer."""
    if isinstance(argument, tuple):
        return tuple(_declared(builder, each) for each in argument)
    value = raw(argument)
    return builder.zext(value, INT) if value.type == TRUTH else value


def _lanes(element: Any) -> int:
    return host_lanes("float32" if isinstance(element, ir.FloatType) else "float64")


def vector_op(function: Callable[..., None]) -> Any:
    """An operation from ``function(emitter, *values)``, which emits its code.

    Arguments are pointers and integers; the first pointer to numbers among them gives the element type.
    """

    def emit(builder: Any, *arguments: Any) -> None:
        pointed = (each.type.pointee for each in arguments if isinstance(each.type, ir.PointerType))
        element = next(kind for kind in pointed if not is_whole(kind))
        function(Emitter(builder, element, _lanes(element)), *(Value(builder, argument) for argument in arguments))

    return wraps(function)(Operation(emit))


def operation(emit: Callable[..., Any]) -> Any:
    """The operation of this name, of which nothing more is known to a type checker."""
    return wraps(emit)(Operation(emit))


@operation
def lanes(builder: Any, pointer: Any) -> Any:
    """Lanes of the vectors of this element type, a constant in compiled code."""
    return _lanes(pointer.type.pointee)


@operation
def at(builder: Any, pointer: Any, offset: Any) -> Any:
    """Read pointer[offset]."""
    return builder.load(builder.gep(pointer, [offset], inbounds=True))


@operation
def write(builder: Any, pointer: Any, offset: Any, number: Any) -> None:
    """Set pointer[offset] to a number."""
    builder.store(converted(builder, number, pointer.type.pointee), builder.gep(pointer, [offset], inbounds=True))


@operation
def shift(builder: Any, pointer: Any, offset: Any) -> Any:
    """The pointer, so many elements further."""
    return builder.gep(pointer, [offset], inbounds=True)


@operation
def floats(builder: Any, address: Any, like: Any) -> Any:
    """The address as a pointer to numbers of the type that `like` points to."""
    return builder.inttoptr(address, like.type)


@operation
def integers(builder: Any, address: Any) -> Any:
    """The address as a pointer to 64-bit integers."""
    return builder.inttoptr(address, INT.as_pointer())


@operation
def call(builder: Any, address: Any, arguments: Any) -> None:
    """Call another compiled kernel through its address, with a tuple of its arguments.

    A kernel is compiled once and called by many, so that the transform's code is not compiled into each of them.
    """
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    builder.call(builder.inttoptr(address, kind.as_pointer()), list(arguments))
