/* Who gets a scheduler's matrix unit, what other instructions cost it, and how many copies may wait: cycles by the SM's
 * own counter, on one SM. Warps 0 and 4 of a block belong to one scheduler.
 *
 *   mma_alone           mma.sync m16n8k16 bf16 of one warp, 12 accumulators, 24 a turn of the loop: cycles an mma, the
 *                       loop's own part of about one cycle included
 *   mma_beside_fadd, _lop3, _iadd, _ffma  the same loop with 3 of these after each mma (8 chains in turn, so that none waits
 *                       for its own): cycles an mma and its 3. (mma_beside_X - mma_alone) / 3 is what one of them delays the unit by
 *   mma_two_ffma        mma_beside_ffma by both warps of the scheduler at once: cycles an mma and its 3 of one warp
 *   turn_pure, turn_mixed, turn_single  a step of one warp alone: 12 mma; 12 times an mma and 3 ffma; 12 times an mma and 1
 *                       ffma; then a clock stamp stored to shared memory, some 35 cycles. Cycles a step
 *   pair_pure           two warps with pure steps: cycles a step of each (they are equal)
 *   pair_pure_mixed, pair_mixed_pure  one with pure steps beside one with mixed ones: cycles a step of the first named
 *   pair_pure_single, pair_single_pure  one with pure steps beside one with single ones
 *   pair_single         two warps with single steps
 *   copy_free           8 warps issue 12 cp.async of 512 B each, rows in the L2: cycles from one copy of a warp to its next
 *                       while no warp is held
 *   copy_held           the same of the last 3, when the queue is full: 8 warps take turns at the copy unit
 *   copies_out          bytes that all 8 warps have asked for when the first one is held (a size; 512 B a copy)
 *
 * Bound: one mma a scheduler every 6 cycles or so (Hopper), less for what else the scheduler issues; of copies, 4.2
 * cycles each (copy_async of the group hop).
 *
 * ptxas moves arithmetic about and drops what nobody uses, so the machine code was read (cuobjdump -sass, sm_80 to
 * sm_120): every loop of mma_beside_X has 24 HMMA and 72 of X, of the steps 12 HMMA and 0, 36 or 12 FFMA, and none reads
 * %tid or works out an address anew. On sm_90 3 LOP3 stand behind each HMMA; FFMA and FADD stand by sixes behind the first
 * HMMA and less behind later ones, the last 11 have none. Of turn_mixed 1 or 2 FFMA stand behind each HMMA and 18 behind the
 * last, of turn_single 1 or 2 behind the first 7; the last 5 HMMA stand together. Each copy is followed by a read of the clock.
 */
#include <cstdint>
#include <cstdio>

#include "ceil.h"

enum turns_kind {
  TURNS_MMA,
  TURNS_FADD,
  TURNS_LOP3,
  TURNS_IADD,
  TURNS_FFMA,
  TURNS_TWO_FFMA,
  TURNS_PURE,
  TURNS_MIXED,
  TURNS_SINGLE,
  TURNS_PAIR_PURE,
  TURNS_PURE_MIXED,
  TURNS_MIXED_PURE,
  TURNS_PURE_SINGLE,
  TURNS_SINGLE_PURE,
  TURNS_PAIR_SINGLE,
  TURNS_FREE,
  TURNS_HELD,
  TURNS_OUT,
  TURNS_KINDS
};
struct turns_entry {
  const char *name, *text;
};
static const turns_entry turns[TURNS_KINDS] = {
    {"mma_alone", "mma, 12 accumulators, one warp"},
    {"mma_beside_fadd", "1 mma, 3 fadd, one warp"},
    {"mma_beside_lop3", "1 mma, 3 lop3, one warp"},
    {"mma_beside_iadd", "1 mma, 3 add.u32, one warp"},
    {"mma_beside_ffma", "1 mma, 3 ffma, one warp"},
    {"mma_two_ffma", "1 mma, 3 ffma, two warps"},
    {"turn_pure", "steps of 12 mma, alone"},
    {"turn_mixed", "steps of 12 mma, 3 ffma each, alone"},
    {"turn_single", "steps of 12 mma, 1 ffma each, alone"},
    {"pair_pure", "12 mma | the same"},
    {"pair_pure_mixed", "12 mma | beside 3 ffma each"},
    {"pair_mixed_pure", "12 mma, 3 ffma each | beside pure"},
    {"pair_pure_single", "12 mma | beside 1 ffma each"},
    {"pair_single_pure", "12 mma, 1 ffma each | beside pure"},
    {"pair_single", "12 mma, 1 ffma each | the same"},
    {"copy_free", "12 cp.async of 8 warps, while they go"},
    {"copy_held", "12 cp.async of 8 warps, the last 3"},
    {"copies_out", "12 cp.async of 8 warps, first held"}};

constexpr int kAccumulators = 12, kSteps = 192, kProducts = 24, kLoops = 256, kWarps = 8, kCopies = 12;
/* From one copy to the next beyond this a warp was held: at 8 warps and 4 cycles each they come every 8 or so. */
constexpr uint32_t kHeld = 20;

enum other { NONE, FADD, LOP3, IADD, FFMA };

__device__ __forceinline__ uint32_t now() {
  uint32_t c;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(c)::"memory");
  return c;
}

/* Read once: %tid.x would be read again in every step. */
__device__ __forceinline__ uint32_t lane_id() {
  uint32_t lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

/* Registers of one warp's work. */
struct operands {
  float c[kAccumulators][4], f[8];
  uint32_t u[8], x[6];
};

__device__ __forceinline__ void multiply(operands &o, int i) {
  float(&d)[4] = o.c[i];
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(o.x[0]), "r"(o.x[1]), "r"(o.x[2]), "r"(o.x[3]), "r"(o.x[4]), "r"(o.x[5]));
}

/* Each waits for the third before it, so that a warp cannot issue one a cycle: ptxas then fills the gaps with mma instead
 * of putting all of them first. */
template <other X>
__device__ __forceinline__ void one_of(operands &o, int i) {
  const int a = i & 7, b = (i + 3) & 7, c = (i + 5) & 7;
  if (X == FADD) asm volatile("add.f32 %0, %0, %1;" : "+f"(o.f[a]) : "f"(o.f[c]));
  if (X == LOP3) asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(o.u[a]) : "r"(o.u[b]), "r"(o.u[c]));
  if (X == IADD) asm volatile("add.u32 %0, %0, %1;" : "+r"(o.u[a]) : "r"(o.u[c]));
  if (X == FFMA) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(o.f[a]) : "f"(o.f[b]), "f"(o.f[c]));
}

/* kProducts mma, K of X after each. */
template <other X, int K>
__device__ __forceinline__ void products(operands &o) {
#pragma unroll
  for (int i = 0; i < kProducts; i++) {
    multiply(o, i % kAccumulators);
#pragma unroll
    for (int k = 0; k < K; k++) one_of<X>(o, i * K + k);
  }
}

/* 12 mma and K ffma after each, of one chain: at 4 cycles each ptxas puts one or two between two mma, the rest behind. */
template <int K>
__device__ __forceinline__ void step(operands &o) {
#pragma unroll
  for (int i = 0; i < 12; i++) {
    multiply(o, i % 6);
#pragma unroll
    for (int k = 0; k < K; k++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(o.f[0]));
  }
}

__device__ __forceinline__ operands begin(float init) {
  operands o;
#pragma unroll
  for (int j = 0; j < kAccumulators; j++)
    for (int i = 0; i < 4; i++) o.c[j][i] = init;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    o.f[i] = init + i;
    o.u[i] = (uint32_t)o.f[i];
    asm volatile("" : "+f"(o.f[i]), "+r"(o.u[i]));
  }
#pragma unroll
  for (int i = 0; i < 6; i++) {
    o.x[i] = (uint32_t)init + i;
    asm volatile("" : "+r"(o.x[i]));
  }
  return o;
}

__device__ __forceinline__ void finish(const operands &o, unsigned *dump) {
  float sum = 0;
  for (int j = 0; j < kAccumulators; j++)
    for (int i = 0; i < 4; i++) sum += o.c[j][i];
  for (int i = 0; i < 8; i++) sum += o.f[i] + (float)o.u[i];
  if (sum == 12345.678f) atomicAdd(dump, 1u);
}

/* state[0]: cycles of warp 0. */
template <other X, int K, bool TWO>
__global__ void __launch_bounds__(256, 1) beside_kernel(float init, unsigned long long *state, unsigned *dump) {
  const uint32_t warp = threadIdx.x / 32;
  operands o = begin(init);
#pragma unroll 1
  for (int round = 0; round < 3; round++) { /* the last counts: code and clocks are there */
    __syncthreads();
    if (warp && !(TWO && warp == 4)) continue;
    const uint32_t start = now();
#pragma unroll 1
    for (int s = 0; s < kLoops; s++) products<X, K>(o);
    const uint32_t took = now() - start;
    if (threadIdx.x == 0) state[0] = took;
  }
  finish(o, dump);
}

/* One warp's steps; the end of each goes to `stamp`, whose address is worked out once and not in every step. */
template <int K>
__device__ __forceinline__ void steps_of(operands &o, uint32_t lane, uint32_t start, uint32_t *stamp) {
  uint32_t at = (uint32_t)__cvta_generic_to_shared(stamp);
  asm volatile("" : "+r"(at));
#pragma unroll 1
  for (int s = 0; s < kSteps; s++, at += 4) {
    step<K>(o);
    const uint32_t t = now() - start;
    if (lane == 0) asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(t) : "memory");
  }
}

/* Thousandths of a cycle a step, of steps that ended while both warps were at work; the first four are not counted. */
__device__ unsigned long long pace(const uint32_t *stamp, uint32_t until) {
  int last = kSteps - 1;
  while (last > 5 && stamp[last] > until) last--;
  return 1000ull * (stamp[last] - stamp[4]) / (unsigned)(last - 4);
}

/* state[0], [1]: pace of warp 0 and of warp 4, which has KB ffma an mma; KB < 0: there is none. */
template <int KA, int KB>
__global__ void __launch_bounds__(256, 1) pair_kernel(float init, unsigned long long *state, unsigned *dump) {
  __shared__ uint32_t stamp[2][kSteps];
  const uint32_t warp = threadIdx.x / 32, lane = lane_id();
  operands o = begin(init);
#pragma unroll 1
  for (int round = 0; round < 3; round++) {
    __syncthreads();
    const uint32_t start = now();
    if (warp == 0) steps_of<KA>(o, lane, start, stamp[0]);
    if (KB >= 0 && warp == 4) steps_of<(KB < 0 ? 0 : KB)>(o, lane, start, stamp[1]);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const uint32_t a = stamp[0][kSteps - 1], b = KB < 0 ? a : stamp[1][kSteps - 1], until = a < b ? a : b;
    state[0] = pace(stamp[0], until);
    if (KB >= 0) state[1] = pace(stamp[1], until);
  }
  finish(o, dump);
}

/* state[0], [1]: thousandths of a cycle from one copy of a warp to its next while none is held, and of the last 3; [2]: copies
 * out when the first is held. */
__global__ void __launch_bounds__(32 * kWarps, 1) queue_kernel(const unsigned char *pool, unsigned long long *state) {
  extern __shared__ __align__(128) unsigned char landed[];
  __shared__ uint32_t stamp[kWarps][kCopies + 1];
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const uint32_t to = (uint32_t)__cvta_generic_to_shared(landed) + 512 * kCopies * warp + 16 * lane;
  const unsigned char *from = pool + 512 * kCopies * warp + 16 * lane;
  uint32_t t[kCopies + 1];
#pragma unroll 1
  for (int round = 0; round < 4; round++) { /* the first bring the rows into the L2 */
    __syncthreads();
    t[0] = now();
#pragma unroll
    for (int i = 0; i < kCopies; i++) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 512 * i), "l"(from + 512 * i) : "memory");
      t[i + 1] = now();
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
  if (lane == 0)
    for (int i = 0; i <= kCopies; i++) stamp[warp][i] = t[i];
  __syncthreads();
  if (threadIdx.x) return;
  uint32_t held = 0; /* when the first held copy was asked for, counted from warp 0's start, plus 1; 0: none was */
  const uint32_t start = stamp[0][0];
  unsigned long long free = 0, frees = 0, late = 0, out = 0;
  for (int w = 0; w < kWarps; w++)
    for (int i = 2; i <= kCopies; i++) /* the first step has the loop's beginnings in it */
      if (stamp[w][i] - stamp[w][i - 1] > kHeld && (!held || stamp[w][i - 1] - start + 1 < held))
        held = stamp[w][i - 1] - start + 1;
  for (int w = 0; w < kWarps; w++)
    for (int i = 1; i <= kCopies; i++) {
      const uint32_t at = stamp[w][i] - start, step = stamp[w][i] - stamp[w][i - 1];
      const bool before = !held || (int32_t)at < (int32_t)held;
      out += before;
      if (before && i > 1) {
        free += step;
        frees++;
      }
      if (i > kCopies - 3) late += step;
    }
  state[0] = frees ? 1000 * free / frees : 0;
  state[1] = 1000 * late / (3 * kWarps);
  state[2] = held ? out : 0;
}

struct turns_args {
  int kind;
  const unsigned char *pool;
  unsigned long long *state;
  unsigned *dump;
};

static cudaError_t launch_queue(const turns_args *a, cudaStream_t s) {
  const int shared = 512 * kWarps * kCopies;
  const cudaError_t set = cudaFuncSetAttribute(queue_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (set != cudaSuccess) return set;
  queue_kernel<<<1, 32 * kWarps, shared, s>>>(a->pool, a->state);
  return cudaGetLastError();
}

static cudaError_t launch_turns(void *arg, cudaStream_t s) {
  const turns_args *a = (const turns_args *)arg;
#define RUN(...) \
  __VA_ARGS__<<<1, 256, 0, s>>>(0.f, a->state, a->dump); break
  switch (a->kind) {
    case TURNS_MMA: RUN(beside_kernel<NONE, 0, false>);
    case TURNS_FADD: RUN(beside_kernel<FADD, 3, false>);
    case TURNS_LOP3: RUN(beside_kernel<LOP3, 3, false>);
    case TURNS_IADD: RUN(beside_kernel<IADD, 3, false>);
    case TURNS_FFMA: RUN(beside_kernel<FFMA, 3, false>);
    case TURNS_TWO_FFMA: RUN(beside_kernel<FFMA, 3, true>);
    case TURNS_PURE: RUN(pair_kernel<0, -1>);
    case TURNS_MIXED: RUN(pair_kernel<3, -1>);
    case TURNS_SINGLE: RUN(pair_kernel<1, -1>);
    case TURNS_PAIR_PURE: RUN(pair_kernel<0, 0>);
    case TURNS_PURE_MIXED:
    case TURNS_MIXED_PURE: RUN(pair_kernel<0, 3>);
    case TURNS_PURE_SINGLE:
    case TURNS_SINGLE_PURE: RUN(pair_kernel<0, 1>);
    case TURNS_PAIR_SINGLE: RUN(pair_kernel<1, 1>);
    default: return launch_queue(a, s);
  }
#undef RUN
  return cudaGetLastError();
}

/* Steps of one warp in a run. */
static double steps_in(int kind) {
  return kind >= TURNS_FREE ? kCopies : kind >= TURNS_PURE ? 3 * kSteps : 3 * kProducts * kLoops;
}

/* What a kind's run left in `state`: cycles, or bytes. */
static double result_of(int kind, const unsigned long long *state) {
  if (kind < TURNS_PURE) return (double)state[0] / (kProducts * kLoops);
  if (kind == TURNS_OUT) return 512.0 * (double)state[2];
  const bool second = kind == TURNS_MIXED_PURE || kind == TURNS_SINGLE_PURE || kind == TURNS_HELD;
  return (double)state[second] / 1000;
}

static kv_status point(kvk_bench *b, int kind, kv_error *err) {
  kvk_point p = kvk_bench_blank(turns[kind].name, kind == TURNS_OUT ? "B" : "1", kind == TURNS_OUT ? KVK_SIZE : KVK_LATENCY);
  turns_args a = {kind, b->arena, b->counters, b->dump};
  unsigned long long state[3] = {0, 0, 0};
  (void)std::snprintf(p.variant, sizeof p.variant, "%s", turns[kind].text);
  p.one_sm = true;
  p.blocks = 1;
  p.threads = 256;
  p.work = steps_in(kind);
  kv_status st = kvk_cuda(cudaMemsetAsync(b->counters, 0, 64, b->stream), "turns", err);
  if (!st) st = kvk_bench_time(b, &p, launch_turns, &a, err);
  if (!st) st = kvk_device_take(b->device, state, a.state, sizeof state, err); /* of the last run */
  if (st) return st;
  const double result = result_of(kind, state);
  if (kind == TURNS_OUT) p.work = result;
  else p.cycles = result;
  return result > 0 ? kvk_bench_hand_on(b, &p, err) : KV_OK; /* no copy held: nothing to say */
}

kv_status kvk_ceil_turns(kvk_bench *b, kv_error *err) {
  uint64_t got = 0;
  kv_status st = kvk_bench_arena(b, 1u << 20, 1u << 20, &got, err);
  for (int kind = 0; !st && kind < TURNS_KINDS; kind++) st = point(b, kind, err);
  return st;
}
