// The engine behind cuda_host.h, built once: fibers, barriers, the order of threads and blocks.
#include "cuda_host.h"

#include <stdio.h>
#include <stdlib.h>

#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_host {

unsigned long reports = 0;

constexpr size_t STACK_BYTES = 256 << 10;

struct Barrier {
  unsigned arrived = 0, generation = 0;
};

struct Block {
  uint3 index{};
  unsigned live = 0;
  Barrier barrier;
  std::vector<Barrier> warps;
  std::vector<unsigned> lanes;     // live lanes of each warp
  std::vector<uint64_t> exchange;  // two words a lane, for each parity
  unsigned char* shared = nullptr;
  Block* first = nullptr;  // of the cluster, of which it has the barrier
  Barrier cluster_barrier;
  unsigned cluster_live = 0;
  int votes = 0;
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
static unsigned long events = 0, launches = 0;
static void (*entry)(void**) = nullptr;
static void** entry_arguments = nullptr;

}  // namespace cuda_host

// Called by the undefined-behaviour sanitizer after each report.
extern "C" void __ubsan_on_report() { ++cuda_host::reports; }

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

void yield() { cuda_host_switch(&current->stack_pointer, scheduler); }
void progress() { ++events; }
unsigned lane() { return current->rank % 32; }
unsigned live_lanes() { return current->block->lanes[current->rank / 32]; }
void* dynamic_shared() { return current->block->shared; }

uint64_t* exchange() {
  current->parity ^= 1;
  return current->block->exchange.data() + 64 * (2 * (current->rank / 32) + current->parity);
}

static void leave() {
  Block& block = *current->block;
  current->done = true;
  ++events;
  --block.live;
  --block.first->cluster_live;
  block.lanes[current->rank / 32] &= ~(1u << current->rank % 32);
  if (block.live && block.barrier.arrived == block.live) {
    block.barrier.arrived = 0;
    ++block.barrier.generation;
  }
  yield();
  abort();
}

static void wait(Barrier& barrier, unsigned count) {
  if (++barrier.arrived >= count) {
    barrier.arrived = 0;
    ++barrier.generation;
    ++events;
    return;
  }
  const unsigned generation = barrier.generation;
  while (barrier.generation == generation) yield();
}

void wait_for_block() { wait(current->block->barrier, current->block->live); }
void wait_for_cluster() {
  Block& first = *current->block->first;
  wait(first.cluster_barrier, first.cluster_live);
}
int& votes() { return current->block->votes; }
void* shared_of_block(void* mine, int rank) {
  const Block& block = *current->block;
  return block.first[rank].shared + (static_cast<unsigned char*>(mine) - block.shared);
}
void wait_for_warp(unsigned mask) {
  Block& block = *current->block;
  const unsigned warp = current->rank / 32;
  wait(block.warps[warp], unsigned(__builtin_popcount(mask & block.lanes[warp])));
}

static void prepare(Fiber& fiber) {
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
static void run(std::vector<Fiber>& fibers, size_t count) {
  for (size_t left = count; left;) {
    const unsigned long before = events;
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
    if (left && events == before) {
      fprintf(stderr, "cuda_host: %zu threads wait for ever\n", left);
      abort();
    }
  }
}

static void begin_block(Block& block, uint3 index, dim3 size, size_t shared, Fiber* fibers) {
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

void launch(void (*kernel)(void**), dim3 grid, dim3 size, size_t shared, void** arguments, unsigned together) {
  static std::vector<Fiber> fibers;
  const size_t threads = size.x * size.y * size.z, blocks = size_t(grid.x) * grid.y * grid.z;
  if (together == 0) together = unsigned(blocks);
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
      running[k].first = running.data();
      running[k].cluster_barrier = {};
      running[k].cluster_live = unsigned(threads * together);
    }
    run(fibers, threads * together);
  }
  for (Block& block : running) free(block.shared);
}

}  // namespace cuda_host

extern "C" __attribute__((visibility("hidden"), used)) void cuda_host_body() {
  cuda_host::entry(cuda_host::entry_arguments);
  cuda_host::leave();
}
// Entered by a return into it: aligns the stack as a call would have done.
#if defined(__x86_64__)
asm(".text\n.hidden cuda_host_begin\n.globl cuda_host_begin\n.type cuda_host_begin, @function\n"
    "cuda_host_begin:\n  and $-16, %rsp\n  call cuda_host_body\n  ud2\n");
#else
asm(".text\n.hidden cuda_host_begin\n.globl cuda_host_begin\n.type cuda_host_begin, %function\n"
    "cuda_host_begin:\n  bl cuda_host_body\n  brk #1\n");
#endif
