"""Every bad argument of a step with its message; which diffusivities count for its stability."""

from __future__ import annotations

import numpy as np
import pytest

import spectralops as so
from spectralops import (
    Reflect,
    Robin,
)
from spectralops._plans import step_arguments

F = "^diffusion_step: "
BAD_DIFFUSION = {
    "dx-zero": ({"dx": 0.0}, ValueError, F + r"dx is 0\.0, but must be positive"),
    "dx-negative": ({"dx": (1.0, -1.0)}, ValueError, F + r"dx is -1\.0, but must be positive"),
    "dx-nan": ({"dx": np.nan}, ValueError, F + "dx is nan, but must be finite"),
    "dx-string": ({"dx": "1"}, TypeError, F + "dx is a str, but must be a real number"),
    "dx-array": ({"dx": np.ones(2)}, TypeError, F + r"dx is an array of shape \(2,\), .* write tuple\(dx\)"),
    "dx-too-many": ({"dx": (1.0,) * 3}, ValueError, F + "u has 2 dimensions, but must have at least 3 to match dx"),
    "dx-axes": ({"dx": (1.0, 1.0), "axes": 0}, ValueError, F + "dx has 2 entries, but must have 1, one per axis"),
    "dt-string": ({"dt": "a"}, TypeError, F + "dt is a str, but must be a real number"),
    "dt-array": ({"dt": np.ones(2)}, TypeError, F + "dt is a ndarray, but must be a real number"),
    "nu-negative": ({"nu": -0.5}, ValueError, F + r"nu is -0\.5, but must not be negative"),
    "nu-nan": ({"nu": np.nan}, ValueError, F + "nu is nan, but must be finite"),
    "nu-list": ({"nu": [1.0]}, TypeError, F + "nu is .*, but must be a real number"),
    "nu-complex": ({"nu": np.ones((6, 7), complex)}, TypeError, F + "nu has dtype complex128, but must be real"),
    "nu-shape": ({"nu": np.ones((6, 8))}, ValueError, F + r"nu has shape \(6, 8\), but must broadcast to \(6, 7\)"),
    "nu-more-axes": (
        {"nu": np.ones((1, 6, 7))},
        ValueError,
        F + r"nu has shape \(1, 6, 7\), but must broadcast to \(6, 7\)",
    ),
    "source-shape": (
        {"source": np.ones(6)},
        ValueError,
        F + r"source has shape \(6,\), but must broadcast to \(6, 7\)",
    ),
    "source-nan": ({"source": np.nan}, ValueError, F + "source is nan, but must be finite"),
    "mask-dtype": ({"mask": np.ones((6, 7))}, TypeError, F + "mask has dtype float64, but must be bool, True where"),
    "mask-scalar": ({"mask": True}, TypeError, F + "mask is a bool, but must be a boolean array"),
    "mask-shape": (
        {"mask": np.ones(6, bool)},
        ValueError,
        F + r"mask has shape \(6,\), but must broadcast to \(6, 7\)",
    ),
    "steps-zero": ({"steps": 0}, ValueError, F + "steps is 0, but must be at least 1"),
    "steps-float": ({"steps": 1.5}, TypeError, F + r"steps is 1\.5, but must be an integer"),
    "axes-out": ({"axes": 2}, ValueError, F + r"axes has 2, but must lie in \[-2, 2\) for u with 2 dimensions"),
    "axes-twice": ({"axes": (0, -2)}, ValueError, F + r"axes is \(0, -2\), but must not name an axis twice"),
    "method-unknown": (
        {"method": "fft"},
        ValueError,
        F + "method is 'fft', but must be 'stencil', 'spectral' or 'auto'",
    ),
    "on-unstable": (
        {"on_unstable": "no"},
        ValueError,
        F + "on_unstable is 'no', but must be 'raise', 'warn' or 'ignore'",
    ),
    "bc-string": ({"bc": "periodic"}, TypeError, F + r"bc is 'periodic', but must be Periodic\(\)"),
    "bc-count": ({"bc": (Reflect(),)}, ValueError, F + "bc has 1 entries, but must have 2"),
    "backend": ({"backend": "gpu"}, ValueError, F + "backend is 'gpu', but must be "),
    "robin": ({"bc": Robin(-2.0, 0.0)}, ValueError, r"^Robin: gamma is -2\.0, but must differ from -2\.0"),
}


@pytest.mark.parametrize("name", BAD_DIFFUSION)
def test_bad_arguments(name: str) -> None:
    options, error, message = BAD_DIFFUSION[name]
    u = np.ones((6, 7))
    with pytest.raises(error, match=message):
        so.diffusion_step(u, **({"dx": 1.0, "dt": 0.1, "nu": 1.0} | options))
    np.testing.assert_array_equal(u, np.ones((6, 7)))


C = "^convection_step: "


@pytest.mark.parametrize(
    ("velocity", "options", "error", "message"),
    [
        (None, {}, TypeError, C + "velocity is None, but must be a number, an array or a sequence"),
        (1.0, {}, ValueError, C + "velocity is a single float, but must be a sequence of 2, one component per stepped"),
        (np.ones((2, 8, 8)), {}, ValueError, C + "velocity is a single array, but must be a sequence of 2"),
        ((1.0, np.inf), {}, ValueError, C + r"velocity\[1\] is inf, but must be finite"),
        (
            (np.ones((8, 9)), 0.0),
            {},
            ValueError,
            C + r"velocity\[0\] has shape \(8, 9\), but must broadcast to \(8, 8\)",
        ),
        (
            (1.0,),
            {"dx": (1.0, 1.0)},
            ValueError,
            C + "dx has 2 entries and velocity has 1, but both must have one per axis",
        ),
        (
            (1.0, 1.0),
            {"scheme": "weno"},
            ValueError,
            C + "scheme is 'weno', but must be 'central', 'upwind', 'upwind3' or",
        ),
        ((1.0, 1.0), {"form": "weak"}, ValueError, C + "form is 'weak', but must be 'advective' or 'flux'"),
        ((1.0, "x"), {}, TypeError, C + r"velocity\[1\] is a str, but must be a real number"),
    ],
    ids=["none", "bare", "one-array", "inf", "err03-shape", "counts", "scheme", "form", "string"],
)
def test_bad_velocities(velocity, options, error, message: str) -> None:
    with pytest.raises(error, match=message):
        so.convection_step(np.ones((8, 8)), velocity, **({"dx": 1.0, "dt": 0.1} | options))


@pytest.mark.parametrize("option", ["scheme", "form"])
def test_words_of_diffuse_convect_step(option: str) -> None:
    with pytest.raises(ValueError, match=f"^diffuse_convect_step: {option} is 'x', but must be "):
        so.diffuse_convect_step(np.ones(4), 1.0, 0.1, 1.0, **{option: "x"})


def test_fields_must_be_real_arrays() -> None:
    with pytest.raises(so.UnsupportedError, match=r"^diffusion_step: dtype is complex128, but must be one"):
        so.diffusion_step(np.ones(4, complex), 1.0, 0.1, 1.0)
    with pytest.raises(TypeError, match=r"^diffusion_step: u is a str, but must be an array"):
        so.diffusion_step("u", 1.0, 0.1, 1.0)
    with pytest.raises(ValueError, match=r"^diffusion_step: u has 0 dimensions, but must have at least 1"):
        so.diffusion_step(np.array(1.0), 1.0, 0.1, 1.0)


def test_at_most_three_axes() -> None:
    with pytest.raises(ValueError, match=r"^diffusion_step: axes has 4 entries, but must have 1 to 3"):
        so.diffusion_step(np.ones((2,) * 4), 1.0, 0.1, 1.0, axes=(0, 1, 2, 3))


def test_too_few_cells_for_a_mirror() -> None:
    with pytest.raises(ValueError, match=r"^convection_step: u has 2 cells along axis 0, but must have at least 3 for"):
        so.convection_step(np.ones(2), 1.0, 1.0, 0.1, scheme="weno5", bc=Reflect(), on_unstable="ignore")


def test_three_axes_by_the_number_of_spacings(rng: np.random.Generator) -> None:
    u = rng.standard_normal((2, 3, 4, 5))
    by_dx = so.diffusion_step(u, (1.0, 1.0, 1.0), 0.1, 1.0)
    by_velocity = so.diffuse_convect_step(u, 1.0, 0.1, 1.0, velocity=(0.0, 0.0, 0.0))
    np.testing.assert_array_equal(by_dx, so.diffusion_step(u, 1.0, 0.1, 1.0, axes=(1, 2, 3)))
    np.testing.assert_array_equal(by_dx, by_velocity)


def test_mixed_libraries() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(
        TypeError, match=r"^diffusion_step: nu is a numpy array on cpu, but must be a torch array on cpu like u"
    ):
        so.diffusion_step(torch.ones(4), 1.0, 0.1, np.ones(4))


def test_on_unstable_must_be_a_word():
    with pytest.raises(TypeError, match=r"^diffusion_step: on_unstable is a ndarray, but must be 'raise', 'warn' or"):
        so.diffusion_step(np.ones(4), 1.0, 0.1, 1.0, on_unstable=np.array(["warn", "raise"]))


def test_device_must_be_one():
    with pytest.raises(ValueError, match=r"^diffusion_step: device is 'tpu', but must be 'cpu' or 'cuda'$"):
        so.plan_diffusion_step((4,), "float64", 1.0, 0.1, 1.0, device="tpu")
    assert so.plan_diffusion_step((4,), "float64", 1.0, 0.1, 1.0, device="cuda:1").backend == "cuda"


# The largest diffusivity of the computed cells.


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("part", [1, 7, 1 << 15])
def test_largest_diffusivity_in_parts(layout, part, monkeypatch, rng):
    monkeypatch.setattr(step_arguments, "PART", part)
    nu, mask = 0.1 + 0.1 * rng.random((9, 11)), rng.random((9, 11)) > 0.3
    nu[~mask] = rng.choice([np.nan, -1.0, 9.0, np.inf], (~mask).sum())
    nu[8, 5], mask[8, 5] = 0.25, True
    plan = so.plan_diffusion_step((9, 11), "float64", 1.0, 0.1, layout(nu), mask=layout(mask))
    assert plan.stable_dt == 1.0


@pytest.mark.parametrize("land", [0.1, 9.0])
def test_land_counts_only_where_it_is_no_land(land):
    nu, mask = np.array([0.25, 0.2, land, 0.1]), np.array([True, True, False, True])
    assert so.plan_diffusion_step((4,), "float64", 1.0, 0.1, nu, mask=mask).stable_dt == 2.0
    assert so.plan_diffusion_step((4,), "float64", 1.0, 0.1, nu, mask=mask | True, on_unstable="ignore").stable_dt == (
        2.0 if land < 1 else 1 / 18
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_bad_diffusivity_at_sea_is_refused(bad):
    nu, mask = np.array([0.1, 0.2, bad, np.nan]), np.array([True, True, True, False])
    with pytest.raises(ValueError, match=f"nu has the value {bad}, but must be finite and not negative"):
        so.plan_diffusion_step((4,), "float64", 1.0, 0.1, nu, mask=mask)


def test_diffusivities_on_land_alone_limit_nothing():
    plan = so.plan_diffusion_step((2,), "float64", 1.0, 0.1, np.array([9.0, 9.0]), mask=np.array([False, False]))
    assert plan.stable_dt == np.inf
