// Two real rows of W values, one after the other in memory and stored as S, as one complex row.
#pragma once
#include "fft.cuh"
#include "rows.cuh"

// What thread t holds before the first pass of F; and after the last one.
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
