"""The differentiable operators of spectralops.torch: values, gradients of every order, transforms, compilation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import spectralops as so  # noqa: E402
from spectralops import _dispatch  # noqa: E402
from spectralops import torch as st  # noqa: E402
from spectralops.torch import _bilinear  # noqa: E402

# PyTorch's own forward mode still uses its deprecated compiler.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")

REAL, COMPLEX = torch.float64, torch.complex128


def make(*shape: int, dtype: Any = REAL, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=generator).requires_grad_()


def plain_filter(x: Any, transfer: Any, axes: tuple[int, ...]) -> Any:
    lengths = [x.shape[axis] for axis in axes]
    if x.is_complex():
        return torch.fft.ifftn(torch.fft.fftn(x, dim=axes) * transfer, dim=axes)
    return torch.fft.irfftn(torch.fft.rfftn(x, dim=axes) * transfer, s=lengths, dim=axes)


def plain_conv(x: Any, weight: Any, target: tuple[int, ...] | None) -> Any:
    """Truncated convolution by whole transforms and einsum."""
    d = weight.ndim - 2
    sizes, axes = tuple(x.shape[2:]), tuple(range(2, 2 + d))
    target = target or sizes
    kept = [torch.arange(-(m // 2), m // 2 + m % 2) for m in weight.shape[2:-1]] + [torch.arange(weight.shape[-1])]

    def places(grid: tuple[int, ...]) -> tuple[Any, ...]:
        return torch.meshgrid(*[k % n for k, n in zip(kept, grid, strict=True)], indexing="ij")

    modes = torch.fft.rfftn(x, dim=axes, norm="forward")[(..., *places(sizes))]
    mixed = torch.einsum("bi...,io...->bo...", modes, weight)
    spectrum = mixed.new_zeros(*mixed.shape[:2], *target[:-1], target[-1] // 2 + 1)
    spectrum[(..., *places(target))] = mixed
    return torch.fft.irfftn(spectrum, s=target, dim=axes, norm="forward")


def same_gradients(ours: Callable[..., Any], plain: Callable[..., Any], *inputs: Any) -> None:
    y, expected = ours(*inputs), plain(*inputs)
    torch.testing.assert_close(y, expected)
    v = torch.randn_like(expected)
    got = torch.autograd.grad(y, inputs, v)
    torch.testing.assert_close(got, torch.autograd.grad(expected, inputs, v))


def every_order(function: Callable[..., Any], *inputs: Any) -> None:
    check = functools.partial(torch.autograd.gradcheck, fast_mode=True, check_forward_ad=True, check_batched_grad=True)
    assert check(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


FILTERS = [
    pytest.param((2, 6, 7), (-2, -1), (6, 4), REAL, id="odd, no Nyquist"),
    pytest.param((2, 6, 8), (-2, -1), (6, 1), COMPLEX, id="a column of the spectrum"),
    pytest.param((3, 9), (-1,), (3, 5), COMPLEX, id="one per batch entry"),
    pytest.param((2, 4, 5, 6), (-3, -1), (4, 1, 4), REAL, id="axes apart"),
    pytest.param((6, 5, 2), (0, 1), (6, 3, 1), COMPLEX, id="leading axes"),
]


@pytest.mark.parametrize(("shape", "axes", "transfer", "dtype"), FILTERS)
def test_torch_filter_of_real_fields(shape, axes, transfer, dtype) -> None:
    x, h = make(*shape), make(*transfer, dtype=dtype)
    ours = functools.partial(st.spectral_filter, axes=axes)
    same_gradients(ours, functools.partial(plain_filter, axes=axes), x, h)
    every_order(ours, x, h)


@pytest.mark.parametrize("dtype", [REAL, COMPLEX], ids=["real transfer", "complex transfer"])
def test_torch_filter_of_complex_fields(dtype) -> None:
    x, h = make(2, 5, 6, dtype=COMPLEX), make(5, 6, dtype=dtype)
    same_gradients(st.spectral_filter, functools.partial(plain_filter, axes=(-2, -1)), x, h)
    every_order(st.spectral_filter, x, h)


def test_torch_filter_with_factors_for_the_axes() -> None:
    x, rows, columns = make(2, 6, 8), make(6, 1), make(5)
    ours = lambda x, a, b: st.spectral_filter(x, (a, b))  # noqa: E731
    same_gradients(ours, lambda x, a, b: plain_filter(x, a * b, (-2, -1)), x, rows, columns)


@pytest.mark.parametrize("mode", ["zero", "reflect", "edge"])
def test_torch_filter_of_padded_fields(mode: str) -> None:
    options: dict[str, Any] = {"pad_width": (1, "auto"), "pad_mode": mode, "spacing": (0.5, 2.0)}
    x, symbol = make(2, 5, 11), so.transfer.gaussian(0.7)
    expected = so.spectral_filter(x.detach(), symbol, **options)
    torch.testing.assert_close(st.spectral_filter(x, symbol, **options).detach(), expected)
    every_order(lambda x: st.spectral_filter(x, symbol, **options), x)


def test_torch_filter_by_a_callable_is_evaluated_each_time() -> None:
    x, factor = make(8), [1.0]
    first = st.spectral_filter(x, lambda k: factor[0] + 0 * k)
    factor[0] = 3.0
    torch.testing.assert_close(st.spectral_filter(x, lambda k: factor[0] + 0 * k), 3 * first)


CONVOLUTIONS = [
    pytest.param((6, 8), None, (4, 5), id="Nyquist kept"),
    pytest.param((5, 7), None, (3, 4), id="odd"),
    pytest.param((6, 8), (8, 12), (4, 5), id="finer grid"),
    pytest.param((8, 8), (6, 6), (5, 4), id="coarser grid"),
    pytest.param((9,), (12,), (5,), id="one axis"),
    pytest.param((4, 5, 6), None, (2, 3, 4), id="three axes"),
]


@pytest.mark.parametrize(("sizes", "target", "modes"), CONVOLUTIONS)
def test_torch_spectral_conv(sizes, target, modes) -> None:
    x, weight = make(2, 2, *sizes), make(2, 3, *modes, dtype=COMPLEX)
    ours = functools.partial(st.spectral_conv, out_shape=target)
    same_gradients(ours, lambda x, w: plain_conv(x, w, target), x, weight)
    every_order(ours, x, weight)


def test_torch_spectral_conv_with_a_real_view_of_the_weight() -> None:
    x, weight = make(2, 2, 6, 8), make(2, 3, 4, 3, 2)
    same_gradients(st.spectral_conv, lambda x, w: plain_conv(x, torch.view_as_complex(w), None), x, weight)
    every_order(st.spectral_conv, x, weight)


def test_torch_spectral_conv_depthwise() -> None:
    x, weight = make(2, 3, 6, 8), make(3, 4, 3, dtype=COMPLEX)
    dense = lambda x, w: plain_conv(x, torch.diag_embed(w.permute(1, 2, 0)).permute(2, 3, 0, 1), None)  # noqa: E731
    ours = functools.partial(st.spectral_conv, depthwise=True)
    same_gradients(ours, dense, x, weight)
    every_order(ours, x, weight)


def test_torch_spectral_conv_of_complex_fields() -> None:
    every_order(st.spectral_conv, make(2, 2, 5, 6, dtype=COMPLEX), make(2, 3, 3, 4, dtype=COMPLEX))


def test_torch_resampling() -> None:
    x = make(2, 6, 9)
    expected = so.fourier_resample(x.detach(), (8, 5))
    torch.testing.assert_close(st.fourier_resample(x, (8, 5)).detach(), expected)
    every_order(lambda x: st.fourier_resample(x, (8, 5)), x)


CONV2D: list[Any] = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": (2, 3), "padding": (2, 1), "dilation": (2, 1)},
    {"padding": "same", "dilation": 2},
    {"groups": 2, "stride": 2, "method": "fft"},
    {"padding": "valid", "method": "tiles"},
]


@pytest.mark.parametrize("options", CONV2D, ids=str)
def test_torch_conv2d(options: dict[str, Any]) -> None:
    x, weight, bias = make(2, 4, 7, 9), make(6, 4 // options.get("groups", 1), 3, 2), make(6)
    theirs = {key: value for key, value in options.items() if key != "method"}
    ours = functools.partial(st.fft_conv2d, **options)
    same_gradients(ours, functools.partial(torch.nn.functional.conv2d, **theirs), x, weight, bias)
    every_order(ours, x, weight, bias)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_torch_conv2d_padded_by_values(mode: str) -> None:
    layer = torch.nn.Conv2d(3, 2, 3, stride=2, padding=(2, 1), padding_mode=mode, dtype=REAL)
    x, weight, bias = make(2, 3, 6, 7), layer.weight.detach().requires_grad_(), layer.bias.detach().requires_grad_()
    ours = functools.partial(st.fft_conv2d, stride=2, padding=(2, 1), padding_mode=mode)
    theirs = lambda x, w, b: torch.func.functional_call(layer, {"weight": w, "bias": b}, x)  # noqa: E731
    same_gradients(ours, theirs, x, weight, bias)


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh", "silu", "tanh"])
def test_torch_conv2d_with_an_epilogue(activation: str | None) -> None:
    x, weight = make(3, 5, 6), make(2, 3, 2, 2)
    options: dict[str, Any] = {"epilogue": so.Epilogue(scale=(0.5, 2.0), shift=0.25, activation=activation)}
    expected = so.fft_conv2d(x.detach(), weight.detach(), **options)
    torch.testing.assert_close(st.fft_conv2d(x, weight, **options).detach(), expected)


def test_torch_conv2d_of_complex_images() -> None:
    x, weight = make(2, 2, 4, 5, dtype=COMPLEX), make(3, 2, 2, 3, dtype=COMPLEX)
    same_gradients(st.fft_conv2d, torch.nn.functional.conv2d, x, weight)
    every_order(st.fft_conv2d, make(1, 2, 4, 5), weight)


CONVOLVE: list[Any] = [
    ((3, 9), (4,), {}),
    ((2, 6, 7), (3, 2), {"mode": "same", "axes": (0, 2)}),
    ((2, 6, 7), (3, 2), {"mode": "same", "axes": (2, 0)}),
    ((2, 6, 7), (2, 3, 1), {"axes": 1}),
    ((1, 6, 7), (2, 3, 1), {"axes": 1}),
    ((5,), (9,), {"mode": "valid"}),
    ((9,), (5,), {"mode": "valid", "method": "fft"}),
    ((2, 8), (3,), {"mode": "same", "boundary": "wrap"}),
    ((2, 8), (4,), {"boundary": "symm"}),
    ((2, 8), (4,), {"fillvalue": 2.5, "mode": "same"}),
    ((2, 3), (7,), {"mode": "same"}),
]


@pytest.mark.parametrize("dtypes", [(REAL, REAL), (COMPLEX, REAL), (REAL, COMPLEX)], ids=["rr", "cr", "rc"])
@pytest.mark.parametrize(("shape", "kernel", "options"), CONVOLVE, ids=str)
def test_torch_convolve(shape, kernel, options, dtypes) -> None:
    x, k = make(*shape, dtype=dtypes[0]), make(*kernel, dtype=dtypes[1])
    ours = functools.partial(st.convolve, **options)
    torch.testing.assert_close(ours(x, k).detach(), so.convolve(x.detach(), k.detach(), **options))
    every_order(ours, x, k)


def test_torch_functions_without_gradients_are_the_plain_calls() -> None:
    x, h = make(6, 8).detach(), make(6, 5).detach()
    assert torch.equal(st.spectral_filter(x, h), so.spectral_filter(x, h))
    with torch.no_grad():
        assert not st.spectral_filter(make(6, 8), h).requires_grad


def test_torch_gradient_of_one_input_only() -> None:
    x, h = make(6, 8), make(6, 5)
    (got,) = torch.autograd.grad(st.spectral_filter(x, h.detach()).square().sum(), x)
    (expected,) = torch.autograd.grad(plain_filter(x, h.detach(), (-2, -1)).square().sum(), x)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
@pytest.mark.parametrize("axes", [(-2, -1), (-1, -2)], ids=["in order", "turned"])
def test_torch_gradients_of_a_layer_share_the_transform_of_the_incoming_one(depthwise, axes, monkeypatch) -> None:
    """With the bits of either by itself, and only where nothing is recorded or observed."""
    engine = pytest.importorskip("spectralops._cpu.spectral_conv")
    x = make(2, 3, 6, 8, dtype=torch.float32)
    weight = make(3, *(() if depthwise else (3,)), 4, 3, dtype=torch.complex64)
    together: list[Any] = []
    both = engine.gradients
    monkeypatch.setattr(engine, "gradients", lambda *a, **options: [together.append(a), both(*a, **options)])

    g = torch.linspace(-1, 1, 2 * 3 * 6 * 8).reshape(2, 3, 6, 8)

    def gradients(**options: Any) -> Any:
        y = st.spectral_conv(x, weight, axes=axes, depthwise=depthwise)
        return torch.autograd.grad(y, (x, weight), g, **options)

    found, plain = gradients(), (x.detach(), weight.detach())
    assert len(together) == 1
    plan = so.plan_spectral_conv(x.shape, x.dtype, plain[1], axes=axes, depthwise=depthwise)
    assert torch.equal(found[0], plan.adjoint()(g, plain[1]))
    assert torch.equal(found[1], so.spectral_conv_weight_gradient(plain[0], g, (4, 3), axes=axes, depthwise=depthwise))
    assert all(torch.equal(*pair) for pair in zip(found, gradients(create_graph=True), strict=True))
    with _dispatch.observe(lambda *_: None):
        _bilinear._kept.of = (torch.zeros(1), plan)  # as an interrupted call would leave it
        assert all(torch.equal(*pair) for pair in zip(found, gradients(), strict=True))
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    torch.testing.assert_close(gradients(), found)
    assert len(together) == 1
    monkeypatch.delenv("SPECTRALOPS_NUMBA")
    monkeypatch.setattr(engine, "keeping", None)  # is not asked where one of both gradients is wanted
    for pair in ((x, plain[1]), (plain[0], weight)):
        st.spectral_conv(*pair, axes=axes, depthwise=depthwise)


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (st.spectral_filter, ((0, 6, 5), (6, 3))),
        (st.spectral_conv, ((0, 3, 6, 5), (3, 2, 4, 3, 2))),
        (st.fft_conv2d, ((0, 4, 6, 5), (2, 4, 3, 3))),
        (st.convolve, ((0, 6), (3,))),
        (lambda u, nu: st.diffusion_step(u, 1.0, 0.1, nu, on_unstable="ignore"), ((3, 0), (3, 0))),
    ],
    ids=["filter", "layer", "conv2d", "convolve", "step"],
)
def test_torch_gradients_of_an_empty_batch_are_zero(call: Callable[..., Any], shapes: Any) -> None:
    inputs = [make(*shape) for shape in shapes]
    for gradient, shape in zip(torch.autograd.grad(call(*inputs).sum(), inputs), shapes, strict=True):
        assert gradient.equal(torch.zeros(shape, dtype=REAL))


def test_torch_half_precision_fields_keep_float32_weights() -> None:
    x, weight = make(2, 2, 8, 8, dtype=torch.float32), make(2, 2, 4, 3, 2, dtype=torch.float32)
    y = st.spectral_conv(x.bfloat16(), weight)
    y.float().square().sum().backward()
    (expected,) = torch.autograd.grad(st.spectral_conv(x, weight).square().sum(), weight)
    assert y.dtype == torch.bfloat16
    assert weight.grad.dtype == torch.float32
    assert (weight.grad - expected).norm() / expected.norm() < 2e-2


def test_torch_integers_become_the_default_float() -> None:
    h = make(5, dtype=torch.float32)
    y = st.spectral_filter(torch.arange(8), h)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y.detach(), so.spectral_filter(torch.arange(8.0), h.detach()))
    x, ones = make(1, 1, 4, 4, dtype=torch.float32), torch.ones(1, 1, 2, 2, dtype=torch.int64)
    for field in (x, x.detach()):
        assert st.convolve(field, ones).dtype == st.fft_conv2d(field, ones).dtype == torch.float32
        assert st.fft_conv2d(field.bfloat16(), ones.bfloat16(), torch.ones(1)).dtype == torch.float32


@pytest.mark.parametrize("recorded", [False, True])
def test_torch_conv2d_refuses_alike_with_and_without_gradients(recorded: bool) -> None:
    x, w = make(2, 3, 6, 8).requires_grad_(recorded), make(4, 3, 2, 3).detach()
    st.fft_conv2d(x, w, padding=1)
    for error, message, arguments, options in (
        (ValueError, r"bias has shape \(1,\), but must have shape \(4,\)", (torch.ones(1),), {}),
        (TypeError, r"stride is 1\.0, but must be integers", (), {"stride": 1.0}),
        (ValueError, r"stride is 0, but must be positive", (), {"stride": 0}),
        (ValueError, r"stride is \(2, 2\), but must be 1 for padding 'same'", (), {"stride": 2, "padding": "same"}),
        (ValueError, r"padding is 9 for a height of 6", (), {"padding": 9, "padding_mode": "circular"}),
        (ValueError, r"epilogue\.scale has 2 entries, but must have 4", (), {"epilogue": so.Epilogue(scale=(1, 2))}),
    ):
        with pytest.raises(error, match=f"^fft_conv2d: {message}"):
            st.fft_conv2d(x, w, *arguments, **options)


@pytest.mark.parametrize("recorded", [False, True])
def test_torch_sizes_and_flags_are_not_what_they_equal(recorded: bool) -> None:
    x, weight = make(2, 3, 6, 8).requires_grad_(recorded), make(3, 3, 2, 2, dtype=COMPLEX).detach()
    st.spectral_conv(x, weight, depthwise=False, out_shape=(4, 4))
    st.fourier_resample(x, (4, 4))
    with pytest.raises(TypeError, match=r"^spectral_conv: depthwise is 0, but must be True or False$"):
        st.spectral_conv(x, weight, depthwise=0)
    with pytest.raises(TypeError, match=r"^spectral_conv: out_shape is .4\.0, 4\.0., but must be integers$"):
        st.spectral_conv(x, weight, out_shape=(4.0, 4.0))
    with pytest.raises(TypeError, match=r"^fourier_resample: out_shape is .4\.0, 4\.0., but must be integers$"):
        st.fourier_resample(x, (4.0, 4.0))


@pytest.mark.parametrize("recorded", [False, True])
def test_torch_numbers_may_be_tensors_that_change(recorded: bool) -> None:
    x, w, number = make(2, 1, 4, 4).requires_grad_(recorded), make(1, 1, 2, 2).detach(), torch.tensor(1)
    for value in (1, 2):
        number.fill_(value)
        assert torch.equal(st.fft_conv2d(x, w, stride=number), st.fft_conv2d(x, w, stride=value))
        assert torch.equal(st.convolve(x, w[0, 0, 0], axes=number), st.convolve(x, w[0, 0, 0], axes=value))
        assert torch.equal(st.diffusion_step(x, number, 0.1, 1.0), st.diffusion_step(x, float(value), 0.1, 1.0))
        assert so.fft.fft(x.detach(), n=number).shape[-1] == value


def test_torch_per_sample_gradients() -> None:
    x, h = make(3, 6, 8).detach(), make(6, 5).detach()
    loss = lambda h, a: st.spectral_filter(a, h).square().sum()  # noqa: E731
    got = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(h, x)
    expected = torch.func.vmap(torch.func.grad(lambda h, a: plain_filter(a, h, (-2, -1)).square().sum()), (None, 0))(
        h, x
    )
    torch.testing.assert_close(got, expected)


def test_torch_vmap_folds_the_batch() -> None:
    x, w = make(4, 2, 2, 5, 5).detach(), make(2, 2, 3, 3).detach()
    expected = torch.stack([st.fft_conv2d(a, w) for a in x])
    torch.testing.assert_close(torch.func.vmap(lambda a: st.fft_conv2d(a, w))(x), expected)
    moved = torch.func.vmap(lambda a: st.fft_conv2d(a, w), in_dims=1)(x.movedim(0, 1))
    torch.testing.assert_close(moved, expected)


def test_torch_hessian_vector_product() -> None:
    x, h, v = make(6, 8).detach(), make(6, 5).detach(), make(6, 5, seed=1).detach()
    gradients = [
        torch.func.grad(lambda h, f=f: f(x, h).pow(3).sum())
        for f in (st.spectral_filter, functools.partial(plain_filter, axes=(-2, -1)))
    ]
    ours, expected = (torch.func.jvp(gradient, (h,), (v,))[1] for gradient in gradients)
    torch.testing.assert_close(ours, expected)


DERIVATIVE = so.transfer.derivative()


def model(x: Any, h: Any, w: Any, k: Any) -> Any:
    y = st.spectral_filter(x, h) + st.spectral_filter(x, DERIVATIVE, axes=-1, pad_width=2, spacing=0.5)
    y = torch.nn.functional.gelu(st.spectral_conv(y, w)) + st.fft_conv2d(y, k, padding="same", padding_mode="circular")
    return y + st.convolve(x, k[0, 0], axes=(-2, -1), mode="same", boundary="symm")


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_torch_compiles_whole(dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for n in (8, 10) if dynamic else (8,):
        inputs = make(2, 2, n, 8), make(n, 5, dtype=COMPLEX), make(2, 2, 4, 3, 2), make(2, 2, 3, 3)
        same_gradients(compiled, model, *inputs)


def test_torch_exports() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return st.spectral_conv(x, w)

    inputs = make(2, 2, 8, 8).detach(), make(2, 2, 4, 3, 2).detach()
    program = torch.export.export(Layer(), inputs)
    assert "spectralops.bilinear" in str(program.graph)
    torch.testing.assert_close(program.module()(*inputs), st.spectral_conv(*inputs))


def test_torch_operator_contract() -> None:
    operator = torch.ops.spectralops.bilinear.default
    arguments = (make(3, 6, 8), make(6, 5), [3, 6, 8], REAL, 0, "spectral_filter", "((-2, -1), (0, 0))")
    assert set(torch.library.opcheck(operator, arguments).values()) == {"SUCCESS"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.spectral_filter([1.0], torch.ones(1)), "spectral_filter: x is a list, but must be a torch.Tensor"),
        (lambda: st.spectral_filter(make(4), [1.0]), r"spectral_filter: transfer is a list, but must be a torch"),
        (lambda: st.spectral_filter(make(4), (make(3), 2)), r"spectral_filter: transfer\[1\] is a int, but must be"),
        (lambda: st.spectral_conv(make(1, 1, 4), 3), "spectral_conv: weight is a int, but must be a torch.Tensor"),
        (lambda: st.fft_conv2d(make(1, 1, 4, 4), make(1, 1, 2, 2), 3), "fft_conv2d: bias is a int, but must be a"),
        (lambda: st.convolve(make(4), "k"), "convolve: kernel is a str, but must be a torch.Tensor"),
        (lambda: st.fourier_resample(2.0, 3), "fourier_resample: x is a float, but must be a torch.Tensor"),
        (lambda: st.convolve(make(4), make(2), fillvalue=1j), "convolve: fillvalue is 1j, but must be real"),
        (lambda: st.convolve(make(4), make(2), fillvalue=make(1)[0]), "convolve: fillvalue requires grad"),
        (lambda: so.transfer.gaussian(make(1)[0]), "gaussian: sigma requires grad, but must not"),
    ],
)
def test_torch_functions_take_tensors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()
