/* Loaded latency: one block follows pointers through 1 GiB while the others stream from other addresses, at
 * rates from nothing to all they can.
 *
 * Bound: the queues before DRAM: flat at the idle latency, rising steeply where the stream nears the DRAM
 * ceiling. Each point carries the stream's rate as `load`. The stream stops when the pursuit ends; as the
 * grid is one block an SM, all blocks are resident together and none can wait for another for ever.
 */
#include <cstdint>
#include <cstdio>

#include "ceil.h"

/* state: [0] ns, [1] cycles, [2] bytes streamed, [3] stop, [4] start of the next pursuit */
__device__ void pursue(unsigned char *chain, int steps, unsigned long long *state) {
  uint64_t at = state[4] ? state[4] : (uint64_t)chain, t0, t1;
  long long c0 = clock64();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
#pragma unroll 8
  for (int s = 0; s < steps; s++) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1) : "l"(at));
  state[1] = (unsigned long long)(clock64() - c0);
  state[0] = t1 - t0;
  state[4] = at;
  __threadfence();
  *(volatile unsigned long long *)&state[3] = 1;
}

__global__ void __launch_bounds__(1024, 1)
    loaded_kernel(unsigned char *chain, int steps, const uint4 *stream, size_t n, int idle,
                  unsigned long long *state, unsigned *dump) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) pursue(chain, steps, state);
    return;
  }
  uint4 acc = make_uint4(~0u, ~0u, ~0u, ~0u);
  const size_t tile = (size_t)blockDim.x * 4;
  size_t base = (blockIdx.x - 1) * tile, done = 0;
  while (*(volatile unsigned long long *)&state[3] == 0) {
    uint4 v[4];
#pragma unroll
    for (int u = 0; u < 4; u++) v[u] = kvk_load_once(stream + base + threadIdx.x + (size_t)u * blockDim.x);
#pragma unroll
    for (int u = 0; u < 4; u++) kvk_fold(&acc, v[u]);
    done += 64;
    base += (gridDim.x - 1) * tile;
    if (base + tile > n) base = (blockIdx.x - 1) * tile;
    for (long long start = clock64(); clock64() - start < idle;) {
    }
  }
  atomicAdd(&state[2], (unsigned long long)done);
  kvk_dump(dump, acc);
}

/* The chain is that of ceil_latency.cu. */
__global__ void loaded_build(unsigned char *p, int bits, uint64_t seed) {
  const uint64_t n = 1ull << bits, mask = n - 1;
  for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n;
       i += (uint64_t)gridDim.x * blockDim.x) {
    uint64_t next = (i * 0x5851F42D4C957F2Dull + 0x14057B7EF767814Full) & mask;
    *(unsigned char **)(p + kvk_scatter(i, bits, seed) * 128) = p + kvk_scatter(next, bits, seed) * 128;
  }
}

struct level {
  int threads, idle; /* of a streaming block; cycles between its tiles. threads 0: no stream */
};

static const level levels[] = {{0, 0},   {32, 8000},  {32, 2000},  {64, 2000}, {128, 2000}, {128, 1000},
                               {128, 0}, {256, 1000}, {256, 500},  {256, 0},   {512, 500},  {512, 250},
                               {512, 0}, {768, 0},    {1024, 250}, {1024, 0}};
constexpr int kChainBits = 23; /* x 128 B = 1 GiB */

static kv_status one_run(kvk_bench *b, const level *l, int steps, size_t n, unsigned long long *state,
                         kv_error *err) {
  const uint4 *stream = (const uint4 *)(b->arena + (128ull << kChainBits));
  int blocks = l->threads ? b->gpu->sms : 1, threads = l->threads ? l->threads : 32;
  kv_status st = kvk_cuda(cudaMemsetAsync(b->counters, 0, 32, b->stream), "loaded latency", err);
  if (st) return st;
  loaded_kernel<<<blocks, threads, 0, b->stream>>>(b->arena, steps, stream, n, l->idle, b->counters, b->dump);
  st = kvk_cuda(cudaGetLastError(), "loaded latency", err);
  return st ? st : kvk_device_take(b->device, state, b->counters, 32, err);
}

static kv_status point(kvk_bench *b, const level *l, size_t n, kv_error *err) {
  kvk_point p = kvk_bench_blank("latency_loaded", "1", KVK_LATENCY);
  const int steps = 2048;
  double bytes = 0, ns = 0, cycles = 0;
  kvk_state reading;
  kv_status st = KV_OK;
  kvk_state_clear(&p.state);
  for (uint32_t r = 0; !st && r <= kvk_bench_repeats(b); r++) { /* the first run warms up */
    unsigned long long state[4] = {0, 0, 0, 0};
    st = one_run(b, l, steps, n, state, err);
    if (st || r == 0) continue;
    p.seconds[p.samples++] = (double)state[0] * 1e-9;
    ns += (double)state[0];
    cycles += (double)state[1];
    bytes += (double)state[2];
  }
  if (st) return st;
  kvk_nvml_read(kvk_device_nvml(b->device), &reading);
  kvk_state_merge(&p.state, &reading);
  p.throttled = kvk_state_throttled(&p.state);
  (void)std::snprintf(p.variant, sizeof p.variant, "chase beside %d threads an SM, idle %d", l->threads,
                      l->idle);
  p.one_sm = true;
  p.blocks = (uint32_t)b->gpu->sms;
  p.threads = (uint32_t)l->threads;
  p.in_flight = (uint64_t)l->threads * 64;
  p.footprint = 128ull << kChainBits;
  p.work = steps;
  p.load = bytes / (ns * 1e-9);
  p.cycles = cycles / ((double)p.samples * steps);
  return kvk_bench_hand_on(b, &p, err);
}

kv_status kvk_ceil_loaded(kvk_bench *b, kv_error *err) {
  const uint64_t chain = 128ull << kChainBits;
  uint64_t got = 0;
  kv_status st = kvk_bench_arena(b, chain + ((uint64_t)8 << 30), chain + ((uint64_t)1 << 30), &got, err);
  if (st) return st;
  loaded_build<<<16 * b->gpu->sms, 256, 0, b->stream>>>(b->arena, kChainBits, b->plan->seed);
  st = kvk_cuda(cudaMemsetAsync(b->counters, 0, 64, b->stream), "loaded latency", err);
  for (size_t i = 0; !st && i < sizeof levels / sizeof *levels; i++) {
    if (b->plan->quick && i % 5 != 0) continue;
    st = point(b, &levels[i], (size_t)(got - chain) / 16, err);
  }
  return st;
}
