/* serving.h - a model of SGLang's serving loop, so that a workload (arrivals, lengths, shared prefixes) becomes an
 * allocator trace without a GPU.
 *
 * Modelled after SGLang 0.5.9 (February 2026), re-written: first come first served admission with its token budget and
 * new-token ratio, prefill before decode, chunked prefill (one chunked request at a time), radix prefix cache with LRU
 * eviction of whole leaves, decode without speculation, EAGLE v1 (a draft tree's slots taken each step, the rejected
 * ones given back) and v2 (slots allocated ahead, results handled one step late), retraction when the pool is full.
 * Not modelled: overlapped scheduling without speculation (a finished request's one step too many), mixed chunks,
 * priorities, LoRA, HiCache, sliding-window or Mamba pools, disaggregation, several ranks, and v1 with pages (refused).
 *
 * The allocator's order is SGLang's; to see the same schedule under another policy, replay the trace with one (what-if).
 *
 * What a step takes is a parameter, not a prediction: it only sets arrivals against progress. The result is a function
 * of workload, options and seed alone.
 */
#ifndef KVS_SERVING_H
#define KVS_SERVING_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_status.h"
#include "trace.h"
#include "workload.h"

typedef enum kvs_speculation { KVS_SPEC_NONE = 0, KVS_SPEC_V1 = 1, KVS_SPEC_V2 = 2 } kvs_speculation;
const char *kvs_speculation_name(kvs_speculation speculation); /* "none", "v1", "v2"; static */

#define KVS_DRAFT_MOST 64u

/* What one verify step of one request accepts: nodes of its draft block, ascending, the first is node 0 (the token that
 * was certain). v2 uses the count alone. */
typedef struct kvs_accepted {
  uint32_t n; /* 1 .. draft_tokens */
  uint8_t node[KVS_DRAFT_MOST];
} kvs_accepted;

/* The acceptance of verify step number `nth` (from 0) of a request. */
typedef kv_status (*kvs_accept_fn)(void *arg, int32_t request, uint32_t nth, kvs_accepted *accepted, kv_error *err);

typedef struct kvs_serving_options {
  kvt_allocator allocator; /* any but KVT_ALLOC_OTHER; its page kind must fit page_size */
  uint32_t pool_size;      /* slots, a multiple of page_size */
  uint32_t page_size;
  uint32_t chunk;          /* prefill tokens of a step, at most */
  uint32_t max_prefill;    /* SGLang's max_prefill_tokens */
  uint32_t max_running;    /* requests */
  kvs_speculation speculation;
  uint32_t draft_steps, draft_topk, draft_tokens; /* of the tree; tokens include the certain one */
  double acceptance;       /* probability that the likeliest drafted token is right, (0, 1) */
  kvs_accept_fn accept;    /* instead of the acceptance model; NULL: the model */
  void *accept_arg;
  uint64_t seed;
  double time_scale;       /* arrivals are multiplied by it */
  double think_s;          /* a later turn waits at least so long after the start of the step that ended the earlier */
  double prefill_s, prefill_token_s; /* a prefill step takes prefill_s + tokens * prefill_token_s */
  double decode_s, decode_request_s; /* a decode step takes decode_s + requests * decode_request_s */
  double idle_s;           /* how long an idle loop sleeps */
  bool evict_shortfall;    /* evict what is missing; false: as much as is needed (SGLang up to early 2026) */
} kvs_serving_options;
/* Token allocator, 1,048,576 slots, page 1, chunk 8192, max_prefill 16384, 48 running, no speculation (7 steps, top 2,
 * 9 nodes for v1), acceptance .78, seed 1, scale 1, think 2 s, 20 ms + 50 us/token, 22 ms + 0.4 ms/request, idle 50 ms. */
kvs_serving_options kvs_serving_options_default(void);

/* Where the events go, in order; slots are valid during the call. A status other than KV_OK ends the run with it. */
typedef struct kvs_serving_sink {
  void *arg;
  kv_status (*step)(void *arg, kvt_step_type type, const kvt_step *row, kv_error *err);
  kv_status (*event)(void *arg, const kvt_event *event, kv_error *err);
  void (*progress)(void *arg, double fraction); /* may be NULL */
} kvs_serving_sink;

typedef struct kvs_serving_totals {
  uint64_t steps, events, allocated, freed, evicted; /* slots */
  uint64_t prompt_tokens, hit_tokens;                /* of first admissions */
  uint64_t finished, retracted, verify_steps, accepted_tokens;
  double seconds; /* of simulated time */
} kvs_serving_totals;

typedef struct kvs_final_lists {
  int32_t *free_list, *release_list; /* owned by the caller: free() */
  uint32_t free_n, release_n;
} kvs_final_lists;

/* KV_ERR_USAGE: options that cannot be meant. KV_ERR_INPUT: a request that can never fit in the pool (names its row).
 * KV_ERR_MEMORY. `final` may be NULL. */
kv_status kvs_serve(const kvt_workload *workload, const kvs_serving_options *options, const kvs_serving_sink *sink,
                    kvs_serving_totals *totals, kvs_final_lists *final, kv_error *err);

#endif
