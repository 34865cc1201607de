/* card_memory.h - what one card's memory has of its own, in its calibration (kvceilings-1).
 *
 *   /memory               a row a parameter of the memory model (latency, efficiency, act, act_bus): name, value, unit,
 *                         kind (measured, or inference: the model beside gathers), source, and described: what the
 *                         GPU's description has. Only where the calibration tells them
 *   attribute memory_card "adapted" with what from, or "not adapted: " and why
 *
 * Files of before lack both; `roofline calibrate --from` adds them.
 */
#ifndef KVA_CARD_MEMORY_H
#define KVA_CARD_MEMORY_H

#include <hdf5.h>
#include <stdbool.h>

#include "mem_params.h"

typedef struct kva_card_memory {
  bool adapted;
  kvm_mem_card card; /* where adapted */
  char file[256];    /* base name of the calibration; "" none */
  char words[320];   /* "adapted to h200-ceilings.h5"; "the described card: no calibration is used" */
} kva_card_memory;

/* Whose memory the model is of: `calibration` a file, or NULL or "" for none. KV_ERR_IO, KV_ERR_INPUT: it cannot be
 * read, or its /memory is damaged. */
kv_status kva_card_memory_read(const char *calibration, kva_card_memory *m, kv_error *err);

/* What a calibration tells. */
typedef struct kva_card_told {
  const kvm_mem_card *card; /* NULL: nothing, and `why` */
  kvm_mem_card described;
  bool chased; /* the latency is a pointer chase's, else the description's */
  const char *why;
} kva_card_told;
/* Puts it into an open calibration in place of what was there. */
kv_status kva_card_memory_write(hid_t file, const kva_card_told *told, kv_error *err);

/* The parameters of a GPU's memory with what its card has of its own. `m` may be NULL: as described. Errors as
 * kvm_mem_params_of() where the description allows no model; KV_ERR_INPUT with the calibration's name where its values
 * are impossible beside the description. */
kv_status kva_card_params(const kvm_gpu *gpu, const kva_card_memory *m, kvm_mem_params *p, kv_error *err);
/* Makes *p (of kvm_mem_params_of() or of kvm_mem_corner()) the card's. */
kv_status kva_card_use(const kva_card_memory *m, kvm_mem_params *p, kv_error *err);

#endif
