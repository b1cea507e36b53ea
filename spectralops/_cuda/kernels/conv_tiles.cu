// Convolution by overlap-save: tiles of an image that overlap by the kernel are transformed, multiplied by the kernel's
// spectrum and transformed back within one block.
//
//   tile_spectra   kernels -> spectra            tile_filter    images -> results, a kernel for each channel
//   tile_forward   images -> spectra             tile_inverse   spectra, mixed over channels -> results
//   line_spectra, line_filter                    the same for one axis
//
// Forward transforms decimate in frequency, inverse ones in time, both in place: spectra stand in the order of reversed
// digits, kernels' and images' alike, so that nothing is ever put in order. Two real tiles of one image are the real and
// imaginary part of a complex one: a real kernel keeps them apart.
#include "conv_tiles.cuh"

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

  // f(v, j, c) for the first SOME columns.
  template <int P, int SOME, bool READ, bool WRITE, typename F>
  SOPS_DEVICE void down(F&& f) const {
    down_columns<ColumnRs, P, THREADS, PITCH, SOME, READ, WRITE>(at, [](int c) { return c; }, f);
  }
  // f(v, j, place) on R numbers along a row; `place` is the number of the row plus ROWS times that of its first element.
  template <int P, bool READ, bool WRITE, typename F>
  SOPS_DEVICE void across(F&& f) const {
    using L = Level<RowRs, P>;
    share<THREADS, COLUMNS / L::R * ROWS>([&](int w) {
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
      down<P, COLUMNS, true, true>([&](auto& v, int j, int c) {
        if (ALL || c < full) forward<ColumnRs, P, SIGN>(v, columns, j);
      });
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

  // From the spectrum after the first pass along the rows to put(r, c)(q, value) for the first KEEP columns.
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
                                                                Complex<typename ValueOf<V>::Real>* __restrict__ spectra,
                                                                const Complex<typename ValueOf<V>::Real>* __restrict__ columns,
                                                                const Complex<typename ValueOf<V>::Real>* __restrict__ rows,
                                                                TapsArguments a) {
  using T = typename ValueOf<V>::Real;
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
                                                               const Complex<typename ValueOf<V>::Real>* __restrict__ spectra,
                                                               V* __restrict__ out,
                                                               const Complex<typename ValueOf<V>::Real>* __restrict__ columns,
                                                               const Complex<typename ValueOf<V>::Real>* __restrict__ rows,
                                                               TileArguments a, FinishArguments f) {
  using T = typename ValueOf<V>::Real;
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
                                                                Complex<typename ValueOf<V>::Real>* __restrict__ spectra,
                                                                const Complex<typename ValueOf<V>::Real>* __restrict__ columns,
                                                                const Complex<typename ValueOf<V>::Real>* __restrict__ rows,
                                                                TileArguments a) {
  using T = typename ValueOf<V>::Real;
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
    const Complex<typename ValueOf<V>::Real>* __restrict__ spectra, V* __restrict__ out,
    const Complex<typename ValueOf<V>::Real>* __restrict__ columns,
    const Complex<typename ValueOf<V>::Real>* __restrict__ rows, TileArguments a, FinishArguments f) {
  using T = typename ValueOf<V>::Real;
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
                                                        Complex<typename ValueOf<V>::Real>* __restrict__ spectra,
                                                        const Complex<typename ValueOf<V>::Real>* __restrict__ table,
                                                        TapsArguments a) {
  using T = typename ValueOf<V>::Real;
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
                                                       const Complex<typename ValueOf<V>::Real>* __restrict__ spectra,
                                                       V* __restrict__ out,
                                                       const Complex<typename ValueOf<V>::Real>* __restrict__ table,
                                                       TileArguments a) {
  using T = typename ValueOf<V>::Real;
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
