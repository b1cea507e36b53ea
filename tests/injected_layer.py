"""A pytest plugin that puts this package's layer in the place of neuraloperator's, everywhere in that package.

``python -m pytest -p injected_layer --pyargs neuralop.models.tests.test_fno`` then runs neuraloperator's own tests with
it. The run fails with status 9 unless the layer was called.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import neuralop.layers.spectral_convolution as upstream
import pytest
import torch
from tltorch import FactorizedTensor

from spectralops import torch as st

ORIGINAL = upstream.SpectralConv
calls = 0


class Seen(torch.Tensor):
    """A dense weight as neuraloperator's tests speak to it."""

    def to_tensor(self) -> torch.Tensor:
        return self.as_subclass(torch.Tensor)


class Injected(st.SpectralConv):
    """The layer, which counts its calls, and whose weight answers like a tensor of tensorly-torch."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, complex_parameters=True, **options)
        if not isinstance(self.weight, torch.Tensor):
            kind = type(self.weight)
            function = classmethod(lambda cls, f, types, args=(), kwargs=None: f(*(t.to_tensor() for t in args)))
            self.weight.__class__ = type(kind.__name__, (kind,), {"__torch_function__": function})

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "weight" and isinstance(value, FactorizedTensor):
            value = torch.nn.Parameter(value.to_tensor().detach())
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        return value.as_subclass(Seen) if name == "weight" and isinstance(value, torch.Tensor) else value

    def forward(self, *args: Any, **options: Any) -> torch.Tensor:
        global calls
        calls += 1
        return super().forward(*args, **options).as_subclass(torch.Tensor)


def exchanged(value: Any) -> Any:
    return Injected if value is ORIGINAL else value


def put_in(function: Any) -> None:
    """Exchange the layer in a function's defaults."""
    if isinstance(function, types.FunctionType):
        function.__defaults__ = tuple(map(exchanged, function.__defaults__ or ())) or None
        for name, value in (function.__kwdefaults__ or {}).items():
            function.__kwdefaults__[name] = exchanged(value)


for module in [m for name, m in list(sys.modules.items()) if name.startswith("neuralop")]:
    for name, value in list(vars(module).items()):
        if value is ORIGINAL:
            setattr(module, name, Injected)
        elif isinstance(value, type) and value.__module__.startswith("neuralop"):
            for member in vars(value).values():
                put_in(member)
        else:
            put_in(value)


def pytest_sessionfinish(session: pytest.Session) -> None:
    print(f"\n{calls} calls of the injected layer")  # noqa: T201
    if not calls:
        session.exitstatus = 9
