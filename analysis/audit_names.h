/* audit_names.h - kernels' names: kept once each, demangled, and the family a kernel belongs to. */
#ifndef KVA_AUDIT_NAMES_H
#define KVA_AUDIT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_status.h"

/* A pool of distinct strings; an index stays valid for the pool's life. Not thread-safe. */
typedef struct kva_names {
  char **text;    /* [count] */
  uint32_t count; /* distinct strings */
  uint32_t *slot; /* hash table: index + 1 */
  uint32_t slots;
  uint32_t capacity;
  struct kva_arena *arena;
} kva_names;

#define KVA_NAME_MAX 32768u /* longer names are cut */

/* The index of a string of `length` bytes, added if new. KV_ERR_MEMORY. */
kv_status kva_names_add(kva_names *names, const char *text, size_t length, uint32_t *index, kv_error *err);
/* The index of a string that is there. */
bool kva_names_find(const kva_names *names, const char *text, size_t length, uint32_t *index);
void kva_names_free(kva_names *names);

/* Demangles an Itanium C++ name without its parameters and return type into out (cut at size - 1, always
 * terminated); a name that is none, or that will not demangle, is copied as it is. By libiberty, with its output
 * bounded: a short hostile name can stand for an endless one. */
void kva_demangle(const char *mangled, char *out, size_t size);

/* The family of a kernel: its qualified name without template arguments. For kernels that are only a shell round
 * a class (cutlass::device_kernel<X>, cutlass::Kernel2<X>), X without its arguments too, and the main loop's
 * architecture where the arguments name one:
 *   cutlass::device_kernel<flash::FlashAttnFwdSm90>
 *   cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal> [MainloopSm100TmaUmmaWarpSpecialized] */
void kva_family(const char *demangled, char *out, size_t size);

#endif
