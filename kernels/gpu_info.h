/* gpu_info.h - the CUDA devices of this machine, and which of them a name means.
 *
 * Everything here works without CUDA at build or run time: the functions then return KV_ERR_DEVICE with a
 * line that says what is missing (nvcc at build time, a driver, a device) and what to do about it.
 */
#ifndef KVK_GPU_INFO_H
#define KVK_GPU_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the CUDA runtime says about a device; 0 where it does not say. */
typedef struct kvk_gpu {
  int device;             /* CUDA ordinal */
  char name[96];          /* "NVIDIA H200" */
  char pci[32];           /* "00000000:1B:00.0", NVML's form */
  int major, minor;       /* compute capability */
  int sms;                /* multiprocessors */
  int warps_per_sm;       /* resident at most */
  int blocks_per_sm;      /* resident at most */
  int registers_per_sm;   /* 32-bit registers */
  uint64_t memory;        /* B of device memory */
  uint64_t memory_free;   /* B free when asked */
  uint64_t l2;            /* B of L2 cache */
  uint64_t shared_per_sm; /* B of shared memory an SM */
  uint64_t shared_block;  /* B a block may ask for (opt-in) */
  int sm_clock_khz;       /* highest SM clock */
  int memory_clock_khz;   /* highest memory clock */
  int memory_bus_bits;    /* width of the memory bus */
  int driver, runtime;    /* CUDA versions, 13000 for 13.0 */
} kvk_gpu;

/* True when the library was built with nvcc. */
bool kvk_cuda_built(void);

/* Number of devices. KV_ERR_DEVICE when there are none, the driver is missing or too old, or the library was
 * built without nvcc; *count is 0 then. */
kv_status kvk_gpu_count(int *count, kv_error *err);

/* Describes device `device` (0 .. count - 1). Creates a CUDA context on it. */
kv_status kvk_gpu_get(int device, kvk_gpu *gpu, kv_error *err);

/* What a user asked for. The names are alternatives: "H200", "NVIDIA H200". */
typedef struct kvk_gpu_wanted {
  int major, minor;         /* compute capability; 0, 0 = any */
  const char *const *names; /* product names, matched as whole words without case; NULL = any */
  int name_count;
} kvk_gpu_wanted;

/* True when `gpu` is what is wanted: some name matches, or, without names, the capability does. Pure. */
bool kvk_gpu_matches(const kvk_gpu *gpu, const kvk_gpu_wanted *wanted);

/* The first device that matches, or KV_END when devices are there but none matches. KV_ERR_DEVICE as above.
 */
kv_status kvk_gpu_find(const kvk_gpu_wanted *wanted, kvk_gpu *gpu, kv_error *err);

#ifdef __cplusplus
}
#endif
#endif
