// Convolution of real images by overlap-save tiles whose neighbouring columns are one complex number, so that a block
// holds twice as large a tile: forward, product and inverse in one kernel.
//
//   pair_spectra   kernels -> spectra            pair_filter    images -> results, a kernel for each channel
//   pair_forward   images -> spectra             pair_inverse   spectra, mixed over channels -> results
//
// The tile is a ring of cells: cell i of it is cell i - before of the image beyond the tile's own beginning.
#include "conv_pairs.cuh"
#include "order.cuh"

// Images of HEIGHT rows of WIDTH cells. ONCE: the one tile begins in the first cell, and nothing but zeros lies beyond.
template <int HEIGHT, int WIDTH, bool ONCE>
struct Cells {
  static constexpr int height = HEIGHT, width = WIDTH;
  static constexpr bool once = ONCE;
  // Pairs of columns of a ring of so many that are not zero.
  SOPS_CONSTEXPR static int pairs(int ring) { return ONCE ? (WIDTH + 1) / 2 : ring / 2; }
};
// Results of HEIGHT rows of WIDTH values, of which a tile has ROWS and COLUMNS.
template <int HEIGHT, int WIDTH, int ROWS, int COLUMNS>
struct Results {
  static constexpr int height = HEIGHT, width = WIDTH, rows = ROWS, columns = COLUMNS, pairs = (COLUMNS + 1) / 2;
  static constexpr bool whole = ROWS == HEIGHT && COLUMNS == WIDTH;
};

// Two neighbouring cells as one number, every JUMP-th row from (r, c) on, r < JUMP of a tile that begins in the first cell.
template <typename V, int BEYOND, bool WORDS, typename Image, int JUMP>
struct PairReader {
  using T = typename ValueOf<V>::Real;
  static constexpr int HEIGHT = Image::height, WIDTH = Image::width;
  const V* at;
  int row, cells[2];
  T fill;

  SOPS_DEVICE PairReader(const V* x, const TileArguments& a, int r, int c) : row(r), fill((T)a.fill[0]) {
    cells[0] = (int)cell_at<BEYOND>(c, WIDTH);
    cells[1] = WORDS ? 0 : (int)cell_at<BEYOND>(c + 1, WIDTH);
    at = BEYOND == FILL ? x + ((index_t)r * WIDTH + c) : x;
  }
  SOPS_DEVICE Complex<T> operator()(int q) const {
    if constexpr (BEYOND == FILL) {
      const bool there =
          Image::once ? q * JUMP < HEIGHT && ((q + 1) * JUMP <= HEIGHT || row + q * JUMP < HEIGHT)
                      : (unsigned)(row + q * JUMP) < (unsigned)HEIGHT;
      return both(at + (index_t)(q * JUMP) * WIDTH, 0, 1, there);
    } else {
      const index_t cell = cell_at<BEYOND>(row + q * JUMP, HEIGHT);
      return both(at + cell * WIDTH, cells[0], cells[1], cell >= 0);
    }
  }

 private:
  SOPS_DEVICE Complex<T> both(const V* from, int first, int second, bool there) const {
    if constexpr (WORDS) {
      if (!there || cells[0] < 0) return {fill, fill};
      const Complex<V> pair = load_past((const Complex<V>*)(from + first));
      return {to_number(pair.re), to_number(pair.im)};
    } else {
      return {there && cells[0] >= 0 ? to_number(from[first]) : fill,
              there && cells[1] >= 0 ? to_number(from[second]) : fill};
    }
  }
};

// Writes results r + q JUMP of columns c and c + 1 of a tile, of which the first `rows` and `columns` are its own.
template <typename V, bool WORDS, typename Result, int JUMP, typename F>
struct PairWriter {
  using T = typename ValueOf<V>::Real;
  V* at;
  int left;
  bool second;
  const F& finish;

  SOPS_DEVICE PairWriter(V* out, const F& f, int rows, int columns, int r, int c)
      : at(out + ((index_t)r * Result::width + c)), left(Result::whole || c < columns ? rows - r : 0),
        second(c + 1 < columns), finish(f) {}
  SOPS_DEVICE void operator()(int q, Complex<T> value) const {
    if (Result::whole && q * JUMP >= Result::height) return;
    if (!(Result::whole && (q + 1) * JUMP <= Result::height) && q * JUMP >= left) return;
    V* to = at + (index_t)(q * JUMP) * Result::width;
    if constexpr (WORDS) {
      *(Complex<V>*)to = Complex<V>{Storage<V>::from(finish(value.re)), Storage<V>::from(finish(value.im))};
    } else {
      to[0] = Storage<V>::from(finish(value.re));
      if (second) to[1] = Storage<V>::from(finish(value.im));
    }
  }
};

// Where a tile lies in its image.
struct TilePlace {
  int row, column;

  SOPS_DEVICE TilePlace(const TileArguments& a, unsigned number) {
    const unsigned down = (unsigned)a.tiles[0], across = number / down;
    row = (int)((number - across * down) * (unsigned)a.step[0]);
    column = (int)(across * (unsigned)a.step[1]);
  }
  template <typename V, int BEYOND, bool WORDS, typename Image, typename Block>
  SOPS_DEVICE void read(const Block& tile, const V* x, const TileArguments& a) const {
    const int top = row - (int)a.before[0], left = column - (int)a.before[1];
    tile.template forwards<-1>([&](int r, int c) {
      return PairReader<V, BEYOND, WORDS, Image, Block::JUMP>(x, a, top + r, left + 2 * c);
    });
  }
  template <typename V, bool WORDS, typename Result, int ACTIVATION, typename Block>
  SOPS_DEVICE void write(const Block& tile, V* out, const FinishArguments& f, unsigned plane) const {
    using F = Finish<V, ACTIVATION>;
    const F finish(f, plane);
    const int below = Result::height - row, beside = Result::width - column;
    const int rows = below < Result::rows ? below : Result::rows, columns = beside < Result::columns ? beside : Result::columns;
    V* own = out + (long long)plane * Result::height * Result::width + ((index_t)row * Result::width + column);
    tile.template backwards<Result::pairs>([&](int r, int c) {
      return PairWriter<V, WORDS, Result, Block::JUMP, F>(own, finish, rows, columns, r, 2 * c);
    });
  }
};

// Element i of a ring of N, one round off at most.
template <int N>
SOPS_DEVICE int around(int i) {
  return i < 0 ? i + N : i < N ? i : i - N;
}

// Kernels of HEIGHT x WIDTH taps lie round the ring, from row and column `before` of theirs on. Each takes PARTS blocks.
template <typename V, int HEIGHT, int WIDTH, int LOW, int SOME, int PARTS, int THREADS, int BLOCKS, typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void pair_spectra(const V* __restrict__ taps,
                                                                Complex<typename ValueOf<V>::Real>* __restrict__ spectra,
                                                                const Complex<typename ValueOf<V>::Real>* __restrict__ columns,
                                                                const Complex<typename ValueOf<V>::Real>* __restrict__ rows,
                                                                TapsArguments a) {
  using T = typename ValueOf<V>::Real;
  using Block = PairTile<T, THREADS, LOW, SOME, ColumnRs, RowRs, PARTS>;
  let_next_begin();
  const Block tile{shared_memory<T>(), columns, rows, (int)(blockIdx.x % PARTS)};
  taps += (long long)(blockIdx.x / PARTS) * (HEIGHT * WIDTH);
  const bool flip = a.flip != 0;
  const auto tap = [taps, flip](int r, int c) {
    const int place = r * WIDTH + c;
    return r < HEIGHT && c < WIDTH ? to_number(taps[flip ? HEIGHT * WIDTH - 1 - place : place]) : (T)0;
  };
  tile.template forwards<1>([&](int r, int c) {
    const int row = r + (int)a.before[0], column = around<Block::W>(2 * c + (int)a.before[1]);
    return [&tap, row, column](int q) {
      const int i = around<Block::H>(row + q * Block::JUMP);
      return Complex<T>{tap(i, column), tap(i, around<Block::W>(column + 1))};
    };
  });
  tile.template store<1>(spectra + (long long)(blockIdx.x / PARTS) * Block::MODES, (T)a.scale);
}

template <typename V, int BEYOND, bool WORDS, typename Image, typename Result, int ACTIVATION, int THREADS, int BLOCKS,
          typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void pair_filter(const V* __restrict__ x,
                                                               const Complex<typename ValueOf<V>::Real>* __restrict__ spectra,
                                                               V* __restrict__ out,
                                                               const Complex<typename ValueOf<V>::Real>* __restrict__ columns,
                                                               const Complex<typename ValueOf<V>::Real>* __restrict__ rows,
                                                               TileArguments a, FinishArguments f) {
  using T = typename ValueOf<V>::Real;
  using Block = PairTile<T, THREADS, 0, Image::pairs(RowRs::size), ColumnRs, RowRs>;
  const Block tile{shared_memory<T>(), columns, rows};
  const unsigned each = (unsigned)(a.tiles[0] * a.tiles[1]), plane = blockIdx.x / each;
  const TilePlace place(a, blockIdx.x % each);
  place.template read<V, BEYOND, WORDS, Image>(tile, x + image_of(a, plane) * Image::height * Image::width, a);
  tile.multiply(after_previous(spectra) + kernel_of(a, plane) * Block::MODES);
  place.template write<V, WORDS, Result, ACTIVATION>(tile, out, f, plane);
}

// Spectra [sample][channel] of a slice of the samples, which are tiles of images.
template <typename V, int BEYOND, bool WORDS, typename Image, int THREADS, int BLOCKS, typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void pair_forward(const V* __restrict__ x,
                                                                Complex<typename ValueOf<V>::Real>* __restrict__ spectra,
                                                                const Complex<typename ValueOf<V>::Real>* __restrict__ columns,
                                                                const Complex<typename ValueOf<V>::Real>* __restrict__ rows,
                                                                TileArguments a) {
  using T = typename ValueOf<V>::Real;
  using Block = PairTile<T, THREADS, 0, Image::pairs(RowRs::size), ColumnRs, RowRs>;
  const Block tile{shared_memory<T>(), columns, rows};
  const unsigned each = (unsigned)(a.tiles[0] * a.tiles[1]), channels = (unsigned)a.channels;
  const unsigned sample = (unsigned)a.first + blockIdx.x / channels;
  x += ((long long)(sample / each) * channels + blockIdx.x % channels) * Image::height * Image::width;
  TilePlace(a, sample % each).template read<V, BEYOND, WORDS, Image>(tile, x, a);
  tile.template store<-1>(spectra + (long long)blockIdx.x * Block::MODES, (T)1);
}

// Mixed spectra [group][sample][output] of a slice of the samples.
template <typename V, bool WORDS, typename Result, int ACTIVATION, int THREADS, int BLOCKS, typename ColumnRs, typename RowRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void pair_inverse(
    const Complex<typename ValueOf<V>::Real>* __restrict__ spectra, V* __restrict__ out,
    const Complex<typename ValueOf<V>::Real>* __restrict__ columns,
    const Complex<typename ValueOf<V>::Real>* __restrict__ rows, TileArguments a, FinishArguments f) {
  using T = typename ValueOf<V>::Real;
  using Block = PairTile<T, THREADS, 0, RowRs::size / 2, ColumnRs, RowRs>;
  const Block tile{shared_memory<T>(), columns, rows};
  const unsigned each = (unsigned)(a.tiles[0] * a.tiles[1]), outputs = (unsigned)a.outputs;
  const unsigned samples = (unsigned)a.samples, rest = blockIdx.x / outputs, sample = (unsigned)a.first + rest % samples;
  const unsigned plane = sample / each * (unsigned)f.channels + rest / samples * outputs + blockIdx.x % outputs;
  tile.load(spectra + (long long)blockIdx.x * Block::MODES);
  TilePlace(a, sample % each).template write<V, WORDS, Result, ACTIVATION>(tile, out, f, plane);
}
