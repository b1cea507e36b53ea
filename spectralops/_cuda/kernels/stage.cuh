// One forward Euler stage of a cell, term by term in the order that _plans/schemes.py states. A plan's update is a
// type, `Update<Linear<...>, Diffusion<...>, ...>`, so that only its own operations are compiled; values come in a
// `Stage`. Without contraction (-fmad=false) the result equals NumPy's to the last bit.
#pragma once
#include "common.cuh"

// ghost = scale * u[cell] + offset; a plain copy is 1 * u + (-0), which keeps the sign of zero.
template <typename T>
struct Ghost {
  index_t cell;
  T scale;
  T offset;
};

// An array coefficient that broadcasts against u: distance of neighbours along each dimension, in elements. The type of
// its elements, which may be of 16 bits, is an argument of what reads it.
template <int D>
struct Field {
  const void* data;
  index_t stride[D];
};

// `D` dimensions of the array, `WIDTH` ghost layers, and how many coefficients there are of each kind.
template <int D, int WIDTH, int FIELDS, int NUMBERS, int WEIGHTS>
struct Sizes {
  static constexpr int dims = D, width = WIDTH, fields = FIELDS, numbers = NUMBERS, weights = WEIGHTS;
};

template <typename T, class SIZES>
struct Stage {
  index_t shape[SIZES::dims];
  index_t stride[SIZES::dims];
  index_t rows;
  Ghost<T> ghosts[SIZES::dims][2][SIZES::width];
  int held[SIZES::dims][2];
  Field<SIZES::dims> fields[SIZES::fields];
  T numbers[SIZES::numbers];
  double weights[SIZES::weights];
  T blend[2];
};

// A cell and what is around it, stored as S. INSIDE: no neighbour that a term reads lies beyond an end. MASK: the field
// that says which cells are computed, or -1.
template <typename T, class SIZES, int MASK, bool INSIDE, typename S = T>
struct Cell {
  static constexpr bool masked = MASK >= 0;
  const Stage<T, SIZES>& p;
  const S* here;
  const index_t* at;

  // Where the neighbour K cells away along A lies, as a distance from here, when it is not a ghost.
  template <int A>
  SOPS_DEVICE bool beyond(int k) const {
    return !INSIDE && (at[A] + k < 0 || at[A] + k >= p.shape[A]);
  }
  template <int A>
  SOPS_DEVICE const Ghost<T>& ghost(int k) const {
    return at[A] + k < 0 ? p.ghosts[A][0][-1 - (at[A] + k)] : p.ghosts[A][1][at[A] + k - p.shape[A]];
  }

  template <int A, int K>
  SOPS_DEVICE T u() const {
    if (!beyond<A>(K)) return to_number(here[K * p.stride[A]]);
    const Ghost<T>& g = ghost<A>(K);
    const T scaled = g.scale * to_number(here[(g.cell - at[A]) * p.stride[A]]);
    return scaled + g.offset;
  }
  SOPS_DEVICE T u() const { return to_number(*here); }

  template <typename F>
  SOPS_DEVICE F element(int field, int axis, index_t shift) const {
    const Field<SIZES::dims>& f = p.fields[field];
    index_t offset = shift * f.stride[axis];
#pragma unroll
    for (int d = 0; d < SIZES::dims; ++d) offset += at[d] * f.stride[d];
    return ((const F*)f.data)[offset];
  }
  template <typename F>
  SOPS_DEVICE auto coefficient(int field, int axis, index_t shift) const {
    return to_number(element<F>(field, axis, shift));
  }
  // Array coefficients go on beyond the ends as their end value, or around where the axis is periodic.
  template <int A, int K, typename F>
  SOPS_DEVICE T around(int field) const {
    index_t shift = K;
    if (beyond<A>(K)) {
      const index_t last = p.shape[A] - 1;
      const bool wraps = p.ghosts[A][0][0].cell == last && p.ghosts[A][1][0].cell == 0;
      shift = (at[A] + K < 0) == wraps ? last - at[A] : -at[A];
    }
    return (T)coefficient<F>(field, A, shift);
  }

  template <int A, int K>
  SOPS_DEVICE bool computed() const {
    if (MASK < 0) return true;
    index_t shift = K;
    if (beyond<A>(K)) shift = ghost<A>(K).cell - at[A];
    return element<unsigned char>(MASK, A, shift) != 0;
  }
  // Face K lies between the cells K - 1 and K.
  template <int A, int K>
  SOPS_DEVICE bool closed() const {
    return MASK >= 0 && !(computed<A, K - 1>() && computed<A, K>());
  }
};

// A field of elements of type F.
template <int FIELD, typename F>
struct Array {
  template <class C>
  SOPS_DEVICE static double of(const C& cell) {
    return (double)cell.template coefficient<F>(FIELD, 0, 0);
  }
};

// A coefficient `weights[W] + weights[W + 1] * array ...`, formed in double and rounded once.
template <int W, class... ARRAYS>
struct Weight {
  template <typename T, class C>
  SOPS_DEVICE static T of(const C& cell, double plus) {
    double value = cell.p.weights[W];
    int k = W;
    ((value = value + cell.p.weights[++k] * ARRAYS::of(cell)), ...);
    return (T)(plus + value);
  }
};

// A coefficient that is a number: CHANGE of the stage's numbers, or WHOLE, which is 1 more.
template <int CHANGE, int WHOLE>
struct Constant {
  template <typename T, class C>
  SOPS_DEVICE static T of(const C& cell, double plus) {
    return cell.p.numbers[plus == 0.0 ? CHANGE : WHOLE];
  }
};

// A pair of neighbours with a common weight, or one: LOW and HIGH are their offsets, 0 for none.
template <int A, int LOW, int HIGH, class WEIGHT>
struct Tap {
  template <typename T, class C>
  SOPS_DEVICE static T of(const C& cell) {
    const T weight = WEIGHT::template of<T>(cell, 0.0);
    if constexpr (LOW != 0 && HIGH != 0) {
      const T sum = cell.template u<A, LOW>() + cell.template u<A, HIGH>();
      return sum * weight;
    } else {
      return cell.template u<A, LOW + HIGH>() * weight;
    }
  }
};

template <class CENTER, class... TAPS>
struct Linear {
  static constexpr bool linear = true;
  template <typename T, class C>
  SOPS_DEVICE static T start(const C& cell, bool increment) {
    T sum = cell.u() * CENTER::template of<T>(cell, increment ? 0.0 : 1.0);
    ((sum = sum + TAPS::template of<T>(cell)), ...);
    return sum;
  }
};

// No linear part: E(u) starts from u, an increment from 0.
struct Plain {
  template <typename T, class C>
  SOPS_DEVICE static T start(const C& cell, bool increment) {
    return increment ? (T)0 : cell.u();
  }
};

// Where a number comes from: NUMBERS of the stage, or a field of type S, formed on faces as (low + high) * factor.
enum Kind { NUMBER = 0, ARRAY = 1, ITSELF = 2 };

template <int A, int NUMBER_, int FIELD, typename S>
struct Diffusion {
  template <int K, typename T, class C>
  SOPS_DEVICE static T flux(const C& cell) {
    if (cell.template closed<A, K>()) return (T)0;
    const T difference = cell.template u<A, K>() - cell.template u<A, K - 1>();
    if constexpr (FIELD < 0) {
      return difference * cell.p.numbers[NUMBER_];
    } else {
      const T sum = cell.template around<A, K - 1, S>(FIELD) + cell.template around<A, K, S>(FIELD);
      const T conductance = sum * cell.p.numbers[NUMBER_];
      return difference * conductance;
    }
  }
  template <typename T, class C>
  SOPS_DEVICE static T add(const C& cell, T sum) {
    const T high = flux<1, T>(cell), low = flux<0, T>(cell);
    return sum + (high - low);
  }
};

// What a scheme takes the differences of.
struct Same {
  template <typename T>
  SOPS_DEVICE static T of(T u) {
    return u;
  }
};
struct PositiveSquare {
  template <typename T>
  SOPS_DEVICE static T of(T u) {
    const T clipped = u < (T)0 ? (T)0 : u;
    return clipped * clipped;
  }
};
struct NegativeSquare {
  template <typename T>
  SOPS_DEVICE static T of(T u) {
    const T clipped = u > (T)0 ? (T)0 : u;
    return clipped * clipped;
  }
};

template <int A, int K, class VIEW, typename T, class C>
SOPS_DEVICE T difference(const C& cell) {
  if (cell.template closed<A, K>()) return (T)0;
  return VIEW::of(cell.template u<A, K>()) - VIEW::of(cell.template u<A, K - 1>());
}

SOPS_DEVICE float magnitude(float x) { return fabsf(x); }
SOPS_DEVICE double magnitude(double x) { return fabs(x); }
template <typename T>
SOPS_DEVICE T smallest_normal();
template <>
SOPS_DEVICE float smallest_normal<float>() { return 1.17549435082228751e-38f; }
template <>
SOPS_DEVICE double smallest_normal<double>() { return 2.2250738585072014e-308; }

// Smoothness of a parabola from the second and the first difference.
template <typename T>
SOPS_DEVICE T smoothness(T second, T first) {
  const T curvature = second * second * (T)(13.0 / 12.0);
  const T slope = first * first * (T)(1.0 / 4.0);
  return curvature + slope;
}
template <typename T>
SOPS_DEVICE T share(T tau, T beta, T guard, double linear) {
  const T ratio = tau / (beta + guard);
  return (ratio * ratio + (T)1) * (T)linear;
}
template <typename T>
SOPS_DEVICE T weno5(T a, T b, T c, T e) {
  const T beta0 = smoothness(b - a, b * (T)3 - a);
  const T beta1 = smoothness(c - b, c + b);
  const T beta2 = smoothness(e - c, c * (T)3 - e);
  T guard = a * a;
  guard = guard + b * b;
  guard = guard + c * c;
  guard = guard + e * e;
  guard = guard * (T)1e-6 + smallest_normal<T>();
  const T tau = magnitude(beta0 - beta2);
  const T w0 = share(tau, beta0, guard, 1.0 / 10.0);
  const T w1 = share(tau, beta1, guard, 6.0 / 10.0);
  const T w2 = share(tau, beta2, guard, 3.0 / 10.0);
  T sum = w0 * (b * (T)5 - (a + a));
  sum = sum + w1 * (b + (c + c));
  sum = sum + w2 * (c * (T)4 - e);
  return sum / (w0 + w1 + w2) * (T)(1.0 / 6.0);
}

enum Scheme { CENTRAL = 0, UPWIND = 1, UPWIND3 = 2, WENO5 = 3 };

// What a scheme adds to the upwind value at face K; WIND is 1 towards higher indices, -1 towards lower ones.
template <int SCHEME, int A, int K, int WIND, class VIEW, typename T, class C>
SOPS_DEVICE T correction(const C& cell) {
  const T c = difference<A, K, VIEW, T>(cell), b = difference<A, K - WIND, VIEW, T>(cell);
  if constexpr (SCHEME == UPWIND3) {
    return (b + (c + c)) * (T)(1.0 / 6.0);
  } else {
    const T far = difference<A, K - 2 * WIND, VIEW, T>(cell), e = difference<A, K + WIND, VIEW, T>(cell);
    return weno5<T>(cell.template closed<A, K - WIND>() ? (T)0 : far, b, c, e);
  }
}

template <int SCHEME, int A, int K, int WIND, class VIEW, typename T, class C>
SOPS_DEVICE T face_value(const C& cell) {
  const T upwind = VIEW::of(cell.template u<A, (WIND > 0 ? K - 1 : K)>());
  if constexpr (SCHEME == UPWIND) return upwind;
  const T g = correction<SCHEME, A, K, WIND, VIEW, T>(cell);
  return WIND > 0 ? upwind + g : upwind - g;
}

template <int SCHEME, int A, int WIND, typename T, class C>
SOPS_DEVICE T slope(const C& cell) {
  const T d = difference<A, (WIND > 0 ? 0 : 1), Same, T>(cell);
  if constexpr (SCHEME == UPWIND) {
    return d;
  } else {
    T low = correction<SCHEME, A, 0, WIND, Same, T>(cell), high = correction<SCHEME, A, 1, WIND, Same, T>(cell);
    if (cell.template closed<A, 0>()) low = (T)0;
    if (cell.template closed<A, 1>()) high = (T)0;
    return WIND > 0 ? high + (d - low) : (d - high) + low;
  }
}

template <int A, int SCHEME, bool FLUX, int WIND, int KIND, int NUMBER_, int FIELD, typename S>
struct Transport {
  template <int K, typename T, class C>
  SOPS_DEVICE static T flux(const C& cell) {
    if (cell.template closed<A, K>()) return (T)0;
    const T factor = cell.p.numbers[NUMBER_];
    if constexpr (KIND == ARRAY) {
      const T sum = cell.template around<A, K - 1, S>(FIELD) + cell.template around<A, K, S>(FIELD);
      const T velocity = sum * factor;
      if constexpr (SCHEME == CENTRAL) return (cell.template u<A, K - 1>() + cell.template u<A, K>()) * velocity;
      else if (velocity >= (T)0) return face_value<SCHEME, A, K, 1, Same, T>(cell) * velocity;
      else return face_value<SCHEME, A, K, -1, Same, T>(cell) * velocity;
    } else if constexpr (SCHEME == CENTRAL) {
      const T below = cell.template u<A, K - 1>(), above = cell.template u<A, K>();
      return (KIND == ITSELF ? below * below + above * above : below + above) * factor;
    } else if constexpr (KIND == ITSELF) {
      const T forwards = face_value<SCHEME, A, K, 1, PositiveSquare, T>(cell);
      const T backwards = face_value<SCHEME, A, K, -1, NegativeSquare, T>(cell);
      return (forwards + backwards) * factor;
    } else {
      return face_value<SCHEME, A, K, WIND, Same, T>(cell) * factor;
    }
  }

  template <typename T, class C>
  SOPS_DEVICE static T add(const C& cell, T sum) {
    if constexpr (FLUX) {
      const T high = flux<1, T>(cell), low = flux<0, T>(cell);
      return sum - (high - low);
    } else {
      T velocity = (T)0;
      if constexpr (KIND == ARRAY) velocity = cell.template around<A, 0, S>(FIELD);
      if constexpr (KIND == ITSELF) velocity = cell.u();
      T change;
      if constexpr (SCHEME == CENTRAL && !C::masked)
        change = cell.template u<A, 1>() - cell.template u<A, -1>();
      else if constexpr (SCHEME == CENTRAL)
        change = difference<A, 1, Same, T>(cell) + difference<A, 0, Same, T>(cell);
      else if constexpr (WIND != 0)
        change = slope<SCHEME, A, WIND, T>(cell);
      else if (velocity >= (T)0)
        change = slope<SCHEME, A, 1, T>(cell);
      else
        change = slope<SCHEME, A, -1, T>(cell);
      if constexpr (KIND != NUMBER) change = change * velocity;
      return sum - change * cell.p.numbers[NUMBER_];
    }
  }
};

template <int NUMBER_, int FIELD, typename S>
struct Source {
  template <typename T, class C>
  SOPS_DEVICE static T add(const C& cell, T sum) {
    if constexpr (FIELD < 0) return sum + cell.p.numbers[NUMBER_];
    else return sum + (T)cell.template coefficient<S>(FIELD, 0, 0) * cell.p.numbers[NUMBER_];
  }
};

template <class START, class... TERMS>
struct Update {
  template <typename T, class C>
  SOPS_DEVICE static T of(const C& cell, bool increment) {
    T sum = START::template start<T>(cell, increment);
    ((sum = TERMS::template add<T>(cell, sum)), ...);
    return sum;
  }
};
