"""Training tools of PyTorch on the host: data parallelism and sharding by gloo, fused optimisers, scaling, autocast."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import distributed  # noqa: E402

from spectralops import torch as st  # noqa: E402


@pytest.fixture
def group():
    """A process group of this process alone, which goes through all of the same collectives."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def make() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    return st.FNO((4, 4), 1, 1, 4, 2), torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)


def losses(model: Any, optimiser: Any, x: Any, target: Any, steps: int = 4) -> list[float]:
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


def plain() -> list[float]:
    model, x, target = make()
    return losses(model, torch.optim.AdamW(model.parameters(), lr=1e-2), x, target)


def test_torch_fused_optimiser_takes_the_parameters() -> None:
    model, x, target = make()
    found = losses(model, torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True), x, target)
    assert found == pytest.approx(plain(), rel=1e-5)


def test_torch_distributed_data_parallel(group: None) -> None:
    model, x, target = make()
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    found = losses(parallel, torch.optim.AdamW(parallel.parameters(), lr=1e-2, fused=True), x, target)
    assert found == pytest.approx(plain(), rel=1e-5)


def test_torch_fully_sharded(group: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (1,))
    model, x, target = make()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    found = losses(model, torch.optim.AdamW(model.parameters(), lr=1e-2), x, target)
    assert found == pytest.approx(plain(), rel=1e-5)


def test_torch_gradient_scaler() -> None:
    model, x, target = make()
    optimiser, scaler = torch.optim.AdamW(model.parameters(), lr=1e-2), torch.amp.GradScaler("cpu")
    found = []
    for _ in range(4):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        found.append(loss.item())
    assert found == pytest.approx(plain(), rel=1e-4)


def test_torch_autocast() -> None:
    model, x, _ = make()
    expected = model(x).detach()
    with torch.autocast("cpu", torch.bfloat16):
        y = model(x)
    y.float().square().sum().backward()
    assert float((y.detach().float() - expected).norm()) <= 2e-2 * float(expected.norm())
    assert all(p.grad is not None and p.grad.dtype is torch.float32 for p in model.parameters())
