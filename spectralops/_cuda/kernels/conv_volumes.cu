// Convolution along three axes by one transform of each volume, which goes through memory between the axes. Nothing is
// transformed or stored of rows and planes that are zero, or of results that nobody wants.
//
//   packed_rows, packed_rows_back      rows of real volumes, two as one complex row: see conv_packed.cu
//   volume_rows, volume_rows_back      those of complex ones
//   volume_columns                     columns of planes -> [plane][wavenumber along the middle axis][aligned row]
//   volume_columns_back                and back
//   volume_planes, volume_planes_back  rows and columns of real planes that a block holds
//   volume_product                     along the first axis: volume and kernel forward, product, inverse
//
// A transform is a ring of cells. Cell i of it is cell i - before of the volume, and result i comes out in cell i.
#include "conv.cuh"
#include "fft.cuh"
#include "order.cuh"
#include "pairs.cuh"
#include "rows.cuh"

struct VolumeRowArguments {
  long long size[2], before[2], out[2];  // of a plane
  long long first, rows, lines;          // rows of the ring that are transformed, from which on, and all of a launch
  long long flip;                        // whether planes are read backwards
  double fill[2];
  double sign;  // of imaginary parts
};

struct VolumeColumnArguments {
  long long first_plane;   // number of a launch's first plane
  long long planes, room;  // planes of a volume, and how many lie between the beginnings of two spectra
  long long first, lines;  // rows of a plane, or pairs of them, that are there, and which of the ring is the first

  // Where the spectrum of a launch's plane begins, in spectra of planes.
  SOPS_DEVICE long long place(unsigned plane) const {
    const unsigned number = plane + (unsigned)first_plane, each = (unsigned)planes;
    return number / each * room + number % each;
  }
};

struct VolumeProductArguments {
  long long size, before, taps;  // planes of a volume, cells before it, planes of a kernel
  long long out, step, tiles;    // planes of results, those of a tile, and tiles
  long long spread;              // blocks that share out the tiles: one, or one for each
  long long first;               // number of a launch's first result
  long long together, apart;     // so many results of one kernel, so far apart, are done by one block
  // Result b takes number n = (b / divisor) % count, which lies in place (n - first) % count, of `room` planes each.
  long long image_divisor, image_count, image_first, image_room;
  long long kernel_divisor, kernel_count, kernel_first, out_room;
  long long flip;  // whether kernels are read backwards
  double fill[2];  // sum of a plane that is not there
  double scale;
};

// Cells of a row of the ring.
template <typename V, int BEYOND>
struct PlaneRow {
  const V* at;
  index_t before, size;
  bool there, flip;

  SOPS_DEVICE PlaneRow(const V* plane, const VolumeRowArguments& a, index_t row)
      : before((index_t)a.before[1]), size((index_t)a.size[1]), flip(a.flip != 0) {
    const index_t height = (index_t)a.size[0], cell = cell_at<BEYOND>(row - (index_t)a.before[0], height);
    there = cell >= 0;
    at = plane + (there ? (flip ? height - 1 - cell : cell) : 0) * size;
  }
  template <typename Number, typename F>
  SOPS_DEVICE Number read(index_t i, Number fill, F&& number) const {
    const index_t cell = cell_at<BEYOND>(i - before, size);
    return there && cell >= 0 ? number(load_once(at + (flip ? size - 1 - cell : cell))) : fill;
  }
};

// ---- rows of complex volumes: THREADS threads a line, LINES lines a block; values are stored as V

template <typename V, typename T, int BEYOND, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void volume_rows(const V* __restrict__ x, Complex<T>* __restrict__ spectrum,
                                                              const Complex<T>* __restrict__ table,
                                                              VolumeRowArguments a) {
  using F = Fft<T, -1, THREADS, 1, SPREAD, Rs>;
  const int t = opaque(threadIdx.x % THREADS), group = threadIdx.x / THREADS;
  const unsigned line = blockIdx.x * LINES + group, rows = (unsigned)a.rows;
  const bool valid = line < (unsigned)a.lines;
  const unsigned source = valid ? line : 0;
  const PlaneRow<V, BEYOND> row(x + source / rows * (a.size[0] * a.size[1]), a, (index_t)(source % rows + (unsigned)a.first));
  const Complex<T> fill{(T)a.fill[0], (T)a.fill[1]};
  Complex<T> v[F::E];
  F::template elements<0>(t, [&](int slot, int i) {
    v[slot] = row.read(i, fill, [&](V value) -> Complex<T> {
      if constexpr (ValueOf<V>::COMPLEX) return {value.re, value.im * (T)a.sign};
      else return {value, 0};
    });
  });
  F::template run<true>(v, shared_memory<T>() + group * F::G::padded(), table, t);
  if (!valid) return;
  spectrum += (long long)line * F::N;
  F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { spectrum[k] = v[slot]; });
}

template <typename T, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void volume_rows_back(const Complex<T>* __restrict__ spectrum,
                                                                   Complex<T>* __restrict__ out,
                                                                   const Complex<T>* __restrict__ table,
                                                                   VolumeRowArguments a) {
  using F = Fft<T, 1, THREADS, 1, SPREAD, typename Reversed<Rs>::type>;
  const int t = opaque(threadIdx.x % THREADS), group = threadIdx.x / THREADS;
  const unsigned line = blockIdx.x * LINES + group;
  const bool valid = line < (unsigned)a.lines;
  Complex<T> v[F::E];
  spectrum += (long long)(valid ? line : 0) * F::N;
  F::template elements<0>(t, [&](int slot, int k) { v[slot] = load_past(spectrum + k); });
  F::template run<true>(v, shared_memory<T>() + group * F::G::padded(), table, t);
  if (!valid) return;
  const index_t width = (index_t)a.out[1];
  out += (long long)line * width;
  F::template elements<F::PASSES - 1>(t, [&](int slot, int i) {
    if (i < width) store_once(out + i, v[slot]);
  });
}

// ---- columns: COLUMNS neighbouring ones a block, THREADS threads each; rows of WIDTH numbers, in PAIRS two real ones each

// Of a row: numbers of its spectrum, and those between the beginnings of two of them, which are pieces of memory.
SOPS_CONSTEXPR int stored_of(int form, int width) { return form == PAIRS ? width / 2 + 1 : width; }
SOPS_CONSTEXPR int aligned_of(int form, int width) { return (stored_of(form, width) + 3) / 4 * 4; }

// Which plane and column a thread has, and where the plane's spectrum begins.
template <int FORM, int WIDTH, int COLUMNS>
struct VolumeColumn {
  static constexpr int STORED = stored_of(FORM, WIDTH), ROW = aligned_of(FORM, WIDTH);
  static constexpr int GROUPS = (STORED + COLUMNS - 1) / COLUMNS;
  unsigned plane;
  int from, mirror;
  bool valid;

  SOPS_DEVICE explicit VolumeColumn(int c) : plane((unsigned)turned_block() / GROUPS) {
    const int column = (int)((unsigned)turned_block() % GROUPS) * COLUMNS + c;
    valid = column < STORED;
    from = valid ? column : 0;
    mirror = from == 0 ? 0 : WIDTH - from;
  }
  SOPS_DEVICE long long spectrum(const VolumeColumnArguments& a, int height) const {
    return a.place(plane) * (height * ROW) + from;
  }
};

template <typename T, int FORM, int WIDTH, int THREADS, int COLUMNS, typename Rs>
__global__ __launch_bounds__(THREADS* COLUMNS) void volume_columns(const Complex<T>* __restrict__ rows,
                                                                   Complex<T>* __restrict__ spectrum,
                                                                   const Complex<T>* __restrict__ table,
                                                                   VolumeColumnArguments a) {
  using F = Fft<T, -1, THREADS, COLUMNS, BLOCKED, Rs>;
  const int c = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS, first = (int)a.first, lines = (int)a.lines;
  const VolumeColumn<FORM, WIDTH, COLUMNS> column(c);
  Complex<T> v[F::E];
  rows += (long long)column.plane * (a.lines * WIDTH);
  if constexpr (FORM == PAIRS) {
    constexpr int R = F::Radix::of(0);
    static_assert(F::G::each(0) % 2 == 0 && F::G::butterflies(0) % 2 == 0, "a thread must hold both rows of a pair");
    F::template elements<0>(t, [&](int slot, int i) {
      if (slot / R % 2 != 0) return;
      const int pair = i / 2 - first;
      Complex<T> z{0, 0}, m{0, 0};
      if (pair >= 0 && pair < lines) {
        z = load_past(rows + (index_t)pair * WIDTH + column.from);
        m = load_past(rows + (index_t)pair * WIDTH + column.mirror);
      }
      unpack_pair(z, m, v[slot], v[slot + R]);
    });
  } else {
    F::template elements<0>(t, [&](int slot, int i) {
      const int row = i - first;
      v[slot] = {0, 0};
      if (row >= 0 && row < lines) v[slot] = load_past(rows + (index_t)row * WIDTH + column.from);
    });
  }
  F::template run<true>(v, shared_memory<T>() + c, table, t);
  if (!column.valid) return;
  spectrum += column.spectrum(a, F::N);
  F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { spectrum[(index_t)k * column.ROW] = v[slot]; });
}

template <typename T, int FORM, int WIDTH, int THREADS, int COLUMNS, typename Rs>
__global__ __launch_bounds__(THREADS* COLUMNS) void volume_columns_back(const Complex<T>* __restrict__ spectrum,
                                                                        Complex<T>* __restrict__ rows,
                                                                        const Complex<T>* __restrict__ table,
                                                                        VolumeColumnArguments a) {
  using F = Fft<T, 1, THREADS, COLUMNS, BLOCKED, typename Reversed<Rs>::type>;
  constexpr int LAST = F::PASSES - 1, R = F::Radix::of(LAST);
  const int c = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS, lines = (int)a.lines;
  const VolumeColumn<FORM, WIDTH, COLUMNS> column(c);
  Complex<T> v[F::E];
  spectrum += column.spectrum(a, F::N);
  F::template elements<0>(t, [&](int slot, int k) { v[slot] = load_past(spectrum + (index_t)k * column.ROW); });
  F::template run<true>(v, shared_memory<T>() + c, table, t);
  if (!column.valid) return;
  rows += (long long)column.plane * (a.lines * WIDTH);
  if constexpr (FORM == PAIRS) {
    static_assert(F::G::each(LAST) % 2 == 0 && F::G::butterflies(LAST) % 2 == 0, "both rows of a pair");
    F::template elements<LAST>(t, [&](int slot, int i) {
      if (slot / R % 2 != 0 || i / 2 >= lines) return;
      Complex<T>* row = rows + (index_t)(i / 2) * WIDTH;
      pack_pair(row, column.from, column.mirror, column.from == column.mirror, v[slot], v[slot + R]);
    });
  } else {
    F::template elements<LAST>(t, [&](int slot, int i) {
      if (i < lines) rows[(index_t)i * WIDTH + column.from] = v[slot];
    });
  }
}

// ---- planes: a block holds those rows that are there, PITCH numbers apart, and beside them COLUMNS columns at a time; ROWS
// pairs of rows are dealt with at once, by ROW_THREADS threads each, and columns by COLUMN_THREADS

template <typename T, int WIDTH, int ROW_THREADS, int ROWS, int PITCH, int COLUMN_THREADS, int COLUMNS>
struct VolumePlane {
  static constexpr int THREADS = larger(ROW_THREADS * ROWS, COLUMN_THREADS * COLUMNS);
  static constexpr int STORED = stored_of(PAIRS, WIDTH), ROW = aligned_of(PAIRS, WIDTH);
  Complex<T>* const rows;
  const int lines;

  SOPS_DEVICE Complex<T>* columns() const { return rows + lines * PITCH; }
  // f(pair of rows, its place, thread of it); where there is none left, with a place that nobody reads.
  template <typename F>
  SOPS_DEVICE void each_row(F&& f) const {
    const int t = threadIdx.x % ROW_THREADS, group = threadIdx.x / ROW_THREADS;
    for (int first = 0; first < lines; first += ROWS) {
      const bool own = group < ROWS && first + group < lines;
      f(own ? first + group : -1, own ? rows + (first + group) * PITCH : columns(), t);
    }
  }
  // f(column, whether it is this thread's own, its place beside others, thread of it). A thread too many does what another
  // one does.
  template <typename F>
  SOPS_DEVICE static void each_column(F&& f) {
    const int c = threadIdx.x % COLUMNS, number = threadIdx.x / COLUMNS, t = number < COLUMN_THREADS ? number : 0;
    for (int first = 0; first < STORED; first += COLUMNS) {
      const bool there = first + c < STORED;
      f(there ? first + c : 0, there && number < COLUMN_THREADS, c, t);
    }
  }
};

template <typename S, typename T, int BEYOND, int ROW_THREADS, int ROWS, int PITCH, typename RowRs, int COLUMN_THREADS,
          int COLUMNS, typename ColumnRs>
__global__ __launch_bounds__(larger(ROW_THREADS* ROWS, COLUMN_THREADS* COLUMNS)) void volume_planes(
    const S* __restrict__ x, Complex<T>* __restrict__ spectrum, const Complex<T>* __restrict__ row_table,
    const Complex<T>* __restrict__ column_table, VolumeRowArguments r, VolumeColumnArguments a) {
  using F = Fft<T, -1, ROW_THREADS, 1, SPREAD, RowRs>;
  using C = Fft<T, -1, COLUMN_THREADS, COLUMNS, BLOCKED, ColumnRs>;
  using P = VolumePlane<T, F::N, ROW_THREADS, ROWS, PITCH, COLUMN_THREADS, COLUMNS>;
  constexpr int N = F::N, R = C::Radix::of(0);
  static_assert(PITCH >= F::G::padded(), "rows are exchanged in place");
  static_assert(C::G::each(0) % 2 == 0 && C::G::butterflies(0) % 2 == 0, "a thread must hold both rows of a pair");
  const P plane{shared_memory<T>(), (int)a.lines};
  const int begin = (int)a.first;
  x += blockIdx.x * (r.size[0] * r.size[1]);
  spectrum += a.place(blockIdx.x) * (C::N * P::ROW);
  plane.each_row([&](int pair, Complex<T>* row, int t) {
    const index_t number = 2 * (index_t)(begin + (pair < 0 ? 0 : pair));
    const PlaneRow<S, BEYOND> upper(x, r, number), lower(x, r, number + 1);
    const auto as_number = [](S value) { return (T)to_number(value); };
    Complex<T> v[F::E];
    F::template elements<0>(t, [&](int slot, int i) {
      v[slot] = {0, 0};
      if (pair >= 0) v[slot] = {upper.read(i, (T)r.fill[0], as_number), lower.read(i, (T)r.fill[0], as_number)};
    });
    F::template run<false>(v, row, row_table, t);
    F::wait();
    if (pair >= 0) F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { row[k] = v[slot]; });
  });
  __syncthreads();
  P::each_column([&](int from, bool own, int c, int t) {
    const int mirror = from == 0 ? 0 : N - from;
    Complex<T> v[C::E];
    C::template elements<0>(t, [&](int slot, int i) {
      if (slot / R % 2 != 0) return;
      const int pair = i / 2 - begin;
      Complex<T> z{0, 0}, m{0, 0};
      if (pair >= 0 && pair < plane.lines) {
        z = plane.rows[pair * PITCH + from];
        m = plane.rows[pair * PITCH + mirror];
      }
      unpack_pair(z, m, v[slot], v[slot + R]);
    });
    C::template run<false>(v, plane.columns() + c, column_table, t);
    if (!own) return;
    C::template elements<C::PASSES - 1>(t, [&](int slot, int k) { spectrum[k * P::ROW + from] = v[slot]; });
  });
}

template <typename S, typename T, int ROW_THREADS, int ROWS, int PITCH, typename RowRs, int COLUMN_THREADS, int COLUMNS,
          typename ColumnRs>
__global__ __launch_bounds__(larger(ROW_THREADS* ROWS, COLUMN_THREADS* COLUMNS)) void volume_planes_back(
    const Complex<T>* __restrict__ spectrum, S* __restrict__ out, const Complex<T>* __restrict__ row_table,
    const Complex<T>* __restrict__ column_table, VolumeRowArguments r, VolumeColumnArguments a) {
  using F = Fft<T, 1, ROW_THREADS, 1, SPREAD, typename Reversed<RowRs>::type>;
  using C = Fft<T, 1, COLUMN_THREADS, COLUMNS, BLOCKED, typename Reversed<ColumnRs>::type>;
  using P = VolumePlane<T, F::N, ROW_THREADS, ROWS, PITCH, COLUMN_THREADS, COLUMNS>;
  constexpr int N = F::N, LAST = C::PASSES - 1, R = C::Radix::of(LAST);
  static_assert(PITCH >= F::G::padded(), "rows are exchanged in place");
  static_assert(C::G::each(LAST) % 2 == 0 && C::G::butterflies(LAST) % 2 == 0, "both rows of a pair");
  const P plane{shared_memory<T>(), (int)a.lines};
  spectrum += a.place(blockIdx.x) * (C::N * P::ROW);
  out += blockIdx.x * (r.out[0] * r.out[1]);
  P::each_column([&](int from, bool own, int c, int t) {
    const int mirror = from == 0 ? 0 : N - from;
    Complex<T> v[C::E];
    C::template elements<0>(t, [&](int slot, int k) { v[slot] = load_past(spectrum + k * P::ROW + from); });
    C::template run<false>(v, plane.columns() + c, column_table, t);
    if (!own) return;
    C::template elements<LAST>(t, [&](int slot, int i) {
      if (slot / R % 2 != 0 || i / 2 >= plane.lines) return;
      pack_pair(plane.rows + i / 2 * PITCH, from, mirror, from == mirror, v[slot], v[slot + R]);
    });
  });
  __syncthreads();
  const index_t height = (index_t)r.out[0], width = (index_t)r.out[1];
  plane.each_row([&](int pair, Complex<T>* row, int t) {
    Complex<T> v[F::E];
    F::template elements<0>(t, [&](int slot, int k) { v[slot] = row[k]; });
    F::template run<false>(v, row, row_table, t);
    if (pair < 0) return;
    S* to = out + 2 * (index_t)pair * width;
    const bool both = 2 * pair + 1 < height;
    F::template elements<F::PASSES - 1>(t, [&](int slot, int i) {
      if (i >= width) return;
      store_once(to + i, Storage<S>::from(v[slot].re));
      if (both) store_once(to + width + i, Storage<S>::from(v[slot].im));
    });
  });
}

// ---- the first axis, whose columns are all AREA numbers of a plane; `out` may be where the volumes lie

// Blocks that a multiprocessor is to hold at once, by the registers that a thread needs for volume and kernel in single
// precision.
template <typename T, int THREADS, int COLUMNS, typename Rs>
SOPS_CONSTEXPR int products_at_once() {
  constexpr int POINTS = Fft<T, -1, THREADS, COLUMNS, BLOCKED, Rs>::E, WARPS = (THREADS * COLUMNS + 31) / 32;
  constexpr int REGISTERS = POINTS > 16 ? 160 : POINTS > 12 ? 128 : POINTS > 8 ? 100 : 80;
  return sizeof(T) > 4 || POINTS > 20 ? 1 : larger(2048 / (WARPS * REGISTERS), 1);
}

template <typename T, int BEYOND, bool SEVERAL, int AREA, int THREADS, int COLUMNS, typename Rs>
__global__ __launch_bounds__(THREADS* COLUMNS, products_at_once<T, THREADS, COLUMNS, Rs>()) void volume_product(
    const Complex<T>* in, const Complex<T>* kernels, Complex<T>* out, const Complex<T>* __restrict__ table,
    VolumeProductArguments a) {
  using F = Fft<T, -1, THREADS, COLUMNS, BLOCKED, Rs>;
  using B = Fft<T, 1, THREADS, COLUMNS, BLOCKED, typename Reversed<Rs>::type>;
  const int c = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS;
  constexpr index_t area = AREA;
  constexpr unsigned groups = (AREA + COLUMNS - 1) / COLUMNS;
  const unsigned rest = blockIdx.x / groups, spread = (unsigned)a.spread, tiles = (unsigned)a.tiles / spread;
  const index_t column = (index_t)(blockIdx.x % groups) * COLUMNS + c, step = (index_t)a.step;
  const bool valid = column < area;
  const index_t from = valid ? column : 0;
  const unsigned together = (unsigned)a.together, apart = (unsigned)a.apart, local = rest / spread;
  const long long first = local / apart * (together * apart) + local % apart;
  const auto place_of = [&](long long number, long long divisor, long long count, long long first) {
    const long long at = number / divisor % count - first;
    return at < 0 ? at + count : at;
  };
  kernels += place_of(a.first + first, a.kernel_divisor, a.kernel_count, a.kernel_first) * (a.taps * area) + from;
  const index_t size = (index_t)a.size, taps = (index_t)a.taps;
  const Complex<T> fill = column == 0 ? Complex<T>{(T)a.fill[0], (T)a.fill[1]} : Complex<T>{0, 0};
  Complex<T>* shared = shared_memory<T>() + c;
  Complex<T> v[larger(F::E, B::E)], w[F::E];
  const auto read = [&](long long place, index_t before) {
    const long long image = place_of(a.first + place, a.image_divisor, a.image_count, a.image_first);
    const Complex<T>* at = in + image * (a.image_room * area) + from;
    F::template elements<0>(t, [&](int slot, int i) {
      const index_t cell = cell_at<BEYOND>(i - before, size);
      v[slot] = cell < 0 ? fill : load_past(at + cell * area);
    });
  };
  const index_t first_begin = (index_t)(rest % spread) * step;
  read(first, (index_t)a.before - first_begin);
  F::template elements<0>(t, [&](int slot, int i) {
    w[slot] = i < taps ? load_past(kernels + (a.flip ? taps - 1 - i : i) * area) : Complex<T>{0, 0};
  });
  F::template run<true>(w, shared, anew(table), t);
#pragma unroll 1
  for (unsigned turn = 0; turn < (SEVERAL ? together * tiles : 1); ++turn) {
    const long long place = first + turn / tiles * apart;
    const index_t begin = first_begin + (index_t)(turn % tiles) * step;
    if (turn > 0) read(place, (index_t)a.before - begin);
    F::template run<false>(v, shared, anew(table), t);
    F::template elements<F::PASSES - 1>(t, [&](int slot, int) { v[slot] = times_conj(v[slot], w[slot]) * (T)a.scale; });
    B::template run<false>(v, shared, anew(table) + Rs::table(F::PASSES), t);
    if (!valid) continue;
    const index_t left = (index_t)a.out - begin, stored = left < step ? left : step;
    Complex<T>* to = out + place * (a.out_room * area) + from + begin * area;
    B::template elements<B::PASSES - 1>(t, [&](int slot, int i) {
      if (i < stored) to[i * area] = v[slot];
    });
  }
}
