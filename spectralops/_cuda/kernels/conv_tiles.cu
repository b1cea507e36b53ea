// Convolution by overlap-save: tiles of an image that overlap by the kernel are transformed, multiplied by the kernel's
// spectrum and transformed back within one block.
//
//   tile_spectra   kernels -> spectra            tile_filter    images -> results, a kernel for each channel
//   tile_forward   images -> spectra             tile_inverse   spectra, mixed over channels -> results
//   line_spectra, line_filter                    the same for one axis
//   half_spectra, half_filter                    for one real line: neighbours as one complex number
//
// Forward transforms decimate in frequency, inverse ones in time, both in place: spectra stand in the order of reversed
// digits, kernels' and images' alike, so that nothing is ever put in order. Two real tiles of one image are the real and
// imaginary part of a complex one: a real kernel keeps them apart.
#include "conv.cuh"
#include "fft.cuh"

template <typename T>
SOPS_DEVICE Complex<T>* shared_memory() {
  extern __shared__ __align__(16) unsigned char sops_shared[];
  return (Complex<T>*)sops_shared;
}

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

// Where wavenumber k stands in the order of reversed digits, and which one stands there.
template <typename Rs>
SOPS_DEVICE int place_of(int k) {
  int place = 0;
#pragma unroll
  for (int p = 0; p < Rs::count; ++p) {
    const int rest = k / Rs::of(p);
    place += (k - rest * Rs::of(p)) * (Rs::size / Rs::before(p + 1));
    k = rest;
  }
  return place;
}
template <typename Rs>
SOPS_DEVICE int wavenumber_at(int place) {
  int k = 0;
#pragma unroll
  for (int p = Rs::count - 1; p >= 0; --p) {
    const int rest = place / Rs::of(p);
    k += (place - rest * Rs::of(p)) * Rs::before(p);
    place = rest;
  }
  return k;
}

// A real line of 2 N values as N complex ones z: coefficients k and N - k of the line, each twice, from those of z; the
// second one's conjugate. `w` is exp(-pi i k / N). `join` is the inverse, twice.
template <typename T>
SOPS_DEVICE void separate(Complex<T> a, Complex<T> b, Complex<T> w, Complex<T>& low, Complex<T>& high) {
  const Complex<T> y = conj(b), even = a + y, difference = (a - y) * w, odd{difference.im, -difference.re};
  low = even + odd;
  high = even - odd;
}
template <typename T>
SOPS_DEVICE void join(Complex<T> low, Complex<T> high, Complex<T> w, Complex<T>& a, Complex<T>& b) {
  const Complex<T> sum = low + high, rest = times_conj(low - high, w), turned{-rest.im, rest.re};
  a = sum + turned;
  b = conj(sum - turned);
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
  using T = typename Parts<V>::Real;
  static constexpr int TOGETHER = sizeof(V) == sizeof(T) ? 2 : 1;
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
  using T = typename Parts<V>::Real;
  static constexpr int TOGETHER = Places<V>::TOGETHER;
  const V* at[TOGETHER];
  index_t first[TOGETHER], size[TOGETHER];  // cell of the first element; no size where there is nothing but the fill
  long long width;
  V fill;

  SOPS_DEVICE Reader(const Places<V>& places, const V* image, const TileArguments& a, int r, int c)
      : width(a.size[1]), fill(Parts<V>::of(a.fill[0], a.fill[1])) {
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
    V v[TOGETHER];
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      const index_t place = first[u] + q * JUMP;
      if constexpr (BEYOND == FILL) {
        v[u] = place >= 0 && place < size[u] ? *at[u] : fill;
        at[u] += JUMP * step();
      } else {
        v[u] = size[u] == 0 ? fill : at[u][cell_at<BEYOND>(place, size[u]) * step()];
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
  using T = typename Parts<V>::Real;
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
  SOPS_DEVICE void one(int u, int q, V value) {
    const bool stored = q * JUMP < limit[u];
    if constexpr (STRIDED) {
      const index_t place = first[u] + q * JUMP;
      if (stored && place % stride == 0) at[u][place / stride * step()] = finish(value);
    } else {
      if (stored) *at[u] = finish(value);
      at[u] += JUMP * step();
    }
  }
};

// ---- the kernels' spectra

struct TapsArguments {
  long long taps[2], dilation[2];
  long long flip;  // whether kernels are reversed
  long long kernels;
  double scale;
};

// Element i of a kernel with its holes; taps lie in rows of a.taps[1].
template <typename V>
SOPS_DEVICE V tap_at(const V* taps, const TapsArguments& a, int r, int c) {
  const int down = (int)a.dilation[0], right = (int)a.dilation[1];
  int i = r / down, k = c / right;
  if (i * down != r || k * right != c || i >= (int)a.taps[0] || k >= (int)a.taps[1]) return Parts<V>::of(0, 0);
  if (a.flip) {
    i = (int)a.taps[0] - 1 - i;
    k = (int)a.taps[1] - 1 - k;
  }
  return taps[i * (int)a.taps[1] + k];
}
template <typename T>
SOPS_DEVICE Complex<T> as_complex(T x) {
  return {x, 0};
}
template <typename T>
SOPS_DEVICE Complex<T> as_complex(Complex<T> x) {
  return x;
}

// ---- two axes

// A tile in shared memory, rows apart by an odd number, on which all threads of the block work: first along the columns,
// lanes on neighbouring ones, as the images lie; then along the rows, lanes on different rows.
template <typename T, int THREADS, typename ColumnRs, typename RowRs>
struct Tile {
  static constexpr int ROWS = ColumnRs::size, COLUMNS = RowRs::size, POINTS = ROWS * COLUMNS, PITCH = COLUMNS | 1;
  static constexpr int LAST = RowRs::count - 1, FACTORS = factors<ColumnRs>();
  static constexpr int JUMP = Level<ColumnRs, 0>::PARTS;
  Complex<T>* at;
  const Complex<T>*columns, *rows;  // twiddle factors

  // The tile lies first in shared memory, then the twiddle factors, which are copied there.
  SOPS_DEVICE Tile(Complex<T>* memory, const Complex<T>* __restrict__ first, const Complex<T>* __restrict__ second)
      : at(memory), columns(memory + ROWS * PITCH), rows(memory + ROWS * PITCH + FACTORS) {
    Complex<T>* to = memory + ROWS * PITCH;
#pragma unroll 1
    for (int i = threadIdx.x; i < FACTORS; i += THREADS) to[i] = first[i];
#pragma unroll 1
    for (int i = threadIdx.x; i < factors<RowRs>(); i += THREADS) to[FACTORS + i] = second[i];
    __syncthreads();
  }

  template <int COUNT, typename F>
  SOPS_DEVICE static void share(F&& f) {
#pragma unroll 1
    for (int w = threadIdx.x; w < COUNT; w += THREADS) f(w);
  }

  // f(v, j, c) on R elements of column c: number j of PARTS butterflies of a block of pass P, for the first SOME columns,
  // or the first `some` of them.
  template <int P, int SOME, bool READ, bool WRITE, typename F>
  SOPS_DEVICE void down(F&& f, int some = SOME) const {
    using L = Level<ColumnRs, P>;
    share<ROWS / L::R * SOME>([&](int w) {
      const int c = w % SOME, b = w / SOME, j = b % L::PARTS;
      if (c >= some) return;
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
  // The same along rows; `place` is the number of the row plus ROWS times that of its first element.
  template <int P, bool READ, bool WRITE, typename F>
  SOPS_DEVICE void across(F&& f) const {
    using L = Level<RowRs, P>;
    share<COLUMNS / L::R * ROWS>([&](int w) {
      const int r = w % ROWS, b = w / ROWS, j = b % L::PARTS, first = b / L::PARTS * L::M + j;
      Complex<T> v[L::R], *here = at + r * PITCH + first;
      if constexpr (READ) {
#pragma unroll
        for (int q = 0; q < L::R; ++q) v[q] = here[q * L::PARTS];
      }
      f(v, j, first * ROWS + r);
      if constexpr (WRITE) {
#pragma unroll
        for (int q = 0; q < L::R; ++q) here[q * L::PARTS] = v[q];
      }
    });
  }

  // From read(r, c)(q), element q of every JUMP-th down from (r, c), to the spectrum but for the last pass along the rows.
  // Only the first `full` columns are not zero.
  template <int SIGN, bool ALL, typename Read>
  SOPS_DEVICE void forwards(int full, Read&& read) const {
    down<0, COLUMNS, false, true>([&](auto& v, int j, int c) {
      using L = Level<ColumnRs, 0>;
      auto from = read(j, c);
#pragma unroll
      for (int q = 0; q < L::R; ++q) v[q] = from(q);
      if (ALL || c < full) forward<ColumnRs, 0, SIGN>(v, columns, j);
    });
    repeat<ColumnRs::count - 1>([&](auto p) {
      constexpr int P = decltype(p)::value + 1;
      __syncthreads();
      down<P, COLUMNS, true, true>(
          [&](auto& v, int j, int) { forward<ColumnRs, P, SIGN>(v, columns, j); }, ALL ? COLUMNS : full);
    });
    repeat<LAST>([&](auto p) {
      constexpr int P = decltype(p)::value;
      __syncthreads();
      across<P, true, true>([&](auto& v, int j, int) { forward<RowRs, P, SIGN>(v, rows, j); });
    });
    __syncthreads();
  }

  // The last pass along the rows: f(v, place) for R coefficients, of which number q has the index place + q * ROWS.
  template <bool READ, bool WRITE, typename F>
  SOPS_DEVICE void turn(F&& f) const {
    across<LAST, READ, WRITE>([&](auto& v, int, int place) { f(v, place); });
  }

  // From the spectrum after the first pass along the rows to put(r, c)(q, value) for the first
  // KEEP columns.
  template <int KEEP, typename Put>
  SOPS_DEVICE void backwards(Put&& put) const {
    repeat<LAST>([&](auto p) {
      constexpr int P = LAST - 1 - decltype(p)::value;
      __syncthreads();
      across<P, true, true>([&](auto& v, int j, int) { inverse<RowRs, P>(v, rows, j); });
    });
    repeat<ColumnRs::count - 1>([&](auto p) {
      constexpr int P = ColumnRs::count - 1 - decltype(p)::value;
      __syncthreads();
      down<P, KEEP, true, true>([&](auto& v, int j, int) { inverse<ColumnRs, P>(v, columns, j); });
    });
    __syncthreads();
    down<0, KEEP, true, false>([&](auto& v, int j, int c) {
      using L = Level<ColumnRs, 0>;
      inverse<ColumnRs, 0>(v, columns, j);
      auto to = put(j, c);
#pragma unroll
      for (int q = 0; q < L::R; ++q) to(q, v[q]);
    });
  }
};

template <typename V, int THREADS, int BLOCKS, typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void tile_spectra(const V* __restrict__ taps,
                                                                Complex<typename Parts<V>::Real>* __restrict__ spectra,
                                                                const Complex<typename Parts<V>::Real>* __restrict__ columns,
                                                                const Complex<typename Parts<V>::Real>* __restrict__ rows,
                                                                TapsArguments a) {
  using T = typename Parts<V>::Real;
  using Block = Tile<T, THREADS, ColumnRs, RowRs>;
  const Block tile(shared_memory<T>(), columns, rows);
  taps += (long long)blockIdx.x * (a.taps[0] * a.taps[1]);
  spectra += (long long)blockIdx.x * Block::POINTS;
  const int full = (int)((a.taps[1] - 1) * a.dilation[1]) + 1;
  tile.template forwards<1, false>(full, [&](int r, int c) {
    return [&taps, &a, r, c](int q) { return as_complex(tap_at(taps, a, r + q * Block::JUMP, c)); };
  });
  tile.template turn<true, false>([&](auto& v, int place) {
    forward<RowRs, Block::LAST, 1>(v, tile.rows, 0);
    constexpr int R = Level<RowRs, Block::LAST>::R;
#pragma unroll
    for (int q = 0; q < R; ++q) spectra[place + q * Block::ROWS] = v[q] * (T)a.scale;
  });
}

template <typename V, int BEYOND, int ACTIVATION, bool STRIDED, int KEEP, int THREADS, int BLOCKS, typename ColumnRs,
          typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void tile_filter(const V* __restrict__ x,
                                                               const Complex<typename Parts<V>::Real>* __restrict__ spectra,
                                                               V* __restrict__ out,
                                                               const Complex<typename Parts<V>::Real>* __restrict__ columns,
                                                               const Complex<typename Parts<V>::Real>* __restrict__ rows,
                                                               TileArguments a, FinishArguments f) {
  using T = typename Parts<V>::Real;
  using Block = Tile<T, THREADS, ColumnRs, RowRs>;
  const Block tile(shared_memory<T>(), columns, rows);
  Places<V> places;
  const unsigned each = Places<V>::transforms(a), plane = blockIdx.x / each;
  places.set(a, blockIdx.x % each);
  x += image_of(a, plane) * (a.size[0] * a.size[1]);
  spectra += kernel_of(a, plane) * Block::POINTS;
  out += plane * (a.out[0] * a.out[1]);
  tile.template forwards<-1, true>(Block::COLUMNS, [&](int r, int c) { return Reader<V, BEYOND, 0, Block::JUMP>(places, x, a, r, c); });
  tile.template turn<true, true>([&](auto& v, int place) {
    constexpr int R = Level<RowRs, Block::LAST>::R;
    Complex<T> h[R];
#pragma unroll
    for (int q = 0; q < R; ++q) h[q] = spectra[place + q * Block::ROWS];
    forward<RowRs, Block::LAST, -1>(v, tile.rows, 0);
#pragma unroll
    for (int q = 0; q < R; ++q) v[q] = v[q] * h[q];
    inverse<RowRs, Block::LAST>(v, tile.rows, 0);
  });
  const Finish<V, ACTIVATION> finish(f, plane);
  tile.template backwards<KEEP>([&](int r, int c) {
    return Writer<V, STRIDED, 0, Block::JUMP, Finish<V, ACTIVATION>>(places, out, a, finish, r, c);
  });
}

// Spectra [sample][channel] of a slice of the samples.
template <typename V, int BEYOND, int THREADS, int BLOCKS, typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void tile_forward(const V* __restrict__ x,
                                                                Complex<typename Parts<V>::Real>* __restrict__ spectra,
                                                                const Complex<typename Parts<V>::Real>* __restrict__ columns,
                                                                const Complex<typename Parts<V>::Real>* __restrict__ rows,
                                                                TileArguments a) {
  using T = typename Parts<V>::Real;
  using Block = Tile<T, THREADS, ColumnRs, RowRs>;
  const Block tile(shared_memory<T>(), columns, rows);
  Places<V> places;
  const unsigned each = Places<V>::transforms(a), channels = (unsigned)a.channels;
  const unsigned sample = (unsigned)a.first + blockIdx.x / channels;
  places.set(a, sample % each);
  x += ((long long)(sample / each) * channels + blockIdx.x % channels) * (a.size[0] * a.size[1]);
  spectra += (long long)blockIdx.x * Block::POINTS;
  tile.template forwards<-1, true>(Block::COLUMNS, [&](int r, int c) { return Reader<V, BEYOND, 0, Block::JUMP>(places, x, a, r, c); });
  tile.template turn<true, false>([&](auto& v, int place) {
    forward<RowRs, Block::LAST, -1>(v, tile.rows, 0);
    constexpr int R = Level<RowRs, Block::LAST>::R;
#pragma unroll
    for (int q = 0; q < R; ++q) spectra[place + q * Block::ROWS] = v[q];
  });
}

// Mixed spectra [group][sample][output] of a slice of the samples.
template <typename V, int ACTIVATION, bool STRIDED, int KEEP, int THREADS, int BLOCKS, typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void tile_inverse(
    const Complex<typename Parts<V>::Real>* __restrict__ spectra, V* __restrict__ out,
    const Complex<typename Parts<V>::Real>* __restrict__ columns,
    const Complex<typename Parts<V>::Real>* __restrict__ rows, TileArguments a, FinishArguments f) {
  using T = typename Parts<V>::Real;
  using Block = Tile<T, THREADS, ColumnRs, RowRs>;
  const Block tile(shared_memory<T>(), columns, rows);
  Places<V> places;
  const unsigned each = Places<V>::transforms(a), outputs = (unsigned)a.outputs, samples = (unsigned)a.samples;
  const unsigned rest = blockIdx.x / outputs, group = rest / samples;
  const unsigned sample = (unsigned)a.first + rest % samples;
  const unsigned plane = sample / each * (unsigned)f.channels + group * outputs + blockIdx.x % outputs;
  places.set(a, sample % each);
  spectra += (long long)blockIdx.x * Block::POINTS;
  out += plane * (a.out[0] * a.out[1]);
  tile.template turn<false, true>([&](auto& v, int place) {
    constexpr int R = Level<RowRs, Block::LAST>::R;
#pragma unroll
    for (int q = 0; q < R; ++q) v[q] = spectra[place + q * Block::ROWS];
    inverse<RowRs, Block::LAST>(v, tile.rows, 0);
  });
  const Finish<V, ACTIVATION> finish(f, plane);
  tile.template backwards<KEEP>([&](int r, int c) {
    return Writer<V, STRIDED, 0, Block::JUMP, Finish<V, ACTIVATION>>(places, out, a, finish, r, c);
  });
}

// ---- one axis

// LINES lines in shared memory, a gap after every 16 numbers, which keeps the passes off each other's banks.
template <typename T, int LINES, int THREADS, typename Rs>
struct Lines {
  static constexpr int N = Rs::size, PITCH = N + N / 16 + 1, LAST = Rs::count - 1, JUMP = Level<Rs, 0>::PARTS;
  static_assert(Rs::count > 1, "one pass has nothing to exchange");
  Complex<T>* at;
  const Complex<T>* __restrict__ table;

  SOPS_DEVICE static int spread(int i) { return i + i / 16; }
  template <int R, typename F>
  SOPS_DEVICE static void share(F&& f) {
#pragma unroll 1
    for (int w = threadIdx.x; w < N / R * LINES; w += THREADS) f(w / (N / R), w % (N / R));
  }

  template <int SIGN, typename Read>
  SOPS_DEVICE void forwards(Read&& read) const {
    using L = Level<Rs, 0>;
    share<L::R>([&](int line, int j) {
      Complex<T> v[L::R], *to = at + line * PITCH;
      auto from = read(line, j);
#pragma unroll
      for (int q = 0; q < L::R; ++q) v[q] = from(q);
      forward<Rs, 0, SIGN>(v, table, j);
#pragma unroll
      for (int q = 0; q < L::R; ++q) to[spread(j + q * L::PARTS)] = v[q];
    });
    repeat<LAST - 1>([&](auto p) {
      constexpr int P = decltype(p)::value + 1;
      middle<P>([&](auto& v, int j) { forward<Rs, P, SIGN>(v, table, j); });
    });
    __syncthreads();
  }

  template <int P, typename F>
  SOPS_DEVICE void middle(F&& f) const {
    using L = Level<Rs, P>;
    __syncthreads();
    share<L::R>([&](int line, int b) {
      const int j = b % L::PARTS, first = b / L::PARTS * L::M + j;
      Complex<T> v[L::R], *here = at + line * PITCH;
#pragma unroll
      for (int q = 0; q < L::R; ++q) v[q] = here[spread(first + q * L::PARTS)];
      f(v, j);
#pragma unroll
      for (int q = 0; q < L::R; ++q) here[spread(first + q * L::PARTS)] = v[q];
    });
  }

  // The last pass: f(v, line, place) for R coefficients, of which number q has the index place + q * APART in a spectrum.
  static constexpr int APART = N / Level<Rs, LAST>::R;
  template <bool WRITE, typename F>
  SOPS_DEVICE void turn(F&& f) const {
    using L = Level<Rs, LAST>;
    share<L::R>([&](int line, int b) {
      Complex<T> v[L::R], *here = at + line * PITCH;
#pragma unroll
      for (int q = 0; q < L::R; ++q) v[q] = here[spread(b * L::R + q)];
      f(v, line, b);
      if constexpr (WRITE) {
#pragma unroll
        for (int q = 0; q < L::R; ++q) here[spread(b * L::R + q)] = v[q];
      }
    });
  }

  // f(line, k, a, b, place of k, place of N - k) for a pair of coefficients, k = 0 ... N / 2: those of a real line of 2 N
  // values packed in N complex ones.
  template <typename F>
  SOPS_DEVICE void pairs(F&& f) const {
    constexpr int R = Level<Rs, LAST>::R, HALF = R / 2 + 1;
#pragma unroll 1
    for (int w = threadIdx.x; w < APART * HALF * LINES; w += THREADS) {
      // The last digit of a place is the highest one of the wavenumber.
      const int line = w / (APART * HALF), place = w / HALF % APART * R + w % HALF, k = wavenumber_at<Rs>(place);
      if (2 * k > N) continue;
      const int other = place_of<Rs>(k == 0 ? 0 : N - k);
      Complex<T>* here = at + line * PITCH;
      f(line, k, here[spread(place)], here[spread(other)], place, other);
    }
  }

  template <typename Put>
  SOPS_DEVICE void backwards(Put&& put) const {
    repeat<LAST - 1>([&](auto p) {
      constexpr int P = LAST - 1 - decltype(p)::value;
      middle<P>([&](auto& v, int j) { inverse<Rs, P>(v, table, j); });
    });
    __syncthreads();
    using L = Level<Rs, 0>;
    share<L::R>([&](int line, int j) {
      Complex<T> v[L::R], *from = at + line * PITCH;
#pragma unroll
      for (int q = 0; q < L::R; ++q) v[q] = from[spread(j + q * L::PARTS)];
      inverse<Rs, 0>(v, table, j);
      auto to = put(line, j);
#pragma unroll
      for (int q = 0; q < L::R; ++q) to(q, v[q]);
    });
  }
};

template <typename V, int LINES, int THREADS, typename Rs>
__global__ __launch_bounds__(THREADS) void line_spectra(const V* __restrict__ taps,
                                                        Complex<typename Parts<V>::Real>* __restrict__ spectra,
                                                        const Complex<typename Parts<V>::Real>* __restrict__ table,
                                                        TapsArguments a) {
  using T = typename Parts<V>::Real;
  using Block = Lines<T, LINES, THREADS, Rs>;
  const Block lines{shared_memory<T>(), table};
  const long long first = (long long)blockIdx.x * LINES;
  lines.template forwards<1>([&](int line, int j) {
    return [&taps, &a, first, line, j](int q) {
      if (first + line >= a.kernels) return Complex<T>{0, 0};
      return as_complex(tap_at(taps + (first + line) * a.taps[1], a, 0, j + q * Block::JUMP));
    };
  });
  lines.template turn<false>([&](auto& v, int line, int place) {
    forward<Rs, Block::LAST, 1>(v, table, 0);
    if (first + line >= a.kernels) return;
    constexpr int R = Level<Rs, Block::LAST>::R;
    Complex<T>* to = spectra + (first + line) * Block::N + place;
#pragma unroll
    for (int q = 0; q < R; ++q) to[q * Block::APART] = v[q] * (T)a.scale;
  });
}

template <typename V, int BEYOND, int LINES, int THREADS, typename Rs>
__global__ __launch_bounds__(THREADS) void line_filter(const V* __restrict__ x,
                                                       const Complex<typename Parts<V>::Real>* __restrict__ spectra,
                                                       V* __restrict__ out,
                                                       const Complex<typename Parts<V>::Real>* __restrict__ table,
                                                       TileArguments a) {
  using T = typename Parts<V>::Real;
  using Block = Lines<T, LINES, THREADS, Rs>;
  struct Own {
    Places<V> places;
    const V* x;
    const Complex<T>* spectrum;
    V* out;
  };
  __shared__ Own own[LINES];
  const Block lines{shared_memory<T>(), table};
  for (int line = threadIdx.x; line < LINES; line += THREADS) {
    const unsigned number = blockIdx.x * LINES + line, each = Places<V>::transforms(a), plane = number / each;
    const bool valid = plane < (unsigned)a.planes;
    own[line].places.set(a, number % each);
    own[line].x = x + (valid ? image_of(a, plane) : 0) * a.size[1];
    own[line].spectrum = spectra + (valid ? kernel_of(a, plane) : 0) * Block::N;
    own[line].out = out + (valid ? plane : 0) * a.out[1];
    if (!valid) {
#pragma unroll
      for (int u = 0; u < Places<V>::TOGETHER; ++u) own[line].places.there[u] = false;
    }
  }
  __syncthreads();
  lines.template forwards<-1>([&](int line, int j) {
    return Reader<V, BEYOND, 1, Block::JUMP>(own[line].places, own[line].x, a, 0, j);
  });
  lines.template turn<true>([&](auto& v, int line, int place) {
    constexpr int R = Level<Rs, Block::LAST>::R;
    const Complex<T>* from = own[line].spectrum + place;
    Complex<T> h[R];
#pragma unroll
    for (int q = 0; q < R; ++q) h[q] = from[q * Block::APART];
    forward<Rs, Block::LAST, -1>(v, table, 0);
#pragma unroll
    for (int q = 0; q < R; ++q) v[q] = v[q] * h[q];
    inverse<Rs, Block::LAST>(v, table, 0);
  });
  const Finish<V, NOTHING> same;
  lines.backwards([&](int line, int j) {
    return Writer<V, false, 1, Block::JUMP, Finish<V, NOTHING>>(own[line].places, own[line].out, a, same, 0, j);
  });
}

// Blocks that share a multiprocessor's registers without spilling.
template <typename T>
SOPS_CONSTEXPR int blocks_of(int threads) {
  return larger(1, 3072 / (int)sizeof(T) / threads);
}

// Reads and writes neighbours of a line as one complex number.
template <typename T, int BEYOND, int JUMP>
struct PairReader {
  const T* at;
  index_t first, size;
  T fill;

  SOPS_DEVICE PairReader(const T* image, const TileArguments& a, int j)
      : at(image), first(2 * j - (index_t)a.before[1]), size((index_t)a.size[1]), fill((T)a.fill[0]) {}
  SOPS_DEVICE T one(index_t place) const {
    const index_t cell = cell_at<BEYOND>(place, size);
    return cell < 0 ? fill : at[cell];
  }
  SOPS_DEVICE Complex<T> operator()(int q) const {
    const index_t place = first + 2 * q * JUMP;
    return {one(place), one(place + 1)};
  }
};
template <typename T, int JUMP>
struct PairWriter {
  T* at;
  index_t limit;

  SOPS_DEVICE PairWriter(T* out, const TileArguments& a, bool there, int j)
      : at(out + 2 * j), limit(there ? (index_t)a.out[1] - 2 * j : 0) {}
  SOPS_DEVICE void operator()(int q, Complex<T> value) const {
    const int place = 2 * q * JUMP;
    if (place < limit) at[place] = value.re;
    if (place + 1 < limit) at[place + 1] = value.im;
  }
};

// Spectra of N + 1 coefficients, those of wavenumbers below N in the order of reversed digits. `roots` are
// exp(-pi i k / N), k = 0 ... N / 2.
template <typename T, int LINES, int THREADS, typename Rs>
__global__ __launch_bounds__(THREADS, blocks_of<T>(THREADS)) void half_spectra(const T* __restrict__ taps, Complex<T>* __restrict__ spectra,
                                                        const Complex<T>* __restrict__ table,
                                                        const Complex<T>* __restrict__ roots, TapsArguments a) {
  using Block = Lines<T, LINES, THREADS, Rs>;
  constexpr int N = Block::N;
  const Block lines{shared_memory<T>(), table};
  const long long first = (long long)blockIdx.x * LINES;
  lines.template forwards<-1>([&](int line, int j) {
    return [&taps, &a, first, line, j](int q) {
      if (first + line >= a.kernels) return Complex<T>{0, 0};
      const T* own = taps + (first + line) * a.taps[1];
      const int c = 2 * (j + q * Block::JUMP);
      return Complex<T>{tap_at(own, a, 0, c), tap_at(own, a, 0, c + 1)};
    };
  });
  lines.template turn<true>([&](auto& v, int, int) { forward<Rs, Block::LAST, -1>(v, table, 0); });
  __syncthreads();
  lines.pairs([&](int line, int k, Complex<T>& a1, Complex<T>& a2, int place, int other) {
    if (first + line >= a.kernels) return;
    Complex<T>* to = spectra + (first + line) * (N + 1);
    Complex<T> low, high;
    separate(a1, a2, roots[k], low, high);
    // Of correlation: conjugates of the forward transform.
    to[place] = conj(low) * (T)(0.5 * a.scale);
    to[k == 0 ? N : other] = high * (T)(0.5 * a.scale);
  });
}

template <typename T, int BEYOND, int LINES, int THREADS, typename Rs>
__global__ __launch_bounds__(THREADS, blocks_of<T>(THREADS)) void half_filter(const T* __restrict__ x, const Complex<T>* __restrict__ spectra,
                                                       T* __restrict__ out, const Complex<T>* __restrict__ table,
                                                       const Complex<T>* __restrict__ roots, TileArguments a) {
  using Block = Lines<T, LINES, THREADS, Rs>;
  constexpr int N = Block::N;
  const Block lines{shared_memory<T>(), table};
  const unsigned first = blockIdx.x * LINES, planes = (unsigned)a.planes;
  auto plane = [&](int line) { return first + line < planes ? first + line : planes - 1; };
  lines.template forwards<-1>([&](int line, int j) {
    return PairReader<T, BEYOND, Block::JUMP>(x + image_of(a, plane(line)) * a.size[1], a, j);
  });
  lines.template turn<true>([&](auto& v, int, int) { forward<Rs, Block::LAST, -1>(v, table, 0); });
  __syncthreads();
  lines.pairs([&](int line, int k, Complex<T>& a1, Complex<T>& a2, int place, int other) {
    const Complex<T>* h = spectra + kernel_of(a, plane(line)) * (N + 1);
    Complex<T> low, high, second;
    separate(a1, a2, roots[k], low, high);
    join(low * h[place], times_conj(high, h[k == 0 ? N : other]), roots[k], a1, second);
    if (place != other) a2 = second;
  });
  __syncthreads();
  lines.template turn<true>([&](auto& v, int, int) { inverse<Rs, Block::LAST>(v, table, 0); });
  lines.backwards([&](int line, int j) {
    const long long own = plane(line);
    return PairWriter<T, Block::JUMP>(out + own * a.out[1], a, first + line < planes, j);
  });
}
