#include "serving_accept.h"

#include <gsl/gsl_randist.h>
#include <string.h>

#define CONCENTRATION 6.0
#define SHARE 0.6 /* of the probability left, to the next child; fits recorded acceptances, see serving_accept.h */

kv_status kvs_accept_init(kvs_accept_model *m, const kvs_serving_options *o, kv_error *err) {
  *m = (kvs_accept_model){.kind = o->speculation, .steps = o->draft_steps, .topk = o->draft_topk, .tokens = o->draft_tokens,
                          .probability = o->acceptance, .rng = gsl_rng_alloc(gsl_rng_mt19937)};
  if (!m->rng) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a random number generator");
  gsl_rng_set(m->rng, (unsigned long)o->seed);
  return KV_OK;
}

void kvs_accept_free(kvs_accept_model *m) {
  if (m->rng) gsl_rng_free(m->rng);
  *m = (kvs_accept_model){0};
}

static void draw_chain(kvs_accept_model *m, kvs_accepted *a) {
  a->n = 1;
  while (a->n < m->tokens && gsl_rng_uniform(m->rng) < m->probability) a->n++;
  for (uint32_t i = 0; i < a->n; i++) a->node[i] = (uint8_t)i;
}

/* A candidate of the tree: what the draft gives it, alone and with all above it. */
typedef struct candidate {
  int parent; /* -1: the certain token */
  double own, all;
  int node;   /* its number in the block, -1 not in it */
} candidate;

#define LEVELS_MOST 16u
#define TOPK_MOST 8u
#define CANDIDATES_MOST (TOPK_MOST + (LEVELS_MOST - 1u) * TOPK_MOST * TOPK_MOST)

static uint32_t expand(kvs_accept_model *m, candidate *c, uint32_t n, int parent, double all) {
  double p = gsl_ran_beta(m->rng, CONCENTRATION * m->probability, CONCENTRATION * (1 - m->probability)), left = 1 - p;
  for (uint32_t k = 0; k < m->topk; k++) {
    c[n++] = (candidate){parent, p, p * all, -1};
    p = SHARE * left < p ? SHARE * left : p;
    left -= p;
  }
  return n;
}

/* The `most` likeliest of c[from..to) whose mark is not set yet get it; ties go to the earlier one. */
static uint32_t best(const candidate *c, uint32_t from, uint32_t to, uint32_t most, bool *mark) {
  uint32_t found = 0;
  for (; found < most; found++) {
    int top = -1;
    for (uint32_t i = from; i < to; i++)
      if (!mark[i] && (top < 0 || c[i].all > c[top].all)) top = (int)i;
    if (top < 0) break;
    mark[top] = true;
  }
  return found;
}

static uint32_t grow_tree(kvs_accept_model *m, candidate *c) {
  bool beam[CANDIDATES_MOST] = {false};
  uint32_t n = expand(m, c, 0, -1, 1), level = 0;
  for (uint32_t step = 1; step < m->steps; step++) {
    uint32_t end = n;
    (void)best(c, level, end, m->topk, beam);
    for (uint32_t i = level; i < end; i++)
      if (beam[i]) n = expand(m, c, n, (int)i, c[i].all);
    level = end;
  }
  return n;
}

static void draw_tree(kvs_accept_model *m, kvs_accepted *a) {
  candidate c[CANDIDATES_MOST];
  bool in[CANDIDATES_MOST] = {false};
  uint32_t n = grow_tree(m, c);
  (void)best(c, 0, n, m->tokens - 1, in);
  int node = 1, at = -1;
  for (uint32_t i = 0; i < n; i++)
    if (in[i]) c[i].node = node++;
  a->n = 1;
  a->node[0] = 0;
  for (uint32_t i = 0; i < n;) { /* children of `at` stand together and behind it */
    if (c[i].parent != at) {
      i++;
      continue;
    }
    double coin = gsl_rng_uniform(m->rng);
    uint32_t k = i;
    for (; k < n && c[k].parent == at; k++) {
      if (coin < c[k].own) break;
      coin -= c[k].own;
    }
    if (k == n || c[k].parent != at || c[k].node < 0) break;
    a->node[a->n++] = (uint8_t)c[k].node;
    at = (int)k;
    i = k + 1;
  }
}

void kvs_accept_draw(kvs_accept_model *m, kvs_accepted *a) {
  if (m->kind == KVS_SPEC_V1 && m->topk > 1)
    draw_tree(m, a);
  else
    draw_chain(m, a);
}
