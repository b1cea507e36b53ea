"""fft_conv2d: plans, adjoints, and every bad argument with its message."""

from __future__ import annotations

import math
import pickle
import re

import numpy as np
import pytest
from support import random_array

import spectralops as so
from spectralops._plans import conv2d as plans

METHODS = ("direct", "fft", "tiles")
BACKENDS = ("cpu", "numpy", "reference")


def close(result, expected, rtol=1e-12):
    assert result.shape == expected.shape
    scale = np.abs(expected).max(initial=1e-300)
    np.testing.assert_allclose(result, expected, rtol=0, atol=rtol * scale)


class TestPlan:
    def plan(self, x=(2, 4, 20, 30), weight=(8, 2, 3, 5), bias=None, dtype="f8", **options):
        arrays = [np.ones(weight, dtype), None if bias is None else np.ones(bias, dtype)]
        return so.plan_fft_conv2d(x, dtype, *arrays, **({"groups": 2} | options))

    def test_is_a_value(self):
        plan = self.plan(epilogue=so.Epilogue(2.0))
        assert pickle.loads(pickle.dumps(plan)) == plan
        assert hash(pickle.loads(pickle.dumps(plan))) == hash(plan)
        assert self.plan(epilogue=so.Epilogue(2.0)) is plan
        assert plan != self.plan(epilogue=so.Epilogue(3.0))
        assert plans._build.cache_info().maxsize == 512

    def test_attributes(self):
        plan = self.plan(bias=(8,), dtype="f4", stride=(1, 2), padding=(3, 1), dilation=(2, 1))
        assert (plan.op, plan.backend) == ("fft_conv2d", "cpu")
        assert [operand.name for operand in plan.operands] == ["x", "weight", "bias"]
        assert {operand.compute for operand in plan.operands} == {"float32"}
        assert (plan.in_shape, plan.out_shape) == ((2, 4, 20, 30), (2, 8, 22, 14))
        assert (plan.out_dtype, plan.compute_dtype) == ("float32", "float32")
        assert (plan.stride, plan.padding, plan.dilation) == ((1, 2), ((3, 3), (1, 1)), (2, 1))
        assert (plan.kernel, plan.spread, plan.groups) == ((5, 5), (1, 1), 2)
        assert (plan.in_place, plan.forward, plan.epilogue) == (False, None, None)
        assert plan.halo == (0, 0, 4, 4)
        assert self.plan(x=(4, 20, 30)).halo == (0, 2, 4)

    def test_half_precision_computes_in_single(self):
        plan = self.plan(dtype="f2")
        assert (plan.out_dtype, plan.compute_dtype) == ("float16", "float32")

    def test_bytes_moved(self):
        plan = self.plan(bias=(8,), dtype="f4")
        assert plan.bytes_moved == 4 * (2 * 4 * 20 * 30 + 8 * 2 * 3 * 5 + 8 + 2 * 8 * 18 * 26)

    def test_flops_of_direct_sums(self):
        assert self.plan(method="direct").flops == 2 * (2 * 8 * 18 * 26) * 2 * 15
        assert self.plan(method="direct", dtype="c16").flops == 8 * (2 * 8 * 18 * 26) * 2 * 15

    def test_flops_of_transforms(self, plain):
        """Each group: 2 images of 2 + 4 channels and 8 kernels; 8 complex products at each of 20 x 16 frequencies."""
        plan = self.plan(method="fft")
        assert plan.lengths == (20, 30)
        one = round(2.5 * 600 * math.log2(600))
        assert plan.flops == 2 * ((2 * 6 + 8) * one + 8 * 8 * 2 * 320)

    def test_flops_of_complex_transforms(self, plain):
        plan = self.plan(method="fft", dtype="c16")
        one = round(5 * 600 * math.log2(600))
        assert plan.flops == 2 * ((2 * 6 + 8) * one + 8 * 8 * 2 * 600)

    def test_index_bits(self):
        weight = (1, 1, 3, 3)
        assert self.plan(x=(1, 2**15, 2**16 - 1), weight=weight, groups=1, method="direct").index_bits == 32
        padded = self.plan(x=(1, 2**15, 2**16 - 1), weight=weight, groups=1, padding=1, method="direct")
        assert padded.index_bits == 64

    def test_explain(self, plain):
        plan = self.plan(bias=(8,), padding=1, method="fft")
        lines = plan.explain().splitlines()
        assert lines[0] == (
            "fft_conv2d on backend 'cpu': x float64[2, 4, 20, 30], weight float64[8, 2, 3, 5], bias float64[8] "
            "-> float64[2, 8, 20, 28]"
        )
        assert lines[1] == (
            "stride (1, 1), padding ((1, 1), (1, 1)) 'zeros', dilation (1, 1), groups 2, epilogue None, "
            "computed in float64"
        )
        assert lines[2].startswith("method: fft, lengths 24x32, asked for, by NumPy and SciPy: one transform")
        assert lines[3].startswith("cost model: direct ")

    def test_explain_adjoint(self):
        assert self.plan().adjoint().explain().startswith("fft_conv2d (adjoint) on backend 'cpu': x float64[2, 8, 18")

    @pytest.mark.parametrize(
        ("method", "x", "weight", "groups"),
        [
            ("direct", (2, 16, 64, 64), (16, 16, 3, 3), 1),
            ("direct", (2, 64, 112, 112), (64, 1, 3, 3), 64),
            ("tiles", (2, 16, 224, 224), (32, 16, 9, 9), 1),
            ("fft", (2, 16, 100, 100), (16, 1, 31, 31), 16),
        ],
    )
    def test_auto(self, method, x, weight, groups):
        assert self.plan(x=x, weight=weight, groups=groups, dtype="f4").method == method

    def test_auto_equals_the_method_it_names(self, rng):
        x, weight = rng.standard_normal((2, 4, 20, 30)), rng.standard_normal((8, 2, 3, 5))
        plan = self.plan()
        assert plan.requested == "auto"
        assert np.array_equal(plan(x, weight), so.fft_conv2d(x, weight, groups=2, method=plan.method))


class TestAdjoint:
    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("dtype", ["float64", "complex128"])
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"padding": (4, 1)},
            {"stride": (2, 3), "padding": (1, 2)},
            {"stride": (2, 1)},
            {"stride": (1, 2)},
            {"dilation": (2, 1), "padding": "same"},
            {"groups": 2, "stride": 3},
            {"padding_mode": "circular", "padding": 0},
        ],
        ids=str,
    )
    def test_dot_test(self, rng, options, dtype, method, backend):
        """<A x, y> = <x, A* y>."""
        x = random_array(rng, (2, 4, 13, 12), dtype)
        weight = random_array(rng, (6, 4 // options.get("groups", 1), 3, 4), dtype)
        plan = so.plan_fft_conv2d(x.shape, dtype, weight, method=method, backend=backend, **options)
        adjoint = plan.adjoint()
        y = random_array(rng, plan.out_shape, dtype)
        assert adjoint.in_shape == plan.out_shape
        assert adjoint.out_shape == x.shape
        assert (adjoint.requested, adjoint.backend) == (method, backend)
        assert adjoint.spread == plan.stride
        assert np.vdot(plan(x, weight), y) == pytest.approx(np.vdot(x, adjoint(y, weight)), rel=1e-11)
        assert adjoint.adjoint() is plan

    @pytest.mark.parametrize("stride", [1, 2])
    def test_is_torchs_transpose(self, rng, stride):
        torch = pytest.importorskip("torch")
        weight, y = rng.standard_normal((6, 4, 3, 4)), rng.standard_normal((2, 6, 5, 5))
        size = (4 * stride + 1, 4 * stride + 2)  # padding 1 undone
        plan = so.plan_fft_conv2d((2, 4, *size), "f8", weight, stride=stride, padding=1)
        expected = torch.nn.functional.conv_transpose2d(torch.from_numpy(y), torch.from_numpy(weight), None, stride, 1)
        close(plan.adjoint()(y, weight), expected.numpy())

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_depthwise_and_unbatched(self, rng, backend):
        x, weight = rng.standard_normal((3, 9, 8)), rng.standard_normal((6, 1, 3, 3))
        plan = so.plan_fft_conv2d(x.shape, x.dtype, weight, groups=3, stride=2, backend=backend)
        y = rng.standard_normal(plan.out_shape)
        assert np.vdot(plan(x, weight), y) == pytest.approx(np.vdot(x, plan.adjoint()(y, weight)), rel=1e-12)

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"bias": True}, "fft_conv2d: bias is given, but must be None for the map to be linear"),
            ({"epilogue": so.Epilogue(2.0)}, "fft_conv2d: epilogue is given, but must be None for the map"),
            (
                {"padding": 1, "padding_mode": "reflect"},
                "fft_conv2d: padding_mode is 'reflect', but must be 'zeros' to have an adjoint that is a convolution",
            ),
            (
                {"weight": complex},
                "fft_conv2d: x is float64 and weight complex128, but both must be real, or x complex, to have",
            ),
        ],
    )
    def test_without(self, options, text):
        weight = np.ones((2, 1, 3, 3), options.pop("weight", float))
        bias = np.ones(2) if options.pop("bias", False) else None
        plan = so.plan_fft_conv2d((1, 9, 8), "f8", weight, bias, **options)
        with pytest.raises(so.UnsupportedError, match=re.escape(text)):
            plan.adjoint()


class TestErrors:
    @pytest.mark.parametrize(
        ("x", "weight", "options", "text"),
        [
            pytest.param(
                (2, 3, 16, 16),
                (2, 4, 3, 3),
                {},
                "x has 3 channels, but must have 4 for a weight of shape (2, 4, 3, 3) and 1 groups",
                id="err03-channels",
            ),
            pytest.param(
                (2, 3, 16, 16),
                (2, 1, 3, 3),
                {"groups": 2},
                "groups is 2, but must divide the 3 channels of x and the 2 of weight",
                id="err03-groups",
            ),
            pytest.param(
                (2, 4, 9, 9), (3, 2, 3, 3), {"groups": 2}, "groups is 2, but must divide the 4 channels of x and the 3"
            ),
            pytest.param((2, 4, 9, 9), (4, 2, 3, 3), {"groups": 0}, "groups is 0, but must be positive"),
            pytest.param((2, 4, 9, 9), (4, 2, 3, 3), {"groups": (1, 2)}, "groups has 2 entries, but must have 1"),
            pytest.param((9, 9), (1, 1, 3, 3), {}, "x has 2 dimensions, but must have 4 (N, C, H, W) or 3 (C, H, W)"),
            pytest.param((1, 1, 1, 9, 9), (1, 1, 3, 3), {}, "x has 5 dimensions, but must have 4"),
            pytest.param(
                (1, 9, 9),
                (1, 3, 3),
                {},
                "weight has 3 dimensions, but must have 4 (C_out, C_in / groups, K_h, K_w)",
                id="err03-ndim",
            ),
            pytest.param((1, 0, 9), (1, 1, 3, 3), {}, "x has shape (1, 0, 9) with length 0 along axis 1"),
            pytest.param((2, 0, 9, 9), (1, 0, 3, 3), {}, "x has shape (2, 0, 9, 9) with length 0 along axis 1"),
            pytest.param((1, 9, 9), (1, 1, 0, 3), {}, "weight has shape (1, 1, 0, 3) with length 0 along axis 2"),
            pytest.param((1, 9, 9), (1, 0, 3, 3), {}, "weight has shape (1, 0, 3, 3) with length 0 along axis 1"),
            pytest.param((1, 9, 9), (1, 1, 3, 0), {}, "weight has shape (1, 1, 3, 0) with length 0 along axis 3"),
            pytest.param((1, 9, 9), (0, 1, 3, 3), {}, "weight has shape (0, 1, 3, 3) with length 0 along axis 0"),
            pytest.param((1, 9, 9), (1, 1, 3, 3), {"stride": (1, 0)}, "stride is (1, 0), but must be positive"),
            pytest.param((1, 9, 9), (1, 1, 3, 3), {"stride": (1, 1, 1)}, "stride has 3 entries, but must have 2"),
            pytest.param((1, 9, 9), (1, 1, 3, 3), {"dilation": 0}, "dilation is 0, but must be positive"),
            pytest.param((1, 9, 9), (1, 1, 3, 3), {"padding": -1}, "padding is (-1,), but must not be negative"),
            pytest.param((1, 9, 9), (1, 1, 3, 3), {"padding": (1, 2, 3, 4)}, "padding has 4 entries, but must have 2"),
            pytest.param(
                (1, 9, 9), (1, 1, 3, 3), {"padding": "sam"}, "padding is 'sam', but must be 'same' or 'valid'"
            ),
            pytest.param(
                (1, 9, 9),
                (1, 1, 3, 3),
                {"padding": "same", "stride": 2},
                "stride is (2, 2), but must be 1 for padding 'same'",
            ),
            pytest.param(
                (1, 9, 9),
                (1, 1, 3, 3),
                {"padding_mode": "constant"},
                "padding_mode is 'constant', but must be 'zeros', 'reflect', 'replicate' or 'circular'",
            ),
            pytest.param(
                (1, 4, 9),
                (1, 1, 3, 3),
                {"padding": (4, 0), "padding_mode": "reflect"},
                "padding is 4 for a height of 4, but must be at most 3 for padding_mode 'reflect'",
            ),
            pytest.param(
                (1, 9, 4),
                (1, 1, 3, 3),
                {"padding": (0, 5), "padding_mode": "circular"},
                "padding is 5 for a width of 4, but must be at most 4 for padding_mode 'circular'",
            ),
            pytest.param(
                (1, 4, 9),
                (1, 1, 4, 3),
                {"dilation": 2, "padding": 1},
                "x has height 4, 6 with padding, but must have at least the kernel's 7 (with dilation)",
            ),
            pytest.param(
                (1, 9, 2), (1, 1, 3, 3), {}, "x has width 2, 2 with padding, but must have at least the kernel's 3"
            ),
            pytest.param((1, 9, 9), (1, 1, 3, 3), {"method": "winograd"}, "method is 'winograd', but must be 'auto'"),
            pytest.param(
                (1, 9, 9),
                (2, 1, 3, 3),
                {"epilogue": so.Epilogue(scale=(1, 2, 3))},
                "epilogue.scale has 3 entries, but must have 2, one per output channel",
            ),
            pytest.param(
                (1, 9, 9),
                (2, 1, 3, 3),
                {"epilogue": so.Epilogue(shift=[1])},
                "epilogue.shift has 1 entries, but must have 2, one per output channel",
            ),
        ],
    )
    def test_value(self, x, weight, options, text):
        with pytest.raises(ValueError, match=re.escape(f"fft_conv2d: {text}")):
            so.fft_conv2d(np.ones(x), np.ones(weight), **options)

    def test_kernel_may_be_as_large_as_the_padded_image(self):
        assert so.fft_conv2d(np.ones((1, 4, 9)), np.ones((1, 1, 6, 9)), padding=(1, 0)).shape == (1, 1, 1)

    @pytest.mark.parametrize("shape", [(3,), (2, 1)])
    def test_bias(self, shape):
        text = f"fft_conv2d: bias has shape {shape}, but must have shape (2,), one per output channel"
        with pytest.raises(ValueError, match=re.escape(text)):
            so.fft_conv2d(np.ones((1, 9, 9)), np.ones((2, 1, 3, 3)), np.ones(shape))

    def test_epilogue_kind(self):
        text = "fft_conv2d: epilogue is a str, but must be an Epilogue or None"
        with pytest.raises(TypeError, match=text):
            so.fft_conv2d(np.ones((1, 9, 9)), np.ones((2, 1, 3, 3)), epilogue="relu")

    def test_activation_of_complex_results(self):
        text = "fft_conv2d: epilogue.activation is 'relu', but must be None for a result of dtype complex128"
        with pytest.raises(TypeError, match=text):
            so.fft_conv2d(np.ones((1, 9, 9)), np.ones((2, 1, 3, 3), complex), epilogue=so.Epilogue(activation="relu"))

    def test_stride_kind(self):
        with pytest.raises(TypeError, match=re.escape("fft_conv2d: stride is 1.5, but must be integers")):
            so.fft_conv2d(np.ones((1, 9, 9)), np.ones((2, 1, 3, 3)), stride=1.5)

    @pytest.mark.parametrize("name", ["weight", "bias"])
    def test_not_an_array(self, name):
        arrays = {"weight": np.ones((2, 1, 3, 3)), "bias": np.ones(2)} | {name: 3.0}
        with pytest.raises(TypeError, match=f"fft_conv2d: {name} is a float, but must be an array"):
            so.fft_conv2d(np.ones((1, 9, 9)), arrays["weight"], arrays["bias"])

    def test_dtype(self):
        with pytest.raises(TypeError, match="fft_conv2d: weight has dtype"):
            so.fft_conv2d(np.ones((1, 9, 9)), np.ones((2, 1, 3, 3), np.longdouble))

    def test_backend_of_another_device(self):
        with pytest.raises(TypeError, match="fft_conv2d: backend is 'cupy'"):
            so.fft_conv2d(np.ones((1, 9, 9)), np.ones((2, 1, 3, 3)), backend="cupy")
        assert so.plan_fft_conv2d((1, 9, 9), "f8", np.ones((2, 1, 3, 3)), device="cuda").backend == "cuda"
