// What channel mixing is told, and the factors of wavenumbers.
#pragma once
#include "complex.cuh"

struct MixArguments {
  long long modes;                  // wavenumbers of a channel
  long long samples, in, out;       // samples, and channels that are summed over and written
  long long x_sample, x_in;         // distances in x, in complex numbers
  long long weight_in, weight_out;  // distances between the weight's channels
  long long last;                   // wavenumbers along the last axis
  long long read, written;          // lengths of the real grids along the last axis whose bins count differently, or 0
  double scale;
  double sign;                      // of the weight's imaginary parts in `multiply`
};

// What is conjugated in the products; FIELD: x.
enum Conjugate { NONE, WEIGHT, FIELD };

// Zero and Nyquist stand for one wavenumber of a real signal, all others for two.
SOPS_DEVICE int bins(index_t k, index_t n) { return n == 0 || k == 0 || 2 * k == n ? 1 : 2; }

template <typename T>
SOPS_DEVICE T bin_factor(const MixArguments& a, index_t mode) {
  if (a.read == 0) return (T)a.scale;
  const index_t k = mode % (index_t)a.last;
  return (T)(a.scale * bins(k, (index_t)a.read) / bins(k, (index_t)a.written));
}
