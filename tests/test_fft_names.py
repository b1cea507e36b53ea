"""spectralops.fft has every name of scipy.fft, with its signature."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import scipy.fft

import spectralops.fft as fft

NAMES = sorted(scipy.fft.__all__)


def test_every_name_of_scipy_is_there() -> None:
    assert set(fft.__all__) == set(scipy.fft.__all__)
    assert set(scipy.fft.__all__) <= set(dir(fft))


@pytest.mark.parametrize("name", NAMES)
def test_signature_is_that_of_scipy(name: str) -> None:
    def plain(function: object) -> list[tuple[object, ...]]:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
        return [(p.name, p.kind, p.default) for p in parameters]

    assert plain(getattr(fft, name)) == plain(getattr(scipy.fft, name))


@pytest.mark.parametrize("name", NAMES)
def test_name_and_docstring(name: str) -> None:
    function = getattr(fft, name)
    assert function.__name__ == name
    assert inspect.getdoc(function)


OWN = [name for name in NAMES if getattr(fft, name) is not getattr(scipy.fft, name)]


@pytest.mark.parametrize("name", OWN)
def test_own_functions_are_typed_and_describe_every_parameter(name: str) -> None:
    function = getattr(fft, name)
    signature = inspect.signature(function)
    assert signature.return_annotation != inspect.Signature.empty
    text = inspect.getdoc(function) or ""
    for parameter in signature.parameters.values():
        assert parameter.annotation != inspect.Parameter.empty
        assert parameter.name in text.split("Parameters\n")[1]


def test_what_concerns_no_array_is_scipys_own() -> None:
    assert set(NAMES) - set(OWN) == {
        "fhtoffset",
        "get_workers",
        "next_fast_len",
        "prev_fast_len",
        "register_backend",
        "set_backend",
        "set_global_backend",
        "set_workers",
        "skip_backend",
    }


def test_import_brings_scipy_but_no_other_array_library() -> None:
    code = "import sys, spectralops.fft; print(*sorted({'cupy', 'torch', 'jax', 'scipy'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["scipy"]
