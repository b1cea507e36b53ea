"""What the two training examples share: a spectral layer in plain PyTorch, the training, and the figure's curves."""

from __future__ import annotations

import argparse
import copy
import os
import time
from pathlib import Path

import torch
from torch import nn

from spectralops import torch as st


class PlainBlock(nn.Module):
    """The same layer as usually written: whole transforms, the modes cut out, einsum, zeros, whole transforms."""

    def __init__(self, block: st.FNOBlock) -> None:
        super().__init__()
        self.weight, self.bias = block.convolution.weight, block.convolution.bias
        self.skip, self.activation = block.skip, block.activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.view_as_complex(self.weight)
        axes, sizes = tuple(range(2, x.ndim)), x.shape[2:]
        kept = [torch.arange(-(m // 2), m // 2 + m % 2) % n for m, n in zip(weight.shape[2:-1], sizes, strict=False)]
        kept = torch.meshgrid(*kept, torch.arange(weight.shape[-1]), indexing="ij")
        modes = torch.fft.rfftn(x, dim=axes, norm="forward")
        out = modes.new_zeros(modes.shape[0], weight.shape[1], *modes.shape[2:])
        out[(..., *kept)] = torch.einsum("bi...,io...->bo...", modes[(..., *kept)], weight)
        y = torch.fft.irfftn(out, s=sizes, dim=axes, norm="forward") + self.bias + self.skip(x)
        return y if self.activation is None else self.activation(y)


def with_plain_layers(model: st.FNO) -> st.FNO:
    """A copy of the model, its parameters too, with plain layers."""
    model = copy.deepcopy(model)
    model.blocks = nn.ModuleList(map(PlainBlock, model.blocks))
    return model


def error(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Relative error in the L2 norm, averaged over the samples."""
    return ((y - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)).mean()


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int = 20) -> list[float]:
    """Adam with a falling learning rate on mean squares, relative to those of the targets; their mean in each epoch."""
    scale = y.square().mean()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    order = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for picked in torch.randperm(len(x), generator=order).split(batch):
            optimiser.zero_grad()
            loss = (model(x[picked]) - y[picked]).square().mean() / scale
            loss.backward()
            optimiser.step()
            total += loss.item() * len(picked)
        schedule.step()
        losses.append(total / len(x))
    return losses


def compare(modes, train_set, test_sets, epochs: int, hidden: int):
    """Train both kinds of layers from the same seed; the trained model, and both curves."""
    torch.manual_seed(0)
    fused = st.FNO(modes, 1, 1, hidden_channels=hidden, n_layers=3)
    plain = with_plain_layers(fused)
    curves = {}
    for name, model in (("spectralops", fused), ("plain PyTorch", plain)):
        start = time.perf_counter()
        curves[name] = train(model, *train_set, epochs)
        seconds = time.perf_counter() - start
        with torch.no_grad():
            errors = ", ".join(f"{label} {error(model(x), y):.4f}" for label, (x, y) in test_sets.items())
        print(f"{name:>13}: training loss {curves[name][-1]:.3e}, test error {errors} ({seconds:.1f} s)")
    ours, theirs = (curve[-1] for curve in curves.values())
    print(f"the training losses differ by {100 * abs(ours - theirs) / theirs:.3f} %")
    assert abs(ours - theirs) < 0.02 * theirs
    return fused, curves


def arguments(text: str, samples: int, epochs: int) -> argparse.Namespace:
    """The options of both examples."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--samples", type=int, default=samples, help="size of the training set")
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--figure", type=Path, help="write a figure to this file")
    return parser.parse_args()


def data_file(name: str) -> Path | None:
    """A file of the test data, if there is one."""
    folder = os.environ.get("SPECTRALOPS_TEST_DATA")
    path = Path(folder or ".") / name
    return path if folder and path.exists() else None


def draw_curves(axes, curves: dict[str, list[float]]) -> None:
    for (name, curve), style in zip(curves.items(), ("-", "--"), strict=True):
        axes.semilogy(range(1, len(curve) + 1), curve, style, label=name)
    axes.set(xlabel="epoch", ylabel="training loss, relative mean square")
    axes.legend()
