"""Plans of the convolutions: what they say of themselves, and their adjoints."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from support import random_array

import spectralops as so
from spectralops._arrays import ArraySpec
from spectralops.errors import UnsupportedError


def plan_of(x, kernel, **options):
    return so.plan_convolve(x, options.pop("dtype", "f8"), np.ones(kernel), **options)


class TestConvolvePlan:
    def test_is_a_value(self):
        plan = plan_of((3, 20), (5,), mode="same")
        assert pickle.loads(pickle.dumps(plan)) == plan
        assert hash(plan) == hash(pickle.loads(pickle.dumps(plan)))
        assert plan != plan_of((3, 20), (5,), mode="full")

    def test_attributes(self):
        plan = plan_of((3, 20), (5,), mode="same", dtype="f4")
        assert (plan.op, plan.backend) == ("convolve", "cpu")
        assert [operand.name for operand in plan.operands] == ["x", "kernel"]
        assert [operand.compute for operand in plan.operands] == ["float64", "float64"]
        assert (plan.in_shape, plan.out_shape) == ((3, 20), (3, 20))
        assert (plan.out_dtype, plan.compute_dtype) == ("float64", "float64")
        assert (plan.axes, plan.kernel_axes, plan.kernel_lengths) == ((1,), (0,), (5,))
        assert (plan.mode, plan.boundary, plan.fillvalue) == ("same", "fill", 0)
        assert (plan.start, plan.outputs, plan.padding) == ((2,), (20,), ((0, 0),))
        assert plan.in_place is False
        assert plan.flipped is False
        assert plan.requested == "auto"

    def test_bytes_moved(self):
        """x in float32, kernel in float64, the result in float64."""
        assert plan_of((3, 20), (5,), dtype="f4").bytes_moved == 3 * 20 * 4 + 5 * 8 + 3 * 24 * 8

    @pytest.mark.parametrize(
        ("mode", "kernel", "halo"),
        [
            ("full", (5, 1), (0, 4, 0)),
            ("same", (5, 4), (0, 2, 2)),
            ("same", (4, 6), (0, 2, 3)),
            ("valid", (3, 7), (0, 2, 6)),
        ],
    )
    @pytest.mark.parametrize("boundary", ["fill", "wrap"])
    def test_halo(self, mode, kernel, halo, boundary):
        assert plan_of((2, 30, 30), kernel, mode=mode, boundary=boundary).halo == halo

    @pytest.mark.parametrize(
        ("mode", "padding", "start"),
        [("full", ((4, 4), (3, 3)), (4, 3)), ("same", ((2, 2), (2, 1)), (4, 3)), ("valid", ((0, 0), (0, 0)), (4, 3))],
    )
    def test_padding(self, mode, padding, start):
        plan = plan_of((9, 8), (5, 4), mode=mode, boundary="symm")
        assert plan.padding == padding
        assert plan.start == start

    @pytest.mark.parametrize("options", [{"boundary": "wrap"}, {"fillvalue": 3.0}])
    def test_valid_never_reaches_the_boundary(self, options):
        assert plan_of((9, 8), (5, 4), mode="valid", **options) == plan_of((9, 8), (5, 4), mode="valid")

    def test_flops_of_direct_sums(self):
        """Two per pair of an element and a tap, four for real times complex, eight for complex times complex."""
        assert plan_of((2, 30), (5,), mode="same", method="direct").flops == 2 * 2 * 30 * 5
        complex_kernel = so.plan_convolve(30, "f8", np.ones(5, complex), mode="same", method="direct")
        assert complex_kernel.flops == 4 * 30 * 5
        both = so.plan_convolve(30, "c16", np.ones(5, complex), mode="same", method="direct")
        assert both.flops == 8 * 30 * 5

    def test_flops_of_transforms(self, plain):
        """Three transforms of 64 points at 2.5 N log2 N, and six for each of 33 products."""
        assert plan_of((60,), (5,), method="fft").flops == 3 * 960 + 6 * 33
        complex_plan = so.plan_convolve(60, "c16", np.ones(5), method="fft")
        assert complex_plan.flops == 3 * 1920 + 6 * 65

    def test_flops_of_tiles(self, plain):
        """105 tiles of 16 points that give 12 outputs each."""
        plan = plan_of((1256,), (5,), method="tiles")
        assert plan.lengths == (16,)
        assert plan.flops == (2 * 105 + 1) * 160 + 6 * 105 * 9

    def test_index_bits(self):
        assert plan_of((2**31 - 20,), (5,), mode="same", method="direct").index_bits == 32
        assert plan_of((2**31,), (5,), mode="same", method="direct").index_bits == 64
        assert plan_of((2**31 - 20,), (50,), mode="same", method="direct").index_bits == 32
        assert plan_of((2**31 - 20,), (50,), mode="same", boundary="wrap", method="direct").index_bits == 64
        assert plan_of((2**30,), (5,), mode="same", method="fft").index_bits == 64

    @pytest.mark.parametrize(
        ("mode", "start", "outputs", "lengths"),
        [("full", 0, 109, 112), ("same", 4, 100, 105), ("valid", 9, 91, 100)],
    )
    def test_shortest_transform(self, mode, start, outputs, lengths, plain):
        plan = plan_of((100,), (10,), mode=mode, method="fft")
        assert (plan.start, plan.outputs, plan.lengths) == ((start,), (outputs,), (lengths,))

    def test_explain_auto(self, plain):
        plan = so.plan_convolve((2, 1000), "f4", np.ones(3, "f4"), mode="same")
        lines = plan.explain().splitlines()
        assert lines[0] == ("convolve on backend 'cpu': x float32[2, 1000] * kernel float32[3] -> float32[2, 1000]")
        assert lines[1] == "axes (1,), mode 'same', boundary 'fill' with 0.0, computed in float32"
        assert lines[2] == (
            "method: direct, chosen by 'auto', by NumPy and SciPy: sums of products; "
            "a NaN reaches only the outputs that depend on it"
        )
        times = re.fullmatch(r"cost model: direct (\S+) ms, fft (\S+) ms, tiles (\S+) ms", lines[3]).groups()
        assert [float(t) for t in times] == pytest.approx([1e3 * s for _, s in plan.seconds], rel=1e-2)

    def test_explain_chosen(self, plain):
        text = plan_of((9, 8), (5, 4), method="fft", boundary="wrap").explain()
        assert "boundary 'wrap'" in text
        method = "method: fft, lengths 18x14, asked for, by NumPy and SciPy: one transform per image"
        assert f"{method}; a NaN reaches its whole image" in text

    def test_explain_tiles(self):
        assert "overlap-save; a NaN reaches the tiles that contain it" in plan_of((99,), (5,), method="tiles").explain()

    def test_explain_reference(self):
        text = plan_of((9, 8), (5, 4), method="fft", backend="reference").explain()
        assert text.endswith("method: explicit sums in 64 bit, whatever was asked for ('fft')")

    def test_explain_adjoint(self):
        text = plan_of((9,), (5,)).adjoint().explain()
        assert "x float64[13] * kernel float64[5], reversed and conjugated (adjoint) -> float64[9]" in text


def inner(a, b):
    return np.vdot(a, b)


class TestAdjoint:
    @pytest.mark.parametrize("backend", ["cpu", "numpy", "reference"])
    @pytest.mark.parametrize("method", ["direct", "fft", "tiles"])
    @pytest.mark.parametrize("dtype", ["float64", "complex128"])
    @pytest.mark.parametrize(
        ("x", "kernel", "options"),
        [
            ((20,), (5,), {"mode": "full"}),
            ((20,), (6,), {"mode": "same"}),
            ((20,), (6,), {"mode": "valid"}),
            ((6,), (20,), {"mode": "valid"}),
            ((6,), (20,), {"mode": "same"}),
            ((12, 11), (4, 3), {"mode": "same", "boundary": "wrap"}),
            ((3, 12, 11), (3, 1, 4), {"mode": "same", "axes": (0, 2)}),
        ],
        ids=str,
    )
    def test_dot_test(self, rng, x, kernel, options, dtype, method, backend):
        """<A x, y> = <x, A* y>."""
        a, k = random_array(rng, x, dtype), random_array(rng, kernel, dtype)
        plan = so.plan_convolve(x, dtype, k, method=method, backend=backend, **options)
        adjoint = plan.adjoint()
        y = random_array(rng, plan.out_shape, dtype)
        assert adjoint.in_shape == plan.out_shape
        assert adjoint.out_shape == x
        assert adjoint.requested == method
        assert adjoint.backend == backend
        assert inner(plan(a, k), y) == pytest.approx(inner(a, adjoint(y, k)), rel=1e-11)

    def test_twice_is_the_plan(self):
        plan = plan_of((12, 11), (4, 3), mode="same", boundary="wrap")
        assert plan.adjoint() != plan
        assert plan.adjoint().adjoint() == plan

    def test_real_kernel_of_complex_x(self, rng):
        x, k = random_array(rng, (20,), "complex128"), rng.standard_normal(5)
        plan = so.plan_convolve(20, "c16", k)
        y = random_array(rng, (24,), "complex128")
        assert inner(plan(x, k), y) == pytest.approx(inner(x, plan.adjoint()(y, k)), rel=1e-12)

    @pytest.mark.parametrize(("boundary", "mode"), [("symm", "same"), ("symm", "full"), ("wrap", "full")])
    def test_boundary_without(self, boundary, mode):
        text = (
            f"convolve: boundary is '{boundary}' with mode '{mode}', but must be 'fill' or, for mode 'same', 'wrap' "
            "to have an adjoint that is a convolution"
        )
        with pytest.raises(UnsupportedError, match=re.escape(text)):
            plan_of((9,), (3,), boundary=boundary, mode=mode).adjoint()

    def test_fillvalue_is_not_linear(self):
        text = "convolve: fillvalue is 2.0, but must be 0 for the map to be linear"
        with pytest.raises(UnsupportedError, match=re.escape(text)):
            plan_of((9,), (3,), fillvalue=2).adjoint()

    def test_complex_kernel_of_real_x(self):
        text = "convolve: x is float64 and the kernel complex128, but both must be real, or x complex"
        with pytest.raises(UnsupportedError, match=re.escape(text)):
            so.plan_convolve(9, "f8", np.ones(3, complex)).adjoint()

    def test_broadcast_x(self):
        text = "convolve: x has batch axes (1,), but must have the result's (7,)"
        with pytest.raises(UnsupportedError, match=re.escape(text)):
            plan_of((1, 9), (7, 3), axes=1).adjoint()


def test_a_plan_of_specs_needs_no_arrays():
    plan = so.plan_convolve((5, 5), "float32", ArraySpec((3, 3), "float32"))
    assert plan.out_shape == (7, 7)
