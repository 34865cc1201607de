#include "kvr_table.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kv_h5.h"

static kv_status check_readable(const char *path, kv_error *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kv_fail(err, KV_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
  (void)close(fd);
  return KV_OK;
}

kv_status kvr_source_open(const char *path, kvr_source *src, char *kind, size_t size, kv_error *err) {
  *src = (kvr_source){.file = -1, .path = path};
  kv_status st = check_readable(path, err);
  if (st) return st;
  kv_h5_quiet();
  src->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (src->file < 0)
    return kv_fail(err, KV_ERR_INPUT,
                   "%s: not an HDF5 file, or damaged; name a dataset written by kvsim or roofline", path);
  st = kv_h5_get_str(src->file, "Conventions", kind, size, err);
  if (st == KV_END || st == KV_ERR_INPUT)
    st = kv_fail(err, KV_ERR_INPUT,
                 "%s: has no attribute Conventions, so it is no dataset of kvsim or roofline", path);
  if (st) kvr_source_close(src);
  return st;
}

void kvr_source_close(kvr_source *src) {
  if (src->file >= 0) (void)H5Fclose(src->file);
  src->file = -1;
}

static kv_status open_column(const kvr_source *src, kvr_table *t, size_t c, kv_error *err) {
  char name[256];
  uint64_t rows = 0;
  size_t elem;
  (void)snprintf(name, sizeof name, "%s/%s", t->group, t->name[c]);
  kv_status st = kv_h5_open_column(src->file, src->path, name, &t->dataset[c], &rows, &elem, err);
  if (st == KV_END)
    return kv_fail(err, KV_ERR_INPUT, "%s: dataset '/%s' is missing; write the file anew with this version",
                   src->path, name);
  if (st) return st;
  if (c == 0) t->rows = rows;
  if (rows != t->rows)
    return kv_fail(err, KV_ERR_INPUT, "%s: dataset '/%s' has %llu rows, but '/%s/%s' has %llu", src->path,
                   name, (unsigned long long)rows, t->group, t->name[0], (unsigned long long)t->rows);
  return KV_OK;
}

kv_status kvr_table_open(const kvr_source *src, const char *group, const char *const *names, size_t columns,
                         kvr_table *t, kv_error *err) {
  *t = (kvr_table){.columns = columns, .group = group};
  kv_status st = KV_OK;
  for (size_t c = 0; c < KVR_COLUMNS; c++) t->dataset[c] = -1;
  for (size_t c = 0; c < columns && !st; c++) {
    t->name[c] = names[c];
    st = open_column(src, t, c, err);
  }
  if (st) kvr_table_close(t);
  return st;
}

static kv_status read_column(const kvr_source *src, kvr_table *t, size_t c, hsize_t start, hsize_t n,
                             kv_error *err) {
  double *grown = realloc(t->value[c], (size_t)(n ? n : 1) * sizeof *grown);
  if (!grown)
    return kv_fail(err, KV_ERR_MEMORY, "%s: '/%s/%s': out of memory for %llu rows", src->path, t->group,
                   t->name[c], (unsigned long long)n);
  t->value[c] = grown;
  if (n == 0) return KV_OK;
  hid_t file = H5Dget_space(t->dataset[c]), memory = H5Screate_simple(1, &n, NULL);
  herr_t bad = H5Sselect_hyperslab(file, H5S_SELECT_SET, &start, NULL, &n, NULL);
  if (bad >= 0) bad = H5Dread(t->dataset[c], H5T_NATIVE_DOUBLE, memory, file, H5P_DEFAULT, grown);
  (void)H5Sclose(memory);
  (void)H5Sclose(file);
  if (bad >= 0) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT, "%s: dataset '/%s/%s' cannot be read: the file is damaged", src->path,
                 t->group, t->name[c]);
}

kv_status kvr_table_read(const kvr_source *src, kvr_table *t, uint64_t start, uint64_t n, kv_error *err) {
  if (start > t->rows || n > t->rows - start || n > SIZE_MAX / sizeof(double))
    return kv_fail(err, KV_ERR_INPUT, "%s: '/%s' has %llu rows; rows %llu to %llu were asked for", src->path,
                   t->group, (unsigned long long)t->rows, (unsigned long long)start,
                   (unsigned long long)(start + n));
  for (size_t c = 0; c < t->columns; c++) {
    kv_status st = read_column(src, t, c, start, n, err);
    if (st) return st;
  }
  return KV_OK;
}

void kvr_table_close(kvr_table *t) {
  for (size_t c = 0; c < t->columns; c++) {
    if (t->dataset[c] >= 0) (void)H5Dclose(t->dataset[c]);
    free(t->value[c]);
    t->dataset[c] = -1;
    t->value[c] = NULL;
  }
  t->columns = 0;
  t->rows = 0;
}

kv_status kvr_table_load(const kvr_source *src, const char *group, const char *const *names, size_t columns,
                         kvr_table *t, kv_error *err) {
  kv_status st = kvr_table_open(src, group, names, columns, t, err);
  if (!st) st = kvr_table_read(src, t, 0, t->rows, err);
  if (st) kvr_table_close(t);
  return st;
}

/* True where every link on the way is a hard link of this file. */
static int stays_inside(hid_t file, const char *name) {
  char prefix[256];
  for (size_t i = 0; i < sizeof prefix; i++) {
    H5L_info_t info;
    prefix[i] = '\0';
    if (i && (name[i] == '/' || !name[i]) &&
        (H5Lexists(file, prefix, H5P_DEFAULT) <= 0 || H5Lget_info(file, prefix, &info, H5P_DEFAULT) < 0 ||
         info.type != H5L_TYPE_HARD))
      return 0;
    if (!name[i]) return 1;
    prefix[i] = name[i];
  }
  return 0;
}

static int external_files(hid_t dataset) {
  hid_t dcpl = H5Dget_create_plist(dataset);
  int n = H5Pget_external_count(dcpl) + (H5Pget_layout(dcpl) == H5D_VIRTUAL);
  (void)H5Pclose(dcpl);
  return n;
}

/* Shape of a column of fixed strings: 0 where it is none. */
static size_t string_width(hid_t dataset, uint64_t *n) {
  hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
  hsize_t dims = 0;
  size_t width = 0;
  if (H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
      H5Sget_simple_extent_ndims(space) == 1 && H5Sget_simple_extent_dims(space, &dims, NULL) == 1)
    width = H5Tget_size(type);
  *n = dims;
  (void)H5Sclose(space);
  (void)H5Tclose(type);
  return width;
}

/* Strings that fill their width have no terminator in the file: each gets a cell one byte longer. */
static kv_status read_strings(const kvr_source *src, const char *name, hid_t dataset, uint64_t n,
                              size_t stored, char **text, kv_error *err) {
  kv_status st = KV_OK;
  hid_t type = H5Dget_type(dataset);
  char *raw = calloc((size_t)n + 1, stored);
  *text = calloc((size_t)n + 1, stored + 1);
  if (!raw || !*text) st = kv_fail(err, KV_ERR_MEMORY, "%s: '/%s': out of memory", src->path, name);
  else if (n && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, raw) < 0)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/%s' cannot be read: the file is damaged", src->path, name);
  for (uint64_t i = 0; !st && i < n; i++) memcpy(*text + i * (stored + 1), raw + i * stored, stored);
  free(raw);
  (void)H5Tclose(type);
  if (st) {
    free(*text);
    *text = NULL;
  }
  return st;
}

kv_status kvr_strings(const kvr_source *src, const char *name, uint64_t expect, char **text, size_t *width,
                      uint64_t *n, kv_error *err) {
  *text = NULL;
  hid_t dataset = stays_inside(src->file, name) ? H5Dopen2(src->file, name, H5P_DEFAULT) : -1;
  if (dataset < 0)
    return kv_fail(err, KV_ERR_INPUT, "%s: dataset '/%s' is missing; write the file anew with this version",
                   src->path, name);
  kv_status st;
  size_t stored = string_width(dataset, n);
  if (stored == 0 || stored > 65536 || external_files(dataset) != 0)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/%s' is not a column of fixed-length strings", src->path,
                 name);
  else if (expect != UINT64_MAX && *n != expect)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/%s' has %llu rows instead of %llu", src->path, name,
                 (unsigned long long)*n, (unsigned long long)expect);
  else st = read_strings(src, name, dataset, *n, stored, text, err);
  *width = stored + 1;
  (void)H5Dclose(dataset);
  return st;
}

kv_status kvr_text_attribute(const kvr_source *src, const char *name, char *text, size_t size,
                             kv_error *err) {
  text[0] = '\0';
  kv_status st = kv_h5_get_str(src->file, name, text, size, err);
  if (st == KV_ERR_INPUT) return kv_fail(err, st, "%s: attribute '%s' is not one string", src->path, name);
  return st == KV_END ? KV_OK : st;
}

kv_status kvr_number_attribute(const kvr_source *src, const char *name, double *value, kv_error *err) {
  *value = NAN;
  kv_status st = kv_h5_get_f64(src->file, name, value, err);
  if (st == KV_ERR_INPUT) return kv_fail(err, st, "%s: attribute '%s' is not one number", src->path, name);
  return st == KV_END ? KV_OK : st;
}
