/* kvsim_gpu.h - what kvsim needs of a GPU's description: its bandwidths. */
#ifndef KVSIM_GPU_H
#define KVSIM_GPU_H

#include "whatif_output.h"

#define KVSIM_GPU "h200_sxm" /* without --gpu */

typedef struct kvsim_pricing {
  const char *gpus;        /* a list, "h200_sxm,sm_120"; NULL: KVSIM_GPU */
  const char *calibration; /* kvceilings-1 file of one of them, "none", or NULL: each GPU's in models/measured */
  double row_bytes;
} kvsim_pricing;
/* Fills gpu[0..*n-1] and the costs; at most KVS_COSTS. A cost's share() reads gpu[i], which must stay where it is. Scatter
 * is priced with the memory of the calibration's card, where it tells that. KV_ERR_USAGE for a name that is none and for a
 * GPU whose description has no bandwidth; KV_ERR_INPUT for a calibration that is of none of the GPUs or damaged. */
kv_status kvsim_gpus(const kvsim_pricing *how, kvs_priced_gpu *gpu, kvs_cost *cost, uint32_t *n, kv_error *err);
/* What the GPUs' shares come from, in one line; static storage or gpu's. */
const char *kvsim_memory_model(const kvs_priced_gpu *gpu, uint32_t n);
/* Times of this project's kernels for the mean decode step of each cell, a row a cell, GPU and kernel (the caller frees
 * *times); none where row_bytes are not those of MLA rows (512 + 64: 1152, 576 or 656 B). heads x queries; all times are floors of declared structures (models/verify.h), modelled
 * and uncalibrated: they say whether memory is what a kernel waits for. baseline: cells[0]. */
kv_status kvsim_kernel_times(const kvs_priced_gpu *gpu, uint32_t gpus, const kvs_cell *cells, uint32_t n, const kvs_prices *prices,
                             uint32_t heads, uint32_t queries, kvs_kernel_time **times, uint32_t *times_n, kv_error *err);
/* Policies of a list, "all" for all; `policy` holds KVS_POLICIES. as-recorded is always the first. */
kv_status kvsim_policies(const char *names, const kvs_policy **policy, uint32_t *n, kv_error *err);
/* A number that may have a fraction. */
kv_status kvsim_real(const char *text, const char *option, double low, double high, double *value, kv_error *err);

#endif
