// What kernels along an axis that is not contiguous share.
#pragma once
#include "common.cuh"

// Where the lines of an array [outer][N][pitch] lie; the pitches are template arguments, so that offsets are constants.
struct ColumnArguments {
  long long columns;              // of a plane
  long long in_outer, out_outer;  // distances between planes
  long long mirror;               // PAIRS: column k > 0 has column mirror - k beside it
  long long nyquist;              // PAIRS: the column that is real like column 0, 0 if there is none
  long long nyquist_at;           // PAIRS: where that one lies
};

// PAIRS: where a row has column k, and where what tells its two rows apart: in the same place if they are real.
struct Pair {
  index_t own, mirror;

  SOPS_DEVICE Pair(const ColumnArguments& p, index_t k) : own(k), mirror((index_t)p.mirror - k) {
    if (k == (index_t)p.nyquist) own = mirror = (index_t)p.nyquist_at;
    if (k == 0) own = mirror = 0;
  }
  SOPS_DEVICE bool real() const { return own == mirror; }
};
