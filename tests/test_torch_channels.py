"""Maps of channels as matrix products: values, gradients, memory, kernels on a device."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from spectralops import torch as st  # noqa: E402
from spectralops._bilinear import FORWARD  # noqa: E402
from spectralops.torch import _channels  # noqa: E402
from spectralops.torch._bilinear import Call  # noqa: E402

CONV = Call(FORWARD, "spectral_conv", (False, (-2, -1)))


def make(*shape: int, seed: int = 0, dtype: Any = torch.float64) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=generator).requires_grad_()


def layer(beside: str, active: bool) -> Any:
    """A layer of x, its weight and bias, and a field or a weight beside."""

    def function(x: Any, w: Any, b: Any, y: Any = None, more: Any = None) -> Any:
        onto = y * 1 if beside == "field" else None
        call, values = (CONV, y) if beside == "operator" else (None, None)
        return _channels.Layer.apply(x, w, b, more, active, onto, call, values)

    return function


def plain(beside: str, active: bool) -> Any:
    def function(x: Any, w: Any, b: Any, y: Any = None, more: Any = 0) -> Any:
        z = torch.einsum("oc,bcij->boij", w[..., 0], x) + b[:, None, None] + more
        if y is not None:
            z = z + (y if beside == "field" else st.spectral_conv(x, y))
        return torch.nn.functional.gelu(z) if active else z

    return function


BESIDE = {
    "nothing": (),
    "field": (make(2, 5, 4, 2, seed=3), make(5, 1, 1, seed=6)),
    "operator": (make(3, 5, 2, 2, 2, seed=4), make(5, 1, 1, seed=6)),
}


@pytest.mark.parametrize("active", [False, True], ids=["linear", "active"])
@pytest.mark.parametrize("beside", BESIDE)
def test_torch_layer_has_gradients_of_every_order(beside: str, active: bool) -> None:
    inputs = make(2, 3, 4, 2), make(5, 3, 1), make(5), *BESIDE[beside]
    ours, expected = layer(beside, active), plain(beside, active)
    y, wanted = ours(*inputs), expected(*inputs)
    torch.testing.assert_close(y, wanted)
    cotangent = make(*y.shape, seed=5)
    for got, right in zip(
        torch.autograd.grad(y, inputs, cotangent), torch.autograd.grad(wanted, inputs, cotangent), strict=True
    ):
        torch.testing.assert_close(got, right)
    assert torch.autograd.gradcheck(ours, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(ours, inputs, fast_mode=True)


@pytest.mark.parametrize("which", range(5), ids=["x", "weight", "bias", "values", "more"])
def test_torch_layer_has_the_gradients_that_are_asked_for(which: int) -> None:
    inputs = [make(2, 3, 4, 2), make(5, 3, 1), make(5), *BESIDE["operator"]]
    chosen = [x if k == which else x.detach() for k, x in enumerate(inputs)]
    y, wanted = layer("operator", True)(*chosen), plain("operator", True)(*chosen)
    for again in (False, True):  # recorded, too
        got, right = (
            torch.autograd.grad(each.sin().sum(), chosen[which], create_graph=again, retain_graph=True)[0]
            for each in (y, wanted)
        )
        torch.testing.assert_close(got, right)


@pytest.mark.parametrize("again", [False, True], ids=["first order", "recorded"])
@pytest.mark.parametrize("active", [False, True], ids=["linear", "active"])
@pytest.mark.parametrize("kind", ["shared weights", "onto a function of x"])
def test_torch_layer_of_inputs_that_depend_on_one_another(kind: str, active: bool, again: bool) -> None:
    """No layer may count what another one passes on."""
    x, w, b = inputs = make(2, 3, 4, 2), make(3, 3, 1), make(3)

    def loss(apply: Any) -> Any:
        y = apply(apply(x, w, b), w, b) if kind == "shared weights" else apply(x, w, b, x.square())
        return y.sin().sum()

    beside = "nothing" if kind == "shared weights" else "field"
    got, right = (
        torch.autograd.grad(loss(each(beside, active)), inputs, create_graph=again) for each in (layer, plain)
    )
    torch.testing.assert_close(got, right)
    if again:
        seconds = [torch.autograd.grad(sum(g.square().sum() for g in each), inputs) for each in (got, right)]
        torch.testing.assert_close(*seconds)


@pytest.mark.parametrize("active", [False, True], ids=["linear", "active"])
@pytest.mark.parametrize("beside", BESIDE)
def test_torch_layer_has_gradients_of_many_results_at_once(beside: str, active: bool) -> None:
    inputs = make(2, 3, 4, 2), make(5, 3, 1), make(5), *BESIDE[beside]
    y = layer(beside, active)(*inputs)
    cotangents = torch.stack([make(*y.shape, seed=seed).detach() for seed in (5, 6)])
    every = torch.autograd.grad(y, inputs, cotangents, is_grads_batched=True, retain_graph=True)
    for k, g in enumerate(cotangents):
        torch.testing.assert_close([each[k] for each in every], list(torch.autograd.grad(y, inputs, g, True)))
    assert not any(each.requires_grad for each in every)


def test_torch_layer_reads_gradients_that_are_negative_views(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    outer = _channels._outer
    monkeypatch.setattr(_channels, "_outer", lambda g, x: seen.append(g.is_neg()) or outer(g, x))
    x, w, b = make(2, 3, 4), make(5, 3, 1), make(5)
    y = _channels.Layer.apply(x, w, b, None, False, None, None, None)
    g = make(*y.shape, seed=1).detach()
    got = torch.autograd.grad(y, (x, w, b), torch._neg_view(g), retain_graph=True)
    torch.testing.assert_close(got, torch.autograd.grad(y, (x, w, b), -g))
    assert seen == [False, False]


def test_torch_layer_writes_into_what_it_goes_onto() -> None:
    y = make(2, 5, 4).detach().clone()
    result = _channels.Layer.apply(make(2, 3, 4), make(5, 3, 1), make(5), None, False, y, None, None)
    assert result.data_ptr() == y.data_ptr()


def test_torch_channel_map_is_a_convolution() -> None:
    torch.manual_seed(0)
    ours, other = _channels.ChannelMap(3, 5), torch.nn.Conv1d(3, 5, 1)
    other.load_state_dict(ours.state_dict())
    x = torch.randn(2, 3, 4, 6)
    expected = other(x.flatten(2)).unflatten(2, (4, 6))
    torch.testing.assert_close(ours(x), expected)
    onto, bias = torch.randn(2, 5, 4, 6), torch.randn(5, 1, 1)
    torch.testing.assert_close(ours(x, onto, bias), expected + onto + bias)
    torch.testing.assert_close(ours(x, active=True), torch.nn.functional.gelu(expected))


def test_torch_maps_in_order_have_an_activation_between_them() -> None:
    torch.manual_seed(0)
    maps = _channels.Pointwise(3, 5, 2)
    assert list(maps.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(maps(x), maps[2](torch.nn.functional.gelu(maps[0](x))))


def test_torch_maps_keep_the_activation_that_is_put_between_them() -> None:
    torch.manual_seed(0)
    maps, x = _channels.Pointwise(3, 5, 2), torch.randn(2, 3, 4)
    for activation in (torch.nn.SiLU(), torch.nn.GELU("tanh")):
        maps[1] = activation
        torch.testing.assert_close(maps(x), maps[2](activation(maps[0](x))), rtol=0, atol=0)


def test_torch_layers_are_for_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.zeros(1, 2, 4), torch.zeros(3, 2)
    assert not _channels.covered(x, weight)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    assert _channels.covered(x, weight)
    assert not _channels.covered(x, weight.double())
    assert not _channels.covered(x, weight.to("meta"))  # a model that was left on the host
    assert not _channels.covered(torch._neg_view(x), weight)
    assert not _channels.covered(torch.zeros(1, 4, 2).mT, weight)
    assert not _channels.covered(x, weight.mT)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda: True)
    assert not _channels.covered(x, weight)


def test_torch_blocks_on_a_device_are_the_same_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the path for devices but its kernels."""
    torch.manual_seed(0)
    model = st.FNO((4, 4), 1, 1, 4, 3).double()
    x = make(2, 1, 8, 6)
    expected = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
    applied: list[Any] = []
    apply = _channels.Layer.apply
    monkeypatch.setattr(_channels.Layer, "apply", lambda *a: applied.append(a[6]) or apply(*a))
    monkeypatch.setattr("spectralops.torch._channels.covered", lambda *_: True)
    monkeypatch.setattr("spectralops.torch.models.covered", lambda *_: True)
    found = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
    assert [call is not None for call in applied] == [False, False, True, True, True, False, False]
    for got, right in zip(found, expected, strict=True):
        torch.testing.assert_close(got, right)


@pytest.mark.gpu
@pytest.mark.parametrize("size", [64, 15], ids=["aligned", "odd"])
def test_torch_channel_map_on_a_device(size: int) -> None:
    torch.manual_seed(0)
    here = st.FNO((8, 8), 1, 1, 8, 2)
    there = st.FNO((8, 8), 1, 1, 8, 2).cuda()
    there.load_state_dict(here.state_dict())
    x = torch.randn(2, 1, size, size)
    for model, field in ((here, x), (there, x.cuda())):
        model(field).square().mean().backward()
    for a, b in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=2e-3, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("points", [64, 33], ids=["aligned", "odd"])
@pytest.mark.parametrize("channels", [(64, 64), (128, 3), (1, 128), (70, 20)], ids=str)
def test_torch_layer_on_a_device(channels: tuple[int, int], points: int) -> None:
    """The kernels, to single precision."""
    rows, columns = channels
    inputs = make(2, columns, points), make(rows, columns, 1), make(rows), make(2, rows, points), make(rows, 1)
    x, w, b, onto, more = inputs
    expected = torch.nn.functional.gelu(torch.einsum("oc,ncp->nop", w[..., 0], x) + onto + b[:, None] + more)
    g = make(*expected.shape, seed=1)
    right = torch.autograd.grad(expected, inputs, g)
    there = [x.detach().cuda().float().requires_grad_() for x in inputs]
    x, w, b, onto, more = there
    y = _channels.Layer.apply(x, w, b, more, True, onto * 1, None, None)
    torch.testing.assert_close(y.cpu().double(), expected, rtol=1e-4, atol=1e-5)
    for got, wanted in zip(torch.autograd.grad(y, there, g.cuda().float()), right, strict=True):
        torch.testing.assert_close(got.cpu().double(), wanted, rtol=1e-4, atol=1e-4)
