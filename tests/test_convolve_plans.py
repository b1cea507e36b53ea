"""convolve: plans, and every bad argument with its message."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy import signal

import spectralops as so
from spectralops._plans import convolve as plans

METHODS = ("direct", "fft", "tiles")


def close(result, expected, rtol=1e-12):
    assert result.shape == expected.shape
    scale = np.abs(expected).max(initial=1e-300)
    np.testing.assert_allclose(result, expected, rtol=0, atol=rtol * scale)


class TestMechanics:
    def test_out(self, rng):
        x, kernel = rng.standard_normal((6, 7)), rng.standard_normal((2, 3))
        out = np.empty((7, 9))
        assert so.convolve(x, kernel, out=out) is out
        close(out, signal.convolve2d(x, kernel))

    def test_out_of_other_axes_order(self, rng):
        x, kernel = rng.standard_normal((20, 3)), rng.standard_normal(4)
        out = np.empty((3, 23)).T
        so.convolve(x, kernel, axes=0, out=out)
        close(out, so.convolve(x, kernel, axes=0))

    @pytest.mark.parametrize("method", ["direct", "fft", "tiles"])
    def test_auto_runs_the_cheapest(self, method, monkeypatch):
        monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
        shapes = {
            "direct": ((50, 50), (1, 3)),
            "fft": ((256, 256), (40, 40)),
            "tiles": ((4000, 4000), (30, 30)),
        }
        x, kernel = shapes[method]
        assert so.plan_convolve(x, "f4", np.ones(kernel)).method == method

    def test_auto_equals_the_method_it_names(self, rng):
        x, kernel = rng.standard_normal((30, 200)), rng.standard_normal((2, 9))
        plan = so.plan_convolve(x.shape, x.dtype, kernel)
        assert np.array_equal(plan(x, kernel), so.convolve(x, kernel, method=plan.method))

    def test_kernel_by_its_spec(self, rng):
        from spectralops._arrays import ArraySpec

        by_array = so.plan_convolve(20, "f8", np.ones(3))
        assert by_array == so.plan_convolve(20, "f8", ArraySpec((3,), "float64"))


def raises(kind: type[Exception], text: str, *args, **options) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        so.convolve(*args, **options)


class TestErrors:
    def test_kernel_of_more_dimensions(self):
        """ERR03: both numbers are named."""
        raises(
            ValueError,
            "convolve: kernel has 3 dimensions, but must have at most the 2 of x",
            np.ones((8, 8)),
            np.ones((3, 3, 3)),
        )

    def test_kernel_of_too_few_dimensions(self):
        """ERR03."""
        raises(
            ValueError,
            "convolve: kernel has 1 dimensions, but must have 2, one per axis of axes=(1, 2), or 3, as many as x",
            np.ones((4, 8, 8)),
            np.ones(3),
            axes=(1, 2),
        )

    def test_kernel_that_lacks_an_axis_between(self):
        raises(
            ValueError,
            "kernel has 2 dimensions, but must have 1, one per axis of axes=(0,), or 3",
            np.ones((4, 8, 8)),
            np.ones((3, 3)),
            axes=0,
        )

    def test_batches_that_do_not_broadcast(self):
        """ERR03: 6 against 7."""
        raises(
            ValueError,
            "convolve: x has batch axes (2, 6) and kernel (1, 7), but they must broadcast against each other",
            np.ones((2, 6, 32)),
            np.ones((1, 7, 32)),
            axes=-1,
        )

    def test_valid_needs_one_to_contain_the_other(self):
        raises(
            ValueError,
            "convolve: x has lengths (5, 3) and kernel (3, 5) along axes, but one must be at least as long as the "
            "other along every axis for mode 'valid'",
            np.ones((5, 3)),
            np.ones((3, 5)),
            mode="valid",
        )

    @pytest.mark.parametrize("name", ["x", "kernel"])
    def test_empty_axis(self, name):
        arrays = {"x": np.ones(4), "kernel": np.ones(3)} | {name: np.ones(0)}
        raises(
            ValueError,
            f"convolve: {name} has shape (0,) with length 0 along axis 0, but must have length 1 or more there",
            arrays["x"],
            arrays["kernel"],
        )

    @pytest.mark.parametrize(
        ("option", "value", "words"),
        [
            ("mode", "sam", "'full', 'same' or 'valid'"),
            ("boundary", "reflect", "'fill', 'wrap', 'circular', 'symm' or 'symmetric'"),
            ("method", "oa", "'auto', 'direct', 'fft' or 'tiles'"),
        ],
    )
    def test_unknown_word(self, option, value, words):
        text = f"convolve: {option} is {value!r}, but must be {words}"
        raises(ValueError, text, np.ones(4), np.ones(3), **{option: value})

    @pytest.mark.parametrize("boundary", ["wrap", "symm"])
    def test_fillvalue_without_effect(self, boundary):
        raises(
            ValueError,
            f"convolve: fillvalue is 1.0, but must be 0 for boundary '{boundary}', where it has no effect",
            np.ones(4),
            np.ones(3),
            boundary=boundary,
            fillvalue=1.0,
        )

    def test_complex_fillvalue_for_a_real_result(self):
        raises(
            TypeError,
            "convolve: fillvalue is 1j, but must be real for a result of dtype float64",
            np.ones(4),
            np.ones(3),
            fillvalue=1j,
        )

    @pytest.mark.parametrize("value", [np.nan, np.inf, complex(0, np.nan)])
    def test_fillvalue_must_be_finite(self, value):
        raises(ValueError, "but must be finite", np.ones(4), np.ones(3), fillvalue=value)

    def test_fillvalue_must_be_a_number(self):
        raises(
            TypeError, "convolve: fillvalue is a str, but must be a real number", np.ones(4), np.ones(3), fillvalue=""
        )

    def test_kernel_must_be_an_array(self):
        raises(TypeError, "convolve: kernel is a float, but must be an array with at least one axis", np.ones(4), 2.0)

    def test_scalar_x(self):
        raises(ValueError, "kernel has 1 dimensions, but must have at most the 0 of x", 3.0, np.ones(3))

    def test_axis_out_of_range(self):
        raises(ValueError, "convolve: axes has 2, but must lie in [-2, 2)", np.ones((4, 4)), np.ones(3), axes=2)

    @pytest.mark.parametrize("name", ["x", "kernel"])
    def test_dtype(self, name):
        arrays = {"x": np.ones(4), "kernel": np.ones(3)} | {name: np.ones(3, np.longdouble)}
        raises(TypeError, f"convolve: {name} has dtype", arrays["x"], arrays["kernel"])

    def test_libraries_do_not_mix(self):
        torch = pytest.importorskip("torch")
        raises(
            TypeError,
            "convolve: kernel is a numpy array on cpu, but must be a torch array on cpu like x",
            torch.ones(4),
            np.ones(3),
        )

    def test_out_of_wrong_shape(self):
        raises(ValueError, "convolve: out has shape (4,)", np.ones(4), np.ones(3), out=np.ones(4))

    def test_backend_of_another_device(self):
        raises(TypeError, "convolve: backend is 'cupy'", np.ones(4), np.ones(3), backend="cupy")

    def test_device_of_a_plan(self):
        with pytest.raises(ValueError, match="convolve: device is 'tpu', but must be 'cpu' or 'cuda'"):
            so.plan_convolve(4, "f8", np.ones(3), device="tpu")
        assert so.plan_convolve(4, "f8", np.ones(3), device="cuda:1").backend == "cuda"


def test_no_warning_about_finite_data(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in METHODS:
            so.convolve(rng.standard_normal((40, 50)), rng.standard_normal((3, 3)), method=method)


def test_builder_is_cached():
    first = so.plan_convolve((123, 45), "f8", np.ones((3, 3)))
    assert so.plan_convolve((123, 45), "f8", np.ones((3, 3))) is first
    assert plans._build.cache_info().maxsize == 512


@pytest.mark.parametrize("real", ["neither", "x", "kernel"])
def test_complex_taps_in_any_order_of_memory(real: str, rng: np.random.Generator) -> None:
    """The shorter array gives the taps: here x, whose axes lie in memory the other way round."""
    x = np.asfortranarray(rng.standard_normal((9, 4)) + 1j * rng.standard_normal((9, 4)))
    kernel = rng.standard_normal(6) + 1j * rng.standard_normal(6)
    x, kernel = (x.real if real == "x" else x), (kernel.real if real == "kernel" else kernel)
    own = np.moveaxis(rng.standard_normal((9, 3, 2)) + 1j, 1, 2)  # a kernel for each row, apart in memory
    for k, axes in ((kernel, 1), (own[:, 0], 1)):
        expected = np.stack([np.convolve(a, b) for a, b in zip(x, np.broadcast_to(k, (9, k.shape[-1])), strict=True)])
        np.testing.assert_allclose(so.convolve(x, k, axes=axes, method="direct"), expected, rtol=0, atol=1e-13)
