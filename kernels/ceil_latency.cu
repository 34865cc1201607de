/* Idle latency: one thread follows pointers through a random cycle of 128-byte lines, over footprints from 1
 * MiB to most of the memory.
 *
 * Bound: one load at a time, past L1. Footprints well inside the L2 give its latency (named latency_l2),
 * those beyond 16 times its size DRAM's (latency_dram) and, as they grow, what TLB misses add; in between a
 * mixture (latency_mixed). H100/H200: about 280 cycles and 690 cycles. Each run goes on where the last one
 * stopped, so that no run finds its lines in the L2 from the run before.
 */
#include <cstdint>
#include <cstdio>

#include "ceil.h"

/* next(i) = a i + c modulo 2^bits is one cycle over all nodes (Hull-Dobell: c odd, a - 1 a multiple of 4);
 * the scatter hides its regular low bits from any prefetcher. */
__global__ void chase_build(unsigned char *p, int bits, uint64_t seed) {
  const uint64_t n = 1ull << bits, mask = n - 1;
  for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n;
       i += (uint64_t)gridDim.x * blockDim.x) {
    uint64_t next = (i * 0x5851F42D4C957F2Dull + 0x14057B7EF767814Full) & mask;
    *(unsigned char **)(p + kvk_scatter(i, bits, seed) * 128) = p + kvk_scatter(next, bits, seed) * 128;
  }
}

/* state: [0] cycles of this run, [1] where the next run starts (0 = at p). */
__global__ void chase_kernel(unsigned char *p, int steps, unsigned long long *state) {
  uint64_t at = state[1] ? state[1] : (uint64_t)p;
  long long start = clock64();
#pragma unroll 8
  for (int s = 0; s < steps; s++) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at));
  state[1] = at;
  state[0] = (unsigned long long)(clock64() - start);
}

struct chase_args {
  unsigned char *p;
  int steps;
  unsigned long long *state;
};

static cudaError_t launch_chase(void *arg, cudaStream_t s) {
  const chase_args *a = (const chase_args *)arg;
  chase_kernel<<<1, 1, 0, s>>>(a->p, a->steps, a->state);
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, int bits, kv_error *err) {
  const uint64_t footprint = 128ull << bits, l2 = b->gpu->l2 ? b->gpu->l2 : 1;
  const char *name = footprint * 4 <= l2    ? "latency_l2"
                     : footprint >= 16 * l2 ? "latency_dram"
                                            : "latency_mixed";
  kvk_point p = kvk_bench_blank(name, "1", KVK_LATENCY);
  chase_args a = {b->arena, 8192, b->counters};
  unsigned long long cycles = 0;
  chase_build<<<16 * b->gpu->sms, 256, 0, b->stream>>>(b->arena, bits, b->plan->seed);
  kv_status st = kvk_cuda(cudaMemsetAsync(b->counters, 0, 64, b->stream), "latency", err);
  if (!st) st = kvk_device_wait(b->device, err);
  if (st) return st;
  (void)std::snprintf(p.variant, sizeof p.variant, "ld.cg chase of 128-B lines");
  p.one_sm = true;
  p.blocks = p.threads = 1;
  p.in_flight = 32;
  p.footprint = footprint;
  p.work = a.steps;
  st = kvk_bench_time(b, &p, launch_chase, &a, err);
  if (!st) st = kvk_device_take(b->device, &cycles, a.state, sizeof cycles, err); /* of the last run */
  p.cycles = (double)cycles / a.steps;
  return st ? st : kvk_bench_hand_on(b, &p, err);
}

kv_status kvk_ceil_latency(kvk_bench *b, kv_error *err) {
  uint64_t got = 0;
  kv_status st = kvk_bench_arena(b, (uint64_t)64 << 30, (uint64_t)256 << 20, &got, err);
  for (int bits = 13; !st && (128ull << bits) <= got; bits++) {
    bool sparse = bits >= 22 && bits % 2 == 0; /* past 512 MiB every second doubling is enough */
    if (sparse || (b->plan->quick && bits != 15 && bits != 23)) continue;
    st = point(b, bits, err);
  }
  return st;
}
