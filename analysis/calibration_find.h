/* calibration_find.h - which calibration (kvceilings-1) is of a GPU: the one that the user names, else that of
 * models/measured. */
#ifndef KVA_CALIBRATION_FIND_H
#define KVA_CALIBRATION_FIND_H

#include "gpu.h"

#define KVA_CALIBRATION_WHY 200

/* A calibration is of a GPU when its product name means that GPU and the card measured is the one described: architecture,
 * number of SMs, memory size within 10 % (makers round), memory rate within 5 %, as far as both sides tell. An alias
 * alone does not do: a description of the user's own may have any.
 *
 * `named` is a file, "none", or NULL: the first of models/measured/NAME-ceilings.h5 whose GPU is this one. *path is ""
 * where there is none; `why` (may be NULL) then says which one of that name was passed over, "" for none. `gpus` resolves
 * the calibration's product name: KV_ERR_INPUT where a named file is another of them or another card. KV_ERR_IO, KV_ERR_INPUT as kva_open(). */
kv_status kva_calibration_find(const kvm_gpus *gpus, const kvm_gpu *gpu, const char *named, char *path, size_t size,
                               char why[KVA_CALIBRATION_WHY], kv_error *err);

#endif
