"""Lazy filters of labelled grids beside xrft, gcm-filters and plain Dask, and one of 1 GiB in a bounded memory.

    python benchmarks/grids.py [--quick] [--only WORD ...] [--rounds 7] [--shared] [--json FILE]

Peers (`pip install "spectralops[bench]"`): xrft, gcm-filters; those not installed are left out. All compute on Dask's
synchronous scheduler, in one thread. First every contestant is checked against float64; those that are wrong do not
count. Then they are called in turn, and a ratio is the median over the rounds of the time of the fastest peer that is
right over ours.

The large case takes a Zarr store to another, chunked along both filtered axes, in a process of its own, whose largest
resident memory is compared with that after its imports; the values are compared with those known of its waves.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before NumPy loads

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import numpy as np  # noqa: E402
import scipy.fft  # noqa: E402
import xarray as xr  # noqa: E402
from run import surroundings  # noqa: E402

import spectralops.xarray as sx  # noqa: E402
from spectralops._cli.contest import Contestant, measure, optional, relative_error  # noqa: E402

PACKAGES = ("dask", "xarray", "zarr", "xrft", "gcm-filters")
LEAST = 2.0
CUTOFF, ORDER = 20e3, 4
TOLERANCE = 1e-5
# Resident memory that the large case may take beyond its imports, and what it is told to take in each of two threads.
MOST = 400 * 2**20
TOLD = "48 MiB"

Calls = dict[str, Callable[[], Any]]


def gains(*k: Any) -> Any:
    """The Butterworth filter at angular wavenumbers."""
    magnitude = np.sqrt(sum(each**2 for each in k))
    return 1 / np.sqrt(1 + (magnitude * CUTOFF / (2 * np.pi)) ** (2 * ORDER))


def wavenumbers(shape: tuple[int, ...]) -> tuple[Any, Any]:
    ny, nx = shape[-2:]
    return 2e-3 * np.pi * np.fft.fftfreq(ny)[:, None], 2e-3 * np.pi * np.fft.rfftfreq(nx)


def field(shape: tuple[int, ...], chunks: tuple[int, ...]) -> xr.DataArray:
    """Noise in single precision on cells of 1 km."""
    values = np.random.default_rng(0).standard_normal(shape, dtype="float32")
    coords = {dim: 1e3 * np.arange(n) for dim, n in zip("yx", shape[-2:], strict=True)}
    return xr.DataArray(values, coords, ("time", "y", "x")).chunk(dict(zip(("time", "y", "x"), chunks, strict=True)))


def by_xrft(x: xr.DataArray, xrft: Any) -> Any:
    whole = x.chunk(y=-1, x=-1)
    spectrum = xrft.fft(whole, dim=("y", "x"), true_phase=True, true_amplitude=True)
    h = gains(2 * np.pi * spectrum.freq_y, 2 * np.pi * spectrum.freq_x)
    back = xrft.ifft(spectrum * h, dim=("freq_y", "freq_x"), true_phase=True, true_amplitude=True)
    return back.real.astype(x.dtype).chunk(dict(zip(x.dims, x.chunks, strict=True)))


def by_dask(x: Any) -> Any:
    """Pencils along one axis after the other, by rechunk; fields that are whole need none."""
    ky, kx = wavenumbers(x.shape)
    h = gains(ky, kx).astype("float32")
    y = da.map_blocks(scipy.fft.rfft, x.rechunk({2: -1}), dtype="complex64", chunks=(*x.chunks[:2], (h.shape[1],)))
    y = y.rechunk({1: -1, 2: x.chunks[2][0]}, method="tasks")
    h = da.from_array(h[None], chunks=(1, -1, y.chunks[2]))
    y = da.map_blocks(scipy.fft.fft, y, dtype="c8", axis=1) * h
    y = da.map_blocks(scipy.fft.ifft, y, dtype="c8", axis=1, overwrite_x=True)
    y = y.rechunk({1: x.chunks[1], 2: -1}, method="tasks")
    sizes = (*x.chunks[:2], (x.shape[2],))
    y = da.map_blocks(scipy.fft.irfft, y, x.shape[2], dtype="float32", chunks=sizes, overwrite_x=True)
    return y.rechunk(x.chunks, method="tasks")


def by_scipy(x: Any, axes: tuple[int, ...], h: np.ndarray[Any, Any]) -> Any:
    """One function of blocks that are whole along the axes, in as little memory as it can be written in."""
    sizes = [x.shape[axis] for axis in axes]

    def filtered(block: Any) -> Any:
        spectrum = scipy.fft.rfftn(block, axes=axes)
        spectrum *= h
        return scipy.fft.irfftn(spectrum, sizes, axes=axes, overwrite_x=True)

    return x.map_blocks(filtered, dtype="float32")


def lowpass(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[Calls, Any]:
    x = field(shape, chunks)
    xrft = optional("xrft")
    calls: Calls = {
        "spectralops": lambda: sx.lowpass(x, CUTOFF, order=ORDER, edges="wrap").compute(),
        "dask": lambda: by_dask(x.data).compute(),
    }
    if x.data.numblocks[1:] == (1, 1):
        h = gains(*wavenumbers(shape)).astype("float32")
        calls["scipy"] = lambda: by_scipy(x.data, (1, 2), h).compute()
    if xrft:
        calls["xrft"] = lambda: by_xrft(x, xrft).compute()
    spectrum = np.fft.rfft2(x.values.astype("float64"))
    return calls, np.fft.irfft2(spectrum * gains(*wavenumbers(shape)), shape[-2:])


def periods(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[Calls, Any]:
    """The same along the first axis alone, in blocks of few times."""
    x = field(shape, chunks).assign_coords(time=1e3 * np.arange(shape[0]))
    h = gains(2e-3 * np.pi * np.fft.rfftfreq(shape[0]))[:, None, None].astype("float32")

    def pencils() -> Any:
        columns = x.data.rechunk({0: -1, 1: "auto", 2: "auto"}, method="tasks")
        return by_scipy(columns, (0,), h).rechunk(x.chunks, method="tasks").compute()

    calls = {
        "spectralops": lambda: sx.lowpass(x, CUTOFF, order=ORDER, dims="time", edges="wrap").compute(),
        "dask": pencils,
    }
    return calls, scipy.fft.irfft(scipy.fft.rfft(x.values.astype("float64"), axis=0) * h, shape[0], axis=0)


def diffusion(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[Calls, Any]:
    """Smoothing by ten cells in steps of Laplacians; the polynomial is that of gcm-filters."""
    x = field(shape, chunks)
    gcm = optional("gcm_filters")
    calls: Calls = {"spectralops": lambda: sx.diffuse(x, 10e3 / 12**0.5, edges="wrap").compute()}
    if gcm:
        peer = gcm.Filter(10.0, 1.0, gcm.FilterShape.GAUSSIAN, grid_type=gcm.GridType.REGULAR)
        calls["gcm-filters"] = lambda: peer.apply(x, dims=["y", "x"]).compute()
    whole = x.compute().astype("float64")
    return calls, sx.diffuse(whole, 10e3 / 12**0.5, edges="wrap").values


CASES: dict[str, tuple[Callable[..., tuple[Calls, Any]], tuple[int, ...], tuple[int, ...]]] = {
    "low-pass, whole fields": (lowpass, (4, 1800, 3600), (1, 1800, 3600)),
    "low-pass, fields in 16 blocks": (lowpass, (4, 1800, 3600), (1, 450, 900)),
    "low-pass along time, blocks of 25 times": (periods, (1000, 64, 128), (25, 64, 128)),
    "diffusion, whole fields": (diffusion, (2, 1800, 3600), (1, 1800, 3600)),
}


def record(name: str, rounds: int, quick: bool, shared: bool) -> dict[str, object]:
    """One case: errors, times, and the ratio of the fastest peer that is right."""
    build, shape, chunks = CASES[name]
    if quick:
        shape, chunks = ((max(1, n // 8) for n in sizes) for sizes in (shape, chunks))
    calls, expected = build(tuple(shape), tuple(chunks))
    errors = {peer: relative_error(call(), expected) for peer, call in calls.items()}
    if not errors["spectralops"] <= TOLERANCE:
        raise ArithmeticError(f"{name}: the relative error is {errors['spectralops']:.3g}, but must be at most 1e-5")
    clock = time.process_time if shared else time.perf_counter
    times = measure({peer: Contestant(call) for peer, call in calls.items()}, rounds, 40.0, clock)
    entry: dict[str, object] = {
        "case": name,
        "shape": [int(n) for n in expected.shape],
        "chunks": list(CASES[name][2]),
        "clock": "processor" if shared else "wall",
        "seconds": {peer: statistics.median(values) for peer, values in times.items()},
        "errors": errors,
    }
    right = [peer for peer in calls if peer != "spectralops" and errors[peer] <= TOLERANCE]
    if right:
        best = min(right, key=lambda peer: statistics.median(times[peer]))
        quotients = [a / b for a, b in zip(times[best], times["spectralops"], strict=True)]
        low, median, high = statistics.quantiles(quotients, n=4)
        entry |= {"against": best, "low": low, "median": median, "high": high, "least": LEAST}
    return entry


def waves(n: int, start: int, stop: int, gain: Callable[..., float]) -> np.ndarray[Any, Any]:
    """Rows of a sum of waves, each times its gain."""
    y, x = 2 * np.pi * np.arange(start, stop)[:, None] / n, 2 * np.pi * np.arange(n) / n
    parts = [(3, 5), (n // 40, n // 60), (n // 4, n // 8)]
    step = 2e-3 * np.pi / n
    return sum(gain(step * a, step * b) * np.sin(a * y) * np.cos(b * x) for a, b in parts).astype("float32")


def peak() -> int:
    """Largest resident memory of this program; the system's count of resources begins with the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def filter_store(source: str, target: str, route: str) -> None:
    """What the process of the large case does: print the seconds, and the memory at its largest and before."""
    before, start = peak(), time.perf_counter()
    with dask.config.set({"spectralops.memory": TOLD, "scheduler": "threads", "num_workers": 2}):
        u = xr.open_zarr(source, consolidated=False).u
        n = u.sizes["y"]
        u = u.assign_coords(y=1e3 * np.arange(n), x=1e3 * np.arange(n))
        if route == "spectralops":
            low = sx.lowpass(u, CUTOFF, order=ORDER, edges="wrap")
        else:
            low = u.copy(data=by_dask(u.data[None])[0])
        low.rename("u").to_dataset().to_zarr(target, mode="w", consolidated=False)
    print(json.dumps({"seconds": time.perf_counter() - start, "before": before, "peak": peak()}))


def out_of_core(n: int, chunk: int, route: str) -> dict[str, object]:
    """A field of n times n numbers from a Zarr store to another, in a process of its own."""
    import zarr

    with tempfile.TemporaryDirectory() as folder:
        source, target = (str(Path(folder) / name) for name in ("source.zarr", "target.zarr"))
        options = {"shape": (n, n), "chunks": (chunk, chunk), "dtype": "float32", "dimension_names": ("y", "x")}
        u = zarr.open_group(source, mode="w").create_array("u", **options)
        rows = range(0, n, chunk)
        for a in rows:
            u[a : a + chunk] = waves(n, a, a + chunk, lambda *k: 1.0)
        environment = os.environ | {"TMPDIR": folder, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [sys.executable, __file__, "--store", source, target, route]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        result = zarr.open_group(target, mode="r")["u"]
        worst = max(abs(result[a : a + chunk] - waves(n, a, a + chunk, gains)).max() for a in rows)
    if not worst <= TOLERANCE:
        raise ArithmeticError(f"{route}: the error of the large field is {worst:.3g}, but must be at most {TOLERANCE}")
    above = found["peak"] - found["before"]
    return {
        "case": f"Zarr to Zarr by {route}",
        "route": route,
        "shape": [n, n],
        "chunks": [chunk, chunk],
        "bytes": 4 * n * n,
        "error": float(worst),
        "seconds": found["seconds"],
        "memory at import": found["before"],
        "memory above": above,
        "most": MOST,
    }


def lines(entry: dict[str, Any]) -> Iterator[str]:
    if "route" in entry:
        yield (
            f"{entry['bytes'] / 2**30:.2f} GiB by {entry['route']}: {entry['memory above'] / 2**20:.0f} MiB above the "
            f"{entry['memory at import'] / 2**20:.0f} at import, {entry['seconds']:.1f} s, error {entry['error']:.1e}"
        )
        return
    yield f"\n{entry['case']}"
    for peer, seconds in entry["seconds"].items():
        yield f"  {peer:14} {1e3 * seconds:10.4g} ms, error {entry['errors'][peer]:.1e}"
    if "median" in entry:
        short = "   SHORT" if entry["median"] < LEAST else ""
        spread = f"({entry['low']:.2f} … {entry['high']:.2f})"
        yield f"  against {entry['against']}: {entry['median']:.2f}x {spread}, at least {LEAST}{short}"


def saved(path: Path, entries: list[dict[str, Any]]) -> None:
    """Write the entries with what they were measured on, in place of those of the same cases that the file has."""
    about = surroundings(PACKAGES)
    entries = [entry | {name: about[name] for name in ("time", "commit", "load")} for entry in entries]
    old = json.loads(path.read_text())["cases"] if path.exists() else []
    new = {entry["case"] for entry in entries}
    cases = [entry for entry in old if entry["case"] not in new] + entries
    path.write_text(json.dumps(about | {"cases": cases}, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small grids, three rounds: a check that all of it runs")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cases whose name contains every word")
    parser.add_argument("--rounds", type=int, default=7, help="timed calls of each contestant (default: %(default)s)")
    parser.add_argument("--shared", action="store_true", help="processor time: other work runs on the machine")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add results to a file, with hardware")
    parser.add_argument("--store", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of the peers
    if options.store:
        filter_store(*options.store)
        return 0
    dask.config.set(scheduler="synchronous")
    entries = []
    for name in CASES:
        if all(word in name for word in options.only):
            entries.append(record(name, 3 if options.quick else options.rounds, options.quick, options.shared))
            print("\n".join(lines(entries[-1])), flush=True)
    if all(word in "memory" for word in options.only):
        print()
        for route in ("spectralops", "dask"):
            entries.append(out_of_core(*((512, 64) if options.quick else (16384, 2048)), route))
            print("\n".join(lines(entries[-1])), flush=True)
    if options.json:
        saved(options.json, entries)
    short = [e for e in entries if e.get("median", LEAST) < LEAST and not options.quick]  # type: ignore[operator]
    ours = [e for e in entries if e.get("route") == "spectralops"]
    over = [e for e in ours if e["memory above"] > MOST]  # type: ignore[operator]
    print(f"\n{len(entries)} cases right, {len(short)} ratios short, {len(over)} over the memory")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
