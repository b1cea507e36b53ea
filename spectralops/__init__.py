"""Fused spectral and stencil operators on the arrays you already have."""

from importlib import import_module as _import_module

for _m in (
    "errors",
    "boundary",
    "transfer",
    "spectral",
    "convolution",
    "steps",
    "pde",
    "stencils",
    "filters",
    "solve",
    "diagnostics",
):
    try:
        _mod = _import_module(f"spectralops.{_m}")
    except ModuleNotFoundError as _e:
        if not (_e.name or "").startswith("spectralops"):
            raise
        continue
    if _m not in ("transfer",):
        globals().update({_n: getattr(_mod, _n) for _n in _mod.__all__})
