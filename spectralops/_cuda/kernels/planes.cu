// Real images small enough for the shared memory of one block: both axes in one kernel, so that nothing lies between
// them. Rows 2r and 2r + 1 are one complex row (PAIRS); a transform never leaves its warp, so that a block waits only
// between the axes.
//
//   planes_forward   x -> kept wavenumbers       planes_inverse   back
//   planes_filter    forward * filter * inverse
//
// ROW_THREADS, COLUMN_THREADS: threads of a transform along each axis. Of a row the first KEPT wavenumbers are kept, of a
// column ROW_KEPT from LOW on.
#include "fft.cuh"
#include "filter.cuh"
#include "order.cuh"
#include "pairs.cuh"
#include "rows.cuh"

// Room for `size` numbers of one of several transforms of `threads` threads side by side, which then meet other banks.
template <typename T>
SOPS_CONSTEXPR int room_of(int size, int threads) {
  constexpr int BANKS = 128 / (int)sizeof(Complex<T>);
  return size + (threads % BANKS + BANKS - size % BANKS) % BANKS;
}

// The smallest distance of rows from `width` on in which COLUMN_THREADS lanes down a column, and as many columns beside
// it as a warp reads at once, meet no bank of shared memory twice.
template <typename T, int COLUMN_THREADS>
SOPS_CONSTEXPR int pitch_of(int width) {
  constexpr int BANKS = 128 / (int)sizeof(Complex<T>), STEP = COLUMN_THREADS < BANKS ? BANKS / COLUMN_THREADS : 1;
  return width + (STEP + BANKS - width % BANKS) % BANKS;
}

// The largest number of groups, up to `most` and in whole warps, in rounds of which `count` transforms are dealt with.
SOPS_CONSTEXPR int at_once(int count, int most, int threads) {
  int found = most;
  while (found > 1 && (count % found != 0 || found * threads % 32 != 0)) --found;
  return found;
}

template <typename T, int THREADS, int ROW_THREADS, typename RowRs, int COLUMN_THREADS, typename ColumnRs, int LAYOUT>
struct Plane {
  using Rows = Fft<T, -1, ROW_THREADS, 1, BLOCKED, RowRs>;
  using RowsBack = Fft<T, 1, ROW_THREADS, 1, BLOCKED, typename Reversed<RowRs>::type>;
  using Columns = Fft<T, -1, COLUMN_THREADS, 1, LAYOUT, ColumnRs>;
  using ColumnsBack = Fft<T, 1, COLUMN_THREADS, 1, LAYOUT, typename Reversed<ColumnRs>::type>;
  static constexpr int W = Rows::N, H = Columns::N, PAIRS_OF_ROWS = H / 2;
  static constexpr int GROUPS = THREADS / ROW_THREADS, COLUMNS_AT_ONCE = THREADS / COLUMN_THREADS;
  static constexpr int AT_ONCE = LAYOUT == PACKED ? at_once(PAIRS_OF_ROWS, GROUPS, ROW_THREADS) : GROUPS;
  static constexpr int ROW_PADDED = larger(Rows::G::padded(), RowsBack::G::padded());
  static constexpr int ROW_ROOM = room_of<T>(ROW_PADDED, ROW_THREADS);
  static constexpr int COLUMN_ROOM =
      room_of<T>(larger(Columns::G::padded(), ColumnsBack::G::padded()), COLUMN_THREADS);
  static_assert(Rows::WITHIN_WARP && Columns::WITHIN_WARP && H % 2 == 0, "warps keep to themselves");
  static_assert(Columns::template by_two<0>(), "a thread must hold both rows of a pair");

  // Two real rows, stored as S, as one complex row, transformed in `room`.
  template <typename S, typename M>
  SOPS_DEVICE static void forward(Complex<T> (&v)[Rows::E], const S* rows, M room, const Complex<T>* table, int t) {
    load_pair<Rows>(v, rows, t);
    Rows::template run<false>(v, room, table, t);
  }
  // Column k of both rows of every pair, each twice, out of columns k and `mirror` of the packed rows; and back.
  template <typename V>
  SOPS_DEVICE static void unpack(Complex<T> (&v)[Columns::E], const Complex<T>* column, int mirror, int t) {
    Columns::template neighbours<0>(t, [&](int slot, int next, int i) {
      const Complex<T> z = column[V::at(i / 2)], m = column[V::at(i / 2) + mirror];
      unpack_pair(z, m, v[slot], v[next]);
    });
  }
  template <typename V>
  SOPS_DEVICE static void pack(const Complex<T> (&v)[ColumnsBack::E], Complex<T>* column, int mirror, bool real, int t) {
    ColumnsBack::template neighbours<ColumnsBack::PASSES - 1>(t, [&](int slot, int next, int i) {
      const Complex<T> a = v[slot], b = v[next];
      Complex<T>* at = column + V::at(i / 2);
      if (real) {
        at[0] = {a.re, b.re};
      } else {
        at[0] = {a.re - b.im, a.im + b.re};
        at[mirror] = {a.re + b.im, b.re - a.im};
      }
    });
  }
};

// Columns k and W - k of the packed rows as the place where column k is exchanged: element i of 16 rows of each.
template <typename T, typename V>
struct InPlace {
  Complex<T>* column;
  int mirror;
  SOPS_DEVICE Complex<T>& operator[](int i) const { return column[V::at(i / 16 * 8 + i % 8) + i / 8 % 2 * mirror]; }
};

// Where the packed rows lie. A window of few wavenumbers has room beside it in which transforms are exchanged. WHOLE rows
// and columns are exchanged in place, columns 0 and W / 2 with help of two columns beside the image; then H must be a
// multiple of 16.
template <typename T, typename P, int KEPT, int COLUMN_THREADS>
struct Window {
  static constexpr bool WHOLE = 2 * KEPT > P::W;
  static constexpr int WIDTH = WHOLE ? P::W : 2 * KEPT;
  static constexpr int PITCH = pitch_of<T, COLUMN_THREADS>(WHOLE ? larger(P::W + 2, P::ROW_PADDED) : WIDTH);
  // A gap after every eight rows, for lanes that are so many apart.
  static constexpr int SKEW = WHOLE ? pitch_of<T, COLUMN_THREADS>(0) : 0;
  static_assert(!WHOLE || (P::H % 16 == 0 && P::PAIRS_OF_ROWS % P::AT_ONCE == 0), "columns are exchanged in place");
  Complex<T>* const rows;

  SOPS_DEVICE static int at(int pair) { return pair * PITCH + pair / 8 * SKEW; }
  SOPS_DEVICE Complex<T>* row(int pair) const { return rows + at(pair); }
  SOPS_DEVICE Complex<T>* row_room(int pair, int group) const {
    if constexpr (WHOLE) return row(pair);
    return rows + at(P::PAIRS_OF_ROWS) + group * P::ROW_ROOM;
  }
  SOPS_DEVICE static bool real(int k) { return k == 0 || 2 * k == P::W; }
  // Distance to the column that column k shares its place with.
  SOPS_DEVICE static int mirror(int k) { return WHOLE && real(k) ? (k == 0 ? P::W : P::W + 1 - k) : WIDTH - 2 * k; }
  SOPS_DEVICE auto column_room(int k, int group) const {
    if constexpr (WHOLE) return InPlace<T, Window>{rows + k, mirror(k)};
    else return rows + at(P::PAIRS_OF_ROWS) + group * P::COLUMN_ROOM;
  }

  // f(wavenumber, whether it is this group's own, number of the group, thread of it) for all KEPT columns. Groups without
  // one of their own do what the last one's does, in a warp where that is computed anyhow.
  template <typename F>
  SOPS_DEVICE static void columns(F&& f) {
    const int t = threadIdx.x % COLUMN_THREADS, group = threadIdx.x / COLUMN_THREADS;
    const int warp = threadIdx.x / 32 * (32 / COLUMN_THREADS);
    for (int first = 0; first + warp < KEPT; first += P::COLUMNS_AT_ONCE) {
      const bool own = first + group < KEPT;
      f(own ? first + group : KEPT - 1, own, group, t);
    }
  }
  // The same for pairs of rows, of `threads` threads.
  template <typename F>
  SOPS_DEVICE static void pairs_of_rows(int threads, F&& f) {
    const int t = threadIdx.x % threads, number = threadIdx.x / threads;
    if (number >= P::AT_ONCE) return;
    // Of rows exchanged in place, those that a warp accesses at once lie four apart, which are half of all banks.
    const int group = WHOLE && P::AT_ONCE % 8 == 0 ? number / 8 * 8 + number % 2 * 4 + number / 2 % 4 : number;
    for (int first = 0; first < P::PAIRS_OF_ROWS; first += P::AT_ONCE) {
      const bool own = P::PAIRS_OF_ROWS % P::AT_ONCE == 0 || first + group < P::PAIRS_OF_ROWS;
      f(own ? first + group : 0, own, group, t);
    }
  }
};

// Images are stored as S.
template <typename S, typename T, int KEPT, int ROW_KEPT, int LOW, int THREADS, int BLOCKS, int ROW_THREADS,
          typename RowRs, int COLUMN_THREADS, typename ColumnRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void planes_forward(const S* __restrict__ x,
                                                                  Complex<T>* spectrum,
                                                                  const Complex<T>* __restrict__ row_table,
                                                                  const Complex<T>* __restrict__ column_table) {
  constexpr int LAYOUT = 2 * KEPT > RowRs::size ? PACKED : BLOCKED;
  using P = Plane<T, THREADS, ROW_THREADS, RowRs, COLUMN_THREADS, ColumnRs, LAYOUT>;
  using V = Window<T, P, KEPT, COLUMN_THREADS>;
  constexpr int W = P::W, H = P::H;
  const V window{shared_memory<T>()};
  ask_for(row_table, RowRs::table(P::Rows::PASSES));
  ask_for(column_table, ColumnRs::table(P::Columns::PASSES));
  x += (index_t)blockIdx.x * (H * W);
  spectrum += (index_t)blockIdx.x * (ROW_KEPT * KEPT);
  V::pairs_of_rows(ROW_THREADS, [&](int pair, bool own, int group, int t) {
    Complex<T> v[P::Rows::E];
    Complex<T>* row = window.row(pair);
    P::forward(v, x + pair * (2 * W), window.row_room(pair, group), anew(row_table), t);
    if constexpr (V::WHOLE) P::Rows::wait();
    if (!own) return;
    P::Rows::template elements<P::Rows::PASSES - 1>(t, [&](int slot, int k) {
      if (V::WHOLE || k < KEPT) row[k] = v[slot];
      if (!V::WHOLE && W - k < KEPT) row[2 * KEPT - (W - k)] = v[slot];
    });
  });
  __syncthreads();
  let_next_begin();
  await_previous();
  V::columns([&](int k, bool own, int group, int t) {
    Complex<T> v[P::Columns::E];
    P::template unpack<V>(v, window.rows + k, V::real(k) ? 0 : V::mirror(k), t);
    P::Columns::template run<false>(v, window.column_room(k, group), anew(column_table), t);
    if (!own) return;
    P::Columns::template elements<P::Columns::PASSES - 1>(t, [&](int slot, int i) {
      const int place = kept<H, ROW_KEPT, LOW>(i);
      if (ROW_KEPT == H || place < ROW_KEPT) spectrum[place * KEPT + k] = v[slot];
    });
  });
}

template <typename S, typename T, int KEPT, int ROW_KEPT, int LOW, int THREADS, int BLOCKS, int ROW_THREADS,
          typename RowRs, int COLUMN_THREADS, typename ColumnRs>
__global__ __launch_bounds__(THREADS, BLOCKS) void planes_inverse(const Complex<T>* spectrum,
                                                                  S* __restrict__ out,
                                                                  const Complex<T>* __restrict__ row_table,
                                                                  const Complex<T>* __restrict__ column_table) {
  constexpr int LAYOUT = 2 * KEPT > RowRs::size ? PACKED : BLOCKED;
  using P = Plane<T, THREADS, ROW_THREADS, RowRs, COLUMN_THREADS, ColumnRs, LAYOUT>;
  using V = Window<T, P, KEPT, COLUMN_THREADS>;
  constexpr int W = P::W, H = P::H;
  const V window{shared_memory<T>()};
  ask_for(row_table, RowRs::table(P::Rows::PASSES));
  ask_for(column_table, ColumnRs::table(P::Columns::PASSES));
  out += (index_t)blockIdx.x * (H * W);
  spectrum = after_previous(spectrum) + (index_t)blockIdx.x * (ROW_KEPT * KEPT);
  V::columns([&](int k, bool own, int group, int t) {
    Complex<T> v[P::ColumnsBack::E];
    P::ColumnsBack::template elements<0>(t, [&](int slot, int i) {
      const int place = kept<H, ROW_KEPT, LOW>(i);
      v[slot] = {0, 0};
      if (ROW_KEPT == H || place < ROW_KEPT) v[slot] = load_past(spectrum + place * KEPT + k);
    });
    P::ColumnsBack::template run<false>(v, window.column_room(k, group), anew(column_table), t);
    if constexpr (V::WHOLE) P::ColumnsBack::wait();
    if (own) P::template pack<V>(v, window.rows + k, V::mirror(k), V::real(k), t);
  });
  __syncthreads();
  V::pairs_of_rows(ROW_THREADS, [&](int pair, bool own, int group, int t) {
    Complex<T> v[P::RowsBack::E];
    const Complex<T>* row = window.row(pair);
    P::RowsBack::template elements<0>(t, [&](int slot, int k) {
      const bool mirrored = 2 * k > W;
      const int low = mirrored ? W - k : k;
      v[slot] = {0, 0};
      if (V::WHOLE || low < KEPT) v[slot] = row[mirrored ? V::WIDTH - low : low];
    });
    P::RowsBack::template run<false>(v, window.row_room(pair, group), anew(row_table), t);
    if (own) store_pair<typename P::RowsBack>(v, out + pair * (2 * W), t);
  });
}

template <typename S, typename T, int THREADS, int BLOCKS, int ROW_THREADS, typename RowRs, int COLUMN_THREADS,
          typename ColumnRs, typename... Factors>
__global__ __launch_bounds__(THREADS, BLOCKS) void planes_filter(const S* __restrict__ x, S* __restrict__ out,
                                                         const Complex<T>* __restrict__ row_table,
                                                         const Complex<T>* __restrict__ column_table,
                                                         FilterArguments arguments) {
  using P = Plane<T, THREADS, ROW_THREADS, RowRs, COLUMN_THREADS, ColumnRs, PACKED>;
  using V = Window<T, P, RowRs::size / 2 + 1, COLUMN_THREADS>;
  constexpr int W = P::W, H = P::H;
  const V window{shared_memory<T>()};
  x += (index_t)blockIdx.x * (H * W);
  out += (index_t)blockIdx.x * (H * W);
  V::pairs_of_rows(ROW_THREADS, [&](int pair, bool, int, int t) {
    Complex<T> v[P::Rows::E];
    Complex<T>* row = window.row(pair);
    P::forward(v, x + pair * (2 * W), row, anew(row_table), t);
    P::Rows::wait();
    P::Rows::template elements<P::Rows::PASSES - 1>(t, [&](int slot, int k) { row[k] = v[slot]; });
  });
  __syncthreads();
  V::columns([&](int k, bool own, int group, int t) {
    Complex<T> v[larger(P::Columns::E, P::ColumnsBack::E)];
    const auto room = window.column_room(k, group);
    const Filter<T, Factors...> filter(arguments, (index_t)blockIdx.x, k);
    P::template unpack<V>(v, window.rows + k, V::real(k) ? 0 : V::mirror(k), t);
    P::Columns::template run<false>(v, room, anew(column_table), t);
    P::Columns::template elements<P::Columns::PASSES - 1>(
        t, [&](int slot, int i) { v[slot] = filter.apply(v[slot], i); });
    P::ColumnsBack::template run<false>(v, room, anew(column_table) + ColumnRs::table(P::Columns::PASSES), t,
                                        (T)arguments.scale);
    P::ColumnsBack::wait();
    if (own) P::template pack<V>(v, window.rows + k, V::mirror(k), V::real(k), t);
  });
  __syncthreads();
  V::pairs_of_rows(ROW_THREADS, [&](int pair, bool, int, int t) {
    Complex<T> v[P::RowsBack::E];
    Complex<T>* row = window.row(pair);
    P::RowsBack::template elements<0>(t, [&](int slot, int k) { v[slot] = row[k]; });
    P::RowsBack::template run<false>(v, row, anew(row_table) + RowRs::table(P::Rows::PASSES), t);
    store_pair<typename P::RowsBack>(v, out + pair * (2 * W), t);
  });
}
