# numba and llvmlite carry no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call, no-any-return"
"""Explicit vectors in numba: operations written over LLVM values become numba intrinsics.

The vector arithmetic of the engine is written once, in Python, over :class:`Value` objects; running it emits LLVM
instructions. numba sees one opaque call per operation on pointers and integers, so that type inference, which
dominates compile time, has next to nothing to infer. The loops around the operations are plain numba code.

Of the fast-math flags only ``contract`` is used: it lets a product and a sum become one fused multiply-add, which
rounds once rather than twice and treats NaN, infinities and signed zeros as IEEE 754 says.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from spectralops._cpu.vector.host import lanes as host_lanes

__all__ = ["Emitter", "Value", "at", "call", "floats", "integers", "lanes", "shift", "vector_op", "write"]

FLAGS = ("contract",)
INT = ir.IntType(64)
INT32 = ir.IntType(32)


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
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.masked.{name}.{suffix}")
        return self.builder.call(function, arguments)

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
        with cgutils.for_range_slice(self.builder, first, last, by) as (index, _):
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


def _is_pointer(kind: Any) -> bool:
    return isinstance(kind, types.CPointer)


def _declared(kind: Any) -> Any:
    return kind if _is_pointer(kind) else types.int64


def operation(definition: Callable[..., Any]) -> Any:
    """The `intrinsic` of numba, of which nothing is known to a type checker."""
    return intrinsic(definition)


def vector_op(function: Callable[..., None]) -> Any:
    """A numba intrinsic from ``function(emitter, *values)``, which emits its code.

    Arguments are pointers and integers; the first float pointer among them gives the element type.
    """
    names = list(inspect.signature(function).parameters)[1:]

    def typed(typingctx: Any, *kinds: Any) -> Any:
        float_type = next(kind.dtype for kind in kinds if _is_pointer(kind) and isinstance(kind.dtype, types.Float))

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emitter = Emitter(builder, context.get_value_type(float_type), host_lanes(str(float_type)))
            function(emitter, *(Value(builder, argument) for argument in arguments))
            return context.get_dummy_value()

        return types.void(*(_declared(kind) for kind in kinds)), generate

    typed.__name__ = function.__name__
    typed.__doc__ = function.__doc__
    # numba binds arguments by the signature of the definition.
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    typed.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, positional) for name in ("typingctx", *names)]
    )
    return operation(typed)


@operation
def lanes(typingctx: Any, pointer: Any) -> Any:
    """Lanes of the vectors of this element type, a constant in compiled code."""
    count = host_lanes(str(pointer.dtype))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(INT, count)

    return types.int64(pointer), generate


@operation
def at(typingctx: Any, pointer: Any, offset: Any) -> Any:
    """Read pointer[offset]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.gep(arguments[0], [arguments[1]], inbounds=True))

    return pointer.dtype(pointer, types.int64), generate


@operation
def write(typingctx: Any, pointer: Any, offset: Any, number: Any) -> Any:
    """Set pointer[offset] to a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], builder.gep(arguments[0], [arguments[1]], inbounds=True))
        return context.get_dummy_value()

    return types.void(pointer, types.int64, pointer.dtype), generate


@operation
def shift(typingctx: Any, pointer: Any, offset: Any) -> Any:
    """The pointer, so many elements further."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]], inbounds=True)

    return pointer(pointer, types.int64), generate


@operation
def floats(typingctx: Any, address: Any, like: Any) -> Any:
    """The address as a pointer to numbers of the type that `like` points to."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(like))

    return like(types.int64, like), generate


@operation
def integers(typingctx: Any, address: Any) -> Any:
    """The address as a pointer to 64-bit integers."""
    kind = types.CPointer(types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(kind))

    return kind(types.int64), generate


@operation
def call(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Call another compiled kernel through its address, with a tuple of its arguments.

    A kernel is compiled once and called by many, so that the transform's code is not compiled into each of them.
    """
    declared = types.Tuple([_declared(kind) for kind in arguments.types])

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        parts = [builder.extract_value(values[1], i) for i in range(len(declared.types))]
        # numba's convention: first where to put the result (a null) and the exception (never).
        ignored = cgutils.alloca_once(builder, INT)
        kind = ir.FunctionType(INT32, [ignored.type, ignored.type, *(part.type for part in parts)])
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), [ignored, ignored, *parts])
        return context.get_dummy_value()

    return types.void(types.int64, declared), generate
