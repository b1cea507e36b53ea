// Chebyshev's recurrence of a diffusion filter, T_k = X(T_{k-1}) - T_{k-2}, and the sum of c_k T_k, operation by
// operation in the order of _plans/recurrence.py. Without contraction (-fmad=false) the result equals NumPy's to the bit.
//
//   closed_faces         mask -> dry neighbours of each cell
//   chebyshev_lines      LEVELS levels of one filtered axis in one pass over memory
//   chebyshev_planes     the same of two axes
//   chebyshev_volume     one level of three axes
//
// As in march.cu a warp owns a strip of 32 * V columns, of which neighbouring strips share LEVELS at each edge, and goes
// along axis 0 with the last three rows of each level in registers. The levels follow one another by one row, so that the
// oldest row of a level is the one that the level after the next subtracts; sums move up with them.
#include "march.cuh"

// No land; land, with the weights of the faces to it; conductances of all faces.
enum Form { OPEN, COAST, FLUX };
// Whether a pass begins with the field, and whether it ends with the result.
enum Ends { MIDDLE = 0, FIRST = 1, LAST = 2, WHOLE = 3 };

// What stands in the place of a count of dry neighbours on land; a digit in base 3 for each axis, the last one first.
enum { LAND = 255 };
constexpr int COUNTS = 27;

// Weights of the second and the third axis beside the last one, what a cell's own value is multiplied by for each count of
// dry neighbours, and the coefficients of a pass: that of T_0 first, which only the first pass needs.
template <typename T, int LEVELS>
struct Recurrence {
  T weights[2];
  T closed[COUNTS];
  T c[LEVELS + 1];
};

// Fields of the cells, [grids or 1][slabs][rows][cells], `apart` one grid from the next: counts of dry neighbours;
// factors of the fluxes, NaN on land, and conductances of the lower faces along the last, the middle and the first axis.
template <typename T>
struct Medium {
  const unsigned char* dry;
  const T* field;
  const T* faces[3];
  index_t dry_apart, field_apart, faces_apart[3];

  SOPS_DEVICE void go_to(index_t grid) {
    dry += grid * dry_apart;
    field += grid * field_apart;
#pragma unroll
    for (int a = 0; a < 3; ++a) faces[a] += grid * faces_apart[a];
  }
};

template <typename T>
SOPS_DEVICE bool is_nan(T x) {
  return x != x;
}

// mask: [grids][slabs][rows][cells]; AXES of them, the last ones, have neighbours.
template <int AXES>
__global__ void __launch_bounds__(256) closed_faces(const unsigned char* __restrict__ mask,
                                                    unsigned char* __restrict__ dry, Grid<float, AXES> p,
                                                    index_t count) {
  const index_t cell = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (cell >= count) return;
  if (!mask[cell]) {
    dry[cell] = (unsigned char)LAND;
    return;
  }
  int code = 0, digit = 1;
  index_t stride = 1, rest = cell;
#pragma unroll
  for (int a = AXES - 1; a >= 0; --a) {
    const index_t n = p.n[a], i = rest % n;
    rest /= n;
    const bool wraps = p.wraps[a] != 0;
    const index_t low = i > 0 ? -1 : wraps ? n - 1 : 0, high = i < n - 1 ? 1 : wraps ? 1 - n : 0;
    code += digit * (!mask[cell + low * stride] + !mask[cell + high * stride]);
    digit *= 3;
    stride *= n;
  }
  dry[cell] = (unsigned char)code;
}

// ---- one and two axes

// Counts of dry neighbours of up to four cells.
template <int V>
struct Dry {
  uint32 counts;

  SOPS_DEVICE int of(int k) const { return (int)(counts >> 8 * k & 255); }

  template <bool ALIGNED>
  SOPS_DEVICE static Dry load(const unsigned char* row, const Columns<V, ALIGNED>& columns) {
    static_assert(V == 2 || V == 4, "half a word or a whole one");
    if constexpr (ALIGNED && V == 4) return {*(const uint32*)(row + columns.from[0])};
    if constexpr (ALIGNED && V == 2) return {*(const uint16*)(row + columns.from[0])};
    uint32 counts = 0;
    if constexpr (!ALIGNED) {
#pragma unroll
      for (int j = 0; j < V; ++j) counts |= (uint32)row[columns.from[j]] << 8 * j;
    }
    return {counts};
  }
};

// What a row of cells is on: which of its cells are land, and what X needs of them.
template <typename T, int V, int FORM, int AXES, bool ALIGNED>
struct Ground {
  SOPS_DEVICE static Ground of(const Medium<T>&, index_t, const Columns<V, ALIGNED>&) { return {}; }
  SOPS_DEVICE static bool land(int) { return false; }
};
template <typename T, int V, int AXES, bool ALIGNED>
struct Ground<T, V, COAST, AXES, ALIGNED> {
  Dry<V> dry;

  SOPS_DEVICE static Ground of(const Medium<T>& medium, index_t row, const Columns<V, ALIGNED>& columns) {
    return {Dry<V>::load(medium.dry + row, columns)};
  }
  SOPS_DEVICE bool land(int k) const { return dry.of(k) == LAND; }
};
template <typename T, int V, int AXES, bool ALIGNED>
struct Ground<T, V, FLUX, AXES, ALIGNED> {
  Cells<T, V> field, cell_faces, row_faces;

  SOPS_DEVICE static Ground of(const Medium<T>& medium, index_t row, const Columns<V, ALIGNED>& columns) {
    const Cells<T, V> field = columns.load(medium.field + row), cell_faces = columns.load(medium.faces[0] + row);
    Cells<T, V> row_faces = {};
    if constexpr (AXES == 2) row_faces = columns.load(medium.faces[1] + row);
    return {field, cell_faces, row_faces};
  }
  SOPS_DEVICE bool land(int k) const { return is_nan(field.x[k]); }
};

// X of row `i` along the last axis alone, or, with what is below and above it, along both. `weight`: of rows beside cells;
// `closed`: by the count of dry neighbours; `ground_above`: of the next row.
template <int FORM, int AXES, typename T, int V, bool ALIGNED>
SOPS_DEVICE Cells<T, V> twice_s(const Cells<T, V>& u, const Cells<T, V>& below, const Cells<T, V>& above, index_t i,
                                const Columns<V, ALIGNED>& columns, const Grid<T, 2>& p, T weight, const T* closed,
                                const Ground<T, V, FORM, AXES, ALIGNED>& ground,
                                const Ground<T, V, FORM, AXES, ALIGNED>& ground_above) {
  const bool first = AXES == 2 && !p.wraps[0] && i == 0, last = AXES == 2 && !p.wraps[0] && i == p.n[0] - 1;
  Cells<T, V> west, east, result;
  beside(u, west, east);
  if constexpr (FORM == FLUX) {
    Cells<T, V> low, high;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      low.x[k] = (u.x[k] - west.x[k]) * ground.cell_faces.x[k];
      if (columns.at_end(0, k)) low.x[k] = 0;
    }
    high.x[V - 1] = __shfl_down_sync(~0u, low.x[0], 1);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (k > 0) high.x[k > 0 ? k - 1 : 0] = low.x[k];
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (columns.at_end(1, k)) high.x[k] = 0;
      T total = high.x[k] - low.x[k];
      if constexpr (AXES == 2) {
        const T in = first ? 0 : (u.x[k] - below.x[k]) * ground.row_faces.x[k];
        const T out = last ? 0 : (above.x[k] - u.x[k]) * ground_above.row_faces.x[k];
        total = total + (out - in);
      }
      result.x[k] = ground.field.x[k] * total - (u.x[k] + u.x[k]);
    }
  } else {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (columns.at_end(0, k)) west.x[k] = u.x[k];
      if (columns.at_end(1, k)) east.x[k] = u.x[k];
      T mean = west.x[k] + east.x[k];
      if constexpr (AXES == 2) {
        const T pair = (first ? u.x[k] : below.x[k]) + (last ? u.x[k] : above.x[k]);
        mean = mean + weight * (pair - mean);
      }
      if constexpr (FORM == COAST) result.x[k] = closed[ground.land(k) ? 0 : ground.dry.of(k)] * u.x[k] - mean;
      else result.x[k] = -mean;
    }
  }
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (ground.land(k)) result.x[k] = 0;
  return result;
}

// T_k from X(T_{k-1}) and T_{k-2}, or T_1.
template <typename T, int V>
SOPS_DEVICE Cells<T, V> next_level(const Cells<T, V>& x, const Cells<T, V>& before, bool first) {
  Cells<T, V> next;
#pragma unroll
  for (int k = 0; k < V; ++k) next.x[k] = first ? (T)0.5 * x.x[k] : x.x[k] - before.x[k];
  return next;
}

template <typename T, int V>
SOPS_DEVICE Cells<T, V> times(const Cells<T, V>& u, T factor) {
  Cells<T, V> product;
#pragma unroll
  for (int k = 0; k < V; ++k) product.x[k] = factor * u.x[k];
  return product;
}
template <typename T, int V>
SOPS_DEVICE Cells<T, V> plus(const Cells<T, V>& sum, const Cells<T, V>& u, T factor) {
  Cells<T, V> more;
#pragma unroll
  for (int k = 0; k < V; ++k) more.x[k] = sum.x[k] + factor * u.x[k];
  return more;
}
// The field that the recurrence begins with, and the result, are other on land: 0, and what the field was.
template <typename On, typename T, int V>
SOPS_DEVICE Cells<T, V> elsewhere(const On& ground, const Cells<T, V>& u, const Cells<T, V>& on_land) {
  Cells<T, V> chosen;
#pragma unroll
  for (int k = 0; k < V; ++k) chosen.x[k] = ground.land(k) ? on_land.x[k] : u.x[k];
  return chosen;
}

// Fields that a pass reads and writes: u, the levels that it begins with (T_{k-2}, T_{k-1}) and ends with, the sum.
template <typename T>
struct Streams {
  const T *u, *before, *current;
  T *next_before, *next, *sum;

  SOPS_DEVICE void go_to(index_t place) {
    u += place;
    before += place;
    current += place;
    next_before += place;
    next += place;
    sum += place;
  }
};

// The weights by the count of dry neighbours, where threads look up different ones at once.
template <int FORM, typename T, typename R>
SOPS_DEVICE const T* look_up(const R& recurrence, T (&closed)[COUNTS]) {
  if constexpr (FORM == COAST) {
    if (threadIdx.x < COUNTS) closed[threadIdx.x] = recurrence.closed[threadIdx.x];
    __syncthreads();
  }
  return closed;
}

// Rows are grids of their own.
template <typename T, int V, int WARPS, int LEVELS, int FORM, int ENDS, bool ALIGNED>
__global__ void __launch_bounds__(32 * WARPS)
    chebyshev_lines(Streams<T> streams, Medium<T> medium, Grid<T, 2> p, Recurrence<T, LEVELS> recurrence) {
  constexpr int HALO = (LEVELS + V - 1) / V * V;
  using On = Ground<T, V, FORM, 1, ALIGNED>;
  __shared__ T counted[COUNTS];
  const T* const closed = look_up<FORM>(recurrence, counted);
  const index_t n = p.n[1], stride = (index_t)gridDim.x * WARPS;
  for (index_t unit = (index_t)blockIdx.x * WARPS + warp_of_block(); unit < p.units; unit += stride) {
    const index_t grid = unit / p.strips;
    const auto columns = Columns<V, ALIGNED>::of(p, unit - grid * p.strips, HALO);
    Streams<T> s = streams;
    Medium<T> m = medium;
    s.go_to(grid * n);
    m.go_to(grid);
    const On ground = On::of(m, 0, columns);
    Cells<T, V> before = {}, current, sum;
    if constexpr (ENDS & FIRST) {
      current = elsewhere(ground, (Cells<T, V>)columns.load(s.u), Cells<T, V>{});
      sum = times(current, recurrence.c[0]);
    } else {
      before = columns.load(s.before);
      current = columns.load(s.current);
      sum = columns.load(s.sum);
    }
#pragma unroll
    for (int level = 1; level <= LEVELS; ++level) {
      const auto x = twice_s<FORM, 1>(current, current, current, (index_t)0, columns, p, (T)0, closed, ground, ground);
      const Cells<T, V> next = next_level(x, before, (ENDS & FIRST) && level == 1);
      sum = plus(sum, next, recurrence.c[level]);
      before = current;
      current = next;
    }
    if constexpr (ENDS & LAST) {
      columns.store(s.sum, elsewhere(ground, sum, (Cells<T, V>)columns.load(s.u)), n);
    } else {
      columns.store(s.sum, sum, n);
      columns.store(s.next_before, before, n);
      columns.store(s.next, current, n);
    }
  }
}

template <typename T, int V, int WARPS, int LEVELS, int FORM, int ENDS, bool ALIGNED>
__global__ void __launch_bounds__(32 * WARPS)
    chebyshev_planes(Streams<T> streams, Medium<T> medium, Grid<T, 2> p, Recurrence<T, LEVELS> recurrence) {
  constexpr int HALO = (LEVELS + V - 1) / V * V;
  using On = Ground<T, V, FORM, 2, ALIGNED>;
  __shared__ T counted[COUNTS];
  const T* const closed = look_up<FORM>(recurrence, counted);
  const index_t n = p.n[1], stride = (index_t)gridDim.x * WARPS;
  for (index_t unit = (index_t)blockIdx.x * WARPS + warp_of_block(); unit < p.units; unit += stride) {
    const index_t band = unit / p.strips, grid = band / p.chunks;
    const index_t first = (band - grid * p.chunks) * p.height, last = min(first + p.height, p.n[0]);
    const auto columns = Columns<V, ALIGNED>::of(p, unit - band * p.strips, HALO);
    Streams<T> s = streams;
    Medium<T> m = medium;
    s.go_to(grid * p.cells());
    m.go_to(grid);
    const T* const from = ENDS & FIRST ? s.u : s.current;
    const T weight = recurrence.weights[0];
    // Level l of a turn's row - l, what that row is on and its sum so far; T_{k-2} of the row before the turn's; what the
    // next turn begins with.
    Cells<T, V> rows[LEVELS][3] = {}, sums[LEVELS + 1] = {}, before = {};
    On grounds[LEVELS + 1] = {};
    index_t place = p.read(0, first - LEVELS) * n;
    Stored<T, V, ALIGNED> ahead = columns.load(from + place);
    On ground_ahead = On::of(m, place, columns);
    for (index_t base = first - LEVELS; base < last + LEVELS; base += 3) {
#pragma unroll
      for (int turn = 0; turn < 3; ++turn) {
        const index_t i = base + turn;
        Cells<T, V> carried = sums[0], older = before;
        On ground = grounds[0];
        grounds[0] = ground_ahead;
        if constexpr (ENDS & FIRST) {
          if constexpr (FORM == OPEN) rows[0][turn] = ahead;
          else rows[0][turn] = elsewhere(ground_ahead, (Cells<T, V>)ahead, Cells<T, V>{});
          sums[0] = times(rows[0][turn], recurrence.c[0]);
        } else {
          rows[0][turn] = ahead;
          before = columns.load(s.before + place);
          if (i >= first && i < last && columns.stores) sums[0] = columns.load(s.sum + place);
        }
        place = p.read(0, i + 1) * n;
        ahead = columns.load(from + place);
        ground_ahead = On::of(m, place, columns);
#pragma unroll
        for (int level = 1; level <= LEVELS; ++level) {
          // Of the level below, the rows of this turn, the last one and the one before it.
          const Cells<T, V> above = rows[level - 1][turn], u = rows[level - 1][(turn + 2) % 3],
                            below = rows[level - 1][(turn + 1) % 3];
          const index_t row = i - level;
          const auto x = twice_s<FORM, 2>(u, below, above, row, columns, p, weight, closed, ground, grounds[level - 1]);
          if (level > 1) older = rows[level > 1 ? level - 2 : 0][(turn + 1) % 3];
          const Cells<T, V> next = next_level(x, older, (ENDS & FIRST) && level == 1);
          const Cells<T, V> sum = plus(carried, next, recurrence.c[level]);
          if (level < LEVELS) {
            rows[level < LEVELS ? level : 0][turn] = next;
          } else if (row >= first && row < last) {
            const index_t at = row * n;
            if constexpr (ENDS & LAST) {
              Cells<T, V> result = sum;
              if constexpr (FORM != OPEN) {
                bool any = false;
#pragma unroll
                for (int k = 0; k < V; ++k) any = any || ground.land(k);
                if (any) result = elsewhere(ground, sum, (Cells<T, V>)columns.load(s.u + at));
              }
              columns.store(s.sum + at, result, n);
            } else {
              columns.store(s.sum + at, sum, n);
              columns.store(s.next_before + at, u, n);
              columns.store(s.next + at, next, n);
            }
          }
          carried = sums[level];
          sums[level] = sum;
          const On following = grounds[level];
          grounds[level] = ground;
          ground = following;
        }
      }
    }
  }
}

// ---- three axes

// One level: T_{k-1} at `current`, T_{k-2} where the new one goes or, for T_2, at `before`.
template <typename T, int FORM, int ENDS>
__global__ void __launch_bounds__(256)
    chebyshev_volume(Streams<T> streams, Medium<T> medium, Grid<T, 3> p, Recurrence<T, 1> recurrence) {
  const index_t cell = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (cell >= p.n[2]) return;
  const index_t rows = p.units, step = (index_t)gridDim.y * blockDim.y;
  for (index_t line = (index_t)blockIdx.y * blockDim.y + threadIdx.y; line < rows; line += step) {
    const index_t slab = line / p.n[1], grid = slab / p.n[0];
    const index_t i[3] = {slab - grid * p.n[0], line - slab * p.n[1], cell};
    const index_t at = (i[0] * p.n[1] + i[1]) * p.n[2] + i[2], stride[3] = {p.n[1] * p.n[2], p.n[2], 1};
    Streams<T> s = streams;
    Medium<T> m = medium;
    s.go_to(grid * p.cells());
    m.go_to(grid);
    const auto land = [&](index_t place) {
      if constexpr (FORM == COAST) return m.dry[place] == LAND;
      if constexpr (FORM == FLUX) return is_nan(m.field[place]);
      return false;
    };
    const auto value = [&](index_t place) {
      if constexpr (ENDS & FIRST) return land(place) ? (T)0 : s.u[place];
      return s.current[place];
    };
    const T u = value(at);
    T next = 0;
    if (!land(at)) {
      T total = 0, mean = 0;
#pragma unroll
      for (int a = 2; a >= 0; --a) {
        const bool first = i[a] == 0, end = i[a] == p.n[a] - 1, wraps = p.wraps[a] != 0;
        const index_t low = first ? (wraps ? p.n[a] - 1 : 0) : -1, high = end ? (wraps ? 1 - p.n[a] : 0) : 1;
        const T below = value(at + low * stride[a]), above = value(at + high * stride[a]);
        if constexpr (FORM == FLUX) {
          const T* const face = m.faces[2 - a] + at;
          const T in = first && !wraps ? 0 : (u - below) * face[0];
          const T out = end && !wraps ? 0 : (above - u) * face[high * stride[a]];
          total = a == 2 ? out - in : total + (out - in);
        } else {
          const T pair = below + above;
          if (a == 2) total = mean = pair;
          else mean = mean + recurrence.weights[1 - a] * (pair - total);
        }
      }
      if constexpr (FORM == FLUX) next = m.field[at] * total - (u + u);
      else if constexpr (FORM == COAST) next = recurrence.closed[m.dry[at]] * u - mean;
      else next = -mean;
    }
    T sum;
    if constexpr (ENDS & FIRST) {
      next = (T)0.5 * next;
      sum = recurrence.c[0] * u + recurrence.c[1] * next;
    } else {
      next = next - (land(at) ? (T)0 : s.before[at]);
      sum = s.sum[at] + recurrence.c[1] * next;
    }
    if constexpr (ENDS & LAST) {
      s.sum[at] = land(at) ? s.u[at] : sum;
    } else {
      s.sum[at] = sum;
      s.next[at] = next;
    }
  }
}
