"""Plans found again: by what arguments look like, in a memory of what was asked for last."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spectralops as so
from spectralops import _arrays
from spectralops._dispatch import observe
from spectralops._plans import step_arguments
from spectralops._plans.looks import Known, Looks
from spectralops._recent import Recent


def test_what_was_asked_for_last_is_kept() -> None:
    kept: Recent[str, int] = Recent(2)
    assert kept.get("a") is None
    assert [kept.put(key, value) for key, value in (("a", 1), ("b", 2))] == [1, 2]
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert (kept.get("b"), kept.get("a"), kept.get("c"), len(kept)) == (None, 1, 3, 2)
    assert kept.values() == [1, 3]
    kept.clear()
    assert len(kept) == 0


U = np.linspace(0, 1, 48).reshape(6, 8)
CALLS: dict[str, Callable[[Any], Any]] = {
    "filter": lambda u: so.spectral_filter(u, np.ones((6, 5)), spacing=(0.5, 1.0)),
    "filter of factors": lambda u: so.spectral_filter(u, (np.ones((6, 1)), np.ones(5)), pad_mode="edge"),
    "transfer": lambda u: so.spectral_filter(u, so.transfer.gaussian(1.0)),
    "layer": lambda u: so.spectral_conv(u[None], np.ones((1, 2, 2, 2)) + 0j, out_shape=(4, 4)),
    "convolve": lambda u: so.convolve(u, np.ones((3, 3)), mode="same", backend="numpy"),
    "conv2d": lambda u: so.fft_conv2d(u[None, None], np.ones((2, 1, 3, 3)), padding=1, backend="numpy"),
    "conv2d with bias": lambda u: so.fft_conv2d(u[None, None], np.ones((2, 1, 3, 3)), np.ones(2), backend="numpy"),
    "resample": lambda u: so.fourier_resample(u, (4, 5)),
    "gradient": lambda u: so.gradient(u, (0.5, 1), mask=np.eye(6, 8) == 0),
    "divergence": lambda u: so.divergence(np.stack([u, u]), 0.5, bc=so.Dirichlet(1)),
    "divergence of parts": lambda u: so.divergence([np.asarray(u), np.ones((6, 8))], 0.5, mask=np.eye(6, 8) == 0),
    "laplacian": lambda u: so.laplacian(u, 0.5, nu=np.ones(8), mask=np.eye(6, 8) == 0),
    "diffusion": lambda u: so.diffusion_step(u, (0.5, 1), 0.01, 0.1, steps=2),
    "convection": lambda u: so.convection_step(u, (1.0, 0.5), 0.5, 0.01),
    "Burgers": lambda u: so.diffuse_convect_step(u, 0.5, 0.01, 0.1),
    "terms": lambda u: so.pde_step(u, 0.5, 0.01, [so.Diffusion(0.1), so.Source(2.0)], integrator="rk2"),
    "conv2d that ends": lambda u: so.fft_conv2d(
        u[None, None], np.ones((2, 1, 3, 3)), epilogue=so.Epilogue(scale=(1.0, 2.0)), backend="numpy"
    ),
    "winds": lambda u: so.convection_step(u, [np.ones((6, 8)), 0.5], 0.5, 0.01, source=np.ones(8), bc=so.Outflow()),
    "terms with arrays": lambda u: so.pde_step(u, 1, 0.01, (so.Source(np.ones(8)), so.Advection((1.0, np.ones(8))))),
    "sides": lambda u: so.diffusion_step(
        u, 0.5, np.float64(0.01), 1, bc={0: so.Dirichlet(1), 1: (so.Hold(), so.Neumann(0))}, mask=np.eye(6, 8) == 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_plans_of_calls_that_look_alike_are_found_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, seen = CALLS[name], []
    expected = call(U.tolist() if name in ("diffusion", "terms") else np.ma.getdata(U.astype(">f8")))
    with observe(lambda plan, arrays, result: seen.append(plan)):
        call(U)
        monkeypatch.setattr(_arrays, "describe", None)
        np.testing.assert_allclose(call(U.copy()), expected, rtol=1e-12)
        call(np.asfortranarray(U))
    assert seen[0] is seen[1] is seen[2]


class Number:
    """One that changes, and is hashed by where it lies."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


def test_plans_are_not_found_by_what_is_equal_alone() -> None:
    first = so.diffusion_step(U, 1.0, 0.1, 1.0)
    dt, nu = np.float64(0.1), np.array(1.0)
    assert np.array_equal(so.diffusion_step(U, np.float64(1.0), dt, nu), first)
    nu[()] = 0.0
    assert np.array_equal(so.diffusion_step(U, np.float64(1.0), dt, nu), U)
    own = Number(1.0)
    for spacing in ((own,), own):
        own.value = 1.0
        assert np.array_equal(so.diffusion_step(U[0], spacing, 0.1, 1.0), so.diffusion_step(U[0], 1.0, 0.1, 1.0))
        own.value = 2.0
        assert np.array_equal(so.diffusion_step(U[0], spacing, 0.1, 1.0), so.diffusion_step(U[0], 2.0, 0.1, 1.0))
    so.spectral_conv(U[None], np.ones((1, 2, 2, 2)) + 0j, depthwise=False)
    with pytest.raises(TypeError, match="depthwise is 0, but must be True or False"):
        so.spectral_conv(U[None], np.ones((1, 2, 2, 2)) + 0j, depthwise=0)
    with pytest.raises(TypeError, match=r"steps is 1\.0"):
        so.diffusion_step(U, 1.0, 0.1, 1.0, steps=1.0)
    for _ in range(2):
        with pytest.warns(so.StabilityWarning):
            so.diffusion_step(U, 1.0, 0.5, 1.0, on_unstable="warn")
        with pytest.raises(so.StabilityError):
            so.diffusion_step(U, 1.0, 0.5, 1.0)
        with pytest.raises(ValueError, match="on_unstable is 'never', but must be"):
            so.diffusion_step(U, 1.0, 0.1, 1.0, on_unstable="never")
        with pytest.raises(so.StabilityError):
            so.diffusion_step(U, 1.0, 0.1, 25 * np.ones(8))
        so.diffusion_step(U, 1.0, 0.1, np.ones(8))


X, Y = np.ones((2, 3)), np.ones(3)
ALIKE: dict[str, tuple[Any, ...]] = {
    "numbers": (1, 1.0, True, 1 + 0j, np.float64(1), np.float32(1), np.int64(1)),
    "words": ("1", None),
    "sequences": ((1,), (1.0,), (True,), [1], [1.0], (), [], ((1,),), ([1],), (1, 1)),
    "tables": ({0: 1}, {0: 1.0}, {0.0: 1}, {}, ((0, 1),)),
    "terms": (so.Diffusion(1), so.Diffusion(1.0), so.Source(1.0), so.Advection(1.0), so.Advection((1.0,))),
    "more terms": (so.SelfAdvection(), so.SelfAdvection("central"), so.Epilogue(), so.Epilogue(1.0), so.Epilogue([1])),
    "sides": (so.Dirichlet(1.0), so.Neumann(1.0), so.Hold(), so.Reflect()),
    "arrays": (Y, X, Y.astype("float32"), Y.astype(">f8"), (Y,), [Y], (Y, 1), so.Diffusion(Y), so.Source(Y), {0: Y}),
}  # fmt: skip
# What may change, has no hash, or belongs to others.
NEVER: tuple[Any, ...] = (
    np.array(1.0), (np.array(1.0),), so.Diffusion(np.array(1.0)), np.ma.MaskedArray(Y), print, so.Pointwise(abs), {1},
    float, np.float16(1),
)  # fmt: skip


def test_each_look_has_a_plan_of_its_own() -> None:
    looks = Looks(Known)
    given = [each for group in ALIKE.values() for each in group]
    found = [looks.find(X, (each, 0))[0] for each in given]
    assert len(set(map(id, found))) == len(given)
    again = [looks.find(X.copy(), (copy.deepcopy(each), 0)) for each in given]
    assert [known for known, _ in again] == found
    assert [len(arrays) for _, arrays in again] == [1 + ("array(" in repr(each)) for each in given]
    fields = X, X.T, X.astype("f4"), X.astype(">f8")
    others = [looks.find(x, (1, 0), *around)[0] for x in fields for around in ((), ("op",))]
    assert len({*map(id, others), *map(id, found)}) == len(found) + 7
    for each in NEVER:
        assert looks.find(X, (each, 0))[0] is not looks.find(X, (each, 0))[0]
        assert looks.find(X, (each, 0))[1] == ()
    for x in (X.tolist(), np.ma.MaskedArray(X), np.float64(1)):
        assert looks.find(x, (1, 0))[1] == ()
    assert looks.find(X, (1, 0), [])[1] == (), "no hash"
    looks.clear()
    assert looks.find(X, (1, 0))[0] not in found


def test_looks_keep_no_arrays_and_few_plans() -> None:
    made: list[Any] = []
    looks = Looks(lambda: made.append(1) or object())
    u, nu = np.ones(4), np.ones(4)
    kept = weakref.ref(u), weakref.ref(nu)
    so.diffusion_step(u, 1.0, 0.1, nu)
    so.convection_step(u, nu, 1.0, 0.1, mask=nu == 1)
    looks.find(u, (nu,))
    del u, nu
    gc.collect()
    assert [each() for each in kept] == [None, None]
    made.clear()
    for n in (*range(600), 599, 0):
        looks.find(X, (n,))
    assert len(made) == 601, "the first of 600 is gone"
    for k in range(40):
        so.diffusion_step(X, 1.0, 0.01 + 0.001 * k, 1.0)
    usual = (1.0, 1.0, so.Periodic(), None, None, "stencil", "raise", None, None)
    taken, _ = step_arguments._taken.find(X, usual, "diffusion_step")
    assert 0 < len(taken.plans) <= step_arguments.KEPT
