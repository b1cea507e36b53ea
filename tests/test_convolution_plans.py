"""Plans of the convolutions: what they say of themselves, their adjoints, and the cost model."""

from __future__ import annotations

import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from support import random_array

import spectralops as so
from spectralops._arrays import ArraySpec
from spectralops._cpu import conv2d, conv_blocks, conv_direct, conv_fft
from spectralops._plans import conv2d_cost as dense_model
from spectralops._plans import convolution_cost as model
from spectralops._plans.conv2d_cost import Channels
from spectralops._plans.convolution_cost import Cost, Linear, choose, tile_candidates
from spectralops.errors import UnsupportedError


@pytest.fixture
def plain(monkeypatch):
    """No compiled kernels: the cost model of NumPy and SciPy alone."""
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")


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


class TestCostModel:
    problem = Linear((100,), (10,), (4,), (100,), (3, 1, 3), (False, False), 1)

    def test_direct(self):
        cost = self.problem.direct()
        assert cost.seconds == pytest.approx(model.TAP_CALL * 10 + model.TAP * 3000)
        wide = replace(self.problem, width=2).direct()
        assert wide.seconds == pytest.approx(model.TAP_CALL * 10 + model.TAP * 6000)

    def test_direct_in_several_blocks(self):
        many = replace(self.problem, batch=(1311, 1, 1311))  # 131100 outputs: three blocks
        assert many.direct().seconds == pytest.approx(model.TAP_CALL * 3 * 10 + model.TAP * 1_311_000)

    def test_direct_by_rows(self):
        row = Linear((1000,), (10,), (0,), (1009,), (1, 1, 1), (False, False), 2)
        assert row.direct().seconds == pytest.approx(model.ROW_CALL + model.SHORT_ROW_TAP * 2 * 10_000)
        longer = replace(row, b=(20,), outputs=(1019,))
        dots = model.ROW_CALL + model.ROW_OUTPUT * 1019 + model.ROW_TAP * 2 * 20_000
        assert longer.direct().seconds == pytest.approx(dots)
        many = replace(longer, batch=(3, 1, 3))
        dots = model.ROW_CALL * 3 + model.ROW_OUTPUT * 3 * 1019 + model.ROW_TAP * 3 * 2 * 20_000
        assert many.direct().seconds == pytest.approx(dots)
        complex_row = replace(row, is_complex=(True, False))
        dots = model.ROW_CALL + model.ROW_OUTPUT * 1009 + model.ROW_TAP * 4 * 10_000
        assert complex_row.direct().seconds == pytest.approx(dots)

    def test_direct_counts_pairs_that_meet(self):
        """An outer product has as many pairs as outputs."""
        outer = Linear((100, 1), (1, 100), (0, 0), (100, 100), (1, 1, 1), (False, False), 1)
        assert outer.direct().flops == 2 * 10_000

    def test_transformed(self):
        cost = self.problem.transformed()
        assert cost.lengths == (105,)
        one = model.TRANSFORM * 105 * math.log2(105)
        assert cost.seconds == pytest.approx(2 * model.PASS + 7 * one + model.PRODUCT * 105 * 3)

    def test_transformed_in_two_dimensions(self):
        """The short array is mostly zeros, which costs half its transform."""
        square = Linear((60, 60), (5, 5), (0, 0), (64, 64), (4, 2, 8), (True, False), 2)
        one = model.TRANSFORM * 4 * 4096 * 12
        seconds = 3 * model.PASS + (4 + 1 + 8) * one + model.PRODUCT * 4 * 4096 * 8
        assert square.transformed().seconds == pytest.approx(seconds)
        turned = replace(square, a=(5, 5), b=(60, 60), batch=(2, 4, 8))
        assert turned.transformed() == square.transformed()

    def test_far_transforms_cost_more(self):
        big = Linear((2**20 - 4,), (5,), (0,), (2**20,), (1, 1, 1), (False, False), 1)
        one = model.FAR_TRANSFORM * 2**20 * 20
        assert big.transformed().seconds == pytest.approx(model.PASS * 9 + 3 * one + model.PRODUCT * 2**20)

    def test_near_means_in_cache(self):
        fits = Linear((2**19 - 4,), (5,), (0,), (2**19,), (1, 1, 1), (False, False), 1)
        one = model.TRANSFORM * 2**19 * 19
        assert fits.transformed().seconds == pytest.approx(model.PASS * 5 + 3 * one + model.PRODUCT * 2**19)

    def test_tiled(self):
        """60 of 64 points are new: 17 tiles for 1000 outputs, all together."""
        long = Linear((1000,), (5,), (2,), (1000,), (1, 1, 1), (False, False), 1)
        one = model.TILE_TRANSFORM * 64 * 6
        cost = long.tiled((64,))
        assert cost.seconds == pytest.approx(2 * model.PASS + 35 * one + model.PRODUCT * 64 * 17)
        assert cost.flops == 35 * 960 + 17 * 6 * 33

    def test_tiled_in_two_dimensions(self):
        """4 x 3 tiles of 512 x 512 points, each a pass of its own, for each of two images."""
        large = Linear((2000, 1500), (13, 13), (0, 0), (2000, 1500), (2, 1, 2), (False, False), 1)
        one = model.TILE_TRANSFORM * 2**18 * 18
        seconds = model.PASS * (2 * 24 + 1) + 24.5 * one + 24 * one + model.PRODUCT * 2**18 * 24
        assert large.tiled((512, 512)).seconds == pytest.approx(seconds)

    def test_small_tiles_run_together(self):
        """2**17 elements at a time: 8 tiles of 128 x 128, of which 5 make a row."""
        large = Linear((116 * 3, 116 * 5), (13, 13), (0, 0), (116 * 3, 116 * 5), (3, 1, 3), (False, False), 1)
        one = model.TILE_TRANSFORM * 2**14 * 14
        seconds = model.PASS * (2 * 9 + 1) + (90 + 0.5) * one + model.PRODUCT * 2**14 * 45
        assert large.tiled((128, 128)).seconds == pytest.approx(seconds)

    def test_roles_are_found_by_size(self):
        turned = Linear((10,), (100,), (4,), (100,), (1, 3, 3), (False, False), 1)
        assert turned.costs() == self.problem.costs()

    def test_costs_are_of_all_methods(self):
        assert [cost.method for cost in self.problem.costs()] == ["direct", "fft", "tiles"]

    def test_choose(self):
        costs = [Cost("direct", (), 1, 2.0), Cost("fft", (8,), 1, 1.0), Cost("tiles", (4,), 1, 3.0)]
        assert choose(costs, "auto").method == "fft"
        assert choose(costs, "tiles").method == "tiles"

    def test_tile_candidates(self):
        assert list(tile_candidates((9,), (100,))) == [(18,), (32,), (64,), (100,)]
        assert list(tile_candidates((1, 20), (40, 200))) == [(16, 40), (32, 40), (40, 64), (40, 128), (40, 200)]

    def test_tiles_have_a_largest_size(self):
        assert max(math.prod(tile) for tile in tile_candidates((1, 1), (10**5, 10**5))) == 2**22
        assert list(tile_candidates((4000, 4000), (10**5, 10**5))) == [(8000, 8000)]

    def test_the_executors_work_as_modelled(self):
        assert conv_direct.BLOCK == model.DIRECT_BLOCK
        assert conv_direct.ROW == model.ROW
        assert conv_fft.BLOCK == model.TRANSFORM_BLOCK


class TestChannelsCostModel:
    """Every prediction as the formula by hand."""

    dense = Channels(
        batch=2,
        groups=3,
        inputs=4,
        outputs=5,
        image=(20, 30),
        kernel=(3, 5),
        result=(18, 26),
        taps=15,
        stride=(1, 1),
        is_complex=(False, False),
        width=1,
    )
    depthwise = replace(dense, inputs=1, outputs=2)

    def test_columns(self):
        """All 18 rows fit one block: 6 blocks of 60 rows of columns."""
        cost = self.dense.direct()
        gathered, pairs = 6 * 60 * 468, 30 * 468 * 60
        seconds = dense_model.COLUMNS_CALL * 6 + dense_model.GATHER * gathered + dense_model.GEMM * pairs
        assert cost == Cost("direct", (), 2 * pairs, pytest.approx(seconds))
        double = replace(self.dense, width=2, is_complex=(True, False)).direct()
        seconds = dense_model.COLUMNS_CALL * 6 + dense_model.GATHER * 4 * gathered + dense_model.GEMM * 8 * pairs
        assert double == Cost("direct", (), 4 * pairs, pytest.approx(seconds))

    def test_columns_in_several_blocks(self):
        """2**18 elements are 43 of 100 rows of 60 * 100 columns: three blocks."""
        large = replace(self.dense, result=(100, 100))
        seconds = (
            dense_model.COLUMNS_CALL * 18 + dense_model.GATHER * 6 * 60 * 10_000 + dense_model.GEMM * 30 * 10_000 * 60
        )
        assert large.direct().seconds == pytest.approx(seconds)

    def test_shifts(self):
        pairs = 12 * 468 * 15
        seconds = model.TAP_CALL * 15 + model.TAP * pairs
        assert self.depthwise.direct() == Cost("direct", (), 2 * pairs, pytest.approx(seconds))
        double = replace(self.depthwise, width=2, is_complex=(True, True)).direct()
        assert double == Cost("direct", (), 8 * pairs, pytest.approx(model.TAP_CALL * 15 + model.TAP * 4 * pairs))
        large = replace(self.depthwise, result=(100, 100))  # 120,000 results: two blocks
        assert large.direct().seconds == pytest.approx(model.TAP_CALL * 2 * 15 + model.TAP * 120_000 * 15)

    def test_matrix_products_at_frequencies(self):
        """For each group 2 images of 4 + 5 channels, and 20 kernels, mostly zeros, at 20 x 16 frequencies."""
        one = model.TRANSFORM * 600 * math.log2(600)
        seconds = (
            3 * (2 * 9 + 10) * one
            + 3 * dense_model.GEMM * 4 * 20 * 2 * 320
            + 3 * 2 * 320 * (dense_model.REORDER * 18 + dense_model.REORDER_WEIGHT * 20)
            + 3 * dense_model.SMALL_GEMM * 320
            + 3 * 4 * model.PASS
        )
        flops = 3 * ((18 + 20) * round(2.5 * 600 * math.log2(600)) + 8 * 20 * 2 * 320)
        assert self.dense.tiled("fft", (20, 30)) == Cost("fft", (20, 30), flops, pytest.approx(seconds))

    def test_complex_matrix_products(self):
        one = model.TRANSFORM * 4 * 600 * math.log2(600)
        seconds = (
            3 * (2 * 9 + 10) * one
            + 3 * dense_model.GEMM * 2 * 4 * 20 * 2 * 600
            + 3 * 2 * 2 * 600 * (dense_model.REORDER * 18 + dense_model.REORDER_WEIGHT * 20)
            + 3 * dense_model.SMALL_GEMM * 600
            + 3 * 4 * model.PASS
        )
        wide = replace(self.dense, width=2, is_complex=(False, True))
        assert wide.tiled("fft", (20, 30)).seconds == pytest.approx(seconds)

    def test_tiles(self):
        """14 x 12 results a tile: 2 x 3 tiles of each image."""
        one = model.TILE_TRANSFORM * 256 * 8
        seconds = (
            3 * (12 * 9 + 10) * one
            + 3 * dense_model.GEMM * 4 * 20 * 12 * 144
            + 3 * 2 * 144 * (dense_model.REORDER * 108 + dense_model.REORDER_WEIGHT * 20)
            + 3 * dense_model.SMALL_GEMM * 144
            + 3 * 4 * model.PASS
        )
        assert self.dense.tiled("tiles", (16, 16)).seconds == pytest.approx(seconds)

    def test_tiles_in_several_passes(self):
        """2**20 elements: 512 tiles of 9 channels of 256 points are more than one and fewer than two."""
        many = replace(self.dense, batch=100, groups=1)  # 600 tiles
        one = model.TILE_TRANSFORM * 256 * 8
        seconds = (
            (600 * 9 + 10) * one
            + dense_model.GEMM * 4 * 20 * 600 * 144
            + 2 * 144 * (dense_model.REORDER * 5400 + dense_model.REORDER_WEIGHT * 20)
            + 2 * dense_model.SMALL_GEMM * 144
            + 2 * 4 * model.PASS
        )
        assert many.tiled("tiles", (16, 16)).seconds == pytest.approx(seconds)

    def test_depthwise_tiles(self):
        one = model.TILE_TRANSFORM * 256 * 8
        each = (model.PRODUCT * 2 + dense_model.GATHER * 3) * 256 * 12
        seconds = 3 * (12 * 3 + 1) * one + 3 * each + 4 * model.PASS
        assert self.depthwise.tiled("tiles", (16, 16)).seconds == pytest.approx(seconds)

    def test_strided_results_are_computed_densely(self):
        thin = replace(self.dense, result=(9, 9), stride=(2, 3))  # 17 x 25 without stride
        assert thin.tiled("tiles", (16, 16)).flops == self.dense.tiled("tiles", (16, 16)).flops

    def test_costs_are_of_all_methods(self):
        direct, fft, tiles = self.dense.costs()
        assert (direct.method, fft.method, tiles.method) == ("direct", "fft", "tiles")
        assert fft.lengths == (20, 30)
        candidates = [self.dense.tiled("tiles", tile) for tile in tile_candidates((3, 5), (20, 30))]
        assert tiles == min(candidates, key=lambda cost: cost.seconds)

    def test_the_executor_works_as_modelled(self):
        assert conv2d.COLUMNS_BLOCK == dense_model.COLUMNS_BLOCK
        assert conv2d.TILES_BLOCK == dense_model.TILES_BLOCK


class TestBlocks:
    def test_batch_blocks_fill_the_last_axes_first(self):
        assert conv_blocks.batch_blocks((2, 3), 100) == [(slice(0, 2), slice(0, 3))]
        assert conv_blocks.batch_blocks((2, 5), 3) == [
            (slice(i, i + 1), slice(j, j + 3)) for i in range(2) for j in (0, 3)
        ]
        assert conv_blocks.batch_blocks((5, 2), 5) == [(slice(i, i + 2), slice(0, 2)) for i in (0, 2, 4)]
        assert conv_blocks.batch_blocks((), 3) == [()]

    @pytest.mark.parametrize("mode", ["wrap", "symm", "edge", "reflect", "fill"])
    @pytest.mark.parametrize("n", [1, 2, 5])
    def test_pad_equals_numpy(self, rng, mode, n):
        """Far beyond the ends as well."""
        x = rng.standard_normal((2, n, 3))
        word = {"symm": "symmetric", "fill": "constant"}.get(mode, mode)
        fill = {"constant_values": 2.5} if mode == "fill" else {}
        expected = np.pad(x, ((0, 0), (7, 4), (0, 2)), word, **fill)
        assert np.array_equal(conv_blocks.pad(x, ((7, 4), (0, 2)), mode, 2.5), expected)

    def test_pad_by_nothing_is_no_copy(self):
        x = np.ones((4, 5))
        assert conv_blocks.pad(x, ((0, 0), (0, 0)), "fill", 3.0) is x
        assert conv_blocks.pad(x, ((0, 0), (0, 0)), "wrap") is x

    def test_negative_padding_crops(self):
        x = np.arange(12.0).reshape(3, 4)
        result = conv_blocks.pad(x, ((-1, 1), (2, -3)), "fill")
        assert np.array_equal(result, [[0, 0, 4], [0, 0, 8], [0, 0, 0]])


def test_a_plan_of_specs_needs_no_arrays():
    plan = so.plan_convolve((5, 5), "float32", ArraySpec((3, 3), "float32"))
    assert plan.out_shape == (7, 7)
