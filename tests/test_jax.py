"""The differentiable operators of spectralops.jax: values, gradients against plain pipelines, jit, vmap."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import spectralops as so  # noqa: E402
from spectralops import jax as sj  # noqa: E402
from spectralops.jax import _calls  # noqa: E402


@pytest.fixture(autouse=True)
def double():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def make(*shape: int, dtype: Any = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed + sum(shape))
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def plain_filter(x: Any, h: Any, axes: tuple[int, ...] = (-2, -1)) -> Any:
    if jnp.iscomplexobj(x):
        return jnp.fft.ifftn(jnp.fft.fftn(x, axes=axes) * h, axes=axes)
    return jnp.fft.irfftn(jnp.fft.rfftn(x, axes=axes) * h, s=[x.shape[axis] for axis in axes], axes=axes)


def plain_conv(x: Any, w: Any, target: tuple[int, ...] | None = None) -> Any:
    """Truncated convolution of two axes by whole transforms, whose inverse ignores what NumPy's does."""
    w = w if jnp.iscomplexobj(w) else w[..., 0] + 1j * w[..., 1]
    (n0, n1), (m0, m1) = x.shape[-2:], w.shape[-2:]
    t0, t1 = target or (n0, n1)
    k = np.arange(-(m0 // 2), m0 // 2 + m0 % 2)
    modes = jnp.fft.rfft2(x, norm="forward")[..., k % n0, :][..., :m1]
    mixed = jnp.einsum("bikl,iokl->bokl", modes, w)
    spectrum = jnp.zeros((*mixed.shape[:2], t0, t1 // 2 + 1), mixed.dtype).at[..., k % t0, :m1].set(mixed)
    return jnp.fft.irfft(jnp.fft.ifft(spectrum, axis=-2, norm="forward"), n=t1, norm="forward")


def same_gradients(ours: Callable[..., Any], plain: Callable[..., Any], *inputs: Any) -> None:
    """Values and cotangents, of complex arguments in JAX's convention."""
    everything = tuple(range(len(inputs)))

    def loss(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: (jnp.abs(function(*given)) ** 2).sum() + function(*given).real.sum()

    value, found = jax.jit(jax.value_and_grad(loss(ours), everything))(*inputs)
    right, expected = jax.jit(jax.value_and_grad(loss(plain), everything))(*inputs)
    np.testing.assert_allclose(value, right, rtol=1e-12)
    for got, wanted in zip(found, expected, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10)


def test_jax_gradients_outside_of_jit() -> None:
    x, h = make(2, 6, 8), make(6, 5, dtype="complex128")
    loss = lambda f: lambda x, h: (f(x, h) ** 2).sum()  # noqa: E731
    for got, wanted in zip(*(jax.grad(loss(f), (0, 1))(x, h) for f in (sj.spectral_filter, plain_filter)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("shape", "transfer", "dtype", "kind"),
    [
        ((2, 6, 7), (6, 4), "float64", "float64"),
        ((2, 6, 8), (6, 1), "float64", "complex128"),
        ((2, 5, 6), (5, 6), "complex128", "complex128"),
    ],
    ids=["real transfer", "a column", "complex"],
)
def test_jax_filter(shape: Any, transfer: Any, dtype: str, kind: str) -> None:
    same_gradients(sj.spectral_filter, plain_filter, make(*shape, dtype=dtype), make(*transfer, dtype=kind, seed=1))


def test_jax_filter_of_factors_padding_and_axes() -> None:
    x, first, last = make(5, 2, 6), make(5, 1, 1), make(4)
    same_gradients(
        lambda x, a, b: sj.spectral_filter(x, (a, b), axes=(0, 2)),
        lambda x, a, b: plain_filter(x, a * b, (0, 2)), x, first, last,
    )  # fmt: skip
    for mode in ("zero", "reflect", "edge"):
        options = {"pad_width": (2, "auto"), "pad_mode": mode, "axes": (0, 2)}
        gain = so.transfer.gaussian(1.0)
        np.testing.assert_allclose(
            sj.spectral_filter(x, gain, **options), so.spectral_filter(np.asarray(x), gain, **options), atol=1e-12
        )
        check_grads(jax.jit(lambda x: sj.spectral_filter(x, gain, **options)), (x,), 1, modes=["rev"])  # noqa: B023


@pytest.mark.parametrize("out_shape", [None, (9, 6), (5, 12)], ids=["same", "other", "mixed"])
@pytest.mark.parametrize("real", [False, True], ids=["complex weight", "real view"])
def test_jax_conv(out_shape: Any, real: bool) -> None:
    w = make(3, 4, 4, 3, dtype="complex128")
    w = jnp.stack([w.real, w.imag], -1) if real else w
    same_gradients(
        lambda x, w: sj.spectral_conv(x, w, out_shape=out_shape),
        lambda x, w: plain_conv(x, w, out_shape), make(2, 3, 8, 7), w,
    )  # fmt: skip


def test_jax_depthwise_conv() -> None:
    x, w = make(2, 3, 8), make(3, 4, dtype="complex128")
    dense = lambda w: jnp.zeros((3, 3, 4), w.dtype).at[np.arange(3), np.arange(3)].set(w)  # noqa: E731
    same_gradients(
        lambda x, w: sj.spectral_conv(x, w, depthwise=True), lambda x, w: sj.spectral_conv(x, dense(w)), x, w
    )


def test_jax_resample() -> None:
    x = make(2, 7)
    matrix = jnp.asarray(so.fourier_resample(np.eye(7), 12, axes=-1))
    same_gradients(lambda x: sj.fourier_resample(x, 12, axes=-1), lambda x: x @ matrix, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: sj.spectral_conv(x, w),
        lambda x, w: sj.spectral_filter(x, w[0, 0, :1, :1]),
    ],
    ids=["conv", "filter"],
)
def test_jax_gradients_of_second_order(function: Any) -> None:
    check_grads(jax.jit(function), (make(1, 3, 8, 6), make(3, 2, 4, 3, dtype="complex128")), 2, modes=["rev"])


CONV2D = [
    {"stride": 2, "padding": 1, "dilation": (1, 2), "groups": 2},
    {"padding": "same", "groups": 2},
    {"padding": 1, "padding_mode": "circular", "groups": 2},
]


@pytest.mark.parametrize("options", CONV2D, ids=["strided", "same", "circular"])
def test_jax_conv2d(options: dict[str, Any]) -> None:
    def plain(x: Any, w: Any, b: Any) -> Any:
        mode = options.get("padding_mode")
        if mode:
            x = jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="wrap")
        padding = {"same": "SAME", 1: [(1, 1)] * 2}[options["padding"]] if not mode else "VALID"
        y = jax.lax.conv_general_dilated(
            x, w, (options.get("stride", 1),) * 2, padding, rhs_dilation=options.get("dilation"),
            feature_group_count=2,
        )  # fmt: skip
        return y + b[:, None, None]

    same_gradients(
        lambda x, w, b: sj.fft_conv2d(x, w, b, **options), plain, make(2, 4, 7, 8), make(6, 2, 3, 3), make(6)
    )


def test_jax_conv2d_epilogue_and_one_image() -> None:
    x, w = make(4, 7, 8), make(6, 4, 3, 3)
    epilogue = so.Epilogue(scale=tuple(range(6)), shift=0.5, activation="gelu")
    got = sj.fft_conv2d(x, w, epilogue=epilogue)
    np.testing.assert_allclose(got, so.fft_conv2d(np.asarray(x), np.asarray(w), epilogue=epilogue), atol=1e-12)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_jax_convolve(mode: str) -> None:
    def plain(x: Any, k: Any) -> Any:
        return jnp.stack([jnp.convolve(row, k, mode=mode) for row in x])

    same_gradients(lambda x, k: sj.convolve(x, k, mode=mode, axes=-1), plain, make(3, 9), make(4))


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ((3, 4), {"axes": -1}),
        ((2, 3), {"mode": "same", "boundary": "wrap"}),
        ((2, 3), {"fillvalue": 1.5}),
        ((2, 3), {"axes": (1, 0)}),
    ],
    ids=["a kernel each", "wrapped", "filled", "axes turned"],
)
def test_jax_convolve_options(kernel: Any, options: dict[str, Any]) -> None:
    x, k = make(3, 9), make(*kernel)
    np.testing.assert_allclose(
        sj.convolve(x, k, **options), so.convolve(np.asarray(x), np.asarray(k), **options), rtol=1e-10, atol=1e-12
    )
    check_grads(jax.jit(lambda x, k: sj.convolve(x, k, **options)), (x, k), 1, modes=["rev"])


U, NU, V, S = make(2, 5, 6), abs(make(5, 6, seed=1)), make(5, 6, seed=2), make(5, 6, seed=3)
WALLS = (so.Dirichlet(0.3), so.Robin(0.5, 0.2)), (so.Neumann(0.1), so.Outflow())
STEPS: dict[str, Callable[..., Any]] = {
    "diffusion": lambda f, u, nu, v, s: f.diffusion_step(u, 1.5, 0.1, nu, source=s, steps=5, bc=WALLS),
    "masked": lambda f, u, nu, v, s: f.diffusion_step(u, 1.5, 0.1, nu, source=v, mask=s > -0.8, steps=2),
    "upwind3": lambda f, u, nu, v, s: f.convection_step(u, (v, -v), 1.0, 0.1, scheme="upwind3", source=s, steps=3),
    "Burgers": lambda f, u, nu, v, s: f.diffuse_convect_step(u, 1.5, 0.1, nu, source=s + v, steps=3, bc=so.Hold()),
    "rk2": lambda f, u, nu, v, s: f.pde_step(
        u, 1.5, 0.1, [so.Diffusion(nu), so.Advection((v, 0.3), "upwind", "flux"), so.Source(s)], integrator="rk2",
    ),
    "by axis": lambda f, u, nu, v, s: f.diffusion_step(
        u, (1.5, 1.2), 0.1, nu, axes=(1, 2), bc={1: so.Reflect(), 2: so.Periodic()}, source=v * s
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_jax_steps(name: str) -> None:
    inputs = (U, NU, V, S)
    np.testing.assert_allclose(
        STEPS[name](sj, *inputs), STEPS[name](so, *map(np.asarray, inputs)), rtol=1e-12, atol=1e-13
    )
    check_grads(
        jax.jit(lambda *given: STEPS[name](sj, *given)), inputs, 1, modes=["rev"], rtol=1e-4, atol=1e-4, eps=1e-5
    )


def test_jax_pointwise_terms_are_computed_by_jax() -> None:
    step = jax.jit(lambda u: sj.pde_step(u, 1.0, 0.1, so.Pointwise(jnp.sin), integrator="rk4", steps=3))
    expected = so.pde_step(np.asarray(U), 1.0, 0.1, so.Pointwise(np.sin), integrator="rk4", steps=3)
    np.testing.assert_allclose(step(U), expected, rtol=1e-12)
    check_grads(step, (U,), 1, modes=["rev"])


@pytest.mark.parametrize("dx", [np.float64(1.5), np.asarray(1.5), jnp.asarray(1.5)])
def test_jax_constants_may_be_of_numpy_or_jax(dx: Any) -> None:
    sj.diffusion_step(U, (1.5, 1.2), 0.1, 0.3)  # what is remembered is compared with what follows
    got = sj.diffusion_step(U, dx, jnp.asarray(0.1), np.float64(0.3), axes=np.array([1, 2]), steps=np.int64(2))
    expected = so.diffusion_step(np.asarray(U), 1.5, 0.1, 0.3, axes=(1, 2), steps=2)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_jax_gradient_of_a_scalar_coefficient() -> None:
    got = jax.grad(lambda nu: (sj.diffusion_step(U, 1.0, 0.1, nu, steps=7) ** 2).sum())(jnp.asarray(0.3))
    h = 1e-6
    low, high = ((so.diffusion_step(np.asarray(U), 1.0, 0.1, 0.3 + d, steps=7) ** 2).sum() for d in (-h, h))
    assert float(got) == pytest.approx((high - low) / (2 * h), rel=1e-7)


def test_jax_constant_steps_run_their_adjoint(monkeypatch: pytest.MonkeyPatch) -> None:
    from spectralops import _stage

    monkeypatch.setattr(_stage, "advance", None)
    g, d = make(2, 5, 6, seed=9), make(2, 5, 6, seed=8)
    for step in (
        lambda u: sj.diffuse_convect_step(u, 1.0, 0.1, 0.4, velocity=(0.3, -0.2), steps=9),
        lambda u: sj.diffuse_convect_step(u, 1.0, 0.1, 0.4, velocity=(0.3, -0.2), source=S, steps=2),
        lambda u: sj.diffusion_step(u, 1.0, 0.1, 0.4, source=S, mask=S > -1, steps=2),
    ):
        y, pull = jax.vjp(step, U)
        # What is added to u adds to the result linearly, whatever the source.
        assert float((pull(g)[0] * d).sum()) == pytest.approx(float(((step(U + d) - y) * g).sum()), rel=1e-9)


def test_jax_steps_of_many_are_a_scan() -> None:
    """A long run neither unrolls nor keeps every state: its jaxpr is as short as that of a short one."""

    def size(steps: int) -> int:
        gradient = jax.grad(lambda nu: sj.diffusion_step(U, 1.0, 0.01, nu, steps=steps).sum())
        return str(jax.make_jaxpr(gradient)(NU)).count("\n")

    assert size(100) == size(9)


VMAPPED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "filter": (sj.spectral_filter, ((2, 6, 8), (6, 5))),
    "filter of a column": (lambda x, h: sj.spectral_filter(x, h, axes=(-2, -1)), ((2, 6, 8), (2, 1, 5))),
    "conv": (sj.spectral_conv, ((2, 3, 8), (3, 2, 4, 2))),
    "conv2d": (lambda x, w: sj.fft_conv2d(x, w, padding=1), ((2, 3, 6, 7), (4, 3, 3, 3))),
    "convolve": (lambda x, k: sj.convolve(x, k, axes=-1), ((3, 9), (4,))),
    "a kernel each": (lambda x, k: sj.convolve(x, k, axes=-1), ((3, 9), (3, 4))),
    "one axis": (lambda x, k: sj.convolve(x, k, mode="same"), ((9,), (4,))),
    "steps": (lambda u, nu: sj.diffusion_step(u, 1.0, 0.1, abs(nu), bc=WALLS), ((5, 6), (5, 6))),
    "one-dimensional steps": (lambda u, v: sj.convection_step(u, v, 1.0, 0.1), ((7,), (7,))),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "over"),
    [(name, over) for name in VMAPPED for over in ((0, None), (1, 0))] + [("conv", (None, 0))],
    ids=str,
)
def test_jax_vmap(name: str, over: tuple[Any, ...]) -> None:
    function, shapes = VMAPPED[name]
    batches = [make(3, *shape, seed=seed) for seed, shape in enumerate(shapes)]
    members = [(batch if axis is not None else [batch[0]] * 3) for batch, axis in zip(batches, over, strict=True)]
    given = [jnp.moveaxis(b, 0, axis) if axis is not None else b[0] for b, axis in zip(batches, over, strict=True)]
    got = jax.vmap(function, in_axes=over)(*given)
    one = jax.jit(function)
    expected = np.stack([one(*pair) for pair in zip(*members, strict=True)])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


def test_jax_vmap_over_fields_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, one = [], _calls._one
    monkeypatch.setattr(_calls, "_one", lambda job, members, *rest: (calls.append(members), one(job, members, *rest)))
    w = make(3, 4, 2, 3, dtype="complex128")
    x = make(5, 6, 2, 3, 8, 7)
    np.asarray(jax.vmap(jax.vmap(lambda x: sj.spectral_conv(x, w)))(x))
    assert calls == [30]
    np.asarray(jax.vmap(lambda x, w: sj.spectral_conv(x, w))(x[0], jnp.stack([w] * 6)))
    assert calls == [30, *[1] * 6]


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (sj.fft_conv2d, ((0, 4, 6, 5), (2, 4, 3, 3))),
        (lambda u, nu: sj.diffusion_step(u, 1.0, 0.1, nu, on_unstable="ignore"), ((3, 0), (3, 0))),
    ],
    ids=["conv2d", "step"],
)
def test_jax_gradients_of_an_empty_batch_are_zero(call: Callable[..., Any], shapes: Any) -> None:
    found = jax.grad(lambda *arrays: call(*arrays).sum(), (0, 1))(*(make(*shape) for shape in shapes))
    for gradient, shape in zip(found, shapes, strict=True):
        np.testing.assert_array_equal(gradient, np.zeros(shape))


def test_jax_gradients_of_each_sample() -> None:
    x, w = make(4, 1, 2, 8), make(2, 2, 3, dtype="complex128")
    loss = lambda w, x: (sj.spectral_conv(x, w) ** 2).sum()  # noqa: E731
    each = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(w, x)
    np.testing.assert_allclose(each, jnp.stack([jax.grad(loss)(w, one) for one in x]), rtol=1e-10, atol=1e-12)


def test_jax_conjugates_as_jax_does() -> None:
    """The gradient of Re((3 - i) z) is 3 - i in JAX, 3 + i in PyTorch."""
    w = jnp.asarray([[[3 - 1j]]])
    got = jax.grad(lambda x: sj.spectral_conv(x, w, axes=-1).real.sum())(jnp.asarray([[1j]]))
    assert complex(got[0, 0]) == 3 - 1j


def test_jax_forward_mode_is_refused_not_wrong() -> None:
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: sj.fourier_resample(x, 9), (make(8),), (make(8, seed=1),))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32"])
def test_jax_dtypes(dtype: str) -> None:
    x = jnp.asarray(np.arange(48).reshape(2, 3, 8) % 7, dtype)
    w = make(3, 2, 3, dtype="complex64")
    y = jax.jit(sj.spectral_conv)(x, w)
    assert y.dtype == ("float64" if dtype == "int32" else dtype)
    wide = so.spectral_conv(np.asarray(x, "float64"), np.asarray(w))
    tolerance = {"bfloat16": 8e-3, "float16": 1e-3}.get(dtype, 1e-6)
    assert np.linalg.norm(np.asarray(y, "float64") - wide) <= tolerance * np.linalg.norm(wide)


def test_jax_default_float_without_double() -> None:
    jax.config.update("jax_enable_x64", False)
    y = jax.grad(lambda u: sj.diffusion_step(u, 1.0, 0.1, jnp.ones(6)).sum())(jnp.arange(6.0))
    assert y.dtype == "float32"
    assert sj.fourier_resample(jnp.arange(8), 4).dtype == "float32"


def test_jax_callbacks_of_older_versions_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = make(2, 3, 8), make(3, 2, 4, dtype="complex128")
    expected = jax.vmap(sj.spectral_conv, in_axes=(0, None))(x[:, None], w)
    monkeypatch.setattr(_calls, "buffer_callback", None)
    jax.clear_caches()
    np.testing.assert_array_equal(jax.vmap(sj.spectral_conv, in_axes=(0, None))(x[:, None], w), expected)
    jax.clear_caches()


def test_jax_compiles_once_for_the_same_call() -> None:
    x, w = make(2, 3, 8), make(3, 2, 4, dtype="complex128")
    sj.spectral_conv(x, w)
    before = _calls._compiled._cache_size()
    sj.spectral_conv(x + 1, w)
    assert _calls._compiled._cache_size() == before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sj.spectral_filter([1.0], U), TypeError, "^spectral_filter: x is a list, but must be a jax.Array;"),
        (lambda: sj.spectral_filter(U, 3.0), TypeError, "^spectral_filter: transfer is a float, but must be a jax"),
        (lambda: sj.spectral_conv(U, make(3, 2, 2, 2)), ValueError, "^spectral_conv: x of shape"),
        (lambda: sj.fft_conv2d(U[None], make(3, 3)), ValueError, "^fft_conv2d: weight has 2 dimensions, but"),
        (lambda: sj.diffusion_step(U, 1.0, 9.0, 0.3), so.StabilityError, "^diffusion_step: dt is 9, "),
        (lambda: sj.diffusion_step(U, 1.0, 0.9, NU), so.StabilityError, r"^diffusion_step: dt is 0\.9, "),
        (lambda: sj.diffusion_step(U, 1.0, 0.1, 0.3, worker=2), TypeError, "unexpected keyword argument 'worker'"),
        (lambda: jax.jit(lambda dt: sj.diffusion_step(U, 1.0, dt, 0.3))(0.1), TypeError, "dt is a JAX tracer"),
        (lambda: jax.jit(lambda dx: sj.diffusion_step(U, dx, 0.1, 0.3))(1.0), TypeError, "dx is a JAX tracer"),
        (lambda: sj.convolve(U, U, mode="all"), ValueError, "^convolve: mode is 'all', but must be"),
        (lambda: sj.convolve(U, U, fillvalue=1j), TypeError, "^convolve: fillvalue is 1j, but must be real"),
        (lambda: sj.convolve(U, U, boundary="wrap", fillvalue=1), ValueError, "^convolve: fillvalue is 1, but must be"),
    ],
)  # fmt: skip
def test_jax_errors(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("nu", [0.3, jnp.full((5, 6), 0.3)], ids=["number", "array"])
def test_jax_warns_once_and_at_the_caller(nu: Any) -> None:
    def loss(u: Any) -> Any:
        return sj.diffusion_step(u, 1.0, 0.9, nu, on_unstable="warn").sum()

    with pytest.warns(so.StabilityWarning) as caught:
        jax.grad(loss)(U)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("name", sj.__all__)
def test_jax_names_pickle(name: str) -> None:
    assert pickle.loads(pickle.dumps(getattr(sj, name))) is getattr(sj, name)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["conv", "filter", "steps", "conv2d"])
def test_jax_on_a_device(name: str) -> None:
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no device")
    function, shapes = VMAPPED[name]
    inputs = [make(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    gradient = jax.jit(jax.grad(lambda *given: (function(*given) ** 2).sum(), (0, 1)))
    there = gradient(*inputs)
    with jax.default_device(jax.devices("cpu")[0]):
        here = gradient(*[jnp.asarray(np.asarray(x)) for x in inputs])
    for got, right in zip(there, here, strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(right), rtol=1e-8, atol=1e-9)


def test_jax_callback_on_a_device_uses_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for CuPy: which device and stream become current, and what the plan is given."""
    import contextlib
    import sys
    from types import SimpleNamespace

    entered: list[Any] = []
    calls: list[Any] = []

    @contextlib.contextmanager
    def context(what: Any):
        entered.append(what)
        yield

    fake = SimpleNamespace(
        cuda=SimpleNamespace(
            Device=lambda index: context(("device", index)),
            Stream=SimpleNamespace(from_external=lambda stream: context(("stream", stream.__cuda_stream__()))),
            UnownedMemory=lambda *a: a, MemoryPointer=lambda memory, offset: (memory, offset),
            runtime=SimpleNamespace(getDevice=lambda: 3),
        ),
        ndarray=lambda shape, dtype, pointer: (shape, dtype, pointer),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(_calls, "_fill", lambda job, out, arrays, device: calls.append((out, arrays, device)))

    def buffer(address: int) -> Any:
        described = {"data": (address, False), "shape": (2, 3)}
        return SimpleNamespace(
            __cuda_array_interface__=described, __dlpack_device__=lambda: (2, 3), dtype=np.dtype("float32")
        )

    out, x = buffer(64), buffer(128)
    _calls._buffer_callback("job")(SimpleNamespace(stream=17), out, x)
    assert entered == [("device", 3), ("stream", (0, 17))]
    array = lambda of, address: ((2, 3), np.dtype("float32"), ((address, 24, of, 3), 0))  # noqa: E731
    assert calls == [(array(out, 64), [array(x, 128)], "cuda")]
