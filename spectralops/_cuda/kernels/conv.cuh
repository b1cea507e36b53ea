// What the kernels of convolutions share: images that go on beyond their ends, and what is done to results.
#pragma once
#include "complex.cuh"

// x beyond its ends: one value, or mirrored about the end values, the end values, periodic, mirrored about the faces.
enum Beyond { FILL, REFLECTED, NEAREST, WRAP, SYMMETRIC };

// The cell of an axis of n cells that stands at place i, -1 where there is none.
template <int BEYOND>
SOPS_DEVICE index_t cell_at(index_t i, index_t n) {
  if (i >= 0 && i < n) return i;
  if (BEYOND == FILL) return -1;
  if (BEYOND == NEAREST) return i < 0 ? 0 : n - 1;
  const index_t period = BEYOND == WRAP ? n : BEYOND == REFLECTED ? 2 * n - 2 : 2 * n;
  if (period == 0) return 0;
  const index_t rest = i % period, m = rest < 0 ? rest + period : rest;
  return m < n ? m : BEYOND == REFLECTED ? period - m : period - 1 - m;
}

// The number that a value in memory, of type V, stands for.
template <typename V>
struct ValueOf {
  using Real = decltype(to_number(V()));
  using Number = Real;
  static constexpr bool COMPLEX = false;
  SOPS_DEVICE static Number of(double re, double) { return (Number)re; }
};
template <typename T>
struct ValueOf<Complex<T>> {
  using Real = T;
  using Number = Complex<T>;
  static constexpr bool COMPLEX = true;
  SOPS_DEVICE static Complex<T> of(double re, double im) { return {(T)re, (T)im}; }
};

// a + b c for real and complex numbers.
template <typename T>
SOPS_DEVICE T add_product(T a, T b, T c) {
  return a + b * c;
}
template <typename T>
SOPS_DEVICE Complex<T> add_product(Complex<T> a, T b, Complex<T> c) {
  return {a.re + b * c.re, a.im + b * c.im};
}
template <typename T>
SOPS_DEVICE Complex<T> add_product(Complex<T> a, Complex<T> b, T c) {
  return add_product(a, c, b);
}
template <typename T>
SOPS_DEVICE Complex<T> add_product(Complex<T> a, Complex<T> b, Complex<T> c) {
  return {a.re + b.re * c.re - b.im * c.im, a.im + b.re * c.im + b.im * c.re};
}

// ---- what is done to a result: f(scale * (y + bias) + shift)

// NOTHING: results are stored as they are.
enum Activation { NOTHING, IDENTITY, RELU, GELU, GELU_TANH, SILU, TANH };

struct FinishArguments {
  const void* bias;  // one per channel, or nothing, as the others
  const void* scale;
  const void* shift;
  long long channels;  // of an image; plane b belongs to channel b % channels
};

SOPS_DEVICE float complementary(float x) { return erfcf(x); }
SOPS_DEVICE double complementary(double x) { return erfc(x); }
SOPS_DEVICE float hyperbolic(float x) { return tanhf(x); }
SOPS_DEVICE double hyperbolic(double x) { return tanh(x); }
SOPS_DEVICE float exponential(float x) { return expf(x); }
SOPS_DEVICE double exponential(double x) { return exp(x); }

template <int ACTIVATION, typename V>
SOPS_DEVICE V activated(V y) {
  if constexpr (ACTIVATION == RELU) return y < 0 ? (V)0 : y;
  else if constexpr (ACTIVATION == GELU) return (V)0.5 * y * complementary(y * (V)-0.70710678118654752440);
  else if constexpr (ACTIVATION == GELU_TANH)
    return (V)0.5 * y * (1 + hyperbolic((V)0.79788456080286535588 * (y + (V)0.044715 * y * y * y)));
  else if constexpr (ACTIVATION == SILU) return y / (1 + exponential(-y));
  else if constexpr (ACTIVATION == TANH) return hyperbolic(y);
  else return y;
}

// The bias is given in numbers, not as results of type V are stored.
template <typename V, int ACTIVATION>
struct Finish {
  using T = typename ValueOf<V>::Real;
  using Number = typename ValueOf<V>::Number;
  Number bias;
  T scale, shift;

  SOPS_DEVICE Finish(const FinishArguments& a, long long plane) {
    const long long channel = plane % a.channels;
    bias = a.bias == nullptr ? ValueOf<V>::of(0, 0) : ((const Number*)a.bias)[channel];
    scale = a.scale == nullptr ? (T)1 : ((const T*)a.scale)[channel];
    shift = a.shift == nullptr ? (T)0 : ((const T*)a.shift)[channel];
  }
  SOPS_DEVICE T operator()(T y) const { return activated<ACTIVATION>((y + real(bias)) * scale + shift); }
  SOPS_DEVICE Complex<T> operator()(Complex<T> y) const {
    const Complex<T> z = (y + widened(bias)) * scale;
    return {z.re + shift, z.im};
  }

 private:
  SOPS_DEVICE static T real(T b) { return b; }
  SOPS_DEVICE static T real(Complex<T> b) { return b.re; }
  SOPS_DEVICE static Complex<T> widened(T b) { return {b, 0}; }
  SOPS_DEVICE static Complex<T> widened(Complex<T> b) { return b; }
};
template <typename V>
struct Finish<V, NOTHING> {
  Finish() = default;
  SOPS_DEVICE Finish(const FinishArguments&, long long) {}
  template <typename Number>
  SOPS_DEVICE Number operator()(Number y) const {
    return y;
  }
};
