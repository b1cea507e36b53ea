// Two real rows as one complex row (PAIRS): columns of its spectrum told apart, rows in memory read and written.
#pragma once
#include "fft.cuh"
#include "rows.cuh"

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

// Rows of W values, one after the other in memory and stored as S: what thread t holds before the first pass of F; and
// after the last one.
template <typename F, typename S, typename T, int HELD>
SOPS_DEVICE void load_pair(Complex<T> (&v)[HELD], const S* rows, int t) {
  constexpr int W = F::N;
  if constexpr (F::template by_two<0>() && W % 2 == 0) {
    F::template neighbours<0>(t, [&](int slot, int next, int i) {
      const Complex<T> a = to_number(load_once((const Complex<S>*)(rows + i)));
      const Complex<T> b = to_number(load_once((const Complex<S>*)(rows + W + i)));
      v[slot] = {a.re, b.re};
      v[next] = {a.im, b.im};
    });
  } else {
    F::template elements<0>(t, [&](int slot, int i) {
      v[slot] = {to_number(load_once(rows + i)), to_number(load_once(rows + W + i))};
    });
  }
}
template <typename F, typename S, typename T, int HELD>
SOPS_DEVICE void store_pair(const Complex<T> (&v)[HELD], S* rows, int t) {
  constexpr int LAST = F::PASSES - 1, W = F::N;
  if constexpr (F::template by_two<LAST>() && W % 2 == 0) {
    F::template neighbours<LAST>(t, [&](int slot, int next, int i) {
      using Stored = Storage<Complex<S>>;
      store_once((Complex<S>*)(rows + i), Stored::from(Complex<T>{v[slot].re, v[next].re}));
      store_once((Complex<S>*)(rows + W + i), Stored::from(Complex<T>{v[slot].im, v[next].im}));
    });
  } else {
    F::template elements<LAST>(t, [&](int slot, int i) {
      store_once(rows + i, Storage<S>::from(v[slot].re));
      store_once(rows + W + i, Storage<S>::from(v[slot].im));
    });
  }
}
