/* Planted causes must be named: by the model, for kernels declared as text, and from the experiments on a GPU,
 * as models/measured keeps them. Both go through kva_attribute(), like any kernel. */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_test.h"
#include "mem_params.h"
#include "roof_gather.h"
#include "selftest.h"
#include "time_calibrate.h"

#define NEAR(a, b, rel) CU_ASSERT(fabs((a) - (b)) <= (rel)*fabs((double)(b)))

/* ---- the model ---- */

static kvm_gpus gpus, pipes;
static const kvm_gpu *h200;
static void load(void) {
  if (gpus.n) return;
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_load(kv_source("models/gpus"), &gpus, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_load(kv_source("models/pipes"), &pipes, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&gpus, "h200", &h200, NULL), KV_OK);
}

static kvm_declared *declare(const char *structure, const char *tile, unsigned launches) {
  kvm_declared *k = NULL;
  kv_error err = {KV_OK, ""};
  const char *path = kv_tmp("planted.ini");
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  /* four stages of 36 KB: one block an SM */
  (void)fprintf(f,
                "[kernel]\nname = planted\nlike = split_verify\narch = sm_90\ndescription = d\nsource = s\n"
                "launches = %u\n[structure]\nthreads = 256\ntile_tokens = 32\nblock_rows = 8\nregisters = 64\n"
                "shared_bytes = 147456\neven = yes\n%s[warps all]\ncount = 8\ntile = %s\n",
                launches, structure, tile);
  (void)fclose(f);
  if (kvm_declared_load(path, &k, &err)) printf("%s\n", err.text);
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  return k;
}

static void explain(const char *structure, const char *tile, unsigned launches, const kvm_verify *problem,
                    double scatter, kva_attribution *a) {
  kvm_declared *k = declare(structure, tile, launches);
  kvm_time_memo memo = {0};
  kvm_prediction p;
  kvm_roofs roofs = kvm_roofs_of(h200);
  kvm_timing timing = kvm_timing_of(h200, kvm_pipes_find(&pipes, 90), &roofs);
  kvm_roofs_complete(&roofs, &timing);
  kvm_work w = kvm_declared_work(k, problem, h200);
  kvm_useful u = kvm_structure_useful(&k->structure, problem);
  kvm_ladder l = kvm_ladder_of(&u, &w, &roofs, scatter);
  const kvm_question q = {k, problem, &w, &u, &timing, scatter, true, false};
  CU_ASSERT_EQUAL_FATAL(kvm_predict(&q, &memo, &p, NULL), KV_OK);
  kvm_ladder_time(&l, &p);
  const kva_evidence e = {.useful = &u,
                          .work = &w,
                          .roofs = &roofs,
                          .ranges = &timing,
                          .scatter = scatter,
                          .resident = {&l.t[5], 1, 0},
                          .kernel = {&l.t[6], 1, 0},
                          .whole = {&l.t[7], 1, 0},
                          .gain = p.gain,
                          .seed = 1};
  kva_attribute("planted", &e, a);
  kvm_time_memo_free(&memo);
  kvm_declared_free(k);
}

#define COPY "cp16.row*9 commit group*3 alu*20"
#define SHARED_READS COPY " lds4*128"

typedef struct plant {
  const char *name, *structure, *control, *tile;
  unsigned launches;
  kvm_cause cause;
} plant;

/* Share of ln(t_planted / t_control) that the planted cause explains, and whether it is the largest. */
static void judge(const plant *p, const kvm_verify *problem, double scatter, const char *common) {
  kva_attribution with, without;
  char structure[200];
  (void)snprintf(structure, sizeof structure, "%s%s", common, p->structure);
  explain(common, p->control, 1, problem, 1, &without);
  explain(structure, p->tile, p->launches, problem, scatter, &with);
  double total = log(with.t[7] / without.t[7]);
  double share = (with.cause[p->cause].nats - without.cause[p->cause].nats) / total;
  if (getenv("KVROOF_VERBOSE") || !(share >= 0.9)) {
    printf("%s: %.2fx, %s explains %.1f %%; named %s\n", p->name, exp(total), kvm_cause_name(p->cause), 100 * share,
           kvm_cause_name(with.largest));
    for (int i = 0; i < 8; i++) printf("  T%d %.1f -> %.1f us\n", i, without.t[i] * 1e6, with.t[i] * 1e6);
  }
  CU_ASSERT(total > log(1.5));
  CU_ASSERT(share >= 0.9 && share <= 1.1);
  CU_ASSERT_EQUAL(with.largest, p->cause);
  CU_ASSERT(with.whole && !with.inconsistent && !without.inconsistent);
}

static void the_model_names_what_was_planted(void) {
  static const plant plants[] = {
      {"one block", "split = no\n", COPY, COPY, 1, KVM_C_PLACEMENT},
      {"each row read 8 times", "", COPY, "cp16.row*9 cp16.again*63 commit group*3 alu*20", 1, KVM_C_WORK},
      {"chain of arithmetic", "", COPY, "cp16.row*9 commit group*3 alu*4000:16000", 1, KVM_C_SERIAL},
      {"bank conflicts of 8", "", SHARED_READS, COPY " lds4#8*128", 1, KVM_C_SERIAL},
      {"pointer chase", "", COPY, "9( ldg16.row>a alu<a )", 1, KVM_C_MEMORY},
      {"a thousand launches", "", COPY, COPY, 1000, KVM_C_OVERHEAD}};
  load();
  kvm_verify problem = kvm_verify_default(1u << 20);
  problem.heads = problem.queries = 1;
  for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) judge(&plants[i], &problem, 1, "");
}

/* Rows of 32 B at random places cost what the memory model says of them. */
static void the_model_names_scatter(void) {
  static const char tile[] = "ldg4.index*36>a cp16.row*9<a commit group*3 alu*20";
  const plant p = {"random rows of 32 B", "", tile, tile, 1, KVM_C_SCATTER};
  kva_gather g;
  load();
  kvm_verify problem = kvm_verify_default(0);
  problem.heads = problem.queries = 1;
  problem.latent = 16;
  problem.rope = 0;
  problem.row_bytes = 32;
  kvm_verify_uniform(&problem, 32u << 20);
  kvm_gpu *with_memory = &gpus.gpu[h200 - gpus.gpu];
  CU_ASSERT_EQUAL_FATAL(kvm_mem_describe(kv_source("models/dram/hbm3e.ini"), with_memory, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_gather_of(h200, NULL, 32, &g, NULL), KV_OK);
  if (!(g.random.at.scatter > 2)) printf("%s: %g of %g\n", g.why, g.random.at.scatter, g.random.at.contiguous);
  CU_ASSERT_FATAL(g.random.at.scatter > 2);
  judge(&p, &problem, g.random.at.scatter, "row_bytes = 32\ntile_tokens = 1152\n");
}

static void a_modelled_copy_has_no_cause(void) {
  kva_attribution a;
  load();
  kvm_verify problem = kvm_verify_default(1u << 20);
  problem.heads = problem.queries = 1;
  explain("", COPY, 1, &problem, 1, &a);
  for (int i = 0; i < KVM_CAUSES; i++) CU_ASSERT(a.cause[i].known && exp(a.cause[i].nats) <= 1.1);
}

void suite_selftest(void) {
  static const kv_test_case cases[] = {{"model", the_model_names_what_was_planted},
                                       {"model, scatter", the_model_names_scatter},
                                       {"model, copy", a_modelled_copy_has_no_cause},
                                       {NULL, NULL}};
  kv_suite("selftest", cases);
}
