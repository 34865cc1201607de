#include <stdlib.h>
#include <string.h>

#include "synth.h"

void kvs_tape_init(kvs_tape *t, const kvt_info *info) {
  *t = (kvs_tape){.info = *info};
  t->info.events = t->info.slots = t->info.steps = t->info.requests = 0;
}

void kvs_tape_free(kvs_tape *t) {
  free(t->kind);
  free(t->step);
  free(t->request);
  free(t->position);
  free(t->length);
  free(t->aux);
  free(t->count);
  free(t->slot);
  free(t->row);
  free(t->initial);
  *t = (kvs_tape){0};
}

static bool grow(kvs_tape *t, void **list, uint64_t room, size_t element) {
  void *grown = realloc(*list, room * element);
  if (grown) *list = grown;
  t->failed |= !grown;
  return grown != NULL;
}

static void grow_events(kvs_tape *t) {
  uint64_t room = t->event_room ? t->event_room * 2 : 256;
  bool ok = grow(t, (void **)&t->kind, room, sizeof *t->kind) && grow(t, (void **)&t->step, room, sizeof *t->step) &&
            grow(t, (void **)&t->request, room, sizeof *t->request) && grow(t, (void **)&t->position, room, sizeof *t->position) &&
            grow(t, (void **)&t->length, room, sizeof *t->length) && grow(t, (void **)&t->aux, room, sizeof *t->aux) &&
            grow(t, (void **)&t->count, room, sizeof *t->count);
  if (ok) t->event_room = room;
}

void kvs_tape_add(kvs_tape *t, kvt_kind kind, int32_t request, int32_t position, int32_t length, int32_t aux,
                  const int32_t *slots, uint32_t n) {
  uint64_t e = t->info.events;
  if (e == t->event_room) grow_events(t);
  if (t->info.slots + n > t->slot_room) {
    uint64_t room = (t->info.slots + n) * 2 + 256;
    if (grow(t, (void **)&t->slot, room, sizeof *t->slot)) t->slot_room = room;
  }
  if (t->failed) return;
  t->kind[e] = (uint8_t)kind;
  t->step[e] = (uint32_t)t->info.steps;
  t->request[e] = request;
  t->position[e] = position;
  t->length[e] = length;
  t->aux[e] = aux;
  t->count[e] = n;
  if (n) memcpy(t->slot + t->info.slots, slots, n * sizeof *slots);
  t->info.events++;
  t->info.slots += n;
  if (request >= 0 && (uint64_t)request >= t->info.requests) t->info.requests = (uint64_t)request + 1;
}

void kvs_tape_step(kvs_tape *t, kvt_step_type type, const kvt_step *row) {
  if (t->info.steps == t->row_room) {
    uint64_t room = t->row_room ? t->row_room * 2 : 64;
    if (grow(t, (void **)&t->row, room, sizeof *t->row)) t->row_room = room;
  }
  if (t->failed) return;
  t->row[t->info.steps++] = *row;
  kvs_tape_add(t, KVT_STEP, -1, -1, -1, (int32_t)type, NULL, 0);
}

kvt_batch kvs_tape_batch(const kvs_tape *t) {
  return (kvt_batch){.events = (uint32_t)t->info.events, .slots = (uint32_t)t->info.slots, .steps = (uint32_t)t->info.steps,
                     .kind = t->kind, .step = t->step, .request = t->request, .position = t->position, .length = t->length,
                     .aux = t->aux, .count = t->count, .slot = t->slot, .step_rows = t->row};
}

static kv_status write_events(const kvs_tape *t, kvt_writer *w, kv_error *err) {
  const kvt_batch b = kvs_tape_batch(t);
  const kvt_request unknown = {-1, -1, -1, -1, -1, 0};
  uint32_t slot = 0, step = 0;
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < b.events && !st; i++) {
    const kvt_event e = kvt_batch_event(&b, i, slot);
    st = e.kind == KVT_STEP ? kvt_writer_step(w, (kvt_step_type)e.aux, &t->row[step++], err) : kvt_writer_event(w, &e, err);
    slot += e.count;
  }
  for (uint64_t i = 0; i < t->info.requests && !st; i++) st = kvt_writer_request(w, &unknown, err);
  return st;
}

kv_status kvs_tape_write(const kvs_tape *t, const char *path, const kvt_writer_options *o, kvt_writer **writer, kv_error *err) {
  *writer = NULL;
  if (t->failed) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  kv_status st = kvt_writer_open(path, &t->info, o, writer, err);
  if (!st && t->initial) st = kvt_writer_list(*writer, "initial/free_list", t->initial, t->info.initial_free, err);
  if (!st) st = write_events(t, *writer, err);
  if (st) {
    (void)kvt_writer_finish(*writer, true, NULL);
    *writer = NULL;
  }
  return st;
}
