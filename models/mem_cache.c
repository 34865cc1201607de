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

static inline uint32_t set_of(const kvm_cache *c, uint32_t key) {
  uint32_t h = key * 0x9e3779b1u;
  h ^= h >> 15;
  h *= 0x85ebca77u;
  h ^= h >> 13;
  return (uint32_t)((uint64_t)h * c->sets >> 32);
}

void kvm_cache_expect(const kvm_cache *c, uint32_t key) {
  if (c->sets) __builtin_prefetch(c->tag + (size_t)set_of(c, key) * KVM_CACHE_WAYS, 1);
}

/* All sectors of the groups that lack a wanted one. */
static inline unsigned to_fill(unsigned missing, unsigned group) {
  if (group == 2) {
    unsigned low = (missing | missing >> 1) & 5u;
    return low | low << 1;
  }
  return group == 4 && missing ? KVM_ALL_SECTORS : missing;
}

unsigned kvm_cache_touch(kvm_cache *c, uint32_t key, unsigned want, unsigned group) {
  if (!c->sets) return to_fill(want, group);
  size_t at = (size_t)set_of(c, key) * KVM_CACHE_WAYS;
  uint32_t *tag = c->tag + at, id = key + 1;
  unsigned char *mask = c->mask + at;
  unsigned way = 0;
  while (way < KVM_CACHE_WAYS && tag[way] != id) way++;
  bool found = way < KVM_CACHE_WAYS;
  unsigned have = found ? mask[way] : 0, fill = want & ~have;
  if (fill) fill = to_fill(fill, group) & ~have;
  if (!found) way = KVM_CACHE_WAYS - 1;
  if (way) {
    memmove(tag + 1, tag, way * sizeof *tag);
    memmove(mask + 1, mask, way);
  }
  tag[0] = id;
  mask[0] = (unsigned char)(have | fill);
  return fill;
}
