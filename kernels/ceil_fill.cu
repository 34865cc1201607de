/* What a global load takes of the pipe that L1 and shared memory have in common, beside the wavefronts of its own that
 * `wavefront` counts: does a line that comes from the L2 take one more when it is filled in?
 *
 * On one SM, 16 warps each read 4 KB of shared memory without conflicts, 32 wavefronts, load lines of 128 B in one of these
 * ways, wait for them, and begin anew. 15 others keep the pipe busy meanwhile: a turn of 16 warps takes longer than the L2. What a
 * turn takes longer than without loads, over the turn's lines, is a line's cost.
 *
 *   fill_alone    no loads: cycles a wavefront (1 where the pipe is full)
 *   fill_hit      ld.global.v4 of lines that lie in the L1: wavefronts a line; 1 is the load's own
 *   fill_v4       the same of lines that do not (8 MiB, which an L2 holds): what is more than fill_hit is the fill
 *   fill_word     ld.global.u32 of such lines, a line a load
 *   fill_quarters 4 loads ld.global.u32 of which each takes every fourth word of the same 4 lines, as extend_serial reads
 *                 rows: 4 wavefronts a line are the loads' own
 *   fill_past     ld.global.cg.v4 of such lines
 *   fill_once     ld.global.nc.L1::no_allocate.v4 of such lines
 *   fill_copy     cp.async.cg 16 B of such lines into shared memory
 *
 * Bound: one wavefront a cycle and SM. 16 lines in some 50 cycles are 41 B a cycle of the link's 122.
 */
#include <cstdint>
#include <cstdio>

#include "ceil.h"

enum fill_kind { FILL_ALONE, FILL_HIT, FILL_V4, FILL_WORD, FILL_QUARTERS, FILL_PAST, FILL_ONCE, FILL_COPY, FILL_KINDS };

static const struct {
  const char *name, *text;
} fills[FILL_KINDS] = {{"fill_alone", "shared reads alone"},
                       {"fill_hit", "ld.v4, lines in the L1"},
                       {"fill_v4", "ld.v4, lines from the L2"},
                       {"fill_word", "ld.u32, lines from the L2"},
                       {"fill_quarters", "4 ld.u32 of the same lines from the L2"},
                       {"fill_past", "ld.cg.v4, lines from the L2"},
                       {"fill_once", "ld.nc.L1::no_allocate.v4, lines from the L2"},
                       {"fill_copy", "cp.async 16 B, lines from the L2"}};

constexpr int kLoads = 4, kWarps = 16, kTurns = 512;
constexpr double kWaves = 32;
constexpr uint32_t kPool = 8u << 20, kNear = 64u << 10, kShared = 16u << 10;

__device__ __forceinline__ uint32_t fill_now() {
  uint32_t c;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(c)::"memory");
  return c;
}

/* 8 reads of 4 wavefronts each. */
__device__ __forceinline__ void read_shared(uint32_t at, uint32_t *sum) {
  uint4 v[8];
#pragma unroll
  for (int i = 0; i < 8; i++)
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "r"(at + 512 * i));
#pragma unroll
  for (int i = 0; i < 8; i++) *sum ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w; /* or ptxas leaves the reads out */
}

/* kLoads loads at `p`; nothing waits for them here. */
template <int KIND>
__device__ __forceinline__ void load_lines(const unsigned char *p, uint32_t landed, uint32_t v[kLoads][4]) {
#pragma unroll
  for (int i = 0; i < kLoads; i++) {
    const unsigned char *at = KIND == FILL_WORD ? p + 128 * i : KIND == FILL_QUARTERS ? p + 4 * i : p + 512 * i;
#define LOAD_V4(how) \
  asm volatile(how ".v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[i][0]), "=r"(v[i][1]), "=r"(v[i][2]), "=r"(v[i][3]) : "l"(at))
    v[i][0] = v[i][1] = v[i][2] = v[i][3] = 0;
    if (KIND == FILL_HIT || KIND == FILL_V4) LOAD_V4("ld.global");
    else if (KIND == FILL_PAST) LOAD_V4("ld.global.cg");
    else if (KIND == FILL_ONCE) LOAD_V4("ld.global.nc.L1::no_allocate");
    else if (KIND == FILL_COPY) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(landed + 512 * i), "l"(at) : "memory");
    else if (KIND != FILL_ALONE) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v[i][0]) : "l"(at));
#undef LOAD_V4
  }
}

/* Lines of a turn of one warp. */
__host__ __device__ constexpr uint32_t lines_in(int kind) {
  return kind == FILL_ALONE ? 0 : kind == FILL_WORD || kind == FILL_QUARTERS ? 4 : 4 * kLoads;
}

/* state[0]: cycles of all turns, from the first warp's start to the last one's end. */
template <int KIND>
__global__ void __launch_bounds__(32 * kWarps, 1) fill_kernel(const unsigned char *pool, unsigned long long *state, unsigned *dump) {
  extern __shared__ __align__(128) unsigned char words[]; /* kShared that all read, 4 KB a turn; then 2 KB a warp */
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, shared = (uint32_t)__cvta_generic_to_shared(words);
  const uint32_t part = (KIND == FILL_HIT ? kNear : kPool) / kWarps, step = lines_in(KIND) * 128;
  const uint32_t landed = shared + kShared + 512 * kLoads * warp + 16 * lane;
  const unsigned char *mine = pool + warp * part + (KIND == FILL_WORD ? 4 : 16) * lane;
  uint32_t sum = 0, at = 0, start = 0;
#pragma unroll 1
  for (int round = 0; round < 2; round++) { /* the first brings code and lines near */
    __syncthreads();
    start = fill_now();
#pragma unroll 1
    for (int turn = 0; turn < kTurns; turn++) {
      uint32_t v[kLoads][4];
      load_lines<KIND>(mine + at, landed, v);
      read_shared(shared + 4096 * (turn & 3) + 16 * lane, &sum); /* a fixed place would be read once, before the loop */
      if (KIND == FILL_COPY) asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
      for (int i = 0; i < kLoads; i++) sum ^= v[i][0] ^ v[i][1] ^ v[i][2] ^ v[i][3];
      at = at + 2 * step <= part ? at + step : 0;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) state[0] = fill_now() - start;
  if (sum == 0x12345678u) atomicAdd(dump, 1u);
}

/* Reads the pool once through the L2, so that lines come from there. */
__global__ void fill_near(const uint4 *pool, unsigned *dump) {
  uint4 acc = make_uint4(~0u, ~0u, ~0u, ~0u);
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kPool / 16; i += gridDim.x * blockDim.x) kvk_fold(&acc, kvk_load_l2(pool + i));
  kvk_dump(dump, acc);
}

struct fill_args {
  int kind;
  const unsigned char *pool;
  unsigned long long *state;
  unsigned *dump;
};

static cudaError_t launch_fill(void *arg, cudaStream_t s) {
  const fill_args *a = (const fill_args *)arg;
  const int shared = kShared + 512 * kLoads * kWarps;
  fill_near<<<64, 256, 0, s>>>((const uint4 *)a->pool, a->dump);
#define RUN(kind) \
  case kind: fill_kernel<kind><<<1, 32 * kWarps, shared, s>>>(a->pool, a->state, a->dump); break
  switch (a->kind) {
    RUN(FILL_ALONE);
    RUN(FILL_HIT);
    RUN(FILL_V4);
    RUN(FILL_WORD);
    RUN(FILL_QUARTERS);
    RUN(FILL_PAST);
    RUN(FILL_ONCE);
    RUN(FILL_COPY);
  }
#undef RUN
  return cudaGetLastError();
}

/* One kind; *alone: cycles of a warp's turn without loads, found by the first kind. */
static kv_status point(kvk_bench *b, int kind, double *alone, kv_error *err) {
  kvk_point p = kvk_bench_blank(fills[kind].name, "1", KVK_LATENCY);
  fill_args a = {kind, b->arena, b->counters, b->dump};
  unsigned long long cycles = 0;
  (void)std::snprintf(p.variant, sizeof p.variant, "%s", fills[kind].text);
  p.one_sm = true;
  p.blocks = 1;
  p.threads = 32 * kWarps;
  p.work = 2.0 * kTurns * kWarps;
  kv_status st = kvk_bench_time(b, &p, launch_fill, &a, err);
  if (!st) st = kvk_device_take(b->device, &cycles, a.state, sizeof cycles, err); /* of the last run */
  if (st) return st;
  const double turn = (double)cycles / (kTurns * kWarps);
  if (kind == FILL_ALONE) *alone = turn;
  p.cycles = kind == FILL_ALONE ? turn / kWaves : (turn - *alone) / lines_in(kind);
  return p.cycles > 0 ? kvk_bench_hand_on(b, &p, err) : KV_OK;
}

kv_status kvk_ceil_fill(kvk_bench *b, kv_error *err) {
  uint64_t got = 0;
  double alone = 0;
  kv_status st = kvk_bench_arena(b, kPool, kPool, &got, err);
  for (int kind = 0; !st && kind < FILL_KINDS; kind++) st = point(b, kind, &alone, err);
  return st;
}
