#include "layout.h"

#include <stdlib.h>
#include <string.h>

#include "kv_guard.h"
#include "kv_h5.h"

enum { POOL_LIMIT = INT32_MAX };

/* Reads a whole column as `memory` type; *data is malloc'd, of n elements (and never NULL on success). */
static kv_status read_column(hid_t file, const char *path, const char *name, hid_t memory, size_t size,
                             void **data, uint64_t *n, kv_error *err) {
  hid_t dataset = -1;
  size_t stored = 0;
  kv_status st = kv_h5_open_column(file, path, name, &dataset, n, &stored, err);
  if (st == KV_END) return kv_fail(err, KV_ERR_INPUT, "%s: dataset '%s' is missing", path, name);
  if (st) return st;
  hid_t type = H5Dget_type(dataset);
  if (H5Tget_class(type) != H5T_INTEGER || stored != size)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '%s' is not of %zu-byte integers", path, name, size);
  else if (*n > (1ull << 33) / size)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '%s' has %llu elements, more than any pool", path, name,
                 (unsigned long long)*n);
  else if (!(*data = malloc(*n ? (size_t)*n * size : 1)))
    st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  else if (*n && H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, *data) < 0)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '%s' cannot be read", path, name);
  (void)H5Tclose(type);
  (void)H5Dclose(dataset);
  return st;
}

static kv_status read_count(hid_t file, const char *path, const char *name, int64_t high, uint64_t *value,
                            kv_error *err) {
  int64_t v = 0;
  kv_status st = kv_h5_get_i64(file, name, &v, err);
  if (st == KV_END) return kv_fail(err, KV_ERR_INPUT, "%s: attribute '%s' is missing", path, name);
  if (st) return kv_fail(err, KV_ERR_INPUT, "%s: attribute '%s' is not a single number", path, name);
  if (v < 1 || v > high)
    return kv_fail(err, KV_ERR_INPUT, "%s: attribute '%s' is %lld, not in 1 to %lld", path, name,
                   (long long)v, (long long)high);
  *value = (uint64_t)v;
  return KV_OK;
}

static kv_status read_attributes(hid_t file, const char *path, kva_layout *l, kv_error *err) {
  kv_status st = read_count(file, path, "pool_rows", POOL_LIMIT, &l->pool_rows, err);
  if (!st) st = read_count(file, path, "page_size", 1 << 20, &l->page_size, err);
  if (!st) st = read_count(file, path, "row_bytes", 65536, &l->row_bytes, err);
  l->step = -1;
  if (st) return st;
  (void)kv_h5_get_i64(file, "step", &l->step, NULL);
  (void)kv_h5_get_str(file, "trace", l->trace, sizeof l->trace, NULL);
  (void)kv_h5_get_str(file, "trace_sha256", l->trace_sha256, sizeof l->trace_sha256, NULL);
  return KV_OK;
}

static kv_status check_indices(const char *path, const kva_layout *l, kv_error *err) {
  for (uint64_t i = 0; i <= l->requests; i++) {
    bool ok = i == 0 ? l->indptr[0] == 0 : l->indptr[i] >= l->indptr[i - 1];
    if (!ok || l->indptr[i] > l->tokens || (i == l->requests && l->indptr[i] != l->tokens))
      return kv_fail(err, KV_ERR_INPUT,
                     "%s: indptr[%llu] = %llu: must rise from 0 to %llu, the length of slots", path,
                     (unsigned long long)i, (unsigned long long)l->indptr[i], (unsigned long long)l->tokens);
  }
  for (uint64_t i = 0; i < l->tokens; i++)
    if (l->slots[i] < 0 || (uint64_t)l->slots[i] >= l->pool_rows)
      return kv_fail(err, KV_ERR_INPUT, "%s: slots[%llu] = %d is outside the pool of %llu rows", path,
                     (unsigned long long)i, l->slots[i], (unsigned long long)l->pool_rows);
  return KV_OK;
}

/* Numbers and tree slots are not used here, but a file whose columns disagree is not to be trusted. */
static kv_status check_companions(hid_t file, const char *path, const kva_layout *l, kv_error *err) {
  hid_t dataset = -1;
  uint64_t n = 0;
  size_t size = 0;
  kv_status st = kv_h5_open_column(file, path, "request", &dataset, &n, &size, err);
  if (st == KV_END) return kv_fail(err, KV_ERR_INPUT, "%s: dataset 'request' is missing", path);
  if (st) return st;
  (void)H5Dclose(dataset);
  if (n != l->requests)
    return kv_fail(err, KV_ERR_INPUT, "%s: request has %llu elements but indptr is for %llu", path,
                   (unsigned long long)n, (unsigned long long)l->requests);
  st = kv_h5_open_column(file, path, "tree_slots", &dataset, &n, &size, err);
  if (st == KV_END) return KV_OK;
  if (st) return st;
  (void)H5Dclose(dataset);
  return l->requests && n % l->requests == 0
             ? KV_OK
             : kv_fail(err, KV_ERR_INPUT,
                       "%s: tree_slots has %llu elements, no multiple of the %llu requests", path,
                       (unsigned long long)n, (unsigned long long)l->requests);
}

static kv_status read_open_file(hid_t file, const char *path, kva_layout *l, kv_error *err) {
  uint64_t n = 0;
  void *slots = NULL, *indptr = NULL;
  kv_status st = read_attributes(file, path, l, err);
  if (!st) st = read_column(file, path, "slots", H5T_NATIVE_INT32, 4, &slots, &l->tokens, err);
  l->slots = slots;
  if (!st) st = read_column(file, path, "indptr", H5T_NATIVE_UINT64, 8, &indptr, &n, err);
  l->indptr = indptr;
  if (!st && (n < 2 || n > 65537))
    st = kv_fail(err, KV_ERR_INPUT, "%s: indptr has %llu elements; 1 to 65536 requests need 2 to 65537", path,
                 (unsigned long long)n);
  if (st) return st;
  l->requests = n - 1;
  st = check_indices(path, l, err);
  return st ? st : check_companions(file, path, l, err);
}

kv_status kva_layout_read(const char *path, kva_layout *layout, kv_error *err) {
  memset(layout, 0, sizeof *layout);
  kv_status st = kv_guard_check_h5(path, "kvlayout-1", err);
  if (st) return st;
  kv_h5_quiet();
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return kv_fail(err, KV_ERR_INPUT, "%s: HDF5 cannot open it", path);
  st = read_open_file(file, path, layout, err);
  (void)H5Fclose(file);
  if (st) kva_layout_free(layout);
  return st;
}

void kva_layout_free(kva_layout *layout) {
  free(layout->slots);
  free(layout->indptr);
  memset(layout, 0, sizeof *layout);
}

static void count_runs(const kva_layout *l, kva_layout_stats *s) {
  for (uint64_t r = 0; r < l->requests; r++) {
    uint64_t from = l->indptr[r], to = l->indptr[r + 1];
    if (to - from > s->longest) s->longest = to - from;
    s->runs += to > from;
    for (uint64_t i = from + 1; i < to; i++) s->runs += l->slots[i] != l->slots[i - 1] + 1;
  }
}

kv_status kva_layout_count(const kva_layout *l, uint32_t row_bytes, kva_layout_stats *stats, kv_error *err) {
  memset(stats, 0, sizeof *stats);
  unsigned char *held = calloc(1, l->pool_rows / 8 + 1);
  if (!held) return kv_fail(err, KV_ERR_MEMORY, "layout: out of memory");
  count_runs(l, stats);
  for (uint64_t i = 0; i < l->tokens; i++) held[l->slots[i] / 8] |= (unsigned char)(1u << l->slots[i] % 8);
  uint64_t next = 0; /* first sector not yet counted: neighbouring rows may share one */
  for (uint64_t s = 0; s < l->pool_rows; s++) {
    if (!(held[s / 8] >> s % 8 & 1)) continue;
    uint64_t from = s * row_bytes / 32, to = (s * row_bytes + row_bytes - 1) / 32;
    stats->union_rows++;
    stats->sectors += to + 1 - (from > next ? from : next);
    next = to + 1;
  }
  free(held);
  return KV_OK;
}

kv_status kva_layout_distinct(const kva_layout *l, int32_t **slots, uint64_t *n, kv_error *err) {
  unsigned char *held = calloc(1, l->pool_rows / 8 + 1);
  *slots = malloc((l->tokens + 1) * sizeof **slots);
  *n = 0;
  for (uint64_t i = 0; held && *slots && i < l->tokens; i++) {
    const int32_t s = l->slots[i];
    if (!(held[s / 8] >> s % 8 & 1)) (*slots)[(*n)++] = s;
    held[s / 8] |= (unsigned char)(1u << s % 8);
  }
  const bool whole = held && *slots;
  free(held);
  return whole ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "layout: out of memory");
}
