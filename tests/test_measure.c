/* The measuring path without a GPU: where rows are put, what is said when no GPU is there, the dataset of
 * measured points, the options on the command line. */
#include <hdf5.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_h5.h"
#include "kv_test.h"
#include "measure.h"
#include "measure_all.h"

enum { TOKENS = 5000, POOL = 8000 };

static bool all_distinct(const int32_t *slots, int n, int pool) {
  bool seen[POOL] = {false}, distinct = true;
  for (int i = 0; i < n; i++) {
    if (slots[i] < 0 || slots[i] >= pool || seen[slots[i]]) distinct = false;
    else seen[slots[i]] = true;
  }
  return distinct;
}

static void places(void) {
  static int32_t a[TOKENS], b[TOKENS], r[TOKENS];
  CU_ASSERT_EQUAL(kva_place_slots(KVA_CONTIGUOUS, TOKENS, POOL, NULL, 1, a, NULL), KV_OK);
  for (int i = 0; i < TOKENS; i++) CU_ASSERT_EQUAL_FATAL(a[i], i);
  CU_ASSERT_EQUAL(kva_place_slots(KVA_RECORDED, TOKENS, POOL, a, 1, b, NULL), KV_OK);
  CU_ASSERT_EQUAL(memcmp(a, b, sizeof a), 0);
  CU_ASSERT_EQUAL(kva_place_slots(KVA_RANDOM, TOKENS, POOL, NULL, 1, a, NULL), KV_OK);
  CU_ASSERT(all_distinct(a, TOKENS, POOL));
  CU_ASSERT_EQUAL(kva_place_slots(KVA_RANDOM, TOKENS, POOL, NULL, 1, b, NULL), KV_OK);
  CU_ASSERT_EQUAL(memcmp(a, b, sizeof a), 0);
  CU_ASSERT_EQUAL(kva_place_slots(KVA_RANDOM, TOKENS, POOL, NULL, 2, b, NULL), KV_OK);
  CU_ASSERT_NOT_EQUAL(memcmp(a, b, sizeof a), 0);
  CU_ASSERT_EQUAL(kva_place_slots(KVA_RESIDENT, TOKENS, POOL, NULL, 1, r, NULL), KV_OK);
  for (int i = 0; i < TOKENS; i++)
    CU_ASSERT_EQUAL_FATAL(r[i], a[i] % 64); /* the slots of `random`, aliased */
}

static void random_means_scattered(void) {
  static int32_t a[TOKENS];
  int neighbours = 0;
  CU_ASSERT_EQUAL(kva_place_slots(KVA_RANDOM, TOKENS, POOL, NULL, 7, a, NULL), KV_OK);
  for (int i = 1; i < TOKENS; i++) neighbours += a[i] == a[i - 1] + 1;
  CU_ASSERT(neighbours < 10); /* 5000 / 8000 expected */
}

static void a_small_pool_is_refused(void) {
  int32_t a[10];
  kv_error err;
  CU_ASSERT_EQUAL(kva_place_slots(KVA_CONTIGUOUS, 10, 9, NULL, 1, a, &err), KV_ERR_USAGE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "9 rows"));
  CU_ASSERT_EQUAL(kva_place_slots(KVA_RANDOM, 10, 9, NULL, 1, a, &err), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(kva_place_slots(KVA_RECORDED, 10, 9, NULL, 1, a, &err), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(kva_place_slots(KVA_RANDOM, 10, UINT64_C(1) << 31, NULL, 1, a, &err), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(kva_place_slots(KVA_RANDOM, 0, 9, NULL, 1, a, &err), KV_OK);
}

static void without_a_device(void) {
  kva_problem problem = {.batch = 1, .prefix = 100};
  const kva_measure_plan plan = {.heads = 8, .queries = 9, .problem = &problem, .problems = 1};
  kva_measured m[2];
  const int devices[] = {0, 1};
  kv_error err;
  int count = 0;
  if (kvk_gpu_count(&count, NULL) == KV_OK) return;
  CU_ASSERT_EQUAL(kva_measure(&plan, 0, m, &err), KV_ERR_DEVICE);
  CU_ASSERT(m[0].rows == 0 && !m[0].complete);
  CU_ASSERT_STRING_EQUAL(m[0].failure, err.text);
  kva_measured_free(&m[0]);
  CU_ASSERT_EQUAL(kva_measure_all(&plan, devices, 2, m, &err), KV_ERR_DEVICE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "device 0"));
  kva_measured_free(&m[0]);
  kva_measured_free(&m[1]);
}

/* ---- several devices ---- */

enum { RANKS = 4 };
typedef struct walker {
  kva_meeting *meeting;
  pthread_mutex_t *lock;
  int *done; /* [RANKS], of all */
  int rank, turns;
  bool ahead;
} walker;

/* A turn may begin only when every rank that has turns left has ended the one before. */
static void *walk(void *self) {
  walker *w = self;
  for (int turn = 0; turn < w->turns; turn++) {
    kva_meeting_wait(w->meeting);
    (void)pthread_mutex_lock(w->lock);
    for (int r = 0; r < RANKS; r++) w->ahead = w->ahead || w->done[r] < (turn < 10 * r ? turn : 10 * r);
    w->done[w->rank]++;
    (void)pthread_mutex_unlock(w->lock);
  }
  kva_meeting_leave(w->meeting);
  return NULL;
}

/* Ranks of 0, 10, 20 and 30 turns: who is done is waited for no more. */
static void ranks_meet(void) {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread[RANKS];
  walker w[RANKS];
  int done[RANKS] = {0};
  kva_meeting *meeting = NULL;
  CU_ASSERT_EQUAL_FATAL(kva_meeting_open(RANKS, &meeting, NULL), KV_OK);
  for (int r = 0; r < RANKS; r++) {
    w[r] = (walker){meeting, &lock, done, r, 10 * r, false};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[r], NULL, walk, &w[r]), 0);
  }
  for (int r = 0; r < RANKS; r++) {
    (void)pthread_join(thread[r], NULL);
    CU_ASSERT(!w[r].ahead && done[r] == 10 * r);
  }
  kva_meeting_close(meeting);
  kva_meeting_close(NULL);
}

static void a_file_a_device(void) {
  const int devices[] = {2, 5};
  static const struct {
    const char *output, *file, *folder;
  } cases[] = {{"h200.h5", "h200-gpu5.h5", "h200.h5-gpu5"},  {"a.b/run", "a.b/run-gpu5", "a.b/run-gpu5"},
               {"a.b/run.v1.h5", "a.b/run.v1-gpu5.h5", NULL}, {"out/", NULL, "out-gpu5"},
               {"/", NULL, "/-gpu5"},                         {"run", "run-gpu5", "run-gpu5"}};
  char path[100];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kva_device_file(cases[i].output, devices, 0, path, sizeof path);
    CU_ASSERT_STRING_EQUAL(path, cases[i].output);
    kva_device_folder(cases[i].output, devices, 0, path, sizeof path);
    CU_ASSERT_STRING_EQUAL(path, cases[i].output);
    kva_device_file(cases[i].output, devices, 1, path, sizeof path);
    if (cases[i].file) CU_ASSERT_STRING_EQUAL(path, cases[i].file);
    kva_device_folder(cases[i].output, devices, 1, path, sizeof path);
    if (cases[i].folder) CU_ASSERT_STRING_EQUAL(path, cases[i].folder);
  }
}

/* ---- the dataset ---- */

static void fill(kva_measured *m) {
  const double base[] = {2e-5, 2.1e-5, 2.2e-5};
  *m = (kva_measured){.origin = {.gpu = {.name = "Test GPU", .pci = "0000:1B:00.0", .device = 3, .major = 9, .sms = 132},
                                 .date = "2026-01-02",
                                 .power_limit = NAN},
                      .heads = 8,
                      .queries = 9,
                      .pool_rows = 1000,
                      .at_once = 2,
                      .complete = true};
  m->row = calloc(2, sizeof *m->row);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m->row);
  m->rows = m->room = 2;
  for (int i = 0; i < 2; i++) {
    kva_measured_row *r = &m->row[i];
    *r = (kva_measured_row){.kind = KVK_SPLIT_VERIFY,
                            .place = i ? KVA_RESIDENT : KVA_RANDOM,
                            .experiment = i ? KVA_WARM_GRAPH : KVA_COLD_GRAPH,
                            .batch = 1,
                            .copies = 1,
                            .longest = 4096,
                            .tokens = 4096,
                            .useful_bytes = 5e6,
                            .useful_flops = 6.4e8,
                            .to_contiguous = {1.01, 1.0, 1.02}};
    r->structure.unique_kv_bytes = 4096 * 1152.0;
    r->structure.blocks = 132;
    kvk_state_clear(&r->state);
    r->seconds = malloc(sizeof base);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r->seconds);
    memcpy(r->seconds, base, sizeof base);
    CU_ASSERT_EQUAL(kva_summarise(base, 3, 1, &r->time, NULL), KV_OK);
  }
}

static double number(hid_t file, const char *name, hsize_t row) {
  double values[16] = {NAN};
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT);
  CU_ASSERT_FATAL(d >= 0);
  CU_ASSERT(H5Dread(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  (void)H5Dclose(d);
  return values[row];
}

static void dataset_holds_the_points(void) {
  kva_measured m;
  kva_calibration c = {0};
  const kva_measured_labels labels = {"h200", "test", "a verdict", 61, NULL, NULL, "its-ceilings.h5"};
  const char *path = kv_tmp("measured.h5");
  char text[64] = "", *out = NULL;
  int64_t complete = 0, device = 0, together = 0;
  kvk_point dram = {.name = "dram", .unit = "B", .work = 1e9, .samples = 1, .seconds = {1e-3}}; /* 1 TB/s */
  kvk_point mma = {
      .name = "mma", .unit = "FLOP", .work = 1e12, .samples = 1, .seconds = {1e-2}}; /* 100 TFLOP/s */
  CU_ASSERT_EQUAL(kva_calibration_add(&c, &dram, NULL), KV_OK);
  CU_ASSERT_EQUAL(kva_calibration_add(&c, &mma, NULL), KV_OK);
  fill(&m);
  CU_ASSERT_EQUAL_FATAL(kva_measured_write(&m, &c, &labels, path, "roofline", NULL), KV_OK);
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  CU_ASSERT_DOUBLE_EQUAL(number(file, "points/measured", 0), 2.1e-5, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(number(file, "points/floor", 0), 6.4e-6, 1e-12); /* max(5 us, 6.4 us) */
  CU_ASSERT_DOUBLE_EQUAL(number(file, "points/effective_bandwidth", 0), 4096 * 1152 / 2.1e-5, 1);
  CU_ASSERT(isnan(number(file, "points/t5", 0)) && isnan(number(file, "points/time", 0)));
  CU_ASSERT_DOUBLE_EQUAL(number(file, "points/layout", 0), 0, 0); /* of two used */
  CU_ASSERT_DOUBLE_EQUAL(number(file, "points/layout", 1), 1, 0);
  CU_ASSERT_DOUBLE_EQUAL(number(file, "points/kernel", 1), 0, 0);
  CU_ASSERT_DOUBLE_EQUAL(number(file, "points/to_contiguous", 0), 1.01, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(number(file, "points/throttled", 0), 2, 0); /* unknown */
  CU_ASSERT_DOUBLE_EQUAL(number(file, "samples/seconds", 4), 2.1e-5, 1e-12);
  hid_t words = H5Dopen2(file, "layouts/t3_source", H5P_DEFAULT), type = words >= 0 ? H5Dget_type(words) : -1;
  char source[2][300] = {{0}};
  hid_t wide = H5Tcopy(H5T_C_S1);
  CU_ASSERT_FATAL(words >= 0 && type >= 0);
  CU_ASSERT(H5Tset_size(wide, sizeof source[0]) >= 0 && H5Tset_cset(wide, H5Tget_cset(type)) >= 0);
  CU_ASSERT(H5Dread(words, wide, H5S_ALL, H5S_ALL, H5P_DEFAULT, source) >= 0);
  CU_ASSERT_STRING_EQUAL(source[0], "not known: no ceilings"); /* of the ladder: there are no roofs */
  (void)H5Tclose(wide);
  (void)H5Tclose(type);
  (void)H5Dclose(words);
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "status", text, sizeof text, NULL), KV_OK);
  CU_ASSERT_STRING_EQUAL(text, "measured: Test GPU, driver unknown, 2026-01-02");
  CU_ASSERT(kv_h5_get_i64(file, "complete", &complete, NULL) == KV_OK && complete == 1);
  CU_ASSERT(kv_h5_get_i64(file, "device", &device, NULL) == KV_OK && device == 3);
  CU_ASSERT(kv_h5_get_i64(file, "devices_at_once", &together, NULL) == KV_OK && together == 2);
  CU_ASSERT(kv_h5_get_str(file, "pci", text, sizeof text, NULL) == KV_OK && !strcmp(text, "0000:1B:00.0"));
  CU_ASSERT(kv_h5_get_str(file, "calibration", text, sizeof text, NULL) == KV_OK && !strcmp(text, "its-ceilings.h5"));
  (void)H5Fclose(file);
  (void)kv_run(&out, NULL, "%s compare %s %s", kv_program("roofline"), path, path);
  CU_ASSERT(out && strstr(out, "2026-01-02, device 3, one of 2 at once)"));
  free(out);
  CU_ASSERT_EQUAL(kva_measured_write(&m, NULL, &labels, path, "roofline", NULL),
                  KV_OK); /* no ceilings: no floor */
  file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT(isnan(number(file, "points/floor", 0)));
  (void)H5Fclose(file);
  kva_measured_free(&m);
  kva_calibration_free(&c);
}

/* ---- the command line ---- */

static void bad_options_are_named(void) {
  static const struct {
    const char *arguments, *says;
    int status;
  } cases[] = {{"--kernels split_verify,foo", "'foo' is no kernel", 2},
               {"--device x", "--device", 2},
               {"--device 0,", "--device", 2},
               {"--device 0,1,x", "--device: 'x'", 2},
               {"--device 1,0,1", "1 is given twice", 2},
               {"--device 0,64", "--device", 2},
               {"--smem-limit 5", "--smem-limit", 2},
               {"--repeats 1", "--repeats", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *err = NULL;
    CU_ASSERT_EQUAL(
        kv_run(NULL, &err, "%s --gpu h200 --no-report %s", kv_program("roofline"), cases[i].arguments),
        cases[i].status);
    CU_ASSERT(err && strstr(err, cases[i].says));
    free(err);
  }
}

static void says_why_it_models(void) {
  char *out = NULL, *err = NULL;
  int count = 0;
  if (kvk_gpu_count(&count, NULL) == KV_OK) return;
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s --gpu h200 --prefix 4096 --no-report -o %s",
                         kv_program("roofline"), kv_tmp("m.h5")),
                  0);
  CU_ASSERT(out && strncmp(out, "modelled", 8) == 0); /* on the first line, with the reason */
  CU_ASSERT(out && strstr(out, "not measured: ") && strstr(out, "not measured: ") < strchr(out, '\n'));
  free(out);
  CU_ASSERT_EQUAL(kv_run(NULL, &err, "%s --gpu h200 --device 0 --no-report", kv_program("roofline")), 4);
  free(err);
  CU_ASSERT_EQUAL(kv_run(NULL, &err, "%s --gpu h200 --device all --dry-run", kv_program("roofline")), 4);
  CU_ASSERT(err && strstr(err, "--device: "));
  free(err);
  CU_ASSERT_EQUAL(kv_run(NULL, &err, "%s calibrate -o %s", kv_program("roofline"), kv_tmp("c.h5")), 4);
  CU_ASSERT(err && strncmp(err, "roofline: ", 10) == 0);
  free(err);
  CU_ASSERT_EQUAL(kv_run(NULL, &err, "%s calibrate --require dram", kv_program("roofline")), 2);
  free(err);
}

void suite_measure(void) {
  static const kv_test_case cases[] = {{"places", places},
                                       {"random means scattered", random_means_scattered},
                                       {"a small pool is refused", a_small_pool_is_refused},
                                       {"without a device", without_a_device},
                                       {"ranks meet", ranks_meet},
                                       {"a file a device", a_file_a_device},
                                       {"the dataset holds the points", dataset_holds_the_points},
                                       {"bad options are named", bad_options_are_named},
                                       {"says why it models", says_why_it_models},
                                       {NULL, NULL}};
  kv_suite("measure", cases);
}
