/* synth.h - traces made up from a seed, with fragmentation that is known beforehand: oracles for tests.
 *
 *   contiguous  requests prefill one after another on a fresh pool: every row is one run
 *   comb        requests decode in step: with R of them, slot = first + position * R + request, every run is one row
 *               (R = 1: one run)
 *   blocks      requests prefill in turn, `run` tokens each time: ceil(rows / run) runs a row (R = 1: one)
 *   random      the free list begins as a random order of the whole pool: rows - (rows - 1) / pool runs are expected,
 *               what the seed gave is counted
 *   geometric   requests prefill in turn, lengths drawn from a geometric distribution of mean `run`: 1 + (rows - 1) / run
 *               runs are expected, what the seed gave is counted (R = 1: one; draws that follow each other when all others
 *               have finished make one run)
 *   workload    a random server: hits, prefill, decode, verify trees, slots allocated ahead, finish, eviction,
 *               duplicates, retraction, flush; nothing about runs is known, everything about validity is
 */
#ifndef KVS_SYNTH_H
#define KVS_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "trace.h"

/* ---- a trace in memory ---- */

typedef struct kvs_tape {
  kvt_info info; /* events, slots, steps, requests are kept up to date */
  uint8_t *kind;
  uint32_t *step;
  int32_t *request, *position, *length, *aux;
  uint32_t *count;
  int32_t *slot;
  kvt_step *row;
  uint64_t event_room, slot_room, row_room;
  int32_t *initial; /* info.initial_free entries, or NULL */
  bool failed;      /* out of memory: what follows was dropped */
} kvs_tape;

void kvs_tape_init(kvs_tape *tape, const kvt_info *info);
void kvs_tape_free(kvs_tape *tape);
void kvs_tape_add(kvs_tape *tape, kvt_kind kind, int32_t request, int32_t position, int32_t length, int32_t aux,
                  const int32_t *slots, uint32_t n);
/* Begins a step; its row may be changed until the next one begins: tape->row[tape->info.steps - 1]. */
void kvs_tape_step(kvs_tape *tape, kvt_step_type type, const kvt_step *row);
/* The whole tape as one batch, valid until it changes. */
kvt_batch kvs_tape_batch(const kvs_tape *tape);
/* The same with new requests' rows unknown. `text`: origin. */
kv_status kvs_tape_write(const kvs_tape *tape, const char *path, const kvt_writer_options *options, kvt_writer **writer,
                         kv_error *err);

/* ---- making one ---- */

typedef enum kvs_pattern { KVS_CONTIGUOUS, KVS_COMB, KVS_BLOCKS, KVS_RANDOM, KVS_GEOMETRIC, KVS_WORKLOAD, KVS_PATTERNS } kvs_pattern;
extern const char *const kvs_pattern_name[KVS_PATTERNS];

typedef struct kvs_synth_options {
  kvs_pattern pattern;
  uint64_t seed;
  uint32_t pool;      /* slots */
  uint32_t requests;  /* workload: ignored */
  uint32_t rows;      /* a request */
  uint32_t run;       /* blocks, geometric */
  kvt_allocator allocator; /* workload: token, token-sorted or other; the rest is token */
  uint32_t actions;   /* workload */
} kvs_synth_options;
kvs_synth_options kvs_synth_options_default(void);

/* What is known: runs[r] of request r at the end, counted while it was made (NULL for a workload). */
typedef struct kvs_truth {
  uint64_t *runs;      /* [requests] owned */
  uint32_t requests;
  double expected_runs; /* of a row, by the pattern's formula; NaN for a workload */
} kvs_truth;

/* KV_ERR_USAGE when the rows do not fit the pool. The caller frees both. */
kv_status kvs_synth(const kvs_synth_options *options, kvs_tape *tape, kvs_truth *truth, kv_error *err);
void kvs_truth_free(kvs_truth *truth);

/* The workload, from actions rather than a seed: any subset of actions gives a valid trace, so that a failing one can be
 * made smaller by leaving actions out. */
typedef struct kvs_action {
  uint8_t op;
  uint32_t a, b;
} kvs_action;
void kvs_actions_draw(uint64_t seed, kvs_action *action, uint32_t n);
kv_status kvs_synth_actions(const kvs_synth_options *options, const kvs_action *action, uint32_t n, kvs_tape *tape, kv_error *err);

/* splitmix64: the only source of randomness here. */
uint64_t kvs_random(uint64_t *state);

#endif
