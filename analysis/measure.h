/* measure.h - the attention kernels on a GPU of this machine: the experiments of the design's table, each one
 * option.
 *
 * For a problem (heads, queries, and requests of given prefix lengths) the same queries and the same KV pool
 * are used with the rows in several places: contiguous  slot t of the pool for token t, one request after the
 * other recorded    the slots of a kvlayout-1 file random      slots drawn without replacement from the whole
 * pool (seeded) resident    every slot of `random` replaced by slot mod 64, run warm: no load leaves L1 and
 * L2 (t_resident) All kernels and layouts of a problem are timed in one interleaved series, cold (L2 flushed)
 * and as a captured CUDA graph, from queries to merged output; `resident` in a warm series of its own; with
 * `eager` also launched anew each time; with `replicate` the same request 2, 4, ... times side by side until
 * one wave of blocks fills the GPU: while the time stays flat, idle SMs (placement) are the cause. Scatter is
 * judged by the ratio of a layout's median to contiguous, paired by round.
 *
 * Needs a GPU and a build with nvcc; otherwise KV_ERR_DEVICE says so. That the kernels' results are right is
 * the business of their own tests; here only that an output was written at all (no NaN of the poison is
 * left).
 */
#ifndef KVA_MEASURE_H
#define KVA_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attention.h"
#include "calibration.h"
#include "cupti_counters.h"
#include "kv_status.h"
#include "stats.h"
#include "time_model.h"
#include "verify.h"

typedef enum kva_place {
  KVA_CONTIGUOUS = 0,
  KVA_RECORDED = 1,
  KVA_RANDOM = 2,
  KVA_RESIDENT = 3,
  KVA_PLACES = 4
} kva_place;
const char *kva_place_name(kva_place place); /* "contiguous", ... */

/* How a row was run. */
typedef enum kva_experiment {
  KVA_COLD_GRAPH = 0, /* the figure that counts: L2 cold, replayed graph */
  KVA_COLD_EAGER = 1, /* the same, launched anew each time */
  KVA_WARM_GRAPH = 2, /* resident: t_resident */
  KVA_REPLICATED = 3, /* cold graph with the request `copies` times */
  KVA_EXPERIMENTS = 4
} kva_experiment;
const char *kva_experiment_name(kva_experiment experiment);

/* Requests of a problem. */
typedef struct kva_problem {
  uint32_t batch;
  uint64_t prefix;         /* of every request, unless `lengths` is given */
  const uint64_t *lengths; /* [batch]; NULL: all `prefix` */
  const int32_t *recorded; /* slots of all requests, one after the other; NULL: no recorded layout */
} kva_problem;

#define KVA_COST_SOURCE 400 /* bytes of the text that says what T3 of a layout rests on */
/* What a recorded layout costs where memory binds (T3), and who says so. */
typedef struct kva_layout_cost {
  double scatter;   /* time over that of contiguous rows; 0 or NaN: not known */
  char source[KVA_COST_SOURCE]; /* or why it is not known */
} kva_layout_cost;

struct kva_measured;
typedef struct kva_measure_plan {
  uint32_t heads, queries;
  const kva_problem *problem;
  size_t problems;
  uint64_t pool_rows; /* rows of the KV pool; 0: 2 Mi, or as many as the problems and memory need and allow */
  unsigned kinds;     /* bit k: kvk_kind k; 0: all but merge_state, load_only and mma_only */
  unsigned places;    /* bit p: kva_place p; 0: all that the problem has */
  bool eager, replicate; /* these experiments too */
  bool counters;         /* a counter pass of each cold row, after all timing of its problem */
  int blocks_per_sm;     /* > 0: the split kernels get so many blocks an SM */
  uint32_t smem_limit;   /* > 0: kernels that need more shared memory a block are left out, with a note */
  uint32_t repeats;      /* timed rounds; 0: 50 */
  double problem_limit;  /* s for one series; 0: 20 */
  uint64_t seed;
  kva_layout_cost recorded; /* goes into the points' ladders */
  /* Called after each problem with all that is there so far, e.g. to save it; may be NULL. */
  kv_status (*after)(void *user, const struct kva_measured *measured, kv_error *err);
  void (*before_series)(void *user); /* called before each timed series and counter pass; may be NULL */
  void *user;
  int at_once; /* devices that measure at the same time; 0: this one alone */
} kva_measure_plan;

/* One kernel x problem x place x experiment. */
typedef struct kva_measured_row {
  kvk_kind kind;
  kva_place place;
  kva_experiment experiment;
  uint32_t batch, copies;     /* batch includes the copies */
  uint64_t longest, tokens;   /* longest prefix; sum of all */
  kvk_structure structure;    /* what the launch does */
  double useful_bytes;        /* U: KV rows once, queries, outputs, indices */
  double useful_flops;        /* F */
  kva_summary time;           /* s */
  kva_interval to_contiguous; /* median over that of contiguous, paired; NaN for others than cold graph */
  kvk_state state;
  bool throttled;
  bool counted; /* counters are filled in */
  kvk_counters counters;
  double *seconds; /* [time.n], owned */
} kva_measured_row;

typedef struct kva_measured {
  kva_bench_origin origin;
  uint32_t heads, queries;
  uint64_t pool_rows;
  int blocks_per_sm;
  uint32_t smem_limit;
  int at_once;           /* devices measured at the same time, this one included */
  kva_measured_row *row; /* owned */
  size_t rows, room;
  char notes[1024];
  char failure[KV_ERROR_TEXT];
  bool complete;
  kva_layout_cost recorded; /* of the plan */
} kva_measured;

/* Measures on one device. On an error *measured keeps the rows done before it and `failure`; the caller frees
 * it either way. KV_ERR_USAGE: shapes no kernel takes. */
kv_status kva_measure(const kva_measure_plan *plan, int device, kva_measured *measured, kv_error *err);

/* The same on several devices at once, a thread each, in step from series to series as the ranks of tensor
 * parallelism run: measured[i] is device devices[i]'s. `after` is called from the threads, one at a time, with
 * the device's own points; `before_series` is not. The first error is returned; the other devices finish. */
kv_status kva_measure_all(const kva_measure_plan *plan, const int *devices, int count, kva_measured *measured,
                          kv_error *err);

void kva_measured_free(kva_measured *measured); /* safe on a zeroed one */

/* What ceilings the dataset shows and the floor is taken from; NaN where not known. */
typedef struct kva_floor_rates {
  double dram;                    /* B/s */
  double mma_best;                /* FLOP/s of the best matrix instructions */
  const kvm_roofs *roofs;         /* for T1 to T7; NULL: not known */
  const kvm_timing *ranges;       /* what launches cost; NULL: T6 is T7 */
  const kva_calibration *gathers; /* what layouts cost; NULL: T3 of those not contiguous is not known */
} kva_floor_rates;

/* Writes roofline-1: /points has a row a kva_measured_row; `layout` names place and experiment together
 * ("random", "random, eager", "resident, warm"), so that a series of one layout never mixes experiments.
 * Columns beyond the common ones: experiment, copies, to_contiguous, to_contiguous_low, to_contiguous_high,
 * runs, minimum, p10, p90, sm_clock, memory_clock, power, temperature, throttled, and of the counter pass
 * (NaN without) counted_* (issue, stalls, busiest SM); with it dram_bytes, l2_bytes and link_bytes are what
 * was counted, else link_bytes is the structure's, as l1_bytes is where no wavefronts were counted. /layouts has t3_source,
 * who says what T3 of that layout is, or why it is NaN. /samples holds every run. `calibration` (may be NULL) gives /ceilings. `gpu_key` and
 * `dtype`, `layout_source`, `verdict` go into the root attributes; NULL is "". `device`, `pci` and
 * `devices_at_once` there say which card it was and how many were measured together.
 */
typedef struct kva_measured_labels {
  const char *gpu_key, *layout_source, *verdict;
  uint32_t layers;
  const kvm_roofs *roofs;   /* ceilings for T1 to T7 (measure_ladder.h); NULL: they stay unknown */
  const kvm_timing *ranges; /* what launches cost; NULL: T6 is T7 */
  const char *calibration;  /* base name of the file that the ceilings are of; NULL or "": none */
} kva_measured_labels;
kv_status kva_measured_write(const kva_measured *measured, const kva_calibration *calibration,
                             const kva_measured_labels *labels, const char *path, const char *command,
                             kv_error *err);

/* For the tests: fills slots[tokens] for a place. `recorded` is needed for KVA_RECORDED. pool_rows >= tokens
 * for contiguous and random. random and resident draw with mt19937 of `seed`. KV_ERR_USAGE when the pool is
 * too small. */
kv_status kva_place_slots(kva_place place, uint64_t tokens, uint64_t pool_rows, const int32_t *recorded,
                          uint64_t seed, int32_t *slots, kv_error *err);

#endif
