// Several steps of a linear stencil of width 1, or of Burgers' equation, in one pass over memory.
//
// A warp owns a strip of 32 * V columns and marches along axis 0. For each of LEVELS time levels it keeps the last
// three rows in registers, of which the one in the middle yields a row of the level above. What lies
// within LEVELS cells of a strip's edge both neighbours compute, so that no warp waits for another. Neighbouring columns
// come from the next lane; in three dimensions, rows of other warps come through shared memory.
#include "march.cuh"

// One dimension: rows that know nothing of one another, all levels of a strip at once.
template <typename T, int V, int WARPS, int LEVELS, bool ALIGNED, bool WALLS, class RULE, typename S = T, typename O = T>
__global__ void __launch_bounds__(32 * WARPS) march_line(const S* __restrict__ u, O* __restrict__ out, int levels,
                                                         Grid<T, 1> p, Values<T, 1> values,
                                                         const Values<T, 1>* __restrict__ table) {
  constexpr int HALO = (LEVELS + V - 1) / V * V;
  const index_t stride = (index_t)gridDim.x * WARPS;
  for (index_t unit = (index_t)blockIdx.x * WARPS + warp_of_block(); unit < p.units; unit += stride) {
    const index_t row = unit / p.strips;
    const Values<T, 1> own = values_of<RULE>(values, table, row);
    const auto columns = Columns<V, ALIGNED>::of(p, unit - row * p.strips, HALO);
    Cells<T, V> cells = columns.load(u + row * p.n[0]);
    for (int level = 0; level < levels; ++level) {
      Cells<T, V> next, west, east;
      beside<WALLS>(cells, west, east, columns, p);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const T low[1] = {west.x[k]}, high[1] = {east.x[k]};
        next.x[k] = stepped<RULE>(cells.x[k], low, high, own);
      }
      hold_columns<WALLS>(cells, next, columns, p);
      cells = next;
    }
    columns.store(out + row * p.n[0], cells, p.n[0]);
  }
}

// One strip of one plane, rows [first, last). Turn i reads row i into level 0; each level has its last three rows and
// completes the row in the middle for the level above. The turns of the three slots are unrolled, so that a row stays in
// its registers until it is overwritten.
template <typename T, int V, int LEVELS, int AHEAD, bool ALIGNED, bool WALLS, class RULE, typename S, typename O>
SOPS_DEVICE void march_strip(const S* u, O* out, const Grid<T, 2>& p, const Values<T, 2>& values, index_t first,
                             index_t last, const Columns<V, ALIGNED>& columns) {
  Cells<T, V> rows[LEVELS][3] = {};
  Stored<S, V, ALIGNED> ahead[AHEAD];
  const index_t start = first - LEVELS;
  Slices<S> slices(u, p, start);
#pragma unroll
  for (int k = 0; k < AHEAD; ++k) ahead[k] = columns.load(slices.next());
  for (index_t base = start; base < last + 2 * LEVELS; base += 3 * AHEAD) {
#pragma unroll
    for (int k = 0; k < 3 * AHEAD; ++k) {
      const index_t turn = base + k;
#pragma unroll
      for (int level = LEVELS - 1; level >= 0; --level) {
        const Cells<T, V>& centre = rows[level][(k + 1) % 3];
        const index_t row = turn - 2 * (level + 1);
        Cells<T, V> north = rows[level][k % 3], south = rows[level][(k + 2) % 3], west, east, next;
        across<WALLS, 0>(centre, north, south, row, p);
        beside<WALLS>(centre, west, east, columns, p);
#pragma unroll
        for (int j = 0; j < V; ++j) {
          const T low[2] = {north.x[j], west.x[j]}, high[2] = {south.x[j], east.x[j]};
          next.x[j] = stepped<RULE>(centre.x[j], low, high, values);
        }
        hold<WALLS, 0>(centre, next, row, p);
        hold_columns<WALLS>(centre, next, columns, p);
        if (level < LEVELS - 1) {
          rows[level + 1 < LEVELS ? level + 1 : 0][k % 3] = next;
        } else if (row >= first && row < last) {
          columns.store(out + row * p.n[1], next, p.n[1]);
        }
      }
      rows[0][k % 3] = ahead[k % AHEAD];
      ahead[k % AHEAD] = columns.load(slices.next());
    }
  }
}

// `passes` passes of LEVELS steps each, all blocks waiting for one another in between: from u to out and spare by turns,
// so that the last one ends in out. There is one where u or out is not of the type of the arithmetic.
template <typename T, int V, int WARPS, int LEVELS, int AHEAD, bool ALIGNED, bool WALLS, class RULE, typename S = T,
          typename O = T>
__global__ void __launch_bounds__(32 * WARPS) march_plane(const S* u, O* out, O* spare, unsigned* arrived, int passes,
                                                          Grid<T, 2> p, Values<T, 2> values,
                                                          const Values<T, 2>* __restrict__ table) {
  constexpr int HALO = (LEVELS + V - 1) / V * V, KEPT = 32 * V - 2 * HALO;
  const index_t stride = (index_t)gridDim.x * WARPS;
  for (int pass = 0; pass < passes; ++pass) {
    O* const target = (passes - pass) % 2 ? out : spare;
    for (index_t unit = (index_t)blockIdx.x * WARPS + warp_of_block(); unit < p.units; unit += stride) {
      const index_t band = unit / p.strips, strip = unit - band * p.strips;
      const index_t grid = band / p.chunks, first = (band - grid * p.chunks) * p.height;
      const index_t last = min(first + p.height, p.n[0]);
      const auto columns = Columns<V, ALIGNED>::of(p, strip, HALO);
      const Values<T, 2> own = values_of<RULE>(values, table, grid);
      const S* const from = u + grid * p.cells();
      O* const to = target + grid * p.cells();
      const bool walls = WALLS && ((!p.wraps[0] && (first <= LEVELS || last + LEVELS >= p.n[0])) ||
                                   (!p.wraps[1] && (strip == 0 || (strip + 1) * KEPT + HALO >= p.n[1])));
      if (WALLS && walls)
        march_strip<T, V, LEVELS, AHEAD, ALIGNED, WALLS, RULE>(from, to, p, own, first, last, columns);
      else
        march_strip<T, V, LEVELS, AHEAD, ALIGNED, false, RULE>(from, to, p, own, first, last, columns);
    }
    if constexpr (Equal<S, T>::value && Equal<O, T>::value) {
      u = target;
      if (pass + 1 < passes) wait_for_grid(arrived, (pass + 1) * gridDim.x);
    }
  }
}

// One step of planes: a warp reads R + 2 whole rows of 32 * V columns at once, so that all its reads are under way
// together; the warps of a block lie below one another and share rows through the first-level cache.
template <typename T, int V, int R, bool ALIGNED, bool WALLS, class RULE, typename S, typename O>
SOPS_DEVICE void sweep_rows(const S* u, O* out, const Grid<T, 2>& p, const Values<T, 2>& values, index_t first,
                            const Columns<V, ALIGNED>& columns) {
  const int lane = threadIdx.x % 32;
  const index_t n = p.n[1];
  // The first lane has no neighbour to the west of it, the last one none to the east.
  const index_t beyond = p.read(1, lane == 0 ? columns.first - 1 : columns.first + V);
  Stored<S, V, ALIGNED> rows[R + 2];
  S edge[R];
  Slices<S> slices(u, p, first - 1);
#pragma unroll
  for (int r = 0; r < R + 2; ++r) {
    const S* const row = slices.next();
    rows[r] = columns.template load<true>(row);
    if (r > 0 && r < R + 1) edge[r - 1] = lane == 0 || lane == 31 ? row[beyond] : S{};
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const Cells<T, V> centre = rows[r + 1];
    Cells<T, V> north = rows[r], south = rows[r + 2], west, east, next;
    across<WALLS, 0>(centre, north, south, first + r, p);
    beside(centre, west, east);
    if (lane == 0) west.x[0] = to_number(edge[r]);
    if (lane == 31) east.x[V - 1] = to_number(edge[r]);
    walls_beside<WALLS>(centre, west, east, columns, p);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const T low[2] = {north.x[j], west.x[j]}, high[2] = {south.x[j], east.x[j]};
      next.x[j] = stepped<RULE>(centre.x[j], low, high, values);
    }
    hold<WALLS, 0>(centre, next, first + r, p);
    hold_columns<WALLS>(centre, next, columns, p);
    if (first + r < p.n[0]) columns.store(out + (first + r) * n, next, n);
  }
}

// A step waits for memory, so that registers must not keep warps away: so many are wanted on a multiprocessor, as many as
// there are without anything spilled. Beside walls a warp takes a row at a time where it would need more registers.
template <typename T, int V, bool ALIGNED>
SOPS_CONSTEXPR bool few_registers() {
  return ALIGNED && V == 4 && sizeof(T) == 4;
}
template <typename T, int V, bool ALIGNED, typename S>
SOPS_CONSTEXPR int wanted_warps() {
  return few_registers<T, V, ALIGNED>() ? 64 : ALIGNED || sizeof(S) == 4 ? 40 : 32;
}

template <typename T, int V, int WARPS, int R, bool ALIGNED, bool WALLS, class RULE, typename S = T, typename O = T>
__global__ void __launch_bounds__(32 * WARPS, wanted_warps<T, V, ALIGNED, S>() / WARPS)
    sweep_plane(const S* __restrict__ u, O* __restrict__ out, Grid<T, 2> p, Values<T, 2> values,
                const Values<T, 2>* __restrict__ table) {
  constexpr int ROWS = few_registers<T, V, ALIGNED>() ? R : 1;
  const int warp = warp_of_block();
  for (index_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    const index_t band = unit / p.strips, strip = unit - band * p.strips;
    const index_t grid = band / p.chunks, first = (band - grid * p.chunks) * (WARPS * R) + warp * R;
    if (first >= p.n[0]) continue;
    const Values<T, 2> own = values_of<RULE>(values, table, grid);
    const auto columns = Columns<V, ALIGNED>::of(p, strip, 0);
    const S* const from = u + grid * p.cells();
    O* const to = out + grid * p.cells();
    const bool walls = WALLS && ((!p.wraps[0] && (first == 0 || first + R >= p.n[0])) ||
                                 (!p.wraps[1] && (strip == 0 || (strip + 1) * (32 * V) >= p.n[1])));
    if (WALLS && walls) {
#pragma unroll 1
      for (int r = 0; r < R && first + r < p.n[0]; r += ROWS)
        sweep_rows<T, V, ROWS, ALIGNED, WALLS, RULE>(from, to, p, own, first + r, columns);
    } else {
      sweep_rows<T, V, R, ALIGNED, false, RULE>(from, to, p, own, first, columns);
    }
  }
}

// One step of volumes: a warp marches along axis 0 with three slices of R rows of 32 * V columns in registers. It reads
// the rows beside them too, as soon as a slice: the warps of a block lie below one another and share rows through the
// first-level cache.
template <typename T, int V, int R, bool ALIGNED, bool WALLS, class RULE, typename S, typename O>
SOPS_DEVICE void sweep_slices(const S* u, O* out, const Grid<T, 3>& p, const Values<T, 3>& values, index_t first,
                              index_t last, index_t top, const Columns<V, ALIGNED>& columns) {
  const int lane = threadIdx.x % 32;
  const index_t n = p.n[2], plane = p.n[1] * n;
  // The first lane has no neighbour to the west of it, the last one none to the east.
  const index_t beyond = p.read(2, lane == 0 ? columns.first - 1 : columns.first + V);
  index_t rows[R + 2];
#pragma unroll
  for (int r = 0; r < R + 2; ++r) rows[r] = p.read(1, top + r - 1) * n;
  Cells<T, V> before[R], here[R + 2], after[R + 2];
  T edge[R], edge_after[R];
  Slices<S> slices(u, p, first - 1);
  const auto read = [&](Cells<T, V>(&cells)[R + 2], T(&ends)[R]) {
    const S* const slice = slices.next();
    Stored<S, V, ALIGNED> stored[R + 2];
    S beside[R];
#pragma unroll
    for (int r = 0; r < R + 2; ++r) {
      stored[r] = columns.template load<true>(slice + rows[r]);
      if (r > 0 && r < R + 1) beside[r - 1] = lane == 0 || lane == 31 ? slice[rows[r] + beyond] : S{};
    }
#pragma unroll
    for (int r = 0; r < R + 2; ++r) cells[r] = stored[r];
#pragma unroll
    for (int r = 0; r < R; ++r) ends[r] = to_number(beside[r]);
  };
  read(after, edge_after);
#pragma unroll
  for (int r = 0; r < R; ++r) before[r] = after[r + 1];
  read(here, edge);
  for (index_t i = first; i < last; ++i) {
    read(after, edge_after);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Cells<T, V>& centre = here[r + 1];
      Cells<T, V> below = before[r], above = after[r + 1], north = here[r], south = here[r + 2], west, east, next;
      across<WALLS, 0>(centre, below, above, i, p);
      across<WALLS, 1>(centre, north, south, top + r, p);
      beside(centre, west, east);
      if (lane == 0) west.x[0] = edge[r];
      if (lane == 31) east.x[V - 1] = edge[r];
      walls_beside<WALLS>(centre, west, east, columns, p);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const T low[3] = {below.x[j], north.x[j], west.x[j]}, high[3] = {above.x[j], south.x[j], east.x[j]};
        next.x[j] = stepped<RULE>(centre.x[j], low, high, values);
      }
      hold<WALLS, 0>(centre, next, i, p);
      hold<WALLS, 1>(centre, next, top + r, p);
      hold_columns<WALLS>(centre, next, columns, p);
      if (top + r < p.n[1]) columns.store(out + i * plane + (top + r) * n, next, n);
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      before[r] = here[r + 1];
      edge[r] = edge_after[r];
    }
#pragma unroll
    for (int r = 0; r < R + 2; ++r) here[r] = after[r];
  }
}

template <typename T, int V, int WARPS, int R, bool ALIGNED, bool WALLS, class RULE, typename S = T, typename O = T>
__global__ void __launch_bounds__(32 * WARPS) sweep_volume(const S* __restrict__ u, O* __restrict__ out, Grid<T, 3> p,
                                                           Values<T, 3> values,
                                                           const Values<T, 3>* __restrict__ table) {
  const int warp = warp_of_block();
  for (index_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    index_t rest = unit / p.strips;
    const index_t strip = unit - rest * p.strips, tile = rest % p.tiles;
    rest /= p.tiles;
    const index_t grid = rest / p.chunks, first = (rest - grid * p.chunks) * p.height;
    const index_t last = min(first + p.height, p.n[0]), top = tile * (WARPS * R) + warp * R;
    if (top >= p.n[1]) continue;
    const Values<T, 3> own = values_of<RULE>(values, table, grid);
    const auto columns = Columns<V, ALIGNED>::of(p, strip, 0);
    const S* const from = u + grid * p.cells();
    O* const to = out + grid * p.cells();
    const bool walls = WALLS && ((!p.wraps[0] && (first == 0 || last == p.n[0])) ||
                                 (!p.wraps[1] && (top == 0 || top + R >= p.n[1])) ||
                                 (!p.wraps[2] && (strip == 0 || (strip + 1) * (32 * V) >= p.n[2])));
    if (WALLS && walls)
      sweep_slices<T, V, R, ALIGNED, WALLS, RULE>(from, to, p, own, first, last, top, columns);
    else
      sweep_slices<T, V, R, ALIGNED, false, RULE>(from, to, p, own, first, last, top, columns);
  }
}

// Three dimensions: a block owns a tile of WARPS * R rows by a strip of columns and marches along axis 0.
template <typename T, int V, int R, int WARPS, int LEVELS, int AHEAD, bool ALIGNED, bool WALLS, class RULE, typename S,
          typename O>
SOPS_DEVICE void march_tile(const S* u, O* out, const Grid<T, 3>& p, const Values<T, 3>& values, index_t first,
                            index_t last, index_t top, const Columns<V, ALIGNED>& columns, T* shared) {
  static_assert(6 % AHEAD == 0, "six turns are unrolled");
  const int lane = threadIdx.x % 32, warp = warp_of_block();
  const index_t plane = p.n[1] * p.n[2];
  Cells<T, V> slices[LEVELS][3][R] = {};
  Stored<S, V, ALIGNED> ahead[AHEAD][R];
  index_t rows[R];
#pragma unroll
  for (int r = 0; r < R; ++r) rows[r] = p.read(1, top + warp * R + r) * p.n[2];
  Slices<S> source(u, p, first - LEVELS);
#pragma unroll
  for (int k = 0; k < AHEAD; ++k) {
    const S* const from = source.next();
#pragma unroll
    for (int r = 0; r < R; ++r) ahead[k][r] = columns.load(from + rows[r]);
  }
  // The first and the last row of each warp, for each level and parity.
  const auto edge = [&](int parity, int level, int of, int side) {
    return shared + (((parity * LEVELS + level) * WARPS + of) * 2 + side) * (32 * V) + lane * V;
  };
  for (index_t base = first - LEVELS; base < last + 2 * LEVELS; base += 6) {
#pragma unroll
    for (int k = 0; k < 6; ++k) {
      const index_t turn = base + k;
#pragma unroll
      for (int level = 0; level < LEVELS; ++level) {
        store_vector<V>(edge(k % 2, level, warp, 0), slices[level][(k + 1) % 3][0]);
        store_vector<V>(edge(k % 2, level, warp, 1), slices[level][(k + 1) % 3][R - 1]);
      }
      __syncthreads();
#pragma unroll
      for (int level = LEVELS - 1; level >= 0; --level) {
        const index_t slice = turn - 2 * (level + 1);
        const Cells<T, V>(&centre)[R] = slices[level][(k + 1) % 3];
        Cells<T, V> above, below, next[R];
        read_shared<T, V>(edge(k % 2, level, warp > 0 ? warp - 1 : 0, 1), above);
        read_shared<T, V>(edge(k % 2, level, warp < WARPS - 1 ? warp + 1 : warp, 0), below);
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const index_t row = top + warp * R + r;
          Cells<T, V> west, east, north = r > 0 ? centre[r > 0 ? r - 1 : 0] : above;
          Cells<T, V> south = r < R - 1 ? centre[r < R - 1 ? r + 1 : r] : below;
          Cells<T, V> before = slices[level][k % 3][r], after = slices[level][(k + 2) % 3][r];
          across<WALLS, 0>(centre[r], before, after, slice, p);
          across<WALLS, 1>(centre[r], north, south, row, p);
          beside<WALLS>(centre[r], west, east, columns, p);
#pragma unroll
          for (int j = 0; j < V; ++j) {
            const T low[3] = {before.x[j], north.x[j], west.x[j]}, high[3] = {after.x[j], south.x[j], east.x[j]};
            next[r].x[j] = stepped<RULE>(centre[r].x[j], low, high, values);
          }
          hold<WALLS, 0>(centre[r], next[r], slice, p);
          hold<WALLS, 1>(centre[r], next[r], row, p);
          hold_columns<WALLS>(centre[r], next[r], columns, p);
        }
        if (level < LEVELS - 1) {
#pragma unroll
          for (int r = 0; r < R; ++r) slices[level + 1 < LEVELS ? level + 1 : 0][k % 3][r] = next[r];
        } else if (slice >= first && slice < last) {
#pragma unroll
          for (int r = 0; r < R; ++r) {
            const int row = warp * R + r;
            if (row >= LEVELS && row < WARPS * R - LEVELS && top + row < p.n[1])
              columns.store(out + slice * plane + (top + row) * p.n[2], next[r], p.n[2]);
          }
        }
      }
      const S* const from = source.next();
#pragma unroll
      for (int r = 0; r < R; ++r) {
        slices[0][k % 3][r] = ahead[k % AHEAD][r];
        ahead[k % AHEAD][r] = columns.load(from + rows[r]);
      }
    }
  }
  __syncthreads();
}

template <typename T, int V, int R, int WARPS, int LEVELS, int AHEAD, bool ALIGNED, bool WALLS, class RULE,
          typename S = T, typename O = T>
__global__ void __launch_bounds__(32 * WARPS) march_volume(const S* __restrict__ u, O* __restrict__ out, Grid<T, 3> p,
                                                           Values<T, 3> values,
                                                           const Values<T, 3>* __restrict__ table) {
  constexpr int HALO = (LEVELS + V - 1) / V * V, KEPT = 32 * V - 2 * HALO, TALL = WARPS * R - 2 * LEVELS;
  extern __shared__ __align__(16) unsigned char raw[];
  T* const shared = (T*)raw;
  for (index_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    index_t rest = unit / p.strips;
    const index_t strip = unit - rest * p.strips, tile = rest % p.tiles;
    rest /= p.tiles;
    const index_t grid = rest / p.chunks, first = (rest - grid * p.chunks) * p.height;
    const index_t last = min(first + p.height, p.n[0]), top = tile * TALL - LEVELS;
    const Values<T, 3> own = values_of<RULE>(values, table, grid);
    const auto columns = Columns<V, ALIGNED>::of(p, strip, HALO);
    const S* const from = u + grid * p.cells();
    O* const to = out + grid * p.cells();
    const bool walls = WALLS && ((!p.wraps[0] && (first <= LEVELS || last + LEVELS >= p.n[0])) ||
                                 (!p.wraps[1] && (tile == 0 || top + WARPS * R >= p.n[1])) ||
                                 (!p.wraps[2] && (strip == 0 || (strip + 1) * KEPT + HALO >= p.n[2])));
    if (WALLS && walls)
      march_tile<T, V, R, WARPS, LEVELS, AHEAD, ALIGNED, WALLS, RULE>(from, to, p, own, first, last, top, columns, shared);
    else
      march_tile<T, V, R, WARPS, LEVELS, AHEAD, ALIGNED, false, RULE>(from, to, p, own, first, last, top, columns, shared);
  }
}
