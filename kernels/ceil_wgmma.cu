/* bf16 wgmma.mma_async m64n256k16 with fp32 accumulation, both operands in shared memory (128-byte swizzle):
 * Hopper's own matrix instruction, which exists on sm_90a alone. On any other GPU, or built without it, this
 * ends with KV_END.
 *
 * Bound: 4096 bf16 FLOP a cycle and SM: at 1.83 GHz 989 TFLOP/s for 132 SMs. Under tensor load an H200 runs
 * nearer 1.75 GHz, whatever NVML says (ceil_mma.cu), which makes 948 TFLOP/s; large matrix products get about
 * 790. Operands are noise. The instruction and the shared-memory descriptor follow the PTX ISA, "Asynchronous
 * warpgroup level matrix instructions".
 */
#include <cstdint>
#include <cstdio>

#include "ceil.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define KVK_WGMMA 1
#endif

#ifdef KVK_WGMMA
/* Start address and strides in units of 16 B: 8 rows of 128 B lie 1024 B apart; bit 62: 128-byte swizzle. */
__device__ __forceinline__ uint64_t descriptor(unsigned address) {
  return (uint64_t)((address & 0x3FFFFu) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
         (uint64_t)1 << 62;
}

__device__ __forceinline__ void wgmma(float (&d)[128], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
      "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
      "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
      "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
      "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
      "}, %128, %129, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
        "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
        "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
        "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]),
        "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]),
        "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]),
        "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]),
        "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),
        "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]),
        "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]),
        "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]),
        "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
      : "l"(a), "l"(b));
}
#endif

/* What a kernel that holds the instruction leaves behind: an empty one, built for sm_90 or read from PTX,
 * would look infinitely fast. */
constexpr unsigned kRan = 0x77677761u;

__device__ __forceinline__ unsigned operand(unsigned noise) {
  return (noise & 0x807F807Fu) | 0x3F003F00u;
}

/* Shared memory: A 64 x 64 for each warpgroup, B 256 x 64, bf16: 8 KiB a warpgroup + 32 KiB. A step is the
 * four k16 slices of a 64-column tile. */
__global__ void __launch_bounds__(256, 1) wgmma_kernel(const unsigned *noise, int steps, unsigned *dump) {
#ifdef KVK_WGMMA
  extern __shared__ __align__(1024) unsigned char tile[];
  const unsigned words = (unsigned)(blockDim.x / 128) * 2048 + 8192;
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) ((unsigned *)tile)[i] = operand(noise[i]);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const unsigned base = (unsigned)__cvta_generic_to_shared(tile);
  const unsigned a = base + 32768 + threadIdx.x / 128 * 8192;
  float d[128];
#pragma unroll
  for (int i = 0; i < 128; i++) d[i] = 0;
  for (int s = 0; s < steps; s++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (unsigned k = 0; k < 4; k++) wgmma(d, descriptor(a + 32 * k), descriptor(base + 32 * k));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 128; i++) sum += d[i];
  if (sum == 12345.678f) atomicAdd(dump, 1u);
  if (threadIdx.x == 0) dump[8] = kRan;
#else
  (void)noise, (void)steps, (void)dump;
#endif
}

struct wgmma_args {
  const unsigned *noise;
  int steps, blocks, threads;
  unsigned *dump;
};

static size_t shared_bytes(int threads) {
  return 32768 + (size_t)threads / 128 * 8192;
}

static cudaError_t launch_wgmma(void *arg, cudaStream_t s) {
  const wgmma_args *a = (const wgmma_args *)arg;
  wgmma_kernel<<<a->blocks, a->threads, shared_bytes(a->threads), s>>>(a->noise, a->steps, a->dump);
  return cudaGetLastError();
}

static kv_status is_built(kvk_bench *b, kv_error *err) {
  wgmma_args a = {(const unsigned *)b->arena, 1, 1, 128, b->dump};
  unsigned ran = 0;
  kv_status st = kvk_cuda(cudaMemsetAsync(b->dump, 0, 64, b->stream), "wgmma", err);
  if (!st) st = kvk_cuda(launch_wgmma(&a, b->stream), "wgmma", err);
  if (!st) st = kvk_device_take(b->device, &ran, b->dump + 8, sizeof ran, err);
  return st || ran == kRan ? st : KV_END;
}

static kv_status point(kvk_bench *b, int threads, bool one_sm, kv_error *err) {
  kvk_point p = kvk_bench_blank("wgmma", "FLOP", KVK_RATE);
  wgmma_args a = {(const unsigned *)b->arena, 2000, one_sm ? 1 : b->gpu->sms, threads, b->dump};
  (void)std::snprintf(p.variant, sizeof p.variant, "wgmma.m64n256k16 bf16, A and B shared");
  p.one_sm = one_sm;
  p.blocks = (uint32_t)a.blocks;
  p.threads = (uint32_t)threads;
  p.work = (double)a.blocks * (threads / 128) * a.steps * 4.0 * (2.0 * 64 * 256 * 16);
  return kvk_bench_point(b, &p, launch_wgmma, &a, err);
}

kv_status kvk_ceil_wgmma(kvk_bench *b, kv_error *err) {
  uint64_t got = 0;
  if (b->gpu->major != 9 || b->gpu->minor != 0) return KV_END;
  kv_status st = kvk_bench_arena(b, 8u << 20, 8u << 20, &got, err);
  if (!st)
    st = kvk_cuda(cudaFuncSetAttribute(wgmma_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       (int)shared_bytes(256)),
                  "wgmma: shared memory", err);
  if (!st) st = is_built(b, err);
  for (int threads = 128; !st && threads <= 256; threads *= 2) {
    st = point(b, threads, false, err);
    if (!st) st = point(b, threads, true, err);
  }
  return st;
}
