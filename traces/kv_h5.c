#include "kv_h5.h"

#include <errno.h>
#include <hdf5_hl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kv_clean.h"
#include "kv_version.h"

void kv_h5_quiet(void) {
  static bool asked;
  /* HDF5's own clean-up at exit crashes on a file whose last write failed (a full disk). We close what we open. */
  if (!asked) (void)H5dont_atexit();
  asked = true;
  (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

#define CAUSE_TEXT 600

/* The deepest message of HDF5's error stack is the one that names the cause (a failed write, a bad filter). */
static herr_t deepest_message(unsigned n, const H5E_error2_t *e, void *text) {
  if (n == 0 && e->desc) (void)snprintf(text, CAUSE_TEXT, "%s", e->desc);
  return 0;
}

static kv_status fail_h5(kv_error *err, kv_status status, const char *what, const char *name) {
  char cause[CAUSE_TEXT] = "HDF5 gave no reason";
  (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, deepest_message, cause);
  /* of a failed write HDF5 tells time, addresses and sizes too; the system's reason is what a reader needs */
  char *reason = strstr(cause, "error message = '");
  char *end = reason ? strchr(reason += strlen("error message = '"), '\'') : NULL;
  if (end) *end = '\0';
  return kv_fail(err, status, "%s '%s' failed: %s", what, name, end ? reason : cause);
}

static void utc_now(char *text, size_t size) {
  const char *epoch = getenv("SOURCE_DATE_EPOCH");
  time_t now = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
  struct tm tm;
  if (!gmtime_r(&now, &tm) || !strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &tm)) text[0] = '\0';
}

static kv_status put_root(hid_t file, const char *conventions, const char *creator, const char *command,
                          kv_error *err) {
  char when[32], history[4200], host[256] = "unknown", hdf5[32];
  unsigned major, minor, release;
  utc_now(when, sizeof when);
  (void)gethostname(host, sizeof host - 1);
  (void)H5get_libversion(&major, &minor, &release);
  (void)snprintf(hdf5, sizeof hdf5, "%u.%u.%u", major, minor, release);
  (void)snprintf(history, sizeof history, "%s %s", when, command ? command : "");
  const struct {
    const char *name, *value;
  } attribute[] = {{"Conventions", conventions}, {"creator", creator},     {"creator_version", KV_VERSION},
                   {"file_time", when},          {"HDF5_Version", hdf5},   {"host", host},
                   {"build_flags", KV_BUILD_FLAGS}, {"history", history}};
  for (size_t i = 0; i < sizeof attribute / sizeof *attribute; i++) {
    kv_status st = kv_h5_put_str(file, attribute[i].name, attribute[i].value, err);
    if (st) return st;
  }
  return KV_OK;
}

static kv_status refuse_special(const char *path, kv_error *err) {
  struct stat sb;
  if (stat(path, &sb) != 0 || S_ISREG(sb.st_mode)) return KV_OK;
  return kv_fail(err, KV_ERR_IO, "%s: is %s, not a regular file; name a file to write to", path,
                 S_ISDIR(sb.st_mode) ? "a folder" : "a device or pipe");
}

kv_status kv_h5_create(const char *path, const char *conventions, const char *creator, const char *command,
                       kv_h5_out *out, kv_error *err) {
  kv_status st = refuse_special(path, err);
  hid_t fapl = -1, fcpl = -1;
  *out = (kv_h5_out){.file = -1};
  if (st) return st;
  kv_h5_quiet();
  out->path = realpath(path, NULL); /* through a link: its target is written, the link stays */
  if (!out->path) out->path = strdup(path);
  if (out->path && asprintf(&out->part, "%s.%ld.part", out->path, (long)getpid()) < 0) out->part = NULL;
  if (!out->part || !out->path) {
    st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
    goto done;
  }
  kv_clean_watch(out->part); /* before it exists: a signal may come any time */
  fapl = H5Pcreate(H5P_FILE_ACCESS);
  (void)H5Pset_libver_bounds(fapl, H5F_LIBVER_V18, H5F_LIBVER_V18);
  errno = 0;
  fcpl = H5Pcreate(H5P_FILE_CREATE);
  (void)H5Pset_obj_track_times(fcpl, false); /* of the root group */
  out->file = H5Fcreate(out->part, H5F_ACC_TRUNC, fcpl, fapl);
  if (out->file < 0) {
    st = kv_fail(err, KV_ERR_IO, "%s: cannot be written: %s", path, errno ? strerror(errno) : "HDF5 refused");
    goto done;
  }
  st = put_root(out->file, conventions, creator, command, err);
done:
  if (fapl >= 0) (void)H5Pclose(fapl);
  if (fcpl >= 0) (void)H5Pclose(fcpl);
  if (st) kv_h5_abort(out);
  return st;
}

kv_status kv_h5_commit(kv_h5_out *out, kv_error *err) {
  kv_status st = KV_OK;
  if (H5Fflush(out->file, H5F_SCOPE_GLOBAL) < 0) st = fail_h5(err, KV_ERR_IO, "writing", out->path);
  herr_t closed = H5Fclose(out->file);
  out->file = -1;
  if (!st && closed < 0) st = fail_h5(err, KV_ERR_IO, "closing", out->path);
  if (!st && rename(out->part, out->path) != 0)
    st = kv_fail(err, KV_ERR_IO, "%s: cannot be put in place: %s", out->path, strerror(errno));
  if (!st) {
    kv_clean_forget(out->part);
    free(out->part);
    out->part = NULL;
  }
  kv_h5_abort(out);
  return st;
}

void kv_h5_abort(kv_h5_out *out) {
  if (out->part && out->file >= 0) (void)H5Fclose(out->file);
  if (out->part) (void)unlink(out->part);
  kv_clean_forget(out->part);
  free(out->part);
  free(out->path);
  *out = (kv_h5_out){.file = -1};
}

/* ---- attributes ---- */

static kv_status put_attribute(hid_t loc, const char *name, hid_t file_type, hid_t memory_type, const void *value,
                               kv_error *err) {
  hid_t space = H5Screate(H5S_SCALAR), attr = -1;
  kv_status st = KV_OK;
  if (H5Aexists(loc, name) > 0) (void)H5Adelete(loc, name);
  attr = H5Acreate2(loc, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT);
  if (attr < 0 || H5Awrite(attr, memory_type, value) < 0) st = fail_h5(err, KV_ERR_IO, "attribute", name);
  if (attr >= 0) (void)H5Aclose(attr);
  (void)H5Sclose(space);
  return st;
}

kv_status kv_h5_put_str(hid_t loc, const char *name, const char *value, kv_error *err) {
  hid_t type = H5Tcopy(H5T_C_S1);
  size_t size = strlen(value) + 1;
  (void)H5Tset_size(type, size);
  (void)H5Tset_cset(type, H5T_CSET_UTF8);
  kv_status st = put_attribute(loc, name, type, type, value, err);
  (void)H5Tclose(type);
  return st;
}

kv_status kv_h5_put_i64(hid_t loc, const char *name, int64_t value, kv_error *err) {
  return put_attribute(loc, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value, err);
}

kv_status kv_h5_put_f64(hid_t loc, const char *name, double value, kv_error *err) {
  return put_attribute(loc, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value, err);
}

/* Bytes of the UTF-8 character at s (1 to 4), or 0 if it is none. */
static size_t character(const unsigned char *s) {
  size_t n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
  for (size_t i = 1; i < n; i++)
    if (s[i] >> 6 != 2) return 0;
  return n == 2 && s[0] < 0xc2 ? 0 : n;
}

void kv_text_clean(char *text) {
  for (unsigned char *s = (unsigned char *)text; *s;) {
    size_t n = character(s);
    if (!n || (n == 1 && (*s < 32 || *s == 127))) *s = '?';
    s += n ? n : 1;
  }
}

/* Opens a scalar attribute of one of two classes; *attr = -1 and KV_END where there is none. */
static kv_status open_attribute(hid_t loc, const char *name, char what, hid_t *attr, hid_t *type,
                                kv_error *err) {
  *attr = *type = -1;
  if (H5Aexists(loc, name) <= 0) return KV_END;
  *attr = H5Aopen(loc, name, H5P_DEFAULT);
  if (*attr < 0) return fail_h5(err, KV_ERR_INPUT, "attribute", name);
  hid_t space = H5Aget_space(*attr);
  hssize_t points = H5Sget_simple_extent_npoints(space);
  (void)H5Sclose(space);
  *type = H5Aget_type(*attr);
  H5T_class_t class = H5Tget_class(*type);
  bool whole = class == H5T_INTEGER || class == H5T_ENUM;
  bool fits = what == 's' ? class == H5T_STRING : whole || (what == 'f' && class == H5T_FLOAT);
  if (points == 1 && fits) return KV_OK;
  (void)H5Tclose(*type);
  (void)H5Aclose(*attr);
  *attr = *type = -1;
  return kv_fail(err, KV_ERR_INPUT, "attribute '%s' is not a single %s", name,
                 what == 's' ? "string" : what == 'f' ? "number" : "whole number");
}

static kv_status read_fixed_string(hid_t attr, hid_t type, const char *name, char *value, size_t size,
                                   kv_error *err) {
  size_t stored = H5Tget_size(type);
  if (stored == 0 || stored > 1u << 20) return kv_fail(err, KV_ERR_INPUT, "attribute '%s' is too long", name);
  char *raw = calloc(1, stored + 1);
  if (!raw) return kv_fail(err, KV_ERR_MEMORY, "attribute '%s': out of memory", name);
  kv_status st = KV_OK;
  if (H5Aread(attr, type, raw) < 0)
    st = fail_h5(err, KV_ERR_INPUT, "attribute", name);
  else
    (void)snprintf(value, size, "%s", raw);
  kv_text_clean(value);
  free(raw);
  return st;
}

static kv_status read_variable_string(hid_t attr, const char *name, char *value, size_t size, kv_error *err) {
  char *text = NULL;
  hid_t memory = H5Tcopy(H5T_C_S1);
  kv_status st = KV_OK;
  (void)H5Tset_size(memory, H5T_VARIABLE);
  hid_t type = H5Aget_type(attr);
  (void)H5Tset_cset(memory, H5Tget_cset(type));
  (void)H5Tclose(type);
  if (H5Aread(attr, memory, &text) < 0)
    st = fail_h5(err, KV_ERR_INPUT, "attribute", name);
  else
    (void)snprintf(value, size, "%s", text ? text : "");
  kv_text_clean(value);
  if (text) (void)H5free_memory(text);
  (void)H5Tclose(memory);
  return st;
}

kv_status kv_h5_get_str(hid_t loc, const char *name, char *value, size_t size, kv_error *err) {
  hid_t attr, type;
  kv_status st = open_attribute(loc, name, 's', &attr, &type, err);
  if (st) return st;
  st = H5Tis_variable_str(type) > 0 ? read_variable_string(attr, name, value, size, err)
                                    : read_fixed_string(attr, type, name, value, size, err);
  (void)H5Tclose(type);
  (void)H5Aclose(attr);
  return st;
}

static kv_status get_number(hid_t loc, const char *name, char what, hid_t memory, void *value, kv_error *err) {
  hid_t attr, type;
  kv_status st = open_attribute(loc, name, what, &attr, &type, err);
  if (st) return st;
  if (H5Aread(attr, memory, value) < 0) st = fail_h5(err, KV_ERR_INPUT, "attribute", name);
  (void)H5Tclose(type);
  (void)H5Aclose(attr);
  return st;
}

kv_status kv_h5_get_i64(hid_t loc, const char *name, int64_t *value, kv_error *err) {
  return get_number(loc, name, 'i', H5T_NATIVE_INT64, value, err);
}

kv_status kv_h5_get_f64(hid_t loc, const char *name, double *value, kv_error *err) {
  return get_number(loc, name, 'f', H5T_NATIVE_DOUBLE, value, err);
}

/* ---- datasets ---- */

static kv_status describe(hid_t dataset, const char *units, const char *long_name, kv_error *err) {
  kv_status st = kv_h5_put_str(dataset, "units", units && *units ? units : "1", err);
  return st ? st : kv_h5_put_str(dataset, "long_name", long_name, err);
}

static hid_t creation_list(kv_h5_store store, hsize_t chunk) {
  hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
  (void)H5Pset_obj_track_times(dcpl, false); /* else two runs differ in their time stamps */
  if (store == KV_H5_SMALL) return dcpl;
  (void)H5Pset_chunk(dcpl, 1, &chunk);
  if (store == KV_H5_DEFLATE_1) {
    (void)H5Pset_shuffle(dcpl);
    (void)H5Pset_deflate(dcpl, 1);
  } else if (store == KV_H5_PLAIN) {
    (void)H5Pset_fletcher32(dcpl);
  }
  return dcpl;
}

kv_status kv_h5_group(hid_t loc, const char *name, kv_error *err) {
  if (H5Lexists(loc, name, H5P_DEFAULT) > 0) return KV_OK;
  hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE);
  (void)H5Pset_obj_track_times(gcpl, false);
  hid_t group = H5Gcreate2(loc, name, H5P_DEFAULT, gcpl, H5P_DEFAULT);
  (void)H5Pclose(gcpl);
  if (group < 0) return fail_h5(err, KV_ERR_IO, "creating group", name);
  (void)H5Gclose(group);
  return KV_OK;
}

static hid_t create_dataset(hid_t loc, const char *name, hid_t type, hid_t space, hid_t dcpl) {
  for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
    char group[256];
    if ((size_t)snprintf(group, sizeof group, "%.*s", (int)(slash - name), name) >= sizeof group) return -1;
    if (kv_h5_group(loc, group, NULL)) return -1;
  }
  /* We write whole chunks, so a cache of them (1 MiB a dataset) would only hold memory. */
  hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS);
  (void)H5Pset_chunk_cache(dapl, 1, 0, 1);
  hid_t dataset = H5Dcreate2(loc, name, type, space, H5P_DEFAULT, dcpl, dapl);
  (void)H5Pclose(dapl);
  return dataset;
}

kv_status kv_h5_write(hid_t loc, const char *name, hid_t type, uint64_t n, const void *data, const char *units,
                      const char *long_name, kv_h5_store store, kv_error *err) {
  hsize_t dims = n, chunk = n < KV_H5_CHUNK ? (n ? n : 1) : KV_H5_CHUNK;
  kv_status st = KV_OK;
  hid_t space = H5Screate_simple(1, &dims, NULL);
  hid_t memory = H5Tget_class(type) == H5T_STRING ? H5Tcopy(type) : H5Tget_native_type(type, H5T_DIR_ASCEND);
  hid_t dcpl = creation_list(n ? store : KV_H5_SMALL, chunk);
  hid_t dataset = create_dataset(loc, name, type, space, dcpl);
  if (dataset < 0 || (n && H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0))
    st = fail_h5(err, KV_ERR_IO, "writing dataset", name);
  if (!st) st = describe(dataset, units, long_name, err);
  if (dataset >= 0 && H5Dclose(dataset) < 0 && !st) st = fail_h5(err, KV_ERR_IO, "writing dataset", name);
  (void)H5Pclose(dcpl);
  (void)H5Tclose(memory);
  (void)H5Sclose(space);
  return st;
}

kv_status kv_h5_write_strings(hid_t loc, const char *name, uint64_t n, const char *const *strings,
                              const char *long_name, kv_error *err) {
  size_t longest = 1;
  for (uint64_t i = 0; i < n; i++)
    if (strlen(strings[i]) + 1 > longest) longest = strlen(strings[i]) + 1;
  char *block = calloc(n ? n : 1, longest);
  if (!block) return kv_fail(err, KV_ERR_MEMORY, "dataset '%s': out of memory", name);
  for (uint64_t i = 0; i < n; i++) memcpy(block + i * longest, strings[i], strlen(strings[i]));
  hid_t type = H5Tcopy(H5T_C_S1);
  (void)H5Tset_size(type, longest);
  (void)H5Tset_cset(type, H5T_CSET_UTF8);
  kv_status st = kv_h5_write(loc, name, type, n, block, "1", long_name, KV_H5_SMALL, err);
  (void)H5Tclose(type);
  free(block);
  return st;
}

kv_status kv_h5_column_open(hid_t loc, const char *name, hid_t type, const char *units, const char *long_name,
                            kv_h5_store store, size_t chunk, kv_h5_column *column, kv_error *err) {
  hsize_t zero = 0, unlimited = H5S_UNLIMITED;
  kv_status st = KV_OK;
  memset(column, 0, sizeof *column);
  (void)snprintf(column->name, sizeof column->name, "%s", name);
  column->capacity = chunk;
  hid_t space = H5Screate_simple(1, &zero, &unlimited);
  hid_t dcpl = creation_list(store == KV_H5_SMALL ? KV_H5_PLAIN : store, chunk);
  column->dataset = create_dataset(loc, name, type, space, dcpl);
  column->memory_type = H5Tget_class(type) == H5T_STRING ? H5Tcopy(type) : H5Tget_native_type(type, H5T_DIR_ASCEND);
  column->element_size = H5Tget_size(column->memory_type);
  column->buffer = malloc(chunk * column->element_size);
  if (column->dataset < 0)
    st = fail_h5(err, KV_ERR_IO, "creating dataset", name);
  else if (!column->buffer)
    st = kv_fail(err, KV_ERR_MEMORY, "dataset '%s': out of memory", name);
  else
    st = describe(column->dataset, units, long_name, err);
  (void)H5Pclose(dcpl);
  (void)H5Sclose(space);
  return st;
}

static kv_status column_flush(kv_h5_column *c, kv_error *err) {
  if (!c->buffered) return KV_OK;
  hsize_t start = c->rows, count = c->buffered, total = c->rows + c->buffered;
  kv_status st = KV_OK;
  if (H5Dset_extent(c->dataset, &total) < 0) return fail_h5(err, KV_ERR_IO, "growing", c->name);
  hid_t file_space = H5Dget_space(c->dataset), memory_space = H5Screate_simple(1, &count, NULL);
  (void)H5Sselect_hyperslab(file_space, H5S_SELECT_SET, &start, NULL, &count, NULL);
  if (H5Dwrite(c->dataset, c->memory_type, memory_space, file_space, H5P_DEFAULT, c->buffer) < 0)
    st = fail_h5(err, KV_ERR_IO, "writing dataset", c->name);
  (void)H5Sclose(memory_space);
  (void)H5Sclose(file_space);
  c->rows = total;
  c->buffered = 0;
  return st;
}

kv_status kv_h5_column_append(kv_h5_column *c, size_t n, const void *data, kv_error *err) {
  const unsigned char *from = data;
  while (n) {
    size_t take = c->capacity - c->buffered < n ? c->capacity - c->buffered : n;
    memcpy(c->buffer + c->buffered * c->element_size, from, take * c->element_size);
    c->buffered += take;
    from += take * c->element_size;
    n -= take;
    if (c->buffered == c->capacity) {
      kv_status st = column_flush(c, err);
      if (st) return st;
    }
  }
  return KV_OK;
}

kv_status kv_h5_column_close(kv_h5_column *c, kv_error *err) {
  kv_status st = KV_OK;
  if (!c->element_size) return KV_OK;
  if (c->dataset >= 0) {
    st = column_flush(c, err);
    if (H5Dclose(c->dataset) < 0 && !st) st = fail_h5(err, KV_ERR_IO, "closing dataset", c->name);
  }
  (void)H5Tclose(c->memory_type);
  free(c->buffer);
  memset(c, 0, sizeof *c);
  c->dataset = -1;
  return st;
}

/* Every link on the way must be a hard link: a soft or external one could lead out of the file. */
static kv_status only_hard_links(hid_t loc, const char *path, const char *name, kv_error *err) {
  char prefix[256];
  for (size_t i = 0;; i++) {
    if (name[i] && name[i] != '/') continue;
    if (i >= sizeof prefix) return kv_fail(err, KV_ERR_INPUT, "%s: dataset name too long: %s", path, name);
    memcpy(prefix, name, i);
    prefix[i] = '\0';
    if (i) {
      H5L_info_t info;
      if (H5Lexists(loc, prefix, H5P_DEFAULT) <= 0) return KV_END;
      if (H5Lget_info(loc, prefix, &info, H5P_DEFAULT) < 0)
        return kv_fail(err, KV_ERR_INPUT, "%s: '%s' cannot be read; the file is damaged", path, prefix);
      if (info.type != H5L_TYPE_HARD)
        return kv_fail(err, KV_ERR_INPUT, "%s: '%s' is a link out of the file's own tree; copy the data in",
                       path, prefix);
    }
    if (!name[i]) return KV_OK;
  }
}

static kv_status only_own_storage(hid_t dataset, const char *path, const char *name, kv_error *err) {
  hid_t dcpl = H5Dget_create_plist(dataset);
  H5D_layout_t layout = H5Pget_layout(dcpl);
  int external = H5Pget_external_count(dcpl);
  (void)H5Pclose(dcpl);
  if (external != 0 || layout == H5D_VIRTUAL)
    return kv_fail(err, KV_ERR_INPUT, "%s: dataset '%s' keeps its data in another file; copy the data in", path,
                   name);
  return KV_OK;
}

kv_status kv_h5_open_column(hid_t loc, const char *path, const char *name, hid_t *dataset, uint64_t *n,
                            size_t *elem, kv_error *err) {
  *dataset = -1;
  kv_status st = only_hard_links(loc, path, name, err);
  if (st) return st;
  H5O_info_t info;
  if (H5Oget_info_by_name(loc, name, &info, H5P_DEFAULT) < 0 || info.type != H5O_TYPE_DATASET)
    return kv_fail(err, KV_ERR_INPUT, "%s: '%s' is not a dataset", path, name);
  /* Two chunks of the widest column of events are enough for reading in order. */
  hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS);
  (void)H5Pset_chunk_cache(dapl, 11, 2 * KV_H5_CHUNK * 4, 1);
  *dataset = H5Dopen2(loc, name, dapl);
  (void)H5Pclose(dapl);
  if (*dataset < 0) return kv_fail(err, KV_ERR_INPUT, "%s: dataset '%s' cannot be opened", path, name);
  hid_t space = H5Dget_space(*dataset), type = H5Dget_type(*dataset);
  H5T_class_t class = H5Tget_class(type);
  hsize_t dims = 0;
  if (H5Sget_simple_extent_ndims(space) != 1 || (class != H5T_INTEGER && class != H5T_FLOAT))
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '%s' is not a one-dimensional column of numbers", path, name);
  else
    st = only_own_storage(*dataset, path, name, err);
  if (!st) {
    (void)H5Sget_simple_extent_dims(space, &dims, NULL);
    *n = dims;
    *elem = H5Tget_size(type);
  }
  (void)H5Tclose(type);
  (void)H5Sclose(space);
  if (st) {
    (void)H5Dclose(*dataset);
    *dataset = -1;
  }
  return st;
}

kv_status kv_h5_attach_scale(hid_t loc, const char *dataset, const char *scale, kv_error *err) {
  hid_t d = H5Dopen2(loc, dataset, H5P_DEFAULT), s = H5Dopen2(loc, scale, H5P_DEFAULT);
  kv_status st = KV_OK;
  if (d < 0 || s < 0 || (H5DSis_scale(s) <= 0 && H5DSset_scale(s, scale) < 0) || H5DSattach_scale(d, s, 0) < 0)
    st = fail_h5(err, KV_ERR_IO, "dimension scale of", dataset);
  if (d >= 0) (void)H5Dclose(d);
  if (s >= 0) (void)H5Dclose(s);
  return st;
}

kv_status kv_sha256_file(const char *path, char hex[65], kv_error *err) {
  unsigned char block[1 << 16], digest[32];
  unsigned length = 0;
  size_t got;
  kv_status st = KV_OK;
  FILE *f = fopen(path, "rb");
  EVP_MD_CTX *ctx = EVP_MD_CTX_new();
  if (!f || !ctx || !EVP_DigestInit_ex(ctx, EVP_sha256(), NULL)) {
    st = kv_fail(err, KV_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    goto done;
  }
  while ((got = fread(block, 1, sizeof block, f)) > 0) (void)EVP_DigestUpdate(ctx, block, got);
  if (ferror(f)) st = kv_fail(err, KV_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
  (void)EVP_DigestFinal_ex(ctx, digest, &length);
  for (size_t i = 0; i < 32; i++) (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
done:
  EVP_MD_CTX_free(ctx);
  if (f) (void)fclose(f);
  return st;
}
