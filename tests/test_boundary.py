"""Boundary conditions: each ghost rule satisfies its equation at the face, and `bc` is read as documented."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from spectralops import boundary
from spectralops.boundary import Dirichlet, GhostRule, Hold, Neumann, Outflow, Periodic, Reflect, Robin

ALL = [Periodic(), Dirichlet(1.5), Neumann(-0.5), Robin(0.75, 2.0), Reflect(), Outflow(), Hold()]
LAYERS = [1, 2, 3]
SPACINGS = [0.5, 1.0, 3.0]


def ghost_value(condition, layer: int, spacing: float, mirror: float) -> float:
    rule = condition.ghost(layer, spacing)
    assert rule.source == "mirror"
    return rule.scale * mirror + rule.offset


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("layer", LAYERS)
def test_dirichlet_gives_the_value_at_the_face(layer: int, spacing: float) -> None:
    ghost = ghost_value(Dirichlet(1.5), layer, spacing, 4.0)
    assert (ghost + 4.0) / 2 == 1.5


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("layer", LAYERS)
def test_neumann_gives_the_outward_derivative_at_the_face(layer: int, spacing: float) -> None:
    ghost = ghost_value(Neumann(-0.5), layer, spacing, 4.0)
    assert (ghost - 4.0) / ((2 * layer - 1) * spacing) == pytest.approx(-0.5, rel=1e-15)


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("layer", LAYERS)
def test_robin_satisfies_its_equation_at_the_face(layer: int, spacing: float) -> None:
    ghost = ghost_value(Robin(0.75, 2.0), layer, spacing, 4.0)
    derivative = (ghost - 4.0) / ((2 * layer - 1) * spacing)
    assert derivative + 0.75 * (ghost + 4.0) / 2 == pytest.approx(2.0, rel=1e-14)


@pytest.mark.parametrize("layer", LAYERS)
def test_robin_contains_neumann(layer: int) -> None:
    assert Robin(0.0, 3.0).ghost(layer, 0.5) == Neumann(3.0).ghost(layer, 0.5)


@pytest.mark.parametrize("layer", LAYERS)
def test_robin_tends_to_dirichlet(layer: int) -> None:
    rule = Robin(1e12, 1.5e12).ghost(layer, 0.5)
    assert (rule.scale, rule.offset) == (pytest.approx(-1.0), pytest.approx(3.0))


@pytest.mark.parametrize("layer", LAYERS)
def test_reflect_is_a_closed_wall(layer: int) -> None:
    assert Reflect().ghost(layer, 0.5) == Neumann(0.0).ghost(layer, 0.5) == GhostRule("mirror", 1.0, 0.0)


@pytest.mark.parametrize("condition", [Outflow(), Hold()], ids=str)
@pytest.mark.parametrize("layer", LAYERS)
def test_edge_conditions_repeat_the_end_cell(condition, layer: int) -> None:
    assert condition.ghost(layer, 0.5) == GhostRule("edge", 1.0, 0.0)


def test_periodic_wraps() -> None:
    assert Periodic().ghost(2, 0.5) == GhostRule("wrap", 1.0, 0.0)


def test_robin_without_a_ghost_value() -> None:
    with pytest.raises(
        ValueError, match=r"^Robin: gamma is -4\.0, but must differ from -4\.0, where no ghost .* spacing of 0\.5"
    ):
        Robin(-4.0, 1.0).ghost(1, 0.5)


@pytest.mark.parametrize("condition", ALL, ids=str)
def test_conditions_are_values(condition) -> None:
    assert pickle.loads(pickle.dumps(condition)) == condition
    assert hash(pickle.loads(pickle.dumps(condition))) == hash(condition)
    with pytest.raises((FrozenInstanceError, TypeError, AttributeError)):
        condition.value = 1.0


def test_values_become_python_floats() -> None:
    assert type(Dirichlet(np.float32(0.5)).value) is float
    assert type(Neumann(np.array(1)).derivative) is float
    assert type(Robin(1, 2).gamma) is float
    assert type(Robin(1, 2).beta) is float
    assert repr(Dirichlet(1)) == "Dirichlet(value=1.0)"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Dirichlet, "Dirichlet: value"),
        (Neumann, "Neumann: derivative"),
        (lambda v: Robin(v, 0.0), "Robin: gamma"),
        (lambda v: Robin(0.0, v), "Robin: beta"),
    ],
    ids=["dirichlet", "neumann", "gamma", "beta"],
)
class TestBadValues:
    def test_nan(self, make, name: str) -> None:
        with pytest.raises(ValueError, match=f"^{name} is nan, but must be finite"):
            make(float("nan"))

    def test_wrong_kind(self, make, name: str) -> None:
        with pytest.raises(TypeError, match=f"^{name} is a str, but must be a real number"):
            make("1")

    def test_array(self, make, name: str) -> None:
        with pytest.raises(TypeError, match=f"^{name} is a ndarray, but must be a real number"):
            make(np.ones(3))


P, R, H, D = Periodic(), Reflect(), Hold(), Dirichlet(1.0)


@pytest.mark.parametrize(
    ("bc", "expected"),
    [
        (P, ((P, P), (P, P))),
        ((R, H), ((R, R), (H, H))),
        (((R, H), P), ((R, H), (P, P))),
        ([[D, R], H], ((D, R), (H, H))),
        ({1: P, 2: (D, R)}, ((P, P), (D, R))),
        ({-1: (D, R), -2: P}, ((P, P), (D, R))),
        ({np.int64(2): H, -2: D}, ((D, D), (H, H))),
        ({-1: P, -2: (D, R)}, ((D, R), (P, P))),
    ],
    ids=["one", "per-axis", "per-side", "lists", "dict", "negative-axes", "numpy-axes", "low-first"],
)
def test_sides(bc, expected) -> None:
    assert boundary.sides("f", bc, (1, 2), 3) == expected


def test_the_lowest_axis_may_be_named_negatively() -> None:
    assert boundary.sides("f", {-2: R, -1: H}, (0, 1), 2) == ((R, R), (H, H))


def test_sides_follow_the_order_of_axes() -> None:
    assert boundary.sides("f", {1: R, 2: H}, (2, 1), 3) == ((H, H), (R, R))


@pytest.mark.parametrize(
    ("bc", "error", "message"),
    [
        ((R,), ValueError, r"^f: bc has 1 entries, but must have 2, one per axis; write \(\(low, high\),\)"),
        ((R, H, P), ValueError, r"^f: bc has 3 entries, but must have 2"),
        ({1: R}, ValueError, r"^f: bc has no entry for axis 2, but must name .*\(1, 2\); add \{2: Periodic\(\)\}"),
        ({1: R, 0: R}, ValueError, r"^f: bc has an entry for axis 0, but must only name the stepped axes \(1, 2\)"),
        ({1: R, 3: R}, ValueError, r"^f: bc has an entry for axis 3, but"),
        ({1: R, -4: R}, ValueError, r"^f: bc has an entry for axis -4, but"),
        ({1: R, -2: R}, ValueError, r"^f: bc has two entries for axis 1, but must have one"),
        ({"x": R}, TypeError, r"^f: bc has the key 'x', but must have axes as integers"),
        ("periodic", TypeError, r"^f: bc is 'periodic', but must be Periodic\(\), Dirichlet\(value\), Neumann"),
        (0.0, TypeError, r"^f: bc is 0\.0, but must be Periodic"),
        (Reflect, TypeError, r"^f: bc is the class Reflect, but must be an instance; write Reflect\("),
        (
            ((P, R), H),
            ValueError,
            r"^f: bc is \(Periodic\(\), Reflect\(\)\) on axis 1, but must be Periodic\(\) on both",
        ),
        (
            (H, (R, P)),
            ValueError,
            r"^f: bc is \(Reflect\(\), Periodic\(\)\) on axis 2, but must be Periodic\(\) on both",
        ),
        (([R], H), ValueError, r"^f: bc has 1 entries for axis 1, but must have one condition or two"),
        (((R, H, R), H), ValueError, r"^f: bc has 3 entries for axis 1, but must have one condition or two"),
    ],
)
def test_bad_bc(bc, error, message: str) -> None:
    with pytest.raises(error, match=message):
        boundary.sides("f", bc, (1, 2), 3)


def test_ghosts_of_every_axis_side_and_layer() -> None:
    rules = boundary.ghosts("f", ((D, R), (P, P)), (0.5, 2.0), {0: 4, 1: 4}, (2, 1))
    assert rules == (
        ((GhostRule("mirror", -1.0, 2.0),) * 2, (GhostRule("mirror"),) * 2),
        ((GhostRule("wrap"),), (GhostRule("wrap"),)),
    )


def test_ghosts_use_the_spacing_of_their_axis() -> None:
    neumann = Neumann(1.0)
    rules = boundary.ghosts("f", ((neumann, neumann),) * 2, (0.5, 2.0), {0: 4, 1: 4}, (2, 2))
    assert [[rule.offset for rule in side] for axis in rules for side in axis] == [[0.5, 1.5]] * 2 + [[2.0, 6.0]] * 2


@pytest.mark.parametrize("size", [0, 3])
def test_ghosts_fit(size: int) -> None:
    assert len(boundary.ghosts("f", ((D, H),), (1.0,), {0: size}, (3,))[0][0]) == 3


@pytest.mark.parametrize("conditions", [(D, H), (H, D)], ids=["low", "high"])
def test_mirrored_ghosts_need_cells(conditions) -> None:
    with pytest.raises(ValueError, match=r"^f: u has 2 cells along axis 1, but must have at least 3 .*; take a nar"):
        boundary.ghosts("f", (conditions,), (1.0,), {1: 2}, (3,))


@pytest.mark.parametrize("condition", [P, H, Outflow()], ids=str)
def test_other_ghosts_need_no_cells(condition) -> None:
    assert len(boundary.ghosts("f", ((condition, condition),), (1.0,), {0: 1}, (3,))[0][1]) == 3
