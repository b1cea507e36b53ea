// Several time steps of a linear stencil of width 1, and of Burgers' equation, in one pass over memory.
//
// A warp owns a strip of 32 * V columns and marches along the rows. For each of LEVELS time levels it keeps the last
// two rows in registers: the row that arrives from the level below completes the next row of the level above. What lies
// within LEVELS cells of a strip's edge is computed by both neighbours, so that no warp waits for another. Neighbouring
// columns come from the next lane.
#include "march.cuh"

// Where a thread's columns lie in memory, and which of them it stores.
template <int V, bool ALIGNED>
struct Columns {
  index_t first;              // column of the first of the V cells, may lie beyond the grid
  index_t from[ALIGNED ? 1 : V];  // where they are read, around or at the end where they lie beyond
  bool stores;
};

template <typename T, int V, bool ALIGNED>
SOPS_DEVICE Cells<T, V> load_row(const T* row, const Columns<V, ALIGNED>& columns) {
  Cells<T, V> cells;
  if constexpr (ALIGNED) {
    load_vector<T, V>(row + columns.from[0], cells);
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j) cells.x[j] = load_number(row + columns.from[j]);
  }
  return cells;
}

template <typename T, int V, bool ALIGNED>
SOPS_DEVICE void store_row(T* row, const Columns<V, ALIGNED>& columns, const Cells<T, V>& cells, index_t n) {
  if (!columns.stores) return;
  if constexpr (ALIGNED) {
    if (columns.first < n) store_vector<T, V>(row + columns.first, cells);
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (columns.first + j < n) row[columns.first + j] = cells.x[j];
  }
}

// One strip of one grid, rows [first, last), LEVELS steps.
template <typename T, int V, int LEVELS, int AHEAD, bool ALIGNED, bool WALLS, class RULE>
SOPS_DEVICE void march(const T* u, T* out, const Plane<T>& p, const Values<T, 2>& values, index_t first, index_t last,
                       const Columns<V, ALIGNED>& columns) {
  constexpr int UNROLL = AHEAD > 2 ? AHEAD : 2;
  Cells<T, V> ring[LEVELS][2] = {}, ahead[AHEAD];
  const index_t start = first - LEVELS;
#pragma unroll
  for (int k = 0; k < AHEAD; ++k) ahead[k] = load_row<T, V, ALIGNED>(u + p.row(start + k) * p.n1, columns);
  for (index_t base = start; base < last + LEVELS; base += UNROLL) {
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) {
      const index_t row = base + k;
      Cells<T, V> cells = ahead[k % AHEAD];
      ahead[k % AHEAD] = load_row<T, V, ALIGNED>(u + p.row(row + AHEAD) * p.n1, columns);
#pragma unroll
      for (int level = 0; level < LEVELS; ++level) {
        Cells<T, V>& north = ring[level][k & 1];
        const Cells<T, V>& centre = ring[level][1 - (k & 1)];
        const Cells<T, V> next = plane_step<T, V, WALLS, RULE>(north, centre, cells, row - level - 1, columns.first, p, values);
        north = cells;
        cells = next;
      }
      const index_t done = row - LEVELS;
      if (done >= first && done < last) store_row<T, V, ALIGNED>(out + done * p.n1, columns, cells, p.n1);
    }
  }
}

template <typename T, int V, int LEVELS, int AHEAD, bool ALIGNED, bool WALLS, class RULE>
SOPS_DEVICE void march_pass(const T* u, T* out, const Plane<T>& p, const Values<T, 2>& values) {
  constexpr int HALO = (LEVELS + V - 1) / V * V, KEPT = 32 * V - 2 * HALO;
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const index_t stride = (index_t)gridDim.x * warps;
  for (index_t unit = (index_t)blockIdx.x * warps + threadIdx.x / 32; unit < p.units; unit += stride) {
    const index_t band = unit / p.strips, strip = unit - band * p.strips;
    const index_t grid = band / p.chunks, chunk = band - grid * p.chunks;
    const index_t first = chunk * p.height, last = min(first + p.height, p.n0);
    Columns<V, ALIGNED> columns;
    columns.first = strip * KEPT - HALO + lane * V;
    columns.stores = lane >= HALO / V && lane < 32 - HALO / V;
#pragma unroll
    for (int j = 0; j < (ALIGNED ? 1 : V); ++j) columns.from[j] = p.column(columns.first + j, ALIGNED ? V : 1);
    const T* const from = u + grid * p.n0 * p.n1;
    T* const to = out + grid * p.n0 * p.n1;
    const bool walls = WALLS && ((!p.wraps[0] && (first <= LEVELS || last + LEVELS >= p.n0)) ||
                                 (!p.wraps[1] && (strip == 0 || (strip + 1) * KEPT + HALO >= p.n1)));
    if (walls)
      march<T, V, LEVELS, AHEAD, ALIGNED, WALLS, RULE>(from, to, p, values, first, last, columns);
    else
      march<T, V, LEVELS, AHEAD, ALIGNED, false, RULE>(from, to, p, values, first, last, columns);
  }
}

// `passes` passes of LEVELS steps each, all blocks waiting for one another in between: by turns from u to out or to
// spare, so that the last one ends in out.
template <typename T, int V, int LEVELS, int AHEAD, bool ALIGNED, bool WALLS, class RULE>
__global__ void __launch_bounds__(MARCH_THREADS) march_plane(const T* u, T* out, T* spare, unsigned* arrived, int passes,
                                                             Plane<T> p, Values<T, 2> values) {
  for (int pass = 0; pass < passes; ++pass) {
    T* const to = (passes - pass) % 2 ? out : spare;
    march_pass<T, V, LEVELS, AHEAD, ALIGNED, WALLS, RULE>(u, to, p, values);
    u = to;
    if (pass + 1 < passes) wait_for_grid(arrived, (pass + 1) * gridDim.x);
  }
}
