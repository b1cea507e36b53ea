// Transforms of lines and the filters between them.
//
//   rows_forward   x -> spectrum along the contiguous axis        rows_inverse   back
//   columns        forward, inverse, or forward * filter * inverse along another axis
//   rows_filter    forward * filter * inverse along the contiguous axis, for one transformed axis
//
// A real image is transformed in one of two forms. PAIRS: rows 2r and 2r + 1 as one complex row, N values each, so that
// the spectrum takes as many bytes as the image; the first pass along another axis tells the two apart by the symmetry
// of their spectra, column k beside column N - k. HALF: each row alone, N / 2 + 1 values, for images with an odd number of
// rows. SPLIT: two rows as one complex row, told apart at once.
// KEPT wavenumbers of a row are stored and read, the first ones (FULL: from LOW on); the others count as zero. PAIRS
// stores a window of 2 KEPT columns in which column 2 KEPT - k stands for N - k; 0 stands for all N columns.
#include "fft.cuh"
#include "filter.cuh"

enum Form { FULL, PAIRS, HALF, SPLIT };

// Where wavenumber k = 0 ... N - 1 lies among KEPT stored ones that begin at LOW <= 0; KEPT or more if it is not stored.
template <int N, int KEPT, int LOW>
SOPS_DEVICE int kept(int k) {
  if constexpr (KEPT == N && LOW == 0) return k;
  const int place = k - LOW;
  return place < N ? place : place - N;
}

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

// The spectrum is read once by each block: past the first-level cache.
template <typename T>
SOPS_DEVICE Complex<T> load_past(const Complex<T>* at) {
  return *at;
}
#ifdef __CUDACC__
SOPS_DEVICE Complex<float> load_past(const Complex<float>* at) {
  const float2 value = __ldcg((const float2*)at);
  return {value.x, value.y};
}
SOPS_DEVICE Complex<double> load_past(const Complex<double>* at) {
  const double2 value = __ldcg((const double2*)at);
  return {value.x, value.y};
}
#endif

template <typename T>
SOPS_DEVICE Complex<T>* shared_memory() {
  extern __shared__ __align__(16) unsigned char sops_shared[];
  return (Complex<T>*)sops_shared;
}

// ---- rows of a padded array, of which only the middle is stored

enum Padding { BARE, ZERO, REFLECT, EDGE };

// Lengths of three axes, the last of which is the row, as stored and as transformed, and the cells added before.
struct PadArguments {
  long long size[3], before[3], padded[3];
};

// Cell i of an axis of n cells that goes on beyond its ends; -1 for a zero.
template <int PADDING>
SOPS_DEVICE index_t continued(index_t i, index_t n) {
  if (i >= 0 && i < n) return i;
  if (PADDING == ZERO) return -1;
  if (PADDING == EDGE) return i < 0 ? 0 : n - 1;
  if (n == 1) return 0;
  const index_t period = 2 * (n - 1), m = (i % period + period) % period;
  return m < n ? m : period - m;
}

// One row of N values: where they are read and, if the row is one of the stored ones, written.
template <int PADDING, int N>
struct Row {
  index_t start, before, size;
  bool there, own;

  SOPS_DEVICE Row(const PadArguments& p, index_t line) : start(line * N), before(0), size(N), there(true), own(true) {
    if constexpr (PADDING != BARE) {
      before = (index_t)p.before[2];
      size = (index_t)p.size[2];
      index_t rest = line, place = 0, stride = 1;
      for (int axis = 1; axis >= 0; --axis) {
        const index_t i = rest % (index_t)p.padded[axis] - (index_t)p.before[axis], n = (index_t)p.size[axis];
        const index_t cell = continued<PADDING>(i, n);
        there = there && cell >= 0;
        own = own && i >= 0 && i < n;
        place += cell * stride;
        stride *= n;
        rest /= (index_t)p.padded[axis];
      }
      start = (rest * stride + place) * size;
    }
  }
  template <typename V>
  SOPS_DEVICE V read(const V* x, index_t i) const {
    if constexpr (PADDING == BARE) return load_once(x + start + i);
    const index_t cell = there ? continued<PADDING>(i - before, size) : -1;
    return cell < 0 ? V() : x[start + cell];
  }
  template <typename V>
  SOPS_DEVICE void write(V* out, index_t i, V value) const {
    if (PADDING == BARE) store_once(out + start + i, value);
    else if (own && i >= before && i < before + size) out[start + i - before] = value;
  }
};

// ---- the contiguous axis: THREADS threads a line, LINES lines a block

template <typename S, typename T, int FORM, int KEPT, int LOW, int PADDING, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void rows_forward(const S* __restrict__ x, Complex<T>* __restrict__ spectrum,
                                                                const Complex<T>* __restrict__ table, long long lines,
                                                                PadArguments pad) {
  using F = Fft<T, -1, THREADS, 1, false, Rs>;
  constexpr int N = F::N;
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t line = (index_t)blockIdx.x * LINES + group;
  const bool valid = line < (index_t)lines;
  const index_t source = valid ? line : 0;
  constexpr int TOGETHER = FORM == PAIRS || FORM == SPLIT ? 2 : 1;
  const Row<PADDING, N> first(pad, TOGETHER * source), second(pad, TOGETHER * source + TOGETHER - 1);
  Complex<T>* shared = shared_memory<T>() + group * F::G::padded();
  Complex<T> v[F::E];
  F::template elements<0>(t, [&](int slot, int i) {
    if constexpr (FORM == FULL) {
      v[slot] = first.read((const Complex<T>*)x, i);
    } else if constexpr (FORM == HALF) {
      v[slot] = {(T)to_number(first.read(x, i)), 0};
    } else {
      v[slot] = {(T)to_number(first.read(x, i)), (T)to_number(second.read(x, i))};
    }
  });
  F::template run<true>(v, shared, table, t);
  if constexpr (FORM == SPLIT) {
    F::wait();
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { shared[k] = v[slot]; });
    F::wait();
    if (!valid) return;
    for (int k = t; k < KEPT; k += THREADS) {
      const Complex<T> z = shared[k], m = shared[k == 0 ? 0 : N - k];
      spectrum[line * (2 * KEPT) + k] = {z.re + m.re, z.im - m.im};
      spectrum[line * (2 * KEPT) + KEPT + k] = {z.im + m.im, m.re - z.re};
    }
    return;
  }
  if (!valid) return;
  F::template elements<F::PASSES - 1>(t, [&](int slot, int k) {
    if constexpr (FORM == FULL) {
      const int place = kept<N, KEPT, LOW>(k);
      if (KEPT == N || place < KEPT) spectrum[line * KEPT + place] = v[slot];
    } else if constexpr (FORM == HALF) {
      if (k < KEPT) spectrum[line * KEPT + k] = v[slot];
    } else if constexpr (KEPT == 0) {
      spectrum[line * N + k] = v[slot];
    } else {
      if (k < KEPT) spectrum[line * (2 * KEPT) + k] = v[slot];
      if (N - k < KEPT) spectrum[line * (2 * KEPT) + 2 * KEPT - (N - k)] = v[slot];
    }
  });
}

template <typename S, typename T, int FORM, int KEPT, int LOW, int PADDING, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void rows_inverse(const Complex<T>* spectrum, S* out,
                                                                const Complex<T>* __restrict__ table, long long lines,
                                                                PadArguments pad) {
  using F = Fft<T, 1, THREADS, 1, false, typename Reversed<Rs>::type>;
  constexpr int N = F::N;
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t line = (index_t)blockIdx.x * LINES + group;
  const bool valid = line < (index_t)lines;
  const index_t source = valid ? line : 0;
  Complex<T> v[F::E];
  F::template elements<0>(t, [&](int slot, int k) {
    v[slot] = {0, 0};
    // What a real signal cannot have is not read: the imaginary parts of the mean and of the Nyquist wavenumber.
    const bool mirrored = 2 * k > N, real = k == 0 || 2 * k == N;
    const int low = mirrored ? N - k : k;
    if constexpr (FORM == FULL) {
      const int place = kept<N, KEPT, LOW>(k);
      if (KEPT == N || place < KEPT) v[slot] = load_past(spectrum + source * KEPT + place);
    } else if constexpr (FORM == HALF) {
      if (low < KEPT) {
        const Complex<T> a = load_past(spectrum + source * KEPT + low);
        v[slot] = {a.re, real ? 0 : mirrored ? -a.im : a.im};
      }
    } else if constexpr (FORM == SPLIT) {
      if (low < KEPT) {
        const Complex<T> a = load_past(spectrum + source * (2 * KEPT) + low);
        const Complex<T> b = load_past(spectrum + source * (2 * KEPT) + KEPT + low);
        const T ai = real ? 0 : mirrored ? -a.im : a.im, bi = real ? 0 : mirrored ? -b.im : b.im;
        v[slot] = {a.re - bi, ai + b.re};
      }
    } else if constexpr (KEPT == 0) {
      v[slot] = load_past(spectrum + source * N + k);
    } else {
      if (low < KEPT) v[slot] = load_past(spectrum + source * (2 * KEPT) + (mirrored ? 2 * KEPT - low : low));
    }
  });
  F::template run<true>(v, shared_memory<T>() + group * F::G::padded(), table, t);
  if (!valid) return;
  constexpr int TOGETHER = FORM == PAIRS || FORM == SPLIT ? 2 : 1;
  const Row<PADDING, N> first(pad, TOGETHER * source), second(pad, TOGETHER * source + TOGETHER - 1);
  F::template elements<F::PASSES - 1>(t, [&](int slot, int i) {
    if constexpr (FORM == FULL) {
      first.write((Complex<T>*)out, i, v[slot]);
    } else {
      first.write(out, i, Storage<S>::from(v[slot].re));
      if constexpr (TOGETHER == 2) second.write(out, i, Storage<S>::from(v[slot].im));
    }
  });
}

// One transformed axis: all in one kernel. FULL: complex lines. PAIRS: real lines of 2 N values, neighbours as one complex
// number. HALF: real lines of N values (N odd) with zero imaginary parts.
template <typename S, typename T, int FORM, int PADDING, int THREADS, int LINES, typename Rs, typename... Factors>
__global__ __launch_bounds__(THREADS* LINES) void rows_filter(const S* __restrict__ x, S* __restrict__ out,
                                                               const Complex<T>* __restrict__ table, long long lines,
                                                               PadArguments pad, FilterArguments arguments) {
  using F = Fft<T, -1, THREADS, 1, false, Rs>;
  using B = Fft<T, 1, THREADS, 1, false, typename Reversed<Rs>::type>;
  constexpr int N = F::N;
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t line = (index_t)blockIdx.x * LINES + group;
  const bool valid = line < (index_t)lines;
  const index_t source = valid ? line : 0;
  Complex<T>* shared = shared_memory<T>() + group * larger(F::G::padded(), B::G::padded());
  const Filter<T, Factors...> filter(arguments, source, 0);
  const Row<PADDING, FORM == PAIRS ? 2 * N : N> row(pad, source);
  Complex<T> v[larger(F::E, B::E)];
  F::template elements<0>(t, [&](int slot, int i) {
    if constexpr (FORM == FULL) {
      v[slot] = row.read((const Complex<T>*)x, i);
    } else if constexpr (FORM == PAIRS) {
      v[slot] = {(T)to_number(row.read(x, 2 * i)), (T)to_number(row.read(x, 2 * i + 1))};
    } else {
      v[slot] = {(T)to_number(row.read(x, i)), 0};
    }
  });
  F::template run<true>(v, shared, table, t);
  if constexpr (FORM == FULL) {
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { v[slot] = filter.apply(v[slot], k); });
  } else if constexpr (FORM == HALF) {
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) {
      const bool mirrored = 2 * k > N;
      Complex<T> y = filter.apply(mirrored ? conj(v[slot]) : v[slot], mirrored ? N - k : k);
      y.im = k == 0 ? 0 : y.im;
      v[slot] = mirrored ? conj(y) : y;
    });
  } else {
    const Complex<T>* roots = table + Rs::table(F::PASSES) + B::Radix::table(F::PASSES);
    F::wait();
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { shared[k] = v[slot]; });
    F::wait();
    for (int k = t; 2 * k <= N; k += THREADS) {
      const int m = k == 0 ? 0 : N - k;
      const Complex<T> z = shared[k], y = conj(shared[m]);
      if (k == 0) {
        const T mean = filter.apply({z.re + z.im, 0}, 0).re, nyquist = filter.apply({z.re - z.im, 0}, N).re;
        shared[0] = {2 * (mean + nyquist), 2 * (mean - nyquist)};
      } else {
        // Spectra of the even and the odd samples, each twice: their butterfly gives wavenumbers k and N - k.
        const Complex<T> w = roots[k], even = z + y, difference = (z - y) * w;
        const Complex<T> odd{difference.im, -difference.re};
        const Complex<T> low = filter.apply(even + odd, k), high = conj(filter.apply(conj(even - odd), m));
        const Complex<T> sum = low + high, rest = times_conj(low - high, w);
        shared[k] = sum + Complex<T>{-rest.im, rest.re};
        shared[m] = conj(sum - Complex<T>{-rest.im, rest.re});
      }
    }
    F::wait();
    B::template elements<0>(t, [&](int slot, int k) { v[slot] = shared[k]; });
  }
  B::template run<false>(v, shared, table + Rs::table(F::PASSES), t, (T)arguments.scale);
  if (valid) {
    B::template elements<B::PASSES - 1>(t, [&](int slot, int i) {
      if constexpr (FORM == FULL) {
        row.write((Complex<T>*)out, i, v[slot]);
      } else if constexpr (FORM == PAIRS) {
        row.write(out, 2 * i, Storage<S>::from(v[slot].re));
        row.write(out, 2 * i + 1, Storage<S>::from(v[slot].im));
      } else {
        row.write(out, i, Storage<S>::from(v[slot].re));
      }
    });
  }
}

// ---- any other axis: COLUMNS neighbouring columns a block, THREADS threads each

enum Mode { FORWARD = 1, INVERSE = 2, FILTER = 3 };

// Where the lines of an array [outer][N][pitch] lie; the pitches are template arguments, so that offsets are constants.
struct ColumnArguments {
  long long columns;              // of a plane
  long long in_outer, out_outer;  // distances between planes
  long long mirror;               // PAIRS: column k > 0 has column mirror - k beside it
  long long nyquist;              // PAIRS: the column that is real like column 0, 0 if there is none
};

// KEPT, LOW: the wavenumbers that FORWARD stores and INVERSE reads.
template <typename T, int MODE, int IN, long long IN_PITCH, int OUT, long long OUT_PITCH, int KEPT, int LOW, int THREADS,
          int COLUMNS, typename Rs, typename... Factors>
__global__ __launch_bounds__(THREADS* COLUMNS) void columns(const Complex<T>* in, Complex<T>* out,
                                                             const Complex<T>* __restrict__ table, ColumnArguments p,
                                                             FilterArguments arguments) {
  using B = Fft<T, 1, THREADS, COLUMNS, true, typename Reversed<Rs>::type>;
  using F = typename Choose<MODE == INVERSE, B, Fft<T, -1, THREADS, COLUMNS, true, Rs>>::type;
  using Last = typename Choose<MODE == FORWARD, F, B>::type;
  constexpr int N = F::N;
  const int c = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS;
  const index_t tiles = ((index_t)p.columns + COLUMNS - 1) / COLUMNS;
  const index_t plane = (index_t)blockIdx.x / tiles, column = (index_t)blockIdx.x % tiles * COLUMNS + c;
  const bool valid = column < (index_t)p.columns;
  const index_t from = valid ? column : 0, mirror = from == 0 ? 0 : (index_t)p.mirror - from;
  Complex<T>* shared = shared_memory<T>() + c;
  Complex<T> v[larger(F::E, Last::E)];
  constexpr index_t pitch = (index_t)IN_PITCH, step = (index_t)OUT_PITCH;
  in += plane * (index_t)p.in_outer;
  if constexpr (IN == PAIRS) {
    constexpr int R = F::Radix::of(0);
    static_assert(F::G::each(0) % 2 == 0 && F::G::butterflies(0) % 2 == 0, "a thread must hold both rows of a pair");
    F::template elements<0>(t, [&](int slot, int i) {
      if (slot / R % 2 == 0) {
        const Complex<T> z = load_past(in + i / 2 * pitch + from), m = load_past(in + i / 2 * pitch + mirror);
        v[slot] = {z.re + m.re, z.im - m.im};
        v[slot + R] = {z.im + m.im, m.re - z.re};
      }
    });
  } else {
    F::template elements<0>(t, [&](int slot, int i) {
      const int place = MODE == INVERSE ? kept<N, KEPT, LOW>(i) : i;
      v[slot] = {0, 0};
      if (MODE != INVERSE || KEPT == N || place < KEPT) v[slot] = load_past(in + place * pitch + from);
    });
  }
  F::template run<true>(v, shared, table, t);
  if constexpr (MODE == FILTER) {
    const Filter<T, Factors...> filter(arguments, plane, from);
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { v[slot] = filter.apply(v[slot], k); });
    B::template run<false>(v, shared, table + Rs::table(F::PASSES), t, (T)arguments.scale);
  }
  if (!valid) return;
  out += plane * (index_t)p.out_outer;
  if constexpr (OUT == PAIRS) {
    constexpr int LAST = Last::PASSES - 1, R = Last::Radix::of(LAST);
    static_assert(Last::G::each(LAST) % 2 == 0 && Last::G::butterflies(LAST) % 2 == 0, "both rows of a pair");
    Last::template elements<LAST>(t, [&](int slot, int i) {
      if (slot / R % 2 == 0) {
        const Complex<T> a = v[slot], b = v[slot + R];
        Complex<T>* row = out + i / 2 * step;
        if (from == 0 || from == (index_t)p.nyquist) {
          row[from] = {a.re, b.re};
        } else {
          row[from] = {a.re - b.im, a.im + b.re};
          row[mirror] = {a.re + b.im, b.re - a.im};
        }
      }
    });
  } else {
    Last::template elements<Last::PASSES - 1>(t, [&](int slot, int i) {
      const int place = MODE == FORWARD ? kept<N, KEPT, LOW>(i) : i;
      if (MODE != FORWARD || KEPT == N || place < KEPT) out[place * step + from] = v[slot];
    });
  }
}
