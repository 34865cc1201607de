#include <cstdio>
#include <cstring>

#include "cuda_status.h"
#include "gpu_info.h"

static kv_status status_of(cudaError_t code, const char **remedy) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      *remedy = "out of device memory: free some, or ask for a smaller problem";
      return KV_ERR_MEMORY;
    case cudaErrorNoDevice:
      *remedy = "no NVIDIA GPU is visible here (see nvidia-smi, CUDA_VISIBLE_DEVICES)";
      break;
    case cudaErrorInsufficientDriver:
      *remedy = "no NVIDIA driver, or one older than this build needs: update it";
      break;
    case cudaErrorInvalidDevice: *remedy = "no such device: nvidia-smi -L lists them"; break;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      *remedy = "this build holds no code for this GPU: rebuild with its compute capability";
      break;
    case cudaErrorDevicesUnavailable: *remedy = "the device is in exclusive use by another process"; break;
    case cudaErrorLaunchTimeout: *remedy = "a kernel ran past the display's watchdog limit"; break;
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorUnknown:
      *remedy = "the device is lost to this process: start anew; if it stays so, see dmesg";
      break;
    default: *remedy = "unexpected; please report"; break;
  }
  return KV_ERR_DEVICE;
}

kv_status kvk_cuda(cudaError_t code, const char *what, kv_error *err) {
  const char *remedy = "";
  if (code == cudaSuccess) return KV_OK;
  (void)cudaGetLastError();
  kv_status st = status_of(code, &remedy);
  return kv_fail(err, st, "%s: %s (CUDA error %d): %s", what, cudaGetErrorString(code), (int)code, remedy);
}

bool kvk_cuda_built(void) {
  return true;
}

kv_status kvk_gpu_count(int *count, kv_error *err) {
  *count = 0;
  cudaError_t code = cudaGetDeviceCount(count);
  if (code == cudaSuccess && *count == 0) code = cudaErrorNoDevice;
  if (code != cudaSuccess) *count = 0;
  return kvk_cuda(code, "looking for GPUs", err);
}

static int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value : 0;
}

static void limits(int device, kvk_gpu *g) {
  g->sms = attribute(cudaDevAttrMultiProcessorCount, device);
  g->warps_per_sm = attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device) / 32;
  g->blocks_per_sm = attribute(cudaDevAttrMaxBlocksPerMultiprocessor, device);
  g->registers_per_sm = attribute(cudaDevAttrMaxRegistersPerMultiprocessor, device);
  g->l2 = (uint64_t)attribute(cudaDevAttrL2CacheSize, device);
  g->shared_per_sm = (uint64_t)attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  g->shared_block = (uint64_t)attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  g->sm_clock_khz = attribute(cudaDevAttrClockRate, device);
  g->memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, device);
  g->memory_bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
}

kv_status kvk_gpu_get(int device, kvk_gpu *g, kv_error *err) {
  cudaDeviceProp prop;
  size_t free_bytes = 0, total = 0;
  char what[48];
  std::memset(g, 0, sizeof *g);
  (void)std::snprintf(what, sizeof what, "device %d", device);
  kv_status st = kvk_cuda(cudaGetDeviceProperties(&prop, device), what, err);
  if (!st) st = kvk_cuda(cudaSetDevice(device), what, err);
  if (!st) st = kvk_cuda(cudaMemGetInfo(&free_bytes, &total), what, err);
  if (st) return st;
  g->device = device;
  (void)std::snprintf(g->name, sizeof g->name, "%.*s", (int)sizeof g->name - 1, prop.name);
  if (cudaDeviceGetPCIBusId(g->pci, sizeof g->pci, device) != cudaSuccess) g->pci[0] = '\0';
  g->major = prop.major;
  g->minor = prop.minor;
  g->memory = total;
  g->memory_free = free_bytes;
  limits(device, g);
  (void)cudaDriverGetVersion(&g->driver);
  (void)cudaRuntimeGetVersion(&g->runtime);
  return KV_OK;
}
