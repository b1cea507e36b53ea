// Transforms for filters of lengths that have large prime factors.
#pragma once
#include "fft.cuh"

// For filters of COUNT points, any number: transforms of Inner::size >= 2 COUNT - 1 points, of which the field has the first
// COUNT and zeros elsewhere, and the spectrum all. What it is multiplied by is that of `cyclic.cu`, which scales, too.
template <int COUNT, typename Inner>
struct Cyclic : Inner {
  static constexpr int size = COUNT;
};
template <typename Rs>
SOPS_CONSTEXPR bool longer(Rs) {
  return false;
}
template <int COUNT, typename Inner>
SOPS_CONSTEXPR bool longer(Cyclic<COUNT, Inner>) {
  return true;
}
template <int COUNT, typename Inner>
struct Reversed<Cyclic<COUNT, Inner>> {
  using type = Cyclic<COUNT, typename Reversed<Inner>::type>;
};

template <typename T, int SIGN, int THREADS, int STRIDE, int LAYOUT, int COUNT, typename Inner>
struct Fft<T, SIGN, THREADS, STRIDE, LAYOUT, Cyclic<COUNT, Inner>> : Fft<T, SIGN, THREADS, STRIDE, LAYOUT, Inner> {
  using Whole = Fft<T, SIGN, THREADS, STRIDE, LAYOUT, Inner>;
  using Radix = Cyclic<COUNT, Inner>;
  static_assert(Inner::size >= 2 * COUNT - 1, "the convolution would wrap around");
  static_assert(Whole::PASSES > 1, "field and spectrum lie in different passes");
  static constexpr int N = COUNT;

  // Whether element i of the field is one of the COUNT. Of interleaved transforms the compiler sees by the slot what never
  // is one; lines by themselves would take a third more registers for it.
  template <int P>
  SOPS_DEVICE static bool there(int slot, int i) {
    return (STRIDE == 1 || slot % Inner::of(P) * Whole::G::butterflies(P) < COUNT) && i < COUNT;
  }
  template <int P, typename F>
  SOPS_DEVICE static void elements(int t, F&& f) {
    Whole::template elements<P>(t, [&](int slot, int i) {
      if (P != Whole::FIELD || there<P>(slot, i)) f(slot, i);
    });
  }
  template <bool FREE, int HELD, typename M>
  SOPS_DEVICE static void run(Complex<T> (&v)[HELD], M shared, const Complex<T>* table, int t) {
    if constexpr (SIGN < 0) {
      Whole::template elements<0>(t, [&](int slot, int i) {
        if (!there<0>(slot, i)) v[slot] = {0, 0};
      });
    }
    Whole::template run<FREE>(v, shared, table, t);
  }
  template <bool FREE, int HELD, typename M>
  SOPS_DEVICE static void run(Complex<T> (&v)[HELD], M shared, const Complex<T>* table, int t, T) {
    run<FREE>(v, shared, table, t);
  }
};
