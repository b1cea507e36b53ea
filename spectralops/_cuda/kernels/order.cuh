// Launches of one program, each of which may begin before the one before it has ended: what does not depend on that is
// done in the meantime. The first of a program begins when all before it have ended, so that its operands are there.
#pragma once
#include "common.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define SOPS_OVERLAPS 1
#endif

// Lets the next launch begin as soon as all blocks have come here and there is room for its own.
SOPS_DEVICE void let_next_begin() {
#ifdef SOPS_OVERLAPS
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Whether the threads of this launch leave room on every multiprocessor; `ROOMY_THREADS` of `early.py`.
SOPS_DEVICE bool roomy() {
#ifdef SOPS_OVERLAPS
  constexpr unsigned ROOMY_THREADS = 1024;
  unsigned multiprocessors;
  asm("mov.u32 %0, %%nsmid;" : "=r"(multiprocessors));
  return (unsigned long long)gridDim.x * blockDim.x <= multiprocessors * ROOMY_THREADS;
#else
  return false;
#endif
}

// Waits until all launches before this one have ended: nothing may be written before.
SOPS_DEVICE void await_previous() {
#ifdef SOPS_OVERLAPS
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The same; `at` is what they wrote, of which nothing may be read before.
template <typename V>
SOPS_DEVICE const V* after_previous(const V* at) {
#ifdef SOPS_OVERLAPS
  asm volatile("griddepcontrol.wait;" : "+l"(at)::"memory");
  __builtin_assume(__isGlobal(at));  // which the compiler no longer sees
#endif
  return at;
}

// Has the 128 bytes around a value come to the second-level cache.
template <typename V>
SOPS_DEVICE void ask_for_line([[maybe_unused]] const V* at) {
#ifdef SOPS_OVERLAPS
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}
// The same for `count` values, by the threads of a block together, where blocks are few: many would ask over and over.
template <typename V>
SOPS_DEVICE void ask_for(const V* at, int count) {
  if (!roomy()) return;
  constexpr int LINE = 128 / (int)sizeof(V);
  for (int i = (int)threadIdx.x * LINE; i < count; i += (int)blockDim.x * LINE) ask_for_line(at + i);
}

// The number of a block, counted from the last one: that is where the launch before ended, whose results are still in the
// second-level cache, and the launch after begins where this one ends.
SOPS_DEVICE index_t turned_block() { return (index_t)gridDim.x - 1 - (index_t)blockIdx.x; }
