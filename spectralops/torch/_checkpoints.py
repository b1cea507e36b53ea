"""State dictionaries of other libraries' spectral convolutions, brought to this one's form while loading."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["adapted"]


def adapted(state: dict[str, Any], prefix: str, modes: tuple[int, ...], complex_parameters: bool) -> None:
    """Replace what a checkpoint holds of the weight under `prefix` by the entry ``weight`` in the layer's form.

    neuraloperator keeps a complex ``weight.tensor`` in the same order. The original layers of the Fourier neural
    operator keep one block for each corner of the spectrum: ``weights1`` the nonnegative wavenumbers, ``weights2`` the
    negative ones of the first axis, ``weights3`` and ``weights4`` likewise those of the second. Factors have the same
    names everywhere.
    """
    corners = [key for key in (f"{prefix}weights{j}" for j in (1, 2, 3, 4)) if key in state]
    if f"{prefix}weight.tensor" in state:
        weight = state.pop(f"{prefix}weight.tensor")
    elif corners:
        weight = centred([_as_complex(state.pop(key), len(modes)) for key in corners])
    elif f"{prefix}weight" in state:
        weight = state[f"{prefix}weight"]
    else:  # factors, or nothing
        for key in [key for key in state if key.startswith(f"{prefix}weight.")]:
            state[key] = _converted(state[key], complex_parameters)
        return
    state[f"{prefix}weight"] = _converted(weight, complex_parameters)


def _converted(values: Tensor, to_complex: bool) -> Tensor:
    if values.is_complex() == to_complex:
        return values
    return torch.view_as_complex(values.contiguous()) if to_complex else torch.view_as_real(values.resolve_conj())


def _as_complex(block: Tensor, order: int) -> Tensor:
    return block if block.is_complex() or block.ndim == 2 + order else torch.view_as_complex(block.contiguous())


def centred(blocks: list[Tensor]) -> Tensor:
    """Blocks of the corners (+), (-) or (+, +), (-, +), (+, -), (-, -) as one weight of increasing wavenumbers."""
    if len(blocks) == 1:
        return blocks[0]
    if len(blocks) == 2:
        return torch.cat([blocks[1], blocks[0]], 2)
    low, high = (torch.cat([blocks[j + 1], blocks[j]], 2) for j in (0, 2))
    return torch.cat([high, low], 3)
