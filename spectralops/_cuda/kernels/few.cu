// Few wavenumbers of long real lines, for one transformed axis. Point n = t + THREADS (b + BOTH q) belongs to thread t: what
// a register transform over q says of wavenumber k, for b = 0 ... BOTH - 1, times roots that are constants, is the thread's
// share of it; a sum over threads is all that is left. Two b at a time are the parts of one complex number.
//
//   few_forward   x -> twice the first KEPT wavenumbers        few_inverse   back
#include "fft.cuh"
#include "order.cuh"
#include "rows.cuh"

// Wavenumbers of the register transform: at least KEPT.
constexpr int FEW = 16;

// Sums of 2 FEW = 32 numbers over the lanes of a warp, the k-th of them in lane k.
template <typename T>
SOPS_DEVICE T sum_over_lanes(T (&v)[2 * FEW], int lane) {
  repeat<5>([&](auto step) {
    constexpr int HALF = FEW >> decltype(step)::value;
    const bool upper = lane & HALF;
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
      const T given = upper ? v[i] : v[i + HALF], kept = upper ? v[i + HALF] : v[i];
      v[i] = kept + __shfl_xor_sync(0xffffffffu, given, HALF);
    }
  });
  return v[0];
}

// `table`: exp(-2 pi i k t / N), k = 0 ... KEPT - 1, t fastest.
template <typename S, typename T, int KEPT, int LINES, int N, int THREADS>
__global__ __launch_bounds__(THREADS* LINES) void few_forward(const S* __restrict__ x, Complex<T>* spectrum,
                                                               const Complex<T>* __restrict__ table, long long lines) {
  constexpr int BOTH = N / FEW / THREADS, WARPS = THREADS / 32;
  static_assert(THREADS % 32 == 0 && BOTH % 2 == 0 && BOTH * FEW * THREADS == N && KEPT <= FEW, "whole warps and pairs");
  let_next_begin();
  ask_for(table, FEW * THREADS);
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS, lane = threadIdx.x % 32;
  const index_t line = (index_t)blockIdx.x * LINES + group;
  const bool valid = line < (index_t)lines;
  const S* from = x + (valid ? line : 0) * N + t;
  Complex<T> sum[FEW];
#pragma unroll
  for (int k = 0; k < FEW; ++k) sum[k] = {0, 0};
#pragma unroll 1
  for (int b = BOTH - 2; b >= 0; b -= 2) {
    Complex<T> v[FEW];
#pragma unroll
    for (int q = 0; q < FEW; ++q) {
      const S* at = from + THREADS * (b + BOTH * q);
      v[q] = {(T)to_number(load_once(at)), (T)to_number(load_once(at + THREADS))};
    }
    Dft<FEW, -1>::run(v);
    repeat<KEPT>([&](auto wavenumber) {
      constexpr int k = decltype(wavenumber)::value;
      const Complex<T> z = v[k], m = v[(FEW - k) % FEW];
      const Complex<T> first{z.re + m.re, z.im - m.im}, second{z.im + m.im, m.re - z.re};
      sum[k] = first + rotate<-k * THREADS, N>(second) + rotate<-2 * k * THREADS, N>(sum[k]);
    });
  }
  T all[2 * FEW];
#pragma unroll
  for (int k = 0; k < FEW; ++k) {
    const Complex<T> own = k == 0 || k >= KEPT ? sum[k] : sum[k] * table[k * THREADS + t];
    all[2 * k] = own.re;
    all[2 * k + 1] = own.im;
  }
  T value = sum_over_lanes(all, lane);
  await_previous();
  T* to = (T*)(spectrum + line * KEPT);
  if constexpr (WARPS > 1) {
    T* shared = (T*)shared_memory<T>() + group * THREADS;
    shared[t] = value;
    __syncthreads();
    if (t >= 32) return;
#pragma unroll
    for (int warp = 1; warp < WARPS; ++warp) value += shared[warp * 32 + lane];
  }
  if (valid && lane < 2 * KEPT) to[lane] = value;
}

template <typename S, typename T, int KEPT, int LINES, int N, int THREADS>
__global__ __launch_bounds__(THREADS* LINES) void few_inverse(const Complex<T>* spectrum, S* __restrict__ out,
                                                               const Complex<T>* __restrict__ table, long long lines) {
  constexpr int BOTH = N / FEW / THREADS;
  static_assert(BOTH % 2 == 0 && BOTH * FEW * THREADS == N && KEPT <= FEW, "pairs");
  let_next_begin();
  ask_for(table, FEW * THREADS);
  const int t = threadIdx.x % THREADS, group = threadIdx.x / THREADS;
  const index_t line = (index_t)blockIdx.x * LINES + group;
  if (line >= (index_t)lines) return;
  const Complex<T>* from = after_previous(spectrum) + line * KEPT;
  S* to = out + line * N + t;
  Complex<T> own[FEW];
#pragma unroll
  for (int k = 0; k < FEW; ++k) {
    own[k] = {0, 0};
    // The mean counts once, and has no imaginary part that a real signal could have.
    if (k == 0) own[k] = {load_past(from).re / 2, 0};
    else if (k < KEPT) own[k] = times_conj(load_past(from + k), table[k * THREADS + t]);
  }
#pragma unroll 1
  for (int b = 0; b < BOTH; b += 2) {
    Complex<T> next[FEW], v[FEW];
    repeat<FEW>([&](auto wavenumber) {
      constexpr int k = decltype(wavenumber)::value;
      next[k] = rotate<k * THREADS, N>(own[k]);
    });
#pragma unroll
    for (int k = 0; k < FEW; ++k) {
      const Complex<T> a = own[k], c = own[(FEW - k) % FEW], d = next[k], e = next[(FEW - k) % FEW];
      // (a + conj c) + i (d + conj e)
      v[k] = {a.re + c.re - (d.im - e.im), a.im - c.im + d.re + e.re};
    }
    Dft<FEW, 1>::run(v);
#pragma unroll
    for (int q = 0; q < FEW; ++q) {
      S* at = to + THREADS * (b + BOTH * q);
      store_once(at, Storage<S>::from(v[q].re));
      store_once(at + THREADS, Storage<S>::from(v[q].im));
    }
    repeat<FEW>([&](auto wavenumber) {
      constexpr int k = decltype(wavenumber)::value;
      own[k] = rotate<k * THREADS, N>(next[k]);
    });
  }
}
