/* One card's memory in its calibration: written, read, priced with by roofline and by kvsim. */
#include <hdf5.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "calibration_model.h"
#include "card_memory.h"
#include "columns.h"
#include "kv_h5.h"
#include "kv_test.h"
#include "mem_fit.h"
#include "roof_gather.h"

enum { TELLING = 3 };
static const struct {
  const char *layout;
  uint32_t row_bytes, run;
} telling[TELLING] = {{"random", 32, 1}, {"random", 128, 1}, {"contiguous", 576, 0}};

static void described(kvm_gpu *gpu, kvm_mem_params *params) {
  CU_ASSERT_EQUAL_FATAL(kvm_gpu_load(kv_source("models/gpus/h200_sxm.ini"), gpu, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_mem_describe(kv_source("models/dram/hbm3e.ini"), gpu, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_mem_params_of(gpu, params, NULL), KV_OK);
}

static kvk_point point(const char *name, kvk_point_kind kind, double work, double seconds) {
  kvk_point p = {.kind = kind, .work = work, .load = NAN, .cycles = NAN, .samples = 3};
  (void)snprintf(p.name, sizeof p.name, "%s", name);
  (void)snprintf(p.variant, sizeof p.variant, "ld.v4 x4, indices ahead");
  (void)snprintf(p.unit, sizeof p.unit, "%s", kind == KVK_RATE ? "B" : "1");
  kvk_state_clear(&p.state);
  p.state.throttle_known = true;
  for (int i = 0; i < 3; i++) p.seconds[i] = seconds;
  return p;
}

/* What a card with these parameters would measure: the first `n` of the gathers, and a pointer chase. */
static void measure_card(const kvm_mem_params *card, int n, const char *path) {
  kva_calibration c = {.origin = {.gpu = {.name = "NVIDIA H200", .major = 9, .sms = 132, .memory = UINT64_C(141) << 30},
                                  .driver = "1.2",
                                  .date = "2026-01-02",
                                  .power_limit = 700,
                                  .repeats = 3,
                                  .seed = 1},
                       .complete = true};
  kvk_point chase = point("latency_dram", KVK_LATENCY, 1000, 1000 * card->latency);
  kvk_point stream = point("dram", KVK_RATE, 4.7e9, 1e-3);
  CU_ASSERT_EQUAL(kva_calibration_add(&c, &chase, NULL), KV_OK);
  CU_ASSERT_EQUAL(kva_calibration_add(&c, &stream, NULL), KV_OK);
  for (int i = 0; i < n; i++) {
    kvm_mem_point q = {.row_bytes = telling[i].row_bytes, .run = telling[i].run, .footprint = UINT64_C(8) << 30,
                       .in_flight = 98304, .sms = 132, .batch = 2048, .threads = 256, .aligned = true, .fit = true};
    CU_ASSERT_EQUAL_FATAL(kvm_mem_predict(card, &q, 0, &q.rate, NULL), KV_OK);
    kvk_point p = point("gather", KVK_RATE, 1e9, 1e9 / q.rate);
    (void)snprintf(p.layout, sizeof p.layout, "%s", telling[i].layout);
    p.row_bytes = q.row_bytes;
    p.run_length = q.run;
    p.blocks = 132;
    p.threads = q.threads;
    p.in_flight = q.in_flight;
    p.footprint = q.footprint;
    CU_ASSERT_EQUAL(kva_calibration_add(&c, &p, NULL), KV_OK);
  }
  CU_ASSERT_EQUAL_FATAL(kva_calibration_write(&c, path, "roofline calibrate", NULL), KV_OK);
  kva_calibration_free(&c);
}

/* How a card differs from the described one: about as much as two of a kind do. */
typedef struct difference {
  double act, efficiency, act_bus;
} difference;
static const difference slow_card = {1.08, 0.98, 1.6}, fast_card = {0.92, 1.01, 0.5};

static void make_card(const char *path, const difference *d, int gathers) {
  kvm_gpu gpu;
  kvm_mem_params p;
  char raw[1024];
  described(&gpu, &p);
  p.act *= d->act;
  p.efficiency *= d->efficiency;
  p.act_bus *= d->act_bus;
  p.latency = 351e-9;
  (void)snprintf(raw, sizeof raw, "%s", kv_tmp("raw.h5"));
  measure_card(&p, gathers, raw);
  const kva_model_plan plan = {.in = raw, .out = path, .gpu = &gpu, .command = "calibrate --from"};
  CU_ASSERT_EQUAL_FATAL(kva_calibration_model(&plan, NULL), KV_OK);
  kvm_gpu_free(&gpu);
}

/* The cards of several tests, made once. */
static const char *card(bool slow) {
  static char path[2][1024];
  if (!path[slow][0]) {
    (void)snprintf(path[slow], sizeof path[slow], "%s", kv_tmp(slow ? "slow-card.h5" : "fast-card.h5"));
    make_card(path[slow], slow ? &slow_card : &fast_card, TELLING);
  }
  return path[slow];
}

static void a_card_comes_back(void) {
  kvm_gpu gpu;
  kvm_mem_params p, plain;
  kva_card_memory m;
  described(&gpu, &plain);
  CU_ASSERT_EQUAL_FATAL(kva_card_memory_read(card(true), &m, NULL), KV_OK);
  CU_ASSERT_TRUE(m.adapted);
  CU_ASSERT_STRING_EQUAL(m.words, "adapted to slow-card.h5");
  CU_ASSERT_DOUBLE_EQUAL(m.card.latency, 351e-9, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(m.card.act / plain.act, slow_card.act, 0.01);
  CU_ASSERT_DOUBLE_EQUAL(m.card.efficiency / plain.efficiency, slow_card.efficiency, 0.01);
  CU_ASSERT_DOUBLE_EQUAL(m.card.act_bus / plain.act_bus, slow_card.act_bus, 0.15);
  CU_ASSERT_EQUAL(kva_card_params(&gpu, &m, &p, NULL), KV_OK);
  CU_ASSERT(p.act == m.card.act && p.latency == m.card.latency && p.efficiency == m.card.efficiency &&
            p.act_bus == m.card.act_bus && p.queue == plain.queue && p.turn == plain.turn);
  kvm_gpu_free(&gpu);
}

/* Kind and source stand beside each value, as everywhere in the file; what was described, too. */
static void each_value_has_its_source(void) {
  hid_t file;
  uint64_t n = KVA_ANY_LENGTH, values = 4;
  char *kind = NULL, *source = NULL, words[320];
  size_t kind_width, source_width;
  double *before = NULL;
  CU_ASSERT_EQUAL_FATAL(kva_open(card(true), "kvceilings-1", &file, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_words(file, "", "memory/kind", &n, &kind, &kind_width, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_words(file, "", "memory/source", &n, &source, &source_width, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_reals(file, "", "memory/described", &values, &before, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(n, 4);
  CU_ASSERT_STRING_EQUAL(kind, "measured");
  CU_ASSERT_STRING_EQUAL(kind + kind_width, "inference");
  CU_ASSERT_PTR_NOT_NULL(strstr(source + 2 * source_width, "random 32-byte rows"));
  CU_ASSERT_DOUBLE_EQUAL(before[0], 333e-9, 1e-12);
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "memory_card", words, sizeof words, NULL), KV_OK);
  CU_ASSERT(!strncmp(words, "adapted", 7));
  (void)H5Fclose(file);
  free(kind);
  free(source);
  free(before);
}

/* What requests share comes from memory once: a second request with the rows of the first makes no layout faster, in whatever order. */
static void shared_rows_make_no_layout_faster(void) {
  enum { ROWS = 40000 };
  kvm_gpu gpu;
  kvm_mem_params p;
  kva_gather once, twice;
  static int32_t slots[2 * ROWS];
  uint64_t indptr[3] = {0, ROWS, 2 * ROWS};
  kva_layout layout = {.requests = 1, .tokens = ROWS, .pool_rows = 4 * ROWS, .row_bytes = 1152, .slots = slots, .indptr = indptr};
  for (int i = 0; i < ROWS; i++) slots[i] = slots[2 * ROWS - 1 - i] = (int32_t)(((int64_t)i * 40503 + 7) % (4 * ROWS));
  described(&gpu, &p);
  CU_ASSERT_EQUAL_FATAL(kva_gather_of(&gpu, NULL, &layout, 1152, &once, NULL), KV_OK);
  layout.requests = 2;
  layout.tokens = 2 * ROWS;
  CU_ASSERT_EQUAL_FATAL(kva_gather_of(&gpu, NULL, &layout, 1152, &twice, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(twice.layout.at.scatter, once.layout.at.scatter, 0);
  CU_ASSERT(twice.layout.at.scatter > 1 && twice.layout.at.ceiling < twice.layout.at.contiguous);
  kvm_gpu_free(&gpu);
}

/* Activations bind where rows are short: a card that opens rows more slowly scatters worse. */
static void a_slower_card_scatters_worse(void) {
  kvm_gpu gpu;
  kvm_mem_params p;
  kva_card_memory slow, fast;
  kva_gather of_slow, of_fast, of_none;
  described(&gpu, &p);
  CU_ASSERT_EQUAL_FATAL(kva_card_memory_read(card(true), &slow, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_card_memory_read(card(false), &fast, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_gather_of(&gpu, &slow, NULL, 64, &of_slow, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_gather_of(&gpu, &fast, NULL, 64, &of_fast, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_gather_of(&gpu, NULL, NULL, 64, &of_none, NULL), KV_OK);
  CU_ASSERT(of_slow.random.at.scatter > 1.02 * of_none.random.at.scatter);
  CU_ASSERT(of_fast.random.at.scatter < 0.98 * of_none.random.at.scatter);
  CU_ASSERT(of_slow.random.at.ceiling < 0.97 * of_none.random.at.ceiling && of_fast.random.at.ceiling > 1.03 * of_none.random.at.ceiling);
  CU_ASSERT(of_slow.adapted && !of_none.adapted);
  CU_ASSERT_PTR_NOT_NULL(strstr(of_slow.status, "memory: adapted to slow-card.h5"));
  CU_ASSERT_PTR_NOT_NULL(strstr(of_none.status, "memory: the described card"));
  kvm_gpu_free(&gpu);
}

static void too_few_gathers_tell_nothing(void) {
  kva_card_memory m;
  char path[1024];
  (void)snprintf(path, sizeof path, "%s", kv_tmp("few.h5"));
  make_card(path, &slow_card, 2);
  CU_ASSERT_EQUAL_FATAL(kva_card_memory_read(path, &m, NULL), KV_OK);
  CU_ASSERT_FALSE(m.adapted);
  CU_ASSERT_PTR_NOT_NULL(strstr(m.words, "the described card (few.h5 is not adapted: no saturated gather of contiguous 576-byte rows"));
  /* what was there before goes */
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", card(true), path), 0);
  const kva_model_plan plan = {.in = path, .out = path, .why = "nobody described it"};
  CU_ASSERT_EQUAL_FATAL(kva_calibration_model(&plan, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_card_memory_read(path, &m, NULL), KV_OK);
  CU_ASSERT_FALSE(m.adapted);
  CU_ASSERT_PTR_NOT_NULL(strstr(m.words, "nobody described it"));
}

/* ---- damaged ---- */

static void overwrite(const char *from, const char *to, const double value[4]) {
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", from, to), 0);
  hid_t file = H5Fopen(to, H5F_ACC_RDWR, H5P_DEFAULT), column = H5Dopen2(file, "memory/value", H5P_DEFAULT);
  CU_ASSERT(H5Dwrite(column, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0);
  (void)H5Dclose(column);
  (void)H5Fclose(file);
}

static void impossible_cards_are_refused(void) {
  static const double bad[][4] = {{-1, 0.9, 4e-9, 0}, {NAN, 0.9, 4e-9, 0}, {350e-9, 1.5, 4e-9, 0}, {350e-9, 0.9, 0, 0},
                                  {1e-12, 0.9, 4e-9, 0}, {350e-9, 0.9, 4e-9, 1},
                                  {3.4e-3, 0.9, 4e-9, 0}};
  kvm_gpu gpu;
  kvm_mem_params p;
  char path[1024];
  described(&gpu, &p);
  (void)snprintf(path, sizeof path, "%s", kv_tmp("bad-card.h5"));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kva_card_memory m;
    kv_error err = {KV_OK, ""};
    overwrite(card(true), path, bad[i]);
    kv_status st = kva_card_memory_read(path, &m, &err);
    if (!st) st = kva_card_params(&gpu, &m, &p, &err);
    CU_ASSERT_EQUAL(st, KV_ERR_INPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "bad-card.h5"));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/memory"));
  }
  /* seconds said to be something else */
  static const char *const unit[4] = {"ms", "1", "s", "s"};
  kva_card_memory m;
  kv_error err = {KV_OK, ""};
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", card(true), kv_tmp("unit-card.h5")), 0);
  hid_t file = H5Fopen(kv_tmp("unit-card.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT(H5Ldelete(file, "memory/unit", H5P_DEFAULT) >= 0 && !kv_h5_write_strings(file, "memory/unit", 4, unit, "u", NULL));
  (void)H5Fclose(file);
  CU_ASSERT_EQUAL(kva_card_memory_read(kv_tmp("unit-card.h5"), &m, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/memory/unit: latency in 'ms', not in 's'"));
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && '%s' --gpu h200 --calibration bad-card.h5 --no-report -q -o x.h5", kv_tmp("."),
                         kv_program("roofline")), 3);
  kvm_gpu_free(&gpu);
}

/* ---- the programs ---- */

static json_t *json_of(const char *program, const char *arguments) {
  char *out = NULL, *err = NULL;
  int status = kv_run(&out, &err, "cd '%s' && '%s' %s", kv_tmp("."), kv_program(program), arguments);
  json_t *j = out ? json_loads(out, 0, NULL) : NULL;
  CU_ASSERT_EQUAL(status, 0);
  if (status) fprintf(stderr, "%s %s: %s\n", program, arguments, err);
  CU_ASSERT_PTR_NOT_NULL_FATAL(j);
  free(out);
  free(err);
  return j;
}

/* Scatter of 1152-B rows each at a random place, by roofline. */
static double roofline_price(const char *calibration, const char *words) {
  char args[400];
  (void)snprintf(args, sizeof args, "--gpu h200 --json --no-report --calibration %s", calibration);
  json_t *j = json_of("roofline", args), *gather = json_object_get(j, "gather");
  double scatter = json_real_value(json_object_get(json_object_get(gather, "random"), "scatter"));
  CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(json_object_get(gather, "status")), words));
  json_decref(j);
  return scatter;
}

/* The same by kvsim: what reading rows of a comb takes, each a run of its own, over what it takes at the bandwidth. */
static double kvsim_price(const char *calibration, const char *words) {
  char args[400];
  kvm_gpu gpu;
  kvm_mem_params p;
  described(&gpu, &p);
  (void)snprintf(args, sizeof args, "whatif comb.h5 --policy as-recorded --json --no-report -o c.h5 --calibration %s", calibration);
  json_t *j = json_of("kvsim", args), *policy = json_array_get(json_object_get(j, "policies"), 0);
  double rows = (double)json_integer_value(json_object_get(policy, "rows"));
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(policy, "runs")), (json_int_t)rows);
  CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(json_object_get(j, "memory_model")), words));
  double price = json_real_value(json_object_get(policy, "read_seconds")) * kvm_gpu_number(&gpu, "dram_read_measured") / (rows * 1152 * 61);
  json_decref(j);
  kvm_gpu_free(&gpu);
  return price;
}

static void both_programs_price_alike(void) {
  static const struct {
    const char *calibration, *words;
  } of[] = {{"slow-card.h5", "memory: adapted to slow-card.h5"},
            {"fast-card.h5", "memory: adapted to fast-card.h5"},
            {"old-card.h5", "the described card (old-card.h5 has no /memory; `roofline calibrate --from` adds it)"},
            {"none", "the described card (no calibration is used)"}};
  double price[4];
  kvm_gpu gpu;
  kvm_mem_params p;
  (void)card(true);
  (void)card(false);
  described(&gpu, &p);
  measure_card(&p, TELLING, kv_tmp("old-card.h5"));
  kvm_gpu_free(&gpu);
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && '%s' synth comb -q -o comb.h5", kv_tmp("."), kv_program("kvsim")), 0);
  for (int i = 0; i < 4; i++) {
    price[i] = roofline_price(of[i].calibration, of[i].words);
    CU_ASSERT_DOUBLE_EQUAL(kvsim_price(of[i].calibration, of[i].words), price[i], 1e-6);
    CU_ASSERT(price[i] > 1);
  }
  CU_ASSERT(price[0] > price[3] && price[1] < price[3] && price[2] == price[3]);
}

/* A calibration of another GPU of the list is no error, one of none of them is. */
static void a_calibration_of_another_gpu(void) {
  char *err = NULL;
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && '%s' synth comb -q -o comb.h5", kv_tmp("."), kv_program("kvsim")), 0);
  (void)card(true);
  json_t *j = json_of("kvsim", "whatif comb.h5 --policy as-recorded --gpu sm_120,h200 --json --no-report -o two.h5 --calibration slow-card.h5");
  json_decref(j);
  hid_t file;
  uint64_t n = KVA_ANY_LENGTH;
  char *models = NULL;
  size_t width;
  CU_ASSERT_EQUAL_FATAL(kva_open(kv_tmp("two.h5"), "kvwhatif-1", &file, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_words(file, "", "gpus/memory_model", &n, &models, &width, NULL), KV_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(models, "the described card (--calibration is of another GPU)"));
  CU_ASSERT_PTR_NOT_NULL(strstr(models + width, "adapted to slow-card.h5"));
  (void)H5Fclose(file);
  free(models);
  CU_ASSERT_EQUAL(kv_run(NULL, &err, "cd '%s' && '%s' whatif comb.h5 --gpu sm_120 --no-report -o no.h5 --calibration slow-card.h5",
                         kv_tmp("."), kv_program("kvsim")), 3);
  CU_ASSERT_PTR_NOT_NULL(strstr(err, "none of the GPUs"));
  free(err);
}

/* The dataset of a run says it, too. */
static void the_dataset_says_whose_memory(void) {
  hid_t file;
  char model[480] = "", calibration[256] = "";
  (void)card(true);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && '%s' --gpu h200 --no-report -q -o run.h5 --calibration slow-card.h5", kv_tmp("."),
                         kv_program("roofline")), 0);
  CU_ASSERT_EQUAL_FATAL(kva_open(kv_tmp("run.h5"), "roofline-1", &file, NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "memory_model", model, sizeof model, NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "calibration", calibration, sizeof calibration, NULL), KV_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(model, "memory: adapted to slow-card.h5"));
  CU_ASSERT_STRING_EQUAL(calibration, "slow-card.h5");
  (void)H5Fclose(file);
}

/* What the tree's calibration keeps is what it tells today, and is what a plain run takes. */
static void the_measured_card_is_kept(void) {
  kva_card_memory kept, again;
  char out[1024];
  kvm_gpu gpu;
  kvm_mem_params p;
  described(&gpu, &p);
  (void)snprintf(out, sizeof out, "%s", kv_tmp("again.h5"));
  CU_ASSERT_EQUAL_FATAL(kva_card_memory_read(kv_source("models/measured/h200-ceilings.h5"), &kept, NULL), KV_OK);
  CU_ASSERT_TRUE_FATAL(kept.adapted);
  const kva_model_plan plan = {.in = kv_source("models/measured/h200-ceilings.h5"), .out = out, .gpu = &gpu};
  CU_ASSERT_EQUAL_FATAL(kva_calibration_model(&plan, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_card_memory_read(out, &again, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(kept.card.latency / again.card.latency, 1, 1e-6);
  CU_ASSERT_DOUBLE_EQUAL(kept.card.act / again.card.act, 1, 1e-6);
  CU_ASSERT_DOUBLE_EQUAL(kept.card.act_bus, again.card.act_bus, 1e-15);
  CU_ASSERT_DOUBLE_EQUAL(kept.card.efficiency / again.card.efficiency, 1, 1e-6);
  json_t *j = json_of("roofline", "--gpu h200 --json --no-report");
  CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(json_object_get(json_object_get(j, "gather"), "status")), "adapted to h200-ceilings.h5"));
  json_decref(j);
  kvm_gpu_free(&gpu);
}

void suite_card_memory(void) {
  static const kv_test_case cases[] = {{"a card comes back", a_card_comes_back},
                                       {"each value has its source", each_value_has_its_source},
                                       {"a slower card scatters worse", a_slower_card_scatters_worse},
                                       {"too few gathers tell nothing", too_few_gathers_tell_nothing},
                                       {"impossible cards are refused", impossible_cards_are_refused},
                                       {"shared rows", shared_rows_make_no_layout_faster},
                                       {"both programs price alike", both_programs_price_alike},
                                       {"a calibration of another GPU", a_calibration_of_another_gpu},
                                       {"the dataset says whose memory", the_dataset_says_whose_memory},
                                       {"the measured card is kept", the_measured_card_is_kept},
                                       {NULL, NULL}};
  kv_suite("card_memory", cases);
}
