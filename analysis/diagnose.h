/* diagnose.h - what an ncu csv says about somebody's own kernel, without running it again.
 *
 * Reads `ncu --csv --page raw` (a column a metric, a row of units below the header) and `ncu --csv` (a row a
 * metric), of any ncu that uses the sm__ / smsp__ / lts__ / dram__ names. A metric that is not there stays
 * unknown, and what needs it is said to be missing.
 *
 *   T0, T1   from the problem, when it is given (heads, queries, prefix); else not known
 *   T2       executed work over the chip's ceilings: dram bytes, L2 -> SM bytes (the link's; of the L2 the least that
 * it can have given: what came from memory, and what one SM got), L1/shared wavefronts x 128 B, tensor flops (4096 an instruction, as of mma.sync m16n8k16; fewer than the problem needs, and they are
 * others) T4       the busiest SM: the work's maximum over SMs where the csv has `.max`, else an equal share
 * of the busy SMs T5       estimated: T7 less the exposed memory T6, T7   the kernel's duration; exposed
 * memory = (duration - T4) x long-scoreboard share of all stalls, an upper estimate
 *
 * A cause that needs counters which the csv lacks is not known, or at least what the others show: path the
 * matrix instructions; work every counter of work; placement the grid and the counters of what SMs do; serial
 * all of those and the stalls. Scatter and overhead no counter of one kernel tells.
 */
#ifndef KVA_DIAGNOSE_H
#define KVA_DIAGNOSE_H

#include "attribute.h"

typedef enum kva_metric {
  KVA_M_DURATION, /* s */
  KVA_M_DRAM_READ,
  KVA_M_DRAM_WRITE, /* B */
  KVA_M_L2_BYTES,   /* B, L2 -> SM */
  KVA_M_WAVEFRONTS,
  KVA_M_WAVEFRONTS_MAX, /* of the L1/shared-memory pipe: sum, busiest SM */
  KVA_M_TENSOR,
  KVA_M_TENSOR_MAX, /* warp-level matrix instructions: sum, busiest SM */
  KVA_M_ISSUE,      /* share of issue slots, 0 to 1, of active cycles */
  KVA_M_L1_BUSY,
  KVA_M_TENSOR_BUSY,
  KVA_M_DRAM_BUSY,
  KVA_M_L2_BUSY, /* shares of peak, 0 to 1 */
  KVA_M_LONG,
  KVA_M_SHORT,
  KVA_M_BARRIER,
  KVA_M_WAIT,
  KVA_M_MATH,
  KVA_M_MIO,
  KVA_M_LG,
  KVA_M_SELECTED,
  KVA_M_NOT_SELECTED,
  KVA_M_OTHER, /* warps stalled an issue */
  KVA_M_GRID,
  KVA_M_BLOCK,
  KVA_M_REGISTERS,
  KVA_M_SHARED,
  KVA_M_SMS,
  KVA_M_CLOCK, /* 1, 1, 1, B, 1, Hz */
  KVA_M_L2_HIT,
  KVA_M_LOCAL, /* share; B of local-memory traffic */
  KVA_METRICS
} kva_metric;
const char *kva_metric_name(kva_metric m);
/* "97.5 us", "151.7 MB", "39.9 %", "1758 MHz"; a count without a unit. Returns text. */
const char *kva_metric_text(kva_metric m, double value, char text[32]);

typedef struct kva_profiled {
  char kernel[256], device[128];
  double m[KVA_METRICS]; /* base units; NaN: not in the csv */
  kva_attribution a;
  double long_share;              /* of all stalls */
  double memory_low, memory_high; /* exposed memory as a share of the duration: 0 and the estimate above */
  char verdict[1200], missing[600];
  char impossible[300]; /* what no kernel can do: csv and problem, or csv and GPU, do not belong together; "" */
} kva_profiled;

typedef struct kva_profile {
  kva_profiled *kernel; /* owned */
  size_t n;
} kva_profile;

/* KV_ERR_INPUT names file and remedy. The caller frees. */
kv_status kva_profile_read(const char *path, kva_profile *p, kv_error *err);
void kva_profile_free(kva_profile *p);

/* Judges one kernel by the roofs (with their ranges) of the GPU it ran on. `problem` may be NULL. */
void kva_diagnose(kva_profiled *k, const kvm_verify *problem, const kvm_roofs *roofs,
                  const kvm_timing *ranges);

#endif
