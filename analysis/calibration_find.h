/* calibration_find.h - which calibration (kvceilings-1) is of a GPU: the one that the user names, else that of
 * models/measured. */
#ifndef KVA_CALIBRATION_FIND_H
#define KVA_CALIBRATION_FIND_H

#include "gpu.h"

/* `named` is a file, "none", or NULL: the first of models/measured/NAME-ceilings.h5 whose GPU is this one. *path is ""
 * where there is none. `gpus` resolves the calibration's product name: KV_ERR_INPUT where a named file is another of
 * them; with a description of the user's own nobody can tell. KV_ERR_IO, KV_ERR_INPUT as kva_open(). */
kv_status kva_calibration_find(const kvm_gpus *gpus, const kvm_gpu *gpu, const char *named, char *path, size_t size,
                               kv_error *err);

#endif
