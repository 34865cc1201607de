/* time_sm.h - one SM running the warps of its resident blocks, instruction by instruction, against its own
 * pipes and its share of the L2 and the memory.
 *
 * A warp issues in order. Each of an SM's four schedulers issues one instruction a cycle, on whole cycles,
 * from the warp that can go first; warp w of the SM belongs to scheduler w mod 4. Of several whose mma could
 * go in the same cycle it is one whose last instruction was an mma too, so that an unbroken stream keeps the
 * matrix unit; where both are, who had the unit last; where neither is, who has waited longest. Of others it
 * is the warp that issued last, else the youngest.
 *
 * Pipes are servers: matrix and special-function unit a scheduler; the L1/shared-memory pipe, 128 B a
 * wavefront; the L2 -> SM link; this SM's share of the memory bandwidth. L2 and memory serve all SMs: one
 * that asks for much at once is served at its link's pace while others pause, but since its first request
 * never had more than its share. A load arrives after the queues before it and the latency of where it hits.
 * So one mechanism gives issue, latency, bandwidth and barrier limits, whichever binds. Times are cycles of
 * the SM clock.
 */
#ifndef KVM_TIME_SM_H
#define KVM_TIME_SM_H

#include <stdbool.h>

#include "time_program.h"

typedef struct kvm_sm {
  /* From issue to the first dependent issue, idle, for one wavefront: what a chain of dependent accesses
   * shows. */
  double l1_latency, l2_latency, dram_latency, shared_latency, shuffle_latency;
  double mma_latency, sfu_latency, barrier_latency;
  double ldmatrix_latency; /* of ldmatrix.x4, its four wavefronts included */
  double mbarrier_latency; /* from asking an mbarrier that is counted up to the first dependent issue */
  double mbarrier_hop;     /* from an arrival to the first instruction of the warp that waited for it */
  double branch_latency;   /* from a branch that is taken to the warp's next instruction */
  double mma_interval;     /* between two mma of one scheduler */
  double mma_delay;     /* of a scheduler's matrix unit by each other instruction of the scheduler; 0: none */
  double sfu_interval;  /* between two sfu of one scheduler */
  double wave_interval; /* a wavefront of the L1/shared-memory pipe */
  double link_bytes;    /* B a cycle over this SM's link */
  double
      l2_bytes; /* B a cycle, this SM's share of the L2; other SMs' use and sharing included; 0: no limit */
  double dram_bytes; /* the same of the memory, for rows */
  double copy_bytes; /* B a cycle that this SM's cp.async can move; 0: the link's */
  double rows_in_l1; /* 1: where no row misses, those by ldg lie in the L1 (cp passes it by); 0: in the L2 */
  double line_bytes; /* memory hands out at least this much: the next indices of a line come from L2 */
} kvm_sm;

/* One kind of warps of a block. All kinds make the same number of tiles, but for those whose last ones stand in `end`. */
typedef struct kvm_role {
  unsigned warps;
  unsigned fewer; /* tiles that `end` holds */
  kvm_program begin, tile, end; /* before the first tile, each tile, after the last */
} kvm_role;
enum { KVM_MAX_ROLES = 4, KVM_MAX_SM_WARPS = 64, KVM_MAX_FEWER = 4 };

typedef struct kvm_block {
  unsigned roles;
  kvm_role role[KVM_MAX_ROLES];
} kvm_block;
void kvm_block_free(kvm_block *block);
unsigned kvm_block_warps(const kvm_block *block);

typedef struct kvm_sm_time {
  double once; /* cycles of a block with no tile more than those simulated, minus `tile` for each: begin,
                  fill, end */
  double tile; /* cycles a tile in the steady state */
  double issue, mma, l1, link, dram; /* share of those units' time in use, 0 to 1 */
} kvm_sm_time;

/* What comes from memory; all else from the L2. */
typedef enum kvm_misses {
  KVM_WARM,       /* nothing: the launch once more, every slot aliased to a few rows (64) */
  KVM_INDEX_MISS, /* slot numbers: slots aliased to a few rows, the L2 flushed before */
  KVM_COLD        /* rows and slot numbers */
} kvm_misses;

/* Runs `resident` equal blocks side by side. KV_ERR_INPUT: more than 64 warps, or a program that cannot go on
 * (a barrier that not all reach). A block of n tiles takes once + n * tile cycles. */
kv_status kvm_sm_run(const kvm_sm *sm, const kvm_block *block, unsigned resident, kvm_misses misses,
                     kvm_sm_time *time, kv_error *err);

#endif
