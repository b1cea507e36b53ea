"""Snapshots in memory, Zarr or NetCDF, and checkpoint files of the time loop."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Protocol

import array_api_compat as compat
import numpy as np

from spectralops import _arrays, _checks, _interchange
from spectralops._stepper import host

__all__ = ["Recorder", "load_checkpoint", "recorder", "save_checkpoint"]

# One chunk of a Zarr array: codecs refuse more than 2 GiB, and readers want far less.
CHUNK_BYTES = 2**28


class Recorder(Protocol):
    """Where the snapshots of a run go."""

    @property
    def times(self) -> list[float]: ...

    def append(self, step: int, t: float, u: Any) -> None: ...
    def last_step(self) -> int:
        """Step of the last snapshot of an earlier run that this one goes on with, -1 without one."""
        ...

    def snapshots(self) -> Any:
        """What the solution shows: the array, or the path of the file."""
        ...

    def close(self) -> None: ...


class Memory:
    """Snapshots in one array of u0's library, allocated before the run."""

    def __init__(self, u0: Any, library: str, count: int) -> None:
        self._xp = compat.array_namespace(u0)
        self._list: list[Any] | None = [] if library == "jax" else None  # immutable: nothing can be filled in
        self.times: list[float] = []
        if self._list is None:
            self._array = self._xp.empty((count, *u0.shape), dtype=u0.dtype, device=compat.device(u0))

    def append(self, step: int, t: float, u: Any) -> None:
        if self._list is None:
            self._array[len(self.times), ...] = u
        else:
            self._list.append(u)
        self.times.append(t)

    def last_step(self) -> int:
        return -1

    def snapshots(self) -> Any:
        return self._array[: len(self.times), ...] if self._list is None else self._xp.stack(self._list)

    def close(self) -> None:
        """Nothing to close."""


class _File(ABC):
    """What the two file formats share: variables u, time and step, with the snapshots along the first axis."""

    def __init__(self, path: Path, spec: _arrays.ArraySpec, home: _arrays.Home, step: int) -> None:
        self.path = path
        self._spec = spec
        self._home = home
        self._dtype = _checks.compute_dtype(spec.dtype)
        self._open(exists := path.exists())
        if exists:
            self._rewind(step)
        self.times: list[float] = [float(t) for t in self._read("time")]

    def _rewind(self, step: int) -> None:
        """Drop the snapshots after `step`, where the run goes on."""
        if self._shape() != self._spec.shape:
            raise ValueError(
                f"solve: {self.path} holds snapshots of shape {self._shape()}, but must hold {self._spec.shape} like u0"
            )
        self._resize(int(np.count_nonzero(self._read("step") <= step)))

    def append(self, step: int, t: float, u: Any) -> None:
        n = len(self.times)
        self._resize(n + 1)
        self._write(n, {"u": host(u, self._spec.dtype, self._home), "time": t, "step": step})
        self.times.append(t)

    def last_step(self) -> int:
        return int(self._read("step")[-1]) if self.times else -1

    def snapshots(self) -> Path:
        return self.path

    def _dimensions(self) -> dict[str, tuple[str, ...]]:
        return {
            "u": ("time", *(f"dim_{i}" for i in range(len(self._spec.shape)))),
            "time": ("time",),
            "step": ("time",),
        }

    def _dtypes(self) -> dict[str, str]:
        return {"u": self._dtype, "time": "float64", "step": "int64"}

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _open(self, exists: bool) -> None: ...

    @abstractmethod
    def _shape(self) -> tuple[int, ...]:
        """Shape of a snapshot in the file."""
        ...

    @abstractmethod
    def _read(self, name: str) -> Any: ...

    @abstractmethod
    def _resize(self, count: int) -> None: ...

    @abstractmethod
    def _write(self, n: int, values: dict[str, Any]) -> None: ...


class Zarr(_File):
    """A Zarr group that xarray opens; every snapshot is complete on disk before the next step."""

    def _open(self, exists: bool) -> None:
        try:
            import zarr
        except ImportError as error:
            raise ImportError('solve: save_to is a Zarr path, which needs zarr; pip install "zarr>=3"') from error
        self._group: Any = zarr.open_group(self.path, mode="r+" if exists else "w")
        if exists:
            return
        shape = self._spec.shape
        for name, dimensions in self._dimensions().items():
            tail = shape if name == "u" else ()
            chunks = _chunks(shape, np.dtype(self._dtype).itemsize) if name == "u" else (1024,)
            self._group.create_array(
                name, shape=(0, *tail), chunks=chunks, dtype=self._dtypes()[name], dimension_names=dimensions
            )

    def _shape(self) -> tuple[int, ...]:
        return tuple(self._group["u"].shape[1:])

    def _read(self, name: str) -> Any:
        return self._group[name][:]

    def _resize(self, count: int) -> None:
        for name in ("u", "time", "step"):
            array = self._group[name]
            array.resize((count, *array.shape[1:]))

    def _write(self, n: int, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self._group[name][n] = value

    def close(self) -> None:
        """Nothing is left open."""


def _chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """One snapshot per chunk, its first axes cut until a chunk has at most CHUNK_BYTES."""
    chunk = [max(n, 1) for n in shape]
    for axis in range(len(chunk)):
        while chunk[axis] > 1 and int(np.prod(chunk, dtype=object)) * itemsize > CHUNK_BYTES:
            chunk[axis] = -(-chunk[axis] // 2)
    return (1, *chunk)


class Netcdf(_File):
    """A NetCDF-4 file with an unlimited time axis, flushed after every snapshot."""

    def _open(self, exists: bool) -> None:
        if self._dtype not in (
            "float32",
            "float64",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
        ):
            raise ValueError(
                f"solve: u0 has dtype {self._spec.dtype}, but must be real to be saved as NetCDF; save to a .zarr path"
            )
        try:
            import h5netcdf
        except ImportError as error:
            raise ImportError("solve: save_to is a NetCDF path, which needs h5netcdf; pip install h5netcdf") from error
        self._file = h5netcdf.File(self.path, "r+" if exists else "w")
        if exists:
            return
        dimensions = self._dimensions()
        self._file.dimensions = dict(zip(dimensions["u"], (None, *self._spec.shape), strict=True))
        for name, dims in dimensions.items():
            self._file.create_variable(name, dims, self._dtypes()[name])

    def _shape(self) -> tuple[int, ...]:
        return tuple(self._file.variables["u"].shape[1:])

    def _read(self, name: str) -> Any:
        return self._file.variables[name][:]

    def _resize(self, count: int) -> None:
        self._file.resize_dimension("time", count)

    def _write(self, n: int, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self._file.variables[name][n] = value
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def recorder(
    path: Path | None, u0: Any, spec: _arrays.ArraySpec, home: _arrays.Home, count: int, step: int, resume: bool
) -> Recorder:
    """Recorder of at most `count` snapshots, whose file, if `resume` finds one, loses those after `step`."""
    if path is None:
        _checks.fits_memory("solve", "the number of snapshots", count, (count, *spec.shape), spec.dtype)
        return Memory(u0, home.library, count)
    formats = {".zarr": Zarr, ".nc": Netcdf}
    if path.suffix not in formats:
        raise ValueError(f"solve: save_to is {str(path)!r}, but must end in .zarr or .nc")
    if path.exists() and not resume:
        raise FileExistsError(f"solve: save_to {str(path)!r} exists, but must not; delete it or pass resume=True")
    return formats[path.suffix](path, spec, home, step)


def save_checkpoint(path: Path, u: Any, step: int, run: dict[str, Any], home: _arrays.Home) -> None:
    """Write state, step number and the description of the run to one file, replacing the old one in one move."""
    meta = json.dumps({**run, "step_number": step})
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez(file, u=host(u, run["dtype"], home), meta=np.array(meta))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load_checkpoint(path: Path, run: dict[str, Any], home: _arrays.Home) -> tuple[Any, int]:
    """State in u0's library and step number.

    Raises
    ------
    ValueError
        If the file is no checkpoint, or one of another run: naming what differs.
    """
    import zipfile

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            meta, u = json.loads(str(arrays["meta"])), arrays["u"]
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError) as error:
        raise ValueError(f"solve: {str(path)!r} is no checkpoint, but must be one that solve wrote") from error
    step = meta.pop("step_number")
    for key, value in run.items():
        if meta.get(key) != value:
            raise ValueError(
                f"solve: checkpoint {str(path)!r} has {key} {meta.get(key)}, but must have {value} as this run; "
                "pass the same arguments, or another checkpoint path"
            )
    with _interchange.on_device(home):
        return _interchange.give_back(_interchange.from_host(u, home), run["dtype"], home), step
