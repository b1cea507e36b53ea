"""``demo``: the main job on real input, in under a minute; every printed number is computed in the run."""

from __future__ import annotations

import argparse
import importlib
import math
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import spectralops
from spectralops._cli import ocean as sea
from spectralops._cli import shock
from spectralops._cli.contest import Contestant, measure

__all__ = ["run"]

SCALE = 150e3
NU = 2000.0


def run(options: argparse.Namespace) -> int:
    """Filter, advance, compare, print, draw; exit status 1 if a result is not what it must be."""
    started = time.perf_counter()
    try:
        ocean = sea.load()
        pyplot = _pyplot()
    except ModuleNotFoundError as error:
        print(f'demo: {error.name} is not installed; python -m pip install "spectralops[demo]"')
        return 1
    print(f"spectralops {spectralops.__version__}, demo\n")
    smooth, sound = _filter(ocean)
    later, flow, kept = _advance(ocean, smooth, options.days)
    x, fields, close = _shock()
    path = Path(options.output)
    _draw(pyplot, path, ocean, smooth, later, flow, options.days, x, fields)
    print(f"\nFigure written to {path}; {time.perf_counter() - started:.1f} s in all")
    return 0 if sound and kept and close else 1


def _pyplot() -> Any:
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("agg")
    return importlib.import_module("matplotlib.pyplot")


def _filter(ocean: sea.Ocean) -> tuple[Any, bool]:
    months, rows, columns = ocean.temperature.shape
    dy, dx = ocean.spacing
    print(f"1. Low-pass of real sea-surface temperature ({ocean.source}, {ocean.dates[0]} to {ocean.dates[-1]})")
    print(f"   {months} months x {rows} latitudes x {columns} longitudes, {dy / 1e3:.1f} x {dx / 1e3:.1f} km, "
          f"{100 * (1 - ocean.wet.mean()):.1f} % land")  # fmt: skip
    print(f"   Gaussian of {SCALE / 1e3:.0f} km over sea only: filter(where(wet, x, 0)) / filter(wet)")
    smooth, plain = sea.low_pass(ocean, SCALE), sea.low_pass_scipy(ocean, SCALE)
    same_gaps = np.array_equal(np.isnan(smooth), np.isnan(plain))
    error = float(np.nanmax(np.abs(smooth - plain)))
    times = measure(
        {
            "ours": Contestant(lambda: sea.low_pass(ocean, SCALE)),
            "scipy": Contestant(lambda: sea.low_pass_scipy(ocean, SCALE)),
        },
        rounds=9,
        seconds=5.0,
    )
    ours, plain_time = (1e3 * statistics.median(times[name]) for name in ("ours", "scipy"))
    ratio = statistics.median(b / a for a, b in zip(times["ours"], times["scipy"], strict=True))
    before, after = (
        float(np.nanstd(x - np.nanmean(x, axis=(1, 2), keepdims=True))) for x in (ocean.temperature, smooth)
    )
    print(f"   standard deviation in space {before:.3f} K before, {after:.3f} K after; "
          f"range {np.nanmin(smooth):.2f} .. {np.nanmax(smooth):.2f} K")  # fmt: skip
    print(f"   against plain scipy.fft: largest difference {error:.1e} K, "
          f"time {ours:.1f} ms against {plain_time:.1f} ms (ratio {ratio:.2f}, calls in turn)")  # fmt: skip
    return smooth, same_gaps and error < 1e-2


def _advance(ocean: sea.Ocean, smooth: Any, days: float) -> tuple[Any, tuple[Any, Any], bool]:
    wet = np.isfinite(smooth).all(axis=0)
    flow = sea.velocity(ocean, wet)
    fastest = float(np.hypot(*flow).max())
    print(f"\n2. {days:g} days of advection and diffusion, T_t + div(v T) = nu lap T, no flux through coasts")
    print(f"   v = (-psi_y, psi_x), psi = w U/k cos(k x): U = {sea.SPEED} m/s, k = {sea.WAVES}/R, w = 0 at land "
          f"to 1 at sea; fastest {fastest:.2f} m/s")  # fmt: skip
    print(f"   largest discrete divergence {sea.discrete_divergence(ocean, flow):.1e} 1/s, nu = {NU:g} m2/s")
    began = time.perf_counter()
    later, steps, dt = sea.advance(ocean, wet, smooth, flow, NU, days)
    seconds = time.perf_counter() - began
    rate = smooth.size * steps / seconds / 1e6
    print(f"   {steps} upwind steps of {dt / 3600:.2f} h on all months in {seconds:.2f} s: {rate:.0f} Mcell-steps/s")
    heat = np.where(wet, smooth, 0).sum(axis=(1, 2), dtype=np.float64)
    drift = float(np.abs(np.where(wet, later, 0).sum(axis=(1, 2), dtype=np.float64) / heat - 1).max())
    excess = float(max(np.nanmax(later[:, wet]) - np.nanmax(smooth), np.nanmin(smooth) - np.nanmin(later[:, wet])))
    change = float(np.sqrt(np.mean((later - smooth)[:, wet] ** 2)))
    print(f"   heat drift {drift:.1e} (relative), beyond the initial range by {max(excess, 0.0):.1e} K, "
          f"root-mean-square change {change:.3f} K")  # fmt: skip
    return later, flow, drift < 1e-5 and excess < 1e-2


def _shock() -> tuple[Any, dict[float, Any], bool]:
    print("\n3. Burgers shock, u_t + u u_x = 0.01/pi u_xx, u(x, 0) = -sin(pi x), against the Cole-Hopf solution")
    x, fields, steps = shock.run_shock()
    dx = float(x[1] - x[0])
    print(f"   central differences on {len(x)} points, {steps} steps\n")
    print("        t      x         ours            exact        error")
    worst = 0.0
    for t in shock.TIMES:
        for position in shock.POSITIONS:
            ours, right = float(fields[t][round((position + 1) / dx)]), shock.exact(position, t)
            worst = max(worst, abs(ours - right))
            print(f"   {t:.5f}  {position:.2f}  {ours:+.10f}  {right:+.10f}  {ours - right:+.1e}")
    slope = shock.slope_at_zero(fields[shock.HEAD_TIME], dx)
    percent = 100 * (slope / shock.HEAD_SLOPE - 1)
    print(f"\n   largest error {worst:.1e}; steepest slope |u_x(0, 1.6037/pi)| = {slope:.3f} "
          f"(Basdevant et al. 1986: {shock.HEAD_SLOPE}, {percent:+.2f} %)")  # fmt: skip
    return x, fields, worst < 5e-3 and abs(percent) < 0.5


def _draw(
    pyplot: Any,
    path: Path,
    ocean: sea.Ocean,
    smooth: Any,
    later: Any,
    flow: tuple[Any, Any],
    days: float,
    x: Any,
    fields: dict[float, Any],
) -> None:
    """Three maps of the first month with one colour scale, and the shock with its exact solution as dots."""
    figure, axes = pyplot.subplots(4, 1, figsize=(11, 9), layout="constrained", height_ratios=[1, 1, 1, 2])
    celsius = [field[0] - 273.15 for field in (ocean.temperature, smooth, later)]
    low, high = (float(f(celsius[0])) for f in (np.nanmin, np.nanmax))
    titles = (
        f"Sea-surface temperature, {ocean.dates[0]} (OSTIA)",
        f"Gaussian low-pass of {SCALE / 1e3:.0f} km around land",
        f"after {days:g} days of advection and diffusion (arrows: prescribed flow)",
    )
    half = float(ocean.latitude[1] - ocean.latitude[0]) / 2
    extent = (0, 360, float(ocean.latitude[0]) - half, float(ocean.latitude[-1]) + half)
    for axis, field, title in zip(axes[:3], celsius, titles, strict=True):
        image = axis.imshow(field, origin="lower", extent=extent, aspect="auto", vmin=low, vmax=high, cmap="turbo")
        axis.set(title=title, ylabel="latitude [°]")
        axis.set_facecolor("0.6")
    axes[2].quiver(
        ocean.longitude[::4], ocean.latitude[::3], flow[1][::3, ::4], flow[0][::3, ::4], width=0.0008, scale=15
    )
    axes[2].set_xlabel("longitude [°]")
    figure.colorbar(image, ax=axes[:3], label="°C", shrink=0.8)
    for t in (1 / math.pi, 0.5, 1.0):
        (line,) = axes[3].plot(x, fields[t], label=f"t = {t:.3f}")
        dots = [p for q in shock.POSITIONS for p in (-q, q)]
        axes[3].plot(dots, [shock.exact(p, t) for p in dots], "o", color=line.get_color())
    axes[3].set(title="Burgers shock: lines computed, dots exact", xlabel="x", ylabel="u", xlim=(-1, 1))
    axes[3].legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
