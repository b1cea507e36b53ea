// Enough of CUDA to run a kernel on the host: one fiber a thread, blocks one after another (those of a cluster at once,
// all of them in a cooperative launch), so that barriers, shuffles and shared memory mean what they mean on a device.
//
// The text of a kernel is compiled after this header by g++; what it includes from CUDA itself is left out. A kernel
// that waits for a barrier which not all its threads reach aborts, and so does undefined behaviour that g++ can see.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __CUDA_ON_HOST__ 1
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

#define VECTOR_TYPES(T, N, A2, A4)                                                                                    \
  struct alignas(A2) N##2 { T x, y; };                                                                                \
  struct N##3 { T x, y, z; };                                                                                         \
  struct alignas(A4) N##4 { T x, y, z, w; };                                                                          \
  inline N##2 make_##N##2(T x, T y) { return {x, y}; }                                                                \
  inline N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }                                                        \
  inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTOR_TYPES(float, float, 8, 16)
VECTOR_TYPES(double, double, 16, 16)
VECTOR_TYPES(int, int, 8, 16)
#undef VECTOR_TYPES
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static const int warpSize = 32;

// The engine, in cuda_host.cpp.
namespace cuda_host {

extern unsigned long reports;  // of undefined behaviour
unsigned lane();
unsigned live_lanes();      // of this warp
uint64_t* exchange();       // two words for each lane of this warp, not those of the turn before
void* dynamic_shared();     // of this block, NaN at the start of a block
void wait_for_block();
void wait_for_warp(unsigned mask);
void wait_for_cluster();
int& votes();               // of this block
void* shared_of_block(void* mine, int rank);  // the place in another block of the cluster that `mine` is in this one
void yield();
void progress();            // something happened that others may wait for
void launch(void (*kernel)(void**), dim3 grid, dim3 block, size_t shared, void** arguments, unsigned together);

// Every lane's value, read from lane `source(lane)`.
template <class T, class F>
inline T shuffle(unsigned mask, T value, F source) {
  static_assert(sizeof(T) <= 16, "values of up to 16 bytes");
  uint64_t* slots = exchange();
  memcpy(slots + 2 * lane(), &value, sizeof(T));
  wait_for_warp(mask);
  const int from = source(int(lane()));
  if (from >= 0 && from < 32) memcpy(&value, slots + 2 * from, sizeof(T));
  return value;
}

// What tensor cores do with factors in tf32: sum += a b, 16 x 8 by 8 x 8, spread over a warp as `mma.m16n8k8` wants it.
inline float as_tf32(unsigned bits) {
  float value;
  bits &= 0xffffe000u;
  memcpy(&value, &bits, 4);
  return value;
}
inline void multiply_add_tf32(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  const int g = int(lane()) / 4, t = int(lane()) % 4;
  float rows[2][8], columns[8][2];
  const uint64_t* slots = exchange();
  memcpy(const_cast<uint64_t*>(slots) + 2 * lane(), a, sizeof(a));
  wait_for_warp(~0u);
  for (int k = 0; k < 8; ++k)
    for (int half = 0; half < 2; ++half)
      rows[half][k] = as_tf32(reinterpret_cast<const unsigned*>(slots + 2 * (4 * g + k % 4))[2 * (k / 4) + half]);
  slots = exchange();
  memcpy(const_cast<uint64_t*>(slots) + 2 * lane(), b, sizeof(b));
  wait_for_warp(~0u);
  for (int k = 0; k < 8; ++k)
    for (int n = 0; n < 2; ++n)
      columns[k][n] = as_tf32(reinterpret_cast<const unsigned*>(slots + 2 * (4 * (2 * t + n) + k % 4))[k / 4]);
  for (int q = 0; q < 4; ++q)
    for (int k = 0; k < 8; ++k) sum[q] += rows[q / 2][k] * columns[k][q % 2];
}

// Calling a kernel with arguments that are known by their addresses.
template <size_t... I>
struct Indices {};
template <size_t N, size_t... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <size_t... I>
struct Count<0, I...> {
  typedef Indices<I...> type;
};
template <class... P, size_t... I>
inline void call(void (*kernel)(P...), void** arguments, Indices<I...>) {
  kernel(*static_cast<P*>(arguments[I])...);
}
template <class... P>
inline void call(void (*kernel)(P...), void** arguments) {
  call(kernel, arguments, typename Count<sizeof...(P)>::type());
}
template <class... P>
inline size_t argument_size(void (*)(P...), size_t k) {
  const size_t sizes[] = {sizeof(P)..., 0};
  return k < sizeof...(P) ? sizes[k] : 0;
}

}  // namespace cuda_host

// Barriers, votes, shuffles.
inline void __syncthreads() { cuda_host::wait_for_block(); }
inline int __syncthreads_or(int predicate) {
  cuda_host::votes() |= predicate != 0;
  cuda_host::wait_for_block();
  const int any = cuda_host::votes();
  cuda_host::wait_for_block();
  cuda_host::votes() = 0;
  cuda_host::wait_for_block();
  return any;
}
inline void __syncwarp(unsigned mask = ~0u) { cuda_host::wait_for_warp(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) {
  cuda_host::progress();
  cuda_host::yield();
}
template <class T>
inline T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
  return cuda_host::shuffle(mask, v, [=](int lane) { return (lane & ~(width - 1)) + (from & (width - 1)); });
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
  return cuda_host::shuffle(mask, v, [=](int lane) { return (lane & (width - 1)) < int(by) ? lane : lane - int(by); });
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
  return cuda_host::shuffle(mask, v, [=](int lane) {
    return (lane & (width - 1)) + int(by) >= width ? lane : lane + int(by);
  });
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32) {
  return cuda_host::shuffle(mask, v, [=](int lane) {
    const int other = lane ^ with;
    return other / width == lane / width ? other : lane;
  });
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const unsigned live = cuda_host::live_lanes();
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane) votes |= unsigned(!!__shfl_sync(mask, predicate, lane)) << lane;
  return votes & mask & live;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
inline unsigned __activemask() { return cuda_host::live_lanes(); }

// Atomics and cached accesses: only one fiber runs at a time. An atomic may be part of a loop that waits.
template <class T, class F>
inline T cuda_host_update(T* p, F change) {
  const T old = *p;
  *p = change(old);
  if (!(*p == old)) cuda_host::progress();
  return old;
}
template <class T> inline T atomicAdd(T* p, T v) { return cuda_host_update(p, [=](T x) { return T(x + v); }); }
template <class T> inline T atomicSub(T* p, T v) { return cuda_host_update(p, [=](T x) { return T(x - v); }); }
template <class T> inline T atomicMax(T* p, T v) { return cuda_host_update(p, [=](T x) { return x < v ? v : x; }); }
template <class T> inline T atomicMin(T* p, T v) { return cuda_host_update(p, [=](T x) { return v < x ? v : x; }); }
template <class T> inline T atomicExch(T* p, T v) { return cuda_host_update(p, [=](T) { return v; }); }
template <class T> inline T atomicOr(T* p, T v) { return cuda_host_update(p, [=](T x) { return T(x | v); }); }
template <class T> inline T atomicAnd(T* p, T v) { return cuda_host_update(p, [=](T x) { return T(x & v); }); }
template <class T>
inline T atomicCAS(T* p, T expected, T v) {
  return cuda_host_update(p, [=](T x) { return x == expected ? v : x; });
}
template <class T> inline T __ldg(const T* p) { return *p; }
template <class T> inline T __ldcg(const T* p) { return *p; }
template <class T> inline T __ldcs(const T* p) { return *p; }
template <class T> inline T __ldca(const T* p) { return *p; }
template <class T> inline T __ldcv(const T* p) { return *p; }
template <class T> inline void __stcs(T* p, T v) { *p = v; }
template <class T> inline void __stcg(T* p, T v) { *p = v; }
template <class T> inline void __stwt(T* p, T v) { *p = v; }

// Arithmetic.
template <class T> inline T min(T a, T b) { return b < a ? b : a; }
template <class T> inline T max(T a, T b) { return a < b ? b : a; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int k = 0; k < 32; ++k) r |= (x >> k & 1u) << (31 - k);
  return r;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
inline void sincospif(float x, float* s, float* c) {
  *s = float(sin(double(x) * M_PI));
  *c = float(cos(double(x) * M_PI));
}
inline void sincospi(double x, double* s, double* c) {
  *s = sin(x * M_PI);
  *c = cos(x * M_PI);
}
inline int __float_as_int(float x) { int r; memcpy(&r, &x, 4); return r; }
inline unsigned __float_as_uint(float x) { unsigned r; memcpy(&r, &x, 4); return r; }
inline float __int_as_float(int x) { float r; memcpy(&r, &x, 4); return r; }
inline float __uint_as_float(unsigned x) { float r; memcpy(&r, &x, 4); return r; }

// 16-bit storage, rounded to nearest even.
struct __half { uint16_t bits; };
struct __nv_bfloat16 { uint16_t bits; };
struct alignas(4) __half2 { __half x, y; };
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
inline float __half2float(__half h) {
  const int sign = h.bits >> 15, exponent = h.bits >> 10 & 31, fraction = h.bits & 1023;
  const float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                     : exponent     ? ldexpf(float(1024 + fraction), exponent - 25)
                                    : ldexpf(float(fraction), -24);
  return sign ? -size : size;
}
inline __half __float2half(float x) {
  const uint16_t sign = uint16_t(signbit(x) ? 0x8000 : 0);
  const float size = fabsf(x);
  if (size == 0) return {sign};
  if (size != size) return {uint16_t(sign | 0x7E00)};
  if (size >= 65520.0f) return {uint16_t(sign | 0x7C00)};
  int exponent;
  frexpf(size, &exponent);  // size = f * 2^exponent, f in [1/2, 1)
  if (exponent < -13) return {uint16_t(sign | unsigned(nearbyintf(ldexpf(size, 24))))};
  const unsigned fraction = unsigned(nearbyintf(ldexpf(size, 11 - exponent)));  // in [1024, 2048]
  return {uint16_t(sign | ((unsigned(exponent + 14) << 10) + fraction - 1024))};
}
inline __half __float2half_rn(float x) { return __float2half(x); }
inline float __bfloat162float(__nv_bfloat16 h) { return __uint_as_float(unsigned(h.bits) << 16); }
inline __nv_bfloat16 __float2bfloat16(float x) {
  const unsigned bits = __float_as_uint(x);
  if (x != x) return {uint16_t(bits >> 16 | 64)};
  return {uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __float2bfloat16(x); }
