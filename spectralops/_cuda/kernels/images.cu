// Real images that take a cluster of PARTS blocks: both axes in one kernel, so that nothing lies in memory between them.
// Rows 2r and 2r + 1 are one complex row (PAIRS).
//
//   images_forward   x -> wavenumbers        images_inverse   back
//   images_filter    forward * filter * inverse
//
// Block r has pairs r, r + PARTS, ... and COLUMNS neighbouring ones of the columns k < W / 2, each with column W - k, whose
// pieces of all pairs it reads out of the shared memory of the others into registers. Once all have done so, that memory
// is free for exchanges within columns, and then for what comes out of them, which is written back there. Since
// neighbouring threads have neighbouring pairs, all blocks are read from and written to at any time. Columns 0 and W / 2,
// which are real, are one complex column.
#include "cluster.cuh"
#include "fft.cuh"
#include "filter.cuh"
#include "pairs.cuh"
#include "rows.cuh"

template <typename M>
struct Pair {
  M own, mirrored;
};

template <typename S, typename T, int THREADS, int PARTS, int ROWS, int COLUMNS, int ROW_THREADS, typename RowRs,
          int COLUMN_THREADS, typename ColumnRs>
struct Image {
  using Rows = Fft<T, -1, ROW_THREADS, 1, BLOCKED, RowRs>;
  using RowsBack = Fft<T, 1, ROW_THREADS, 1, BLOCKED, typename Reversed<RowRs>::type>;
  using Columns = Fft<T, -1, COLUMN_THREADS, COLUMNS, BLOCKED, ColumnRs>;
  using ColumnsBack = Fft<T, 1, COLUMN_THREADS, COLUMNS, BLOCKED, typename Reversed<ColumnRs>::type>;
  static constexpr int W = Rows::N, H = Columns::N, PAIRS_OF_ROWS = H / 2, HALF = (W + 1) / 2, KEPT = W / 2 + 1;
  static constexpr int ROOM = larger(W, larger(Rows::G::padded(), RowsBack::G::padded()));
  static constexpr int ROW_E = larger(Rows::E, RowsBack::E), COLUMN_E = larger(Columns::E, ColumnsBack::E);
  static_assert(PARTS * ROWS >= PAIRS_OF_ROWS && PARTS * COLUMNS >= HALF && H % 2 == 0, "blocks have all of the image");
  static_assert(Columns::template by_two<0>(), "a thread must hold both rows of a pair");

  const int part = blockIdx.x % PARTS;
  const index_t number = (index_t)blockIdx.x / PARTS;
  Complex<T>* const shared = shared_memory<T>();

  // A thread's pair of rows and its number there. Groups beyond the image do what the first one's does, for nobody.
  const int group = threadIdx.x / ROW_THREADS, row_thread = opaque(threadIdx.x % ROW_THREADS);
  const int own_pair = part + PARTS * group;
  const bool valid = group < ROWS && own_pair < PAIRS_OF_ROWS;
  const int pair = valid ? own_pair : 0;
  Complex<T>* const room = shared + group * ROOM;

  // A thread's column and its number there; columns and threads beyond the last do what that does.
  const int c = threadIdx.x % COLUMNS, own_column = part * COLUMNS + c;
  const int column = own_column < HALF ? own_column : HALF - 1;
  const int column_number = opaque(threadIdx.x / COLUMNS);
  const int column_thread = column_number < COLUMN_THREADS ? column_number : COLUMN_THREADS - 1;
  // Whether it holds columns 0 and W / 2.
  const bool both = W % 2 == 0 && column == 0;

  SOPS_DEVICE void rows_forward(const S* __restrict__ x, const Complex<T>* table) const {
    Complex<T> v[ROW_E];
    load_pair<Rows>(v, x + (number * PAIRS_OF_ROWS + pair) * (2 * W), row_thread);
    Rows::template run<true>(v, room, table, row_thread);
    Rows::wait();
    Rows::template elements<Rows::PASSES - 1>(row_thread, [&](int slot, int k) { room[k] = v[slot]; });
  }

  // The packed row of a pair, wherever it is, and the column beside a thread's own.
  SOPS_DEVICE Complex<T>* row(int number) const { return of_block(shared + number / PARTS * ROOM, number % PARTS); }
  const int beside = column > 0 ? W - column : W % 2 == 0 ? W / 2 : 0;

  // Columns of both rows of every pair, each twice.
  SOPS_DEVICE void collect_columns(Complex<T> (&v)[COLUMN_E]) const {
    Columns::template neighbours<0>(column_thread, [&](int slot, int next, int i) {
      const Complex<T>* row = this->row(i / 2);
      const Complex<T> z = row[column], m = row[beside];
      v[slot] = {z.re + (both ? z.re : m.re), both ? 2 * m.re : z.im - m.im};
      v[next] = {z.im + (both ? z.im : m.im), both ? 2 * m.im : m.re - z.re};
    });
  }
  // And back, once nobody needs the memory any more.
  SOPS_DEVICE void return_columns(const Complex<T> (&v)[COLUMN_E]) const {
    cluster_wait();
    ColumnsBack::template neighbours<ColumnsBack::PASSES - 1>(column_thread, [&](int slot, int next, int i) {
      Complex<T>* row = this->row(i / 2);
      const Complex<T> a = v[slot], b = v[next];
      const bool real = column == 0;
      row[column] = {real ? a.re : a.re - b.im, real ? b.re : a.im + b.re};
      if (W % 2 == 0 || !real) row[beside] = {real ? a.im : a.re + b.im, real ? b.im : b.re - a.im};
    });
    cluster_wait();
  }

  SOPS_DEVICE void rows_back(S* __restrict__ out, const Complex<T>* table) const {
    Complex<T> v[ROW_E];
    RowsBack::template elements<0>(row_thread, [&](int slot, int k) { v[slot] = room[k]; });
    RowsBack::template run<false>(v, room, table, row_thread);
    if (valid) store_pair<RowsBack>(v, out + (number * PAIRS_OF_ROWS + pair) * (2 * W), row_thread);
  }

  // Whether this block has columns 0 and W / 2. What is done about them, all of its threads do; the factors for them lie
  // behind the image.
  const bool special = W % 2 == 0 && part == 0;
  static constexpr int SHARE = (H + PARTS - 1) / PARTS, GROUPS = THREADS / ROW_THREADS;
  static constexpr int EXCHANGE = COLUMNS * larger(Columns::G::padded(), ColumnsBack::G::padded());
  static constexpr int BEHIND = larger(GROUPS * ROOM, EXCHANGE);
  static_assert(SHARE <= THREADS && COLUMNS > 1, "a thread computes one of a block's share, with room for a copy");

  SOPS_DEVICE static int back(int k) { return k == 0 ? 0 : H - k; }
  template <typename F>
  SOPS_DEVICE static void wavenumbers(F&& f) {
#pragma unroll 1
    for (int k = threadIdx.x; k < H; k += THREADS) f(k);
  }
  // Columns 0 and W / 2 from their thread's registers to where all threads find them.
  SOPS_DEVICE void share(const Complex<T> (&v)[COLUMN_E]) const {
    if (!special) return;
    Columns::wait();
    if (c == 0) {
      Columns::template elements<Columns::PASSES - 1>(column_thread,
                                                      [&](int slot, int k) { shared[k * COLUMNS] = v[slot]; });
    }
    Columns::wait();
  }

  // What these columns are multiplied by, themselves and mirrored: H_k and conj(H_-k) of a real column mean their mean.
  // Every block computes it for some wavenumbers, while it waits for others, for the block that has the columns.
  template <typename M, typename F>
  SOPS_DEVICE void mean_factors(F&& factor) const {
    const int k = part * SHARE + threadIdx.x;
    const bool own = W % 2 == 0 && threadIdx.x < SHARE && k < H;
    Pair<M> pair;
    cluster_arrive();
    if (own) {
      const auto first = factor(0), second = factor(W / 2);
      const M a = first.at(k) + conj(first.at(back(k))), b = second.at(k) + conj(second.at(back(k)));
      pair = {times(a + b, (T)0.25), times(a - b, (T)0.25)};
    }
    cluster_join();
    if (own) of_block((Pair<M>*)(shared + BEHIND) + k, 0)[0] = pair;
  }
  // Some values of the filter at a time, whose loads then do not wait for one another.
  template <typename M, typename F>
  SOPS_DEVICE void apply(Complex<T> (&v)[COLUMN_E], const F& filter) const {
    constexpr int LAST = Columns::PASSES - 1, BATCH = (Columns::E * 2 + (int)sizeof(T) - 1) / (int)sizeof(T);
#pragma unroll
    for (int begin = 0; begin < Columns::E; begin += BATCH) {
      M h[BATCH];
      Columns::template elements<LAST>(column_thread, [&](int slot, int k) {
        if (slot >= begin && slot < begin + BATCH) h[slot - begin] = filter.at(k);
      });
      if (begin == 0) share(v);
      Columns::template elements<LAST>(column_thread, [&](int slot, int) {
        if (slot >= begin && slot < begin + BATCH) v[slot] = times(v[slot], h[slot - begin]);
      });
    }
    if (!special) return;
    const Pair<M>* pairs = (const Pair<M>*)(shared + BEHIND);
    wavenumbers([&](int k) {
      const Pair<M> pair = pairs[k];
      const Complex<T> own = shared[k * COLUMNS], mirrored = conj(shared[back(k) * COLUMNS]);
      shared[k * COLUMNS + 1] = times(own, pair.own) + times(mirrored, pair.mirrored);
    });
    Columns::wait();
    if (c == 0) {
      Columns::template elements<LAST>(column_thread, [&](int slot, int k) { v[slot] = shared[k * COLUMNS + 1]; });
    }
  }
};

template <typename S, typename T, int BLOCKS, int THREADS, int PARTS, int ROWS, int COLUMNS, int ROW_THREADS,
          typename RowRs, int COLUMN_THREADS, typename ColumnRs, typename... Factors>
__global__ SOPS_CLUSTER(PARTS) __launch_bounds__(THREADS, BLOCKS) void images_filter(
    const S* __restrict__ x, S* __restrict__ out, const Complex<T>* __restrict__ row_table,
    const Complex<T>* __restrict__ column_table, FilterArguments arguments) {
  using I = Image<S, T, THREADS, PARTS, ROWS, COLUMNS, ROW_THREADS, RowRs, COLUMN_THREADS, ColumnRs>;
  using C = typename I::Columns;
  const I image{};
  Complex<T>* exchange = image.shared + image.c;
  using M = decltype(Filter<T, Factors...>(arguments, 0, 0).at(0));
  image.rows_forward(x, row_table);
  image.template mean_factors<M>([&](int k) { return Filter<T, Factors...>(arguments, image.number, k); });
  {
    Complex<T> v[I::COLUMN_E];
    image.collect_columns(v);
    cluster_wait();
    C::template run<true>(v, exchange, column_table, image.column_thread);
    image.template apply<M>(v, Filter<T, Factors...>(arguments, image.number, image.column));
    I::ColumnsBack::template run<false>(v, exchange, column_table + ColumnRs::table(C::PASSES), image.column_thread,
                                        (T)arguments.scale);
    image.return_columns(v);
  }
  image.rows_back(out, row_table + RowRs::table(I::Rows::PASSES));
}

// KEPT wavenumbers of a row lie side by side.
template <typename S, typename T, int BLOCKS, int THREADS, int PARTS, int ROWS, int COLUMNS, int ROW_THREADS,
          typename RowRs, int COLUMN_THREADS, typename ColumnRs>
__global__ SOPS_CLUSTER(PARTS) __launch_bounds__(THREADS, BLOCKS) void images_forward(
    const S* __restrict__ x, Complex<T>* __restrict__ spectrum, const Complex<T>* __restrict__ row_table,
    const Complex<T>* __restrict__ column_table) {
  using I = Image<S, T, THREADS, PARTS, ROWS, COLUMNS, ROW_THREADS, RowRs, COLUMN_THREADS, ColumnRs>;
  using C = typename I::Columns;
  const I image{};
  image.rows_forward(x, row_table);
  cluster_wait();
  Complex<T> v[I::COLUMN_E];
  image.collect_columns(v);
  cluster_wait();
  C::template run<true>(v, image.shared + image.c, column_table, image.column_thread);
  image.share(v);
  spectrum += image.number * (I::H * I::KEPT);
  if (!image.both) {
    C::template elements<C::PASSES - 1>(image.column_thread,
                                        [&](int slot, int k) { spectrum[k * I::KEPT + image.column] = v[slot]; });
  }
  if (image.special) {
    I::wavenumbers([&](int k) {
      const Complex<T> z = image.shared[k * COLUMNS], m = image.shared[I::back(k) * COLUMNS];
      spectrum[k * I::KEPT] = {(z.re + m.re) / 2, (z.im - m.im) / 2};
      spectrum[k * I::KEPT + I::W / 2] = {(z.im + m.im) / 2, (m.re - z.re) / 2};
    });
  }
}

template <typename S, typename T, int BLOCKS, int THREADS, int PARTS, int ROWS, int COLUMNS, int ROW_THREADS,
          typename RowRs, int COLUMN_THREADS, typename ColumnRs>
__global__ SOPS_CLUSTER(PARTS) __launch_bounds__(THREADS, BLOCKS) void images_inverse(
    const Complex<T>* __restrict__ spectrum, S* __restrict__ out, const Complex<T>* __restrict__ row_table,
    const Complex<T>* __restrict__ column_table) {
  using I = Image<S, T, THREADS, PARTS, ROWS, COLUMNS, ROW_THREADS, RowRs, COLUMN_THREADS, ColumnRs>;
  using C = typename I::ColumnsBack;
  const I image{};
  {
    Complex<T> v[I::COLUMN_E];
    spectrum += image.number * (I::H * I::KEPT);
    C::template elements<0>(image.column_thread, [&](int slot, int k) {
      v[slot] = load_past(spectrum + k * I::KEPT + image.column);
    });
    if (image.special) {  // of real columns, wavenumbers k and -k mean their mean
      I::wavenumbers([&](int k) {
        const Complex<T>*own = spectrum + k * I::KEPT, *back = spectrum + I::back(k) * I::KEPT;
        const Complex<T> a = load_past(own), b = load_past(back);
        const Complex<T> e = load_past(own + I::W / 2), f = load_past(back + I::W / 2);
        image.shared[k * COLUMNS] = {(a.re + b.re - e.im + f.im) / 2, (a.im - b.im + e.re + f.re) / 2};
      });
      C::wait();
      if (image.c == 0) {
        C::template elements<0>(image.column_thread, [&](int slot, int k) { v[slot] = image.shared[k * COLUMNS]; });
      }
    }
    C::template run<false>(v, image.shared + image.c, column_table, image.column_thread);
    image.return_columns(v);
  }
  image.rows_back(out, row_table);
}
