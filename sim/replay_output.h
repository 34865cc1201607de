/* replay_output.h - the kvsim-1 dataset of a replay, and what the report and the table on stdout need of it. */
#ifndef KVS_REPLAY_OUTPUT_H
#define KVS_REPLAY_OUTPUT_H

#include <stdio.h>

#include "replay.h"
#include "trace.h"

#define KVS_CONVENTIONS "kvsim-1"
#define KVS_SCATTERED 8

/* One of the most scattered requests, at its most scattered milestone of at least 1,024 rows. */
typedef struct kvs_scattered {
  kvs_milestone at;   /* at.row is not valid any more */
  uint64_t *length;   /* [lengths] run lengths, ascending */
  uint64_t *count;    /* [lengths] runs of that length */
  uint32_t lengths;
} kvs_scattered;

typedef struct kvs_output kvs_output;

typedef struct kvs_output_options {
  const char *path;    /* of the dataset */
  const char *command; /* for the history attribute */
  const char *trace;   /* base name */
  const char *sha256;
  uint32_t every;
  FILE *milestones;    /* each milestone is written here as one JSON object a line; NULL: not */
} kvs_output_options;

/* Begins the dataset and fills `observer` so that a replay writes into it. The caller ends it with
 * kvs_output_finish(), which writes what is left (final state, scattered requests, verdict) and renames the file, or
 * with kvs_output_abandon(), which leaves nothing behind. */
kv_status kvs_output_open(const kvs_output_options *options, const kvt_info *info, const kvs_geometry *geometry,
                          kvs_output **output, kvs_observer *observer, kv_error *err);
kv_status kvs_output_finish(kvs_output *output, const kvs_replay *replay, kv_error *err);
void kvs_output_abandon(kvs_output *output);

/* Views for the table: the most scattered requests, worst first, the last pool sample, the verdict (after finish).
 * Valid until kvs_output_free(), which must follow finish or abandon. */
uint32_t kvs_output_scattered(const kvs_output *output, const kvs_scattered **list);
const kvs_pool_sample *kvs_output_last(const kvs_output *output);
const char *kvs_output_verdict(const kvs_output *output);
void kvs_output_free(kvs_output *output);

#endif
