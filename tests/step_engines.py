"""The engines that the tests of the steps run on: the compiled one that is preferred, and the plain one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spectralops import _dispatch
from spectralops._plans import step_arguments


@pytest.fixture(params=["preferred", "numpy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Let steps without a `backend` run on one engine after the other."""
    if request.param == "numpy":
        select = _dispatch.select

        def plain(op: str, dtype: str, kind: str, backend: str | None) -> str:
            return select(op, dtype, kind, backend or "numpy")

        monkeypatch.setattr(_dispatch, "select", plain)
    for forget in (step_arguments._setup.cache_clear, step_arguments._taken.clear):
        forget()
    yield request.param
    for forget in (step_arguments._setup.cache_clear, step_arguments._taken.clear):
        forget()
