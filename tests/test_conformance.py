"""Every operator on every backend, dtype, layout and library against the float64 reference."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from conformance import CASES, LAYOUTS, Variant, device_variants, host_variants
from libraries import library
from support import assert_close, tolerance

from spectralops import UnsupportedError, _arrays, _dispatch, _interchange
from spectralops._support import BACKENDS, SUPPORT

HOST = host_variants()
# The plain backend beside each tuned one.
PLAIN = {"cpu": "numpy", "cuda": "cupy"}
# NumPy's own warnings of inf - inf and the like are the values' business, not the suite's.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every allocation starts as NaN, so that an element which nobody writes shows."""
    allocate = _interchange.empty

    def poisoned(shape, dtype, home):
        array = allocate(shape, dtype, home)
        array.fill(np.nan if array.dtype.kind in "fc" else -1)  # as bits of bfloat16 a NaN
        return array

    monkeypatch.setattr(_interchange, "empty", poisoned)


def chosen_backend(variant: Variant, inputs: dict) -> str:
    """The backend that runs the call where the caller names none."""
    plans = []
    with _dispatch.observe(lambda plan, arrays, result: plans.append(plan)):
        variant.case.call(variant.function(), inputs)
    return plans[-1].backend


def run(variant: Variant, device: str = "cpu") -> None:
    lib = library(variant.library, device)
    function, arrays = variant.function(), variant.arrays()
    inputs = {name: lib.make(x) for name, x in arrays.items()}
    before = {name: lib.read(x).copy() for name, x in inputs.items()}

    if variant.backend in PLAIN and chosen_backend(variant, inputs) != variant.backend:
        # No tuned executor covers this call: asked for one, the operator says so.
        plain = PLAIN[variant.backend]
        with pytest.raises(UnsupportedError, match=f"backend is '{variant.backend}', but must be '{plain}'"):
            variant.case.call(function, inputs, backend=variant.backend)
        return
    result = variant.case.call(function, inputs, backend=variant.backend)

    assert isinstance(result, lib.type)
    assert _arrays.dtype_name(result.dtype) == variant.result_dtype
    assert_close(lib.read(result), variant.expected(), variant.bound(arrays))
    for name, x in inputs.items():
        assert np.array_equal(lib.read(x), before[name], equal_nan=True), f"{name} was modified"

    again = variant.case.call(function, inputs, backend=variant.backend)
    assert np.array_equal(lib.read(again), lib.read(result), equal_nan=True), "the second call differs"
    if variant.library == "jax":
        return
    out = lib.make(np.full(lib.read(result).shape, 7, lib.read(result).dtype))
    if variant.dtype == "bfloat16" and variant.library == "torch":
        out = out.to(result.dtype)
    returned = variant.case.call(function, inputs, backend=variant.backend, out=out)
    assert returned is out
    assert np.array_equal(lib.read(out), lib.read(result), equal_nan=True), "out= differs"


@pytest.mark.parametrize("variant", HOST, ids=str)
def test_matches_reference(variant: Variant) -> None:
    run(variant)


@pytest.mark.gpu
@pytest.mark.parametrize("variant", device_variants(), ids=str)
def test_matches_reference_on_gpu(variant: Variant) -> None:
    run(variant, "cuda")


def _one_element_off(x: np.ndarray, bound: float) -> np.ndarray:
    wrong = x.copy()
    wrong.flat[x.size // 2] += 20 * bound * max(float(np.abs(x).max()), 1e-300)
    return wrong


SPOILS = {
    "one-element-off": _one_element_off,
    "shifted-by-one": lambda x, bound: np.roll(x, 1, axis=-1),
    "sign-flipped": lambda x, bound: -x,
    "element-missing": lambda x, bound: x[..., :-1],
    "nan": lambda x, bound: np.where(np.arange(x.size).reshape(x.shape) == 0, np.nan, x),
}


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_wrong_result_is_seen(case, spoil: str) -> None:
    variant = Variant(case, "reference", case.dtypes[0])
    expected = variant.expected()
    if expected.size < 2:
        assert spoil in SPOILS  # nothing to shift or to miss in fewer than two elements
        return
    bound = tolerance(variant.dtype, expected.size, case.kind, case.growth)
    wrong = SPOILS[spoil](expected, bound)
    if wrong.shape == expected.shape and np.array_equal(wrong, expected, equal_nan=True):
        assert spoil in ("shifted-by-one", "sign-flipped"), "the canary changed nothing"
        return  # a constant field does not change when it is shifted, nor zero when its sign is flipped
    with pytest.raises(AssertionError):
        assert_close(wrong, expected, bound)


def test_the_suite_is_complete() -> None:
    """At least 1,500 variants, 30 an operator, and every host row × dtype × layout of SUPPORT."""
    assert len(HOST) >= 1500
    operators = {op for op, _ in SUPPORT}
    count = Counter(variant.case.op for variant in HOST)
    assert {op: n for op in operators if (n := count[op]) < 30} == {}
    seen = {(v.case.op, v.backend, v.dtype, v.layout) for v in HOST}
    missing = [
        (op, backend, dtype, layout)
        for (op, backend), row in SUPPORT.items()
        if BACKENDS[backend] == "cpu"
        for dtype in row.dtypes
        for layout in LAYOUTS
        if (op, backend, dtype, layout) not in seen and (layout, dtype) != ("big-endian", "bfloat16")
    ]
    assert missing == []


def test_ids_are_unique() -> None:
    repeated = [name for name, n in Counter(str(v) for v in HOST).items() if n > 1]
    assert repeated == []
