// What the kernels over tiles and lines share: passes of a transform in place, where tiles lie in images, and taps.
#pragma once
#include "conv.cuh"
#include "fft.cuh"

// Pass P of the transform of blocks of M points: PARTS butterflies of R points each.
template <typename Rs, int P>
struct Level {
  static constexpr int R = Rs::of(P), M = Rs::size / Rs::before(P), PARTS = M / R;
  // Where exp(-2 pi i j k / M) begins in the table, k = 1 ... R - 1 outside, j = 0 ... PARTS - 1 inside.
  SOPS_CONSTEXPR static int table() {
    int begin = 0;
    for (int p = 0; p < P; ++p) begin += (Rs::of(p) - 1) * (Rs::size / Rs::before(p + 1));
    return begin;
  }
};

// Twiddle factors of all passes.
template <typename Rs>
SOPS_CONSTEXPR int factors() {
  return Level<Rs, Rs::count - 1>::table();
}

template <typename Rs, int P, int SIGN, typename T>
SOPS_DEVICE void forward(Complex<T> (&v)[Rs::of(P)], const Complex<T>* __restrict__ table, int j) {
  using L = Level<Rs, P>;
  Dft<L::R, SIGN>::run(v);
  if constexpr (L::PARTS > 1) {
#pragma unroll
    for (int k = 1; k < L::R; ++k) {
      const Complex<T> w = table[L::table() + (k - 1) * L::PARTS + j];
      v[k] = SIGN < 0 ? v[k] * w : times_conj(v[k], w);
    }
  }
}
template <typename Rs, int P, typename T>
SOPS_DEVICE void inverse(Complex<T> (&v)[Rs::of(P)], const Complex<T>* __restrict__ table, int j) {
  using L = Level<Rs, P>;
  if constexpr (L::PARTS > 1) {
#pragma unroll
    for (int k = 1; k < L::R; ++k) v[k] = times_conj(v[k], table[L::table() + (k - 1) * L::PARTS + j]);
  }
  Dft<L::R, 1>::run(v);
}

// f(0), ... f(COUNT - 1) by the THREADS threads of a block.
template <int THREADS, int COUNT, typename F>
SOPS_DEVICE void share(F&& f) {
#pragma unroll 1
  for (int w = threadIdx.x; w < COUNT; w += THREADS) f(w);
}

// f(v, j, c) on R numbers of column c, of which butterfly j of a block of pass P consists, for columns c = which(0), ...
// which(COUNT - 1) of the tile at `at`, whose rows lie PITCH apart.
template <typename Rs, int P, int THREADS, int PITCH, int COUNT, bool READ, bool WRITE, typename T, typename Which, typename F>
SOPS_DEVICE void down_columns(Complex<T>* at, Which&& which, F&& f) {
  using L = Level<Rs, P>;
  share<THREADS, Rs::size / L::R * COUNT>([&](int w) {
    const int c = which(w % COUNT), b = w / COUNT, j = b % L::PARTS;
    Complex<T> v[L::R], *here = at + (b / L::PARTS * L::M + j) * PITCH + c;
    if constexpr (READ) {
#pragma unroll
      for (int q = 0; q < L::R; ++q) v[q] = here[q * L::PARTS * PITCH];
    }
    f(v, j, c);
    if constexpr (WRITE) {
#pragma unroll
      for (int q = 0; q < L::R; ++q) here[q * L::PARTS * PITCH] = v[q];
    }
  });
}

// ---- where tiles lie

struct TileArguments {
  long long size[2], before[2];  // of an image; the first tile begins so many cells before it
  long long step[2], tiles[2];   // results of a tile, and tiles, along rows and columns
  long long stride[2], out[2];   // every stride-th result is stored, so many of them
  long long planes;              // of the results
  long long image_divisor, image_count, kernel_divisor, kernel_count;  // plane b takes image (b / divisor) % count
  long long channels, outputs;   // of an image in x, and of a group in the result, for spectra that are mixed
  long long first, samples;      // samples are pairs of tiles of an image, of which a slice begins at first
  double fill[2];                // the value beyond the ends
};

SOPS_DEVICE long long image_of(const TileArguments& a, unsigned plane) {
  return plane / (unsigned)a.image_divisor % (unsigned)a.image_count;
}
SOPS_DEVICE long long kernel_of(const TileArguments& a, unsigned plane) {
  return plane / (unsigned)a.kernel_divisor % (unsigned)a.kernel_count;
}

// What one transform takes of an image: a tile, or two where they are real.
template <typename V>
struct Places {
  using T = typename ValueOf<V>::Real;
  static constexpr int TOGETHER = ValueOf<V>::COMPLEX ? 1 : 2;
  index_t row[TOGETHER], column[TOGETHER];
  bool there[TOGETHER];

  // Transforms of an image.
  SOPS_DEVICE static unsigned transforms(const TileArguments& a) {
    return ((unsigned)(a.tiles[0] * a.tiles[1]) + TOGETHER - 1) / TOGETHER;
  }
  SOPS_DEVICE void set(const TileArguments& a, unsigned transform) {
    const unsigned rows = (unsigned)a.tiles[0], tiles = rows * (unsigned)a.tiles[1];
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      const unsigned tile = transform * TOGETHER + u, across = tile / rows;
      there[u] = tile < tiles;
      row[u] = (index_t)(tile - across * rows) * (index_t)a.step[0];
      column[u] = (index_t)across * (index_t)a.step[1];
    }
  }
};

// Reads along one axis of the tiles, 0 or 1, from element (r, c) on, every JUMP-th element in turn.
template <typename V, int BEYOND, int AXIS, int JUMP>
struct Reader {
  using T = typename ValueOf<V>::Real;
  using Number = typename ValueOf<V>::Number;
  static constexpr int TOGETHER = Places<V>::TOGETHER;
  const V* at[TOGETHER];
  index_t first[TOGETHER], size[TOGETHER];  // cell of the first element; no size where there is nothing but the fill
  long long width;
  Number fill;

  SOPS_DEVICE Reader(const Places<V>& places, const V* image, const TileArguments& a, int r, int c)
      : width(a.size[1]), fill(ValueOf<V>::of(a.fill[0], a.fill[1])) {
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      const index_t row = places.row[u] + r - (index_t)a.before[0], column = places.column[u] + c - (index_t)a.before[1];
      const index_t cell = cell_at<BEYOND>(AXIS == 0 ? column : row, (index_t)a.size[1 - AXIS]);
      const bool any = places.there[u] && cell >= 0;
      size[u] = any ? (index_t)a.size[AXIS] : 0;
      first[u] = AXIS == 0 ? row : column;
      at[u] = image + (any ? cell * (AXIS == 0 ? 1 : width) : 0) + (BEYOND == FILL ? first[u] * step() : 0);
    }
  }
  // Element number q, asked for in order.
  SOPS_DEVICE Complex<T> operator()(int q) {
    Number v[TOGETHER];
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      const index_t place = first[u] + q * JUMP;
      if constexpr (BEYOND == FILL) {
        v[u] = place >= 0 && place < size[u] ? to_number(*at[u]) : fill;
        at[u] += JUMP * step();
      } else {
        v[u] = size[u] == 0 ? fill : to_number(at[u][cell_at<BEYOND>(place, size[u]) * step()]);
      }
    }
    if constexpr (TOGETHER == 2) return {v[0], v[1]};
    else return v[0];
  }

 private:
  SOPS_DEVICE long long step() const { return AXIS == 0 ? width : 1; }
};

// Writes the tiles' results along one axis in the same way.
template <typename V, bool STRIDED, int AXIS, int JUMP, typename F>
struct Writer {
  using T = typename ValueOf<V>::Real;
  static constexpr int TOGETHER = Places<V>::TOGETHER;
  V* at[TOGETHER];
  index_t first[TOGETHER], limit[TOGETHER];  // result of the first element; those from limit on are not stored
  long long width;
  index_t stride;
  const F& finish;

  SOPS_DEVICE Writer(const Places<V>& places, V* out, const TileArguments& a, const F& f, int r, int c)
      : width(a.out[1]), stride(STRIDED ? (index_t)a.stride[AXIS] : 1), finish(f) {
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      index_t across = AXIS == 0 ? places.column[u] + c : places.row[u] + r;
      bool stored = places.there[u] && (AXIS == 0 ? c : r) < (int)a.step[1 - AXIS];
      if constexpr (STRIDED) {
        const index_t other = (index_t)a.stride[1 - AXIS];
        stored = stored && across % other == 0;
        across /= other;
      }
      stored = stored && across < (index_t)a.out[1 - AXIS];
      const index_t begin = AXIS == 0 ? places.row[u] : places.column[u], own = (index_t)a.step[AXIS];
      const index_t rest = stride * ((index_t)a.out[AXIS] - 1) + 1 - begin;
      const int element = AXIS == 0 ? r : c;
      first[u] = begin + element;
      limit[u] = stored ? (rest < own ? rest : own) - element : 0;
      at[u] = out + (stored ? across * (AXIS == 0 ? 1 : width) : 0) + (STRIDED ? 0 : first[u] * step());
    }
  }
  SOPS_DEVICE void operator()(int q, Complex<T> value) {
    if constexpr (TOGETHER == 2) {
      one(0, q, value.re);
      one(1, q, value.im);
    } else {
      one(0, q, value);
    }
  }

 private:
  SOPS_DEVICE long long step() const { return AXIS == 0 ? width : 1; }
  SOPS_DEVICE void one(int u, int q, typename ValueOf<V>::Number value) {
    const bool stored = q * JUMP < limit[u];
    if constexpr (STRIDED) {
      const index_t place = first[u] + q * JUMP;
      if (stored && place % stride == 0) at[u][place / stride * step()] = Storage<V>::from(finish(value));
    } else {
      if (stored) *at[u] = Storage<V>::from(finish(value));
      at[u] += JUMP * step();
    }
  }
};

// ---- the kernels' spectra

struct TapsArguments {
  long long taps[2], dilation[2];
  long long before[2];  // element of the kernel in the first cell
  long long flip;  // whether kernels are reversed
  long long kernels;
  double scale;
};

// Element i of a kernel with its holes; taps lie in rows of a.taps[1].
template <typename V>
SOPS_DEVICE typename ValueOf<V>::Number tap_at(const V* taps, const TapsArguments& a, int r, int c) {
  const int down = (int)a.dilation[0], right = (int)a.dilation[1];
  int i = r / down, k = c / right;
  if (i * down != r || k * right != c || i >= (int)a.taps[0] || k >= (int)a.taps[1]) return ValueOf<V>::of(0, 0);
  if (a.flip) {
    i = (int)a.taps[0] - 1 - i;
    k = (int)a.taps[1] - 1 - k;
  }
  return to_number(taps[i * (int)a.taps[1] + k]);
}
template <typename T>
SOPS_DEVICE Complex<T> as_complex(T x) {
  return {x, 0};
}
template <typename T>
SOPS_DEVICE Complex<T> as_complex(Complex<T> x) {
  return x;
}
