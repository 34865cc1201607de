/* kvsim_gpu.h - what kvsim needs of a GPU's description: its bandwidths. */
#ifndef KVSIM_GPU_H
#define KVSIM_GPU_H

#include "whatif_output.h"

#define KVSIM_GPU "h200_sxm" /* without --gpu */

/* `names` is a list, "h200_sxm,sm_120". Fills gpu[0..*n-1] and the costs; at most KVS_COSTS. KV_ERR_USAGE for a name that
 * is none and for a GPU whose description has no bandwidth. */
kv_status kvsim_gpus(const char *names, kvs_priced_gpu *gpu, kvs_cost *cost, uint32_t *n, kv_error *err);
/* Policies of a list, "all" for all; `policy` holds KVS_POLICIES. as-recorded is always the first. */
kv_status kvsim_policies(const char *names, const kvs_policy **policy, uint32_t *n, kv_error *err);
/* A number that may have a fraction. */
kv_status kvsim_real(const char *text, const char *option, double low, double high, double *value, kv_error *err);

#endif
