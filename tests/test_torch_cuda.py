"""PyTorch on CUDA devices: memory, streams, graphs, devices, training tools. Every test needs a device."""

from __future__ import annotations

import copy
import functools
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import spectralops as so  # noqa: E402
from spectralops import _interchange  # noqa: E402
from spectralops import torch as st  # noqa: E402
from spectralops.errors import UnsupportedError  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    # PyTorch's own forward mode still uses its deprecated compiler.
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty"),  # where a refusal came first
]


def make(*shape: int, dtype: Any = torch.float32, seed: int = 0, device: str = "cuda") -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=dtype, generator=generator).to(device)


@functools.cache
def operand(*shape: int, dtype: Any = torch.float32, seed: int = 0, device: Any = "cuda") -> Any:
    """Made once: neither a graph nor a call that must not wait may copy it from the host."""
    return make(*shape, dtype=dtype, seed=seed, device=device)


def weight(device: Any = "cuda") -> Any:
    return operand(3, 4, 4, 3, 2, seed=1, device=torch.device(device))


# name -> function of a field (2, 3, 16, 12), with operands that lie where it lies
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "filter": lambda x: st.spectral_filter(x, operand(16, 7, dtype=torch.complex64, seed=2, device=x.device)),
    "conv": lambda x: st.spectral_conv(x, weight(x.device)),
    "conv to another grid": lambda x: st.spectral_conv(x, weight(x.device), out_shape=(20, 10)),
    "diffusion": lambda x: st.diffusion_step(x, 1.0, 0.1, 0.3, steps=3),
    "convection": lambda x: st.convection_step(x, (0.2, -0.3), 1.0, 0.1, steps=2),
    "Burgers": lambda x: st.diffuse_convect_step(x, 1.0, 0.01, 0.3, on_unstable="ignore"),
    "rk4": lambda x: st.pde_step(x, 1.0, 0.1, [so.Diffusion(0.2)], integrator="rk4"),
    "field of diffusivity": lambda x: st.diffusion_step(
        x, 1.0, 0.1, operand(16, 12, seed=5, device=x.device).square() * 0.1
    ),
    "every array": lambda x: st.diffuse_convect_step(
        x, 1.0, 0.01, operand(16, 12, seed=5, device=x.device) ** 2,
        velocity=(operand(16, 12, seed=6, device=x.device),) * 2, source=operand(16, 12, seed=7, device=x.device),
        mask=operand(16, 12, seed=8, device=x.device) > -1.5,
    ),
}  # fmt: skip
# What the plain pipelines run, which cannot be captured.
PLAIN: dict[str, Callable[[Any], Any]] = {
    "resample": lambda x: st.fourier_resample(x, (18, 20)),
    "four axes": lambda x: st.spectral_filter(x, operand(2, 3, 16, 7, seed=3, device=x.device), axes=(0, 1, 2, 3)),
}
EVERY = OPERATORS | PLAIN


def close(a: Any, b: Any, tolerance: float = 2e-5) -> None:
    a, b = a.detach().cpu().double(), b.detach().cpu().double()
    assert a.shape == b.shape
    assert float((a - b).norm()) <= tolerance * float(b.norm())


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results start as NaN, so that an element which nobody writes shows."""
    allocate = _interchange.own_result
    monkeypatch.setattr(_interchange, "own_result", lambda *arguments: allocate(*arguments).fill_(float("nan")))


@pytest.mark.parametrize("name", EVERY)
def test_torch_cuda_values_and_gradients(name: str, poisoned: None) -> None:
    x, on_host = (make(2, 3, 16, 12, device=device).requires_grad_() for device in ("cuda", "cpu"))
    y, expected = EVERY[name](x), EVERY[name](on_host)
    close(y, expected.detach())
    (got,) = torch.autograd.grad(y.square().sum(), x)
    close(got, torch.autograd.grad(expected.square().sum(), on_host)[0])
    with torch.no_grad():
        close(EVERY[name](x), expected.detach())


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_cuda_takes_all_memory_from_torch(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    x = make(2, 3, 16, 12)
    for _ in range(2):
        OPERATORS[name](x)
    pool = cupy.get_default_memory_pool()
    before, allocations = pool.total_bytes(), []
    hook = type("Hook", (cupy.cuda.MemoryHook,), {
        "name": "count", "alloc_preprocess": lambda self, **k: allocations.append(k),
        "malloc_preprocess": lambda self, **k: allocations.append(k),
    })()  # fmt: skip
    with hook:
        y = OPERATORS[name](x)
    assert pool.total_bytes() == before
    assert not allocations
    assert y.untyped_storage().nbytes() == y.numel() * y.element_size()


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_cuda_never_waits_for_the_device(name: str) -> None:
    x = make(2, 3, 16, 12).requires_grad_()
    OPERATORS[name](x).sum().backward()
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        OPERATORS[name](x).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def slow_fill(x: Any, value: float) -> None:
    """Fill after much work on the current stream, which another stream would overtake."""
    torch.cuda._sleep(20_000_000)
    x.fill_(value)


@pytest.mark.parametrize("name", EVERY)
def test_torch_cuda_runs_on_the_current_stream(name: str) -> None:
    x = make(2, 3, 16, 12)
    expected = EVERY[name](torch.full_like(x, 1.5))
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        slow_fill(x, 1.5)
        y = EVERY[name](x)
    side.synchronize()
    torch.testing.assert_close(y, expected)


def test_torch_cuda_autograd_on_a_side_stream() -> None:
    w = weight().requires_grad_()
    x = make(2, 3, 16, 12).requires_grad_()
    expected = torch.autograd.grad(st.spectral_conv(x, w).square().sum(), (x, w))
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        late = torch.empty_like(x).requires_grad_()
        with torch.no_grad():
            torch.cuda._sleep(20_000_000)
            late.copy_(x)
        y = st.spectral_conv(late, w).square().sum()
    got = torch.autograd.grad(y, (late, w))  # the engine runs each node on the stream of its forward
    torch.cuda.current_stream().wait_stream(side)
    torch.testing.assert_close(got, expected)


def captured(function: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = function(x)
    return graph, y


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_cuda_graph_replays_with_other_values(name: str) -> None:
    x = make(2, 3, 16, 12)
    OPERATORS[name](x)
    graph, y = captured(OPERATORS[name], x)
    new = make(2, 3, 16, 12, seed=9)
    x.copy_(new)
    # Whatever is allocated between replays must not lie in the graph's memory.
    rubbish = [torch.full((2, 3, 16, 12), float("nan"), device="cuda") for _ in range(50)]
    graph.replay()
    close(y, OPERATORS[name](new))
    graph.replay()
    close(y, OPERATORS[name](new))
    del rubbish


def test_torch_cuda_graph_of_passes_that_wait_for_one_another() -> None:
    def function(x: Any) -> Any:
        return st.diffusion_step(x, 1.0, 0.1, 0.3, steps=40)

    x = make(64, 48)
    function(x)
    graph, y = captured(function, x)
    for seed in (9, 10):
        new = make(64, 48, seed=seed)
        x.copy_(new)
        graph.replay()
        assert torch.equal(y, function(new))


def test_torch_cuda_graph_of_a_training_step() -> None:
    torch.manual_seed(0)
    model = st.FNO((8, 8), 1, 1, 8, 2).cuda()
    other = copy.deepcopy(model)
    x, target = make(2, 1, 16, 16), make(2, 1, 16, 16, seed=1)

    def trainer(model: Any) -> Callable[[], Any]:
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True, capturable=True)

        def step() -> Any:
            optimiser.zero_grad(set_to_none=True)
            loss = torch.nn.functional.mse_loss(model(x), target)
            loss.backward()
            optimiser.step()
            return loss

        return step

    eager, graphed = trainer(other), trainer(model)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            graphed()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = graphed()
    for _ in range(3):
        eager()
    for _ in range(4):
        graph.replay()
        expected = eager()
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("what", ["kernels", "tables"])
def test_torch_cuda_capture_without_warm_up_is_refused(what: str) -> None:
    from spectralops._cuda import module

    n = {"kernels": 28, "tables": 42}[what]
    x, h = make(3, n), make(n // 2 + 1)
    if what == "kernels":
        module.clear()
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(UnsupportedError, match=r"^CUDA graph: .* call once before capture$"), torch.cuda.graph(graph):
        st.spectral_filter(x, h, axes=-1)
    close(st.spectral_filter(x, h, axes=-1), st.spectral_filter(x.cpu(), h.cpu(), axes=-1))


@pytest.mark.parametrize("name", PLAIN)
def test_torch_cuda_capture_of_plain_pipelines_is_refused(name: str) -> None:
    x = make(2, 3, 16, 12)
    PLAIN[name](x)
    message = r"backend is 'cupy', but must be 'cuda' while a CUDA graph is captured"
    with pytest.raises(UnsupportedError, match=message), torch.cuda.graph(torch.cuda.CUDAGraph()):
        PLAIN[name](x)


def test_torch_cuda_graphs_of_compiled_code() -> None:
    """Inductor's own use of graphs."""
    w = weight()
    function = torch.compile(lambda x: st.spectral_conv(x, w).sin(), mode="reduce-overhead", fullgraph=True)
    with torch.no_grad():
        for seed in range(4):
            x = make(2, 3, 16, 12, seed=seed)
            torch.compiler.cudagraph_mark_step_begin()
            close(function(x).clone(), st.spectral_conv(x, w).sin())


@pytest.mark.parametrize("name", EVERY)
def test_torch_cuda_second_device(name: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device")
    first, second = (make(2, 3, 16, 12, device=f"cuda:{k}").requires_grad_() for k in range(2))
    expected = EVERY[name](first)
    with torch.cuda.device(0):  # not that of the tensor
        y = EVERY[name](second)
        assert y.device == second.device
        close(y.detach(), expected.detach())
        (got,) = torch.autograd.grad(y.square().sum(), second)
    close(got, torch.autograd.grad(expected.square().sum(), first)[0])
    assert torch.cuda.current_device() == 0


def test_torch_cuda_devices_do_not_mix() -> None:
    message = r"weight is a torch array on cpu, but must be a torch array on cuda:0 like x"
    with pytest.raises(TypeError, match=message):
        st.spectral_conv(make(2, 3, 16, 12), weight("cpu"))


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_cuda_two_threads(name: str) -> None:
    fields = [make(2, 3, 16, 12, seed=seed) for seed in range(2)]
    expected = [OPERATORS[name](x) for x in fields]
    found: list[list[Any]] = [[], []]

    def work(k: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            found[k] = [OPERATORS[name](fields[k]) for _ in range(50)]
            torch.cuda.current_stream().synchronize()

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for results, right in zip(found, expected, strict=True):
        assert len(results) == 50
        assert all(torch.equal(result, right) for result in results)


@pytest.mark.parametrize("name", ["filter", "diffusion"])
def test_torch_cuda_first_call_of_a_thread(name: str) -> None:
    """A thread that has called nothing of CUDA's before."""
    x = make(2, 3, 16, 12)
    expected, found = OPERATORS[name](x), []
    thread = threading.Thread(target=lambda: found.append(OPERATORS[name](x)))
    torch.cuda.synchronize()
    thread.start()
    thread.join()
    assert torch.equal(found[0], expected)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "columns first": lambda x: x.mT.contiguous().mT,
    "every other": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda x: x[:1].expand(2, -1, -1, -1),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "off alignment": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", EVERY)
def test_torch_cuda_layouts(name: str, layout: str) -> None:
    x = LAYOUTS[layout](make(2, 3, 16, 12))
    before = x.clone()
    close(EVERY[name](x), EVERY[name](before.contiguous()), 1e-6)
    assert torch.equal(x, before)


def test_torch_cuda_lazy_bits() -> None:
    z = make(2, 16, 12, dtype=torch.complex64)
    h = make(16, 12, dtype=torch.complex64, seed=1)
    for lazy, transfer in ((z.conj(), h), (z.conj().imag, h[:, :7])):
        assert lazy.is_conj() or lazy.is_neg()
        plain = lazy.resolve_conj().resolve_neg().clone()
        for given in (transfer.contiguous(), transfer.contiguous().conj()):
            got = st.spectral_filter(lazy, given)
            assert torch.equal(got, st.spectral_filter(plain, given.resolve_conj()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_torch_cuda_half_storage(dtype: Any) -> None:
    x = make(2, 3, 16, 12).to(dtype)
    y = st.spectral_conv(x, weight())
    assert y.dtype is dtype
    assert torch.equal(y, st.spectral_conv(x.float(), weight()).to(dtype))


@pytest.mark.parametrize("shape", [(0, 3, 16, 12), (2, 3, 0, 12)])
def test_torch_cuda_nothing_to_do(shape: tuple[int, ...]) -> None:
    assert st.diffusion_step(torch.empty(shape, device="cuda"), 1.0, 0.1, 0.3).shape == shape


def test_torch_cuda_out_is_filled() -> None:
    x, w = make(2, 3, 16, 12), weight()
    out = torch.empty(2, 4, 16, 12, device="cuda")
    assert so.spectral_conv(x, w, out=out) is out
    torch.testing.assert_close(out, st.spectral_conv(x, w))
    half = torch.empty(2, 3, 16, 12, device="cuda", dtype=torch.bfloat16)
    so.diffusion_step(x.bfloat16(), 1.0, 0.1, 0.3, out=half)
    assert torch.equal(half, so.diffusion_step(x.bfloat16(), 1.0, 0.1, 0.3))
    spaced = torch.empty(2, 3, 16, 24, device="cuda")[..., ::2]
    so.diffusion_step(x, 1.0, 0.1, 0.3, out=spaced)
    assert torch.equal(spaced, so.diffusion_step(x, 1.0, 0.1, 0.3))


def test_torch_cuda_results_outlive_what_they_came_from() -> None:
    y = st.diffusion_step(make(2, 3, 16, 12), 1.0, 0.1, 0.3)
    expected = y.clone()
    rubbish = [torch.full_like(y, float("nan")) for _ in range(50)]
    assert torch.equal(y, expected)
    del rubbish


def test_torch_cuda_autocast() -> None:
    torch.manual_seed(0)
    block = st.FNOBlock(4, (4, 4)).cuda()
    x = make(2, 4, 16, 12)
    expected = block(x)
    with torch.autocast("cuda", torch.bfloat16):
        y = block(x)
    y.float().square().sum().backward()
    close(y.float().detach(), expected.detach(), 2e-2)
    assert all(p.grad.dtype is torch.float32 and torch.isfinite(p.grad).all() for p in block.parameters())


def test_torch_cuda_scaler_and_fused_optimiser() -> None:
    torch.manual_seed(0)
    model = st.FNO((8, 8), 1, 1, 8, 2).cuda()
    x, target = make(2, 1, 16, 16), make(2, 1, 16, 16, seed=1)
    optimiser, scaler = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True), torch.amp.GradScaler("cuda")
    losses = []
    for _ in range(12):
        optimiser.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = torch.nn.functional.mse_loss(model(x).float(), target)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_torch_cuda_compiles_whole_with_dynamic_shapes() -> None:
    w = weight().requires_grad_()
    function = torch.compile(lambda x: st.spectral_conv(x, w).sin().sum(), fullgraph=True, dynamic=True)
    for n in (16, 12, 20):
        x = make(2, 3, n, 12).requires_grad_()
        got = torch.autograd.grad(function(x), (x, w))
        expected = torch.autograd.grad(st.spectral_conv(x, w).sin().sum(), (x, w))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def train(rank: int, world: int, kind: str, port: str, found: Any) -> None:
    """One process of a data-parallel run: its loss after some steps, on its share of the batch."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    torch.manual_seed(0)
    model: Any = st.FNO((8, 8), 1, 1, 8, 2).cuda()
    if kind == "DDP":
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    else:
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    x, target = (make(2 * world, 1, 16, 16, seed=seed)[2 * rank : 2 * rank + 2] for seed in (0, 1))
    for _ in range(5):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimiser.step()
    loss = loss.detach() / world
    torch.distributed.all_reduce(loss)
    if rank == 0:
        found.put(loss.item())
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("kind", ["DDP", "FSDP2"])
def test_torch_cuda_data_parallel_training(kind: str) -> None:
    """As many processes as devices, also one: the same loss as one process on the whole batch."""
    world = min(torch.cuda.device_count(), 2)
    context = torch.multiprocessing.get_context("spawn")
    found = context.Queue()
    port = str(29500 + os.getpid() % 1000 + (kind == "DDP"))
    processes = [context.Process(target=train, args=(rank, world, kind, port, found)) for rank in range(world)]
    for process in processes:
        process.start()
    loss = found.get(timeout=120)
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    torch.manual_seed(0)
    model = st.FNO((8, 8), 1, 1, 8, 2).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    x, target = (make(2 * world, 1, 16, 16, seed=seed) for seed in (0, 1))
    for _ in range(5):
        optimiser.zero_grad()
        expected = torch.nn.functional.mse_loss(model(x), target)
        expected.backward()
        optimiser.step()
    assert loss == pytest.approx(expected.item(), rel=1e-3)


@pytest.mark.parametrize("name", ["read-only", "zero size"])
def test_torch_cuda_handoff_by_dlpack(name: str) -> None:
    """CuPy's arrays in both directions, through DLPack alone."""
    cupy = pytest.importorskip("cupy")
    x = make(*((2, 3) if name == "read-only" else (0, 3)))
    there = cupy.from_dlpack(x)
    back = torch.from_dlpack(so.diffusion_step(there, 1.0, 0.1, 0.3))
    assert np.array_equal(back.cpu().numpy(), so.diffusion_step(x, 1.0, 0.1, 0.3).cpu().numpy())
