/* row.h - one request's row: the slot of each token position, kept as runs of neighbouring slots, with the
 * measures of its scatter always up to date.
 *
 * A run is a maximal stretch of positions whose slots rise by one. Addresses are those of one layer:
 * slot * row_bytes from a base aligned to every unit below.
 */
#ifndef KVS_ROW_H
#define KVS_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_status.h"

/* The bytes that a slot stands for and the units its reads are counted in. */
typedef struct kvs_geometry {
  uint32_t row_bytes;      /* bytes of a slot in one layer */
  uint32_t sector_bytes;   /* 32 */
  uint32_t tlb_page_bytes; /* 2 MiB */
  uint32_t dram_row_bytes; /* assumed: address blocks of this size stand for DRAM rows; channel interleaving unknown */
} kvs_geometry;
/* MLA latent 512 + rope 64 in bf16 = 1152 B; 32 B; 2 MiB; 1024 B (HBM3 pseudo-channel page; assumed). */
kvs_geometry kvs_geometry_default(void);

typedef struct kvs_run {
  int32_t start;
  int32_t length;
} kvs_run;

/* Run lengths 1..64 are counted exactly, longer ones in 32 buckets an octave (about 3 %). */
#define KVS_HIST_EXACT 64u
#define KVS_HIST_BUCKETS (KVS_HIST_EXACT + 1u + 32u * 25u)

typedef struct kvs_row {
  kvs_run *run; /* owned; positions 0..rows-1 */
  uint32_t runs, room;
  uint64_t rows;
  int32_t low, high;           /* smallest and largest slot; high < low when empty */
  uint32_t hist[KVS_HIST_BUCKETS]; /* of all runs but the last, which may still grow */
  uint64_t *units;             /* bitmaps, owned: TLB pages, then DRAM rows; NULL: not kept, counted when asked */
  uint64_t page_words;         /* of units, for the TLB pages */
  uint64_t tlb_pages, dram_rows; /* bits set */
} kvs_row;

/* What a sample says about a row; all zero (adjacent 1) for an empty one. */
typedef struct kvs_measure {
  uint64_t rows;
  uint64_t runs;
  double mean_run;          /* rows / runs */
  double run_p10, run_p50, run_p90; /* quantiles over runs: smallest length with at least that share of the runs */
  uint64_t run_max;         /* exact up to 64, else the bucket's top */
  double adjacent_fraction; /* share of neighbouring positions with slot[i+1] == slot[i] + 1; 1 for a single row */
  uint64_t span;            /* largest - smallest slot + 1 */
  uint64_t tlb_pages;       /* distinct TLB pages touched */
  uint64_t sectors;         /* 32-B sectors fetched, each run read as one stretch */
  uint64_t useful_bytes;    /* rows * row_bytes */
  uint64_t dram_rows;       /* distinct address blocks of dram_row_bytes touched */
} kvs_measure;

/* `slots` is the number of slot numbers of the pool (first_slot + pool_size); with keep_units, bitmaps of
 * slots * row_bytes / dram_row_bytes bits are kept so that a sample costs nothing. KV_ERR_MEMORY. */
kv_status kvs_row_init(kvs_row *row, const kvs_geometry *geometry, uint64_t slots, bool keep_units, kv_error *err);
void kvs_row_free(kvs_row *row);

/* Appends the run [start, start + length) at the end, joining it to the last one where it continues it. */
kv_status kvs_row_append(kvs_row *row, const kvs_geometry *geometry, int32_t start, int32_t length, kv_error *err);

/* Replaces the slots of positions position..position+n-1, all within the row. O(runs). */
kv_status kvs_row_replace(kvs_row *row, const kvs_geometry *geometry, uint64_t slots_of_pool, uint64_t position,
                          const int32_t *slots, uint32_t n, kv_error *err);

/* The slots of positions position..position+n-1, all within the row. O(runs). */
void kvs_row_slots(const kvs_row *row, uint64_t position, uint32_t n, int32_t *out);

/* Measures a row. `scratch`: zeroed bitmap of the size kvs_row_init() would keep, left zeroed; needed only for rows
 * without bitmaps of their own (may be NULL then: tlb_pages and dram_rows are 0). */
kvs_measure kvs_row_measure(const kvs_row *row, const kvs_geometry *geometry, uint64_t slots, uint64_t *scratch);

/* 64-bit words of the bitmaps of a row in a pool of `slots` slot numbers. */
uint64_t kvs_row_unit_words(const kvs_geometry *geometry, uint64_t slots);

/* The length that stands for a bucket of the histogram (its largest). */
uint64_t kvs_hist_length(uint32_t bucket);
uint32_t kvs_hist_bucket(uint64_t length);

#endif
