/* time_calibrate.h - what the time model takes from a calibration (kvceilings-1, `roofline calibrate`):
 * microbenchmarks alone, nothing of any attention kernel.
 *
 *   clock             cycles / seconds of chain_l1           mma_clock   cycles / seconds of chain_mma
 *   l1, l2, dram      cycles of chain_l1, latency_l2, latency_dram      smem, shuffle, barrier, mma, sfu:
 * chain_lds, chain_shfl, chain_barrier, chain_mma, chain_ex2 (a chain from issue to the next dependent issue)
 *   mma_rate, wave_rate, sm_link, sfu rate   one SM's best       l2, link, dram rate   the chip's best
 *   memory_line       the size of that name, where the file has one
 *   launch            timer_floor          next_launch   launch_graph_node, up to launch_eager / 4
 * Intervals are those of the calibration, at least 1 %. What it lacks stays as it was. Refused are values that are no
 * number above 0 or more than 10 times off what *timing and *roofs had (the description), and another number of SMs; a
 * file that is not complete says so in its status.
 */
#ifndef KVA_TIME_CALIBRATE_H
#define KVA_TIME_CALIBRATE_H

#include "time_model.h"

typedef struct kva_calibrated {
  char gpu_name[128], status[256]; /* "NVIDIA H200", "measured: NVIDIA H200, driver ..., 2026-11-29" */
  char source[400];                /* for kvm_estimate.source: must outlive the timing */
  unsigned values;                 /* parameters set */
  kvm_parameter tightest;
  int sm, sms;           /* of the card measured: 90 for 9.0, its SMs; 0: the file does not say */
  double memory, dram;   /* B, and B/s by its bus and clock; 0: the file does not say */
} kva_calibrated;

/* Sets what the file has in *timing and the ceilings in *roofs (kind measured). KV_ERR_INPUT names file and
 * dataset. */
kv_status kva_time_calibrate(const char *path, kvm_timing *timing, kvm_roofs *roofs, kva_calibrated *about,
                             kv_error *err);

/* Reads what the file tells of its card alone: is this the calibration of that GPU? */
kv_status kva_time_calibration_of(const char *path, kva_calibrated *about, kv_error *err);

#endif
