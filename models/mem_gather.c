/* The ceilings of layouts, and layouts to measure them with. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem_model.h"

/* ---- layouts ---- */

static uint64_t mix64(uint64_t v) {
  v += 0x9e3779b97f4a7c15u;
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
  v = (v ^ v >> 27) * 0x94d049bb133111ebu;
  return v ^ v >> 31;
}

/* A bijection of [0, 2^(2 half)): four Feistel rounds. */
static uint64_t feistel(uint64_t v, unsigned half, uint64_t seed) {
  uint64_t mask = (UINT64_C(1) << half) - 1, left = v >> half, right = v & mask;
  for (uint64_t round = 0; round < 4; round++) {
    uint64_t next = left ^ (mix64(right ^ mix64(seed + round)) & mask);
    left = right;
    right = next;
  }
  return left << half | right;
}

/* A permutation of [0, n): walks the bijection until it falls inside. */
static uint64_t shuffled(uint64_t i, uint64_t n, unsigned half, uint64_t seed) {
  do i = feistel(i, half, seed);
  while (i >= n);
  return i;
}

void kvm_mem_layout(const kvm_mem_pattern *p, int32_t *slot, uint64_t n) {
  uint64_t places = !p->run ? 1 : p->aligned ? p->pool_rows / p->run : p->pool_rows - p->run + 1, at = 0;
  unsigned half = 1;
  while (half < 31 && UINT64_C(1) << 2 * half < places) half++;
  for (uint64_t i = 0; i < n; i++) {
    if (!p->run) {
      slot[i] = (int32_t)(i % p->pool_rows);
      continue;
    }
    if (i % p->run == 0)
      at = shuffled(i / p->run % places, places, half, p->seed) * (p->aligned ? p->run : 1);
    slot[i] = (int32_t)(at + i % p->run);
  }
}

/* ---- ceilings ---- */

/* `most` rows of a list in stretches spread evenly over it; NULL, and *n the whole, where it is short enough.
 */
static kv_status sample(const kvm_mem_rows *rows, uint64_t most, int32_t **slots, uint64_t *n,
                        kv_error *err) {
  enum { STRETCHES = 8 };
  uint64_t length = most / STRETCHES;
  *slots = NULL;
  *n = rows->n;
  if (!rows->slot || !length || rows->n <= length * STRETCHES) return KV_OK;
  *n = length * STRETCHES;
  *slots = malloc(*n * sizeof **slots);
  if (!*slots) return kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
  for (uint64_t s = 0; s < STRETCHES; s++)
    memcpy(*slots + s * length, rows->slot + (rows->n - length) / (STRETCHES - 1) * s,
           length * sizeof **slots);
  return KV_OK;
}

/* B from the lowest row to the highest. */
static uint64_t span(const kvm_mem_rows *rows) {
  uint64_t low = UINT64_MAX, high = 0;
  for (uint64_t i = 0; i < rows->n; i++) {
    uint64_t first = rows->slot ? (uint64_t)rows->slot[i] : rows->run[i].first,
             last = rows->slot ? first : first + rows->run[i].count;
    if (first < low) low = first;
    if (last > high) high = last;
  }
  return high < low ? 1 : (high - low + 1) * rows->row_bytes;
}

/* Short lists never get under way: there the time counts, less the latency that every list has. What is too
 * little to fill the memory system at all is mostly latency, and that stays in. */
static double busy(const kvm_mem *mem, const kvm_mem_result *r) {
  const kvm_mem_params *p = kvm_mem_params_in(mem);
  double bytes = (double)r->useful_bytes, filled = fmin(1, bytes / (double)kvm_mem_saturating(p));
  double whole = r->seconds - p->latency * filled, streamed = bytes / r->rate;
  return streamed < whole || whole <= 0 ? streamed : whole;
}

/* Fewer rows would not saturate. */
static uint64_t enough_rows(const kvm_mem *mem, const kvm_mem_rows *rows, uint64_t most) {
  uint64_t least = 4 * kvm_mem_saturating(kvm_mem_params_in(mem)) / rows->row_bytes;
  return most && most < least ? least : most;
}

kv_status kvm_mem_scatter(kvm_mem *mem, const kvm_mem_rows *rows, uint64_t most, kvm_mem_gather *g,
                          kv_error *err) {
  kvm_mem_result scattered, whole;
  kvm_mem_rows some = *rows;
  int32_t *slots;
  *g = (kvm_mem_gather){NAN, NAN, NAN, NAN, NAN, 0};
  if (rows->n == 0) return KV_OK;
  if (rows->row_bytes < 1) return kv_fail(err, KV_ERR_USAGE, "memory model: rows of 0 bytes");
  kv_status st = sample(rows, enough_rows(mem, rows, most), &slots, &some.n, err);
  if (st) return st;
  if (slots) some.slot = slots;
  if (!some.footprint) some.footprint = span(rows);
  kvm_mem_flush(mem);
  st = kvm_mem_read(mem, &some, &scattered, err);
  kvm_mem_flush(mem);
  kvm_mem_run one = {0, scattered.rows};
  kvm_mem_rows stretch = *rows;
  stretch.slot = NULL;
  stretch.run = &one;
  stretch.n = 1;
  stretch.footprint = some.footprint;
  if (!st) st = kvm_mem_read(mem, &stretch, &whole, err);
  kvm_mem_flush(mem);
  free(slots);
  if (st || !scattered.rows) return st;
  double a = busy(mem, &scattered), b = busy(mem, &whole), bytes = (double)scattered.useful_bytes;
  *g = (kvm_mem_gather){
      .ceiling = bytes / a, .contiguous = bytes / b, .scatter = a / b, .rows = scattered.rows};
  g->row_hits = (double)scattered.dram.row_hits / (double)scattered.dram.requests;
  g->amplification = (double)scattered.dram_bytes / bytes;
  return KV_OK;
}
