// Linear maps of the channels of each point of fields (n, channel, point), in single precision.
//
//   channel_map    z = w x + y, a = f(z + b), f(z) = z (1 + erf(z / sqrt 2)) / 2
//   gelu_backward  z' = a' df/dz(z + b)
//   outer          sums of g[n][o][p] x[n][i][p], and of g[n][o][p], over some of the samples and points
//   sum_parts      the sum of all of these
//
// V: what is read at a time, one number or four neighbours. b is the sum of two arrays, each of which may be null.
#include "copies.cuh"
#include "parts.cuh"

struct alignas(16) Four {
  float numbers[4];
};
struct One {
  float numbers[1];
};

SOPS_DEVICE float bias_of(const float* bias, const float* more, index_t channel) {
  return (bias ? bias[channel] : 0.0f) + (more ? more[channel] : 0.0f);
}
SOPS_DEVICE float below(float z) { return 0.5f * (1.0f + erff(z * 0.70710678118654752f)); }

struct MapArguments {
  long long rows, columns;     // channels of the result and of x
  long long points, tiles;     // of a sample
  long long row, column;       // distances in w
};

// A block maps 8 NT WN points of one sample to 16 MT WM channels, as WM by WN warps. DEPTH channels of x at a time come
// through shared memory, STAGES of them on their way at once. `onto` (y) may be null, or `z`, or `out`; z and f are for
// ACTIVE alone.
template <typename V, int MT, int NT, int WM, int WN, bool ACTIVE>
__global__ __launch_bounds__(32 * WM * WN) void channel_map(const float* __restrict__ w, const float* __restrict__ x,
                                                            const float* onto, const float* __restrict__ bias,
                                                            const float* __restrict__ more, float* z, float* out,
                                                            MapArguments a) {
  constexpr int M = 16 * MT * WM, N = 8 * NT * WN, THREADS = 32 * WM * WN, DEPTH = 16, STAGES = 3;
  constexpr int W_PITCH = DEPTH + 4, X_PITCH = N + 8, STAGE = M * W_PITCH + DEPTH * X_PITCH;
  constexpr int WIDE = sizeof(V) / sizeof(float), PIECES = N / WIDE;
  static_assert(M * DEPTH % THREADS == 0 && DEPTH * PIECES % THREADS == 0, "threads copy as much as one another");
  extern __shared__ __align__(16) unsigned char sops_shared[];
  float* shared = (float*)sops_shared;  // [STAGES], each w [M][W_PITCH] and x [DEPTH][X_PITCH]
  const index_t rows = (index_t)a.rows, columns = (index_t)a.columns, points = (index_t)a.points;
  const index_t sample = (index_t)blockIdx.x / (index_t)a.tiles, p0 = (index_t)blockIdx.x % (index_t)a.tiles * N;
  const index_t r0 = (index_t)blockIdx.y * M;
  const bool turned = a.row == 1;
  x += sample * columns * points + p0;
  const auto fetch = [&](index_t begin) {
    if (begin < columns) {
      float* stage = shared + begin / DEPTH % STAGES * STAGE;
#pragma unroll
      for (int m = 0; m < M * DEPTH / THREADS; ++m) {
        const int place = m * THREADS + threadIdx.x;
        const int row = turned ? place % M : place / DEPTH, k = turned ? place / M : place % DEPTH;
        const bool there = r0 + row < rows && begin + k < columns;
        const index_t from = (r0 + row) * (index_t)a.row + (begin + k) * (index_t)a.column;
        copy_ahead(stage + row * W_PITCH + k, w + (there ? from : 0), there);
      }
#pragma unroll
      for (int m = 0; m < DEPTH * PIECES / THREADS; ++m) {
        const int place = m * THREADS + threadIdx.x, k = place / PIECES, point = place % PIECES * WIDE;
        const bool there = begin + k < columns && p0 + point < points;
        const float* from = x + (there ? (begin + k) * points + point : 0);
        copy_ahead((V*)(stage + M * W_PITCH + k * X_PITCH + point), (const V*)from, there);
      }
    }
    end_of_group();
  };

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
  const int row = warp % WM * (16 * MT), column = warp / WM * (8 * NT);
  // Two neighbouring points at a time, where rows begin so.
  struct alignas(WIDE == 4 ? 8 : 4) Pair {
    float numbers[WIDE == 4 ? 2 : 1];
  };
  constexpr int EACH = sizeof(Pair) / sizeof(float);
  // f(place in the result, channel, numbers of the sum) for all that this thread computes.
  float sum[MT][NT][4];
  const auto for_pairs = [&](auto&& f) {
#pragma unroll
    for (int i = 0; i < MT; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const index_t r = r0 + row + group + 16 * i + 8 * half, first = (sample * rows + r) * points + p0;
#pragma unroll
        for (int j = 0; j < NT; ++j)
#pragma unroll
          for (int q = 0; q < 2; q += EACH) {
            const int point = column + 8 * j + 2 * t + q;
            if (r < rows && p0 + point < points) f(first + point, r, sum[i][j] + 2 * half + q);
          }
      }
  };
#pragma unroll
  for (int i = 0; i < MT; ++i)
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int q = 0; q < 4; ++q) sum[i][j][q] = 0;
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) fetch(s * DEPTH);
  // All at once, before anything is stored in their memory.
  if (onto) {
    for_pairs([&](index_t at, index_t, float* numbers) {
      const Pair y = *(const Pair*)(onto + at);
#pragma unroll
      for (int e = 0; e < EACH; ++e) numbers[e] = y.numbers[e];
    });
  }
  for (index_t begin = 0; begin < columns; begin += DEPTH) {
    landed<STAGES - 2>();
    __syncthreads();
    fetch(begin + (STAGES - 1) * DEPTH);
    const float* stage = shared + begin / DEPTH % STAGES * STAGE;
#pragma unroll
    for (int k = 0; k < DEPTH; k += 8) {
      Parts u[MT][4];
#pragma unroll
      for (int i = 0; i < MT; ++i)
#pragma unroll
        for (int q = 0; q < 4; ++q)
          u[i][q] = parts_of(stage[(row + group + 16 * i + q % 2 * 8) * W_PITCH + k + t + q / 2 * 4]);
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        Parts v[2];
#pragma unroll
        for (int q = 0; q < 2; ++q)
          v[q] = parts_of(stage[M * W_PITCH + (k + t + q * 4) * X_PITCH + column + group + 8 * j]);
#pragma unroll
        for (int i = 0; i < MT; ++i) multiply_add(sum[i][j], u[i], v);
      }
    }
  }

  for_pairs([&](index_t at, index_t channel, const float* numbers) {
    const float b = bias_of(bias, more, channel);
    Pair value, result;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
      value.numbers[e] = numbers[e];
      const float with = numbers[e] + b;
      result.numbers[e] = ACTIVE ? with * below(with) : with;
    }
    if constexpr (ACTIVE) *(Pair*)(z + at) = value;
    *(Pair*)(out + at) = result;
  });
}

struct GeluArguments {
  long long pieces;    // of a channel's points
  long long channels;
  long long blocks;    // of a channel
};

template <typename V>
__global__ __launch_bounds__(256) void gelu_backward(const V* __restrict__ g, const V* __restrict__ z,
                                                     const float* __restrict__ bias, const float* __restrict__ more,
                                                     V* __restrict__ out, GeluArguments a) {
  constexpr int AT_ONCE = 4;
  const index_t row = (index_t)blockIdx.x / (index_t)a.blocks, pieces = (index_t)a.pieces;
  const index_t first = (index_t)blockIdx.x % (index_t)a.blocks * (256 * AT_ONCE) + threadIdx.x;
  const float b = bias_of(bias, more, row % (index_t)a.channels);
#pragma unroll
  for (int n = 0; n < AT_ONCE; ++n) {
    const index_t piece = first + n * 256;
    if (piece >= pieces) return;
    V v = z[row * pieces + piece], w = g[row * pieces + piece];
#pragma unroll
    for (int k = 0; k < (int)(sizeof(V) / sizeof(float)); ++k) {
      const float x = v.numbers[k] + b;
      w.numbers[k] *= below(x) + x * 0.39894228040143268f * expf(-0.5f * x * x);
    }
    out[row * pieces + piece] = w;
  }
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

// The sums of `count` parts. A warp adds up every eighth part of 32 numbers; those from `again` on are written twice.
__global__ __launch_bounds__(256) void sum_parts(const float* __restrict__ parts, float* __restrict__ sums,
                                                 long long count, long long size, long long again) {
  __shared__ float shared[8][32];
  const int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  const index_t place = (index_t)blockIdx.x * 32 + lane;
  float sum = 0;
  if (place < (index_t)size) {
#pragma unroll 8
    for (index_t k = group; k < (index_t)count; k += 8) sum += parts[k * (index_t)size + place];
  }
  shared[group][lane] = sum;
  __syncthreads();
  if (group > 0 || place >= (index_t)size) return;
  for (int k = 1; k < 8; ++k) sum += shared[k][lane];
  sums[place] = sum;
  if (place >= (index_t)again) sums[place + (index_t)(size - again)] = sum;
}
