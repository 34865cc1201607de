/* Pages of 16, 32 or 64 with SGLang's paged list: freed pages, ascending, go to the head. */
#include "policy.h"

static kv_status open(kvs_world *w, const int32_t *initial, uint32_t n, kv_error *err) {
  return kvs_list_open(w, KVT_ALLOC_PAGED, initial, n, err);
}

#define PAGES(bytes)                                                                                          \
  const kvs_policy kvs_policy_pages_##bytes = {                                                               \
      .name = "pages-" #bytes, .summary = "SGLang's paged allocator, pages of " #bytes " slots",              \
      .placement = KVS_PAGES, .page_size = bytes, .evicts = true, .open = open, .take = kvs_list_take,        \
      .give = kvs_list_give, .end_group = kvs_list_end_group, .available = kvs_list_available}
PAGES(16);
PAGES(32);
PAGES(64);
