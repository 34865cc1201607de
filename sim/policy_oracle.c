/* The oracle: a bound, not a policy. Tokens are not placed at all; whatif.c counts the fewest runs that any placement
 * of the same shared rows can have (kvs_oracle_runs in whatif.h gives the proof). */
#include <string.h>

#include "policy.h"

static kv_status open(kvs_world *w, const int32_t *initial, uint32_t n, kv_error *err) {
  (void)w, (void)initial, (void)n, (void)err;
  return KV_OK;
}
static void take(kvs_world *w, uint32_t n, int32_t *out) { (void)w, (void)n, (void)out; }
static void give(kvs_world *w, const int32_t *units, uint32_t n) { (void)w, (void)units, (void)n; }
static uint32_t available(const kvs_world *w) { return w->capacity - (uint32_t)w->resident; }

const kvs_policy kvs_policy_oracle = {
    .name = "oracle", .summary = "the best any policy could reach with the same capacity and the same shared prefixes",
    .placement = KVS_TOKENS, .costs_nothing = true, .open = open, .take = take, .give = give, .available = available};
