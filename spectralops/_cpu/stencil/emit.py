# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="import-untyped, no-untyped-call, no-any-return"
"""LLVM instructions written as arithmetic in Python: integers, numbers, vectors, memory and loops.

Every operation on numbers rounds once, as IEEE 754 says: no fast-math flag is ever set, so that nothing is contracted
or reordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir

from spectralops._cpu.stencil.layout import vectors_of

__all__ = ["Emitter", "Tables", "Value"]

INT = ir.IntType(64)
INT32 = ir.IntType(32)
BYTE = ir.IntType(8)
BIT = ir.IntType(1)


class Value:
    """An LLVM integer, number, vector or condition, with the operators of Python."""

    __slots__ = ("builder", "ir")

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.ir = value

    def _other(self, other: Any) -> Any:
        if isinstance(other, Value):
            return other.ir
        kind = self.ir.type
        return ir.Constant(kind, [other] * kind.count if isinstance(kind, ir.VectorType) else other)

    def _apply(self, on_integers: str, on_numbers: str, left: Any, right: Any) -> Value:
        name = on_integers if isinstance(self.ir.type, ir.IntType) else on_numbers
        return Value(self.builder, getattr(self.builder, name)(left, right))

    def __add__(self, other: Any) -> Value:
        return self._apply("add", "fadd", self.ir, self._other(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Value:
        return self._apply("sub", "fsub", self.ir, self._other(other))

    def __mul__(self, other: Any) -> Value:
        return self._apply("mul", "fmul", self.ir, self._other(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Value:
        return Value(self.builder, self.builder.fdiv(self.ir, self._other(other)))

    def __mod__(self, other: Any) -> Value:
        return Value(self.builder, self.builder.srem(self.ir, self._other(other)))

    def __and__(self, other: Any) -> Value:
        return Value(self.builder, self.builder.and_(self.ir, self._other(other)))

    def __or__(self, other: Any) -> Value:
        return Value(self.builder, self.builder.or_(self.ir, self._other(other)))

    def __xor__(self, other: Any) -> Value:
        return Value(self.builder, self.builder.xor(self.ir, self._other(other)))

    def __lshift__(self, bits: Any) -> Value:
        return Value(self.builder, self.builder.shl(self.ir, self._other(bits)))

    def __rshift__(self, bits: int) -> Value:
        return Value(self.builder, self.builder.ashr(self.ir, self._other(bits)))

    def lowered(self, bits: Any) -> Value:
        """The bits of an integer so many places further down, with zeros above them."""
        return Value(self.builder, self.builder.lshr(self.ir, self._other(bits)))

    def _compare(self, sign: str, other: Any) -> Value:
        compare = self.builder.icmp_signed if isinstance(self.ir.type, ir.IntType) else self.builder.fcmp_ordered
        return Value(self.builder, compare(sign, self.ir, self._other(other)))

    def __lt__(self, other: Any) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Value:
        return self._compare(">=", other)

    def negated(self) -> Value:
        """Whether a condition does not hold."""
        return Value(self.builder, self.builder.not_(self.ir))

    def equals(self, other: Any) -> Value:
        """Whether two integers are the same."""
        return self._compare("==", other)


class Emitter:
    """Emits the code of one function; `element` is float32 or float64, offsets into memory count elements.

    Where rows are `interleaved` (see :mod:`blocks`), they are made of units of several vectors, else of one.
    """

    def __init__(self, module: Any, dtype: str, lanes: int, interleaved: bool = False) -> None:
        self.module = module
        self.number = np.dtype(dtype).type
        self.element = ir.FloatType() if dtype == "float32" else ir.DoubleType()
        self.bytes = np.dtype(dtype).itemsize
        self.lanes = lanes
        self.interleaved = interleaved
        self.vectors = vectors_of(lanes) if interleaved else 1
        self.unit = self.vectors * lanes
        self.vector = ir.VectorType(self.element, lanes)
        self.bits = ir.VectorType(ir.IntType(8 * self.bytes), lanes)
        self.builder: Any = None
        self.carried: list[Value] = []

    # Functions and control flow.

    @contextmanager
    def function(self, name: str, kinds: str, private: bool = True) -> Iterator[list[Value]]:
        """Define a function without result; its arguments by letter: f, b pointers to numbers and bytes, i integer."""
        types = {"f": self.element.as_pointer(), "b": BYTE.as_pointer(), "q": INT.as_pointer(), "i": INT}
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [types[kind] for kind in kinds]), name=name)
        if private:
            function.linkage = "internal"
        outer = self.builder
        self.builder = ir.IRBuilder(function.append_basic_block())
        yield [Value(self.builder, argument) for argument in function.args]
        self.builder.ret_void()
        self.builder = outer

    def call(self, name: str, *arguments: Value) -> None:
        """Call a function of the module."""
        self.builder.call(self.module.get_global(name), [argument.ir for argument in arguments])

    def call_address(self, address: Value, *arguments: Value) -> None:
        """Call a function without result at an address."""
        kind = ir.FunctionType(ir.VoidType(), [argument.ir.type for argument in arguments])
        target = self.builder.inttoptr(address.ir, kind.as_pointer())
        self.builder.call(target, [argument.ir for argument in arguments])

    @contextmanager
    def loop(self, start: Any, stop: Any, step: Any = 1, carried: list[Value] | None = None) -> Iterator[Value]:
        """The body of a loop over range(start, stop, step); the index after it is `self.after`.

        Of values that are carried from one turn to the next, the body finds those before it in `self.carried`, where
        it leaves its own.
        """
        builder = self.builder
        first, last = (self._integer(value).ir for value in (start, stop))
        before = builder.block
        head, body, done = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(INT)
        index.add_incoming(first, before)
        phis = [builder.phi(value.ir.type) for value in carried or ()]
        for phi, value in zip(phis, carried or (), strict=True):
            phi.add_incoming(value.ir, before)
        builder.cbranch(builder.icmp_signed("<", index, last), body, done)
        builder.position_at_end(body)
        outer, self.carried = self.carried, [self._value(phi) for phi in phis]
        yield self._value(index)
        for phi, value in zip(phis, self.carried, strict=True):
            phi.add_incoming(value.ir, builder.block)
        self.carried = outer
        following = builder.add(index, self._integer(step).ir)
        index.add_incoming(following, builder.block)
        builder.branch(head)
        builder.position_at_end(done)
        self.after = self._value(index)

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Code that runs only where a condition holds."""
        with self.builder.if_then(condition.ir):
            yield

    def either(self, condition: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Code of `yes` or of `no`."""
        with self.builder.if_else(condition.ir) as (then, otherwise):
            with then:
                yes()
            with otherwise:
                no()

    def either_of(self, condition: Value, yes: Callable[[], list[Value]], no: Callable[[], list[Value]]) -> list[Value]:
        """What code of `yes` or of `no` leaves."""
        with self.builder.if_else(condition.ir) as (then, otherwise):
            with then:
                first, of_first = yes(), self.builder.block
            with otherwise:
                second, of_second = no(), self.builder.block
        found = []
        for a, b in zip(first, second, strict=True):
            phi = self.builder.phi(a.ir.type)
            phi.add_incoming(a.ir, of_first)
            phi.add_incoming(b.ir, of_second)
            found.append(self._value(phi))
        return found

    # Values.

    def _value(self, raw: Any) -> Value:
        return Value(self.builder, raw)

    def _integer(self, value: Any) -> Value:
        return value if isinstance(value, Value) else self._value(ir.Constant(INT, value))

    def integer(self, number: int) -> Value:
        return self._integer(number)

    def constant(self, number: float) -> Value:
        """A number, rounded to the dtype, in every lane."""
        rounded = float(self.number(number))
        return self._value(ir.Constant(self.vector, [rounded] * self.lanes))

    def select(self, condition: Value, yes: Any, no: Any) -> Value:
        if not isinstance(yes, Value):
            yes = self.integer(yes)
        if not isinstance(no, Value):
            no = self.integer(no)
        return self._value(self.builder.select(condition.ir, yes.ir, no.ir))

    def least(self, a: Value, b: Any) -> Value:
        return self.select(a < b, a, b)

    def absolute(self, value: Value) -> Value:
        name = f"llvm.fabs.v{self.lanes}f{8 * self.bytes}"
        kind = ir.FunctionType(self.vector, [self.vector])
        return self._value(self.builder.call(self._declared(name, kind), [value.ir]))

    def splat(self, scalar: Any, kind: Any) -> Any:
        empty = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(empty, scalar, ir.Constant(INT32, 0))
        zeros = ir.Constant(ir.VectorType(INT32, kind.count), [0] * kind.count)
        return self.builder.shuffle_vector(first, empty, zeros)

    def turned(self, values: Value) -> Value:
        """The lanes moved up by one, the last one first."""
        order = ir.Constant(ir.VectorType(INT32, self.lanes), [(k - 1) % self.lanes for k in range(self.lanes)])
        return self._value(self.builder.shuffle_vector(values.ir, ir.Constant(self.vector, ir.Undefined), order))

    def begun(self, first: Value, values: Value) -> Value:
        """`values` with the first lane of `first`."""
        order = ir.Constant(ir.VectorType(INT32, self.lanes), [self.lanes, *range(1, self.lanes)])
        return self._value(self.builder.shuffle_vector(values.ir, first.ir, order))

    def shuffled(self, values: Value, others: Value, order: list[int]) -> Value:
        """Lanes of two vectors, those of the second one counted behind those of the first, in an order."""
        places = ir.Constant(ir.VectorType(INT32, self.lanes), order)
        b, kind = self.builder, values.ir.type
        # As integers: of numbers, LLVM moves lanes by one in an instruction more.
        first, second = (b.bitcast(some.ir, self.bits) for some in (values, others))
        return self._value(b.bitcast(b.shuffle_vector(first, second, places), kind))

    # Memory.

    def pointer(self, address: Value, kind: str = "f") -> Value:
        """An integer address as a pointer."""
        pointee = {"f": self.element, "b": BYTE, "q": INT}[kind]
        return self._value(self.builder.inttoptr(address.ir, pointee.as_pointer()))

    def shift(self, pointer: Value, offset: Any) -> Value:
        """The pointer, so many elements further."""
        return self._value(self.builder.gep(pointer.ir, [self._integer(offset).ir]))

    def scalar(self, pointer: Value, offset: Any = 0) -> Value:
        """One number, byte or integer."""
        return self._value(self.builder.load(self.shift(pointer, offset).ir))

    def put(self, pointer: Value, offset: Any, value: Value) -> None:
        """Store one number, byte or integer."""
        self.builder.store(value.ir, self.shift(pointer, offset).ir)

    def everywhere(self, pointer: Value, offset: Any) -> Value:
        """One number in every lane."""
        return self._value(self.splat(self.scalar(pointer, offset).ir, self.vector))

    def _at(self, pointer: Value, offset: Any, kind: Any) -> Any:
        return self.builder.bitcast(self.shift(pointer, offset).ir, kind.as_pointer())

    def load(self, pointer: Value, offset: Any) -> Value:
        """As many numbers as there are lanes."""
        raw = self.builder.load(self._at(pointer, offset, self.vector))
        raw.align = self.bytes
        return self._value(raw)

    def load_bits(self, pointer: Value, offset: Any) -> Value:
        """As many integers of the size of a number as there are lanes."""
        raw = self.builder.load(self._at(pointer, offset, self.bits))
        raw.align = self.bytes
        return self._value(raw)

    def mask_of(self, byte: Value, place: int) -> Value:
        """A number of which the bit at a place from the top is set where the byte is not 0, otherwise none."""
        kind = self.bits.element
        some = self.builder.icmp_unsigned("!=", byte.ir, ir.Constant(BYTE, 0))
        bits = self.builder.select(some, ir.Constant(kind, 1 << kind.width - 1 - place), ir.Constant(kind, 0))
        return self._value(self.builder.bitcast(bits, self.element))

    def masks_of(self, pointer: Value, place: int) -> Value:
        """The same of as many bytes as there are lanes."""
        kind, element = ir.VectorType(BYTE, self.lanes), self.bits.element
        raw = self.builder.load(self.builder.bitcast(pointer.ir, kind.as_pointer()))
        raw.align = 1
        some = self.builder.icmp_unsigned("!=", raw, ir.Constant(kind, [0] * self.lanes))
        bit, none = (ir.Constant(self.bits, [n] * self.lanes) for n in (1 << element.width - 1 - place, 0))
        return self._value(self.builder.bitcast(self.builder.select(some, bit, none), self.vector))

    def mark(self, pointer: Value, offset: Any, marks: tuple[int, int], axes: Value, inside: int) -> None:
        """Put into a unit's first number, at the bottom, whether all its bits are set, or none is at `inside`.

        Its bits are as many from the top as there are axes, and that at `inside`.
        """
        b, element = self.builder, self.bits.element
        width = element.width
        narrow = b.trunc(axes.ir, element) if width < INT.width else axes.ir
        bit = ir.Constant(element, 1 << width - 1 - inside)
        several = b.or_(b.shl(ir.Constant(element, -1), b.sub(ir.Constant(element, width), narrow)), bit)
        vectors = [self.load_bits(pointer, offset + k).ir for k in range(0, self.unit, self.lanes)]

        def everywhere(combined: Callable[[Any, Any], Any], these: Any, wanted: Any) -> Any:
            bits = reduce(combined, vectors)
            same = b.icmp_unsigned("==", b.and_(bits, self.splat(these, self.bits)), self.splat(wanted, self.bits))
            lanes = ir.IntType(self.lanes)
            return b.icmp_unsigned("==", b.bitcast(same, lanes), ir.Constant(lanes, (1 << self.lanes) - 1))

        none = ir.Constant(element, 0)
        found = b.or_(
            b.select(everywhere(b.and_, several, several), ir.Constant(element, marks[0]), none),
            b.select(everywhere(b.or_, bit, none), ir.Constant(element, marks[1]), none),
        )
        place = self._at(pointer, offset, element)
        b.store(b.or_(b.and_(b.load(place), ir.Constant(element, ~(marks[0] | marks[1]))), found), place)

    def whole_bits(self, pointer: Value, offset: Any) -> Value:
        """The bits of one number, as an integer."""
        return self._value(self.builder.load(self._at(pointer, offset, self.bits.element)))

    def with_bit(self, bits: Value, others: Value, place: Value, inside: int) -> Value:
        """Numbers of the bits, that at a place from the top set where those at `inside` are in both, else cleared."""
        b, element = self.builder, self.bits.element
        narrow = b.trunc(place.ir, element) if element.width < INT.width else place.ir
        bit = self.splat(b.lshr(ir.Constant(element, 1 << element.width - 1), narrow), self.bits)
        raised = self.splat(b.sub(ir.Constant(element, inside), narrow), self.bits)
        both = b.and_(b.shl(b.and_(bits.ir, others.ir), raised), bit)
        return self._value(b.bitcast(b.or_(b.and_(bits.ir, b.not_(bit)), both), self.vector))

    def is_set(self, number: Value, place: int) -> Value:
        """Whether the bit of a single number at a place from the top is set."""
        kind = self.bits.element
        bit = self.builder.and_(self.builder.bitcast(number.ir, kind), ir.Constant(kind, 1 << kind.width - 1 - place))
        return self._value(self.builder.icmp_unsigned("!=", bit, ir.Constant(kind, 0)))

    def raised(self, bits: Value, place: Any) -> Value:
        """The bits at a place from the top as those at the top."""
        b, element = self.builder, self.bits.element
        if not isinstance(place, Value):
            return self._value(b.shl(bits.ir, ir.Constant(self.bits, [place] * self.lanes)))
        narrow = b.trunc(place.ir, element) if element.width < INT.width else place.ir
        return self._value(b.shl(bits.ir, self.splat(narrow, self.bits)))

    def lanes_of(self, word: Value) -> Value:
        """The bits of an integer from the lowest on, one for each lane, as those at the top of the lanes."""
        b, kind = self.builder, self.bits.element
        narrow = b.trunc(word.ir, kind) if word.ir.type.width > kind.width else word.ir
        places = ir.Constant(self.bits, [kind.width - 1 - lane for lane in range(self.lanes)])
        return self._value(b.shl(self.splat(narrow, self.bits), places))

    def load_signed(self, pointer: Value) -> Value:
        """As many bytes as there are lanes, as integers of the size of a number with their bits at the top."""
        kind = ir.VectorType(BYTE, self.lanes)
        raw = self.builder.load(self.builder.bitcast(pointer.ir, kind.as_pointer()))
        raw.align = 1
        return self._value(self.builder.sext(raw, self.bits))

    def put_bytes(self, pointer: Value, parts: list[tuple[Value, int]]) -> None:
        """Store the bits of integers as bytes: of each integer, the given bits of a byte where its bit is set."""
        b, kind = self.builder, ir.VectorType(BYTE, INT.width)

        def spread(word: Value, bits: int) -> Any:
            set_bits = b.sext(b.bitcast(word.ir, ir.VectorType(BIT, INT.width)), kind)
            return b.and_(set_bits, ir.Constant(kind, [bits] * INT.width))

        raw = b.store(reduce(b.or_, [spread(*part) for part in parts]), b.bitcast(pointer.ir, kind.as_pointer()))
        raw.align = 1

    def byte(self, number: Value) -> Value:
        """An integer as a byte."""
        return self._value(self.builder.trunc(number.ir, BYTE))

    def whole(self, number: Value) -> Value:
        """A byte as an integer, from 0 on."""
        return self._value(self.builder.zext(number.ir, INT))

    def some_bits(self, pointer: Value, offset: Any) -> Value:
        """Which bytes of a unit are not 0: an integer, from the lowest bit on."""
        b, kind = self.builder, ir.VectorType(BYTE, self.unit)
        raw = b.load(self._at(pointer, offset, kind))
        raw.align = 1
        some = b.icmp_unsigned("!=", raw, ir.Constant(kind, [0] * self.unit))
        bits = b.bitcast(some, ir.IntType(self.unit))
        return self._value(b.zext(bits, INT) if self.unit < INT.width else bits)

    def chosen(self, signs: Value, yes: Value, no: Value) -> Value:
        """`yes` where the bit at the top is set, `no` elsewhere."""
        zero = ir.Constant(self.bits, [0] * self.lanes)
        return self.select(self._value(self.builder.icmp_signed("<", signs.ir, zero)), yes, no)

    def chosen_by_bytes(self, signs: Value, yes: Value, no: Value) -> Value:
        """The same for what goes back where `yes` is from: LLVM would store parts of vectors, slow on some CPUs."""
        b, size = self.builder, self.lanes * self.bytes
        spread = b.ashr(signs.ir, ir.Constant(self.bits, [self.bits.element.width - 1] * self.lanes))
        kind = ir.VectorType(BYTE, size)
        condition = b.icmp_signed("<", b.bitcast(spread, kind), ir.Constant(kind, [0] * size))
        found = b.select(condition, b.bitcast(yes.ir, kind), b.bitcast(no.ir, kind))
        return self._value(b.bitcast(found, self.vector))

    def store(self, pointer: Value, offset: Any, vector: Value) -> None:
        raw = self.builder.store(vector.ir, self._at(pointer, offset, self.vector))
        raw.align = self.bytes

    def prefetch(self, place: Value) -> None:
        """Ask for the line at an address, which need not be one of ours."""
        pointer = self.pointer(place, "b").ir
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, INT32, INT32, INT32])
        read, second_cache, data = (ir.Constant(INT32, number) for number in (0, 2, 1))
        self.builder.call(self._declared("llvm.prefetch.p0", kind), [pointer, read, second_cache, data])

    def first_lanes(self, count: Value) -> Value:
        """Which lanes are among the first `count`."""
        kind = ir.VectorType(INT32, self.lanes)
        numbers = ir.Constant(kind, list(range(self.lanes)))
        narrow = self.builder.trunc(count.ir, INT32)
        return self._value(self.builder.icmp_signed("<", numbers, self.splat(narrow, kind)))

    def store_part(self, pointer: Value, offset: Any, vector: Value, lanes: Value) -> None:
        """Only the chosen lanes to memory."""
        address = self._at(pointer, offset, self.vector)
        kind = ir.FunctionType(ir.VoidType(), [self.vector, address.type, INT32, lanes.ir.type])
        store = self._declared(f"llvm.masked.store.v{self.lanes}f{8 * self.bytes}.p0", kind)
        self.builder.call(store, [vector.ir, address, ir.Constant(INT32, self.bytes), lanes.ir])

    def copy(self, target: Value, source: Value, count: Value) -> None:
        """Copy bytes between places that do not overlap."""
        kind = ir.FunctionType(ir.VoidType(), [target.ir.type, source.ir.type, INT, BIT])
        copy = self._declared("llvm.memcpy.p0.p0.i64", kind)
        self.builder.call(copy, [target.ir, source.ir, count.ir, ir.Constant(BIT, 0)])

    def move(self, target: Value, source: Value, count: Value) -> None:
        """Copy bytes between places that may overlap."""
        kind = ir.FunctionType(ir.VoidType(), [target.ir.type, source.ir.type, INT, BIT])
        move = self._declared("llvm.memmove.p0.p0.i64", kind)
        self.builder.call(move, [target.ir, source.ir, count.ir, ir.Constant(BIT, 0)])

    def bytes_at(self, pointer: Value) -> Value:
        """A pointer as one to bytes."""
        return self._value(self.builder.bitcast(pointer.ir, BYTE.as_pointer()))

    def words_at(self, pointer: Value) -> Value:
        """A pointer as one to integers."""
        return self._value(self.builder.bitcast(pointer.ir, INT.as_pointer()))

    def _declared(self, name: str, kind: Any) -> Any:
        found = self.module.globals.get(name)
        return found if found is not None else ir.Function(self.module, kind, name=name)


class Tables:
    """Integers of the job, of an item or of a record by name."""

    def __init__(self, e: Emitter, pointer: Value) -> None:
        self.e = e
        self.pointer = pointer

    def __getitem__(self, place: int) -> Value:
        return self.e.scalar(self.pointer, int(place))
