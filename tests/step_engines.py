"""What the tests of the steps run on: the compiled engine that is preferred and the plain one; a compiled program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import spectralops as so
from spectralops import _support
from spectralops._plans import step_arguments

if TYPE_CHECKING:
    from spectralops._cpu.stencil.program import Program


@pytest.fixture(params=["preferred", "numpy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Let steps without a `backend` run on one engine after the other."""
    if request.param == "numpy":
        select = _support.select

        def plain(op: str, dtype: str, kind: str, backend: str | None) -> str:
            return select(op, dtype, kind, backend or "numpy")

        monkeypatch.setattr(_support, "select", plain)
    for forget in (step_arguments._setup.cache_clear, step_arguments._taken.clear):
        forget()
    yield request.param
    for forget in (step_arguments._setup.cache_clear, step_arguments._taken.clear):
        forget()


def program(**changes: object) -> Program:
    """The compiled program of a diffusion step of float32."""
    from spectralops._cpu.stencil.program import program_of  # where there is a compiler

    return program_of(so.plan_pde_step((64, 64), "float32", 1.0, 0.1, so.Diffusion(1.0), **changes))[0]
