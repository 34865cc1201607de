/* whatif_output.h - the kvwhatif-1 dataset (policies side by side) and a simulation written as a kvtrace-1 file. */
#ifndef KVS_WHATIF_OUTPUT_H
#define KVS_WHATIF_OUTPUT_H

#include "whatif_run.h"

#define KVS_WHATIF_CONVENTIONS "kvwhatif-1"

/* A GPU that costs were counted for: number i is cost i of the simulations. */
#define KVS_SHARES 10

typedef struct kvs_priced_gpu {
  char key[48], name[96];
  double read_bandwidth, copy_bandwidth; /* B/s */
  char read_source[64], copy_source[64]; /* "dram_bw_measured (measured)" */
  /* Share of the contiguous bandwidth that runs of 1, 2, 4, ... rows keep, by the memory model of this GPU; NaN where
   * its memory is not described (kvs_gather_share stands in). */
  double run_share[KVS_SHARES];
  char memory_model[480]; /* what the shares come from */
  char memory[320];       /* of that, whose memory it is: "adapted to FILE", "the described card (...)"; "" without a model */
} kvs_priced_gpu;

/* A kernel's time a decode step, all layers, under a policy: the floor of its declared structure, with the memory term at
 * the policy's share of the bandwidth. */
typedef struct kvs_kernel_time {
  uint32_t policy, gpu;  /* rows of /policies and /gpus */
  const char *kernel;
  const char *bound;     /* the resource that sets the time: "dram", or another, which scatter does not touch; "none": does not fit */
  double step, saved_step; /* s; NaN where the policy does not fit */
} kvs_kernel_time;

/* One of several traces of a sweep. */
typedef struct kvs_swept_trace {
  const char *path, *name; /* name: base name */
  char sha256[65];
  kvt_info info;
  uint32_t every, first_cell, cells;
} kvs_swept_trace;

typedef struct kvs_whatif_head {
  const char *path, *command, *conventions;
  const char *trace, *sha256;   /* base name; NULL with `traced` */
  const kvt_info *info;
  const kvs_swept_trace *traced; /* [traces], or NULL: one trace, told in the file's attributes */
  uint32_t traces;
  const char *memory_model;     /* kvsim_memory_model() */
  const char *token_source;     /* where token_seconds comes from */
  const char *verdict;
  const kvs_policy_settings *settings;
  kvs_prices prices;            /* copy_bandwidth is the GPU's own */
  uint32_t every;
  const kvs_priced_gpu *gpu;
  uint32_t gpus;
  const kvs_kernel_time *kernel; /* [kernels], may be NULL */
  uint32_t kernels;
  uint32_t heads, queries;       /* that the kernels' times are for */
} kvs_whatif_head;

/* Writes cells and, for each GPU, what they come to. cells[baseline] is compared with (UINT32_MAX: nothing); of several traces,
 * each cell with the first of its trace.
 *
 * With `traced`, instead of the attributes trace, trace_sha256, trace_origin, allocator, pool_size, page_size and every:
 * /traces: name, sha256, origin, allocator, pool_size "slot", page_size "slot", requests, every, map_step; and policies/trace, a row of it
 * /gpus: key, name, read_bandwidth, copy_bandwidth "B/s", read_source, copy_source, memory_model
 * /policies, a row a cell: name, summary; pool "slot", page_size, fits, short_step, rows, runs (decode steps summed),
 *   mean_run, oracle_share (runs of the oracle / runs; NaN without one), waste_mean, waste_most, free_mean "slot",
 *   capacity_lost, evicted, refilled, moved, copied, tails, passes, mismatches, list_mismatches, steps, decode_steps,
 *   slot_operations; where fits is 0, up to short_step
 * /costs, a row a cell and GPU (cell by cell): policy, gpu, read "s", moved_bytes "B", move, recompute, saved, saved_step,
 *   net "s", break_even "step" (all NaN where the policy does not fit), verdict
 * /kernels: policy, gpu, kernel, bound, step, saved_step "s" (none where nobody asked)
 * /series, sampled steps, cell by cell: policy, step, time "us", step_type, running, rows, runs, mean_run, free, waste,
 *   evicted, refilled, moved, copied (so far)
 * /detail: policy, step, empty_runs, largest_empty_run "slot", fragmentation
 * /run_lengths: policy, length "row", runs, rows (over the detailed samples; lengths above 64 are the tops of buckets of
 *   3 %)
 * /map: policy, cell, row, live, idle "slot" (cells of equal size over the pool's addresses), attributes of the group:
 *   cells, step (the same for all policies; with `traced` in /traces) */
kv_status kvs_whatif_write(const kvs_whatif_head *head, const kvs_cell *cells, uint32_t n, uint32_t baseline, kv_error *err);

/* A trace being written from a simulation: give `tell` and `arg` to the simulation. The allocator is SGLang's where the
 * policy keeps to it, else `other`. `initial`: as given to the simulation. */
typedef struct kvs_told {
  kvt_writer *writer;
  bool exact; /* the allocator's order is modelled and it evicts when the recording did: the steps' counts of free slots hold */
} kvs_told;
kv_status kvs_told_open(const char *path, const char *command, const kvt_info *info, const kvs_policy *policy,
                        const int32_t *initial, const kvs_world *world, kvs_told *told, kv_error *err);
kv_status kvs_told_event(void *told, const kvt_event *event, const kvt_step *row, kv_error *err);
/* Writes the final lists (where the policy has SGLang's) and closes; `abandon` leaves nothing. */
kv_status kvs_told_close(kvs_told *told, const kvs_world *world, bool abandon, kv_error *err);

#endif
