"""Lazy arrays cut anew through files, so that neither what is written nor what is read takes more than a block.

A field that is too large for one task passes through a scratch store between the passes of a transform: each block is
written as it comes, and when all have been, blocks of other shapes are read. The store is a folder of plain,
uncompressed Zarr arrays (format 3), one for each block, cut so that a reader finds what it wants in one piece.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import shutil
import sys
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import array_api_compat as compat
import numpy as np

from spectralops import __version__

__all__ = ["Tiles", "cut", "exchanged"]

# Of each axis, the blocks along it; of each block, the runs (start, stop) of points that it holds, one after the other.
Runs = tuple[tuple[int, int], ...]
Tiles = tuple[tuple[Runs, ...], ...]

# Folders that this process has to remove, at the latest when it ends.
_FOLDERS: set[tuple[int, Path]] = set()


def cut(chunks: tuple[tuple[int, ...], ...]) -> Tiles:
    """The runs of blocks that lie one after the other."""
    starts = [np.cumsum([0, *sizes]).tolist() for sizes in chunks]
    return tuple(tuple(((a, b),) for a, b in pairwise(ends)) for ends in starts)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Exchange:
    """A scratch store: blocks written in one shape, and read in another.

    Attributes
    ----------
    path : str
        Its folder.
    held, wanted : Tiles
        The blocks written and read.
    dtype : str
        Of the values.
    like : array
        An array without elements, of the library and on the device of the blocks.
    kept : bool
        Whether a failure leaves what is there for another run.
    """

    path: str
    held: Tiles
    wanted: Tiles
    dtype: str
    like: Any
    kept: bool

    def write(self, index: tuple[int, ...], block: Any) -> None:
        """Write one block; what was there is replaced at once, so that writing again does no harm."""
        try:
            self._write(index, np.asarray(compat.to_device(block, "cpu")))
        except BaseException:
            self._failed()
            raise

    def begin(self, written: list[None]) -> None:
        """What all readers wait for: everything is written, and nothing read."""
        shutil.rmtree(Path(self.path) / "read", ignore_errors=True)

    def read(self, index: tuple[int, ...], begun: None = None) -> Any:
        """Read one block, and remove the store when all have been read."""
        try:
            values = self._read([runs[i] for runs, i in zip(self.wanted, index, strict=True)])
        except BaseException:
            self._failed()
            raise
        self._note(index)
        xp = compat.array_namespace(self.like)
        return xp.asarray(values, device=compat.device(self.like))

    def finished(self, index: tuple[int, ...]) -> bool:
        """Whether a block has been written."""
        return (self._folder(index) / "zarr.json").exists()

    def _folder(self, index: tuple[int, ...]) -> Path:
        return Path(self.path) / _name(index)

    def _write(self, index: tuple[int, ...], block: np.ndarray[Any, Any]) -> None:
        folder = self._folder(index)
        folder.mkdir(parents=True, exist_ok=True)
        size, counts = self._pieces(block.shape)
        temporary = folder / uuid.uuid4().hex
        with temporary.open("wb") as file:
            for place in np.ndindex(counts):
                piece = block[tuple(slice(i * k, (i + 1) * k) for i, k in zip(place, size, strict=True))]
                if piece.shape != size:  # Zarr stores the last piece in full
                    piece = np.pad(piece, [(0, k - n) for n, k in zip(piece.shape, size, strict=True)])
                file.write(np.ascontiguousarray(piece).data)
            each = math.prod(size) * block.itemsize
            offsets = each * np.arange(math.prod(counts), dtype="<u8")
            file.write(np.stack([offsets, np.full_like(offsets, each)], axis=-1).data)
        temporary.replace(folder / _shard(block.ndim))
        temporary.write_bytes(_metadata(block.shape, size, counts, self.dtype))
        temporary.replace(folder / "zarr.json")

    def _read(self, runs: list[Runs]) -> np.ndarray[Any, Any]:
        result = np.empty([sum(b - a for a, b in each) for each in runs], self.dtype)
        sources = [_found(blocks, each) for blocks, each in zip(self.held, runs, strict=True)]
        for parts in product(*sources):
            index = tuple(part.block for part in parts)
            size, counts = self._pieces(
                [sum(b - a for a, b in blocks[i]) for blocks, i in zip(self.held, index, strict=True)]
            )
            within = [range(part.start // k, -(-part.stop // k)) for part, k in zip(parts, size, strict=True)]
            with (self._folder(index) / _shard(len(index))).open("rb") as file:
                for place in product(*within):
                    file.seek(_linear(place, counts) * math.prod(size) * result.itemsize)
                    piece = np.fromfile(file, result.dtype, math.prod(size)).reshape(size)
                    where = [part.of(i * k, k) for part, i, k in zip(parts, place, size, strict=True)]
                    result[tuple(target for _, target in where)] = piece[tuple(source for source, _ in where)]
        return result

    def _pieces(self, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape of the pieces in which a block is stored, no longer than what is read at a time, and their numbers."""
        longest = (max(b - a for runs in blocks for a, b in runs) for blocks in self.wanted)
        size = tuple(map(min, longest, shape))
        return size, tuple(-(-n // k) for n, k in zip(shape, size, strict=True))

    def _note(self, index: tuple[int, ...]) -> None:
        """Note that a block has been read; the last one to be read takes the store with it."""
        notes = Path(self.path) / "read"
        try:
            notes.mkdir(exist_ok=True)
            (notes / _name(index)).touch()
            count = sum(1 for _ in notes.iterdir())
        except FileNotFoundError:  # another thread was the last
            return
        if count == math.prod(map(len, self.wanted)):
            _remove(Path(self.path))

    def _failed(self) -> None:
        if not self.kept:
            _remove(Path(self.path))


@dataclass(frozen=True, slots=True)
class _Part:
    """Points start to stop of a block, which are points from `place` on of the result."""

    block: int
    start: int
    stop: int
    place: int

    def of(self, low: int, size: int) -> tuple[slice, slice]:
        """Where in a chunk that begins at `low`, and where in the result."""
        a, b = max(self.start, low), min(self.stop, low + size)
        place = self.place - self.start
        return slice(a - low, b - low), slice(place + a, place + b)


def _found(blocks: tuple[Runs, ...], wanted: Runs) -> list[_Part]:
    """Where the wanted points of one axis are."""
    parts = []
    place = 0
    for start, stop in wanted:
        for number, runs in enumerate(blocks):
            offset = 0
            for low, high in runs:
                a, b = max(start, low), min(stop, high)
                if a < b:
                    parts.append(_Part(number, offset + a - low, offset + b - low, place + a - start))
                offset += high - low
        place += stop - start
    return parts


def _name(index: tuple[int, ...]) -> str:
    return "-".join(map(str, index))


def _shard(ndim: int) -> str:
    """Name of the one file that holds an array's values."""
    return ".".join(["c", *"0" * ndim])


def _linear(place: tuple[int, ...], counts: tuple[int, ...]) -> int:
    number = 0
    for i, count in zip(place, counts, strict=True):
        number = number * count + i
    return number


def _metadata(shape: tuple[int, ...], size: tuple[int, ...], counts: tuple[int, ...], dtype: str) -> bytes:
    """That of a Zarr array of format 3 in one shard without compression."""
    zero: Any = [0.0, 0.0] if dtype.startswith("complex") else False if dtype == "bool" else 0
    plain = {"name": "bytes", "configuration": {"endian": sys.byteorder}}
    shard = {
        "chunk_shape": size,
        "codecs": [plain],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "index_location": "end",
    }
    whole = [n * k for n, k in zip(counts, size, strict=True)]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": whole}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": zero,
        "codecs": [{"name": "sharding_indexed", "configuration": shard}],
        "attributes": {},
    }
    return json.dumps(document).encode()


def _remove(path: Path) -> None:
    """Remove a folder, first out of sight in one move: who still reads there fails, and finds no half of it."""
    gone = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        path.rename(gone)
    except FileNotFoundError:
        return
    shutil.rmtree(gone, ignore_errors=True)


def _forget(owner: tuple[int, Path]) -> None:
    """The lazy result is gone: so may its store, unless a cluster may still be at work on what it was made into."""
    distributed = sys.modules.get("distributed")
    if os.getpid() != owner[0] or (distributed is not None and distributed.client._get_global_client() is not None):
        return
    _FOLDERS.discard(owner)
    _remove(owner[1])


@atexit.register
def _remove_all() -> None:
    # A copy, as lazy arrays that go meanwhile take theirs out.
    for process, path in list(_FOLDERS):
        if process == os.getpid():
            _remove(path)


def _folder(name: str) -> tuple[Path, bool]:
    """Where a store is to be, and whether it is kept for another run."""
    import dask

    base = dask.config.get("spectralops.scratch", None) or dask.config.get("temporary-directory", None)
    kept = bool(dask.config.get("spectralops.resume", False))
    unique = name if kept else f"{name}-{uuid.uuid4().hex}"
    return Path(base or tempfile.gettempdir()).absolute() / f"spectralops-{unique}", kept


def exchanged(x: Any, wanted: Tiles, held: Tiles | None = None) -> Any:
    """The same values in other blocks, by way of files.

    Parameters
    ----------
    x : dask.array.Array
        The array.
    wanted : Tiles
        The points of each block of the result.
    held : Tiles, optional
        The points of each block of x. By default they lie one after the other.
    """
    import dask.array as da
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    held = cut(x.chunks) if held is None else held
    # Another version may compute other values, which a run that goes on must not mix with its own.
    token = tokenize(__version__, x.name, held, wanted)
    name = f"exchanged-{token}"
    path, kept = _folder(token)
    store = Exchange(str(path), held, wanted, x.dtype.name, x._meta, kept)
    if not kept:
        owner = (os.getpid(), path)
        _FOLDERS.add(owner)
        weakref.finalize(store, _forget, owner).atexit = False
    graph: dict[Any, Any] = {f"{name}-store": store}
    written = []
    for index in _indices(held):
        # What an earlier run has left need not be computed again.
        if not (kept and store.finished(index)):
            written.append((f"{name}-write", *index))
            graph[written[-1]] = (Exchange.write, f"{name}-store", index, (x.name, *index))
    graph[f"{name}-written"] = (Exchange.begin, f"{name}-store", written)
    for index in _indices(wanted):
        graph[name, *index] = (Exchange.read, f"{name}-store", index, f"{name}-written")
    chunks = tuple(tuple(sum(b - a for a, b in runs) for runs in blocks) for blocks in wanted)
    layered = HighLevelGraph.from_collections(name, graph, dependencies=[x])
    return da.Array(layered, name, chunks, meta=x._meta)


def _indices(tiles: Tiles) -> Iterable[tuple[int, ...]]:
    return product(*(range(len(blocks)) for blocks in tiles))
