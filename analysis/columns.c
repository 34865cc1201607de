#include "columns.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

kv_status kva_open(const char *path, const char *kind, hid_t *file, kv_error *err) {
  char found[64] = "";
  kv_h5_quiet();
  if (access(path, R_OK)) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  *file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (*file < 0) return kv_fail(err, KV_ERR_INPUT, "%s: not an HDF5 file", path);
  kv_status st = kv_h5_get_str(*file, "Conventions", found, sizeof found, err);
  if (!st && !strncmp(found, kind, strlen(kind))) return KV_OK;
  (void)H5Fclose(*file);
  *file = -1;
  return kv_fail(err, KV_ERR_INPUT, "%s: '%.40s' is not a %s dataset", path, found, kind);
}

kv_status kva_reals(hid_t file, const char *path, const char *name, uint64_t *n, double **v, kv_error *err) {
  hid_t dataset = -1;
  uint64_t rows = 0;
  size_t size;
  *v = NULL;
  kv_status st = kv_h5_open_column(file, path, name, &dataset, &rows, &size, err);
  if (st == KV_END) return kv_fail(err, KV_ERR_INPUT, "%s: dataset /%s is missing", path, name);
  if (st) return st;
  if (rows > KVA_COLUMN_ROWS) st = kv_fail(err, KV_ERR_INPUT, "%s: /%s is too long", path, name);
  else if (*n != KVA_ANY_LENGTH && rows != *n)
    st = kv_fail(err, KV_ERR_INPUT, "%s: /%s has another length", path, name);
  if (!st && !(*v = calloc((size_t)rows + 1, sizeof **v)))
    st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  if (!st && H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, *v) < 0)
    st = kv_fail(err, KV_ERR_INPUT, "%s: /%s cannot be read", path, name);
  *n = rows;
  (void)H5Dclose(dataset);
  return st;
}

static kv_status read_words(hid_t d, hid_t type, const char *path, const char *name, uint64_t n, size_t width,
                            char **text, kv_error *err) {
  hid_t memory = H5Tcopy(H5T_C_S1);
  kv_status st = KV_OK;
  (void)H5Tset_size(memory, width);
  (void)H5Tset_cset(memory, H5Tget_cset(type));
  *text = calloc((size_t)n + 1, width);
  if (!*text) st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  else if (n && H5Dread(d, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, *text) < 0)
    st = kv_fail(err, KV_ERR_INPUT, "%s: /%s cannot be read", path, name);
  (void)H5Tclose(memory);
  return st;
}

kv_status kva_words(hid_t file, const char *path, const char *name, uint64_t *n, char **text, size_t *width,
                    kv_error *err) {
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT), type = d >= 0 ? H5Dget_type(d) : -1,
        space = d >= 0 ? H5Dget_space(d) : -1;
  kv_status st = KV_OK;
  *text = NULL;
  *n = 0;
  if (type < 0 || H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) > 0 ||
      H5Sget_simple_extent_ndims(space) != 1)
    st = kv_fail(err, KV_ERR_INPUT, "%s: /%s is missing or holds no strings", path, name);
  if (!st) {
    *n = (uint64_t)H5Sget_simple_extent_npoints(space);
    *width = H5Tget_size(type) + 1;
    if (*n > KVA_COLUMN_ROWS || *width > 65536)
      st = kv_fail(err, KV_ERR_INPUT, "%s: /%s is too long", path, name);
    else st = read_words(d, type, path, name, *n, *width, text, err);
  }
  if (space >= 0) (void)H5Sclose(space);
  if (type >= 0) (void)H5Tclose(type);
  if (d >= 0) (void)H5Dclose(d);
  return st;
}

kv_status kva_write_reals(hid_t file, const char *group, const kva_real_column *column, size_t columns, uint64_t n,
                          const void *rows, kv_error *err) {
  double *v = malloc((n + 1) * sizeof *v);
  kv_status st = v ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "/%s: out of memory", group);
  for (size_t c = 0; !st && c < columns; c++) {
    char path[96];
    (void)snprintf(path, sizeof path, "%s/%s", group, column[c].name);
    for (uint64_t i = 0; i < n; i++) v[i] = column[c].of(rows, i);
    st = kv_h5_write(file, path, H5T_IEEE_F64LE, n, v, column[c].units, column[c].about, KV_H5_SMALL, err);
  }
  free(v);
  return st;
}

kv_status kva_write_words(hid_t file, const char *group, const kva_word_column *column, size_t columns, uint64_t n,
                          const void *rows, kv_error *err) {
  const char **text = malloc((n + 1) * sizeof *text);
  kv_status st = text ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "/%s: out of memory", group);
  for (size_t c = 0; !st && c < columns; c++) {
    char path[96];
    (void)snprintf(path, sizeof path, "%s/%s", group, column[c].name);
    for (uint64_t i = 0; i < n; i++) text[i] = column[c].of(rows, i);
    st = kv_h5_write_strings(file, path, n, text, column[c].about, err);
  }
  free(text);
  return st;
}
