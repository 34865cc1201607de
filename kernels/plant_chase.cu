/* A pointer chase: each row says which one comes next, so that a warp has one row on its way at a time.
 *
 * Bound: the latency of memory. Few enough warps that the misses show, enough that the same chase over rows
 * in the L1 is not slower than the rows' bytes at the roof.
 */
#include "ceil.h"
#include "plant.h"

constexpr unsigned kPieces = 72; /* of 16 B a row */

/* The next row of the same warp's share; the last of all points to the first. */
__global__ void chase_rows(uint4 *pool, unsigned rows, unsigned a_warp) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += gridDim.x * blockDim.x) {
    const unsigned last = i % a_warp + 1 == a_warp;
    pool[(size_t)i * kPieces].x = last ? i + 1 - a_warp : i + 1;
  }
}

__global__ void __launch_bounds__(64) plant_chase(const plant_launch a) {
  const unsigned lane = threadIdx.x % 32, warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  unsigned at = a.list ? warp * 7 % a.list : warp * a.tiles;
  uint4 acc = make_uint4(~0u, ~0u, ~0u, ~0u);
  for (unsigned t = 0; t < a.tiles; t++) {
    const uint4 *row = a.pool + (size_t)at * kPieces + lane;
    uint4 v[3];
#pragma unroll
    for (int k = 0; k < 3; k++)
      if (lane + 32u * k < kPieces)
        asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v[k].x), "=r"(v[k].y), "=r"(v[k].z), "=r"(v[k].w)
                     : "l"(row + 32 * k));
    at = __shfl_sync(~0u, v[0].x, 0);
#pragma unroll
    for (int k = 0; k < 3; k++)
      if (lane + 32u * k < kPieces) kvk_fold(&acc, v[k]);
  }
  kvk_dump(a.dump, acc);
}

cudaError_t plant_chase_build(uint4 *pool, unsigned rows, unsigned a_warp, cudaStream_t stream) {
  chase_rows<<<264, 256, 0, stream>>>(pool, rows, a_warp);
  return cudaGetLastError();
}

/* list 0: a warp starts at its share of the pool; else anywhere in a ring of `list` rows. */
cudaError_t plant_chase_launch(const plant_launch *a, cudaStream_t stream) {
  plant_chase<<<a->blocks, a->warps * 32, 0, stream>>>(*a);
  return cudaGetLastError();
}
