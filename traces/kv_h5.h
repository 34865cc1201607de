/* kv_h5.h - the few things every dataset of ours does with HDF5: written aside and renamed, units on each
 * dataset, fixed little-endian types, the same root attributes.
 *
 * Not thread-safe (Debian's serial HDF5 is not): one thread of a process may use it at a time.
 * Handles are plain hid_t, so anything this header does not offer is done with HDF5 itself.
 */
#ifndef KV_H5_H
#define KV_H5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_status.h"

/* An output being written: `file` is a temporary beside `path` until kv_h5_commit() renames it. */
typedef struct kv_h5_out {
  hid_t file; /* -1 when closed */
  char *path;
  char *part;
} kv_h5_out;

/* Silences HDF5's own error printing for this process; errors come back as kv_error instead. Idempotent. */
void kv_h5_quiet(void);

/* Makes text from outside fit for JSON and a terminal: what is no UTF-8, and control characters, become '?'. */
void kv_text_clean(char *text);

/* Creates an output and writes the root attributes Conventions, creator, creator_version, file_time,
 * HDF5_Version, host and history (one line, `command`). `conventions` is e.g. "kvtrace-1". file_time honours
 * SOURCE_DATE_EPOCH so that a run can be made bit-identical. A target that exists and is no regular file
 * (/dev/full, a folder) is refused; a link is followed. On failure *out holds nothing. */
kv_status kv_h5_create(const char *path, const char *conventions, const char *creator, const char *command,
                       kv_h5_out *out, kv_error *err);
/* Flushes, closes, renames. On failure the temporary is removed and the old `path`, if any, is untouched. */
kv_status kv_h5_commit(kv_h5_out *out, kv_error *err);
/* Closes and removes the temporary; safe on a zeroed, committed or failed output. */
void kv_h5_abort(kv_h5_out *out);

/* Attributes of a file, group or dataset. Strings are fixed-length UTF-8, numbers little-endian. */
kv_status kv_h5_put_str(hid_t loc, const char *name, const char *value, kv_error *err);
kv_status kv_h5_put_i64(hid_t loc, const char *name, int64_t value, kv_error *err);
kv_status kv_h5_put_f64(hid_t loc, const char *name, double value, kv_error *err);

/* Read an attribute. Missing: KV_END and *value untouched. Another type or shape: KV_ERR_INPUT.
 * Strings are cut to size-1 bytes, always terminated and cleaned (kv_text_clean); fixed and variable length are accepted. */
kv_status kv_h5_get_str(hid_t loc, const char *name, char *value, size_t size, kv_error *err);
kv_status kv_h5_get_i64(hid_t loc, const char *name, int64_t *value, kv_error *err);
kv_status kv_h5_get_f64(hid_t loc, const char *name, double *value, kv_error *err);

/* Makes the group `name` unless it is there (without time stamps: two runs must not differ by them). */
kv_status kv_h5_group(hid_t loc, const char *name, kv_error *err);

/* How a column is stored. */
typedef enum kv_h5_store {
  KV_H5_PLAIN,      /* chunked, fletcher32: hot files */
  KV_H5_DEFLATE_1,  /* chunked, shuffle + deflate-1: archives */
  KV_H5_SMALL,      /* contiguous: small tables */
  KV_H5_UNFILTERED  /* chunked, nothing else: the fastest to read, damage goes unseen */
} kv_h5_store;
#define KV_H5_CHUNK 65536u /* elements a chunk */

/* Creates the one-dimensional dataset `name` (groups on the way are made) of the little-endian file type
 * `type` (H5T_STD_I32LE, H5T_IEEE_F64LE, ...) with attributes units ("1" for none) and long_name and writes
 * n elements of the matching native type. */
kv_status kv_h5_write(hid_t loc, const char *name, hid_t type, uint64_t n, const void *data, const char *units,
                      const char *long_name, kv_h5_store store, kv_error *err);
/* The same for n strings (a fixed-length UTF-8 type as long as the longest). */
kv_status kv_h5_write_strings(hid_t loc, const char *name, uint64_t n, const char *const *strings,
                              const char *long_name, kv_error *err);

/* A one-dimensional column that grows; appends are buffered to whole chunks. */
typedef struct kv_h5_column {
  char name[64];
  hid_t dataset;
  hid_t memory_type;
  size_t element_size;
  uint64_t rows;   /* written to the file */
  size_t buffered; /* elements waiting in buffer */
  size_t capacity; /* elements the buffer holds */
  unsigned char *buffer;
} kv_h5_column;

kv_status kv_h5_column_open(hid_t loc, const char *name, hid_t type, const char *units, const char *long_name,
                            kv_h5_store store, size_t chunk, kv_h5_column *column, kv_error *err);
kv_status kv_h5_column_append(kv_h5_column *column, size_t n, const void *data, kv_error *err);
/* Writes what is buffered and closes; safe on a zeroed column. The status of the last write is returned. */
kv_status kv_h5_column_close(kv_h5_column *column, kv_error *err);

/* Opens `name` under loc if it is a one-dimensional dataset of integers or floats stored in the file itself;
 * soft and external links, external storage and virtual datasets are refused. *n is its length, *elem the
 * stored size of an element in bytes. Missing: KV_END. The caller closes *dataset. `path` is for messages. */
kv_status kv_h5_open_column(hid_t loc, const char *path, const char *name, hid_t *dataset, uint64_t *n,
                            size_t *elem, kv_error *err);

/* Makes `scale` (a dataset) the dimension scale of dimension 0 of `dataset`. */
kv_status kv_h5_attach_scale(hid_t loc, const char *dataset, const char *scale, kv_error *err);

/* SHA-256 of a file as 64 hex digits (libcrypto). */
kv_status kv_sha256_file(const char *path, char hex[65], kv_error *err);

#endif
