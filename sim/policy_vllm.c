/* vLLM's BlockPool: pages in one queue, cached or not. A page that holds cached tokens joins at the tail when the last row lets
 * go of it, last page of the row first; one without goes to the head; what is taken from the head is evicted. */
#include "policy.h"

static kv_status open(kvs_world *w, const int32_t *initial, uint32_t n, kv_error *err) {
  return kvs_list_open(w, KVT_ALLOC_VLLM_FRONT, initial, n, err);
}

const kvs_policy kvs_policy_vllm = {
    .name = "vllm", .summary = "vLLM's block pool: pages of 16 slots, cached and free ones in one queue",
    .placement = KVS_PAGES, .page_size = 16, .evicts = true, .moves = true, .open = open, .take = kvs_list_take,
    .give = kvs_list_give, .end_group = kvs_list_end_group, .available = kvs_list_available};
