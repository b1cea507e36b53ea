"""explain() lists plans in order, with what they move."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import spectralops as so
from spectralops import StabilityError, _support, explain
from spectralops.debugging import _size

WAVE = np.sin(2 * np.pi * np.arange(32) / 32)
diffuse = functools.partial(so.diffusion_step, dx=0.5, dt=0.1, nu=0.25)


def test_explain_lists_plans_in_order():
    def run(u, *, dt):
        u = so.spectral_filter(u, so.transfer.gaussian(2.0))
        return diffuse(diffuse(u, dt=dt), dt=dt)

    explanation = explain(run, WAVE, dt=0.2)
    assert [(call.plan.op, call.count) for call in explanation.calls] == [("spectral_filter", 1), ("diffusion_step", 2)]
    text = str(explanation)
    first, second = (call.plan for call in explanation.calls)
    assert text.startswith(f"1. spectral_filter on backend {first.backend!r}, moves {_size(first.bytes_moved)}\n    ")
    assert f"\n2. diffusion_step × 2 on backend {second.backend!r}, moves 512 B\n    " in text
    for plan in (first, second):
        for line in plan.explain().splitlines():
            assert f"    {line}" in text
    assert explanation.bytes_moved == first.bytes_moved + 2 * second.bytes_moved
    assert text.endswith(f"\nin all 3 calls, {_size(explanation.bytes_moved)}")


def test_explain_one_call_has_no_sum():
    text = str(explain(diffuse, WAVE))
    assert not re.search(r"in all \d+ calls", text)
    assert " × " not in text.splitlines()[0]


def test_explain_separates_what_is_not_in_a_row():
    def run(u):
        for dt in (0.1, 0.2, 0.1):
            u = diffuse(u, dt=dt)

    assert [call.plan.dt for call in explain(run, WAVE).calls] == [0.1, 0.2, 0.1]


def test_explain_a_plan_does_not_run_it(monkeypatch):
    monkeypatch.setattr(_support, "executor", None)
    plan = so.plan_diffusion_step((8,), "float64", 0.5, 0.1, 0.25)
    explanation = explain(plan)
    assert explanation.calls[0].plan is plan
    assert plan.explain().splitlines()[0] in str(explanation)


def test_explain_nothing():
    explanation = explain(np.sin, 1.0)
    assert explanation.calls == ()
    assert explanation.bytes_moved == 0
    assert str(explanation) == "no operator of spectralops ran"


def test_explain_passes_errors_on():
    with pytest.raises(StabilityError):
        explain(diffuse, WAVE, dt=100.0)


def test_explain_a_plan_takes_no_arguments():
    plan = so.plan_diffusion_step((8,), "float64", 0.5, 0.1, 0.25)
    message = r"^explain: arguments are given for a plan, but must be left out: a plan is not run$"
    with pytest.raises(TypeError, match=message):
        explain(plan, np.ones(8))
    with pytest.raises(TypeError, match=message):
        explain(plan, out=None)


def test_explain_what_cannot_be_called():
    with pytest.raises(TypeError, match=r"^explain: function is a int, but must be callable or a plan$"):
        explain(3)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (2**20, "1 MiB"),
        (2**30, "1 GiB"),
        (2**40, "1 TiB"),
        (2**50, "1024 TiB"),
    ],
)
def test_sizes(count, text):
    assert _size(count) == text
