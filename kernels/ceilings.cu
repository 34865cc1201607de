/* What runs the microbenchmarks of ceilings_list.c. */
#include <time.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "ceil.h"
#include "ceilings.h"

struct entry {
  const char *name; /* of ceilings_list.c */
  kv_status (*run)(kvk_bench *, kv_error *);
};

static const entry entries[] = {
    {"dram", kvk_ceil_dram},
    {"l2", kvk_ceil_l2},
    {"link", kvk_ceil_link},
    {"wavefront", kvk_ceil_wavefront},
    {"mma", kvk_ceil_mma},
    {"wgmma", kvk_ceil_wgmma},
    {"fma", kvk_ceil_fma},
    {"sfu", kvk_ceil_sfu},
    {"issue", kvk_ceil_issue},
    {"latency", kvk_ceil_latency},
    {"line", kvk_ceil_line},
    {"chain", kvk_ceil_chain},
    {"hop", kvk_ceil_hop},
    {"turns", kvk_ceil_turns},
    {"fill", kvk_ceil_fill},
    {"loaded", kvk_ceil_loaded},
    {"launch", kvk_ceil_launch},
    {"gather", kvk_ceil_gather},
};

static double monotonic(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- arena ---- */

kv_status kvk_bench_arena(kvk_bench *b, uint64_t bytes, uint64_t least, uint64_t *got, kv_error *err) {
  kv_status st = KV_OK;
  *got = b->arena_bytes;
  if (b->arena_bytes >= bytes) return KV_OK;
  kvk_device_free(b->device, b->arena);
  b->arena = NULL;
  b->arena_bytes = 0;
  uint64_t room = kvk_device_room(b->device);
  if (b->plan->most_memory && room > b->plan->most_memory) room = b->plan->most_memory;
  while (bytes > room && bytes / 2 >= least) bytes /= 2;
  st = kvk_device_alloc(b->device, bytes, (void **)&b->arena, err);
  if (st) return st;
  b->arena_bytes = bytes;
  *got = bytes;
  return kvk_bench_refill(b, err);
}

kv_status kvk_bench_refill(kvk_bench *b, kv_error *err) {
  kv_status st = kvk_device_noise(b->device, b->arena, b->arena_bytes, b->plan->seed + 1, false, err);
  return st ? st : kvk_device_wait(b->device, err);
}

/* ---- points ---- */

kvk_point kvk_bench_blank(const char *name, const char *unit, kvk_point_kind kind) {
  kvk_point p;
  std::memset(&p, 0, sizeof p);
  (void)std::snprintf(p.name, sizeof p.name, "%s", name);
  (void)std::snprintf(p.unit, sizeof p.unit, "%s", unit);
  p.kind = kind;
  p.load = p.cycles = std::nan("");
  return p;
}

int kvk_bench_resident(const void *kernel, int threads, size_t shared, int wanted) {
  int blocks = 0;
  if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared) != cudaSuccess ||
      blocks < 1)
    blocks = 1;
  return blocks < wanted ? blocks : wanted;
}

uint32_t kvk_bench_repeats(const kvk_bench *b) {
  uint32_t n = b->plan->repeats ? b->plan->repeats : 20;
  return n < KVK_POINT_SAMPLES ? n : KVK_POINT_SAMPLES;
}

kv_status kvk_bench_hand_on(kvk_bench *b, kvk_point *point, kv_error *err) {
  return b->sink(b->user, point, err);
}

/* A point must not pay for the heat of the one before it: waits, up to a second, until no throttling is
 * reported. */
static void recover(const kvk_bench *b) {
  const struct timespec pause = {0, 50000000};
  kvk_state state;
  for (int i = 0; i < 20; i++) {
    kvk_nvml_read(kvk_device_nvml(b->device), &state);
    if (!kvk_state_throttled(&state)) return;
    (void)nanosleep(&pause, NULL);
  }
}

struct call {
  kvk_launcher launch;
  void *arg;
  const char *name;
};

static kv_status enqueue_call(void *self, void *stream, kv_error *err) {
  struct call *c = (struct call *)self;
  return kvk_cuda(c->launch(c->arg, (cudaStream_t)stream), c->name, err);
}

kv_status kvk_bench_time(kvk_bench *b, kvk_point *point, kvk_launcher launch, void *arg, kv_error *err) {
  struct call c = {launch, arg, point->name};
  kvk_contender contender = {point->name, enqueue_call, &c, false};
  kvk_plan plan = {2,     kvk_bench_repeats(b), 3, b->plan->point_limit > 0 ? b->plan->point_limit : 2.0,
                   false, b->plan->seed};
  kvk_series series;
  std::memset(&series, 0, sizeof series);
  series.seconds = point->seconds;
  if (monotonic() >= b->deadline) {
    b->cut = true;
    return KV_END;
  }
  recover(b);
  kv_status st = kvk_device_measure(b->device, &contender, 1, &plan, &series, err);
  if (st) return st;
  point->samples = series.count;
  point->state = series.state;
  point->throttled = series.throttled;
  return KV_OK;
}

kv_status kvk_bench_point(kvk_bench *b, kvk_point *point, kvk_launcher launch, void *arg, kv_error *err) {
  kv_status st = kvk_bench_time(b, point, launch, arg, err);
  return st ? st : kvk_bench_hand_on(b, point, err);
}

/* ---- a run ---- */

static kv_status begin(kvk_bench *b, kvk_device *dev, const kvk_ceiling_plan *plan, kv_error *err) {
  std::memset(b, 0, sizeof *b);
  b->device = dev;
  b->gpu = kvk_device_gpu(dev);
  b->plan = plan;
  b->stream = (cudaStream_t)kvk_device_stream(dev);
  b->deadline = monotonic() + (plan->total_limit > 0 ? plan->total_limit : 120.0);
  kv_status st = kvk_device_alloc(dev, 4096, (void **)&b->dump, err);
  if (!st) b->counters = (unsigned long long *)(b->dump + 256);
  if (!st) st = kvk_cuda(cudaMemsetAsync(b->dump, 0, 4096, b->stream), "clearing counters", err);
  return st;
}

kv_status kvk_ceiling_run(kvk_device *dev, const char *name, const kvk_ceiling_plan *plan,
                          kvk_point_sink sink, void *user, char *note, size_t note_size, kv_error *err) {
  const entry *e = NULL;
  kvk_bench b;
  if (note && note_size) note[0] = '\0';
  for (const entry &x : entries)
    if (std::strcmp(x.name, name) == 0) e = &x;
  if (!e) return kv_fail(err, KV_ERR_USAGE, "no microbenchmark is called '%s'", name);
  kv_status st = begin(&b, dev, plan, err);
  b.sink = sink;
  b.user = user;
  if (!st) st = e->run(&b, err);
  if (st == KV_END && b.cut) {
    if (note) (void)std::snprintf(note, note_size, "%s: cut short by its time limit", name);
    st = KV_OK;
  }
  kvk_device_free(dev, b.arena);
  kvk_device_free(dev, b.dump);
  return st;
}
