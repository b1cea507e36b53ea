// Real lines of 4 N values that are too long for a block: even and odd wavenumbers, N each, in two blocks.
//
//   halves_filter   forward, product, and back but for the last butterfly, for one kind of wavenumbers a block
//   halves_join     that butterfly
//
// With z_i, i = 0 ... 2 N - 1, neighbours of a line as complex numbers, even wavenumbers are the transform of
// z_i + z_(i+N), odd ones that of (z_i - z_(i+N)) exp(-pi i / N). The mirrored wavenumber is of the same kind.
#include "fft.cuh"
#include "filter.cuh"
#include "rows.cuh"

// Table: that of the transforms, then exp(-pi i k / (2 N)) for k = 0 ... 2 N - 1.
template <typename S, typename T, int THREADS, typename Rs, typename... Factors>
__global__ __launch_bounds__(THREADS) void halves_filter(const Complex<S>* __restrict__ x, Complex<T>* __restrict__ out,
                                                         const Complex<T>* __restrict__ table,
                                                         FilterArguments arguments) {
  using F = Fft<T, -1, THREADS, 1, SPREAD, Rs>;
  using B = Fft<T, 1, THREADS, 1, SPREAD, typename Reversed<Rs>::type>;
  constexpr int N = F::N;
  const int t = opaque(threadIdx.x), kind = blockIdx.x % 2;
  const index_t line = (index_t)blockIdx.x / 2;
  const Complex<T>* roots = table + Rs::table(F::PASSES) + B::Radix::table(F::PASSES);
  Complex<T>* shared = shared_memory<T>();
  x += line * (2 * N);
  out += line * (2 * N) + kind * N;
  const Filter<T, Factors...> filter(arguments, line, 0);
  Complex<T> v[larger(F::E, B::E)];
  F::template elements<0>(t, [&](int slot, int i) {
    const Complex<T> a = to_number(x[i]), b = to_number(x[i + N]);
    v[slot] = kind == 0 ? a + b : (a - b) * roots[2 * i];
  });
  F::template run<true>(v, shared, table, t);
  F::wait();
  F::template elements<F::PASSES - 1>(t, [&](int slot, int m) { shared[m] = v[slot]; });
  F::wait();
  for (int m = t; kind == 0 ? 2 * m <= N : 2 * m < N; m += THREADS) {
    const int k = 2 * m + kind;
    if (k == 0) filter_ends(shared[0], filter.at(0), filter.at(2 * N));
    else filter_packed(shared[m], shared[N - m - kind], filter.at(k), filter.at(2 * N - k), roots[k]);
  }
  F::wait();
  B::template elements<0>(t, [&](int slot, int m) { v[slot] = shared[m]; });
  B::template run<false>(v, shared, table + Rs::table(F::PASSES), t, (T)arguments.scale);
  B::template elements<B::PASSES - 1>(t, [&](int slot, int i) {
    out[i] = kind == 0 ? v[slot] : times_conj(v[slot], roots[2 * i]);
  });
}

// From `in` to `out`, which may be the same memory.
template <typename S, typename T>
__global__ void halves_join(const Complex<T>* in, Complex<S>* out, long long count, long long half) {
  const index_t at = (index_t)blockIdx.x * blockDim.x + threadIdx.x, n = (index_t)half;
  if (at >= (index_t)count) return;
  const index_t first = at / n * (2 * n) + at % n;
  const Complex<T> a = in[first], b = in[first + n];
  store_once(out + first, Storage<Complex<S>>::from(a + b));
  store_once(out + first + n, Storage<Complex<S>>::from(a - b));
}
