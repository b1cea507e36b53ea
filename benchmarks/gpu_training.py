"""Training step of a Fourier neural operator on a CUDA device, beside the same model of plain PyTorch operations.

    python benchmarks/gpu_training.py [--json FILE] [--profile]

Both models have the same parameters, data, loss, optimiser and TF32 setting; their losses and gradients are compared
before anything is timed. Times are medians of CUDA events around a whole step (forward, backward, optimiser), the two
models by turns, eager and as replayed CUDA graphs; `peak` is the most memory that PyTorch had allocated in a step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from gpu_timing import write
from torch import Tensor, nn
from torch.nn import functional

from spectralops import torch as st

BATCH, CHANNELS, SIZE, MODES, LAYERS = 16, 64, 128, 16, 4
ROUNDS, STEPS = 9, 10
GOAL = 2.5


class PlainConv(nn.Module):
    """Whole transforms, the corners of kept modes times weights by einsum, transform back.

    cuFFT's real inverse in two dimensions takes other imaginary parts into account than NumPy's where the weights give
    a spectrum that no real field has; results are compared with NumPy's inverse (`exact`), times with the usual one.
    """

    exact = False

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty_like(weight))  # real, since fused optimisers take no complex parameters
        self.bias = nn.Parameter(torch.empty_like(bias))

    def forward(self, v: Tensor) -> Tensor:
        weight = torch.view_as_complex(self.weight)
        m, half = weight.shape[-2] // 2, weight.shape[-1]
        spectrum = torch.fft.rfft2(v, norm="forward")
        mixed = torch.zeros(v.shape[0], weight.shape[1], *spectrum.shape[-2:], dtype=spectrum.dtype, device=v.device)
        mixed[..., :m, :half] = torch.einsum("bikl,iokl->bokl", spectrum[..., :m, :half], weight[..., m:, :])
        mixed[..., -m:, :half] = torch.einsum("bikl,iokl->bokl", spectrum[..., -m:, :half], weight[..., :m, :])
        if self.exact:
            mixed = torch.fft.ifft(mixed, dim=-2, norm="forward")
            # A real inverse in one dimension ignores what it should, but not at every length.
            mixed = torch.cat([mixed[..., :1].real + 0j, mixed[..., 1:]], -1)
            return torch.fft.irfft(mixed, n=v.shape[-1], norm="forward") + self.bias
        return torch.fft.irfft2(mixed, s=v.shape[-2:], norm="forward") + self.bias


class PlainBlock(nn.Module):
    def __init__(self, block: st.FNOBlock) -> None:
        super().__init__()
        self.convolution = PlainConv(block.convolution.weight, block.convolution.bias)
        self.skip = at_points(CHANNELS, CHANNELS)
        self.activation = block.activation

    def forward(self, v: Tensor) -> Tensor:
        y = self.convolution(v) + self.skip(v.flatten(2)).unflatten(2, v.shape[2:])
        return y if self.activation is None else functional.gelu(y)


class PlainFNO(nn.Module):
    """The same model with the same names of parameters."""

    def __init__(self, model: st.FNO) -> None:
        super().__init__()
        self.lifting = at_points(3, 2 * CHANNELS, CHANNELS)
        self.blocks = nn.ModuleList(map(PlainBlock, model.blocks))
        self.projection = at_points(CHANNELS, 2 * CHANNELS, 1)
        self.cuda().load_state_dict(model.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[-1]
        line = torch.linspace(0, 1, n, device=x.device).expand(x.shape[0], 1, n, n)
        v = self.lifting(torch.cat([x, line.mT, line], 1).flatten(2)).unflatten(2, (n, n))
        for block in self.blocks:
            v = block(v)
        return self.projection(v.flatten(2)).unflatten(2, (n, n))


def at_points(*channels: int) -> nn.Sequential:
    maps: list[nn.Module] = []
    for read, written in pairwise(channels):
        maps += [nn.GELU(), nn.Conv1d(read, written, 1)]
    return nn.Sequential(*maps[1:])


class Trained:
    """One model with its optimiser, as a step that runs eagerly or as a graph."""

    def __init__(self, model: nn.Module, x: Tensor, target: Tensor) -> None:
        self.model, self.x, self.target = model, x, target
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=True)
        self.graph: torch.cuda.CUDAGraph | None = None

    def step(self) -> Tensor:
        self.optimiser.zero_grad(set_to_none=True)
        loss = functional.mse_loss(self.model(self.x), self.target)
        loss.backward()
        self.optimiser.step()
        return loss

    def peak(self) -> float:
        """Mebibytes that a step takes beyond what lives between steps."""
        self.optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        self.step()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**20

    def captured(self) -> Callable[[], Any]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.optimiser.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()
        return self.graph.replay


def milliseconds(steps: list[Callable[[], Any]]) -> list[list[float]]:
    """Times of a step of each, by turns."""
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(ROUNDS):
        for found, step in zip(times, steps, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            step()
            begin.record()
            for _ in range(STEPS):
                step()
            end.record()
            torch.cuda.synchronize()
            found.append(begin.elapsed_time(end) / STEPS)
    return times


def row(times: list[list[float]]) -> dict[str, Any]:
    ours, plain = times
    ratios = [b / a for a, b in zip(ours, plain, strict=True)]
    return {
        "ours_ms": statistics.median(ours),
        "torch_ms": statistics.median(plain),
        "ratio": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
    }


def agreement(ours: nn.Module, plain: nn.Module, x: Tensor, target: Tensor) -> float:
    """Largest relative difference of a gradient, after that of the losses was found small."""
    PlainConv.exact = True
    losses = [functional.mse_loss(model(x), target) for model in (ours, plain)]
    torch.testing.assert_close(*losses, rtol=1e-4, atol=0)
    gradients = [torch.autograd.grad(loss, list(model.parameters()))
                 for loss, model in zip(losses, (ours, plain), strict=True)]  # fmt: skip
    PlainConv.exact = False
    return max(float((a - b).norm() / b.norm()) for a, b in zip(*gradients, strict=True))


def profile(name: str, step: Callable[[], Any]) -> None:
    activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as found:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
    print(name)
    events = sorted(found.key_averages(), key=lambda event: -event.self_device_time_total)
    for event in events[:22]:
        print(f"  {event.self_device_time_total / 5:9.1f} us {event.count / 5:6.1f}x  {event.key[:110]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    x, target = (torch.randn(BATCH, 1, SIZE, SIZE, device="cuda") for _ in range(2))
    rows: dict[str, dict[str, Any]] = {}
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        model = st.FNO((2 * MODES, 2 * MODES - 1), 1, 1, CHANNELS, LAYERS).cuda()
        plain = PlainFNO(model)
        begin = time.perf_counter()
        error = agreement(model, plain, x, target)
        first = time.perf_counter() - begin
        limit = 5e-2 if tf32 else 2e-3
        if error > limit:
            raise SystemExit(f"gradients differ by {error:.1e} from those of the plain model, more than {limit:.0e}")
        pair = [Trained(each, x, target) for each in (model, plain)]
        for each in pair:
            for _ in range(3):
                each.step()
        peaks = [each.peak() for each in pair]
        if options.profile:
            for name, each in zip(("ours", "torch"), pair, strict=True):
                profile(f"{name}, TF32 {tf32}", each.step)
        eager = row(milliseconds([each.step for each in pair]))
        graphs = row(milliseconds([each.captured() for each in pair]))
        memory = {"ours_peak_MiB": peaks[0], "torch_peak_MiB": peaks[1], "gradients_differ": error}
        for kind, found in (("eager", eager), ("graph", graphs)):
            rows[f"{kind}, TF32 {'on' if tf32 else 'off'}"] = found | memory
        del pair, model, plain
        torch.cuda.empty_cache()
        print(f"first forward and backward of both: {first:.1f} s")
    for name, found in rows.items():
        print(
            f"{name:16} ours {found['ours_ms']:7.3f} ms  torch {found['torch_ms']:7.3f} ms  ratio {found['ratio']:.2f} "
            f"({found['ratio_range'][0]:.2f} to {found['ratio_range'][1]:.2f}, goal {GOAL})  peak "
            f"{found['ours_peak_MiB']:.0f} of {found['torch_peak_MiB']:.0f} MiB  err {found['gradients_differ']:.0e}"
        )
    if options.json:
        model_line = f"{LAYERS} layers, batch {BATCH}, {CHANNELS} channels, {SIZE} x {SIZE}, modes {MODES}, float32"
        write(options.json, rows, model=model_line, goal=GOAL)


if __name__ == "__main__":
    main()
