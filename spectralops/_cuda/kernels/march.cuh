// What the marching kernels share: cells in registers, the rule of a step, walls, the barrier between passes.
#pragma once
#include "common.cuh"

#ifndef MARCH_THREADS
#define MARCH_THREADS 128
#endif

template <typename T, int V>
struct Cells {
  T x[V];
};

template <typename T>
struct Pair;
template <>
struct Pair<float> {
  typedef float4 type;
};
template <>
struct Pair<double> {
  typedef double2 type;
};

// Reads bypass the first-level cache: in a launch of several passes another block wrote there.
template <typename T>
SOPS_DEVICE T load_number(const T* from) {
  return __ldcg(from);
}
template <typename T, int V>
SOPS_DEVICE void load_vector(const T* from, Cells<T, V>& cells) {
  typedef typename Pair<T>::type Wide;
  constexpr int N = sizeof(Wide) / sizeof(T);
#pragma unroll
  for (int j = 0; j < V; j += N) {
    const Wide wide = __ldcg((const Wide*)(from + j));
    cells.x[j] = wide.x;
    cells.x[j + 1] = wide.y;
    if constexpr (N == 4) {
      cells.x[j + 2] = wide.z;
      cells.x[j + 3] = wide.w;
    }
  }
}
template <typename T, int V>
SOPS_DEVICE void store_vector(T* to, const Cells<T, V>& cells) {
  typedef typename Pair<T>::type Wide;
  constexpr int N = sizeof(Wide) / sizeof(T);
#pragma unroll
  for (int j = 0; j < V; j += N) {
    Wide wide;
    wide.x = cells.x[j];
    wide.y = cells.x[j + 1];
    if constexpr (N == 4) {
      wide.z = cells.x[j + 2];
      wide.w = cells.x[j + 3];
    }
    *(Wide*)(to + j) = wide;
  }
}

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

template <typename T>
struct Plane {
  index_t n0, n1;
  index_t height, chunks, strips, units;  // rows of a chunk; chunks and strips of a grid; strips in all
  int wraps[2];
  int held[2][2];
  Wall<T> walls[2];

  // Where a row is read: around, or at the end, whose value nobody looks at.
  SOPS_DEVICE index_t row(index_t i) const {
    if (i >= 0 && i < n0) return i;
    if (!wraps[0]) return i < 0 ? 0 : n0 - 1;
    const index_t rest = i % n0;
    return rest < 0 ? rest + n0 : rest;
  }
  // Likewise for columns, in groups.
  SOPS_DEVICE index_t column(index_t j, index_t group) const {
    if (j >= 0 && j < n1) return j;
    if (!wraps[1]) return j < 0 ? 0 : n1 - group;
    const index_t rest = j % n1;
    return rest < 0 ? rest + n1 : rest;
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

// Taps along each axis; whether u carries itself (central, advective form); whether there is a source.
template <bool SELF, bool SOURCE, int... TAPS>
struct Rule {
  static constexpr bool self = SELF, source = SOURCE;
  static constexpr int axes = sizeof...(TAPS);
  template <int A>
  SOPS_DEVICE static constexpr int taps() {
    constexpr int all[] = {TAPS...};
    return all[A];
  }
};

// New value of a cell from its neighbours low and high along each axis: the linear part, self-advection, the source.
template <class RULE, int A, typename T, int N>
SOPS_DEVICE T add_taps(T sum, const T* low, const T* high, const Values<T, N>& v) {
  sum = tap<RULE::template taps<A>()>(sum, low[A], high[A], v.low[A], v.high[A]);
  if constexpr (A > 0) sum = add_taps<RULE, A - 1>(sum, low, high, v);
  return sum;
}
template <int A, typename T, int N>
SOPS_DEVICE T add_self(T sum, T u, const T* low, const T* high, const Values<T, N>& v) {
  const T above = high[A] - u, below = u - low[A];
  sum = sum - (above + below) * u * v.speed[A];
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

template <typename T, bool WALLS>
SOPS_DEVICE T ghost_or(T value, bool beyond, T end, const Wall<T>& wall, int side) {
  if (!WALLS || !beyond) return value;
  const T scaled = wall.scale[side] * end;
  return scaled + wall.offset[side];
}

// A row of the next level from three of this one: row `i`, columns from `j` on.
template <typename T, int V, bool WALLS, class RULE>
SOPS_DEVICE Cells<T, V> plane_step(const Cells<T, V>& north, const Cells<T, V>& centre, const Cells<T, V>& south, index_t i,
                                   index_t j, const Plane<T>& p, const Values<T, 2>& values) {
  const T west = __shfl_up_sync(~0u, centre.x[V - 1], 1), east = __shfl_down_sync(~0u, centre.x[0], 1);
  const bool rows = WALLS && !p.wraps[0], columns = WALLS && !p.wraps[1];
  Cells<T, V> next;
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const T u = centre.x[k];
    const T low[2] = {ghost_or<T, WALLS>(north.x[k], rows && i == 0, u, p.walls[0], 0),
                      ghost_or<T, WALLS>(k ? centre.x[k ? k - 1 : 0] : west, columns && j + k == 0, u, p.walls[1], 0)};
    const T high[2] = {
        ghost_or<T, WALLS>(south.x[k], rows && i == p.n0 - 1, u, p.walls[0], 1),
        ghost_or<T, WALLS>(k < V - 1 ? centre.x[k < V - 1 ? k + 1 : 0] : east, columns && j + k == p.n1 - 1, u, p.walls[1], 1)};
    next.x[k] = stepped<RULE>(u, low, high, values);
    if (WALLS) {
      const bool kept = (p.held[0][0] && i == 0) || (p.held[0][1] && i == p.n0 - 1) || (p.held[1][0] && j + k == 0) ||
                        (p.held[1][1] && j + k == p.n1 - 1);
      if (kept) next.x[k] = u;
    }
  }
  return next;
}

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
