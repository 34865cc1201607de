/* LIFO: what one release gave back goes to the head in its own order, so that the newest is handed out first. (Reversed
 * order, a plain stack, would hand out descending slots, which no row can be adjacent in.) */
#include <stdlib.h>
#include <string.h>

#include "policy.h"

static kv_status open(kvs_world *w, const int32_t *initial, uint32_t n, kv_error *err) {
  return kvs_list_open(w, KVT_ALLOC_TOKEN, initial, n, err);
}

static void give(kvs_world *w, const int32_t *units, uint32_t n) {
  kvs_freelist *l = &w->list;
  uint32_t head = l->head >= n ? l->head - n : l->head + l->capacity - n, first = l->capacity - head < n ? l->capacity - head : n;
  memcpy(l->ring + head, units, first * sizeof *units);
  memcpy(l->ring, units + first, (n - first) * sizeof *units);
  l->head = head;
  l->count += n;
}

const kvs_policy kvs_policy_lifo = {
    .name = "lifo", .summary = "what was freed last is handed out first, each release in its own order",
    .placement = KVS_TOKENS, .page_size = 1, .open = open, .take = kvs_list_take, .give = give,
    .available = kvs_list_available};
