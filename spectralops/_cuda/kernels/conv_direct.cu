// Convolution by direct sums; X, W, V are the types of values in memory.
//
//   direct_any        one result a thread, whatever the options
//   direct_planes     a kernel for each plane, without strides and holes: 4 by 8 results a thread
//   direct_channels   sums over channels, without strides and holes: 4 by 2 results of several channels a thread
//   direct_volumes    a kernel for each volume, without strides and holes: 4 by 2 results of a plane a thread at a time
#include "conv.cuh"

struct DirectArguments {
  long long size[3], taps[3], stride[3], dilation[3], before[3], out[3];
  long long planes;                                                    // of the results
  long long image_divisor, image_count, kernel_divisor, kernel_count;  // plane b takes image (b / divisor) % count
  long long inputs;                                                    // channels that are summed over
  long long outputs;                                                   // channels of a group
  long long flip;                                                      // whether kernels are reversed
  double fill[2];                                                      // the value beyond the ends
};

template <typename X, typename W>
struct Wider {
  using type = X;
};
template <typename T>
struct Wider<T, Complex<T>> {
  using type = Complex<T>;
};

template <typename X, typename W, int BEYOND, int ACTIVATION>
__global__ __launch_bounds__(256, 2) void direct_any(const X* __restrict__ x, const W* __restrict__ taps,
                                                  typename Wider<X, W>::type* __restrict__ out, DirectArguments a,
                                                  FinishArguments f) {
  using V = typename Wider<X, W>::type;
  using Sum = typename ValueOf<V>::Number;
  const index_t o0 = (index_t)a.out[0], o1 = (index_t)a.out[1], o2 = (index_t)a.out[2];
  const long long at = (long long)blockIdx.x * 256 + threadIdx.x, area = (long long)o0 * o1 * o2;
  if (at >= a.planes * area) return;
  const long long plane = at / area;
  index_t rest = (index_t)(at % area);
  const index_t i2 = rest % o2, i1 = rest / o2 % o1, i0 = rest / o2 / o1;
  const index_t n0 = (index_t)a.size[0], n1 = (index_t)a.size[1], n2 = (index_t)a.size[2];
  const index_t k0 = (index_t)a.taps[0], k1 = (index_t)a.taps[1], k2 = (index_t)a.taps[2];
  x += plane / a.image_divisor % a.image_count * a.inputs * ((long long)n0 * n1 * n2);
  taps += plane / a.kernel_divisor % a.kernel_count * a.inputs * ((long long)k0 * k1 * k2);
  const typename ValueOf<X>::Number fill = ValueOf<X>::of(a.fill[0], a.fill[1]);
  const index_t begin = a.flip ? k0 * k1 * k2 - 1 : 0, step = a.flip ? -1 : 1;
  Sum sum = ValueOf<V>::of(0, 0);
  for (index_t c = 0; c < (index_t)a.inputs; ++c) {
    const W* w = taps + begin;
    for (index_t j0 = 0; j0 < k0; ++j0) {
      const index_t c0 = cell_at<BEYOND>(i0 * (index_t)a.stride[0] + j0 * (index_t)a.dilation[0] - (index_t)a.before[0], n0);
      for (index_t j1 = 0; j1 < k1; ++j1) {
        const index_t c1 =
            cell_at<BEYOND>(i1 * (index_t)a.stride[1] + j1 * (index_t)a.dilation[1] - (index_t)a.before[1], n1);
        const X* row = x + (c0 * n1 + c1) * n2;
        const bool there = c0 >= 0 && c1 >= 0;
        index_t place = i2 * (index_t)a.stride[2] - (index_t)a.before[2];
        for (index_t j2 = 0; j2 < k2; ++j2, w += step, place += (index_t)a.dilation[2]) {
          const index_t c2 = cell_at<BEYOND>(place, n2);
          sum = add_product(sum, there && c2 >= 0 ? to_number(row[c2]) : fill, to_number(*w));
        }
      }
    }
    x += (long long)n0 * n1 * n2;
    taps += (long long)k0 * k1 * k2;
  }
  out[at] = Storage<V>::from(Finish<V, ACTIVATION>(f, plane)(sum));
}

// Numbers that are read from shared memory at once.
template <typename T>
struct alignas(16) Quad {
  T v[16 / sizeof(T)];
};
// As many values of type V in memory.
template <typename V, typename T>
struct alignas(16 / sizeof(T) * sizeof(V)) Some {
  V v[16 / sizeof(T)];
};

// Copies a quad to shared memory, where memory holds numbers without waiting for it; `landed` waits for all of them.
template <typename T>
SOPS_DEVICE void copy_ahead(Quad<T>* to, const Some<T, T>* from) {
#ifdef __CUDACC__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
#else
  *to = *(const Quad<T>*)from;
#endif
}
template <typename V, typename T>
SOPS_DEVICE void copy_ahead(Quad<T>* to, const Some<V, T>* from) {
  const Some<V, T> stored = *from;
  Quad<T> numbers;
#pragma unroll
  for (int k = 0; k < (int)(16 / sizeof(T)); ++k) numbers.v[k] = to_number(stored.v[k]);
  *to = numbers;
}
SOPS_DEVICE void landed() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

constexpr int ACROSS = 4;  // results of a thread along a row

// Of a block: TX by TY threads, each with ACROSS by DOWN results. The cells that they read lie in shared memory in rows of
// PITCH, of which a thread reads READ; the first SHIFT of them are there only for the row to begin at a whole quad.
template <typename T, int KH, int KW, int SHIFT, int TX, int TY, int DOWN>
struct Area {
  static constexpr int PART = 16 / sizeof(T);
  static constexpr int READ = (SHIFT + ACROSS + KW - 1 + PART - 1) / PART * PART;
  static constexpr int ROWS = TY * DOWN + KH - 1, PITCH = (TX - 1) * ACROSS + READ, CELLS = ROWS * PITCH;
  static constexpr int THREADS = TX * TY;

  // Cells from (row, column) on; those of whole quads are on their way when this returns, see `landed`.
  template <int BEYOND, typename V>
  SOPS_DEVICE static void fetch(T* to, const V* __restrict__ image, const DirectArguments& a, index_t row, index_t column) {
    const bool whole = aligned(image, a, column);
    for (int i = threadIdx.x; i < CELLS / PART; i += THREADS) {
      const index_t at = whole ? whole_at<BEYOND>(a, row, column, i) : -1;
      if (at >= 0) copy_ahead((Quad<T>*)to + i, (const Some<V, T>*)(image + at));
      else ((Quad<T>*)to)[i] = single<BEYOND>(image, a, row, column, i);
    }
  }
  // Whether quads that begin at `column` begin where those in memory do.
  template <typename V>
  SOPS_DEVICE static bool aligned(const V* image, const DirectArguments& a, index_t column) {
    return (index_t)a.size[2] % PART == 0 && (unsigned long long)image % sizeof(Some<V, T>) == 0 && column % PART == 0;
  }
  // Where the cells of quad i lie in an image, -1 where some are not there.
  template <int BEYOND>
  SOPS_DEVICE static index_t whole_at(const DirectArguments& a, index_t row, index_t column, int i) {
    const index_t width = (index_t)a.size[2], place = column + i % (PITCH / PART) * PART;
    const index_t cell = cell_at<BEYOND>(row + i / (PITCH / PART), (index_t)a.size[1]);
    return cell >= 0 && place >= 0 && place < width ? cell * width + place : -1;
  }
  template <int BEYOND, typename V>
  SOPS_DEVICE static Quad<T> single(const V* image, const DirectArguments& a, index_t row, index_t column, int i) {
    const index_t width = (index_t)a.size[2], place = column + i % (PITCH / PART) * PART;
    const index_t cell = cell_at<BEYOND>(row + i / (PITCH / PART), (index_t)a.size[1]);
    const V* from = image + (cell < 0 ? 0 : cell) * width;
    Quad<T> some;
#pragma unroll
    for (int k = 0; k < PART; ++k) {
      const index_t c = cell_at<BEYOND>(place + k, width);
      some.v[k] = cell >= 0 && c >= 0 ? to_number(from[c]) : (T)a.fill[0];
    }
    return some;
  }
  SOPS_DEVICE static void read(T (&row)[READ], const T* from) {
#pragma unroll
    for (int i = 0; i < READ; i += PART) {
      const Quad<T> some = *(const Quad<T>*)(from + i);
#pragma unroll
      for (int k = 0; k < PART; ++k) row[i + k] = some.v[k];
    }
  }
};

// Stores neighbouring results of row r from column c on, at once where their addresses allow it.
template <typename V, typename T, typename F>
SOPS_DEVICE void store(V* out, index_t r, index_t c, index_t height, index_t width, const T (&sums)[ACROSS], const F& finish) {
  constexpr int PART = 16 / sizeof(T);
  if (r >= height) return;
  V* to = out + r * width + c;
  if (width % ACROSS == 0 && (unsigned long long)out % sizeof(Some<V, T>) == 0) {
    if (c >= width) return;
#pragma unroll
    for (int i = 0; i < ACROSS; i += PART) {
      Some<V, T> some;
#pragma unroll
      for (int k = 0; k < PART; ++k) some.v[k] = Storage<V>::from(finish(sums[i + k]));
      *(Some<V, T>*)(to + i) = some;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < ACROSS; ++i)
    if (c + i < width) to[i] = Storage<V>::from(finish(sums[i]));
}

template <typename V, int BEYOND, int ACTIVATION, int KH, int KW, int SHIFT, int TX, int TY>
__global__ __launch_bounds__(TX* TY) void direct_planes(const V* __restrict__ x, const V* __restrict__ taps,
                                                        V* __restrict__ out, DirectArguments a, FinishArguments f) {
  using T = typename ValueOf<V>::Real;
  constexpr int DOWN = 8;
  using A = Area<T, KH, KW, SHIFT, TX, TY, DOWN>;
  constexpr int WIDE = (KW + A::PART - 1) / A::PART * A::PART;
  __shared__ Quad<T> shared_cells[A::CELLS / A::PART], shared_weights[KH * WIDE / A::PART];
  T *cells = shared_cells[0].v, *weights = shared_weights[0].v;
  const index_t height = (index_t)a.out[1], width = (index_t)a.out[2];
  const index_t across = (width + TX * ACROSS - 1) / (TX * ACROSS), down = (height + TY * DOWN - 1) / (TY * DOWN);
  const index_t tile = (index_t)(blockIdx.x % ((long long)across * down));
  const long long plane = blockIdx.x / ((long long)across * down);
  const index_t row = tile / across * (TY * DOWN), column = tile % across * (TX * ACROSS);
  x += plane / a.image_divisor % a.image_count * (a.size[1] * a.size[2]);
  taps += plane / a.kernel_divisor % a.kernel_count * (KH * KW);
  for (int i = threadIdx.x; i < KH * WIDE; i += A::THREADS) {
    const int k = i / WIDE * KW + i % WIDE;
    weights[i] = i % WIDE < KW ? to_number(taps[a.flip ? KH * KW - 1 - k : k]) : (T)0;
  }
  A::template fetch<BEYOND>(cells, x, a, row - (index_t)a.before[1], column - (index_t)a.before[2] - SHIFT);
  landed();
  __syncthreads();
  const int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
  T sum[DOWN][ACROSS] = {};
  const T* mine = cells + ty * DOWN * A::PITCH + tx * ACROSS;
#pragma unroll
  for (int r = 0; r < DOWN + KH - 1; ++r) {
    T seen[A::READ];
    A::read(seen, mine + r * A::PITCH);
#pragma unroll
    for (int d = 0; d < DOWN; ++d) {
      const int k = r - d;
      if (k < 0 || k >= KH) continue;
#pragma unroll
      for (int j = 0; j < KW; ++j)
#pragma unroll
        for (int i = 0; i < ACROSS; ++i) sum[d][i] += seen[SHIFT + i + j] * weights[k * WIDE + j];
    }
  }
  const Finish<V, ACTIVATION> finish(f, plane);
  out += plane * (a.out[1] * a.out[2]);
#pragma unroll
  for (int d = 0; d < DOWN; ++d)
    store(out, row + ty * DOWN + d, column + tx * ACROSS, height, width, sum[d], finish);
}

// OUT channels of a thread, CHUNK channels at a time through shared memory.
template <typename V, int BEYOND, int ACTIVATION, int KH, int KW, int SHIFT, int TX, int TY, int OUT, int CHUNK>
__global__ __launch_bounds__(TX* TY, 3) void direct_channels(const V* __restrict__ x, const V* __restrict__ taps,
                                                          V* __restrict__ out, DirectArguments a, FinishArguments f) {
  using T = typename ValueOf<V>::Real;
  constexpr int ROWS = 2;
  using A = Area<T, KH, KW, SHIFT, TX, TY, ROWS>;
  __shared__ Quad<T> shared_cells[CHUNK * A::CELLS / A::PART], shared_weights[CHUNK * KH * KW * OUT / A::PART];
  T *cells = shared_cells[0].v, *weights = shared_weights[0].v;
  const index_t height = (index_t)a.out[1], width = (index_t)a.out[2];
  const index_t across = (width + TX * ACROSS - 1) / (TX * ACROSS), down = (height + TY * ROWS - 1) / (TY * ROWS);
  const index_t inputs = (index_t)a.inputs, outputs = (index_t)a.outputs;
  const index_t some = (outputs + OUT - 1) / OUT;
  long long number = blockIdx.x;
  const index_t first = (index_t)(number % some) * OUT;  // blocks that share their cells are neighbours
  number /= some;
  const index_t tile = (index_t)(number % ((long long)across * down));
  const long long image = number / ((long long)across * down);  // of a group
  const index_t row = tile / across * (TY * ROWS), column = tile % across * (TX * ACROSS);
  const long long plane = image * outputs + first, area = a.size[1] * a.size[2];
  x += image * inputs * area;
  taps += plane % a.kernel_count * inputs * (KH * KW);
  const int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
  T sum[ROWS][OUT][ACROSS] = {};
  for (index_t begin = 0; begin < inputs; begin += CHUNK) {
    __syncthreads();
    for (int c = 0; c < CHUNK && begin + c < inputs; ++c)
      A::template fetch<BEYOND>(cells + c * A::CELLS, x + (begin + c) * area, a, row - (index_t)a.before[1],
                                column - (index_t)a.before[2] - SHIFT);
    for (int i = threadIdx.x; i < CHUNK * KH * KW * OUT; i += A::THREADS) {
      const int o = i % OUT, k = i / OUT % (KH * KW), c = i / OUT / (KH * KW);
      const bool there = begin + c < inputs && first + o < outputs;
      const int tap = a.flip ? KH * KW - 1 - k : k;
      weights[i] = there ? to_number(taps[(o * inputs + begin + c) * (KH * KW) + tap]) : (T)0;
    }
    landed();
    __syncthreads();
#pragma unroll 1
    for (int c = 0; c < CHUNK && begin + c < inputs; ++c) {
      const T* mine = cells + c * A::CELLS + ty * ROWS * A::PITCH + tx * ACROSS;
#pragma unroll
      for (int r = 0; r < ROWS + KH - 1; ++r) {
        T seen[A::READ];
        A::read(seen, mine + r * A::PITCH);
#pragma unroll
        for (int d = 0; d < ROWS; ++d) {
          const int k = r - d;
          if (k < 0 || k >= KH) continue;
#pragma unroll
          for (int j = 0; j < KW; ++j)
#pragma unroll
            for (int o = 0; o < OUT; ++o)
#pragma unroll
              for (int i = 0; i < ACROSS; ++i)
                sum[d][o][i] += seen[SHIFT + i + j] * weights[((c * KH + k) * KW + j) * OUT + o];
        }
      }
    }
  }
#pragma unroll
  for (int o = 0; o < OUT; ++o) {
    if (first + o >= outputs) break;
    const Finish<V, ACTIVATION> finish(f, plane + o);
    V* to = out + (plane + o) * (a.out[1] * a.out[2]);
#pragma unroll
    for (int d = 0; d < ROWS; ++d)
      store(to, row + ty * ROWS + d, column + tx * ACROSS, height, width, sum[d][o], finish);
  }
}

// Blocks that a multiprocessor is to hold at once: in single precision those whose threads have 102, 128 or 168 registers.
template <typename V>
SOPS_CONSTEXPR int volumes_at_once(int threads, int planes, int taps) {
  if (sizeof(typename ValueOf<V>::Real) > 4) return 1;
  return (planes > 5 || taps > 125 ? 384 : planes > 3 || taps > 27 ? 512 : 640) / threads;
}

// Blocks go through `slab` planes of results, whose sums they all have at hand, as they read plane after plane of a volume.
template <typename V, int BEYOND, int KD, int KH, int KW, int SHIFT, int TX, int TY, int DOWN>
__global__ __launch_bounds__(TX* TY, volumes_at_once<V>(TX* TY, KD, KD* KH* KW)) void direct_volumes(
    const V* __restrict__ x, const V* __restrict__ taps, V* __restrict__ out, DirectArguments a, long long slab) {
  using T = typename ValueOf<V>::Real;
  constexpr int TAPS = KD * KH * KW;
  using A = Area<T, KH, KW, SHIFT, TX, TY, DOWN>;
  constexpr int PART = A::PART, WIDE = (KW + PART - 1) / PART * PART;
  __shared__ Quad<T> shared_cells[2][A::CELLS / PART], shared_weights[KD * KH * WIDE / PART];
  T* weights = shared_weights[0].v;
  const index_t depth = (index_t)a.out[0], height = (index_t)a.out[1], width = (index_t)a.out[2], some = (index_t)slab;
  const unsigned across = (width + TX * ACROSS - 1) / (TX * ACROSS), down = (height + TY * DOWN - 1) / (TY * DOWN);
  const unsigned slabs = (depth + some - 1) / some, tile = blockIdx.x % (across * down), rest = blockIdx.x / (across * down);
  const index_t row = (index_t)(tile / across) * (TY * DOWN), column = (index_t)(tile % across) * (TX * ACROSS);
  const index_t begin = (index_t)(rest % slabs) * some, end = (begin + some < depth ? begin + some : depth) + KD - 1;
  const long long volume = rest / slabs;
  x += volume / a.image_divisor % a.image_count * (a.size[0] * a.size[1] * a.size[2]);
  taps += volume / a.kernel_divisor % a.kernel_count * TAPS;
  out += volume * (a.out[0] * a.out[1] * a.out[2]);
  for (int i = threadIdx.x; i < KD * KH * WIDE; i += A::THREADS) {
    const int k = i / WIDE * KW + i % WIDE;
    weights[i] = i % WIDE < KW ? to_number(taps[a.flip ? TAPS - 1 - k : k]) : (T)0;
  }
  // Where this thread's quads lie in a plane; there is more than one rule only for those at the ends.
  constexpr int QUADS = A::CELLS / PART, MINE = (QUADS + A::THREADS - 1) / A::THREADS;
  const index_t first_row = row - (index_t)a.before[1], first_column = column - (index_t)a.before[2] - SHIFT;
  const index_t area = (index_t)a.size[1] * (index_t)a.size[2];
  const bool whole = A::aligned(x, a, first_column) && area % PART == 0;
  index_t places[MINE];
#pragma unroll
  for (int m = 0; m < MINE; ++m)
    places[m] = whole ? A::template whole_at<BEYOND>(a, first_row, first_column, threadIdx.x + m * A::THREADS) : -1;
  // Whether there is a plane beside result plane p, whose cells are then on their way, or it counts all the same.
  const auto fetch = [&](index_t p) {
    const index_t number = cell_at<BEYOND>(p - (index_t)a.before[0], (index_t)a.size[0]);
    Quad<T>* to = shared_cells[(p - begin) % 2];
    if (number < 0 && a.fill[0] == 0) return false;
    const V* plane = x + (number < 0 ? 0 : number) * area;
#pragma unroll
    for (int m = 0; m < MINE; ++m) {
      const int i = threadIdx.x + m * A::THREADS;
      if (QUADS % A::THREADS != 0 && i >= QUADS) break;
      if (number < 0) {
        for (int k = 0; k < PART; ++k) to[i].v[k] = (T)a.fill[0];
      } else if (places[m] >= 0) {
        copy_ahead(to + i, (const Some<V, T>*)(plane + places[m]));
      } else {
        to[i] = A::template single<BEYOND>(plane, a, first_row, first_column, i);
      }
    }
    return true;
  };
  const int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
  T sum[KD][DOWN][ACROSS] = {};  // of result plane p - k
  bool here = fetch(begin);
  for (index_t p = begin; p < end; ++p) {
    landed();
    __syncthreads();
    const bool next = p + 1 < end && fetch(p + 1);
    if (here) {
      const T* mine = shared_cells[(p - begin) % 2]->v + ty * DOWN * A::PITCH + tx * ACROSS;
#pragma unroll
      for (int r = 0; r < DOWN + KH - 1; ++r) {
        T seen[A::READ];
        A::read(seen, mine + r * A::PITCH);
#pragma unroll
        for (int k = 0; k < KD; ++k)
#pragma unroll
          for (int d = 0; d < DOWN; ++d) {
            if (r - d < 0 || r - d >= KH) continue;
#pragma unroll
            for (int j = 0; j < KW; ++j)
#pragma unroll
              for (int i = 0; i < ACROSS; ++i)
                sum[k][d][i] += seen[SHIFT + i + j] * weights[(k * KH + r - d) * WIDE + j];
          }
      }
    }
    here = next;
    const index_t done = p - (KD - 1);
    if (done >= begin) {
      V* plane = out + (long long)done * ((long long)height * width);
#pragma unroll
      for (int d = 0; d < DOWN; ++d)
        store(plane, row + ty * DOWN + d, column + tx * ACROSS, height, width, sum[KD - 1][d], Finish<V, NOTHING>());
    }
#pragma unroll
    for (int k = KD - 1; k >= 0; --k)
#pragma unroll
      for (int d = 0; d < DOWN; ++d)
#pragma unroll
        for (int i = 0; i < ACROSS; ++i) sum[k][d][i] = k > 0 ? sum[k > 0 ? k - 1 : 0][d][i] : (T)0;
  }
}
