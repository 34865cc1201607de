/* roof_gather.h - what the memory model says of a run's rows: the ceiling of its layout, and its scatter
 * factor. */
#ifndef KVA_ROOF_GATHER_H
#define KVA_ROOF_GATHER_H

#include "card_memory.h"
#include "gpu.h"
#include "layout.h"
#include "mem_model.h"

/* Of one list: as described, and the slow and the fast end of that and of both ends of whatever is assumed. */
typedef struct kva_gather_range {
  kvm_mem_gather at, slow, fast; /* scatter NaN: not modelled */
} kva_gather_range;

typedef struct kva_gather {
  kva_gather_range layout; /* of the run: scatter 1 without a layout file */
  kva_gather_range
      random;    /* the same rows, each at a random place of an 8-GiB pool (or of half the memory) */
  kvm_kind kind; /* KVM_ASSUMED where a value that decides bandwidth is a guess; KVM_UNKNOWN: no model */
  char why[200]; /* why there is no model; "" */
  bool adapted;  /* to the card that a calibration measured, else the described one's */
  char status[480]; /* what the model is calibrated on, and whose memory it is of */
} kva_gather;

/* layout NULL: contiguous rows. `card`: what the calibration in use tells of the memory; may be NULL. Looks at 32768
 * rows at most, of all requests in turn. A GPU whose memory nobody describes is no error: kind KVM_UNKNOWN and why.
 * Errors: memory, rows beyond the model's reach, or a card that cannot be.
 */
kv_status kva_gather_of(const kvm_gpu *gpu, const kva_card_memory *card, const kva_layout *layout, uint32_t row_bytes,
                        kva_gather *gather, kv_error *err);

#endif
