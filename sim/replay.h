/* replay.h - runs a trace's events over a pool, holds them against each other and against the allocator's own order,
 * and tells an observer what the pool and every running request look like.
 *
 * What is checked: a slot handed out must be free and, unless the allocator is "other", the very one at the head of
 * the modelled free list; a slot freed must be allocated; an evicted or rejected slot must not be held by a running
 * row; positions must continue a row; requests must arrive, start and end in order; where the recording says how many
 * slots were available after a step, it must be as many as here.
 */
#ifndef KVS_REPLAY_H
#define KVS_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "freelist.h"
#include "pool.h"
#include "row.h"
#include "trace.h"

typedef struct kvs_replay kvs_replay;

/* The pool after a sampled step. */
typedef struct kvs_pool_sample {
  uint32_t step;
  kvt_step_type type;
  kvt_step recorded;       /* the row of /steps */
  uint32_t running;        /* requests */
  uint64_t live_rows;      /* rows of all running requests, shared ones counted for each */
  uint64_t allocated;      /* slots */
  uint64_t live;           /* slots held by at least one running row, or in an open draft tree */
  uint64_t cached;         /* allocated - live */
  uint64_t free;
  uint64_t free_runs_address; /* stretches of free slots by address */
  uint64_t largest_free_run;  /* slots */
  uint64_t free_runs_list;    /* stretches in the order in which slots (pages) would be handed out; 0 if unknown */
  double fragmentation;       /* kvs_fragmentation() */
  double mean_run;            /* live_rows / runs of all running rows; 0 without rows */
} kvs_pool_sample;

/* A request at one of its milestones: "prefill_end" (the batch that completes its prompt is done; before the row is
 * inserted in the prefix cache), "decode_N" for N = 1, 2, 4, ... 512 (its N-th decode or verify step in which it has at least milestone_rows rows; after that step's
 * commit, before it where slots are allocated ahead), "finish" (before release; where slots are allocated ahead,
 * before the last commit; only for requests that speculate), "end" (still running when the trace ends). */
typedef struct kvs_milestone {
  int32_t request;
  uint32_t step;
  char event[24];
  uint64_t rows, runs, span;
  double mean_run, adjacent_fraction;
  const kvs_row *row; /* as it is now: for decode-ahead finishes one commit further; valid during the call */
} kvs_milestone;

/* Called during kvs_replay_batch(); a status other than KV_OK ends the replay with it. Any may be NULL. */
typedef struct kvs_observer {
  void *arg;
  /* After every options.every-th step (and the last): the pool, then each running request in order of its start. */
  kv_status (*pool)(void *arg, const kvs_pool_sample *sample, kv_error *err);
  kv_status (*request)(void *arg, uint32_t step, int32_t request, const kvs_measure *measure, kv_error *err);
  kv_status (*milestone)(void *arg, const kvs_milestone *milestone, kv_error *err);
  /* After every step, sampled or not; `replay` may be read. */
  kv_status (*step_end)(void *arg, const kvs_replay *replay, uint32_t step, kv_error *err);
} kvs_observer;

typedef struct kvs_replay_options {
  const char *name;       /* of the trace, for messages */
  kvs_geometry geometry;
  uint32_t every;         /* sample each so many steps; 0: never */
  uint64_t milestone_rows; /* 16384: see kvs_milestone */
  bool permissive;        /* count inconsistent events and skip them */
  bool follow_order;      /* hold allocations against the allocator's order */
  uint64_t bitmap_bytes;  /* memory for rows' bitmaps; rows beyond are scanned at each sample (32 MiB) */
  kvs_observer observer;
} kvs_replay_options;
kvs_replay_options kvs_replay_options_default(void);

typedef struct kvs_replay_totals {
  uint64_t events[KVT_KINDS], slots[KVT_KINDS];
  uint64_t allocated, freed; /* slots: the slot operations */
  uint64_t steps;
  uint64_t skipped;          /* inconsistent events, with permissive */
  bool order_lost;           /* permissive: the allocator's order was given up */
  char first_fault[KV_ERROR_TEXT]; /* of the first skipped event */
  uint64_t started, finished, retracted;
} kvs_replay_totals;

/* Memory that replaying this trace takes at its peak, the final state's copies included, as far as the pool decides it: B. */
uint64_t kvs_replay_bytes(const kvt_info *info, const kvs_replay_options *options);

/* `initial`: info->initial_free entries of /initial/free_list, or NULL. */
kv_status kvs_replay_create(const kvt_info *info, const kvs_replay_options *options, const int32_t *initial,
                            kvs_replay **replay, kv_error *err);
/* Runs the events of a batch. KV_ERR_INPUT names the file, dataset, element and what is wrong. */
kv_status kvs_replay_batch(kvs_replay *replay, const kvt_batch *batch, kv_error *err);
/* After the last batch: the last step's sample and the "end" milestones. */
kv_status kvs_replay_finish(kvs_replay *replay, kv_error *err);
void kvs_replay_free(kvs_replay *replay);

/* Views, valid until the next call that runs events. */
const kvs_replay_totals *kvs_replay_get_totals(const kvs_replay *replay);
const kvs_pool *kvs_replay_get_pool(const kvs_replay *replay);
const kvs_freelist *kvs_replay_get_freelist(const kvs_replay *replay);
uint32_t kvs_replay_step(const kvs_replay *replay);
/* The pool as it is now. */
kvs_pool_sample kvs_replay_sample(const kvs_replay *replay);
/* The running requests in order of their start: number `i` of kvs_replay_running(). Valid rows only. */
uint32_t kvs_replay_running(const kvs_replay *replay);
const kvs_row *kvs_replay_row(const kvs_replay *replay, uint32_t i, int32_t *request);
/* The slots of the running request's verify block of this step: *n of them behind a prefix of *prefix rows (what the
 * verify kernel saw: the step's own commits come behind it). NULL when the step has none. */
const int32_t *kvs_replay_tree(const kvs_replay *replay, uint32_t i, uint32_t *n, uint64_t *prefix);

#endif
