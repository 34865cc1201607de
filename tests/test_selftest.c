/* Planted causes must be named: by the model, for kernels declared as text, and from the experiments on a
 * GPU, as models/measured keeps them. Both go through kva_attribute(), like any kernel. */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_h5.h"
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
  (void)fprintf(
      f,
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
  const kvm_question q = {k, problem, &w, &u, &timing, scatter, true, false, 0, 0};
  CU_ASSERT_EQUAL_FATAL(kvm_predict(&q, &memo, &p, NULL), KV_OK);
  kvm_ladder_time(&l, &p);
  const kva_evidence e = {.useful = &u,
                          .work = &w,
                          .roofs = &roofs,
                          .ranges = &timing,
                          .scatter = scatter,
                          .even = p.copying_even,
                          .busiest = p.copying,
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
    printf("%s: %.2fx, %s explains %.1f %%; named %s\n", p->name, exp(total), kvm_cause_name(p->cause),
           100 * share, kvm_cause_name(with.largest));
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
  CU_ASSERT_EQUAL_FATAL(kva_gather_of(h200, NULL, NULL, 32, &g, NULL), KV_OK);
  if (!(g.random.at.scatter > 2))
    printf("%s: %g of %g\n", g.why, g.random.at.scatter, g.random.at.contiguous);
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

/* ---- an H200 ---- */

static const char *const dataset = "models/measured/h200-planted.h5";
static const char *const ceilings = "models/measured/h200-ceilings.h5";

static size_t judged(kva_planted *p, const char *calibration, kva_named named[KVA_MOST_PLANTED]) {
  kva_calibration c;
  kva_calibrated about;
  kv_error err = {KV_OK, ""};
  load();
  kvm_roofs roofs = kvm_roofs_of(h200);
  kvm_timing timing = kvm_timing_of(h200, kvm_pipes_find(&pipes, 90), &roofs);
  kvm_roofs_complete(&roofs, &timing);
  if (kva_planted_read(kv_source(dataset), p, &err) ||
      kva_calibration_read(kv_source(calibration), &c, &err) ||
      kva_time_calibrate(kv_source(calibration), &timing, &roofs, &about, &err))
    printf("%s\n", err.text);
  CU_ASSERT_FATAL(p->complete && c.rows > 0);
  size_t n = kva_planted_judge(p, &c, &roofs, &timing, named);
  kva_calibration_free(&c);
  return n;
}

static const kva_named *of(const kva_named *named, size_t n, const char *kernel) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(named[i].row->kernel, kernel)) return &named[i];
  CU_FAIL_FATAL("no such kernel");
  return NULL;
}

/* The bars: the right name, at least 90 % of ln(t / t_control), and a gain within 25 % of the realised one.
 */
static void an_h200_names_what_was_planted(void) {
  static const char *const causes[] = {"placement",      "work",    "serial",
                                       "exposed memory", "scatter", "overhead"};
  kva_named *named = calloc(KVA_MOST_PLANTED, sizeof *named);
  kva_planted p;
  unsigned seen = 0;
  size_t n = judged(&p, ceilings, named);
  CU_ASSERT_EQUAL(kva_planted_bar(named, n, 0.9, NULL), KV_OK);
  for (size_t i = 0; i < n; i++) {
    const kva_named *v = &named[i];
    CU_ASSERT(!v->a.inconsistent);
    if (v->planted == KVM_CAUSES) continue;
    for (unsigned c = 0; c < 6; c++) seen |= !strcmp(causes[c], v->row->cause) ? 1u << c : 0;
    CU_ASSERT(v->share >= 0.9 && v->share <= 1.1);
    CU_ASSERT(v->share_low <= v->share && v->share <= v->share_high);
    CU_ASSERT(v->share_low > 0.9 && v->share_high < 1.1 && v->share_low < v->share_high);
    CU_ASSERT_STRING_EQUAL(kvm_cause_name(v->a.largest), v->row->cause);
    CU_ASSERT(v->total > log(1.5));
    NEAR(v->gain, v->realised, 0.25);
  }
  CU_ASSERT_EQUAL(seen, 0x3f);
  CU_ASSERT(of(named, n, "copy")->worst <= 1.1 && of(named, n, "random_1152")->worst <= 1.1);
  CU_ASSERT_PTR_NOT_NULL(strstr(of(named, n, "one_block")->a.verdict, "(1 of 132 SMs busy)"));
  kva_planted_free(&p);
  free(named);
}

/* More splits: what the ladder of the gather on few SMs says that filling the GPU gains, and what it gained.
 */
static void the_ladder_s_placement_gain_is_realised(void) {
  static const char *const few[] = {"few_blocks_2", "few_blocks_4", "few_blocks_16"};
  kva_named *named = calloc(KVA_MOST_PLANTED, sizeof *named);
  kva_planted p;
  size_t n = judged(&p, ceilings, named);
  const double full = of(named, n, "stages_8")->row->time.median;
  for (size_t i = 0; i < 3; i++) {
    const kva_named *v = of(named, n, few[i]);
    CU_ASSERT(v->row->time.median > 1.5 * full);
    NEAR(v->a.cause[KVM_C_PLACEMENT].gain, v->row->time.median / full, 0.25);
  }
  /* and the one block beside as many others as there are SMs */
  for (size_t i = 0; i < p.rows; i++) {
    const kva_plant_row *r = &p.row[i];
    if (r->experiment != KVA_PLANT_REPLICATED) continue;
    const kva_named *one = of(named, n, r->kernel);
    CU_ASSERT_EQUAL(r->copies, 132);
    NEAR(one->a.cause[KVM_C_PLACEMENT].gain, r->copies * one->row->time.median / r->time.median, 0.25);
  }
  kva_planted_free(&p);
  free(named);
}

/* The ceilings of another day and machine of the same kind are within some percent, and so are the shares. */
static void other_ceilings_of_an_h200_name_the_same(void) {
  kva_named *named = calloc(KVA_MOST_PLANTED, sizeof *named);
  kva_planted p;
  size_t n = judged(&p, "models/measured/h200-planted-ceilings.h5", named);
  CU_ASSERT_EQUAL(kva_planted_bar(named, n, 0.9, NULL), KV_OK);
  kva_planted_free(&p);
  free(named);
}

/* A bar that cannot be missed is none: with the experiments of another kernel the cause has another name. */
static void wrong_experiments_miss_the_bar(void) {
  kva_named *named = calloc(KVA_MOST_PLANTED, sizeof *named);
  kva_planted p;
  kva_calibration c;
  kv_error err;
  size_t n = judged(&p, ceilings, named);
  CU_ASSERT_EQUAL(kva_planted_bar(named, n, 1.2, &err), KV_ERR_BAR);
  /* as if nothing had been slowed down: every share is of nothing */
  for (int sign = 0; sign < 2; sign++) {
    kva_named *v = &named[1];
    const kva_named was = *v;
    CU_ASSERT_FATAL(v->planted != KVM_CAUSES && v->share >= 0.9);
    v->total = sign ? -1 : 0;
    v->share = sign ? 2 : INFINITY;
    CU_ASSERT_EQUAL(kva_planted_bar(named, n, 0.9, &err), KV_ERR_BAR);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "nothing slowed it down"));
    *v = was;
  }
  CU_ASSERT_EQUAL(kva_planted_bar(named, n, 0.9, &err), KV_OK);
  /* as if the chain's warm run had been as short as the copy's */
  CU_ASSERT_EQUAL_FATAL(kva_calibration_read(kv_source(ceilings), &c, NULL), KV_OK);
  kvm_roofs roofs = kvm_roofs_of(h200);
  kvm_timing timing = kvm_timing_of(h200, kvm_pipes_find(&pipes, 90), &roofs);
  for (size_t i = 0; i < p.rows; i++)
    for (size_t s = 0; !strcmp(p.row[i].kernel, "alu_chain") && p.row[i].experiment == KVA_PLANT_RESIDENT &&
                       s < p.row[i].time.n;
         s++)
      p.row[i].seconds[s] = 100e-6;
  n = kva_planted_judge(&p, &c, &roofs, &timing, named);
  CU_ASSERT_EQUAL(of(named, n, "alu_chain")->a.largest, KVM_C_MEMORY);
  CU_ASSERT_EQUAL(kva_planted_bar(named, n, 0.9, &err), KV_ERR_BAR);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "alu_chain"));
  CU_ASSERT_EQUAL(kva_planted_bar(named, 0, 0.9, &err), KV_ERR_BAR);
  kva_calibration_free(&c);
  kva_planted_free(&p);
  free(named);
}

static void gathers_tell_what_a_layout_costs(void) {
  kva_calibration c;
  CU_ASSERT_EQUAL_FATAL(kva_calibration_read(kv_source(ceilings), &c, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(kva_calibration_scatter(&c, 32, 0), 1, 0);
  CU_ASSERT(kva_calibration_scatter(&c, 32, 1) > 2.5 && kva_calibration_scatter(&c, 32, 1) < 4);
  CU_ASSERT(kva_calibration_scatter(&c, 1152, 1) > 1 && kva_calibration_scatter(&c, 1152, 1) < 1.08);
  CU_ASSERT(kva_calibration_scatter(&c, 32, 4) < kva_calibration_scatter(&c, 32, 2));
  CU_ASSERT(isnan(kva_calibration_scatter(&c, 48, 1)));
  kva_calibration_free(&c);
}

/* An H200's memory hands out 64 B with a slot number that misses. */
static void the_memory_s_line_is_read(void) {
  kva_calibrated about;
  load();
  kvm_roofs roofs = kvm_roofs_of(h200);
  kvm_timing timing = kvm_timing_of(h200, NULL, &roofs);
  CU_ASSERT(isnan(timing.p[KVM_P_LINE].value));
  CU_ASSERT_EQUAL_FATAL(kva_time_calibrate(kv_source(ceilings), &timing, &roofs, &about, NULL), KV_OK);
  NEAR(timing.p[KVM_P_LINE].value, 64, 0.03);
  CU_ASSERT(timing.p[KVM_P_LINE].kind == KVM_MEASURED && timing.p[KVM_P_LINE].low < 64.5);
  timing.p[KVM_P_LINE].value = 1;
  char without[1024];
  (void)snprintf(without, sizeof without, "%s", kv_tmp("without-sizes.h5"));
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", kv_source(ceilings), without), 0);
  hid_t h = H5Fopen(without, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(h >= 0 && H5Ldelete(h, "sizes", H5P_DEFAULT) >= 0);
  (void)H5Fclose(h);
  CU_ASSERT_EQUAL_FATAL(kva_time_calibrate(without, &timing, &roofs, &about, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(timing.p[KVM_P_LINE].value, 1, 0); /* a file without it leaves what was known */
}

/* ---- the file ---- */

static void a_file_comes_back(void) {
  kva_planted p, q;
  CU_ASSERT_EQUAL_FATAL(kva_planted_read(kv_source(dataset), &p, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_planted_write(&p, kv_tmp("again.h5"), "test", NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_planted_read(kv_tmp("again.h5"), &q, NULL), KV_OK);
  CU_ASSERT(p.rows == q.rows && q.complete && q.origin.gpu.sms == 132);
  CU_ASSERT_STRING_EQUAL(p.origin.gpu.name, q.origin.gpu.name);
  for (size_t i = 0; i < p.rows && i < q.rows; i++) {
    const kva_plant_row *a = &p.row[i], *b = &q.row[i];
    CU_ASSERT(!strcmp(a->kernel, b->kernel) && a->experiment == b->experiment && a->time.n == b->time.n);
    CU_ASSERT(!memcmp(a->seconds, b->seconds, a->time.n * sizeof *a->seconds));
    CU_ASSERT(a->structure.tiles == b->structure.tiles && a->structure.link_bytes == b->structure.link_bytes);
    CU_ASSERT(a->counted == b->counted && (!a->counted || a->counters.link == b->counters.link));
  }
  kva_planted_free(&p);
  kva_planted_free(&q);
}

static void spoil(const char *name, double value) {
  hid_t file = H5Fopen(kv_tmp("spoilt.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT);
  static double v[65536];
  CU_ASSERT_FATAL(d >= 0 && H5Dread(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
  v[1] = value;
  CU_ASSERT_FATAL(H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
  (void)H5Dclose(d);
  (void)H5Fclose(file);
}

static void damaged_files_are_refused(void) {
  static const struct {
    const char *name;
    double value;
  } bad[] = {{"points/runs", 1e6}, {"points/runs", 0}, {"points/tiles", -1}, {"points/blocks", NAN},
             {"points/median", 1e-4}, {"points/median", -1}, {"points/median", NAN}, {"points/high", 0},
             {"samples/seconds", -1}, {"samples/seconds", INFINITY}};
  kva_planted p;
  kv_error err = {KV_OK, ""};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cp %s %s", kv_source(dataset), kv_tmp("spoilt.h5")), 0);
    spoil(bad[i].name, bad[i].value);
    CU_ASSERT_EQUAL(kva_planted_read(kv_tmp("spoilt.h5"), &p, &err), KV_ERR_INPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "spoilt.h5"));
  }
  CU_ASSERT_EQUAL(kva_planted_read(kv_source(ceilings), &p, &err), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(kva_planted_read("/nonexistent.h5", &p, &err), KV_ERR_IO);
}

/* ---- what is planted ---- */

static void plants_fit_other_gpus(void) {
  const kvk_gpu small = {.sms = 188, .memory = UINT64_C(96) << 30, .shared_block = 101376},
                tiny = {.sms = 20, .memory = UINT64_C(8) << 30, .shared_block = 49152};
  const kvk_gpu *gpu[] = {&small, &tiny};
  for (size_t g = 0; g < 2; g++)
    for (size_t i = 0; i < kvk_planted_count(); i++) {
      const kvk_planted *k = kvk_planted_at(i);
      const kvk_planted_work w = kvk_planted_describe(i, gpu[g]);
      const kvk_structure *s = &w.structure;
      CU_ASSERT(s->smem <= gpu[g]->shared_block && s->blocks >= 1 && s->tiles_per_block >= 1);
      CU_ASSERT(s->unique_kv_bytes * 8 <= (double)kvk_planted_pool(gpu[g]));
      CU_ASSERT(s->unique_kv_bytes * 8 > 0.9 * (double)kvk_planted_pool(gpu[g]));
      CU_ASSERT(!k->control || kvk_planted_find(k->control) < kvk_planted_count());
      CU_ASSERT_EQUAL(!k->control, !k->cause[0]);
    }
  CU_ASSERT(kvk_planted_pool(&tiny) == UINT64_C(2) << 30);
  CU_ASSERT_EQUAL(kvk_planted_find("nope"), kvk_planted_count());
}

static int roofline(char **out, const char *args) {
  return kv_run(out, NULL, "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s %s", kv_tmp(""),
                kv_program("roofline"), args);
}

/* A warm run that takes longer than the cold one: no ladder, and the program says where. */
static void a_falling_ladder_is_told(void) {
  kva_planted p;
  char *out;
  CU_ASSERT_EQUAL_FATAL(kva_planted_read(kv_source(dataset), &p, NULL), KV_OK);
  for (size_t i = 0; i < p.rows; i++) {
    kva_plant_row *r = &p.row[i];
    if (r->experiment != KVA_PLANT_RESIDENT || strcmp(r->kernel, "pointer_chase") != 0) continue;
    for (size_t s = 0; s < r->time.n; s++) r->seconds[s] *= 50;
    CU_ASSERT_EQUAL(kva_summarise(r->seconds, r->time.n, 1, &r->time, NULL), KV_OK);
  }
  CU_ASSERT_EQUAL_FATAL(kva_planted_write(&p, kv_tmp("falls.h5"), "test", NULL), KV_OK);
  kva_planted_free(&p);
  CU_ASSERT_EQUAL(roofline(&out, "selftest falls.h5"), 1);
  const char *told = strstr(out, "\npointer_chase: the ladder falls, T6 ");
  CU_ASSERT(told && strstr(told, "a ceiling or an experiment is wrong"));
  free(out);
}

static void the_program_says_it(void) {
  char *out, args[600];
  (void)snprintf(args, sizeof args, "selftest --calibration %s %s", kv_source(ceilings), kv_source(dataset));
  CU_ASSERT_EQUAL(roofline(&out, args), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "pointer_chase   exposed memory  exposed memory"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "measured: NVIDIA H200"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "copy            -               none"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "stages_1        -               exposed memory"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "which roofline validate judges"));
  CU_ASSERT(strstr(out, "\ncalibration: ") && strstr(out, "h200-ceilings.h5\n"));
  free(out);
  /* the table and the JSON name the same */
  (void)snprintf(args, sizeof args, "selftest --json %s", kv_source(dataset));
  CU_ASSERT_EQUAL(roofline(&out, args), 0);
  const char *copy = strstr(out, "\"kernel\": \"copy\""), *named = copy ? strstr(copy, "\"named\": ") : NULL;
  CU_ASSERT(named && !strncmp(named, "\"named\": \"none\"", 15));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"calibration_file\": \""));
  free(out);
  (void)snprintf(args, sizeof args, "selftest --json %s | grep -c '\"named\": \"scatter\"'",
                 kv_source(dataset));
  CU_ASSERT_EQUAL(roofline(NULL, args), 0);
  (void)snprintf(args, sizeof args, "selftest --bar 150 %s", kv_source(dataset));
  CU_ASSERT_EQUAL(roofline(NULL, args), 1);
  (void)snprintf(args, sizeof args, "selftest --calibration none %s", kv_source(dataset));
  CU_ASSERT_EQUAL(roofline(NULL, args), 3);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cp %s %s", kv_source(ceilings), kv_tmp("c.h5")), 0);
  CU_ASSERT_EQUAL(roofline(NULL, "selftest --calibration c.h5 -o ./c.h5"), 2);
  CU_ASSERT_EQUAL(roofline(NULL, "selftest --bar x"), 2);
  CU_ASSERT_EQUAL(roofline(NULL, "selftest /nonexistent.h5"), 5);
  CU_ASSERT_EQUAL(roofline(NULL, "selftest -d 77"), 4);
}

static double judged_at(hid_t file, const char *name, size_t i) {
  double v[KVA_MOST_PLANTED] = {0};
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT);
  CU_ASSERT(d >= 0 && H5Dread(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
  (void)H5Dclose(d);
  return v[i];
}

/* The judgement that lives in the tree is the one that is given today: else renew it as its README says. */
static void the_tree_s_judgement_is_today_s(void) {
  kva_named *named = calloc(KVA_MOST_PLANTED, sizeof *named);
  kva_planted p;
  size_t n = judged(&p, ceilings, named);
  hid_t file = H5Fopen(kv_source(dataset), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0 && H5Lexists(file, "judged", H5P_DEFAULT) > 0);
  for (size_t i = 0; i < n; i++) {
    if (named[i].planted == KVM_CAUSES) continue;
    NEAR(judged_at(file, "judged/share", i), named[i].share, 0.005);
    NEAR(judged_at(file, "judged/share_low", i), named[i].share_low, 0.005);
    NEAR(judged_at(file, "judged/gain", i), named[i].gain, 0.005);
  }
  (void)H5Fclose(file);
  kva_planted_free(&p);
  free(named);
}

/* Draws: what two operations have in common cancels. A share of everything is everything, however wide the
 * ceilings' ranges. */
static void shared_ceilings_cancel(void) {
  static double nats[2][KVA_DRAWS][KVM_CAUSES], whole[2][KVA_DRAWS];
  kvm_verify problem = kvm_verify_default(131072);
  load();
  kvm_roofs roofs = kvm_roofs_of(h200);
  kvm_structure k = kvm_kernel(2, 90);
  kvm_useful u = kvm_structure_useful(&k, &problem);
  kvm_work w = kvm_structure_work(&k, &problem, h200), twice = w;
  twice.chip[KVM_DRAM] *= 8;
  const double t = 1e-3;
  const kva_evidence once = {
      .useful = &u, .work = &w, .roofs = &roofs, .scatter = 1, .whole = {&t, 1, 0}, .seed = 7};
  kva_evidence more = once;
  more.work = &twice;
  CU_ASSERT_FATAL(kva_attribute_draws(&once, nats[0], whole[0]) &&
                  kva_attribute_draws(&more, nats[1], whole[1]));
  double low = INFINITY, high = -INFINITY;
  for (size_t i = 0; i < KVA_DRAWS; i++) {
    const double work = nats[1][i][KVM_C_WORK];
    low = fmin(low, work);
    high = fmax(high, work);
    CU_ASSERT(whole[0][i] == t &&
              nats[0][i][KVM_C_PATH] == nats[1][i][KVM_C_PATH]); /* one draw of the ceilings */
  }
  CU_ASSERT(high > low); /* the draws differ */
  double v[4] = {3, NAN, 1, 2};
  kva_draws_interval(v, 4, 2, &low, &high);
  CU_ASSERT(low >= 1 && low < 1.2 && high > 2.8 && high <= 3);
}

/* The judgement stands beside what was measured, which stays as it was; another one takes its place. */
static void the_judgement_is_kept(void) {
  kva_planted p, q;
  char args[900], text[9000];
  double bar = 0;
  kva_named *named = calloc(KVA_MOST_PLANTED, sizeof *named);
  size_t n = judged(&p, ceilings, named);
  (void)snprintf(args, sizeof args, "selftest -q --calibration %s -o j.h5 %s", kv_source(ceilings),
                 kv_source(dataset));
  CU_ASSERT_EQUAL_FATAL(roofline(NULL, args), 0);
  CU_ASSERT_EQUAL_FATAL(kva_planted_read(kv_tmp("j.h5"), &q, NULL), KV_OK);
  CU_ASSERT(p.rows == q.rows);
  for (size_t i = 0; i < p.rows && i < q.rows; i++)
    CU_ASSERT(!memcmp(p.row[i].seconds, q.row[i].seconds, p.row[i].time.n * sizeof(double)) &&
              p.row[i].time.n == q.row[i].time.n);
  hid_t file = H5Fopen(kv_tmp("j.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  for (size_t i = 0; i < n; i++) {
    CU_ASSERT_DOUBLE_EQUAL(judged_at(file, "judged/t7", i), named[i].a.t[7], 0);
    if (named[i].planted == KVM_CAUSES) continue;
    CU_ASSERT_DOUBLE_EQUAL(judged_at(file, "judged/share", i), named[i].share, 0);
    CU_ASSERT_DOUBLE_EQUAL(judged_at(file, "judged/share_low", i), named[i].share_low, 0);
    CU_ASSERT_DOUBLE_EQUAL(judged_at(file, "judged/control_time", i), named[i].control->time.median, 0);
  }
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "history", text, sizeof text, NULL), KV_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "; the judgement added by: "));
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "calibration", text, sizeof text, NULL), KV_OK);
  CU_ASSERT(!strncmp(text, "h200-ceilings.h5, ", 18));
  (void)H5Fclose(file);
  CU_ASSERT_EQUAL(roofline(NULL, "selftest -q -o ./j.h5 j.h5"), 2); /* no input is written over */
  CU_ASSERT_EQUAL(roofline(NULL, "selftest -q --bar 150 -o k.h5 j.h5"), 1);
  file = H5Fopen(kv_tmp("k.h5"), H5F_ACC_RDONLY, H5P_DEFAULT); /* what missed its bar is kept too */
  CU_ASSERT_FATAL(file >= 0);
  CU_ASSERT(kv_h5_get_f64(file, "bar", &bar, NULL) == KV_OK && bar == 1.5);
  (void)H5Fclose(file);
  kva_planted_free(&p);
  kva_planted_free(&q);
  free(named);
}

/* More stages and more splits of the planted gather, predicted from its machine code: within 25 %. */
static void gains_are_what_was_predicted(void) {
  char *out = NULL, args[600];
  (void)snprintf(args, sizeof args, "validate --gain 25 --calibration %s -o v.h5 -q %s", kv_source(ceilings),
                 kv_source(dataset));
  CU_ASSERT_EQUAL(roofline(&out, args), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "more stages   planted_stages_1"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "more splits   planted_stages_8"));
  free(out);
  (void)snprintf(args, sizeof args, "validate --gain 0.1 %s", kv_source(dataset));
  CU_ASSERT_EQUAL(roofline(NULL, args), 1);
  (void)snprintf(args, sizeof args, "validate --gain 25 %s",
                 kv_source("models/measured/sglang_extend_h200.tsv"));
  CU_ASSERT_EQUAL(roofline(NULL, args), 3); /* nothing there differs by a fix */
  hid_t file = H5Fopen(kv_tmp("v.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT(file >= 0 && H5Lexists(file, "gains/predicted", H5P_DEFAULT) > 0);
  if (file >= 0) (void)H5Fclose(file);
}

void suite_selftest(void) {
  static const kv_test_case cases[] = {{"model", the_model_names_what_was_planted},
                                       {"model, scatter", the_model_names_scatter},
                                       {"model, copy", a_modelled_copy_has_no_cause},
                                       {"H200", an_h200_names_what_was_planted},
                                       {"more splits", the_ladder_s_placement_gain_is_realised},
                                       {"other ceilings", other_ceilings_of_an_h200_name_the_same},
                                       {"missed bars", wrong_experiments_miss_the_bar},
                                       {"draws", shared_ceilings_cancel},
                                       {"judgement", the_judgement_is_kept},
                                       {"judgement in the tree", the_tree_s_judgement_is_today_s},
                                       {"layouts", gathers_tell_what_a_layout_costs},
                                       {"memory line", the_memory_s_line_is_read},
                                       {"round trip", a_file_comes_back},
                                       {"damage", damaged_files_are_refused},
                                       {"other GPUs", plants_fit_other_gpus},
                                       {"program", the_program_says_it},
                                       {"falling ladder", a_falling_ladder_is_told},
                                       {"gains", gains_are_what_was_predicted},
                                       {NULL, NULL}};
  kv_suite("selftest", cases);
}
