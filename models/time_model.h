/* time_model.h - the time of a declared kernel on a problem and a GPU: T5, T6 and T7 of the ladder, by
 * relaxation.
 *
 * One SM is run (time_sm.h) with as many blocks as the launch gives the busiest SM, against its share of
 * link, L2 and memory; waves, the longest block, the merge and the launches are added. Nothing is fitted to
 * an attention kernel: latencies and rates come from a calibration by microbenchmarks, else from the GPU's
 * description, else from models/pipes/, each with a range that the prediction's interval carries.
 *
 *     T5 = max(T4, kernel with every row and index in the L2)      T6 = kernel with misses
 *     T7 = T6 + launch + further launches + merge of the partial results
 */
#ifndef KVM_TIME_MODEL_H
#define KVM_TIME_MODEL_H

#include "gpu.h"
#include "time_kernel.h"

typedef enum kvm_parameter {
  KVM_P_CLOCK,      /* Hz, SM, without matrix instructions */
  KVM_P_MMA_CLOCK,  /* Hz, SM, while it runs matrix instructions: GPUs slow down for them */
  KVM_P_L1_LATENCY, /* cycles, as all latencies */
  KVM_P_L2_LATENCY,
  KVM_P_DRAM_LATENCY,
  KVM_P_SMEM_LATENCY,
  KVM_P_SHUFFLE_LATENCY,
  KVM_P_MMA_LATENCY,
  KVM_P_SFU_LATENCY,
  KVM_P_BARRIER_LATENCY,
  KVM_P_LDMATRIX_LATENCY,
  KVM_P_MBARRIER_LATENCY,
  KVM_P_MBARRIER_HOP,
  KVM_P_BRANCH_LATENCY,
  KVM_P_COPY_CYCLES, /* a warp's cp.async of 16 B a lane keeps the SM's copy unit, where that is slower than
                        the link */
  KVM_P_MMA_DELAY,   /* cycles by which an instruction that is no mma delays its scheduler's matrix unit */
  KVM_P_COLD_CODE,   /* cycles an instruction takes longer when it comes out of the memory, run for the first time */
  KVM_P_MMA_RATE,    /* FLOP/s of one SM, mma.sync bf16 */
  KVM_P_WAVE_RATE,   /* B/s of one SM's L1/shared-memory pipe */
  KVM_P_SFU_RATE,    /* results a cycle and SM */
  KVM_P_SM_LINK,     /* B a cycle of one SM alone */
  KVM_P_L2_RATE,     /* B/s of the chip, every SM its own lines */
  KVM_P_LINK_RATE,   /* B/s of the chip, all SMs the same lines */
  KVM_P_DRAM_RATE,   /* B/s of the chip */
  KVM_P_LINE,        /* B that memory hands out at least */
  KVM_P_LAUNCH,      /* s, one kernel */
  KVM_P_NEXT_LAUNCH, /* s, each further kernel of a stream or graph */
  KVM_P_MODEL,       /* 1: the model's own error, as a standard deviation of ln t */
  KVM_PARAMETERS
} kvm_parameter;
const char *kvm_parameter_name(kvm_parameter p); /* "l2_latency" */

typedef struct kvm_estimate {
  double value, low, high; /* NaN: not known */
  kvm_kind kind;
  const char *source; /* static, or the description's storage */
} kvm_estimate;

typedef struct kvm_timing {
  kvm_estimate p[KVM_PARAMETERS];
  double sms, mma_best; /* SMs; chip's best matrix rate, FLOP/s */
  double near_bytes;    /* B of an SM that shared memory and L1 have between them, at least: smem_per_sm */
} kvm_timing;

/* From the description, then `pipes` (NULL: none), then the roofs. A latency that a description has in
 * nanoseconds alone (l2_latency_ns, dram_latency_ns) is taken at its boost clock. A value without a range
 * gets one by its kind: measured and spec 5 %, inference 10 %, from memory 20 %; a memory rate of a data
 * sheet reaches down to 80 %, as published measurements are 78 to 98 % of it. */
kvm_timing kvm_timing_of(const kvm_gpu *gpu, const kvm_gpu *pipes, const kvm_roofs *roofs);
/* Of the descriptions in models/pipes/ the one for architecture sm, else the highest below it, else the
 * lowest; NULL for an empty set. */
const kvm_gpu *kvm_pipes_find(const kvm_gpus *pipes, int sm);
/* Puts a calibrated value in. */
void kvm_timing_set(kvm_timing *t, kvm_parameter p, double value, double low, double high,
                    const char *source);
/* Gives the roofs one SM's link rate where the description has none: the most that the pipes' file says of
 * it, and the chip's from that. */
void kvm_roofs_complete(kvm_roofs *roofs, const kvm_timing *t);
/* The first parameter that is needed and not known; KVM_PARAMETERS when all are. */
kvm_parameter kvm_timing_missing(const kvm_timing *t);

/* Executed work of a declared kernel: kvm_structure_work(), with what its programs count where it has any
 * for rows of this size. */
kvm_work kvm_declared_work(const kvm_declared *kernel, const kvm_verify *problem, const kvm_gpu *gpu);

/* Simulations already made; several predictions of one run share one. Zero it before use. */
typedef struct kvm_time_memo {
  struct kvm_memo_row *row;
  size_t rows, room;
} kvm_time_memo;
void kvm_time_memo_free(kvm_time_memo *memo);

typedef enum kvm_cause {
  KVM_C_PATH,
  KVM_C_WORK,
  KVM_C_SCATTER,
  KVM_C_PLACEMENT,
  KVM_C_SERIAL,
  KVM_C_MEMORY,
  KVM_C_OVERHEAD,
  KVM_CAUSES
} kvm_cause;
const char *kvm_cause_name(kvm_cause c); /* "path", "work", ...; cause i lies between T_i and T_(i+1) */

typedef struct kvm_prediction {
  bool known; /* false: no program for these rows, does not fit, or a parameter is missing; all else is NaN
                 then */
  double resident, aliased, cold; /* s, the kernel: nothing misses, slot numbers miss, rows too */
  double cold_low, cold_high;     /* s, `cold` at the ends of the layout's scatter; = cold without a range */
  double whole;                   /* s, T7 */
  double low,
      high; /* of whole, one standard deviation of every parameter's range taken together, times 1.96; the scatter's range goes
               to either side by what lies there */
  double merge, launches;        /* s within whole */
  double copying;                /* s that the busiest SM's cp.async take at their best rate */
  double copying_even;           /* the same, were they spread evenly over all SMs */
  kvm_sm_time steady;            /* cold */
  double gain[KVM_CAUSES];       /* whole / whole with that cause alone removed */
  double effect[KVM_PARAMETERS]; /* |d ln whole| from one end of the range to the middle */
  kvm_parameter dominating;
} kvm_prediction;

/* `scatter`: memory rate of a contiguous layout over that of this one (1); scatter_low, scatter_high: the ends of what is
 * assumed of it, 0 for none. `gains`, `interval`: wanted too.
 * Errors are those of kvm_sm_run(). */
typedef struct kvm_question {
  const kvm_declared *kernel;
  const kvm_verify *problem;
  const kvm_work *work;
  const kvm_useful *useful;
  const kvm_timing *timing;
  double scatter;
  bool gains, interval;
  double scatter_low, scatter_high;
} kvm_question;
kv_status kvm_predict(const kvm_question *question, kvm_time_memo *memo, kvm_prediction *prediction,
                      kv_error *err);

/* Puts T5, T6, T7 into a ladder of T0 to T4; T4 rises where one SM's cp.async take longer than what it knows
 * of (the link of one SM is said to bind then). The prediction's lower end rises to T4, and its gain of
 * exposed memory falls to what T5 leaves: no time is below what the work needs. */
void kvm_ladder_time(kvm_ladder *ladder, kvm_prediction *prediction);

#endif
