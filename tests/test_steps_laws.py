"""What steps keep: symmetries, sums, bounds, and land that nothing enters."""

from __future__ import annotations

import numpy as np
import pytest
from step_engines import engine  # noqa: F401

import spectralops as so
from spectralops import Dirichlet, Hold, Outflow, Periodic, Reflect, Robin

pytestmark = pytest.mark.usefixtures("engine")

SCHEMES = ["upwind", "central", "upwind3", "weno5"]
FORMS = ["advective", "flux"]


STEPS = {
    "diffusion": lambda u, **k: so.diffusion_step(u, (0.5, 0.7), 0.03, 0.8, **k),
    "diffusion-field": lambda u, **k: so.diffusion_step(u, (0.5, 0.7), 0.03, np.full((6, 8), 0.8), **k),
    "burgers": lambda u, **k: so.diffuse_convect_step(u, (0.5, 0.7), 0.03, 0.8, **k),
    **{
        f"{s}-{f}": lambda u, s=s, f=f, **k: so.diffuse_convect_step(
            u, (0.5, 0.7), 0.03, 0.4, velocity=(0.5, np.array(-1.0)), scheme=s, form=f, **k
        )
        for s in SCHEMES
        for f in FORMS
    },
    **{
        f"burgers-{s}-{f}": lambda u, s=s, f=f, **k: so.diffuse_convect_step(
            u, (0.5, 0.7), 0.03, 0.4, scheme=s, form=f, **k
        )
        for s in SCHEMES
        for f in FORMS
    },
}


@pytest.mark.parametrize("step", STEPS)
def test_roll_equivariance_is_exact(step: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 8))
    for shift in ((1, 0), (-2, 3)):
        rolled = STEPS[step](np.roll(u, shift, (0, 1)))
        np.testing.assert_array_equal(rolled, np.roll(STEPS[step](u), shift, (0, 1)))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_steps_are_single_steps_bit_for_bit(step: str, dtype: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 8)).astype(dtype)
    single = u
    for _ in range(5):
        single = STEPS[step](single)
    np.testing.assert_array_equal(STEPS[step](u, steps=5), single)


@pytest.mark.parametrize("step", STEPS)
def test_a_batch_of_one_is_the_instance(step: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 8))
    np.testing.assert_array_equal(STEPS[step](u[None])[0], STEPS[step](u))


@pytest.mark.parametrize("step", STEPS)
def test_reflection_is_exact(step: str, rng: np.random.Generator) -> None:
    """Mirrored field and wind give the mirrored result; only the order of sums along an axis may differ."""
    if "burgers" in step:
        mirrored = lambda u: -STEPS[step](-u[::-1, ::-1])[::-1, ::-1]  # noqa: E731
    elif step.startswith("diffusion"):
        mirrored = lambda u: STEPS[step](u[::-1, ::-1])[::-1, ::-1]  # noqa: E731
    else:
        scheme, form = step.split("-")
        mirrored = lambda u: so.diffuse_convect_step(  # noqa: E731
            u[::-1, ::-1], (0.5, 0.7), 0.03, 0.4, velocity=(-0.5, 1.0), scheme=scheme, form=form
        )[::-1, ::-1]
    u = rng.standard_normal((6, 8))
    np.testing.assert_allclose(mirrored(u), STEPS[step](u), rtol=0, atol=2e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_reflection_of_winds_given_as_arrays_is_exact_to_the_bit(scheme: str, rng: np.random.Generator) -> None:
    u, v = rng.standard_normal(16), rng.standard_normal(16)
    for form in FORMS:
        options = {"scheme": scheme, "form": form}
        mirrored = so.convection_step(u[::-1], -v[::-1], 0.5, 0.1, **options)[::-1]
        np.testing.assert_array_equal(mirrored, so.convection_step(u, v, 0.5, 0.1, **options))


def test_transposition(rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 8))
    options = {"velocity": (0.5, -1.0), "scheme": "upwind3"}
    swapped = {"velocity": (-1.0, 0.5), "scheme": "upwind3"}
    result = so.diffuse_convect_step(u.T, (0.7, 0.5), 0.03, 0.4, **swapped).T
    np.testing.assert_allclose(result, so.diffuse_convect_step(u, (0.5, 0.7), 0.03, 0.4, **options), atol=1e-15)


def test_the_order_of_axes_does_not_matter_to_the_bit(rng: np.random.Generator) -> None:
    u, v = rng.standard_normal((6, 8)), rng.standard_normal((2, 6, 8))
    bc = {0: (Dirichlet(1.0), Outflow()), 1: Hold()}
    one = so.diffuse_convect_step(u, (0.5, 0.7), 0.03, 0.4, velocity=(v[0], v[1]), bc=bc, axes=(0, 1))
    two = so.diffuse_convect_step(u, (0.7, 0.5), 0.03, 0.4, velocity=[v[1], v[0]], bc=bc, axes=(1, 0))
    three = so.diffuse_convect_step(
        u, (0.7, 0.5), 0.03, 0.4, velocity=[v[1], v[0]], bc=(Hold(), (Dirichlet(1.0), Outflow())), axes=(-1, -2)
    )
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weno_and_its_peers_do_not_know_units(scheme: str, rng: np.random.Generator) -> None:
    """Scaling u by a power of two scales the result exactly: no tolerance has a unit."""
    u = rng.standard_normal(32)
    one = so.convection_step(u, np.ones(32), 1.0, 0.1, scheme=scheme)
    for scale in (2.0**-60, 2.0**60):
        np.testing.assert_array_equal(so.convection_step(u * scale, np.ones(32), 1.0, 0.1, scheme=scheme), one * scale)


def test_instances_have_their_own_diffusivity(rng: np.random.Generator) -> None:
    u, nu = rng.standard_normal((3, 5, 6)), np.array([0.1, 0.5, 0.9])
    result = so.diffusion_step(u, 0.5, 0.05, nu[:, None, None])
    for one, x, k in zip(result, u, nu, strict=True):
        np.testing.assert_array_equal(one, so.diffusion_step(x, 0.5, 0.05, k))


def test_float32_instances_keep_their_diffusivity(rng: np.random.Generator) -> None:
    u, nu = rng.standard_normal((2, 9)).astype("f4"), np.array([[0.1], [0.7]], "f4")
    result = so.diffusion_step(u, 0.5, 0.1, nu, axes=1)
    for one, x, k in zip(result, u, nu[:, 0], strict=True):
        np.testing.assert_array_equal(one, so.diffusion_step(x, 0.5, 0.1, float(k)))


def test_a_constant_field_of_diffusivity_is_the_number(rng: np.random.Generator) -> None:
    u = rng.standard_normal((6, 7))
    field = so.diffusion_step(u, 0.5, 0.05, np.full((6, 7), 0.8), bc=Robin(0.5, 1.0))
    np.testing.assert_allclose(field, so.diffusion_step(u, 0.5, 0.05, 0.8, bc=Robin(0.5, 1.0)), rtol=0, atol=2e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("bc", [Periodic(), (Dirichlet(1.0), Outflow())], ids=["periodic", "walls"])
def test_both_forms_agree_for_a_constant_wind(scheme: str, bc, rng: np.random.Generator) -> None:
    u, v = rng.standard_normal(12), np.full(12, -0.7)
    bc = bc if isinstance(bc, Periodic) else (bc,)
    results = [so.convection_step(u, v, 1.0, 0.2, scheme=scheme, form=form, bc=bc) for form in FORMS]
    number = so.convection_step(u, -0.7, 1.0, 0.2, scheme=scheme, bc=bc, on_unstable="ignore")
    np.testing.assert_allclose(results[0], results[1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(results[0], number, rtol=0, atol=1e-15)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_flux_form_conserves(scheme: str, rng: np.random.Generator) -> None:
    u, v = rng.standard_normal((8, 9)), tuple(rng.standard_normal((2, 8, 9)))
    mask = rng.random((8, 9)) < 0.7
    for m in (None, mask):
        result = so.convection_step(u, v, 1.0, 0.1, scheme=scheme, form="flux", mask=m, steps=5)
        assert result.sum() == pytest.approx(u.sum(), abs=1e-13)
        burgers = so.diffuse_convect_step(u, 1.0, 0.1, 0.2, scheme=scheme, form="flux", mask=m, steps=5)
        assert burgers.sum() == pytest.approx(u.sum(), abs=1e-13)


def test_upwind_keeps_positive_and_bounded(rng: np.random.Generator) -> None:
    u = (rng.random((20, 20)) < 0.1).astype(float)
    result = so.convection_step(u, (0.5, -0.25), 1.0, 1.0, steps=40)
    assert result.min() >= 0
    assert result.max() <= 1


def test_the_maximum_principle(rng: np.random.Generator) -> None:
    u, nu = rng.random((20, 20)), rng.random((20, 20))
    for k in (1.0, nu):
        result = so.diffusion_step(u, 1.0, 0.25, k, bc=Reflect(), steps=30)
        assert u.min() <= result.min() <= result.max() <= u.max()


def test_weno5_does_not_overshoot_a_step_much() -> None:
    """Essentially non-oscillatory: a square wave stays within a percent; the linear third-order scheme does not."""
    u = np.where(np.abs(np.arange(100) - 50) < 20, 1.0, 0.0)
    overshoot = {}
    for scheme in ("upwind3", "weno5"):
        terms = so.Advection(1.0, scheme, "flux")
        result = so.pde_step(u, 1.0, 0.4, terms, integrator="ssprk3", steps=100)
        overshoot[scheme] = max(result.max() - 1, -result.min())
    assert overshoot["weno5"] < 0.01 < 0.05 < overshoot["upwind3"]


MASKED = {
    "diffusion": lambda u, mask: so.diffusion_step(u, 1.0, 0.1, 0.8, mask=mask, steps=3),
    "diffusion-field": lambda u, mask: so.diffusion_step(u, 1.0, 0.1, np.where(mask, 0.8, np.nan), mask=mask, steps=3),
    **{
        f"{s}-{f}": lambda u, mask, s=s, f=f: so.convection_step(
            u, (np.where(mask, 0.5, np.nan), -1.0), 1.0, 0.1, scheme=s, form=f, mask=mask, steps=3,
            source=np.where(mask, 1.0, np.nan),
        )
        for s in SCHEMES
        for f in FORMS
    },
    **{
        f"burgers-{s}-{f}": lambda u, mask, s=s, f=f: so.diffuse_convect_step(
            u, 1.0, 0.1, 0.2, scheme=s, form=f, mask=mask, steps=3
        )
        for s in SCHEMES
        for f in FORMS
    },
}  # fmt: skip


@pytest.mark.parametrize("step", MASKED)
def test_values_outside_the_mask_never_matter(step: str, rng: np.random.Generator) -> None:
    """NaN, infinity and numbers on land give the same sea bit for bit, and stay as they were."""
    u, mask = rng.standard_normal((9, 10)), rng.random((9, 10)) < 0.7
    plain = MASKED[step](np.where(mask, u, 0.0), mask)
    assert np.isfinite(plain[mask]).all()
    for land in (np.nan, np.inf, 1e6):
        given = np.where(mask, u, land)
        result = MASKED[step](given, mask)
        np.testing.assert_array_equal(result[mask], plain[mask])
        np.testing.assert_array_equal(result[~mask], given[~mask])


@pytest.mark.parametrize("step", MASKED)
def test_a_mask_of_everything_is_no_mask(step: str, rng: np.random.Generator) -> None:
    u = rng.standard_normal((9, 10))
    everywhere = np.ones((9, 10), bool)
    result = MASKED[step](u, everywhere)
    if step.startswith("diffusion"):
        expected = so.diffusion_step(u, 1.0, 0.1, 0.8, steps=3)
    elif step.startswith("burgers"):
        _, scheme, form = step.split("-")
        expected = so.diffuse_convect_step(u, 1.0, 0.1, 0.2, scheme=scheme, form=form, steps=3)
    else:
        scheme, form = step.split("-")
        expected = so.convection_step(
            u, (0.5, -1.0), 1.0, 0.1, scheme=scheme, form=form, steps=3, source=1.0, on_unstable="ignore"
        )
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13)


def test_a_closed_face_carries_no_diffusion() -> None:
    """Two basins keep their own mean."""
    u = np.array([1.0, 3.0, 100.0, 5.0, 9.0, -100.0])
    mask = np.array([True, True, False, True, True, False])
    result = so.diffusion_step(u, 1.0, 0.25, 1.0, mask=mask)
    np.testing.assert_array_equal(result, [1.5, 2.5, 100.0, 6.0, 8.0, -100.0])


def test_a_closed_face_in_the_advective_form_has_no_gradient() -> None:
    u, mask = np.array([7.0, 1.0, 3.0, 7.0]), np.array([False, True, True, False])
    result = so.convection_step(u, 1.0, 1.0, 0.5, mask=mask)
    np.testing.assert_array_equal(result, [7.0, 1.0, 2.0, 7.0])
    back = so.convection_step(u, -1.0, 1.0, 0.5, mask=mask)
    np.testing.assert_array_equal(back, [7.0, 2.0, 3.0, 7.0])


def test_a_mask_broadcasts(rng: np.random.Generator) -> None:
    u, mask = rng.standard_normal((3, 4, 5)), rng.random((4, 5)) < 0.6
    batched = so.diffusion_step(u, 1.0, 0.1, 1.0, mask=mask)
    full = so.diffusion_step(u, 1.0, 0.1, 1.0, mask=np.broadcast_to(mask, u.shape))
    np.testing.assert_array_equal(batched, full)


def test_an_infinite_cell_at_a_closed_face_stays_infinite() -> None:
    result = so.diffusion_step([np.inf, 0.0, 1.0], 1.0, 0.1, 1.0, mask=np.array([True, False, False]))
    np.testing.assert_array_equal(result, [np.inf, 0.0, 1.0])
