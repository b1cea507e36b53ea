// Enough of CUDA to run a kernel on the host: one fiber a thread, blocks one after another (all at once in a
// cooperative launch), so that barriers, shuffles and shared memory mean what they mean on a device.
//
// The text of a kernel is compiled after this header by g++; what it includes from CUDA itself is left out. A kernel
// that waits for a barrier which not all its threads reach aborts, and so does undefined behaviour that g++ can see.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

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

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;

namespace cuda_host {

constexpr size_t STACK_BYTES = 256 << 10;

struct Barrier {
  unsigned arrived = 0, generation = 0;
};

struct Block {
  uint3 index{};
  unsigned live = 0;
  Barrier barrier;
  std::vector<Barrier> warps;
  std::vector<unsigned> lanes;                    // live lanes of each warp
  std::vector<uint64_t> exchange;                 // two words a thread and parity
  unsigned char* shared = nullptr;
};

struct Fiber {
  void* stack_pointer = nullptr;
  unsigned char* stack = nullptr;
  Block* block = nullptr;
  uint3 index{};
  unsigned rank = 0, parity = 0;
  bool done = true;
};

static void* scheduler = nullptr;
static Fiber* current = nullptr;
static unsigned long progress = 0, reports = 0, launches = 0;
static void (*entry)(void**) = nullptr;
static void** entry_arguments = nullptr;

}  // namespace cuda_host

// Called by the undefined-behaviour sanitizer after each report.
extern "C" __attribute__((visibility("hidden"))) void __ubsan_on_report() { ++cuda_host::reports; }

extern "C" void cuda_host_switch(void** save, void* to);
extern "C" void cuda_host_begin();
#if defined(__x86_64__)
asm(R"(
.text
.hidden cuda_host_switch
.globl cuda_host_switch
.type cuda_host_switch, @function
cuda_host_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");
constexpr int SAVED_WORDS = 6;
#elif defined(__aarch64__)
asm(R"(
.text
.hidden cuda_host_switch
.globl cuda_host_switch
.type cuda_host_switch, %function
cuda_host_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp d8, d9, [sp, #80]
  stp d10, d11, [sp, #96]
  stp d12, d13, [sp, #112]
  stp d14, d15, [sp, #128]
  stp x29, x30, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp d8, d9, [sp, #80]
  ldp d10, d11, [sp, #96]
  ldp d12, d13, [sp, #112]
  ldp d14, d15, [sp, #128]
  ldp x29, x30, [sp, #144]
  add sp, sp, #160
  ret
)");
constexpr int SAVED_WORDS = 19;
#else
#error "no fiber switch for this processor"
#endif

namespace cuda_host {

inline void yield() { cuda_host_switch(&current->stack_pointer, scheduler); }

inline void leave() {
  Block& block = *current->block;
  current->done = true;
  ++progress;
  --block.live;
  block.lanes[current->rank / 32] &= ~(1u << current->rank % 32);
  if (block.live && block.barrier.arrived == block.live) {
    block.barrier.arrived = 0;
    ++block.barrier.generation;
  }
  yield();
  abort();
}

inline void wait(Barrier& barrier, unsigned count) {
  if (++barrier.arrived >= count) {
    barrier.arrived = 0;
    ++barrier.generation;
    ++progress;
    return;
  }
  const unsigned generation = barrier.generation;
  while (barrier.generation == generation) yield();
}

inline void wait_for_warp(unsigned mask) {
  Block& block = *current->block;
  const unsigned warp = current->rank / 32;
  wait(block.warps[warp], unsigned(__builtin_popcount(mask & block.lanes[warp])));
}

// Every lane's value, read by `source(lane)`; a lane keeps its own where that names none.
template <class T, class F>
inline T shuffle(unsigned mask, T value, F source) {
  static_assert(sizeof(T) <= 16, "values of up to 16 bytes");
  Block& block = *current->block;
  current->parity ^= 1;
  const unsigned lane = current->rank % 32, first = current->rank - lane;
  uint64_t* slots = block.exchange.data() + 2 * (current->parity * 32 + 64 * (first / 32));
  memcpy(slots + 2 * lane, &value, sizeof(T));
  wait_for_warp(mask);
  const int from = source(int(lane));
  if (from >= 0 && from < 32) memcpy(&value, slots + 2 * from, sizeof(T));
  return value;
}

inline void* dynamic_shared() { return current->block->shared; }

inline void prepare(Fiber& fiber) {
  if (!fiber.stack) fiber.stack = static_cast<unsigned char*>(aligned_alloc(64, STACK_BYTES));
  uint64_t* top = reinterpret_cast<uint64_t*>(fiber.stack + STACK_BYTES - 64);
  memset(static_cast<void*>(top - 32), 0, 32 * sizeof(uint64_t));
#if defined(__x86_64__)
  top[-1] = reinterpret_cast<uint64_t>(&cuda_host_begin);
  fiber.stack_pointer = top - 1 - SAVED_WORDS;
#else
  top[-1] = reinterpret_cast<uint64_t>(&cuda_host_begin);
  fiber.stack_pointer = top - 1 - SAVED_WORDS;
#endif
  fiber.done = false;
  fiber.parity = 0;
}

// Runs all fibers of some blocks to their end. Every other launch goes through the threads backwards, so that a
// missing barrier shows as a difference between two calls.
inline void run(std::vector<Fiber>& fibers, size_t count) {
  for (size_t left = count; left;) {
    const unsigned long before = progress;
    left = 0;
    for (size_t k = 0; k < count; ++k) {
      Fiber& fiber = fibers[launches & 1 ? count - 1 - k : k];
      if (fiber.done) continue;
      current = &fiber;
      threadIdx = fiber.index;
      blockIdx = fiber.block->index;
      cuda_host_switch(&scheduler, fiber.stack_pointer);
      left += !fiber.done;
    }
    if (left && progress == before) {
      fprintf(stderr, "cuda_host: %zu threads wait for ever\n", left);
      abort();
    }
  }
}

inline void begin_block(Block& block, uint3 index, dim3 size, size_t shared, Fiber* fibers) {
  const unsigned threads = size.x * size.y * size.z, warps = (threads + 31) / 32;
  block.index = index;
  block.live = threads;
  block.barrier = {};
  block.warps.assign(warps, {});
  block.lanes.assign(warps, 0);
  block.exchange.assign(128 * warps, 0);
  if (!block.shared) block.shared = static_cast<unsigned char*>(aligned_alloc(1024, (shared + 1024) / 1024 * 1024));
  memset(block.shared, 0xFF, shared);  // NaN
  for (unsigned k = 0; k < threads; ++k) {
    prepare(fibers[k]);
    fibers[k].block = &block;
    fibers[k].rank = k;
    fibers[k].index = {k % size.x, k / size.x % size.y, k / size.x / size.y};
    block.lanes[k / 32] |= 1u << k % 32;
  }
}

inline void launch(void (*kernel)(void**), dim3 grid, dim3 size, size_t shared, void** arguments, bool cooperative) {
  static std::vector<Fiber> fibers;
  const size_t threads = size.x * size.y * size.z, blocks = size_t(grid.x) * grid.y * grid.z;
  const size_t together = cooperative ? blocks : 1;
  if (fibers.size() < threads * together) fibers.resize(threads * together);
  std::vector<Block> running(together);
  blockDim = size;
  gridDim = grid;
  entry = kernel;
  entry_arguments = arguments;
  ++launches;
  for (size_t first = 0; first < blocks; first += together) {
    for (size_t k = 0; k < together; ++k) {
      const size_t b = first + k;
      const uint3 index{unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y)};
      begin_block(running[k], index, size, shared, fibers.data() + k * threads);
    }
    run(fibers, threads * together);
  }
  for (Block& block : running) free(block.shared);
}

template <class... P>
struct Signature {
  static constexpr size_t count = sizeof...(P);
  static constexpr size_t sizes[] = {sizeof(P)..., 0};
};
template <class... P>
constexpr Signature<P...> signature(void (*)(P...)) { return {}; }

template <class... P, size_t... I>
inline void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<P>*>(arguments[I])...);
}
template <class... P>
inline void call(void (*kernel)(P...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<P...>());
}

}  // namespace cuda_host

extern "C" __attribute__((visibility("hidden"))) inline void cuda_host_begin_body() {
  cuda_host::entry(cuda_host::entry_arguments);
  cuda_host::leave();
}
extern "C" __attribute__((visibility("hidden"), used)) void cuda_host_body() { cuda_host_begin_body(); }
// Entered by a return into it: aligns the stack as a call would have done.
#if defined(__x86_64__)
asm(".text\n.hidden cuda_host_begin\n.globl cuda_host_begin\n.type cuda_host_begin, @function\n"
    "cuda_host_begin:\n  and $-16, %rsp\n  call cuda_host_body\n  ud2\n");
#else
asm(".text\n.hidden cuda_host_begin\n.globl cuda_host_begin\n.type cuda_host_begin, %function\n"
    "cuda_host_begin:\n  bl cuda_host_body\n  brk #1\n");
#endif

// Barriers, votes, shuffles.
inline void __syncthreads() { cuda_host::wait(cuda_host::current->block->barrier, cuda_host::current->block->live); }
inline void __syncwarp(unsigned mask = ~0u) { cuda_host::wait_for_warp(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) { ++cuda_host::progress; cuda_host::yield(); }
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
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane) votes |= unsigned(!!__shfl_sync(mask, predicate, lane)) << lane;
  return votes & mask & cuda_host::current->block->lanes[cuda_host::current->rank / 32];
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
inline unsigned __activemask() { return cuda_host::current->block->lanes[cuda_host::current->rank / 32]; }

// Atomics and cached accesses: only one fiber runs at a time. An atomic may be part of a loop that waits.
template <class T, class F>
inline T cuda_host_update(T* p, F change) {
  const T old = *p;
  *p = change(old);
  if (!(*p == old)) ++cuda_host::progress;
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
  *s = float(std::sin(double(x) * M_PI));
  *c = float(std::cos(double(x) * M_PI));
}
inline void sincospi(double x, double* s, double* c) {
  *s = std::sin(x * M_PI);
  *c = std::cos(x * M_PI);
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
                     : exponent     ? std::ldexp(float(1024 + fraction), exponent - 25)
                                    : std::ldexp(float(fraction), -24);
  return sign ? -size : size;
}
inline __half __float2half(float x) {
  const uint16_t sign = uint16_t(std::signbit(x) ? 0x8000 : 0);
  const float size = std::fabs(x);
  if (size != size) return {uint16_t(sign | 0x7E00)};
  if (size >= 65520.0f) return {uint16_t(sign | 0x7C00)};
  int exponent;
  std::frexp(size, &exponent);  // size = f * 2^exponent, f in [1/2, 1)
  if (exponent < -13) return {uint16_t(sign | unsigned(std::nearbyint(std::ldexp(size, 24))))};
  const unsigned fraction = unsigned(std::nearbyint(std::ldexp(size, 11 - exponent)));  // in [1024, 2048]
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
