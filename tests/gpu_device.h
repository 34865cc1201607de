/* gpu_device.h - what the device programs share: a host case's arrays on the GPU, flushing the L2, CUDA's errors. */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include <cuda_runtime_api.h>

#include "attn_case.h"

/* Exits with a message on any error of CUDA. */
#define GPU(call) gpu_check((call), #call, __FILE__, __LINE__)
void gpu_check(cudaError_t e, const char *what, const char *file, int line);

/* A copy of a host problem's arrays; row r of the host pool is row r + shift of the device's. */
typedef struct gpu_case {
  kvk_problem problem; /* device pointers */
  void *arrays[9];
  void *workspace;
  size_t workspace_bytes;
} gpu_case;

/* The pool has pool_rows rows; NaN where the host has none. */
void gpu_upload(const kvk_case *host, int64_t shift, int64_t pool_rows, gpu_case *device);
void gpu_workspace(gpu_case *device, kvk_kind kind, const kvk_options *options);
void gpu_free(gpu_case *device);

/* Each planted kernel once, on small lists: for compute-sanitizer, and for CUDA's own errors. Returns how many. */
unsigned gpu_run_plants(void *stream);

/* Enqueues a kernel that reads `bytes` of `buffer`. */
void gpu_flush(const void *buffer, size_t bytes, void *stream);

#endif
