// A real tile in shared memory of which neighbouring columns are one complex column, and its transforms there.
//
// First the columns, of which two are one complex column; then rows k and H - k tell the two apart by their symmetry, and
// lie in the places of both, even cells in one and odd ones in the other. Rows 0 and H / 2, which are real, are the parts
// of one complex row, which one warp multiplies. All in place and in the order of reversed digits.
#pragma once
#include "conv_tiles.cuh"
#include "rows.cuh"

// LOW, SOME: complex columns from which on, round the ring, and how many, are not zero. PARTS: blocks that each do all
// columns and the lines of a part.
template <typename T, int THREADS, int LOW, int SOME, typename ColumnRs, typename RowRs, int PARTS = 1>
struct PairTile {
  static constexpr int H = ColumnRs::size, W = RowRs::size, HALF = W / 2, PITCH = HALF | 1, LINES = H / 2;
  static constexpr int JUMP = Level<ColumnRs, 0>::PARTS;
  static constexpr int RA = ColumnRs::of(0), RB = ColumnRs::of(1), R0 = RowRs::of(0), R1 = RowRs::of(1);
  static_assert(ColumnRs::count == 2 && RowRs::count == 2 && RB % 2 == 0 && R1 % 2 == 0, "lines of two, even radix last");
  Complex<T>* at;
  const Complex<T>*__restrict__ columns, *__restrict__ rows;  // twiddle factors
  int part = 0;
  static constexpr int OWN = (LINES + PARTS - 1) / PARTS;  // lines of a part

  // Two neighbouring twiddle factors.
  struct alignas(16) Pair {
    Complex<T> first, second;
  };
  template <int BACK>
  SOPS_DEVICE static Complex<T> times(Complex<T> a, Complex<T> w) {
    return BACK > 0 ? times_conj(a, w) : a * w;
  }
  // Butterfly j of columns times its factors, or their conjugates; those of a butterfly are neighbours.
  template <int BACK>
  SOPS_DEVICE void turned(Complex<T> (&v)[RA], int j) const {
    const Pair* w = (const Pair*)columns + j * (RA / 2);
#pragma unroll
    for (int k = 1; k < RA; k += 2) {
      const Pair both = w[k / 2];
      v[k] = times<BACK>(v[k], both.first);
      if (k + 1 < RA) v[k + 1] = times<BACK>(v[k + 1], both.second);
    }
  }
  // Butterflies j and j + 1 of rows, whose factors are neighbours.
  template <int BACK>
  SOPS_DEVICE void turned(Complex<T> (&even)[R0], Complex<T> (&odd)[R0], int j) const {
#pragma unroll
    for (int k = 1; k < R0; ++k) {
      const Pair both = *(const Pair*)(rows + ((k - 1) * R1 + j));
      even[k] = times<BACK>(even[k], both.first);
      odd[k] = times<BACK>(odd[k], both.second);
    }
  }

  // The places of wavenumbers k and H - k of line r of LINES; of line 0, of 0 and H / 2.
  SOPS_DEVICE static void places(int r, int& place, int& other) {
    const int line = RA % 2 == 0 ? r : r < RB / 2 ? r : r + RB / 2;
    int a = line / RB, b = line % RB;
    if (RA % 2 == 0 && a == 0 && b >= RB / 2) {
      a = RA / 2;
      b -= RB / 2;
    }
    place = a * RB + b;
    other = r == 0 ? RB / 2 : a == 0 ? RB - b : (RA - a) * RB + RB - 1 - b;
  }

  SOPS_DEVICE static int column_of(int number) {
    return LOW + SOME <= HALF || LOW + number < HALF ? LOW + number : LOW + number - HALF;
  }

  // f(v, j, c) for COUNT columns, from LOW on.
  template <int P, int COUNT, bool READ, bool WRITE, typename F>
  SOPS_DEVICE void down(F&& f) const {
    down_columns<ColumnRs, P, THREADS, PITCH, COUNT, READ, WRITE>(at, column_of, f);
  }

  // From read(r, c)(q), element q of every JUMP-th down from (r, c), to the rows after their first pass.
  template <int SIGN, typename Read>
  SOPS_DEVICE void forwards(Read&& read) const {
    down<0, SOME, false, true>([&](auto& v, int j, int c) {
      auto from = read(j, c);
#pragma unroll
      for (int q = 0; q < RA; ++q) v[q] = from(q);
      Dft<RA, SIGN>::run(v);
      turned<SIGN>(v, j);
    });
    if constexpr (SOME < HALF) {
      share<THREADS, H * (HALF - SOME)>([&](int w) {
        const int c = LOW + SOME + w % (HALF - SOME);
        at[w / (HALF - SOME) * PITCH + (c < HALF ? c : c - HALF)] = {0, 0};
      });
    }
    __syncthreads();
    down<1, SOME, true, true>([&](auto& v, int j, int) { forward<ColumnRs, 1, SIGN>(v, columns, j); });
    __syncthreads();
    halves([&](Complex<T>(&even)[R0], Complex<T>(&odd)[R0], bool ends, int j) {
      apart(even, odd, ends, [](Complex<T>& z, Complex<T>& m, bool real) {
        const Complex<T> first = real ? Complex<T>{2 * z.re, 2 * m.re} : Complex<T>{z.re + m.re, z.im - m.im};
        m = real ? Complex<T>{2 * z.im, 2 * m.im} : Complex<T>{z.im + m.im, m.re - z.re};
        z = first;
      });
      Dft<R0, SIGN>::run(even);
      Dft<R0, SIGN>::run(odd);
      turned<SIGN>(even, odd, j);
    });
    __syncthreads();
  }

  // f(even, odd, ends) for all pairs; few warps have line 0 among theirs.
  template <typename F>
  SOPS_DEVICE static void apart(Complex<T> (&even)[R0], Complex<T> (&odd)[R0], bool ends, F&& f) {
    if (ends) {
#pragma unroll
      for (int q = 0; q < R0; ++q) f(even[q], odd[q], true);
    } else {
#pragma unroll
      for (int q = 0; q < R0; ++q) f(even[q], odd[q], false);
    }
  }

  // f(even, odd, whether of line 0, j): butterflies j and j + 1 of the first pass along a line, whose elements lie in the
  // places of even and odd cells.
  template <typename F>
  SOPS_DEVICE void halves(F&& f) const {
    share<THREADS, OWN * R1 / 2>([&](int w) {
      const int r = part * OWN + w % OWN, column = w / OWN;
      if (LINES % OWN != 0 && r >= LINES) return;
      int place, other;
      places(r, place, other);
      Complex<T> even[R0], odd[R0], *first = at + place * PITCH + column, *second = at + other * PITCH + column;
#pragma unroll
      for (int q = 0; q < R0; ++q) {
        even[q] = first[q * (R1 / 2)];
        odd[q] = second[q * (R1 / 2)];
      }
      f(even, odd, r == 0, 2 * column);
#pragma unroll
      for (int q = 0; q < R0; ++q) {
        first[q * (R1 / 2)] = even[q];
        second[q * (R1 / 2)] = odd[q];
      }
    });
  }

  // Element x of a line whose even and odd ones lie from these on.
  SOPS_DEVICE static Complex<T>& element(Complex<T>* even, Complex<T>* odd, int x) {
    return x % 2 == 0 ? even[x / 2] : odd[x / 2];
  }

  // f(v) for the R1 coefficients from place b R1 on of line r.
  template <bool READ, bool WRITE, typename F>
  SOPS_DEVICE void block(int r, int b, F&& f) const {
    int place, other;
    places(r, place, other);
    Complex<T> v[R1], *even = at + place * PITCH, *odd = at + other * PITCH;
    if constexpr (READ) {
#pragma unroll
      for (int q = 0; q < R1; ++q) v[q] = element(even, odd, b * R1 + q);
    }
    f(v);
    if constexpr (WRITE) {
#pragma unroll
      for (int q = 0; q < R1; ++q) element(even, odd, b * R1 + q) = v[q];
    }
  }
  // The last pass along all lines but the first: f(v, place) where a spectrum has numbers q and q + 1, q even, from
  // place + q (LINES - 1) on.
  template <bool READ, bool WRITE, typename F>
  SOPS_DEVICE void turn(F&& f) const {
    constexpr int COUNT = PARTS == 1 ? LINES - 1 : OWN;
    share<THREADS, COUNT * R0>([&](int w) {
      const int r = PARTS == 1 ? w % COUNT : part * OWN + w % COUNT - 1, b = w / COUNT;
      if (PARTS > 1 && (r < 0 || r + 1 >= LINES)) return;
      block<READ, WRITE>(1 + r, b, [&](auto& v) { f(v, b * R1 * (LINES - 1) + 2 * r); });
    });
  }
  // The first line, which the last warp transforms to the end and, with BACK, from there: f(a, b, k, n) for its coefficients k
  // and W - k, the lane's number n; before that, fetch(k, n) for all of them.
  static constexpr int EACH = HALF / 32 + 1;
  template <int SIGN, bool THERE, bool BACK, typename Fetch, typename F>
  SOPS_DEVICE void ends(Fetch&& fetch, F&& f) const {
    const int lane = (int)threadIdx.x - (THREADS - 32);
    if (lane < 0 || part > 0) return;
#pragma unroll
    for (int n = 0; n < EACH; ++n)
      if (lane + 32 * n <= HALF) fetch(lane + 32 * n, n);
    if constexpr (THERE) {
      if (lane < R0) block<true, true>(0, lane, [&](auto& v) { forward<RowRs, 1, SIGN>(v, rows, 0); });
      __syncwarp();
    }
    Complex<T>*even = at, *odd = at + RB / 2 * PITCH;
#pragma unroll
    for (int n = 0; n < EACH; ++n) {
      const int k = lane + 32 * n;
      if (k <= HALF) f(element(even, odd, place_of(k)), element(even, odd, place_of(k == 0 ? 0 : W - k)), k, n);
    }
    if constexpr (BACK) {
      __syncwarp();
      if (lane < R0) block<true, true>(0, lane, [&](auto& v) { inverse<RowRs, 1>(v, rows, 0); });
    }
  }
  SOPS_DEVICE static int place_of(int k) { return k % R0 * R1 + k / R0; }

  // What the kernels do with spectra in memory: all lines but the first in the order of reversed digits,
  // [W / 2][LINES - 1][2], then rows 0 and H / 2, the first W / 2 + 1 coefficients of each.
  static constexpr int ENDS = (LINES - 1) * W, MODES = ENDS + W + 2;
  template <int SIGN>
  SOPS_DEVICE void store(Complex<T>* spectrum, T scale) const {
    ends<SIGN, true, false>([](int, int) {}, [&](Complex<T> c, Complex<T> d, int k, int) {
      const Complex<T> sum = c + conj(d), rest = c - conj(d);
      spectrum[ENDS + k] = sum * ((T)0.5 * scale);
      spectrum[ENDS + HALF + 1 + k] = Complex<T>{rest.im, -rest.re} * ((T)0.5 * scale);
    });
    turn<true, false>([&](auto& v, int place) {
      forward<RowRs, 1, SIGN>(v, rows, 0);
#pragma unroll
      for (int q = 0; q < R1; q += 2)
        *(Two<T>*)(spectrum + (place + q * (LINES - 1))) = {v[q] * scale, v[q + 1] * scale};
    });
  }
  SOPS_DEVICE void load(const Complex<T>* spectrum) const {
    Complex<T> h[EACH][2];
    const auto fetch = [&](int k, int n) {
      h[n][0] = spectrum[ENDS + k];
      h[n][1] = spectrum[ENDS + HALF + 1 + k];
    };
    ends<1, false, true>(fetch, [&](Complex<T>& c, Complex<T>& d, int, int n) {
      const Complex<T> y = h[n][0], z = h[n][1], turned{-z.im, z.re};
      c = y + turned;
      d = conj(y - turned);
    });
    turn<false, true>([&](auto& v, int place) {
#pragma unroll
      for (int q = 0; q < R1; q += 2) {
        const Two<T> both = load_past((const Two<T>*)(spectrum + (place + q * (LINES - 1))));
        v[q] = both.first;
        v[q + 1] = both.second;
      }
      inverse<RowRs, 1>(v, rows, 0);
    });
  }
  SOPS_DEVICE void multiply(const Complex<T>* spectrum) const {
    Complex<T> h[EACH][2];
    const auto fetch = [&](int k, int n) {
      h[n][0] = spectrum[ENDS + k];
      h[n][1] = spectrum[ENDS + HALF + 1 + k];
    };
    ends<-1, true, true>(fetch, [&](Complex<T>& c, Complex<T>& d, int, int n) {
      const Complex<T> y = (c + conj(d)) * (T)0.5 * h[n][0], z = (c - conj(d)) * (T)0.5 * h[n][1];
      c = y + z;
      d = conj(y - z);
    });
    turn<true, true>([&](auto& v, int place) {
      Two<T> h[R1 / 2];
#pragma unroll
      for (int q = 0; q < R1; q += 2) h[q / 2] = *(const Two<T>*)(spectrum + (place + q * (LINES - 1)));
      forward<RowRs, 1, -1>(v, rows, 0);
#pragma unroll
      for (int q = 0; q < R1; q += 2) {
        v[q] = v[q] * h[q / 2].first;
        v[q + 1] = v[q + 1] * h[q / 2].second;
      }
      inverse<RowRs, 1>(v, rows, 0);
    });
  }

  // From the rows after the first pass back to put(r, c)(q, value) for the first KEEP complex columns.
  template <int KEEP, typename Put>
  SOPS_DEVICE void backwards(Put&& put) const {
    __syncthreads();
    halves([&](Complex<T>(&even)[R0], Complex<T>(&odd)[R0], bool ends, int j) {
      turned<1>(even, odd, j);
      Dft<R0, 1>::run(even);
      Dft<R0, 1>::run(odd);
      apart(even, odd, ends, [](Complex<T>& y, Complex<T>& z, bool real) {
        const Complex<T> first = real ? Complex<T>{y.re, z.re} : Complex<T>{y.re - z.im, y.im + z.re};
        z = real ? Complex<T>{y.im, z.im} : Complex<T>{y.re + z.im, z.re - y.im};
        y = first;
      });
    });
    __syncthreads();
    down<1, KEEP, true, true>([&](auto& v, int j, int) { inverse<ColumnRs, 1>(v, columns, j); });
    __syncthreads();
    down<0, KEEP, true, false>([&](auto& v, int j, int c) {
      turned<1>(v, j);
      Dft<RA, 1>::run(v);
      auto to = put(j, c);
#pragma unroll
      for (int q = 0; q < RA; ++q) to(q, v[q]);
    });
  }
};
