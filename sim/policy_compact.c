/* Speculation v2: a verify block's slots stay with the request, accepted rows are moved to their front, nothing is freed
 * before the request ends. The list is SGLang's FIFO. On a recording without verify blocks it is that FIFO. */
#include "policy.h"

static kv_status open(kvs_world *w, const int32_t *initial, uint32_t n, kv_error *err) {
  return kvs_list_open(w, KVT_ALLOC_TOKEN, initial, n, err);
}

const kvs_policy kvs_policy_compact = {
    .name = "compact", .summary = "speculation v2: a request keeps its verify slots and moves accepted rows to their front",
    .placement = KVS_COMPACT, .page_size = 1, .evicts = true, .open = open, .take = kvs_list_take, .give = kvs_list_give,
    .available = kvs_list_available};
