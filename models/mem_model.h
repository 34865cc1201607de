/* mem_model.h - what reading rows costs in memory: rows -> 128-byte lines and 32-byte sectors -> TLB -> L2 ->
 * DRAM.
 *
 * The rows of a list are read in its order by warps that each ask for `batch` bytes at once, wait until the
 * last of them has arrived, and take the next piece of the list: `in_flight` bytes are asked for at most. So
 * under-fill (bytes in flight over latency), waiting for the slowest of a batch, the link of an SM, L2 and
 * DRAM limits and the scatter of the list come out of one mechanism. Pieces of one line that follow one
 * another in the list are one request, as a warp would coalesce them.
 *
 * Deterministic. A context is for one thread; no I/O. Times in s, rates in B/s.
 */
#ifndef KVM_MEM_MODEL_H
#define KVM_MEM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "mem_dram.h"
#include "mem_params.h"

typedef struct kvm_mem kvm_mem;

/* Rows `first` to `first + count - 1`, one after the other. */
typedef struct kvm_mem_run {
  uint64_t first, count;
} kvm_mem_run;

/* What is read. Exactly one of slot and run. */
typedef struct kvm_mem_rows {
  const int32_t *slot;    /* [n] rows, none negative */
  const kvm_mem_run *run; /* [n] runs */
  uint64_t n;
  uint32_t row_bytes;   /* 1 to 65536 */
  uint32_t index_bytes; /* of a slot number, read along with each row from a list of its own; 0: none */
  uint64_t base;        /* address of row 0: the layer's buffer */
  uint64_t in_flight;   /* B over the whole chip; 0: kvm_mem_saturating() */
  uint32_t batch;       /* B that a warp asks for at once; 0: 2048, four 16-byte loads a thread */
  uint32_t team;  /* warps of a block that take turns at the list, 512 B (a load) each; 0 or 1: a warp's batch
                     is  one stretch of the list. Needs a batch of a multiple of 512 */
  double address; /* s more for each load of 512 B: addresses that take long to compute */
  double effort;  /* of an SM a byte, in that of a plain gather; 0: 1 */
  uint32_t sms;   /* SMs at work; 0: all */
  uint64_t footprint; /* B that reading comes back to again and again, of which the list is a sample: the TLB
                         then holds its reach of it, a fixed choice of pages. 0: the TLB is followed page by
                         page from where it stands */
} kvm_mem_rows;

typedef struct kvm_mem_result {
  uint64_t rows, useful_bytes; /* row_bytes x rows */
  uint64_t requests;           /* line visits, of the index list too */
  uint64_t sectors;            /* 32-B sectors asked of L2 */
  uint64_t sector_hits;        /* of those, found there */
  uint64_t pages, page_misses; /* changes of page along the list; of those, not in the TLB */
  uint64_t dram_bytes;         /* bursts x burst bytes */
  kvm_dram_counts dram;
  double seconds; /* first request to last byte */
  double rate;    /* useful B/s once the threads are under way; seconds decide where the list is too short */
  double latency; /* s, mean over the requests */
} kvm_mem_result;

/* KV_ERR_MEMORY only. The L2 and the TLB start cold. */
kv_status kvm_mem_create(const kvm_mem_params *params, kvm_mem **mem, kv_error *err);
void kvm_mem_free(kvm_mem *mem); /* NULL is fine */
/* Makes L2 and TLB cold again. Without it they stay as the last list left them (warm). */
void kvm_mem_flush(kvm_mem *mem);
const kvm_mem_params *kvm_mem_params_in(const kvm_mem *mem);

/* Reads the rows. KV_ERR_USAGE: a row size of 0 or more than 65536, a negative slot, a row beyond 480 GiB. No
 * rows: all zero, rate NaN. KV_ERR_MEMORY. */
kv_status kvm_mem_read(kvm_mem *mem, const kvm_mem_rows *rows, kvm_mem_result *result, kv_error *err);

/* Enough bytes in flight that more would not help: three times peak x unloaded latency. */
uint64_t kvm_mem_saturating(const kvm_mem_params *params);

/* ---- ceilings and scatter ---- */

/* One layout's ceiling beside that of the same bytes in one stretch. */
typedef struct kvm_mem_gather {
  double ceiling;       /* B/s of rows (slot numbers not counted) that a saturating gather reaches, L2 cold */
  double contiguous;    /* the same of as many contiguous rows */
  double scatter;       /* time / time of contiguous rows, >= about 1; NaN without rows */
  double row_hits;      /* share of DRAM requests that met an open row */
  double amplification; /* DRAM bytes of rows and slot numbers / useful bytes */
  uint64_t rows;        /* looked at */
} kvm_mem_gather;

/* The ceiling and the scatter factor of a row list on this GPU. Reads at most `most_rows` rows of it (0:
 * all), in stretches spread over the list, but as many as it takes to saturate (24 MB on an H200, some 15
 * ms). The L2 is cold; the TLB holds what its reach allows of `footprint`, by default the span from the
 * lowest to the highest row (give layers x that for a whole model). Flushes before and after. Of a list of a
 * few rows one refresh decides: its factor is chance. Errors as kvm_mem_read(). */
kv_status kvm_mem_scatter(kvm_mem *mem, const kvm_mem_rows *rows, uint64_t most_rows, kvm_mem_gather *gather,
                          kv_error *err);

/* Fills slot[n] with runs of `run` rows (0: contiguous from 0) at random places of a pool, the order a
 * Feistel permutation, no row twice while n <= pool_rows. aligned: run starts at a multiple of `run`, else
 * anywhere (then rows may come twice). Deterministic in seed. */
typedef struct kvm_mem_pattern {
  uint64_t pool_rows; /* >= run, < 2^31 */
  uint32_t run;
  bool aligned;
  uint64_t seed;
} kvm_mem_pattern;
void kvm_mem_layout(const kvm_mem_pattern *pattern, int32_t *slot, uint64_t n);

#endif
