// Transforms of lines whose spectra have the wavenumber first, so that what belongs to one wavenumber lies together:
//
//   turned_forward   x -> spectrum[k][line]       turned_inverse   back
//
// A block takes neighbouring lines, whose numbers of one wavenumber are read and written side by side.
#include "fft.cuh"
#include "order.cuh"
#include "rows.cuh"

// Room of a transform in shared memory: of an odd size, so that the same place of several rooms is in different banks.
template <typename F>
SOPS_CONSTEXPR int room_of() {
  return larger(F::G::padded(), F::N) | 1;
}

// FORM: FULL, complex lines; SPLIT, two real lines as one, told apart.
template <typename S, typename T, int FORM, int KEPT, int LOW, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void turned_forward(const S* __restrict__ x, Complex<T>* spectrum,
                                                                  const Complex<T>* __restrict__ table, long long lines) {
  using F = Fft<T, -1, THREADS, 1, false, Rs>;
  constexpr int N = F::N, ROOM = room_of<F>();
  let_next_begin();
  ask_for(table, Rs::table(F::PASSES));
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t count = (index_t)lines, first = (index_t)blockIdx.x * LINES;
  const index_t source = first + group < count ? first + group : 0;
  Complex<T>* room = shared_memory<T>() + group * ROOM;
  Complex<T> v[F::E];
  F::template elements<0>(t, [&](int slot, int i) {
    if constexpr (FORM == FULL) {
      v[slot] = load_once((const Complex<T>*)x + source * N + i);
    } else {
      const S* rows = x + source * (2 * N) + i;
      v[slot] = {(T)to_number(load_once(rows)), (T)to_number(load_once(rows + N))};
    }
  });
  F::template run<true>(v, room, table, t);
  F::wait();
  F::template elements<F::PASSES - 1>(t, [&](int slot, int k) {
    const int place = FORM == FULL ? kept<N, KEPT, LOW>(k) : k;
    if (place < KEPT || (FORM == SPLIT && N - k < KEPT)) room[place] = v[slot];
  });
  __syncthreads();
  await_previous();
  for (int i = threadIdx.x; i < KEPT * LINES; i += THREADS * LINES) {
    const int l = i % LINES, k = i / LINES;
    const index_t line = first + l;
    if (line >= count) continue;
    const Complex<T>* from = shared_memory<T>() + l * ROOM;
    const Complex<T> z = from[k];
    if constexpr (FORM == FULL) {
      spectrum[k * count + line] = z;
    } else {
      const Complex<T> m = from[k == 0 ? 0 : N - k];
      ((Two<T>*)spectrum)[k * count + line] = {{z.re + m.re, z.im - m.im}, {z.im + m.im, m.re - z.re}};
    }
  }
}

template <typename S, typename T, int FORM, int KEPT, int LOW, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void turned_inverse(const Complex<T>* spectrum, S* __restrict__ out,
                                                                  const Complex<T>* __restrict__ table, long long lines) {
  using F = Fft<T, 1, THREADS, 1, false, typename Reversed<Rs>::type>;
  constexpr int N = F::N, ROOM = room_of<F>();
  let_next_begin();
  ask_for(table, F::Radix::table(F::PASSES));
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t count = (index_t)lines, first = (index_t)blockIdx.x * LINES, line = first + group;
  Complex<T>* room = shared_memory<T>() + group * ROOM;
  spectrum = after_previous(spectrum);
  for (int i = threadIdx.x; i < KEPT * LINES; i += THREADS * LINES) {
    const int l = i % LINES, k = i / LINES;
    if (first + l >= count) continue;
    Complex<T>* to = shared_memory<T>() + l * ROOM;
    if constexpr (FORM == FULL) {
      to[k] = load_past(spectrum + k * count + first + l);
    } else {
      const Two<T> both = load_past((const Two<T>*)spectrum + k * count + first + l);
      const Complex<T> a = both.first, b = both.second;
      // What a real signal cannot have is not there: the imaginary parts of the mean and of the Nyquist wavenumber.
      const bool real = k == 0 || 2 * k == N;
      to[k] = real ? Complex<T>{a.re, b.re} : Complex<T>{a.re - b.im, a.im + b.re};
      if (!real) to[N - k] = {a.re + b.im, b.re - a.im};
    }
  }
  __syncthreads();
  Complex<T> v[F::E];
  F::template elements<0>(t, [&](int slot, int k) {
    const int place = FORM == FULL ? kept<N, KEPT, LOW>(k) : k;
    v[slot] = {0, 0};
    if (place < KEPT || (FORM == SPLIT && N - k < KEPT)) v[slot] = room[place];
  });
  F::template run<false>(v, room, table, t);
  if (line >= count) return;
  F::template elements<F::PASSES - 1>(t, [&](int slot, int i) {
    if constexpr (FORM == FULL) {
      store_once((Complex<T>*)out + line * N + i, v[slot]);
    } else {
      S* rows = out + line * (2 * N) + i;
      store_once(rows, Storage<S>::from(v[slot].re));
      store_once(rows + N, Storage<S>::from(v[slot].im));
    }
  });
}
