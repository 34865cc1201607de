/* How fast is a what-if simulation, policy by policy? The recording is held in memory, so that reading it does not count;
 * everything else is as `kvsim whatif` does it (one cost, about 512 samples, 16 in detail). Times are processor time of this
 * process: it has one thread and waits for nothing. Slot operations are what the
 * recording allocates and frees; the bar is 10 M/s a core for every policy. Rows that relocation copies come on top and
 * are shown apart. Medians of five with their spread; then the peak memory of one simulating process beside
 * 64 MiB + 16 B a pool slot + 8 B a live row. KVROOF_BENCH_TRACE takes another trace.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kv_guard.h"
#include "kv_test.h"
#include "synth.h"
#include "whatif_run.h"

#define REPEATS 5

int main(void);

static void give_up(const kv_error *err) {
  fprintf(stderr, "bench-whatif: %s\n", err->text);
  exit(5);
}

static void load(const char *path, kvs_tape *tape) {
  kvt_reader *reader;
  kvt_info info;
  kvt_batch b;
  kv_status st;
  kv_error err = {KV_OK, ""};
  if (kvt_reader_open(path, &reader, &info, &err)) give_up(&err);
  kvs_tape_init(tape, &info);
  while ((st = kvt_reader_next(reader, &b, &err)) == KV_OK) {
    uint32_t slot = 0, step = 0;
    for (uint32_t i = 0; i < b.events; i++) {
      const kvt_event e = kvt_batch_event(&b, i, slot);
      slot += e.count;
      if (e.kind == KVT_STEP)
        kvs_tape_step(tape, (kvt_step_type)e.aux, &b.step_rows[step++]);
      else
        kvs_tape_add(tape, e.kind, e.request, e.position, e.length, e.aux, e.slots, e.count);
    }
  }
  if (st != KV_END) give_up(&err);
  kvt_reader_close(reader);
  if (tape->failed) exit(5);
}

static kvs_whatif_options as_the_command(const kvs_tape *tape) {
  kvs_whatif_options o = kvs_whatif_options_default();
  o.every = (uint32_t)(tape->info.steps / 512 + 1);
  o.detail_every = 32;
  o.cost[0] = (kvs_cost){.read_bandwidth = 4e12, .copy_bandwidth = 4e12};
  o.costs = 1;
  return o;
}

static double processor_seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double simulate(const kvs_tape *tape, const kvs_policy *policy, kvs_whatif_result *result) {
  const kvs_whatif_options o = as_the_command(tape);
  const kvt_batch batch = kvs_tape_batch(tape);
  kvs_whatif *f;
  kv_error err = {KV_OK, ""};
  double start = processor_seconds();
  if (kvs_whatif_create(&tape->info, policy, &o, NULL, &f, &err) || kvs_whatif_batch(f, &batch, &err) || kvs_whatif_finish(f, &err))
    give_up(&err);
  double seconds = processor_seconds() - start;
  *result = *kvs_whatif_get_result(f);
  kvs_whatif_free(f);
  return seconds;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Of a process that simulates and holds nothing else: before the recording is loaded here. */
static double peak_mib(const kvt_info *info, const kvs_policy *policy, const char *path) {
  const kvs_tape head = {.info = *info};
  const kvs_cells_options run = {.path = path, .whatif = as_the_command(&head), .jobs = 1};
  kvs_cell *cell = kv_guard_share(sizeof *cell);
  kv_error err = {KV_OK, ""};
  if (!cell) exit(5);
  *cell = (kvs_cell){.policy = policy, .settings = kvs_policy_settings_default()};
  if (kvs_cells_run(cell, 1, &run, &err) || cell->status) give_up(&err);
  double mib = (double)cell->memory_bytes / (1 << 20);
  kv_guard_unshare(cell, sizeof *cell);
  return mib;
}

static void measure(const kvs_tape *tape, const kvs_policy *policy, double peak) {
  static kvs_whatif_result r;
  double t[REPEATS];
  (void)simulate(tape, policy, &r); /* warm */
  for (int i = 0; i < REPEATS; i++) t[i] = simulate(tape, policy, &r);
  qsort(t, REPEATS, sizeof *t, by_value);
  double ops = (double)(r.tally.allocated + r.tally.freed) * 1e-6, moved = (double)(r.tally.moved + r.tally.copied) * 1e-6;
  double bar = 64 + (16.0 * tape->info.pool_size + 8.0 * (double)r.rows_most) / (1 << 20);
  printf("whatif %-14s %6.1f M slot operations, %5.1f M rows copied: %.3f s (%.3f-%.3f), %6.1f M slot operations/s%s, peak %3.0f MiB (bar %.0f)\n",
         policy->name, ops, moved, t[REPEATS / 2], t[0], t[REPEATS - 1], ops / t[REPEATS / 2], ops / t[REPEATS / 2] < 10 ? " MISSED" : "",
         peak, bar);
}

int main(void) {
  const char *path = getenv("KVROOF_BENCH_TRACE");
  kvs_tape tape;
  if (!path) path = kv_source("traces/samples/mixed_eagle.h5");
  char *kept = strdup(path);
  setvbuf(stdout, NULL, _IOLBF, 0);
  double peak[KVS_POLICIES];
  kvt_reader *reader;
  kvt_info info;
  kv_error err = {KV_OK, ""};
  if (kvt_reader_open(kept, &reader, &info, &err)) give_up(&err);
  kvt_reader_close(reader);
  for (unsigned i = 0; i < KVS_POLICIES; i++) peak[i] = peak_mib(&info, kvs_policies[i], kept);
  load(kept, &tape);
  for (unsigned i = 0; i < KVS_POLICIES; i++) measure(&tape, kvs_policies[i], peak[i]);
  kvs_tape_free(&tape);
  free(kept);
  return 0;
}
