// Copies from memory to shared memory that nobody waits for until they are needed.
#pragma once
#include "common.cuh"

template <typename V>
SOPS_DEVICE void copy_ahead(V* to, const V* from) {
#ifdef __CUDACC__
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "n"(sizeof(V)));
#else
  *to = *from;
#endif
}
// The same for 16 bytes, past the first-level cache.
template <typename V>
SOPS_DEVICE void copy_past(V* to, const V* from) {
  static_assert(sizeof(V) == 16, "what such copies take");
#ifdef __CUDACC__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
#else
  *to = *from;
#endif
}
// The same as `copy_ahead`; zeros where nothing is there.
template <typename V>
SOPS_DEVICE void copy_ahead(V* to, const V* from, bool there) {
#ifdef __CUDACC__
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "n"(sizeof(V)), "r"(there ? (int)sizeof(V) : 0));
#else
  *to = there ? *from : V{};
#endif
}
// Ends a group of copies; `landed` waits for all but the last groups.
SOPS_DEVICE void end_of_group() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;");
#endif
}
template <int GROUPS>
SOPS_DEVICE void landed() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS));
#endif
}
