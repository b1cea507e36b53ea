// The spectrum of a filter as the transforms of `cyclic.cuh` multiply by it: what COUNT numbers are convolved with round
// their ends, the inverse transform of H, goes on periodically to both sides as far as it reaches one of them; of that the
// longer transform, over its size. Table: that of the Chirp.
#include "columns.cuh"
#include "fft.cuh"
#include "filter.cuh"
#include "order.cuh"

// COLUMNS neighbouring columns a block, THREADS threads each. HALVED: H is that of real numbers, of which the first half is
// there, the mean and the Nyquist wavenumber as real ones.
template <typename T, bool HALVED, int THREADS, int COLUMNS, int COUNT, typename Inner, typename... Factors>
__global__ __launch_bounds__(THREADS* COLUMNS) void cyclic_spectrum(Complex<T>* __restrict__ out,
                                                                     const Complex<T>* __restrict__ table,
                                                                     long long columns, long long pitch,
                                                                     FilterArguments arguments) {
  using Back = Fft<T, 1, THREADS, COLUMNS, BLOCKED, Chirp<COUNT, Inner>>;
  using Whole = Fft<T, -1, THREADS, COLUMNS, BLOCKED, Inner>;
  constexpr int SIZE = Inner::size;
  let_next_begin();
  const int c = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS;
  const index_t column = (index_t)blockIdx.x * COLUMNS + c;
  const bool valid = column < (index_t)columns;
  const index_t from = valid ? column : 0;
  const Filter<T, Factors...> filter(arguments, 0, from);
  Complex<T>* shared = shared_memory<T>() + c;
  Complex<T> v[larger(Back::E, Whole::E)];
  Back::template elements<0>(t, [&](int slot, int k) {
    const bool mirrored = HALVED && 2 * k > COUNT;
    const Complex<T> h = as_complex(filter.at(mirrored ? COUNT - k : k));
    v[slot] = {h.re, HALVED && (k == 0 || 2 * k == COUNT) ? 0 : mirrored ? -h.im : h.im};
  });
  Back::template run<true>(v, shared, table + Chirp<COUNT, Inner>::table(1), t);
  Back::wait();
  Back::template elements<0>(t, [&](int slot, int i) { shared[i * COLUMNS] = v[slot]; });
  Back::wait();
  Whole::template elements<0>(t, [&](int slot, int i) {
    const int before = i - (SIZE - COUNT);  // as the number so far before the end
    v[slot] = {0, 0};
    if (i < COUNT) v[slot] = shared[i * COLUMNS];
    else if (before > 0) v[slot] = shared[before * COLUMNS];
  });
  Whole::template run<false>(v, shared, table + COUNT + SIZE, t);
  if (!valid) return;
  Whole::template elements<Whole::PASSES - 1>(
      t, [&](int slot, int k) { out[k * (index_t)pitch + from] = v[slot] * (T)(1.0 / SIZE); });
}
