// The pointwise multiplier of a spectral filter: a product of up to three factors that broadcast against the spectrum.
#pragma once
#include "complex.cuh"

struct FactorArguments {
  const void* values;
  long long batch, period, stride0, stride1, stride2;
};
struct FilterArguments {
  FactorArguments factors[3];
  long long first;  // number of the first transform
  long long inner;  // a column's index is inner * k1 + k2
  double scale;     // of the unnormalised transforms
  double sign;      // of the factors' imaginary parts: -1 for the adjoint
};

// COMPLEX: one flag per factor, whether its values are complex. Set up for one column of one transform.
template <typename T, bool... COMPLEX>
struct Filter {
  static constexpr int COUNT = sizeof...(COMPLEX);
  SOPS_CONSTEXPR static bool is_complex(int i) {
    constexpr bool all[] = {COMPLEX...};
    return all[i];
  }
  const void* values[COUNT];
  index_t stride[COUNT];
  T scale, sign;

  SOPS_DEVICE Filter(const FilterArguments& a, index_t transform, index_t column) : scale((T)a.scale), sign((T)a.sign) {
    repeat<COUNT>([&](auto i) {
      constexpr int I = decltype(i)::value;
      const FactorArguments& f = a.factors[I];
      index_t at = ((index_t)a.first + transform) % (index_t)f.period * (index_t)f.batch;
      at += column / (index_t)a.inner * (index_t)f.stride1 + column % (index_t)a.inner * (index_t)f.stride2;
      stride[I] = (index_t)f.stride0;
      if constexpr (is_complex(I)) values[I] = (const Complex<T>*)f.values + at;
      else values[I] = (const T*)f.values + at;
    });
  }

  SOPS_DEVICE Complex<T> at(index_t k) const {
    Complex<T> h{scale, 0};
    repeat<COUNT>([&](auto i) {
      constexpr int I = decltype(i)::value;
      if constexpr (is_complex(I)) {
        Complex<T> value = ((const Complex<T>*)values[I])[k * stride[I]];
        value.im *= sign;
        h = I == 0 ? value * h.re : h * value;
      } else {
        h = h * ((const T*)values[I])[k * stride[I]];
      }
    });
    return h;
  }
};
