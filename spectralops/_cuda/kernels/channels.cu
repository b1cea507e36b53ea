// Linear maps of the channels of each point of fields (n, channel, point), but for the matrix products themselves.
//
//   gelu           a = f(z + b), f(z) = z (1 + erf(z / sqrt 2)) / 2
//   gelu_backward  z' = a' df/dz(z + b)
//   outer          sums of g[n][o][p] x[n][i][p], and of g[n][o][p], over some of the samples and points
//
// V: what is read at a time, one number or four neighbours.
#include "copies.cuh"
#include "parts.cuh"

struct alignas(16) Four {
  float numbers[4];
};
struct One {
  float numbers[1];
};

struct GeluArguments {
  long long pieces;    // of a channel's points
  long long channels;
  long long blocks;    // of a channel
};

constexpr int GELU_THREADS = 256, GELU_PIECES = 4;

// f(place, channel) for every piece that this thread is for.
template <typename F>
SOPS_DEVICE void for_pieces(const GeluArguments& a, F&& f) {
  const index_t row = (index_t)blockIdx.x / (index_t)a.blocks, pieces = (index_t)a.pieces;
  const index_t first = (index_t)blockIdx.x % (index_t)a.blocks * (GELU_THREADS * GELU_PIECES) + threadIdx.x;
#pragma unroll
  for (int k = 0; k < GELU_PIECES; ++k) {
    const index_t piece = first + k * GELU_THREADS;
    if (piece < pieces) f(row * pieces + piece, row % (index_t)a.channels);
  }
}

template <typename V>
__global__ __launch_bounds__(GELU_THREADS) void gelu(const V* __restrict__ z, const float* __restrict__ bias,
                                                     V* __restrict__ out, GeluArguments a) {
  for_pieces(a, [&](index_t at, index_t channel) {
    V v = z[at];
    for (float& x : v.numbers) {
      x += bias[channel];
      x = 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    }
    out[at] = v;
  });
}

// `out` may be `g`.
template <typename V>
__global__ __launch_bounds__(GELU_THREADS) void gelu_backward(const V* g, const V* __restrict__ z,
                                                              const float* __restrict__ bias, V* out, GeluArguments a) {
  for_pieces(a, [&](index_t at, index_t channel) {
    V v = z[at], w = g[at];
    for (int k = 0; k < (int)(sizeof(V) / sizeof(float)); ++k) {
      const float x = v.numbers[k] + bias[channel];
      const float below = 0.5f * (1.0f + erff(x * 0.70710678118654752f));
      w.numbers[k] *= below + x * 0.39894228040143268f * expf(-0.5f * x * x);
    }
    out[at] = w;
  });
}

struct OuterArguments {
  long long rows, columns;  // channels of g and of x
  long long points;
  long long chunks;         // of all points of all samples, and of those of one sample
  long long sample_chunks;
};

// A block sums over its share of the chunks, of DEPTH neighbouring points of one sample each, for 16 MT WM channels of g
// and 8 NT WN of x, as WM by WN warps; STAGES chunks are on their way through shared memory at once. What lies beyond the
// last channel repeats it, and nothing comes of it. Each block along x writes its sums for itself: products first, row by
// row, then the sums of g.
template <typename V, int MT, int NT, int WM, int WN>
__global__ __launch_bounds__(32 * WM * WN) void outer(const float* __restrict__ g, const float* __restrict__ x,
                                                      float* __restrict__ sums, OuterArguments a) {
  constexpr int DEPTH = 32, PITCH = DEPTH + 4, STAGES = 3, WIDE = sizeof(V) / sizeof(float), PIECES = DEPTH / WIDE;
  constexpr int M = 16 * MT * WM, N = 8 * NT * WN, ROWS = M + N, THREADS = 32 * WM * WN;
  constexpr int AT_ONCE = THREADS > PIECES ? THREADS / PIECES : 1, MINE = (ROWS + AT_ONCE - 1) / AT_ONCE;
  extern __shared__ __align__(16) unsigned char sops_shared[];
  float* shared = (float*)sops_shared;  // [STAGES][ROWS][PITCH]
  const index_t rows = (index_t)a.rows, columns = (index_t)a.columns, points = (index_t)a.points;
  const index_t column_tiles = (columns + N - 1) / N;
  const index_t r0 = (index_t)blockIdx.y / column_tiles * M, c0 = (index_t)blockIdx.y % column_tiles * N;
  const index_t chunks = (index_t)a.chunks, per_sample = (index_t)a.sample_chunks;
  const index_t share = (chunks + gridDim.x - 1) / gridDim.x, begin = (index_t)blockIdx.x * share;
  const index_t end = begin + share < chunks ? begin + share : chunks;

  const int piece = threadIdx.x % PIECES * WIDE, first = threadIdx.x / PIECES;
  const auto fetch = [&](index_t chunk) {
    if (chunk < end) {
      const index_t sample = chunk / per_sample, point = (chunk - sample * per_sample) * DEPTH + piece;
      const bool there = point < points;
      float* stage = shared + (chunk - begin) % STAGES * (ROWS * PITCH) + piece;
#pragma unroll
      for (int m = 0; m < MINE; ++m) {
        const int row = first + m * AT_ONCE;
        if (ROWS % AT_ONCE == 0 || row < ROWS) {
          const bool of_rows = row < M;
          const index_t count = of_rows ? rows : columns, wanted = of_rows ? r0 + row : c0 + row - M;
          const index_t channel = sample * count + (wanted < count ? wanted : count - 1);
          const float* from = (of_rows ? g : x) + (there ? channel * points + point : 0);
          copy_ahead((V*)(stage + row * PITCH), (const V*)from, there);
        }
      }
    }
    end_of_group();
  };

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
  const int row = warp % WM * (16 * MT) + group, column = warp / WM * (8 * NT) + group;
  // Neighbouring threads share a channel of g, of which each adds up a part of every chunk.
  constexpr int SHARERS = THREADS / M;
  static_assert(THREADS % M == 0 && DEPTH / 4 % SHARERS == 0, "all channels of g are summed");
  const int summed = threadIdx.x / SHARERS, part = threadIdx.x % SHARERS;
  float sum[MT][NT][4], total = 0;
#pragma unroll
  for (int i = 0; i < MT; ++i)
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int q = 0; q < 4; ++q) sum[i][j][q] = 0;
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) fetch(begin + s);
  for (index_t chunk = begin; chunk < end; ++chunk) {
    landed<STAGES - 2>();
    __syncthreads();
    fetch(chunk + STAGES - 1);
    const float* stage = shared + (chunk - begin) % STAGES * (ROWS * PITCH);
#pragma unroll
    for (int k = 0; k < DEPTH; k += 8) {
      Parts u[MT][4];
#pragma unroll
      for (int i = 0; i < MT; ++i)
#pragma unroll
        for (int q = 0; q < 4; ++q) u[i][q] = parts_of(stage[(row + 16 * i + q % 2 * 8) * PITCH + k + t + q / 2 * 4]);
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        Parts v[2];
#pragma unroll
        for (int q = 0; q < 2; ++q) v[q] = parts_of(stage[(M + column + 8 * j) * PITCH + k + t + q * 4]);
#pragma unroll
        for (int i = 0; i < MT; ++i) multiply_add(sum[i][j], u[i], v);
      }
    }
    const Four* mine = (const Four*)(stage + summed * PITCH) + part;
#pragma unroll
    for (int k = 0; k < DEPTH / 4 / SHARERS; ++k)
      for (float value : mine[k * SHARERS].numbers) total += value;
  }

  sums += (index_t)blockIdx.x * (rows * (columns + 1));
#pragma unroll
  for (int i = 0; i < MT; ++i)
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const index_t r = r0 + row + 16 * i + q / 2 * 8, c = c0 + (column - group) + 8 * j + 2 * t + q % 2;
        if (r < rows && c < columns) sums[r * columns + c] = sum[i][j][q];
      }
#pragma unroll
  for (int apart = 1; apart < SHARERS; apart *= 2) total += __shfl_xor_sync(~0u, total, apart);
  if (part == 0 && c0 == 0 && r0 + summed < rows) sums[rows * columns + r0 + summed] = total;
}
