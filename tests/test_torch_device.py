"""Device tensors as CuPy arrays, and the current device and stream, with a stand-in for CuPy."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import spectralops as so  # noqa: E402
import spectralops.spectral  # noqa: E402
from spectralops import _arrays, _device, _dispatch, _interchange, _sixteen_bits, _support, _ways  # noqa: E402
from spectralops import torch as st  # noqa: E402
from spectralops._plain import spectral as plain  # noqa: E402
from spectralops.errors import UnsupportedError  # noqa: E402
from spectralops.torch import _step_arguments  # noqa: E402


class Context:
    """Notes when it is entered and left."""

    def __init__(self, log: list[Any], name: Any) -> None:
        self.log, self.name = log, name

    def __enter__(self) -> None:
        self.log.append(("enter", self.name))

    def __exit__(self, *error: object) -> None:
        self.log.append(("exit", self.name))


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch):
    log: list[Any] = []
    state = {"device": 0, "stream": 0, "allocator": None}
    memory = SimpleNamespace(
        _get_thread_local_allocator=lambda: state["allocator"],
        _set_thread_local_allocator=lambda value: state.update(allocator=value),
    )
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDevice=lambda: state["device"]),
        memory=memory,
        Device=lambda index: Context(log, ("device", index)),
        Stream=SimpleNamespace(from_external=lambda stream: Context(log, ("stream", stream))),
        get_current_stream=lambda: SimpleNamespace(ptr=state["stream"]),
        UnownedMemory=lambda address, size, owner, index: SimpleNamespace(
            ptr=address, size=size, owner=owner, device=index
        ),
        MemoryPointer=lambda memory, offset: SimpleNamespace(mem=memory, ptr=memory.ptr + offset),
    )

    def ndarray(shape: Any, dtype: Any, memptr: Any, strides: Any) -> Any:
        return SimpleNamespace(shape=shape, dtype=dtype, data=memptr, strides=strides)

    fake = SimpleNamespace(log=log, state=state, cuda=cuda, ndarray=ndarray, empty=lambda *a: ("empty", *a))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7 + index, raising=False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: f"stream of {index}")
    caches = (_device._view, _device._stream, _device._empty, _device._layout)
    for cache in caches:
        cache.cache_clear()
    yield fake
    for cache in caches:
        cache.cache_clear()


def test_a_view_owns_nothing_and_is_found_again(cupy: Any) -> None:
    x = torch.zeros(4, 6)[:, ::2]
    view = _device.tensor_view(x, "float32")
    assert (view.shape, view.dtype, view.strides) == ((4, 3), np.dtype("float32"), (24, 8))
    assert (view.data.ptr, view.data.mem.size, view.data.mem.owner) == (x.data_ptr(), 4 * (1 + 3 * 6 + 2 * 2), None)
    assert _device.tensor_view(x, "float32") is view
    assert _device.tensor_view(x.T, "float32") is not view


@pytest.mark.parametrize(
    ("x", "dtype", "expected"),
    [
        (torch.tensor([1, 2]), "float64", [1.0, 2.0]),
        (torch.tensor([1 + 2j]).conj(), "complex64", [1 - 2j]),
        (torch.tensor([1 + 2j]).conj().imag, "float32", [-2.0]),
        (torch.tensor([1.5], dtype=torch.bfloat16), "float32", [1.5]),
        (torch.tensor([2 + 1j]).conj(), None, [2 - 1j]),
    ],
    ids=["integers", "conjugate", "negative", "bfloat16", "bits alone"],
)
def test_a_copy_is_held_by_its_array(cupy: Any, x: Any, dtype: Any, expected: Any) -> None:
    array = _device.tensor_view(x, dtype)
    assert array.data.mem.owner.tolist() == expected
    assert array.data.ptr == array.data.mem.owner.data_ptr()


def test_nothing_has_no_address(cupy: Any) -> None:
    assert _device.tensor_view(torch.zeros(0, 3)) == ("empty", (0, 3), np.dtype("float32"))


@pytest.mark.parametrize("native", [False, True], ids=["empty_strided", "as compiled code"])
def test_results_are_allocated_in_c_order(cupy: Any, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    if native:
        monkeypatch.setattr(torch._C._dynamo.guards, "_empty_strided_cuda", lambda *a: calls.append(a), raising=False)
    else:
        monkeypatch.delattr(torch._C._dynamo.guards, "_empty_strided_cuda", raising=False)
        monkeypatch.setattr(
            torch, "empty_strided", lambda shape, strides, dtype, device: calls.append((shape, strides, dtype))
        )
    _device.tensor_empty((2, 3, 0, 4), "float64")
    assert calls == [((2, 3, 0, 4), (12, 4, 4, 1), torch.float64)]


def test_memory_of_calls_comes_from_torch(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_device, "_empty", lambda: lambda shape, strides, dtype: torch.empty(shape, dtype=dtype))
    pointer = _device.from_torch(100)
    assert pointer.mem.owner.shape == (100,)
    assert pointer.mem.owner.dtype is torch.uint8
    assert (pointer.ptr, pointer.mem.size, pointer.mem.device) == (pointer.mem.owner.data_ptr(), 100, 0)
    assert _device.from_torch.in_stream_order


def test_the_device_and_stream_of_torch_become_current(cupy: Any) -> None:
    cupy.state["allocator"] = "theirs"
    with _device.Current("torch", "cuda:1"):
        assert cupy.state["allocator"] is _device.from_torch
    entered = [("enter", ("device", 1)), ("enter", ("stream", "stream of 1"))]
    assert cupy.log == [*entered, ("exit", ("stream", "stream of 1")), ("exit", ("device", 1))]
    assert cupy.state["allocator"] == "theirs"


def test_what_is_current_is_left_alone(cupy: Any) -> None:
    cupy.state["stream"] = 7
    with _device.Current("torch", "cuda:0"):
        pass
    with _device.Current("cupy", "cuda:0"):
        assert cupy.state["allocator"] is None
    assert cupy.log == []


def test_a_failing_call_leaves_all_as_it_was(cupy: Any) -> None:
    with pytest.raises(ZeroDivisionError), _device.Current("torch", "cuda:1"):
        raise ZeroDivisionError
    assert cupy.state["allocator"] is None
    assert cupy.log[-1] == ("exit", ("device", 1))


@pytest.mark.parametrize(("address", "copied"), [(64, False), (80, False), (72, True), (68, True)])
def test_cufft_is_given_aligned_addresses(address: int, copied: bool) -> None:
    x = SimpleNamespace(data=SimpleNamespace(ptr=address), copy=lambda: "copy")
    assert plain._readable(x) is ("copy" if copied else x)


@pytest.mark.parametrize("backend", ["cuda", "cupy"])
def test_torch_runs_kernels_in_its_own_memory(cupy: Any, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import fakes

    fakes.install(monkeypatch)
    monkeypatch.setitem(_support.SUPPORT, ("fake", backend), _support.SUPPORT["fake", "cupy"])
    x = torch.arange(3.0)
    plan, home = fakes.spec_plan((3,), "float32", backend=backend), _arrays.Home("torch", "cuda:0")
    monkeypatch.setattr(_interchange, "own_memory", lambda tensor, dtype=None: tensor.numpy())
    monkeypatch.setattr(
        _interchange, "own_result", lambda shape, dtype: torch.empty(shape, dtype=getattr(torch, dtype))
    )
    monkeypatch.setattr(_support, "executor", lambda op, backend: fakes.double)
    seen: list[Any] = []
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    with _dispatch.observe(lambda plan, arrays, result: seen.append((arrays[0].sum(), result.sum()))):
        y = _dispatch.run(plan, (x,), home)
    assert y.tolist() == [0.0, 2.0, 4.0]
    assert seen == [(3.0, 6.0)]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    if backend == "cuda":
        assert _dispatch.run(plan, (x,), home).tolist() == [0.0, 2.0, 4.0]
    else:
        message = "^fake: backend is 'cupy', but must be 'cuda' while a CUDA graph is captured; explain"
        with pytest.raises(UnsupportedError, match=message):
            _dispatch.run(plan, (x,), home)


def test_torch_rounds_results_that_are_stored_in_16_bits() -> None:
    assert _sixteen_bits.rounded(torch.tensor([1.0]), "bfloat16").dtype is torch.bfloat16
    x = torch.tensor([1.0])
    assert _sixteen_bits.rounded(x, "float32") is x


def test_torch_steps_pass_their_arrays_in_the_order_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    known = type("Known", (), {"plan": object(), "__call__": lambda self, tensors: seen.extend(tensors)})()
    monkeypatch.setattr(_step_arguments, "_found", lambda *looks: known)
    u = torch.zeros(5, 6)
    names = ("nu", "velocity[0]", "velocity[1]", "source", "mask")
    arrays = {name: torch.full((5, 6), float(j)) for j, name in enumerate(names)}
    options = {"mask": arrays["mask"], "steps": 2, "source": arrays["source"], "scheme": "central", "form": "advective"}
    options["velocity"] = (arrays["velocity[0]"], arrays["velocity[1]"])
    _step_arguments.straightly("diffuse_convect_step", u, (1.0, 0.1, arrays["nu"]), options)
    assert [float(x.mean()) for x in seen[1:]] == [0.0, 1.0, 2.0, 3.0, 4.0]
    field = _arrays.ArraySpec((5, 6), "float64")
    plan = so.plan_diffuse_convect_step(
        (5, 6), "float64", 1.0, 0.1, field, velocity=(field, field), source=field,
        mask=_arrays.ArraySpec((5, 6), "bool"), device="cuda",
    )  # fmt: skip
    assert tuple(operand.name for operand in plan.operands) == ("u", *names)


@pytest.mark.parametrize(
    ("terms", "fixed"),
    [
        ([so.Diffusion(0.2), so.Advection((0.1, 0.2), "upwind")], True),
        (so.Diffusion(torch.tensor(0.2)), False),
        ((so.Source(torch.zeros(5)),), False),
        (so.Pointwise(lambda u: u), False),
    ],
    ids=["numbers", "a scalar tensor", "a field", "a function"],
)
def test_torch_finds_plans_on_the_host_by_terms_of_numbers_alone(terms: Any, fixed: bool) -> None:
    y = _step_arguments.straightly("pde_step", torch.zeros(4, 5), (1.0, 0.1, terms), {})
    assert (y is not None) is fixed


def test_torch_finds_plans_of_terms_and_transfers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    u = torch.linspace(0, 1, 8).sin()[None]
    calls = (
        lambda: st.pde_step(u, 1.0, 0.1, [so.Diffusion(0.2)], integrator="rk4", axes=-1),
        lambda: st.spectral_filter(u, so.transfer.gaussian(2.0), axes=-1),
    )
    expected = (
        so.pde_step(u, 1.0, 0.1, [so.Diffusion(0.2)], integrator="rk4", axes=-1),
        so.spectral_filter(u, so.transfer.gaussian(2.0), axes=-1),
    )
    monkeypatch.setattr(spectralops.spectral, "spectral_filter", None)
    monkeypatch.setattr("spectralops.pde.pde_step", None)
    for call, right in zip(calls, expected, strict=True):
        torch.testing.assert_close(call(), right)


@pytest.mark.parametrize("kind", [tuple, list])
def test_torch_finds_plans_whatever_the_sequence(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = torch.zeros(1, 2, 8), torch.zeros(2, 2, 3, 2)
    expected = st.spectral_conv(x, w, out_shape=(6,)), st.fourier_resample(x, (6,), axes=-1)
    monkeypatch.setattr(spectralops.spectral, "spectral_conv", None)
    monkeypatch.setattr(spectralops.spectral, "fourier_resample", None)
    found = st.spectral_conv(x, w, out_shape=kind([6])), st.fourier_resample(x, kind([6]), axes=-1)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_torch_plans_are_not_found_by_numbers_of_another_type() -> None:
    x = torch.zeros(2, 8)
    st.fourier_resample(x, (6,), axes=(1,))
    with pytest.raises(TypeError, match="axes"):
        st.fourier_resample(x, (6,), axes=(1.0,))


def test_torch_needs_tensors_of_one_device() -> None:
    meta = torch.zeros(2, 2, 3, 2, device="meta")
    with pytest.raises(TypeError, match="spectral_conv: weight is a"):
        st.spectral_conv(torch.zeros(1, 2, 8), meta)


class Program:
    """Notes its launches."""

    def __init__(self) -> None:
        self.launched: list[Any] = []
        self.ready: set[int] = set()

    def compiled(self, device: int) -> bool:
        return device in self.ready

    def launch(self, device: int, stream: int, addresses: list[int]) -> None:
        self.launched.append((device, stream, addresses))
        self.ready.add(device)


@pytest.fixture
def device(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """PyTorch on device 0, whose memory is the host's."""
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: cupy.state["device"], raising=False)

    def empty(shape: Any, strides: Any, dtype: Any) -> Any:
        return torch.empty_strided(shape, strides, dtype=dtype)

    monkeypatch.setattr(_device, "_empty", lambda: empty)
    return cupy


def prepared(program: Program, space_bytes: int = 0) -> Any:
    return SimpleNamespace(
        space_bytes=space_bytes, calls=lambda operands, out, space: [(program, [*operands, out, space])]
    )


def tensors(program: Program, shape: tuple[int, ...], dtype: str = "float32", space_bytes: int = 0) -> Any:
    """Launches for a tensor of four numbers on device 0."""
    return _device.DirectTensors(prepared(program, space_bytes), 0, [((4,), "float32"), (shape, dtype)])


def test_torch_launches_by_address(device: Any) -> None:
    program, x, w = Program(), torch.zeros(4, 8), torch.zeros(8)
    direct = tensors(program, (2, 3), "float64", space_bytes=64)
    for _ in range(2):
        y = direct.again((x, w))
        assert (y.shape, y.dtype) == ((2, 3), torch.float64)
        number, stream, (first, second, out, space) = program.launched[-1]
        assert (number, stream, first, second, out) == (0, 7, x.data_ptr(), w.data_ptr(), y.data_ptr())
        assert space not in (0, out)
    # The first call, in which kernels are compiled, has PyTorch's stream current in CuPy.
    assert [entry for entry in device.log if entry[0] == "enter"] == [("enter", ("stream", "stream of 0"))]
    assert tensors(program, (2, 3)).again((x,)) is not None
    assert program.launched[-1][2][-1] == 0


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(4, 8).mT,
        torch.zeros(9)[1:],
        torch.zeros(4, dtype=torch.complex64).conj(),
        torch._neg_view(torch.zeros(4)),
    ],
    ids=["strides", "alignment", "conjugate", "negative"],
)
def test_torch_launches_by_address_only_what_lies_as_planned(device: Any, x: Any) -> None:
    program = Program()
    direct = tensors(program, (2,))
    assert direct.again((torch.zeros(4), x)) is None
    device.state["device"] = 1
    assert direct.again((torch.zeros(4),)) is None
    assert not program.launched


def test_torch_launches_plans_only_on_tensors_as_planned(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program, x, out = Program(), torch.zeros(4), torch.zeros(4)
    direct = tensors(program, (4,))
    assert direct((x,)) is None, "of a tensor on the host"
    direct._device = x.device
    assert direct((x,)).shape == (4,)
    others = torch.zeros(2, 2), torch.zeros(4, dtype=torch.int32), x.clone().requires_grad_(), x.to_sparse(), x.numpy()
    for arrays in ((), (x, x), *[(other,) for other in others]):
        assert direct(arrays) is None
    monkeypatch.setattr(_device.DirectTensors, "_fits", lambda self, given: given is out)
    before = out._version
    assert direct((x,), out) is out
    assert out._version == before + 1
    assert len(program.launched) == 2


class Out(SimpleNamespace):
    """What is asked of a result's tensor."""

    def data_ptr(self) -> int:
        return self.address

    def is_contiguous(self) -> bool:
        return self.contiguous

    def is_neg(self) -> bool:
        return self.negative

    def is_conj(self) -> bool:
        return self.conjugate


AS_PLANNED = {
    "dtype": torch.float32, "shape": (2, 3), "layout": torch.strided, "device": torch.device("cuda", 0),
    "requires_grad": False, "address": 32, "contiguous": True, "negative": False, "conjugate": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dtype", torch.float64),
        ("shape", (3, 2)),
        ("layout", torch.sparse_coo),
        ("device", torch.device("cuda", 1)),
        ("device", torch.device("cpu", 0)),
        ("requires_grad", True),
        ("address", 30),
        ("contiguous", False),
        ("negative", True),
        ("conjugate", True),
    ],
    ids=str,
)
def test_torch_writes_by_address_only_where_results_fit(device: Any, name: str, value: Any) -> None:
    direct = tensors(Program(), (2, 3))
    direct._torch = SimpleNamespace(Tensor=Out, strided=torch.strided)
    assert direct._fits(Out(**AS_PLANNED))
    assert not direct._fits(Out(**AS_PLANNED | {name: value}))


def test_torch_launches_programs_on_tensors(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program, x = Program(), SimpleNamespace(data_ptr=lambda: 32)
    for _ in range(2):
        _device.launch(program, 0, x, None)
    assert program.launched == [(0, 7, [32, 0])] * 2
    assert len([entry for entry in device.log if entry[0] == "enter"]) == 1


def test_torch_calls_plans_by_address(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from spectralops._cuda import by_address

    program, made = Program(), []
    monkeypatch.setattr(by_address, "prepared", lambda plan: made.append(plan) or prepared(program))
    _ways.kept.clear()
    plan, x = so.plan_diffusion_step((4, 8), "float32", 1.0, 0.1, 1.0, device="cuda"), torch.zeros(4, 8)
    home = _arrays.Home("torch", "cuda:0")
    for _ in range(2):
        assert _dispatch.run(plan, (x,), home).shape == (4, 8)
    assert (len(made), len(program.launched)) == (1, 2)
    monkeypatch.setattr(_dispatch, "_run_in_own_memory", lambda *_: "looked at")
    assert _dispatch.run(plan, (x[:, ::2],), home) == "looked at"
    with _dispatch.observe(lambda *_: None):
        assert _dispatch.run(plan, (x,), home) == "looked at"
    monkeypatch.setattr(_ways.kept, "most", 1)
    for dt in (0.2, 0.25):
        _dispatch.run(so.plan_diffusion_step((4, 8), "float32", 1.0, dt, 1.0, device="cuda"), (x,), home)
    assert len(_ways.kept) == 1
    nu = _arrays.ArraySpec((4, 1, 1), "float32")  # which is cast first
    plan = so.plan_diffusion_step((4, 3, 8), "float32", 1.0, 0.1, nu, device="cuda")
    assert _dispatch.run(plan, (x, x), home) == "looked at"
    _ways.kept.clear()


FUNCTIONS = {
    "transfer": lambda f: so.plan_spectral_filter((8,), "float32", f, device="cuda"),
    "pointwise": lambda f: so.plan_pde_step((8,), "float32", 1.0, 0.1, so.Pointwise(f), device="cuda"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_caller_do_not_live_on(name: str) -> None:
    """They may hold anything, such as fields."""
    _ways.kept.clear()
    function = lambda k: np.exp(-k * k)  # noqa: E731
    alive = weakref.ref(function)
    plan = FUNCTIONS[name](function)
    assert _ways.run(plan, (torch.zeros(8),), _arrays.Home("torch", "cuda:0"), None) is None
    assert not _ways.kept
    del plan, function
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("name", st.__all__)
def test_torch_names_pickle(name: str) -> None:
    assert pickle.loads(pickle.dumps(getattr(st, name))) is getattr(st, name)


def test_torch_face_loads_no_compiler() -> None:
    """Nor what symbolic shapes are written with: seconds for those who never compile."""
    code = (
        "import sys, torch; before = set(sys.modules); import spectralops.torch; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - before}, "
        "*(name for name in set(sys.modules) - before if name.startswith('torch.')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "spectralops" in loaded
    assert not {"sympy", "numba", "scipy", "cupy"} & set(loaded)
    assert not [name for name in loaded if name.startswith(("torch._dynamo", "torch._inductor", "torch.fx"))]
