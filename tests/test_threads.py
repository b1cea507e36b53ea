"""How many of the threads that a caller allows are used: the decision itself, for every operator, never its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fakes import install, spec_plan

import spectralops as so
import spectralops.fft
from spectralops import _dispatch, _support, _threads
from spectralops._arrays import ArraySpec
from spectralops._cpu.vector import transforms

F = "float32"
SMALL, LARGE = 0, 1

Build = Callable[[int], Any]


def layer(batch: int) -> Any:
    return so.plan_spectral_conv((batch, 64, 256), F, ArraySpec((64, 64, 32), "complex64"), axes=-1)


# A plan too small for a second thread, and one that is worth it, of every operator that takes `workers`.
PLANS: dict[str, Build] = {
    "spectral_filter": lambda n: so.plan_spectral_filter(
        (64 << 4 * n, 1000), F, ArraySpec((501,), "complex64"), axes=-1
    ),
    "spectral_filter 2d": lambda n: so.plan_spectral_filter((8 << 4 * n, 64, 64), F, ArraySpec((64, 33), "complex64")),
    "spectral_conv": lambda n: layer(4 + 28 * n),
    "spectral_conv adjoint": lambda n: layer(4 + 28 * n).adjoint(),
    "spectral_conv_weight_gradient": lambda n: so.plan_spectral_conv_weight_gradient(
        (4 + 28 * n, 64, 256), F, ArraySpec((4 + 28 * n, 64, 256), F), (32,)
    ),
    "fourier_resample": lambda n: so.plan_fourier_resample((8 << 4 * n, 64, 64), F, (96, 96)),
    "convolve": lambda n: so.plan_convolve((128 << 3 * n,) * 2, F, ArraySpec((9, 9), F)),
    "fft_conv2d": lambda n: so.plan_fft_conv2d((1 + 7 * n, 16, 64, 64), F, ArraySpec((16, 16, 3, 3), F)),
    "diffusion_step": lambda n: so.plan_diffusion_step((128 << 4 * n,) * 2, F, 1.0, 0.1, 1.0),
    "convection_step": lambda n: so.plan_convection_step((128 << 4 * n,) * 2, F, (0.5, 0.5), 1.0, 0.1),
    "diffuse_convect_step": lambda n: so.plan_diffuse_convect_step((128 << 4 * n,) * 2, F, 1.0, 0.01, 1.0),
    "pde_step": lambda n: so.plan_pde_step((128 << 4 * n,) * 2, F, 1.0, 0.1, (so.Diffusion(1.0),)),
    "diffusion_filter": lambda n: so.plan_diffusion_filter((64 << 4 * n,) * 2, F, 4.0, 1.0),
}


@pytest.fixture(autouse=True)
def as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests run every number of workers that they name."""
    monkeypatch.setattr(_threads, "SECONDS_EACH", 5e-4)


def used(plan: Any, workers: int | None) -> int:
    """What the executor of a plan is told."""
    return _dispatch._workers(plan, workers)


@pytest.mark.parametrize(
    ("flops", "moved", "count"),
    [
        (0, 0, 1),
        (29_999_999, 0, 1),
        (30_000_000, 0, 2),
        (45_000_001, 0, 3),
        (0, 9_999_999, 1),
        (0, 10_000_000, 2),
        (15_000_001, 5_000_000, 2),
        (10**12, 10**12, 8),
    ],
)
def test_half_a_millisecond_of_work_for_each(flops: int, moved: int, count: int) -> None:
    """30 operations and 10 bytes a nanosecond."""
    assert _threads.worthwhile(8, flops, moved) == count


@pytest.mark.parametrize("name", PLANS)
def test_small_work_stays_on_one_thread(name: str) -> None:
    plan = PLANS[name](SMALL)
    assert plan.backend == "cpu"
    assert used(plan, 2) == used(plan, 64) == 1


@pytest.mark.parametrize("name", PLANS)
def test_large_work_takes_what_is_allowed(name: str) -> None:
    plan = PLANS[name](LARGE)
    assert [used(plan, workers) for workers in (None, 1, 2)] == [1, 1, 2]


def test_every_operator_is_here() -> None:
    assert {name.split()[0] for name in PLANS} == {op for op, backend in _support.SUPPORT if backend == "cpu"}


def test_more_work_takes_more_threads() -> None:
    """The layer of 4 entries that took seven times as long with two threads takes one; 32 entries take several."""
    counts = [used(layer(batch), 16) for batch in (1, 4, 32, 128)]
    assert counts[:2] == [1, 1]
    assert 2 <= counts[2] < counts[3] <= 16


def test_the_executor_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def spy(plan: Any, x: Any, *, out: Any, workers: int) -> None:
        seen.append(workers)

    install(monkeypatch, spy)
    for flops in (10**6, 10**12):
        plan = spec_plan((3,), "float64", flops=flops, bytes_moved=48)
        for x in (np.zeros(3), np.zeros((3, 2))[:, 0].astype(">f8")):
            _dispatch.execute(plan, (x,), workers=3)
    assert seen == [1, 1, 3, 3]


@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_plain_pipelines_get_what_was_asked_for(backend: str) -> None:
    plan = so.plan_spectral_filter((4, 16), F, ArraySpec((9,), "complex64"), axes=-1, backend=backend)
    assert used(plan, 3) == 3


def test_wrong_numbers_are_refused_however_small_the_work() -> None:
    with pytest.raises(ValueError, match=r"^spectral_filter: workers is 0, but must be at least 1"):
        used(PLANS["spectral_filter"](SMALL), 0)


@pytest.mark.parametrize(
    ("op", "shape", "dtype", "options", "count"),
    [
        ("fft", (64, 256), "complex64", {}, 1),
        ("fft", (2048, 1024), "complex64", {}, 4),
        ("rfft", (64, 512), F, {}, 1),
        ("rfft2", (64, 256, 256), F, {}, 4),
        ("irfft", (2048, 513), "complex64", {"n": 1024}, 4),
    ],
)
def test_lone_transforms(
    monkeypatch: pytest.MonkeyPatch, op: str, shape: tuple[int, ...], dtype: str, options: Any, count: int
) -> None:
    seen = []
    monkeypatch.setattr(transforms, "transform", lambda *arguments: seen.append(arguments[-1]))
    getattr(so.fft, op)(np.zeros(shape, dtype), workers=4, **options)
    assert seen == [count]
