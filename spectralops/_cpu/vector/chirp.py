"""Transforms of any length, by convolution with a chirp.

With b_j = exp(−iπ j²/n), the transform is X_k = b_k Σ_j (x_j b_j) conj(b_{k−j}): a convolution, done by transforms of a
smooth length m ≥ 2n − 1 (Bluestein 1970, IEEE Trans. Audio Electroacoust. 18). The inverse uses the conjugates. Both
work in place in a group with room for m positions and leave frequencies in their natural order.
"""

from __future__ import annotations

from typing import Any

from spectralops._cpu.vector.emit import at, call, floats, integers, shift
from spectralops._cpu.vector.spectra import blank, scale, scale_conjugate

__all__ = ["chirp_forward", "chirp_inverse"]


def _chirp(multiply: Any) -> Any:
    def transform(group: Any, axis: Any, numbers: Any) -> None:
        """The table of numbers holds the n values of the chirp, then the m of its transform over m."""
        n, m = at(axis, 0), at(axis, 1)
        plan, twiddles = integers(at(axis, 2)), floats(at(axis, 3), group)
        multiply(group, n, numbers)
        blank(group, n, m)
        call(at(axis, 4), (group, plan, twiddles))
        multiply(group, m, shift(numbers, 2 * n))
        call(at(axis, 5), (group, plan, twiddles))
        multiply(group, n, numbers)

    return transform


chirp_forward = _chirp(scale)
chirp_inverse = _chirp(scale_conjugate)
