/* attn_case.h - synthetic verify problems on the host, from a few words of description: for tests, benchmarks and
 * calibration. Values are normal, times `magnitude`; the same spec and seed give the same bytes everywhere.
 */
#ifndef KVK_ATTN_CASE_H
#define KVK_ATTN_CASE_H

#include <stdbool.h>

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvk_slots {
  KVK_SLOTS_CONTIGUOUS, KVK_SLOTS_REVERSED, KVK_SLOTS_RANDOM,
  KVK_SLOTS_REPEATED, /* random, every request's first half the same rows, each row twice in a row */
  KVK_SLOTS_END       /* contiguous, ending at the pool's last row */
} kvk_slots;

typedef enum kvk_tree {
  KVK_TREE_NONE, KVK_TREE_CHAIN, KVK_TREE_STAR, KVK_TREE_RANDOM,
  KVK_TREE_HIDDEN, /* random, and the middle query sees no node at all */
  KVK_TREE_ABSENT  /* every tree slot negative: a padding request of a graph */
} kvk_tree;

typedef struct kvk_case_spec {
  int batch;
  const uint64_t *prefix; /* [batch] */
  int queries, heads;
  kvk_slots slots;
  kvk_tree tree;
  kvk_mask mask;       /* KVK_MASK_CHAIN only with a chain */
  double magnitude;    /* of q and kv; 0: 0.1 */
  int64_t pool_rows;   /* 0: twice what is needed */
  bool poison;         /* NaN in every row of the pool that no slot names */
  uint64_t seed;
} kvk_case_spec;

/* All arrays are the case's own. problem.scale is 1 / sqrt(192), as the models of this family have it. */
typedef struct kvk_case {
  kvk_problem problem;
  int64_t pool_rows;
  uint64_t keys;       /* prefix rows of all requests */
  size_t mask_bytes;
  uint16_t *q, *kv, *out;
  uint64_t *indptr, *mask_indptr;
  int32_t *slots, *tree_slots;
  void *mask;
  float *lse;
} kvk_case;

/* KV_ERR_MEMORY, or KV_ERR_USAGE when the rows do not fit the pool. Free with kvk_case_free() in any case. */
kv_status kvk_case_make(const kvk_case_spec *spec, kvk_case *made, kv_error *err);
void kvk_case_free(kvk_case *made);

/* splitmix64, and a standard normal from it. */
uint64_t kvk_random(uint64_t *state);
double kvk_normal(uint64_t *state);

#ifdef __cplusplus
}
#endif
#endif
