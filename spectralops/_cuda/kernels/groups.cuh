// Products of matrices in single precision by groups of four warps, on tensor cores that read one factor from shared
// memory: for devices of compute capability 9.0 alone.
#pragma once
#include "parts.cuh"

// Columns of the product of a group, and 8 rows of the factor in shared memory as tensor cores want them: pieces of 8
// columns by 4 rows, the rows of a column side by side.
constexpr int GROUP_COLUMNS = 64, GROUP_PIECE = 32, GROUP_ROWS = 8 * GROUP_COLUMNS;
SOPS_CONSTEXPR int place_in_group(int row, int column) {
  return (row / 4 * (GROUP_COLUMNS / 8) + column / 8) * GROUP_PIECE + column % 8 * 4 + row % 4;
}

// Accumulators and factors in registers are not touched between these.
SOPS_DEVICE void group_begins() {
#ifdef __CUDACC__
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
SOPS_DEVICE void group_ends() {
#ifdef __CUDACC__
  asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
}
// What ordinary stores wrote to shared memory is there for tensor cores, after a barrier.
SOPS_DEVICE void written_for_groups() {
#ifdef __CUDACC__
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// sum = a b, or += with ADDED, for 64 x 8 and 8 x 64 numbers. Of lane 4 g + t of warp w of the group a[] are at rows
// 16 w + g and 8 more, columns t, and the same of columns t + 4; sum[] at the same rows and columns 8 j + 2 t and one more.
template <bool ADDED>
SOPS_DEVICE void group_multiply(float (&sum)[32], const uint32 (&a)[4], const float* b) {
#ifdef __CUDACC__
  constexpr unsigned long long APART =  // pieces one below the other, and side by side, in units of 16 bytes
      (unsigned long long)(GROUP_COLUMNS / 8 * GROUP_PIECE * 4 / 16) << 16 | (unsigned long long)(GROUP_PIECE * 4 / 16) << 32;
  const unsigned long long from = APART | ((unsigned)__cvta_generic_to_shared(b) & 0x3ffffu) >> 4;
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, "
      "%36, %37, 1, 1;"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]), "+f"(sum[7]),
        "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]),
        "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]),
        "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]),
        "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(from), "n"(ADDED));
#else
  const int lane = threadIdx.x % 32, first = lane / 4 * 4;
  float rows[2][8];
  for (int k = 0; k < 8; ++k)
    for (int half = 0; half < 2; ++half)
      rows[half][k] = cuda_host::as_tf32(__shfl_sync(~0u, a[k / 4 * 2 + half], first + k % 4));
  for (int q = 0; q < 32; ++q) {
    float value = ADDED ? sum[q] : 0;
    for (int k = 0; k < 8; ++k)
      value += rows[q / 2 % 2][k] * cuda_host::as_tf32(float_as_bits(b[place_in_group(k, q / 4 * 8 + lane % 4 * 2 + q % 2)]));
    sum[q] = value;
  }
#endif
}
