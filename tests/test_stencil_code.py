"""The parts of the stencil engine: programs, their compiled code and where it is kept, pointwise terms."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from step_engines import program

import spectralops as so
from spectralops import _compiler
from spectralops._arrays import ArraySpec

pytestmark = pytest.mark.skipif(bool(_compiler.unavailable()), reason=_compiler.unavailable() or "kernels are compiled")
if not _compiler.unavailable():
    from spectralops._cpu.stencil import machine, pointwise
    from spectralops._cpu.stencil.program import Flux, program_of

F32 = "float32"


def test_programs_know_structures_and_not_numbers() -> None:
    one, other = (so.plan_diffusion_step((64, 64), F32, h, 0.1 * h * h, nu, bc=bc)
                  for h, nu, bc in ((1.0, 1.0, so.Periodic()), (0.5, 0.3, so.Hold())))  # fmt: skip
    assert program_of(one)[0] == program_of(other)[0]
    masked = so.plan_diffusion_step((64, 64), F32, 1.0, 0.1, 1.0, mask=ArraySpec((64, 64), "bool"))
    assert program_of(masked)[0] != program_of(one)[0]


@pytest.mark.parametrize(
    ("integrator", "buffers", "stages"), [("euler", 2, 1), ("rk2", 2, 2), ("ssprk3", 3, 3), ("rk4", 4, 4)]
)
def test_scratch_memory_of_integrators(integrator: str, buffers: int, stages: int) -> None:
    found = program(integrator=integrator)
    assert (found.buffers, found.stages, found.scratch) == (buffers, stages, buffers)


def test_fields_are_read_once_however_often_they_are_used() -> None:
    nu, v = ArraySpec((64, 64), F32), ArraySpec((64, 1), F32)
    terms = [so.Diffusion(nu), so.Advection((v, 0.5), "upwind", "flux"), so.Source(nu)]
    found, table = program_of(so.plan_pde_step((64, 64), F32, 1.0, 0.1, terms))
    assert found.fields == 3
    assert {(mean.given, mean.axis): place for mean, place in found.mean_places.items()} == {
        (0, 2): 3, (0, 1): 4, (1, 1): 5,
    }  # fmt: skip
    assert found.field_places == (-1, -2, 2), "of the others only means are read"
    assert (found.passing, found.rates, found.scratch) == (2, 3, 6)
    deep = replace(found, flat=False)
    assert (deep.field_places, deep.passing, deep.scratch) == ((2, 3, 4), 0, 8)
    assert table.fields == [1, 2, 3]
    assert not table.varies


def test_a_mask_closes_the_faces_that_something_flows_through() -> None:
    mask = ArraySpec((64, 64), "bool")
    advection, source = so.Advection((0.5, 0.0), "upwind"), so.Source(1.0)
    one, both, none = (
        program_of(so.plan_pde_step((64, 64), F32, 1.0, 0.1, terms, mask=mask))[0]
        for terms in (advection, [so.Diffusion(0.1), advection], source)
    )
    assert (one.mask, one.closed, one.scratch) == (2, (1,), 3)
    assert both.closed == (1, 2)
    assert none.closed == ()
    assert none.restored
    assert not program().restored
    assert not replace(none, pointwise=1).restored
    diffusing = program(mask=mask)
    assert diffusing.marked
    assert not any(found.marked for found in (one, both, none, program(), replace(diffusing, pointwise=1)))
    assert not replace(diffusing, fluxes=(*diffusing.fluxes, Flux(0, -1, 0))).marked
    assert (program().closed, program().scratch) == ((), 2)


def test_rows_are_interleaved_where_neighbours_share_fluxes_along_them() -> None:
    mask, nu = ArraySpec((64, 64), "bool"), ArraySpec((64, 64), F32)
    masked = program(mask=mask)
    varied = program_of(so.plan_pde_step((64, 64), F32, 1.0, 0.1, so.Diffusion(nu)))[0]
    assert masked.interleaves
    assert varied.interleaves
    assert not program().interleaves
    assert not replace(masked, pointwise=1).interleaves
    assert not replace(masked, fluxes=masked.fluxes * 4).interleaves, "the code would be long"
    across = tuple(part for part in masked.fluxes if part.axis == 1)
    assert not replace(masked, fluxes=across).interleaves


@pytest.mark.parametrize("interleaved", [False, True])
def test_inner_loops_are_vectors_and_never_contracted(interleaved: bool) -> None:
    text = machine.assembly(program(mask=ArraySpec((64, 64), "bool")), interleaved)
    assert re.search(r"\bv?mulps\b|\bfmul\b", text)
    assert not re.search(r"\bvfn?m(add|sub)|\bfml[as]\b|\bfmadd\b", text)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache on disk, and a process that has compiled nothing."""
    monkeypatch.setenv("SPECTRALOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(machine, "_loaded", {})
    machine.stages.cache_clear()
    yield tmp_path
    machine.stages.cache_clear()


def compiled_times(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows with every compilation."""
    times: list[str] = []
    compile_ = machine._optimised
    monkeypatch.setattr(machine, "_optimised", lambda dtype, *rest: (times.append(dtype), compile_(dtype, *rest))[1])
    return times


def again() -> np.ndarray:
    """Addresses, in what is like another process."""
    machine._loaded.clear()
    machine.stages.cache_clear()
    return machine.stages(program())


def test_code_is_compiled_once_and_found_on_disk(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = compiled_times(monkeypatch)
    assert again().all()
    assert again().all()
    assert machine.stages(program()) is machine.stages(program())
    assert times == [F32]
    assert len(list(fresh.rglob("stencil-*.kernel"))) == 1


def test_a_damaged_file_is_compiled_anew(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again()
    (file,) = fresh.rglob("stencil-*.kernel")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    times = compiled_times(monkeypatch)
    again()
    assert times == [F32]
    assert file.read_bytes() == content


def test_without_a_place_on_disk_each_process_compiles(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cache_directory", lambda: None)
    times = compiled_times(monkeypatch)
    again()
    again()
    assert times == [F32, F32]


def test_a_full_disk_is_no_error(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(machine.tempfile, "NamedTemporaryFile", full)
    assert again().all()
    assert not list(fresh.rglob("stencil-*.kernel"))


# Pointwise terms compiled by numba.

numba = pytest.importorskip("numba") if not _compiler.unavailable() else None


@pytest.fixture
def logistic():
    return numba.njit(lambda u: u - u * u)


@pytest.mark.parametrize("integrator", ["euler", "rk2", "ssprk3", "rk4"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_pointwise_terms_have_the_bits_of_numpy(
    dtype: str, integrator: str, logistic, rng: np.random.Generator
) -> None:
    doubled = numba.njit(lambda u: 2.0 * u)  # float64 whatever u is
    u, mask = rng.standard_normal((2, 9, 21)).astype(dtype), rng.random((9, 21)) > 0.3
    terms = [so.Diffusion(0.5), so.Pointwise(logistic), so.Source(1.0), so.Pointwise(doubled)]
    options = {"integrator": integrator, "steps": 3, "bc": (so.Hold(), so.Dirichlet(1.0)), "mask": mask}
    ours, plain = (so.pde_step(u, 0.5, 0.05, terms, backend=backend, **options) for backend in ("cpu", "numpy"))
    assert ours.tobytes() == plain.tobytes()


def test_a_compiled_pointwise_term_is_run_by_default(logistic) -> None:
    assert so.plan_pde_step((8,), F32, 1.0, 0.1, so.Pointwise(logistic)).backend == "cpu"


def test_a_plain_function_runs_on_numpy() -> None:
    terms = [so.Pointwise(lambda u: -u)]
    assert so.plan_pde_step((8,), F32, 1.0, 0.1, terms).backend == "numpy"
    with pytest.raises(
        so.UnsupportedError,
        match=r"'numpy' for this step: a Pointwise function in plain Python works on whole arrays; compile it",
    ):
        so.plan_pde_step((8,), F32, 1.0, 0.1, terms, backend="cpu")


def test_a_compiled_function_of_arrays_runs_on_numpy() -> None:
    terms = [so.Pointwise(numba.njit(lambda u: u / u.size))]
    assert so.plan_pde_step((8,), F32, 1.0, 0.1, terms).backend == "numpy"
    with pytest.raises(
        so.UnsupportedError, match="numba cannot call the Pointwise function with one float32: Failed in"
    ):
        so.plan_pde_step((8,), F32, 1.0, 0.1, terms, backend="cpu")


def test_pointwise_functions_are_compiled_once_and_forgotten_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "KEPT", 2)
    monkeypatch.setattr(pointwise, "_compile", lambda function, dtype: object())
    monkeypatch.setattr(pointwise, "_known", type(pointwise._known)())
    functions = [lambda u: u, lambda u: 2 * u, lambda u: 3 * u]
    first = pointwise.compiled(functions[0], F32)
    assert pointwise.compiled(functions[0], F32) is first
    assert pointwise.compiled(functions[0], "float64") is not first
    pointwise.compiled(functions[1], F32)
    assert pointwise.compiled(functions[0], F32) is not first
