// Kernels for the audit's fixtures; make_fixtures.sh compiles them. What each stands for is what the tests ask.
#include <cstdint>

namespace kvfix {

// Runs anywhere: no special instruction.
__global__ void merge(float *out, const float *a, const float *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] > b[i] ? a[i] : b[i];
}

// 4 N bytes of static shared memory, at most 128 threads.
template <int N>
__global__ void __launch_bounds__(128) tile(float *p) {
  __shared__ float s[N];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[(threadIdx.x + 1) % N];
}
template __global__ void tile<256>(float *);
template __global__ void tile<1024>(float *);

// Dynamic shared memory, cp.async, ldmatrix and one mma.sync: fits every GPU from 8.0 on.
__global__ void portable(float *out, const uint4 *in) {
  extern __shared__ uint4 ring[];
  uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(ring + threadIdx.x)), a[4], b[2] = {1, 2};
  float c[4] = {0, 0, 0, 0};
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;" ::"r"(at),
               "l"(in + threadIdx.x));
  __syncthreads();
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(at));
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  out[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}

// A Hopper kernel as libraries write them: the body is there for sm_90a alone, elsewhere a trap or nothing.
struct Sm90Attention {};
template <class Kernel>
__global__ void device_kernel(float *out, uint64_t da, uint64_t db) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  float c[4] = {0, 0, 0, 0};
  asm volatile("wgmma.fence.sync.aligned;");
#pragma unroll
  for (int i = 0; i < 96; i++)
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "l"(da + i), "l"(db + i));
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;");
  out[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
#else
  asm volatile("trap;");
#endif
}
template __global__ void device_kernel<Sm90Attention>(float *, uint64_t, uint64_t);

// The same for tensor memory.
__global__ void tensor_memory(float *out, uint64_t da, uint64_t db, uint32_t d, uint32_t idesc) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
#pragma unroll
  for (int i = 0; i < 32; i++)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(d),
                 "l"(da + i), "l"(db), "r"(idesc), "r"(1));
  out[threadIdx.x] = static_cast<float>(d);
#endif
}

// Works anywhere, but is launched with more shared memory than some GPUs have.
__global__ void large(float *out) {
  extern __shared__ float ring2[];
  ring2[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = ring2[blockDim.x - 1 - threadIdx.x];
}

// A guard that was never widened: a real body for 9.x alone, of instructions that exist everywhere.
__global__ void guarded(float *out) {
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
#pragma unroll
  for (int i = 0; i < 64; i++) out[threadIdx.x + 128 * i] = sqrtf(out[threadIdx.x + 64 * i]) * i;
#endif
}

// Host code as libraries have it: 150,000 bytes for `large`, 61,440 for `portable`.
int launch(float *out, const uint4 *in) {
  if (cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, 150000) != cudaSuccess) return 1;
  large<<<1, 128, 150000>>>(out);
  if (cudaFuncSetAttribute(portable, cudaFuncAttributeMaxDynamicSharedMemorySize, 61440) != cudaSuccess) return 1;
  portable<<<1, 128, 61440>>>(out, in);
  merge<<<1, 128>>>(out, out, out, 128);
  return 0;
}

}  // namespace kvfix
