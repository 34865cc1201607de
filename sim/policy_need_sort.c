/* SGLang's need_sort: freed slots wait aside; when the list runs short both are merged and sorted. */
#include "policy.h"

static kv_status open(kvs_world *w, const int32_t *initial, uint32_t n, kv_error *err) {
  return kvs_list_open(w, KVT_ALLOC_TOKEN_SORTED, initial, n, err);
}

const kvs_policy kvs_policy_need_sort = {
    .name = "need-sort", .summary = "SGLang's need_sort: freed slots wait aside, merged and sorted when the list runs short",
    .placement = KVS_TOKENS, .page_size = 1, .open = open, .begin_call = kvs_list_begin_call, .take = kvs_list_take,
    .give = kvs_list_give, .available = kvs_list_available};
