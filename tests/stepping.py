"""Small step functions that the tests of the time loop share."""

from __future__ import annotations

import inspect

import numpy as np

LIBRARIES = ("numpy", "torch", "jax", "array_api_strict")


def halve(u):
    return u * 0.5


def relax(u, dt):
    """Euler step of u' = -u."""
    return u - dt * u


def rotate(u, *, shift=1):
    return np.roll(u, shift)


def relax_out(u, dt=0.125, out=None):
    return np.subtract(u, dt * u, out=out)


def relax_many(u, dt=0.125, steps=1, out=None):
    out = np.array(u) if out is None else out
    out[...] = u
    for _ in range(steps):
        out -= dt * out
    return out


class Recording:
    """A step that notes every call's keywords."""

    def __init__(self, step):
        self.step = step
        self.calls = []
        self.__signature__ = inspect.signature(step)

    def __call__(self, u, **keywords):
        self.calls.append(keywords)
        return self.step(u, **keywords)
