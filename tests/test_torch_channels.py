"""Maps of channels as matrix products: values, gradients, memory."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from spectralops import torch as st  # noqa: E402
from spectralops.torch import _channels  # noqa: E402


def make(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.mark.parametrize("onto", [False, True], ids=["alone", "onto"])
def test_torch_channel_map_has_gradients_of_every_order(onto: bool) -> None:
    def function(x: Any, w: Any, b: Any, y: Any) -> Any:
        return _channels.Mapped.apply(x, w, b, y * 1 if onto else None)

    inputs = make(2, 3, 4, 2), make(5, 3), make(5), make(2, 5, 4, 2)
    x, w, b, y = inputs
    expected = torch.einsum("oc,bcij->boij", w, x) + b[:, None, None] + (y if onto else 0)
    torch.testing.assert_close(function(*inputs), expected)
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("shape", [(3, 4, 1024), (2, 3, 999), (1, 1, 4096), (5, 2, 1)], ids=str)
@pytest.mark.parametrize("budget", [1, 1 << 30], ids=["row by row", "at once"])
def test_torch_sum_over_points_in_parts(shape: Any, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_channels, "COPIED_BYTES", budget)
    g, x = make(*shape), make(shape[0], 6, shape[2], seed=1)
    torch.testing.assert_close(_channels._outer(g, x), torch.einsum("bop,bcp->oc", g, x))


def test_torch_channel_map_writes_into_what_it_goes_onto() -> None:
    y = make(2, 5, 4).detach().clone()
    assert _channels.Mapped.apply(make(2, 3, 4), make(5, 3), make(5), y).data_ptr() == y.data_ptr()


def test_torch_channel_map_is_a_convolution() -> None:
    torch.manual_seed(0)
    ours, plain = _channels.ChannelMap(3, 5), torch.nn.Conv1d(3, 5, 1)
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(2, 3, 4, 6)
    torch.testing.assert_close(ours(x), plain(x.flatten(2)).unflatten(2, (4, 6)))
    onto, bias = torch.randn(2, 5, 4, 6), torch.randn(5, 1, 1)
    torch.testing.assert_close(ours(x, onto, bias), ours(x) + onto + bias)


@pytest.mark.gpu
def test_torch_channel_map_on_a_device() -> None:
    torch.manual_seed(0)
    here = st.FNO((8, 8), 1, 1, 8, 2)
    there = st.FNO((8, 8), 1, 1, 8, 2).cuda()
    there.load_state_dict(here.state_dict())
    x = torch.randn(2, 1, 64, 64)
    for model, field in ((here, x), (there, x.cuda())):
        model(field).square().mean().backward()
    for a, b in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=2e-3, atol=1e-5)
