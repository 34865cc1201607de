/* mem_cache.h - which 32-byte sectors are in the L2, which pages in the TLB. State only, no time.
 *
 * The L2 is set-associative with hashed sets (so that a footprint fills it evenly), lines of 128 bytes with a
 * valid bit a sector, least recently used line replaced. The TLB is fully associative and replaces the page
 * that came in first; a reach that covers the footprint leaves first touches as the only misses.
 */
#ifndef KVM_MEM_CACHE_H
#define KVM_MEM_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_status.h"

enum { KVM_LINE = 128, KVM_SECTOR = 32, KVM_ALL_SECTORS = 15, KVM_CACHE_WAYS = 16 };

/* Of a set, a nibble a way. */
typedef struct kvm_ways {
  uint64_t order; /* ways, most recently used in the lowest nibble */
  uint64_t valid; /* masks of sectors, way 0 in the lowest nibble */
} kvm_ways;

/* 16-way; sets = entries / 16, at least one; 0 entries: nothing is ever held. */
typedef struct kvm_cache {
  uint32_t sets;
  uint32_t *tag; /* [sets][16]: key + 1, 0 empty */
  kvm_ways *way; /* [sets] */
} kvm_cache;

kv_status kvm_cache_create(uint64_t entries, kvm_cache *cache, kv_error *err); /* KV_ERR_MEMORY only */
void kvm_cache_free(kvm_cache *cache);                                         /* safe on a zeroed one */
void kvm_cache_flush(kvm_cache *cache);
/* The set of a key (< 2^32 - 1), for the two below. */
static inline uint32_t kvm_cache_set(const kvm_cache *cache, uint32_t key) {
  uint32_t h = key * 0x9e3779b1u;
  h ^= h >> 15;
  h *= 0x85ebca77u;
  h ^= h >> 13;
  return (uint32_t)((uint64_t)h * cache->sets >> 32);
}
/* Fetches the set's memory ahead; a hint. */
static inline void kvm_cache_expect(const kvm_cache *cache, uint32_t set) {
  if (!cache->sets) return;
  __builtin_prefetch(cache->tag + (size_t)set * KVM_CACHE_WAYS, 1);
  __builtin_prefetch(cache->way + set, 1);
}
/* Looks `key` up in its set for the sectors of `want` and brings in what is missing: of each aligned group of
 * `group` sectors (1, 2 or 4) that lacks a wanted one, all that it lacks. Returns the mask of sectors brought
 * in; 0: all there. */
unsigned kvm_cache_touch(kvm_cache *cache, uint32_t set, uint32_t key, unsigned want, unsigned group);

typedef struct kvm_tlb {
  uint64_t pages, entries;
  uint64_t brought; /* pages brought in so far, + entries at the start */
  uint64_t *when;   /* [pages]: the count when it was brought in; 0 never */
} kvm_tlb;

kv_status kvm_tlb_create(uint64_t pages, uint64_t entries, kvm_tlb *tlb,
                         kv_error *err); /* KV_ERR_MEMORY only */
void kvm_tlb_free(kvm_tlb *tlb);         /* safe on a zeroed one */
void kvm_tlb_flush(kvm_tlb *tlb);
/* True if the page (< pages) was there; else it is brought in. */
bool kvm_tlb_touch(kvm_tlb *tlb, uint64_t page);

#endif
