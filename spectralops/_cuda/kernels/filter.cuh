// The pointwise multiplier of a spectral filter: a product of factors that broadcast against the spectrum.
#pragma once
#include "complex.cuh"

struct FactorArguments {
  const void* values;
  long long batch, period, stride1, stride2;  // transform b finds its values at (b % period) * batch
};
struct FilterArguments {
  FactorArguments factors[3];
  long long first;  // number of the first transform
  long long inner;  // a column's index is inner * k1 + k2
  double scale;     // of the unnormalised transforms
  double sign;      // of the factors' imaginary parts: -1 for the adjoint
};

// Whether the values are complex, and their distance along the axis on which they are applied.
template <bool COMPLEX_, long long STRIDE_>
struct Factor {
  static constexpr bool COMPLEX = COMPLEX_;
  static constexpr long long STRIDE = STRIDE_;
};

template <int I, typename First, typename... Rest>
struct Nth : Nth<I - 1, Rest...> {};
template <typename First, typename... Rest>
struct Nth<0, First, Rest...> {
  using type = First;
};

// Set up for one column of one transform; at(k) is the multiplier of wavenumber k.
template <typename T, typename... Factors>
struct Filter {
  static constexpr int COUNT = sizeof...(Factors);
  const void* values[COUNT];
  T sign;

  SOPS_DEVICE Filter(const FilterArguments& a, index_t transform, index_t column) : sign((T)a.sign) {
    repeat<COUNT>([&](auto i) {
      constexpr int I = decltype(i)::value;
      const FactorArguments& f = a.factors[I];
      index_t at = ((index_t)a.first + transform) % (index_t)f.period * (index_t)f.batch;
      at += column / (index_t)a.inner * (index_t)f.stride1 + column % (index_t)a.inner * (index_t)f.stride2;
      if constexpr (Nth<I, Factors...>::type::COMPLEX) values[I] = (const Complex<T>*)f.values + at;
      else values[I] = (const T*)f.values + at;
    });
  }

  SOPS_DEVICE Complex<T> apply(Complex<T> v, index_t k) const {
    repeat<COUNT>([&](auto i) {
      using F = typename Nth<decltype(i)::value, Factors...>::type;
      if constexpr (F::COMPLEX) {
        Complex<T> h = ((const Complex<T>*)values[decltype(i)::value])[k * (index_t)F::STRIDE];
        h.im *= sign;
        v = v * h;
      } else {
        v = v * ((const T*)values[decltype(i)::value])[k * (index_t)F::STRIDE];
      }
    });
    return v;
  }
};
