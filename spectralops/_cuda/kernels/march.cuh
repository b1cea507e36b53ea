// What the marching kernels share: cells in registers, the rule of a step, walls, the barrier between passes.
#pragma once
#include "common.cuh"

template <typename T, int V>
struct Cells {
  T x[V];
};

// What V values are read and written as: 16 bytes at a time, or all of them where they are fewer.
template <typename S, int V>
struct Vector {
  typedef float4 type;
};
template <>
struct Vector<float, 2> {
  typedef float2 type;
};
template <int V>
struct Vector<double, V> {
  typedef double2 type;
};
template <int FORMAT, int V>
struct Vector<Half<FORMAT>, V> {
  typedef uint4 type;
};
template <int FORMAT>
struct Vector<Half<FORMAT>, 4> {
  typedef uint2 type;
};
template <int FORMAT>
struct Vector<Half<FORMAT>, 2> {
  typedef uint32 type;
};

template <typename A, typename B>
struct Equal {
  static constexpr bool value = false;
};
template <typename A>
struct Equal<A, A> {
  static constexpr bool value = true;
};

// Two numbers as a word of 16-bit values, the first in its lower half.
template <typename S>
SOPS_DEVICE uint32 rounded_pair(float low, float high) {
#ifdef __CUDACC__
  uint32 pair;
  if constexpr (Equal<S, bfloat16_t>::value)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return Storage<S>::from(low).bits | (uint32)Storage<S>::from(high).bits << 16;
#endif
}

// Words of values of type S as numbers, and back.
template <typename S>
SOPS_DEVICE void unpack(float4 wide, float* x) {
  x[0] = wide.x;
  x[1] = wide.y;
  x[2] = wide.z;
  x[3] = wide.w;
}
template <typename S>
SOPS_DEVICE void unpack(float2 wide, float* x) {
  x[0] = wide.x;
  x[1] = wide.y;
}
template <typename S>
SOPS_DEVICE void unpack(double2 wide, double* x) {
  x[0] = wide.x;
  x[1] = wide.y;
}
template <typename S>
SOPS_DEVICE void unpack(uint32 pair, float* x) {
  x[0] = to_number(S{(uint16)pair});
  x[1] = to_number(S{(uint16)(pair >> 16)});
}
template <typename S>
SOPS_DEVICE void unpack(uint2 wide, float* x) {
  unpack<S>(wide.x, x);
  unpack<S>(wide.y, x + 2);
}
template <typename S>
SOPS_DEVICE void unpack(uint4 wide, float* x) {
  unpack<S>(make_uint2(wide.x, wide.y), x);
  unpack<S>(make_uint2(wide.z, wide.w), x + 4);
}
template <typename S>
SOPS_DEVICE void pack(const float* x, float4& wide) {
  wide = make_float4(x[0], x[1], x[2], x[3]);
}
template <typename S>
SOPS_DEVICE void pack(const float* x, float2& wide) {
  wide = make_float2(x[0], x[1]);
}
template <typename S>
SOPS_DEVICE void pack(const double* x, double2& wide) {
  wide = make_double2(x[0], x[1]);
}
template <typename S>
SOPS_DEVICE void pack(const float* x, uint32& pair) {
  pair = rounded_pair<S>(x[0], x[1]);
}
template <typename S>
SOPS_DEVICE void pack(const float* x, uint2& wide) {
  wide = make_uint2(rounded_pair<S>(x[0], x[1]), rounded_pair<S>(x[2], x[3]));
}
template <typename S>
SOPS_DEVICE void pack(const float* x, uint4& wide) {
  wide = make_uint4(rounded_pair<S>(x[0], x[1]), rounded_pair<S>(x[2], x[3]), rounded_pair<S>(x[4], x[5]),
                    rounded_pair<S>(x[6], x[7]));
}

// Reads bypass the first-level cache where another block may have written in the same launch.
template <bool CACHED, typename S>
SOPS_DEVICE S load_number(const S* from) {
  return CACHED ? __ldg(from) : __ldcg(from);
}
template <bool CACHED, int FORMAT>
SOPS_DEVICE Half<FORMAT> load_number(const Half<FORMAT>* from) {
  return Half<FORMAT>{load_number<CACHED>(&from->bits)};
}
template <typename T, int V>
SOPS_DEVICE void read_shared(const T* from, Cells<T, V>& cells) {
  typedef typename Vector<T, V>::type Wide;
  constexpr int N = sizeof(Wide) / sizeof(T);
#pragma unroll
  for (int j = 0; j < V; j += N) unpack<T>(*(const Wide*)(from + j), cells.x + j);
}
template <int V, typename S, typename T>
SOPS_DEVICE void store_vector(S* to, const Cells<T, V>& cells) {
  typedef typename Vector<S, V>::type Wide;
  constexpr int N = sizeof(Wide) / sizeof(S);
#pragma unroll
  for (int j = 0; j < V; j += N) pack<S>(cells.x + j, *(Wide*)(to + j));
}

// V values of a row as they were read, single ones or whole words, for as long as nobody waits for them.
template <typename S, int V, bool WORDS>
struct Stored {
  S x[V];

  template <bool CACHED>
  SOPS_DEVICE static Stored read(const S* row, const index_t* from) {
    Stored stored;
#pragma unroll
    for (int j = 0; j < V; ++j) stored.x[j] = load_number<CACHED>(row + from[j]);
    return stored;
  }
  template <typename T>
  SOPS_DEVICE operator Cells<T, V>() const {
    Cells<T, V> cells;
#pragma unroll
    for (int j = 0; j < V; ++j) cells.x[j] = to_number(x[j]);
    return cells;
  }
};
template <typename S, int V>
struct Stored<S, V, true> {
  typedef typename Vector<S, V>::type Wide;
  static constexpr int N = sizeof(Wide) / sizeof(S);
  Wide words[V / N];

  template <bool CACHED>
  SOPS_DEVICE static Stored read(const S* row, const index_t* from) {
    Stored stored;
#pragma unroll
    for (int j = 0; j < V / N; ++j) stored.words[j] = load_number<CACHED>((const Wide*)(row + from[0]) + j);
    return stored;
  }
  template <typename T>
  SOPS_DEVICE operator Cells<T, V>() const {
    Cells<T, V> cells;
#pragma unroll
    for (int j = 0; j < V / N; ++j) unpack<S>(words[j], cells.x + j * N);
    return cells;
  }
};

// ghost = scale * u + offset of the end cell, low and high side of an axis.
template <typename T>
struct Wall {
  T scale[2];
  T offset[2];
};

// The coefficients of a step; axes count from the first stepped one.
template <typename T, int A>
struct Values {
  T center;
  T low[A];
  T high[A];
  T speed[A];
  T source;
};

// Grids of A stepped axes, the contiguous one last, behind one another in memory; and how they are cut up: `height`
// slices of axis 0 a chunk, `tiles` of the middle axis, `strips` of the last, `units` of all these in all.
template <typename T, int A>
struct Grid {
  index_t n[A];
  index_t height, chunks, tiles, strips, units;
  int wraps[A];
  int held[A][2];
  Wall<T> walls[A];

  // Where index `i` of an axis is read, in groups of cells: around, or at the end, where nobody looks at the value.
  SOPS_DEVICE index_t read(int axis, index_t i, index_t group = 1) const {
    if (i >= 0 && i < n[axis]) return i;
    if (!wraps[axis]) return i < 0 ? 0 : n[axis] - group;
    while (i < 0) i += n[axis];
    while (i >= n[axis]) i -= n[axis];
    return i;
  }
  SOPS_DEVICE index_t cells() const {
    index_t count = n[0];
#pragma unroll
    for (int a = 1; a < A; ++a) count *= n[a];
    return count;
  }
};

// The slices of axis 0 one after another from `start` on, around or with the end repeated.
template <typename S>
struct Slices {
  const S* u;
  index_t size, place, count, again;

  template <typename T, int A>
  SOPS_DEVICE Slices(const S* u, const Grid<T, A>& p, index_t start)
      : u(u), size(p.cells() / p.n[0]), place(p.wraps[0] ? p.read(0, start) : start), count(p.n[0]),
        again(p.wraps[0] ? 0 : count - 1) {}
  SOPS_DEVICE const S* next() {
    const S* const slice = u + (place < 0 ? 0 : place) * size;
    place = place + 1 == count ? again : place + 1;
    return slice;
  }
};

// How the neighbours along an axis enter: not at all, as a sum with one weight, or each with its own.
enum Taps { NONE = 0, BOTH = 1, LOW = 2, HIGH = 3, EACH = 4 };

template <int TAPS, typename T>
SOPS_DEVICE T tap(T sum, T low, T high, T low_weight, T high_weight) {
  if constexpr (TAPS == BOTH) sum = sum + (low + high) * low_weight;
  if constexpr (TAPS == LOW || TAPS == EACH) sum = sum + low * low_weight;
  if constexpr (TAPS == HIGH || TAPS == EACH) sum = sum + high * high_weight;
  return sum;
}

// Taps along each axis; whether u carries itself (central, advective form); whether there is a source; whether each grid
// has coefficients of its own, in a table.
template <bool SELF, bool SOURCE, bool TABLE, int... TAPS>
struct Rule {
  static constexpr bool self = SELF, source = SOURCE, table = TABLE;
  static constexpr int axes = sizeof...(TAPS);
  template <int A>
  SOPS_DEVICE static constexpr int taps() {
    constexpr int all[] = {TAPS...};
    return all[A];
  }
};

// The coefficients of a grid.
template <class RULE, typename T, int N>
SOPS_DEVICE Values<T, N> values_of(const Values<T, N>& values, const Values<T, N>* table, index_t grid) {
  if constexpr (RULE::table) return table[grid];
  return values;
}

// New value of a cell from its neighbours low and high along each axis: the linear part, self-advection, the source.
template <class RULE, int A, typename T, int N>
SOPS_DEVICE T add_taps(T sum, const T* low, const T* high, const Values<T, N>& v) {
  sum = tap<RULE::template taps<A>()>(sum, low[A], high[A], v.low[A], v.high[A]);
  if constexpr (A > 0) sum = add_taps<RULE, A - 1>(sum, low, high, v);
  return sum;
}
template <int A, typename T, int N>
SOPS_DEVICE T add_self(T sum, T u, const T* low, const T* high, const Values<T, N>& v) {
  sum = sum - (high[A] - low[A]) * u * v.speed[A];
  if constexpr (A > 0) sum = add_self<A - 1>(sum, u, low, high, v);
  return sum;
}
template <class RULE, typename T, int N>
SOPS_DEVICE T stepped(T u, const T* low, const T* high, const Values<T, N>& v) {
  T sum = add_taps<RULE, N - 1>(u * v.center, low, high, v);
  if constexpr (RULE::self) sum = add_self<N - 1>(sum, u, low, high, v);
  if constexpr (RULE::source) sum = sum + v.source;
  return sum;
}

// Where a thread's columns lie in memory, and whether it stores them.
template <int V, bool ALIGNED>
struct Columns {
  index_t first;                  // of the V cells; may lie beyond the grid
  index_t from[ALIGNED ? 1 : V];  // where they are read
  bool stores;
  uint32 ends[2];  // which of the cells is the first and which the last of the grid, if there are ends: one bit set

  // Not by comparing numbers, which compilers turn into places in an array that then lies in memory.
  SOPS_DEVICE bool at_end(int side, int k) const { return (ends[side] >> k & 1) != 0; }

  // Of a strip whose lanes hold `halo` columns more on each side than the strip has of its own.
  template <typename T, int A>
  SOPS_DEVICE static Columns of(const Grid<T, A>& p, index_t strip, int halo) {
    const int lane = threadIdx.x % 32;
    Columns columns;
    columns.first = strip * (32 * V - 2 * halo) - halo + lane * V;
    columns.stores = lane >= halo / V && lane < 32 - halo / V;
#pragma unroll
    for (int j = 0; j < (ALIGNED ? 1 : V); ++j) columns.from[j] = p.read(A - 1, columns.first + j, ALIGNED ? V : 1);
    const index_t last = p.n[A - 1] - 1 - columns.first;
    columns.ends[0] = !p.wraps[A - 1] && columns.first <= 0 && columns.first > -V ? 1u << -columns.first : 0;
    columns.ends[1] = !p.wraps[A - 1] && last >= 0 && last < V ? 1u << last : 0;
    return columns;
  }
  template <bool CACHED = false, typename S>
  SOPS_DEVICE Stored<S, V, ALIGNED> load(const S* row) const {
    return Stored<S, V, ALIGNED>::template read<CACHED>(row, from);
  }
  template <typename S, typename T>
  SOPS_DEVICE void store(S* row, const Cells<T, V>& cells, index_t n) const {
    if (!stores) return;
    if constexpr (ALIGNED) {
      if (first < n) store_vector<V>(row + first, cells);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j)
        if (first + j < n) row[first + j] = Storage<S>::from(cells.x[j]);
    }
  }
};

// Neighbours of a row of cells along the last axis.
template <typename T, int V>
SOPS_DEVICE void beside(const Cells<T, V>& row, Cells<T, V>& west, Cells<T, V>& east) {
  west.x[0] = __shfl_up_sync(~0u, row.x[V - 1], 1);
  east.x[V - 1] = __shfl_down_sync(~0u, row.x[0], 1);
#pragma unroll
  for (int k = 1; k < V; ++k) {
    west.x[k] = row.x[k - 1];
    east.x[k - 1] = row.x[k];
  }
}

// Ghosts at the ends of the axis where there are walls. Whole vectors begin and end at walls.
template <bool WALLS, typename T, int V, bool ALIGNED, int A>
SOPS_DEVICE void walls_beside(const Cells<T, V>& row, Cells<T, V>& west, Cells<T, V>& east,
                              const Columns<V, ALIGNED>& columns, const Grid<T, A>& p) {
  if constexpr (WALLS) {
    const Wall<T>& wall = p.walls[A - 1];
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if ((!ALIGNED || k == 0) && columns.at_end(0, k)) west.x[k] = wall.scale[0] * row.x[k] + wall.offset[0];
      if ((!ALIGNED || k == V - 1) && columns.at_end(1, k)) east.x[k] = wall.scale[1] * row.x[k] + wall.offset[1];
    }
  }
}

template <bool WALLS, typename T, int V, bool ALIGNED, int A>
SOPS_DEVICE void beside(const Cells<T, V>& row, Cells<T, V>& west, Cells<T, V>& east, const Columns<V, ALIGNED>& columns,
                        const Grid<T, A>& p) {
  beside(row, west, east);
  walls_beside<WALLS>(row, west, east, columns, p);
}

// Neighbours along another axis where the cells are number `i` along it: ghosts beyond walls.
template <bool WALLS, int AXIS, typename T, int V, int A>
SOPS_DEVICE void across(const Cells<T, V>& row, Cells<T, V>& low, Cells<T, V>& high, index_t i, const Grid<T, A>& p) {
  if constexpr (WALLS) {
    if (p.wraps[AXIS]) return;
    const Wall<T>& wall = p.walls[AXIS];
    if (i == 0) {
#pragma unroll
      for (int k = 0; k < V; ++k) low.x[k] = wall.scale[0] * row.x[k] + wall.offset[0];
    }
    if (i == p.n[AXIS] - 1) {
#pragma unroll
      for (int k = 0; k < V; ++k) high.x[k] = wall.scale[1] * row.x[k] + wall.offset[1];
    }
  }
}

// Gives held ends the value they had: of the contiguous axis, and of another where the cells are number `i` along it.
template <bool WALLS, typename T, int V, bool ALIGNED, int A>
SOPS_DEVICE void hold_columns(const Cells<T, V>& row, Cells<T, V>& next, const Columns<V, ALIGNED>& columns,
                              const Grid<T, A>& p) {
  if constexpr (WALLS) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if ((!ALIGNED || k == 0) && p.held[A - 1][0] && columns.at_end(0, k)) next.x[k] = row.x[k];
      if ((!ALIGNED || k == V - 1) && p.held[A - 1][1] && columns.at_end(1, k)) next.x[k] = row.x[k];
    }
  }
}
template <bool WALLS, int AXIS, typename T, int V, int A>
SOPS_DEVICE void hold(const Cells<T, V>& row, Cells<T, V>& next, index_t i, const Grid<T, A>& p) {
  if constexpr (WALLS) {
    if ((i == 0 && p.held[AXIS][0]) || (i == p.n[AXIS] - 1 && p.held[AXIS][1])) next = row;
  }
}

// This thread's warp, in a way that lets the compiler know that it is the same for all of its lanes.
SOPS_DEVICE int warp_of_block() { return __shfl_sync(~0u, (int)threadIdx.x / 32, 0); }

// All blocks of a cooperative launch wait here until `count` have arrived in all.
SOPS_DEVICE void wait_for_grid(unsigned* arrived, unsigned count) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (atomicAdd(arrived, 0u) < count) __nanosleep(20);
    __threadfence();
  }
  __syncthreads();
}
