/* As recorded: the recording's own allocator, rebuilt, with every slot held against the recording's. */
#include "policy.h"

static kv_status open(kvs_world *w, const int32_t *initial, uint32_t n, kv_error *err) {
  w->follow = true;
  return w->identity ? KV_OK : kvs_list_open(w, w->info.allocator, initial, n, err);
}

const kvs_policy kvs_policy_as_recorded = {
    .name = "as-recorded", .summary = "the recording's own allocator; every slot is held against the recording",
    .placement = KVS_TOKENS, .page_size = 0, .open = open, .begin_call = kvs_list_begin_call, .take = kvs_list_take,
    .give = kvs_list_give, .end_group = kvs_list_end_group, .available = kvs_list_available};
