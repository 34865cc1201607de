/* serving_state.h - what the parts of the serving loop share; private to sim/serving_*.c. Names follow SGLang's where
 * the thing is SGLang's, so that the two can be held side by side. */
#ifndef KVS_SERVING_STATE_H
#define KVS_SERVING_STATE_H

#include "freelist.h"
#include "serving.h"
#include "serving_accept.h"
#include "serving_radix.h"
#include "serving_text.h"

typedef struct kvs_job {
  int32_t id;
  int32_t successor; /* the next turn, -1 none */
  uint32_t input, max_new;
  kvs_text text;     /* prompt, then answer (with room for an overshoot of v2) */
  int32_t *row;      /* slots by position; NULL while it has none */
  uint32_t out;      /* answer tokens made */
  uint32_t fill, prefix, extend; /* tokens to be in the cache after this prefill; in it before; the difference */
  uint32_t protected_; /* positions whose slots belong to the prefix cache */
  uint32_t committed, allocated; /* positions with a slot: valid, and owned */
  uint32_t verifies;
  int32_t chunked;   /* prefill results to come that do not end the prompt */
  bool finished, retracted;
  kvs_node *last;    /* locked */
} kvs_job;

typedef struct kvs_jobs {
  kvs_job **job;
  uint32_t n, room;
} kvs_jobs;

typedef enum kvs_batch_kind { KVS_BATCH_NONE, KVS_BATCH_PREFILL, KVS_BATCH_DECODE } kvs_batch_kind;

typedef struct kvs_flight { /* a batch whose result is to be handled */
  kvs_batch_kind kind;
  kvs_jobs jobs;
  uint32_t *accepted; /* v2 */
  uint32_t room;
} kvs_flight;

typedef struct kvs_loop {
  kvs_serving_options o;
  const kvs_serving_sink *sink;
  kvs_serving_totals *totals;
  kvs_job *all;
  uint32_t jobs;
  kvs_freelist list;
  kvs_radix radix;
  kvs_accept_model accept;
  /* scheduling */
  kvs_jobs waiting, running, prefill; /* prefill: the newest prefill batch */
  bool full;           /* running.batch_is_full */
  kvs_job *chunked, *prefill_chunked;
  double ratio, ratio_first, ratio_least, ratio_decay;
  kvs_batch_kind last_kind;
  kvs_flight flight[2]; /* of this iteration, and of the one before */
  uint32_t *pending, pending_n; /* heap of requests to come, by ready time */
  double *ready;
  double now;
  /* the trace */
  int32_t call;        /* allocator calls */
  int32_t group;       /* free group: -1 none open */
  int32_t groups;
  bool in_step;
  uint32_t batch_requests, batch_tokens;
  kvt_event *event;    /* of the open step */
  uint32_t events, event_room;
  int32_t *slot;
  uint64_t slots, slot_room;
} kvs_loop;

bool kvs_jobs_push(kvs_jobs *list, kvs_job *job);

/* ---- serving_pool.c: slots and the trace of them ---- */

/* Puts an event into the open step, or hands it on at once between steps; slots are copied. */
kv_status kvs_emit(kvs_loop *s, kvt_event event, kv_error *err);
void kvs_begin_step(kvs_loop *s);
kv_status kvs_end_step(kvs_loop *s, kvt_step_type type, kv_error *err);
uint64_t kvs_available(const kvs_loop *s); /* slots */
/* Evicts from the prefix cache if fewer than `need` slots are available. */
kv_status kvs_make_room(kvs_loop *s, uint64_t need, kv_error *err);
kv_status kvs_give(kvs_loop *s, const kvs_job *job, const int32_t *slots, uint32_t n, kvt_free_reason why, kv_error *err);
void kvs_group_begin(kvs_loop *s);
void kvs_group_end(kvs_loop *s);

/* One allocator call: for each job, slots for the positions from `from(job)` to `to(job)` - 1, written to its row (or
 * for verify blocks, which begin at the committed length, to the row behind it). */
typedef enum kvs_call_kind { KVS_CALL_EXTEND, KVS_CALL_DECODE, KVS_CALL_VERIFY, KVS_CALL_AHEAD } kvs_call_kind;
kv_status kvs_call(kvs_loop *s, const kvs_jobs *jobs, kvs_call_kind kind, kv_error *err);

/* ---- serving_schedule.c: who runs ---- */
kv_status kvs_next_batch(kvs_loop *s, kvs_batch_kind *kind, kv_error *err);

/* ---- serving_batch.c: what running does ---- */
kv_status kvs_prepare_prefill(kvs_loop *s, kv_error *err);
kv_status kvs_prepare_decode(kvs_loop *s, kv_error *err);
kv_status kvs_run_batch(kvs_loop *s, kvs_batch_kind kind, kvs_flight *flight, kv_error *err);
kv_status kvs_process(kvs_loop *s, kvs_flight *flight, kv_error *err);
kv_status kvs_cache_unfinished(kvs_loop *s, kvs_job *job, kv_error *err);
kv_status kvs_release(kvs_loop *s, kvs_job *job, bool insert, kv_error *err);

/* ---- serving.c ---- */
kv_status kvs_schedule_successor(kvs_loop *s, const kvs_job *job, kv_error *err);

#endif
