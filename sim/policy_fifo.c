/* SGLang's page_size=1 allocator: freed slots go to the tail in the order of their release. And what the other policies
 * that keep SGLang's lists share. */
#include "policy.h"

kv_status kvs_list_open(kvs_world *w, kvt_allocator kind, const int32_t *initial, uint32_t n, kv_error *err) {
  kvt_info info = w->info;
  info.allocator = kind;
  info.page_size = info.first_slot = w->page_size;
  info.pool_size = w->capacity;
  return kvs_freelist_init(&w->list, &info, initial, n, err);
}

void kvs_list_begin_call(kvs_world *w, uint32_t slots, uint32_t requests, bool decode) {
  kvs_freelist_begin_call(&w->list, slots, requests, decode);
}
void kvs_list_take(kvs_world *w, uint32_t n, int32_t *out) { kvs_freelist_pop(&w->list, n, out); }
void kvs_list_give(kvs_world *w, const int32_t *units, uint32_t n) {
  if (w->follow && w->current.kind == KVT_FREE && w->current.position >= 0)
    kvs_freelist_give_segment(&w->list, units, n);
  else
    kvs_freelist_give(&w->list, units, n);
}
void kvs_list_end_group(kvs_world *w) { (void)kvs_freelist_end_group(&w->list); }
uint32_t kvs_list_available(const kvs_world *w) { return w->list.count + w->list.released; }

static kv_status open(kvs_world *w, const int32_t *initial, uint32_t n, kv_error *err) {
  return kvs_list_open(w, KVT_ALLOC_TOKEN, initial, n, err);
}

const kvs_policy kvs_policy_fifo = {
    .name = "fifo", .summary = "SGLang, page 1: freed slots go to the tail of the list in the order of their release",
    .placement = KVS_TOKENS, .page_size = 1, .open = open, .take = kvs_list_take, .give = kvs_list_give,
    .available = kvs_list_available};
