"""How large the processor's caches are."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

__all__ = ["last_cache"]

# Where the system does not say: what a core has of it on small machines.
USUAL = 1 << 23
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@lru_cache(maxsize=1)
def last_cache() -> int:
    """Bytes of the largest cache that a core reads through."""
    return max((_size(path) for path in CACHES.glob("index*/size")), default=0) or USUAL


def _size(path: Path) -> int:
    try:
        text = path.read_text().strip()
        return int(text.rstrip("KMG")) * UNITS.get(text[-1:], 1)
    except (OSError, ValueError):
        return 0
