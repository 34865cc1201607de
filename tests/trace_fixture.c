#include "trace_fixture.h"

#include <stdlib.h>
#include <string.h>

kvt_info fx_info(kvt_allocator allocator, uint32_t pool, uint32_t page) {
  return (kvt_info){.allocator = allocator, .page_size = page, .first_slot = page, .pool_size = pool, .requests = 8,
                    .origin = "simulated: a hand-made trace"};
}

typedef struct columns {
  uint8_t *kind;
  uint32_t *step, *count;
  int32_t *request, *position, *length, *aux, *slot;
  kvt_step *row;
} columns;

static void *room(size_t n, size_t size) {
  void *p = calloc(n + 1, size);
  if (!p) abort();
  return p;
}

static kvt_step step_row(const fx *e, int64_t *time) {
  *time = e->position >= 0 ? e->position : *time + 1000;
  return (kvt_step){.time_us = *time, .requests = -1, .tokens = -1, .available = e->length, .evictable = -1,
                    .protected_ = -1, .waiting = -1};
}

static columns to_columns(const fx *events, uint32_t n, kvt_batch *b) {
  columns c = {room(n, 1), room(n, 4), room(n, 4), room(n, 4), room(n, 4), room(n, 4), room(n, 4), room(n * 24, 4),
               room(n, sizeof(kvt_step))};
  uint32_t step = 0;
  int64_t time = 0;
  *b = (kvt_batch){.events = n, .kind = c.kind, .step = c.step, .request = c.request, .position = c.position,
                   .length = c.length, .aux = c.aux, .count = c.count, .slot = c.slot, .step_rows = c.row};
  for (uint32_t i = 0; i < n; i++) {
    const fx *e = &events[i];
    if (e->kind == KVT_STEP) c.row[b->steps++] = step_row(e, &time), step++;
    c.kind[i] = (uint8_t)e->kind;
    c.step[i] = step;
    c.request[i] = e->request;
    c.position[i] = e->kind == KVT_STEP ? -1 : e->position;
    c.length[i] = e->kind == KVT_STEP ? -1 : e->length;
    c.aux[i] = e->aux;
    c.count[i] = e->n;
    memcpy(c.slot + b->slots, e->slots, e->n * sizeof *c.slot);
    b->slots += e->n;
  }
  return c;
}

static void free_columns(columns *c) {
  void *all[] = {c->kind, c->step, c->count, c->request, c->position, c->length, c->aux, c->slot, c->row};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

kv_status fx_run(const kvt_info *info, const kvs_replay_options *options, const fx *events, uint32_t n, bool finish,
                 kvs_replay **replay, kv_error *err) {
  kvt_batch b;
  kvt_check check = {0};
  kv_status st = kvs_replay_create(info, options, NULL, replay, err);
  if (st) return st;
  columns c = to_columns(events, n, &b);
  st = kvt_check_batch(&b, info, options->name, &check, err);
  if (!st) st = kvs_replay_batch(*replay, &b, err);
  if (!st && finish) st = kvs_replay_finish(*replay, err);
  free_columns(&c);
  return st;
}

kv_status fx_write(const char *path, const kvt_info *info, const fx *events, uint32_t n, kv_error *err) {
  kvt_writer *w;
  const kvt_writer_options o = {.creator = "test", .command = "test"};
  const kvt_request unknown = {-1, -1, -1, -1, -1, 0};
  int64_t time = 0;
  kv_status st = kvt_writer_open(path, info, &o, &w, err);
  for (uint32_t i = 0; i < n && !st; i++) {
    const fx *e = &events[i];
    const kvt_event event = {.kind = e->kind, .request = e->request, .position = e->position, .length = e->length,
                             .aux = e->aux, .count = e->n, .slots = e->slots};
    const kvt_step row = step_row(e, e->kind == KVT_STEP ? &time : &(int64_t){0});
    st = e->kind == KVT_STEP ? kvt_writer_step(w, (kvt_step_type)e->aux, &row, err) : kvt_writer_event(w, &event, err);
  }
  for (uint64_t i = 0; i < info->requests && !st; i++) st = kvt_writer_request(w, &unknown, err);
  kv_status done = kvt_writer_finish(w, st != KV_OK, st ? NULL : err);
  return st ? st : done;
}
