/* roofline_model.h - what the sub-commands that predict times load: kernels' programs and latencies of the
 * pipes. */
#ifndef ROOFLINE_MODEL_H
#define ROOFLINE_MODEL_H

#include "calibration_find.h"
#include "card_memory.h"
#include "kv_status.h"
#include "roof_run.h"
#include "time_calibrate.h"

typedef struct roofline_model {
  kvm_declared_set declared; /* models/kernels */
  kvm_gpus pipes;            /* models/pipes */
  kvm_declared *own;         /* of --kernel FILE; NULL: none */
  const char *named;         /* of --kernel NAME; NULL: none. Not owned */
  kva_calibrated calibrated; /* values 0: none */
  char calibration[4400];    /* the file it came from; "" with none */
  char passed_over[KVA_CALIBRATION_WHY]; /* the one that has the GPU's name and is not of its card, and why; "" none */
  kva_card_memory memory;    /* whose memory the gathers are modelled of */
} roofline_model;

bool kva_is_declaration(const char *name); /* whether --kernel names a file: it ends in .ini; NULL: no */
/* `own` is a file of the user's (.ini), the name of a kernel or program of models/kernels, or NULL. On failure nothing
 * is held. */
kv_status roofline_model_load(const char *own, roofline_model *model, kv_error *err);
void roofline_model_free(roofline_model *model);
/* Roofs and timing of a GPU: its description and pipes, then a calibration: the file `calibration`, or where
 * that is NULL the first of models/measured/NAME-ceilings.h5 whose GPU is this one ("none": no calibration).
 * What was used stands in model->calibrated, whose text the estimates point to. `gpus` resolves the
 * calibration's product name: KV_ERR_INPUT where it is another of them, or another card (calibration_find.h). A file of
 * models/measured that is another card's is passed over: model->passed_over says why, as does a run's status. */
kv_status roofline_model_timing(roofline_model *model, const kvm_gpus *gpus, const kvm_gpu *gpu,
                                const char *calibration, kvm_roofs *roofs, kvm_timing *timing, kv_error *err);
/* Gives a run its programs, roofs, timing and status; run->gpu must be set. A program that was named becomes the run's
 * own one, in the variant for that GPU, unless it is of a kernel that every run has. KV_ERR_USAGE: no such name. */
kv_status roofline_model_use(roofline_model *model, const kvm_gpus *gpus, const char *calibration,
                             kva_run *run, kv_error *err);

#endif
