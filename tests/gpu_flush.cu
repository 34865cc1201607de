/* Reads a buffer, so that nothing else is left in the L2. */
#include <cuda_runtime.h>
#include <stdint.h>

static __global__ void read_all(const uint4 *buffer, size_t n, unsigned *sink) {
  unsigned sum = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    const uint4 v = buffer[i];
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678u) *sink = sum; /* never, but the compiler cannot know */
}

extern "C" void gpu_flush(const void *buffer, size_t bytes, void *stream) {
  read_all<<<1056, 512, 0, (cudaStream_t)stream>>>((const uint4 *)buffer, bytes / 16, (unsigned *)buffer);
}
