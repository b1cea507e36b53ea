"""Many tridiagonal systems at once, on arrays of any library."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat

__all__ = ["Cyclic", "Tridiagonal"]


class Tridiagonal:
    """Systems ``lower[j] x[j-1] + diagonal[j] x[j] + upper[j] x[j+1] = y[j]`` along the axis before the last.

    Elimination without pivoting: for matrices that are diagonally dominant by rows or by columns.

    Parameters
    ----------
    lower, diagonal, upper : array
        (n, systems); the first of `lower` and the last of `upper` do not count.
    """

    def __init__(self, lower: Any, diagonal: Any, upper: Any) -> None:
        n = diagonal.shape[0]
        self.inverse, self.factors = [1 / diagonal[0, :]], [0 * diagonal[0, :]]
        self.upper = [upper[j, :] for j in range(n)]
        for j in range(1, n):
            self.factors.append(lower[j, :] * self.inverse[-1])
            self.inverse.append(1 / (diagonal[j, :] - self.factors[-1] * self.upper[j - 1]))

    def solve(self, y: Any) -> Any:
        """The solutions for right-hand sides (…, n, systems)."""
        values = [y[..., 0, :]]
        for j in range(1, len(self.factors)):
            values.append(y[..., j, :] - self.factors[j] * values[-1])
        values[-1] = values[-1] * self.inverse[-1]
        for j in range(len(values) - 2, -1, -1):
            values[j] = (values[j] - self.upper[j] * values[j + 1]) * self.inverse[j]
        return compat.array_namespace(y).stack(values, axis=-2)


class Cyclic:
    """The same on a circle of at least three, by the formula of Sherman and Morrison.

    `lower` begins with the coupling of the first to the last, `upper` ends with that of the last to the first.
    """

    def __init__(self, lower: Any, diagonal: Any, upper: Any) -> None:
        xp = compat.array_namespace(diagonal)
        first, last, pivot = lower[:1, :], upper[-1:, :], -diagonal[:1, :]
        ends = diagonal[:1, :] - pivot, diagonal[-1:, :] - first * last / pivot
        self.inner = Tridiagonal(lower, xp.concat([ends[0], diagonal[1:-1, :], ends[1]], axis=0), upper)
        self.weight = first / pivot
        source = xp.concat([pivot, xp.zeros_like(diagonal[1:-1, :]), last], axis=0)
        self.response = self.inner.solve(source)
        self.share = 1 / (1 + self.response[:1, :] + self.weight * self.response[-1:, :])

    def solve(self, y: Any) -> Any:
        """The solutions for right-hand sides (…, n, systems)."""
        x = self.inner.solve(y)
        ends = x[..., :1, :] + self.weight * x[..., -1:, :]
        return x - ends * self.share * self.response
