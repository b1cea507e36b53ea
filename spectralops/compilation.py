"""Compiling ahead of time what the vector FFT engine compiles on first use."""

from __future__ import annotations

import importlib
from typing import Any

from spectralops import _checks

__all__ = ["warmup"]


def warmup(dtypes: Any = ("float32", "float64")) -> None:
    """Compile the vector engine's kernels on the CPU now rather than at the first call that needs each.

    They run spectral operators, convolutions and :func:`diffusion_filter`. With float32 among the dtypes, small
    convolutions are timed as well, in some milliseconds, so that the cost model that chooses their algorithm knows
    this machine (see :func:`fft_conv2d`).

    Compiled kernels are kept in the user's cache directory (or in ``SPECTRALOPS_CACHE_DIR``) for later processes, so
    that one call after installation is enough, for instance while a container image is built. Where the kernels are
    there already, this loads them. Without llvmlite, which comes with numba, or with ``SPECTRALOPS_NUMBA=0``, there is
    nothing to compile. The steps' inner loops depend on their terms: they compile at their first call, in a moment, and
    are kept likewise.

    Parameters
    ----------
    dtypes : dtype or sequence of dtypes
        The dtypes of the arrays to come. Kernels exist in float32 and float64: 16-bit types use the first, integers
        the second, complex types that of their precision.

    Raises
    ------
    TypeError
        If one of them is not a dtype that the operators take.

    Examples
    --------
    >>> import spectralops
    >>> spectralops.warmup("float32")  # doctest: +SKIP
    """
    several = _checks.entries(dtypes) is not None
    found = (_checks.inexact_dtype("warmup", one, "dtypes") for one in (dtypes if several else (dtypes,)))
    real = dict.fromkeys(_checks.real_dtype(_checks.compute_dtype(one)) for one in found)
    importlib.import_module("spectralops._cpu.warmup").warmup(tuple(real))
