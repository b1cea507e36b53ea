// Products of matrices in single precision on tensor cores, which multiply numbers of 11 bits.
#pragma once
#include "common.cuh"

// A number in two parts of 11 bits each, which tensor cores multiply exactly.
struct Parts {
  uint32 high, low;
};
SOPS_DEVICE Parts parts_of(float value) {
  // What rounds to infinity keeps a finite first part: the second one then is the rest, or infinite where the number is.
  const float largest = bits_as_float(0x7f7fefffu), bounded = fminf(fmaxf(value, -largest), largest);
  const uint32 high = (float_as_bits(bounded) + 0x1000u) & 0xffffe000u;
  return {high, float_as_bits(value - bits_as_float(high))};
}

// sum += a b for 16 x 8 and 8 x 8 numbers that a warp holds: of lane 4 g + t a[] at rows g, g + 8 and columns t, t + 4
// (rows first), b[] at rows t, t + 4 of column g, sum[] at rows g, g + 8 (last) and columns 2 t, 2 t + 1.
SOPS_DEVICE void multiply_add(float (&sum)[4], uint32 a0, uint32 a1, uint32 a2, uint32 a3, uint32 b0, uint32 b1) {
#ifdef __CUDACC__
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  const uint32 a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
  cuda_host::multiply_add_tf32(sum, a, b);
#endif
}
SOPS_DEVICE void multiply_add(float (&sum)[4], const Parts (&a)[4], const Parts (&b)[2]) {
  multiply_add(sum, a[0].low, a[1].low, a[2].low, a[3].low, b[0].high, b[1].high);
  multiply_add(sum, a[0].high, a[1].high, a[2].high, a[3].high, b[0].low, b[1].low);
  multiply_add(sum, a[0].high, a[1].high, a[2].high, a[3].high, b[0].high, b[1].high);
}
