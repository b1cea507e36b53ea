// What kernels along an axis that is not contiguous share.
#pragma once
#include "complex.cuh"

// Where the lines of an array [outer][N][pitch] lie; the pitches are template arguments, so that offsets are constants.
struct ColumnArguments {
  long long columns;              // of a plane
  long long in_outer, out_outer;  // distances between planes
  long long mirror;               // PAIRS: column k > 0 has column mirror - k beside it
  long long nyquist;              // PAIRS: the column that is real like column 0, 0 if there is none
};

// Column k of rows 2r and 2r + 1, each twice, out of columns k and N - k of the row that both are packed in.
template <typename T>
SOPS_DEVICE void unpack_pair(Complex<T> z, Complex<T> m, Complex<T>& first, Complex<T>& second) {
  first = {z.re + m.re, z.im - m.im};
  second = {z.im + m.im, m.re - z.re};
}
// And back; of a `real` column nothing but real parts counts.
template <typename T, typename I>
SOPS_DEVICE void pack_pair(Complex<T>* row, I k, I mirror, bool real, Complex<T> first, Complex<T> second) {
  if (real) {
    row[k] = {first.re, second.re};
  } else {
    row[k] = {first.re - second.im, first.im + second.re};
    row[mirror] = {first.re + second.im, second.re - first.im};
  }
}
