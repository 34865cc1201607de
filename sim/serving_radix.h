/* serving_radix.h - the prefix cache of a serving loop: a radix tree over token strings whose nodes own slots.
 *
 * Semantics are those of SGLang's RadixCache with LRU eviction (0.5.9), re-written: a key is cut to whole pages; a node
 * is split where a key leaves it; each look-up and insertion stamps the nodes on its way with one time (a node made
 * by a split or an insertion gets a later one); only leaves that nobody has locked are evicted, whole, the least
 * recently used first. With bigram keys (EAGLE) unit i stands for the tokens i and i + 1, so a string of n tokens has
 * n - 1 units. Units equal slots one to one.
 */
#ifndef KVS_SERVING_RADIX_H
#define KVS_SERVING_RADIX_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_status.h"
#include "serving_text.h"

typedef struct kvs_node kvs_node;

typedef struct kvs_radix {
  uint32_t page;
  bool bigram;
  kvs_node *root;
  uint64_t evictable; /* units of nodes without a lock */
  uint64_t protected_; /* units of locked nodes */
  uint64_t clock;
  /* the rest is private */
  kvs_node **bucket;
  uint32_t buckets, nodes;
  kvs_node *vacant;
  struct kvs_lru {
    uint64_t access;
    kvs_node *node;
  } *heap;
  uint32_t heap_n, heap_room;
} kvs_radix;

kv_status kvs_radix_init(kvs_radix *radix, uint32_t page, bool bigram, kv_error *err);
void kvs_radix_free(kvs_radix *radix);

/* Units of a string of `tokens` tokens, whole pages only. */
uint32_t kvs_radix_units(const kvs_radix *radix, uint32_t tokens);

/* Longest cached prefix of the first `tokens` tokens of `text`: its slots go to out[0..result), *last is the node that
 * it ends in (the root for none). `text` must live as long as the tree. KV_ERR_MEMORY. */
kv_status kvs_radix_match(kvs_radix *radix, const kvs_text *text, uint32_t tokens, int32_t *out, uint32_t *matched,
                          kvs_node **last, kv_error *err);
/* Inserts the first units(tokens) units with their slots; *had: units that were there already (their slots in `slots`
 * stay the caller's). */
kv_status kvs_radix_insert(kvs_radix *radix, const kvs_text *text, uint32_t tokens, const int32_t *slots,
                           uint32_t *had, kv_error *err);
/* One more, one fewer, running request needs the path from the root to `node`. */
void kvs_radix_lock(kvs_radix *radix, kvs_node *node);
kv_status kvs_radix_unlock(kvs_radix *radix, kvs_node *node, kv_error *err);

/* Evicts leaves until at least `units` are gone or none is left; each leaf's slots are handed to `give` first. */
typedef kv_status (*kvs_radix_give)(void *arg, const int32_t *slots, uint32_t n, kv_error *err);
kv_status kvs_radix_evict(kvs_radix *radix, uint64_t units, kvs_radix_give give, void *arg, kv_error *err);

#endif
