/* cuda_status.h - CUDA errors as our statuses. For .cu files only. */
#ifndef KVK_CUDA_STATUS_H
#define KVK_CUDA_STATUS_H

#include <cuda_runtime.h>

#include "kv_status.h"

/* KV_OK for cudaSuccess; else fills *err with what failed, CUDA's text and the remedy, and clears the
 * runtime's last error where it can be cleared. */
kv_status kvk_cuda(cudaError_t code, const char *what, kv_error *err);

#endif
