// Convolution by direct sums; X, W, V are the types of values in memory.
//
//   direct_any        one result a thread, whatever the options
//   direct_planes     a kernel for each plane, without strides and holes: 4 by 8 results a thread
//   direct_channels   sums over channels, without strides and holes: 4 by 2 results of several channels a thread
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
    const index_t height = (index_t)a.size[1], width = (index_t)a.size[2];
    const bool whole = width % PART == 0 && (unsigned long long)image % sizeof(Some<V, T>) == 0 && column % PART == 0;
    for (int i = threadIdx.x; i < CELLS / PART; i += THREADS) {
      const index_t place = column + i % (PITCH / PART) * PART, cell = cell_at<BEYOND>(row + i / (PITCH / PART), height);
      const V* from = image + (cell < 0 ? 0 : cell) * width;
      if (whole && cell >= 0 && place >= 0 && place < width) {
        copy_ahead((Quad<T>*)to + i, (const Some<V, T>*)(from + place));
        continue;
      }
      Quad<T> some;
#pragma unroll
      for (int k = 0; k < PART; ++k) {
        const index_t c = cell_at<BEYOND>(place + k, width);
        some.v[k] = cell >= 0 && c >= 0 ? to_number(from[c]) : (T)a.fill[0];
      }
      ((Quad<T>*)to)[i] = some;
    }
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
