// Shared vocabulary of every kernel: index type, 16-bit storage.
#pragma once

#ifndef INDEX_T
#define INDEX_T int
#endif
typedef INDEX_T index_t;

#define SOPS_DEVICE __device__ __forceinline__
#define SOPS_CONSTEXPR __host__ __device__ constexpr

typedef unsigned short uint16;
typedef unsigned int uint32;

union FloatBits {
  float value;
  uint32 bits;
};
SOPS_DEVICE float bits_as_float(uint32 bits) {
  FloatBits both;
  both.bits = bits;
  return both.value;
}
SOPS_DEVICE uint32 float_as_bits(float value) {
  FloatBits both;
  both.value = value;
  return both.bits;
}

// 16-bit storage; arithmetic is done in float, rounding is to nearest even, subnormals are kept.
enum Format { BINARY16, BRAIN16 };
template <int FORMAT>
struct Half {
  uint16 bits;
};
using float16_t = Half<BINARY16>;
using bfloat16_t = Half<BRAIN16>;

// The number that a stored value stands for.
SOPS_DEVICE float to_number(float value) { return value; }
SOPS_DEVICE double to_number(double value) { return value; }
SOPS_DEVICE float to_number(bfloat16_t value) { return bits_as_float((uint32)value.bits << 16); }
SOPS_DEVICE float to_number(float16_t value) {
#ifdef __CUDACC__
  float number;
  asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(value.bits));
  return number;
#else
  const uint32 magnitude = value.bits & 0x7fffu;
  float number = (float)magnitude * 5.9604644775390625e-8f;  // subnormal: multiples of 2^-24
  if (magnitude >= 0x400u) number = bits_as_float((magnitude << 13) + (magnitude < 0x7c00u ? 112u << 23 : 224u << 23));
  return value.bits & 0x8000u ? -number : number;
#endif
}

// Stores a number as S.
template <typename S>
struct Storage {
  SOPS_DEVICE static S from(S value) { return value; }
};
template <>
struct Storage<bfloat16_t> {
  SOPS_DEVICE static bfloat16_t from(float value) {
#ifdef __CUDACC__
    bfloat16_t stored;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(stored.bits) : "f"(value));
    return stored;
#else
    const uint32 bits = float_as_bits(value);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return bfloat16_t{(uint16)(nan ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#endif
  }
};
template <>
struct Storage<float16_t> {
  SOPS_DEVICE static float16_t from(float value) {
#ifdef __CUDACC__
    float16_t stored;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(stored.bits) : "f"(value));
    return stored;
#else
    const uint32 bits = float_as_bits(value), magnitude = bits & 0x7fffffffu;
    uint32 rounded;
    if (magnitude > 0x7f800000u)
      rounded = 0x7e00u;
    else if (magnitude >= 0x47800000u)
      rounded = 0x7c00u;
    else if (magnitude < 0x38800000u)  // one unit in the last place of 0.5 is the spacing of subnormals
      rounded = float_as_bits(bits_as_float(magnitude) + 0.5f) - 0x3f000000u;
    else
      rounded = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    return float16_t{(uint16)(rounded | ((bits >> 16) & 0x8000u))};
#endif
  }
};
