# llvmlite carries no types that a strict check could use.
# mypy: disable-error-code="no-untyped-call, no-any-return"
"""The plain loops of kernels, from Python's syntax to LLVM instructions.

A kernel is a Python function of pointers and integers: loops, branches and index arithmetic around the operations of
:mod:`emit`. Its syntax tree is walked once, and each expression becomes instructions, or a Python constant where all of
it is known: a branch on a constant leaves one side. Functions that it calls are compiled into it.

A value is a constant, an LLVM value (64-bit integer, truth value, number or pointer) or a tuple of values. Arithmetic
is that of Python: integers are divided downwards, ``and`` and ``or`` stop early. Where kinds mix, numbers are float64,
as literals are. A name that is assigned once is its value and known in the block where it is assigned; any other is a
place in memory, of the kind of its first value, which LLVM turns into registers. A loop's step that is no constant is
taken to be positive; outside of tests, ``and`` and ``or`` are of truth values alone.
"""

from __future__ import annotations

import ast
import builtins
import operator
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any

from llvmlite import ir

from spectralops._cpu.vector.emit import INT, TRUTH, Operation, common, converted, is_whole, loop, raw, slot

__all__ = ["module_of"]

BINARY: dict[type[ast.operator], tuple[Callable[[Any, Any], Any], str, str]] = {
    ast.Add: (operator.add, "add", "fadd"),
    ast.Sub: (operator.sub, "sub", "fsub"),
    ast.Mult: (operator.mul, "mul", "fmul"),
    ast.Div: (operator.truediv, "", "fdiv"),
    ast.FloorDiv: (operator.floordiv, "floordiv", ""),
    ast.Mod: (operator.mod, "mod", ""),
}
COMPARISON: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], str]] = {
    ast.Eq: (operator.eq, "=="),
    ast.NotEq: (operator.ne, "!="),
    ast.Lt: (operator.lt, "<"),
    ast.LtE: (operator.le, "<="),
    ast.Gt: (operator.gt, ">"),
    ast.GtE: (operator.ge, ">="),
}


def module_of(name: str, function: Any, kinds: list[Any]) -> Any:
    """A module whose one function has this name, arguments of these LLVM types, and does what `function` does."""
    module = ir.Module(name)
    compiled = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    builder = ir.IRBuilder(compiled.append_basic_block())
    body = builder.append_basic_block()
    builder.branch(body)  # the first block holds what lies in memory
    builder.position_at_end(body)
    _call(builder, function, list(compiled.args))
    builder.ret_void()
    return module


def _known(*values: Any) -> bool:
    return not any(isinstance(value, ir.Value) for value in values)


def _number(builder: Any, value: Any) -> Any:
    """What counts as an integer in arithmetic as one."""
    return converted(builder, value, INT) if raw(value).type == TRUTH else value


def _call(builder: Any, function: Any, arguments: list[Any]) -> Any:
    if isinstance(function, Operation):
        return function.emit(builder, *arguments)
    if isinstance(function, FunctionType):
        return _Body(builder, function).run(arguments)
    first, *others = (_number(builder, argument) for argument in arguments)
    if function is abs:
        return builder.select(_compared(builder, ast.Lt, first, 0), _negated(builder, first), first)
    order = {min: ast.Lt, max: ast.Gt}[function]
    for other in others:
        kind = common(first, other)
        a, b = (converted(builder, value, kind) for value in (other, first))
        first = builder.select(_compared(builder, order, a, b), a, b)
    return first


def _binary(builder: Any, kind: type[ast.operator], a: Any, b: Any) -> Any:
    of_constants, on_integers, on_floats = BINARY[kind]
    if _known(a, b):
        return of_constants(a, b)
    a, b = _number(builder, a), _number(builder, b)
    both = common(a, b, whole=bool(on_integers))
    a, b = converted(builder, a, both), converted(builder, b, both)
    if not is_whole(both):
        return getattr(builder, on_floats)(a, b)
    if kind not in (ast.FloorDiv, ast.Mod):
        return getattr(builder, on_integers)(a, b)
    rest, zero = builder.srem(a, b), raw(0)
    # LLVM cuts off towards zero.
    beyond = builder.and_(builder.icmp_signed("!=", rest, zero), builder.icmp_signed("<", builder.xor(rest, b), zero))
    if kind is ast.Mod:
        return builder.select(beyond, builder.add(rest, b), rest)
    return builder.sub(builder.sdiv(a, b), builder.zext(beyond, INT))


def _negated(builder: Any, value: Any) -> Any:
    if _known(value):
        return -value
    value = _number(builder, value)
    return builder.neg(value) if is_whole(value.type) else builder.fneg(value)


def _compared(builder: Any, kind: type[ast.cmpop], a: Any, b: Any) -> Any:
    of_constants, sign = COMPARISON[kind]
    if _known(a, b):
        return of_constants(a, b)
    a, b = _number(builder, a), _number(builder, b)
    both = common(a, b)
    a, b = converted(builder, a, both), converted(builder, b, both)
    if is_whole(both):
        return builder.icmp_signed(sign, a, b)
    return (builder.fcmp_unordered if kind is ast.NotEq else builder.fcmp_ordered)(sign, a, b)


def _truth(builder: Any, value: Any) -> Any:
    """A truth value, or a constant one."""
    if _known(value):
        return bool(value)
    return value if value.type == TRUTH else _compared(builder, ast.NotEq, value, 0)


def _either(builder: Any, test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """The value of one of two expressions, of which only that one is computed."""
    if _known(test):
        return yes() if test else no()
    ways = [builder.append_basic_block() for _ in range(2)]
    end = builder.append_basic_block()
    builder.cbranch(test, *ways)
    values, ends = [], []
    for way, expression in zip(ways, (yes, no), strict=True):
        builder.position_at_end(way)
        values.append(expression())
        ends.append(builder.block)
    several = isinstance(values[0], tuple)
    pairs = list(zip(*values, strict=True)) if several else [tuple(values)]
    chosen = []
    for pair in pairs:
        builder.position_at_end(end)
        chosen.append(builder.phi(common(*pair)))
        for value, last in zip(pair, ends, strict=True):
            builder.position_at_end(last)
            chosen[-1].add_incoming(converted(builder, value, chosen[-1].type), last)
    for last in ends:
        builder.position_at_end(last)
        builder.branch(end)
    builder.position_at_end(end)
    return tuple(chosen) if several else chosen[0]


@lru_cache(maxsize=64)
def _functions(file: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """All functions of a file by name and line."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {(node.name, node.lineno): node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@lru_cache(maxsize=256)
def _assignments(function: ast.FunctionDef) -> Counter[str]:
    """How often the code assigns each name; parameters count as one."""
    stored = (n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return Counter([*stored, *(argument.arg for argument in function.args.args)])


def _names(function: FunctionType) -> dict[str, Any]:
    """What a function sees from outside."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**vars(builtins), **function.__globals__, **{name: cell.cell_contents for name, cell in cells}}


class _Body:
    """One function's code, where it is called."""

    def __init__(self, builder: Any, function: FunctionType) -> None:
        self.builder = builder
        file = sys.modules[function.__module__].__file__ or ""
        self.tree = _functions(file)[function.__name__, function.__code__.co_firstlineno]
        self.outside = _names(function)
        self.own = _assignments(self.tree)
        self.changing = {name for name, count in self.own.items() if count > 1}
        self.values: dict[str, Any] = {}
        self.places: dict[str, Any] = {}
        self.returned: tuple[Any, Any] | None = None  # where it goes on after an early return, and the value's place

    def run(self, arguments: list[Any]) -> Any:
        for parameter, argument in zip(self.tree.args.args, arguments, strict=True):
            self.assign(parameter.arg, argument)
        *body, last = self.tree.body
        self.statements(body)
        if isinstance(last, ast.Return) and self.returned is None:
            return self.value(last.value)
        self.statement(last)
        if self.returned is None:
            return None
        end, place = self.returned
        self.builder.position_at_end(end)
        return self.builder.load(place)

    def assign(self, name: str, value: Any) -> None:
        if name not in self.changing:
            self.values[name] = value
            return
        if name not in self.places:
            self.places[name] = slot(self.builder, raw(value).type)
        self.store(value, self.places[name])

    def store(self, value: Any, place: Any) -> None:
        kind, own = place.type.pointee, raw(value).type
        if own != kind and not (is_whole(own) and is_whole(kind)):
            raise TypeError(f"{self.tree.name}: a name is {kind} first and {own} later")
        self.builder.store(converted(self.builder, value, kind), place)

    def statements(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            if not self.builder.block.is_terminated:
                self.statement(statement)

    def block(self, body: Iterable[ast.stmt]) -> None:
        """What may run never or often: its values are not those behind it."""
        values = dict(self.values)
        self.statements(body)
        self.values = values

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assign(name, self.value(value))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                for target, each in zip(targets, self.value(value), strict=True):
                    assert isinstance(target, ast.Name)
                    self.assign(target.id, each)
            case ast.AugAssign(target=ast.Name(id=name), op=sign, value=value):
                old = self.builder.load(self.places[name])
                self.assign(name, _binary(self.builder, type(sign), old, self.value(value)))
            case ast.Expr(value=value):
                self.value(value)
            case ast.If(test=test, body=body, orelse=other):
                self.branch(self.truth(test), body, other)
            case ast.While(test=test, body=body, orelse=[]):
                self.repeat(test, body)
            case ast.For(
                target=ast.Name(id=name),
                iter=ast.Call(func=ast.Name(id="range"), args=limits, keywords=[]),
                body=body,
                orelse=[],
            ):
                values = dict(self.values)
                for index in self.counted([self.value(limit) for limit in limits]):
                    self.assign(name, index)
                    self.statements(body)
                self.values = values
            case ast.Return(value=value):
                self.leave(self.value(value))
            case _:
                raise NotImplementedError(ast.unparse(node))

    def leave(self, value: Any) -> None:
        if self.returned is None:
            self.returned = self.builder.append_basic_block(), slot(self.builder, raw(value).type)
        end, place = self.returned
        self.store(value, place)
        self.builder.branch(end)

    def branch(self, test: Any, body: list[ast.stmt], other: list[ast.stmt]) -> None:
        if _known(test):
            self.statements(body if test else other)
            return
        ways = [self.builder.append_basic_block() for _ in range(2)]
        end = self.builder.append_basic_block()
        self.builder.cbranch(test, *ways)
        for way, code in zip(ways, (body, other), strict=True):
            self.builder.position_at_end(way)
            self.block(code)
            if not self.builder.block.is_terminated:
                self.builder.branch(end)
        self.builder.position_at_end(end)

    def repeat(self, test: ast.expr, body: list[ast.stmt]) -> None:
        start, inside, end = (self.builder.append_basic_block() for _ in range(3))
        self.builder.branch(start)
        self.builder.position_at_end(start)
        self.builder.cbranch(raw(self.truth(test)), inside, end)
        self.builder.position_at_end(inside)
        self.block(body)
        self.builder.branch(start)
        self.builder.position_at_end(end)

    def counted(self, limits: list[Any]) -> Iterator[Any]:
        """The index, once: the body of a loop over range(*limits)."""
        start, stop, step = (0, *limits, 1) if len(limits) == 1 else (*limits, 1)[:3]
        down = _known(step) and step < 0
        first, last, by = (converted(self.builder, limit, INT) for limit in (start, stop, step))
        with loop(self.builder, first, last, by, down) as index:
            yield index

    def value(self, node: ast.expr | None) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                if name in self.places:
                    return self.builder.load(self.places[name])
                if name in self.own and name not in self.values:
                    raise NameError(f"{self.tree.name}: {name} is not assigned here")
                return self.values[name] if name in self.values else self.outside[name]
            case ast.Attribute(value=value, attr=name):
                return getattr(self.value(value), name)
            case ast.Tuple(elts=elements):
                return tuple(self.value(element) for element in elements)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in BINARY:
                return _binary(self.builder, type(sign), self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _negated(self.builder, self.value(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth = self.truth(operand)
                return not truth if _known(truth) else self.builder.not_(truth)
            case ast.Compare(left=left, ops=[sign], comparators=[right]):
                return _compared(self.builder, type(sign), self.value(left), self.value(right))
            case ast.BoolOp(op=sign, values=values):
                return self.joined(isinstance(sign, ast.And), values, self.true_or_false)
            case ast.IfExp(test=test, body=yes, orelse=no):
                return _either(self.builder, self.truth(test), lambda: self.value(yes), lambda: self.value(no))
            case ast.Call(func=function, args=arguments, keywords=[]):
                return _call(self.builder, self.value(function), [self.value(argument) for argument in arguments])
            case _:
                raise NotImplementedError(ast.unparse(node) if node else "return")

    def truth(self, node: ast.expr) -> Any:
        """The truth value of a test."""
        if isinstance(node, ast.BoolOp):
            return self.joined(isinstance(node.op, ast.And), node.values, self.truth)
        return _truth(self.builder, self.value(node))

    def true_or_false(self, node: ast.expr) -> Any:
        """A truth value: of others, ``and`` and ``or`` would be one."""
        value = self.value(node)
        if raw(value).type != TRUTH:
            raise TypeError(f"{self.tree.name}: {ast.unparse(node)} is no truth value")
        return value

    def joined(self, both: bool, nodes: list[ast.expr], read: Callable[[ast.expr], Any]) -> Any:
        """``and`` or ``or`` of truth values."""
        first = read(nodes[0])
        if len(nodes) == 1:
            return first

        def others() -> Any:
            return self.joined(both, nodes[1:], read)

        return _either(self.builder, first, *((others, lambda: False) if both else (lambda: True, others)))
