#include "mem_cache.h"

#include <stdlib.h>
#include <string.h>

kv_status kvm_cache_create(uint64_t entries, kvm_cache *c, kv_error *err) {
  uint64_t sets = (entries + KVM_CACHE_WAYS - 1) / KVM_CACHE_WAYS;
  *c = (kvm_cache){.sets = (uint32_t)sets};
  if (!sets) return KV_OK;
  /* a set's tags fill one host cache line */
  c->tag = aligned_alloc(64, sets * KVM_CACHE_WAYS * sizeof *c->tag);
  c->way = malloc(sets * sizeof *c->way);
  if (!c->tag || !c->way) {
    kvm_cache_free(c);
    return kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
  }
  kvm_cache_flush(c);
  return KV_OK;
}

void kvm_cache_free(kvm_cache *c) {
  free(c->tag);
  free(c->way);
  *c = (kvm_cache){0};
}

void kvm_cache_flush(kvm_cache *c) {
  if (c->sets) memset(c->tag, 0, (size_t)c->sets * KVM_CACHE_WAYS * sizeof *c->tag);
  for (uint32_t s = 0; s < c->sets; s++) c->way[s] = (kvm_ways){0xfedcba9876543210u, 0};
}

/* All sectors of the groups that lack a wanted one. */
static inline unsigned to_fill(unsigned missing, unsigned group) {
  if (group == 2) {
    unsigned low = (missing | missing >> 1) & 5u;
    return low | low << 1;
  }
  return group == 4 && missing ? KVM_ALL_SECTORS : missing;
}

/* FOUND and the way that holds `id`, else 0. Misses are the rule, so all ways are compared at once. */
enum { FOUND = KVM_CACHE_WAYS };
static inline uint32_t find(const uint32_t *tag, uint32_t id) {
  uint32_t found = 0;
  for (uint32_t w = 0; w < KVM_CACHE_WAYS; w++) found |= tag[w] == id ? FOUND | w : 0;
  return found;
}

/* Moves a way to the front of the order: the nibbles before its own go one place on. */
static inline uint64_t to_front(uint64_t order, uint64_t way) {
  const uint64_t ones = 0x1111111111111111u;
  uint64_t differ = order ^ way * ones; /* 0 in its nibble, in no other */
  unsigned at = (unsigned)__builtin_ctzll((differ - ones) & ~differ & 8 * ones) & ~3u; /* bit */
  uint64_t before = order & ((UINT64_C(1) << at) - 1), after = order & (~UINT64_C(0) << at) << 4;
  return after | before << 4 | way;
}

/* The line that was used longest ago gives way. */
static inline unsigned replace(kvm_ways *w, uint32_t *tag, uint32_t id, unsigned fill) {
  uint64_t way = w->order >> 60;
  w->order = w->order << 4 | way;
  w->valid = (w->valid & ~(UINT64_C(15) << 4 * way)) | (uint64_t)fill << 4 * way;
  tag[way] = id;
  return fill;
}

unsigned kvm_cache_touch(kvm_cache *c, uint32_t set, uint32_t key, unsigned want, unsigned group) {
  if (!c->sets) return to_fill(want, group);
  uint32_t *tag = c->tag + (size_t)set * KVM_CACHE_WAYS, found = find(tag, key + 1);
  kvm_ways *w = c->way + set;
  if (!found) return replace(w, tag, key + 1, to_fill(want, group));
  unsigned way = found % FOUND, have = (unsigned)(w->valid >> 4 * way) & KVM_ALL_SECTORS,
           fill = to_fill(want & ~have, group) & ~have;
  w->order = to_front(w->order, way);
  w->valid |= (uint64_t)fill << 4 * way;
  return fill;
}

/* ---- TLB ---- */

kv_status kvm_tlb_create(uint64_t pages, uint64_t entries, kvm_tlb *t, kv_error *err) {
  *t = (kvm_tlb){.pages = pages, .entries = entries, .brought = entries};
  t->when = calloc(pages ? pages : 1, sizeof *t->when);
  return t->when ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
}

void kvm_tlb_free(kvm_tlb *t) {
  free(t->when);
  *t = (kvm_tlb){0};
}

/* As if so many other pages had come in that none of the present ones is left. */
void kvm_tlb_flush(kvm_tlb *t) {
  t->brought += t->entries;
}

bool kvm_tlb_touch(kvm_tlb *t, uint64_t page) {
  if (t->brought - t->when[page] < t->entries) return true;
  t->when[page] = ++t->brought;
  return false;
}
