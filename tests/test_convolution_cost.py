"""The cost model of the convolutions, and the blocks that it counts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from spectralops._cpu import conv2d, conv_blocks, conv_direct, conv_fft
from spectralops._plans import conv2d_cost as dense_model
from spectralops._plans import convolution_cost as model
from spectralops._plans.conv2d_cost import Channels
from spectralops._plans.convolution_cost import Cost, Linear, choose, tile_candidates


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
