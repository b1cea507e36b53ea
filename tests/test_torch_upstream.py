"""The spectral layer beside neuraloperator's, which must be installed: numbers, gradients, checkpoints, their tests."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
neuralop = pytest.importorskip("neuralop", reason="neuraloperator is not installed")

from neuralop.layers.spectral_convolution import SpectralConv as Theirs  # noqa: E402
from neuralop.models import FNO  # noqa: E402

from spectralops import torch as st  # noqa: E402

# A tensor train of a matrix, one rank for all axes: tensorly warns of what is asked for.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Determining the tt-rank:UserWarning"),
    pytest.mark.filterwarnings("ignore:Given only one int for 'rank':RuntimeWarning"),
]

KINDS = [None, "CP", "Tucker", "TT"]
QUIRKY = functools.partial(st.SpectralConv, upstream_quirks=True)


def distance(a: Any, b: Any) -> float:
    return ((a - b).norm() / b.norm()).item()


def same_gradients(ours: Any, theirs: Any, x: Any) -> None:
    """Outputs, gradients of the input and of all parameters, with a random weight for each output."""
    gradients = []
    for model in (ours, theirs):
        leaf = x.clone().requires_grad_()
        y = model(leaf)
        v = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(7))
        found = torch.autograd.grad((y * v.conj()).real.sum(), [leaf, *model.parameters()])
        named = dict(zip(["x", *(name for name, _ in model.named_parameters())], found, strict=True))
        gradients.append((y.detach(), named))
    (y, ours_by_name), (expected, theirs_by_name) = gradients
    assert distance(y, expected) < 1e-6
    for name, expected in theirs_by_name.items():
        got = ours_by_name[name.removesuffix(".tensor")]
        got = torch.view_as_complex(got) if expected.is_complex() and not got.is_complex() else got
        assert distance(got, expected) < 5e-6, name


@pytest.mark.parametrize("separable", [False, True], ids=["mixing", "separable"])
@pytest.mark.parametrize("implementation", ["reconstructed", "factorized"])
@pytest.mark.parametrize("kind", KINDS)
def test_torch_layer_is_neuraloperators(kind: Any, implementation: str, separable: bool) -> None:
    """Both start from the same weights with the same seed, and load one another's otherwise."""
    channels = (3, 3) if separable else (3, 4)
    options: dict[str, Any] = {"factorization": kind, "implementation": implementation, "separable": separable}
    torch.manual_seed(0)
    theirs = Theirs(*channels, (6, 5), **options)
    torch.manual_seed(0)
    ours = st.SpectralConv(*channels, (6, 5), **options)
    if kind != "TT":
        expected = theirs.weight.to_tensor()
        weight = torch.view_as_complex(ours.weight) if kind is None else ours.weight.to_tensor()
        assert distance(weight, expected) < 1e-6
        assert distance(ours.bias, theirs.bias) < 1e-6
    ours.load_state_dict(theirs.state_dict())
    for sizes in ((12, 10), (4, 4), (8, 9)):
        same_gradients(ours, theirs, torch.randn(2, channels[0], *sizes))
    ours.n_modes = theirs.n_modes = (4, 4)
    same_gradients(ours, theirs, torch.randn(2, channels[0], 12, 10))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rank", "fixed"), [(0.1, False), (1.0, True), (3, False)])
def test_torch_layer_has_neuraloperators_ranks(kind: Any, rank: Any, fixed: bool) -> None:
    shapes = []
    for layer in (Theirs, functools.partial(st.SpectralConv, complex_parameters=True)):
        made = layer(6, 9, (12, 7, 5), factorization=kind, rank=rank, fixed_rank_modes=fixed)
        shapes.append([v.shape for name, v in sorted(made.named_parameters()) if name != "bias"])
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("complex_data", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("sizes", [(12,), (9,), (8, 10), (9, 7), (7, 8, 5)], ids=str)
@pytest.mark.parametrize("scale", [None, 2, 0.5, 1.4])
def test_torch_layer_with_quirks_is_neuraloperators(sizes: tuple[int, ...], scale: Any, complex_data: bool) -> None:
    options: dict[str, Any] = {"complex_data": complex_data, "resolution_scaling_factor": scale}
    theirs, ours = (layer(2, 3, (4, 4, 5)[: len(sizes)], **options) for layer in (Theirs, QUIRKY))
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 2, *sizes, dtype=torch.complex64 if complex_data else torch.float32)
    same_gradients(ours, theirs, x)
    if not complex_data:
        assert distance(ours.transform(x), theirs.transform(x)) < 1e-6


def test_torch_layer_differs_where_neuraloperator_moves_modes() -> None:
    """The three defects are there: the test fails when a release of neuraloperator mends one."""
    for sizes, options in [((8, 8), {"resolution_scaling_factor": 2}), ((8, 8), {"complex_data": True}), ((9, 8), {})]:
        theirs, ours = (layer(2, 2, (4, 4), **options) for layer in (Theirs, st.SpectralConv))
        ours.load_state_dict(theirs.state_dict())
        x = torch.randn(1, 2, *sizes, dtype=torch.complex64 if "complex_data" in options else torch.float32)
        assert distance(ours(x), theirs(x)) > 0.5


MODELS: list[Any] = [
    pytest.param((12,), {}, id="1-d"),
    pytest.param((12, 10), {}, id="2-d"),
    pytest.param((6, 8, 6), {"n_layers": 2}, id="3-d"),
    pytest.param((12, 10), {"factorization": "tucker", "rank": 0.3}, id="Tucker"),
    pytest.param((12, 10), {"factorization": "cp", "implementation": "reconstructed", "rank": 0.3}, id="CP"),
    pytest.param((12, 10), {"factorization": "tt", "rank": 0.3}, id="TT"),
    pytest.param((12, 10), {"separable": True}, id="separable"),
    pytest.param((12, 10), {"max_n_modes": (8, 8)}, id="max_n_modes"),
    pytest.param((12, 10), {"domain_padding": 0.25, "norm": "group_norm", "stabilizer": "tanh"}, id="padded"),
]


@pytest.mark.parametrize(("sizes", "options"), MODELS)
def test_torch_layer_in_neuraloperators_model(sizes: tuple[int, ...], options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    arguments: dict[str, Any] = {
        "n_modes": (6,) * len(sizes),
        "in_channels": 2,
        "out_channels": 1,
        "hidden_channels": 8,
    }
    theirs = FNO(**arguments, **options)
    ours = FNO(**arguments, **options, conv_module=st.SpectralConv)
    ours.load_state_dict(theirs.state_dict())
    same_gradients(ours, theirs, torch.randn(2, 2, *sizes))


@pytest.mark.parametrize(
    ("sizes", "options"),
    [((9, 11), {}), ((8, 8), {"resolution_scaling_factor": [1, 2, 0.5, 1]}), ((8, 8), {"complex_data": True})],
    ids=["odd", "other grids", "complex"],
)
def test_torch_layer_with_quirks_in_neuraloperators_model(sizes: tuple[int, ...], options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    arguments: dict[str, Any] = {"n_modes": (4, 4), "in_channels": 1, "out_channels": 1, "hidden_channels": 4}
    theirs, ours = FNO(**arguments, **options), FNO(**arguments, **options, conv_module=QUIRKY)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(1, 1, *sizes, dtype=torch.complex64 if "complex_data" in options else torch.float32)
    assert distance(ours(x), theirs(x)) < 1e-6


def test_torch_layer_trains_like_neuraloperators() -> None:
    """The same seed, data and optimiser: the same losses."""
    losses: list[list[float]] = []
    for conv_module in (Theirs, st.SpectralConv):
        torch.manual_seed(0)
        model = FNO((6, 6), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2, conv_module=conv_module)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        x = torch.randn(8, 1, 12, 12, generator=torch.Generator().manual_seed(1))
        losses.append([])
        for _ in range(20):
            optimiser.zero_grad()
            loss = (model(x) - x.roll(2, -1)).square().mean()
            loss.backward()
            optimiser.step()
            losses[-1].append(loss.item())
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-5)
    assert losses[0][-1] == pytest.approx(losses[1][-1], rel=2e-2)
    assert losses[0][-1] < 0.8 * losses[0][0]


SUITES = ["layers.tests.test_spectral_convolution", "layers.tests.test_fno_block", "models.tests.test_fno"]


def test_torch_layer_passes_neuraloperators_own_tests(tmp_path: Path) -> None:
    """The largest, with four axes and some with three, take minutes and are left out: they pass, too."""
    tests = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "injected_layer", "-W", "ignore"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests)])}
    environment.pop("PYTEST_ADDOPTS", None)
    selection = ["-k", "not full-4 and not full-3 and not -4-", "--pyargs", *(f"neuralop.{suite}" for suite in SUITES)]
    done = subprocess.run([*command, *selection], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(re.search(r"(\d+) calls of the injected layer", done.stdout)[1]) > 1000
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 350
