"""The layers of spectralops.torch: shapes, checkpoints, modes, gradients, what optimisers need."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import spectralops as so  # noqa: E402
from spectralops import UnsupportedError  # noqa: E402
from spectralops import torch as st  # noqa: E402


def random(*shape: int, dtype: Any = torch.float64, seed: int = 0) -> Any:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def corner_layer(x: Any, *blocks: Any) -> Any:
    """The original layers: a block for each corner of the spectrum, the later ones over the earlier."""
    d = x.ndim - 2
    axes = tuple(range(2, 2 + d))
    modes = torch.fft.rfftn(x, dim=axes)
    out = modes.new_zeros(x.shape[0], blocks[0].shape[1], *modes.shape[2:])
    for j, block in enumerate(blocks):
        low = [slice(-m, None) if j >> axis & 1 else slice(m) for axis, m in enumerate(block.shape[2:-1])]
        place = (..., *low, slice(block.shape[-1]))
        out[place] = torch.einsum("bi...,io...->bo...", modes[place], block)
    return torch.fft.irfftn(out, s=x.shape[2:], dim=axes)


@pytest.mark.parametrize(("sizes", "modes"), [((9,), (3,)), ((8, 9), (3, 4)), ((6, 8, 7), (2, 3, 3))], ids=str)
def test_torch_layer_loads_the_original_checkpoints(sizes: tuple[int, ...], modes: tuple[int, ...]) -> None:
    blocks = [random(2, 3, *modes, dtype=torch.complex128, seed=j) for j in range(2 ** (len(sizes) - 1))]
    n_modes = [*(2 * m for m in modes[:-1]), 2 * (modes[-1] - 1)]
    layer = st.SpectralConv(2, 3, n_modes, bias=False).double()
    layer.load_state_dict({f"weights{j + 1}": block for j, block in enumerate(blocks)})
    x = random(2, 2, *sizes)
    torch.testing.assert_close(layer(x).detach(), corner_layer(x, *blocks))


@pytest.mark.parametrize("complex_parameters", [False, True])
def test_torch_layer_loads_neuraloperator_checkpoints(complex_parameters: bool) -> None:
    layer = st.SpectralConv(2, 3, (4, 4), complex_parameters=complex_parameters)
    weight, bias = random(2, 3, 4, 3, dtype=torch.complex64), random(3, 1, 1, dtype=torch.float32)
    layer.load_state_dict({"weight.tensor": weight, "bias": bias})
    x = random(1, 2, 8, 8, dtype=torch.float32)
    torch.testing.assert_close(layer(x).detach(), so.spectral_conv(x, weight) + bias)
    assert layer.weight.is_complex() == complex_parameters


@pytest.mark.parametrize("first", [False, True])
def test_torch_layer_converts_between_kinds_of_parameters(first: bool) -> None:
    one = st.SpectralConv(2, 2, (4, 4), complex_parameters=first)
    other = st.SpectralConv(2, 2, (4, 4), complex_parameters=not first)
    other.load_state_dict(one.state_dict())
    x = random(1, 2, 8, 8, dtype=torch.float32)
    torch.testing.assert_close(other(x), one(x))


def test_torch_layer_says_what_it_misses() -> None:
    with pytest.raises(RuntimeError, match="weight"):
        st.SpectralConv(2, 2, (4, 4)).load_state_dict({})


def test_torch_layer_counts_modes_of_both_signs() -> None:
    layer = st.SpectralConv(2, 3, (5, 6))
    assert layer.n_modes == [5, 4]
    assert layer.weight.shape == (2, 3, 5, 4, 2)
    assert st.SpectralConv(2, 3, (5, 6), complex_data=True).weight.shape == (2, 3, 5, 6, 2)
    assert st.SpectralConv(2, 3, 6, max_n_modes=6).weight.shape == (2, 3, 6, 2)
    assert repr(layer) == "SpectralConv(2, 3, modes=(5, 4))"


def test_torch_layer_with_fewer_modes_takes_the_middle_of_the_weight() -> None:
    layer = st.SpectralConv(2, 3, (8, 8), bias=False)
    layer.n_modes = (4, 4)
    x = random(1, 2, 12, 12, dtype=torch.float32)
    torch.testing.assert_close(layer(x).detach(), so.spectral_conv(x, layer.weight.detach()[:, :, 2:6, :3]))


def test_torch_layer_on_a_small_grid_keeps_what_fits() -> None:
    layer = st.SpectralConv(2, 3, (8, 8), bias=False)
    x = random(1, 2, 6, 5, dtype=torch.float32)
    torch.testing.assert_close(layer(x).detach(), so.spectral_conv(x, layer.weight.detach()[:, :, 1:7, :3]))


def test_torch_layer_on_another_grid_keeps_wavenumbers() -> None:
    layer = st.SpectralConv(1, 1, (8, 8), bias=False, resolution_scaling_factor=2)
    layer.load_state_dict({"weight": torch.ones(1, 1, 8, 5, dtype=torch.complex64)})

    def wave(n: int) -> Any:
        t = 2 * torch.pi * torch.arange(n) / n
        return torch.cos(2 * t[:, None] - 3 * t)[None, None]

    torch.testing.assert_close(layer(wave(16)).detach(), wave(32), atol=1e-5, rtol=0)
    torch.testing.assert_close(layer(wave(16), output_shape=(10, 10)).detach(), wave(10), atol=1e-5, rtol=0)
    torch.testing.assert_close(layer.transform(wave(16)), wave(32), atol=1e-5, rtol=0)
    assert layer.transform(wave(16), output_shape=(16, 16)).shape == (1, 1, 16, 16)


@pytest.mark.parametrize(("norm", "factor"), [("forward", 1.0), ("backward", 1 / 4), ("ortho", 1 / 2)])
def test_torch_layer_norms_differ_on_another_grid(norm: str, factor: float) -> None:
    layer = st.SpectralConv(2, 2, (4, 4), bias=False, fft_norm=norm)
    x = random(1, 2, 8, 8, dtype=torch.float32)
    expected = so.spectral_conv(x, layer.weight.detach(), out_shape=16) * factor
    torch.testing.assert_close(layer(x, output_shape=(16, 16)).detach(), expected)
    torch.testing.assert_close(layer(x).detach(), so.spectral_conv(x, layer.weight.detach()))


def test_torch_layer_of_single_channels() -> None:
    layer = st.SpectralConv(3, 3, (4, 4), separable=True, bias=False)
    x = random(1, 3, 8, 8, dtype=torch.float32)
    assert layer.weight.shape == (3, 4, 3, 2)
    torch.testing.assert_close(layer(x).detach(), so.spectral_conv(x, layer.weight.detach(), depthwise=True))


def test_torch_layer_of_complex_data() -> None:
    layer = st.SpectralConv(2, 3, (4, 5), complex_data=True, bias=False)
    x = random(1, 2, 8, 9, dtype=torch.complex64)
    torch.testing.assert_close(layer(x).detach(), so.spectral_conv(x, layer.weight.detach()))


def test_torch_layer_of_complex_data_takes_real_fields_as_such() -> None:
    layer = st.SpectralConv(2, 3, (4, 5), complex_data=True, bias=False)
    x = random(1, 2, 8, 9, dtype=torch.float32)
    torch.testing.assert_close(layer(x), layer(x.to(torch.complex64)))


def test_torch_layer_of_real_data_refuses_complex_fields() -> None:
    message = "SpectralConv: x is torch.complex64, but must be real for a layer of real data"
    with pytest.raises(TypeError, match=message):
        st.SpectralConv(2, 3, (4, 5))(random(1, 2, 8, 9, dtype=torch.complex64))


LAYER, MODEL = st.SpectralConv(2, 3, (4, 4)), st.FNO((4, 4), 2, 1, 4)


@pytest.mark.parametrize(
    ("module", "x", "error", "message"),
    [
        (LAYER, [1.0], TypeError, "SpectralConv: x is a list, but must be a torch.Tensor"),
        (LAYER, torch.ones(8, 8), ValueError, r"SpectralConv: x has 2 dimensions, but must have 4: \(N, C"),
        (st.FNOBlock(2, (4, 4)), [1.0], TypeError, "FNOBlock: x is a list, but must be a torch.Tensor"),
        (MODEL, torch.ones(1, 3, 8, 8), ValueError, r"FNO: x has shape \(1, 3, 8, 8\), .*\(N, 2, ...\)"),
        (MODEL, torch.ones(1, 2, 8), ValueError, r"FNO: x has shape \(1, 2, 8\), but must have 4 dimensions"),
    ],
    ids=["kind", "dimensions", "block", "channels", "model"],
)
def test_torch_layers_refuse_what_is_no_field(module: Any, x: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        module(x)


def test_torch_layer_in_half_precision() -> None:
    layer = st.SpectralConv(2, 2, (4, 4), bias=False, fno_block_precision="half")
    x = random(1, 2, 8, 8, dtype=torch.float32)
    y = layer(x)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.float().detach(), so.spectral_conv(x, layer.weight.detach()), atol=2e-2, rtol=0)


def test_torch_layer_starts_with_the_spread_asked_for() -> None:
    torch.manual_seed(0)
    layer = st.SpectralConv(30, 20, (8, 8))
    weight = torch.view_as_complex(layer.weight.detach())
    assert weight.abs().square().mean().sqrt().item() == pytest.approx(0.2, rel=0.02)
    assert layer.bias.shape == (20, 1, 1)
    assert st.SpectralConv(3, 2, (4, 4), init_std=0.0).weight.abs().max() == 0


def test_torch_layer_trains_with_a_fused_optimiser() -> None:
    torch.manual_seed(0)
    layer = st.SpectralConv(1, 1, 8)
    x = random(16, 1, 32, dtype=torch.float32)
    target = torch.as_tensor(so.spectral_filter(x, so.transfer.lowpass(wavenumber=0.5), axes=-1))
    optimiser = torch.optim.AdamW(layer.parameters(), lr=0.1, weight_decay=0.0, fused=True)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = (layer(x) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 1e-2 * losses[0]


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))], ids=["copy", "pickle"])
def test_torch_layers_are_copied(copier: Any) -> None:
    layer = copier(st.SpectralConv(2, 2, (4, 4)))
    layer.load_state_dict(
        {"weight.tensor": torch.ones(2, 2, 4, 3, dtype=torch.complex64), "bias": torch.zeros(2, 1, 1)}
    )
    assert layer.weight[..., 0].unique().tolist() == [1.0]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"in_channels": 0}, ValueError, "SpectralConv: in_channels is 0, but must be a positive integer"),
        ({"n_modes": (4, 0)}, ValueError, r"SpectralConv: n_modes\[1\] is 0, but must be a positive integer"),
        ({"max_n_modes": (4,)}, ValueError, "SpectralConv: max_n_modes has 1 entries, but must have 2"),
        ({"separable": True}, ValueError, "SpectralConv: out_channels is 3, but must be 2 as in_channels"),
        ({"fft_norm": "none"}, ValueError, "SpectralConv: fft_norm is 'none', but must be"),
        ({"fno_block_precision": "low"}, ValueError, "SpectralConv: fno_block_precision is 'low', but must be"),
        ({"factorization": "svd"}, ValueError, "SpectralConv: factorization is 'svd', but must be"),
        (
            {"implementation": "fast"},
            ValueError,
            "SpectralConv: implementation is 'fast', but must be 'reconstructed' or",
        ),
        ({"upstream_quirks": 1}, TypeError, "SpectralConv: upstream_quirks is 1, but must be True or False"),
        (
            {"decomposition_kwargs": {"tol": 1}},
            UnsupportedError,
            "decomposition_kwargs is {'tol': 1}, but must be empty",
        ),
        (
            {"complex_data": True, "fno_block_precision": "half"},
            UnsupportedError,
            "SpectralConv: fno_block_precision is 'half', but must be 'full' for complex data",
        ),
        ({"resolution_scaling_factor": (1, 2, 3)}, ValueError, "resolution_scaling_factor has 3 entries, but must"),
    ],
)
def test_torch_layer_refuses(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        st.SpectralConv(**{"in_channels": 2, "out_channels": 3, "n_modes": (4, 4)} | arguments)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["real", "complex"])
def test_torch_filter_layer_learns_its_values(dtype: Any) -> None:
    layer = st.SpectralFilter(torch.ones(8, 5, dtype=dtype), learnable=True)
    x = random(2, 8, 8)
    layer(x).square().sum().backward()
    assert layer.transfer.dtype == torch.float64
    values = torch.ones(8, 5, dtype=dtype, requires_grad=True)
    (expected,) = torch.autograd.grad(st.spectral_filter(x, values).square().sum(), values)
    torch.testing.assert_close(layer.transfer.grad, torch.view_as_real(expected) if dtype.is_complex else expected)


def test_torch_filter_layer_keeps_fixed_values_as_a_buffer() -> None:
    layer = st.SpectralFilter(torch.full((5,), 2.0), axes=-1).double()
    assert list(layer.state_dict()) == ["transfer"]
    assert not list(layer.parameters())
    torch.testing.assert_close(layer(random(3, 8)), 2 * random(3, 8))


def test_torch_filter_layer_by_a_function_takes_any_grid() -> None:
    layer = st.SpectralFilter(so.transfer.gaussian(2.0), spacing=0.5, pad_width=1, pad_mode="edge")
    for n in (8, 11):
        x = random(n, n)
        torch.testing.assert_close(layer(x), so.spectral_filter(x, so.transfer.gaussian(2.0), **layer.options))
    with pytest.raises(TypeError, match=r"SpectralFilter: transfer is a .*, but must be a tensor for learnable=True"):
        st.SpectralFilter(so.transfer.gaussian(2.0), learnable=True)


@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_torch_conv_layer_is_torchs_own_by_another_name(mode: str) -> None:
    theirs = torch.nn.Conv2d(4, 6, 5, stride=2, padding=2, groups=2, padding_mode=mode)
    ours = st.FFTConv2d(4, 6, 5, stride=2, padding=2, groups=2, padding_mode=mode)
    ours.load_state_dict(theirs.state_dict())
    x = random(2, 4, 12, 13, dtype=torch.float32)
    torch.testing.assert_close(ours(x), theirs(x))


@pytest.mark.parametrize(
    ("make", "plain"), [(st.DiffusionStep, so.diffusion_step), (st.DiffuseConvectStep, so.diffuse_convect_step)]
)
def test_torch_step_layers_learn_their_diffusivity(make: Any, plain: Any) -> None:
    u = random(3, 16)
    layer = make(1.0, 0.1, 0.5, learnable=True, steps=4, axes=-1).double()
    expected = plain(u, 1.0, 0.1, 0.5, steps=4, axes=-1)
    torch.testing.assert_close(layer(u).detach(), expected)
    layer(u).square().sum().backward()
    h = 1e-6
    low, high = (plain(u, 1.0, 0.1, 0.5 + d, steps=4, axes=-1).square().sum() for d in (-h, h))
    assert layer.nu.grad.item() == pytest.approx(((high - low) / (2 * h)).item(), rel=1e-6)


def test_torch_step_layer_keeps_a_field_as_a_buffer() -> None:
    nu, wind = random(16).abs() + 0.1, random(16)
    layer = st.DiffuseConvectStep(1.0, 0.1, nu, scheme="upwind")
    assert list(layer.state_dict()) == ["nu"]
    expected = so.diffuse_convect_step(random(16), 1.0, 0.1, nu, velocity=wind, scheme="upwind")
    torch.testing.assert_close(layer(random(16), velocity=wind), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_torch_layers_take_parameters_as_their_own(dtype: torch.dtype) -> None:
    nu = torch.nn.Parameter(torch.tensor([0.5]))
    step = st.DiffuseConvectStep(1.0, 0.1, nu)
    assert list(step.parameters()) == [nu]
    step(torch.ones(3, 8)[..., :1] * torch.arange(8.0)).square().sum().backward()
    assert nu.grad is not None
    assert nu.grad.abs() > 0
    transfer = torch.nn.Parameter(torch.ones(8, 5, dtype=dtype))
    layer = st.SpectralFilter(transfer)
    (own,) = layer.parameters()
    assert own is transfer or dtype.is_complex  # whose layer holds real numbers
    layer(torch.ones(2, 8, 8)).sum().backward()
    assert own.grad is not None


def test_torch_block_is_its_two_parts() -> None:
    block = st.FNOBlock(3, (4, 4), activation=torch.tanh)
    x = random(2, 3, 8, 8, dtype=torch.float32)
    skip = torch.einsum("oi,nixy->noxy", block.skip[0].weight[..., 0], x) + block.skip[0].bias[:, None, None]
    torch.testing.assert_close(block(x), torch.tanh(block.convolution(x) + skip))
    assert block(x, output_shape=(12, 12)).shape == (2, 3, 12, 12)


@pytest.mark.parametrize("sizes", [(12,), (8, 9), (4, 5, 6)], ids=str)
def test_torch_models_of_any_rank_train(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model = st.FNO((4,) * len(sizes), 2, 3, hidden_channels=4, n_layers=2)
    y = model(random(2, 2, *sizes, dtype=torch.float32))
    y.square().mean().backward()
    assert y.shape == (2, 3, *sizes)
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.abs().max() > 0 for p in model.parameters())


def test_torch_model_sees_where_its_points_are() -> None:
    torch.manual_seed(0)
    constant = torch.ones(1, 1, 8)
    seen, blind = (st.FNO(4, 1, 1, 4, positional=positional)(constant) for positional in (True, False))
    assert seen.std() > 1e-3
    assert blind.std() < 1e-6
