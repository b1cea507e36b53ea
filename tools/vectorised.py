"""Show that inner loops of steps and filters are vector code: read the machine code that LLVM makes of them.

    python tools/vectorised.py [--all] [--only WORD ...]

For each kernel, every innermost loop that computes with floating-point numbers is one of two kinds: a main loop, whose
arithmetic is packed without exception, or a scalar one. Kernels handle ghosts in other loops and remainders of rows by
masked vectors, so that none of theirs should be scalar. Exit status 1 if one is, or if a kernel has no main loop. For
x86-64.
"""

from __future__ import annotations

import argparse
import platform
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import spectralops as so

__all__ = ["Loop", "innermost_loops"]

ARITHMETIC = r"v?(?:add|sub|mul|div|sqrt|min|max|fn?m(?:add|sub)\d+)"
PACKED = re.compile(rf"^{ARITHMETIC}p[sd]$")
SCALAR = re.compile(rf"^{ARITHMETIC}s[sd]$")
LABEL = re.compile(r"^([.\w$]+):")
JUMP = re.compile(r"^\s+j\w+\s+([.\w$]+)\s*$")
REGISTER = re.compile(r"%([xyz])mm\d+")
BITS = {"x": 128, "y": 256, "z": 512}


@dataclass(frozen=True, slots=True)
class Loop:
    """An innermost loop: how many packed and scalar operations, and the widest register in them, in bits."""

    packed: int
    scalar: int
    bits: int

    @property
    def main(self) -> bool:
        return self.packed > 0 and self.scalar == 0


def innermost_loops(assembly: str) -> Iterator[Loop]:
    """The loops of LLVM's assembly text that hold no other and compute with floating-point numbers."""
    lines = [line.split("#")[0].rstrip() for line in assembly.splitlines()]
    labels = {found.group(1): at for at, line in enumerate(lines) if (found := LABEL.match(line))}
    spans = []
    for at, line in enumerate(lines):
        jump = JUMP.match(line)
        if jump and labels.get(jump.group(1), at) < at:
            spans.append((labels[jump.group(1)], at))
    for first, last in spans:
        if any(first <= a and b <= last and (a, b) != (first, last) for a, b in spans):
            continue
        words = [line.split(None, 1) for line in lines[first:last] if line.startswith("\t")]
        packed = [word for word in words if PACKED.match(word[0])]
        scalar = [word for word in words if SCALAR.match(word[0])]
        if packed or scalar:
            widths = [BITS[letter] for word in packed for letter in REGISTER.findall(word[-1])]
            yield Loop(len(packed), len(scalar), max(widths, default=0))


def steps() -> Iterator[tuple[str, Any]]:
    """Plans that between them use every kind of term, scheme, integrator and coefficient."""
    sizes, h = (32, 32, 32), (1.0, 1.0, 1.0)
    for dtype in ("float32", "float64"):
        for d in (1, 2, 3):
            shape, dx, axes = sizes[:d], h[:d], tuple(range(d))
            field = np.ones(shape, dtype)
            mask = np.ones(shape, bool)
            common: dict[str, Any] = {"axes": axes, "on_unstable": "ignore", "backend": "cpu"}
            variants: dict[str, Callable[[], Any]] = {
                "diffusion": lambda s=shape, t=dtype, o=common, x=dx: so.plan_diffusion_step(s, t, x, 0.01, 1.0, **o),
                "diffusion source": lambda s=shape, t=dtype, o=common, x=dx, f=field: so.plan_diffusion_step(
                    s, t, x, 0.01, 1.0, source=f, **o
                ),
                "flux": lambda s=shape, t=dtype, o=common, x=dx, f=field: so.plan_diffusion_step(s, t, x, 0.01, f, **o),
                "flux mask": lambda s=shape, t=dtype, o=common, x=dx, f=field, m=mask: so.plan_diffusion_step(
                    s, t, x, 0.01, f, mask=m, **o
                ),
                "Burgers": lambda s=shape, t=dtype, o=common, x=dx: so.plan_diffuse_convect_step(
                    s, t, x, 0.01, 1.0, **o
                ),
            }
            for scheme in ("upwind", "weno5"):
                variants[f"Burgers {scheme} flux"] = lambda s=shape, t=dtype, o=common, x=dx, c=scheme: (
                    so.plan_diffuse_convect_step(s, t, x, 0.01, 1.0, scheme=c, form="flux", **o)
                )
                variants[f"convection {scheme}"] = lambda s=shape, t=dtype, o=common, x=dx, c=scheme, f=field, n=d: (
                    so.plan_convection_step(s, t, (f,) * n, x, 0.01, scheme=c, **o)
                )
            for integrator in ("rk2", "ssprk3", "rk4"):
                variants[integrator] = lambda s=shape, t=dtype, o=common, x=dx, i=integrator: so.plan_pde_step(
                    s, t, x, 0.01, [so.Diffusion(1.0), so.SelfAdvection("central")], integrator=i, **o
                )
            for name, make in variants.items():
                yield f"{name} {d}d {dtype}", make


def assemblies(everything: bool) -> Iterator[tuple[str, Callable[[], str]]]:
    """Names of kernels and functions that compile them to assembly text."""
    from spectralops._cpu.stencil.machine import assembly
    from spectralops._cpu.stencil.program import program_of

    for name, make in steps():
        if everything or "2d" in name:
            yield name, lambda make=make: assembly(program_of(make())[0])
    for dtype in ("float32", "float64"):
        for form in ("open", "coast", "flux"):
            for d in (1, 2, 3):
                if everything or d == 2:
                    yield f"filter {form} {d}d {dtype}", lambda n=f"chebyshev_{form}_{d}d", t=dtype: compiled(n, t)


def compiled(name: str, dtype: str) -> str:
    """A kernel of the vector engine, compiled as the engine does."""
    from spectralops._cpu.vector import kernels

    machine, module = kernels.optimised(name, dtype)
    return str(machine.emit_assembly(module))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="in one and three dimensions too")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="kernels whose name contains every word")
    options = parser.parse_args()
    if platform.machine().lower() not in ("x86_64", "amd64"):
        parser.error(f"this reads the assembly of x86-64, but must run on one, not on {platform.machine()}")
    bad = 0
    print(f"{'kernel':34}{'main loops':>11}  packed operations in each (register bits), scalar loops")
    for name, assembly in assemblies(options.all):
        if not all(word in name for word in options.only):
            continue
        loops = list(innermost_loops(assembly()))
        good, poor = [loop for loop in loops if loop.main], [loop for loop in loops if not loop.main]
        words = ", ".join(f"{loop.packed} ({loop.bits})" for loop in good)
        words += "".join(f"   SCALAR {loop.scalar} beside {loop.packed} packed" for loop in poor)
        print(f"{name:34}{len(good):11}  {words}", flush=True)
        bad += not good or bool(poor)
    print(f"\n{bad} kernels with scalar arithmetic in a loop, or no vector loop at all")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
