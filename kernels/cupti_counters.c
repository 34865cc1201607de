#include "cupti_counters.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- CUPTI's parameter blocks, as its reference lays them out; each begins with its own size ---- */

typedef struct {
  size_t size;
  void *priv;
} block_plain;
typedef struct {
  size_t size;
  void *priv;
  size_t device;
  const char *chip; /* out */
} block_chip;
typedef struct {
  size_t size;
  void *priv;
  int type; /* 0: range profiler */
  const char *chip;
  const uint8_t *availability;
  void *host; /* out */
} block_host;
typedef struct {
  size_t size;
  void *priv;
  void *host;
} block_host_end;
typedef struct {
  size_t size;
  void *priv;
  void *host;
  const char **names;
  size_t count;
} block_metrics;
typedef struct {
  size_t size;
  void *priv;
  void *host;
  size_t bytes; /* out */
} block_image_size;
typedef struct {
  size_t size;
  void *priv;
  void *host;
  size_t bytes;
  uint8_t *image;
} block_image;
typedef struct {
  size_t size;
  void *priv;
  void *context;
  void *profiler; /* out */
} block_enable;
typedef struct {
  size_t size;
  void *priv;
  void *profiler;
} block_profiler;
typedef struct {
  size_t size;
  void *priv;
  void *profiler;
  const char **names;
  size_t count;
  size_t ranges;
  uint32_t nodes;
  size_t bytes; /* out */
} block_data_size;
typedef struct {
  size_t size;
  void *priv;
  void *profiler;
  size_t bytes;
  uint8_t *data;
} block_data;
typedef struct {
  size_t size;
  void *priv;
  void *profiler;
  size_t config_bytes;
  const uint8_t *config;
  size_t data_bytes;
  uint8_t *data;
  int range;  /* 1: a kernel a range */
  int replay; /* 2: by kernel */
  size_t ranges;
  uint16_t levels, lowest;
  size_t pass;
  uint16_t target;
} block_config;
typedef struct {
  size_t size;
  void *priv;
  void *profiler;
  size_t pass, target; /* out */
  uint8_t all_passes;  /* out */
} block_stop;
typedef struct {
  size_t size;
  void *priv;
  void *profiler;
  size_t dropped; /* out */
} block_decode;
typedef struct {
  size_t size;
  void *priv;
  const uint8_t *data;
  size_t bytes;
  size_t ranges; /* out */
} block_info;
typedef struct {
  size_t size;
  void *priv;
  void *host;
  const uint8_t *data;
  size_t bytes;
  size_t range;
  const char **names;
  size_t count;
  double *values; /* out */
} block_values;

/* CUPTI's sizes end with the last field, without trailing padding. */
#define SIZE_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

typedef int (*cupti_call)(void *);
enum call {
  CALL_INITIALIZE,
  CALL_DEINITIALIZE,
  CALL_CHIP,
  CALL_HOST,
  CALL_HOST_END,
  CALL_METRICS,
  CALL_IMAGE_SIZE,
  CALL_IMAGE,
  CALL_VALUES,
  CALL_ENABLE,
  CALL_DISABLE,
  CALL_DATA_SIZE,
  CALL_DATA,
  CALL_CONFIG,
  CALL_START,
  CALL_STOP,
  CALL_DECODE,
  CALL_INFO,
  CALLS
};
static const char *const call_names[CALLS] = {"cuptiProfilerInitialize",
                                              "cuptiProfilerDeInitialize",
                                              "cuptiDeviceGetChipName",
                                              "cuptiProfilerHostInitialize",
                                              "cuptiProfilerHostDeinitialize",
                                              "cuptiProfilerHostConfigAddMetrics",
                                              "cuptiProfilerHostGetConfigImageSize",
                                              "cuptiProfilerHostGetConfigImage",
                                              "cuptiProfilerHostEvaluateToGpuValues",
                                              "cuptiRangeProfilerEnable",
                                              "cuptiRangeProfilerDisable",
                                              "cuptiRangeProfilerGetCounterDataSize",
                                              "cuptiRangeProfilerCounterDataImageInitialize",
                                              "cuptiRangeProfilerSetConfig",
                                              "cuptiRangeProfilerStart",
                                              "cuptiRangeProfilerStop",
                                              "cuptiRangeProfilerDecodeData",
                                              "cuptiRangeProfilerGetCounterDataInfo"};

/* ---- what is counted ---- */

enum metric_rule { SUM, BY_CYCLES };
#define FIELD(name) offsetof(kvk_counters, name)
static const struct metric {
  const char *name;
  size_t field;
  double scale; /* to the field's unit */
  enum metric_rule rule;
} metrics[] = {
    {"sm__cycles_elapsed.max", FIELD(cycles), 1, SUM}, /* the first: it weighs the others */
    {"dram__bytes_read.sum", FIELD(dram_read), 1, SUM},
    {"dram__bytes_write.sum", FIELD(dram_write), 1, SUM},
    {"lts__t_sectors_op_read.sum", FIELD(l2_read), 32, SUM},
    {"l1tex__m_xbar2l1tex_read_bytes.sum", FIELD(link), 1, SUM},
    {"l1tex__m_xbar2l1tex_read_bytes.max", FIELD(link_max), 1, SUM},
    {"l1tex__data_pipe_lsu_wavefronts.sum", FIELD(wavefronts), 1, SUM},
    {"l1tex__data_pipe_lsu_wavefronts.max", FIELD(wavefronts_max), 1, SUM},
    {"sm__inst_executed.sum", FIELD(instructions), 1, SUM},
    {"sm__inst_executed.max", FIELD(instructions_max), 1, SUM},
    {"smsp__issue_active.avg.pct_of_peak_sustained_active", FIELD(issue_active_percent), 1, BY_CYCLES},
    {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", FIELD(long_scoreboard), 1,
     BY_CYCLES},
    {"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", FIELD(barrier), 1, BY_CYCLES},
    {"smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio", FIELD(short_scoreboard), 1,
     BY_CYCLES},
    {"smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio", FIELD(math_throttle), 1,
     BY_CYCLES}};
enum { METRICS = sizeof metrics / sizeof *metrics, MOST_KERNELS = 64 };

struct kvk_counting {
  kvk_device *device;
  void *library;
  cupti_call call[CALLS];
  int (*text)(int, const char **);
  bool initialised;
  void *host;     /* CUPTI's evaluator */
  void *profiler; /* enabled on the context */
  const char *name[METRICS];
  size_t which[METRICS]; /* rows of metrics[] that this GPU has */
  size_t count;
  uint8_t *config, *data;
  size_t config_bytes, data_bytes;
};

/* ISO C has no conversion from an object pointer to a function pointer; POSIX defines this one. */
static void find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
}

static kv_status do_call(const kvk_counting *c, enum call which, void *block, kv_error *err) {
  const char *text = "";
  int code = c->call[which](block);
  if (code == 0) return KV_OK;
  if (!c->text || c->text(code, &text) != 0 || !text) text = "unknown error";
  return kv_fail(err, KV_ERR_DEVICE, "%s: %s (CUPTI error %d)%s", call_names[which], text, code,
                 strstr(text, "PRIVILEGE")
                     ? ": counters are kept to administrators; run as root, or load the driver with "
                       "NVreg_RestrictProfilingToAdminUsers=0"
                     : "");
}

/* ---- opening ---- */

/* CUPTI's profiler is one a process: what ends it for one device would end it for all. */
static pthread_mutex_t counting_lock = PTHREAD_MUTEX_INITIALIZER;

static kv_status load(kvk_counting *c, const char *library, kv_error *err) {
  static const char *const usual[] = {"libcupti.so.13", "libcupti.so.12", "/usr/local/cuda/lib64/libcupti.so",
                                      "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"};
  if (library) c->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; !library && !c->library && i < sizeof usual / sizeof *usual; i++)
    c->library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
  if (!c->library)
    return kv_fail(err, KV_ERR_DEVICE, "%s: cannot be loaded, so there are no counters",
                   library ? library : usual[0]);
  for (int i = 0; i < CALLS; i++) {
    find(c->library, call_names[i], &c->call[i]);
    if (!c->call[i])
      return kv_fail(err, KV_ERR_DEVICE,
                     "%s lacks %s, so there are no counters: CUPTI of CUDA 12.6 or later is needed",
                     library ? library : "libcupti", call_names[i]);
  }
  find(c->library, "cuptiGetResultString", &c->text);
  return KV_OK;
}

static void *current_context(void) {
  void *context = NULL, *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*get)(void **) = NULL;
  if (driver) find(driver, "cuCtxGetCurrent", &get);
  if (get && get(&context) != 0) context = NULL;
  return context; /* libcuda stays loaded: the runtime uses it anyway */
}

static kv_status open_host(kvk_counting *c, kv_error *err) {
  block_plain initialize = {SIZE_TO(block_plain, priv), NULL};
  block_chip chip = {SIZE_TO(block_chip, chip), NULL, (size_t)kvk_device_gpu(c->device)->device, NULL};
  kv_status st = do_call(c, CALL_INITIALIZE, &initialize, err);
  c->initialised = !st;
  if (!st) st = do_call(c, CALL_CHIP, &chip, err);
  block_host host = {SIZE_TO(block_host, host), NULL, 0, chip.chip, NULL, NULL};
  if (!st) st = do_call(c, CALL_HOST, &host, err);
  c->host = host.host;
  return st;
}

/* A metric that this GPU lacks is left out, so that its field stays NaN. */
static kv_status choose_metrics(kvk_counting *c, kv_error *err) {
  for (size_t i = 0; i < METRICS; i++) {
    const char *one[] = {metrics[i].name};
    block_metrics add = {SIZE_TO(block_metrics, count), NULL, c->host, one, 1};
    if (do_call(c, CALL_METRICS, &add, NULL) != KV_OK) continue;
    c->which[c->count] = i;
    c->name[c->count++] = metrics[i].name;
  }
  return c->count ? KV_OK : kv_fail(err, KV_ERR_DEVICE, "CUPTI knows none of the counters wanted");
}

static kv_status make_images(kvk_counting *c, kv_error *err) {
  block_image_size size = {SIZE_TO(block_image_size, bytes), NULL, c->host, 0};
  block_enable enable = {SIZE_TO(block_enable, profiler), NULL, current_context(), NULL};
  kv_status st = do_call(c, CALL_IMAGE_SIZE, &size, err);
  c->config_bytes = size.bytes;
  if (!st) c->config = calloc(1, size.bytes ? size.bytes : 1);
  if (!st && !c->config) st = kv_fail(err, KV_ERR_MEMORY, "counters: out of memory");
  block_image image = {SIZE_TO(block_image, image), NULL, c->host, c->config_bytes, c->config};
  if (!st) st = do_call(c, CALL_IMAGE, &image, err);
  if (!st) st = do_call(c, CALL_ENABLE, &enable, err);
  c->profiler = enable.profiler;
  block_data_size data = {
      SIZE_TO(block_data_size, bytes), NULL, c->profiler, c->name, c->count, MOST_KERNELS, MOST_KERNELS, 0};
  if (!st) st = do_call(c, CALL_DATA_SIZE, &data, err);
  c->data_bytes = data.bytes;
  if (!st) c->data = calloc(1, data.bytes ? data.bytes : 1);
  return st || c->data ? st : kv_fail(err, KV_ERR_MEMORY, "counters: out of memory");
}

kv_status kvk_counting_open(kvk_device *device, const char *library, kvk_counting **counting, kv_error *err) {
  kvk_counting *c = calloc(1, sizeof *c);
  *counting = NULL;
  if (!c) return kv_fail(err, KV_ERR_MEMORY, "counters: out of memory");
  (void)pthread_mutex_lock(&counting_lock);
  c->device = device;
  kv_status st = load(c, library, err);
  if (!st && !device) st = kv_fail(err, KV_ERR_DEVICE, "counters: no device is open");
  if (!st) st = open_host(c, err);
  if (!st) st = choose_metrics(c, err);
  if (!st) st = make_images(c, err);
  if (st) kvk_counting_close(c);
  else *counting = c;
  return st;
}

void kvk_counting_close(kvk_counting *c) {
  if (!c) return;
  block_profiler disable = {SIZE_TO(block_profiler, profiler), NULL, c->profiler};
  block_host_end end = {SIZE_TO(block_host_end, host), NULL, c->host};
  block_plain deinitialize = {SIZE_TO(block_plain, priv), NULL};
  if (c->profiler) (void)do_call(c, CALL_DISABLE, &disable, NULL);
  if (c->host) (void)do_call(c, CALL_HOST_END, &end, NULL);
  if (c->initialised) (void)do_call(c, CALL_DEINITIALIZE, &deinitialize, NULL);
  free(c->config);
  free(c->data);
  /* CUPTI hooks the driver: unloading it under a live context is not safe, so the library stays. */
  free(c);
  (void)pthread_mutex_unlock(&counting_lock);
}

/* ---- counting ---- */

static kv_status collect(kvk_counting *c, const kvk_contender *o, kv_error *err) {
  block_data image = {SIZE_TO(block_data, data), NULL, c->profiler, c->data_bytes, c->data};
  block_config config = {.size = SIZE_TO(block_config, target),
                         .profiler = c->profiler,
                         .config_bytes = c->config_bytes,
                         .config = c->config,
                         .data_bytes = c->data_bytes,
                         .data = c->data,
                         .range = 1,
                         .replay = 2,
                         .ranges = MOST_KERNELS,
                         .levels = 1,
                         .lowest = 1,
                         .target = 1};
  block_profiler start = {SIZE_TO(block_profiler, profiler), NULL, c->profiler};
  block_stop stop = {SIZE_TO(block_stop, all_passes), NULL, c->profiler, 0, 0, 0};
  block_decode decode = {SIZE_TO(block_decode, dropped), NULL, c->profiler, 0};
  kv_status st = do_call(c, CALL_DATA, &image, err);
  if (!st) st = do_call(c, CALL_CONFIG, &config, err);
  if (!st) st = do_call(c, CALL_START, &start, err);
  if (st) return st;
  st = o->enqueue(o->self, kvk_device_stream(c->device), err);
  if (!st) st = kvk_device_wait(c->device, err);
  kv_status stopped = do_call(c, CALL_STOP, &stop, st ? NULL : err);
  if (!st) st = stopped;
  if (!st) st = do_call(c, CALL_DECODE, &decode, err);
  if (!st && decode.dropped)
    st = kv_fail(err, KV_ERR_DEVICE, "%s: more than %d kernels, too many to count", o->name, MOST_KERNELS);
  return st;
}

static void add_kernel(const kvk_counting *c, const double *value, kvk_counters *out) {
  const double cycles = c->which[0] == 0 ? value[0] : 1;
  for (size_t i = 0; i < c->count; i++) {
    const struct metric *m = &metrics[c->which[i]];
    double *field = (double *)(void *)((char *)out + m->field);
    *field = (isnan(*field) ? 0 : *field) + value[i] * m->scale * (m->rule == BY_CYCLES ? cycles : 1);
  }
}

static void finish(const kvk_counting *c, kvk_counters *out) {
  const double cycles = c->which[0] == 0 ? out->cycles : (double)out->kernels;
  for (size_t i = 0; i < c->count; i++) {
    const struct metric *m = &metrics[c->which[i]];
    double *field = (double *)(void *)((char *)out + m->field);
    if (m->rule == BY_CYCLES) *field /= cycles;
  }
}

kv_status kvk_counting_run(kvk_counting *c, const kvk_contender *o, kvk_counters *out, kv_error *err) {
  double value[METRICS];
  for (size_t i = 0; i < METRICS; i++) *(double *)(void *)((char *)out + metrics[i].field) = NAN;
  out->kernels = 0;
  kv_status st = collect(c, o, err);
  block_info info = {SIZE_TO(block_info, ranges), NULL, c->data, c->data_bytes, 0};
  if (!st) st = do_call(c, CALL_INFO, &info, err);
  for (size_t r = 0; !st && r < info.ranges; r++) {
    block_values values = {
        SIZE_TO(block_values, values), NULL, c->host, c->data, c->data_bytes, r, c->name, c->count, value};
    st = do_call(c, CALL_VALUES, &values, err);
    if (st) break;
    add_kernel(c, value, out);
    out->kernels++;
  }
  if (!st && !out->kernels) st = kv_fail(err, KV_ERR_DEVICE, "%s: CUPTI counted no kernel", o->name);
  if (!st) finish(c, out);
  return st;
}
