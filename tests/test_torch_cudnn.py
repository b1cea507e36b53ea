"""Convolutions that `spectralops.torch` leaves to cuDNN: which, and their values and gradients by PyTorch's kernels."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import spectralops as so  # noqa: E402
from spectralops import _dispatch  # noqa: E402
from spectralops import torch as st  # noqa: E402
from spectralops._arrays import ArraySpec  # noqa: E402
from spectralops._bilinear import ADJOINT, FORWARD, WEIGHT  # noqa: E402
from spectralops._plans import cudnn_cost  # noqa: E402
from spectralops.torch import _convolution, _cudnn  # noqa: E402

# PyTorch's own forward mode still uses its deprecated compiler.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")


def make(*shape: int, seed: int = 0, dtype: Any = torch.float64, device: str = "cpu") -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(device, dtype).requires_grad_()


def planned(images: tuple[int, ...], kernels: tuple[int, ...], dtype: str = "bfloat16", **options: Any) -> Any:
    weight = ArraySpec(kernels, options.pop("of", dtype))
    return so.plan_fft_conv2d(images, dtype, weight, padding=kernels[-1] // 2, device="cuda", **options)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Which maps PyTorch's kernels have been asked for."""
    found: list[int] = []

    def counted(which: int, *arguments: Any) -> Any:
        found.append(which)
        return convolved(which, *arguments)

    convolved = _cudnn.convolved
    monkeypatch.setattr(_convolution, "convolved", counted)
    return found


class TestPlans:
    @pytest.mark.parametrize(
        ("images", "kernels", "options"),
        [
            ((16, 64, 224, 224), (64, 64, 3, 3), {}),
            ((16, 64, 224, 224), (64, 64, 5, 5), {"dtype": "float16"}),
            ((16, 64, 224, 224), (64, 64, 7, 7), {"stride": 2}),
            ((1, 3, 224, 224), (64, 3, 3, 3), {"stride": 2}),
            ((64, 512, 14, 14), (512, 512, 3, 3), {}),
        ],
    )
    def test_few_taps_over_many_channels_are_handed_over(self, images: Any, kernels: Any, options: Any) -> None:
        plan = planned(images, kernels, **options)
        assert plan.handed_over
        assert "(cudnn: where spectralops.torch is called and it is quicker)" in plan.explain()

    @pytest.mark.parametrize(
        ("images", "kernels", "options"),
        [
            ((16, 64, 224, 224), (64, 64, 9, 9), {}),
            ((8, 16, 224, 224), (32, 16, 7, 7), {}),
            ((16, 64, 224, 224), (64, 64, 3, 3), {"method": "tiles"}),
            ((16, 64, 224, 224), (64, 64, 3, 3), {"dtype": "float32"}),
            ((16, 64, 224, 224), (64, 64, 3, 3), {"of": "float32"}),
            ((16, 64, 224, 224), (64, 1, 3, 3), {"groups": 64}),
        ],
    )
    def test_others_are_not(self, images: Any, kernels: Any, options: Any) -> None:
        assert not planned(images, kernels, **options).handed_over

    def test_time(self) -> None:
        found = dict(planned((2, 3, 8, 10), (4, 3, 3, 3)).seconds)["cudnn"]
        products, bytes_moved = 2 * 4 * 80 * 27, 2 * (2 * 3 * 80 + 2 * 4 * 80)
        expected = cudnn_cost.CALL + cudnn_cost.BYTE * bytes_moved + 4 * cudnn_cost.PRODUCT * products
        assert found == pytest.approx(expected)
        wide = dict(planned((2, 3, 8, 10), (64, 3, 3, 3)).seconds)["cudnn"]
        moved = 2 * (2 * 3 * 80 + 2 * 64 * 80)
        assert wide == pytest.approx(cudnn_cost.CALL + cudnn_cost.BYTE * moved + cudnn_cost.PRODUCT * 16 * products)

    def test_adjoints_and_other_devices_know_nothing_of_it(self) -> None:
        assert "cudnn" not in dict(planned((16, 64, 32, 32), (64, 64, 3, 3)).adjoint().seconds)
        plan = so.plan_fft_conv2d((16, 64, 32, 32), "bfloat16", ArraySpec((64, 64, 3, 3), "bfloat16"))
        assert "cudnn" not in dict(plan.seconds)
        assert not plan.handed_over

    def test_not_where_the_bias_makes_the_result_another(self) -> None:
        weight = ArraySpec((64, 64, 3, 3), "bfloat16")
        for dtype, handed in (("bfloat16", True), ("float32", False)):
            bias = ArraySpec((64,), dtype)
            plan = so.plan_fft_conv2d((16, 64, 224, 224), "bfloat16", weight, bias, device="cuda")
            assert (plan.out_dtype, plan.handed_over) == (dtype, handed)


class TestByName:
    """PyTorch's kernels on the host in the place of the device's."""

    @pytest.fixture(autouse=True)
    def anywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_cudnn, "available", lambda x: True)

    @pytest.mark.parametrize(
        ("images", "kernels", "options"),
        [
            ((2, 3, 4, 5), (2, 3, 3, 2), {"padding": 1}),
            ((1, 4, 5, 6), (2, 2, 2, 3), {"stride": (2, 1), "dilation": (1, 2), "groups": 2, "padding": (0, 2)}),
            ((2, 4, 5), (2, 2, 4, 2), {"padding": "same"}),
            ((1, 2, 4, 5), (2, 2, 2, 3), {"padding": "same", "padding_mode": "circular"}),
        ],
    )
    def test_values_and_gradients_of_every_order(self, images: Any, kernels: Any, options: Any) -> None:
        x, w, bias = make(*images), make(*kernels, seed=1), make(kernels[0], seed=2)

        def call(x: Any, w: Any, bias: Any) -> Any:
            return st.fft_conv2d(x, w, bias, method="cudnn", epilogue=so.Epilogue(scale=2.0), **options)

        expected = so.fft_conv2d(
            x.detach().numpy(), w.detach().numpy(), bias.detach().numpy(), epilogue=so.Epilogue(scale=2.0),
            backend="reference", **options,
        )  # fmt: skip
        torch.testing.assert_close(call(x, w, bias).detach(), torch.from_numpy(expected))
        assert torch.autograd.gradcheck(call, (x, w, bias), check_forward_ad=True, fast_mode=True)
        assert torch.autograd.gradgradcheck(call, (x, w, bias), fast_mode=True)

    def test_in_transforms(self) -> None:
        x, w = make(3, 2, 2, 5, 6).detach(), make(3, 2, 2, 3, 3, seed=1).detach()

        def gradient(x: Any, w: Any) -> Any:
            return torch.func.grad(lambda w: st.fft_conv2d(x, w, method="cudnn").square().sum())(w)

        found = torch.func.vmap(gradient)(x, w)
        for k in range(3):
            own = w[k].clone().requires_grad_()
            (expected,) = torch.autograd.grad(st.fft_conv2d(x[k], own).square().sum(), own)
            torch.testing.assert_close(found[k], expected)

    def test_complex_tensors_are_refused(self) -> None:
        x = torch.zeros(1, 1, 4, 4, dtype=torch.complex64)
        message = r"^fft_conv2d: method is 'cudnn' for torch.complex64, but must be another; cuDNN takes real tensors$"
        with pytest.raises(TypeError, match=message):
            st.fft_conv2d(x, x, method="cudnn")

    def test_left_to_it_where_it_is_quicker(self, monkeypatch: pytest.MonkeyPatch, calls: list[int]) -> None:
        monkeypatch.setattr(_convolution, "taken_over", lambda plan, x: x.dtype == torch.bfloat16)
        x, w = make(2, 3, 6, 8, dtype=torch.bfloat16), make(4, 3, 3, 3, seed=1, dtype=torch.bfloat16)
        expected = torch.nn.functional.conv2d(x, w, padding=1)
        y = st.fft_conv2d(x, w, padding=1)
        y.sum().backward()
        assert calls == [FORWARD, ADJOINT, WEIGHT]
        with torch.no_grad():
            assert torch.equal(st.fft_conv2d(x, w, padding=1), expected)
            assert len(calls) == 4
            # Not where a backend is asked for, nor where somebody watches what runs, nor where zeros are not the same.
            st.fft_conv2d(x, w, padding=1, backend="numpy")
            with _dispatch.observe(lambda *_: None):
                st.fft_conv2d(x, w, padding=1)
            st.fft_conv2d(x, w[..., :2], padding="same")
            st.fft_conv2d(x.double(), w.double(), padding=1)
        assert calls == [FORWARD, ADJOINT, WEIGHT, FORWARD, FORWARD]
        assert torch.equal(y, expected)


def test_elsewhere_it_is_refused() -> None:
    message = (
        "^fft_conv2d: method is 'cudnn' for a tensor on cpu, but must be 'auto', 'direct', 'fft' or 'tiles' there; "
        "cuDNN runs on CUDA devices$"
    )
    with pytest.raises(ValueError, match=message):
        st.fft_conv2d(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 2, 2), method="cudnn")


@pytest.mark.gpu
class TestOnDevice:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("compiled", [False, True])
    def test_layers(self, dtype: Any, compiled: bool, calls: list[int]) -> None:
        x, w = make(4, 64, 32, 32, dtype=dtype, device="cuda"), make(64, 64, 3, 3, seed=1, dtype=dtype, device="cuda")
        call = torch.compile(st.fft_conv2d, fullgraph=True) if compiled else st.fft_conv2d
        expected = torch.nn.functional.conv2d(x, w, padding=1)
        g = torch.randn_like(expected)
        wanted = torch.autograd.grad(expected, (x, w), g)
        y = call(x, w, padding=1)
        for found, right in zip((y, *torch.autograd.grad(y, (x, w), g)), (expected, *wanted), strict=True):
            torch.testing.assert_close(found, right)
        assert sorted(calls) == [FORWARD, ADJOINT, WEIGHT]
        with torch.no_grad():
            call(x, w, padding=1)
        assert len(calls) == 4

    def test_by_name(self) -> None:
        x, w = make(2, 3, 17, 18, dtype=torch.float32, device="cuda"), make(4, 3, 4, 3, seed=1, dtype=torch.float32)
        found = st.fft_conv2d(x, w.cuda(), padding="same", method="cudnn")
        expected = so.fft_conv2d(x.detach().cpu().numpy(), w.detach().numpy(), padding="same", backend="numpy")
        # PyTorch's own settings allow TF32.
        torch.testing.assert_close(found.detach().cpu(), torch.from_numpy(expected), rtol=2e-2, atol=2e-2)
