/* L2-to-SM link: every SM reads the same few lines over and over, past L1, each starting elsewhere.
 *
 * Bound: the port between the crossbar and an SM: 64 B a cycle by what is published for older GPUs, while one
 * SM of an H200 alone takes 121 B a cycle (240 GB/s; no L1 hits by its counters); for all SMs together the
 * L2's output. Bytes are counted at the SM's port. It differs from ceil_l2.cu in that the same lines are
 * wanted by all SMs at once, as by attention blocks that walk one prefix together.
 */
#include <cstdio>

#include "ceil.h"

template <int U>
__global__ void __launch_bounds__(1024, 1)
    link_kernel(const uint4 *p, unsigned tiles, unsigned steps, unsigned *dump) {
  uint4 acc = make_uint4(~0u, ~0u, ~0u, ~0u);
  unsigned t = (blockIdx.x * 7u) % tiles;
  for (unsigned s = 0; s < steps; s++) {
    const uint4 *q = p + (size_t)t * (blockDim.x * U) + threadIdx.x;
    uint4 v[U];
#pragma unroll
    for (int u = 0; u < U; u++) v[u] = kvk_load_l2(q + u * blockDim.x);
#pragma unroll
    for (int u = 0; u < U; u++) kvk_fold(&acc, v[u]);
    if (++t == tiles) t = 0;
  }
  kvk_dump(dump, acc);
}

struct link_args {
  const uint4 *p;
  unsigned tiles, steps;
  unsigned *dump;
  int blocks, threads, unroll;
};

static cudaError_t launch_link(void *arg, cudaStream_t stream) {
  const link_args *a = (const link_args *)arg;
  if (a->unroll == 4) link_kernel<4><<<a->blocks, a->threads, 0, stream>>>(a->p, a->tiles, a->steps, a->dump);
  else link_kernel<8><<<a->blocks, a->threads, 0, stream>>>(a->p, a->tiles, a->steps, a->dump);
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, uint64_t footprint, int threads, int unroll, int per_sm, bool one_sm,
                       kv_error *err) {
  const uint64_t tile = (uint64_t)threads * (unsigned)unroll * 16, each = (uint64_t)32 << 20;
  kvk_point p = kvk_bench_blank("link", "B", KVK_RATE);
  link_args a = {(const uint4 *)b->arena,
                 (unsigned)(footprint / tile),
                 (unsigned)(each / tile / (unsigned)per_sm),
                 b->dump,
                 one_sm ? per_sm : b->gpu->sms * per_sm,
                 threads,
                 unroll};
  (void)std::snprintf(p.variant, sizeof p.variant, "ld.cg.v4 x%d, same lines", unroll);
  p.one_sm = one_sm;
  p.blocks = (uint32_t)a.blocks;
  p.threads = (uint32_t)threads;
  p.in_flight = tile * (unsigned)per_sm;
  p.footprint = (uint64_t)a.tiles * tile;
  p.work = (double)a.blocks * (double)a.steps * (double)tile;
  return kvk_bench_point(b, &p, launch_link, &a, err);
}

kv_status kvk_ceil_link(kvk_bench *b, kv_error *err) {
  static const uint64_t footprints[] = {256u << 10, 1u << 20, 4u << 20};
  uint64_t got = 0;
  kv_status st = kvk_bench_arena(b, 8u << 20, 8u << 20, &got, err);
  for (int f = 0; !st && f < 3; f++)
    for (int unroll = 4; !st && unroll <= 8; unroll *= 2) {
      if (b->plan->quick && (f != 0 || unroll != 8)) continue;
      st = point(b, footprints[f], 1024, unroll, 1, false,
                 err); /* one block: two on an SM could share a miss */
      if (!st) st = point(b, footprints[f], 1024, unroll, 1, true, err);
    }
  return st;
}
