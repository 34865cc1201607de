/* selftest.h - does the tool name what was planted? The planted kernels (planted.h) through the experiments
 * and the attribution that every kernel goes through, judged against what is known of them.
 *
 * A planted cause is named when it has the largest share of its kernel's ladder, and its share beyond the
 * control's is the part of ln(t_planted / t_control) that it must explain.
 *
 * kvplanted-1: root attributes as kvceilings-1 (gpu_name, status, driver, date, sms, clocks, power_limit,
 * seed, complete, failure, notes); /points, one row a kernel and experiment (cold_graph, warm_graph: slots
 * aliased, cold_eager, replicated: `copies` side by side): kernel, what, cause, control, row_bytes, run, the
 * launch as described, useful_bytes, time (median, low, high, minimum, p10, p90), clocks, power, counters of
 * the cold row (NaN: not counted); /samples (point, seconds). Where it was judged, /judged, one row a cold
 * kernel: kernel, planted, named, control, time and control_time with their intervals, share with its, total,
 * gain, realised, worst, t0 .. t7, verdict; and attributes `calibration` (whose ceilings) and `bar`.
 */
#ifndef KVA_SELFTEST_H
#define KVA_SELFTEST_H

#include "attribute.h"
#include "calibration.h"
#include "cupti_counters.h"
#include "planted.h"

#define KVA_PLANTED_CONVENTIONS "kvplanted-1"

typedef enum kva_plant_experiment {
  KVA_PLANT_COLD = 0,
  KVA_PLANT_RESIDENT = 1,
  KVA_PLANT_EAGER = 2,
  KVA_PLANT_REPLICATED = 3,
  KVA_PLANT_EXPERIMENTS = 4
} kva_plant_experiment;
const char *kva_plant_experiment_name(kva_plant_experiment e);

enum { KVA_PLANT_TEXT = 80 };
typedef struct kva_plant_row {
  char kernel[KVA_PLANT_TEXT], what[KVA_PLANT_TEXT], cause[KVA_PLANT_TEXT], control[KVA_PLANT_TEXT];
  uint32_t experiment; /* kva_plant_experiment */
  uint32_t row_bytes, run, copies, counted;
  kvk_structure structure; /* its name is not set */
  double useful_bytes;
  kva_summary time;
  kvk_state state;
  kvk_counters counters;
  double *seconds; /* [time.n], owned */
} kva_plant_row;

typedef struct kva_planted {
  kva_bench_origin origin;
  kva_plant_row *row; /* owned */
  size_t rows, room;
  char notes[1024], failure[KV_ERROR_TEXT];
  bool complete;
} kva_planted;
void kva_planted_free(kva_planted *p); /* safe on a zeroed one */

typedef struct kva_planted_plan {
  uint32_t repeats; /* 0: 25 */
  uint64_t seed;
  bool counters;
  double limit; /* s for one series; 0: 20 */
} kva_planted_plan;
/* Runs all of it on a device. On an error *planted keeps what was done; the caller frees it either way. */
kv_status kva_planted_measure(const kva_planted_plan *plan, int device, kva_planted *planted, kv_error *err);

kv_status kva_planted_write(const kva_planted *planted, const char *path, const char *command, kv_error *err);
/* KV_ERR_INPUT names file and dataset; times must be above 0, and medians those of their samples. On success the caller frees. */
kv_status kva_planted_read(const char *path, kva_planted *planted, kv_error *err);

/* How one kernel was explained. */
typedef struct kva_named {
  const kva_plant_row *row, *control; /* control NULL: it is one */
  kvm_cause planted;                  /* KVM_CAUSES: none */
  kva_attribution a;
  double total;          /* ln(t / t_control) */
  double share;          /* of it, that the planted cause explains; NaN for controls */
  double share_low, share_high; /* 95 % interval, over the ceilings' ranges and a bootstrap of the runs */
  double worst;          /* largest factor of the ladder */
  double gain, realised; /* predicted by the attribution, t / t_control; NaN for controls */
} kva_named;
enum { KVA_MOST_PLANTED = 32 };
/* All cold kernels in their order; returns how many. `calibration` gives the gather ceilings of layouts. */
size_t kva_planted_judge(const kva_planted *planted, const kva_calibration *calibration,
                         const kvm_roofs *roofs, const kvm_timing *ranges, kva_named named[KVA_MOST_PLANTED]);
/* The cause that is named, or "none": no factor of the ladder is above 1.1. Static storage. */
const char *kva_named_cause(const kva_named *named);
/* Whether all planted causes have at least `share` and the right name, and the kernel `copy` no factor above
 * 1.1: KV_OK or KV_ERR_BAR with the first that does not. */
kv_status kva_planted_bar(const kva_named *named, size_t n, double share, kv_error *err);

/* Adds /judged, or puts another in its place, and leaves all else as it was. `command`: NULL where the same
 * run measured. */
typedef struct kva_judgement {
  const kva_named *named;
  size_t n;
  double bar;
  const char *calibration, *command;
} kva_judgement;
kv_status kva_planted_add(const char *from, const char *to, const kva_judgement *judgement, kv_error *err);

#endif
