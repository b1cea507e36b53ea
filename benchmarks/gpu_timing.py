"""What the benchmarks of a CUDA device share: times by its clock, errors of results, what results files say."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from triton.testing import do_bench

import spectralops


def median_us(function: Callable[[], Any]) -> float:
    """Median time on the device, its second-level cache flushed between calls."""
    return float(do_bench(function, warmup=5, rep=40, return_mode="median")) * 1e3


def copy_bytes_per_us() -> float:
    """Bytes read and written by a large copy."""
    a = torch.randn(1 << 28, device="cuda")
    b = torch.empty_like(a)
    return 2 * a.numel() * 4 / median_us(lambda: b.copy_(a))


def relative_error(result: Any, expected: torch.Tensor) -> float:
    """L2 norm of the difference over that of the right result."""
    values = torch.as_tensor(result, device="cuda")
    values = values.to(torch.complex128 if values.is_complex() else torch.float64)
    assert torch.isfinite(torch.view_as_real(values) if values.is_complex() else values).all(), "not finite"
    return float((values - expected).norm() / expected.norm())


def write(path: Path, rows: dict[str, dict[str, Any]], **more: Any) -> None:
    """The rows, and on what and with what they were measured."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    facts = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "cupy": _cupy(),
        "python": platform.python_version(),
        "spectralops": spectralops.__version__,
        "commit": commit,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"facts": facts | more, "rows": rows}, indent=1) + "\n")


def _cupy() -> str | None:
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
