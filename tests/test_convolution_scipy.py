"""The convolutions where nothing can be compiled: the same cases on NumPy and SciPy alone."""

from __future__ import annotations

import pytest
from cases_convolution import CASES
from conformance import Variant
from support import assert_close

VARIANTS = [Variant(case, "cpu", dtype) for case in CASES for dtype in case.dtypes if dtype.endswith(("64", "128"))]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_matches_the_reference(variant, workers, monkeypatch):
    monkeypatch.setenv("SPECTRALOPS_NUMBA", "0")
    arrays = variant.arrays()
    result = variant.case.call(variant.function(), arrays, workers=workers)
    assert_close(result, variant.expected(), variant.bound(arrays))
