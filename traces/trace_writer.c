/* The kvtrace-1 writer: appends to columns, holds one chunk of each in memory. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_h5.h"
#include "trace.h"

enum { KIND, STEP, REQUEST, POSITION, LENGTH, AUX, COUNT, SLOTS, EVENT_COLUMNS };
enum { TIME, RUNNING, TOKENS, AVAILABLE, EVICTABLE, PROTECTED, WAITING, STEP_COLUMNS };
enum { TRACE_ROW, TIMESTAMP, INPUT, OUTPUT, PREDECESSOR, INJECTED, REQUEST_COLUMNS };

typedef struct column_spec {
  const char *name, *units, *long_name;
  char type; /* b: u8, u: u32, i: i32, l: i64 */
} column_spec;

static const column_spec event_spec[EVENT_COLUMNS] = {
    {"events/kind", "1", "event kind (see traces/README.md)", 'b'},
    {"events/step", "1", "scheduler step the event belongs to (1-based, 0 before the first)", 'u'},
    {"events/request", "1", "row of /requests, -1 if none", 'i'},
    {"events/position", "token", "token position in the request's row", 'i'},
    {"events/length", "1", "a length; its meaning depends on the kind", 'i'},
    {"events/aux", "1", "step type, allocator call or free reason, by kind", 'i'},
    {"events/count", "slot", "slots of the event, the next `count` elements of /events/slots", 'u'},
    {"events/slots", "1", "slot numbers, in the order in which the allocator or cache handled them", 'i'}};
static const column_spec step_spec[STEP_COLUMNS] = {
    {"steps/time", "us", "time at the end of the step, since the start of the recording", 'l'},
    {"steps/requests", "1", "running requests after the step, -1 unknown", 'i'},
    {"steps/tokens", "token", "tokens processed in the step, -1 unknown", 'i'},
    {"steps/available", "slot", "slots in the allocator's free lists after the step, -1 unknown", 'i'},
    {"steps/evictable", "slot", "prefix-cache slots that could be evicted, -1 unknown", 'i'},
    {"steps/protected", "slot", "prefix-cache slots locked by running requests, -1 unknown", 'i'},
    {"steps/waiting", "1", "requests in the queue, -1 unknown", 'i'}};
static const column_spec request_spec[REQUEST_COLUMNS] = {
    {"requests/trace_row", "1", "row of the workload the request was made from, -1 unknown", 'i'},
    {"requests/timestamp", "ms", "arrival in the workload's own time, -1 unknown", 'i'},
    {"requests/input_length", "token", "prompt length", 'i'},
    {"requests/output_length", "token", "output length", 'i'},
    {"requests/predecessor", "1", "request whose conversation this one continues, -1 none or unknown", 'i'},
    {"requests/injected", "1", "1 for a request added to the workload", 'i'}};

struct kvt_writer {
  kv_h5_out out;
  kvt_info info;
  kv_h5_store store;
  uint64_t steps, requests;
  uint32_t step;
  kv_h5_column event[EVENT_COLUMNS], step_row[STEP_COLUMNS], request[REQUEST_COLUMNS];
};

static hid_t file_type(char c) {
  return c == 'b' ? H5T_STD_U8LE : c == 'u' ? H5T_STD_U32LE : c == 'l' ? H5T_STD_I64LE : H5T_STD_I32LE;
}

static kv_status open_all(kvt_writer *w, const column_spec *spec, int n, size_t chunk, kv_h5_column *column,
                          kv_error *err) {
  kv_status st = KV_OK;
  for (int i = 0; i < n && !st; i++)
    st = kv_h5_column_open(w->out.file, spec[i].name, file_type(spec[i].type), spec[i].units, spec[i].long_name,
                           w->store, chunk, &column[i], err);
  return st;
}

static kv_status write_head(kvt_writer *w, kv_error *err) {
  const kvt_info *i = &w->info;
  hid_t f = w->out.file;
  kv_status st = kv_h5_put_str(f, "allocator", kvt_allocator_name(i->allocator), err);
  if (!st) st = kv_h5_put_i64(f, "pool_size", i->pool_size, err);
  if (!st) st = kv_h5_put_i64(f, "page_size", i->page_size, err);
  if (!st) st = kv_h5_put_str(f, "origin", i->origin, err);
  if (!st) st = kv_h5_put_str(f, "source", i->source, err);
  if (!st) st = kv_h5_put_str(f, "default", "events", err);
  return st;
}

kv_status kvt_writer_open(const char *path, const kvt_info *info, const kvt_writer_options *options,
                          kvt_writer **writer, kv_error *err) {
  *writer = NULL;
  if (!kvt_allocator_name(info->allocator) || !kvt_allocator_fits(info->allocator, info->page_size) || !info->page_size || !info->pool_size ||
      info->pool_size % info->page_size)
    return kv_fail(err, KV_ERR_USAGE, "%s: a trace needs a pool of whole pages and a known allocator", path);
  kvt_writer *w = calloc(1, sizeof *w);
  if (!w) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  w->info = *info;
  w->store = !options->plain ? KV_H5_DEFLATE_1 : options->unfiltered ? KV_H5_UNFILTERED : KV_H5_PLAIN;
  kv_status st = kv_h5_create(path, KVT_CONVENTIONS, options->creator, options->command, &w->out, err);
  if (!st) st = write_head(w, err);
  if (!st) st = open_all(w, event_spec, EVENT_COLUMNS, KV_H5_CHUNK, w->event, err);
  if (!st) st = open_all(w, step_spec, STEP_COLUMNS, 8192, w->step_row, err);
  if (!st) st = open_all(w, request_spec, REQUEST_COLUMNS, 1024, w->request, err);
  if (st)
    (void)kvt_writer_finish(w, true, NULL);
  else
    *writer = w;
  return st;
}

kv_status kvt_writer_event(kvt_writer *w, const kvt_event *e, kv_error *err) {
  const uint8_t kind = (uint8_t)e->kind;
  const void *value[SLOTS] = {&kind, &w->step, &e->request, &e->position, &e->length, &e->aux, &e->count};
  kv_status st = KV_OK;
  for (int i = 0; i < SLOTS && !st; i++) st = kv_h5_column_append(&w->event[i], 1, value[i], err);
  if (!st && e->count) st = kv_h5_column_append(&w->event[SLOTS], e->count, e->slots, err);
  return st;
}

kv_status kvt_writer_step(kvt_writer *w, kvt_step_type type, const kvt_step *r, kv_error *err) {
  const void *value[STEP_COLUMNS] = {&r->time_us,   &r->requests,   &r->tokens, &r->available,
                                     &r->evictable, &r->protected_, &r->waiting};
  const kvt_event e = {.kind = KVT_STEP, .request = -1, .position = -1, .length = -1, .aux = (int32_t)type};
  kv_status st = KV_OK;
  w->step++;
  for (int i = 0; i < STEP_COLUMNS && !st; i++) st = kv_h5_column_append(&w->step_row[i], 1, value[i], err);
  return st ? st : kvt_writer_event(w, &e, err);
}

kv_status kvt_writer_request(kvt_writer *w, const kvt_request *r, kv_error *err) {
  const void *value[REQUEST_COLUMNS] = {&r->trace_row,     &r->timestamp_ms, &r->input_length,
                                        &r->output_length, &r->predecessor,  &r->injected};
  kv_status st = KV_OK;
  for (int i = 0; i < REQUEST_COLUMNS && !st; i++) st = kv_h5_column_append(&w->request[i], 1, value[i], err);
  return st;
}

kv_status kvt_writer_list(kvt_writer *w, const char *name, const int32_t *values, uint64_t n, kv_error *err) {
  return kv_h5_write(w->out.file, name, H5T_STD_I32LE, n, values, "1",
                     w->info.page_size > 1 ? "pages in hand-out order" : "slots in hand-out order", w->store, err);
}

kv_status kvt_writer_source(kvt_writer *w, const char *name, const char *value, kv_error *err) {
  kv_status st = kv_h5_group(w->out.file, "source_attributes", err);
  if (st) return st;
  hid_t group = H5Gopen2(w->out.file, "source_attributes", H5P_DEFAULT);
  st = kv_h5_put_str(group, name, value, err);
  (void)H5Gclose(group);
  return st;
}

static kv_status close_all(kv_h5_column *column, int n, kv_status st, kv_error *err) {
  for (int i = 0; i < n; i++) {
    kv_status closed = kv_h5_column_close(&column[i], st ? NULL : err);
    if (!st) st = closed;
  }
  return st;
}

kv_status kvt_writer_finish(kvt_writer *w, bool abandon, kv_error *err) {
  if (!w) return KV_OK;
  kv_status st = close_all(w->event, EVENT_COLUMNS, KV_OK, err);
  st = close_all(w->step_row, STEP_COLUMNS, st, err);
  st = close_all(w->request, REQUEST_COLUMNS, st, err);
  if (abandon || st)
    kv_h5_abort(&w->out);
  else
    st = kv_h5_commit(&w->out, err);
  free(w);
  return st;
}
