"""The difference operators behind the steps on their own: gradient, divergence, Laplacian of cell-centred fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectralops import _arrays
from spectralops._plans import stencils as _stencils
from spectralops._plans.looks import Known, Looks
from spectralops._plans.stencils import StencilPlan
from spectralops.boundary import Conditions, Periodic

__all__ = ["divergence", "gradient", "laplacian", "plan_divergence", "plan_gradient", "plan_laplacian"]

PERIODIC = Periodic()

_known = Looks(Known)


def gradient(
    u: Any,
    dx: float | Sequence[float],
    *,
    bc: Conditions = PERIODIC,
    mask: Any = None,
    axes: int | Sequence[int] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    r"""Gradient of a cell-centred field by central differences.

    Component a of the result is :math:`(u_{i+1} - u_{i-1}) / 2 h_a` along the a-th of `axes`: the mean of the slopes
    at the two faces of the cell. Second order in h.

    Parameters
    ----------
    u : array
        Field, real or complex; axes other than `axes` are a batch.
    dx : float or sequence of float
        Cell size h along each of `axes` [L].
    bc : condition, mapping or tuple, default Periodic()
        Boundary conditions of u from :mod:`spectralops.boundary`: one for all sides, {axis: condition or (low, high)},
        or a tuple with one such entry per axis. All but :class:`~spectralops.Hold`, which is a rule of steps.
    mask : array of bool, optional
        True where u is a value; broadcasts against u. The slope at a face to a False cell is zero, and so is the
        gradient in a False cell, whose value is never looked at.
    axes : int or sequence of int, optional
        Axes to differentiate along. By default the only one of a 1-d array, else as many of the last as `dx` has
        entries, else the last two.
    out : array, optional
        Where to put the result: its shape, dtype, library and device, not overlapping an input.
    workers : int, optional
        Number of threads, as in :mod:`scipy.fft`.
    backend : {"numpy", "cupy", "reference"}, optional
        Who computes; by default the fastest for the array's device.

    Returns
    -------
    array
        Shape ``(d, *u.shape)`` for d axes, in the order of `axes` [units of u / L]; of the library, device and dtype
        of u (integers and bool become the library's default float, 16-bit floats are computed in float32).

    Raises
    ------
    TypeError
        If an argument is of the wrong kind, the mask is not boolean, or arrays differ in library or device.
    ValueError
        If shapes, axes, dx or boundary conditions do not fit, or a condition is Hold.
    UnsupportedError
        If the backend does not support the dtype.

    Notes
    -----
    Its negative adjoint is :func:`divergence`: with Periodic on both; with Reflect here, Dirichlet(0) there (a wall),
    and the reverse. ``plan_gradient(...).adjoint()`` is the plan of it.

    References
    ----------
    .. [1] R. J. LeVeque, "Finite Difference Methods for Ordinary and Partial Differential Equations", SIAM (2007),
       eq. 1.3.

    Examples
    --------
    >>> import spectralops as so
    >>> so.gradient([0.0, 1.0, 4.0, 9.0], 1.0, bc=so.Outflow())
    array([[0.5, 2. , 4. , 2.5]])
    """
    known, found = _known.find(u, (dx, bc, mask, axes, backend), "gradient")
    if known.plan is not None:
        return known(found, out, workers)
    home, spec = _arrays.describe("gradient", "u", u)
    plan = _stencils.plan_gradient(
        spec.shape,
        spec.dtype,
        dx,
        bc=bc,
        mask=mask,
        axes=axes,
        backend=backend,
        device=home.device,
        default=_arrays.default_float(home),
    )
    arrays = (u, *_present(mask))
    known.keep(plan, found, arrays)
    return plan(*arrays, out=out, workers=workers)


def divergence(
    v: Any,
    dx: float | Sequence[float],
    *,
    bc: Conditions = PERIODIC,
    mask: Any = None,
    axes: int | Sequence[int] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    r"""Divergence of a cell-centred vector field in flux form.

    The sum over `axes` of :math:`(v_{a,i+1} - v_{a,i-1}) / 2 h_a`: outflow minus inflow, with the value at a face the
    mean of the cells on both sides. Second order in h.

    Parameters
    ----------
    v : array or sequence of arrays
        Vector field, real or complex: shape (d, ...) with component a, along the a-th of `axes`, in ``v[a]``, as
        :func:`gradient` returns it; or a list or tuple of d arrays of one shape and dtype.
    dx : float or sequence of float
        Cell size h along each of `axes` [L].
    bc : condition, mapping or tuple, default Periodic()
        Boundary conditions from :mod:`spectralops.boundary`, as in :func:`gradient`; those of an axis belong to the
        component along it. ``Dirichlet(0.0)`` is a wall: nothing flows through it.
    mask : array of bool, optional
        True where v is a value; broadcasts against a component. Nothing flows through a face to a False cell; the
        divergence in a False cell is zero and its values are never looked at.
    axes : int or sequence of int, optional
        Axes of a component (not of the array of all components) in the order of the components; by default its last d.
    out : array, optional
        Where to put the result: its shape, dtype, library and device, not overlapping an input.
    workers : int, optional
        Number of threads, as in :mod:`scipy.fft`.
    backend : {"numpy", "cupy", "reference"}, optional
        Who computes; by default the fastest for the array's device.

    Returns
    -------
    array
        Shape of a component [units of v / L]; of the library, device and dtype of v (integers and bool become the
        library's default float, 16-bit floats are computed in float32).

    Raises
    ------
    TypeError
        If an argument is of the wrong kind, components differ in dtype, the mask is not boolean, or arrays differ in
        library or device.
    ValueError
        If shapes, axes, dx or boundary conditions do not fit, or a condition is Hold.
    UnsupportedError
        If the backend does not support the dtype.

    Notes
    -----
    Conservative: the sum over a periodic or walled domain, masked or not, is zero to round-off. Its negative adjoint
    is :func:`gradient`. ``divergence(gradient(u))`` is the Laplacian on every second cell, with spacing 2h; the compact
    one is :func:`laplacian`.

    References
    ----------
    .. [1] R. J. LeVeque, "Finite Volume Methods for Hyperbolic Problems", Cambridge University Press (2002), eq. 4.4.

    Examples
    --------
    >>> import spectralops as so
    >>> so.divergence([[0.0, 1.0, 2.0, 3.0]], 1.0, bc=so.Dirichlet(0.0))
    array([ 0.5,  1. ,  1. , -2.5])
    """
    first, others = (v[0], (tuple(v[1:]),)) if isinstance(v, list | tuple) and v else (v, ())
    known, found = _known.find(first, (*others, dx, bc, mask, axes, backend), "divergence")
    if known.plan is not None:
        return known(found, out, workers)
    parts, home, shape, dtype = _stencils.components("divergence", v)
    plan = _stencils.plan_divergence(
        shape,
        dtype,
        dx,
        bc=bc,
        mask=mask,
        axes=axes,
        backend=backend,
        device=home.device,
        default=_arrays.default_float(home),
    )
    arrays = (*parts, *_present(mask))
    known.keep(plan, found, arrays)
    return plan(*arrays, out=out, workers=workers)


def laplacian(
    u: Any,
    dx: float | Sequence[float],
    *,
    nu: Any = None,
    bc: Conditions = PERIODIC,
    mask: Any = None,
    axes: int | Sequence[int] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    r"""Laplacian of a cell-centred field, or :math:`\nabla\cdot(\nu\nabla u)` with a coefficient.

    The sum over `axes` of :math:`(F_{i+1/2} - F_{i-1/2}) / h` with fluxes :math:`F_{i+1/2} = \nu_{i+1/2}
    (u_{i+1} - u_i) / h` and :math:`\nu_{i+1/2} = (\nu_i + \nu_{i+1}) / 2`: without nu the five-point stencil of two
    axes. Second order in h. The right-hand side of :func:`~spectralops.diffusion_step`.

    Parameters
    ----------
    u : array
        Field, real or complex; axes other than `axes` are a batch.
    dx : float or sequence of float
        Cell size h along each of `axes` [L].
    nu : float or real array, optional
        Coefficient; an array broadcasts against u. At the boundary and next to masked cells its face value is the
        cell's own. 1 by default.
    bc : condition, mapping or tuple, default Periodic()
        Boundary conditions of u from :mod:`spectralops.boundary`: one for all sides, {axis: condition or (low, high)},
        or a tuple with one such entry per axis. All but :class:`~spectralops.Hold`, which is a rule of steps.
    mask : array of bool, optional
        True where u is a value; broadcasts against u. Faces to False cells carry no flux; the result in a False cell
        is zero and its values of u and nu are never looked at.
    axes : int or sequence of int, optional
        Axes to differentiate along. By default the only one of a 1-d array, else as many of the last as `dx` has
        entries, else the last two.
    out : array, optional
        Where to put the result: its shape, dtype, library and device, not overlapping an input.
    workers : int, optional
        Number of threads, as in :mod:`scipy.fft`.
    backend : {"numpy", "cupy", "reference"}, optional
        Who computes; by default the fastest for the array's device.

    Returns
    -------
    array
        Of the shape, library, device and dtype of u [units of nu * u / L^2] (integers and bool become the library's
        default float, 16-bit floats are computed in float32).

    Raises
    ------
    TypeError
        If an argument is of the wrong kind, nu is not real, the mask is not boolean, or arrays differ in library or
        device.
    ValueError
        If shapes, axes, dx or boundary conditions do not fit, or a condition is Hold.
    UnsupportedError
        If the backend does not support the dtype.

    Notes
    -----
    Symmetric: with homogeneous boundary data it is its own adjoint. Conservative: over a periodic or closed domain its
    sum is zero to round-off.

    References
    ----------
    .. [1] R. J. LeVeque, "Finite Difference Methods for Ordinary and Partial Differential Equations", SIAM (2007),
       eqs. 2.71 and 3.10.

    Examples
    --------
    >>> import spectralops as so
    >>> so.laplacian([0.0, 1.0, 4.0, 9.0], 1.0, bc=so.Reflect())
    array([ 1.,  2.,  2., -5.])
    """
    known, found = _known.find(u, (dx, nu, bc, mask, axes, backend), "laplacian")
    if known.plan is not None:
        return known(found, out, workers)
    home, spec = _arrays.describe("laplacian", "u", u)
    plan = _stencils.plan_laplacian(
        spec.shape,
        spec.dtype,
        dx,
        nu=nu,
        bc=bc,
        mask=mask,
        axes=axes,
        backend=backend,
        device=home.device,
        default=_arrays.default_float(home),
    )
    arrays = (u, *_present(nu, mask))
    known.keep(plan, found, arrays)
    return plan(*arrays, out=out, workers=workers)


def _present(*fields: Any) -> tuple[Any, ...]:
    """Those of the arguments that are arrays: a plan's operands after the field."""
    return tuple(field for field in fields if _arrays.is_array(field))


def plan_gradient(
    shape: Sequence[int],
    dtype: Any,
    dx: float | Sequence[float],
    *,
    bc: Conditions = PERIODIC,
    mask: Any = None,
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> StencilPlan:
    """Plan :func:`gradient` for fields of one shape and dtype.

    Parameters
    ----------
    shape, dtype
        Of the field.
    dx, bc, mask, axes, backend
        As for :func:`gradient`; the mask may be given as an ``ArraySpec``.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    StencilPlan
        A frozen, hashable value; call it with u, and with the mask if there is one.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As for :func:`gradient`.

    Examples
    --------
    >>> import spectralops as so
    >>> so.plan_gradient((64, 64), "float32", 0.5).out_shape
    (2, 64, 64)
    """
    return _stencils.plan_gradient(shape, dtype, dx, bc=bc, mask=mask, axes=axes, backend=backend, device=device)


def plan_divergence(
    shape: Sequence[int] | Sequence[Sequence[int]],
    dtype: Any,
    dx: float | Sequence[float],
    *,
    bc: Conditions = PERIODIC,
    mask: Any = None,
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> StencilPlan:
    """Plan :func:`divergence` for vector fields of one shape and dtype.

    Parameters
    ----------
    shape : sequence of int, or of shapes
        Shape (d, ...) of the array of all components; or one shape for each component that is an array of its own.
    dtype
        Of the field.
    dx, bc, mask, axes, backend
        As for :func:`divergence`; the mask may be given as an ``ArraySpec``.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    StencilPlan
        A frozen, hashable value; call it with v, or with one array for each component, and with the mask if there is
        one.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As for :func:`divergence`.

    Examples
    --------
    >>> import spectralops as so
    >>> so.plan_divergence((2, 64, 64), "float32", 0.5).out_shape
    (64, 64)
    """
    return _stencils.plan_divergence(shape, dtype, dx, bc=bc, mask=mask, axes=axes, backend=backend, device=device)


def plan_laplacian(
    shape: Sequence[int],
    dtype: Any,
    dx: float | Sequence[float],
    *,
    nu: Any = None,
    bc: Conditions = PERIODIC,
    mask: Any = None,
    axes: int | Sequence[int] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> StencilPlan:
    """Plan :func:`laplacian` for fields of one shape and dtype.

    Parameters
    ----------
    shape, dtype
        Of the field.
    dx, nu, bc, mask, axes, backend
        As for :func:`laplacian`; arrays may be given as ``ArraySpec`` values.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    StencilPlan
        A frozen, hashable value; call it with u, then nu and the mask where they are arrays.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As for :func:`laplacian`.

    Examples
    --------
    >>> import spectralops as so
    >>> so.plan_laplacian((64, 64), "float32", 0.5).halo
    (1, 1)
    """
    return _stencils.plan_laplacian(
        shape, dtype, dx, nu=nu, bc=bc, mask=mask, axes=axes, backend=backend, device=device
    )
