"""What a convolution may still do to its results while it stores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spectralops import _arrays, _checks

__all__ = ["ACTIVATIONS", "Epilogue"]

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "tanh")

Factor = float | tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Epilogue:
    r"""Scale, shift and activation, applied to each result of a convolution while it is stored.

    .. math:: z = f(a_c \, y + b_c)

    where y is the convolution with its bias and c the output channel. A batch normalisation with fixed statistics is
    ``scale = gamma / sqrt(var + eps)``, ``shift = beta - scale * mean``.

    Parameters
    ----------
    scale, shift : float or sequence of float, optional
        a and b: one number, or one per output channel.
    activation : {"relu", "gelu", "gelu_tanh", "silu", "tanh"}, optional
        f; "gelu" is x times the normal distribution function, "gelu_tanh" its approximation [1]_; "silu" is x times
        the logistic function. Default: the identity.

    Raises
    ------
    TypeError
        If scale or shift are no real numbers.
    ValueError
        If they are not finite, or the activation does not exist.

    References
    ----------
    .. [1] D. Hendrycks and K. Gimpel, "Gaussian error linear units", arXiv:1606.08415, section 2.

    Examples
    --------
    >>> Epilogue(scale=[1, 2.5], activation="relu")
    Epilogue(scale=(1.0, 2.5), shift=None, activation='relu')
    """

    scale: Factor = None
    shift: Factor = None
    activation: str | None = None

    def __post_init__(self) -> None:
        for name in ("scale", "shift"):
            object.__setattr__(self, name, _factor(name, getattr(self, name)))
        if self.activation is not None:
            _checks.choice("Epilogue", "activation", self.activation, ACTIVATIONS)


def _factor(name: str, value: Any) -> Factor:
    if value is None:
        return None
    if _arrays.is_array(value) or (isinstance(value, Sequence) and not isinstance(value, _checks.BUFFERS)):
        return tuple(_checks.number("Epilogue", f"{name}[{i}]", item) for i, item in enumerate(value))
    return _checks.number("Epilogue", name, value)
