// Transforms of lines and the filters between them.
//
//   rows_forward   x -> spectrum along the contiguous axis        rows_inverse   back
//   columns        forward, inverse, or forward * filter * inverse along another axis
//   rows_filter    forward * filter * inverse along the contiguous axis, for one transformed axis
//
// A real image is transformed in one of two forms. PAIRS: rows 2r and 2r + 1 as one complex row, N values each, so that
// the spectrum takes as many bytes as the image; the first pass along another axis tells the two apart by the symmetry
// of their spectra, column k beside column N - k. HALF: each row alone, N / 2 + 1 values, for images with an odd number of rows.
#include "fft.cuh"
#include "filter.cuh"

enum Form { FULL, PAIRS, HALF };

// Streaming access: data that nobody reads again should not push the spectrum out of the second-level cache.
template <typename V>
SOPS_DEVICE V load_once(const V* at) {
  return *at;
}
template <typename V>
SOPS_DEVICE void store_once(V* at, V value) {
  *at = value;
}
#ifdef __CUDACC__
SOPS_DEVICE float load_once(const float* at) { return __ldcs(at); }
SOPS_DEVICE void store_once(float* at, float value) { __stcs(at, value); }
#endif

template <typename T>
SOPS_DEVICE Complex<T>* shared_memory() {
  extern __shared__ __align__(16) unsigned char sops_shared[];
  return (Complex<T>*)sops_shared;
}

// ---- the contiguous axis: THREADS threads a line, LINES lines a block

template <typename S, typename T, int FORM, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void rows_forward(const S* __restrict__ x, Complex<T>* __restrict__ spectrum,
                                                                long long lines) {
  using F = Fft<T, -1, THREADS, 1, false, Rs>;
  constexpr int N = F::N, K = FORM == HALF ? N / 2 + 1 : N;
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t line = (index_t)blockIdx.x * LINES + group;
  const bool valid = line < (index_t)lines;
  const index_t source = valid ? line : 0;
  Complex<T> v[F::E];
  F::template elements<0>(t, [&](int slot, int i) {
    if constexpr (FORM == FULL) {
      v[slot] = ((const Complex<T>*)x)[source * N + i];
    } else if constexpr (FORM == PAIRS) {
      v[slot] = {(T)to_number(load_once(x + source * (2 * N) + i)), (T)to_number(load_once(x + source * (2 * N) + N + i))};
    } else {
      v[slot] = {(T)to_number(load_once(x + source * N + i)), 0};
    }
  });
  F::template run<true>(v, shared_memory<T>() + group * F::G::padded(), t);
  if (valid) {
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) {
      if (FORM != HALF || k < K) spectrum[line * K + k] = v[slot];
    });
  }
}

template <typename S, typename T, int FORM, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void rows_inverse(const Complex<T>* spectrum, S* out, long long lines) {
  using F = Fft<T, 1, THREADS, 1, false, Rs>;
  constexpr int N = F::N, K = FORM == HALF ? N / 2 + 1 : N;
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t line = (index_t)blockIdx.x * LINES + group;
  const bool valid = line < (index_t)lines;
  const index_t source = valid ? line : 0;
  Complex<T> v[F::E];
  F::template elements<0>(t, [&](int slot, int k) {
    if constexpr (FORM == HALF) {
      // What a real signal cannot have is not read: the imaginary parts of the mean and of the Nyquist wavenumber.
      const Complex<T> value = spectrum[source * K + (k < K ? k : N - k)];
      v[slot] = {value.re, k == 0 || 2 * k == N ? 0 : k < K ? value.im : -value.im};
    } else {
      v[slot] = spectrum[source * N + k];
    }
  });
  F::template run<true>(v, shared_memory<T>() + group * F::G::padded(), t);
  if (valid) {
    F::template elements<F::PASSES - 1>(t, [&](int slot, int i) {
      if constexpr (FORM == FULL) {
        ((Complex<T>*)out)[line * N + i] = v[slot];
      } else if constexpr (FORM == PAIRS) {
        store_once(out + line * (2 * N) + i, Storage<S>::from(v[slot].re));
        store_once(out + line * (2 * N) + N + i, Storage<S>::from(v[slot].im));
      } else {
        store_once(out + line * N + i, Storage<S>::from(v[slot].re));
      }
    });
  }
}

// One transformed axis: all in one kernel. FULL: complex lines. PAIRS: real lines of 2 N values, neighbours as one complex
// number. HALF: real lines of N values (N odd) with zero imaginary parts.
template <typename S, typename T, int FORM, int THREADS, int LINES, typename Rs, bool... COMPLEX>
__global__ __launch_bounds__(THREADS* LINES) void rows_filter(const S* __restrict__ x, S* __restrict__ out, long long lines,
                                                               FilterArguments arguments) {
  using F = Fft<T, -1, THREADS, 1, false, Rs>;
  using B = Fft<T, 1, THREADS, 1, false, typename Reversed<Rs>::type>;
  constexpr int N = F::N;
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t line = (index_t)blockIdx.x * LINES + group;
  const bool valid = line < (index_t)lines;
  const index_t source = valid ? line : 0;
  Complex<T>* shared = shared_memory<T>() + group * larger(F::G::padded(), B::G::padded());
  const Filter<T, COMPLEX...> filter(arguments, source, 0);
  Complex<T> v[larger(F::E, B::E)];
  F::template elements<0>(t, [&](int slot, int i) {
    if constexpr (FORM == FULL) {
      v[slot] = ((const Complex<T>*)x)[source * N + i];
    } else if constexpr (FORM == PAIRS) {
      const S* at = x + source * (2 * N) + 2 * i;
      v[slot] = {(T)to_number(at[0]), (T)to_number(at[1])};
    } else {
      v[slot] = {(T)to_number(x[source * N + i]), 0};
    }
  });
  F::template run<true>(v, shared, t);
  if constexpr (FORM == FULL) {
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { v[slot] = v[slot] * filter.at(k); });
  } else if constexpr (FORM == HALF) {
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) {
      const bool mirrored = 2 * k > N;
      Complex<T> h = filter.at(mirrored ? N - k : k);
      h.im = k == 0 ? 0 : mirrored ? -h.im : h.im;
      v[slot] = v[slot] * h;
    });
  } else {
    F::wait();
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { shared[k] = v[slot]; });
    F::wait();
    for (int k = t; 2 * k <= N; k += THREADS) {
      const int m = k == 0 ? 0 : N - k;
      const Complex<T> z = shared[k], y = conj(shared[m]);
      if (k == 0) {
        const T mean = (z.re + z.im) * filter.at(0).re, nyquist = (z.re - z.im) * filter.at(N).re;
        shared[0] = {mean + nyquist, mean - nyquist};
      } else {
        // Spectra of the even and the odd samples, each twice: their butterfly gives wavenumbers k and N - k.
        const Complex<T> w = turn((T)-k / (T)(2 * N)), even = z + y, difference = (z - y) * w;
        const Complex<T> odd{difference.im, -difference.re};
        const Complex<T> low = (even + odd) * filter.at(k), high = conj(even - odd) * filter.at(m);
        const Complex<T> sum = low + conj(high), rest = (low - conj(high)) * conj(w);
        shared[k] = (sum + Complex<T>{-rest.im, rest.re}) * (T)0.5;
        shared[m] = conj(sum - Complex<T>{-rest.im, rest.re}) * (T)0.5;
      }
    }
    F::wait();
    B::template elements<0>(t, [&](int slot, int k) { v[slot] = shared[k]; });
  }
  B::template run<false>(v, shared, t);
  if (valid) {
    B::template elements<B::PASSES - 1>(t, [&](int slot, int i) {
      if constexpr (FORM == FULL) {
        ((Complex<T>*)out)[line * N + i] = v[slot];
      } else if constexpr (FORM == PAIRS) {
        S* at = out + line * (2 * N) + 2 * i;
        at[0] = Storage<S>::from(v[slot].re);
        at[1] = Storage<S>::from(v[slot].im);
      } else {
        out[line * N + i] = Storage<S>::from(v[slot].re);
      }
    });
  }
}

// ---- any other axis: COLUMNS neighbouring columns a block, THREADS threads each

enum Mode { FORWARD = 1, INVERSE = 2, FILTER = 3 };

// Where the lines of an array [outer][N][columns] lie.
struct ColumnArguments {
  long long columns;                                       // of a plane
  long long in_outer, in_pitch, out_outer, out_pitch;      // distances between planes and between the elements of a column
  long long mirror;                                        // PAIRS: length of a row, whose column k has column mirror - k beside it
};

template <typename T, int MODE, int IN, int OUT, int THREADS, int COLUMNS, typename Rs, bool... COMPLEX>
__global__ __launch_bounds__(THREADS* COLUMNS) void columns(const Complex<T>* in, Complex<T>* out, ColumnArguments p,
                                                             FilterArguments arguments) {
  using B = Fft<T, 1, THREADS, COLUMNS, true, typename Reversed<Rs>::type>;
  using F = typename Choose<MODE == INVERSE, B, Fft<T, -1, THREADS, COLUMNS, true, Rs>>::type;
  using Last = typename Choose<MODE == FORWARD, F, B>::type;
  const int c = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS;
  const index_t tiles = ((index_t)p.columns + COLUMNS - 1) / COLUMNS;
  const index_t plane = blockIdx.x / tiles, column = blockIdx.x % tiles * COLUMNS + c;
  const bool valid = column < (index_t)p.columns;
  const index_t from = valid ? column : 0, mirror = from == 0 ? 0 : (index_t)p.mirror - from;
  Complex<T>* shared = shared_memory<T>() + c;
  Complex<T> v[larger(F::E, Last::E)];
  const index_t pitch = (index_t)p.in_pitch;
  in += plane * (index_t)p.in_outer;
  if constexpr (IN == PAIRS) {
    constexpr int R = F::Radix::of(0);
    static_assert(F::G::each(0) % 2 == 0 && F::G::butterflies(0) % 2 == 0, "a thread must hold both rows of a pair");
    F::template elements<0>(t, [&](int slot, int i) {
      if (slot / R % 2 == 0) {
        const Complex<T> z = in[i / 2 * pitch + from], m = in[i / 2 * pitch + mirror];
        v[slot] = {z.re + m.re, z.im - m.im};
        v[slot + R] = {z.im + m.im, m.re - z.re};
      }
    });
  } else {
    F::template elements<0>(t, [&](int slot, int i) { v[slot] = in[i * pitch + from]; });
  }
  F::template run<true>(v, shared, t);
  if constexpr (MODE == FILTER) {
    const Filter<T, COMPLEX...> filter(arguments, plane, from);
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { v[slot] = v[slot] * filter.at(k); });
    B::template run<false>(v, shared, t);
  }
  if (!valid) return;
  out += plane * (index_t)p.out_outer;
  const index_t step = (index_t)p.out_pitch;
  if constexpr (OUT == PAIRS) {
    constexpr int LAST = Last::PASSES - 1, R = Last::Radix::of(LAST);
    static_assert(Last::G::each(LAST) % 2 == 0 && Last::G::butterflies(LAST) % 2 == 0, "both rows of a pair");
    Last::template elements<LAST>(t, [&](int slot, int i) {
      if (slot / R % 2 == 0) {
        const Complex<T> a = v[slot], b = v[slot + R];
        Complex<T>* row = out + i / 2 * step;
        if (mirror % (index_t)p.mirror == from) {
          row[from] = {a.re, b.re};
        } else {
          row[from] = {a.re - b.im, a.im + b.re};
          row[mirror] = {a.re + b.im, b.re - a.im};
        }
      }
    });
  } else {
    Last::template elements<Last::PASSES - 1>(t, [&](int slot, int i) { out[i * step + from] = v[slot]; });
  }
}
