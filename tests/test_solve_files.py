"""Files of the time loop: snapshots in Zarr and NetCDF, checkpoints, and the identity of a step."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np
import pytest
from libraries import library
from stepping import LIBRARIES, Recording, halve, relax, relax_out, rotate

from spectralops import _storage, solve
from spectralops._stepper import identity


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_snapshots_in_a_file_open_in_xarray(tmp_path, suffix):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr" if suffix == ".zarr" else "h5netcdf")
    path = tmp_path / f"run{suffix}"
    u0 = np.arange(6.0).reshape(2, 3)
    solution = solve(halve, u0, steps=5, dt=0.5, save_every=2, save_to=path)
    assert solution.snapshots == path
    assert solution.times.tolist() == [0.0, 1.0, 2.0]
    engine = {"engine": "zarr", "consolidated": False} if suffix == ".zarr" else {"engine": "h5netcdf"}
    with xarray.open_dataset(path, decode_times=False, **engine) as data:
        assert data["u"].dims == ("time", "dim_0", "dim_1")
        assert data["u"].dtype == np.float64
        assert np.array_equal(data["u"], [u0, u0 / 4, u0 / 16])
        assert data["time"].values.tolist() == [0.0, 1.0, 2.0]
        assert data["step"].values.tolist() == [0, 2, 4]


def read_file(path: Path) -> tuple[list[int], np.ndarray]:
    if path.suffix == ".zarr":
        group = pytest.importorskip("zarr").open_group(path, mode="r")
        return group["step"][:].tolist(), group["u"][:]
    with pytest.importorskip("h5netcdf").File(path, "r") as file:
        return file.variables["step"][:].tolist(), file.variables["u"][:]


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
@pytest.mark.parametrize("name", LIBRARIES)
def test_files_take_every_library(tmp_path, suffix, name):
    lib = library(name)
    path = tmp_path / f"run{suffix}"
    solve(halve, lib.make(np.ones(3, np.float32)), steps=2, save_every=1, save_to=str(path))
    steps, values = read_file(path)
    assert steps == [0, 1, 2]
    assert values.dtype == np.float32
    assert values[:, 0].tolist() == [1.0, 0.5, 0.25]


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_sixteen_bit_floats_are_saved_as_float32(tmp_path, suffix):
    torch = pytest.importorskip("torch")
    path = tmp_path / f"run{suffix}"
    solve(halve, torch.ones(3, dtype=torch.bfloat16), steps=1, save_every=1, save_to=path)
    assert read_file(path)[1].dtype == np.float32


def test_complex_states_go_to_zarr(tmp_path):
    path = tmp_path / "run.zarr"
    solve(halve, np.full(2, 1 + 2j), steps=1, save_every=1, save_to=path)
    assert read_file(path)[1][1, 0] == 0.5 + 1j


def test_scalar_states_go_to_files(tmp_path):
    path = tmp_path / "run.nc"
    solve(halve, 1.0, steps=2, save_every=1, save_to=path)
    assert read_file(path)[1].tolist() == [1.0, 0.5, 0.25]


def test_complex_states_do_not_go_to_netcdf(tmp_path):
    message = r"^solve: u0 has dtype complex128, but must be real to be saved as NetCDF; save to a \.zarr path$"
    with pytest.raises(ValueError, match=message):
        solve(halve, np.ones(2, complex), steps=1, save_every=1, save_to=tmp_path / "run.nc")


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_existing_files_are_not_overwritten(tmp_path, suffix):
    path = tmp_path / f"run{suffix}"
    solve(halve, np.ones(2), steps=1, save_every=1, save_to=path)
    with pytest.raises(
        FileExistsError, match=r"^solve: save_to .*exists, but must not; delete it or pass resume=True$"
    ):
        solve(halve, np.ones(2), steps=1, save_every=1, save_to=path)


def test_unknown_formats_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^solve: save_to is .*run\.h5', but must end in \.zarr or \.nc$"):
        solve(halve, np.ones(2), steps=1, save_every=1, save_to=tmp_path / "run.h5")


@pytest.mark.parametrize(
    ("suffix", "module", "command"),
    [(".zarr", "zarr", r'a Zarr path, which needs zarr; pip install "zarr>=3"'),
     (".nc", "h5netcdf", "a NetCDF path, which needs h5netcdf; pip install h5netcdf")],
    ids=["zarr", "netcdf"],
)  # fmt: skip
def test_missing_file_libraries_name_the_command(tmp_path, monkeypatch, suffix, module, command):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"^solve: save_to is {command}$"):
        solve(halve, np.ones(2), steps=1, save_every=1, save_to=tmp_path / f"run{suffix}")


def test_chunks_are_one_snapshot_until_they_are_too_large(monkeypatch):
    assert _storage._chunks((30, 20), 8) == (1, 30, 20)
    assert _storage._chunks((), 8) == (1,)
    assert _storage._chunks((0, 3), 8) == (1, 1, 3)
    monkeypatch.setattr(_storage, "CHUNK_BYTES", 100)
    assert _storage._chunks((30, 5), 4) == (1, 4, 5)
    assert _storage._chunks((2, 26), 4) == (1, 1, 13)


class InterruptedRunError(Exception):
    pass


def interrupt_at(step):
    def callback(n, t, u):
        if n == step:
            raise InterruptedRunError

    return callback


def logistic(u, dt=0.1):
    """Chaotic, so that any lost bit shows."""
    return u + dt * 30 * u * (1 - u)


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_resume_is_bitwise(tmp_path, rng, name, dtype):
    lib = library(name)
    u0 = lib.make((rng.random(20) * 0.5 + 0.1).astype(dtype))
    whole = solve(logistic, u0, steps=50)
    run = functools.partial(solve, logistic, u0, steps=50, checkpoint=tmp_path / "c.npz", checkpoint_every=7)
    with pytest.raises(InterruptedRunError):
        run(callback=interrupt_at(30))
    seen = []
    resumed = run(resume=True, callback=lambda n, t, u: seen.append(n))
    assert seen[0] == 29
    assert isinstance(resumed.u, lib.type)
    assert np.array_equal(lib.read(resumed.u), lib.read(whole.u))
    assert (resumed.steps, resumed.t) == (50, whole.t)


def test_resume_of_16_bit_floats_is_bitwise(tmp_path):
    torch = pytest.importorskip("torch")
    u0 = torch.rand(9, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    run = functools.partial(solve, halve, u0, checkpoint=tmp_path / "c")
    run(steps=5)
    resumed = run(steps=8, resume=True)
    assert resumed.u.dtype == torch.bfloat16
    assert torch.equal(resumed.u, solve(halve, u0, steps=8).u)


@pytest.mark.parametrize(
    "u0", [np.arange(5), np.array([True, False, False]), np.array(3.0 + 4j)], ids=["i", "b", "0-d c"]
)
def test_checkpoints_keep_dtype_and_shape(tmp_path, u0):
    run = functools.partial(solve, np.copy, u0, steps=2, checkpoint=tmp_path / "c")
    run()
    resumed = run(resume=True).u
    assert (resumed.dtype, resumed.shape) == (u0.dtype, u0.shape)
    assert np.array_equal(resumed, u0)


def test_finished_run_resumes_at_its_end(tmp_path):
    step = Recording(logistic)
    run = functools.partial(solve, step, np.full(2, 0.3), steps=10, checkpoint=tmp_path / "c", checkpoint_every=4)
    first = run()
    step.calls.clear()
    again = run(resume=True)
    assert step.calls == []
    assert np.array_equal(first.u, again.u)


def test_longer_run_goes_on(tmp_path):
    run = functools.partial(solve, logistic, np.full(2, 0.3), checkpoint=tmp_path / "c")
    run(steps=10)
    assert np.array_equal(run(steps=25, resume=True).u, solve(logistic, np.full(2, 0.3), steps=25).u)


def test_resume_without_a_file_starts_at_the_start(tmp_path):
    assert solve(halve, np.ones(1), steps=2, checkpoint=tmp_path / "c", resume=True).u[0] == 0.25


def test_checkpoints_are_written_as_often_as_asked(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(_storage, "save_checkpoint", lambda path, u, n, run, home: written.append(n))
    solve(halve, np.ones(1), steps=11, checkpoint=tmp_path / "c", checkpoint_every=4)
    assert written == [4, 8, 11]
    written.clear()
    solve(halve, np.ones(1), steps=31, checkpoint=tmp_path / "c")  # about ten in all
    assert written == [4, 8, 12, 16, 20, 24, 28, 31]
    written.clear()
    solve(halve, np.ones(1), steps=25, checkpoint=tmp_path / "c", callback=lambda n, t, u: n == 5)
    assert written == [3, 5]


def test_shortened_step_is_no_checkpoint(tmp_path):
    path = tmp_path / "c"
    u0 = np.ones(1)
    solve(relax, u0, t_end=1.0, dt=0.375, checkpoint=path, checkpoint_every=1)
    with np.load(path) as file:
        assert '"step_number": 2' in str(file["meta"])
    longer = solve(relax, u0, t_end=1.5, dt=0.375, checkpoint=path, resume=True)
    assert longer.u[0] == solve(relax, u0, t_end=1.5, dt=0.375).u[0]


def test_checkpoint_replaces_the_old_one_atomically(tmp_path, monkeypatch):
    path = tmp_path / "c"
    solve(halve, np.ones(2), steps=2, checkpoint=path)
    before = path.read_bytes()

    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        solve(halve, np.ones(2), steps=3, checkpoint=path, resume=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_resumed_snapshots_in_memory_begin_at_the_checkpoint(tmp_path):
    run = functools.partial(solve, halve, np.ones(1), save_every=2, checkpoint=tmp_path / "c", checkpoint_every=3)
    run(steps=6)
    resumed = run(steps=10, resume=True)
    assert resumed.times.tolist() == [6.0, 8.0, 10.0]
    assert resumed.snapshots[:, 0].tolist() == [0.5**6, 0.5**8, 0.5**10]


def test_resume_between_snapshots_begins_with_the_next(tmp_path):
    run = functools.partial(solve, halve, np.ones(1), save_every=2, checkpoint=tmp_path / "c")
    run(steps=3)
    assert run(steps=6, resume=True).times.tolist() == [4.0, 6.0]


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_resumed_file_has_every_snapshot_once(tmp_path, suffix):
    path = tmp_path / f"run{suffix}"
    run = functools.partial(
        solve, halve, np.ones(2), steps=12, save_every=2, save_to=path, checkpoint=tmp_path / "c", checkpoint_every=5
    )
    with pytest.raises(InterruptedRunError):
        run(callback=interrupt_at(9))
    assert read_file(path)[0] == [0, 2, 4, 6, 8]
    solution = run(resume=True)
    steps, values = read_file(path)
    assert steps == [0, 2, 4, 6, 8, 10, 12]
    assert values[:, 1].tolist() == [0.5**n for n in steps]
    assert solution.times.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_resume_at_a_snapshot_does_not_repeat_it(tmp_path, suffix):
    path = tmp_path / f"run{suffix}"
    run = functools.partial(solve, halve, np.ones(2), save_every=2, save_to=path, checkpoint=tmp_path / "c")
    run(steps=4)
    run(steps=6, resume=True)
    assert read_file(path)[0] == [0, 2, 4, 6]


def test_file_of_another_shape_is_refused(tmp_path):
    path = tmp_path / "run.zarr"
    solve(halve, np.ones(2), steps=1, save_every=1, save_to=path)
    message = r"^solve: .*run\.zarr holds snapshots of shape \(2,\), but must hold \(3,\) like u0$"
    with pytest.raises(ValueError, match=message):
        solve(halve, np.ones(3), steps=1, save_every=1, save_to=path, checkpoint=tmp_path / "c", resume=True)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"u0": np.full(3, 0.3)}, "shape"),
        ({"u0": np.full(2, 0.3, np.float32)}, "dtype"),
        ({"u0": np.full(2, 0.4)}, "u0"),
        ({"t0": 1.0}, "t0"),
        ({"dt": 0.05}, "dt"),
        ({"step": relax_out}, "dt"),
        ({"step": functools.partial(relax_out, dt=0.1)}, "step"),
    ],
    ids=["shape", "dtype", "u0", "t0", "dt", "dt of step", "step"],
)
def test_checkpoint_of_another_run_is_refused(tmp_path, change, key):
    arguments = {"step": logistic, "u0": np.full(2, 0.3)} | change
    solve(logistic, np.full(2, 0.3), steps=3, checkpoint=tmp_path / "c")
    step, u0 = arguments.pop("step"), arguments.pop("u0")
    with pytest.raises(ValueError, match=rf"^solve: checkpoint .* has {key} .*, but must have .* as this run"):
        solve(step, u0, steps=3, checkpoint=tmp_path / "c", resume=True, **arguments)


def test_checkpoint_beyond_the_end_is_refused(tmp_path):
    solve(halve, np.ones(1), steps=5, checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match=r"^solve: checkpoint .* is at step 5, but must be at most at step 4$"):
        solve(halve, np.ones(1), steps=4, checkpoint=tmp_path / "c", resume=True)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 broken"], ids=["empty", "text", "broken zip"])
def test_other_files_are_no_checkpoints(tmp_path, content):
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(ValueError, match=r"^solve: .*c' is no checkpoint, but must be one that solve wrote$"):
        solve(halve, np.ones(1), steps=4, checkpoint=tmp_path / "c", resume=True)


def test_other_npz_files_are_no_checkpoints(tmp_path):
    np.savez(tmp_path / "c.npz", x=np.ones(2))
    with pytest.raises(ValueError, match="is no checkpoint"):
        solve(halve, np.ones(1), steps=4, checkpoint=tmp_path / "c.npz", resume=True)


def test_existing_checkpoint_is_not_overwritten(tmp_path):
    solve(halve, np.ones(1), steps=5, checkpoint=tmp_path / "c")
    with pytest.raises(
        FileExistsError, match=r"^solve: checkpoint .*exists, but must not; delete it or pass resume=True$"
    ):
        solve(halve, np.ones(1), steps=5, checkpoint=tmp_path / "c")


def test_identity_tells_steps_apart():
    base = functools.partial(rotate, shift=1)
    same = functools.partial(rotate, shift=1)
    assert identity(base) == identity(same) == f"{rotate.__module__}.rotate(shift=1)"
    assert identity(functools.partial(rotate, shift=2)) != identity(base)
    assert identity(functools.partial(halve, shift=1)) != identity(base)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.arange(3.0), np.arange(3.0) + [0, 0, 1]),
        (np.arange(4.0).reshape(2, 2), np.arange(4.0).reshape(2, 2).T),
        (np.arange(3.0), np.arange(3)),
        ({"x": 1}, {"x": 2}),
        ((1, 2), (2, 1)),
        (halve, relax),
        (functools.partial(halve, a=1), functools.partial(halve, a=2)),
    ],
    ids=["values", "layout", "dtype", "dict", "tuple", "function", "partial"],
)
def test_identity_tells_bound_values_apart(a, b):
    def bound(value):
        return identity(functools.partial(halve, value=value))

    assert bound(a) != bound(b)
    assert bound(a) == bound(a)


def test_identity_has_no_memory_addresses():
    class Thing:
        pass

    assert identity(functools.partial(halve, value=Thing())) == identity(functools.partial(halve, value=Thing()))


def test_identity_of_equal_arrays_in_other_layouts():
    x = np.arange(6.0).reshape(2, 3)
    a, b = (functools.partial(halve, nu=value) for value in (x, np.asfortranarray(x)))
    assert identity(a) == identity(b)
