"""The tool that reads machine code: which loops it finds, and that it tells vector code from scalar code."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "vectorised.py"

LOOPS = """
kernel:
\tvmovsd\t(%rdi), %xmm0
\tvaddsd\t%xmm0, %xmm0, %xmm1
.LBB0_1:
\tmovq\t%rax, %rcx
.LBB0_2:
\tvmovupd\t(%rdi,%rcx,8), %ymm2
\tvaddpd\t%ymm2, %ymm0, %ymm2  # a comment
\tvfmadd231pd\t%ymm2, %ymm0, %ymm3
\tvmovupd\t%ymm2, (%rsi,%rcx,8)
\tjl\t.LBB0_2
\tvmulpd\t%zmm1, %zmm1, %zmm1
\tcmpq\t%rax, %rbx
\tjne\t.LBB0_1
.LBB0_3:
\tmulss\t(%rdi), %xmm0
\tdecq\t%rax
\tjg\t.LBB0_3
.LBB0_4:
\tincq\t%rax
\tjb\t.LBB0_4
\tja\t.LBB0_5
.LBB0_5:
\tretq
"""


def test_innermost_loops_are_told_apart() -> None:
    if not TOOL.exists():
        pytest.skip("tools are not part of this checkout")
    spec = importlib.util.spec_from_file_location("vectorised", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    sys.modules["vectorised"] = tool
    spec.loader.exec_module(tool)
    vector, scalar = tool.innermost_loops(LOOPS)
    assert (vector.packed, vector.scalar, vector.bits, vector.main) == (2, 0, 256, True)
    assert (scalar.packed, scalar.scalar, scalar.bits, scalar.main) == (0, 1, 0, False)
