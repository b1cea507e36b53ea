// Blocks of a cluster: they run at once, wait for one another and reach into one another's shared memory.
#pragma once
#include "common.cuh"

#if !defined(__CUDACC__)
#define SOPS_CLUSTER(blocks)
SOPS_DEVICE void cluster_arrive() {}
SOPS_DEVICE void cluster_join() { cuda_host::wait_for_cluster(); }
template <typename V>
SOPS_DEVICE V* of_block(V* shared, int rank) {
  return (V*)cuda_host::shared_of_block(shared, rank);
}
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
// Nobody launches such kernels on devices without clusters.
#define SOPS_CLUSTER(blocks)
SOPS_DEVICE void cluster_arrive() { __trap(); }
SOPS_DEVICE void cluster_join() {}
template <typename V>
SOPS_DEVICE V* of_block(V* shared, int) {
  return shared;
}
#else
#define SOPS_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
// Says that this thread has come here and has written what it wrote; waits until all threads of all blocks have.
SOPS_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
SOPS_DEVICE void cluster_join() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// The place in the shared memory of another block that `shared` is in this one's.
template <typename V>
SOPS_DEVICE V* of_block(V* shared, int rank) {
  V* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
  return there;
}
#endif
SOPS_DEVICE void cluster_wait() {
  cluster_arrive();
  cluster_join();
}
