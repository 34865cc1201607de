/* What the launchers need to know of a CUDA device. */
#include <cuda_runtime.h>

#include "attention.h"

extern "C" kv_status kvk_device_options(int device, kvk_options *options, kv_error *err) {
  int sms = 0, major = 0, minor = 0, count = 0;
  cudaError_t e = cudaGetDeviceCount(&count);
  if (e == cudaSuccess && (device < 0 || device >= count)) e = cudaErrorInvalidDevice;
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (e == cudaSuccess) e = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (e != cudaSuccess)
    return kv_fail(err, KV_ERR_DEVICE, "CUDA device %d of %d: %s", device, count, cudaGetErrorString(e));
  *options = kvk_default_options(sms, major, minor);
  return KV_OK;
}
