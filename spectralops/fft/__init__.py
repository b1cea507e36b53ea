"""scipy.fft for the arrays you already have: ``import spectralops.fft as fft`` instead of ``import scipy.fft as fft``.

Every name of :mod:`scipy.fft` is here with its signature and its meaning. NumPy arrays, and whatever
:func:`numpy.asarray` makes one of, go to SciPy, or to the package's vector engine where that is faster; CuPy arrays to
cupyx.scipy.fft; torch tensors to torch.fft. Arrays of JAX and of other libraries on the host are viewed by SciPy (on a
GPU by cupyx) without a copy. The result is an array of the caller's library on the same device. The functions are
eager.

Arguments that all transforms share:

norm : {"backward", "ortho", "forward"}, optional
    Where the scale 1/n goes: on the inverse transform (the default, None), its root on both, or on the forward one.
overwrite_x : bool
    Permission to destroy `x`. SciPy and cupyx make use of it; without it no input is ever modified.
workers : int, optional
    Most threads to use on NumPy arrays, negative to count back from the number of cores; the vector engine keeps small
    work to one. For arrays of any other library it must be None.
plan : optional
    A cuFFT plan from ``cupyx.scipy.fft.get_fft_plan`` for CuPy arrays; for all others it must be None. With a plan,
    also an active one, the real inverses are cuFFT's own, which may let imaginary parts of DC and Nyquist through.

What holds for every library:

- float32 and complex64 stay single, float16 and bfloat16 are computed and returned in single precision, integers and
  bool in the library's default precision. NumPy's longdouble is SciPy's to compute.
- Imaginary parts that a real signal cannot have, at DC and Nyquist, are ignored by the real inverses on every engine;
  what cuFFT would make of them costs a pass over the spectrum to prevent.
- A batch may be empty. A transform of length 0 is a ValueError, as are other lengths, axes, norms and types that make
  no sense; what is no array of numbers, and complex input where it must be real, is a TypeError. (irfftn and hfftn of
  NumPy arrays with a single element on the half axis take the length for 1, as SciPy does.)
- torch differentiates: everything that torch.fft runs does, in any precision. The cosine, sine and Hankel transforms
  run on SciPy or cupyx and refuse tensors that require grad.
- The vector engine runs `fft`, `ifft`, `rfft`, `irfft` and their forms in several dimensions on C-contiguous arrays of
  single and double precision that are large enough to gain, at their own lengths, with a real side halved along the
  last axis: mostly 1.5 to 2 times as fast as SciPy, and as accurate. It needs llvmlite; ``SPECTRALOPS_NUMBA=0`` and any
  backend set by SciPy's control switch it off.
- The backend control (`set_backend` and the others) is SciPy's own. It reaches the transforms of NumPy arrays, which
  call SciPy's public functions.
"""

from __future__ import annotations

from scipy.fft import (
    fhtoffset,
    get_workers,
    next_fast_len,
    prev_fast_len,
    register_backend,
    set_backend,
    set_global_backend,
    set_workers,
    skip_backend,
)

from spectralops.fft._cosine import dct, dctn, idct, idctn
from spectralops.fft._hankel import fht, ifht
from spectralops.fft._helpers import fftfreq, fftshift, ifftshift, rfftfreq
from spectralops.fft._n_dimensions import fftn, hfftn, ifftn, ihfftn, irfftn, rfftn
from spectralops.fft._one_dimension import fft, hfft, ifft, ihfft, irfft, rfft
from spectralops.fft._sine import dst, dstn, idst, idstn
from spectralops.fft._two_dimensions import fft2, hfft2, ifft2, ihfft2, irfft2, rfft2

__all__ = [
    "dct",
    "dctn",
    "dst",
    "dstn",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "fht",
    "fhtoffset",
    "get_workers",
    "hfft",
    "hfft2",
    "hfftn",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ifht",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "next_fast_len",
    "prev_fast_len",
    "register_backend",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
    "set_backend",
    "set_global_backend",
    "set_workers",
    "skip_backend",
]
