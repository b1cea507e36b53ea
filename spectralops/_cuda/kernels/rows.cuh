// How transforms along the contiguous axis read and write arrays: forms of a spectrum, streaming access, padded rows.
//
// A real image is transformed in one of two forms. PAIRS: rows 2r and 2r + 1 as one complex row, N values each, so that
// the spectrum takes as many bytes as the image; the first pass along another axis tells the two apart by the symmetry
// of their spectra, column k beside column N - k. HALF: each row alone, N / 2 + 1 values, for images with an odd number of
// rows. SPLIT: two rows as one complex row, told apart at once. TWOS: the same of images with an odd number of rows, the
// last of which is alone.
// KEPT wavenumbers of a row are stored and read, the first ones (FULL: from LOW on); the others count as zero. PAIRS
// stores a window of 2 KEPT columns in which column 2 KEPT - k stands for N - k; 0 stands for all N columns, where
// `packed_place` says.
#pragma once
#include "complex.cuh"

enum Form { FULL, PAIRS, HALF, SPLIT, TWOS };

// Where wavenumber k = 0 ... N - 1 lies among KEPT stored ones that begin at LOW <= 0; KEPT or more if it is not stored.
template <int N, int KEPT, int LOW>
SOPS_DEVICE int kept(int k) {
  if constexpr (KEPT == N && LOW == 0) return k;
  const int place = k - LOW;
  return place < N ? place : place - N;
}

// Where PAIRS has wavenumber k of all N, N even: above N / 2 one place lower, so that where numbers from k on fill sectors,
// those from N - k down do too.
template <int N>
SOPS_DEVICE int packed_place(int k) {
  if constexpr (N % 2 == 1) return k;
  return 2 * k < N ? k : 2 * k == N ? N - 1 : k - 1;
}

// Streaming access: data that nobody reads again should not push the spectrum out of the second-level cache.
template <typename V>
SOPS_DEVICE V load_once(const V* at) {
  return *at;
}
template <typename V>
SOPS_DEVICE void store_once(V* at, V value) {
  *at = value;
}
#ifdef __CUDACC__
SOPS_DEVICE float load_once(const float* at) { return __ldcs(at); }
SOPS_DEVICE void store_once(float* at, float value) { __stcs(at, value); }
SOPS_DEVICE Complex<float> load_once(const Complex<float>* at) {
  const float2 value = __ldcs((const float2*)at);
  return {value.x, value.y};
}
SOPS_DEVICE void store_once(Complex<float>* at, Complex<float> value) {
  __stcs((float2*)at, make_float2(value.re, value.im));
}
SOPS_DEVICE Complex<double> load_once(const Complex<double>* at) {
  const double2 value = __ldcs((const double2*)at);
  return {value.x, value.y};
}
SOPS_DEVICE void store_once(Complex<double>* at, Complex<double> value) {
  __stcs((double2*)at, make_double2(value.re, value.im));
}
template <int F>
SOPS_DEVICE Half<F> load_once(const Half<F>* at) {
  return {__ldcs((const uint16*)at)};
}
template <int F>
SOPS_DEVICE void store_once(Half<F>* at, Half<F> value) {
  __stcs((uint16*)at, value.bits);
}
template <int F>
SOPS_DEVICE Complex<Half<F>> load_once(const Complex<Half<F>>* at) {
  const uint32 both = __ldcs((const uint32*)at);
  return {{(uint16)both}, {(uint16)(both >> 16)}};
}
template <int F>
SOPS_DEVICE void store_once(Complex<Half<F>>* at, Complex<Half<F>> value) {
  __stcs((uint32*)at, value.re.bits | (uint32)value.im.bits << 16);
}
#endif

// The spectrum is read once by each block: past the first-level cache.
template <typename T>
SOPS_DEVICE T load_past(const T* at) {
  return *at;
}
#ifdef __CUDACC__
SOPS_DEVICE Complex<float> load_past(const Complex<float>* at) {
  const float2 value = __ldcg((const float2*)at);
  return {value.x, value.y};
}
SOPS_DEVICE Complex<double> load_past(const Complex<double>* at) {
  const double2 value = __ldcg((const double2*)at);
  return {value.x, value.y};
}
SOPS_DEVICE Two<float> load_past(const Two<float>* at) {
  const float4 value = __ldcg((const float4*)at);
  return {{value.x, value.y}, {value.z, value.w}};
}
#endif

// ---- rows of a padded array, of which only the middle is stored

enum Padding { BARE, ZERO, REFLECT, EDGE };

// Lengths of three axes, the last of which is the row, as stored and as transformed, and the cells added before.
struct PadArguments {
  long long size[3], before[3], padded[3];
};

// Cell i of an axis of n cells that goes on beyond its ends; -1 for a zero.
template <int PADDING>
SOPS_DEVICE index_t continued(index_t i, index_t n) {
  if (i >= 0 && i < n) return i;
  if (PADDING == ZERO) return -1;
  if (PADDING == EDGE) return i < 0 ? 0 : n - 1;
  if (n == 1) return 0;
  const index_t period = 2 * (n - 1), m = (i % period + period) % period;
  return m < n ? m : period - m;
}

// One row of N values: where they are read and, if the row is one of the stored ones, written.
template <int PADDING, int N>
struct Row {
  index_t start, before, size;
  bool there, own;

  SOPS_DEVICE Row(const PadArguments& p, index_t line) : start(line * N), before(0), size(N), there(true), own(true) {
    if constexpr (PADDING != BARE) {
      before = (index_t)p.before[2];
      size = (index_t)p.size[2];
      index_t rest = line, place = 0, stride = 1;
      for (int axis = 1; axis >= 0; --axis) {
        const index_t i = rest % (index_t)p.padded[axis] - (index_t)p.before[axis], n = (index_t)p.size[axis];
        const index_t cell = continued<PADDING>(i, n);
        there = there && cell >= 0;
        own = own && i >= 0 && i < n;
        place += cell * stride;
        stride *= n;
        rest /= (index_t)p.padded[axis];
      }
      start = (rest * stride + place) * size;
    }
  }
  template <typename V>
  SOPS_DEVICE V read(const V* x, index_t i) const {
    if constexpr (PADDING == BARE) return load_once(x + start + i);
    const index_t cell = there ? continued<PADDING>(i - before, size) : -1;
    return cell < 0 ? V() : x[start + cell];
  }
  template <typename V>
  SOPS_DEVICE void write(V* out, index_t i, V value) const {
    if (PADDING == BARE) store_once(out + start + i, value);
    else if (own && i >= before && i < before + size) out[start + i - before] = value;
  }
};

// The rows that are transformed together as line `line`: one, or two that follow one another.
template <int FORM>
struct Together {
  index_t first;
  bool two;

  SOPS_DEVICE Together(const PadArguments& p, index_t line) : first(line), two(false) {
    if constexpr (FORM == TWOS) {
      const index_t rows = (index_t)p.padded[1], lines = (rows + 1) / 2, pair = line % lines;
      first = line / lines * rows + 2 * pair;
      two = 2 * pair + 1 < rows;
    } else if constexpr (FORM == PAIRS || FORM == SPLIT) {
      first = 2 * line;
      two = true;
    }
  }
};
