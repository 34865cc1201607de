/* validate.h - the model against measured points: error by point, by kernel, by regime, beside the spread of
 * repeats.
 *
 * Measured points come from text (kvmeasured-1, models/measured/), from roofline-1 datasets whose points
 * were measured, or from the controls of a self-test (kvplanted-1: kernels planted_NAME). Text: lines `# key: value` (format, gpu, device, status, what, how), a line of column names,
 * then tab-separated rows: kernel, heads, queries, batch, prefix (above 0), row_bytes, layout (contiguous, random,
 * recorded, layout, aliased, resident; after a comma, how it was run), and median_us, low_us <= median_us,
 * high_us >= median_us (`-`: not known). `aliased`: every slot
 * replaced by slot mod 64, the L2 flushed before, so that slot numbers still come from memory; `resident`:
 * the same, warm.
 */
#ifndef KVA_VALIDATE_H
#define KVA_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "time_model.h"

typedef struct kva_reading {
  char kernel[KVM_NAME], layout[KVM_NAME];
  kvm_verify problem;
  double measured, low, high; /* s; low and high NaN when not known */
  uint64_t place;             /* line of the text, or point of the dataset */
  /* filled by kva_validate(): NaN where the model says nothing */
  double predicted, predicted_low, predicted_high; /* s: T7, or the kernel on few rows and its launch */
  kvm_ladder ladder;
  kvm_parameter dominating;
  char program[160]; /* that the prediction was made of; "" none */
} kva_reading;

typedef struct kva_readings {
  char path[512], gpu[KVM_NAME], device[128], status[256], what[512], how[512];
  int64_t smem_limit;  /* bytes of shared memory that a block was left; 0: what the GPU has */
  bool lines;          /* places are lines */
  kva_reading *sample; /* owned */
  size_t n;
} kva_readings;

/* KV_ERR_INPUT names file and line: also where the status does not begin with "measured", and of text files where a
 * point is given twice. On success the caller frees. */
kv_status kva_readings_load(const char *path, kva_readings *m, kv_error *err);
void kva_readings_free(kva_readings *m); /* safe on a zeroed one */

/* Predicts every sample whose kernel has a program. KV_ERR_INPUT, with file and place, for one that is more than
 * 5 % faster than its floor under these ceilings: its useful bytes, where they come from memory, and its useful
 * flops. */
kv_status kva_validate(kva_readings *m, const kvm_gpu *gpu, const kvm_declared_set *declared,
                       const kvm_timing *timing, const kvm_roofs *roofs, kv_error *err);

/* How a kernel or a regime came out. Errors are predicted / measured - 1. */
typedef struct kva_score {
  char name[2 * KVM_NAME];  /* "sglang_extend_32x64", "resident", "all" */
  size_t n, skipped;        /* skipped: no prediction */
  double mape, worst, bias; /* worst: the largest |error|; bias: exp(mean ln ratio) - 1 */
  double spread;            /* median (high - low) / measured of the repeats; NaN when not recorded */
  double covered;           /* share of the points inside the prediction's interval */
  double log_rms;           /* root mean square of ln(predicted / measured): the model's own error */
} kva_score;
enum { KVA_MAX_SCORES = 40 };
/* All points, then a score a kernel, then one a regime: the layout's name, with "short" (prefix < 8192)
 * apart. Returns how many. */
size_t kva_scores(const kva_readings *m, size_t sets, kva_score scores[KVA_MAX_SCORES]);

/* Writes kvvalidate-1: root attributes status ("predictions against measured points of ..."), measured (the files and what their
 * status is), gpu, calibration; /points (kernel, layout, prefix, heads,
 * measured, measured_low, measured_high, predicted, predicted_low, predicted_high, error), /scores and /gains
 * (gains.h). */
kv_status kva_validate_write(const kva_readings *m, size_t sets, const char *calibration, const char *path,
                             const char *command, kv_error *err);

#endif
