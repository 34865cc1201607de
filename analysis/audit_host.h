/* audit_host.h - shared memory that host code gives to kernels at launch.
 *
 * A cubin does not say how much shared memory a block is launched with; for more than 48 KiB the host code must ask for
 * it first, and in compiled x86-64 code that is plain to see: the kernel's handle, the attribute's number
 * (cudaFuncAttributeMaxDynamicSharedMemorySize is 8) and mostly a constant are put in registers before the call of
 * cudaFuncSetAttribute. Which kernel a handle stands for, the calls of __cudaRegisterFunction say, which are generated
 * by nvcc and pass the handle beside the kernel's name. Sizes computed at run time, kernels chosen through a table,
 * other processors and launches through the driver's own interface are not found: nothing is said of them then.
 */
#ifndef KVA_AUDIT_HOST_H
#define KVA_AUDIT_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "audit_container.h"
#include "audit_names.h"
#include "kv_status.h"

/* The largest constant asked for, for a kernel. */
typedef struct kva_launch {
  uint32_t name; /* in the names given */
  uint32_t bytes;
} kva_launch;

/* Looks through the .text of an ELF file of the host for the kernels in `names`. *launch (sorted by name, each name
 * once; NULL for none) is the caller's. Anything that is not a whole x86-64 ELF file gives none. KV_ERR_MEMORY. */
kv_status kva_host_launches(const kva_object *object, const kva_names *names, kva_launch **launch, size_t *count,
                            kv_error *err);

#endif
