/* cupti_counters.h - hardware counters of one operation: what crossed DRAM, L2 and the L2-to-SM links,
 * shared-memory wavefronts, issue slots and stalls, summed over the GPU and of its busiest SM.
 *
 * CUPTI's range profiler (CUDA 12.6 and later) is loaded at run time with prototypes of our own: neither its
 * header nor the library is needed to build. Where it is not there, or the driver keeps counters to
 * administrators (ERR_NVGPUCTRPERM), opening says so and everything else goes on without counters. Sources:
 * the CUPTI reference, "Range Profiling API" and "Profiler Host API" (docs.nvidia.com/cupti); metric names as
 * Nsight Compute lists them for compute capability 8.0 and later.
 *
 * How it counts: every kernel of the operation is a range of its own and is replayed, its memory restored in
 * between, once a pass. So caches are warm from the pass before: DRAM and L2-hit figures of data that fits
 * into the L2 are lower than in a cold run; link bytes, wavefronts and instructions do not depend on it.
 * Never time while counting.
 */
#ifndef KVK_CUPTI_COUNTERS_H
#define KVK_CUPTI_COUNTERS_H

#include "harness.h"
#include "kv_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Summed over the kernels of the operation; `_max` sums each kernel's busiest SM, `_percent` weighs by each
 * kernel's cycles. NaN where this GPU or driver does not give it. */
typedef struct kvk_counters {
  double dram_read, dram_write; /* B */
  double l2_read;               /* B read from L2 by anyone */
  double link, link_max;        /* B from L2 into the SMs; into the busiest SM */
  double wavefronts,
      wavefronts_max; /* L1/shared data-pipe wavefronts of loads and stores; of the busiest SM */
  double instructions, instructions_max; /* warp instructions executed; on the busiest SM */
  double cycles;                         /* longest SM's, of each kernel */
  double issue_active_percent;           /* schedulers' cycles that issued */
  double long_scoreboard;                /* warps waiting for L1/L2/DRAM an issue */
  double barrier, short_scoreboard,
      math_throttle; /* likewise: at barriers, for shared memory, for a math pipe */
  unsigned kernels;  /* that were counted */
} kvk_counters;

typedef struct kvk_counting kvk_counting;

/* Opens counting on an open device. `library` NULL tries libcupti.so.13, .12, and /usr/local/cuda's.
 * KV_ERR_DEVICE: not there, too old, or not permitted (the text says what to change); *counting is NULL then.
 * One counts at a time: another thread waits here until the first has closed, and a thread closes before it opens again. */
kv_status kvk_counting_open(kvk_device *device, const char *library, kvk_counting **counting, kv_error *err);
void kvk_counting_close(kvk_counting *counting);
/* Runs the operation under the profiler (many times over). At most 64 kernels. */
kv_status kvk_counting_run(kvk_counting *counting, const kvk_contender *operation, kvk_counters *counters,
                           kv_error *err);

#ifdef __cplusplus
}
#endif
#endif
