/* peer_problem.h - one verify problem on the GPU in the arrays of both kernels, SGLang's and ours: the same rows, slots and
 * queries, in the types that each wants. */
#ifndef PEER_PROBLEM_H
#define PEER_PROBLEM_H

#include "harness.h"
#include "peer_kernel.h"

typedef enum peer_layout { PEER_CONTIGUOUS, PEER_RANDOM, PEER_ALIASED, PEER_LAYOUTS } peer_layout;
extern const char *const peer_layout_name[PEER_LAYOUTS];

enum { PEER_MOST_PREFIX = 262144, PEER_MOST_HEADS = 128, PEER_ARRAYS = 11 };

typedef struct peer_problem {
  kvk_device *device;
  long pool;
  int queries;
  /* on the device */
  uint16_t *kv, *q, *k_tree, *v_tree, *out, *out_ours;
  int32_t *slots[PEER_LAYOUTS], *kv_indptr;
  int64_t *slots64[PEER_LAYOUTS], *qo_indptr, *mask_indptr;
  uint64_t *indptr;
  uint8_t *mask;
  /* on the host: pool row r is repeats `rows`; the tree's slots stand behind the prefix's */
  uint16_t *rows, *host_q;
  int32_t *host_slots[PEER_LAYOUTS];
  kvk_problem ours;                /* of the last peer_problem_set() */
  peer_array arrays[PEER_ARRAYS]; /* likewise */
} peer_problem;

/* pool rows of 1152 B, normal / 10, bf16. */
kv_status peer_problem_open(kvk_device *device, long pool, int queries, peer_problem *problem, kv_error *err);
void peer_problem_close(peer_problem *problem); /* safe on a zeroed one */

kv_status peer_problem_set(peer_problem *problem, int heads, long prefix, peer_layout layout, kv_error *err);

/* The output of the last peer_problem_set() in double precision; the caller frees it. */
kv_status peer_problem_reference(const peer_problem *problem, long prefix, peer_layout layout, double **out, kv_error *err);

#endif
