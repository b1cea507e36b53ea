// One stage of any explicit step, read straight from memory: each thread takes a cell of a row, then of further rows.
// Arithmetic and sums of stages are in T; the field is stored as F, u as U, the result as O.
#include "stage.cuh"

// How a stage ends a step, or goes on: u is the field at the start of the step, k and E the stage's result.
enum Combine {
  EULER = 0,       // E
  HEUN = 1,        // (u + E) / 2
  BLEND = 2,       // a u + b E
  RK4_FIRST = 3,   // total = k, u + a k
  RK4_MIDDLE = 4,  // total += 2 k, u + a k
  RK4_LAST = 5,    // u + (total + k) / 6
};

template <typename T, class SIZES, int MASK, int COMBINE, class UPDATE, bool INSIDE, typename F, typename U>
SOPS_DEVICE T stage_cell(const Stage<T, SIZES>& p, const F* field, const U* u, T* total, index_t place,
                         const index_t* at) {
  const Cell<T, SIZES, MASK, INSIDE, F> cell{p, field + place, at};
  const T result = UPDATE::template of<T>(cell, COMBINE >= RK4_FIRST);
  if constexpr (COMBINE == EULER) return result;
  const T start = to_number(u[place]);
  if constexpr (COMBINE == HEUN) return (start + result) * (T)0.5;
  if constexpr (COMBINE == BLEND) return start * p.blend[0] + result * p.blend[1];
  if constexpr (COMBINE == RK4_LAST) return start + (total[place] + result) * (T)(1.0 / 6.0);
  total[place] = COMBINE == RK4_FIRST ? result : total[place] + (result + result);
  return start + result * p.blend[0];
}

template <typename T, class SIZES, int MASK, int COMBINE, class UPDATE, typename F = T, typename U = T, typename O = T>
__global__ void __launch_bounds__(256) stage(const F* __restrict__ field, const U* u, T* total, O* __restrict__ out,
                                             const __grid_constant__ Stage<T, SIZES> p) {
  constexpr int D = SIZES::dims;
  index_t at[D];
  at[D - 1] = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (at[D - 1] >= p.shape[D - 1]) return;
  const index_t step = (index_t)gridDim.y * blockDim.y;
  for (index_t row = (index_t)blockIdx.y * blockDim.y + threadIdx.y; row < p.rows; row += step) {
    index_t rest = row;
#pragma unroll
    for (int d = D - 2; d >= 0; --d) {
      if (d == 0) {
        at[d] = rest;
      } else {
        const index_t next = rest / p.shape[d];
        at[d] = rest - next * p.shape[d];
        rest = next;
      }
    }
    const index_t place = row * p.shape[D - 1] + at[D - 1];
    bool inside = true, kept = false;
#pragma unroll
    for (int d = 0; d < D; ++d) {
      const bool stepped = p.ghosts[d][0][0].cell >= 0;
      inside = inside && (!stepped || (at[d] >= SIZES::width && at[d] < p.shape[d] - SIZES::width));
      kept = kept || (p.held[d][0] && at[d] == 0) || (p.held[d][1] && at[d] == p.shape[d] - 1);
    }
    if constexpr (MASK >= 0) {
      const Cell<T, SIZES, MASK, true, F> cell{p, field + place, at};
      kept = kept || !cell.template computed<0, 0>();
    }
    T next;
    if (kept)
      next = to_number(u[place]);
    else if (inside)
      next = stage_cell<T, SIZES, MASK, COMBINE, UPDATE, true>(p, field, u, total, place, at);
    else
      next = stage_cell<T, SIZES, MASK, COMBINE, UPDATE, false>(p, field, u, total, place, at);
    out[place] = Storage<O>::from(next);
  }
}
