"""Convolutions with the meaning of SciPy's and PyTorch's, by direct sums, transforms or tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectralops import _arrays, _checks, _dispatch
from spectralops._plans import conv2d as _conv2d
from spectralops._plans import convolve as _convolve
from spectralops._plans.conv2d import Conv2dPlan
from spectralops._plans.convolution import around
from spectralops._plans.convolve import ConvolvePlan
from spectralops._plans.epilogue import Epilogue
from spectralops._plans.looks import Known, Looks

__all__ = ["Epilogue", "convolve", "fft_conv2d", "plan_convolve", "plan_fft_conv2d"]

_convolutions = Looks(Known)
_layers = Looks(Known)


def convolve(
    x: Any,
    kernel: Any,
    /,
    *,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: complex = 0,
    axes: int | Sequence[int] | None = None,
    method: str = "auto",
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    r"""Convolve an array with a kernel along one or several axes.

    .. math:: y_n = \sum_j k_j \, \tilde x_{n - j}

    over the convolved axes, where :math:`\tilde x` continues x beyond its ends. One function for what
    ``scipy.signal`` spreads over ``convolve``, ``convolve2d``, ``fftconvolve`` and ``oaconvolve``, in any number of
    dimensions.

    Parameters
    ----------
    x : array
        The signal. Its other axes are batch axes.
    kernel : array
        The kernel: either with one axis per axis of `axes`, in their order, the same for the whole batch; or with the
        dimensions of x (leading ones of length 1 may be missing), whose other axes broadcast against the batch. One
        with the dimensions of x is read in their order, whatever that of `axes` is, as in ``scipy.signal.fftconvolve``.
    mode : {"full", "same", "valid"}, optional
        Which outputs: every one that any x reaches (N + K - 1 along each axis); N outputs, those of "full" from
        (K - 1)//2 on; or only those that need nothing beyond the ends, \|N - K\| + 1. For "valid" either array may be
        the longer one, the same one along every axis.
    boundary : {"fill", "wrap", "symm"}, optional
        x beyond its ends: `fillvalue`; x again, periodically; or x mirrored about its end faces, the end values
        repeated. "circular" and "symmetric" are other words for the last two. A kernel longer than x sees as many
        periods or reflections as it reaches. Without effect for mode "valid".
    fillvalue : number, optional
        The value beyond the ends for "fill"; complex only if the result is.
    axes : int or sequence of int, optional
        Convolved axes of x. Default: as many last ones as the kernel has axes.
    method : {"auto", "direct", "fft", "tiles"}, optional
        Direct sums, one transform for each array, overlapping tiles of x (overlap-save, for a long x and a short
        kernel), or the quickest of them by a cost model of the shapes; ``plan_convolve(...).explain()`` says which.
    out : array, optional
        Where to put the result; returned.
    workers : int, optional
        Most threads to use, as in ``scipy.fft``; small work keeps to one.
    backend : str, optional
        The executor; by default the best for the array's device.

    Returns
    -------
    array
        Of the library, device and precision of x and `kernel`; its batch axes are those of x and the kernel,
        broadcast. Integers and bool are computed in float64 (or the library's own default), and so is their result.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind, or x and kernel live in different libraries or devices.
    ValueError
        If an axis is empty, the batch axes do not broadcast, the kernel has too many or too few dimensions, neither
        array contains the other for "valid", or an option has a value that does not exist or has no effect.
    UnsupportedError
        If no backend has the dtype.

    See Also
    --------
    fft_conv2d : Multi-channel cross-correlation as in neural networks.
    spectral_filter : Periodic filters that are given by their transfer function.

    Notes
    -----
    A NaN or an infinity in x makes every output that depends on it non-finite, by every method. Direct sums keep the
    others finite; one transform spreads it over the whole array that it lies in (never to another one of the batch),
    tiles over the tiles that contain it, on a CUDA device over two tiles of its array. "auto" judges by the shapes and
    does not look at the data: ask for "direct" where non-finite values must stay local.

    On the CPU compiled kernels run every method, in up to three dimensions (direct sums in any number); ``explain()``
    says where NumPy and SciPy do. The cost model knows both. How quick the machine's kernels are is measured once, by
    :func:`warmup` or after some seconds of convolutions, and kept in the user's cache directory;
    ``SPECTRALOPS_RATES=default`` uses the shipped rates, and a file's name there those that it holds.

    The arrays may be given in either order with ``boundary="fill"`` and mode "full" or "valid"; the shorter one is
    the one that is cut out of the sums or whose spectrum the tiles share.

    References
    ----------
    .. [1] A. V. Oppenheim and R. W. Schafer, *Discrete-Time Signal Processing*, 3rd ed., Pearson, 2010, section 8.7:
       linear convolution by circular convolution, overlap-save.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops as so
    >>> so.convolve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5]), mode="same")
    array([1. , 2.5, 4. ])
    >>> so.convolve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.5]), mode="same", boundary="wrap")
    array([2.5, 2.5, 4. ])
    """
    options = mode, boundary, fillvalue, axes, method, backend
    known, found = _convolutions.find(x, (kernel, *options), around("convolve", x, backend))
    if known.plan is not None:
        return known(found, out, workers)
    home, spec = _arrays.describe("convolve", "x", x)
    plan = _convolve.build(
        spec, kernel, mode=mode, boundary=boundary, fillvalue=fillvalue, axes=axes, method=method, backend=backend,
        device=home.kind, default=_arrays.default_float(home),
    )  # fmt: skip
    known.keep(plan, found, (x, kernel))
    return plan(x, kernel, out=out, workers=workers)


def plan_convolve(
    shape: int | Sequence[int],
    dtype: Any,
    kernel: Any,
    /,
    *,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: complex = 0,
    axes: int | Sequence[int] | None = None,
    method: str = "auto",
    backend: str | None = None,
    device: str = "cpu",
) -> ConvolvePlan:
    """Plan :func:`convolve` for arrays of one shape and dtype.

    Parameters
    ----------
    shape, dtype
        Of x.
    kernel : array or ArraySpec
        The kernel, of which only shape and dtype count.
    mode, boundary, fillvalue, axes, method, backend
        As in :func:`convolve`.
    device : str, optional
        Where the arrays will live: ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    ConvolvePlan
        To be called as ``plan(x, kernel, out=None, workers=None)``.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As :func:`convolve` does.

    Examples
    --------
    >>> import numpy as np
    >>> plan = plan_convolve(1_000_000, "float64", np.ones(100))
    >>> plan.out_shape, plan.method
    ((1000099,), 'tiles')
    """
    spec = _arrays.ArraySpec(_checks.shape("convolve", shape), _checks.dtype("convolve", dtype))
    return _convolve.build(
        spec, kernel, mode=mode, boundary=boundary, fillvalue=fillvalue, axes=axes, method=method, backend=backend,
        device=device,
    )  # fmt: skip


def fft_conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    /,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    method: str = "auto",
    epilogue: Epilogue | None = None,
    out: Any = None,
    workers: int | None = None,
    backend: str | None = None,
) -> Any:
    r"""Cross-correlate images with the kernels of a convolution layer: ``torch.nn.functional.conv2d``.

    .. math:: y_{n, o, i} = f\Big(\beta_o + \sum_{c, k} w_{o, c, k} \, \tilde x_{n, c, s i + d k}\Big)

    where i and k run over rows and columns, c over the input channels of o's group, :math:`\tilde x` is x with its
    padding, s the stride, d the dilation and f the epilogue. The kernel is neither reversed nor conjugated.

    Parameters
    ----------
    x : array
        Images, (N, C_in, H, W) or (C_in, H, W).
    weight : array
        Kernels, (C_out, C_in / groups, K_h, K_w).
    bias : array, optional
        (C_out,).
    stride : int or (int, int), optional
        Distance of the results in x, along rows and columns.
    padding : int, (int, int), "same" or "valid", optional
        Cells added on both sides, along rows and columns. "same" adds d (K - 1) in all, so that the result has the size
        of x (stride 1 only); an odd number's extra cell lies below or to the right. "valid" adds none.
    dilation : int or (int, int), optional
        Distance in x of neighbouring elements of the kernel.
    groups : int, optional
        Number of independent groups of channels; C_in for a depthwise convolution.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, optional
        What the padding holds: zeros, x mirrored about its end values, its end values, or x periodically, as in
        ``torch.nn.Conv2d``.
    method : {"auto", "direct", "fft", "tiles"}, optional
        Direct sums (a matrix product for several input channels), one transform per image, overlapping tiles
        (overlap-save), or the quickest of them by a cost model of the shapes; ``plan_fft_conv2d(...).explain()`` says
        which.
    epilogue : Epilogue, optional
        Scale, shift and activation, applied to each result while it is stored.
    out : array, optional
        Where to put the result; returned.
    workers : int, optional
        Most threads to use, as in ``scipy.fft``; small work keeps to one.
    backend : str, optional
        The executor; by default the best for the array's device.

    Returns
    -------
    array
        (N, C_out, H_out, W_out), or without N as x is, with H_out = (H + padding - d (K_h - 1) - 1) // s + 1 and so on;
        of the library, device and precision of the arguments. Integers and bool are computed in float64 (or the
        library's own default), and so is their result.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind, the arguments live in different libraries or devices, or an activation is
        asked for complex results.
    ValueError
        If shapes, channels and groups do not fit together, the kernel is larger than the padded image, or the padding
        is larger than its mode allows (less than the size for "reflect", at most the size for "circular").
    UnsupportedError
        If no backend has the dtype.

    See Also
    --------
    convolve : Convolution of one array with one kernel, in any number of dimensions.
    spectral_conv : Kernels that are given by their spectrum.

    Notes
    -----
    A NaN or an infinity in x makes every result that depends on it non-finite, by every method. Direct sums keep the
    others finite; transforms spread it over the whole image, tiles over the tiles that contain it, on a CUDA device
    over two tiles of its channel. "auto" judges by the shapes and does not look at the data: ask for "direct" where
    non-finite values must stay local. Strided results are computed densely by transforms and then thinned, which the
    cost model knows.

    On the CPU compiled kernels run every method, and a kernel's transform is kept for the next call with the same one;
    :func:`convolve` says where the cost model has its rates from. ``explain()`` names the algorithm, who runs it and
    what the others would cost.

    References
    ----------
    .. [1] M. Mathieu, M. Henaff and Y. LeCun, "Fast training of convolutional networks through FFTs",
       arXiv:1312.5851, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> import spectralops as so
    >>> x, weight = np.arange(16.0).reshape(1, 4, 4), np.ones((1, 1, 3, 3))
    >>> so.fft_conv2d(x, weight, np.array([-60.0]), epilogue=so.Epilogue(activation="relu"))
    array([[[ 0.,  0.],
            [21., 30.]]])
    >>> so.fft_conv2d(x, weight, padding="same", padding_mode="circular")[0, 0]
    array([60., 57., 66., 63.])
    """
    options = stride, padding, dilation, groups, padding_mode, method, epilogue, backend
    known, found = _layers.find(x, (weight, bias, *options), around("fft_conv2d", x, backend))
    if known.plan is not None:
        return known(found, out, workers)
    home, spec = _arrays.describe("fft_conv2d", "x", x)
    plan = _conv2d.build(
        spec, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups,
        padding_mode=padding_mode, method=method, epilogue=epilogue, backend=backend, device=home.kind,
        default=_arrays.default_float(home),
    )  # fmt: skip
    arrays = (x, weight) if bias is None else (x, weight, bias)
    known.keep(plan, found, arrays)
    return _dispatch.execute(plan, arrays, out=out, workers=workers)


def plan_fft_conv2d(
    shape: Sequence[int],
    dtype: Any,
    weight: Any,
    bias: Any = None,
    /,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    method: str = "auto",
    epilogue: Epilogue | None = None,
    backend: str | None = None,
    device: str = "cpu",
) -> Conv2dPlan:
    """Plan :func:`fft_conv2d` for images of one shape and dtype.

    Parameters
    ----------
    shape, dtype
        Of x.
    weight, bias : array or ArraySpec
        Of which only shape and dtype count.
    stride, padding, dilation, groups, padding_mode, method, epilogue, backend
        As in :func:`fft_conv2d`.
    device : str, optional
        Where the arrays will live: ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    Conv2dPlan
        To be called as ``plan(x, weight, out=None, workers=None)``, with the bias after the weight if there is one.

    Raises
    ------
    TypeError, ValueError, UnsupportedError
        As :func:`fft_conv2d` does.

    Examples
    --------
    >>> import numpy as np
    >>> plan = plan_fft_conv2d((8, 16, 224, 224), "float32", np.ones((32, 16, 31, 31), "float32"), padding="same")
    >>> plan.out_shape, plan.method
    ((8, 32, 224, 224), 'tiles')
    """
    spec = _arrays.ArraySpec(_checks.shape("fft_conv2d", shape), _checks.dtype("fft_conv2d", dtype))
    return _conv2d.build(
        spec, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups,
        padding_mode=padding_mode, method=method, epilogue=epilogue, backend=backend, device=device,
    )  # fmt: skip
