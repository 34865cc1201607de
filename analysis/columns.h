/* columns.h - whole columns of small datasets, read at once. Not thread-safe (HDF5 is not). */
#ifndef KVA_COLUMNS_H
#define KVA_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "kv_h5.h"

#define KVA_COLUMN_ROWS 1000000u /* longer columns are refused */
#define KVA_ANY_LENGTH UINT64_MAX

/* Opens an HDF5 file whose attribute Conventions begins with `kind` ("roofline-1"). KV_ERR_IO: missing;
 * KV_ERR_INPUT: another kind of file. The caller closes *file with H5Fclose(). */
kv_status kva_open(const char *path, const char *kind, hid_t *file, kv_error *err);
/* A column of numbers as doubles. *n: its length must be this unless KVA_ANY_LENGTH; set to it. The caller
 * frees *v. KV_ERR_INPUT names file and dataset. */
kv_status kva_reals(hid_t file, const char *path, const char *name, uint64_t *n, double **v, kv_error *err);
/* A column of fixed-length strings: one block of *n * *width bytes, each string terminated; the caller frees.
 */
kv_status kva_words(hid_t file, const char *path, const char *name, uint64_t *n, char **text, size_t *width,
                    kv_error *err);

#endif
