/* The harness's logic with a fake timer, NVML's error paths, matching of GPU names, and what happens without
 * a GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ceilings.h"
#include "cupti_counters.h"
#include "harness.h"
#include "kv_test.h"

enum { MOST = 4096 };

/* A timer whose time is made up: each run of contender c takes cost[c] s; it records what was asked. */
typedef struct fake {
  double clock, cost[4];
  size_t order[MOST];
  bool timed[MOST], cold[MOST];
  size_t calls;
  size_t fail_at; /* call number that fails; 0 never */
  double lie;     /* not NaN: every time reported */
  unsigned states;
  kvk_state state;
} fake;

static kv_status fake_run(void *self, size_t which, bool cold, bool timed, double *seconds, kv_error *err) {
  fake *f = self;
  if (f->calls < MOST) {
    f->order[f->calls] = which;
    f->timed[f->calls] = timed;
    f->cold[f->calls] = cold;
  }
  f->calls++;
  f->clock += f->cost[which];
  if (f->fail_at && f->calls == f->fail_at) return kv_fail(err, KV_ERR_DEVICE, "the device is lost");
  if (timed) *seconds = isnan(f->lie) ? f->cost[which] : f->lie;
  return KV_OK;
}

static void fake_state(void *self, kvk_state *state) {
  fake *f = self;
  f->states++;
  *state = f->state;
}

static double fake_now(void *self) {
  return ((fake *)self)->clock;
}

static fake new_fake(void) {
  fake f = {.cost = {1, 2, 3, 4}, .lie = NAN};
  kvk_state_clear(&f.state);
  return f;
}

static void every_round_has_all(void) {
  fake f = new_fake();
  double room[3][10];
  kvk_series series[3] = {{.seconds = room[0]}, {.seconds = room[1]}, {.seconds = room[2]}};
  const kvk_plan plan = {.warmup = 2, .repeats = 10, .cold = true, .seed = 9};
  const kvk_timer timer = {&f, fake_run, fake_state, fake_now};
  bool varied = false;
  CU_ASSERT_EQUAL(kvk_measure(&timer, 3, &plan, series, NULL), KV_OK);
  CU_ASSERT_EQUAL(f.calls, 6 + 30);
  for (size_t i = 0; i < 6; i++) CU_ASSERT_FALSE(f.timed[i]);
  for (size_t r = 0; r < 10; r++) {
    const size_t *o = &f.order[6 + 3 * r];
    CU_ASSERT_EQUAL((1u << o[0]) + (1u << o[1]) + (1u << o[2]), 7);
    varied = varied || o[0] != f.order[6];
    CU_ASSERT(f.timed[6 + 3 * r] && f.cold[6 + 3 * r]);
  }
  CU_ASSERT(varied);
  CU_ASSERT_EQUAL(f.states, 3);
  for (size_t c = 0; c < 3; c++) {
    CU_ASSERT_EQUAL(series[c].count, 10);
    CU_ASSERT_DOUBLE_EQUAL(series[c].seconds[9], (double)c + 1, 0);
  }
}

static void time_limit_ends_a_round(void) {
  fake f = new_fake();
  double room[2][100];
  kvk_series series[2] = {{.seconds = room[0]}, {.seconds = room[1]}};
  const kvk_timer timer = {&f, fake_run, NULL, fake_now};
  kvk_plan plan = {.warmup = 1, .repeats = 100, .time_limit = 20, .seed = 1}; /* 3 s a round */
  kv_error err;
  CU_ASSERT_EQUAL(kvk_measure(&timer, 2, &plan, series, NULL), KV_OK);
  CU_ASSERT_EQUAL(series[0].count, 6); /* warm-up to 3 s; rounds end at 6, 9, ..., 21 */
  CU_ASSERT_EQUAL(series[1].count, 6);
  CU_ASSERT(isnan(series[0].state.power));
  plan.minimum = 50;
  CU_ASSERT_EQUAL(kvk_measure(&timer, 2, &plan, series, &err), KV_ERR_DEVICE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "time limit"));
}

static void failure_keeps_whole_rounds(void) {
  fake f = new_fake();
  double room[2][10];
  kvk_series series[2] = {{.seconds = room[0]}, {.seconds = room[1]}};
  const kvk_timer timer = {&f, fake_run, NULL, fake_now};
  const kvk_plan plan = {.repeats = 10, .seed = 1};
  kv_error err;
  f.fail_at = 8; /* second run of the fourth round */
  CU_ASSERT_EQUAL(kvk_measure(&timer, 2, &plan, series, &err), KV_ERR_DEVICE);
  CU_ASSERT_STRING_EQUAL(err.text, "the device is lost");
  CU_ASSERT_EQUAL(series[0].count, 3);
  CU_ASSERT_EQUAL(series[1].count, 3);
}

static void a_lying_timer_is_caught(void) {
  fake f = new_fake();
  double room[10];
  kvk_series series = {.seconds = room};
  const kvk_timer timer = {&f, fake_run, NULL, fake_now};
  const kvk_plan plan = {.repeats = 10};
  f.lie = 0;
  CU_ASSERT_EQUAL(kvk_measure(&timer, 1, &plan, &series, NULL), KV_ERR_INTERNAL);
  f.lie = INFINITY;
  CU_ASSERT_EQUAL(kvk_measure(&timer, 1, &plan, &series, NULL), KV_ERR_INTERNAL);
}

static void throttling_is_marked(void) {
  fake f = new_fake();
  double room[10];
  char text[64];
  kvk_series series = {.seconds = room};
  const kvk_timer timer = {&f, fake_run, fake_state, fake_now};
  const kvk_plan plan = {.repeats = 5};
  f.state.throttle_known = true;
  f.state.throttle = 0x1 | 0x2; /* idle, application clocks: no throttling */
  f.state.sm_clock = 1980;
  CU_ASSERT_EQUAL(kvk_measure(&timer, 1, &plan, &series, NULL), KV_OK);
  CU_ASSERT_FALSE(series.throttled);
  CU_ASSERT_STRING_EQUAL(kvk_throttle_text(&series.state, text, sizeof text), "none");
  f.state.throttle = KVK_THROTTLE_POWER_CAP | KVK_THROTTLE_HW_THERMAL;
  CU_ASSERT_EQUAL(kvk_measure(&timer, 1, &plan, &series, NULL), KV_OK);
  CU_ASSERT(series.throttled);
  CU_ASSERT_STRING_EQUAL(kvk_throttle_text(&series.state, text, sizeof text), "power cap, hardware thermal");
  CU_ASSERT_DOUBLE_EQUAL(series.state.sm_clock, 1980, 0);
}

static void states_fold(void) {
  kvk_state a, b;
  kvk_state_clear(&a);
  kvk_state_clear(&b);
  b.sm_clock = 1500;
  b.power = 400;
  kvk_state_merge(&a, &b);
  b.sm_clock = 1800;
  b.power = 300;
  kvk_state_merge(&a, &b);
  CU_ASSERT_DOUBLE_EQUAL(a.sm_clock, 1500, 0);
  CU_ASSERT_DOUBLE_EQUAL(a.power, 400, 0);
  CU_ASSERT(isnan(a.temperature));
  CU_ASSERT_FALSE(kvk_state_throttled(&a));
}

static void nvml_missing_is_told(void) {
  kvk_nvml *nvml = NULL;
  kvk_state state;
  kv_error err;
  char driver[16] = "x";
  CU_ASSERT_EQUAL(kvk_nvml_open("/nowhere/libnvidia-ml.so.1", "0000:00:00.0", &nvml, &err), KV_ERR_DEVICE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/nowhere/libnvidia-ml.so.1"));
  CU_ASSERT_PTR_NULL(nvml);
  CU_ASSERT_EQUAL(kvk_nvml_open("libm.so.6", "0000:00:00.0", &nvml, &err), KV_ERR_DEVICE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "nvmlInit_v2"));
  kvk_nvml_read(NULL, &state);
  CU_ASSERT(isnan(state.power) && !state.throttle_known);
  kvk_nvml_driver(NULL, driver, sizeof driver);
  CU_ASSERT_STRING_EQUAL(driver, "");
  kvk_nvml_close(NULL);
}

static void cupti_missing_is_told(void) {
  kvk_counting *counting = NULL;
  kv_error err;
  CU_ASSERT_EQUAL(kvk_counting_open(NULL, "/nowhere/libcupti.so.13", &counting, &err), KV_ERR_DEVICE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/nowhere/libcupti.so.13"));
  CU_ASSERT_EQUAL(kvk_counting_open(NULL, "libm.so.6", &counting, &err), KV_ERR_DEVICE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "cuptiProfilerInitialize"));
  CU_ASSERT_PTR_NULL(counting);
  kvk_counting_close(NULL);
}

static void names_match_as_words(void) {
  const kvk_gpu h200 = {.name = "NVIDIA H200", .major = 9, .minor = 0};
  const kvk_gpu pro = {.name = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", .major = 12, .minor = 0};
  const char *const one[] = {"H200"}, *const other[] = {"h100", "GH200"}, *const rtx[] = {"RTX PRO 6000"};
  CU_ASSERT(kvk_gpu_matches(&h200, &(kvk_gpu_wanted){0, 0, one, 1}));
  CU_ASSERT_FALSE(kvk_gpu_matches(&h200, &(kvk_gpu_wanted){9, 0, other, 2})); /* names decide where given */
  CU_ASSERT(kvk_gpu_matches(&h200, &(kvk_gpu_wanted){9, 0, NULL, 0}));
  CU_ASSERT_FALSE(kvk_gpu_matches(&h200, &(kvk_gpu_wanted){12, 0, NULL, 0}));
  CU_ASSERT(kvk_gpu_matches(&pro, &(kvk_gpu_wanted){0, 0, rtx, 1}));
  CU_ASSERT_FALSE(kvk_gpu_matches(&pro, &(kvk_gpu_wanted){0, 0, (const char *const[]){"RTX PRO 600"}, 1}));
  CU_ASSERT(kvk_gpu_matches(&pro, &(kvk_gpu_wanted){0, 0, NULL, 0}));
}

/* On a machine with a GPU these two say nothing; elsewhere they are the whole behaviour. */
static void without_a_device(void) {
  int count = -1;
  kv_error err = {KV_OK, ""};
  kvk_device *device = NULL;
  if (kvk_gpu_count(&count, &err) == KV_OK) return;
  CU_ASSERT_EQUAL(count, 0);
  CU_ASSERT_EQUAL(err.status, KV_ERR_DEVICE);
  CU_ASSERT(strstr(err.text, "driver") || strstr(err.text, "nvcc") || strstr(err.text, "GPU"));
  CU_ASSERT_EQUAL(kvk_device_open(0, &device, NULL, 0, &err), KV_ERR_DEVICE);
  CU_ASSERT_PTR_NULL(device);
  CU_ASSERT_EQUAL(kvk_gpu_find(&(kvk_gpu_wanted){9, 0, NULL, 0}, &(kvk_gpu){0}, &err), KV_ERR_DEVICE);
  kvk_device_close(NULL);
}

static void the_list_is_there(void) {
  char *runs = NULL, entry[80];
  CU_ASSERT_EQUAL(kvk_ceiling_count(), 18);
  CU_ASSERT_EQUAL_FATAL(kv_run(&runs, NULL, "cat '%s'", kv_source("kernels/ceilings.cu")), 0);
  for (size_t i = 0; i < kvk_ceiling_count(); i++) { /* what is listed can be run, in a build with CUDA */
    (void)snprintf(entry, sizeof entry, "{\"%s\", kvk_ceil_%s}", kvk_ceiling_at(i)->name, kvk_ceiling_at(i)->name);
    CU_ASSERT_PTR_NOT_NULL(strstr(runs, entry));
  }
  free(runs);
  CU_ASSERT_PTR_NULL(kvk_ceiling_at(kvk_ceiling_count()));
  for (size_t i = 0; i < kvk_ceiling_count(); i++) CU_ASSERT(strlen(kvk_ceiling_at(i)->bound) > 3);
}

void suite_harness(void) {
  static const kv_test_case cases[] = {{"every round runs all, in varied order", every_round_has_all},
                                       {"time limit ends a round", time_limit_ends_a_round},
                                       {"a failure keeps whole rounds", failure_keeps_whole_rounds},
                                       {"a lying timer is caught", a_lying_timer_is_caught},
                                       {"throttling is marked", throttling_is_marked},
                                       {"states fold", states_fold},
                                       {"missing NVML is told", nvml_missing_is_told},
                                       {"missing CUPTI is told", cupti_missing_is_told},
                                       {"GPU names match as words", names_match_as_words},
                                       {"without a device", without_a_device},
                                       {"list of microbenchmarks", the_list_is_there},
                                       {NULL, NULL}};
  kv_suite("harness", cases);
}
