/* How fast is kvsim replay? The floor is reading the file, so each figure stands beside the time that H5Dread alone
 * takes for the same columns of the same file, measured in the same run.
 *
 * A recording is enlarged to at least 100 M slot operations by looping it: the pool is cleared between loops and the
 * requests are renumbered. Then, in turns, five times: H5Dread of all event columns; `kvsim replay --no-report
 * --every 64`. Printed are medians with their spread, the ratio, slot operations a second, and the peak memory of
 * kvsim (its reading process included). KVROOF_BENCH_OPS makes it shorter, KVROOF_BENCH_TRACE takes another trace.
 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "kv_h5.h"
#include "kv_test.h"
#include "trace.h"

#define REPEATS 5
#define BLOCK (KV_H5_CHUNK * 4u)

int main(void);

typedef struct loop {
  kvt_writer *writer;
  kvt_info info;
  uint64_t operations;
  int32_t number, calls, groups;
  int64_t time_us, last_time_us;
} loop;

static kv_status copy_batch(loop *l, const kvt_batch *b, kv_error *err) {
  uint32_t slot = 0, step = 0;
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < b->events && !st; i++) {
    kvt_event e = kvt_batch_event(b, i, slot);
    slot += e.count;
    if (e.kind == KVT_FREE || kvt_is_alloc(e.kind)) l->operations += e.count;
    if (e.request >= 0) e.request += l->number * (int32_t)l->info.requests;
    if (kvt_is_alloc(e.kind) || e.kind == KVT_ALLOC_CALL) e.aux += l->calls;
    if (e.kind == KVT_FREE && e.length >= 0) e.length += l->groups;
    if (e.kind == KVT_STEP) {
      kvt_step row = b->step_rows[step++];
      l->last_time_us = row.time_us;
      row.time_us += l->time_us;
      st = kvt_writer_step(l->writer, (kvt_step_type)e.aux, &row, err);
    } else {
      st = kvt_writer_event(l->writer, &e, err);
    }
  }
  return st;
}

static kv_status copy_once(loop *l, const char *path, kv_error *err) {
  kvt_reader *reader;
  kvt_batch b;
  kv_status st = kvt_reader_open(path, &reader, &l->info, err);
  if (st) return st;
  while ((st = kvt_reader_next(reader, &b, err)) == KV_OK)
    if ((st = copy_batch(l, &b, err))) break;
  kvt_reader_close(reader);
  const kvt_request unknown = {-1, -1, -1, -1, -1, 0};
  for (uint64_t i = 0; i < l->info.requests && st == KV_END; i++)
    if (kvt_writer_request(l->writer, &unknown, err)) return KV_ERR_IO;
  const kvt_event clear = {.kind = KVT_CLEAR, .request = -1, .position = -1, .length = -1, .aux = -1};
  l->number++;
  l->calls += 1 << 20;
  l->groups += 1 << 20;
  l->time_us += l->last_time_us;
  return st == KV_END ? kvt_writer_event(l->writer, &clear, err) : st;
}

static kv_status enlarge(const char *from, const char *to, bool plain, uint64_t operations, loop *l, kv_error *err) {
  kvt_reader *reader;
  kvt_info info;
  const kvt_writer_options o = {.plain = plain, .unfiltered = plain, .creator = "bench-replay", .command = "bench-replay"};
  *l = (loop){0};
  kv_status st = kvt_reader_open(from, &reader, &info, err);
  if (st) return st;
  kvt_reader_close(reader);
  info.has_final = false;
  (void)snprintf(info.origin, sizeof info.origin, "simulated: a recording looped for a benchmark");
  st = kvt_writer_open(to, &info, &o, &l->writer, err);
  while (!st && l->operations < operations) st = copy_once(l, from, err);
  kv_status done = kvt_writer_finish(l->writer, st != KV_OK, st ? NULL : err);
  return st ? st : done;
}

/* In blocks that stay in the processor's cache, or, with block 0, the column at once into memory of its own. */
static uint64_t read_one(hid_t file, const char *name, void *buffer, hsize_t block) {
  hid_t d = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(d), stored = H5Dget_type(d);
  hid_t type = H5Tget_native_type(stored, H5T_DIR_ASCEND);
  hsize_t n = 0;
  (void)H5Sget_simple_extent_dims(space, &n, NULL);
  void *whole = block ? NULL : malloc(n * H5Tget_size(type));
  if (!block) block = n, buffer = whole;
  for (hsize_t at = 0; at < n; at += block) {
    hsize_t count = n - at < block ? n - at : block;
    hid_t memory = H5Screate_simple(1, &count, NULL);
    (void)H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &count, NULL);
    if (H5Dread(d, type, memory, space, H5P_DEFAULT, buffer) < 0) exit(5);
    (void)H5Sclose(memory);
  }
  uint64_t bytes = n * H5Tget_size(type);
  free(whole);
  (void)H5Tclose(type);
  (void)H5Tclose(stored);
  (void)H5Sclose(space);
  (void)H5Dclose(d);
  return bytes;
}

static double read_columns(const char *path, hsize_t block, uint64_t *bytes) {
  static const char *const names[] = {"events/kind",   "events/step", "events/request", "events/position",
                                      "events/length", "events/aux",  "events/count",   "events/slots"};
  static int64_t buffer[BLOCK];
  double start = kv_seconds();
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  *bytes = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) *bytes += read_one(file, names[i], buffer, block);
  (void)H5Fclose(file);
  return kv_seconds() - start;
}

static double run_kvsim(const char *trace, const char *output, long *peak_kib) {
  double start = kv_seconds();
  pid_t child = fork();
  if (child == 0) {
    execl(kv_program("kvsim"), "kvsim", "replay", "--no-report", "--quiet", "--every", "64", "-o", output, trace, (char *)0);
    _exit(127);
  }
  int status = 0;
  struct rusage usage;
  (void)wait4(child, &status, 0, &usage);
  if (!WIFEXITED(status) || WEXITSTATUS(status)) {
    fprintf(stderr, "bench-replay: kvsim failed\n");
    exit(5);
  }
  if (usage.ru_maxrss > *peak_kib) *peak_kib = usage.ru_maxrss;
  return kv_seconds() - start;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(const char *what, const char *from, bool plain, uint64_t operations) {
  char path[1024], output[1024];
  double floor[REPEATS], whole[REPEATS], replay[REPEATS];
  uint64_t bytes = 0;
  long peak = 0;
  loop l;
  kv_error err = {KV_OK, ""};
  strcpy(path, kv_tmp(plain ? "plain.h5" : "deflate.h5"));
  strcpy(output, kv_tmp("out.kvsim.h5"));
  if (enlarge(from, path, plain, operations, &l, &err)) {
    fprintf(stderr, "bench-replay: %s\n", err.text);
    exit(5);
  }
  for (int i = -1; i < REPEATS; i++) { /* the first round warms the page cache and does not count */
    double f = read_columns(path, BLOCK, &bytes), w = read_columns(path, 0, &bytes), r = run_kvsim(path, output, &peak);
    if (i >= 0) floor[i] = f, whole[i] = w, replay[i] = r;
  }
  qsort(floor, REPEATS, sizeof *floor, by_value);
  qsort(whole, REPEATS, sizeof *whole, by_value);
  qsort(replay, REPEATS, sizeof *replay, by_value);
  double f = floor[REPEATS / 2], w = whole[REPEATS / 2], r = replay[REPEATS / 2];
  printf("replay, %s file: %.1f M slot operations, %u slots, %.0f MB of columns\n"
         "  H5Dread, columns at once     %.3f s (%.3f to %.3f)\n"
         "  H5Dread, 1-MiB blocks        %.3f s (%.3f to %.3f)\n"
         "  kvsim replay --no-report     %.3f s (%.3f to %.3f), %.1f M slot operations/s, peak %ld MiB\n"
         "  ratio                        %.2f of columns at once, %.2f of blocks\n",
         what, (double)l.operations * 1e-6, l.info.pool_size, (double)bytes * 1e-6, w, whole[0], whole[REPEATS - 1], f,
         floor[0], floor[REPEATS - 1], r, replay[0], replay[REPEATS - 1], (double)l.operations * 1e-6 / r, peak / 1024, r / w,
         r / f);
  if (!getenv("KVROOF_BENCH_KEEP")) (void)remove(path);
}

int main(void) {
  const char *ops = getenv("KVROOF_BENCH_OPS"), *trace = getenv("KVROOF_BENCH_TRACE");
  uint64_t operations = ops ? strtoull(ops, NULL, 10) : 100000000;
  if (!trace) trace = kv_source("traces/samples/mixed_eagle.h5");
  setvbuf(stdout, NULL, _IOLBF, 0);
  kv_h5_quiet();
  measure("deflate-1", trace, false, operations);
  measure("plain", trace, true, operations);
  return 0;
}
