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
  // Transforms b, b + apart, ... have the same values; `beside` of them are done one after the other.
  long long beside, apart;

  // The transform that is done as number n.
  SOPS_DEVICE index_t transform(index_t n) const {
    return n / (index_t)beside + n % (index_t)beside * (index_t)apart;
  }
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

// Products, conjugates and real parts of multipliers, complex or real.
template <typename T>
SOPS_DEVICE Complex<T> times(Complex<T> a, Complex<T> b) {
  return a * b;
}
template <typename T>
SOPS_DEVICE Complex<T> times(Complex<T> a, T b) {
  return a * b;
}
template <typename T>
SOPS_DEVICE Complex<T> times(T a, Complex<T> b) {
  return b * a;
}
template <typename T>
SOPS_DEVICE T times(T a, T b) {
  return a * b;
}
template <typename T>
SOPS_DEVICE T conj(T a) {
  return a;
}
template <typename T>
SOPS_DEVICE T real_part(Complex<T> a) {
  return a.re;
}
template <typename T>
SOPS_DEVICE T real_part(T a) {
  return a;
}

template <typename T>
SOPS_DEVICE Complex<T> as_complex(Complex<T> a) {
  return a;
}
template <typename T>
SOPS_DEVICE Complex<T> as_complex(T a) {
  return {a, 0};
}

// Set up for one column of one transform; at(k) is the multiplier of wavenumber k, real if all factors are.
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

  template <int I>
  SOPS_DEVICE auto factor(index_t k) const {
    using F = typename Nth<I, Factors...>::type;
    if constexpr (F::COMPLEX) {
      Complex<T> h = ((const Complex<T>*)values[I])[k * (index_t)F::STRIDE];
      h.im *= sign;
      return h;
    } else {
      return ((const T*)values[I])[k * (index_t)F::STRIDE];
    }
  }
  template <int I = 0>
  SOPS_DEVICE auto at(index_t k) const {
    if constexpr (I + 1 == COUNT) return factor<I>(k);
    else return times(factor<I>(k), at<I + 1>(k));
  }

  SOPS_DEVICE Complex<T> apply(Complex<T> v, index_t k) const {
    repeat<COUNT>([&](auto i) { v = times(v, factor<decltype(i)::value>(k)); });
    return v;
  }
};

// a H + i conj(b) G, in as few operations as there are.
template <typename T>
SOPS_DEVICE Complex<T> blend(Complex<T> a, Complex<T> h, Complex<T> b, Complex<T> g) {
  return {a.re * h.re - a.im * h.im - b.re * g.im + b.im * g.re, a.re * h.im + a.im * h.re + b.re * g.re + b.im * g.im};
}
template <typename T>
SOPS_DEVICE Complex<T> blend(Complex<T> a, T h, Complex<T> b, T g) {
  return {a.re * h + b.im * g, a.im * h + b.re * g};
}

// Filters the transform Z of a real line of 2 N values, neighbours as one complex number, at k and N - k: one number each,
// the same one where k = N - k modulo N.
// With S = H_k + conj(H_(N-k)), D = H_k - conj(H_(N-k)) and the angle a = pi k / N that tells even samples from odd ones,
//   Z_k <- (S - D sin a) Z_k + i D cos a conj(Z_(N-k)),
// which is twice what the filtered line has.
template <typename T, typename H>
SOPS_DEVICE void filter_packed(Complex<T>& low, Complex<T>& high, H below, H above, Complex<T> root) {
  const H sum = below + conj(above), difference = below - conj(above), cross = times(difference, root.re);
  const H own = sum + times(difference, root.im), other = sum - times(difference, root.im);
  const Complex<T> a = low, b = high;
  low = blend(a, own, b, cross);
  high = blend(b, conj(other), a, conj(cross));
}
// The first of the two alone.
template <typename T, typename H>
SOPS_DEVICE Complex<T> filtered_packed(Complex<T> low, Complex<T> high, H below, H above, Complex<T> root) {
  const H sum = below + conj(above), difference = below - conj(above);
  return blend(low, sum + times(difference, root.im), high, times(difference, root.re));
}
// What the first of the two, and i times the conjugate of the other, are multiplied by for that.
template <typename T, typename H>
SOPS_DEVICE Two<T> coefficients(H below, H above, Complex<T> root) {
  const H sum = below + conj(above), difference = below - conj(above);
  return {as_complex(sum + times(difference, root.im)), as_complex(times(difference, root.re))};
}
// The mean and the Nyquist wavenumber, whose coefficients are real, lie in Z_0.
template <typename T, typename H>
SOPS_DEVICE void filter_ends(Complex<T>& z, H below, H above) {
  const T mean = real_part(below), nyquist = real_part(above);
  const T sum = mean + nyquist, difference = mean - nyquist;
  z = {sum * z.re + difference * z.im, sum * z.im + difference * z.re};
}
template <typename T, typename H>
SOPS_DEVICE Two<T> coefficients_of_ends(H below, H above) {
  const T mean = real_part(below), nyquist = real_part(above);
  return {{mean + nyquist, 0}, {mean - nyquist, 0}};
}
