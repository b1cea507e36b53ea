// Coefficients that differ between the grids of a batch, formed as those of a stage are: in double, rounded once.
#include "march.cuh"
#include "stage.cuh"

// SIDES: the weights of the low and the high neighbour along each axis in turn. The stage's dimensions are the batch's.
template <typename T, class SIZES, int A, class CENTER, class... SIDES>
__global__ void __launch_bounds__(128) form_values(Values<T, A>* table, Values<T, A> common, Stage<T, SIZES> p) {
  static_assert(sizeof...(SIDES) == 2 * A, "two sides an axis");
  const index_t grid = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (grid >= p.rows) return;
  index_t at[SIZES::dims], rest = grid;
#pragma unroll
  for (int d = SIZES::dims - 1; d >= 0; --d) {
    const index_t next = rest / p.shape[d];
    at[d] = rest - next * p.shape[d];
    rest = next;
  }
  const Cell<T, SIZES, -1, true> cell{p, nullptr, at};
  const T sides[] = {SIDES::template of<T>(cell, 0.0)...};
  common.center = CENTER::template of<T>(cell, 1.0);
#pragma unroll
  for (int a = 0; a < A; ++a) {
    common.low[a] = sides[2 * a];
    common.high[a] = sides[2 * a + 1];
  }
  table[grid] = common;
}
