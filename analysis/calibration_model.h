/* calibration_model.h - the memory model's word beside a calibration's gathers (kvceilings-1).
 *
 *   /microbenchmarks/modelled    what the model gives for that gather, unit/s; NaN for everything else, for recorded
 *                                lists, for pools about the L2's size whose rows shared it with the slot list, and where the
 *                                GPU's memory is not described
 *   attribute memory_model       whose description, and what it is calibrated on; or why there is no model
 *   /memory, memory_card         the parameters of this card (card_memory.h)
 *
 * Latency, activations and bus are those of the card that was measured (kvm_mem_adapt()), where the calibration has what
 * tells them: latency_dram, random rows of 32 and 128 B, contiguous rows of 576 B.
 */
#ifndef KVA_CALIBRATION_MODEL_H
#define KVA_CALIBRATION_MODEL_H

#include "calibration.h"
#include "gpu.h"
#include "mem_fit.h"

/* Told after each point; `done` of `all`. */
typedef void (*kva_model_progress)(void *arg, size_t done, size_t all);

typedef struct kva_model_plan {
  const char *in, *out;  /* datasets; the same file: in place. Written aside and renamed; all else stays as measured */
  const kvm_gpu *gpu;    /* its memory described (roofline_gpu_choose); NULL: not described, `why` says so */
  const char *why;
  const char *command;   /* a line more for the history; NULL: none (the run that measured adds its own model) */
  kva_model_progress progress; /* may be NULL */
  void *arg;
} kva_model_plan;

/* KV_ERR_INPUT and KV_ERR_IO as kva_calibration_read(), KV_ERR_IO, KV_ERR_MEMORY. Some 40 ms a gather. */
kv_status kva_calibration_model(const kva_model_plan *plan, kv_error *err);

/* What the model reads for a measured point; false where it is no gather of a pattern. */
bool kva_gather_point(const kva_bench_row *row, uint32_t sms, kvm_mem_point *point);

#endif
