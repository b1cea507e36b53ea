"""The vector FFT engine: explicit SIMD kernels compiled by numba, and the fused filters built on them.

From the ground up: `host` (the CPU), `emit` (vector operations as LLVM code), `butterflies` (radices 2 to 8), `passes`
(one transform, any 2·3·5·7-smooth length), `layout` and `spectra` (arrays to lanes to spectra and back), `stages` and
`arrange` (the kernels), `kernels` (compiling and caching them), `tables` and `jobs` (what they read), `workspace`
(memory and threads), `filters` (arrays in, arrays out). Only `emit` and what builds on it load numba, only to compile.
"""
