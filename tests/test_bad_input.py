"""Nonsense in every argument of every public function: one clear line, no raw error, nothing modified."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spectralops as so
from spectralops import transfer

U = np.cos(np.arange(64.0)).reshape(8, 8)
IMAGES = np.cos(np.arange(512.0)).reshape(2, 4, 8, 8)
WEIGHT = np.ones((6, 2, 3, 3))
MODES = np.ones((4, 3, 3, 3), complex)
ARRAYS = (U, IMAGES, WEIGHT, MODES)

TAIL = {"axes": None, "out": None, "workers": None, "backend": None}
STEP = {"bc": so.Periodic(), "source": None, "mask": None, "steps": 1, "method": "stencil", "on_unstable": "raise"}

# One good call of each: the function, its positional and its keyword arguments.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "spectral_filter": (
        so.spectral_filter,
        (U, transfer.gaussian(1.0)),
        {"spacing": 1.0, "pad_width": 0, "pad_mode": "zero", **TAIL},
    ),
    "spectral_conv": (so.spectral_conv, (IMAGES, MODES), {"depthwise": False, "out_shape": None, **TAIL}),
    "spectral_conv_weight_gradient": (
        so.spectral_conv_weight_gradient,
        (IMAGES, IMAGES, (3, 3)),
        {"depthwise": False, **TAIL},
    ),
    "fourier_resample": (so.fourier_resample, (U, (4, 4)), TAIL),
    "convolve": (
        so.convolve,
        (U, np.ones((3, 3))),
        {"mode": "full", "boundary": "fill", "fillvalue": 0, "method": "auto", **TAIL},
    ),
    "fft_conv2d": (
        so.fft_conv2d,
        (IMAGES, WEIGHT, np.ones(6)),
        {"stride": 1, "padding": 0, "dilation": 1, "groups": 2, "padding_mode": "zeros", "method": "auto"}
        | {"epilogue": None, "out": None, "workers": None, "backend": None},
    ),
    "diffusion_step": (so.diffusion_step, (U, 1.0, 0.1, 1.0), STEP | TAIL),
    "convection_step": (
        so.convection_step,
        (U, (1.0, 0.5), 1.0, 0.1),
        {"scheme": "upwind", "form": "advective"} | STEP | TAIL,
    ),
    "diffuse_convect_step": (
        so.diffuse_convect_step,
        (U, 1.0, 0.1, 1.0),
        {"velocity": None, "scheme": "central", "form": "advective"} | STEP | TAIL,
    ),
    "pde_step": (so.pde_step, (U, 1.0, 0.1, [so.Diffusion(1.0)]), {"integrator": "euler"} | STEP | TAIL),
    "gradient": (so.gradient, (U, 1.0), {"bc": so.Periodic(), "mask": None, **TAIL}),
    "divergence": (so.divergence, (np.stack([U, U]), 1.0), {"bc": so.Periodic(), "mask": None, **TAIL}),
    "laplacian": (so.laplacian, (U, 1.0), {"nu": None, "bc": so.Periodic(), "mask": None, **TAIL}),
    "diffusion_filter": (
        so.diffusion_filter,
        (U, 3.0, 1.0),
        {"filter_shape": "gaussian", "transition_width": math.pi, "n_steps": None, "bc": so.Periodic()}
        | {"mask": None, "metric": None, **TAIL},
    ),
    "Metric": (
        lambda **sizes: so.diffusion_filter(U, 3.0, 1.0, metric=so.Metric(**sizes)),
        (),
        {"area": 1.0, "widths": (1.0, 1.0), "lengths": (1.0, 1.0), "kappa": 1.0},
    ),
    "total": (so.total, (U, 1.0), {"weights": None, "mask": None, "axes": None}),
    "energy": (so.energy, (U, 1.0), {"weights": None, "mask": None, "axes": None}),
    "residuals": (so.residuals, (np.stack([U, U]),), {"times": None, "norm": "l2"}),
    "cfl_number": (so.cfl_number, ((1.0, 1.0), 1.0, 0.1), {}),
    "fourier_number": (so.fourier_number, (1.0, 1.0, 0.1), {}),
    "stable_dt": (so.stable_dt, (1.0,), {"nu": 1.0, "velocity": (1.0,), "scheme": "central", "integrator": "euler"}),
    "power_spectrum": (
        so.power_spectrum,
        (U,),
        {"spacing": 1.0, "axes": None, "window": None, "detrend": None, "scaling": "density", "sides": None}
        | {"isotropic": False},
    ),
    "solve": (
        so.solve,
        (lambda u, dt: u * (1 - dt), U),
        {"t_end": 1.0, "dt": 0.25, "t0": 0.0, "save_every": 1, "callback": None, "callback_every": 1}
        | {"checkpoint_every": None, "check_every": 64, "fuse": None, "resume": False},
    ),
    "Epilogue": (so.Epilogue, (), {"scale": 1.0, "shift": 0.0, "activation": "relu"}),
    "Robin": (so.Robin, (1.0, 1.0), {}),
    "Advection": (lambda *a: so.pde_step(U, 1.0, 0.1, so.Advection(*a)), ((1.0, 1.0), "upwind", "flux"), {}),
    "Pointwise": (lambda f: so.pde_step(U, 1.0, 0.1, so.Pointwise(f)), (np.sin,), {}),
    "gaussian": (lambda s: so.spectral_filter(U, transfer.gaussian(s)), (1.0,), {}),
    "lowpass": (lambda s: so.spectral_filter(U, transfer.lowpass(wavenumber=s)), (1.0,), {}),
    "butterworth": (lambda n: so.spectral_filter(U, transfer.butterworth(n, wavenumber=1.0)), (2,), {}),
    "derivative": (lambda n, j: so.spectral_filter(U, transfer.derivative(n, j)), (1, 0), {}),
    "shift": (lambda d: so.spectral_filter(U, transfer.shift(d)), ((1.0, 1.0),), {}),
}
for _op in ("spectral_filter", "spectral_conv", "fourier_resample", "convolve", "fft_conv2d", "diffusion_step"):
    _, _args, _options = CALLS[_op]
    CALLS[f"plan_{_op}"] = (
        getattr(so, f"plan_{_op}"),
        (_args[0].shape, _args[0].dtype, *_args[1:]),
        {name: value for name, value in _options.items() if name not in ("out", "workers")} | {"device": "cpu"},
    )

NONSENSE = [
    None, "no", b"1", [], (), {}, {1}, ["a"], object(), True, math.nan, math.inf, -1, 0, 2.5, 1j, 1e308, 5e-324,
    2**62, 10**400, 10**5000, -(10**400), (2**62, 2**62), [10**400] * 2, (1.0, 1.0), (math.nan, 1.0), (1, 2, 3, 4),
    np.array("x"), np.array([object()]), memoryview(b"abc"), memoryview(np.zeros((3, 3))), bytearray(b"ab"), int,
    lambda: 1, lambda *given: "x", np.zeros((1,) * 40), np.zeros((1,) * 64), np.datetime64("2020"), np.ma.zeros(3),
    np.float32(np.inf), np.uint64(2**63), np.bool_(True), np.void(b"ab"), [[1, 2], [3]], Ellipsis, range(2),
]  # fmt: skip
CLEAR = re.compile(r"^[\w.]+: [^\n]*\bbut [^\n]*\b(must|exactly one|not)\b[^\n]*$")


@pytest.mark.parametrize(
    ("name", "argument"),
    [(name, which) for name, (_, args, options) in CALLS.items() for which in (*range(len(args)), *options)],
    ids=lambda part: str(part),
)
@pytest.mark.filterwarnings("ignore")
def test_nonsense_gives_one_clear_line(name: str, argument: int | str) -> None:
    function, args, options = CALLS[name]
    before = [array.copy() for array in ARRAYS]
    unclear = []
    for value in NONSENSE:
        positional, keywords = list(args), dict(options)
        if isinstance(argument, int):
            positional[argument] = value
        else:
            keywords[argument] = value
        try:
            function(*positional, **keywords)
        except (TypeError, ValueError, so.UnsupportedError, so.DivergedError) as error:
            if not CLEAR.match(str(error)):
                unclear.append((value if isinstance(value, float) else type(value), error))
        except (ArithmeticError, RuntimeError, MemoryError) as error:
            unclear.append((type(value), error))
    assert not unclear
    for array, copy in zip(ARRAYS, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def refuses(error: type[Exception], message: str) -> Any:
    return pytest.raises(error, match=f"^{re.escape(message)}")


HUGE = 2**62


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: so.fourier_resample(U, HUGE), f"fourier_resample: out_shape is ({HUGE}, {HUGE}), but must be small"),
        (
            lambda: so.fourier_resample(U, 10**400),
            "fourier_resample: out_shape is a tuple, but must be at most 9223372",
        ),
        (lambda: so.spectral_conv(IMAGES, MODES, out_shape=HUGE), f"spectral_conv: out_shape is ({HUGE}, {HUGE}), but"),
        (
            lambda: so.spectral_filter(U, transfer.laplacian(), pad_width=HUGE),
            f"spectral_filter: pad_width is {HUGE}, but must be small enough for an array of less than 2**63 bytes",
        ),
        (lambda: so.fft_conv2d(IMAGES, WEIGHT, groups=2, padding=HUGE), f"fft_conv2d: padding is {HUGE}, but must be"),
        (
            lambda: so.fft_conv2d(IMAGES, WEIGHT, groups=2, stride=2**31),
            "fft_conv2d: stride is 2147483648, but must be",
        ),
        (lambda: so.diffusion_step(U, 1.0, 0.1, 1.0, steps=HUGE), f"diffusion_step: steps is {HUGE}, but must be at m"),
        (lambda: so.diffusion_filter(U, 3.0, 1.0, n_steps=HUGE), f"diffusion_filter: n_steps is {HUGE}, but must be a"),
        (
            lambda: so.diffusion_filter(U, 2.0e4, 1.0),
            "diffusion_filter: filter_scale is 20000.0 for dx = 1.0, which takes 2.2e+04 Laplacians, but must take at "
            "most 10000; filter on a coarser grid",
        ),
        (lambda: so.gradient(U, 1.0, workers=HUGE), f"gradient: workers is {HUGE}, but must be at most 32768"),
        (lambda: so.gradient(U, 1.0, axes=10**400), "gradient: axes has a int, but must lie in [-2, 2) for u with 2"),
        (lambda: so.gradient(U, 1e-320), "gradient: dx is 1e-320, but must lie between 1e-150 and 1e+150"),
        (
            lambda: so.gradient(np.zeros((1,) * 33), 1.0),
            "gradient: u has 33 dimensions, but must have at most 32; resh",
        ),
        (lambda: so.plan_gradient((1,) * 33, "float64", 1.0), "gradient: shape has 33 entries, but must have at most"),
        (lambda: so.solve(np.sin, U, steps=10**20), f"solve: steps is {10**20}, but must be at most {2**53}"),
        (
            lambda: so.solve(lambda u, dt: u, U, t_end=1e300, dt=1.0),
            "solve: t_end is 1e+300 steps of dt = 1.0 away, but must be at most 2**53",
        ),
        (
            lambda: so.solve(lambda u: u, IMAGES, steps=2**53, save_every=1),
            f"solve: the number of snapshots is {2**53 + 1}, but must be small enough for an array of less than 2**63",
        ),
        (
            lambda: so.spectral_filter(np.ones(8, "float32"), transfer.derivative(100), spacing=1e-3),
            "spectral_filter: transfer Derivative(orders=(100,), axis=-1) has the value inf on this grid in flo",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_absurd_sizes(call: Callable[[], Any], message: str) -> None:
    with refuses(ValueError, message):
        call()


@pytest.mark.parametrize("value", ["no", "", 0, 1, None, [True]], ids=repr)
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("spectral_conv: depthwise", lambda flag: so.spectral_conv(IMAGES, MODES, depthwise=flag)),
        ("power_spectrum: isotropic", lambda flag: so.power_spectrum(U, isotropic=flag)),
        ("solve: progress", lambda flag: so.solve(np.sin, U, steps=1, progress=flag)),
        ("solve: resume", lambda flag: so.solve(np.sin, U, steps=1, resume=flag)),
        ("debug: stability", lambda flag: so.debug(stability=flag).__enter__()),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_flags_are_true_or_false(name: str, call: Callable[[Any], Any], value: Any) -> None:
    with refuses(TypeError, f"{name} is {value!r}, but must be True or False"):
        call(value)


def test_fuse_may_be_left_open() -> None:
    with refuses(TypeError, "solve: fuse is 'no', but must be True or False"):
        so.solve(np.sin, U, steps=1, fuse="no")  # type: ignore[arg-type]


class TestFunctionsOfTheUser:
    """One that does not take what it is given is refused; its own errors pass through."""

    def test_transfer(self) -> None:
        with refuses(TypeError, "spectral_filter: transfer failed as it was called (") as caught:
            so.spectral_filter(U, lambda k: k)
        assert str(caught.value).endswith("), but must take 2 arrays of wavenumbers, one for each of axes (0, 1)")
        with refuses(TypeError, "spectral_filter: transfer failed as it was called ("):
            so.spectral_filter(U[0], lambda: 1.0)

    def test_pointwise(self) -> None:
        with refuses(TypeError, "Pointwise: function failed as it was called ("):
            so.pde_step(U, 1.0, 0.1, so.Pointwise(lambda: 1.0))  # type: ignore[misc]
        with refuses(TypeError, "Pointwise: function returned 'x', but must return real numbers"):
            so.pde_step(U, 1.0, 0.1, so.Pointwise(lambda u: "x"))

    def test_step_and_callback(self) -> None:
        with refuses(TypeError, "solve: step failed as it was called ("):
            so.solve(lambda: U, U, steps=1)
        with refuses(TypeError, "solve: callback failed as it was called ("):
            so.solve(np.sin, U, steps=1, callback=lambda: None)  # type: ignore[misc]

    def test_errors_inside_are_their_own(self) -> None:
        def fails(*given: Any) -> Any:
            raise TypeError("mine")

        for call in (
            lambda: so.spectral_filter(U, fails),
            lambda: so.pde_step(U, 1.0, 0.1, so.Pointwise(fails)),
            lambda: so.solve(fails, U, steps=1),
        ):
            with pytest.raises(TypeError, match=r"^mine$"):
                call()


@pytest.mark.parametrize("op", ["spectral_filter", "convolve", "diffusion_step", "fft_conv2d", "fourier_resample"])
def test_a_plan_must_be_told_its_dtype(op: str) -> None:
    """None is NumPy's word for float64 and nobody's intention."""
    function, args, options = CALLS[f"plan_{op}"]
    with pytest.raises(TypeError, match=rf"^{op}: [ux] has dtype None, but must be float16, "):
        function(args[0], None, *args[2:], **options)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.5, "1.5"), ("x" * 100, "a str"), (10**5000, "a int"), (np.zeros((2, 2)), "a ndarray")],
    ids=["short", "long", "digits", "lines"],
)
def test_messages_quote_values_on_one_line(value: Any, shown: str) -> None:
    from spectralops import _checks

    assert _checks.shown(value) == shown


@pytest.mark.parametrize(
    "backend", [np.array([1, 2]), np.void(b"ab"), 3, ["cpu"]], ids=["array", "void", "int", "list"]
)
def test_a_backend_is_a_word(backend: Any) -> None:
    with pytest.raises(TypeError, match=r"^convolve: backend is a \w+, but must be 'cpu', "):
        so.convolve(U, U, backend=backend)
