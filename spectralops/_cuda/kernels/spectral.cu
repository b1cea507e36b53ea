// Transforms of lines and the filters between them.
//
//   rows_forward   x -> spectrum along the contiguous axis        rows_inverse   back
//   columns        forward, inverse, or forward * filter * inverse along another axis
//   rows_filter    forward * filter * inverse along the contiguous axis, for one transformed axis
//   twos_filter    the same for two real lines at once, of odd lengths that cost much
#include "columns.cuh"
#include "cyclic.cuh"
#include "fft.cuh"
#include "filter.cuh"
#include "order.cuh"
#include "pairs.cuh"
#include "rows.cuh"

// ---- the contiguous axis: THREADS threads a line, LINES lines a block

template <typename S, typename T, int FORM, int KEPT, int LOW, int PADDING, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void rows_forward(const S* __restrict__ x, Complex<T>* spectrum,
                                                                const Complex<T>* __restrict__ table, long long lines,
                                                                PadArguments pad) {
  using F = Fft<T, -1, THREADS, 1, false, Rs>;
  constexpr int N = F::N;
  let_next_begin();
  ask_for(table, Rs::table(F::PASSES));
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t line = (index_t)blockIdx.x * LINES + group;
  const bool valid = line < (index_t)lines;
  const index_t source = valid ? line : 0;
  const Together<FORM> rows(pad, source);
  const Row<PADDING, N> first(pad, rows.first), second(pad, rows.first + rows.two);
  Complex<T>* shared = shared_memory<T>() + group * F::G::padded();
  Complex<T> v[F::E];
  F::template elements<0>(t, [&](int slot, int i) {
    if constexpr (FORM == FULL) {
      v[slot] = first.read((const Complex<T>*)x, i);
    } else if constexpr (FORM == HALF) {
      v[slot] = {(T)to_number(first.read(x, i)), 0};
    } else {
      v[slot] = {(T)to_number(first.read(x, i)), rows.two ? (T)to_number(second.read(x, i)) : 0};
    }
  });
  F::template run<true>(v, shared, table, t);
  await_previous();
  if constexpr (FORM == SPLIT || FORM == TWOS) {
    F::wait();
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) {
      if (k < KEPT || N - k < KEPT) shared[k] = v[slot];
    });
    F::wait();
    if (!valid) return;
    for (int k = t; k < KEPT; k += THREADS) {
      const Complex<T> z = shared[k], m = shared[k == 0 ? 0 : N - k];
      Complex<T> one, other;
      unpack_pair(z, m, one, other);
      spectrum[rows.first * KEPT + k] = one;
      if (rows.two) spectrum[(rows.first + 1) * KEPT + k] = other;
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
      spectrum[line * N + packed_place<N>(k)] = v[slot];
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
  let_next_begin();
  ask_for(table, F::Radix::table(F::PASSES));
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t line = (index_t)blockIdx.x * LINES + group;
  const bool valid = line < (index_t)lines;
  const index_t source = valid ? line : 0;
  spectrum = after_previous(spectrum);
  const Together<FORM> rows(pad, source);
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
    } else if constexpr (FORM == SPLIT || FORM == TWOS) {
      if (low < KEPT) {
        const Complex<T> a = load_past(spectrum + rows.first * KEPT + low);
        const Complex<T> b = rows.two ? load_past(spectrum + (rows.first + 1) * KEPT + low) : Complex<T>{0, 0};
        const T ai = real ? 0 : mirrored ? -a.im : a.im, bi = real ? 0 : mirrored ? -b.im : b.im;
        v[slot] = {a.re - bi, ai + b.re};
      }
    } else if constexpr (KEPT == 0) {
      v[slot] = load_past(spectrum + source * N + packed_place<N>(k));
    } else {
      if (low < KEPT) v[slot] = load_past(spectrum + source * (2 * KEPT) + (mirrored ? 2 * KEPT - low : low));
    }
  });
  F::template run<true>(v, shared_memory<T>() + group * F::G::padded(), table, t);
  if (!valid) return;
  const Row<PADDING, N> first(pad, rows.first), second(pad, rows.first + rows.two);
  F::template elements<F::PASSES - 1>(t, [&](int slot, int i) {
    if constexpr (FORM == FULL) {
      first.write((Complex<T>*)out, i, v[slot]);
    } else {
      first.write(out, i, Storage<S>::from(v[slot].re));
      if (rows.two) second.write(out, i, Storage<S>::from(v[slot].im));
    }
  });
}

// Blocks that share a multiprocessor for lines of single precision in which wavenumbers meet, which need the first-level
// cache more than further warps; 0 leaves it to the compiler.
template <typename S, typename T, int FORM, int THREADS, int LINES, typename Rs>
SOPS_CONSTEXPR int rows_at_once() {
  using F = Fft<T, -1, THREADS, 1, MIRRORED, Rs>;
  const bool bound = FORM == PAIRS && F::PAIRED && F::E == 16 && sizeof(S) == 4 && sizeof(T) == 4;
  return bound ? larger(1, 768 / (THREADS * LINES)) : 0;
}

// One transformed axis: all in one kernel. FULL: complex lines. PAIRS: real lines of 2 N values, neighbours as one complex
// number. HALF: real lines of N values (N odd) with zero imaginary parts.
template <typename S, typename T, int FORM, int PADDING, int THREADS, int LINES, typename Rs, typename... Factors>
__global__ __launch_bounds__(THREADS* LINES, rows_at_once<S, T, FORM, THREADS, LINES, Rs>()) void rows_filter(
    const S* __restrict__ x, S* __restrict__ out, const Complex<T>* __restrict__ table, long long lines, PadArguments pad,
    FilterArguments arguments) {
  using F = Fft<T, -1, THREADS, 1, FORM == PAIRS ? MIRRORED : SPREAD, Rs>;
  using B = Fft<T, 1, THREADS, 1, FORM == PAIRS ? MIRRORED : SPREAD, typename Reversed<Rs>::type>;
  constexpr int N = F::N;
  const int t = opaque(threadIdx.x % THREADS), group = threadIdx.x / THREADS;
  const index_t number = (index_t)blockIdx.x * LINES + group;
  const bool valid = number < (index_t)lines;
  const index_t source = valid ? arguments.transform(number) : 0;
  Complex<T>* shared = shared_memory<T>() + group * larger(F::G::padded(), B::G::padded());
  const Filter<T, Factors...> filter(arguments, source, 0);
  const Row<PADDING, FORM == PAIRS ? 2 * N : N> row(pad, source);
  Complex<T> v[larger(F::E, B::E)];
  F::template elements<0>(t, [&](int slot, int i) {
    if constexpr (FORM == FULL) {
      v[slot] = row.read((const Complex<T>*)x, i);
    } else if constexpr (FORM == PAIRS && PADDING == BARE) {
      const Complex<S>* from = (const Complex<S>*)(x + row.start) + i;
      if constexpr (sizeof(S) == sizeof(T)) v[slot] = load_past(from);
      else v[slot] = to_number(load_once(from));
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
    const auto at = [&](Complex<T>& low, Complex<T>& high, int k, Complex<T> root) {
      filter_packed(low, high, filter.at(k), filter.at(N - k), root);
    };
    if constexpr (F::PAIRED) {
      F::pairs(v, t, roots, at, [&](Complex<T>& zero, Complex<T>& middle) {
        filter_ends(zero, filter.at(0), filter.at(N));
        middle = times(middle, times(conj(filter.at(N / 2)), (T)2));
      });
    } else {
      F::wait();
      F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { shared[k] = v[slot]; });
      F::wait();
      for (int k = t; 2 * k <= N; k += THREADS) {
        if (k == 0) filter_ends(shared[0], filter.at(0), filter.at(N));
        else at(shared[k], shared[N - k], k, roots[k]);
      }
      F::wait();
      B::template elements<0>(t, [&](int slot, int k) { v[slot] = shared[k]; });
    }
  }
  B::template run<false>(v, shared, table + Rs::table(F::PASSES), t, (T)arguments.scale);
  if (valid) {
    B::template elements<B::PASSES - 1>(t, [&](int slot, int i) {
      if constexpr (FORM == FULL) {
        row.write((Complex<T>*)out, i, v[slot]);
      } else if constexpr (FORM == PAIRS && PADDING == BARE) {
        store_once((Complex<S>*)(out + row.start) + i, Storage<Complex<S>>::from(v[slot]));
      } else if constexpr (FORM == PAIRS) {
        row.write(out, 2 * i, Storage<S>::from(v[slot].re));
        row.write(out, 2 * i + 1, Storage<S>::from(v[slot].im));
      } else {
        row.write(out, i, Storage<S>::from(v[slot].re));
      }
    });
  }
}

// Blocks of single precision that share a multiprocessor: so many that a thread has at most 168 registers, or two even if
// a few of its values then lie in memory. Left to itself, the compiler takes twice as many as it needs.
template <typename T>
SOPS_CONSTEXPR int twos_at_once(int threads) {
  return sizeof(T) > 4 ? 1 : larger(384 / threads, threads <= 384 ? 2 : 1);
}

// Whether neither part of numbers is above four times the other at its largest, of all that THREADS threads hold.
template <typename F, int THREADS, typename T>
SOPS_DEVICE bool alike(const Complex<T>* v, Complex<T>* shared, int t) {
  constexpr int SHARERS = THREADS < 8 ? THREADS : 8;
  Complex<T> most = {0, 0};
  const auto join = [&](Complex<T> z) {
    const T re = z.re < 0 ? -z.re : z.re, im = z.im < 0 ? -z.im : z.im;
    most = {re > most.re ? re : most.re, im > most.im ? im : most.im};
  };
  F::template elements<0>(t, [&](int slot, int) { join(v[slot]); });
  shared[t] = most;
  F::wait();
  if (t < SHARERS) {
    for (int j = t + SHARERS; j < THREADS; j += SHARERS) join(shared[j]);
    shared[t] = most;
  }
  F::wait();
  for (int j = 0; j < SHARERS; ++j) join(shared[j]);
  return most.re <= 4 * most.im && most.im <= 4 * most.re;
}

// Real lines of N values that one filter is for, 2r and 2r + 1 as one complex line; by themselves where one of them has
// what is not finite, or is much larger: neither that nor its rounding errors must get into the other.
template <typename S, typename T, int FORM, int PADDING, int THREADS, int LINES, typename Rs, typename... Factors>
__global__ __launch_bounds__(THREADS* LINES, twos_at_once<T>(THREADS * LINES)) void twos_filter(
    const S* __restrict__ x, S* __restrict__ out, const Complex<T>* __restrict__ table, long long lines, PadArguments pad,
    FilterArguments arguments) {
  using F = Fft<T, -1, THREADS, 1, SPREAD, Rs>;
  using B = Fft<T, 1, THREADS, 1, SPREAD, typename Reversed<Rs>::type>;
  constexpr int N = F::N;
  const int t = opaque(threadIdx.x % THREADS), group = threadIdx.x / THREADS;
  const index_t line = 2 * ((index_t)blockIdx.x * LINES + group);
  const bool valid = line < (index_t)lines, pair = line + 1 < (index_t)lines;
  const Row<PADDING, N> first(pad, valid ? line : 0), second(pad, pair ? line + 1 : 0);
  Complex<T>* shared = shared_memory<T>() + group * larger(F::G::padded(), B::G::padded());
  const Filter<T, Factors...> filter(arguments, valid ? line : 0, 0);
  Complex<T> v[larger(F::E, B::E)];
  for (int turn = 0; turn < 3; ++turn) {  // both lines, then each
    const bool with_first = turn != 2, with_second = pair && turn != 1;
    F::template elements<0>(t, [&](int slot, int i) {
      v[slot] = {with_first ? (T)to_number(first.read(x, i)) : 0, with_second ? (T)to_number(second.read(x, i)) : 0};
    });
    const bool together = turn > 0 || alike<F, THREADS>(v, shared, t) || !pair;
    F::template run<false>(v, shared, table, t);
    // Where a value of a line is not finite, no wavenumber is.
    bool finite = true;
    F::template elements<F::PASSES - 1>(t, [&](int slot, int) {
      if (slot == 0) finite = v[0].re - v[0].re == 0 && v[0].im - v[0].im == 0;
    });
    const bool apart = turn > 0 || __syncthreads_or(!finite || !together);
    if (turn == 0 && apart) continue;
    await_previous();
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) {
      if constexpr (longer(Rs())) {  // that of real numbers
        v[slot] = filter.apply(v[slot], k);
        return;
      }
      const bool mirrored = 2 * k > N;
      const Complex<T> y = filter.apply(mirrored ? conj(v[slot]) : v[slot], mirrored ? N - k : k);
      v[slot] = k == 0 ? times(v[slot], real_part(filter.at(0))) : mirrored ? conj(y) : y;
    });
    B::template run<false>(v, shared, table + Rs::table(F::PASSES), t, (T)arguments.scale);
    B::template elements<B::PASSES - 1>(t, [&](int slot, int i) {
      if (valid && with_first) first.write(out, i, Storage<S>::from(v[slot].re));
      if (with_second) second.write(out, i, Storage<S>::from(v[slot].im));
    });
    if (!apart) break;
  }
}

// ---- any other axis: COLUMNS neighbouring columns a block, THREADS threads each

enum Mode { FORWARD = 1, INVERSE = 2, FILTER = 3 };

// Blocks that share a multiprocessor for filters of paired rows in double precision whose threads hold many points: so many
// that a thread has 128 registers, of which it takes fewer, to no avail, if that is left to the compiler (0).
template <typename T>
SOPS_CONSTEXPR int columns_at_once(int mode, int form, int threads, int held) {
  return sizeof(T) > 4 && mode == FILTER && form == PAIRS && held > 8 && threads <= 256 ? 512 / threads : 0;
}

// KEPT, LOW: the wavenumbers that FORWARD stores and INVERSE reads.
template <typename T, int MODE, int IN, long long IN_PITCH, int OUT, long long OUT_PITCH, int KEPT, int LOW, int THREADS,
          int COLUMNS, typename Rs, typename... Factors>
__global__ __launch_bounds__(THREADS* COLUMNS, columns_at_once<T>(MODE, IN, THREADS* COLUMNS,
                                                                  Fft<T, -1, THREADS, COLUMNS, true, Rs>::E)) void
columns(const Complex<T>* in, Complex<T>* out, const Complex<T>* __restrict__ table, ColumnArguments p,
        FilterArguments arguments) {
  using B = Fft<T, 1, THREADS, COLUMNS, true, typename Reversed<Rs>::type>;
  using F = typename Choose<MODE == INVERSE, B, Fft<T, -1, THREADS, COLUMNS, true, Rs>>::type;
  using Last = typename Choose<MODE == FORWARD, F, B>::type;
  constexpr int N = F::N;
  let_next_begin();
  const int c = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS;
  const index_t tiles = ((index_t)p.columns + COLUMNS - 1) / COLUMNS;
  const index_t block = turned_block(), plane = block / tiles, column = block % tiles * COLUMNS + c;
  const bool valid = column < (index_t)p.columns;
  const index_t from = valid ? column : 0;
  const Pair pair(p, from);
  Complex<T>* shared = shared_memory<T>() + c;
  Complex<T> v[larger(F::E, Last::E)];
  constexpr index_t pitch = (index_t)IN_PITCH, step = (index_t)OUT_PITCH;
  in = after_previous(in) + plane * (index_t)p.in_outer;
  if constexpr (IN == PAIRS) {
    constexpr int R = F::Radix::of(0);
    static_assert(F::G::each(0) % 2 == 0 && F::G::butterflies(0) % 2 == 0, "a thread must hold both rows of a pair");
    F::template elements<0>(t, [&](int slot, int i) {
      if (slot / R % 2 == 0) {
        const Complex<T>* row = in + i / 2 * pitch;
        unpack_pair(load_past(row + pair.own), load_past(row + pair.mirror), v[slot], v[slot + R]);
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
  out += plane * (index_t)p.out_outer;
  if constexpr (OUT == PAIRS) {
    constexpr int LAST = Last::PASSES - 1, R = Last::Radix::of(LAST);
    static_assert(Last::G::each(LAST) % 2 == 0 && Last::G::butterflies(LAST) % 2 == 0, "both rows of a pair");
    Last::template elements<LAST>(t, [&](int slot, int i) {
      if (valid && slot / R % 2 == 0) {
        pack_pair(out + i / 2 * step, pair.own, pair.mirror, pair.real(), v[slot], v[slot + R]);
      }
    });
  } else {
    Last::template elements<Last::PASSES - 1>(t, [&](int slot, int i) {
      const int place = MODE == FORWARD ? kept<N, KEPT, LOW>(i) : i;
      if (valid && (MODE != FORWARD || KEPT == N || place < KEPT)) out[place * step + from] = v[slot];
    });
  }
}
