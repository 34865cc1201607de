/* whatif_run.h - several what-if simulations of one trace, each in a process of its own, and what they come to. */
#ifndef KVS_WHATIF_RUN_H
#define KVS_WHATIF_RUN_H

#include "whatif.h"

#define KVS_SAMPLES_MOST 1024u
#define KVS_EFFECT 0.01 /* less than so much of the reading time is no effect */

/* One simulation: what is asked, and what came of it. */
typedef struct kvs_cell {
  const kvs_policy *policy;
  kvs_policy_settings settings;
  uint32_t map_step;          /* as in kvs_whatif_options */
  uint32_t trace;             /* number of its trace, for whoever has several */
  /* filled by kvs_cells_run */
  bool done;
  kv_status status;           /* KV_ERR_USAGE: the policy cannot be applied to this trace (text in err) */
  kv_error err;
  kvs_whatif_result result;
  uint64_t list_mismatches;   /* as-recorded: entries of the final lists that differ from the recording's */
  bool list_compared;
  uint64_t memory_bytes;      /* peak resident memory of the simulating process, 0 unknown */
  double seconds;             /* processor time of the simulating process, its reader apart */
  uint32_t samples;
  kvs_whatif_sample sample[KVS_SAMPLES_MOST];
} kvs_cell;

typedef struct kvs_cells_options {
  const char *path;           /* of the trace */
  kvs_whatif_options whatif;  /* every, detail_every, costs, geometry; the rest is the cells' */
  unsigned jobs;              /* processes at a time, 0: one */
  void *arg;
  void (*progress)(void *arg, double fraction); /* may be NULL; called by the parent a few times a second */
  void (*finished)(void *arg, const kvs_cell *cell); /* may be NULL; in the parent, as they end */
} kvs_cells_options;

/* `n` cells in memory of kv_guard_share() (so that children can write there). A failure of the trace itself (KV_ERR_INPUT,
 * KV_ERR_IO, KV_ERR_MEMORY) ends all; a policy that cannot be applied or does not fit ends only its own cell. Touches no
 * HDF5 in this process. */
kv_status kvs_cells_run(kvs_cell *cells, uint32_t n, const kvs_cells_options *options, kv_error *err);

/* What a policy costs and buys beside the baseline, over the whole trace, on one GPU. Seconds; all NaN where it does not fit. */
typedef struct kvs_judgement {
  double read;        /* reading the rows in all decode steps */
  double moved_bytes; /* relocated and compacted rows, all layers, and those of drafts; each is read and written */
  double move;        /* time of that at the copy bandwidth */
  double recompute;   /* refilled tokens x time a token */
  double saved, saved_step; /* against the baseline; a decode step */
  double net;         /* saved - (move + recompute), minus the same of the baseline */
  double break_even;  /* decode steps until what is saved has paid: cost / saved_step; NaN when nothing is saved, 0
                         when nothing is paid */
  const char *verdict; /* "baseline", "do it", "don't", "no effect", "does not fit", "bound" */
} kvs_judgement;

typedef struct kvs_prices {
  double row_bytes, layers;
  double draft_layers;   /* of the draft model, with rows of the same size: what its branches' copies take */
  double copy_bandwidth; /* B/s of traffic */
  double token_seconds;  /* to compute one refilled token again */
  double effect;         /* KVS_EFFECT */
} kvs_prices;

/* `cost`: number of the cost in the simulations' options. `baseline` NULL: nothing to compare with. */
kvs_judgement kvs_judge(const kvs_cell *cell, const kvs_cell *baseline, uint32_t cost, const kvs_prices *prices);

#endif
