// Discrete Fourier transforms of one block: small ones in registers, larger ones by passes with exchanges through
// shared memory (Stockham's autosort: natural order in, natural order out). SIGN is -1 forward, +1 inverse; nothing is
// scaled.
//
// Between passes, butterfly j of radix R holds the elements j + q * (N / R), q = 0 ... R - 1. The same layout stands at
// the beginning of the first pass and at the end of the last one, so that a transform with reversed radices goes on
// where the previous one stopped.
#pragma once
#include "complex.cuh"

// The shared memory that a launch gives a block.
template <typename T>
SOPS_DEVICE Complex<T>* shared_memory() {
  extern __shared__ __align__(16) unsigned char sops_shared[];
  return (Complex<T>*)sops_shared;
}

SOPS_CONSTEXPR int larger(int a, int b) { return a > b ? a : b; }

// The same number, of which the compiler knows nothing: sums with constants stay sums, which addresses hold for nothing,
// instead of becoming logical operations on bits that are known to be zero.
SOPS_DEVICE int opaque(int n) {
#ifdef __CUDACC__
  asm("" : "+r"(n));
#endif
  return n;
}

// The same pointer, of which the compiler knows nothing: what it points to is loaded where it is used instead of being
// kept in registers through a loop.
template <typename V>
SOPS_DEVICE const V* anew(const V* at) {
#ifdef __CUDACC__
  asm volatile("" : "+l"(at));
  __builtin_assume(__isGlobal(at));
#endif
  return at;
}

// First factor that a register transform is split by; R itself where it is computed directly.
SOPS_CONSTEXPR int split(int r) {
  if (r <= 5) return r;
  return r % 4 == 0 ? 4 : r % 2 == 0 ? 2 : r % 3 == 0 ? 3 : r % 5 == 0 ? 5 : r % 7 == 0 ? 7 : r;
}

SOPS_CONSTEXPR bool coprime(int a, int b) { return b == 0 ? a == 1 : coprime(b, a % b); }
// The number below a b that is k1 modulo a and k2 modulo b.
SOPS_CONSTEXPR int both(int k1, int k2, int a, int b) {
  int k = k1;
  while (k % b != k2) k += a;
  return k;
}

// v[k] <- sum_n v[n] exp(SIGN 2 pi i n k / R), all in registers.
template <int R, int SIGN>
struct Dft {
  template <typename T>
  SOPS_DEVICE static void run(Complex<T> (&v)[R]) {
    if constexpr (R == 2) {
      const Complex<T> a = v[0];
      v[0] = a + v[1];
      v[1] = a - v[1];
    } else if constexpr (R == 4) {
      const Complex<T> a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = rotate<SIGN, 4>(v[1] - v[3]);
      v[0] = a + c;
      v[1] = b + d;
      v[2] = a - c;
      v[3] = b - d;
    } else if constexpr (split(R) == R && R > 1) {
      odd(v);
    } else if constexpr (R > 1) {
      composite(v);
    }
  }

 private:
  // Pairs v[j], v[R - j]: half of the products, all real.
  template <typename T>
  SOPS_DEVICE static void odd(Complex<T> (&v)[R]) {
    constexpr int h = R / 2;
    Complex<T> sum[h], difference[h];
    const Complex<T> first = v[0];
    repeat<h>([&](auto j) {
      constexpr int J = decltype(j)::value + 1;
      sum[J - 1] = v[J] + v[R - J];
      difference[J - 1] = v[J] - v[R - J];
      v[0] = v[0] + sum[J - 1];
    });
    repeat<h>([&](auto k) {
      constexpr int K = decltype(k)::value + 1;
      Complex<T> even = first, odd{0, 0};
      repeat<h>([&](auto j) {
        constexpr int J = decltype(j)::value + 1;
        constexpr T c = (T)Root<J * K, R>::re, s = (T)(SIGN * Root<J * K, R>::im);
        even = {even.re + sum[J - 1].re * c, even.im + sum[J - 1].im * c};
        odd = {odd.re - difference[J - 1].im * s, odd.im + difference[J - 1].re * s};
      });
      v[K] = even + odd;
      v[R - K] = even - odd;
    });
  }

  // n = B a + b, k = c + A d. Factors that have none in common need no roots between them: n = B a + A b, c and d are k
  // modulo A and B.
  template <typename T>
  SOPS_DEVICE static void composite(Complex<T> (&v)[R]) {
    constexpr int A = split(R), B = R / A;
    constexpr bool PRIME = coprime(A, B);
    Complex<T> rows[B][A];
    repeat<B>([&](auto b) {
      constexpr int n2 = decltype(b)::value;
      repeat<A>([&](auto a) {
        constexpr int n1 = decltype(a)::value;
        rows[n2][n1] = v[PRIME ? (B * n1 + A * n2) % R : B * n1 + n2];
      });
      Dft<A, SIGN>::run(rows[n2]);
    });
    repeat<A>([&](auto c) {
      constexpr int k1 = decltype(c)::value;
      Complex<T> column[B];
      repeat<B>([&](auto b) {
        constexpr int n2 = decltype(b)::value;
        column[n2] = rotate<PRIME ? 0 : SIGN * n2 * k1, R>(rows[n2][k1]);
      });
      Dft<B, SIGN>::run(column);
      repeat<B>([&](auto d) {
        constexpr int k2 = decltype(d)::value;
        v[PRIME ? both(k1, k2, A, B) : k1 + A * k2] = column[k2];
      });
    });
  }
};

template <int... R>
struct Radices {
  static constexpr int count = sizeof...(R);
  static constexpr int size = (1 * ... * R);
  SOPS_CONSTEXPR static int of(int p) {
    constexpr int all[] = {R...};
    return all[p];
  }
  SOPS_CONSTEXPR static int before(int p) {  // product of the radices of earlier passes
    int product = 1;
    for (int i = 0; i < p; ++i) product *= of(i);
    return product;
  }
  // Twiddle factors of pass p, exp(-2 pi i q j / before(p + 1)) for q = 1 ... R - 1 and j < before(p), begin here.
  SOPS_CONSTEXPR static int table(int p) {
    int begin = 0;
    for (int i = 1; i < p; ++i) begin += before(i) * (of(i) - 1);
    return begin;
  }
};
template <typename Forward, int... R>
struct Reversed;
template <int... R>
struct Reversed<Radices<>, R...> {
  using type = Radices<R...>;
};
template <int First, int... Rest, int... R>
struct Reversed<Radices<First, Rest...>, R...> : Reversed<Radices<Rest...>, First, R...> {};

// Which butterflies of a pass a thread has. SPREAD: neighbouring threads have neighbouring ones. BLOCKED: as SPREAD, but
// at the field's end of a transform a thread's own are neighbours. MIRRORED: as SPREAD, but at the spectrum's end
// wavenumbers k and N - k lie in one thread. PACKED: as BLOCKED, without gaps in shared memory.
enum Layout { SPREAD, BLOCKED, MIRRORED, PACKED };

// One transform of a group of THREADS threads. Element i of the exchange lies at shared[i * STRIDE]: 1 where each
// transform has a region of its own, the number of transforms where they are interleaved.
template <int THREADS, int STRIDE, int LAYOUT, typename Rs>
struct Geometry {
  static constexpr int N = Rs::size;
  SOPS_CONSTEXPR static int butterflies(int p) { return N / Rs::of(p); }
  SOPS_CONSTEXPR static int each(int p) { return (butterflies(p) + THREADS - 1) / THREADS; }
  SOPS_CONSTEXPR static int elements() {
    int most = 0;
    for (int p = 0; p < Rs::count; ++p) most = larger(most, each(p) * Rs::of(p));
    return most;
  }
  // Gap after each N_s * R elements, which spreads the writes of neighbouring butterflies over the banks.
  SOPS_CONSTEXPR static int gap(int p) {
    const int s = Rs::before(p);
    return LAYOUT != PACKED && s * STRIDE < 16 && Rs::of(p) % 2 == 0 ? s : 0;
  }
  SOPS_CONSTEXPR static int padded() {
    int most = N;
    for (int p = 0; p + 1 < Rs::count; ++p) most = larger(most, N + N / Rs::before(p + 1) * gap(p));
    return most;
  }
};

template <typename T, int SIGN, int THREADS, int STRIDE, int LAYOUT, typename Rs>
struct Fft {
  using G = Geometry<THREADS, STRIDE, LAYOUT, Rs>;
  using Radix = Rs;
  static constexpr int N = Rs::size, PASSES = Rs::count, E = G::elements();
  static constexpr bool WITHIN_WARP = STRIDE == 1 && 32 % THREADS == 0;
  // The passes beside the spectrum and beside the field, and whether butterflies of the former pair up.
  static constexpr int SPECTRAL = SIGN < 0 ? PASSES - 1 : 0, FIELD = PASSES - 1 - SPECTRAL;
  static constexpr bool PAIRED =
      LAYOUT == MIRRORED && G::butterflies(SPECTRAL) % (2 * THREADS) == 0 && Rs::of(SPECTRAL) % 2 == 0;

  template <int P>
  SOPS_DEVICE static int butterfly(int t, int b) {
    if constexpr ((LAYOUT == BLOCKED || LAYOUT == PACKED) && P == FIELD) return t * G::each(P) + b;
    if constexpr (PAIRED && P == SPECTRAL) {
      constexpr int HALF = G::each(P) / 2;
      if (b < HALF) return t + b * THREADS;
      const int j = t + (b - HALF) * THREADS;
      return j == 0 ? G::butterflies(P) / 2 : G::butterflies(P) - j;
    }
    return t + b * THREADS;
  }
  // Whether the butterflies of a pass are t, t + THREADS, and so on.
  SOPS_CONSTEXPR static bool spread(int p) {
    return !((LAYOUT == BLOCKED || LAYOUT == PACKED) && p == FIELD) && !(PAIRED && p == SPECTRAL);
  }
  template <int P>
  SOPS_DEVICE static bool inside(int j) {
    return G::butterflies(P) % THREADS == 0 || j < G::butterflies(P);
  }
  SOPS_DEVICE static void wait() {
    if constexpr (WITHIN_WARP) __syncwarp();
    else __syncthreads();
  }

  // f(slot of v, index of the element) for what the thread holds before (P = 0) or after (P = PASSES - 1) a transform.
  template <int P, typename F>
  SOPS_DEVICE static void elements(int t, F&& f) {
    constexpr int R = Rs::of(P), NB = G::butterflies(P);
#pragma unroll
    for (int b = 0; b < G::each(P); ++b) {
      const int j = butterfly<P>(t, b);
      if (inside<P>(j)) {
#pragma unroll
        for (int q = 0; q < R; ++q) f(b * R + q, j + q * NB);
      }
    }
  }

  // Whether a thread of a BLOCKED transform holds elements i and i + 1 for even i, and f(slot, slot of the next, i).
  template <int P>
  SOPS_CONSTEXPR static bool by_two() {
    const bool even = G::each(P) % 2 == 0 && G::butterflies(P) % 2 == 0;
    return even && P == FIELD && (LAYOUT == BLOCKED || LAYOUT == PACKED);
  }
  template <int P, typename F>
  SOPS_DEVICE static void neighbours(int t, F&& f) {
    constexpr int R = Rs::of(P);
    elements<P>(t, [&](int slot, int i) {
      if (slot / R % 2 == 0) f(slot, slot + R, i);
    });
  }

  // For PAIRED transforms: f(Z_k, Z_(N-k), k, root) for the wavenumbers k = 0 ... N / 2 of which a thread holds both,
  // changes in place; ends(Z_0, Z_(N/2)) for the two that have no other. Thread 0 has butterflies 0 and NB / 2, which pair
  // up within themselves: halves of them change places before and after. `roots` are exp(-pi i k / N).
  template <int HELD, typename F, typename Ends>
  SOPS_DEVICE static void pairs(Complex<T> (&v)[HELD], int t, const Complex<T>* roots, F&& f, Ends&& ends) {
    constexpr int R = Rs::of(SPECTRAL), NB = G::butterflies(SPECTRAL), HALF = G::each(SPECTRAL) / 2;
    const bool zero = t == 0;
    const auto change = [&](bool back) {
      Complex<T>*a = v, *c = v + HALF * R, moved[R / 2];
#pragma unroll
      for (int i = 0; i < R / 2; ++i) {
        const int other = (i + 1) % (R / 2);
        moved[back ? other : i] = back ? c[R / 2 + i] : a[R / 2 + other];
      }
#pragma unroll
      for (int i = 0; i < R / 2; ++i) {
        Complex<T>&up = a[R / 2 + i], &down = c[R / 2 + i], x = up, y = down;
        up = zero ? (back ? moved[i] : y) : x;
        down = zero ? (back ? x : moved[i]) : y;
      }
    };
    change(false);
#pragma unroll
    for (int b = 0; b < HALF; ++b) {
      const int j = t + b * THREADS, upper = zero && b == 0 ? NB / 2 : j;
      const Complex<T> first = roots[j], middle = rotate<-1, 4 * R>(Complex<T>{1, 0});
      const Complex<T> second = zero && b == 0 ? middle : first;
      repeat<R>([&](auto number) {
        constexpr int q = decltype(number)::value;
        Complex<T>&own = v[b * R + q], &other = v[(b + HALF) * R + R - 1 - q];
        if constexpr (q < R / 2) {
          const Complex<T> root = rotate<-q, 2 * R>(first);
          if (q > 0 || b > 0 || !zero) f(own, other, j + q * NB, root);
          else ends(own, other);
        } else {  // exp(-pi i (N - k) / N) = -exp(pi i k / N)
          const Complex<T> root = rotate<-q, 2 * R>(second);
          f(other, own, N - upper - q * NB, Complex<T>{-root.re, root.im});
        }
      });
    }
    change(true);
  }

  // FREE: nobody reads or writes the shared memory any more when the first exchange begins.
  template <bool FREE, int HELD, typename M>
  SOPS_DEVICE static void run(Complex<T> (&v)[HELD], M shared, const Complex<T>* table, int t) {
    pass<0, FREE, false>(v, shared, table, t, (T)1);
  }
  // The same times a factor, with which the table's second pass has been multiplied already.
  template <bool FREE, int HELD, typename M>
  SOPS_DEVICE static void run(Complex<T> (&v)[HELD], M shared, const Complex<T>* table, int t, T scale) {
    if constexpr (PASSES == 1) {
#pragma unroll
      for (int i = 0; i < E; ++i) v[i] = v[i] * scale;
    }
    pass<0, FREE, true>(v, shared, table, t, scale);
  }

 private:
  // All butterflies of a pass, with the factors before them.
  template <int P, bool SCALED, int HELD>
  SOPS_DEVICE static void butterflies(Complex<T> (&v)[HELD], const Complex<T>* table, int t, T scale) {
    constexpr int R = Rs::of(P), S = Rs::before(P);
#pragma unroll
    for (int b = 0; b < G::each(P); ++b) {
      const int j = butterfly<P>(t, b);
      Complex<T> u[R];
#pragma unroll
      for (int q = 0; q < R; ++q) u[q] = v[b * R + q];
      if constexpr (P > 0) {
        // The same for all of a thread's butterflies where possible, so that they are loaded once.
        constexpr bool SAME = THREADS % S == 0 && (LAYOUT == SPREAD || (P != FIELD && P != SPECTRAL));
        const Complex<T>* w = table + Rs::table(P) + (unsigned)(SAME ? t : j) % S;
        if constexpr (SCALED && P == 1) u[0] = u[0] * scale;
#pragma unroll
        for (int q = 1; q < R; ++q) u[q] = SIGN < 0 ? u[q] * w[(q - 1) * S] : times_conj(u[q], w[(q - 1) * S]);
      }
      Dft<R, SIGN>::run(u);
#pragma unroll
      for (int q = 0; q < R; ++q) v[b * R + q] = u[q];
    }
  }
  // The same where butterflies j and S - j lie in one thread: their factors are conjugate if the latter counts as -j, whose
  // wavenumbers come one later. Thread 0 has S / 2 beside 0, which needs none.
  template <int P, int HELD>
  SOPS_DEVICE static void mirrored(Complex<T> (&v)[HELD], const Complex<T>* table, int t) {
    constexpr int R = Rs::of(P), S = Rs::before(P), HALF = G::each(P) / 2;
#pragma unroll
    for (int b = 0; b < HALF; ++b) {
      const int j = t + b * THREADS;
      const Complex<T>* w = table + Rs::table(P) + (j == 0 ? S / 2 : j);
      Complex<T> own[R], other[R], factor[R];
#pragma unroll
      for (int q = 0; q < R; ++q) {
        own[q] = v[b * R + q];
        other[q] = v[(b + HALF) * R + q];
        if (q > 0) {
          factor[q] = w[(q - 1) * S];
          other[q] = times_conj(other[q], factor[q]);
        }
      }
      if (j != 0) {
#pragma unroll
        for (int q = 1; q < R; ++q) own[q] = own[q] * factor[q];
      }
      Dft<R, SIGN>::run(own);
      Dft<R, SIGN>::run(other);
#pragma unroll
      for (int q = 0; q < R; ++q) {
        v[b * R + q] = own[q];
        v[(b + HALF) * R + q] = other[(q + 1) % R];
      }
    }
  }
  template <int P, bool FREE, bool SCALED, int HELD, typename M>
  SOPS_DEVICE static void pass(Complex<T> (&v)[HELD], M shared, const Complex<T>* table, int t, T scale) {
    constexpr int R = Rs::of(P), S = Rs::before(P);
    const int own = LAYOUT == PACKED ? t : opaque(t);
    if constexpr (PAIRED && P == SPECTRAL && P > 0) {
      static_assert(!SCALED, "the transform that scales begins at the spectrum");
      mirrored<P>(v, table, t);
    } else {
      butterflies<P, SCALED>(v, table, t, scale);
    }
    if constexpr (P + 1 < PASSES) {
      // A gap after what one butterfly writes, or all neighbours of one thread, but not before all banks have been met.
      constexpr int GAP = G::gap(P), BANKS = 128 / (int)sizeof(Complex<T>);
      constexpr int WRITTEN = S * R * (P == FIELD && LAYOUT == BLOCKED ? G::each(P) : 1);
      constexpr int BLOCK = S == 1 && BANKS % WRITTEN == 0 ? BANKS : WRITTEN;
      if constexpr (!FREE || P > 0) wait();
      // Where a thread's butterflies lie at fixed distances, one address serves all.
      constexpr bool APART = spread(P) && THREADS % S == 0 && (GAP == 0 || THREADS * R % BLOCK == 0);
      constexpr int STEP = THREADS * R + THREADS * R / BLOCK * GAP;
#pragma unroll
      for (int b = 0; b < G::each(P); ++b) {
        const int j = butterfly<P>(own, b), from = APART ? own : j;
        if (inside<P>(j)) {
          const int begin = from + (int)((unsigned)from / S) * (S * (R - 1));
          const int at = begin + (int)((unsigned)begin / BLOCK) * GAP + (APART ? b * STEP : 0);
#pragma unroll
          for (int q = 0; q < R; ++q) shared[(at + q * S) * STRIDE] = v[b * R + q];
        }
      }
      wait();
      constexpr int NEXT = Rs::of(P + 1), NB = G::butterflies(P + 1);
      constexpr bool LEVEL = spread(P + 1) && (GAP == 0 || THREADS % BLOCK == 0);
#pragma unroll
      for (int b = 0; b < G::each(P + 1); ++b) {
        const int j = butterfly<P + 1>(own, b), from = LEVEL ? own : j;
        const int at = from + (int)((unsigned)from / BLOCK) * GAP + (LEVEL ? b * (THREADS + THREADS / BLOCK * GAP) : 0);
        if (inside<P + 1>(j)) {
#pragma unroll
          for (int q = 0; q < NEXT; ++q) {
            // Where blocks and butterflies nest, elements of a butterfly lie at fixed distances.
            constexpr bool NESTED = NB % BLOCK == 0 || BLOCK % NB == 0;
            const int i = q * NB;
            const int place = NESTED ? at + i + i / BLOCK * GAP : j + i + (int)((unsigned)(j + i) / BLOCK) * GAP;
            v[b * NEXT + q] = shared[place * STRIDE];
          }
        }
      }
      pass<P + 1, FREE, SCALED>(v, shared, table, t, scale);
    }
  }
};

// A transform of COUNT points, any number, by Bluestein's algorithm: with c_n = exp(-pi i n^2 / COUNT) it is c_k times the
// convolution of x c with conj(c), which transforms of Inner::size >= 2 COUNT - 1 points do. Table: c, the transform of
// conj(c) over its size (and times the scale of the inverse), tables of the inner transforms. One pass to the outside:
// the same layout before and after, that of the inner transform's field.
template <int COUNT, typename Inner>
struct Chirp {
  static constexpr int count = 1, size = COUNT;
  SOPS_CONSTEXPR static int of(int) { return Inner::of(0); }
  SOPS_CONSTEXPR static int table(int p) {
    return p == 0 ? 0
                  : COUNT + Inner::size + Inner::table(Inner::count) + Reversed<Inner>::type::table(Inner::count);
  }
};
template <int COUNT, typename Inner>
struct Reversed<Chirp<COUNT, Inner>> {
  using type = Chirp<COUNT, Inner>;
};

template <typename T, int SIGN, int THREADS, int STRIDE, int LAYOUT, int COUNT, typename Inner>
struct Fft<T, SIGN, THREADS, STRIDE, LAYOUT, Chirp<COUNT, Inner>> {
  static constexpr int INSIDE = LAYOUT == MIRRORED ? SPREAD : LAYOUT;
  using There = Fft<T, -1, THREADS, STRIDE, INSIDE, Inner>;
  using Back = Fft<T, 1, THREADS, STRIDE, INSIDE, typename Reversed<Inner>::type>;
  using Radix = Chirp<COUNT, Inner>;
  struct G {
    SOPS_CONSTEXPR static int butterflies(int) { return There::G::butterflies(0); }
    SOPS_CONSTEXPR static int each(int) { return There::G::each(0); }
    SOPS_CONSTEXPR static int padded() { return larger(There::G::padded(), Back::G::padded()); }
  };
  static_assert(Inner::size >= 2 * COUNT - 1, "the convolution would wrap around");
  static constexpr int N = COUNT, PASSES = 1, E = larger(There::E, Back::E);
  static constexpr bool WITHIN_WARP = There::WITHIN_WARP, PAIRED = false;

  SOPS_DEVICE static void wait() { There::wait(); }
  template <int P, typename F>
  SOPS_DEVICE static void elements(int t, F&& f) {
    There::template elements<0>(t, [&](int slot, int i) {
      if (i < COUNT) f(slot, i);
    });
  }
  template <bool FREE, int HELD, typename M>
  SOPS_DEVICE static void run(Complex<T> (&v)[HELD], M shared, const Complex<T>* table, int t) {
    const Complex<T>*spectrum = table + COUNT, *inner = spectrum + Inner::size;
    There::template elements<0>(t, [&](int slot, int i) {
      if (i < COUNT) v[slot] = (SIGN < 0 ? v[slot] : conj(v[slot])) * table[i];
      else v[slot] = {0, 0};
    });
    There::template run<FREE>(v, shared, inner, t);
    There::template elements<There::PASSES - 1>(t, [&](int slot, int k) { v[slot] = v[slot] * spectrum[k]; });
    Back::template run<false>(v, shared, inner + Inner::table(Inner::count), t);
    elements<0>(t, [&](int slot, int k) {
      v[slot] = v[slot] * table[k];
      if (SIGN > 0) v[slot] = conj(v[slot]);
    });
  }
  template <bool FREE, int HELD, typename M>
  SOPS_DEVICE static void run(Complex<T> (&v)[HELD], M shared, const Complex<T>* table, int t, T) {
    run<FREE>(v, shared, table, t);
  }
};
