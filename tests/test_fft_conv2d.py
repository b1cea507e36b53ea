"""fft_conv2d against PyTorch, SciPy and closed forms; padding, channels, epilogue, NaN."""

from __future__ import annotations

import math
import pickle
import re
from functools import cache

import numpy as np
import pytest
from scipy import signal, special
from support import random_array

import spectralops as so
from spectralops._cpu import conv2d as executor
from spectralops._cpu import conv_direct

METHODS = ("direct", "fft", "tiles")
BACKENDS = ("cpu", "numpy", "reference")


def close(result, expected, rtol=1e-12):
    assert result.shape == expected.shape
    scale = np.abs(expected).max(initial=1e-300)
    np.testing.assert_allclose(result, expected, rtol=0, atol=rtol * scale)


def by_torch(x, weight, bias=None, *, padding_mode="zeros", padding=0, **options):
    """torch's layer, whose padding modes the functional form lacks."""
    torch = pytest.importorskip("torch")
    tensors = [None if a is None else torch.from_numpy(a) for a in (x, weight, bias)]
    layer = torch.nn.Conv2d(
        weight.shape[1] * options.get("groups", 1),
        weight.shape[0],
        weight.shape[2:],
        padding=padding,
        padding_mode=padding_mode,
        bias=bias is not None,
        dtype=tensors[1].dtype,
        **options,
    )
    with torch.no_grad():
        layer.weight[:] = tensors[1]
        if bias is not None:
            layer.bias[:] = tensors[2]
        return layer(tensors[0]).numpy()


SETTINGS = [
    # size, kernel, stride, padding, dilation, groups: SHP08
    ((13, 11), (3, 5), (1, 1), (1, 2), (1, 1), 1),
    ((13, 11), (3, 5), (2, 3), (1, 2), (2, 1), 2),
    ((12, 8), (3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((33, 128), (1, 1), (1, 1), (2, 1), (1, 1), 1),
    ((9, 9), (9, 9), (1, 1), (0, 0), (1, 1), 1),
    ((16, 16), (4, 2), (3, 2), (3, 1), (1, 3), 2),
    ((40, 50), (2, 3), 2, 3, 3, 4),
]


@cache
def settled(index, dtype):
    """Arguments of one setting and torch's answer."""
    size, kernel, stride, padding, dilation, groups = SETTINGS[index]
    rng = np.random.default_rng(index)
    x = random_array(rng, (2, 4, *size), dtype)
    weight = random_array(rng, (8, 4 // groups, *kernel), dtype)
    bias = random_array(rng, (8,), dtype)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (x, weight, bias), options, by_torch(x, weight, bias, **options)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("setting", range(len(SETTINGS)), ids=lambda i: str(SETTINGS[i]))
def test_shp08_equals_torch(setting, dtype, method, backend):
    """SHP08: stride, odd sizes, dilation, groups and bias, each axis on its own."""
    arrays, options, expected = settled(setting, dtype)
    close(so.fft_conv2d(*arrays, method=method, backend=backend, **options), expected)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dilation", [1, (2, 3)])
@pytest.mark.parametrize("kernel", [(3, 3), (4, 2), (1, 6)], ids=str)
def test_same_equals_torch(rng, kernel, dilation, method):
    """Also the side on which an even kernel's extra cell lies."""
    x, weight = rng.standard_normal((2, 3, 20, 21)), rng.standard_normal((2, 3, *kernel))
    result = so.fft_conv2d(x, weight, padding="same", dilation=dilation, method=method)
    assert result.shape == (2, 2, 20, 21)
    close(result, by_torch(x, weight, padding="same", dilation=dilation))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [(0, 1), (2, 1), (2, 0), "same", 0])
def test_shp06_padding_modes_equal_torch(rng, mode, padding, backend):
    """SHP06: on the axis that was named."""
    x, weight = rng.standard_normal((2, 3, 20, 10)), rng.standard_normal((2, 3, 4, 5))
    result = so.fft_conv2d(x, weight, padding=padding, padding_mode=mode, backend=backend)
    close(result, by_torch(x, weight, padding=padding, padding_mode=mode))


@pytest.mark.parametrize(("mode", "words"), [("circular", "wrap"), ("reflect", "reflect"), ("replicate", "edge")])
@pytest.mark.parametrize("padding", [(0, 1), (5, 0)], ids=str)
def test_shp06_padding_modes_equal_numpy(rng, mode, words, padding):
    x, weight = rng.standard_normal((1, 6, 20, 10)), rng.standard_normal((1, 6, 3, 3))
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2), words)
    expected = sum(signal.correlate2d(padded[0, c], weight[0, c], "valid") for c in range(6))
    close(so.fft_conv2d(x, weight, padding=padding, padding_mode=mode)[0, 0], expected)


def test_padding_may_reach_as_far_as_torch_allows(rng):
    x, weight = rng.standard_normal((1, 1, 4, 5)), rng.standard_normal((1, 1, 2, 2))
    for mode, padding in (("circular", (4, 5)), ("reflect", (3, 4)), ("replicate", (9, 9)), ("zeros", (9, 9))):
        close(
            so.fft_conv2d(x, weight, padding=padding, padding_mode=mode),
            by_torch(x, weight, padding=padding, padding_mode=mode),
        )


@pytest.mark.parametrize("method", METHODS)
def test_is_correlation_not_convolution(method):
    """An element of the kernel looks to where it lies; complex ones are not conjugated."""
    x = np.arange(12.0).reshape(1, 3, 4)
    weight = np.zeros((1, 1, 2, 3), complex)
    weight[0, 0, 1, 2] = 1j
    close(so.fft_conv2d(x, weight, method=method)[0], 1j * x[0, 1:, 2:])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", METHODS)
def test_delta_returns_the_image(rng, method, backend):
    x = rng.standard_normal((2, 3, 30, 41))
    weight = np.zeros((3, 3, 3, 5))
    weight[np.arange(3), [2, 0, 1], 1, 2] = 1
    close(so.fft_conv2d(x, weight, padding="same", method=method, backend=backend), x[:, [2, 0, 1]])


@pytest.mark.parametrize("method", METHODS)
def test_box_sums(method):
    result = so.fft_conv2d(np.ones((1, 2, 5, 6)), np.ones((1, 2, 3, 3)), padding=1, method=method)
    rows, columns = np.array([2, 3, 3, 3, 2.0]), np.array([2, 3, 3, 3, 3, 2.0])
    close(result[0, 0], 2 * np.outer(rows, columns))


@pytest.mark.parametrize("method", METHODS)
def test_channels_are_summed(rng, method):
    x, weight = rng.standard_normal((3, 9, 8)), rng.standard_normal((2, 3, 4, 3))
    expected = [sum(signal.correlate2d(x[c], w[c], "valid") for c in range(3)) for w in weight]
    close(so.fft_conv2d(x, weight, method=method), np.array(expected))


def test_valid_is_no_padding(rng):
    x, weight = rng.standard_normal((3, 9, 8)), rng.standard_normal((2, 3, 4, 3))
    assert np.array_equal(so.fft_conv2d(x, weight, padding="valid", stride=2), so.fft_conv2d(x, weight, stride=2))


@pytest.mark.parametrize("method", METHODS)
def test_threads_within_one_image(rng, method):
    x, weight = rng.standard_normal((3, 60, 50)), rng.standard_normal((2, 3, 4, 3))
    close(so.fft_conv2d(x, weight, method=method, workers=2), so.fft_conv2d(x, weight, method="direct"))


@pytest.mark.parametrize("method", METHODS)
def test_unbatched_is_a_batch_of_one(rng, method):
    x, weight = rng.standard_normal((3, 9, 8)), rng.standard_normal((2, 3, 4, 3))
    one = so.fft_conv2d(x, weight, method=method)
    assert np.array_equal(so.fft_conv2d(x[None], weight, method=method)[0], one)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", METHODS)
def test_lay04_empty_batch(method, backend):
    """LAY04."""
    result = so.fft_conv2d(np.ones((0, 3, 9, 8), "f4"), np.ones((2, 3, 4, 3), "f4"), method=method, backend=backend)
    assert result.shape == (0, 2, 6, 6)
    assert result.dtype == np.float32


class TestBlocks:
    """The same numbers whatever the blocks, which are made small enough here to be many."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(executor, "COLUMNS_BLOCK", 500)
        monkeypatch.setattr(executor, "TILES_BLOCK", 9000)
        monkeypatch.setattr(executor, "WEIGHTS_BLOCK", 2000)
        monkeypatch.setattr(conv_direct, "BLOCK", 300)

    @pytest.mark.parametrize("workers", [1, 3])
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("groups", [1, 2, 6])
    @pytest.mark.parametrize("stride", [1, (3, 2)])
    def test_equals_reference(self, rng, groups, stride, method, workers):
        x, weight = rng.standard_normal((3, 6, 33, 29)), rng.standard_normal((12, 6 // groups, 3, 4))
        bias = rng.standard_normal(12)
        epilogue = so.Epilogue(rng.random(12), rng.random(12), "tanh")
        options = {"groups": groups, "stride": stride, "padding": 2, "epilogue": epilogue}
        result = so.fft_conv2d(x, weight, bias, method=method, workers=workers, **options)
        close(result, so.fft_conv2d(x, weight, bias, backend="reference", **options))


FORMULAS = {
    None: lambda y: y,
    "relu": lambda y: np.where(y > 0, y, 0),
    "gelu": lambda y: y * special.ndtr(y),
    "silu": lambda y: y / (1 + np.exp(-y)),
    "tanh": np.tanh,
}


class TestEpilogue:
    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("activation", FORMULAS)
    def test_formula(self, rng, activation, backend):
        """Activation of scale * (correlation + bias) + shift, with a scale per channel."""
        x, weight, bias = rng.standard_normal((2, 3, 9, 8)), rng.standard_normal((2, 3, 3, 3)), np.array([0.5, -1])
        y = so.fft_conv2d(x, weight)
        expected = FORMULAS[activation](np.array([2.0, -0.5])[:, None, None] * (y + bias[:, None, None]) + 0.25)
        epilogue = so.Epilogue([2.0, -0.5], 0.25, activation)
        close(so.fft_conv2d(x, weight, bias, epilogue=epilogue, backend=backend), expected)

    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize(
        ("activation", "name", "options"),
        [
            ("gelu", "gelu", {}),
            ("gelu_tanh", "gelu", {"approximate": "tanh"}),
            ("silu", "silu", {}),
            ("relu", "relu", {}),
        ],
    )
    def test_activations_equal_torch(self, activation, name, options, backend):
        torch = pytest.importorskip("torch")
        x = np.linspace(-6, 6, 121).reshape(1, 11, 11)
        expected = getattr(torch.nn.functional, name)(torch.from_numpy(x), **options).numpy()
        result = so.fft_conv2d(
            x, np.ones((1, 1, 1, 1)), epilogue=so.Epilogue(activation=activation), backend=backend, method="direct"
        )
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-15)

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_scale_and_shift_alone(self, rng, backend):
        x, weight = rng.standard_normal((1, 6, 7)), rng.standard_normal((2, 1, 3, 3))
        y = so.fft_conv2d(x, weight)
        close(so.fft_conv2d(x, weight, epilogue=so.Epilogue(scale=3), backend=backend), 3 * y)
        close(so.fft_conv2d(x, weight, epilogue=so.Epilogue(shift=(1, 2)), backend=backend), y + [[[1]], [[2]]])

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_keeps_nan(self, backend):
        x = np.full((1, 1, 2), np.nan)
        for activation in ("relu", "gelu", "gelu_tanh", "silu", "tanh"):
            epilogue = so.Epilogue(activation=activation)
            result = so.fft_conv2d(x, np.ones((1, 1, 1, 1)), epilogue=epilogue, backend=backend, method="direct")
            assert np.isnan(result).all(), activation

    def test_is_a_value(self):
        epilogue = so.Epilogue(np.array([1.0, 2.0]), np.float32(3), "relu")
        assert epilogue == so.Epilogue((1, 2), 3, "relu")
        assert (epilogue.scale, epilogue.shift) == ((1.0, 2.0), 3.0)
        assert hash(epilogue) == hash(pickle.loads(pickle.dumps(epilogue)))
        assert so.Epilogue() == so.Epilogue(None, None, None)

    @pytest.mark.parametrize(
        ("arguments", "kind", "text"),
        [
            (
                {"activation": "elu"},
                ValueError,
                "Epilogue: activation is 'elu', but must be 'relu', 'gelu', ",
            ),
            ({"scale": [1, np.nan]}, ValueError, "Epilogue: scale[1] is nan, but must be finite"),
            ({"shift": "1"}, TypeError, "Epilogue: shift is a str, but must be a real number"),
            ({"shift": np.ones((2, 2))}, TypeError, "Epilogue: shift[0] is a ndarray, but must be a real number"),
        ],
    )
    def test_bad_values(self, arguments, kind, text):
        with pytest.raises(kind, match=re.escape(text)):
            so.Epilogue(**arguments)


class TestNumbers:
    @pytest.mark.parametrize(
        ("x", "weight", "bias", "expected"),
        [
            ("int32", "int32", "int32", "float64"),
            ("float32", "float32", "float32", "float32"),
            ("float32", "float32", "float64", "float64"),
            ("float16", "float16", "float16", "float16"),
            ("complex64", "float32", "float32", "complex64"),
            ("float32", "float32", "complex64", "complex64"),
            ("float64", "complex64", "float32", "complex128"),
        ],
    )
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_result_dtype(self, x, weight, bias, expected, backend):
        result = so.fft_conv2d(np.ones((2, 4, 5), x), np.ones((3, 2, 2, 2), weight), np.ones(3, bias), backend=backend)
        assert result.dtype == expected
        assert np.allclose(result, 9)

    @pytest.mark.parametrize("order", [">f4", ">f8", ">c16", ">i2"])
    def test_dty01_big_endian(self, order):
        """DTY01."""
        x = np.arange(60).reshape(1, 3, 4, 5).astype(np.dtype(order).newbyteorder("="))
        weight = np.arange(24).reshape(2, 3, 2, 2).astype(x.dtype)
        result = so.fft_conv2d(x.astype(order), weight.astype(order))
        assert np.array_equal(result, so.fft_conv2d(x, weight))

    @pytest.mark.parametrize("method", METHODS)
    def test_dty04_double_stays_double(self, method):
        """DTY04: hundredths on top of 1e7."""
        x = (1e7 + 0.01 * np.arange(400)).reshape(1, 20, 20)
        weight = np.array([[[[0, 1, 0], [1, 1, 1], [0, 1, 0.0]]]])
        result = so.fft_conv2d(x, weight, method=method)
        np.testing.assert_allclose(result[0], signal.correlate2d(x[0], weight[0, 0], "valid"), rtol=1e-14)

    @pytest.mark.parametrize("method", METHODS)
    def test_lay01_views(self, rng, method):
        """LAY01: reversed, thinned and transposed arguments."""
        base, kernels = rng.standard_normal((2, 3, 40, 30)), rng.standard_normal((4, 3, 3, 5))
        x, weight = base[:, ::-1, ::-2].swapaxes(2, 3), kernels[::-1, :, ::-1, ::2]
        expected = so.fft_conv2d(x.copy(), weight.copy(), method=method)
        before = base.copy()
        assert np.array_equal(so.fft_conv2d(x, weight, method=method), expected)
        assert np.array_equal(base, before)

    def test_out(self, rng):
        x, weight = rng.standard_normal((2, 3, 9, 8)), rng.standard_normal((4, 3, 3, 3))
        out = np.empty((2, 4, 7, 6))
        assert so.fft_conv2d(x, weight, out=out) is out
        close(out, by_torch(x, weight))

    def test_integers_in_torch_are_its_default(self):
        torch = pytest.importorskip("torch")
        result = so.fft_conv2d(torch.ones(1, 3, 3, dtype=torch.int64), torch.ones(1, 1, 2, 2, dtype=torch.int64))
        assert result.dtype == torch.float32


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
class TestNonFinite:
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    @pytest.mark.parametrize("groups", [1, 4])
    @pytest.mark.parametrize("backend", ["cpu", "numpy", "reference"])
    def test_nan01_direct_is_local(self, rng, bad, groups, backend):
        """NAN01: within reach of the kernel, and of its group."""
        x, weight = rng.standard_normal((2, 4, 20, 21)), rng.standard_normal((4, 4 // groups, 3, 5))
        x[1, 2, 10, 11] = bad
        result = so.fft_conv2d(x, weight, groups=groups, method="direct", backend=backend)
        expected = np.zeros(result.shape, bool)
        expected[1, slice(None) if groups == 1 else 2, 8:11, 7:12] = True
        assert np.array_equal(~np.isfinite(result), expected)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    @pytest.mark.parametrize("groups", [1, 4])
    @pytest.mark.parametrize("backend", ["cpu", "numpy"])
    @pytest.mark.parametrize("method", ["fft", "tiles"])
    @pytest.mark.parametrize("place", [(0, 0), (13, 14), (39, 49)], ids=str)
    def test_nan01_no_finite_number_where_there_is_none(self, rng, place, method, bad, groups, backend):
        x, weight = rng.standard_normal((2, 4, 40, 50)), rng.standard_normal((4, 4 // groups, 3, 3))
        x[1, 2][place] = bad
        options = {"groups": groups, "padding": 1}
        true = so.fft_conv2d(x, weight, method="direct", **options)
        result = so.fft_conv2d(x, weight, method=method, backend=backend, **options)
        assert not np.isfinite(result[~np.isfinite(true)]).any()
        assert np.isfinite(result[0]).all()

    def test_nan01_tiles_spare_what_is_far(self, rng):
        x, weight = rng.standard_normal((1, 1, 200, 200)), rng.standard_normal((1, 1, 3, 3))
        x[0, 0, 100, 100] = np.nan
        plan = so.plan_fft_conv2d(x.shape, x.dtype, weight, method="tiles")
        result = plan(x, weight)
        assert np.isnan(result[0, 0, 98:101, 98:101]).all()
        assert np.isnan(result).sum() <= 4 * math.prod(plan.lengths)
