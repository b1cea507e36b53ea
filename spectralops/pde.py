"""Explicit Runge–Kutta steps of equations put together from terms: diffusion, advection, sources, reactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectralops._plans.step_arguments import Options, prepare, run
from spectralops._plans.steps import StepPlan
from spectralops._plans.terms import Advection, Diffusion, Pointwise, SelfAdvection, Source, Term
from spectralops.boundary import Conditions, Periodic

__all__ = ["Advection", "Diffusion", "Pointwise", "SelfAdvection", "Source", "pde_step", "plan_pde_step"]

PERIODIC = Periodic()


def pde_step(
    u: Any,
    dx: Any,
    dt: float,
    terms: Term | Sequence[Term],
    *,
    integrator: str = "euler",
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
    r"""Explicit time steps of :math:`u_t = \sum_k T_k(u)`.

    Parameters
    ----------
    u : array
        Field, real; any dimensions beyond the stepped axes are batch.
    dx : float or sequence of float
        Cell size along each stepped axis [L].
    dt : float
        Time step [T].
    terms : term or sequence of terms
        What u_t is the sum of: :class:`Diffusion`, :class:`Advection`, :class:`SelfAdvection`, :class:`Source`,
        :class:`Pointwise`.
    integrator : {"euler", "rk2", "ssprk3", "rk4"}
        Forward Euler, Heun's method, the strong-stability-preserving scheme of third order, or the classical
        scheme of fourth order.
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
        If a mode of the linear terms whose coefficients are numbers would grow; its `stable_dt` is the largest
        dt without growth. ``weno5`` is judged by the linear scheme that it is where u is smooth.
    UnsupportedError
        If the method or backend does not serve the request.

    Notes
    -----
    Sources and boundary data are constant in time. ``spectralops/_plans/schemes.py`` states the schemes and the
    order of operations to the last bit; a step with ``"euler"`` equals the other step operators' bit for bit.

    References
    ----------
    .. [1] C.-W. Shu, S. Osher, J. Comput. Phys. 77 (1988) 439 (``rk2``, ``ssprk3``).
    .. [2] E. Hairer, S. P. Nørsett, G. Wanner, Solving Ordinary Differential Equations I, 2nd ed., Springer 1993
       (``rk4``).

    Examples
    --------
    >>> import spectralops as so
    >>> growth = so.Pointwise(lambda u: u * (1 - u))
    >>> so.pde_step([0.0, 0.5, 1.0], 1.0, 0.1, [so.Diffusion(1.0), growth], bc=so.Reflect())
    array([0.05 , 0.525, 0.95 ])
    """
    options = bc, source, mask, steps, method, on_unstable, axes, backend, integrator
    return run("pde_step", named, u, dx, dt, (terms,), options, out, workers)


def plan_pde_step(
    shape: tuple[int, ...],
    dtype: Any,
    dx: Any,
    dt: float,
    terms: Term | Sequence[Term],
    *,
    integrator: str = "euler",
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
    """The plan of :func:`pde_step`; call it with u, the arrays of the terms in their order, source and mask.

    Parameters
    ----------
    shape, dtype
        Of the field.
    dx, dt, terms, integrator, bc, source, mask, steps, method, on_unstable, axes, backend
        As for :func:`pde_step`; arrays may be given as ``ArraySpec`` values.
    device : str
        Where the arrays will lie, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    StepPlan
        A frozen, hashable value; call it with u and the arrays.

    Raises
    ------
    TypeError, ValueError, StabilityError, UnsupportedError
        As for :func:`pde_step`.

    Examples
    --------
    >>> import spectralops as so
    >>> plan = so.plan_pde_step((64,), "float64", 1.0, 0.5, so.Advection(1.0, "upwind3"), integrator="ssprk3")
    >>> plan.halo
    (6,)
    """
    options = Options(bc, source, mask, steps, method, on_unstable, axes, backend, integrator)
    return prepare("pde_step", shape, dtype, dx, dt, named(terms), options, device)[0]


def named(terms: Any) -> tuple[tuple[str, Term], ...]:
    """Each term with the prefix that names its arguments in messages."""
    if isinstance(terms, Term):
        return (("", terms),)
    if not isinstance(terms, list | tuple):
        raise TypeError(f"pde_step: terms is a {type(terms).__name__}, but must be a term or a sequence of terms")
    if not terms:
        raise ValueError("pde_step: terms is empty, but must have at least one term")
    for j, term in enumerate(terms):
        if not isinstance(term, Term):
            raise TypeError(
                f"pde_step: terms[{j}] is a {type(term).__name__}, but must be Diffusion, Advection, SelfAdvection, "
                "Source or Pointwise"
            )
    return tuple((f"terms[{j}].", term) for j, term in enumerate(terms))
