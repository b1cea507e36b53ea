// Convolution of real images by overlap-save tiles whose neighbouring columns are one complex number, so that a block
// holds twice as large a tile: forward, product and inverse in one kernel.
//
//   pair_spectra   kernels -> spectra            pair_filter    images -> results, a kernel for each channel
//   pair_forward   images -> spectra             pair_inverse   spectra, mixed over channels -> results
//
// Transforms are those of conv_tiles.cu, in place and in the order of reversed digits. First the columns, of which two are
// one complex column; then rows k and H - k tell the two apart by their symmetry, and lie in the places of both, even
// cells in one and odd ones in the other. Rows 0 and H / 2, which are real, are the parts of one complex row, which one
// warp multiplies.
//
// The tile is a ring of cells: cell i of it is cell i - before of the image beyond the tile's own beginning.
#include "conv_tiles.cuh"

// Two neighbouring cells as one number.
template <typename V, int BEYOND, bool WORDS, int JUMP>
struct PairReader {
  using T = typename Parts<V>::Real;
  const V* image;
  index_t row, height, width, cells[2];
  T fill;

  SOPS_DEVICE PairReader(const V* x, const TileArguments& a, index_t r, index_t c)
      : image(x), row(r), height((index_t)a.size[0]), width((index_t)a.size[1]), fill((T)a.fill[0]) {
    cells[0] = cell_at<BEYOND>(c, width);
    cells[1] = WORDS ? 0 : cell_at<BEYOND>(c + 1, width);
  }
  SOPS_DEVICE Complex<T> operator()(int q) const {
    const index_t cell = cell_at<BEYOND>(row + q * JUMP, height);
    const V* at = image + (long long)cell * width;
    if constexpr (WORDS) {
      if (cell < 0 || cells[0] < 0) return {fill, fill};
      const Complex<V> both = *(const Complex<V>*)(at + cells[0]);
      return {to_number(both.re), to_number(both.im)};
    } else {
      return {cell < 0 || cells[0] < 0 ? fill : to_number(at[cells[0]]),
              cell < 0 || cells[1] < 0 ? fill : to_number(at[cells[1]])};
    }
  }
};

// Writes results r + q JUMP of columns c and c + 1 of a tile, of which the first `rows` and `columns` are its own.
template <typename V, bool WORDS, int JUMP, typename F>
struct PairWriter {
  using T = typename Parts<V>::Real;
  V* at;
  index_t width;
  int left;
  bool first, second;
  const F& finish;

  SOPS_DEVICE PairWriter(V* out, const TileArguments& a, const F& f, int rows, int columns, int r, int c)
      : at(out + r * (index_t)a.out[1] + c), width((index_t)a.out[1]), left(rows - r), first(c < columns),
        second(c + 1 < columns), finish(f) {}
  SOPS_DEVICE void operator()(int q, Complex<T> value) const {
    if (q * JUMP >= left) return;
    V* to = at + (index_t)(q * JUMP) * width;
    if constexpr (WORDS) {
      if (first) *(Complex<V>*)to = Complex<V>{Storage<V>::from(finish(value.re)), Storage<V>::from(finish(value.im))};
    } else {
      if (first) to[0] = Storage<V>::from(finish(value.re));
      if (second) to[1] = Storage<V>::from(finish(value.im));
    }
  }
};

// LOW, SOME: complex columns from which on, and how many, are not zero.
template <typename T, int THREADS, int LOW, int SOME, typename ColumnRs, typename RowRs>
struct PairTile {
  static constexpr int H = ColumnRs::size, W = RowRs::size, HALF = W / 2, PITCH = HALF | 1, LINES = H / 2;
  static constexpr int JUMP = Level<ColumnRs, 0>::PARTS;
  static constexpr int RA = ColumnRs::of(0), RB = ColumnRs::of(1), R0 = RowRs::of(0), R1 = RowRs::of(1);
  static_assert(ColumnRs::count == 2 && RowRs::count == 2 && RB % 2 == 0 && R1 % 2 == 0, "lines of two, even radix last");
  Complex<T>* at;
  const Complex<T>*__restrict__ columns, *__restrict__ rows;  // twiddle factors

  template <int COUNT, typename F>
  SOPS_DEVICE static void share(F&& f) {
#pragma unroll 1
    for (int w = threadIdx.x; w < COUNT; w += THREADS) f(w);
  }

  // The places of wavenumbers k and H - k of line r of LINES; of line 0, of 0 and H / 2.
  SOPS_DEVICE static void places(int r, int& place, int& other) {
    const int line = RA % 2 == 0 ? r : r < RB / 2 ? r : r + RB / 2;
    int a = line / RB, b = line % RB;
    if (RA % 2 == 0 && a == 0 && b >= RB / 2) {
      a = RA / 2;
      b -= RB / 2;
    }
    place = a * RB + b;
    other = r == 0 ? RB / 2 : a == 0 ? RB - b : (RA - a) * RB + RB - 1 - b;
  }

  // f(v, j, c) on R numbers of column c, butterfly j of pass P.
  template <int P, int FIRST, int COUNT, bool READ, bool WRITE, typename F>
  SOPS_DEVICE void down(F&& f) const {
    using L = Level<ColumnRs, P>;
    share<H / L::R * COUNT>([&](int w) {
      const int c = FIRST + w % COUNT, b = w / COUNT, j = b % L::PARTS;
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

  // From read(r, c)(q), element q of every JUMP-th down from (r, c), to the rows after their first pass.
  template <int SIGN, typename Read>
  SOPS_DEVICE void forwards(Read&& read) const {
    down<0, LOW, SOME, false, true>([&](auto& v, int j, int c) {
      auto from = read(j, c);
#pragma unroll
      for (int q = 0; q < RA; ++q) v[q] = from(q);
      forward<ColumnRs, 0, SIGN>(v, columns, j);
    });
    if constexpr (SOME < HALF) {
      share<H * (HALF - SOME)>([&](int w) {
        const int c = w % (HALF - SOME);
        at[w / (HALF - SOME) * PITCH + (c < LOW ? c : c + SOME)] = {0, 0};
      });
    }
    __syncthreads();
    down<1, LOW, SOME, true, true>([&](auto& v, int j, int) { forward<ColumnRs, 1, SIGN>(v, columns, j); });
    __syncthreads();
    halves([&](Complex<T>(&even)[R0], Complex<T>(&odd)[R0], bool ends, int j) {
#pragma unroll
      for (int q = 0; q < R0; ++q) {
        const Complex<T> z = even[q], m = odd[q];
        even[q] = ends ? Complex<T>{2 * z.re, 2 * m.re} : Complex<T>{z.re + m.re, z.im - m.im};
        odd[q] = ends ? Complex<T>{2 * z.im, 2 * m.im} : Complex<T>{z.im + m.im, m.re - z.re};
      }
      forward<RowRs, 0, SIGN>(even, rows, j);
      forward<RowRs, 0, SIGN>(odd, rows, j + 1);
    });
    __syncthreads();
  }

  // f(even, odd, whether of line 0, j): butterflies j and j + 1 of the first pass along a line, whose elements lie in the
  // places of even and odd cells.
  template <typename F>
  SOPS_DEVICE void halves(F&& f) const {
    share<LINES * R1 / 2>([&](int w) {
      const int r = w % LINES, column = w / LINES;
      int place, other;
      places(r, place, other);
      Complex<T> even[R0], odd[R0], *first = at + place * PITCH + column, *second = at + other * PITCH + column;
#pragma unroll
      for (int q = 0; q < R0; ++q) {
        even[q] = first[q * (R1 / 2)];
        odd[q] = second[q * (R1 / 2)];
      }
      f(even, odd, r == 0, 2 * column);
#pragma unroll
      for (int q = 0; q < R0; ++q) {
        first[q * (R1 / 2)] = even[q];
        second[q * (R1 / 2)] = odd[q];
      }
    });
  }

  // Element x of a line whose even and odd ones lie from these on.
  SOPS_DEVICE static Complex<T>& element(Complex<T>* even, Complex<T>* odd, int x) {
    return x % 2 == 0 ? even[x / 2] : odd[x / 2];
  }

  // f(v) for the R1 coefficients from place b R1 on of line r.
  template <bool READ, bool WRITE, typename F>
  SOPS_DEVICE void block(int r, int b, F&& f) const {
    int place, other;
    places(r, place, other);
    Complex<T> v[R1], *even = at + place * PITCH, *odd = at + other * PITCH;
    if constexpr (READ) {
#pragma unroll
      for (int q = 0; q < R1; ++q) v[q] = element(even, odd, b * R1 + q);
    }
    f(v);
    if constexpr (WRITE) {
#pragma unroll
      for (int q = 0; q < R1; ++q) element(even, odd, b * R1 + q) = v[q];
    }
  }
  // The last pass along all lines but the first: f(v, place) where a spectrum has number q at place + q (LINES - 1).
  template <bool READ, bool WRITE, typename F>
  SOPS_DEVICE void turn(F&& f) const {
    share<(LINES - 1) * R0>([&](int w) {
      const int r = w % (LINES - 1), b = w / (LINES - 1);
      block<READ, WRITE>(1 + r, b, [&](auto& v) { f(v, b * R1 * (LINES - 1) + r); });
    });
  }
  // The first line, which one warp transforms to the end and, with BACK, from there: f(a, b, k, n) for its coefficients k
  // and W - k, the lane's number n; before that, fetch(k, n) for all of them.
  static constexpr int EACH = HALF / 32 + 1;
  template <int SIGN, bool THERE, bool BACK, typename Fetch, typename F>
  SOPS_DEVICE void ends(Fetch&& fetch, F&& f) const {
    const int lane = threadIdx.x;
    if (lane >= 32) return;
#pragma unroll
    for (int n = 0; n < EACH; ++n)
      if (lane + 32 * n <= HALF) fetch(lane + 32 * n, n);
    if constexpr (THERE) {
      if (lane < R0) block<true, true>(0, lane, [&](auto& v) { forward<RowRs, 1, SIGN>(v, rows, 0); });
      __syncwarp();
    }
    Complex<T>*even = at, *odd = at + RB / 2 * PITCH;
#pragma unroll
    for (int n = 0; n < EACH; ++n) {
      const int k = lane + 32 * n;
      if (k <= HALF) f(element(even, odd, place_of(k)), element(even, odd, place_of(k == 0 ? 0 : W - k)), k, n);
    }
    if constexpr (BACK) {
      __syncwarp();
      if (lane < R0) block<true, true>(0, lane, [&](auto& v) { inverse<RowRs, 1>(v, rows, 0); });
    }
  }
  SOPS_DEVICE static int place_of(int k) { return k % R0 * R1 + k / R0; }

  // What the kernels do with spectra in memory: all lines but the first in the order of reversed digits, [W][LINES - 1], then
  // rows 0 and H / 2, the first W / 2 + 1 coefficients of each.
  static constexpr int ENDS = (LINES - 1) * W, MODES = ENDS + W + 2;
  template <int SIGN>
  SOPS_DEVICE void store(Complex<T>* spectrum, T scale) const {
    ends<SIGN, true, false>([](int, int) {}, [&](Complex<T> c, Complex<T> d, int k, int) {
      const Complex<T> sum = c + conj(d), rest = c - conj(d);
      spectrum[ENDS + k] = sum * ((T)0.5 * scale);
      spectrum[ENDS + HALF + 1 + k] = Complex<T>{rest.im, -rest.re} * ((T)0.5 * scale);
    });
    turn<true, false>([&](auto& v, int place) {
      forward<RowRs, 1, SIGN>(v, rows, 0);
#pragma unroll
      for (int q = 0; q < R1; ++q) spectrum[place + q * (LINES - 1)] = v[q] * scale;
    });
  }
  SOPS_DEVICE void load(const Complex<T>* spectrum) const {
    Complex<T> h[EACH][2];
    const auto fetch = [&](int k, int n) {
      h[n][0] = spectrum[ENDS + k];
      h[n][1] = spectrum[ENDS + HALF + 1 + k];
    };
    ends<1, false, true>(fetch, [&](Complex<T>& c, Complex<T>& d, int, int n) {
      const Complex<T> y = h[n][0], z = h[n][1], turned{-z.im, z.re};
      c = y + turned;
      d = conj(y - turned);
    });
    turn<false, true>([&](auto& v, int place) {
#pragma unroll
      for (int q = 0; q < R1; ++q) v[q] = spectrum[place + q * (LINES - 1)];
      inverse<RowRs, 1>(v, rows, 0);
    });
  }
  SOPS_DEVICE void multiply(const Complex<T>* spectrum) const {
    Complex<T> h[EACH][2];
    const auto fetch = [&](int k, int n) {
      h[n][0] = spectrum[ENDS + k];
      h[n][1] = spectrum[ENDS + HALF + 1 + k];
    };
    ends<-1, true, true>(fetch, [&](Complex<T>& c, Complex<T>& d, int, int n) {
      const Complex<T> y = (c + conj(d)) * (T)0.5 * h[n][0], z = (c - conj(d)) * (T)0.5 * h[n][1];
      c = y + z;
      d = conj(y - z);
    });
    turn<true, true>([&](auto& v, int place) {
      Complex<T> h[R1];
#pragma unroll
      for (int q = 0; q < R1; ++q) h[q] = spectrum[place + q * (LINES - 1)];
      forward<RowRs, 1, -1>(v, rows, 0);
#pragma unroll
      for (int q = 0; q < R1; ++q) v[q] = v[q] * h[q];
      inverse<RowRs, 1>(v, rows, 0);
    });
  }

  // From the rows after the first pass back to put(r, c)(q, value) for the first KEEP complex columns.
  template <int KEEP, typename Put>
  SOPS_DEVICE void backwards(Put&& put) const {
    __syncthreads();
    halves([&](Complex<T>(&even)[R0], Complex<T>(&odd)[R0], bool ends, int j) {
      inverse<RowRs, 0>(even, rows, j);
      inverse<RowRs, 0>(odd, rows, j + 1);
#pragma unroll
      for (int q = 0; q < R0; ++q) {
        const Complex<T> y = even[q], z = odd[q];
        even[q] = ends ? Complex<T>{y.re, z.re} : Complex<T>{y.re - z.im, y.im + z.re};
        odd[q] = ends ? Complex<T>{y.im, z.im} : Complex<T>{y.re + z.im, z.re - y.im};
      }
    });
    __syncthreads();
    down<1, 0, KEEP, true, true>([&](auto& v, int j, int) { inverse<ColumnRs, 1>(v, columns, j); });
    __syncthreads();
    down<0, 0, KEEP, true, false>([&](auto& v, int j, int c) {
      inverse<ColumnRs, 0>(v, columns, j);
      auto to = put(j, c);
#pragma unroll
      for (int q = 0; q < RA; ++q) to(q, v[q]);
    });
  }
};

// Where a tile lies in its image, and results of its own.
struct TilePlace {
  index_t row, column;
  int rows, columns;

  SOPS_DEVICE TilePlace(const TileArguments& a, unsigned number) {
    const unsigned down = (unsigned)a.tiles[0], across = number / down;
    row = (index_t)(number - across * down) * (index_t)a.step[0];
    column = (index_t)across * (index_t)a.step[1];
    const long long below = a.out[0] - row, beside = a.out[1] - column;
    rows = (int)(below < a.step[0] ? below : a.step[0]);
    columns = (int)(beside < a.step[1] ? beside : a.step[1]);
  }
  template <typename V, int BEYOND, bool WORDS, typename Block>
  SOPS_DEVICE void read(const Block& tile, const V* x, const TileArguments& a) const {
    tile.template forwards<-1>([&](int r, int c) {
      return PairReader<V, BEYOND, WORDS, Block::JUMP>(x, a, row + r - (index_t)a.before[0],
                                                       column + 2 * c - (index_t)a.before[1]);
    });
  }
  template <typename V, bool WORDS, int ACTIVATION, int KEEP, typename Block>
  SOPS_DEVICE void write(const Block& tile, V* out, const TileArguments& a, const FinishArguments& f, unsigned plane) const {
    using F = Finish<V, ACTIVATION>;
    const F finish(f, plane);
    V* own = out + plane * (a.out[0] * a.out[1]) + row * a.out[1] + column;
    tile.template backwards<KEEP>([&](int r, int c) {
      return PairWriter<V, WORDS, Block::JUMP, F>(own, a, finish, rows, columns, r, 2 * c);
    });
  }
};

// SHIFT: in which column kernels begin.
template <typename V, int SHIFT, int SOME, int THREADS, int BLOCKS, typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void pair_spectra(const V* __restrict__ taps,
                                                                Complex<typename Parts<V>::Real>* __restrict__ spectra,
                                                                const Complex<typename Parts<V>::Real>* __restrict__ columns,
                                                                const Complex<typename Parts<V>::Real>* __restrict__ rows,
                                                                TapsArguments a) {
  using T = typename Parts<V>::Real;
  using Block = PairTile<T, THREADS, 0, SOME, ColumnRs, RowRs>;
  const Block tile{shared_memory<T>(), columns, rows};
  taps += (long long)blockIdx.x * (a.taps[0] * a.taps[1]);
  tile.template forwards<1>([&](int r, int c) {
    return [&taps, &a, r, c](int q) {
      const int row = r + q * Block::JUMP, column = 2 * c - SHIFT;
      return Complex<T>{column < 0 ? (T)0 : tap_at(taps, a, row, column), tap_at(taps, a, row, column + 1)};
    };
  });
  tile.template store<1>(spectra + (long long)blockIdx.x * Block::MODES, (T)a.scale);
}

template <typename V, int BEYOND, bool WORDS, int ACTIVATION, int KEEP, int LOW, int SOME, int THREADS, int BLOCKS,
          typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void pair_filter(const V* __restrict__ x,
                                                               const Complex<typename Parts<V>::Real>* __restrict__ spectra,
                                                               V* __restrict__ out,
                                                               const Complex<typename Parts<V>::Real>* __restrict__ columns,
                                                               const Complex<typename Parts<V>::Real>* __restrict__ rows,
                                                               TileArguments a, FinishArguments f) {
  using T = typename Parts<V>::Real;
  using Block = PairTile<T, THREADS, LOW, SOME, ColumnRs, RowRs>;
  const Block tile{shared_memory<T>(), columns, rows};
  const unsigned each = (unsigned)(a.tiles[0] * a.tiles[1]), plane = blockIdx.x / each;
  const TilePlace place(a, blockIdx.x % each);
  place.template read<V, BEYOND, WORDS>(tile, x + image_of(a, plane) * (a.size[0] * a.size[1]), a);
  tile.multiply(spectra + kernel_of(a, plane) * Block::MODES);
  place.template write<V, WORDS, ACTIVATION, KEEP>(tile, out, a, f, plane);
}

// Spectra [sample][channel] of a slice of the samples, which are tiles of images.
template <typename V, int BEYOND, bool WORDS, int LOW, int SOME, int THREADS, int BLOCKS, typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void pair_forward(const V* __restrict__ x,
                                                                Complex<typename Parts<V>::Real>* __restrict__ spectra,
                                                                const Complex<typename Parts<V>::Real>* __restrict__ columns,
                                                                const Complex<typename Parts<V>::Real>* __restrict__ rows,
                                                                TileArguments a) {
  using T = typename Parts<V>::Real;
  using Block = PairTile<T, THREADS, LOW, SOME, ColumnRs, RowRs>;
  const Block tile{shared_memory<T>(), columns, rows};
  const unsigned each = (unsigned)(a.tiles[0] * a.tiles[1]), channels = (unsigned)a.channels;
  const unsigned sample = (unsigned)a.first + blockIdx.x / channels;
  const TilePlace place(a, sample % each);
  x += ((long long)(sample / each) * channels + blockIdx.x % channels) * (a.size[0] * a.size[1]);
  place.template read<V, BEYOND, WORDS>(tile, x, a);
  tile.template store<-1>(spectra + (long long)blockIdx.x * Block::MODES, (T)1);
}

// Mixed spectra [group][sample][output] of a slice of the samples.
template <typename V, bool WORDS, int ACTIVATION, int KEEP, int THREADS, int BLOCKS, typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void pair_inverse(
    const Complex<typename Parts<V>::Real>* __restrict__ spectra, V* __restrict__ out,
    const Complex<typename Parts<V>::Real>* __restrict__ columns,
    const Complex<typename Parts<V>::Real>* __restrict__ rows, TileArguments a, FinishArguments f) {
  using T = typename Parts<V>::Real;
  using Block = PairTile<T, THREADS, 0, RowRs::size / 2, ColumnRs, RowRs>;
  const Block tile{shared_memory<T>(), columns, rows};
  const unsigned each = (unsigned)(a.tiles[0] * a.tiles[1]), outputs = (unsigned)a.outputs;
  const unsigned samples = (unsigned)a.samples, rest = blockIdx.x / outputs, sample = (unsigned)a.first + rest % samples;
  const unsigned plane = sample / each * (unsigned)f.channels + rest / samples * outputs + blockIdx.x % outputs;
  tile.load(spectra + (long long)blockIdx.x * Block::MODES);
  TilePlace(a, sample % each).template write<V, WORDS, ACTIVATION, KEEP>(tile, out, a, f, plane);
}
