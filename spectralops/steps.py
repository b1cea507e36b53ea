r"""Explicit time steps of diffusion and convection on cell-centred grids, in one to three dimensions.

Each call takes `steps` forward Euler steps and equals as many single calls, and NumPy evaluated in the same order,
bit for bit; only 16-bit fields, which are rounded once a call, and float32 numbers below 1.2e-38, which count as zero
on CUDA devices, are exceptions. Arguments that the three operators share:

* `dx` is the cell size, one number or one per stepped axis; `axes` are the stepped axes (default: the only axis of a
  1-d array, otherwise the last two, or as many as `dx` or the velocity has entries), all others are batch.
* Coefficients are numbers, or arrays that broadcast against u: per instance of a batch ``(B, 1, 1)``, or per cell.
  Arrays continue beyond the ends of an axis by their end value (periodic axes: periodically).
* `bc` is one condition of :mod:`spectralops.boundary` for all sides, a dict {axis: condition or (low, high)}, or a
  tuple with such an entry per axis.
* `mask` is True in cells that are computed. Faces to other cells carry no flux; those cells keep their value, which
  may be NaN and never influences the others. The advective form lets no gradient through such a face.
* A dt beyond the stability bound of the scheme is an error while coefficients are numbers (and for the largest
  value of a `nu` in host memory); `on_unstable` makes it a warning, or nothing. What depends on the values of other
  arrays is not looked at here: see :func:`spectralops.stable_dt`.
* float16 and bfloat16 are stored, of u and of coefficients; all steps of a call, and their stages, compute in float32,
  and only the result is rounded, so that many steps in one call are more exact than as many calls. Integers become
  float64.
"""

from __future__ import annotations

from typing import Any

from spectralops._plans.step_arguments import Named, Options, advection, prepare, run
from spectralops._plans.steps import StepPlan
from spectralops._plans.terms import Diffusion
from spectralops.boundary import Conditions, Periodic

__all__ = [
    "convection_step",
    "diffuse_convect_step",
    "diffusion_step",
    "plan_convection_step",
    "plan_diffuse_convect_step",
    "plan_diffusion_step",
]

PERIODIC = Periodic()


def diffusion_step(
    u: Any,
    dx: Any,
    dt: float,
    nu: Any,
    *,
    bc: Conditions = PERIODIC,
    source: Any = None,
    mask: Any = None,
    steps: int = 1,
    method: str = "stencil",
    on_unstable: str = "raise",
    axes: int | tuple[int, ...] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    r"""Forward Euler steps of :math:`u_t = \nabla\cdot(\nu\nabla u) + s`, second order in space.

    With a constant :math:`\nu` and :math:`r_a = \nu\,\Delta t/\Delta x_a^2` one step is
    :math:`u + \sum_a r_a (u_{a-} - 2u + u_{a+}) + \Delta t\, s`. A :math:`\nu` that varies along a stepped axis acts
    through fluxes with its arithmetic mean on the faces, so that the sum of u is conserved.

    Parameters
    ----------
    u : array
        Field, real; any dimensions beyond the stepped axes are batch.
    dx : float or sequence of float
        Cell size along each stepped axis [L].
    dt : float
        Time step [T].
    nu : float or array
        Diffusivity, not negative [L²/T].
    bc : condition, dict or tuple, default Periodic()
        Boundary conditions, per axis and side.
    source : float or array, optional
        Added to u_t [units of u / T].
    mask : array of bool, optional
        True where u is computed.
    steps : int
        Number of steps.
    method : {"stencil", "spectral", "auto"}
        ``"spectral"`` takes all steps at once: transforms, the scheme's own amplification factor to the power `steps`.
        For constant coefficients, without a mask, on axes that are periodic, closed or zero at both ends. It agrees
        with the stencil to rounding errors, not bit for bit, and spreads NaN over the field. ``"auto"`` takes it where
        it can and costs less, from 10 to 50 right-hand sides on; ``plan.explain()`` says which ran and why.
    on_unstable : {"raise", "warn", "ignore"}
        What to do about a dt beyond the stability bound.
    axes : int or tuple of int, optional
        Stepped axes, at most three.
    out : array, optional
        Receives the result; must not overlap the inputs.
    workers : int, optional
        Most threads to use, as in ``scipy.fft``; small work keeps to one.
    backend : str, optional
        Backend to use instead of the preferred one.

    Returns
    -------
    array
        The field after `steps` steps, in the library, on the device and in the shape and dtype of u.

    Raises
    ------
    TypeError
        If an argument has the wrong kind, an array is complex, or arrays mix libraries or devices.
    ValueError
        If a value or shape does not fit: sizes, axes, a negative or non-finite coefficient, dx or dt not positive.
    StabilityError
        If :math:`\sum_a r_a > 1/2`; its `stable_dt` is the largest allowed.
    UnsupportedError
        If the method or backend does not serve the request.

    Notes
    -----
    A constant :math:`\nu` is computed as :math:`p_0 u + \sum_a p_a (u_{a-} + u_{a+})`, last axis first, with
    coefficients formed in float64. ``spectralops/_plans/schemes.py`` states the order of operations to the last bit.

    References
    ----------
    .. [1] R. D. Richtmyer, K. W. Morton, Difference Methods for Initial-Value Problems, 2nd ed., Interscience 1967.

    Examples
    --------
    >>> import spectralops as so
    >>> so.diffusion_step([0.0, 0.0, 4.0, 0.0], 1.0, 0.25, 1.0)
    array([0., 1., 2., 1.])
    """
    options = bc, source, mask, steps, method, on_unstable, axes, backend
    return run("diffusion_step", _diffusion, u, dx, dt, (nu,), options, out, workers)


def plan_diffusion_step(
    shape: tuple[int, ...],
    dtype: Any,
    dx: Any,
    dt: float,
    nu: Any,
    *,
    bc: Conditions = PERIODIC,
    source: Any = None,
    mask: Any = None,
    steps: int = 1,
    method: str = "stencil",
    on_unstable: str = "raise",
    axes: int | tuple[int, ...] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> StepPlan:
    """The plan of :func:`diffusion_step` for fields of this shape and dtype on a ``"cpu"`` or ``"cuda"`` device.

    Array arguments are arrays, or their ``ArraySpec``; call the plan with u and these arrays in the order of the
    arguments: ``plan(u, nu, source, mask)``.

    Parameters
    ----------
    shape, dtype
        Of the field.
    dx, dt, nu, bc, source, mask, steps, method, on_unstable, axes, backend
        As for :func:`diffusion_step`; arrays may be given as ``ArraySpec`` values.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    StepPlan
        A frozen, hashable value; call it with u and the arrays.

    Raises
    ------
    TypeError, ValueError, StabilityError, UnsupportedError
        As for :func:`diffusion_step`.

    Examples
    --------
    >>> import spectralops as so
    >>> plan = so.plan_diffusion_step((512, 512), "float32", 0.1, 0.002, 1.0, steps=8)
    >>> plan.halo, plan.bytes_moved
    ((8, 8), 2097152)
    """
    options = Options(bc, source, mask, steps, method, on_unstable, axes, backend)
    return prepare("diffusion_step", shape, dtype, dx, dt, _diffusion(nu), options, device)[0]


def _diffusion(nu: Any) -> Named:
    return (("", Diffusion(nu)),)


def convection_step(
    u: Any,
    velocity: Any,
    dx: Any,
    dt: float,
    *,
    scheme: str = "upwind",
    form: str = "advective",
    bc: Conditions = PERIODIC,
    source: Any = None,
    mask: Any = None,
    steps: int = 1,
    method: str = "stencil",
    on_unstable: str = "raise",
    axes: int | tuple[int, ...] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    r"""Forward Euler steps of :math:`u_t + v\cdot\nabla u = s`, or in flux form :math:`u_t + \nabla\cdot(v u) = s`.

    Parameters
    ----------
    u : array
        Field, real; any dimensions beyond the stepped axes are batch.
    velocity : float, array, or sequence of them
        Cell-centred velocity [L/T], one component per stepped axis in the order of `axes`; a bare value only with
        one axis. The flux form takes the arithmetic mean of arrays on faces.
    dx : float or sequence of float
        Cell size along each stepped axis [L].
    dt : float
        Time step [T].
    scheme : {"upwind", "central", "upwind3", "weno5"}
        First-order upwind, second-order central, third-order upwind-biased, or fifth-order WENO.
    form : {"advective", "flux"}
        The flux form conserves the sum of u; both are the same for a constant velocity.
    bc : condition, dict or tuple, default Periodic()
        Boundary conditions, per axis and side.
    source : float or array, optional
        Added to u_t [units of u / T].
    mask : array of bool, optional
        True where u is computed.
    steps : int
        Number of steps.
    method : {"stencil", "spectral", "auto"}
        ``"spectral"`` takes all steps at once: transforms, the scheme's own amplification factor to the power `steps`.
        For constant coefficients, without a mask, on axes that are periodic, closed or zero at both ends. It agrees
        with the stencil to rounding errors, not bit for bit, and spreads NaN over the field. ``"auto"`` takes it where
        it can and costs less, from 10 to 50 right-hand sides on; ``plan.explain()`` says which ran and why.
    on_unstable : {"raise", "warn", "ignore"}
        What to do about a dt beyond the stability bound.
    axes : int or tuple of int, optional
        Stepped axes, at most three.
    out : array, optional
        Receives the result; must not overlap the inputs.
    workers : int, optional
        Most threads to use, as in ``scipy.fft``; small work keeps to one.
    backend : str, optional
        Backend to use instead of the preferred one.

    Returns
    -------
    array
        The field after `steps` steps, in the library, on the device and in the shape and dtype of u.

    Raises
    ------
    TypeError
        If an argument has the wrong kind, an array is complex, or arrays mix libraries or devices.
    ValueError
        If a value or shape does not fit: sizes, axes, a non-finite number, dx or dt not positive.
    StabilityError
        If all velocities are numbers and dt is too large: for ``"upwind"`` if
        :math:`\sum_a |v_a|\Delta t/\Delta x_a > 1`. With forward Euler the other schemes amplify long waves for every
        dt: take them with ``ssprk3`` in :func:`spectralops.pde_step`, or with diffusion.
    UnsupportedError
        If the method or backend does not serve the request.

    Notes
    -----
    ``spectralops/_plans/schemes.py`` states the schemes and the order of operations to the last bit.

    References
    ----------
    .. [1] W. Hundsdorfer, J. Verwer, Numerical Solution of Time-Dependent Advection-Diffusion-Reaction Equations,
       Springer 2003 (upwind, central, third-order upwind-biased).
    .. [2] R. Borges, M. Carmona, B. Costa, W. S. Don, J. Comput. Phys. 227 (2008) 3191 (``weno5``).

    Examples
    --------
    >>> import spectralops as so
    >>> so.convection_step([0.0, 0.0, 4.0, 0.0], 1.0, 1.0, 0.5)
    array([0., 0., 2., 2.])
    """
    options = bc, source, mask, steps, method, on_unstable, axes, backend
    return run("convection_step", _convection, u, dx, dt, (velocity, scheme, form), options, out, workers)


def plan_convection_step(
    shape: tuple[int, ...],
    dtype: Any,
    velocity: Any,
    dx: Any,
    dt: float,
    *,
    scheme: str = "upwind",
    form: str = "advective",
    bc: Conditions = PERIODIC,
    source: Any = None,
    mask: Any = None,
    steps: int = 1,
    method: str = "stencil",
    on_unstable: str = "raise",
    axes: int | tuple[int, ...] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> StepPlan:
    """The plan of :func:`convection_step`; call it as ``plan(u, *velocity, source, mask)`` with the array arguments.

    Parameters
    ----------
    shape, dtype
        Of the field.
    velocity, dx, dt, scheme, form, bc, source, mask, steps, method, on_unstable, axes, backend
        As for :func:`convection_step`; arrays may be given as ``ArraySpec`` values.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    StepPlan
        A frozen, hashable value; call it with u and the arrays.

    Raises
    ------
    TypeError, ValueError, StabilityError, UnsupportedError
        As for :func:`convection_step`.

    Examples
    --------
    >>> import spectralops as so
    >>> so.plan_convection_step((64,), "float64", 2.0, 0.1, 0.01).stable_dt
    0.05
    """
    options = Options(bc, source, mask, steps, method, on_unstable, axes, backend)
    terms = _convection(velocity, scheme, form)
    return prepare("convection_step", shape, dtype, dx, dt, terms, options, device)[0]


def _convection(velocity: Any, scheme: str, form: str) -> Named:
    if velocity is None:
        raise TypeError("convection_step: velocity is None, but must be a number, an array or a sequence of them")
    return (("", advection("convection_step", velocity, scheme, form)),)


def diffuse_convect_step(
    u: Any,
    dx: Any,
    dt: float,
    nu: Any,
    *,
    velocity: Any = None,
    scheme: str = "central",
    form: str = "advective",
    bc: Conditions = PERIODIC,
    source: Any = None,
    mask: Any = None,
    steps: int = 1,
    method: str = "stencil",
    on_unstable: str = "raise",
    axes: int | tuple[int, ...] | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    r"""Forward Euler steps of :math:`u_t + v\cdot\nabla u = \nabla\cdot(\nu\nabla u) + s`, or of Burgers' equation.

    Without a velocity, u carries itself: :math:`u_t + u\sum_a \partial_a u = \nu\nabla^2 u + s`, the viscous Burgers
    equation of one scalar. In one dimension with the central scheme that is the textbook step
    :math:`u_i + \Delta t\,[\nu (u_{i-1} - 2u_i + u_{i+1})/\Delta x^2 - u_i (u_{i+1} - u_{i-1})/(2\Delta x)]`.

    Parameters
    ----------
    u : array
        Field, real; any dimensions beyond the stepped axes are batch.
    dx : float or sequence of float
        Cell size along each stepped axis [L].
    dt : float
        Time step [T].
    nu : float or array
        Diffusivity, not negative [L²/T].
    velocity : float, array, or sequence of them, optional
        Cell-centred velocity [L/T], one component per stepped axis in the order of `axes`.
    scheme : {"central", "upwind", "upwind3", "weno5"}
        Scheme of the advection, as in :func:`convection_step`.
    form : {"advective", "flux"}
        The flux form conserves the sum of u: :math:`\nabla\cdot(v u)`, or :math:`\sum_a \partial_a (u^2/2)`.
    bc : condition, dict or tuple, default Periodic()
        Boundary conditions, per axis and side.
    source : float or array, optional
        Added to u_t [units of u / T].
    mask : array of bool, optional
        True where u is computed.
    steps : int
        Number of steps.
    method : {"stencil", "spectral", "auto"}
        ``"spectral"`` takes all steps at once: transforms, the scheme's own amplification factor to the power `steps`.
        For constant coefficients, without a mask, on axes that are periodic, closed or zero at both ends. It agrees
        with the stencil to rounding errors, not bit for bit, and spreads NaN over the field. ``"auto"`` takes it where
        it can and costs less, from 10 to 50 right-hand sides on; ``plan.explain()`` says which ran and why.
    on_unstable : {"raise", "warn", "ignore"}
        What to do about a dt beyond the stability bound.
    axes : int or tuple of int, optional
        Stepped axes, at most three.
    out : array, optional
        Receives the result; must not overlap the inputs.
    workers : int, optional
        Most threads to use, as in ``scipy.fft``; small work keeps to one.
    backend : str, optional
        Backend to use instead of the preferred one.

    Returns
    -------
    array
        The field after `steps` steps, in the library, on the device and in the shape and dtype of u.

    Raises
    ------
    TypeError
        If an argument has the wrong kind, an array is complex, or arrays mix libraries or devices.
    ValueError
        If a value or shape does not fit: sizes, axes, a negative or non-finite coefficient, dx or dt not positive.
    StabilityError
        If dt is too large: central scheme :math:`\sum_a r_a > 1/2` or :math:`\sum_a C_a^2/(2 r_a) > 1`, upwind
        :math:`\sum_a |C_a| + 2\sum_a r_a > 1`, with :math:`C_a = v_a\Delta t/\Delta x_a`. Where the velocity is an
        array or u itself, only the diffusion is judged.
    UnsupportedError
        If the method or backend does not serve the request.

    Notes
    -----
    ``spectralops/_plans/schemes.py`` states the schemes and the order of operations to the last bit.

    References
    ----------
    .. [1] A. C. Hindmarsh, P. M. Gresho, D. F. Griffiths, Int. J. Numer. Methods Fluids 4 (1984) 853.

    Examples
    --------
    >>> import spectralops as so
    >>> so.diffuse_convect_step([0.0, 1.0, 2.0, 1.0, 0.0], 1.0, 0.25, 1.0, bc=so.Hold())
    array([0.  , 0.75, 1.5 , 1.25, 0.  ])
    """
    options = bc, source, mask, steps, method, on_unstable, axes, backend
    return run("diffuse_convect_step", _both, u, dx, dt, (nu, velocity, scheme, form), options, out, workers)


def plan_diffuse_convect_step(
    shape: tuple[int, ...],
    dtype: Any,
    dx: Any,
    dt: float,
    nu: Any,
    *,
    velocity: Any = None,
    scheme: str = "central",
    form: str = "advective",
    bc: Conditions = PERIODIC,
    source: Any = None,
    mask: Any = None,
    steps: int = 1,
    method: str = "stencil",
    on_unstable: str = "raise",
    axes: int | tuple[int, ...] | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> StepPlan:
    """The plan of :func:`diffuse_convect_step`; call it as ``plan(u, nu, *velocity, source, mask)`` with the arrays.

    Parameters
    ----------
    shape, dtype
        Of the field.
    dx, dt, nu, velocity, scheme, form, bc, source, mask, steps, method, on_unstable, axes, backend
        As for :func:`diffuse_convect_step`; arrays may be given as ``ArraySpec`` values.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    StepPlan
        A frozen, hashable value; call it with u and the arrays.

    Raises
    ------
    TypeError, ValueError, StabilityError, UnsupportedError
        As for :func:`diffuse_convect_step`.

    Examples
    --------
    >>> import spectralops as so
    >>> so.plan_diffuse_convect_step((64,), "float64", 1.0, 0.1, 1.0, velocity=2.0).stable_dt
    0.5
    """
    options = Options(bc, source, mask, steps, method, on_unstable, axes, backend)
    terms = _both(nu, velocity, scheme, form)
    return prepare("diffuse_convect_step", shape, dtype, dx, dt, terms, options, device)[0]


def _both(nu: Any, velocity: Any, scheme: str, form: str) -> Named:
    return (("", Diffusion(nu)), ("", advection("diffuse_convect_step", velocity, scheme, form)))
