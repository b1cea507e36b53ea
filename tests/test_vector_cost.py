"""The cost model of compiled convolutions, by hand: operations, lengths of windows, seconds, and what it prefers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import spectralops as so
from spectralops._plans import vector_cost as model
from spectralops._plans.vector_cost import Rates, Sums


def one(**options):
    """A 5 × 5 kernel on one image, the same size out."""
    values = {
        "image": (128, 256), "taps": (5, 5), "start": (2, 2), "step": (1, 1), "results": (128, 256), "held": (5, 5),
        "batch": 1, "kernels": 1, "groups": 1, "inputs": 1, "outputs": 1, "is_complex": (False, False), "width": 1,
        "rates": Rates(),
    }  # fmt: skip
    return Sums(**values | options)


class TestDirect:
    def test_rows_that_share(self):
        cost = one().direct()
        assert (cost.method, cost.lengths, cost.engine) == ("direct", (), "vector")
        assert cost.flops == 2 * 128 * 256 * 25
        area = 128 * 256
        expected = model.CALL + area * (model.OUTPUT + 25 * model.ROW_TAP + model.COPY)
        assert cost.seconds == pytest.approx(expected)

    def test_partial_blocks_are_computed_whole(self):
        cost = one(image=(5, 17), results=(5, 17)).direct()
        sums = 8 * 32 * (model.OUTPUT + 25 * model.ROW_TAP)
        assert cost.seconds == pytest.approx(model.CALL + sums + 5 * 17 * model.COPY)

    @pytest.mark.parametrize("held", [(1, 5), (5,)], ids=str)
    def test_taps_that_share_nothing(self, held):
        d = len(held)
        cost = one(image=(128, 256)[-d:], results=(128, 256)[-d:], taps=held, held=held, start=(2,) * d, step=(1,) * d)
        area = math.prod(cost_area := (128, 256)[-d:])
        assert len(cost_area) == d
        assert cost.direct().seconds == pytest.approx(model.CALL + area * (model.OUTPUT + 5 * model.TAP + model.COPY))

    @pytest.mark.parametrize(("inputs", "rate"), [(32, "CHANNEL_TAP"), (33, "FAR_CHANNEL_TAP")])
    def test_channels(self, inputs, rate):
        cost = one(inputs=inputs, outputs=6, image=(16, 16), results=(16, 16)).direct()
        assert cost.flops == 2 * 256 * 25 * inputs * 6
        sums = 256 * 8 * (model.OUTPUT + 25 * inputs * getattr(model, rate))
        assert cost.seconds == pytest.approx(model.CALL + sums + 256 * inputs * model.COPY)

    @pytest.mark.parametrize(
        ("is_complex", "products", "sums", "apart"),
        [((True, False), 2, 2, True), ((False, True), 2, 2, False), ((True, True), 4, 4, True)],
    )
    def test_complex(self, is_complex, products, sums, apart):
        """Products of parts are counted; each part of a result is a sum over one or both parts of x."""
        cost = one(is_complex=is_complex).direct()
        area = 128 * 256
        assert cost.flops == 2 * products * area * 25
        copies = 2 * model.COPY_APART if apart else model.COPY
        expected = area * (2 * model.OUTPUT + sums * 25 * model.ROW_TAP + copies)
        assert cost.seconds == pytest.approx(model.CALL + expected)

    def test_volumes_are_copied_for_every_plane_of_taps(self):
        sizes, taps = (8, 16, 32), (3, 5, 5)
        cost = one(image=sizes, results=sizes, taps=taps, held=taps, start=(1, 2, 2), step=(1, 1, 1)).direct()
        area = 8 * 16 * 32
        assert cost.seconds == pytest.approx(model.CALL + area * (model.OUTPUT + 75 * model.ROW_TAP + 3 * model.COPY))

    def test_holes_cost_copies(self):
        more = one(taps=(9, 9), held=(5, 5)).direct().seconds - one().direct().seconds
        assert more == pytest.approx(2 * 128 * 256 * model.COPY)

    def test_large_arrays_wait_for_memory(self):
        small, large = (one(batch=batch).direct().seconds - model.CALL for batch in (16, 17))
        each = 128 * 256 * 2 * model.MEMORY
        assert large == pytest.approx(17 * (small / 16 + each))

    def test_double_precision_takes_twice_as_long(self):
        single, double = (one(width=width).direct().seconds - model.CALL for width in (1, 2))
        assert double == pytest.approx(2 * single)


class TestWindows:
    def test_one_for_all(self):
        """2 more than the image, so that nothing wraps into it; an even first length, a last one of whole vectors."""
        cost = one().whole()
        assert (cost.method, cost.lengths) == ("fft", (140, 280))
        assert cost.flops == 3 * round(2.5 * 39200 * math.log2(39200)) + 6 * 140 * 141

    def test_cuts_are_nearly_full(self):
        """128 results by windows of 64 − 4: 3 of 43, which need 47 elements; a last one has whole vectors."""
        lengths, counts = zip(*one()._tiles(), strict=True)
        assert counts[lengths.index((48, 56))] == (3, 5)

    def test_results_before_the_image(self):
        """A start of −3 puts zeros before the image."""
        assert one(start=(-3, 0), results=(134, 256))._needed() == (135, 260)

    def test_shrunk_results_may_wrap(self):
        assert one(start=(4, 4), results=(124, 252))._needed() == (128, 256)

    def test_strided_results(self):
        assert one(step=(2, 2), results=(64, 128))._needed() == (130, 258)

    def test_seconds(self):
        cost = one(batch=3, kernels=2)._transformed("tiles", (32, 64), (2, 4))
        size = 32 * 64
        each = size * (2 * model.LEVEL * 11 + 2 * model.COPY)
        seconds = 24 * (each + model.WINDOW_CALL) + model.KNOWN * 2 * each
        assert cost.seconds == pytest.approx(model.FILTER_CALL + seconds)
        assert cost.flops == (2 * 24 + 2) * round(2.5 * size * 11) + 6 * 32 * 33 * 24

    @pytest.mark.parametrize(("size", "far"), [(2**17, 0), (2**18, 0), (2**20, 0.5), (2**22, 1), (2**24, 1)])
    def test_far_windows(self, size, far):
        rate = model.LEVEL + far * (model.FAR_LEVEL - model.LEVEL)
        each = size * (2 * rate * math.log2(size) + 2 * model.COPY)
        assert one()._by_windows((2, size // 2), 1) == pytest.approx((1 + model.KNOWN) * each + model.WINDOW_CALL)

    def test_rows_side_by_side(self):
        """9 windows of each of 2 filters: two blocks of 8 each."""
        sums = one(image=(999,), taps=(5,), start=(2,), step=(1,), results=(999,), held=(5,), kernels=2)
        seconds = sums._by_windows((128,), 18)
        each = 128 * (2 * model.LINE_LEVEL * 7 + 2 * model.COPY) + model.LINE_CALL
        filters = 2 * (model.GROUP_CALL + 10 * model.LINE_LEVEL * 128 * 7)
        assert seconds == pytest.approx(32 * each + filters)

    def test_levels(self):
        assert model._levels((8, 16)) == 7
        assert model._levels((9,)) == pytest.approx(2 * 1.15 * math.log2(3))
        assert model._levels((70,)) == pytest.approx(1 + 1.25 * math.log2(5) + 1.4 * math.log2(7))
        assert model._levels((1,)) == 1

    @pytest.mark.parametrize(
        ("lengths", "rounded"),
        [((1,), (16,)), ((17,), (24,)), ((11, 17), (12, 24)), ((11, 11, 11), (12, 12, 16)), ((1, 33), (1, 40)),
         ((22, 22, 22), (24, 24, 24)), ((3, 13, 50), (4, 14, 56))],
    )  # fmt: skip
    def test_lengths(self, lengths, rounded):
        assert model._rounded(lengths) == rounded


class TestTiles:
    def layer(self, **options):
        return one(image=(32, 32), results=(32, 32), inputs=16, outputs=20, **options)

    def test_seconds(self):
        seconds = self.layer()._by_tiles((32, 64), 6)
        size, bins = 32 * 64, 32 * 33
        calls = model.TRANSFORM_CALL / 8 * (32 + 33)
        transforms = 40 * (model.TILE_LEVEL * 11 * size + calls)
        mixing = 4 * model.MIX * 16 * 24 * bins
        weights = 16 * 24 * (0.5 * model.TILE_LEVEL * 11 * size + 2 * model.WEIGHT * bins)
        assert seconds == pytest.approx(6 * (transforms + mixing) + model.KNOWN * weights + model.GROUP_CALL)

    def test_complex_parts_are_channels_or_images(self):
        real = self.layer()
        assert replace(real, is_complex=(True, True))._by_tiles((32, 64), 6) == pytest.approx(
            replace(real, inputs=32, outputs=40)._by_tiles((32, 64), 6)
        )
        assert replace(real, is_complex=(False, True))._by_tiles((32, 64), 6) == pytest.approx(
            replace(real, outputs=40)._by_tiles((32, 64), 6)
        )
        assert replace(real, is_complex=(True, False))._by_tiles((32, 64), 6) == pytest.approx(
            real._by_tiles((32, 64), 12)
        )

    @pytest.mark.parametrize(
        ("outputs", "known", "memory"), [(24, model.KNOWN, 0), (40, model.KNOWN, 2), (256, 1.0, 2)]
    )
    def test_many_weights_come_from_memory(self, outputs, known, memory):
        """6, 11 and 69 MB of factors: in cache, read for every four of 8 tiles, and not even kept."""
        seconds = one(image=(8, 8), results=(8, 8), inputs=16, outputs=outputs)._by_tiles((64, 64), 8)
        size, bins = 64 * 64, 64 * 33
        calls = model.TRANSFORM_CALL / 8 * (64 + 33)
        work = 8 * (16 + outputs) * (model.TILE_LEVEL * 12 * size + calls)
        work += 8 * 4 * model.MIX * 16 * outputs * bins
        weights = known * 16 * outputs * (0.5 * model.TILE_LEVEL * 12 * size + 2 * model.WEIGHT * bins)
        moved = memory * model.STREAM * 2 * 16 * outputs * bins
        assert seconds == pytest.approx(work + weights + moved + model.GROUP_CALL)

    def test_few_outputs_of_one_input_are_windows(self):
        for outputs, windows in ((2, True), (3, False)):
            sums = one(outputs=outputs, groups=4)
            seconds = sums._transformed("tiles", (32, 64), (2, 4)).seconds - model.FILTER_CALL
            other = sums._by_windows((32, 64), 8) if windows else sums._by_tiles((32, 64), 8)
            assert seconds == pytest.approx(other)

    def test_flops(self):
        cost = self.layer(groups=2)._transformed("tiles", (32, 64), (2, 4))
        one_transform = round(2.5 * 2048 * 11)
        assert cost.flops == 2 * ((36 * 8 + 320) * one_transform + 8 * 320 * 32 * 33 * 8)


@pytest.mark.parametrize(
    ("family", "options", "method"),
    [
        ("rows", {}, "direct"),
        ("taps", {"held": (1, 5), "taps": (1, 5)}, "direct"),
        ("channels", {"inputs": 3, "outputs": 4}, "direct"),
        ("windows", {}, "tiled"),
        (
            "lines",
            {"image": (512,), "taps": (5,), "start": (2,), "step": (1,), "results": (512,), "held": (5,)},
            "tiled",
        ),
        ("tiles", {"inputs": 3, "outputs": 4}, "tiled"),
    ],
)
def test_each_family_has_its_rate(family, options, method):
    slow = replace(one(**options), rates=Rates()._replace(**{family: 3.0}))
    call = model.CALL if method == "direct" else model.FILTER_CALL
    quick, slower = (getattr(sums, method)().seconds - call for sums in (one(**options), slow))
    assert slower > 2 * quick


class TestChoice:
    """What the model prefers where the answer is known from measurements."""

    @pytest.mark.parametrize(
        ("shape", "kernel", "method"),
        [
            ((64, 1000), (1, 3), "direct"),
            ((10**6,), (1000,), "tiles"),
            ((2048, 2048), (5, 5), "direct"),
            ((2048, 2048), (15, 15), "tiles"),
            ((2048, 2048), (63, 63), "tiles"),
            ((128, 128, 128), (3, 3, 3), "direct"),
            ((128, 128, 128), (9, 9, 9), "tiles"),
        ],
    )
    def test_convolve(self, shape, kernel, method):
        plan = so.plan_convolve(shape, "float32", np.ones(kernel, "f4"), mode="same")
        assert (plan.method, plan.cost.engine) == (method, "vector")
        assert "by kernels compiled on first use" in plan.explain()

    @pytest.mark.parametrize(
        ("x", "weight", "groups", "method"),
        [
            ((8, 16, 224, 224), (32, 16, 5, 5), 1, "tiles"),
            ((8, 16, 224, 224), (32, 16, 7, 7), 1, "tiles"),
            ((8, 64, 224, 224), (64, 1, 3, 3), 64, "direct"),
            ((8, 64, 224, 224), (64, 1, 7, 7), 64, "direct"),
            ((8, 64, 224, 224), (64, 1, 31, 31), 64, "fft"),
        ],
    )
    def test_layers(self, x, weight, groups, method):
        plan = so.plan_fft_conv2d(x, "float32", np.ones(weight, "f4"), padding="same", groups=groups)
        assert (plan.method, plan.cost.engine) == (method, "vector")

    def test_more_than_three_axes_are_transformed_by_scipy(self):
        plans = {m: so.plan_convolve((9,) * 4, "f4", np.ones((2,) * 4), method=m) for m in ("direct", "fft", "tiles")}
        assert {name: plan.cost.engine for name, plan in plans.items()} == {
            "direct": "vector", "fft": "scipy", "tiles": "scipy",
        }  # fmt: skip

    def test_padding_of_zeros_is_not_laid_out(self):
        zeros, others = (
            so.plan_fft_conv2d((1, 2, 50, 50), "f4", np.ones((3, 2, 5, 5)), padding=2, padding_mode=mode, method="fft")
            for mode in ("zeros", "circular")
        )
        assert (zeros.lengths, others.lengths) == ((54, 56), (54, 56))

    def test_an_adjoint_is_planned_likewise(self):
        plan = so.plan_fft_conv2d((2, 16, 99, 99), "f4", np.ones((32, 16, 7, 7), "f4"), padding=3)
        assert plan.adjoint().cost.engine == plan.cost.engine == "vector"
        assert so.plan_convolve((300, 300), "f4", np.ones((5, 5), "f4")).adjoint().cost.engine == "vector"
