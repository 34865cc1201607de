/* layout.h - where a request's rows lie in the KV pool: kvlayout-1 files, as `kvsim replay --layout-out`
 * writes them.
 *
 * slots int32 (row of the pool each token's KV lies in), indptr uint64 (requests + 1; request i owns
 * slots[indptr[i]:indptr[i+1]]), request int32 (its number in the trace), tree_slots int32 (optional, n_q a
 * request); attributes pool_rows (rows of the KV buffer: every slot is below it), page_size, row_bytes, step,
 * trace, trace_sha256.
 */
#ifndef KVA_LAYOUT_H
#define KVA_LAYOUT_H

#include <stdint.h>

#include "kv_status.h"

typedef struct kva_layout {
  uint64_t requests, tokens, pool_rows, page_size, row_bytes;
  int64_t step; /* -1 if the file does not say */
  char trace[256], trace_sha256[65];
  int32_t *slots;   /* [tokens], each in [0, pool_rows) */
  uint64_t *indptr; /* [requests + 1], from 0 to tokens, never falling */
} kva_layout;

/* Reads and checks every length and index. The file is looked through in a watched child first (kv_guard.h).
 * KV_ERR_INPUT names file, dataset and element. On success the caller frees with kva_layout_free(). */
kv_status kva_layout_read(const char *path, kva_layout *layout, kv_error *err);
void kva_layout_free(kva_layout *layout); /* safe on a zeroed one */

typedef struct kva_layout_stats {
  uint64_t longest;    /* tokens of the longest request */
  uint64_t union_rows; /* distinct slots over all requests */
  uint64_t
      runs; /* over the requests: neighbours with slot[i+1] != slot[i] + 1, plus 1 a request with tokens */
  uint64_t sectors; /* distinct 32-byte sectors of the distinct rows */
} kva_layout_stats;
/* Rows of `row_bytes` one after the other from an aligned base. KV_ERR_MEMORY only. */
kv_status kva_layout_count(const kva_layout *layout, uint32_t row_bytes, kva_layout_stats *stats,
                           kv_error *err);
/* The n distinct slots of all requests in the order of their first use; the caller frees *slots. KV_ERR_MEMORY only. */
kv_status kva_layout_distinct(const kva_layout *layout, int32_t **slots, uint64_t *n, kv_error *err);

#endif
