"""Steps with gradients: the replay against the fused steps, gradients by differences and by autograd."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import spectralops as so  # noqa: E402
from spectralops import _dispatch  # noqa: E402
from spectralops import torch as st  # noqa: E402
from spectralops.torch import _replay  # noqa: E402

# PyTorch's own forward mode still uses its deprecated compiler.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")


def make(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


U, V, NU, S = make(2, 5, 6), make(5, 6, seed=1), make(5, 6, seed=2).abs(), make(5, 6, seed=3)
MASK = make(5, 6, seed=4) > -0.8
WALLS = (so.Dirichlet(0.3), so.Robin(0.5, 0.2)), (so.Neumann(0.1), so.Outflow())
PER_INSTANCE = torch.tensor([0.4, 0.9], dtype=torch.float64).reshape(2, 1, 1)
SCHEMES = ["central", "upwind", "upwind3", "weno5"]
ADVECTION = functools.partial(so.pde_step, dx=(0.5, 0.7), dt=0.02, on_unstable="ignore")


def terms(kind: str, scheme: str, form: str) -> list[Any]:
    wind: dict[str, Any] = {
        "number": so.Advection((0.7, -0.4), scheme, form),
        "field": so.Advection((V, -V), scheme, form),
        "itself": so.SelfAdvection(scheme, form),
    }
    return [wind[kind]]


@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
@pytest.mark.parametrize("kind", ["number", "field", "itself"])
@pytest.mark.parametrize("form", ["advective", "flux"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_torch_replay_of_advection_is_the_step(scheme: str, form: str, kind: str, masked: bool) -> None:
    for bc in (so.Periodic(), WALLS):
        options: dict[str, Any] = {"bc": bc, "steps": 2, "mask": MASK if masked else None, "on_unstable": "ignore"}
        expected = so.pde_step(U, (0.5, 0.7), 0.02, terms(kind, scheme, form), **options)
        u = U.clone().requires_grad_()
        with torch.autograd.forward_ad.dual_level():  # the replay runs here
            y = st.pde_step(u, (0.5, 0.7), 0.02, terms(kind, scheme, form), **options)
        torch.testing.assert_close(y.detach(), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "step",
    [
        lambda u, k: st.diffusion_step(u, 1.5, 0.1, k, steps=2, mask=MASK),
        lambda u, k: st.convection_step(
            u, (k, k), 1.5, 0.1, scheme="weno5", form="flux", mask=MASK, on_unstable="ignore"
        ),
        lambda u, k: st.convection_step(u, (k, k), 1.5, 0.1, mask=MASK),
    ],
    ids=["diffusion", "flux", "advective"],
)
def test_torch_coefficients_that_are_nan_on_land_leave_gradients_alone(step: Any) -> None:
    gradients = []
    for land in (0.5, float("nan")):
        u, k = U.clone().requires_grad_(), torch.where(MASK, NU, land).requires_grad_()
        gradients.append(torch.autograd.grad((step(u, k)[..., MASK] ** 2).sum(), (u, k)))
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.parametrize("integrator", ["euler", "rk2", "ssprk3", "rk4"])
@pytest.mark.parametrize("bc", [so.Periodic(), WALLS, so.Hold(), so.Reflect()], ids=lambda bc: type(bc).__name__)
def test_torch_replay_of_integrators_is_the_step(integrator: str, bc: Any) -> None:
    parts = [so.Diffusion(NU), so.SelfAdvection("upwind3"), so.Source(S), so.Pointwise(lambda u: -u * u)]
    options: dict[str, Any] = {"bc": bc, "integrator": integrator, "steps": 3, "on_unstable": "ignore"}
    with torch.autograd.forward_ad.dual_level():
        y = st.pde_step(U.clone().requires_grad_(), 0.8, 0.02, parts, **options)
    torch.testing.assert_close(y.detach(), so.pde_step(U, 0.8, 0.02, parts, **options), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("nu", [0.3, PER_INSTANCE, NU], ids=["number", "per instance", "field"])
@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
def test_torch_replay_of_diffusion_is_the_step(nu: Any, masked: bool) -> None:
    options: dict[str, Any] = {"steps": 4, "bc": WALLS, "mask": MASK if masked else None, "source": S}
    with torch.autograd.forward_ad.dual_level():
        y = st.diffusion_step(U.clone().requires_grad_(), 1.5, 0.1, nu, **options)
    torch.testing.assert_close(y.detach(), so.diffusion_step(U, 1.5, 0.1, nu, **options), rtol=1e-12, atol=1e-13)


CHECKED: list[Any] = [
    pytest.param(lambda u, v, nu, s: st.diffusion_step(u, 1.5, 0.1, nu, source=s, steps=5, bc=WALLS), id="diffusion"),
    pytest.param(
        lambda u, v, nu, s: st.diffusion_step(u, 1.5, 0.1, nu, source=s, steps=2, mask=MASK), id="masked diffusion"
    ),
    pytest.param(
        lambda u, v, nu, s: st.convection_step(u, (v, -v), 1.0, 0.1, scheme="upwind3", source=s, steps=3), id="upwind3"
    ),
    pytest.param(
        lambda u, v, nu, s: st.convection_step(u, (v, v), 1.0, 0.1, scheme="weno5", form="flux", bc=WALLS), id="weno5"
    ),
    pytest.param(
        lambda u, v, nu, s: st.diffuse_convect_step(u, 1.5, 0.1, nu, source=s, steps=3, bc=so.Hold()), id="Burgers"
    ),
    pytest.param(
        lambda u, v, nu, s: st.pde_step(
            u, 1.5, 0.1, [so.Diffusion(nu), so.Advection((v, 0.3)), so.Source(s), so.Pointwise(torch.sin)],
            integrator="rk4", steps=2,
        ),
        id="rk4",
    ),
]  # fmt: skip


@pytest.mark.parametrize("function", CHECKED)
def test_torch_step_gradients_of_every_order(function: Any) -> None:
    inputs = [x.clone().requires_grad_() for x in (U[:1], V, NU, S)]
    options: dict[str, Any] = {"fast_mode": True, "atol": 1e-5, "rtol": 1e-3}
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, **options)
    assert torch.autograd.gradgradcheck(function, inputs, **options)


def test_torch_step_gradient_of_a_scalar_coefficient() -> None:
    nu = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    y = st.diffusion_step(U, 1.0, 0.1, nu, steps=7)
    (got,) = torch.autograd.grad(y.square().sum(), nu)
    h = 1e-6
    low, high = (so.diffusion_step(U, 1.0, 0.1, 0.3 + d, steps=7).square().sum() for d in (-h, h))
    assert got.item() == pytest.approx(((high - low) / (2 * h)).item(), rel=1e-7)


@pytest.mark.parametrize("scheme", ["central", "upwind3"])
def test_torch_adjoint_step_is_the_gradient_of_the_replay(scheme: str, monkeypatch: Any) -> None:
    function = functools.partial(
        st.diffuse_convect_step, dx=1.0, dt=0.1, nu=0.4, velocity=(0.3, -0.2), scheme=scheme, steps=9
    )
    g = make(2, 5, 6, seed=9)
    calls = []
    monkeypatch.setattr(_replay, "_replayed", lambda *args: calls.append(args))
    u = U.clone().requires_grad_()
    (fused,) = torch.autograd.grad(function(u), u, g)
    assert not calls
    monkeypatch.undo()
    monkeypatch.setattr(_replay, "_adjoint", lambda plan: None)
    (replayed,) = torch.autograd.grad(function(u), u, g)
    torch.testing.assert_close(fused, replayed, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("steps", [1, 2, 4, 7, 10])
def test_torch_blocks_of_the_replay_add_up(steps: int) -> None:
    nu = NU.clone().requires_grad_()
    u = U.clone().requires_grad_()
    y = st.diffusion_step(u, 1.5, 0.1, nu, steps=steps)
    blocks = torch.autograd.grad(y.pow(3).sum(), (u, nu))
    whole = torch.autograd.grad(
        st.diffusion_step(u, 1.5, 0.1, nu, steps=steps).pow(3).sum(), (u, nu), create_graph=True
    )
    torch.testing.assert_close(blocks, whole, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "step",
    [
        lambda u, k: st.diffusion_step(u, 1.5, 0.1, k),
        lambda u, k: st.convection_step(u, (k, k), 1.5, 0.1),
        lambda u, k: st.pde_step(u, 1.5, 0.1, [so.Diffusion(k), so.Source(k)], integrator="rk4"),
    ],
    ids=["diffusion", "convection", "terms"],
)
def test_torch_steps_in_a_row_share_what_they_read(step: Any) -> None:
    """Recorded gradients of one step hold nothing of the steps before it, nor of other arguments."""
    u, k = U.clone().requires_grad_(), NU.clone().requires_grad_()

    def gradients(recorded: bool) -> Any:
        y = functools.reduce(lambda y, _: step(y, k), range(3), u)
        return torch.autograd.grad(y.square().sum(), (u, k), create_graph=recorded)

    torch.testing.assert_close(gradients(True), gradients(False), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("nu", "method"), [(0.3, "stencil"), (0.3, "spectral"), (NU, "stencil")], ids=["adjoint", "spectral", "replay"]
)
def test_torch_steps_have_gradients_of_many_results_at_once(nu: Any, method: str) -> None:
    u, g = U.clone().requires_grad_(), torch.stack([U.sin(), U.cos()])
    y = st.diffusion_step(u, 1.5, 0.1, nu, steps=3, method=method)
    (every,) = torch.autograd.grad(y, u, g, is_grads_batched=True, retain_graph=True)
    for got, each in zip(every, g, strict=True):
        torch.testing.assert_close(got, torch.autograd.grad(y, u, each, retain_graph=True)[0])


def test_torch_steps_by_the_spectrum_have_gradients() -> None:
    u = make(64).requires_grad_()
    y = st.diffusion_step(u, 1.0, 0.2, 1.0, steps=200, method="spectral")
    (got,) = torch.autograd.grad(y.square().sum(), u)
    torch.testing.assert_close(got, 2 * so.diffusion_step(y.detach(), 1.0, 0.2, 1.0, steps=200), rtol=1e-9, atol=1e-12)


def test_torch_steps_under_vmap() -> None:
    nus = torch.tensor([0.1, 0.2, 0.4], dtype=torch.float64)
    loss = lambda nu, u: st.diffusion_step(u, 1.0, 0.1, nu, steps=2).square().sum()  # noqa: E731
    got = torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))(nus, U)
    expected = torch.stack([torch.func.grad(loss)(nu, U) for nu in nus])
    torch.testing.assert_close(got, expected)


def test_torch_steps_without_gradients_are_the_plain_call() -> None:
    assert torch.equal(st.diffusion_step(U, 1.0, 0.1, 0.5, steps=3), so.diffusion_step(U, 1.0, 0.1, 0.5, steps=3))
    forward = st.diffusion_step(U.clone().requires_grad_(), 1.0, 0.1, 0.5, steps=3)
    assert torch.equal(forward.detach(), so.diffusion_step(U, 1.0, 0.1, 0.5, steps=3))


def test_torch_steps_hand_their_workers_on(monkeypatch: Any) -> None:
    seen, execute = [], _dispatch.execute

    def spy(plan: Any, arrays: Any, *, out: Any = None, workers: Any = None) -> Any:
        seen.append(workers)
        return execute(plan, arrays, out=out, workers=workers)

    monkeypatch.setattr(_dispatch, "execute", spy)
    nu = NU.clone().requires_grad_()
    st.diffusion_step(U, 1.5, 0.1, nu, steps=4, workers=2).sum().backward()  # forwards, and once to a block's start
    u = U.clone().requires_grad_()
    st.diffusion_step(u, 1.5, 0.1, 0.3, steps=4, workers=2).sum().backward()  # forwards, and the adjoint
    assert seen == [2, 2, 2, 2]


def test_torch_steps_keep_single_precision() -> None:
    u = U.float().requires_grad_()
    y = st.diffuse_convect_step(u, 1.0, 0.1, 0.5, steps=3)
    y.sum().backward()
    assert y.dtype == u.grad.dtype == torch.float32


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda u: st.diffusion_step([1.0], 1.0, 0.1, 1.0), TypeError, "diffusion_step: u is a list, but must be a"),
        (lambda u: st.convection_step(2.0, 1.0, 1.0, 0.1), TypeError, "convection_step: u is a float, but must be"),
        (lambda u: st.diffuse_convect_step(None, 1.0, 0.1, 1.0), TypeError, "diffuse_convect_step: u is a NoneType"),
        (lambda u: st.pde_step("u", 1.0, 0.1, so.Diffusion(1.0)), TypeError, "pde_step: u is a str, but must be a"),
        (
            lambda u: st.diffusion_step(u, 1.0, 5.0, 1.0),
            so.StabilityError,
            "diffusion_step: dt is 5, 20 times the stability",
        ),
        (lambda u: st.diffusion_step(u, 1.0, 0.1, 1.0, workers="2"), TypeError, "diffusion_step: workers is '2', but"),
        (
            lambda u: st.diffusion_step(u, 1.0, 0.1, 1.0, worker=2),
            TypeError,
            r"diffusion_step\(\) got an unexpected key",
        ),
        (lambda u: st.pde_step(u, 1.0, 0.1, []), ValueError, "pde_step: terms is empty, but must have at least"),
        (
            lambda u: st.pde_step(u, 1.0, 0.1, [so.Diffusion(np.ones(u.shape))]),
            TypeError,
            r"pde_step: terms\[0\].nu is a ndarray, but must be a torch.Tensor like u; move it by torch.as_tensor",
        ),
        (lambda u: st.convection_step(u, (1.0, np.ones(5)), 1.0, 0.1), TypeError, r"velocity\[1\] is a ndarray, but"),
        (lambda u: st.diffusion_step(u, 1.0, 0.1, 1.0, mask=np.ones(5)), TypeError, "mask is a ndarray, but must be"),
        (lambda u: st.diffusion_step(u, 1.0, u.mean(), 1.0), TypeError, r"dt requires grad, but .*; pass float\(dt\)"),
        (lambda u: st.diffusion_step(u, (1.0, u.mean()), 0.1, 1.0), TypeError, "diffusion_step: dx requires grad, but"),
        (
            lambda u: st.diffusion_step(u, 1.0, 0.1, 1.0, bc=so.Dirichlet(u.mean())),
            TypeError,
            "Dirichlet: value requires grad, but must not, since it is a constant that no gradient reaches",
        ),
    ],
)
def test_torch_steps_refuse(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(U.clone().requires_grad_())


def test_torch_constants_may_require_grad_where_none_is_recorded() -> None:
    dt = torch.tensor(0.1, requires_grad=True)
    with torch.no_grad():
        assert st.diffusion_step(U, 1.0, dt, 1.0).equal(st.diffusion_step(U, 1.0, float(dt), 1.0))


def test_torch_recorded_steps_warn_at_the_caller() -> None:
    u = torch.ones(5, 6, requires_grad=True)
    with pytest.warns(so.StabilityWarning) as caught:
        st.diffusion_step(u, 1.0, 0.9, 0.3, on_unstable="warn")
    assert [warning.filename for warning in caught] == [__file__]
