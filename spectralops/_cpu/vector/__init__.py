"""The vector FFT engine: explicit SIMD kernels compiled by LLVM, and the fused filters built on them.

From the ground up: `host` (the CPU), `emit` (vector operations as LLVM code), `loops` (plain loops around them, from
Python's syntax), `butterflies` (radices 2 to 8), `passes` (one transform whose length has no large prime factor),
`chirp` (of any other), `layout` and `spectra` (arrays to lanes to spectra and back), `stages` and `arrange` (the
kernels), `kernels` (compiling and caching them), `tables` and `jobs` (what they read), `workspace` and `prepared`
(memory, threads, filters kept), `routes` and `large` (what runs for a shape), `filters` (arrays in, arrays out), `each`
(filters that differ along the batch); `products`, `folding`, `signs`, `truncated`, `pruned` and `shortened` (kernels of
transforms to kept modes), `fourier_matrices`, `truncation` and its steps, waves and fields (what they read), `mixing`
and `channels` (spectral convolutions); `natural`, `lines` and `transforms` (the same for lone transforms), `choice`,
`rows` and `caches` (what it takes, and which way).
Beside the transforms: `sums` and `direct` (direct convolutions), `windows` and `tiles` (convolutions by tiles), with
their fields and jobs, `convolution` (arrays in, arrays out), `chebyshev` (polynomials of a Laplacian),
`sweep_operations` and `sweeps` (transport of tracers, by the formulas of `spectralops._remap`). Only to compile are
`emit` and what builds on it loaded.
"""
