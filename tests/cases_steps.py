"""Conformance cases of the explicit steps: every boundary condition, scheme, form, integrator, coefficient and mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support import Arrays, OpCase, random_array

from spectralops.boundary import Dirichlet, Hold, Neumann, Outflow, Periodic, Reflect, Robin
from spectralops.pde import Advection, Diffusion, Pointwise, SelfAdvection, Source

WALLS = {0: (Dirichlet(0.5), Neumann(-0.25)), 1: (Robin(0.5, 1.0), Reflect())}
# The nonlinear weights of weno5 multiply rounding errors of their noisy input by their condition number.
WENO = 32.0


def _inputs(shape: tuple[int, ...], **others: tuple[int, ...]) -> Callable[[np.random.Generator, str], Arrays]:
    """u, and positive coefficients or noise or a mask by the first letter of their name."""

    def make(rng: np.random.Generator, dtype: str) -> Arrays:
        arrays = {"u": random_array(rng, shape, dtype)}
        for name, size in others.items():
            if name == "mask":
                arrays[name] = rng.random(size) < 0.8
            elif name == "nu":
                arrays[name] = (0.1 + 0.4 * rng.random(size)).astype(arrays["u"].dtype)
            else:
                arrays[name] = random_array(rng, size, dtype)
        return arrays

    return make


def _case(op: str, name: str, inputs: Any, call: Callable[..., Any], growth: float = 8.0) -> OpCase:
    return OpCase(op, name, inputs, call, kind="stencil", growth=growth)


def _diffusion(name: str, inputs: Any, *args: Any, growth: float = 8.0, **options: Any) -> OpCase:
    def call(f: Any, a: Arrays, **tail: Any) -> Any:
        dx, dt = args[:2]
        nu = a["nu"] if "nu" in a else args[2]
        extra = {name: a[name] for name in ("mask", "source") if name in a}
        return f(a["u"], dx, dt, nu, **extra, **options, **tail)

    return _case("diffusion_step", name, inputs, call, growth)


def _velocity(a: Arrays, given: Any) -> Any:
    arrays = tuple(a[name] for name in ("v0", "v1", "v2") if name in a)
    return (arrays if len(arrays) > 1 else arrays[0]) if arrays else given


def _convection(name: str, inputs: Any, velocity: Any = None, growth: float = 8.0, **options: Any) -> OpCase:
    def call(f: Any, a: Arrays, **tail: Any) -> Any:
        extra = {name: a[name] for name in ("mask", "source") if name in a}
        step = {"dx": 0.5, "dt": 0.1, "on_unstable": "ignore"} | options
        return f(a["u"], _velocity(a, velocity), **step, **extra, **tail)

    return _case("convection_step", name, inputs, call, growth)


def _both(name: str, inputs: Any, velocity: Any = None, growth: float = 8.0, **options: Any) -> OpCase:
    def call(f: Any, a: Arrays, **tail: Any) -> Any:
        extra = {name: a[name] for name in ("mask", "source") if name in a}
        step = {"dx": 0.5, "dt": 0.1, "nu": a.get("nu", 0.4), "on_unstable": "ignore"} | options
        return f(a["u"], velocity=_velocity(a, velocity), **step, **extra, **tail)

    return _case("diffuse_convect_step", name, inputs, call, growth)


def _pde(name: str, inputs: Any, terms: Callable[[Arrays], Any], growth: float = 8.0, **options: Any) -> OpCase:
    def call(f: Any, a: Arrays, **tail: Any) -> Any:
        extra = {"mask": a["mask"]} if "mask" in a else {}
        step = {"dx": 0.5, "dt": 0.05, "on_unstable": "ignore"} | options
        return f(a["u"], terms=terms(a), **step, **extra, **tail)

    return _case("pde_step", name, inputs, call, growth)


def _logistic(u: Any) -> Any:
    return u - u * u


DIFFUSION = [
    _diffusion("1d", _inputs((7,)), 0.5, 0.1, 1.0),
    _diffusion("1d-one-cell", _inputs((1,)), 0.5, 0.1, 1.0),
    _diffusion("1d-two-cells-dirichlet", _inputs((2,)), 0.5, 0.1, 1.0, bc=Dirichlet(2.0)),
    _diffusion("2d-batch", _inputs((3, 6, 5)), (0.5, 0.7), 0.05, 1.0),
    _diffusion("2d-empty-batch", _inputs((0, 6, 5)), 0.5, 0.05, 1.0),
    _diffusion("2d-empty-axis", _inputs((2, 3, 0)), 0.5, 0.05, 1.0),
    _diffusion("2d-five-steps", _inputs((8, 6)), 0.5, 0.05, 1.0, steps=5, growth=16.0),
    _diffusion("3d", _inputs((4, 5, 6)), (1.0, 0.5, 2.0), 0.1, 0.7),
    _diffusion("axes-first-last", _inputs((5, 2, 6)), (0.5, 1.0), 0.1, 0.7, axes=(2, 0)),
    _diffusion("walls", _inputs((6, 7)), (0.5, 0.7), 0.05, 1.0, bc=WALLS, steps=2),
    _diffusion("hold-outflow", _inputs((6, 7)), 0.5, 0.05, 1.0, bc=(Hold(), (Outflow(), Hold()))),
    _diffusion("nu-per-instance", _inputs((3, 6, 5), nu=(3, 1, 1)), 0.7, 0.1, steps=2),
    _diffusion("nu-field", _inputs((6, 5), nu=(6, 5)), 0.7, 0.1, steps=2),
    _diffusion("nu-profile-walls", _inputs((6, 7), nu=(6, 1)), (0.7, 0.9), 0.1, bc=WALLS),
    _diffusion("mask", _inputs((7, 6), mask=(7, 6)), 0.5, 0.05, 1.0, bc=((Periodic(), Periodic()), Dirichlet(1.0))),
    _diffusion("mask-nu-field", _inputs((2, 7, 6), mask=(7, 6), nu=(2, 7, 6)), 0.7, 0.1, steps=3),
    _diffusion("source-field", _inputs((6, 5), source=(1, 5)), 0.7, 0.1, 1.0),
    _diffusion("source-number", _inputs((9,)), 0.7, 0.1, 1.0, source=2.0),
]
CONVECTION = [
    *(_convection(f"{s}-forwards", _inputs((9,)), 1.0, scheme=s) for s in ("upwind", "central", "upwind3")),
    *(_convection(f"{s}-backwards", _inputs((9,)), -1.0, scheme=s) for s in ("upwind", "central", "upwind3")),
    *(
        _convection(f"weno5-{form}-{v}", _inputs((9,)), v, WENO, scheme="weno5", form=form)
        for form in ("advective", "flux")
        for v in (1.0, -1.0)
    ),
    *(
        _convection(
            f"{s}-{form}-array", _inputs((7, 8), v0=(7, 8), v1=(7, 1)), None, WENO if s == "weno5" else 8.0,
            scheme=s, form=form, bc=(Periodic(), (Dirichlet(1.0), Outflow())),
        )
        for s in ("upwind", "central", "upwind3", "weno5")
        for form in ("advective", "flux")
    ),
    *(
        _convection(
            f"{s}-{form}-mask", _inputs((9, 8), mask=(9, 8)), (1.0, -0.5), WENO if s == "weno5" else 8.0,
            scheme=s, form=form, bc=(Reflect(), Periodic()),
        )
        for s in ("upwind", "central", "upwind3", "weno5")
        for form in ("advective", "flux")
    ),
    *(
        _convection(
            f"{s}-{form}-mask-array", _inputs((12,), mask=(12,), v0=(12,)), None, WENO if s == "weno5" else 8.0,
            scheme=s, form=form,
        )
        for s in ("upwind3", "weno5")
        for form in ("advective", "flux")
    ),
    _convection("weno5-one-cell", _inputs((1,)), 1.0, scheme="weno5"),
    _convection("upwind3-periodic-two-cells", _inputs((2,)), 1.0, scheme="upwind3"),
    _convection("3d-batch", _inputs((2, 3, 4, 5)), (1.0, -0.5, 0.25), dx=(0.5, 0.7, 0.9)),
    _convection("still-axis", _inputs((5, 6)), (0.0, 1.0), scheme="upwind3", steps=2),
    _convection("still-axis-mask", _inputs((5, 6), mask=(5, 6)), (0.0, 1.0)),
    _convection("axes-reversed", _inputs((5, 6), v0=(5, 6), v1=(5, 6)), axes=(1, 0), dx=(0.5, 0.7)),
    _convection("velocity-per-instance", _inputs((3, 8), v0=(3, 1)), axes=-1, steps=2),
    _convection("source", _inputs((8,), source=(8,)), 1.0, dx=(0.5,)),
    _convection("hold", _inputs((8,), v0=(8,)), bc=Hold(), steps=3, form="flux"),
]  # fmt: skip
BOTH = [
    _both("burgers-1d", _inputs((9,))),
    _both("burgers-hold", _inputs((9,)), bc=Hold(), steps=3),
    _both("burgers-2d", _inputs((2, 6, 7)), steps=2),
    _both("burgers-nu-per-instance", _inputs((3, 8), nu=(3, 1)), axes=-1),
    *(
        _both(f"burgers-{s}-{form}", _inputs((6, 7)), growth=WENO if s == "weno5" else 8.0, scheme=s, form=form)
        for s in ("upwind", "central", "upwind3", "weno5")
        for form in ("advective", "flux")
    ),
    *(
        _both(f"burgers-{s}-mask", _inputs((14,), mask=(14,)), growth=WENO, scheme=s, form=form)
        for s, form in (("upwind", "flux"), ("central", "advective"), ("upwind3", "flux"), ("weno5", "flux"))
    ),
    _both("wind-central", _inputs((6, 7)), (0.5, -1.0), steps=3),
    _both("wind-upwind3-walls", _inputs((6, 7)), (0.5, -1.0), scheme="upwind3", bc=WALLS),
    _both("wind-3d", _inputs((4, 5, 3)), (0.5, -1.0, 2.0), scheme="upwind"),
    _both("wind-array-nu-field", _inputs((6, 7), nu=(6, 7), v0=(6, 7), v1=(1, 7)), form="flux", bc=WALLS),
    _both("wind-equal-weight", _inputs((8,)), 1.6, nu=0.4),
    _both("all", _inputs((6, 7), nu=(6, 7), v0=(6, 7), v1=(6, 7), source=(6, 7), mask=(6, 7)), steps=2),
]
PDE = [
    *(
        _pde(f"{i}-diffusion-reaction", _inputs((6, 7)), lambda a: [Diffusion(0.5), Pointwise(_logistic)],
             integrator=i, bc=WALLS, steps=2)
        for i in ("euler", "rk2", "ssprk3", "rk4")
    ),
    *(
        _pde(f"{i}-hold-mask", _inputs((10,), mask=(10,)), lambda a: [Diffusion(0.5), SelfAdvection("upwind")],
             integrator=i, bc=Hold(), steps=2)
        for i in ("rk2", "ssprk3", "rk4")
    ),
    _pde("ssprk3-weno5", _inputs((9,)), lambda a: Advection(1.0, "weno5", "flux"), WENO, integrator="ssprk3"),
    _pde("rk4-central-3d", _inputs((3, 4, 5)), lambda a: Advection((1.0, -0.5, 0.25), "central"), integrator="rk4"),
    _pde("rk4-source", _inputs((3, 8), source=(3, 1)), lambda a: [Source(a["source"]), Source(1.0)], integrator="rk4"),
    _pde("two-diffusions", _inputs((8,), nu=(8,)), lambda a: [Diffusion(a["nu"]), Diffusion(0.2)], integrator="rk2"),
    _pde("number-and-instance-diffusion", _inputs((3, 8), nu=(3, 1)),
         lambda a: (Diffusion(0.2), Diffusion(a["nu"]), Advection(0.5, "central")), axes=1),
    _pde("zero-source", _inputs((8,)), lambda a: [Source(0.0), Diffusion(0.0)]),
    _pde("pointwise-number", _inputs((8,)), lambda a: [Pointwise(_unit)], integrator="ssprk3"),
    *(
        _pde(f"wide-and-narrow-{s}", _inputs((9,), v0=(9,)),
             lambda a, s=s: [SelfAdvection(s, "flux"), Advection(a["v0"], s, "flux"), Advection(0.5, "weno5")], WENO,
             bc=((Hold(), Reflect()),))
        for s in ("central", "upwind")
    ),
    _pde("two-winds", _inputs((8,), v0=(8,)), lambda a: [Advection(a["v0"]), Advection(-0.5, "upwind3", "flux")]),
]  # fmt: skip


def _unit(u: Any) -> float:
    return 1.0


CASES = [*DIFFUSION, *CONVECTION, *BOTH, *PDE]
