"""Names of tasks in Dask's graphs: functions and plans have tokens that do not change from process to process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import spectralops as so

dask = pytest.importorskip("dask")

CODE = """
import dask.base, spectralops as so
from spectralops.spectral import plan_spectral_filter
print(dask.base.tokenize(so.spectral_filter), dask.base.tokenize(so.transfer.gaussian(2.0)),
      dask.base.tokenize(plan_spectral_filter((8, 8), "float32", so.transfer.gaussian(2.0))))
"""


def token(value: Any) -> str:
    with dask.config.set({"tokenize.ensure-deterministic": True}):
        return dask.base.tokenize(value)


FUNCTIONS = sorted(
    name for name in so.__all__ if callable(getattr(so, name)) and not isinstance(getattr(so, name), type)
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_tokens(name: str) -> None:
    assert token(getattr(so, name)) == token(getattr(so, name))


def test_functions_and_plans_have_tokens_of_their_own() -> None:
    from spectralops.spectral import plan_spectral_filter
    from spectralops.steps import plan_diffusion_step

    plans = [
        plan_spectral_filter((8, 8), "float32", so.transfer.gaussian(2.0)),
        plan_spectral_filter((8, 8), "float32", so.transfer.gaussian(3.0)),
        plan_spectral_filter((8, 9), "float32", so.transfer.gaussian(2.0)),
        plan_diffusion_step((8, 8), "float32", 1.0, 0.1, 1.0),
        plan_diffusion_step((8, 8), "float32", 1.0, 0.1, 1.0, bc=so.Neumann(0.0)),
    ]
    tokens = [token(plan) for plan in plans] + [token(getattr(so, name)) for name in FUNCTIONS]
    assert len(set(tokens)) == len(tokens)


def test_tokens_are_those_of_another_process() -> None:
    lines = {
        subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(lines) == 1
