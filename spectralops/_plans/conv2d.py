"""Plans of fft_conv2d: a multi-channel cross-correlation, and the algorithm that computes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from spectralops import _checks, _dispatch, _support
from spectralops._arrays import ArraySpec, Operand
from spectralops._plans import transform
from spectralops._plans.conv2d_arguments import (
    OP,
    PADDING_MODES,
    Pair,
    check_epilogue,
    check_shapes,
    check_sizes,
    extent,
    padded_size,
    sizes,
    widths_of,
)
from spectralops._plans.conv2d_cost import Channels
from spectralops._plans.convolution import (
    METHODS,
    bytes_moved,
    explain_method,
    offered,
    operand_dtype,
    quickest,
    result_dtype,
    surroundings,
)
from spectralops._plans.convolution_cost import Cost, choose
from spectralops._plans.cudnn_cost import cudnn_seconds
from spectralops._plans.device_convolution_cost import DeviceSums, ring
from spectralops._plans.epilogue import Epilogue
from spectralops._plans.memo import memoised
from spectralops._plans.vector_cost import Rates, Sums
from spectralops.errors import UnsupportedError

__all__ = ["Conv2dPlan", "build"]


@dataclass(frozen=True, slots=True)
class Conv2dPlan:
    """The plan of one cross-correlation: what a call with these shapes, dtypes and options will do.

    Attributes
    ----------
    op, backend : str
        The operator's name and the backend that runs it.
    operands : tuple of Operand
        x, weight, and bias if there is one.
    out_shape : tuple of int
        Shape of the result.
    out_dtype : str
        Its dtype.
    stride, dilation : tuple of (int, int)
        Distance between results, and between the elements of x that neighbouring elements of the kernel meet.
    padding : tuple of (int, int)
        Cells added (or, negative, taken away) before and after each axis: rows, then columns.
    padding_mode : str
        How they are filled.
    groups : int
        Independent groups of channels.
    epilogue : Epilogue or None
        What is done to each result while it is stored.
    forward : Conv2dPlan or None
        For an adjoint, the plan that it is the adjoint of.
    requested : str
        The `method` asked for.
    cost : Cost
        The algorithm that runs, its operations and transform lengths.
    seconds : tuple of (str, float)
        Predicted time of each algorithm, and of cuDNN where `spectralops.torch` may hand tensors to it.
    """

    op: str
    backend: str
    operands: tuple[Operand, ...]
    out_shape: tuple[int, ...]
    out_dtype: str
    stride: Pair
    dilation: Pair
    padding: tuple[Pair, Pair]
    padding_mode: str
    groups: int
    epilogue: Epilogue | None
    forward: Conv2dPlan | None
    requested: str
    cost: Cost
    seconds: tuple[tuple[str, float], ...]

    @property
    def in_shape(self) -> tuple[int, ...]:
        """Shape of x."""
        return self.operands[0].spec.shape

    @property
    def compute_dtype(self) -> str:
        """Type of the arithmetic."""
        return _checks.compute_dtype(self.out_dtype)

    @property
    def in_place(self) -> bool:
        """Whether `out` may be x: no."""
        return False

    @property
    def method(self) -> str:
        """The algorithm that runs: ``"direct"``, ``"fft"`` or ``"tiles"``."""
        return self.cost.method

    @property
    def handed_over(self) -> bool:
        """Whether cuDNN is predicted to be quicker on tensors of PyTorch, and nothing else was asked for."""
        return self.requested == "auto" and self.cost.seconds > dict(self.seconds).get("cudnn", math.inf)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Transform lengths of rows and columns; none for direct sums."""
        return self.cost.lengths

    @property
    def kernel(self) -> Pair:
        """The kernel's extent with its holes."""
        return extent(self.operands[1].spec.shape, self.dilation)

    @property
    def spread(self) -> Pair:
        """Distance at which the elements of x are laid out, zeros between them: the stride of what is transposed."""
        return self.forward.stride if self.forward else (1, 1)

    @property
    def halo(self) -> tuple[int, ...]:
        """How far an output reaches along each axis of x, counted from where the kernel begins or ends."""
        return (0,) * (len(self.in_shape) - 2) + tuple(k - 1 for k in self.kernel)

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes between memory and processor: the arguments in, the result out."""
        return bytes_moved(self.operands, self.out_shape, self.out_dtype)

    @property
    def flops(self) -> int:
        """Operations of the algorithm that runs, without bias and epilogue."""
        return self.cost.flops

    @property
    def index_bits(self) -> int:
        """32 or 64: the index width that reaches every element of the arrays, padding included."""
        image = padded_size(self.in_shape[-2:], self.spread, self.padding)
        padded = (*self.in_shape[:-2], *image)
        return _checks.index_bits(padded, self.operands[1].spec.shape, self.out_shape)

    def adjoint(self) -> Conv2dPlan:
        """Plan of the adjoint map of x -> y for a fixed weight: torch's conv_transpose2d with the conjugate weight.

        It takes y and the same weight.

        Raises
        ------
        UnsupportedError
            If the map is not linear in x, or its adjoint is no convolution.
        """
        if self.forward is not None:
            return self.forward
        if len(self.operands) > 2 or self.epilogue is not None:
            what = "bias" if len(self.operands) > 2 else "epilogue"
            raise UnsupportedError(f"{OP}: {what} is given, but must be None for the map to be linear")
        if self.padding_mode != "zeros" and any(map(any, self.padding)):
            raise UnsupportedError(
                f"{OP}: padding_mode is {self.padding_mode!r}, but must be 'zeros' "
                "to have an adjoint that is a convolution"
            )
        x, weight = self.operands
        if x.spec.dtype not in _checks.COMPLEXES and self.out_dtype in _checks.COMPLEXES:
            raise UnsupportedError(
                f"{OP}: x is {x.spec.dtype} and weight {weight.spec.dtype}, but both must be real, or x complex, "
                "to have an adjoint that is a convolution"
            )
        y = ArraySpec(self.out_shape, self.out_dtype)
        before, after = [], []
        for n, m, k, s, (low, _) in zip(
            self.in_shape[-2:], self.out_shape[-2:], self.kernel, self.stride, self.padding, strict=True
        ):
            before.append(k - 1 - low)
            after.append(n + low - (m - 1) * s - 1)
        padding = tuple(zip(before, after, strict=True))
        plan = _build(
            y, weight.spec, None, self.out_dtype, (1, 1), self.dilation, padding, "zeros", self.groups, None,
            self, self.requested, self.backend, *surroundings(OP, "", self.backend),
        )  # fmt: skip
        return _support.settled(plan, None)

    def explain(self) -> str:
        """What runs, in words."""
        names = ", ".join(f"{o.name} {o.spec.dtype}{list(o.spec.shape)}" for o in self.operands)
        adjoint = " (adjoint)" if self.forward else ""
        return (
            f"{OP}{adjoint} on backend {self.backend!r}: {names} -> {self.out_dtype}{list(self.out_shape)}\n"
            f"stride {self.stride}, padding {self.padding} {self.padding_mode!r}, dilation {self.dilation}, "
            f"groups {self.groups}, epilogue {self.epilogue}, computed in {self.compute_dtype}\n"
            f"{explain_method(self)}"
        )

    def __call__(self, x: Any, *operands: Any, out: Any = None, workers: int | None = None) -> Any:
        """Run the plan on arrays of the planned shapes and dtypes."""
        return _dispatch.execute(self, (x, *operands), out=out, workers=workers)


def build(
    x: ArraySpec,
    weight: Any,
    bias: Any,
    *,
    stride: int | Sequence[int],
    padding: int | Sequence[int] | str,
    dilation: int | Sequence[int],
    groups: int,
    padding_mode: str,
    method: str,
    epilogue: Epilogue | None,
    backend: str | None,
    device: str,
    default: str = "float64",
) -> Conv2dPlan:
    """The plan of a call of :func:`spectralops.fft_conv2d`."""
    weight = transform.array_spec(OP, "weight", weight)
    bias = None if bias is None else transform.array_spec(OP, "bias", bias)
    return _checked(
        x, weight, bias, stride, padding, dilation, groups, padding_mode, method, epilogue, backend, device, default,
        *surroundings(OP, device, backend),
    )  # fmt: skip


@memoised
def _checked(
    x: ArraySpec,
    weight: ArraySpec,
    bias: ArraySpec | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int] | str,
    dilation: int | Sequence[int],
    groups: int,
    padding_mode: str,
    method: str,
    epilogue: Epilogue | None,
    backend: str | None,
    device: str,
    default: str,
    rates: Rates | None,
    shared: int,
) -> Conv2dPlan:
    """Check and canonicalise the arguments."""
    (groups,) = sizes("groups", groups, 1)
    check_shapes(x, weight, bias, groups)
    stride, dilation = sizes("stride", stride, 2), sizes("dilation", dilation, 2)
    _checks.choice(OP, "padding_mode", padding_mode, PADDING_MODES)
    _checks.choice(OP, "method", method, METHODS)
    widths = widths_of(padding, extent(weight.shape, dilation), stride)
    whole = (n + sum(width) for n, width in zip(x.shape[-2:], widths, strict=True))
    _checks.fits_memory(OP, "padding", padding, (*x.shape[:-2], *whole), "complex128")
    check_sizes(x.shape, extent(weight.shape, dilation), widths, padding_mode)
    dtypes = {"x": x.dtype, "weight": weight.dtype} | ({"bias": bias.dtype} if bias else {})
    out_dtype = result_dtype(OP, dtypes, default)
    check_epilogue(epilogue, weight.shape[0], out_dtype)
    chosen = _support.select(OP, out_dtype, transform.device_kind(OP, device), backend)
    plan = _build(
        x,
        weight,
        bias,
        out_dtype,
        stride,
        dilation,
        widths,
        padding_mode,
        groups,
        epilogue,
        None,
        method,
        chosen,
        rates,
        shared,
    )
    return _support.settled(plan, backend)


@lru_cache(maxsize=512)
def _build(
    x: ArraySpec,
    weight: ArraySpec,
    bias: ArraySpec | None,
    out_dtype: str,
    stride: Pair,
    dilation: Pair,
    padding: tuple[Pair, Pair],
    padding_mode: str,
    groups: int,
    epilogue: Epilogue | None,
    forward: Conv2dPlan | None,
    method: str,
    backend: str,
    rates: Rates | None,
    shared: int,
) -> Conv2dPlan:
    """The plan of canonical arguments."""
    specs = {"x": x, "weight": weight} | ({"bias": bias} if bias else {})
    operands = tuple(Operand(name, spec, operand_dtype(spec.dtype, out_dtype)) for name, spec in specs.items())
    outputs, inputs = weight.shape[0] // groups, weight.shape[1]
    if forward is not None:
        outputs, inputs = inputs, outputs
    image = padded_size(x.shape[-2:], forward.stride if forward else (1, 1), padding)
    kernel = extent(weight.shape, dilation)
    rows, columns = ((n - k) // s + 1 for n, k, s in zip(image, kernel, stride, strict=True))
    channels = Channels(
        batch=math.prod(x.shape[:-3]),
        groups=groups,
        inputs=inputs,
        outputs=outputs,
        image=image,
        kernel=kernel,
        result=(rows, columns),
        taps=math.prod(weight.shape[2:]),
        stride=stride,
        is_complex=(x.dtype in _checks.COMPLEXES, weight.dtype in _checks.COMPLEXES),
        width=2 if out_dtype in ("float64", "complex128") else 1,
    )
    costs = channels.costs()
    if rates is not None and backend == "cpu":
        # Zeros around an image are never laid out.
        apart = padding if padding_mode == "zeros" else ((0, 0), (0, 0))
        costs = _compiled_costs(channels, apart, weight.shape[2:], rates)
    elif shared:
        costs = offered(_device_costs(channels, weight.shape[2:], padding, padding_mode, shared), costs, method)
    out_shape = (*x.shape[:-3], groups * outputs, rows, columns)
    alike = shared and forward is None and out_dtype == x.dtype
    predicted = [(cost.method, cost.seconds) for cost in costs]
    if alike and (elsewhere := cudnn_seconds(x, weight, out_shape, groups)) is not None:
        predicted.append(("cudnn", elsewhere))
    return Conv2dPlan(
        op=OP,
        backend=backend,
        operands=operands,
        out_shape=out_shape,
        out_dtype=out_dtype,
        stride=stride,
        dilation=dilation,
        padding=padding,
        padding_mode=padding_mode,
        groups=groups,
        epilogue=epilogue,
        forward=forward,
        requested=method,
        cost=choose(costs, method),
        seconds=tuple(predicted),
    )


def _compiled_costs(
    channels: Channels, padding: tuple[Pair, Pair], held: tuple[int, ...], rates: Rates
) -> tuple[Cost, ...]:
    """Costs where compiled kernels can run; `padding` cells of the image are known to be zeros."""
    sums = Sums(
        image=tuple(n - low - high for n, (low, high) in zip(channels.image, padding, strict=True)),
        taps=channels.kernel,
        start=tuple(k - 1 - low for k, (low, _) in zip(channels.kernel, padding, strict=True)),
        step=channels.stride,
        results=channels.result,
        held=held,
        batch=channels.batch,
        kernels=1,
        groups=channels.groups,
        inputs=channels.inputs,
        outputs=channels.outputs,
        is_complex=channels.is_complex,
        width=channels.width,
        rates=rates,
    )
    return quickest((sums.direct(), channels.direct())), sums.whole(), sums.tiled()


def _device_costs(
    channels: Channels, held: tuple[int, ...], padding: tuple[Pair, Pair], mode: str, shared: int
) -> tuple[Cost, ...]:
    """Costs of the kernels of a device whose blocks have so much shared memory."""
    groups = channels.batch * channels.groups
    dense = tuple((n - 1) * s + 1 for n, s in zip(channels.result, channels.stride, strict=True))
    cells = tuple(n - low - high for n, (low, high) in zip(channels.image, padding, strict=True))
    whole = tuple(
        ring(n, low, w, k) if mode == "zeros" else w + k - 1
        for n, k, w, (low, _) in zip(cells, channels.kernel, dense, padding, strict=True)
    )
    return DeviceSums(
        extent=channels.kernel,
        taps=held,
        result=channels.result,
        stride=channels.stride,
        images=groups * channels.inputs,
        kernels=channels.groups * channels.inputs * channels.outputs,
        planes=groups * channels.outputs,
        inputs=channels.inputs,
        outputs=channels.outputs,
        is_complex=channels.is_complex,
        width=channels.width,
        period=tuple(n if mode == "circular" and n == m else 0 for n, m in zip(cells, dense, strict=True)),
        cells=cells,
        whole=whole,
        odd=padding[1][0] % 2 == 1,
        shared=shared,
    ).costs()
