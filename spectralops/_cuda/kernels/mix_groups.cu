// Channel mixing of many samples on tensor cores, of spectra that have the wavenumber first:
//
//   mix_groups     y[k][b][o] = f(k) sum_i x[k][b][i] w[i][o][k]
//
// A complex product is one of real matrices: a sample's channels are a row of 2 IN real numbers, weights a matrix of 2 IN
// rows. Numbers are multiplied in two parts of 11 bits each, and rounded sums of few products are added in registers, so
// that nothing is less exact than in single precision.
#include "copies.cuh"
#include "groups.cuh"
#include "mix.cuh"
#include "order.cuh"
#include "rows.cuh"

// Channels that a block computes.
constexpr int GROUP_CHANNELS = GROUP_COLUMNS / 2;

// GROUPS of four warps, each with 64 samples at a time. AHEAD pieces of 8 channels are on their way to shared memory, where
// each thread has what it needs itself; the products of a piece are one sum.
template <int IN, int GROUPS, int AHEAD, int CONJUGATE>
__global__ __launch_bounds__(128 * GROUPS, 1) void mix_groups(const Complex<float>* x, const Complex<float>* __restrict__ w,
                                                              Complex<float>* __restrict__ y, MixArguments a) {
  constexpr int PIECES = IN / 8, ROUNDS = PIECES / AHEAD, STEPS = 2;  // of 8 channels, which are 16 real numbers
  static_assert(IN % 8 == 0 && PIECES % AHEAD == 0, "whole pieces");
  extern __shared__ __align__(128) unsigned char sops_shared[];
  float* const shared = (float*)sops_shared;  // [PIECES][STEPS][high, low][GROUP_ROWS], then copies
  let_next_begin();
  const index_t modes = (index_t)a.modes, samples = (index_t)a.samples, out = (index_t)a.out;
  const index_t tiles = out / GROUP_CHANNELS, shares = (index_t)gridDim.x / (tiles * modes);
  const index_t tile = (index_t)blockIdx.x % tiles, share = (index_t)blockIdx.x / tiles % shares;
  const index_t mode = (index_t)blockIdx.x / tiles / shares, o0 = tile * GROUP_CHANNELS;

  // Channel i of a piece is number i / 2 of the four that step i % 2 has, so that a thread reads two channels side by
  // side; likewise the channels of the result.
  constexpr int THREADS = 128 * GROUPS, BATCH = 4;
  for (int begin = threadIdx.x; begin < IN * GROUP_CHANNELS; begin += THREADS * BATCH) {
    Complex<float> h[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
      const int at = begin + n * THREADS, i = at / GROUP_CHANNELS, o = at % GROUP_CHANNELS;
      if (at < IN * GROUP_CHANNELS) h[n] = w[i * (index_t)a.weight_in + (o0 + o) * (index_t)a.weight_out + mode];
    }
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
      const int at = begin + n * THREADS, i = at / GROUP_CHANNELS, o = at % GROUP_CHANNELS;
      if (at >= IN * GROUP_CHANNELS) continue;
      float* step = shared + (i / 8 * STEPS + i % 2) * (2 * GROUP_ROWS);
      const int row = i % 8 / 2, column = (o / 8 * 2 + o % 2) * 8 + o % 8 / 2 * 2;
      const float re = h[n].re, im = CONJUGATE == WEIGHT ? -h[n].im : h[n].im;
      const float values[2][2] = {{re, im}, {-im, re}};
#pragma unroll
      for (int part = 0; part < 2; ++part)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const Parts parts = parts_of(values[part][c]);
          float* to = step + place_in_group(row + 4 * part, column + c);
          to[0] = bits_as_float(parts.high);
          to[GROUP_ROWS] = bits_as_float(parts.low);
        }
    }
  }
  written_for_groups();
  __syncthreads();

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, t = lane % 4, own = warp % 4 * 16 + lane / 4;
  const index_t stride = shares * GROUPS * 64, begin = (share * GROUPS + warp / 4) * 64;
  x = after_previous(x) + mode * samples * IN + 2 * t;
  Two<float>* const mine = (Two<float>*)(shared + PIECES * STEPS * 2 * GROUP_ROWS) + warp * (AHEAD * 64) + lane;
  // Of a row that is not there, the last one is taken; the other row of a thread is `beside` further on.
  const Complex<float>* from;
  int beside;
  const auto turn_to = [&](index_t first) {
    const index_t b = first + own, end = samples - 1;
    from = x + (b < end ? b : end) * IN;
    beside = b + 8 <= end ? 8 * IN : b < end ? (int)(end - b) * IN : 0;
  };
  const auto fetch = [&](int round, int slot) {
    const Complex<float>* piece = from + (round * AHEAD + slot) * 8;
    copy_past(mine + slot * 64, (const Two<float>*)piece);
    copy_past(mine + slot * 64 + 32, (const Two<float>*)(piece + beside));
    end_of_group();
  };
  turn_to(begin);
#pragma unroll
  for (int slot = 0; slot < AHEAD; ++slot) fetch(0, slot);
  for (index_t first = begin; first < samples; first += stride) {
    float sum[32];
#pragma unroll
    for (int q = 0; q < 32; ++q) sum[q] = 0;
#pragma unroll(ROUNDS <= 2 ? ROUNDS : 1)
    for (int round = 0; round < ROUNDS; ++round) {
      if (round + 1 == ROUNDS) turn_to(first + stride);
#pragma unroll
      for (int slot = 0; slot < AHEAD; ++slot) {
        landed<AHEAD - 1>();
        __syncwarp();  // what has been copied is read now, and read before it is copied over
        uint32 high[STEPS][4], low[STEPS][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Two<float> v = mine[slot * 64 + half * 32];
          const float values[STEPS][2] = {{v.first.re, v.first.im}, {v.second.re, v.second.im}};
#pragma unroll
          for (int s = 0; s < STEPS; ++s)
#pragma unroll
            for (int part = 0; part < 2; ++part) {
              const Parts parts = parts_of(values[s][part]);
              high[s][2 * part + half] = parts.high;
              low[s][2 * part + half] = parts.low;
            }
        }
        __syncwarp();
        fetch(round + 1 < ROUNDS ? round + 1 : 0, slot);
        const float* even = shared + (round * AHEAD + slot) * (STEPS * 2 * GROUP_ROWS);
        const float* odd = even + 2 * GROUP_ROWS;
        float some[32];
        group_begins();
        group_multiply<false>(some, low[0], even);
        group_multiply<true>(some, low[1], odd);
        group_multiply<true>(some, high[0], even + GROUP_ROWS);
        group_multiply<true>(some, high[1], odd + GROUP_ROWS);
        group_multiply<true>(some, high[0], even);
        group_multiply<true>(some, high[1], odd);
        group_ends();
#pragma unroll
        for (int q = 0; q < 32; ++q) sum[q] += some[q];
      }
    }
    const float factor = bin_factor<float>(a, mode);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const index_t b = first + own + 8 * half;
      if (b >= samples) continue;
      Complex<float>* to = y + (mode * samples + b) * out + o0 + 2 * t;
#pragma unroll
      for (int p = 0; p < GROUP_CHANNELS / 8; ++p) {
        const float* s = sum + 8 * p + 2 * half;
        *(Two<float>*)(to + 8 * p) = {{s[0] * factor, s[1] * factor}, {s[4] * factor, s[5] * factor}};
      }
    }
  }
}
