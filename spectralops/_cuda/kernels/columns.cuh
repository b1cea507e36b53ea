// What kernels along an axis that is not contiguous share.
#pragma once

// Where the lines of an array [outer][N][pitch] lie; the pitches are template arguments, so that offsets are constants.
struct ColumnArguments {
  long long columns;              // of a plane
  long long in_outer, out_outer;  // distances between planes
  long long mirror;               // PAIRS: column k > 0 has column mirror - k beside it
  long long nyquist;              // PAIRS: the column that is real like column 0, 0 if there is none
};
