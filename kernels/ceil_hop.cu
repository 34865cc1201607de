/* What passes between warps of a block, and what fetching instructions costs: cycles by the SM's own counter.
 *
 *   chain_mbarrier      one warp arrives at an mbarrier and waits for it: arrival to wait
 *   chain_mbarrier_test the same wait where the phase is long over: what asking costs
 *   hop_mbarrier        two warps in turn: an elected lane of one arrives, the other waits and answers; a hop
 *   hop_exchange        four warps: 16 bytes a lane to shared memory, barrier of 128 threads, and back
 *   chain_ldmatrix4     ldmatrix.x4, address chain
 *   branch_taken        a branch over 96 instructions that are never executed
 *   fetch_one, fetch_two, fetch_many  a warp in a loop of 512 dependent multiply-adds (4 cycles each): alone; beside a
 *                       warp of the same scheduler in a loop of its own; and alone in a loop of 4096. Cycles an instruction
 *   fetch_first         8192 multiply-adds that have not run since the L2 was flushed: cycles an instruction
 *   fetch_again         the same, run before by another launch
 *   copy_async          cp.async of 16 B a lane, 8 lanes a row of 1152 B, by 4 warps with 4 tiles of 16 rows in flight,
 *                       rows in the L2: cycles a warp's instruction (512 B) when an SM does nothing else
 *   copy_burst          9 such instructions by each of 4 warps at once, all landed before the next 9: cycles from one to
 *                       the next of a warp, so whether a warp goes on while its copies queue
 *   copy_straddling     the same as copy_async to rows 1168 B apart in shared memory: 128 B from one line land on two
 *   copy_permuted       the same as copy_async, 16-byte chunk c of row r landing at c ^ (r & 7) of its line, as
 *                       split_verify has it against bank conflicts; copy_permuted_1 to _6 with other bits of r: 1 lets the
 *                       halves of a sector change places in odd rows, 2 and 4 move whole sectors, 6 both
 *   burst_permuted      copy_burst with chunks at c ^ (r & 7)
 *   copy_ldmatrix       copy_async, each instruction beside an ldmatrix.x4 of the same warp: cycles for the two, so whether
 *                       landing copies and reads of shared memory take turns (8.2 if they do)
 *   permuted_ldmatrix   the same with chunks at c ^ (r & 7), read back as they lie
 *   ldmatrix_alone      the same loop without its copies; it waits for its loads, so this is no rate
 *   arrive_lane, arrive_copies  4 warps arrive at an mbarrier: mbarrier.arrive of a lane, cp.async.mbarrier.arrive.noinc of all 32:
 *                       cycles a warp's instruction when an SM does nothing else
 *
 * Bound: latencies; each comes to tens of cycles but for the code that comes out of memory.
 */
#include <cstdint>
#include <cstdio>

#include "ceil.h"

enum hop_kind {
  HOP_CHAIN,
  HOP_TEST,
  HOP_PAIR,
  HOP_EXCHANGE,
  HOP_LDMATRIX4,
  HOP_BRANCH,
  HOP_ARRIVE_LANE,
  HOP_ARRIVE_COPIES,
  HOP_ONE,
  HOP_TWO,
  HOP_MANY,
  HOP_FIRST,
  HOP_AGAIN,
  HOP_COPY,
  HOP_STRADDLING,
  HOP_PERMUTED,
  HOP_PERMUTED_1,
  HOP_PERMUTED_2,
  HOP_PERMUTED_4,
  HOP_PERMUTED_6,
  HOP_LDMATRIX_ALONE,
  HOP_COPY_LDMATRIX,
  HOP_PERMUTED_LDMATRIX,
  HOP_BURST,
  HOP_BURST_PERMUTED,
  HOP_KINDS
};
/* Of each kind: name, what it is, threads, steps; of copies: bytes from row to row in shared memory, bits of the row's number
 * that its chunks are permuted by. */
struct hop_entry {
  const char *name, *text;
  int threads, steps;
  uint32_t pitch, bits;
};
static const hop_entry hops[HOP_KINDS] = {
    {"chain_mbarrier", "mbarrier.arrive, try_wait by the same warp", 32, 4096, 0, 0},
    {"chain_mbarrier_test", "mbarrier.try_wait of a phase that is over", 32, 4096, 0, 0},
    {"hop_mbarrier", "mbarrier.arrive by a lane, another warp waits", 64, 4096, 0, 0},
    {"hop_exchange", "st.shared.v4, bar.sync of 4 warps, ld.shared.v4", 128, 4096, 0, 0},
    {"chain_ldmatrix4", "ldmatrix.x4 address chain", 32, 4096, 0, 0},
    {"branch_taken", "branch over 96 instructions", 32, 4096, 0, 0},
    {"arrive_lane", "mbarrier.arrive by a lane, 4 warps", 128, 4096, 0, 0},
    {"arrive_copies", "arrive.noinc of copies by 32 lanes, 4 warps", 128, 4096, 0, 0},
    {"fetch_one", "loop of 512 fma", 32, 512 * 64, 0, 0},
    {"fetch_two", "loop of 512 fma, another beside it", 160, 512 * 64, 0, 0},
    {"fetch_many", "loop of 4096 fma", 32, 4096 * 16, 0, 0},
    {"fetch_first", "8192 fma out of memory", 32, 8192, 0, 0},
    {"fetch_again", "8192 fma again", 32, 8192, 0, 0},
    {"copy_async", "cp.async 16 B, 4 rows of 1152 B a warp, L2 hits", 128, 36 * 1024, 1152, 0},
    {"copy_straddling", "the same, rows 1168 B apart", 128, 36 * 1024, 1168, 0},
    {"copy_permuted", "the same, chunk c of row r at c ^ (r & 7)", 128, 36 * 1024, 1152, 7},
    {"copy_permuted_1", "the same, chunk c of row r at c ^ (r & 1)", 128, 36 * 1024, 1152, 1},
    {"copy_permuted_2", "the same, chunk c of row r at c ^ (r & 2)", 128, 36 * 1024, 1152, 2},
    {"copy_permuted_4", "the same, chunk c of row r at c ^ (r & 4)", 128, 36 * 1024, 1152, 4},
    {"copy_permuted_6", "the same, chunk c of row r at c ^ (r & 6)", 128, 36 * 1024, 1152, 6},
    {"ldmatrix_alone", "the ldmatrix.x4 of the next two alone", 128, 36 * 1024, 1152, 7},
    {"copy_ldmatrix", "cp.async 16 B and ldmatrix.x4, 4 warps", 128, 36 * 1024, 1152, 0},
    {"permuted_ldmatrix", "the same, chunk c of row r at c ^ (r & 7)", 128, 36 * 1024, 1152, 7},
    {"copy_burst", "9 cp.async at once of each warp", 128, 9 * 1024, 1152, 0},
    {"burst_permuted", "the same, chunk c of row r at c ^ (r & 7)", 128, 9 * 1024, 1152, 7}};

__device__ __forceinline__ void arrive(uint32_t bar) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}\n" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void wait(uint32_t bar, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n@!done bra "
      "again;\n}\n" ::"r"(bar),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void try_wait(uint32_t bar, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra "
      "again;\n}\n" ::"r"(bar),
      "r"(parity)
      : "memory");
#else
  wait(bar, parity);
#endif
}

template <int N>
__device__ __forceinline__ void multiply_adds(float &f, float y) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("fma.rn.f32 %0, %0, %1, %0;" : "+f"(f) : "f"(y));
}

/* By one warp or several: `steps` of what KIND names. */
template <int KIND>
__device__ __forceinline__ void walk(uint32_t bar, uint32_t cell, int steps, int never, float &f, float y) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (KIND == HOP_CHAIN)
    for (int s = 0; s < steps; s++) {
      __syncwarp();
      if (lane == 0) arrive(bar);
      try_wait(bar, s & 1);
    }
  if (KIND == HOP_TEST)
    for (int s = 0; s < steps; s++) try_wait(bar, 1); /* the phase before the first counts as over */
  if (KIND == HOP_PAIR)
    for (int s = 0; s < steps / 2; s++) {
      if (warp == 0) {
        __syncwarp();
        if (lane == 0) arrive(bar);
        try_wait(bar + 8, s & 1);
      } else {
        try_wait(bar, s & 1);
        __syncwarp();
        if (lane == 0) arrive(bar + 8);
      }
    }
  if (KIND == HOP_EXCHANGE)
    for (int s = 0; s < steps; s++) {
      const uint32_t at = cell + (s & 1) * 2048;
      float a, b, c;
      asm volatile("st.shared.v4.f32 [%0], {%1, %1, %1, %1};" ::"r"(at + 16 * threadIdx.x), "f"(f)
                   : "memory");
      asm volatile("bar.sync 1, 128;" ::: "memory");
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(f), "=f"(a), "=f"(b), "=f"(c)
                   : "r"(at + 16 * (threadIdx.x ^ 32))
                   : "memory");
    }
  if (KIND == HOP_LDMATRIX4) {
    uint32_t at = cell + 16 * lane, a, b, c, d;
    for (int s = 0; s < steps; s += 16)
#pragma unroll
      for (int u = 0; u < 16; u++) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                     : "r"(at)
                     : "memory");
        at += a; /* zeros */
      }
    if (at == 7u) f += (float)(b + c + d);
  }
  if (KIND == HOP_BRANCH)
    for (int s = 0; s < steps; s += 8)
#pragma unroll
      for (int u = 0; u < 8; u++)
        if (never == u) multiply_adds<96>(f, y);
  if (KIND == HOP_ARRIVE_LANE || KIND == HOP_ARRIVE_COPIES) { /* counts run out and begin anew; nobody waits */
    for (int s = 0; s < steps / 4; s += 16)
#pragma unroll
      for (int u = 0; u < 16; u++) {
        if (KIND == HOP_ARRIVE_COPIES)
          asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
        else if (lane == 0) arrive(bar);
      }
    __syncthreads();
  }
  if (KIND == HOP_ONE || (KIND == HOP_TWO && warp == 0))
    for (int s = 0; s < steps; s += 512) multiply_adds<512>(f, y);
  if (KIND == HOP_TWO && warp == 4)
    for (int s = 0; s < steps; s += 512) {
      multiply_adds<511>(f, y);
      f += 1;
    }
  if (KIND == HOP_MANY)
    for (int s = 0; s < steps; s += 4096) multiply_adds<4096>(f, y);
  if (KIND == HOP_FIRST || KIND == HOP_AGAIN) multiply_adds<8192>(f, y);
}

/* How rows lie in shared memory. */
struct landing {
  uint32_t to, pitch, bits;
};

/* This warp's 4 rows of a tile of 16. */
__device__ __forceinline__ void copy_rows(landing l, const unsigned char *pool, int tile) {
  const uint32_t lane = threadIdx.x % 32, row = 4 * (threadIdx.x / 32) + lane / 8, chunk = lane & 7;
  const unsigned char *from = pool + (((uint32_t)tile * 16 + row) * 2654435761u >> 20) * 1152 + 16 * chunk;
  const uint32_t at = l.to + ((uint32_t)(tile & 3) * 16 + row) * l.pitch + 16 * (chunk ^ (row & l.bits));
#pragma unroll
  for (uint32_t line = 0; line < 9; line++)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + 128 * line), "l"(from + 128 * line) : "memory");
}

/* 8 rows of a tile that landed three tiles before, a line of each a load: 8 lanes a matrix, permuted so that no banks clash. */
__device__ __forceinline__ uint32_t read_rows(landing l, int tile) {
  const uint32_t lane = threadIdx.x % 32, row = lane & 7, at = l.to + ((uint32_t)(tile + 1 & 3) * 16 + row) * l.pitch;
  uint32_t sum = 0;
#pragma unroll
  for (uint32_t line = 0; line < 9; line++) {
    uint32_t a, b, c, d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(at + 128 * line + 16 * ((lane / 8 + 4 * (threadIdx.x / 32 & 1)) ^ row))
                 : "memory");
    sum += a ^ b ^ c ^ d;
  }
  return sum;
}

/* steps: instructions of all 4 warps, 9 a tile and warp. */
template <bool COPY, bool READ>
__device__ __forceinline__ uint32_t copy_tiles(landing l, const unsigned char *pool, int steps) {
  uint32_t sum = 0;
  for (int tile = 0; tile < steps / 36; tile++) {
    if (COPY) copy_rows(l, pool, tile);
    if (READ) sum += read_rows(l, tile);
    asm volatile("cp.async.commit_group; cp.async.wait_group 3;" ::: "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  return sum;
}

/* steps: instructions of one warp. */
__global__ void __launch_bounds__(128)
    burst_kernel(const unsigned char *pool, uint32_t bits, int steps, unsigned long long *state) {
  extern __shared__ __align__(128) unsigned char tiles[];
  const landing l = {(uint32_t)__cvta_generic_to_shared(tiles), 1152, bits};
  long long sum = 0;
  for (int tile = -64; tile < steps / 9; tile++) {
    __syncthreads();
    const long long start = clock64();
    copy_rows(l, pool, tile & 4095);
    const long long took = clock64() - start;
    asm volatile("cp.async.wait_all;" ::: "memory");
    if (tile >= 0) sum += took;
  }
  if (threadIdx.x == 0) state[0] = (unsigned long long)sum;
}

template <bool COPY, bool READ>
__global__ void __launch_bounds__(128)
    copy_kernel(const unsigned char *pool, uint32_t pitch, uint32_t bits, int steps, unsigned long long *state,
                unsigned *dump) {
  extern __shared__ __align__(128) unsigned char tiles[];
  const landing l = {(uint32_t)__cvta_generic_to_shared(tiles), pitch, bits};
  uint32_t sum = copy_tiles<true, READ>(l, pool, 36 * 64);
  __syncthreads();
  const long long start = clock64();
  sum += copy_tiles<COPY, READ>(l, pool, steps);
  __syncthreads();
  if (threadIdx.x == 0) state[0] = (unsigned long long)(clock64() - start);
  if (sum == 0x12345678u) atomicAdd(dump, 1u);
}
const int COPY_SHARED = 4 * 16 * 1168;

template <int KIND>
__global__ void __launch_bounds__(160)
    hop_kernel(int steps, int never, unsigned long long *state, unsigned *dump) {
  __shared__ __align__(128) unsigned cell[1024];
  __shared__ __align__(8) unsigned long long bars[2];
  const uint32_t bar = (uint32_t)__cvta_generic_to_shared(bars),
                 at = (uint32_t)__cvta_generic_to_shared(cell);
  float f = (float)threadIdx.x, y = (float)never;
  for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) cell[i] = 0;
  if (threadIdx.x < 2)
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar + 8 * threadIdx.x),
                 "r"(KIND == HOP_ARRIVE_COPIES ? 128 : KIND == HOP_ARRIVE_LANE ? 4 : 1)
                 : "memory");
  __syncthreads();
  const long long start = clock64();
  walk<KIND>(bar, at, steps, never, f, y);
  const long long took = clock64() - start;
  if (threadIdx.x == 0) state[0] = (unsigned long long)took;
  if (f == 12345.678f) atomicAdd(dump, 1u);
}

struct hop_args {
  int kind, steps;
  const unsigned char *pool; /* 4096 rows of 1152 B */
  void *flush;               /* overwritten before, so that code comes out of memory; NULL: not */
  size_t flush_bytes;
  unsigned long long *state;
  unsigned *dump;
};

template <typename KERNEL>
static cudaError_t let_share(KERNEL kernel) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, COPY_SHARED);
}

static cudaError_t launch_copy(const hop_args *a, cudaStream_t s) {
  const hop_entry *h = &hops[a->kind];
  const bool reads = a->kind >= HOP_LDMATRIX_ALONE && a->kind < HOP_BURST;
  auto *const kernel = a->kind == HOP_LDMATRIX_ALONE ? copy_kernel<false, true> : reads ? copy_kernel<true, true> : copy_kernel<true, false>;
  const cudaError_t set = a->kind >= HOP_BURST ? let_share(burst_kernel) : let_share(kernel);
  if (set != cudaSuccess) return set;
  if (a->kind >= HOP_BURST) burst_kernel<<<1, h->threads, COPY_SHARED, s>>>(a->pool, h->bits, a->steps, a->state);
  else kernel<<<1, h->threads, COPY_SHARED, s>>>(a->pool, h->pitch, h->bits, a->steps, a->state, a->dump);
  return cudaGetLastError();
}

static cudaError_t launch_hop(void *arg, cudaStream_t s) {
  const hop_args *a = (const hop_args *)arg;
  const cudaError_t code = a->flush ? cudaMemsetAsync(a->flush, 1, a->flush_bytes, s) : cudaSuccess;
  if (code != cudaSuccess) return code;
  if (a->kind >= HOP_COPY) return launch_copy(a, s);
#define KIND(k) \
  case k: hop_kernel<k><<<1, hops[k].threads, 0, s>>>(a->steps, -1, a->state, a->dump); break
  switch (a->kind) {
    KIND(HOP_CHAIN);
    KIND(HOP_TEST);
    KIND(HOP_PAIR);
    KIND(HOP_EXCHANGE);
    KIND(HOP_LDMATRIX4);
    KIND(HOP_BRANCH);
    KIND(HOP_ARRIVE_LANE);
    KIND(HOP_ARRIVE_COPIES);
    KIND(HOP_ONE);
    KIND(HOP_TWO);
    KIND(HOP_MANY);
    KIND(HOP_FIRST);
    default: hop_kernel<HOP_AGAIN><<<1, 32, 0, s>>>(a->steps, -1, a->state, a->dump);
  }
#undef KIND
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, int kind, kv_error *err) {
  kvk_point p = kvk_bench_blank(hops[kind].name, "1", KVK_LATENCY);
  const bool flush = kind == HOP_FIRST;
  hop_args a = {kind,        hops[kind].steps, b->arena, flush ? b->arena : NULL, flush ? b->arena_bytes : 0,
                b->counters, b->dump};
  unsigned long long took = 0;
  (void)std::snprintf(p.variant, sizeof p.variant, "%s", hops[kind].text);
  p.one_sm = true;
  p.blocks = 1;
  p.threads = (uint32_t)hops[kind].threads;
  p.work = a.steps;
  kv_status st = kvk_bench_time(b, &p, launch_hop, &a, err);
  if (!st) st = kvk_device_take(b->device, &took, a.state, sizeof took, err); /* of the last run */
  p.cycles = (double)took / a.steps;
  return st ? st : kvk_bench_hand_on(b, &p, err);
}

kv_status kvk_ceil_hop(kvk_bench *b, kv_error *err) {
  uint64_t got = 0;
  kv_status st = kvk_bench_arena(b, 512u << 20, 256u << 20, &got, err);
  for (int kind = 0; !st && kind < HOP_KINDS; kind++) st = point(b, kind, err);
  if (!st) st = kvk_bench_refill(b, err); /* the arena was overwritten */
  return st;
}
