// Transforms that are spread over PARTS blocks of a cluster, since one block has no room for them.
//
//   columns_spread       forward * filter * inverse along an axis that is not contiguous, COLUMNS columns a cluster
//   lines_spread         the same for real lines of 2 N values, stored as S, neighbours as one complex number
//   spread_coefficients  what it multiplies by, where many lines share a filter
//
// N = PARTS * M. Part r has the wavenumbers k = r + PARTS * m: they are the transform of M points of
//   y_r[i] = exp(-2 pi i r i / N) sum_q z[i + q M] exp(-2 pi i r q / PARTS),  i = 0 ... M - 1.
// Each block reads z for its own share of the i's and all q, and writes y_r[i] into the shared memory of the block that has
// part r. On the way back it gathers them. Tables: of the transforms of M points, then exp(-2 pi i i / N) for
// i = 0 ... M - 1.
#include "cluster.cuh"
#include "columns.cuh"
#include "fft.cuh"
#include "filter.cuh"
#include "order.cuh"
#include "pairs.cuh"
#include "rows.cuh"

// w^q for q = 1 ... R - 1, each by at most three products.
template <int R, typename T>
SOPS_DEVICE void powers(Complex<T> w, Complex<T> (&found)[R]) {
  found[0] = {1, 0};
  repeat<R>([&](auto number) {
    constexpr int q = decltype(number)::value;
    if constexpr (q == 1) found[1] = w;
    if constexpr (q > 1) found[q] = found[q / 2] * found[q - q / 2];
  });
}

// z[i + q M] for all q, to y_q[i], which lies at place(q); and back.
template <int PARTS, typename T, typename P>
SOPS_DEVICE void scatter(Complex<T> (&z)[PARTS], Complex<T> root, P&& place) {
  Complex<T> factor[PARTS];
  powers(root, factor);
  Dft<PARTS, -1>::run(z);
  *place(0) = z[0];
#pragma unroll
  for (int q = 1; q < PARTS; ++q) *place(q) = z[q] * factor[q];
}
template <int PARTS, typename T, typename P>
SOPS_DEVICE void gather(Complex<T> (&z)[PARTS], Complex<T> root, P&& place) {
  Complex<T> factor[PARTS];
  powers(root, factor);
  z[0] = *place(0);
#pragma unroll
  for (int q = 1; q < PARTS; ++q) z[q] = times_conj(*place(q), factor[q]);
  Dft<PARTS, 1>::run(z);
}

// BLOCKS: those that share a multiprocessor; indices of 64 bits leave no room for a second one.
template <typename T, int PARTS, int FORM, long long PITCH, int BLOCKS, int THREADS, int COLUMNS, typename Rs,
          typename... Factors>
__global__ SOPS_CLUSTER(PARTS)
__launch_bounds__(THREADS* COLUMNS, sizeof(index_t) > 4 ? 1 : BLOCKS) void columns_spread(
    const Complex<T>* in, Complex<T>* out, const Complex<T>* __restrict__ table, ColumnArguments p,
    FilterArguments arguments) {
  using F = Fft<T, -1, THREADS, COLUMNS, SPREAD, Rs>;
  using B = Fft<T, 1, THREADS, COLUMNS, SPREAD, typename Reversed<Rs>::type>;
  constexpr int M = F::N, OWN = M / PARTS;
  constexpr int TOGETHER = FORM == PAIRS ? 2 : 1;
  static_assert(M % PARTS == 0 && OWN % TOGETHER == 0, "parts have as many rows each, and both of a pair");
  const int c = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS, part = blockIdx.x % PARTS;
  const index_t tile = turned_block() / PARTS, tiles = ((index_t)p.columns + COLUMNS - 1) / COLUMNS;
  const index_t plane = tile / tiles, column = tile % tiles * COLUMNS + c;
  const bool valid = column < (index_t)p.columns;
  const index_t from = valid ? column : 0;
  const Pair pair(p, from);
  constexpr index_t pitch = (index_t)PITCH;
  const Complex<T>* roots = table + Rs::table(F::PASSES) + B::Radix::table(F::PASSES);
  Complex<T>* shared = shared_memory<T>() + c;
  const auto place = [&](int i, int q) { return of_block(shared + i * COLUMNS, q); };
  in += plane * (index_t)p.in_outer;
  out += plane * (index_t)p.out_outer;
  cluster_wait();
  for (int i = part * OWN + t * TOGETHER; i < (part + 1) * OWN; i += THREADS * TOGETHER) {
    Complex<T> a[PARTS], b[PARTS];
#pragma unroll
    for (int q = 0; q < PARTS; ++q) {
      if constexpr (FORM == PAIRS) {
        const Complex<T>* row = in + (i + q * M) / 2 * pitch;
        unpack_pair(load_past(row + pair.own), load_past(row + pair.mirror), a[q], b[q]);
      } else {
        a[q] = load_past(in + (i + q * M) * pitch + from);
      }
    }
    scatter(a, roots[i], [&](int q) { return place(i, q); });
    if constexpr (FORM == PAIRS) scatter(b, roots[i + 1], [&](int q) { return place(i + 1, q); });
  }
  cluster_wait();
  Complex<T> v[larger(F::E, B::E)];
  F::template elements<0>(t, [&](int slot, int i) { v[slot] = shared[i * COLUMNS]; });
  F::template run<false>(v, shared, table, t);
  const Filter<T, Factors...> filter(arguments, plane, from);
  F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { v[slot] = filter.apply(v[slot], part + PARTS * k); });
  B::template run<false>(v, shared, table + Rs::table(F::PASSES), t, (T)arguments.scale);
  B::wait();
  B::template elements<B::PASSES - 1>(t, [&](int slot, int i) { shared[i * COLUMNS] = v[slot]; });
  cluster_wait();
  for (int i = part * OWN + t * TOGETHER; i < (part + 1) * OWN; i += THREADS * TOGETHER) {
    Complex<T> a[PARTS], b[PARTS];
    gather(a, roots[i], [&](int q) { return place(i, q); });
    if constexpr (FORM == PAIRS) gather(b, roots[i + 1], [&](int q) { return place(i + 1, q); });
    if (valid) {
#pragma unroll
      for (int q = 0; q < PARTS; ++q) {
        if constexpr (FORM == PAIRS) {
          pack_pair(out + (i + q * M) / 2 * pitch, pair.own, pair.mirror, pair.real(), a[q], b[q]);
        } else {
          out[(i + q * M) * pitch + from] = a[q];
        }
      }
    }
  }
  cluster_wait();
}

// ---- lines: after the table of `roots` follow exp(-pi i (r + PARTS * j) / N) for every part r and j = 0 ... NB - 1,
// where NB = M / (last radix)

// In the place of factors: what `spread_coefficients` finds.
struct Coefficients {};
template <typename First, typename... Rest>
SOPS_CONSTEXPR bool found_before() {
  return false;
}
template <>
SOPS_CONSTEXPR bool found_before<Coefficients>() {
  return true;
}

// What a line and its mirror image are multiplied by at k = r + PARTS * m, at r * M + m: of the filter of the first line.
template <typename T, int PARTS, typename Rs, typename... Factors>
__global__ void spread_coefficients(Two<T>* __restrict__ out, const Complex<T>* __restrict__ angles,
                                    FilterArguments arguments) {
  constexpr int M = Rs::size, N = PARTS * M, R = Rs::of(Rs::count - 1), NB = M / R;
  const int at = (int)(blockIdx.x * blockDim.x + threadIdx.x), part = at / NB, j = at % NB;
  if (part >= PARTS) return;
  const Filter<T, Factors...> filter(arguments, 0, 0);
  out += part * M;
  const Complex<T> angle = angles[at];
  repeat<R>([&](auto number) {
    constexpr int q = decltype(number)::value;
    const int m = j + q * NB, k = part + PARTS * m;
    const auto below = filter.at(k), above = filter.at(N - k);
    out[m] = k == 0 ? coefficients_of_ends<T>(below, above) : coefficients(below, above, rotate<-q, 2 * R>(angle));
  });
}

// Of PARTS wavenumbers that follow one another, k and PARTS - k lie in one block, so that mirror images meet there: each of
// PARTS / 2 blocks has two parts, of THREADS threads each.
template <typename S, typename T, int PARTS, int BLOCKS, int THREADS, typename Rs, typename... Factors>
__global__ SOPS_CLUSTER(PARTS / 2) __launch_bounds__(2 * THREADS, BLOCKS) void lines_spread(
    const Complex<S>* __restrict__ x, Complex<S>* __restrict__ out, const Complex<T>* __restrict__ table,
    FilterArguments arguments) {
  using F = Fft<T, -1, THREADS, 1, SPREAD, Rs>;
  using B = Fft<T, 1, THREADS, 1, SPREAD, typename Reversed<Rs>::type>;
  constexpr int CLUSTER = PARTS / 2, M = F::N, N = PARTS * M, SHARE = (M + CLUSTER - 1) / CLUSTER;
  constexpr int R = Rs::of(F::PASSES - 1), NB = M / R, ROOM = larger(F::G::padded(), B::G::padded());
  static_assert(PARTS % 2 == 0, "a block has two parts");
  const int t = opaque(threadIdx.x % THREADS), second = threadIdx.x / THREADS, block = blockIdx.x % CLUSTER;
  const int part = second == 0 ? block : block == 0 ? CLUSTER : PARTS - block;
  const index_t line = arguments.transform((index_t)blockIdx.x / CLUSTER);
  const Complex<T>*roots = table + Rs::table(F::PASSES) + B::Radix::table(F::PASSES), *angles = roots + M + part * NB;
  Complex<T>*both = shared_memory<T>(), *shared = both + second * ROOM;
  const auto place = [&](int i, int q) {
    return of_block(both + (q < CLUSTER ? 0 : ROOM) + i, q <= CLUSTER ? q % CLUSTER : PARTS - q);
  };
  x += line * N;
  out += line * N;
  const int begin = block * SHARE + (int)threadIdx.x, end = block + 1 < CLUSTER ? (block + 1) * SHARE : M;
  Complex<T> z[PARTS];
  const auto read = [&](int i) {
#pragma unroll
    for (int q = 0; q < PARTS; ++q) z[q] = to_number(load_once(x + i + q * M));
  };
  cluster_arrive();
  if (begin < end) read(begin);
  cluster_join();
  for (int i = begin; i < end;) {
    scatter(z, roots[i], [&](int q) { return place(i, q); });
    i += 2 * THREADS;
    if (i < end) read(i);
  }
  cluster_wait();
  Complex<T> v[larger(F::E, B::E)];
  F::template elements<0>(t, [&](int slot, int i) { v[slot] = shared[i]; });
  F::template run<false>(v, shared, table, t);
  __syncthreads();
  F::template elements<F::PASSES - 1>(t, [&](int slot, int m) { shared[m] = v[slot]; });
  __syncthreads();
  // Wavenumber N - k of k = part + PARTS * m lies in the block's other part, m counted from the end.
  const Complex<T>* mirrored = block == 0 ? shared : both + (1 - second) * ROOM;
  const int last = part == 0 ? M : M - 1;
  if constexpr (found_before<Factors...>()) {
    const Two<T>* found = (const Two<T>*)arguments.factors[0].values + part * M;
    F::template elements<F::PASSES - 1>(t, [&](int slot, int m) {
      const Two<T> by = load_past(found + m);
      const bool own = slot == 0 && m == 0 && part == 0;  // k = 0
      v[slot] = blend(v[slot], by.first, mirrored[own ? 0 : last - m], by.second);
    });
  } else {
    const Filter<T, Factors...> filter(arguments, line, 0);
#pragma unroll
    for (int b = 0; b < F::G::each(F::PASSES - 1); ++b) {
      const int j = t + b * THREADS;
      if (F::template inside<F::PASSES - 1>(j)) {
        const Complex<T> angle = angles[j];
        repeat<R>([&](auto number) {
          constexpr int q = decltype(number)::value;
          const int m = j + q * NB, k = part + PARTS * m;
          Complex<T>& here = v[b * R + q];
          if (k == 0) filter_ends(here, filter.at(0), filter.at(N));
          else here = filtered_packed(here, mirrored[last - m], filter.at(k), filter.at(N - k), rotate<-q, 2 * R>(angle));
        });
      }
    }
  }
  __syncthreads();
  B::template run<false>(v, shared, table + Rs::table(F::PASSES), t, (T)arguments.scale);
  __syncthreads();
  B::template elements<B::PASSES - 1>(t, [&](int slot, int i) { shared[i] = v[slot]; });
  cluster_wait();
  for (int i = begin; i < end; i += 2 * THREADS) {
    gather(z, roots[i], [&](int q) { return place(i, q); });
#pragma unroll
    for (int q = 0; q < PARTS; ++q) store_once(out + i + q * M, Storage<Complex<S>>::from(z[q]));
  }
  cluster_wait();
}
