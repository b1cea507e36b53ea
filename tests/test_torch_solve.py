"""The differentiable time loop: values, gradients for everything a step uses, what is kept, what is refused."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import spectralops as so  # noqa: E402
from spectralops import torch as st  # noqa: E402

# PyTorch's own forward mode still uses its deprecated compiler.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")


def make(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


U, V, NU, S = make(5, 6), make(5, 6, seed=1), make(5, 6, seed=2).abs(), make(5, 6, seed=3)

OURS: list[Any] = [
    pytest.param(
        lambda u, v, nu, s: functools.partial(
            st.diffuse_convect_step, dx=1.5, nu=nu, velocity=(v, -v), scheme="upwind", source=s
        ),
        id="fused",
    ),
    pytest.param(
        lambda u, v, nu, s: lambda u, dt: st.diffuse_convect_step(u, 1.5, dt, nu, velocity=(v, -v), source=s),
        id="lambda",
    ),
    pytest.param(lambda u, v, nu, s: lambda u, dt: u + dt * (s - nu * torch.sin(v * u)), id="plain PyTorch"),
]


@pytest.mark.parametrize("recompute_every", [None, 1, 2, 7], ids=str)
@pytest.mark.parametrize("step", OURS)
def test_torch_solve_is_the_loop(step: Any, recompute_every: Any) -> None:
    inputs = [x.clone().requires_grad_() for x in (U, V, NU, S)]
    function = step(*inputs)
    solution = st.solve(function, inputs[0], steps=7, dt=0.1, recompute_every=recompute_every)
    expected = inputs[0]
    for _ in range(7):
        expected = function(expected, dt=0.1)
    torch.testing.assert_close(solution.u, expected, rtol=1e-13, atol=1e-14)
    g = make(5, 6, seed=9)
    torch.testing.assert_close(
        torch.autograd.grad(solution.u, inputs, g), torch.autograd.grad(expected, inputs, g), rtol=1e-11, atol=1e-13
    )


@pytest.mark.parametrize("step", OURS)
def test_torch_solve_has_gradients_of_every_order(step: Any) -> None:
    def function(u: Any, v: Any, nu: Any, s: Any) -> Any:
        solution = st.solve(step(u, v, nu, s), u, t_end=0.45, dt=0.1, recompute_every=2)
        assert solution.steps == 5
        return solution.u

    inputs = [x[:3, :4].clone().requires_grad_() for x in (U, V, NU, S)]
    options: dict[str, Any] = {"fast_mode": True, "atol": 1e-5, "rtol": 1e-3}
    assert torch.autograd.gradcheck(function, inputs, **options)
    assert torch.autograd.gradgradcheck(function, inputs, **options)


def test_torch_solve_of_a_scalar_coefficient() -> None:
    nu = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    step = functools.partial(st.diffusion_step, dx=1.0, dt=0.1, nu=nu)
    (got,) = torch.autograd.grad(st.solve(step, U, steps=9).u.square().sum(), nu)
    h = 1e-6
    low, high = (so.diffusion_step(U, 1.0, 0.1, 0.3 + d, steps=9).square().sum() for d in (-h, h))
    assert got.item() == pytest.approx(((high - low) / (2 * h)).item(), rel=1e-7)


def test_torch_solve_snapshots_can_be_fitted() -> None:
    u = U.clone().requires_grad_()
    solution = st.solve(lambda u, dt, t: u - dt * t * u, u, t_end=1.0, dt=0.25, t0=-0.25, save_every=0.5)
    assert solution.times.tolist() == [-0.25, 0.25, 0.75]
    assert solution.snapshots.shape == (3, 5, 6)
    assert (solution.t, solution.steps, solution.dt) == (1.0, 5, 0.25)
    factors = np.cumprod([1.0, *(1 - 0.25 * t for t in (-0.25, 0.0, 0.25, 0.5, 0.75))])
    (got,) = torch.autograd.grad(solution.snapshots.sum() + solution.u.sum(), u)
    torch.testing.assert_close(got, torch.full_like(U, factors[[0, 2, 4, 5]].sum()))


def test_torch_solve_picks_a_stable_dt() -> None:
    nu = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    step = functools.partial(st.diffusion_step, dx=1.0, nu=nu)
    solution = st.solve(step, U, t_end=2.0)
    assert solution.dt == so.solve(functools.partial(so.diffusion_step, dx=1.0, nu=0.5), U, t_end=2.0).dt
    assert solution.u.requires_grad


class Watched:
    """A step that counts how many of its results are alive."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.calls = self.most = 0

    @property
    def alive(self) -> int:
        return sum(result() is not None for result in self.results)

    def __call__(self, u: Any) -> Any:
        result = torch.sin(u)
        self.results.append(weakref.ref(result))
        self.calls += 1
        self.most = max(self.most, self.alive)
        return result


@pytest.mark.parametrize(("recompute_every", "segments", "longest"), [(None, 10, 10), (25, 4, 25), (4, 25, 4)])
def test_torch_solve_keeps_one_state_a_segment(recompute_every: Any, segments: int, longest: int) -> None:
    step, u = Watched(), U.clone().requires_grad_()
    solution = st.solve(step, u, steps=100, recompute_every=recompute_every)
    assert step.alive <= segments
    assert step.most <= segments + 2
    assert step.calls == 100
    solution.u.sum().backward()
    assert step.calls == 200 - segments  # the last step of each is not needed
    assert step.most <= segments + longest + 2


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_torch_solve_of_few_steps(steps: int) -> None:
    u = U.clone().requires_grad_()
    solution = st.solve(lambda u: 3 * u, u, steps=steps, save_every=1)
    (got,) = torch.autograd.grad(solution.u.sum(), u)
    assert solution.snapshots.shape[0] == steps + 1
    torch.testing.assert_close(got, torch.full_like(U, 3.0**steps))


def test_torch_solve_without_gradients_is_the_plain_one() -> None:
    step = functools.partial(st.diffusion_step, dx=1.0, dt=0.1, nu=NU.clone().requires_grad_() / 5)
    with torch.no_grad():
        solution = st.solve(step, U, steps=6, save_every=2)
    expected = so.solve(functools.partial(so.diffusion_step, dx=1.0, dt=0.1, nu=NU / 5), U, steps=6, save_every=2)
    assert torch.equal(solution.u, expected.u)
    assert torch.equal(solution.snapshots, expected.snapshots)
    assert not solution.u.requires_grad


def test_torch_solve_under_transforms() -> None:
    loss = lambda rate, u: st.solve(lambda u: u - rate * torch.sin(u), u, steps=5).u.square().sum()  # noqa: E731
    rates = torch.tensor([0.1, 0.2], dtype=torch.float64)
    got = torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))(rates, U)
    for rate, value in zip(rates, got, strict=True):
        r = rate.clone().requires_grad_()
        torch.testing.assert_close(value, torch.autograd.grad(loss(r, U), r)[0])
    _, tangent = torch.func.jvp(lambda r: loss(r, U), (rates[0],), (torch.ones_like(rates[0]),))
    torch.testing.assert_close(tangent, got[0])


def test_torch_solve_repeats_random_steps_as_they_were() -> None:
    torch.manual_seed(0)
    u = torch.ones(8, dtype=torch.float64, requires_grad=True)
    y = st.solve(lambda u: u * torch.rand(8, dtype=torch.float64), u, steps=9).u
    torch.testing.assert_close(torch.autograd.grad(y.sum(), u)[0], y.detach())


def test_torch_solve_trains_a_closure() -> None:
    """The diffusivity of a field is found from where it ends."""
    start = make(32)
    target = so.diffusion_step(start, 1.0, 0.1, 0.7, steps=20)
    nu = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([nu], lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        step = functools.partial(st.diffusion_step, dx=1.0, dt=0.1, nu=nu)
        (st.solve(step, start, steps=20).u - target).square().mean().backward()
        optimiser.step()
    assert nu.item() == pytest.approx(0.7, abs=0.02)


def test_torch_solve_stops_at_nan() -> None:
    u = U.clone().requires_grad_()
    with pytest.raises(so.DivergedError, match=r"solve: u has 30 NaN or infinite values after step 4 \(t = 4\), but"):
        st.solve(lambda u, t: u / (t < 3), u, steps=16)
    u = U.clone()
    u[0, 0] = torch.nan
    st.solve(lambda u: u + 1, u.requires_grad_(), steps=3)
    with pytest.raises(so.DivergedError, match="but must have 1 as in u0; lower dt") as caught:
        st.solve(lambda u: torch.log(-u * u), u, steps=3, recompute_every=3)
    assert caught.value.step == 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda u: st.solve(torch.sin, [1.0], steps=1), TypeError, "solve: u0 is a list, but must be a torch.Tensor"),
        (lambda u: st.solve(3, u, steps=1), TypeError, "solve: step is a int, but must be a callable"),
        (lambda u: st.solve(torch.sin, u), ValueError, "solve: steps is None and t_end is None, but exactly one"),
        (lambda u: st.solve(torch.sin, u, steps=1, recompute_every=0), ValueError, "solve: recompute_every is 0, but"),
        (lambda u: st.solve(torch.sin, u, steps=1, save_every=0), ValueError, "solve: save_every is 0, but must be"),
        (lambda u: st.solve(lambda u: 1.0, u, steps=1), TypeError, "solve: step returned a float, but must return a"),
        (lambda u: st.solve(lambda u: u[0], u, steps=1), ValueError, r"step returned shape torch.Size\(\[6\]\), but"),
        (lambda u: st.solve(lambda u: u.float(), u, steps=1), ValueError, "returned dtype torch.float32, but must"),
        (lambda u: st.solve(lambda u: u.mul_(2), 2 * u, steps=1), ValueError, "solve: step changed u in place, but"),
    ],
)  # fmt: skip
def test_torch_solve_refuses(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(U.clone().requires_grad_())
