#include "roof_gather.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 32768, LEAST_BYTES = 16 << 20 };
static const kvm_mem_gather none = {NAN, NAN, NAN, NAN, NAN, 0};

/* Of small rows more: 32768 of 32 B are over before the memory is busy. */
static size_t looked_at(uint32_t row_bytes) {
  return row_bytes < LEAST_BYTES / ROWS ? LEAST_BYTES / row_bytes : ROWS;
}

static kv_status one_corner(const kvm_mem_params *p, const kvm_mem_rows *list, kvm_mem_gather *g,
                            kv_error *err) {
  kvm_mem *mem;
  kv_status st = kvm_mem_create(p, &mem, err);
  if (st) return st;
  st = kvm_mem_scatter(mem, list, looked_at(list->row_bytes), g, err);
  kvm_mem_free(mem);
  return st;
}

/* A corner of the assumed values need not be the end of every result: the ends are the least and the most of the three. */
static void order(kva_gather_range *r) {
  const kvm_mem_gather a = r->slow, b = r->fast;
  r->slow.ceiling = fmin(r->at.ceiling, fmin(a.ceiling, b.ceiling));
  r->fast.ceiling = fmax(r->at.ceiling, fmax(a.ceiling, b.ceiling));
  r->slow.contiguous = fmin(r->at.contiguous, fmin(a.contiguous, b.contiguous));
  r->fast.contiguous = fmax(r->at.contiguous, fmax(a.contiguous, b.contiguous));
  r->slow.scatter = fmax(r->at.scatter, fmax(a.scatter, b.scatter));
  r->fast.scatter = fmin(r->at.scatter, fmin(a.scatter, b.scatter));
}

/* What a card has of its own was measured: it has no range. */
static kv_status range(const kvm_gpu *gpu, const kva_card_memory *card, const kvm_mem_rows *list, kva_gather_range *r,
                       kv_error *err) {
  kvm_mem_params p, slow, fast;
  kv_status st = kva_card_params(gpu, card, &p, err);
  if (!st) st = kvm_mem_corner(gpu, false, &slow, err);
  if (!st) st = kvm_mem_corner(gpu, true, &fast, err);
  if (!st) st = kva_card_use(card, &slow, err);
  if (!st) st = kva_card_use(card, &fast, err);
  if (!st) st = one_corner(&p, list, &r->at, err);
  if (!st) st = one_corner(&slow, list, &r->slow, err);
  if (!st) st = one_corner(&fast, list, &r->fast, err);
  if (!st) order(r);
  return st;
}

/* Scatter is 1 by definition; the ceiling is that of the rows. */
static void contiguous(const kva_gather_range *random, kva_gather_range *r) {
  const kvm_mem_gather *from[] = {&random->at, &random->slow, &random->fast};
  kvm_mem_gather *to[] = {&r->at, &r->slow, &r->fast};
  for (int i = 0; i < 3; i++) {
    *to[i] = none;
    to[i]->ceiling = to[i]->contiguous = from[i]->contiguous;
    to[i]->scatter = 1;
  }
}

static kv_status random_rows(const kvm_gpu *gpu, const kva_card_memory *card, kvm_mem_rows *list, kva_gather *g,
                             kv_error *err) {
  double pool = fmin(8589934592.0, kvm_gpu_number(gpu, "mem_bytes") / 2);
  kvm_mem_pattern pattern = {
      .pool_rows = (uint64_t)(pool / list->row_bytes), .run = 1, .aligned = true, .seed = 1};
  const size_t n = looked_at(list->row_bytes);
  int32_t *slot = malloc(n * sizeof *slot);
  if (!slot) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  kvm_mem_layout(&pattern, slot, n);
  list->slot = slot;
  list->n = n;
  kv_status st = range(gpu, card, list, &g->random, err);
  free(slot);
  return st;
}

static void say_status(const kva_card_memory *card, kva_gather *g) {
  (void)snprintf(g->status, sizeof g->status, "%s; memory: %.320s",
                 g->kind == KVM_ASSUMED ? "modelled, uncalibrated, some values assumed"
                                        : "modelled, calibrated on gathers measured on an H200 (2026-11-29)",
                 card ? card->words : "the described card");
}

kv_status kva_gather_of(const kvm_gpu *gpu, const kva_card_memory *card, const kva_layout *layout, uint32_t row_bytes,
                        kva_gather *g, kv_error *err) {
  kvm_mem_params p;
  kv_error why = {KV_OK, ""};
  kvm_mem_rows list = {.row_bytes = row_bytes, .index_bytes = 4};
  *g = (kva_gather){
      .layout = {none, none, none}, .random = {none, none, none}, .kind = KVM_UNKNOWN, .status = "not modelled"};
  if (kvm_mem_params_of(gpu, &p, &why)) {
    (void)snprintf(g->why, sizeof g->why, "%.199s", why.text);
    contiguous(&g->random, &g->layout);
    if (layout) g->layout = g->random;
    return KV_OK;
  }
  g->kind = kvm_mem_kind(gpu);
  g->adapted = card && card->adapted;
  say_status(card, g);
  kv_status st = random_rows(gpu, card, &list, g, err);
  contiguous(&g->random, &g->layout);
  if (st || !layout) return st;
  int32_t *slots = NULL; /* what requests share comes from memory once: its second use is no gain of the layout */
  st = kva_layout_distinct(layout, &slots, &list.n, err);
  list.slot = slots;
  if (!st) st = range(gpu, card, &list, &g->layout, err);
  free(slots);
  return st;
}
