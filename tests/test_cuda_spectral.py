"""Filters and spectral convolutions of the CUDA backend: the kernels on the host."""

from __future__ import annotations

import math
from typing import Any

import cuda_on_host
import numpy as np
import pytest
from conformance import CASES, Variant
from cuda_on_host import BACKEND, HostRunner, backend
from test_conformance import poison, run  # noqa: F401, the fixture poisons what the cases allocate

import spectralops as so
from spectralops import _support, transfer
from spectralops._arrays import ArraySpec
from spectralops._cuda import geometry, pruned, spectral_filter, spectral_filter_layout, spectral_filter_program

on_host = pytest.mark.skipif(not cuda_on_host.available(), reason="no g++")
GAUSSIAN = transfer.gaussian(1.0)

SELECTED = [
    ("gaussian-odd-anisotropic", "float32"),
    ("gaussian-1d-prime", "float32"),
    ("derivative-1d", "float32"),
    ("shift-3d", "float32"),
    ("riesz-reversed-axes", "float32"),
    ("empty-batch", "float32"),
    ("single-point", "float32"),
    ("array-per-channel", "float32"),
    ("factors", "float32"),
    ("1d-all-modes-even", "float32"),
    ("1d-complex-all-modes", "complex64"),
    ("2d", "float32"),
    ("2d-finer", "float32"),
    ("2d-swapped-axes", "float32"),
    ("2d-depthwise", "float32"),
    ("3d", "float32"),
    ("1d-depthwise", "float32"),
]
GRADIENTS = ("1d-depthwise", "2d", "2d-finer", "1d-complex-all-modes")
VARIANTS = [
    Variant(case, BACKEND, dtype)
    for name, dtype in SELECTED
    for case in CASES
    if case.name == name
    and (case.op, "cuda") in _support.SUPPORT
    and case.op.startswith("spectral")
    and (case.op != "spectral_conv_weight_gradient" or name in GRADIENTS)
]


@on_host
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_kernels_match_the_reference(variant: Variant) -> None:
    with backend():
        run(variant)


@pytest.fixture
def host():
    """The backend on the host, for a test."""
    with backend() as runner:
        yield runner


@on_host
@pytest.mark.parametrize(
    ("shape", "width", "mode"),
    [
        ((2, 10), 2, "zero"),
        ((2, 9), 3, "edge"),
        ((2, 9, 7), (2, 3), "zero"),
        ((1, 3), (4, 5), "reflect"),
        ((4, 8, 6), (1, 2, 1), "reflect"),
    ],
)
def test_padding(host, rng, shape: tuple[int, ...], width: int | tuple[int, ...], mode: str) -> None:
    axes = tuple(range(-len(width), 0)) if isinstance(width, tuple) else (-1,)
    x = rng.standard_normal(shape).astype("float32")
    options: dict[str, Any] = {"axes": axes, "pad_width": width, "pad_mode": mode}
    result = so.spectral_filter(x, transfer.shift((0.7,) * len(axes)), backend=BACKEND, **options)
    expected = so.spectral_filter(x.astype("float64"), transfer.shift((0.7,) * len(axes)), backend="numpy", **options)
    assert np.abs(result - expected).max() < 1e-5


@on_host
def test_padding_of_complex_fields_in_slices(host, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral_filter_program, "SPACE_BYTES", 1)
    x = rng.standard_normal((3, 5, 6)) + 1j * rng.standard_normal((3, 5, 6))
    options: dict[str, Any] = {"pad_width": (1, 2), "pad_mode": "reflect"}
    result = so.spectral_filter(x, GAUSSIAN, backend=BACKEND, **options)
    assert np.abs(result - so.spectral_filter(x, GAUSSIAN, backend="numpy", **options)).max() < 1e-13
    assert len(host.launched) == 9


@on_host
def test_adjoint_of_a_convolution_to_another_grid(host, rng) -> None:
    weight = (rng.standard_normal((3, 2, 4, 4)) + 1j * rng.standard_normal((3, 2, 4, 4))).astype("complex64")
    plan = so.plan_spectral_conv((2, 3, 8, 6), "float32", weight, out_shape=(6, 8), backend=BACKEND)
    x = rng.standard_normal(plan.in_shape).astype("float32")
    y = rng.standard_normal(plan.out_shape).astype("float32")
    left, right = np.vdot(plan(x, weight), y), np.vdot(x, plan.adjoint()(y, weight))
    assert abs(left - right) < 1e-5 * abs(left)


@on_host
def test_adjoint_of_a_filter_conjugates(host, rng) -> None:
    h = (rng.standard_normal((6, 5)) + 1j * rng.standard_normal((6, 5))).astype("complex64")
    plan = so.plan_spectral_filter((2, 6, 8), "float32", h, backend=BACKEND)
    x, y = (rng.standard_normal((2, 6, 8)).astype("float32") for _ in range(2))
    left, right = np.vdot(plan(x, h), y), np.vdot(x, plan.adjoint()(y, h))
    assert abs(left - right) < 1e-5 * np.linalg.norm(x) * np.linalg.norm(y)


@on_host
def test_weight_gradient_is_the_derivative(host, rng) -> None:
    x, g = rng.standard_normal((2, 3, 8)), rng.standard_normal((2, 2, 8))
    gradient = so.spectral_conv_weight_gradient(x, g, 3, backend=BACKEND)
    v = rng.standard_normal(gradient.shape) + 1j * rng.standard_normal(gradient.shape)
    assert abs(np.vdot(gradient, v).real - np.vdot(g, so.spectral_conv(x, v, backend="reference"))) < 1e-12 * g.size


@on_host
def test_weight_gradient_of_no_samples_is_zero(host) -> None:
    empty = np.zeros((0, 2, 8), "float32")
    assert not so.spectral_conv_weight_gradient(empty, empty, 3, backend=BACKEND).any()


@on_host
@pytest.mark.parametrize("factor", [(3, 1, 6, 5), (1, 2, 6, 5), (3, 2, 6, 1), (2, 1, 1)], ids=str)
def test_factors_along_the_batch(host, rng, factor) -> None:
    x, h = rng.standard_normal((3, 2, 6, 8)).astype("float32"), rng.standard_normal(factor).astype("float32")
    expected = np.fft.irfft2(np.fft.rfft2(x) * h, s=(6, 8))
    assert np.abs(so.spectral_filter(x, h, backend=BACKEND) - expected).max() < 1e-5


@on_host
def test_factors_of_any_strides(host, rng) -> None:
    x, h = rng.standard_normal((4, 6, 8)).astype("float32"), rng.standard_normal((5, 6, 4)).astype("float32")
    symbol = h.transpose(2, 1, 0)[::-1, ::-1]
    expected = np.fft.irfft2(np.fft.rfft2(x) * symbol, s=(6, 8))
    assert np.abs(so.spectral_filter(x, symbol, backend=BACKEND) - expected).max() < 1e-5


@on_host
def test_functions_that_return_another_kind_at_each_call(host, rng) -> None:
    x = rng.standard_normal((4, 6, 8)).astype("float32")
    whole = 1 + rng.random((6, 5))
    for value in (2.0, 2.0 + 0j, whole, whole[:1], whole[:, :1], whole + 0.5j):
        expected = np.fft.irfft2(np.fft.rfft2(x) * value, s=(6, 8))
        result = so.spectral_filter(x, lambda k0, k1, h=value: h, backend=BACKEND)
        assert np.abs(result - expected).max() < 1e-5


@on_host
def test_functions_that_return_many_factors(host, rng) -> None:
    x = rng.standard_normal((4, 8)).astype("float32")
    parts = [1 + rng.random(5) for _ in range(5)]
    expected = np.fft.irfft(np.fft.rfft(x) * math.prod(parts[1:], start=parts[0]))
    assert np.abs(so.spectral_filter(x, lambda k: tuple(parts), axes=-1, backend=BACKEND) - expected).max() < 1e-4


@on_host
@pytest.mark.parametrize("op", ["filter", "conv"])
def test_misaligned_arrays_are_copied(host, rng, op: str) -> None:
    x = rng.standard_normal((2, 2, 16)).astype("float32")
    buffer = np.zeros(4 * 9 * 2 + 1, "float32")
    values = buffer[1:]
    values[:] = rng.standard_normal(values.size)
    if op == "filter":
        h = values[:18].view("complex64")
        expected = np.fft.irfft(np.fft.rfft(x) * h)
        assert np.abs(so.spectral_filter(x, h, axes=-1, backend=BACKEND) - expected).max() < 1e-5
    else:
        weight = values.reshape(2, 2, 9, 2)
        expected = so.spectral_conv(x, weight, backend="reference")
        assert np.abs(so.spectral_conv(x, weight, backend=BACKEND) - expected).max() < 1e-5


@on_host
def test_large_batches_are_cut_to_the_scratch_memory(host, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    x, h = rng.standard_normal((5, 7, 8)).astype("float32"), rng.standard_normal((5, 7, 5)).astype("float32")
    monkeypatch.setattr(spectral_filter_program, "SPACE_BYTES", 2 * 7 * 5 * 8)
    expected = np.fft.irfft2(np.fft.rfft2(x) * h, s=(7, 8))
    assert np.abs(so.spectral_filter(x, h, backend=BACKEND) - expected).max() < 1e-5
    assert len(host.launched) == 9
    monkeypatch.undo()
    # Spectra in 32 bits of fields in 16 (560 bytes), of which 616 bytes are two: cut where that is more than little.
    for little, launches in ((280 * 5, 3), (0, 9)):
        monkeypatch.setattr(spectral_filter_program, "LITTLE_BYTES", little)
        host.launched.clear()
        assert np.abs(so.spectral_filter(x.astype("float16"), h, backend=BACKEND) - expected).max() < 5e-3
        assert len(host.launched) == launches
        spectral_filter._prepared.clear()


@on_host
def test_programs_are_kept_by_plan_and_strides(host, rng) -> None:
    spectral_filter._prepared.clear()
    x = rng.standard_normal((2, 16)).astype("float32")
    for _ in range(2):
        so.spectral_filter(x, GAUSSIAN, axes=-1, backend=BACKEND)
    assert len(spectral_filter._prepared) == 1
    for width in (1.0, 2.0):  # a caller's function is new each time, its kernels are not
        result = so.spectral_filter(x, lambda k, w=width: np.exp(-((w * k) ** 2)), axes=-1, backend=BACKEND)
        k = 2 * np.pi * np.fft.rfftfreq(16)
        expected = np.fft.irfft(np.fft.rfft(x) * np.exp(-((width * k) ** 2)))
        assert np.abs(result - expected).max() < 1e-6
    assert len(spectral_filter._prepared) == 2
    assert [each.plan.transfer for each in spectral_filter._prepared.values()] == [GAUSSIAN, None]


@on_host
def test_kept_programs_are_bounded(host, rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral_filter._prepared, "most", 2)
    monkeypatch.setattr(pruned._prepared, "most", 2)
    spectral_filter._prepared.clear()
    pruned._prepared.clear()
    monkeypatch.setattr(HostRunner, "launch", lambda *_: None)
    for n in (8, 16, 32):
        so.spectral_filter(np.ones((1, n), "float32"), transfer.gaussian(1.0), axes=-1, backend=BACKEND)
        so.spectral_conv(np.ones((1, 1, n), "float32"), np.ones((1, 1, 2), "complex64"), backend=BACKEND)
    assert len(spectral_filter._prepared) == len(pruned._prepared) == 2
    spectral_filter._prepared.clear()
    pruned._prepared.clear()


@on_host
def test_convolutions_read_any_strides(host, rng) -> None:
    x = rng.standard_normal((8, 2, 3)).astype("float32").T
    weight = (
        (rng.standard_normal((3, 2, 2)) + 1j * rng.standard_normal((3, 2, 2))).astype("complex64").transpose(1, 2, 0)
    )
    result = so.spectral_conv(x, weight, backend=BACKEND)
    assert np.abs(result - so.spectral_conv(x, weight, backend="reference")).max() < 1e-5


@on_host
@pytest.mark.parametrize(("shape", "kind"), [((2, 64, 32), "complex"), ((1, 48, 32), "real")], ids=str)
def test_images_in_one_block(host, rng, shape: tuple[int, ...], kind: str) -> None:
    x = rng.standard_normal(shape).astype("float32")
    h = rng.standard_normal((shape[1], shape[2] // 2 + 1)).astype("float32")
    if kind == "complex":
        h = (h + 1j * rng.standard_normal(h.shape)).astype("complex64")
    result = so.spectral_filter(x, h, backend=BACKEND)
    assert [kernel.name.partition("<")[0] for kernel in host.launched] == ["planes_filter"]
    assert np.abs(result - so.spectral_filter(x.astype("float64"), h, backend="numpy")).max() < 2e-6


@on_host
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_planes_of_volumes_in_one_block(host, rng, dtype: str) -> None:
    x = rng.standard_normal((1, 6, 32, 16)).astype(dtype)
    options: dict[str, Any] = {"axes": (1, 2, 3)}
    result = so.spectral_filter(x, transfer.shift((0.3, 0.7, 1.1)), backend=BACKEND, **options)
    assert [kernel.name.partition("<")[0] for kernel in host.launched] == [
        "planes_forward", "columns", "planes_inverse",
    ]  # fmt: skip
    expected = so.spectral_filter(x.astype("float64"), transfer.shift((0.3, 0.7, 1.1)), backend="numpy", **options)
    assert np.abs(result - expected).max() < (1e-5 if dtype == "float32" else 1e-14)


@on_host
@pytest.mark.parametrize(
    ("shape", "modes", "out_shape"),
    [((1, 2, 32, 16), (32, 9), None), ((2, 2, 16, 16), (6, 7), (32, 32)), ((1, 2, 5, 16, 16), (3, 8, 5), None)],
    ids=str,
)  # fmt: skip
def test_layers_of_images_in_one_block(host, rng, shape, modes, out_shape) -> None:
    x = rng.standard_normal(shape).astype("float32")
    weight = (rng.standard_normal((shape[1], 5, *modes)) + 1j * rng.standard_normal((shape[1], 5, *modes))).astype(
        "complex64"
    )
    options: dict[str, Any] = {"axes": tuple(range(2, len(shape))), "out_shape": out_shape}
    result = so.spectral_conv(x, weight, backend=BACKEND, **options)
    names = [kernel.name.partition("<")[0] for kernel in host.launched]
    assert (names[0], names[-1]) == ("planes_forward", "planes_inverse")
    expected = so.spectral_conv(x.astype("float64"), weight.astype("complex128"), backend="numpy", **options)
    assert np.abs(result - expected).max() < 1e-6 * np.abs(expected).max() * len(x.shape)


@on_host
@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [((34,), "complex64"), ((17, 16), "float32"), ((34, 17), "float32"), ((3, 5, 17), "float32")],
    ids=str,
)
def test_lengths_with_large_prime_factors(host, rng, sizes: tuple[int, ...], dtype: str) -> None:
    x = rng.standard_normal((2, *sizes)) + (1j * rng.standard_normal((2, *sizes)) if dtype == "complex64" else 0)
    options: dict[str, Any] = {"axes": tuple(range(1, x.ndim))}
    symbol = transfer.shift((0.3,) * len(sizes))
    result = so.spectral_filter(x.astype(dtype), symbol, backend=BACKEND, **options)
    assert any("Chirp<" in kernel.name for kernel in host.launched)
    assert np.abs(result - so.spectral_filter(x, symbol, backend="numpy", **options)).max() < 3e-6


@on_host
@pytest.mark.parametrize(
    ("shape", "dtype", "space"),
    [
        ((64, 17), "float32", 48 * 8), ((64, 34), "float64", 80 * 16), ((65, 23), "float16", 48 * 8),
        # The spectrum for longer transforms has its place beside those of fields, or in the part that is written last.
        ((4, 34, 9), "float32", 80 * 8 * 8), ((5, 17, 12), "float64", 3 * 17 * 7 * 16 + 48 * 8 * 16),
        ((9, 17, 12), "float32", 5 * 17 * 7 * 8), ((9, 17, 12), "float16", 3 * 17 * 7 * 8 + 48 * 8 * 8),
        ((5, 19, 8), "complex64", 48 * 8 * 8), ((4, 17, 192), "float32", 4 * 17 * 100 * 8),
    ],
    ids=str,
)  # fmt: skip
def test_many_lengths_with_large_prime_factors(host, rng, monkeypatch, shape, dtype: str, space: int) -> None:
    """Filters are convolutions of longer transforms, of parts of the batch at a time, and so are their adjoints."""
    monkeypatch.setattr(spectral_filter_program, "LITTLE_BYTES", 0)
    last = shape[-1] if dtype == "complex64" else shape[-1] // 2 + 1
    h = (rng.standard_normal((*shape[1:-1], last)) + 1j * rng.standard_normal((*shape[1:-1], last))).astype(
        "complex128" if dtype == "float64" else "complex64"
    )
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype == "complex64" else 0)
    x[1] *= 100  # whose rounding errors stay its own
    x = x.astype(dtype)
    axes = tuple(range(1, len(shape)))
    for adjoint in (False, True):
        plan = so.plan_spectral_filter(shape, dtype, ArraySpec(h.shape, h.dtype.name), axes=axes, backend=BACKEND)
        result = (plan.adjoint() if adjoint else plan)(x, h)
        names = [kernel.name.partition("<")[0] for kernel in host.launched]
        assert names[0] == "cyclic_spectrum"
        assert names[1:3] == (["twos_filter"] if len(shape) == 2 else ["rows_forward", "columns"])
        assert all("Cyclic<" in kernel.name for kernel in host.launched if kernel.name.startswith(("columns", "twos")))
        wide = x.astype("complex128" if dtype == "complex64" else "float64")
        expected = so.spectral_filter(wide, h.conj() if adjoint else h, axes=axes, backend="numpy")
        bound = {"float64": 2e-14, "float16": 2e-3}.get(dtype, 3e-6)
        for one, other in zip(result, expected, strict=True):
            assert np.abs(one - other).max() < bound * np.abs(other).max()
        assert spectral_filter._prepared.values()[-1].space_bytes == space
        host.launched.clear()


@on_host
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_lines_of_two_blocks(host, rng, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Even and odd wavenumbers apart, in slices of as many lines as the device has multiprocessors."""
    usual = geometry.row_geometry
    monkeypatch.setattr(
        spectral_filter_layout, "row_geometry", lambda n, *a, **k: None if n >= 32 else usual(n, *a, **k)
    )
    monkeypatch.setattr(spectral_filter_layout, "spread_lines", lambda *arguments: None)  # no clusters
    x = rng.standard_normal((6, 72)).astype("float32")
    h = rng.standard_normal((6, 37)).astype("float32")
    if kind == "complex":
        h = (h + 1j * rng.standard_normal(h.shape)).astype("complex64")
    result = so.spectral_filter(x, h, axes=-1, backend=BACKEND)
    names = [kernel.name.partition("<")[0] for kernel in host.launched]
    assert names == ["halves_filter", "halves_join"] * 2
    assert [kernel.grid for kernel in host.launched[::2]] == [(8,), (4,)]
    assert np.abs(result - so.spectral_filter(x.astype("float64"), h, axes=-1, backend="numpy")).max() < 2e-6


@on_host
@pytest.mark.parametrize(("n", "kind"), [(128, "complex"), (512, "real"), (24, "complex")], ids=str)
def test_packed_lines(host, rng, n: int, kind: str) -> None:
    """Wavenumbers k and n - k meet in a thread or in shared memory; several factors multiply."""
    x = rng.standard_normal((3, n)).astype("float32")
    h, g = rng.standard_normal((2, n // 2 + 1)).astype("float32")
    first = (h + 1j * rng.standard_normal(h.shape)).astype("complex64") if kind == "complex" else h
    result = so.spectral_filter(x, lambda k: (first, g), axes=-1, backend=BACKEND)
    expected = so.spectral_filter(x.astype("float64"), first * g, axes=-1, backend="numpy")
    assert np.abs(result - expected).max() < 3e-6


@on_host
@pytest.mark.parametrize("op", ["filter", "conv"])
def test_results_that_are_not_aligned(host, rng, op: str) -> None:
    x = rng.standard_normal((2, 2, 16)).astype("float32")
    out = np.zeros(x.size + 1, "float32")[1:].reshape(x.shape)
    if op == "filter":
        so.spectral_filter(x, GAUSSIAN, axes=-1, out=out, backend=BACKEND)
        expected = so.spectral_filter(x, GAUSSIAN, axes=-1, backend="numpy")
    else:
        weight = (rng.standard_normal((2, 2, 5)) + 1j).astype("complex64")
        so.spectral_conv(x, weight, out=out, backend=BACKEND)
        expected = so.spectral_conv(x, weight, backend="numpy")
    assert np.abs(out - expected).max() < 1e-5


@on_host
@pytest.mark.parametrize(("batch", "modes", "read", "written"), [(3, 3, 9, 17), (9, 4, 5, 3), (1, 8, 1, 1)], ids=str)
def test_mixing_of_any_number_of_channels(host, rng, batch: int, modes: int, read: int, written: int) -> None:
    """Rows and channels beyond the last are not there, whatever the tile; an odd number of modes is copied singly."""
    x = rng.standard_normal((batch, read, 16)).astype("float32")
    weight = rng.standard_normal((read, written, modes)) + 1j * rng.standard_normal((read, written, modes))
    result = so.spectral_conv(x, weight.astype("complex64"), backend=BACKEND)
    expected = so.spectral_conv(x.astype("float64"), weight, backend="numpy")
    assert np.abs(result - expected).max() < 2e-6 * read
