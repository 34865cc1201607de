/* h5_add.h - something more in a dataset that is there: into a copy aside, which is then renamed. All else
 * stays as it was. */
#ifndef KVA_H5_ADD_H
#define KVA_H5_ADD_H

#include <hdf5.h>

#include "kv_status.h"

typedef struct kva_addition {
  const char *in, *out; /* datasets; the same file: in place */
  const char *what;     /* "the memory model", for the history */
  const char *command;  /* that added it; NULL: no more history (the run that made the file) */
  kv_status (*add)(void *user, hid_t file, kv_error *err);
  void *user;
} kva_addition;

/* KV_ERR_IO, KV_ERR_INPUT where `in` is no HDF5 file, KV_ERR_MEMORY, or what `add` returns: then there is no
 * `out`. */
kv_status kva_h5_add(const kva_addition *addition, kv_error *err);

#endif
