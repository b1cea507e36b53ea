// Discrete Fourier transforms of one block: small ones in registers, larger ones by passes with exchanges through
// shared memory (Stockham's autosort: natural order in, natural order out). SIGN is -1 forward, +1 inverse; nothing is
// scaled.
//
// Between passes, butterfly j of radix R holds the elements j + q * (N / R), q = 0 ... R - 1. The same layout stands at
// the beginning of the first pass and at the end of the last one, so that a transform with reversed radices goes on
// where the previous one stopped.
#pragma once
#include "complex.cuh"

SOPS_CONSTEXPR int larger(int a, int b) { return a > b ? a : b; }

// First factor that a register transform is split by; R itself where it is computed directly.
SOPS_CONSTEXPR int split(int r) {
  if (r <= 5) return r;
  return r % 4 == 0 ? 4 : r % 2 == 0 ? 2 : r % 3 == 0 ? 3 : r % 5 == 0 ? 5 : r % 7 == 0 ? 7 : r;
}

// v[k] <- sum_n v[n] exp(SIGN 2 pi i n k / R), all in registers.
template <int R, int SIGN>
struct Dft {
  template <typename T>
  SOPS_DEVICE static void run(Complex<T> (&v)[R]) {
    if constexpr (R == 2) {
      const Complex<T> a = v[0];
      v[0] = a + v[1];
      v[1] = a - v[1];
    } else if constexpr (R == 4) {
      const Complex<T> a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = rotate<SIGN, 4>(v[1] - v[3]);
      v[0] = a + c;
      v[1] = b + d;
      v[2] = a - c;
      v[3] = b - d;
    } else if constexpr (split(R) == R && R > 1) {
      odd(v);
    } else if constexpr (R > 1) {
      composite(v);
    }
  }

 private:
  // Pairs v[j], v[R - j]: half of the products, all real.
  template <typename T>
  SOPS_DEVICE static void odd(Complex<T> (&v)[R]) {
    constexpr int h = R / 2;
    Complex<T> sum[h], difference[h];
    const Complex<T> first = v[0];
    repeat<h>([&](auto j) {
      constexpr int J = decltype(j)::value + 1;
      sum[J - 1] = v[J] + v[R - J];
      difference[J - 1] = v[J] - v[R - J];
      v[0] = v[0] + sum[J - 1];
    });
    repeat<h>([&](auto k) {
      constexpr int K = decltype(k)::value + 1;
      Complex<T> even = first, odd{0, 0};
      repeat<h>([&](auto j) {
        constexpr int J = decltype(j)::value + 1;
        constexpr T c = (T)Root<J * K, R>::re, s = (T)(SIGN * Root<J * K, R>::im);
        even = {even.re + sum[J - 1].re * c, even.im + sum[J - 1].im * c};
        odd = {odd.re - difference[J - 1].im * s, odd.im + difference[J - 1].re * s};
      });
      v[K] = even + odd;
      v[R - K] = even - odd;
    });
  }

  // n = B a + b, k = c + A d.
  template <typename T>
  SOPS_DEVICE static void composite(Complex<T> (&v)[R]) {
    constexpr int A = split(R), B = R / A;
    Complex<T> rows[B][A];
    repeat<B>([&](auto b) {
      constexpr int n2 = decltype(b)::value;
      repeat<A>([&](auto a) { rows[n2][decltype(a)::value] = v[B * decltype(a)::value + n2]; });
      Dft<A, SIGN>::run(rows[n2]);
    });
    repeat<A>([&](auto c) {
      constexpr int k1 = decltype(c)::value;
      Complex<T> column[B];
      repeat<B>([&](auto b) {
        constexpr int n2 = decltype(b)::value;
        column[n2] = rotate<SIGN * n2 * k1, R>(rows[n2][k1]);
      });
      Dft<B, SIGN>::run(column);
      repeat<B>([&](auto d) { v[k1 + A * decltype(d)::value] = column[decltype(d)::value]; });
    });
  }
};

template <int... R>
struct Radices {
  static constexpr int count = sizeof...(R);
  static constexpr int size = (1 * ... * R);
  SOPS_CONSTEXPR static int of(int p) {
    constexpr int all[] = {R...};
    return all[p];
  }
  SOPS_CONSTEXPR static int before(int p) {  // product of the radices of earlier passes
    int product = 1;
    for (int i = 0; i < p; ++i) product *= of(i);
    return product;
  }
  // Twiddle factors of pass p, exp(-2 pi i q j / before(p + 1)) for q = 1 ... R - 1 and j < before(p), begin here.
  SOPS_CONSTEXPR static int table(int p) {
    int begin = 0;
    for (int i = 1; i < p; ++i) begin += before(i) * (of(i) - 1);
    return begin;
  }
};
template <typename Forward, int... R>
struct Reversed;
template <int... R>
struct Reversed<Radices<>, R...> {
  using type = Radices<R...>;
};
template <int First, int... Rest, int... R>
struct Reversed<Radices<First, Rest...>, R...> : Reversed<Radices<Rest...>, First, R...> {};

// One transform of a group of THREADS threads. Element i of the exchange lies at shared[i * STRIDE]: 1 where each
// transform has a region of its own, the number of transforms where they are interleaved.
// BLOCKED: a thread's butterflies are neighbours; otherwise neighbouring threads have neighbouring butterflies.
template <int THREADS, int STRIDE, bool BLOCKED, typename Rs>
struct Geometry {
  static constexpr int N = Rs::size;
  SOPS_CONSTEXPR static int butterflies(int p) { return N / Rs::of(p); }
  SOPS_CONSTEXPR static int each(int p) { return (butterflies(p) + THREADS - 1) / THREADS; }
  SOPS_CONSTEXPR static int elements() {
    int most = 0;
    for (int p = 0; p < Rs::count; ++p) most = larger(most, each(p) * Rs::of(p));
    return most;
  }
  // Gap after each N_s * R elements, which spreads the writes of neighbouring butterflies over the banks.
  SOPS_CONSTEXPR static int gap(int p) {
    const int s = Rs::before(p);
    return s * STRIDE < 16 && Rs::of(p) % 2 == 0 ? s : 0;
  }
  SOPS_CONSTEXPR static int padded() {
    int most = N;
    for (int p = 0; p + 1 < Rs::count; ++p) most = larger(most, N + N / Rs::before(p + 1) * gap(p));
    return most;
  }
};

template <typename T, int SIGN, int THREADS, int STRIDE, bool BLOCKED, typename Rs>
struct Fft {
  using G = Geometry<THREADS, STRIDE, BLOCKED, Rs>;
  using Radix = Rs;
  static constexpr int N = Rs::size, PASSES = Rs::count, E = G::elements();
  static constexpr bool WITHIN_WARP = STRIDE == 1 && 32 % THREADS == 0;

  template <int P>
  SOPS_DEVICE static int butterfly(int t, int b) {
    return BLOCKED ? t * G::each(P) + b : t + b * THREADS;
  }
  template <int P>
  SOPS_DEVICE static bool inside(int j) {
    return G::butterflies(P) % THREADS == 0 || j < G::butterflies(P);
  }
  SOPS_DEVICE static void wait() {
    if constexpr (WITHIN_WARP) __syncwarp();
    else __syncthreads();
  }

  // f(slot of v, index of the element) for what the thread holds before (P = 0) or after (P = PASSES - 1) a transform.
  template <int P, typename F>
  SOPS_DEVICE static void elements(int t, F&& f) {
    constexpr int R = Rs::of(P), NB = G::butterflies(P);
#pragma unroll
    for (int b = 0; b < G::each(P); ++b) {
      const int j = butterfly<P>(t, b);
      if (inside<P>(j)) {
#pragma unroll
        for (int q = 0; q < R; ++q) f(b * R + q, j + q * NB);
      }
    }
  }

  // FREE: nobody reads or writes the shared memory any more when the first exchange begins.
  template <bool FREE, int HELD>
  SOPS_DEVICE static void run(Complex<T> (&v)[HELD], Complex<T>* shared, const Complex<T>* table, int t) {
    pass<0, FREE, false>(v, shared, table, t, (T)1);
  }
  // The same times a factor, with which the table's second pass has been multiplied already.
  template <bool FREE, int HELD>
  SOPS_DEVICE static void run(Complex<T> (&v)[HELD], Complex<T>* shared, const Complex<T>* table, int t, T scale) {
    if constexpr (PASSES == 1) {
#pragma unroll
      for (int i = 0; i < E; ++i) v[i] = v[i] * scale;
    }
    pass<0, FREE, true>(v, shared, table, t, scale);
  }

 private:
  template <int P, bool FREE, bool SCALED, int HELD>
  SOPS_DEVICE static void pass(Complex<T> (&v)[HELD], Complex<T>* shared, const Complex<T>* table, int t, T scale) {
    constexpr int R = Rs::of(P), S = Rs::before(P);
#pragma unroll
    for (int b = 0; b < G::each(P); ++b) {
      const int j = butterfly<P>(t, b);
      Complex<T> u[R];
#pragma unroll
      for (int q = 0; q < R; ++q) u[q] = v[b * R + q];
      if constexpr (P > 0) {
        const Complex<T>* w = table + Rs::table(P) + j % S;
        if constexpr (SCALED && P == 1) u[0] = u[0] * scale;
#pragma unroll
        for (int q = 1; q < R; ++q) u[q] = SIGN < 0 ? u[q] * w[(q - 1) * S] : times_conj(u[q], w[(q - 1) * S]);
      }
      Dft<R, SIGN>::run(u);
#pragma unroll
      for (int q = 0; q < R; ++q) v[b * R + q] = u[q];
    }
    if constexpr (P + 1 < PASSES) {
      constexpr int GAP = G::gap(P), BLOCK = S * R;
      if constexpr (!FREE || P > 0) wait();
#pragma unroll
      for (int b = 0; b < G::each(P); ++b) {
        const int j = butterfly<P>(t, b);
        if (inside<P>(j)) {
          Complex<T>* at = shared + (j / S * (BLOCK + GAP) + j % S) * STRIDE;
#pragma unroll
          for (int q = 0; q < R; ++q) at[q * S * STRIDE] = v[b * R + q];
        }
      }
      wait();
      elements<P + 1>(t, [&](int slot, int i) { v[slot] = shared[(i + i / BLOCK * GAP) * STRIDE]; });
      pass<P + 1, FREE, SCALED>(v, shared, table, t, scale);
    }
  }
};
