#include "mem_cache.h"

#include <stdlib.h>
#include <string.h>

kv_status kvm_cache_create(uint64_t entries, kvm_cache *c, kv_error *err) {
  uint64_t sets = (entries + KVM_CACHE_WAYS - 1) / KVM_CACHE_WAYS;
  *c = (kvm_cache){.sets = (uint32_t)sets};
  if (!sets) return KV_OK;
  /* a set's tags fill one host cache line */
  c->tag = aligned_alloc(64, sets * KVM_CACHE_WAYS * sizeof *c->tag);
  c->mask = malloc(sets * KVM_CACHE_WAYS);
  if (!c->tag || !c->mask) {
    kvm_cache_free(c);
    return kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
  }
  kvm_cache_flush(c);
  return KV_OK;
}

void kvm_cache_free(kvm_cache *c) {
  free(c->tag);
  free(c->mask);
  *c = (kvm_cache){0};
}

void kvm_cache_flush(kvm_cache *c) {
  if (c->sets) memset(c->tag, 0, (size_t)c->sets * KVM_CACHE_WAYS * sizeof *c->tag);
}

uint32_t kvm_cache_set(const kvm_cache *c, uint32_t key) {
  uint32_t h = key * 0x9e3779b1u;
  h ^= h >> 15;
  h *= 0x85ebca77u;
  h ^= h >> 13;
  return (uint32_t)((uint64_t)h * c->sets >> 32);
}

void kvm_cache_expect(const kvm_cache *c, uint32_t set) {
  if (!c->sets) return;
  __builtin_prefetch(c->tag + (size_t)set * KVM_CACHE_WAYS, 1);
  __builtin_prefetch(c->mask + (size_t)set * KVM_CACHE_WAYS, 1);
}

/* All sectors of the groups that lack a wanted one. */
static inline unsigned to_fill(unsigned missing, unsigned group) {
  if (group == 2) {
    unsigned low = (missing | missing >> 1) & 5u;
    return low | low << 1;
  }
  return group == 4 && missing ? KVM_ALL_SECTORS : missing;
}

/* The way that holds `id`, else KVM_CACHE_WAYS. Misses are the rule, so all ways are compared first, four at
 * a time. */
static inline unsigned find(const uint32_t *tag, uint32_t id) {
  uint32_t any = 0;
  for (unsigned w = 0; w < KVM_CACHE_WAYS; w++) any |= tag[w] == id;
  if (!any) return KVM_CACHE_WAYS;
  unsigned way = 0;
  while (tag[way] != id) way++;
  return way;
}

unsigned kvm_cache_touch(kvm_cache *c, uint32_t set, uint32_t key, unsigned want, unsigned group) {
  if (!c->sets) return to_fill(want, group);
  size_t at = (size_t)set * KVM_CACHE_WAYS;
  uint32_t *tag = c->tag + at, id = key + 1;
  unsigned char *mask = c->mask + at;
  unsigned way = find(tag, id);
  bool found = way < KVM_CACHE_WAYS;
  unsigned have = found ? mask[way] : 0, fill = want & ~have;
  if (fill) fill = to_fill(fill, group) & ~have;
  if (!found) { /* sizes known beforehand: no calls */
    memmove(tag + 1, tag, (KVM_CACHE_WAYS - 1) * sizeof *tag);
    memmove(mask + 1, mask, KVM_CACHE_WAYS - 1);
  } else if (way) {
    memmove(tag + 1, tag, way * sizeof *tag);
    memmove(mask + 1, mask, way);
  }
  tag[0] = id;
  mask[0] = (unsigned char)(have | fill);
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
