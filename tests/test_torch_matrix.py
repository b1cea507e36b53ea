"""Every operator and option against autograd of the plain pipeline, and against differences in float64."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import spectralops as so  # noqa: E402
from spectralops import torch as st  # noqa: E402

# PyTorch's own forward mode still uses its deprecated compiler.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

REAL, COMPLEX = torch.float64, torch.complex128


def make(*shape: int, dtype: Any = REAL, seed: int = 0) -> Any:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed + sum(shape))).requires_grad_()


def plain(x: Any, weight: Any, bias: Any, target: tuple[int, ...], norm: str) -> Any:
    """The layer as it is usually written: whole transforms, einsum over the kept modes, a spectrum of zeros."""
    axes, sizes, modes = tuple(range(2, x.ndim)), x.shape[2:], weight.shape[2:-1]
    kept = [*(torch.arange(-(m // 2), m // 2 + m % 2) for m in modes[:-1]), torch.arange(modes[-1])]

    def at(grid: Any) -> tuple[Any, ...]:
        return (..., *torch.meshgrid(*(k % n for k, n in zip(kept, grid, strict=True)), indexing="ij"))

    spectrum = torch.fft.rfftn(x, dim=axes, norm=norm)
    mixed = torch.einsum("bi...,io...->bo...", spectrum[at(sizes)], torch.view_as_complex(weight))
    out = mixed.new_zeros(*mixed.shape[:2], *target[:-1], target[-1] // 2 + 1)
    out[at(target)] = mixed
    return torch.fft.irfftn(out, s=target, dim=axes, norm=norm) + bias


GRIDS = {
    1: [(8,), (9,), (8,), (9,)],
    2: [(6, 8), (5, 7), (5, 8), (6, 7)],
    3: [(4, 4, 6), (3, 5, 5), (3, 4, 6), (4, 5, 5)],
}
# Output grids: as x, finer, and coarser by less than what the modes need.
CHANGES = {"=": 0, ">": 3, "<": -1}


def configurations() -> list[Any]:
    """72: dimensions, even and odd and mixed grids with the Nyquist mode kept or not, three output grids, three norms.

    Of the two grids of equal parity along one axis the second keeps one mode less.
    """
    found = []
    for (d, grids), change, norm in itertools.product(GRIDS.items(), CHANGES, ("forward", "backward", "ortho")):
        for j, grid in enumerate(grids):
            target = tuple(n + CHANGES[change] for n in grid)
            room = [min(pair) for pair in zip(grid, target, strict=True)]
            less = int(d == 1 and j >= 2)
            last = 2 * (room[-1] // 2 - less)
            found.append(
                pytest.param(grid, target, (*room[:-1], last), norm, id=f"{grid} {change} {target} {norm} {last}")
            )
    return found


CONFIGURATIONS = configurations()


def test_torch_there_are_72_configurations() -> None:
    assert len(CONFIGURATIONS) >= 72
    assert len({case.id for case in CONFIGURATIONS}) == len(CONFIGURATIONS)
    evens = [case.values for case in CONFIGURATIONS if case.values[0][-1] % 2 == 0]
    assert any(grid[-1] == n_modes[-1] for grid, _, n_modes, _ in evens)  # Nyquist


@pytest.mark.parametrize(("sizes", "target", "n_modes", "norm"), CONFIGURATIONS)
def test_torch_layer_is_the_plain_pipeline(sizes: Any, target: Any, n_modes: Any, norm: str) -> None:
    layer = st.SpectralConv(2, 3, n_modes, fft_norm=norm).double()
    x = make(2, 2, *sizes)
    inputs = (x, layer.weight, layer.bias)
    y, expected = layer(x, target), plain(*inputs, target, norm)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-13)
    g = torch.randn(expected.shape, dtype=REAL, generator=torch.Generator().manual_seed(1))
    got, wanted = (torch.autograd.grad(v, inputs, g) for v in (y, expected))
    for a, b in zip(got, wanted, strict=True):
        assert ((a - b).norm() / b.norm()).item() < 1e-14


def every_order(function: Any, *inputs: Any) -> None:
    check = functools.partial(torch.autograd.gradcheck, fast_mode=True, check_forward_ad=True, check_batched_grad=True)
    assert check(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


DERIVATIVE = so.transfer.derivative(axis=0)
FUNCTIONS: list[Any] = [
    pytest.param(DERIVATIVE, {}, id="derivative"),
    pytest.param(DERIVATIVE, {"pad_width": 2}, id="derivative, zeros around"),
    pytest.param(DERIVATIVE, {"pad_width": (1, 0), "pad_mode": "reflect"}, id="derivative, mirrored"),
    pytest.param(DERIVATIVE, {"pad_width": "auto", "pad_mode": "edge"}, id="derivative, edges on"),
    pytest.param(so.transfer.gaussian(0.5), {}, id="gaussian"),
    pytest.param(lambda k, m: 1 / (1 + k * k + 1j * m), {"pad_width": 1}, id="own"),
]


@pytest.mark.parametrize("dtype", [REAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize(("transfer", "pad"), FUNCTIONS)
def test_torch_filter_by_functions(transfer: Any, pad: dict[str, Any], dtype: Any) -> None:
    x = make(2, 5, 6, dtype=dtype)
    every_order(lambda x: st.spectral_filter(x, transfer, spacing=(0.5, 2.0), **pad), x)


@pytest.mark.parametrize("dtype", [REAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("factors", [(REAL, REAL), (COMPLEX, REAL), (COMPLEX, COMPLEX)], ids=["rr", "cr", "cc"])
def test_torch_filter_by_factors_of_padded_fields(factors: Any, dtype: Any) -> None:
    columns = 10 if dtype.is_complex else 6
    x, rows, line = make(2, 5, 6, dtype=dtype), make(7, 1, dtype=factors[0]), make(columns, dtype=factors[1])
    every_order(lambda x, a, b: st.spectral_filter(x, (a, b), pad_width=(1, 2)), x, rows, line)


@pytest.mark.parametrize("axes", [(1,), (3, 1), (0, 2)], ids=str)
def test_torch_filter_along_any_axes(axes: tuple[int, ...]) -> None:
    x = make(3, 4, 2, 5)
    sizes = [x.shape[axis] for axis in axes]
    sizes[-1] = sizes[-1] // 2 + 1
    shape = [1] * 4
    for axis, n in zip(axes, sizes, strict=True):
        shape[axis] = n
    every_order(functools.partial(st.spectral_filter, axes=axes), x, make(*shape, dtype=COMPLEX))


@pytest.mark.parametrize("depthwise", [False, True], ids=["mixing", "depthwise"])
@pytest.mark.parametrize("target", [None, (8, 4)], ids=str)
@pytest.mark.parametrize("view", [False, True], ids=["complex weight", "real view"])
@pytest.mark.parametrize("dtype", [REAL, COMPLEX], ids=["real", "complex"])
def test_torch_spectral_conv_of_every_kind(dtype: Any, view: bool, target: Any, depthwise: bool) -> None:
    channels = (2,) if depthwise else (2, 3)
    weight = make(*channels, 4, 3, *(2,) * view, dtype=REAL if view else COMPLEX)
    ours = functools.partial(st.spectral_conv, out_shape=target, depthwise=depthwise)
    every_order(ours, make(1, 2, 6, 7, dtype=dtype), weight)


@pytest.mark.parametrize("dtype", [REAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize(
    ("shape", "target", "axes"), [((2, 6, 9), (8, 5), None), ((6, 2), 9, 0), ((4, 3, 5), (6, 4, 4), (0, 1, 2))], ids=str
)
def test_torch_resampling_of_every_kind(shape: Any, target: Any, axes: Any, dtype: Any) -> None:
    x = make(*shape, dtype=dtype)
    torch.testing.assert_close(
        st.fourier_resample(x, target, axes=axes).detach(), so.fourier_resample(x.detach(), target, axes=axes)
    )
    every_order(lambda x: st.fourier_resample(x, target, axes=axes), x)


@pytest.mark.parametrize("method", ["direct", "fft", "tiles"])
@pytest.mark.parametrize("padding_mode", ["zeros", "reflect", "replicate", "circular"])
def test_torch_conv2d_by_every_method(padding_mode: str, method: str) -> None:
    x, weight, bias = make(1, 4, 6, 7), make(2, 2, 3, 2), make(2)
    options: dict[str, Any] = {"padding": (2, 1), "groups": 2, "padding_mode": padding_mode, "method": method}
    every_order(lambda x, w, b: st.fft_conv2d(x, w, b, **options), x, weight, bias)


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh", "silu", "tanh"])
def test_torch_conv2d_epilogues_have_gradients(activation: Any) -> None:
    epilogue = so.Epilogue(scale=(0.5, 2.0), shift=0.25, activation=activation)
    x, weight = make(2, 3, 5, 6), make(2, 3, 2, 2)
    every_order(lambda x, w: st.fft_conv2d(x, w, epilogue=epilogue), x, weight)


WALLS = (so.Dirichlet(0.3), so.Neumann(0.1))
STEPPED: list[Any] = [
    *(("euler", bc) for bc in (so.Periodic(), so.Robin(0.5, 0.2), so.Reflect(), so.Outflow(), so.Hold())),
    *((integrator, WALLS) for integrator in ("euler", "rk2", "ssprk3", "rk4")),
]


@pytest.mark.parametrize(("integrator", "bc"), STEPPED, ids=str)
def test_torch_steps_by_every_integrator_and_boundary(integrator: str, bc: Any) -> None:
    def function(u: Any, v: Any, nu: Any, s: Any) -> Any:
        terms = [so.Diffusion(nu * nu), so.Advection((v, -v), "central"), so.Source(s)]
        return st.pde_step(u, (1.5, 1.2), 0.05, terms, integrator=integrator, steps=2, bc=bc)

    inputs = make(4, 5), make(4, 5, seed=1), make(4, 5, seed=2), make(4, 5, seed=3)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize(("form", "masked"), [("advective", False), ("flux", True)], ids=str)
@pytest.mark.parametrize("scheme", ["central", "upwind", "upwind3", "weno5"])
def test_torch_steps_by_every_scheme(scheme: str, form: str, masked: bool) -> None:
    mask = make(5, 6, seed=4).detach() > -0.8 if masked else None

    def function(u: Any, v: Any) -> Any:
        wind, burgers = so.Advection((v, -v), scheme, form), so.SelfAdvection(scheme, form)
        options: dict[str, Any] = {"mask": mask, "on_unstable": "ignore"}
        return st.pde_step(u, 1.0, 0.05, [wind, burgers], **options)

    inputs = make(5, 6), make(5, 6, seed=1)
    options: dict[str, Any] = {"fast_mode": True, "atol": 1e-5, "rtol": 1e-3}
    assert torch.autograd.gradcheck(function, inputs, **options)
    assert torch.autograd.gradgradcheck(function, inputs, **options)


@pytest.mark.parametrize("method", ["stencil", "spectral", "auto"])
def test_torch_steps_by_every_method(method: str) -> None:
    options: dict[str, Any] = {"method": method, "steps": 3}
    function = lambda u: st.diffuse_convect_step(u, 1.0, 0.1, 0.8, velocity=(0.3, -0.2), **options)  # noqa: E731
    assert torch.autograd.gradcheck(function, (make(6, 8),), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (make(6, 8),), fast_mode=True)


W, K, NU = (make(*shape).detach() for shape in ((2, 3, 4, 3, 2), (3, 2, 3, 3), (6, 8)))
LINEAR: dict[str, Any] = {
    "spectral_filter": lambda x: st.spectral_filter(x, DERIVATIVE),
    "spectral_conv": lambda x: st.spectral_conv(x, W),
    "fourier_resample": lambda x: st.fourier_resample(x, (9, 5)),
    "fft_conv2d": lambda x: st.fft_conv2d(x, K),
    "convolve": lambda x: st.convolve(x, K[0, 0], mode="same"),
    "diffusion_step": lambda x: st.diffusion_step(x, 1.0, 0.1, NU.abs(), steps=2),
    "convection_step": lambda x: st.convection_step(x, (0.5, 0.25), 1.0, 0.1),
}


@pytest.mark.parametrize("name", LINEAR)
def test_torch_tangents_are_those_of_the_operator(name: str) -> None:
    """Never zero, as those of a bare custom operator would be."""
    x, tangent = make(1, 2, 6, 8).detach(), make(1, 2, 6, 8, seed=1).detach()
    y, dy = torch.func.jvp(LINEAR[name], (x,), (tangent,))
    torch.testing.assert_close(y, LINEAR[name](x))
    torch.testing.assert_close(dy, LINEAR[name](tangent))
    assert dy.abs().max() > 0.1


@pytest.mark.parametrize("which", [0, 1, 2], ids=["operator", "adjoint", "weight gradient"])
def test_torch_maps_of_the_operator_keep_its_contract(which: int) -> None:
    x, y, w = make(1, 2, 6, 8), make(1, 3, 6, 8), make(2, 3, 4, 3, 2)
    a, b, result = [(x, w, y), (y, w, x), (x, y, w)][which]
    operator = torch.ops.spectralops.bilinear.default
    arguments = (a, b, list(result.shape), REAL, which, "spectral_conv", "(False, (-2, -1))")
    assert set(torch.library.opcheck(operator, arguments).values()) == {"SUCCESS"}
