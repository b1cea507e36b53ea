"""Factorised weights of spectral layers: the tensors that they make, ranks, spread, gradients, checkpoints."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from spectralops import torch as st  # noqa: E402

KINDS = ["CP", "Tucker", "TT"]
# The weight of 3 channels to 4 and 6 x 4 modes, by Einstein's rule.
RULES = {
    "CP": "r,ar,br,xr,yr->abxy",
    "Tucker": "pqrs,ap,bq,xr,ys->abxy",
    "TT": "lap,pbq,qxr,ryl->abxy",
}


def random(*shape: int, dtype: Any = torch.float64, seed: int = 0) -> Any:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def make(kind: str, **options: Any) -> Any:
    torch.manual_seed(0)
    return st.SpectralConv(3, 4, (6, 6), factorization=kind, **({"bias": False, "rank": 0.5} | options)).double()


def parts(weight: Any) -> list[Any]:
    """The factors as complex tensors, in the order of the rules."""
    return [p.detach() if p.is_complex() else torch.view_as_complex(p.detach()) for p in weight.parameters()]


@pytest.mark.parametrize("complex_parameters", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("kind", KINDS)
def test_torch_factors_make_the_tensor(kind: str, complex_parameters: bool) -> None:
    layer = make(kind, complex_parameters=complex_parameters)
    assert layer.weight.shape == (3, 4, 6, 4)
    assert all(p.is_complex() == complex_parameters for p in layer.weight.parameters())
    torch.testing.assert_close(layer.weight.to_tensor().detach(), torch.einsum(RULES[kind], *parts(layer.weight)))


def dense(layer: Any, **options: Any) -> Any:
    """The layer with the same weight whole."""
    twin = st.SpectralConv(3, 4, (6, 6), bias=False, **options).double()
    twin.load_state_dict({"weight": layer.weight.to_tensor().detach()})
    return twin


@pytest.mark.parametrize("implementation", ["reconstructed", "factorized"])
@pytest.mark.parametrize("kind", KINDS)
def test_torch_factorised_layer_is_the_dense_one(kind: str, implementation: str) -> None:
    layer = make(kind, implementation=implementation)
    twin = dense(layer)
    for sizes, target in [((8, 10), None), ((5, 4), None), ((8, 9), (12, 7)), ((8, 9), (5, 12))]:
        x = random(2, 3, *sizes)
        torch.testing.assert_close(layer(x, target).detach(), twin(x, target).detach())
    layer.n_modes = twin.n_modes = (4, 3)
    torch.testing.assert_close(layer(x).detach(), twin(x).detach())


@pytest.mark.parametrize("norm", ["backward", "ortho"])
def test_torch_factorised_layer_in_other_norms(norm: str) -> None:
    layer = make("TT", implementation="factorized", fft_norm=norm)
    x = random(2, 3, 8, 9)
    torch.testing.assert_close(layer(x, (12, 12)).detach(), dense(layer, fft_norm=norm)(x, (12, 12)).detach())


@pytest.mark.parametrize("implementation", ["reconstructed", "factorized"])
@pytest.mark.parametrize("kind", KINDS)
def test_torch_factorised_layer_of_complex_data(kind: str, implementation: str) -> None:
    layer = make(kind, implementation=implementation, complex_data=True)
    twin = dense(layer, complex_data=True)
    x = random(2, 3, 8, 9, dtype=torch.complex128)
    torch.testing.assert_close(layer(x).detach(), twin(x).detach())


@pytest.mark.parametrize("implementation", ["reconstructed", "factorized"])
@pytest.mark.parametrize("kind", KINDS)
def test_torch_factorised_layer_of_single_channels(kind: str, implementation: str) -> None:
    layer = st.SpectralConv(3, 3, 6, separable=True, factorization=kind, implementation=implementation).double()
    assert layer.weight.shape == (3, 4)
    twin = st.SpectralConv(3, 3, 6, separable=True).double()
    twin.load_state_dict({"weight": layer.weight.to_tensor().detach(), "bias": layer.bias})
    torch.testing.assert_close(layer(random(2, 3, 9)).detach(), twin(random(2, 3, 9)).detach())


@pytest.mark.parametrize("implementation", ["reconstructed", "factorized"])
@pytest.mark.parametrize("kind", KINDS)
def test_torch_factorised_layer_has_every_gradient(kind: str, implementation: str) -> None:
    layer = st.SpectralConv(2, 2, 4, factorization=kind, rank=2, implementation=implementation).double()
    names = [name for name, _ in layer.named_parameters()]

    def function(x: Any, *values: Any) -> Any:
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x, (5,)))

    inputs = random(2, 2, 6).requires_grad_(), *(p.detach().requires_grad_() for p in layer.parameters())
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize(
    ("kind", "rank", "fixed", "expected"),
    [
        ("CP", 0.5, False, (8,)),
        ("CP", "same", False, (16,)),
        ("CP", 5, False, (5,)),
        ("CP", 1e-6, False, (1,)),
        ("Tucker", 0.5, False, (2, 2, 6, 3)),
        ("Tucker", 0.5, True, (3, 2, 5, 3)),
        ("Tucker", 0.5, (0, 1), (3, 3, 4, 2)),
        ("Tucker", 3, (2,), (3, 3, 8, 3)),
        ("Tucker", (2, 3, 4, 2), False, (2, 3, 4, 2)),
        ("TT", 0.5, False, (1, 2, 3, 4, 1)),
        ("TT", 3, False, (1, 3, 3, 3, 1)),
        ("TT", (1, 2, 3, 2, 1), False, (1, 2, 3, 2, 1)),
        ("complexTT", (1, 2, 3, 2, 1), False, (1, 2, 3, 2, 1)),
    ],
)
def test_torch_factorised_layer_chooses_ranks(kind: str, rank: Any, fixed: Any, expected: tuple[int, ...]) -> None:
    layer = st.SpectralConv(3, 3, (8, 6), factorization=kind, rank=rank, fixed_rank_modes=fixed)
    assert layer.weight.rank == expected


@pytest.mark.parametrize("kind", KINDS)
def test_torch_factors_hold_the_share_asked_for(kind: str) -> None:
    layer = st.SpectralConv(32, 32, (16, 16), factorization=kind, rank=0.1, bias=False)
    whole = 32 * 32 * 16 * 9 * 2
    assert sum(p.numel() for p in layer.parameters()) / whole == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_torch_factorised_layer_starts_with_the_spread_asked_for(kind: str) -> None:
    torch.manual_seed(0)
    weight = st.SpectralConv(30, 20, (16, 16), factorization=kind, rank=0.2).weight.to_tensor().detach()
    assert weight.abs().square().mean().sqrt().item() == pytest.approx(0.2, rel=0.2)


def test_torch_factorised_layer_names_factors_as_tensorly_does() -> None:
    factors = [f"weight.factors.factor_{j}" for j in range(4)]
    assert list(make("CP").state_dict()) == ["weight.weights", *factors]
    assert list(make("Tucker").state_dict()) == ["weight.core", *factors]
    assert list(make("TT").state_dict()) == factors
    assert "(3, 4, 6, 4), rank=(8,)" in repr(make("CP"))


@pytest.mark.parametrize("complex_parameters", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("kind", KINDS)
def test_torch_factorised_layer_loads_either_kind(kind: str, complex_parameters: bool) -> None:
    source, target = (
        st.SpectralConv(3, 4, (6, 6), factorization=kind, complex_parameters=value)
        for value in (not complex_parameters, complex_parameters)
    )
    target.load_state_dict(source.state_dict())
    torch.testing.assert_close(target.weight.to_tensor(), source.weight.to_tensor())


def test_torch_factorised_layer_says_what_it_misses() -> None:
    with pytest.raises(RuntimeError, match=r"weight\.core"):
        make("Tucker").load_state_dict(make("CP").state_dict())


@pytest.mark.parametrize("implementation", ["reconstructed", "factorized"])
def test_torch_factorised_layer_compiles_whole(implementation: str) -> None:
    torch._dynamo.reset()
    layer = make("Tucker", implementation=implementation)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = random(2, 3, 8, 8).requires_grad_()
    gradients = [torch.autograd.grad(f(x).square().sum(), [x, *layer.parameters()]) for f in (compiled, layer)]
    torch.testing.assert_close(*gradients)


def test_torch_factorised_layer_in_half_precision() -> None:
    layer = make("CP", implementation="factorized", fno_block_precision="half").float()
    x = random(1, 3, 8, 8, dtype=torch.float32)
    y = layer(x)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.float().detach(), dense(layer).float()(x).detach(), atol=2e-2, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["CP", "Tucker", "TT"])
def test_torch_factors_may_be_of_16_bits(kind: str, dtype: Any) -> None:
    layer = make(kind).to(dtype)
    x = random(1, 3, 8, 8, dtype=torch.float32).to(dtype)
    y = layer(x).detach()
    assert y.dtype == dtype
    expected = layer.double()(x.double()).detach()
    assert (y - expected).abs().max() <= torch.finfo(dtype).eps * expected.abs().max()


def test_torch_model_with_factorised_weights_trains() -> None:
    torch.manual_seed(0)
    model = st.FNO((4, 4), 1, 1, hidden_channels=4, n_layers=2, factorization="Tucker", rank=0.3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    x = random(8, 1, 8, 8, dtype=torch.float32)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = (model(x) - x.roll(1, -1)).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize(
    ("kind", "rank", "error", "message"),
    [
        ("CP", 0, ValueError, "SpectralConv: rank is 0, but must be at least 1"),
        ("CP", -0.5, ValueError, "SpectralConv: rank is -0.5, but must be positive"),
        ("Tucker", "half", TypeError, "SpectralConv: rank is 'half', but must be an integer"),
        ("Tucker", (1, 2), ValueError, "SpectralConv: rank has 2 entries, but must have 4"),
        ("TT", (1, 2, 2, 1), ValueError, "SpectralConv: rank has 4 entries, but must have 5"),
        ("TT", (2, 2, 2, 2, 1), ValueError, r"rank is \(2, 2, 2, 2, 1\), but must begin and end with 1"),
    ],
)
def test_torch_factorised_layer_refuses(kind: str, rank: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(kind, rank=rank)


def released(x: Any, weight: Any, target: Any, moved: bool) -> Any:
    """neuraloperator 2.0.0's steps as its documentation describes them, for a weight of as many modes as are kept."""
    d = weight.ndim - 2
    axes = list(range(2, 2 + d))
    z = torch.fft.fftn(x, dim=axes) if moved else torch.fft.rfftn(x, dim=axes)
    if d > 1:
        z = torch.fft.fftshift(z, dim=axes if moved else axes[:-1])
    place: list[Any] = [slice(None), slice(None)]
    for n, m in zip(z.shape[2:-1], weight.shape[2:-1], strict=True):
        place.append(slice(n // 2 - m // 2, n // 2 + m // 2 + m % 2))
    place.append(slice(weight.shape[-1]))
    out = z.new_zeros(x.shape[0], weight.shape[1], *z.shape[2:])
    out[tuple(place)] = torch.einsum("bi...,io...->bo...", z[tuple(place)], weight)
    if d > 1:
        out = torch.fft.fftshift(out, dim=axes[:-1])
    y = (torch.fft.ifftn if moved else torch.fft.irfftn)(out, s=target, dim=axes, norm="forward")
    return y / x[0, 0].numel()


@pytest.mark.parametrize("complex_data", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("sizes", [(9,), (8,), (8, 9), (9, 8), (5, 6, 7)], ids=str)
@pytest.mark.parametrize("scale", [1.0, 2.0, 0.75])
def test_torch_layer_with_quirks_moves_modes_as_released(
    sizes: tuple[int, ...], scale: float, complex_data: bool
) -> None:
    layer = st.SpectralConv(
        2, 3, (4,) * len(sizes), bias=False, complex_data=complex_data, upstream_quirks=True
    ).double()
    x = random(2, 2, *sizes, dtype=torch.complex128 if complex_data else torch.float64)
    target = [round(n * scale) for n in sizes]
    expected = released(x, torch.view_as_complex(layer.weight.detach()), target, complex_data)
    torch.testing.assert_close(layer(x, target).detach(), expected)


def test_torch_layer_with_quirks_puts_a_wave_elsewhere() -> None:
    """cos(2x - 3y) on 16 x 16 points: its mode (-2, 3) lies at 14 of 16, which of 32 is the wavenumber 14."""
    t = [2 * torch.pi * torch.arange(n, dtype=torch.float64) / n for n in (16, 32)]
    wave = torch.cos(2 * t[0][:, None] - 3 * t[0])[None, None]
    right, quirky = (
        st.SpectralConv(1, 1, (8, 8), bias=False, resolution_scaling_factor=2, upstream_quirks=quirks).double()
        for quirks in (False, True)
    )
    for layer in (right, quirky):
        layer.load_state_dict({"weight": torch.ones(1, 1, 8, 5, dtype=torch.complex128)})
    fine = torch.cos(2 * t[1][:, None] - 3 * t[1])
    elsewhere = torch.cos(14 * t[1][:, None] + 3 * t[1])
    torch.testing.assert_close(right(wave)[0, 0].detach(), fine)
    torch.testing.assert_close(quirky(wave)[0, 0].detach(), elsewhere)


@pytest.mark.parametrize("kind", [None, "CP"])
@pytest.mark.parametrize("quirks", [False, True])
def test_torch_layer_with_quirks_runs_fused_where_nothing_moves(kind: Any, quirks: bool, monkeypatch: Any) -> None:
    from spectralops.torch import spectral_layer

    monkeypatch.delattr(spectral_layer, "convolved")
    layer = st.SpectralConv(2, 2, (4, 4), factorization=kind, upstream_quirks=quirks)
    assert layer(torch.zeros(1, 2, 8, 9)).shape == (1, 2, 8, 9)
    if quirks:
        with pytest.raises(NameError):
            layer(torch.zeros(1, 2, 9, 8))


@pytest.mark.parametrize("sizes", [(9,), (8, 9), (5, 6, 7)], ids=str)
def test_torch_layer_with_quirks_has_every_gradient(sizes: tuple[int, ...]) -> None:
    layer = st.SpectralConv(2, 2, (3,) * len(sizes), upstream_quirks=True).double()
    target = [n + 3 for n in sizes]
    x = random(1, 2, *sizes).requires_grad_()
    weight = layer.weight.detach().requires_grad_()
    function = functools.partial(torch.func.functional_call, layer)
    call = lambda x, w: function({"weight": w}, (x, target))  # noqa: E731
    assert torch.autograd.gradcheck(call, (x, weight), fast_mode=True)


def test_torch_layer_with_quirks_interpolates_skips() -> None:
    """Splines through the corners of the grid; along three axes the lowest modes."""
    line = torch.linspace(0, 1, 5, dtype=torch.float64)
    layer = st.SpectralConv(1, 1, 4, resolution_scaling_factor=2, upstream_quirks=True)
    torch.testing.assert_close(layer.transform(line[None, None])[0, 0], torch.linspace(0, 1, 10, dtype=torch.float64))
    layer = st.SpectralConv(1, 1, (4, 4), upstream_quirks=True)
    plane = (line[:, None] + line)[None, None]
    assert layer.transform(plane, (9, 9)).shape == (1, 1, 9, 9)
    torch.testing.assert_close(layer.transform(plane, (9, 9))[..., ::2, ::2], plane)
    layer = st.SpectralConv(1, 1, (4, 4, 4), upstream_quirks=True)
    t = [2 * torch.pi * torch.arange(n, dtype=torch.float64) / n for n in (6, 9)]
    waves = [torch.cos(s[:, None, None] - 2 * s[:, None] + 2 * s)[None, None] for s in t]
    torch.testing.assert_close(layer.transform(waves[0], (9, 9, 9)), waves[1])
    complex_layer = st.SpectralConv(1, 1, 4, complex_data=True, upstream_quirks=True)
    z = torch.exp(1j * t[0])[None, None]
    torch.testing.assert_close(complex_layer.transform(z, (9,)), torch.exp(1j * t[1])[None, None])
