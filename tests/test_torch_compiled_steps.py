"""Steps in compiled code: whole graphs, dynamic shapes, export, the operator's own checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import spectralops as so  # noqa: E402
from spectralops import torch as st  # noqa: E402
from spectralops.torch import _compiled_steps  # noqa: E402

WALLS = (so.Dirichlet(0.3), so.Robin(0.5, 0.2))


def make(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "diffusion": lambda u, nu, v: st.diffusion_step(u, 1.5, 0.1, nu, steps=3, bc=WALLS, source=v),
    "constant diffusion": lambda u, nu, v: st.diffusion_step(u, (1.5, 1.2), 0.1, 0.3, steps=5) * nu * v,
    "upwind3": lambda u, nu, v: st.convection_step(u, (v, -v), 1.0, 0.1, scheme="upwind3", source=nu, steps=2),
    "masked Burgers": lambda u, nu, v: st.diffuse_convect_step(u, 1.5, 0.1, nu, source=v, mask=v > -0.8),
    "rk4": lambda u, nu, v: st.pde_step(
        u, 1.5, 0.1, [so.Diffusion(nu), so.Advection((v, 0.3), form="flux"), so.Pointwise(torch.sin), so.Source(v)],
        integrator="rk4", steps=2, bc={-1: so.Hold(), -2: so.Periodic()},
    ),
    "scalar tensor": lambda u, nu, v: st.diffusion_step(u, 1.5, 0.1, nu.mean(), axes=(0, -1), workers=1) * v,
}  # fmt: skip


def gradients(function: Callable[..., Any], inputs: list[Any]) -> tuple[Any, Any]:
    y = function(*inputs)
    return y.detach(), torch.autograd.grad(y.square().sum(), inputs, allow_unused=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch_steps_compile_whole_with_dynamic_shapes(name: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(FUNCTIONS[name], fullgraph=True, dynamic=True, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for n in (5, 7):
            inputs = [x.requires_grad_() for x in (make(2, n, 6), make(n, 6).abs(), make(n, 6, seed=1))]
            torch.testing.assert_close(gradients(compiled, inputs), gradients(FUNCTIONS[name], inputs))


def test_torch_steps_compile_once_for_every_number_of_steps() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda u, n: st.diffusion_step(u, 1.0, 0.2, 0.3, steps=n), fullgraph=True, backend="eager")
    u = make(5, 6)
    compiled(u, 2), compiled(u, 3)  # the first makes a constant of the number, the second takes that back
    with torch._dynamo.config.patch(error_on_recompile=True):
        for n in (4, 9):
            torch.testing.assert_close(compiled(u, n), so.diffusion_step(u, 1.0, 0.2, 0.3, steps=n))


def test_torch_steps_compile_for_each_time_step() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda u, dt: st.diffusion_step(u, 1.0, dt, 0.3), fullgraph=True, backend="eager")
    u = make(5, 6)
    for dt in (0.1, 0.2, 0.05):
        torch.testing.assert_close(compiled(u, dt), so.diffusion_step(u, 1.0, dt, 0.3))


class Model(torch.nn.Module):
    def forward(self, u: Any, nu: Any) -> Any:
        return st.diffuse_convect_step(u, 1.0, 0.1, nu, velocity=(0.1, -0.2), bc=so.Outflow(), steps=3).sin()


def test_torch_steps_export_with_dynamic_shapes(tmp_path: Any) -> None:
    u, nu = make(2, 5, 6), make(5, 6).abs()
    rows = torch.export.Dim("rows", min=3, max=64)
    program = torch.export.export(Model(), (u, nu), dynamic_shapes=({1: rows}, {0: rows}))
    other = make(2, 9, 6), make(9, 6).abs()
    torch.testing.assert_close(program.module()(*other), Model()(*other))
    torch.export.save(program, tmp_path / "model.pt2")
    torch.testing.assert_close(torch.export.load(tmp_path / "model.pt2").module()(*other), Model()(*other))


@pytest.mark.parametrize("text", ["diffusion", "velocity"])
def test_torch_steps_operator_passes_its_checks(text: str) -> None:
    u, nu = make(2, 5, 6).requires_grad_(), make(5, 6).abs().requires_grad_()
    arguments = {
        "diffusion": ("diffusion_step", 1.5, (nu,), {"bc": so.Reflect()}, "euler"),
        "velocity": ("convection_step", (1.0, 2.0), ((0.1, nu), "upwind", "flux"), {}, "euler"),
    }[text]
    arrays: list[Any] = []
    operator = torch.ops.spectralops.steps.default
    torch.library.opcheck(operator, (u, arrays, 0.1, 3, _compiled_steps.text_of(arguments, arrays)))


@pytest.mark.parametrize(
    "value",
    [
        (so.Dirichlet(-0.5), {-1: so.Periodic(), 0: (so.Robin(1.0, 0.1), so.Hold())}, None, True, "a'b", 3),
        (1e-300, 0.1 + 0.2, -math.inf, -7, ()),
        (so.Diffusion(0.1), so.Advection((0.1, 2.0), "weno5", "flux"), so.SelfAdvection("upwind"), so.Source(2.0)),
    ],
    ids=["conditions", "numbers", "terms"],
)
def test_torch_text_of_arguments_is_read_back(value: Any) -> None:
    assert _compiled_steps._read(_compiled_steps.text_of(value, [])) == value


def test_torch_text_of_arguments_makes_nothing_else() -> None:
    with pytest.raises(KeyError):
        _compiled_steps._read("exit(0)")
    with pytest.raises(ValueError, match="malformed"):
        _compiled_steps._read("().__class__")


def test_torch_functions_of_pointwise_terms_belong_to_this_process() -> None:
    """An exported text must not find another function, nor does one that is traced again get another name."""
    text = _compiled_steps.text_of(so.Pointwise(math.sin), [])
    assert _compiled_steps.text_of(so.Pointwise(math.sin), []) == text
    assert _compiled_steps.text_of(so.Pointwise(math.cos), []) != text
    assert _compiled_steps._read(text).function is math.sin
    with pytest.raises(so.UnsupportedError, match=r"^pde_step: the function of Pointwise is one of another"):
        _compiled_steps._read(text.replace(_compiled_steps._PROCESS, "0"))


def test_torch_steps_refuse_what_compiled_code_cannot_hold() -> None:
    message = "^steps: an argument is a ndarray, but must be one that compiled code can hold$"
    with pytest.raises(TypeError, match=message):
        _compiled_steps.text_of(make(3).numpy(), [])


def test_torch_compiled_steps_say_what_is_wrong_when_they_run() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda u: st.diffusion_step(u, 1.0, 0.9, 0.3), backend="eager")
    with pytest.raises(so.StabilityError, match=r"diffusion_step: dt is 0\.9"):
        compiled(make(5, 6))
