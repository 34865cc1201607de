/* audit_sass.h - machine code as nvdisasm prints it: the features its mnemonics stand for, kernel by kernel. */
#ifndef KVA_AUDIT_SASS_H
#define KVA_AUDIT_SASS_H

#include <stddef.h>
#include <stdint.h>

#include "audit_isa.h"
#include "kv_status.h"

/* What was read of the kernel at hand. Zero it first. */
typedef struct kva_sass_state {
  char kernel[32768]; /* mangled; "" before the first */
  uint64_t features;
  uint32_t count[KVA_FEATURES];
} kva_sass_state;

typedef void (*kva_sass_visit)(void *context, const kva_sass_state *kernel);

/* Takes one line of `nvdisasm -c`; visit is called for the kernel before when the next one starts, and by
 * kva_sass_end for the last. */
void kva_sass_line(const char *line, kva_sass_state *state, kva_sass_visit visit, void *context);
void kva_sass_end(kva_sass_state *state, kva_sass_visit visit, void *context);

/* Disassembles a cubin with the nvdisasm in PATH. KV_ERR_IO if there is none. */
kv_status kva_sass(const unsigned char *data, size_t size, kva_sass_visit visit, void *context, kv_error *err);

#endif
