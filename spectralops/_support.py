"""Which backend runs an operator, and where its executor lives.

:data:`SUPPORT` is the single statement of what is supported: errors, the documentation's table and the tests read it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol, TypeVar

from spectralops import _arrays, _checks
from spectralops._checks import COMPLEXES, FLOATS
from spectralops._sixteen_bits import HALVES
from spectralops.errors import UnsupportedError

__all__ = [
    "BACKENDS", "SUPPORT", "Plan", "Support",
    "algorithm", "executor", "passed", "passed_over", "refusal", "select", "settled",
]  # fmt: skip

# Device kind of each backend, the preferred ones first.
#   cpu        tuned executors in _cpu/
#   numpy      plain pipelines in _plain/: what a user would write with NumPy and SciPy, the baseline
#   cuda       tuned kernels in _cuda/
#   cupy       the modules of numpy, on CuPy and cupyx.scipy
#   reference  slow, obvious float64 in _reference/: the meaning of each operator
BACKENDS: dict[str, str] = {"cpu": "cpu", "numpy": "cpu", "cuda": "cuda", "cupy": "cuda", "reference": "cpu"}
# Who takes the plans that the kernels of a backend do not cover.
INSTEAD = {"cuda": "cupy"}

REALS = FLOATS + HALVES
ALL = FLOATS + COMPLEXES + HALVES

# A `stored` of executors that take every operand as it is stored.
EACH = -1


@dataclass(frozen=True, slots=True)
class Support:
    """One row of the support table: where an executor lives, its dtypes, and its limits in words.

    `stored` says of how many operands, the first ones, it takes the values as they are stored in 16 bits: where all of
    them have the same such dtype, and so has the result, which is then written in 16 bits too, or there are no other
    operands. All others are cast to the dtype of the arithmetic. With ``EACH`` it takes every operand and writes the
    result so, whatever the others are.
    """

    module: str
    dtypes: tuple[str, ...]
    limits: str = ""
    stored: int = 0


def _rows(operators: tuple[str, ...], dtypes: tuple[str, ...], **modules: str) -> dict[tuple[str, str], Support]:
    return {
        (op, backend): Support(f"spectralops.{module}", dtypes)
        for op in operators
        for backend, module in modules.items()
    }


SPECTRAL = ("spectral_filter", "spectral_conv", "spectral_conv_weight_gradient", "fourier_resample")
CONVOLUTION = ("fft_conv2d", "convolve")
STEPS = ("diffusion_step", "convection_step", "diffuse_convect_step", "pde_step")
STENCILS = ("gradient", "divergence", "laplacian")

COMPILED_STEPS = "pointwise terms only if compiled by numba"

DEVICE_STEPS = "all but functions of the caller's and the spectral method, which run on cupy"

DEVICE_SMOOTHING = "one to three axes; others run on cupy"

DEVICE_TRANSFORMS = "one to three axes, lengths that fit a block; others run on cupy"

DEVICE_CONVOLUTIONS = (
    "direct sums along one to three axes; transforms along one or two where a tile of the kernel's size fits a block, "
    "or of plain real images without channels, and along three; others run on cupy"
)

SUPPORT: dict[tuple[str, str], Support] = {
    ("spectral_filter", "cuda"): Support("spectralops._cuda.spectral_filter", ALL, DEVICE_TRANSFORMS, stored=1),
    ("spectral_conv", "cuda"): Support("spectralops._cuda.spectral_conv", ALL, DEVICE_TRANSFORMS, stored=1),
    ("spectral_conv_weight_gradient", "cuda"): Support(
        "spectralops._cuda.spectral_gradient", ALL, DEVICE_TRANSFORMS, stored=2
    ),
    **{
        (op, "cuda"): Support("spectralops._cuda.convolution", ALL, DEVICE_CONVOLUTIONS, stored=2) for op in CONVOLUTION
    },
    **_rows(
        SPECTRAL,
        ALL,
        cpu="_cpu.spectral",
        numpy="_plain.spectral",
        cupy="_plain.spectral",
        reference="_reference.spectral",
    ),
    **_rows(
        CONVOLUTION,
        ALL,
        cpu="_cpu.convolution",
        numpy="_plain.convolution",
        cupy="_plain.convolution",
        reference="_reference.convolution",
    ),
    **{(op, "cpu"): Support("spectralops._cpu.steps", REALS, COMPILED_STEPS) for op in STEPS},
    **{(op, "cuda"): Support("spectralops._cuda.steps", REALS, DEVICE_STEPS, stored=EACH) for op in STEPS},
    **_rows(STEPS, REALS, numpy="_plain.steps", cupy="_plain.steps", reference="_reference.steps"),
    **_rows(STENCILS, ALL, numpy="_plain.stencils", cupy="_plain.stencils", reference="_reference.stencils"),
    ("diffusion_filter", "cuda"): Support("spectralops._cuda.diffusion_filter", REALS, DEVICE_SMOOTHING),
    **_rows(
        ("diffusion_filter",),
        REALS,
        cpu="_cpu.diffusion_filter",
        numpy="_plain.diffusion_filter",
        cupy="_plain.diffusion_filter",
        reference="_reference.diffusion_filter",
    ),
}


class Plan(Protocol):
    """What execution needs of a plan; every plan class has these."""

    @property
    def op(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def operands(self) -> tuple[_arrays.Operand, ...]:
        """The array arguments, in call order."""
        ...

    @property
    def out_shape(self) -> tuple[int, ...]: ...
    @property
    def out_dtype(self) -> str: ...
    @property
    def bytes_moved(self) -> int: ...
    @property
    def flops(self) -> int: ...
    @property
    def in_place(self) -> bool:
        """Whether `out` may overlap the first operand."""
        ...


def select(op: str, dtype: str, device_kind: str, backend: str | None) -> str:
    """The backend that runs `op` on arrays of `dtype`: the caller's choice, or the first that supports it.

    Raises
    ------
    ValueError
        If `backend` is not the name of one.
    TypeError
        If `backend` runs on another kind of device than the arrays lie on.
    UnsupportedError
        If no backend, or not the chosen one, supports the operator for this dtype.
    """
    if backend is not None:
        _checks.choice(op, "backend", backend, tuple(BACKENDS))
        if BACKENDS[backend] != device_kind:
            raise TypeError(
                f"{op}: backend is {backend!r}, which runs on {BACKENDS[backend]} arrays, "
                f"but must suit arrays on {device_kind}; "
                "move them explicitly"
            )
    able = [name for name in BACKENDS if (op, name) in SUPPORT and dtype in SUPPORT[op, name].dtypes]
    chosen = backend or next((name for name in able if BACKENDS[name] == device_kind), None)
    if chosen is None or chosen not in able:
        what = f"backend {chosen!r}" if chosen else f"{device_kind} arrays"
        raise UnsupportedError(
            f"{op}: dtype is {dtype}, but must be one that {what} supports; it runs on {_listed(able)}"
        )
    return chosen


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) if names else "no backend"


P = TypeVar("P", bound=Plan)


@lru_cache(maxsize=256)
def executor(op: str, backend: str) -> Callable[..., None]:
    """The function that runs `op` on `backend`, loaded on first use."""
    function: Callable[..., None] = getattr(importlib.import_module(SUPPORT[op, backend].module), op)
    return function


def algorithm(plan: Plan) -> str:
    """How the plan's executor works, for `explain`: asked of its module, which decides at each call."""
    words: str = importlib.import_module(SUPPORT[plan.op, plan.backend].module).algorithm(plan)
    return words


def refusal(plan: Plan) -> str:
    """Why the plan's backend does not run it, in words; nothing where it does."""
    module = importlib.import_module(SUPPORT[plan.op, plan.backend].module)
    words: str = module.refusal(plan) if hasattr(module, "refusal") else ""
    return words


def settled(plan: P, asked: str | None) -> P:
    """The plan, on another backend for the same arrays where its own does not cover it and was not `asked` for.

    Raises
    ------
    UnsupportedError
        If it was.
    """
    other = INSTEAD.get(plan.backend)
    reason = refusal(plan) if other else ""
    if not other or not reason:
        return plan
    if asked == plan.backend:
        raise UnsupportedError(f"{plan.op}: backend is {asked!r}, but must be {other!r} for these arguments: {reason}")
    return replace(plan, backend=other)  # type: ignore[type-var]


def passed_over(plan: Plan) -> str:
    """Why the kernels that would run first do not run this plan, for `explain`; nothing where there are none."""
    for backend, other in INSTEAD.items():
        if plan.backend == other and (plan.op, backend) in SUPPORT:
            return refusal(replace(plan, backend=backend))  # type: ignore[type-var]
    return ""


def passed(plan: Plan) -> tuple[list[str], str]:
    """The dtypes in which a plan's executor is handed its arrays and gives its result, where 16 bits are stored."""
    operands, out = plan.operands, plan.out_dtype
    first = operands[0].spec.dtype
    count = SUPPORT[plan.op, plan.backend].stored
    if count == EACH:
        return [each.spec.dtype if each.spec.dtype in HALVES else each.compute for each in operands], out
    count = count if first in HALVES else 0
    same = all((each.spec.dtype, each.compute) == (first, "float32") for each in operands[:count])
    if not count or not same or (out != first and count < len(operands)):
        return [each.compute for each in operands], _checks.compute_dtype(out)
    dtypes = [first] * count + [each.compute for each in operands[count:]]
    return dtypes, out if out == first else _checks.compute_dtype(out)
