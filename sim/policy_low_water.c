/* Eviction ahead of need, so that there is something to sort: when a step leaves less than low_water of the pool free,
 * idle tokens are dropped, least recently used first, until high_water is; calls get the lowest free slots. */
#include "policy.h"

static void step_end(kvs_world *w) {
  if (w->free_n >= (uint32_t)(w->settings.low_water * w->capacity)) return;
  uint32_t want = (uint32_t)(w->settings.high_water * w->capacity);
  if (w->free_n < want) (void)kvs_world_evict(w, want - w->free_n);
}

const kvs_policy kvs_policy_low_water = {
    .name = "low-water", .summary = "evict idle tokens ahead of need, down to a low-water mark; the lowest free slots first",
    .placement = KVS_TOKENS, .page_size = 1, .evicts = true, .open = kvs_free_set_open, .take = kvs_free_set_take,
    .give = kvs_free_set_give, .available = kvs_free_set_available, .step_end = step_end};
