/* decode_step.h - a whole decode step: layers x verify attention, and the rest by component.
 *
 *     step(prefix) = layers x attention(prefix) + sum over components (fixed + per_token x prefix)
 *     tokens/s     = accepted tokens a step and request / step: of one request, the model's own token included
 *
 * Amdahl: what attention at its floor would make of the step stands beside.
 */
#ifndef KVA_DECODE_STEP_H
#define KVA_DECODE_STEP_H

#include <stdint.h>

#include "kv_status.h"

typedef struct kva_component {
  char name[64];
  double fixed, per_token; /* s a step; s a token of context and step */
} kva_component;
enum { KVA_MAX_COMPONENTS = 16 };

typedef struct kva_step_rest {
  kva_component component[KVA_MAX_COMPONENTS];
  uint32_t n;
  char source[600]; /* "--base-ms 8", or the file */
} kva_step_rest;

/* Text: lines `name ms [us_per_1k_tokens]`, blanks between, # comments. KV_ERR_INPUT names file and line. */
kv_status kva_step_read(const char *path, kva_step_rest *rest, kv_error *err);

/* A kernel summary: `nsys stats --report cuda_gpu_kern_sum --format csv`, or a torch profiler's key averages
 * as csv (name, calls, self device time). `steps` decode steps were recorded. Kernels whose name contains one
 * of `attention` (comma between, case apart) are left out, as the model has them; the rest is summed by
 * class: gemm, moe, communication, other. Kernels of communication libraries (nccl, all_reduce, ..._comm_...) are no
 * attention, unless the words are not KVA_ATTENTION_NAMES. *left_out gets the attention time a step that was found, s.
 * KV_ERR_INPUT where none was: the step would have it twice. Empty words say that the profile has none. */
kv_status kva_step_profile(const char *path, double steps, const char *attention, kva_step_rest *rest,
                           double *left_out, kv_error *err);
#define KVA_ATTENTION_NAMES "attention,attn,extend,mla,flash,_fwd_kernel,_fwd_grouped_kernel,verify"

double kva_step_rest_time(const kva_step_rest *rest, uint64_t prefix); /* s */

typedef struct kva_step_point {
  char kernel[48], program[160]; /* and the program that its times were made of */
  uint64_t prefix;
  double attention, low, high, floor;     /* s a layer: modelled or measured, its interval, T0 */
  double step, step_low, step_high;       /* s */
  double tokens, tokens_low, tokens_high; /* a second */
  double share;                           /* of attention in the step */
  double best;                            /* step with attention at its floor, s */
} kva_step_point;
/* Fills the sums of *p from its attention, low, high (NaN: none), floor. */
void kva_step_sum(kva_step_point *p, uint32_t layers, const kva_step_rest *rest, double accepted);

/* Writes kvstep-1: attributes layers, accepted, status, gpu, calibration, rest_source; /components (name, fixed,
 * per_token); /points, a column a field of kva_step_point. */
typedef struct kva_step_labels {
  const char *gpu, *status;
  const char *calibration; /* base name of its file; NULL or "": none */
  uint32_t layers;
  double accepted;
} kva_step_labels;
kv_status kva_step_write(const kva_step_point *point, uint64_t n, const kva_step_rest *rest,
                         const kva_step_labels *labels, const char *path, const char *command, kv_error *err);

#endif
