"""Fused spectral and stencil operators on the arrays you already have.

One call, one fused operator, on NumPy, CuPy, PyTorch, JAX and other array-API arrays; the same library, device and
precision comes out.

* spectral: :func:`spectral_filter`, :func:`spectral_conv`, :func:`fourier_resample`, with :mod:`spectralops.transfer`
* steps: :func:`diffusion_step`, :func:`convection_step`, :func:`diffuse_convect_step`, :func:`pde_step`, :func:`solve`
* convolution: :func:`fft_conv2d`, :func:`convolve`
* stencils: :func:`gradient`, :func:`divergence`, :func:`laplacian`, :func:`diffusion_filter`
* diagnostics: :func:`stable_dt`, :func:`power_spectrum`, :func:`debug`, :func:`explain` and others
* :mod:`spectralops.fft`: in place of :mod:`scipy.fft`
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Its function has its module's name: whoever imports the module by name must not find it in the function's place.
from spectralops.solve import Solution, solve

if TYPE_CHECKING:
    from spectralops import fft, transfer
    from spectralops.boundary import Dirichlet, Hold, Neumann, Outflow, Periodic, Reflect, Robin
    from spectralops.compilation import warmup
    from spectralops.convolution import Epilogue, convolve, fft_conv2d, plan_convolve, plan_fft_conv2d
    from spectralops.diagnostics import (
        DebugReport,
        Explanation,
        PowerSpectrum,
        cfl_number,
        debug,
        energy,
        explain,
        fourier_number,
        power_spectrum,
        residuals,
        stable_dt,
        total,
    )
    from spectralops.errors import (
        BackendUnavailableError,
        DivergedError,
        MismatchError,
        StabilityError,
        StabilityWarning,
        UnsupportedError,
    )
    from spectralops.filters import Metric, diffusion_filter, plan_diffusion_filter
    from spectralops.pde import Advection, Diffusion, Pointwise, SelfAdvection, Source, pde_step, plan_pde_step
    from spectralops.spectral import (
        fourier_resample,
        plan_fourier_resample,
        plan_spectral_conv,
        plan_spectral_filter,
        spectral_conv,
        spectral_filter,
    )
    from spectralops.spectral_gradients import plan_spectral_conv_weight_gradient, spectral_conv_weight_gradient
    from spectralops.stencils import divergence, gradient, laplacian, plan_divergence, plan_gradient, plan_laplacian
    from spectralops.steps import (
        convection_step,
        diffuse_convect_step,
        diffusion_step,
        plan_convection_step,
        plan_diffuse_convect_step,
        plan_diffusion_step,
    )

__version__ = "0.1.0"

__all__ = [
    "Advection",
    "BackendUnavailableError",
    "DebugReport",
    "Diffusion",
    "Dirichlet",
    "DivergedError",
    "Epilogue",
    "Explanation",
    "Hold",
    "Metric",
    "MismatchError",
    "Neumann",
    "Outflow",
    "Periodic",
    "Pointwise",
    "PowerSpectrum",
    "Reflect",
    "Robin",
    "SelfAdvection",
    "Solution",
    "Source",
    "StabilityError",
    "StabilityWarning",
    "UnsupportedError",
    "cfl_number",
    "convection_step",
    "convolve",
    "debug",
    "diffuse_convect_step",
    "diffusion_filter",
    "diffusion_step",
    "divergence",
    "energy",
    "explain",
    "fft",
    "fft_conv2d",
    "fourier_number",
    "fourier_resample",
    "gradient",
    "laplacian",
    "pde_step",
    "plan_convection_step",
    "plan_convolve",
    "plan_diffuse_convect_step",
    "plan_diffusion_filter",
    "plan_diffusion_step",
    "plan_divergence",
    "plan_fft_conv2d",
    "plan_fourier_resample",
    "plan_gradient",
    "plan_laplacian",
    "plan_pde_step",
    "plan_spectral_conv",
    "plan_spectral_conv_weight_gradient",
    "plan_spectral_filter",
    "power_spectrum",
    "residuals",
    "solve",
    "spectral_conv",
    "spectral_conv_weight_gradient",
    "spectral_filter",
    "stable_dt",
    "total",
    "transfer",
    "warmup",
]

# The module of each public name. Modules load when a name of theirs is first used, which keeps the import light.
_NAMES = {
    "boundary": (
        "Dirichlet",
        "Hold",
        "Neumann",
        "Outflow",
        "Periodic",
        "Reflect",
        "Robin",
    ),
    "compilation": ("warmup",),
    "convolution": (
        "Epilogue",
        "convolve",
        "fft_conv2d",
        "plan_convolve",
        "plan_fft_conv2d",
    ),
    "diagnostics": (
        "DebugReport",
        "Explanation",
        "PowerSpectrum",
        "cfl_number",
        "debug",
        "energy",
        "explain",
        "fourier_number",
        "power_spectrum",
        "residuals",
        "stable_dt",
        "total",
    ),
    "errors": (
        "BackendUnavailableError",
        "DivergedError",
        "MismatchError",
        "StabilityError",
        "StabilityWarning",
        "UnsupportedError",
    ),
    "filters": (
        "Metric",
        "diffusion_filter",
        "plan_diffusion_filter",
    ),
    "pde": (
        "Advection",
        "Diffusion",
        "Pointwise",
        "SelfAdvection",
        "Source",
        "pde_step",
        "plan_pde_step",
    ),
    "spectral": (
        "fourier_resample",
        "plan_fourier_resample",
        "plan_spectral_conv",
        "plan_spectral_filter",
        "spectral_conv",
        "spectral_filter",
    ),
    "spectral_gradients": (
        "plan_spectral_conv_weight_gradient",
        "spectral_conv_weight_gradient",
    ),
    "stencils": (
        "divergence",
        "gradient",
        "laplacian",
        "plan_divergence",
        "plan_gradient",
        "plan_laplacian",
    ),
    "steps": (
        "convection_step",
        "diffuse_convect_step",
        "diffusion_step",
        "plan_convection_step",
        "plan_diffuse_convect_step",
        "plan_diffusion_step",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
_SUBMODULES = ("fft", "transfer")


def __getattr__(name: str) -> Any:
    """Load the module of a public name when it is first used."""
    if name in _SUBMODULES:
        return import_module(f"spectralops.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'spectralops' has no attribute {name!r}")
    value = getattr(import_module(f"spectralops.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
