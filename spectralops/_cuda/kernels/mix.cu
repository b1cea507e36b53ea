// Channel mixing of a spectral convolution, wavenumber by wavenumber, and what surrounds it: scale, weights of the bins.
//
//   mix        y[b][o][k] = f(k) sum_i x[b][i][k] w[i][o][k]
//   multiply   y[b][c][k] = f(k) x[b][c][k] w[c][k]
//   correlate  y[c][k] = f(k) sum_b conj(x[b][c][k]) w[b][c][k]
//
// The lanes of a warp are neighbouring wavenumbers, so that spectra and weights are read as they are stored.
#include "copies.cuh"
#include "mix.cuh"
#include "order.cuh"
#include "rows.cuh"

// A warp computes OUT channels of BATCH samples at 32 wavenumbers; a block has WARPS_BATCH by WARPS_OUT warps. CHUNK
// channels at a time come through shared memory, STAGES of them on their way at once, WIDE numbers in a copy (2: modes
// and all distances are even, arrays aligned so). Rows beyond the last one repeat it; nothing comes of them.
template <typename T, int BATCH, int OUT, int WARPS_BATCH, int WARPS_OUT, int CHUNK, int STAGES, int WIDE, int CONJUGATE>
__global__ __launch_bounds__(32 * WARPS_BATCH* WARPS_OUT) void mix(const Complex<T>* x,
                                                                    const Complex<T>* __restrict__ w,
                                                                    Complex<T>* __restrict__ y, MixArguments a) {
  constexpr int SAMPLES = BATCH * WARPS_BATCH, CHANNELS = OUT * WARPS_OUT, ROWS = SAMPLES + CHANNELS;
  constexpr int WARPS = WARPS_BATCH * WARPS_OUT, LANES = 32 / WIDE;
  let_next_begin();
  struct alignas(WIDE * sizeof(Complex<T>)) Piece {
    Complex<T> numbers[WIDE];
  };
  extern __shared__ __align__(16) unsigned char sops_shared[];
  Complex<T>* shared = (Complex<T>*)sops_shared;  // [STAGES][CHUNK][ROWS][32]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Blocks for the same wavenumbers follow one another, so that what they share is in the second-level cache.
  const index_t sample_tiles = ((index_t)a.samples + SAMPLES - 1) / SAMPLES, tile = (index_t)blockIdx.x;
  const index_t tiles = ((index_t)a.out + CHANNELS - 1) / CHANNELS * sample_tiles, lowest = tile / tiles * 32;
  const index_t b0 = tile % sample_tiles * SAMPLES, o0 = tile % tiles / sample_tiles * CHANNELS;
  const index_t modes = (index_t)a.modes, mode = lowest + lane;
  const index_t in = (index_t)a.in, chunks = (in + CHUNK - 1) / CHUNK;

  // Each warp fetches the same rows of every chunk, WIDE at a time: samples of x first, then channels of w.
  constexpr int MINE = (ROWS + WARPS * WIDE - 1) / (WARPS * WIDE);
  const int part = lane % LANES * WIDE;
  const index_t first = lowest + part, k = first < modes ? first : modes - WIDE;
  const Complex<T>* from[MINE];
  index_t step[MINE];
  int to[MINE];
  bool sampled[MINE];
#pragma unroll
  for (int m = 0; m < MINE; ++m) {
    const int next = (m * WARPS + warp) * WIDE + lane / LANES, row = next < ROWS ? next : ROWS - 1;
    sampled[m] = row < SAMPLES;
    const index_t count = (index_t)(sampled[m] ? a.samples : a.out), wanted = sampled[m] ? b0 + row : o0 + row - SAMPLES;
    const index_t number = wanted < count ? wanted : count - 1;
    step[m] = (index_t)(sampled[m] ? a.x_in : a.weight_in);
    from[m] = (sampled[m] ? x + number * (index_t)a.x_sample : w + number * (index_t)a.weight_out) + k;
    to[m] = row * 32 + part;
  }
  // Weights are there before the spectra are, which the launch before this one computes (that of a gradient is one, too).
  constexpr bool EARLY = CONJUGATE != FIELD;
  const auto fetch = [&](index_t chunk, bool samples, bool weights) {
    Complex<T>* stage = shared + chunk % STAGES * (CHUNK * ROWS * 32);
    const index_t left = in - chunk * CHUNK;
#pragma unroll
    for (int m = 0; m < MINE; ++m) {
      if (!(sampled[m] ? samples : weights)) continue;
      const Complex<T>* piece = from[m] + chunk * CHUNK * step[m];
#pragma unroll
      for (int i = 0; i < CHUNK; ++i) {
        if (i < left) copy_ahead((Piece*)(stage + i * (ROWS * 32) + to[m]), (const Piece*)(piece + i * step[m]));
      }
    }
  };
  Complex<T> sum[BATCH][OUT];
#pragma unroll
  for (int b = 0; b < BATCH; ++b)
#pragma unroll
    for (int o = 0; o < OUT; ++o) sum[b][o] = {0, 0};
  if constexpr (EARLY) {
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) fetch(s, false, true);
  }
  x = after_previous(x);
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    fetch(s, true, !EARLY);
    end_of_group();
  }
  const int sample = warp % WARPS_BATCH * BATCH, channel = warp / WARPS_BATCH * OUT;
  const auto add = [&](const Complex<T>* stage) {
    Complex<T> u[BATCH], h[OUT];
#pragma unroll
    for (int b = 0; b < BATCH; ++b) u[b] = stage[(sample + b) * 32];
#pragma unroll
    for (int o = 0; o < OUT; ++o) h[o] = stage[(SAMPLES + channel + o) * 32];
#pragma unroll
    for (int b = 0; b < BATCH; ++b)
#pragma unroll
      for (int o = 0; o < OUT; ++o) {
        constexpr T s = CONJUGATE == WEIGHT ? -1 : 1, t = CONJUGATE == FIELD ? -1 : 1;
        sum[b][o].re += u[b].re * h[o].re;
        sum[b][o].re -= s * t * u[b].im * h[o].im;
        sum[b][o].im += s * u[b].re * h[o].im;
        sum[b][o].im += t * u[b].im * h[o].re;
      }
  };
  for (index_t chunk = 0; chunk < chunks; ++chunk) {
    landed<STAGES - 2>();
    __syncthreads();
    fetch(chunk + STAGES - 1, true, true);
    end_of_group();
    const Complex<T>* stage = shared + chunk % STAGES * (CHUNK * ROWS * 32) + lane;
    const index_t left = in - chunk * CHUNK;
    if (left >= CHUNK) {
#pragma unroll
      for (int i = 0; i < CHUNK; ++i) add(stage + i * (ROWS * 32));
    } else {
#pragma unroll 1
      for (int i = 0; i < left; ++i) add(stage + i * (ROWS * 32));
    }
  }
  if (mode >= modes) return;
  const T factor = bin_factor<T>(a, mode);
#pragma unroll
  for (int b = 0; b < BATCH; ++b)
#pragma unroll
    for (int o = 0; o < OUT; ++o) {
      const index_t s = b0 + sample + b, c = o0 + channel + o;
      if (s < (index_t)a.samples && c < (index_t)a.out) y[(s * (index_t)a.out + c) * modes + mode] = sum[b][o] * factor;
    }
}

template <typename T>
__global__ void multiply(const Complex<T>* x, const Complex<T>* __restrict__ w, Complex<T>* __restrict__ y,
                         MixArguments a) {
  const index_t modes = (index_t)a.modes, size = (index_t)a.samples * (index_t)a.in * modes;
  const index_t at = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
  let_next_begin();
  if (at >= size) return;
  const index_t mode = at % modes, channel = at / modes % (index_t)a.in;
  Complex<T> h = w[channel * (index_t)a.weight_in + mode];
  h.im *= (T)a.sign;
  h = h * bin_factor<T>(a, mode);
  y[at] = load_past(after_previous(x) + at) * h;
}

template <typename T>
__global__ void correlate(const Complex<T>* x, const Complex<T>* w, Complex<T>* __restrict__ y,
                          MixArguments a) {
  const index_t modes = (index_t)a.modes, size = (index_t)a.samples * modes;
  const index_t at = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
  let_next_begin();
  if (at >= size) return;
  x = after_previous(x);
  Complex<T> sum{0, 0};
  for (index_t b = 0; b < (index_t)a.in; ++b)
    sum = sum + times_conj(load_past(w + b * size + at), load_past(x + b * size + at));
  y[at] = sum * bin_factor<T>(a, at % modes);
}
