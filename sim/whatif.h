/* whatif.h - runs a trace's schedule under another policy and counts what it costs and what it buys.
 *
 * One simulation is one pass over the trace with one policy; memory is the policy's (policy.h): per slot of the pool
 * 4 B where + 2 B refs, and 4 B for a FIFO list or 1/8 B for a set, 8 B where idle tokens may be evicted early, 4 B where
 * tokens are moved, 4 B more for relocate-idle; 4 B a row of each running request. For a trace that a replay accepts:
 * what a replay would refuse is refused here too, if it matters here.
 */
#ifndef KVS_WHATIF_H
#define KVS_WHATIF_H

#include <stdbool.h>
#include <stdint.h>

#include "policy.h"
#include "row.h"
#include "trace.h"

#define KVS_COSTS 16u      /* GPUs at a time */
#define KVS_MAP_CELLS 2048u
#define KVS_ORACLE_GROUP 64u

/* What bytes cost on one GPU. The time to read rows is rows * row_bytes * layers / (read_bandwidth * share()); all of it
 * is memory time: a kernel that something else binds gains less, so what is saved is the most that any kernel could
 * save. */
typedef struct kvs_cost {
  double read_bandwidth; /* B/s, contiguous */
  double copy_bandwidth; /* B/s of traffic; a copy reads and writes, so it moves half as many bytes */
  /* Share of the contiguous bandwidth that rows of row_bytes keep in runs of mean_run; NULL: kvs_gather_share. */
  double (*share)(const void *arg, double row_bytes, double mean_run);
  const void *arg;
} kvs_cost;

/* The simple model: measured on an H200 (HBM3e; 1 GiB gathered from an 8 GiB pool by 16-byte loads, runs at random
 * places), rows of 32 to 1152 B in runs of 1, 2, 4 and 16. Between them linear in the logarithms; beyond runs of 16 what
 * is missing shrinks with the length; rows outside the range are taken as its ends. Modelled for any other memory, and
 * uncalibrated there. */
double kvs_gather_share(const void *arg, double row_bytes, double mean_run);
#define KVS_GATHER_MODEL                                                                                          \
  "modelled: share of the contiguous bandwidth by row size and mean run length, interpolated from a gather "      \
  "measured on an H200; uncalibrated for other memories"

/* A sampled step, after it. */
typedef struct kvs_whatif_sample {
  uint32_t step;
  int64_t time_us;
  kvt_step_type type;
  uint32_t running;
  uint64_t rows, runs;   /* of all running requests */
  double mean_run;       /* rows / runs, 0 without rows */
  uint64_t free, waste;  /* slots; waste: taken, but no token lies there */
  kvs_tally tally;       /* so far */
  bool detail;           /* the following are filled */
  uint64_t empty_runs;   /* stretches of slots without a token, by address */
  uint64_t largest_empty_run;
  double fragmentation;  /* 1 - largest / all slots without a token */
} kvs_whatif_sample;

typedef struct kvs_whatif_options {
  const char *name;       /* of the trace, for messages */
  kvs_policy_settings settings;
  double row_bytes, layers;
  kvs_cost cost[KVS_COSTS];
  uint32_t costs;
  uint32_t every;         /* sample each so many steps, 0: never */
  uint32_t detail_every;  /* of the samples, each so many also in detail, 0: never */
  uint32_t map_step;      /* the pool's map is of this step; 0: of the detailed sample with the most rows */
  void *arg;
  kv_status (*sample)(void *arg, const kvs_whatif_sample *sample, kv_error *err);
  /* The simulation as a trace: events with the policy's slots, steps with a row each. NULL: not wanted. Relocated rows
   * come as KVT_MOVE. */
  kv_status (*tell)(void *arg, const kvt_event *event, const kvt_step *row, kv_error *err);
} kvs_whatif_options;
/* Rows of 1152 B in 61 layers, no cost, no samples. */
kvs_whatif_options kvs_whatif_options_default(void);

typedef struct kvs_whatif_result {
  kvs_tally tally;
  uint64_t steps, decode_steps;
  uint64_t rows, runs;      /* summed over decode steps */
  uint64_t requests;        /* running with at least one row, summed over decode steps */
  uint64_t oracle_runs;     /* oracle only: the bound, in `runs` too */
  double waste_mean, free_mean; /* slots, over all steps */
  uint64_t waste_most, rows_most;
  double read_seconds[KVS_COSTS]; /* all decode steps, all layers */
  double read_floor[KVS_COSTS];   /* the same if every row were one run */
  bool fits;
  uint32_t short_step, short_units;
  uint32_t capacity, page_size;
  uint64_t histogram[KVS_HIST_BUCKETS]; /* run lengths in the detailed samples */
  uint32_t map_step;
  uint32_t map[KVS_MAP_CELLS][3]; /* slots of the cell that hold: the longest row, other running rows, idle tokens */
} kvs_whatif_result;

typedef struct kvs_whatif kvs_whatif;

/* `initial`: info->initial_free entries, or NULL. */
kv_status kvs_whatif_create(const kvt_info *info, const kvs_policy *policy, const kvs_whatif_options *options,
                            const int32_t *initial, kvs_whatif **whatif, kv_error *err);
/* KV_END: the policy could not make room (result.fits is false); no more batches are wanted. KV_ERR_INPUT: the trace
 * contradicts itself. */
kv_status kvs_whatif_batch(kvs_whatif *whatif, const kvt_batch *batch, kv_error *err);
kv_status kvs_whatif_finish(kvs_whatif *whatif, kv_error *err);
void kvs_whatif_free(kvs_whatif *whatif);

const kvs_whatif_result *kvs_whatif_get_result(const kvs_whatif *whatif);
const kvs_world *kvs_whatif_get_world(const kvs_whatif *whatif);

/* The fewest runs that the rows of these holders (committed tokens) can have together, under any policy that lets rows
 * share what the recording let them share, in whole blocks of 64 tokens at least.
 *
 * Every non-empty row has a run. Now take the rows that share their first k full blocks of 64 (k >= 1) and go on through
 * block k + 1, in classes by the tokens of that block. A row without a break from the last slot x of block k to the end of
 * block k + 1 lies in slots x + 1 .. x + 64 there. Two classes differ in some token of the block, and two tokens alive at
 * the same time never lie in one slot; so the rows of all classes but one break between there, and at least
 * (rows - rows of the largest class) breaks are forced. The stretches are disjoint for different k and different
 * shared prefixes, so these add up. It holds for pages of up to 64 too: there, shared blocks of 64 are shared pages, and
 * a copied page end lies within the block. It ignores room: a bound, not a plan. */
uint64_t kvs_oracle_runs(kvs_holder *const *holders, uint32_t n, kv_error *err, kv_status *status);

/* Every slot of a world once: nobody's twice, none lost, free and taken add up. KV_ERR_INTERNAL says what is wrong. For
 * tests; O(pool). */
kv_status kvs_world_check(const kvs_world *world, kv_error *err);

#endif
