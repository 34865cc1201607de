/* roof_run.h - one run of `roofline`: a GPU, a verify problem at several prefixes, every kernel as a point;
 * its verdict; and the roofline-1 dataset that holds it.
 *
 * A point carries what is modelled and, where a benchmark filled it in, what was measured. NaN is "not
 * known".
 */
#ifndef KVA_ROOF_RUN_H
#define KVA_ROOF_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "attribute.h"
#include "gpu.h"
#include "layout.h"
#include "roof_gather.h"
#include "time_model.h"
#include "verify.h"

#define KVA_UNCALIBRATED "modelled, uncalibrated"

typedef struct kva_point {
  uint32_t kernel; /* row of kva_run.kernel */
  kvm_verify problem;
  kvm_useful useful;
  kvm_work work;
  const kvm_declared *program; /* not owned: what the modelled time was made of; NULL: none, and no time */
  kvm_ladder ladder;
  bool raised; /* the program's time was below T4, and T4 stands for it */
  kvm_prediction
      prediction; /* the time model's; known = false where there is no program or a latency is missing */
  kva_attribution attribution;                  /* of the modelled time */
  double measured, measured_low, measured_high; /* s; NaN: not measured */
} kva_point;

#define KVA_MAX_KERNELS 8u

typedef struct kva_run {
  const kvm_gpu *gpu;               /* not owned */
  const kvm_declared_set *declared; /* not owned: the kernels' programs; NULL: no T5 to T7 */
  const kvm_declared *own;          /* not owned: one more kernel, a user's; NULL: none */
  const kvm_gpu *pipes;             /* not owned: latencies that the description lacks; NULL: none */
  kvm_timing timing; /* with roofs: set by kva_run_predict() from gpu and pipes, unless given */
  bool given;
  kvm_roofs roofs;
  uint32_t smem_limit; /* B of shared memory that a block may have at most; 0: what the GPU gives */
  unsigned only; /* bit w: of the project's kernels kvm_kernel(w) is modelled; 0: all are */
  char calibration[256]; /* base name of the file that roofs and timing come from; "" none */
  char status[256];  /* KVA_UNCALIBRATED, or "measured: <device>, <driver>, <date>" */
  const char *dtype; /* "bf16", "fp8", "fp8-656" or "other" */
  uint32_t layers;
  uint64_t seed;
  bool contiguous;         /* no layout file */
  char layout_name[300];   /* "contiguous", or trace and step */
  kva_layout_stats layout; /* of the file; zeroes without */
  uint64_t layout_tokens;
  kva_gather gather; /* of the layout; filled by the caller (kva_gather_of) */
  kvm_structure kernel[KVA_MAX_KERNELS];
  const kvm_declared *program[KVA_MAX_KERNELS]; /* NULL: a structure alone */
  uint32_t kernels;
  kva_point *point; /* kernels of the first prefix, kernels of the second, ... */
  uint64_t points;
  char verdict[2048];
} kva_run;

/* Fills run->point, the ladders and the verdict for problems[n]; everything above `kernel` is the caller's to
 * set, but for roofs. KV_ERR_USAGE from kvm_verify_check(). The caller frees with kva_run_free(). */
kv_status kva_run_predict(kva_run *run, const kvm_verify *problems, uint64_t n, kv_error *err);
void kva_run_free(kva_run *run); /* what kva_run_predict() allocated */

/* "131072 tokens", "4 requests of 4096 tokens", "47 requests, longest 124453 tokens (2310552 in all)". */
#define KVA_BATCH_WORDS 120
void kva_batch_words(uint32_t batch, uint64_t tokens, uint64_t longest, char words[KVA_BATCH_WORDS]);

/* The time the model gives a point, a layer: T7; NaN where it gives none. */
double kva_point_time(const kva_point *point);
/* Where it gives none, the last rung of the ladder that is known (T4 mostly): no run takes less. NaN where a
 * time stands, nothing is known or the kernel does not fit. */
double kva_point_bound(const kva_point *point);
/* A kernel with a program that executes fewer matrix operations than are useful: work was left out of it. */
bool kva_point_incomplete(const kva_point *point);
/* B that the rows of all layers take, for the largest problem; and what the GPU has (NaN: not known). */
double kva_run_rows_bytes(const kva_run *run);
double kva_run_memory(const kva_run *run);
/* Useful KV bytes over the measured time, else over the modelled one; NaN for merge_state and without either:
 * a bound of a time gives no rate. */
double kva_point_bandwidth(const kva_point *point);
/* "dram", or "l1 of one SM" where the busiest SM binds. Static storage. */
const char *kva_point_binding(const kva_point *point);
/* Names of what the description lacks and the run would have used, "a, b"; "" for none. */
void kva_run_missing(const kva_run *run, char *text, size_t size);

/* Which program stands behind a time: "sglang_extend_32x32_sm120, Triton's machine code for sm_120", or that there is
 * none. The file's name without .ini comes first. */
void kva_program_words(const kvm_declared *program, char *text, size_t size);

/* Kernels whose program is another architecture's machine code, "split_verify (sm_90)", ...; "" for none. */
void kva_run_borrowed(const kva_run *run, char *text, size_t size);

/* Writes the roofline-1 dataset, aside and renamed. `command` goes to the history. */
kv_status kva_run_write(const kva_run *run, const char *path, const char *command, kv_error *err);

#endif
