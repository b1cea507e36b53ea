"""Diffusion-based smoothing of gridded fields: spatial filters that know coasts, walls and curvilinear grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from spectralops import _arrays
from spectralops._plans import diffusion_filter as _filter
from spectralops._plans.diffusion_filter import DiffusionFilterPlan, Metric
from spectralops.boundary import Conditions, Periodic

__all__ = ["Metric", "diffusion_filter", "plan_diffusion_filter"]

PERIODIC = Periodic()


def diffusion_filter(
    u: Any,
    filter_scale: float,
    dx: float | Sequence[float],
    *,
    filter_shape: str = "gaussian",
    transition_width: float = math.pi,
    n_steps: int | None = None,
    bc: Conditions = PERIODIC,
    mask: Any = None,
    metric: Metric | None = None,
    axes: int | Sequence[int] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    r"""Smooth a field by a polynomial of the discrete Laplacian, :math:`\bar u = p(-\Delta)\, u`.

    p approximates a transfer function of the squared wavenumber s on the Laplacian's spectrum, :math:`0 \le s \le
    s_{max} = \sum_a 4/h_a^2`. With p(0) = 1 constants stay and the integral is conserved, also next to coasts.
    :math:`\Delta` is the five-point stencil (of two axes), or the flux form of a :class:`Metric`.

    Parameters
    ----------
    u : array
        Real field; axes other than `axes` are a batch.
    filter_scale : float
        Length L of the filter [L]. Gaussian: :math:`e^{-s L^2/24}`, with the standard deviation of a box of width L.
        Taper: wavelengths below L are removed.
    dx : float or sequence of float
        Cell size h along each of `axes` [L]. With `metric`, the smallest spacing on the grid, from which only s_max and
        the default `n_steps` follow; above :math:`2\sqrt{d / s}` for the largest eigenvalue s of :math:`-\Delta` on d
        axes, the filter amplifies what it should remove.
    filter_shape : {"gaussian", "taper"}
        Transfer function. The taper is one for wavelengths above `transition_width` * L, zero below L, and a cubic in
        the wavenumber between.
    transition_width : float
        Width of the taper's transition, above 1; wider takes fewer steps.
    n_steps : int, optional
        Degree of p: the number of Laplacians. By default enough for an error of about 1 %, in proportion to L/h.
    bc : condition, mapping or tuple, default Periodic()
        ``Periodic()``, or for walls without flux ``Reflect()`` or ``Neumann(0.0)``: one for all sides, {axis: condition
        or (low, high)}, or a tuple with one such entry per axis.
    mask : array of bool, optional
        True where u is a value (sea); broadcasts against u. Faces to False cells carry no flux. Their values, NaN
        included, are never looked at and come out as they are.
    metric : Metric, optional
        Widths and distances of faces, cell areas and kappa of a curvilinear grid.
    axes : int or sequence of int, optional
        Filtered axes. By default the only one of a 1-d array, else as many of the last as `dx` or the metric has
        entries, else the last two.
    out : array, optional
        Where to put the result: its shape, dtype, library and device, not overlapping an input.
    workers : int, optional
        Most threads to use, as in :mod:`scipy.fft`; small work keeps to one.
    backend : {"cpu", "numpy", "cuda", "cupy", "reference"}, optional
        Who computes; by default the fastest for the array's device. "cpu" and "cuda" compute several Laplacians each
        time that the field passes through the cache or through memory ("cuda" along three axes one), with the bits of
        "numpy" whatever the number of threads; they take up to three axes.

    Returns
    -------
    array
        Of the shape, library, device and dtype of u (integers and bool become the library's default float, 16-bit
        floats are computed in float32). float64 is recommended: rounding errors grow with `n_steps`.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind, the mask is not boolean, or arrays differ in library or device.
    ValueError
        If shapes, axes, scale, steps or boundary conditions do not fit.
    UnsupportedError
        If the backend does not support the dtype; complex fields among them.

    Notes
    -----
    Meaning and numbers of gcm-filters: results agree to round-off on its grid types REGULAR and REGULAR_WITH_LAND, with
    ``dx=1.0``, and on IRREGULAR_WITH_LAND with ``Metric(area, widths=(dxs, dyw), lengths=(dys, dxw), kappa=(kappa_s,
    kappa_w))`` and ``dx=dx_min`` for axes (y, x).

    p is the sum of :math:`c_k T_k(2 s/s_{max} - 1)` that is closest to the target in the mean square weighted with
    Chebyshev's weight, among those exact at both ends of the spectrum, evaluated by
    :math:`T_k = 2 S T_{k-1} - T_{k-2}`. A NaN in the sea spreads `n_steps` cells.

    References
    ----------
    .. [1] I. Grooms, N. Loose, R. Abernathey, et al., "Diffusion-based smoothers for spatial filtering of gridded
       geophysical data", J. Adv. Model. Earth Syst. 13 (2021), e2021MS002552, doi:10.1029/2021MS002552.
    .. [2] N. Loose et al., "GCM-Filters: a Python package for diffusion-based spatial filtering of gridded data",
       J. Open Source Softw. 7 (2022), 3947, doi:10.21105/joss.03947.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops as so
    >>> u = np.array([0.0, 0.0, 4.0, 0.0, 0.0, np.nan])
    >>> so.diffusion_filter(u, 2.0, 1.0, mask=~np.isnan(u)).round(3)
    array([0.042, 0.484, 2.946, 0.484, 0.042,   nan])
    """
    home, spec = _arrays.describe("diffusion_filter", "u", u)
    plan = _filter.plan_diffusion_filter(
        spec.shape,
        spec.dtype,
        filter_scale,
        dx,
        filter_shape=filter_shape,
        transition_width=transition_width,
        n_steps=n_steps,
        bc=bc,
        mask=mask,
        metric=metric,
        axes=axes,
        backend=backend,
        device=home.device,
        default=_arrays.default_float(home),
    )
    return plan(u, *_filter.operand_arrays(mask, metric), out=out, workers=workers)


def plan_diffusion_filter(
    shape: Sequence[int],
    dtype: Any,
    filter_scale: float,
    dx: float | Sequence[float],
    *,
    filter_shape: str = "gaussian",
    transition_width: float = math.pi,
    n_steps: int | None = None,
    bc: Conditions = PERIODIC,
    mask: Any = None,
    metric: Metric | None = None,
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> DiffusionFilterPlan:
    """Plan :func:`diffusion_filter` for fields of one shape and dtype.

    Parameters
    ----------
    shape, dtype
        Of the field.
    filter_scale, dx, filter_shape, transition_width, n_steps, bc, mask, metric, axes, backend
        As for :func:`diffusion_filter`; arrays, also those of the metric, may be given as ``ArraySpec`` values.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    DiffusionFilterPlan
        A frozen, hashable value; call it with u, then the mask and the metric's arrays (area, widths, lengths, kappa)
        where there are any. Its `response` and `target` say what the filter does to each wavenumber.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As for :func:`diffusion_filter`.

    Examples
    --------
    >>> import spectralops as so
    >>> so.plan_diffusion_filter((180, 360), "float64", 20.0, 1.0).n_steps
    22
    """
    return _filter.plan_diffusion_filter(
        shape,
        dtype,
        filter_scale,
        dx,
        filter_shape=filter_shape,
        transition_width=transition_width,
        n_steps=n_steps,
        bc=bc,
        mask=mask,
        metric=metric,
        axes=axes,
        backend=backend,
        device=device,
    )
