/* Importer for "sglang-kv-slot-recording/1". */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "kv_guard.h"
#include "kv_h5.h"

#define SLOT_BLOCK (1u << 20) /* slots read at a time */

enum { REC_KINDS = 15 }; /* kinds of the recording: 1..14, numbered as ours */

typedef struct recording {
  const char *path;
  hid_t file;
  uint64_t events, slots_total, requests, steps;
  uint8_t *kind;
  uint32_t *step, *count;
  int32_t *req, *pos, *aux;
  int32_t *input, *output; /* of /requests */
  uint32_t *call_slots, *call_requests; /* per event: of the call that the event begins, else 0 */
  int32_t *slots; /* SLOT_BLOCK of them, or as many as the longest event */
  uint64_t slots_first, slots_held, slots_room;
  hid_t slot_data;
} recording;

static kv_status read_column(recording *r, const char *name, hid_t type, size_t size, uint64_t *n, void **out,
                             kv_error *err) {
  hid_t dataset;
  size_t elem;
  uint64_t have;
  kv_status st = kv_h5_open_column(r->file, r->path, name, &dataset, &have, &elem, err);
  if (st == KV_END) return kv_fail(err, KV_ERR_INPUT, "%s: dataset /%s is missing", r->path, name);
  if (st) return st;
  if (*n != UINT64_MAX && have != *n)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset /%s has %llu elements, %llu expected", r->path, name,
                 (unsigned long long)have, (unsigned long long)*n);
  else if (have > (1u << 28))
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset /%s is too long to import (%llu elements)", r->path, name,
                 (unsigned long long)have);
  else if (!(*out = malloc((size_t)have * size + 1)))
    st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", r->path);
  else if (have && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, *out) < 0)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset /%s cannot be read; the file is damaged", r->path, name);
  (void)H5Dclose(dataset);
  *n = have;
  return st;
}

static kv_status read_i32(recording *r, const char *name, uint64_t *n, int32_t **out, kv_error *err) {
  void *data = NULL;
  kv_status st = read_column(r, name, H5T_NATIVE_INT32, sizeof(int32_t), n, &data, err);
  *out = data;
  return st;
}

static kv_status read_u32(recording *r, const char *name, uint64_t *n, uint32_t **out, kv_error *err) {
  void *data = NULL;
  kv_status st = read_column(r, name, H5T_NATIVE_UINT32, sizeof(uint32_t), n, &data, err);
  *out = data;
  return st;
}

/* The offsets must say what the counts say: our format keeps the counts alone. */
static kv_status check_offsets(recording *r, kv_error *err) {
  void *data = NULL;
  uint64_t at = 0;
  kv_status st = read_column(r, "offset", H5T_NATIVE_UINT64, sizeof(uint64_t), &r->events, &data, err);
  const uint64_t *offset = data;
  for (uint64_t i = 0; i < r->events && !st; i++) {
    if (offset[i] != at)
      st = kv_fail(err, KV_ERR_INPUT, "%s: /offset[%llu] is %llu but the counts before it add up to %llu", r->path,
                   (unsigned long long)i, (unsigned long long)offset[i], (unsigned long long)at);
    at += r->count[i];
  }
  if (!st && at != r->slots_total)
    st = kv_fail(err, KV_ERR_INPUT, "%s: /slots has %llu elements, the counts add up to %llu", r->path,
                 (unsigned long long)r->slots_total, (unsigned long long)at);
  free(data);
  return st;
}

static bool is_slice(uint8_t kind) { return kvt_is_alloc((kvt_kind)kind); }

/* Rows of one call stand close together; the first of them announces the whole call. */
static kv_status gather_calls(recording *r, kv_error *err) {
  r->call_slots = calloc(r->events + 1, sizeof *r->call_slots);
  r->call_requests = calloc(r->events + 1, sizeof *r->call_requests);
  if (!r->call_slots || !r->call_requests) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", r->path);
  uint64_t first = 0;
  int32_t call = -1;
  for (uint64_t i = 0; i < r->events; i++) {
    if (!is_slice(r->kind[i])) continue;
    if (r->aux[i] != call) {
      if (r->aux[i] < call)
        return kv_fail(err, KV_ERR_INPUT, "%s: /aux[%llu]: allocator call %d after call %d", r->path,
                       (unsigned long long)i, r->aux[i], call);
      first = i;
      call = r->aux[i];
    }
    if (r->call_slots[first] + r->count[i] > INT32_MAX)
      return kv_fail(err, KV_ERR_INPUT, "%s: /count[%llu]: allocator call %d takes too many slots", r->path,
                     (unsigned long long)i, call);
    r->call_slots[first] += r->count[i];
    r->call_requests[first]++;
  }
  return KV_OK;
}

static kv_status load(recording *r, kv_error *err) {
  void *kind = NULL;
  size_t elem;
  r->events = UINT64_MAX;
  kv_status st = read_column(r, "kind", H5T_NATIVE_UINT8, 1, &r->events, &kind, err);
  r->kind = kind;
  if (!st) st = read_u32(r, "step", &r->events, &r->step, err);
  if (!st) st = read_u32(r, "count", &r->events, &r->count, err);
  if (!st) st = read_i32(r, "req", &r->events, &r->req, err);
  if (!st) st = read_i32(r, "pos", &r->events, &r->pos, err);
  if (!st) st = read_i32(r, "aux", &r->events, &r->aux, err);
  r->requests = UINT64_MAX;
  if (!st) st = read_i32(r, "requests/input_length", &r->requests, &r->input, err);
  if (!st) st = read_i32(r, "requests/output_length", &r->requests, &r->output, err);
  if (!st) st = kv_h5_open_column(r->file, r->path, "slots", &r->slot_data, &r->slots_total, &elem, err);
  if (st == KV_END) st = kv_fail(err, KV_ERR_INPUT, "%s: dataset /slots is missing", r->path);
  if (!st) st = check_offsets(r, err);
  if (!st) st = gather_calls(r, err);
  r->slots_room = SLOT_BLOCK;
  for (uint64_t i = 0; i < r->events && !st; i++)
    if (r->count[i] > r->slots_room) r->slots_room = r->count[i];
  if (!st && !(r->slots = malloc(r->slots_room * sizeof *r->slots)))
    st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", r->path);
  return st;
}

/* The slots [at, at + n) in memory. */
static kv_status slots_at(recording *r, uint64_t at, uint32_t n, const int32_t **out, kv_error *err) {
  if (at < r->slots_first || at + n > r->slots_first + r->slots_held) {
    uint64_t left = r->slots_total - at;
    hsize_t from = at, count = left < r->slots_room ? left : r->slots_room;
    hid_t file_space = H5Dget_space(r->slot_data), memory_space = H5Screate_simple(1, &count, NULL);
    herr_t ok = H5Sselect_hyperslab(file_space, H5S_SELECT_SET, &from, NULL, &count, NULL);
    if (ok >= 0) ok = H5Dread(r->slot_data, H5T_NATIVE_INT32, memory_space, file_space, H5P_DEFAULT, r->slots);
    (void)H5Sclose(memory_space);
    (void)H5Sclose(file_space);
    if (ok < 0) return kv_fail(err, KV_ERR_INPUT, "%s: dataset /slots cannot be read; the file is damaged", r->path);
    r->slots_first = at;
    r->slots_held = count;
  }
  *out = r->slots + (at - r->slots_first);
  return KV_OK;
}

static kvt_event translate(const recording *r, uint64_t i) {
  const uint8_t kind = r->kind[i];
  const int32_t pos = r->pos[i], aux = r->aux[i];
  kvt_event e = {.kind = (kvt_kind)kind, .request = r->req[i], .position = -1, .length = -1, .aux = -1,
                 .count = r->count[i]};
  switch ((kvt_kind)kind) {
    case KVT_ARRIVE:
      if (e.request >= 0 && (uint64_t)e.request < r->requests) {
        e.length = r->input[e.request];
        e.aux = r->output[e.request];
      }
      break;
    case KVT_START: e.position = 0; break;
    case KVT_FREE:
      e.aux = aux;
      e.length = pos;
      break;
    case KVT_COMMIT:
      e.position = pos;
      e.length = e.count ? (int32_t)e.count : aux;
      break;
    case KVT_INSERT:
      e.position = pos;
      e.length = aux;
      break;
    case KVT_DRAFT_TEMP: e.length = aux; break;
    case KVT_REMAP:
    case KVT_FINISH:
    case KVT_RETRACT: e.position = pos; break;
    default:
      e.position = pos;
      e.aux = aux;
      break;
  }
  return e;
}

typedef struct step_table {
  void *time;
  int32_t *requests, *tokens, *available, *evictable, *protected_, *waiting;
} step_table;

static kv_status load_steps(recording *r, step_table *t, kv_error *err) {
  uint64_t n = UINT64_MAX;
  kv_status st = read_column(r, "steps/time_us", H5T_NATIVE_INT64, sizeof(int64_t), &n, &t->time, err);
  if (!st) st = read_i32(r, "steps/n_reqs", &n, &t->requests, err);
  if (!st) st = read_i32(r, "steps/n_tokens", &n, &t->tokens, err);
  if (!st) st = read_i32(r, "steps/available", &n, &t->available, err);
  if (!st) st = read_i32(r, "steps/evictable", &n, &t->evictable, err);
  if (!st) st = read_i32(r, "steps/protected", &n, &t->protected_, err);
  if (!st) st = read_i32(r, "steps/waiting", &n, &t->waiting, err);
  r->steps = n;
  return st;
}

static void free_steps(step_table *t) {
  free(t->time);
  free(t->requests);
  free(t->tokens);
  free(t->available);
  free(t->evictable);
  free(t->protected_);
  free(t->waiting);
}

static kv_status write_one(recording *r, uint64_t i, uint64_t at, kvt_writer *w, kv_error *err) {
  kvt_event e = translate(r, i);
  kv_status st = KV_OK;
  if (r->kind[i] == 0 || r->kind[i] >= REC_KINDS)
    return kv_fail(err, KV_ERR_INPUT, "%s: /kind[%llu]: no such event kind (%u)", r->path, (unsigned long long)i,
                   r->kind[i]);
  if (r->call_requests[i]) {
    const kvt_event call = {.kind = KVT_ALLOC_CALL, .request = -1, .position = (int32_t)r->call_requests[i],
                            .length = (int32_t)r->call_slots[i], .aux = r->aux[i]};
    st = kvt_writer_event(w, &call, err);
  }
  if (!st && e.count) st = slots_at(r, at, e.count, &e.slots, err);
  return st ? st : kvt_writer_event(w, &e, err);
}

static kv_status write_events(recording *r, const step_table *t, kvt_writer *w, kv_guard *guard, kv_error *err) {
  uint64_t at = 0, step = 0;
  kv_status st = KV_OK;
  for (uint64_t i = 0; i < r->events && !st; i++) {
    if (i % 4096 == 0) kv_guard_alive(guard);
    if (r->kind[i] == KVT_STEP) {
      if (step >= r->steps || r->aux[i] < 0 || r->aux[i] > 2)
        return kv_fail(err, KV_ERR_INPUT, "%s: /kind[%llu]: a STEP of no known type, or without a row in /steps",
                       r->path, (unsigned long long)i);
      const kvt_step row = {((const int64_t *)t->time)[step], t->requests[step],   t->tokens[step], t->available[step],
                            t->evictable[step],               t->protected_[step], t->waiting[step]};
      st = kvt_writer_step(w, (kvt_step_type)r->aux[i], &row, err);
      step++;
    } else {
      if (r->step[i] != step)
        return kv_fail(err, KV_ERR_INPUT, "%s: /step[%llu] is %u in step %llu", r->path, (unsigned long long)i,
                       r->step[i], (unsigned long long)step);
      st = write_one(r, i, at, w, err);
    }
    at += r->count[i];
  }
  return st;
}

static kv_status write_requests(recording *r, kvt_writer *w, kv_error *err) {
  int32_t *row = NULL, *timestamp = NULL, *predecessor = NULL, *injected = NULL;
  uint64_t n = r->requests;
  kv_status st = read_i32(r, "requests/trace_row", &n, &row, err);
  if (!st) st = read_i32(r, "requests/timestamp", &n, &timestamp, err);
  if (!st) st = read_i32(r, "requests/predecessor", &n, &predecessor, err);
  if (!st) st = read_i32(r, "requests/injected", &n, &injected, err);
  for (uint64_t i = 0; i < n && !st; i++) {
    const kvt_request q = {row[i], timestamp[i], r->input[i], r->output[i], predecessor[i], injected[i]};
    st = kvt_writer_request(w, &q, err);
  }
  free(row);
  free(timestamp);
  free(predecessor);
  free(injected);
  return st;
}

static kv_status copy_list(recording *r, const char *from, const char *to, kvt_writer *w, kv_error *err) {
  int32_t *list = NULL;
  uint64_t n = UINT64_MAX;
  kv_status st = read_i32(r, from, &n, &list, err);
  if (!st) st = kvt_writer_list(w, to, list, n, err);
  free(list);
  return st;
}

typedef struct attribute_walk {
  kvt_writer *writer;
  kv_error *err;
  kv_status status;
} attribute_walk;

static herr_t copy_attribute(hid_t loc, const char *name, const H5A_info_t *info, void *arg) {
  attribute_walk *w = arg;
  char text[4096] = "";
  double number;
  int64_t whole;
  (void)info;
  if (kv_h5_get_str(loc, name, text, sizeof text, NULL) != KV_OK) {
    if (kv_h5_get_f64(loc, name, &number, NULL) != KV_OK) return 0; /* an array: none is known in this format */
    if (kv_h5_get_i64(loc, name, &whole, NULL) == KV_OK && (double)whole == number)
      (void)snprintf(text, sizeof text, "%lld", (long long)whole);
    else
      (void)snprintf(text, sizeof text, "%.17g", number);
  }
  w->status = kvt_writer_source(w->writer, name, text, w->err);
  return w->status ? -1 : 0;
}

static kv_status describe(recording *r, kvt_info *info, kv_error *err) {
  char format[64] = "", class[64] = "", commit[64] = "?", workload[128] = "?", spec[128] = "?", sha[65];
  int64_t pool = 0, page = 0, sorted = 0;
  (void)kv_h5_get_str(r->file, "format", format, sizeof format, NULL);
  if (strcmp(format, "sglang-kv-slot-recording/1") != 0)
    return kv_fail(err, KV_ERR_INPUT, "%s: format is '%s', not 'sglang-kv-slot-recording/1'", r->path, format);
  if (kv_h5_get_i64(r->file, "pool_size", &pool, NULL) || kv_h5_get_i64(r->file, "page_size", &page, NULL) ||
      kv_h5_get_i64(r->file, "need_sort", &sorted, NULL) || pool < 1 || page < 1 || pool > INT32_MAX - page ||
      pool % page)
    return kv_fail(err, KV_ERR_INPUT, "%s: pool_size, page_size or need_sort is missing or cannot be meant", r->path);
  (void)kv_h5_get_str(r->file, "allocator", class, sizeof class, NULL);
  (void)kv_h5_get_str(r->file, "source_commit", commit, sizeof commit, NULL);
  (void)kv_h5_get_str(r->file, "workload", workload, sizeof workload, NULL);
  (void)kv_h5_get_str(r->file, "speculative", spec, sizeof spec, NULL);
  bool token = !strcmp(class, "TokenToKVPoolAllocator"), paged = !strcmp(class, "PagedTokenToKVPoolAllocator");
  info->allocator = token   ? (sorted ? KVT_ALLOC_TOKEN_SORTED : KVT_ALLOC_TOKEN)
                    : paged ? (sorted ? KVT_ALLOC_PAGED_SORTED : KVT_ALLOC_PAGED)
                            : KVT_ALLOC_OTHER;
  if (!kvt_allocator_fits(info->allocator, (uint32_t)page))
    return kv_fail(err, KV_ERR_INPUT, "%s: allocator %s has pages of one slot, page_size is %lld", r->path, class, (long long)page);
  info->pool_size = (uint32_t)pool;
  info->page_size = info->first_slot = (uint32_t)page;
  (void)snprintf(info->origin, sizeof info->origin,
                 "recorded: SGLang %s, %s, its own allocator and radix cache executed on CPU; workload %s; "
                 "speculation: %s",
                 commit, class, workload, spec);
  kv_status st = kv_sha256_file(r->path, sha, err);
  const char *base = strrchr(r->path, '/');
  (void)snprintf(info->source, sizeof info->source, "%.200s, sha256 %s", base ? base + 1 : r->path, sha);
  return st;
}

typedef struct import_args {
  const char *path, *output;
  const kvt_writer_options *options;
} import_args;

static kv_status import_all(recording *r, const import_args *a, kv_guard *guard, kv_error *err) {
  kvt_info info = {0};
  kvt_writer *w = NULL;
  step_table steps = {0};
  kv_status st = describe(r, &info, err);
  if (!st) st = load(r, err);
  if (!st) st = load_steps(r, &steps, err);
  if (!st) st = kvt_writer_open(a->output, &info, a->options, &w, err);
  if (!st) st = write_events(r, &steps, w, guard, err);
  if (!st) st = write_requests(r, w, err);
  if (!st) st = copy_list(r, "final_free_list", "final/free_list", w, err);
  if (!st) st = copy_list(r, "final_release_list", "final/release_list", w, err);
  attribute_walk walk = {w, err, KV_OK};
  if (!st) (void)H5Aiterate2(r->file, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, copy_attribute, &walk);
  if (!st) st = walk.status;
  kv_guard_alive(guard);
  kv_status finished = kvt_writer_finish(w, st != KV_OK, st ? NULL : err);
  free_steps(&steps);
  return st ? st : finished;
}

static kv_status import_in_child(kv_guard *guard, void *arg, kv_error *err) {
  const import_args *a = arg;
  recording r = {.path = a->path, .slot_data = -1};
  kv_h5_quiet();
  r.file = H5Fopen(a->path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (r.file < 0) return kv_fail(err, KV_ERR_INPUT, "%s: damaged or cut short: HDF5 cannot open it", a->path);
  kv_status st = import_all(&r, a, guard, err);
  void *owned[] = {r.kind, r.step, r.count, r.req, r.pos, r.aux, r.input, r.output, r.call_slots, r.call_requests,
                   r.slots};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
  if (r.slot_data >= 0) (void)H5Dclose(r.slot_data);
  (void)H5Fclose(r.file);
  return st;
}

kv_status kvt_import_recording(const char *path, const char *output, const kvt_writer_options *options,
                               kv_error *err) {
  import_args args = {path, output, options};
  kv_status st = kv_guard_is_hdf5(path, err);
  return st ? st : kv_guard_run(import_in_child, &args, path, output, err);
}
