"""Errors of a cosine bell after one revolution of the globe, beside published ones at the same resolution.

    python benchmarks/cosine_bell.py [--longitudes 80 160 320] [--limiters monotone positive]

Test 1 of D. L. Williamson et al., J. Comput. Phys. 102 (1992) 211, with its norms, eqs. 82 to 84. Ours run on rows of
4 N longitudes and 2 N latitudes, the published ones on a cubed sphere of 6 N x N cells, which has 4 N round the equator
and, unlike rows of latitude, no poles.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import spectralops.xarray as sx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tracers import bell, field, norms, rotation

# l1, l2 and maximum of the second-order wave propagation method, with limiters, by the angle between the axes and N:
# J. A. Rossmanith, J. Comput. Phys. 213 (2006) 629, tables 3 (over the cube's corners) and 2.
PUBLISHED = {
    (45, 20): (0.502, 0.401, 0.462),
    (45, 40): (0.112, 0.107, 0.176),
    (45, 80): (0.0212, 0.0223, 0.0585),
    (45, 160): (0.00477, 0.00532, 0.0196),
    (90, 20): (0.248, 0.196, 0.183),
    (90, 40): (0.0570, 0.0462, 0.0457),
    (90, 80): (0.0147, 0.0120, 0.0148),
    (90, 160): (0.00377, 0.00322, 0.00626),
}


def revolved(n: int, tilt: int, limiter: str) -> tuple[float, float, float]:
    """The norms on n longitudes, after steps of 0.9 of the largest."""
    latitudes = -90 + 360 / n * (np.arange(n // 2) + 0.5)
    x = bell(field(0.0, latitudes, n))
    y = sx.advect_diffuse(x, *rotation(x, tilt), duration="12 D", limiter=limiter, nondivergent=True)
    return norms(y, x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--longitudes", type=int, nargs="+", default=[80, 160, 320], help="default: %(default)s")
    parser.add_argument("--limiters", nargs="+", default=["monotone", "positive"], help="default: %(default)s")
    options = parser.parse_args()
    print("| angle | longitudes × latitudes | limiter | l1 | l2 | l∞ | published | l1 | l2 | l∞ |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for tilt in (45, 90):
        for n in options.longitudes:
            beside = " | ".join(f"{value:.3g}" for value in PUBLISHED.get((tilt, n // 4), ()))
            for limiter in options.limiters:
                found = " | ".join(f"{value:.3g}" for value in revolved(n, tilt, limiter))
                size = f"6 × {n // 4} × {n // 4}"
                print(f"| {tilt}° | {n} × {n // 2} | {limiter} | {found} | {size} | {beside} |", flush=True)


if __name__ == "__main__":
    main()
