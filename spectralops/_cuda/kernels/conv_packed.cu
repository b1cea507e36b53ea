// Convolution of real images by one transform of each, or by tiles of its columns, where no block holds one: two rows are
// one complex row, which goes through memory between rows and columns.
//
//   packed_rows      rows of images or kernels -> their transforms      packed_rows_back   back, into results
//   packed_spectra   columns of kernels -> their spectra
//   packed_columns   columns of images: forward, product, inverse
//   packed_taps      kernels -> their spectra                           packed_lines       for one axis: all in one kernel,
//                                                                                          neighbours as one number
//
// A transform is a ring of cells. Cell i of it is cell i - before of the image, and result i comes out in cell i.
#include "conv.cuh"
#include "fft.cuh"
#include "filter.cuh"
#include "order.cuh"
#include "rows.cuh"

struct PackedArguments {
  long long size[2], before[2], out[2];
  long long stride[2], dilation[2];  // every stride-th result is stored; cells of kernels lie dilation apart
  long long first, pairs;  // pairs of rows of the ring that are transformed, and from which on; the others are zero
  long long back;          // pairs of rows of results
  long long step, tiles;   // rows of results of a tile of columns, and such tiles
  long long image_divisor, image_count, kernel_divisor, kernel_count;  // plane b takes image (b / divisor) % count
  // What a launch does: some kernels, with some of the planes that each has; the planes of a kernel lie `beside` each
  // other in time, so that its spectrum is read from cache (lines may lie in the order of memory).
  long long first_kernel, first_plane, planes, beside;
  long long lines;  // of rows; of one axis, planes
  long long common;  // whether images are transformed in their own order, before any launch that multiplies
  long long flip;    // whether rows and columns are read backwards
  double fill, scale;
};

// Plane number `local` of a launch among those of the result.
SOPS_DEVICE long long plane_of(const PackedArguments& a, unsigned local) {
  const unsigned kernel = local / (unsigned)a.planes + (unsigned)a.first_kernel;
  const unsigned number = local % (unsigned)a.planes + (unsigned)a.first_plane, divisor = (unsigned)a.kernel_divisor;
  return ((long long)(number / divisor) * a.kernel_count + kernel) * divisor + number % divisor;
}
// (plane / divisor) % count, with the divisions that are needed.
SOPS_DEVICE unsigned number_of(unsigned plane, unsigned divisor, unsigned count) {
  const unsigned number = divisor == 1 ? plane : plane / divisor;
  return number < count ? number : number % count;
}
SOPS_DEVICE long long image_of(const PackedArguments& a, long long plane) {
  return number_of((unsigned)plane, (unsigned)a.image_divisor, (unsigned)a.image_count);
}

// Cells of a row of the ring; `valid` rows are there.
template <typename S, typename T, int BEYOND>
struct RingRow {
  const S* at;
  index_t before, size;
  T fill;
  bool there, flip;

  SOPS_DEVICE RingRow(const S* image, const PackedArguments& a, index_t row)
      : before((index_t)a.before[1]), size((index_t)a.size[1]), fill((T)a.fill), flip(a.flip != 0) {
    const index_t cell = cell_at<BEYOND>(row - (index_t)a.before[0], (index_t)a.size[0]);
    there = cell >= 0;
    at = image + (there ? (flip ? (index_t)a.size[0] - 1 - cell : cell) : 0) * a.size[1];
  }
  SOPS_DEVICE T operator()(index_t i) const {
    const index_t cell = cell_at<BEYOND>(i - before, size);
    if (!there || cell < 0) return fill;
    return (T)to_number(load_once(at + (flip ? size - 1 - cell : cell)));
  }
};

// The same of a kernel with holes, which begins in the first cell.
template <typename S, typename T>
struct HoledRow {
  const S* at;
  index_t step, size;
  bool there, flip;

  SOPS_DEVICE HoledRow(const S* kernel, const PackedArguments& a, index_t row)
      : step((index_t)a.dilation[1]), size((index_t)a.size[1]), flip(a.flip != 0) {
    const index_t cell = row / (index_t)a.dilation[0];
    there = cell * (index_t)a.dilation[0] == row && cell < (index_t)a.size[0];
    at = kernel + (there ? (flip ? (index_t)a.size[0] - 1 - cell : cell) : 0) * a.size[1];
  }
  SOPS_DEVICE T operator()(index_t i) const {
    const index_t cell = i / step;
    if (!there || cell * step != i || cell >= size) return 0;
    return (T)to_number(at[flip ? size - 1 - cell : cell]);
  }
};

// Blocks that a multiprocessor is to hold at once, by registers that a thread needs in single precision where that was
// timed, and by its points; 0 leaves that to the compiler, which takes now too few and now some that cost a block.
template <typename T>
SOPS_CONSTEXPR int at_once(int threads, int registers) {
  return sizeof(T) > 4 || registers == 0 ? 0 : larger(65536 / (threads * registers), 1);
}
template <typename T, int THREADS, int LINES, typename Rs>
SOPS_CONSTEXPR int rows_at_once() {
  constexpr int POINTS = Fft<T, -1, THREADS, 1, SPREAD, Rs>::E, ALL = THREADS * LINES;
  return at_once<T>(ALL, POINTS <= 16 && ALL > 256 ? 56 : 0);
}
template <typename T, int THREADS, int COLUMNS, typename Rs>
SOPS_CONSTEXPR int columns_at_once() {
  constexpr int POINTS = Fft<T, -1, THREADS, COLUMNS, BLOCKED, Rs>::E;
  return at_once<T>(THREADS * COLUMNS, POINTS < 16 ? 0 : POINTS <= 20 ? 80 : 128);
}

// ---- rows: THREADS threads a line, LINES lines a block

template <typename S, typename T, int BEYOND, bool HOLES, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES, rows_at_once<T, THREADS, LINES, Rs>()) void packed_rows(
    const S* __restrict__ x, Complex<T>* __restrict__ spectrum, const Complex<T>* __restrict__ table, PackedArguments a) {
  using F = Fft<T, -1, THREADS, 1, SPREAD, Rs>;
  const int t = opaque(threadIdx.x % THREADS), group = threadIdx.x / THREADS;
  const unsigned line = blockIdx.x * LINES + group, pairs = (unsigned)a.pairs;
  const bool valid = line < (unsigned)a.lines;
  const unsigned source = valid ? line : 0, local = source / pairs;
  const long long image = a.common ? local : image_of(a, plane_of(a, local));
  const index_t row = 2 * (index_t)(source % pairs + (unsigned)a.first);
  x += image * (a.size[0] * a.size[1]);
  using Row = typename Choose<HOLES, HoledRow<S, T>, RingRow<S, T, BEYOND>>::type;
  const Row upper(x, a, row), lower(x, a, row + 1);
  Complex<T> v[F::E];
  F::template elements<0>(t, [&](int slot, int i) { v[slot] = {upper(i), lower(i)}; });
  F::template run<true>(v, shared_memory<T>() + group * F::G::padded(), table, t);
  if (!valid) return;
  spectrum += (long long)line * F::N;
  F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { spectrum[k] = v[slot]; });
}

template <typename S, typename T, int ACTIVATION, bool STRIDED, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void packed_rows_back(const Complex<T>* __restrict__ spectrum,
                                                                    S* __restrict__ out,
                                                                    const Complex<T>* __restrict__ table,
                                                                    PackedArguments a, FinishArguments f) {
  using F = Fft<T, 1, THREADS, 1, SPREAD, typename Reversed<Rs>::type>;
  const int t = opaque(threadIdx.x % THREADS), group = threadIdx.x / THREADS;
  const unsigned line = blockIdx.x * LINES + group, back = (unsigned)a.back;
  const bool valid = line < (unsigned)a.lines;
  const unsigned source = valid ? line : 0;
  Complex<T> v[F::E];
  spectrum += (long long)source * F::N;
  F::template elements<0>(t, [&](int slot, int k) { v[slot] = load_past(spectrum + k); });
  F::template run<true>(v, shared_memory<T>() + group * F::G::padded(), table, t);
  if (!valid) return;
  const long long plane = plane_of(a, line / back);
  const index_t row = 2 * (index_t)(line % back), width = (index_t)a.out[1];
  const Finish<T, ACTIVATION> finish(f, plane);
  if constexpr (STRIDED) {
    const index_t down = (index_t)a.stride[0], right = (index_t)a.stride[1], height = (index_t)a.out[0];
    out += plane * a.out[0] * a.out[1];
    F::template elements<F::PASSES - 1>(t, [&](int slot, int i) {
      const index_t column = (index_t)i / right;
      if (column * right != i || column >= width) return;
      for (int u = 0; u < 2; ++u) {
        const index_t line = (row + u) / down;
        if (line * down != row + u || line >= height) continue;
        out[line * width + column] = Storage<S>::from(finish(u == 0 ? v[slot].re : v[slot].im));
      }
    });
    return;
  }
  const bool both = row + 1 < (index_t)a.out[0];
  out += (plane * a.out[0] + row) * a.out[1];
  F::template elements<F::PASSES - 1>(t, [&](int slot, int i) {
    if (i >= width) return;
    store_once(out + i, Storage<S>::from(finish(v[slot].re)));
    if (both) store_once(out + width + i, Storage<S>::from(finish(v[slot].im)));
  });
}

// ---- columns: COLUMNS neighbouring ones a block, THREADS threads each; PITCH numbers a row

// Reads a column of both rows of every pair, each twice, out of columns `from` and `mirror`; `begin`: pairs of the ring
// before those of the first element.
template <typename F, int PITCH, typename T>
SOPS_DEVICE void read_pairs(Complex<T> (&v)[F::E], const Complex<T>* in, int begin, int pairs, int from, int mirror, int t) {
  constexpr int R = F::Radix::of(0);
  static_assert(F::G::each(0) % 2 == 0 && F::G::butterflies(0) % 2 == 0, "a thread must hold both rows of a pair");
  F::template elements<0>(t, [&](int slot, int i) {
    if (slot / R % 2 != 0) return;
    const int pair = i / 2 + begin;
    Complex<T> z{0, 0}, m{0, 0};
    if (pair >= 0 && pair < pairs) {
      z = load_past(in + (index_t)pair * PITCH + from);
      m = load_past(in + (index_t)pair * PITCH + mirror);
    }
    v[slot] = {z.re + m.re, z.im - m.im};
    v[slot + R] = {z.im + m.im, m.re - z.re};
  });
}

// Distance of a spectrum's rows of PITCH / 2 + 1 numbers: neighbouring ones begin where pieces of memory do.
SOPS_CONSTEXPR int aligned_half(int pitch) { return (pitch / 2 + 4) / 4 * 4; }

// Conjugates, times a.scale, of the transforms of kernels: [kernel][wavenumber along columns][aligned_half(PITCH)].
template <typename T, int PITCH, int THREADS, int COLUMNS, typename Rs>
__global__ __launch_bounds__(THREADS* COLUMNS) void packed_spectra(const Complex<T>* __restrict__ in,
                                                                    Complex<T>* __restrict__ spectra,
                                                                    const Complex<T>* __restrict__ table,
                                                                    PackedArguments a) {
  using F = Fft<T, -1, THREADS, COLUMNS, BLOCKED, Rs>;
  constexpr int HALF = PITCH / 2 + 1, GROUPS = (HALF + COLUMNS - 1) / COLUMNS, ROW = aligned_half(PITCH);
  const int c = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS, column = (int)(blockIdx.x % GROUPS) * COLUMNS + c;
  const bool valid = column < HALF;
  const int from = valid ? column : 0;
  const long long kernel = blockIdx.x / GROUPS;
  Complex<T> v[F::E];
  in += kernel * (a.pairs * PITCH);
  read_pairs<F, PITCH>(v, in, 0, (int)a.pairs, from, from == 0 ? 0 : PITCH - from, t);
  F::template run<true>(v, shared_memory<T>() + c, table, t);
  if (!valid) return;
  spectra += kernel * F::N * ROW + from;
  F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { spectra[(index_t)k * ROW] = conj(v[slot]) * (T)a.scale; });
}

template <typename T, int PITCH, int THREADS, int COLUMNS, typename Rs>
__global__ __launch_bounds__(THREADS* COLUMNS, columns_at_once<T, THREADS, COLUMNS, Rs>()) void packed_columns(
    const Complex<T>* __restrict__ in, const Complex<T>* __restrict__ spectra, Complex<T>* __restrict__ out,
    const Complex<T>* __restrict__ table, PackedArguments a) {
  using F = Fft<T, -1, THREADS, COLUMNS, BLOCKED, Rs>;
  using B = Fft<T, 1, THREADS, COLUMNS, BLOCKED, typename Reversed<Rs>::type>;
  constexpr int N = F::N, HALF = PITCH / 2 + 1, GROUPS = (HALF + COLUMNS - 1) / COLUMNS, ROW = aligned_half(PITCH);
  const int c = threadIdx.x % COLUMNS, t = threadIdx.x / COLUMNS;
  const unsigned block = (unsigned)turned_block(), tiles = (unsigned)a.tiles, rest = block / tiles, local = rest / GROUPS;
  const int tile = (int)(block % tiles), column = (int)(rest % GROUPS) * COLUMNS + c;
  const bool valid = column < HALF;
  const int from = valid ? column : 0, mirror = from == 0 ? 0 : PITCH - from, begin = tile * (int)a.step / 2;
  Complex<T>* shared = shared_memory<T>() + c;
  Complex<T> v[larger(F::E, B::E)];
  in += (a.common ? image_of(a, plane_of(a, local)) : local) * (a.pairs * PITCH);
  read_pairs<F, PITCH>(v, in, begin - (int)a.first, (int)a.pairs, from, mirror, t);
  F::template run<true>(v, shared, table, t);
  spectra += (long long)(local / (unsigned)a.planes) * (N * ROW) + from;
  F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { v[slot] = v[slot] * spectra[(index_t)k * ROW]; });
  B::template run<false>(v, shared, table + Rs::table(F::PASSES), t);
  if (!valid) return;
  constexpr int LAST = B::PASSES - 1, R = B::Radix::of(LAST);
  static_assert(B::G::each(LAST) % 2 == 0 && B::G::butterflies(LAST) % 2 == 0, "both rows of a pair");
  const int stored = (int)a.back - begin < (int)a.step / 2 ? (int)a.back - begin : (int)a.step / 2;
  out += local * (a.back * PITCH) + (index_t)begin * PITCH;
  B::template elements<LAST>(t, [&](int slot, int i) {
    if (slot / R % 2 != 0 || i / 2 >= stored) return;
    const Complex<T> y = v[slot], z = v[slot + R];
    Complex<T>* row = out + (index_t)(i / 2) * PITCH;
    if (from == mirror) {
      row[from] = {y.re, z.re};
    } else {
      row[from] = {y.re - z.im, y.im + z.re};
      row[mirror] = {y.re + z.im, z.re - y.im};
    }
  });
}

// ---- one axis: 2 N real cells as N complex numbers; spectra of N + 1 wavenumbers

template <typename S, typename T, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES) void packed_taps(const S* __restrict__ taps, Complex<T>* __restrict__ spectra,
                                                               const Complex<T>* __restrict__ table, PackedArguments a) {
  using F = Fft<T, -1, THREADS, 1, SPREAD, Rs>;
  constexpr int N = F::N;
  let_next_begin();
  const int t = opaque(threadIdx.x % THREADS), group = threadIdx.x / THREADS;
  const unsigned line = blockIdx.x * LINES + group;
  const bool valid = line < (unsigned)a.lines;
  const long long kernel = valid ? line : 0;
  const RingRow<S, T, FILL> row(taps + kernel * a.size[1], a, 0);
  const index_t end = 2 * N + row.before;  // the ring goes on where the kernel begins before its first cell
  const auto tap = [&](index_t i) { return row(i < end ? i : i - 2 * N); };
  Complex<T>*shared = shared_memory<T>() + group * F::G::padded(), v[F::E];
  F::template elements<0>(t, [&](int slot, int i) { v[slot] = {tap(2 * i), tap(2 * i + 1)}; });
  F::template run<true>(v, shared, table, t);
  F::wait();
  F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { shared[k] = v[slot]; });
  F::wait();
  if (!valid) return;
  // Of the line at k and N - k, each twice: the sum and the difference of the transforms of even and odd cells.
  const Complex<T>* roots = table + Rs::table(F::PASSES) + Reversed<Rs>::type::table(F::PASSES);
  spectra += (long long)line * (N + 1);
  for (int k = t; 2 * k <= N; k += THREADS) {
    const Complex<T> z = shared[k], m = conj(shared[k == 0 ? 0 : N - k]), even = z + m, turned = (z - m) * roots[k];
    const Complex<T> odd{turned.im, -turned.re};
    spectra[k] = conj(even + odd) * (T)a.scale;
    spectra[N - k] = (even - odd) * (T)a.scale;
  }
}

// Whether i < LIMIT for an i that is a constant more than t < THREADS: known beforehand for all threads but those of one i.
template <int LIMIT, int THREADS>
SOPS_DEVICE bool within(int i, int t) {
  const int more = i - t;
  return more + THREADS <= LIMIT || (more < LIMIT && i < LIMIT);
}

// How lines are read and written: cell by cell; as aligned pairs from the first cell of the ring on, with zeros beyond the
// last one; or as such pairs, all of which are there.
enum Access { SINGLY, IN_PAIRS, WHOLLY };

template <typename T, int ACCESS, int THREADS, int LINES, typename Rs>
SOPS_CONSTEXPR int lines_at_once() {
  constexpr int POINTS = Fft<T, -1, THREADS, 1, MIRRORED, Rs>::E, ALL = THREADS * LINES;
  constexpr bool SMALL = POINTS <= 12 && ALL > 256 && ACCESS != SINGLY;
  return at_once<T>(ALL, POINTS == 32 ? 128 : POINTS == 16 && ACCESS == WHOLLY ? 64 : SMALL ? 56 : 0);
}

// Lines of SIZE cells, of which OUT results are wanted.
template <typename S, typename T, int BEYOND, int ACCESS, int SIZE, int OUT, int THREADS, int LINES, typename Rs>
__global__ __launch_bounds__(THREADS* LINES, lines_at_once<T, ACCESS, THREADS, LINES, Rs>()) void packed_lines(
    const S* __restrict__ x, const Complex<T>* __restrict__ spectra, S* __restrict__ out,
    const Complex<T>* __restrict__ table, PackedArguments a) {
  using F = Fft<T, -1, THREADS, 1, MIRRORED, Rs>;
  using B = Fft<T, 1, THREADS, 1, MIRRORED, typename Reversed<Rs>::type>;
  constexpr int N = F::N;
  const int t = opaque(threadIdx.x % THREADS), group = threadIdx.x / THREADS;
  const unsigned line = blockIdx.x * LINES + group;
  const bool valid = line < (unsigned)a.lines;
  const unsigned local = valid ? line : 0;
  long long plane = local;
  unsigned kernel;
  if (a.beside) {
    plane = plane_of(a, local);
    kernel = local / (unsigned)a.planes;
  } else {
    kernel = number_of(local, (unsigned)a.kernel_divisor, (unsigned)a.kernel_count);
  }
  Complex<T>* shared = shared_memory<T>() + group * larger(F::G::padded(), B::G::padded());
  Complex<T> v[larger(F::E, B::E)];
  const RingRow<S, T, BEYOND> row(x + image_of(a, plane) * a.size[1], a, 0);
  if constexpr (ACCESS == SINGLY) {
    F::template elements<0>(t, [&](int slot, int i) { v[slot] = {row(2 * i), row(2 * i + 1)}; });
  } else {
    // Nothing waits for a number before all are on their way.
    Complex<S> stored[F::E];
    const Complex<S>* at = (const Complex<S>*)row.at + t;
    F::template elements<0>(t, [&](int slot, int i) {
      stored[slot] = {};
      if (ACCESS == WHOLLY || within<SIZE / 2, THREADS>(i, t)) stored[slot] = load_once(at + (i - t));
    });
    F::template elements<0>(t, [&](int slot, int) { v[slot] = to_number(stored[slot]); });
  }
  F::template run<true>(v, shared, table, t);
  const Complex<T>*h = after_previous(spectra) + (long long)kernel * (N + 1),
                   *roots = table + Rs::table(F::PASSES) + B::Radix::table(F::PASSES);
  const auto at = [&](Complex<T>& low, Complex<T>& high, int k, Complex<T> root) {
    filter_packed(low, high, h[k], h[N - k], root);
  };
  if constexpr (F::PAIRED) {
    F::pairs(v, t, roots, at, [&](Complex<T>& zero, Complex<T>& middle) {
      filter_ends(zero, h[0], h[N]);
      middle = times(middle, times(conj(h[N / 2]), (T)2));
    });
  } else {
    F::wait();
    F::template elements<F::PASSES - 1>(t, [&](int slot, int k) { shared[k] = v[slot]; });
    F::wait();
    for (int k = t; 2 * k <= N; k += THREADS) {
      if (k == 0) filter_ends(shared[0], h[0], h[N]);
      else at(shared[k], shared[N - k], k, roots[k]);
    }
    F::wait();
    B::template elements<0>(t, [&](int slot, int k) { v[slot] = shared[k]; });
  }
  B::template run<false>(v, shared, table + Rs::table(F::PASSES), t);
  if (!valid) return;
  out += plane * OUT;
  B::template elements<B::PASSES - 1>(t, [&](int slot, int i) {
    if constexpr (ACCESS != SINGLY) {
      if (ACCESS != WHOLLY && !within<OUT / 2, THREADS>(i, t)) return;
      store_once((Complex<S>*)out + t + (i - t), Storage<Complex<S>>::from(v[slot]));
    } else {
      if (2 * i < OUT) store_once(out + 2 * i, Storage<S>::from(v[slot].re));
      if (2 * i + 1 < OUT) store_once(out + 2 * i + 1, Storage<S>::from(v[slot].im));
    }
  });
}
