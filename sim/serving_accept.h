/* serving_accept.h - how much of a draft a verify step accepts. */
#ifndef KVS_SERVING_ACCEPT_H
#define KVS_SERVING_ACCEPT_H

#include <gsl/gsl_rng.h>

#include "serving.h"

typedef struct kvs_accept_model {
  kvs_speculation kind;
  uint32_t steps, topk, tokens;
  double probability;
  gsl_rng *rng;
} kvs_accept_model;

/* A tree (v1): each expansion draws the probability p of its likeliest child from Beta(6a, 6(1 - a)), a = acceptance,
 * and gives each further child 0.6 of what is left (at most as much as the child before); `steps` levels keep the `topk` likeliest nodes each, and
 * the `tokens` - 1 likeliest of all make the block, numbered level by level as SGLang does. The target then follows a
 * child with its own probability or leaves the tree. A chain (v2): each token is accepted with probability a until one
 * is not. KV_ERR_MEMORY. */
kv_status kvs_accept_init(kvs_accept_model *model, const kvs_serving_options *options, kv_error *err);
void kvs_accept_draw(kvs_accept_model *model, kvs_accepted *accepted);
void kvs_accept_free(kvs_accept_model *model);

#endif
