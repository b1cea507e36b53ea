"""Fields stored in 16 bits: errors against float64, autocast, gradient scaling, what optimisers need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import spectralops as so  # noqa: E402
from spectralops import torch as st  # noqa: E402


def random(*shape: int, seed: int = 0) -> Any:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))


X, WEIGHT, KERNEL = random(2, 8, 32, 30), random(8, 6, 10, 6, 2), random(6, 8, 3, 3)
VALUES, NU = random(32, 16), random(32, 30).abs()
# Each takes a field and another tensor, which keeps 32 bits where the field has 16, except for kernels: convolutions
# promote as PyTorch's do.
PROMOTING = ("fft_conv2d", "convolve")
OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "spectral_filter": (st.spectral_filter, VALUES),
    "spectral_conv": (st.spectral_conv, WEIGHT),
    "fft_conv2d": (st.fft_conv2d, KERNEL),
    "convolve": (lambda x, k: st.convolve(x, k, mode="same", boundary="wrap"), KERNEL[0, 0]),
    "diffusion_step": (lambda x, nu: st.diffusion_step(x, 1.0, 0.05, nu, steps=20), NU),
    "diffuse_convect_step": (lambda x, nu: st.diffuse_convect_step(x, 1.0, 0.02, nu, steps=5), NU),
    "fourier_resample": (lambda x, _: st.fourier_resample(x, (48, 20)), None),
}
# Half the last digit, twice: of what goes in and of what comes out.
BOUNDS = {torch.float16: 5e-4, torch.bfloat16: 4e-3}


def distance(a: Any, b: Any) -> float:
    return ((a.double() - b).norm() / b.norm()).item()


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_torch_errors_of_16_bits_are_those_of_rounding(name: str, dtype: Any) -> None:
    """Also of the gradients; the coefficient's is as accurate, and stays in float32."""
    function, coefficient = OPERATORS[name]
    x = X.clone().requires_grad_()
    c = None if coefficient is None else coefficient.clone().requires_grad_()
    inputs = [x] if c is None else [x, c]
    y = function(x, c)
    g = random(*y.shape, seed=5)
    exact = torch.autograd.grad(y, inputs, g)
    small = X.to(dtype).requires_grad_()
    kept = dtype if name in PROMOTING else torch.float32
    single = None if coefficient is None else coefficient.to(kept).requires_grad_()
    rounded = function(small, single)
    assert rounded.dtype == dtype
    assert distance(rounded, y.detach()) < BOUNDS[dtype]
    got = torch.autograd.grad(rounded, [small] if single is None else [small, single], g.to(dtype))
    assert [v.dtype for v in got] == [dtype, kept][: len(got)]
    for a, b in zip(got, exact, strict=True):
        assert distance(a, b) < 2 * BOUNDS[dtype]


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_torch_steps_in_one_call_are_not_rounded_in_between(dtype: Any) -> None:
    u = X[0, 0].to(dtype)
    exact = so.diffusion_step(u.double(), 1.0, 0.2, 1.0, steps=200)
    assert distance(so.diffusion_step(u, 1.0, 0.2, 1.0, steps=200), exact) < BOUNDS[dtype]


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_torch_model_under_autocast(dtype: Any) -> None:
    torch.manual_seed(0)
    model = st.FNO((8, 8), 1, 1, hidden_channels=8, n_layers=3)
    x = random(2, 1, 16, 16).float()
    expected = model(x)
    with torch.autocast("cpu", dtype=dtype):
        y = model(x)
    assert y.dtype == dtype
    assert distance(y.detach(), expected.detach().double()) < 2 * BOUNDS[dtype]
    y.float().square().mean().backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("factorization", [None, "Tucker"])
@pytest.mark.parametrize("fused", [False, True], ids=["AdamW", "fused AdamW"])
def test_torch_model_trains_with_scaled_gradients(fused: bool, factorization: Any) -> None:
    torch.manual_seed(0)
    model = st.FNO((4, 4), 1, 1, hidden_channels=4, n_layers=2, factorization=factorization)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    x = random(8, 1, 8, 8).float()
    losses = []
    for _ in range(25):
        optimiser.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = (model(x) - x.roll(1, -1)).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        scaler.step(optimiser)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_torch_overflowing_gradients_skip_a_step() -> None:
    torch.manual_seed(0)
    layer = st.SpectralConv(2, 2, (4, 4))
    before = layer.weight.detach().clone()
    optimiser = torch.optim.SGD(layer.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    y = layer(random(1, 2, 8, 8).half())
    scaler.scale(y.square().sum()).backward()
    scaler.step(optimiser)
    scaler.update()
    assert torch.equal(layer.weight.detach(), before)
    assert scaler.get_scale() == 2.0**39


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad])
def test_torch_fused_optimisers_take_the_parameters(make: Any) -> None:
    torch.manual_seed(0)
    layers = [st.SpectralConv(2, 2, (4, 4), factorization=kind) for kind in (None, "CP", "Tucker", "TT")]
    parameters = [p for layer in layers for p in layer.parameters()]
    assert {p.dtype for p in parameters} == {torch.float32}
    before = [p.detach().clone() for p in parameters]
    sum(layer(random(1, 2, 8, 8).float()).square().sum() for layer in layers).backward()
    make(parameters, lr=0.1, fused=True).step()
    assert not any(torch.equal(a, b) for a, b in zip(parameters, before, strict=True))
