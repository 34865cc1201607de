/* plant.h - what the planted kernels share among themselves. For .cu files only; the public face is
 * planted.h.
 */
#ifndef KVK_PLANT_H
#define KVK_PLANT_H

#include <cuda_runtime.h>

#include "planted.h"

/* A launch of one kernel, `copies` of it side by side; copy c starts c * apart slots further on, around the
 * end of the list. */
typedef struct plant_launch {
  const uint4 *pool;
  const int *slots;
  unsigned list;  /* slots in the list */
  unsigned apart; /* between two copies */
  unsigned tiles; /* a warp */
  unsigned blocks, copies, warps;
  unsigned step; /* words from one group of extra reads to the next: 256 */
  int reads, clashes, chain, again;
  unsigned *dump;
} plant_launch;

/* One an instance, with the shared memory that it takes; nullptr for a shape that is not built. */
cudaError_t plant_gather_launch(const kvk_planted *k, const plant_launch *launch, cudaStream_t stream);
cudaError_t plant_gather_allow(const kvk_planted *k, int shared_bytes);
cudaError_t plant_chase_launch(const plant_launch *launch, cudaStream_t stream);
/* Writes into each row which comes next: within a warp's share, or around `rows` of them. */
cudaError_t plant_chase_build(uint4 *pool, unsigned rows, unsigned a_warp, cudaStream_t stream);
cudaError_t plant_empty_launch(cudaStream_t stream);

#endif
