"""The table of `steps.py` as data: cases, their contestants and what ours must reach against each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import step_peers as peers
from step_contest import Case, Contestant, Patches, Setup, Target

import spectralops

__all__ = ["CASES"]

R = 0.1  # dt nu / dx^2
B = 0.05  # dt / (2 dx) of self-advection
EPS = {"float32": 2.0**-23, "float64": 2.0**-52}
# Steps of a call: enough for a peer's call to be worth timing, few enough for it to take seconds.
MANY, SOME = 480, 32


def noise(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random(shape, dtype=dtype)


def ours(step: Callable[..., Any], u: Any, steps: int, workers: int = 1, sea: Any = None) -> Contestant:
    """The public call, from the caller's array into the caller's array."""
    out = np.empty_like(u)
    call = partial(step, u, steps=steps, out=out, workers=workers)
    return Contestant(call, steps, lambda: out.copy() if sea is None else np.where(sea, out, 0.0), threads=workers)


def single(step: Callable[..., Any], u: Any, steps: int) -> Contestant:
    """Ours, one step a call."""
    pair = [np.empty_like(u), np.empty_like(u)]

    def call() -> None:
        v = u
        for k in range(steps):
            v = step(v, out=pair[k % 2], workers=1)

    return Contestant(call, steps, lambda: pair[(steps - 1) % 2].copy())


def reduced(shape: tuple[int, ...], quick: bool) -> tuple[int, ...]:
    """The case's shape, or one of the same kind that takes no time."""
    return tuple(max(40, n // 16) for n in shape) if quick else shape


def periodic(
    name: str,
    shape: tuple[int, ...],
    dtype: str,
    targets: tuple[Target, ...],
    steps: int,
    peer_steps: dict[str, int],
    advects: bool = False,
) -> Case:
    """Diffusion or Burgers on a periodic grid against the peers, which take `peer_steps` steps a call."""

    def build(quick: bool) -> Setup:
        u = noise(reduced(shape, quick), dtype) * np.dtype(dtype).type(0.2 if advects else 1.0)
        b = B if advects else None
        operator = spectralops.diffuse_convect_step if advects else spectralops.diffusion_step
        step = partial(operator, dx=1.0, dt=R, nu=1.0, axes=tuple(range(u.ndim)))
        factories = {
            "NumPy roll": peers.numpy_roll,
            "NumPy out=": peers.numpy_out,
            "torch.compile": peers.torch_compiled,
            "jax.jit": peers.jax_roll,
            "py-pde": peers.py_pde,
            "Devito": peers.devito,
        }
        contestants: dict[str, Callable[[], Contestant]] = {"spectralops": partial(ours, step, u, steps)}
        if any(target.against == "spectralops single steps" for target in targets):
            contestants["spectralops single steps"] = partial(single, step, u, 4)
        if any(target.ours == "spectralops w2" for target in targets):
            contestants["spectralops w2"] = partial(ours, step, u, steps, 2)
        for peer, count in peer_steps.items():
            contestants[peer] = partial(factories[peer], u, min(count, 4) if quick else count, R, b)
        check = Patches(partial(peers.roll_step, r=R, b=B if advects else None, roll=np.roll), 1, u)
        return Setup(contestants, check, EPS[dtype])

    return Case(name, build, targets)


def variable(dtype: str, default: float, fair: float) -> Case:
    """A diffusivity of cells and a land mask, as flux differences."""

    def build(quick: bool) -> Setup:
        shape = reduced((4096, 4096), quick)
        rng = np.random.default_rng(1)
        nu = rng.random(shape).astype(dtype)
        mask = rng.random(shape) > 0.3
        u = np.where(mask, noise(shape, dtype), np.dtype(dtype).type(0))
        step = partial(spectralops.diffusion_step, dx=1.0, dt=0.2, nu=nu, mask=mask)

        def exact(v: Any, k: Any, sea: Any) -> Any:
            gain = 0.0
            for axis in (0, 1):
                is_open = sea & np.roll(sea, 1, axis)
                flux = np.where(is_open, 0.5 * (k + np.roll(k, 1, axis)) * (v - np.roll(v, 1, axis)), 0.0)
                gain = gain + np.roll(flux, -1, axis) - flux
            return v + 0.2 * gain

        contestants = {
            "spectralops": partial(ours, step, u, 16, sea=mask),
            "gcm-filters": partial(peers.gcm_filters_step, u, 1, 0.2, nu, mask),
        }
        return Setup(contestants, Patches(exact, 1, u, nu, mask), EPS[dtype])

    targets = (Target("gcm-filters", default, fair),)
    return Case(f"variable nu, mask, flux form 4096x4096 {dtype} steps 16", build, targets)


def continent(ny: int, nx: int) -> Any:
    """A mask of all but a rectangle in the middle."""
    mask = np.ones((ny, nx), bool)
    mask[ny // 4 : 3 * ny // 4, nx // 4 : 3 * nx // 4] = False
    return mask


def smoothing(name: str, filter_shape: str, scale: float) -> Case:
    """gcm-filters' own benchmark: ten fields around a continent, times per call."""

    def build(quick: bool) -> Setup:
        shape = (2, 96, 128) if quick else (10, 1024, 1024)
        ny, nx = shape[1:]
        mask = continent(ny, nx)
        u = noise(shape, "float64")
        u[:, ~mask] = np.nan

        options = {"filter_shape": filter_shape, "mask": mask}
        right = spectralops.diffusion_filter(u[:1], scale, 1.0, **options, backend="numpy")

        def error(result: Any, _: int, __: bool) -> float:
            sea = np.asarray(result)[0][mask]
            return float(np.linalg.norm(sea - right[0][mask]) / np.linalg.norm(right[0][mask]))

        def fused(workers: int = 1) -> Contestant:
            out = np.empty_like(u)
            call = partial(spectralops.diffusion_filter, u, scale, 1.0, **options, out=out, workers=workers)
            return Contestant(call, 1, lambda: out, threads=workers)

        def gcm_filters() -> Contestant:
            gcm, xarray = peers.load("gcm_filters", "gcm-filters"), peers.load("xarray", "xarray")
            wet = xarray.DataArray(mask.astype(float), dims=["y", "x"])
            made = gcm.Filter(
                filter_scale=scale,
                dx_min=1,
                filter_shape=gcm.FilterShape[filter_shape.upper()],
                grid_type=gcm.GridType.REGULAR_WITH_LAND,
                grid_vars={"wet_mask": wet},
            )
            field = xarray.DataArray(u, dims=["t", "y", "x"])
            held: list[Any] = [None]

            def call() -> None:
                held[0] = made.apply(field, dims=["y", "x"])

            return Contestant(call, 1, lambda: held[0].data)

        contestants = {"spectralops": fused, "spectralops w2": partial(fused, 2), "gcm-filters": gcm_filters}
        # Equal to 1e-15 of the field's size, also to gcm-filters.
        return Setup(contestants, error, 1e-15 / 3)

    return Case(name, build, (Target("gcm-filters", 18, 11), Target("spectralops", None, None, "spectralops w2")))


def variant(
    name: str, shape: tuple[int, ...], steps: int, make: Callable[[Any], dict[str, Any]], batch: int = 0
) -> Case:
    """A step with more to it than the periodic one of the same size; it may take 1.6 times as long."""

    def build(quick: bool) -> Setup:
        sizes = reduced(shape, quick)
        u = noise((batch // 8 if quick else batch, *sizes) if batch else sizes, "float32")
        options, count = make(u), 2
        basic = {"dx": 1.0, "dt": R, "nu": 1.0, "axes": (-2, -1)}
        step = partial(spectralops.diffusion_step, **(basic | options))

        def error(result: Any, taken: int, _: bool) -> float:
            """After few steps beside the plain pipeline in float64; the timed call must end in finite numbers."""
            if not np.isfinite(np.asarray(result)).all():
                return float("inf")
            wide = {
                k: v.astype(np.float64) if getattr(v, "dtype", None) == np.float32 else v for k, v in options.items()
            }
            wider = partial(spectralops.diffusion_step, **(basic | wide), backend="numpy")
            right, found = wider(u.astype(np.float64), steps=count), step(u, steps=count)
            return float(np.linalg.norm(found - right) / np.linalg.norm(right))

        contestants = {
            "spectralops": partial(ours, step, u, steps),
            "spectralops periodic": partial(ours, partial(spectralops.diffusion_step, **basic), u, steps),
        }
        return Setup(contestants, error, EPS["float32"])

    return Case(name, build, (Target("spectralops periodic", 1 / 1.6, 1 / 1.6),))


def _source(u: Any) -> dict[str, Any]:
    return {"source": noise(u.shape, "float32", 2) * np.float32(0.01)}


def _mask(u: Any) -> dict[str, Any]:
    return {"mask": np.random.default_rng(3).random(u.shape) > 0.3}


def _coast(u: Any) -> dict[str, Any]:
    return {"mask": continent(*u.shape)}


def _sides(u: Any) -> dict[str, Any]:
    low, high = spectralops.Dirichlet(1.0), spectralops.Neumann(0.1)
    return {"bc": ((low, high), (spectralops.Robin(0.5, 0.2), spectralops.Reflect()))}


def _instances(u: Any) -> dict[str, Any]:
    return {"nu": 0.5 + 0.5 * noise((len(u), 1, 1), "float32", 4)}


def _against(values: dict[str, tuple[float, float | None]]) -> tuple[Target, ...]:
    return tuple(Target(name, default, fair) for name, (default, fair) in values.items())


SMALL = {"NumPy roll": 20, "NumPy out=": 20, "torch.compile": 40, "jax.jit": 40, "py-pde": 60, "Devito": 60}
LARGE = {"NumPy out=": 1, "torch.compile": 2, "jax.jit": 2, "py-pde": 1, "Devito": 2}
TWICE = Target("spectralops single steps", 2, 2)

CASES: tuple[Case, ...] = (
    *(
        periodic(f"diffusion 512x512 {dtype} steps {MANY}", (512, 512), dtype, _against(values), MANY, SMALL)
        for dtype, values in {
            "float32": {"NumPy roll": (11, 11), "py-pde": (11, 11), "torch.compile": (4.5, 4.5), "Devito": (2.8, 2.8)},
            "float64": {"NumPy roll": (10, 10), "py-pde": (5, 5), "torch.compile": (2.3, 2.3), "Devito": (2.2, 2.2)},
        }.items()
    ),
    *(
        periodic(
            f"diffusion 4096x4096 {dtype} steps {SOME}", (4096, 4096), dtype,
            (*_against(values), TWICE), SOME, LARGE,
        )
        for dtype, values in {
            "float32": {"NumPy out=": (17, 15), "torch.compile": (14, 4.5), "Devito": (5.5, 5), "py-pde": (60, 17)},
            "float64": {"NumPy out=": (15, 15), "torch.compile": (13, 3.5), "Devito": (4, 4), "py-pde": (45, 13)},
        }.items()
    ),
    *(
        periodic(
            f"diffusion 4096x4096 {dtype} one step", (4096, 4096), dtype,
            _against({"Devito": (1.5, 1.5), "NumPy out=": (5, 5)}), 1, {"NumPy out=": 1, "Devito": 1},
        )
        for dtype in ("float32", "float64")
    ),
    periodic(
        f"Burgers 4096x4096 float32 steps {SOME}", (4096, 4096), "float32",
        _against({"NumPy out=": (30, 20), "py-pde": (60, 35), "torch.compile": (15, 4.5)}), SOME,
        {"NumPy out=": 1, "torch.compile": 2, "jax.jit": 2, "py-pde": 1}, True,
    ),
    periodic(
        f"Burgers 512x512 float32 steps {MANY}", (512, 512), "float32",
        _against({"NumPy out=": (15, None), "py-pde": (9, None), "torch.compile": (4, None)}), MANY,
        {"NumPy out=": 20, "torch.compile": 40, "jax.jit": 40, "py-pde": 60}, True,
    ),
    variable("float32", 35, 22),
    variable("float64", 50, 20),
    smoothing("diffusion_filter 10x1024x1024 float64 taper scale 4", "taper", 4.0),
    smoothing("diffusion_filter 10x1024x1024 float64 gaussian scale 20", "gaussian", 20.0),
    *(
        periodic(
            f"diffusion 256x256x256 {dtype} steps 8", (256, 256, 256), dtype, _against(values), 8,
            {"NumPy out=": 1, "torch.compile": 2, "jax.jit": 2, "py-pde": 1},
        )
        for dtype, values in {
            "float32": {"NumPy out=": (9, 5), "py-pde": (20, 7)},
            "float64": {"NumPy out=": (9, 5), "py-pde": (15, 6)},
        }.items()
    ),
    *(
        periodic(
            f"two workers 4096x4096 {dtype} steps {SOME}", (4096, 4096), dtype,
            (Target("spectralops", 1.5, 1.5, "spectralops w2"),), SOME, {},
        )
        for dtype in ("float32", "float64")
    ),
    *(
        variant(f"{word} {side}x{side} float32 steps {steps}", (side, side), steps, make)
        for side, steps in ((512, MANY), (4096, SOME))
        for word, make in (("source", _source), ("mask", _mask), ("coast", _coast), ("a condition per side", _sides))
    ),
    variant(f"nu per instance 64x128x128 float32 steps {SOME}", (128, 128), SOME, _instances, batch=64),
)  # fmt: skip
