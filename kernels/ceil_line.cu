/* How many bytes memory hands out with a word that misses the L2: one thread reads 8-byte words one after the
 * other, as a kernel reads slot numbers, over memory that nobody has touched. Each word holds the address of
 * the next, so that a load starts when the last one has arrived, and each is timed by itself.
 *
 * Bound: a sector of 32 B, an access of 64 B (HBM3E), a line of 128 B. A miss every so many bytes tells
 * which: those loads take the latency of DRAM, all others the L2's (ld.cg) or the L1's and the L2's (ld.ca).
 * The words are written first, 512 MiB of them, and read from the start, which has left the L2 by then.
 */
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "ceil.h"

constexpr int kSteps = 8192;

__global__ void line_build(uint64_t *p, uint64_t words) {
  for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
       i += (uint64_t)gridDim.x * blockDim.x)
    p[i] = (uint64_t)(p + (i + 1 < words ? i + 1 : 0));
}

/* state[1]: where the next run starts (0: at p). took: cycles of each load. */
template <bool L1>
__global__ void line_kernel(uint64_t *p, unsigned long long *state, unsigned *took) {
  __shared__ unsigned cycles[kSteps];
  __shared__ volatile unsigned arrived;
  uint64_t at = state[1] ? state[1] : (uint64_t)p;
  for (int s = 0; s < kSteps; s++) {
    long long start = clock64();
    if (L1) asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(at));
    else asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at));
    arrived = (unsigned)at; /* issues only once the word is there, and the clock is read after it */
    cycles[s] = (unsigned)(clock64() - start);
  }
  state[1] = at;
  for (int s = 0; s < kSteps; s++) took[s] = cycles[s];
}

struct line_args {
  uint64_t *p;
  unsigned long long *state;
  unsigned *took;
  bool l1;
};

static cudaError_t launch_line(void *arg, cudaStream_t s) {
  const line_args *a = (const line_args *)arg;
  if (a->l1) line_kernel<true><<<1, 1, 0, s>>>(a->p, a->state, a->took);
  else line_kernel<false><<<1, 1, 0, s>>>(a->p, a->state, a->took);
  return cudaGetLastError();
}

/* Bytes a miss; 0 where no load stands out. Two means (Lloyd) part the misses from the rest: those of an H200
 * take 500 to 1100 cycles, hits of its L2 250 to 315. */
static double bytes_a_miss(const unsigned *cycles) {
  double fast = 1e9, slow = 0, sum[2];
  int count[2] = {0, 0};
  for (int s = 0; s < kSteps; s++) {
    fast = std::fmin(fast, cycles[s]);
    slow = std::fmax(slow, cycles[s]);
  }
  for (int turn = 0; turn < 50; turn++) {
    sum[0] = sum[1] = count[0] = count[1] = 0;
    for (int s = 0; s < kSteps; s++) {
      const int miss = cycles[s] > (fast + slow) / 2;
      /* one load in a thousand meets a refresh or an interrupt: it counts, but does not pull */
      sum[miss] += std::fmin(cycles[s], 4 * fast + 1000);
      count[miss]++;
    }
    if (!count[0] || !count[1]) return 0;
    fast = sum[0] / count[0];
    slow = sum[1] / count[1];
  }
  return slow > 1.5 * fast ? 8.0 * kSteps / count[1] : 0;
}

static kv_status point(kvk_bench *b, line_args *a, uint64_t footprint, kv_error *err) {
  static unsigned cycles[kSteps];
  kvk_point p = kvk_bench_blank("memory_line", "B", KVK_SIZE);
  kv_status st = kvk_cuda(cudaMemsetAsync(b->counters, 0, 64, b->stream), "line", err);
  if (st) return st;
  (void)std::snprintf(p.variant, sizeof p.variant, "%s chase of 8-B words", a->l1 ? "ld.ca" : "ld.cg");
  p.one_sm = true;
  p.blocks = p.threads = 1;
  p.in_flight = 8;
  p.footprint = footprint;
  st = kvk_bench_time(b, &p, launch_line, a, err);
  if (!st) st = kvk_device_take(b->device, cycles, a->took, sizeof(unsigned) * kSteps, err);
  if (st) return st;
  p.work = bytes_a_miss(cycles);
  p.cycles = 0;
  for (int s = 0; s < kSteps; s++) p.cycles += (double)cycles[s] / kSteps;
  return p.work > 0 ? kvk_bench_hand_on(b, &p, err) : KV_OK;
}

kv_status kvk_ceil_line(kvk_bench *b, kv_error *err) {
  const uint64_t want = (uint64_t)512 << 20;
  uint64_t got = 0;
  line_args a = {NULL, b->counters, NULL, false};
  kv_status st = kvk_bench_arena(b, want, (uint64_t)128 << 20, &got, err);
  if (!st) st = kvk_device_alloc(b->device, sizeof(unsigned) * kSteps, (void **)&a.took, err);
  if (st) return st;
  a.p = (uint64_t *)b->arena;
  for (int l1 = 0; !st && l1 < 2; l1++) {
    a.l1 = l1 == 1;
    line_build<<<8 * b->gpu->sms, 256, 0, b->stream>>>(a.p, (got < want ? got : want) / 8);
    st = kvk_cuda(cudaGetLastError(), "line", err);
    if (!st) st = point(b, &a, got < want ? got : want, err);
  }
  kvk_device_free(b->device, a.took);
  return st;
}
