#include "moves.h"

#include <stdlib.h>

kv_status kvs_moves_init(kvs_moves *m, uint32_t slots, kv_error *err) {
  *m = (kvs_moves){.slots = slots};
  m->now = calloc(slots, sizeof *m->now);
  m->origin = calloc(slots, sizeof *m->origin);
  m->touched = malloc((size_t)slots * sizeof *m->touched);
  if (m->now && m->origin && m->touched) return KV_OK;
  kvs_moves_free(m);
  return kv_fail(err, KV_ERR_MEMORY, "out of memory for moved slots");
}

void kvs_moves_free(kvs_moves *m) {
  free(m->now);
  free(m->origin);
  free(m->touched);
  *m = (kvs_moves){0};
}

static int32_t origin_of(kvs_moves *m, int32_t slot) {
  if (m->origin[slot]) return m->origin[slot];
  m->touched[m->touched_n++] = slot;
  return slot;
}

void kvs_moves_exchange(kvs_moves *m, int32_t a, int32_t b) {
  if (a == b) return;
  int32_t x = origin_of(m, a), y = origin_of(m, b);
  m->origin[a] = y;
  m->origin[b] = x;
  m->now[x] = b;
  m->now[y] = a;
}

bool kvs_moves_apply(const kvs_moves *m, int32_t *slots, uint64_t n) {
  bool changed = false;
  for (uint64_t i = 0; i < n; i++) {
    int32_t now = m->now[slots[i]];
    if (!now || now == slots[i]) continue;
    slots[i] = now;
    changed = true;
  }
  return changed;
}

void kvs_moves_clear(kvs_moves *m) {
  for (uint32_t i = 0; i < m->touched_n; i++) m->now[m->touched[i]] = m->origin[m->touched[i]] = 0;
  m->touched_n = 0;
}
