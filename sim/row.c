#include "row.h"

#include <stdlib.h>
#include <string.h>

kvs_geometry kvs_geometry_default(void) {
  return (kvs_geometry){.row_bytes = 1152, .sector_bytes = 32, .tlb_page_bytes = 2u << 20, .dram_row_bytes = 1024};
}

/* ---- histogram of run lengths ---- */

uint32_t kvs_hist_bucket(uint64_t length) {
  if (length <= KVS_HIST_EXACT) return (uint32_t)length;
  uint32_t octave = 63 - (uint32_t)__builtin_clzll(length); /* >= 6 */
  uint32_t sub = (uint32_t)((length >> (octave - 5)) & 31);
  return KVS_HIST_EXACT + 1 + (octave - 6) * 32 + sub;
}

uint64_t kvs_hist_length(uint32_t bucket) {
  if (bucket <= KVS_HIST_EXACT) return bucket;
  uint32_t octave = 6 + (bucket - KVS_HIST_EXACT - 1) / 32, sub = (bucket - KVS_HIST_EXACT - 1) % 32;
  return ((32ull + sub + 1) << (octave - 5)) - 1;
}

static uint64_t quantile(const kvs_row *row, uint32_t last, double share) {
  uint64_t need = (uint64_t)(share * (double)row->runs), seen = 0;
  if ((double)need < share * (double)row->runs) need++;
  if (!need) need = 1;
  for (uint32_t b = 1; b < KVS_HIST_BUCKETS; b++) {
    seen += row->hist[b] + (b == last);
    if (seen >= need) return kvs_hist_length(b);
  }
  return 0;
}

/* ---- bitmaps ---- */

static uint64_t page_words(const kvs_geometry *g, uint64_t slots) {
  return slots * g->row_bytes / g->tlb_page_bytes / 64 + 1;
}

uint64_t kvs_row_unit_words(const kvs_geometry *g, uint64_t slots) {
  return page_words(g, slots) + slots * g->row_bytes / g->dram_row_bytes / 64 + 1;
}

/* Sets bits [from, to]; returns how many were not set before. */
static uint64_t set_range(uint64_t *bits, uint64_t from, uint64_t to) {
  uint64_t fresh = 0;
  for (uint64_t w = from / 64; w <= to / 64; w++) {
    uint64_t low = w == from / 64 ? from % 64 : 0, high = w == to / 64 ? to % 64 : 63;
    uint64_t mask = (~0ull << low) & (~0ull >> (63 - high));
    fresh += (uint64_t)__builtin_popcountll(mask & ~bits[w]);
    bits[w] |= mask;
  }
  return fresh;
}

static void clear_range(uint64_t *bits, uint64_t from, uint64_t to) {
  for (uint64_t w = from / 64; w <= to / 64; w++) bits[w] = 0;
}

typedef struct bytes {
  uint64_t first, last;
} bytes;

static bytes run_bytes(const kvs_geometry *g, int32_t start, int32_t length) {
  uint64_t from = (uint64_t)start * g->row_bytes;
  return (bytes){from, from + (uint64_t)length * g->row_bytes - 1};
}

static void mark_units(kvs_row *row, const kvs_geometry *g, int32_t start, int32_t length) {
  bytes b = run_bytes(g, start, length);
  row->tlb_pages += set_range(row->units, b.first / g->tlb_page_bytes, b.last / g->tlb_page_bytes);
  row->dram_rows += set_range(row->units + row->page_words, b.first / g->dram_row_bytes, b.last / g->dram_row_bytes);
}

/* ---- the row ---- */

kv_status kvs_row_init(kvs_row *row, const kvs_geometry *g, uint64_t slots, bool keep_units, kv_error *err) {
  memset(row, 0, sizeof *row);
  row->low = INT32_MAX;
  row->high = -1;
  if (!keep_units) return KV_OK;
  row->page_words = page_words(g, slots);
  row->units = calloc(kvs_row_unit_words(g, slots), sizeof *row->units);
  return row->units ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory for a request's row");
}

void kvs_row_free(kvs_row *row) {
  free(row->run);
  free(row->units);
  row->run = NULL;
  row->units = NULL;
}

static kv_status grow(kvs_row *row, kv_error *err) {
  uint32_t room = row->room ? row->room + row->room / 2 : 16;
  kvs_run *run = realloc(row->run, room * sizeof *run);
  if (!run) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a request's row");
  row->run = run;
  row->room = room;
  return KV_OK;
}

kv_status kvs_row_append(kvs_row *row, const kvs_geometry *g, int32_t start, int32_t length, kv_error *err) {
  kvs_run *last = row->runs ? &row->run[row->runs - 1] : NULL;
  if (last && last->start + last->length == start) {
    last->length += length;
  } else {
    if (row->runs == row->room) {
      kv_status st = grow(row, err);
      if (st) return st;
      last = row->runs ? &row->run[row->runs - 1] : NULL;
    }
    if (last) row->hist[kvs_hist_bucket((uint64_t)last->length)]++;
    row->run[row->runs++] = (kvs_run){start, length};
  }
  row->rows += (uint64_t)length;
  if (start < row->low) row->low = start;
  if (start + length - 1 > row->high) row->high = start + length - 1;
  if (row->units) mark_units(row, g, start, length);
  return KV_OK;
}

void kvs_row_slots(const kvs_row *row, uint64_t position, uint32_t n, int32_t *out) {
  uint64_t at = 0;
  for (uint32_t r = 0; r < row->runs && n; r++) {
    uint64_t length = (uint64_t)row->run[r].length;
    if (position < at + length) {
      uint64_t skip = position - at, take = length - skip < n ? length - skip : n;
      for (uint64_t i = 0; i < take; i++) *out++ = row->run[r].start + (int32_t)(skip + i);
      n -= (uint32_t)take;
      position += take;
    }
    at += length;
  }
}

kv_status kvs_row_replace(kvs_row *row, const kvs_geometry *g, uint64_t pool, uint64_t position, const int32_t *slots,
                          uint32_t n, kv_error *err) {
  /* Rare (REMAP): the row is built anew from its slots. */
  kvs_row fresh;
  uint64_t rows = row->rows;
  int32_t *all = malloc(rows * sizeof *all + 1);
  kv_status st = kvs_row_init(&fresh, g, pool, row->units != NULL, err);
  if (!all) st = kv_fail(err, KV_ERR_MEMORY, "out of memory for a request's row");
  if (!st) {
    kvs_row_slots(row, 0, (uint32_t)rows, all);
    memcpy(all + position, slots, n * sizeof *slots);
  }
  for (uint64_t i = 0; i < rows && !st; i++) st = kvs_row_append(&fresh, g, all[i], 1, err);
  free(all);
  if (st) {
    kvs_row_free(&fresh);
    return st;
  }
  kvs_row_free(row);
  *row = fresh;
  return KV_OK;
}

static uint64_t count_sectors(const kvs_row *row, const kvs_geometry *g) {
  if (g->row_bytes % g->sector_bytes == 0) return row->rows * (g->row_bytes / g->sector_bytes);
  uint64_t sectors = 0;
  for (uint32_t r = 0; r < row->runs; r++) {
    bytes b = run_bytes(g, row->run[r].start, row->run[r].length);
    sectors += b.last / g->sector_bytes - b.first / g->sector_bytes + 1;
  }
  return sectors;
}

static void count_units(const kvs_row *row, const kvs_geometry *g, uint64_t slots, uint64_t *scratch, kvs_measure *m) {
  uint64_t *pages = scratch, *dram = scratch + page_words(g, slots);
  for (uint32_t r = 0; r < row->runs; r++) {
    bytes b = run_bytes(g, row->run[r].start, row->run[r].length);
    m->tlb_pages += set_range(pages, b.first / g->tlb_page_bytes, b.last / g->tlb_page_bytes);
    m->dram_rows += set_range(dram, b.first / g->dram_row_bytes, b.last / g->dram_row_bytes);
  }
  for (uint32_t r = 0; r < row->runs; r++) {
    bytes b = run_bytes(g, row->run[r].start, row->run[r].length);
    clear_range(pages, b.first / g->tlb_page_bytes, b.last / g->tlb_page_bytes);
    clear_range(dram, b.first / g->dram_row_bytes, b.last / g->dram_row_bytes);
  }
}

static uint64_t longest(const kvs_row *row, uint32_t last) {
  uint32_t b = KVS_HIST_BUCKETS - 1;
  while (b > 1 && !row->hist[b] && b != last) b--;
  return kvs_hist_length(b);
}

kvs_measure kvs_row_measure(const kvs_row *row, const kvs_geometry *g, uint64_t slots, uint64_t *scratch) {
  kvs_measure m = {.adjacent_fraction = 1};
  if (!row->rows) return m;
  uint32_t last = kvs_hist_bucket((uint64_t)row->run[row->runs - 1].length);
  m.rows = row->rows;
  m.runs = row->runs;
  m.mean_run = (double)m.rows / (double)m.runs;
  m.run_p10 = (double)quantile(row, last, 0.1);
  m.run_p50 = (double)quantile(row, last, 0.5);
  m.run_p90 = (double)quantile(row, last, 0.9);
  m.run_max = longest(row, last);
  if (m.rows > 1) m.adjacent_fraction = (double)(m.rows - m.runs) / (double)(m.rows - 1);
  m.span = (uint64_t)(row->high - row->low) + 1;
  m.useful_bytes = m.rows * g->row_bytes;
  m.sectors = count_sectors(row, g);
  m.tlb_pages = row->tlb_pages;
  m.dram_rows = row->dram_rows;
  if (!row->units && scratch) count_units(row, g, slots, scratch, &m);
  return m;
}
