/* roofline_model.h - what the sub-commands that predict times load: kernels' programs and latencies of the pipes. */
#ifndef ROOFLINE_MODEL_H
#define ROOFLINE_MODEL_H

#include "kv_status.h"
#include "roof_run.h"

typedef struct roofline_model {
  kvm_declared_set declared; /* models/kernels */
  kvm_gpus pipes;            /* models/pipes */
  kvm_declared *own;         /* of --kernel; NULL: none */
} roofline_model;

/* `own` is a file of the user's, or NULL. On failure nothing is held. */
kv_status roofline_model_load(const char *own, roofline_model *model, kv_error *err);
void roofline_model_free(roofline_model *model);
/* Gives a run the programs and the pipes of its GPU's architecture; run->gpu must be set. */
void roofline_model_use(const roofline_model *model, kva_run *run);

#endif
