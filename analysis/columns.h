/* columns.h - whole columns of small datasets, read and written at once. Not thread-safe (HDF5 is not). */
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

/* A table that is written: a column's value in row i, worked out of `rows`, whatever these are. */
typedef struct kva_real_column {
  const char *name, *units, *about;
  double (*of)(const void *rows, uint64_t i);
} kva_real_column;
typedef struct kva_word_column {
  const char *name, *about;
  const char *(*of)(const void *rows, uint64_t i);
} kva_word_column;

/* Defines such a function where `rows` is an array: KVA_REAL(g_share, kva_named, v, v->share). */
#define KVA_REAL(function, type, row, expression)          \
  static double function(const void *rows, uint64_t i) {   \
    const type *row = (const type *)rows + i;              \
    return expression;                                     \
  }
#define KVA_WORD(function, type, row, expression)             \
  static const char *function(const void *rows, uint64_t i) { \
    const type *row = (const type *)rows + i;                 \
    return expression;                                        \
  }

/* Writes `columns` columns of n rows as GROUP/NAME. KV_ERR_MEMORY, KV_ERR_IO. */
kv_status kva_write_reals(hid_t file, const char *group, const kva_real_column *column, size_t columns, uint64_t n,
                          const void *rows, kv_error *err);
kv_status kva_write_words(hid_t file, const char *group, const kva_word_column *column, size_t columns, uint64_t n,
                          const void *rows, kv_error *err);

#endif
