/* layout_write.h - the kvlayout-1 file: the slots that requests' rows lie in, for the kernels. */
#ifndef KVS_LAYOUT_WRITE_H
#define KVS_LAYOUT_WRITE_H

#include <stdint.h>

#include "replay.h"
#include "trace.h"

#define KVS_LAYOUT_CONVENTIONS "kvlayout-1"
#define KVS_ALL_REQUESTS INT32_MIN

typedef struct kvs_layout_options {
  const char *path;     /* output, written aside and renamed */
  const char *command;  /* for the history attribute */
  const char *trace;    /* base name and SHA-256 of the trace */
  const char *sha256;
  int32_t request;      /* a request, or KVS_ALL_REQUESTS for all that run with at least one row */
} kvs_layout_options;

/* Writes the rows of the request(s) as they are now, after the replay's current step or at a milestone in it: `slots` int32, `indptr` uint64
 * [requests + 1], `request` int32, `tree_slots` int32 (where all of them have a verify block of the same size in this
 * step; the row is then the prefix that the verify kernel saw), attributes pool_rows (slot numbers: first_slot +
 * pool_size), page_size, row_bytes, step, trace, trace_sha256.
 * KV_END, and no file, when the request does not run now. */
kv_status kvs_layout_write(const kvs_replay *replay, const kvt_info *info, const kvs_geometry *geometry,
                           const kvs_layout_options *options, kv_error *err);

#endif
