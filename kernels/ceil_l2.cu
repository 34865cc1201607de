/* L2 read: a footprint that stays in the L2 is read many times, each pass by all blocks together, every line
 * once a pass and by another SM than before, so that L1 never helps.
 *
 * Bound: the L2 slices and the crossbar behind them (H100/H200: about 5.5 to 7 TB/s). Where the L2 is in two
 * partitions, lines of the far one may be kept in both, so that only footprints below half of the L2 stay
 * resident: several are tried and the best counts.
 */
#include <cstdio>

#include "ceil.h"

template <int U>
__global__ void __launch_bounds__(1024, 1)
    l2_kernel(const uint4 *p, unsigned tiles, unsigned passes, unsigned *dump) {
  uint4 acc = make_uint4(~0u, ~0u, ~0u, ~0u);
  const unsigned tile = blockDim.x * U;
  for (unsigned pass = 0; pass < passes; pass++)
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
      const uint4 *q = p + (size_t)((t + pass * 17u) % tiles) * tile + threadIdx.x;
      uint4 v[U];
#pragma unroll
      for (int u = 0; u < U; u++) v[u] = kvk_load_l2(q + u * blockDim.x);
#pragma unroll
      for (int u = 0; u < U; u++) kvk_fold(&acc, v[u]);
    }
  kvk_dump(dump, acc);
}

struct l2_args {
  const uint4 *p;
  unsigned tiles, passes;
  unsigned *dump;
  int blocks, threads;
};

constexpr int kUnroll = 8;

static cudaError_t launch_l2(void *arg, cudaStream_t stream) {
  const l2_args *a = (const l2_args *)arg;
  l2_kernel<kUnroll><<<a->blocks, a->threads, 0, stream>>>(a->p, a->tiles, a->passes, a->dump);
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, uint64_t footprint, int threads, int per_sm, bool one_sm,
                       kv_error *err) {
  const uint64_t tile = (uint64_t)threads * kUnroll * 16,
                 total = one_sm ? (uint64_t)64 << 20 : (uint64_t)4 << 30;
  kvk_point p = kvk_bench_blank("l2", "B", KVK_RATE);
  l2_args a = {(const uint4 *)b->arena,
               (unsigned)(footprint / tile),
               0,
               b->dump,
               one_sm ? 1 : b->gpu->sms * per_sm,
               threads};
  a.passes = (unsigned)(total / ((uint64_t)a.tiles * tile));
  if (a.passes < 2) a.passes = 2;
  (void)std::snprintf(p.variant, sizeof p.variant, "ld.cg.v4 x%d", kUnroll);
  p.one_sm = one_sm;
  p.blocks = (uint32_t)a.blocks;
  p.threads = (uint32_t)threads;
  p.in_flight = tile * (unsigned)per_sm;
  p.footprint = (uint64_t)a.tiles * tile;
  p.work = (double)p.footprint * a.passes;
  return kvk_bench_point(b, &p, launch_l2, &a, err);
}

kv_status kvk_ceil_l2(kvk_bench *b, kv_error *err) {
  static const int shares[] = {8, 4, 3, 2}; /* footprint = L2 / share */
  uint64_t got = 0, l2 = b->gpu->l2 ? b->gpu->l2 : (uint64_t)4 << 20;
  kv_status st = kvk_bench_arena(b, l2, l2, &got, err);
  for (int s = 0; !st && s < 4; s++)
    for (int per_sm = 1; !st && per_sm <= 4; per_sm *= 2) {
      if (b->plan->quick && ((s != 0 && s != 3) || per_sm != 2)) continue;
      st = point(b, l2 / (unsigned)shares[s], 512, per_sm, false, err);
    }
  return st ? st : point(b, l2 / 8, 1024, 1, true, err);
}
