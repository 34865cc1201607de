/* audit_cubin.h - kernels and what they need, from machine code (cubin) and from PTX text. */
#ifndef KVA_AUDIT_CUBIN_H
#define KVA_AUDIT_CUBIN_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit_container.h"
#include "audit_isa.h"
#include "kv_status.h"

enum { KVA_EM_CUDA = 190 };

/* A kernel in one entry. What an entry does not tell is -1. Shared memory given at launch is in no cubin: only that
 * some is used shows (dynamic). */
typedef struct kva_kernel {
  const char *name;       /* mangled; not terminated, inside the cubin or text */
  size_t name_length;
  int32_t registers;      /* a thread */
  int32_t shared;         /* bytes a block, static; the 1,024 that compute capability 9.0 and newer reserve left out */
  int32_t stack;          /* bytes a thread */
  int32_t max_threads;    /* a block, where __launch_bounds__ says */
  bool dynamic_shared;    /* has an extern __shared__ array, or (PTX) refers to the module's */
  uint32_t instructions;  /* machine instructions without padding; PTX: statements */
  uint32_t traps;         /* trap instructions: asserts, or "not built for this architecture" */
  uint64_t features;      /* set of kva_feature */
  uint32_t count[KVA_FEATURES]; /* how often each */
} kva_kernel;

typedef void (*kva_kernel_visit)(void *context, const kva_kernel *kernel);

/* The target of a cubin by itself: e_flags, .nv.compat, the tool's note. A family-specific cubin looks like a plain
 * one and is given as such. */
void kva_cubin_target(Elf *elf, const GElf_Ehdr *header, kva_target *target);

/* Calls visit for each kernel of a cubin, in the symbol table's order. Damage: KV_ERR_INPUT, after the kernels that
 * could be read. */
typedef struct kva_cubin_options {
  unsigned sm;
  bool code;                /* count instructions; else features and instructions stay 0 */
  const kva_object *mapped; /* non-NULL: the cubin lies in this mapping; pages of code are given back */
} kva_cubin_options;
kv_status kva_cubin_kernels(const unsigned char *data, size_t size, const kva_cubin_options *options,
                            kva_kernel_visit visit, void *context, kv_error *err);

/* Calls visit for each .entry of PTX text; a function that a kernel may call counts for every kernel of the module
 * that has a call. *target and the ISA version from the text itself (unset where it has none). */
kv_status kva_ptx_kernels(const char *text, size_t size, kva_target *target, kva_kernel_visit visit, void *context,
                          kv_error *err);

#endif
