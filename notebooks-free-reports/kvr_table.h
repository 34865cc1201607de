/* kvr_table.h - reading a dataset for a report: columns as doubles, columns of strings, attributes.
 *
 * Every message names the file and the dataset. Not thread-safe (HDF5 is not).
 */
#ifndef KVR_TABLE_H
#define KVR_TABLE_H

#include <hdf5.h>
#include <stdint.h>

#include "kv_status.h"

/* A dataset file open for reading; `path` is the caller's and outlives it. */
typedef struct kvr_source {
  hid_t file;
  const char *path;
} kvr_source;

/* Opens a file and copies its Conventions into kind (size bytes). A missing or unreadable file is KV_ERR_IO,
 * one that is not HDF5 or has no Conventions KV_ERR_INPUT. On failure nothing is open. */
kv_status kvr_source_open(const char *path, kvr_source *src, char *kind, size_t size, kv_error *err);
void kvr_source_close(kvr_source *src); /* safe on a closed or zeroed-with-file=-1 source */

#define KVR_COLUMNS 32

/* The columns `names` of one group, all of one length; values are converted to double (exact up to 2^53). */
typedef struct kvr_table {
  size_t columns;
  uint64_t rows;                 /* in the file */
  hid_t dataset[KVR_COLUMNS];    /* -1 once closed */
  double *value[KVR_COLUMNS];    /* the rows read last; owned by the table */
  const char *name[KVR_COLUMNS]; /* the caller's, for messages */
  const char *group;
} kvr_table;

/* Opens columns group/names[0..columns). KV_ERR_INPUT names a missing column or one of another length. On
 * failure nothing is open, and *t may be closed once more. */
kv_status kvr_table_open(const kvr_source *src, const char *group, const char *const *names, size_t columns,
                         kvr_table *t, kv_error *err);
/* Reads rows [start, start + n) into t->value[c][0..n). KV_ERR_INPUT where they are not in the file. */
kv_status kvr_table_read(const kvr_source *src, kvr_table *t, uint64_t start, uint64_t n, kv_error *err);
void kvr_table_close(kvr_table *t);

/* Open and read everything: for tables that are small. The caller closes the table. */
kv_status kvr_table_load(const kvr_source *src, const char *group, const char *const *names, size_t columns,
                         kvr_table *t, kv_error *err);

/* A column of fixed-length strings: *text is one block of n * *width bytes, each string terminated; the
 * caller frees it. expect is the length required, or UINT64_MAX for any. KV_ERR_INPUT where it is missing or
 * something else. */
kv_status kvr_strings(const kvr_source *src, const char *name, uint64_t expect, char **text, size_t *width,
                      uint64_t *n, kv_error *err);

/* Root attributes. Text: "" where there is none (KV_OK), so that a report can say so. Number: NaN where there
 * is none. An attribute of another type is KV_ERR_INPUT. */
kv_status kvr_text_attribute(const kvr_source *src, const char *name, char *text, size_t size, kv_error *err);
kv_status kvr_number_attribute(const kvr_source *src, const char *name, double *value, kv_error *err);

#endif
