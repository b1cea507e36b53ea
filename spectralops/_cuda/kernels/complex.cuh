// Complex numbers as two adjacent reals, and multiplication by constants known while compiling.
#pragma once
#include "common.cuh"

template <typename T>
struct alignas(2 * sizeof(T)) Complex {
  T re, im;
};

// Two neighbouring numbers, read and written at once.
template <typename T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Two {
  Complex<T> first, second;
};

template <typename T>
SOPS_DEVICE Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename T>
SOPS_DEVICE Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename T>
SOPS_DEVICE Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename T>
SOPS_DEVICE Complex<T> operator*(Complex<T> a, T factor) {
  return {a.re * factor, a.im * factor};
}
template <typename T>
SOPS_DEVICE Complex<T> conj(Complex<T> a) {
  return {a.re, -a.im};
}
// a * conj(b)
template <typename T>
SOPS_DEVICE Complex<T> times_conj(Complex<T> a, Complex<T> b) {
  return {a.re * b.re + a.im * b.im, a.im * b.re - a.re * b.im};
}

// Two neighbouring values as they are stored, and as numbers.
template <typename S>
SOPS_DEVICE auto to_number(Complex<S> value) {
  return Complex<decltype(to_number(value.re))>{to_number(value.re), to_number(value.im)};
}
template <typename S>
struct Storage<Complex<S>> {
  template <typename T>
  SOPS_DEVICE static Complex<S> from(Complex<T> value) {
    return {Storage<S>::from(value.re), Storage<S>::from(value.im)};
  }
};

constexpr double PI = 3.14159265358979323846;

// Sine and cosine of k/n turns for 0 <= k/n <= 1/8 by their series, exact to rounding.
SOPS_CONSTEXPR double series(int k, int n, bool odd) {
  const double x = 2 * PI * k / n;
  double term = odd ? x : 1.0, sum = 0.0;
  for (int i = odd ? 1 : 0; i < 24; i += 2) {
    sum += term;
    term *= -x * x / ((i + 1) * (i + 2));
  }
  return sum;
}
// Reduced to the first octant: both are exact where they are 0, 1 or equal to each other.
SOPS_CONSTEXPR double cosine(int k, int n) {
  k = (k % n + n) % n;
  if (2 * k > n) k = n - k;
  if (4 * k > n) return -cosine(n - 2 * k, 2 * n);
  return 8 * k <= n ? series(k, n, false) : series(n - 4 * k, 4 * n, true);
}
SOPS_CONSTEXPR double sine(int k, int n) { return cosine(4 * k - n, 4 * n); }

// exp(2 pi i K / N) as constants.
template <int K, int N>
struct Root {
  static constexpr double re = cosine(K, N), im = sine(K, N);
};

// a * exp(2 pi i K / N) in the fewest operations.
template <int K, int N, typename T>
SOPS_DEVICE Complex<T> rotate(Complex<T> a) {
  constexpr int k = (K % N + N) % N;
  if constexpr (k == 0) return a;
  if constexpr (4 * k == N) return {-a.im, a.re};
  if constexpr (2 * k == N) return {-a.re, -a.im};
  if constexpr (4 * k == 3 * N) return {a.im, -a.re};
  if constexpr (8 * k == N || 8 * k == 3 * N || 8 * k == 5 * N || 8 * k == 7 * N) {
    constexpr T half = (T)0.70710678118654752440;
    const T sum = (a.re + a.im) * half, difference = (a.re - a.im) * half;
    if constexpr (8 * k == N) return {difference, sum};
    if constexpr (8 * k == 3 * N) return {-sum, difference};
    if constexpr (8 * k == 5 * N) return {-difference, -sum};
    return {sum, -difference};
  }
  constexpr T c = (T)Root<k, N>::re, s = (T)Root<k, N>::im;
  return {a.re * c - a.im * s, a.re * s + a.im * c};
}

// f(Int<0>()), f(Int<1>()), ... f(Int<N - 1>()): a loop whose counter is a constant.
template <int I>
struct Int {
  static constexpr int value = I;
};
template <int N, int I = 0, typename F>
SOPS_DEVICE void repeat(F&& f) {
  if constexpr (I < N) {
    f(Int<I>());
    repeat<N, I + 1>(f);
  }
}

template <bool FIRST, typename A, typename B>
struct Choose {
  using type = A;
};
template <typename A, typename B>
struct Choose<false, A, B> {
  using type = B;
};
