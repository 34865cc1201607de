/* kvsim as a user types it: results, exit statuses, what is left behind, and the installed tree. */
#include <hdf5.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "kv_h5.h"
#include "kv_test.h"
#include "kv_version.h"
#include "trace_fixture.h"

#define N(events) (uint32_t)(sizeof(events) / sizeof *(events))

/* Runs kvsim with the scratch folder as working folder; checks the status and that stderr has `why`. */
static void expect(const char *arguments, int status, const char *why) {
  char *err = NULL;
  int got = kv_run(NULL, &err, "cd '%s' && %s %s", kv_tmp("."), kv_program("kvsim"), arguments);
  CU_ASSERT_EQUAL(got, status);
  CU_ASSERT_PTR_NOT_NULL(strstr(err, why));
  bool one_line = !*err || strchr(err, '\n') == err + strlen(err) - 1;
  if (status >= 3) CU_ASSERT_TRUE(one_line);
  if (got != status || !strstr(err, why)) fprintf(stderr, "kvsim %s: status %d, %s", arguments, got, err);
  free(err);
}

static void nothing_left(const char *pattern) {
  CU_ASSERT_NOT_EQUAL(kv_run(NULL, NULL, "cd '%s' && ls %s", kv_tmp("."), pattern), 0);
}

static void small_trace(const char *name, const fx *events, uint32_t n) {
  kvt_info info = fx_info(KVT_ALLOC_TOKEN, 8, 1);
  CU_ASSERT_EQUAL(fx_write(kv_tmp(name), &info, events, n, NULL), KV_OK);
}

static void usage_errors(void) {
  char args[2048];
  const char *sample = kv_source("traces/samples/single_long_eagle.h5");
  static const struct {
    const char *options, *why;
  } c[] = {{"--every 0", "--every"},           {"--every x", "--every"},           {"--row-bytes 0", "--row-bytes"},
           {"--request 0", "--layout-out"},    {"--layout-out usage-l.h5", "--request"}, {"--allocator best", "--allocator"},
           {"--layout-out usage-l.h5 --request 1", "--request"}, {"--layout-out usage-l.h5 --request 0 --step 530", "--step"},
           {"--no-such-option", "no-such-option"}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    (void)snprintf(args, sizeof args, "replay '%s' --no-report -q -o usage-o.h5 %s", sample, c[i].options);
    expect(args, 2, c[i].why);
  }
  nothing_left("usage-o.h5*");
  nothing_left("usage-l.h5*");
  expect("", 2, "name a command");
  expect("fly", 2, "unknown command 'fly'");
  expect("replay", 2, "name a trace");
  expect("info", 2, "name a trace");
}

/* However it is spelt, an output is never an input. */
static void inputs_are_not_overwritten(void) {
  char *before = NULL, *after = NULL;
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && cp '%s' in.h5 && ln -sf in.h5 link.h5", kv_tmp("."), kv_source("traces/samples/single_long_eagle.h5")), 0);
  CU_ASSERT_EQUAL(kv_run(&before, NULL, "cksum <'%s'", kv_tmp("in.h5")), 0);
  expect("replay in.h5 -o ./in.h5 --no-report -q", 2, "is the trace itself");
  expect("replay in.h5 -o link.h5 --no-report -q", 2, "is the trace itself");
  expect("replay in.h5 -o in-o.h5 --layout-out ./in.h5 --request 0 --step 30 --no-report -q", 2, "--layout-out");
  expect("replay in.h5 -o in-o.h5 --layout-out in-o.h5 --request 0 --step 30 --no-report -q", 2, "--layout-out");
  expect("import in.h5 -o ./in.h5", 2, "is the input itself");
  CU_ASSERT_EQUAL(kv_run(&after, NULL, "cksum <'%s'", kv_tmp("in.h5")), 0);
  CU_ASSERT_STRING_EQUAL(before, after);
  /* a link to another file is followed, and stays a link */
  expect("replay in.h5 -o in-o.h5 --no-report -q", 0, "");
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && ln -sf in-o.h5 olink.h5", kv_tmp(".")), 0);
  expect("replay in.h5 -o olink.h5 --no-report -q", 0, "");
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "test -L '%s'", kv_tmp("olink.h5")), 0);
  free(before);
  free(after);
}

/* A disk that fills up, here a file size limit: exit 5 with one line, nothing left. */
static void a_full_disk(void) {
  char *err = NULL;
  int got = kv_run(NULL, &err, "cd '%s' && ulimit -f 100 && %s replay '%s' --no-report -q -o full.h5", kv_tmp("."), kv_program("kvsim"),
                   kv_source("traces/samples/mixed_eagle.h5"));
  CU_ASSERT_EQUAL(got, 5);
  CU_ASSERT_PTR_NOT_NULL(strstr(err, "File too large"));
  CU_ASSERT_PTR_NULL(strstr(err, "buf ="));
  free(err);
  nothing_left("full.h5*");
}

/* Names and texts that are no UTF-8 still give JSON. */
static void odd_names_in_json(void) {
  char *out = NULL;
  json_error_t where;
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "cd '%s' && cp in.h5 \"$(printf 'a\\377\\033b.h5')\" && %s replay \"$(printf 'a\\377\\033b.h5')\" --json --no-report -o oj.h5",
                         kv_tmp("."), kv_program("kvsim")), 0);
  json_t *root = json_loads(out, 0, &where);
  CU_ASSERT_PTR_NOT_NULL_FATAL(root);
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "trace")), "a??b.h5");
  json_decref(root);
  free(out);
}

/* Killed by a signal, a run leaves nothing behind. */
static void a_signal_leaves_nothing(void) {
  int got = kv_run(NULL, NULL, "cd '%s' && { %s replay '%s' --no-report -q -o sig.h5 & p=$!; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "
                   "ls sig.h5.*.part >/dev/null 2>&1 && break; sleep 0.01; done; kill -TERM $p; wait $p; }", kv_tmp("."), kv_program("kvsim"),
                   kv_source("traces/samples/mixed_eagle.h5"));
  CU_ASSERT_TRUE(got == 143 || got == 0); /* 0: it was faster */
  nothing_left("sig.h5.*");
}

/* A pool that no machine here has room for is refused before anything is allocated or written. */
static void a_pool_beyond_the_memory_is_refused(void) {
  char args[1024];
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && %s synth contiguous --pool 4096 --rows 100 -q -o vast.h5", kv_tmp("."),
                               kv_program("kvsim")), 0);
  hid_t f = H5Fopen(kv_tmp("vast.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(f >= 0);
  CU_ASSERT_EQUAL(kv_h5_put_i64(f, "pool_size", INT32_MAX - 1, NULL), KV_OK);
  (void)H5Fclose(f);
  (void)snprintf(args, sizeof args, "replay '%s' --no-report -o vast.kvsim.h5", kv_tmp("vast.h5"));
  kv_error err = {KV_OK, ""};
  if (kv_cli_memory(UINT64_C(34) << 30, "x", &err)) expect(args, 5, "replaying a pool of 2147483646 slots: needs ");
  CU_ASSERT_EQUAL(kv_cli_memory(UINT64_MAX, "all", &err), KV_ERR_MEMORY);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "are left on this machine"));
  CU_ASSERT_EQUAL(kv_cli_memory(1, "one", &err), KV_OK);
  if (getenv("KVROOF_SAN") && *getenv("KVROOF_SAN")) return; /* the sanitizer reserves terabytes of address space */
  char *out;
  CU_ASSERT_EQUAL(kv_run(NULL, &out, "cd '%s' && ulimit -v 8000000 && %s replay vast.h5 --no-report -o vast.kvsim.h5", kv_tmp("."),
                         kv_program("kvsim")), 5);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "GB of memory, 8.2 GB are left"));
  free(out);
  nothing_left("vast.kvsim.h5*");
}

/* While gnuplot draws, too: its folder goes and it is stopped. SIGINT is ignored by a shell's background jobs unless
 * `env` puts it back. */
static void a_signal_stops_the_drawing(void) {
  static const char *const names[] = {"INT", "TERM", "HUP"};
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && mkdir -p slow && printf '#!/bin/sh\\necho $$ >\"$SLOW\"\\necho x >half.png\\n"
                               "exec sleep 60\\n' >slow/gnuplot && chmod 755 slow/gnuplot", kv_tmp(".")), 0);
  for (size_t i = 0; i < 3; i++) {
    int got = kv_run(NULL, NULL, "cd '%s' && { export SLOW=\"$PWD/slow.pid\"; rm -f slow.pid; "
                     "PATH=\"$PWD/slow:$PATH\" env --default-signal=INT %s replay '%s' -q -o sigr.h5 --report=sigr >/dev/null 2>&1 & p=$!; "
                     "for i in $(seq 500); do [ -s slow.pid ] && break; sleep 0.02; done; [ -s slow.pid ] || exit 99; "
                     "ls -d sigr/.kvroof-report-* >/dev/null || exit 98; kill -%s $p; wait $p; r=$?; "
                     "[ -z \"$(ls -A sigr)\" ] || exit 97; kill -0 $(cat slow.pid) 2>/dev/null && exit 96; exit $r; }",
                     kv_tmp("."), kv_program("kvsim"), kv_source("traces/samples/single_long_eagle.h5"), names[i]);
    CU_ASSERT_EQUAL(got, 128 + (i == 0 ? 2 : i == 1 ? 15 : 1));
  }
}

static void io_errors(void) {
  char args[2048];
  const char *sample = kv_source("traces/samples/single_long_eagle.h5");
  expect("info /nonexistent.h5", 5, "/nonexistent.h5");
  expect("replay /nonexistent.h5", 5, "/nonexistent.h5");
  expect("import /nonexistent.h5", 5, "/nonexistent.h5");
  (void)snprintf(args, sizeof args, "replay '%s' --no-report -o /nonexistent/x.h5", sample);
  expect(args, 5, "/nonexistent/x.h5");
  (void)snprintf(args, sizeof args, "replay '%s' --no-report -o /dev/full", sample);
  expect(args, 5, "not a regular file");
  (void)snprintf(args, sizeof args, "replay '%s' --no-report -o io.h5 >/dev/full", sample);
  expect(args, 5, "standard output");
  (void)snprintf(args, sizeof args, "info '%s' >/dev/full", sample);
  expect(args, 5, "standard output");
  (void)snprintf(args, sizeof args, "replay '%s' --report rep -q -o gp.h5", sample);
  char *err = NULL; /* no gnuplot on the PATH: the dataset is there all the same */
  int got = kv_run(NULL, &err, "cd '%s' && PATH=/nonexistent %s %s", kv_tmp("."), kv_program("kvsim"), args);
  CU_ASSERT_EQUAL(got, 5);
  CU_ASSERT_PTR_NOT_NULL(strstr(err, "gnuplot-nox"));
  CU_ASSERT_EQUAL(access(kv_tmp("gp.h5"), F_OK), 0);
  free(err);
}

static void inconsistent_traces(void) {
  static const fx twice[] = {FX_STEP(1), FX_ARRIVE(0, 2, 0), FX_START(0, 0, 0), FX_CALL(2, 1, 1), FX_EXTEND(0, 0, 1, 2, 1, 2),
                             FX_FREE(0, KVT_FREE_TAIL, -1, 1, 2), FX_FREE(0, KVT_FREE_TAIL, -1, 1, 2)};
  static const fx outside[] = {FX_STEP(1), FX_ARRIVE(0, 2, 0), FX_START(0, 0, 0), FX_CALL(2, 1, 1), FX_EXTEND(0, 0, 1, 2, 1, 9)};
  static const fx backwards[] = {FX_STEP(1), {KVT_STEP, -1, 10, -1, 1, 0, {0}}};
  small_trace("twice.h5", twice, N(twice));
  small_trace("outside.h5", outside, N(outside));
  small_trace("backwards.h5", backwards, N(backwards));
  expect("replay twice.h5 --no-report", 3, "twice.h5: /events/slots[3] (event 6, FREE, step 1, request 0): slot 2 is freed, but is free already");
  expect("replay outside.h5 --no-report", 3, "slot 9 is outside the pool (1 to 8)");
  expect("replay backwards.h5 --no-report", 3, "time runs backwards");
  expect("info backwards.h5", 3, "time runs backwards");
  nothing_left("twice.kvsim.h5*");
  nothing_left("outside.kvsim.h5*");
  nothing_left("backwards.kvsim.h5*");
  expect("replay twice.h5 --no-report --layout-out twice-l.h5 --request 0 --step 1", 3, "free already");
  nothing_left("twice-l.h5*");
  expect("replay twice.h5 --no-report --permissive", 0, "");
}

static void damaged_files(void) {
  char args[2048];
  const char *sample = kv_source("traces/samples/single_long_eagle.h5");
  (void)snprintf(args, sizeof args, "head -c 60000 '%s' >'%s'", sample, kv_tmp("cut.h5"));
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s", args), 0);
  expect("replay cut.h5", 3, "cut.h5: damaged or cut short");
  expect("info cut.h5", 3, "cut.h5: damaged or cut short");
  expect("import cut.h5", 3, "cut.h5: damaged or cut short");
  (void)snprintf(args, sizeof args, "import '%s' -o i.h5", sample);
  expect(args, 3, "is a kvtrace-1 trace already");
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && printf '{\"timestamp\": 0}' >no.h5", kv_tmp(".")), 0);
  expect("import no.h5 -o i.h5", 3, "no.h5");
  nothing_left("cut.k*");
  nothing_left("i.h5*");
}

static void an_empty_trace_is_valid(void) {
  small_trace("empty.h5", NULL, 0);
  expect("replay empty.h5 --no-report -q", 0, "");
  expect("replay empty.h5 --report empty-report -q", 0, "");
  expect("replay empty.h5 --layout-out empty-l.h5 --request all --no-report -q", 2, "--request");
}

/* Two runs with the same clock are the same, byte for byte. */
static void twice_is_bit_identical(void) {
  char *out = NULL, *err = NULL;
  int got = kv_run(&out, &err,
                   "cd '%s' && export SOURCE_DATE_EPOCH=1795910400 && mkdir -p a b && for d in a b; do (cd $d && %s replay '%s' --json --every 16 "
                   "--no-report -o o.h5 --layout-out l.h5 --request 7 --step 200 >j) || exit 9; done; cmp a/o.h5 b/o.h5 && cmp a/l.h5 b/l.h5 && cmp a/j b/j",
                   kv_tmp("."), kv_program("kvsim"), kv_source("traces/samples/mixed_eagle.h5"));
  CU_ASSERT_EQUAL(got, 0);
  if (got) fprintf(stderr, "status %d: %s%s", got, out, err);
  free(out);
  free(err);
}

/* The replay names requests where they finish: they are gone at the end of that step, and their layout is to be had all the same. */
static void a_layout_of_a_finishing_request(void) {
  char args[2048];
  int64_t step = 0;
  hsize_t n = 0;
  const char *sample = kv_source("traces/samples/mixed_eagle.h5");
  (void)snprintf(args, sizeof args, "replay '%s' --no-report -q -o fin.kvsim.h5 --layout-out fin.h5 --request 186 --step 1225", sample);
  expect(args, 0, "");
  hid_t f = H5Fopen(kv_tmp("fin.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_TRUE_FATAL(f >= 0);
  hid_t d = H5Dopen2(f, "slots", H5P_DEFAULT), space = H5Dget_space(d);
  (void)H5Sget_simple_extent_dims(space, &n, NULL);
  int32_t *slots = malloc(n * sizeof *slots + 1);
  CU_ASSERT_TRUE(H5Dread(d, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, slots) >= 0);
  (void)H5Sclose(space), (void)H5Dclose(d);
  CU_ASSERT_EQUAL(kv_h5_get_i64(f, "step", &step, NULL), KV_OK);
  CU_ASSERT_EQUAL(step, 1225);
  (void)H5Fclose(f);
  /* the verdict: 2,719 rows in 934 runs; the verify kernel saw them without what it accepted, 9 at most */
  uint64_t runs = 1;
  for (hsize_t i = 1; i < n; i++) runs += slots[i] != slots[i - 1] + 1;
  CU_ASSERT_TRUE(n < 2719 && n >= 2719 - 9);
  CU_ASSERT_TRUE(runs <= 934 && runs >= 934 - 9);
  free(slots);
  (void)snprintf(args, sizeof args, "replay '%s' --no-report -q -o fin.kvsim.h5 --layout-out gone.h5 --request 186 --step 1226", sample);
  expect(args, 2, "does not run after step 1226 (it does from step 1049 to 1225)");
  nothing_left("gone.h5*");
}

/* The layout is the row that the replay itself measured. */
static void a_layout_holds_the_row(void) {
  char args[2048];
  int32_t *slots = NULL;
  uint64_t indptr[2] = {0};
  int64_t value = 0;
  hsize_t n = 0;
  (void)snprintf(args, sizeof args, "replay '%s' --no-report -q -o lay.kvsim.h5 --layout-out lay.h5 --request 0 --step 33",
                 kv_source("traces/samples/single_long_eagle.h5"));
  expect(args, 0, "");
  hid_t f = H5Fopen(kv_tmp("lay.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_TRUE_FATAL(f >= 0);
  hid_t d = H5Dopen2(f, "slots", H5P_DEFAULT), space = H5Dget_space(d);
  (void)H5Sget_simple_extent_dims(space, &n, NULL);
  slots = malloc(n * sizeof *slots);
  CU_ASSERT_TRUE(H5Dread(d, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, slots) >= 0);
  (void)H5Sclose(space);
  (void)H5Dclose(d);
  d = H5Dopen2(f, "indptr", H5P_DEFAULT);
  CU_ASSERT_TRUE(H5Dread(d, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, indptr) >= 0);
  (void)H5Dclose(d);
  CU_ASSERT_EQUAL(indptr[1], n);
  /* What the verify kernel of step 33 saw: the statistics say 134,834 rows after it, and 28 runs. */
  uint64_t runs = 1;
  for (hsize_t i = 1; i < n; i++) runs += slots[i] != slots[i - 1] + 1;
  CU_ASSERT_TRUE(n < 134834 && n >= 134834 - 8);
  CU_ASSERT_TRUE(runs <= 28 && runs >= 24);
  CU_ASSERT_EQUAL(kv_h5_get_i64(f, "pool_rows", &value, NULL), KV_OK);
  CU_ASSERT_EQUAL(value, 1048577);
  d = H5Dopen2(f, "tree_slots", H5P_DEFAULT);
  CU_ASSERT_TRUE_FATAL(d >= 0);
  space = H5Dget_space(d);
  (void)H5Sget_simple_extent_dims(space, &n, NULL);
  CU_ASSERT_EQUAL(n, 9);
  (void)H5Sclose(space);
  (void)H5Dclose(d);
  (void)H5Fclose(f);
  free(slots);
  nothing_left("lay.h5.*");
}

/* ---- units everywhere ---- */

typedef struct unit_walk {
  unsigned datasets, bare;
} unit_walk;

static herr_t check_units(hid_t loc, const char *name, const H5O_info_t *info, void *arg) {
  unit_walk *w = arg;
  char text[256];
  if (info->type != H5O_TYPE_DATASET) return 0;
  hid_t d = H5Oopen(loc, name, H5P_DEFAULT);
  w->datasets++;
  if (kv_h5_get_str(d, "units", text, sizeof text, NULL) || !text[0] || kv_h5_get_str(d, "long_name", text, sizeof text, NULL)) {
    w->bare++;
    fprintf(stderr, "%s has no units or long_name\n", name);
  }
  (void)H5Oclose(d);
  return 0;
}

static void units_in(const char *path, unsigned at_least) {
  unit_walk w = {0, 0};
  hid_t f = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_TRUE_FATAL(f >= 0);
  (void)H5Ovisit(f, H5_INDEX_NAME, H5_ITER_NATIVE, check_units, &w);
  (void)H5Fclose(f);
  CU_ASSERT_EQUAL(w.bare, 0);
  CU_ASSERT_TRUE(w.datasets >= at_least);
}

static void every_dataset_has_units(void) {
  expect("replay empty.h5 --no-report -q -o units.kvsim.h5", 0, "");
  units_in(kv_tmp("units.kvsim.h5"), 40);
  units_in(kv_tmp("lay.h5"), 4);
  units_in(kv_source("traces/samples/mixed_eagle.h5"), 20);
}

static void other_readers_open_the_files(void) {
  if (kv_run(NULL, NULL, "command -v h5dump") != 0) {
    printf("(h5dump not installed: skipped) ");
  } else {
    CU_ASSERT_EQUAL(kv_run(NULL, NULL, "h5dump -A '%s' && h5dump -d /slots '%s'", kv_tmp("units.kvsim.h5"), kv_tmp("lay.h5")), 0);
  }
  if (kv_run(NULL, NULL, "python3 -c 'import h5py'") != 0) {
    printf("(h5py not installed: skipped) ");
    return;
  }
  CU_ASSERT_EQUAL(kv_run(NULL, NULL,
                         "python3 -c 'import h5py,sys\nf=h5py.File(sys.argv[1])\nassert bytes(f.attrs[\"Conventions\"])==b\"kvsim-1\"\n"
                         "assert bytes(f[\"pool/step\"].attrs[\"units\"])==b\"1\"\nassert len(f[\"final/slot_state\"])==8' '%s'",
                         kv_tmp("units.kvsim.h5")),
                  0);
}

static void json_is_json(void) {
  char *out = NULL;
  json_error_t where;
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "cd '%s' && %s replay '%s' --json --no-report -o j.h5", kv_tmp("."), kv_program("kvsim"),
                         kv_source("traces/samples/single_long_eagle.h5")),
                  0);
  json_t *root = json_loads(out, 0, &where);
  CU_ASSERT_PTR_NOT_NULL_FATAL(root);
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "schema")), "kvsim-replay-1");
  CU_ASSERT_EQUAL(json_array_size(json_object_get(root, "milestones")), 12);
  json_decref(root);
  free(out);
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s info --json '%s'", kv_program("kvsim"), kv_source("traces/samples/mixed_eagle_v2.h5")), 0);
  root = json_loads(out, 0, &where);
  CU_ASSERT_PTR_NOT_NULL_FATAL(root);
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(root, "requests")), 400);
  json_decref(root);
  free(out);
}

static void help_and_version(void) {
  char *out = NULL;
  static const char *const commands[] = {"", "info", "replay", "import"};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s %s --help", kv_program("kvsim"), commands[i]), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "Usage:"));
    free(out);
  }
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s --version", kv_program("kvsim")), 0);
  CU_ASSERT_EQUAL(strncmp(out, "kvsim (kvroof) ", 15), 0);
  free(out);
}

/* A page a sub-command, each with that command's own options and name. */
static void installed_pages_are_there(void) {
  static const struct {
    const char *page, *name, *option; /* option: or an example, typed as it stands */
  } pages[] = {{"kvsim", "kvsim", "kvsim\\-replay"},
               {"kvsim-replay", "kvsim\\-replay", "\\-\\-layout\\-out"},
               {"kvsim-sweep", "kvsim\\-sweep", "\\-\\-restart"},
               {"kvsim", "kvsim", ".nf\nkvsim info trace.h5\nkvsim replay trace.h5\n"},
               {"kvsim-synth", "kvsim\\-synth", ".SH EXAMPLES\n.IP\n.nf\nkvsim synth "},
               {"roofline-step", "roofline\\-step", " \\-o step.h5\n.fi"},
               {"kvsim-whatif", "kvsim\\-whatif", "\\-\\-draft\\-topk"},
               {"roofline", "roofline", "roofline\\-step"},
               {"roofline-calibrate", "roofline\\-calibrate", "\\-\\-require"},
               {"roofline-step", "roofline\\-step", "\\-\\-base\\-ms"}};
  if (kv_run(NULL, NULL, "command -v help2man") != 0) return;
  for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
    char *page;
    int got = kv_run(&page, NULL, "cat '%s" KV_PREFIX "/share/man/man1/%s.1'", kv_tmp("stage"), pages[i].page);
    char line[64];
    (void)snprintf(line, sizeof line, "\n%s \\- ", pages[i].name);
    CU_ASSERT(got == 0 && strstr(page, line) && strstr(page, pages[i].option));
    if (got || !strstr(page, line) || !strstr(page, pages[i].option)) fprintf(stderr, "  [%s.1]\n", pages[i].page);
    free(page);
  }
}

/* make install into a scratch prefix, then the two commands from there, away from the source tree. */
static void installed_commands_work(void) {
  char prefix[1024];
  (void)snprintf(prefix, sizeof prefix, "%s", kv_tmp("stage"));
  if (getenv("KVROOF_SAN") && *getenv("KVROOF_SAN")) {
    printf("(sanitizer build: skipped) ");
    return;
  }
  const char *build = getenv("KVROOF_BUILD"), *nvcc = getenv("KVROOF_NVCC");
  if (!nvcc || !build) {
    printf("(not run by make test: skipped) ");
    return;
  }
  char *err = NULL;
  int got = kv_run(NULL, &err, "make -s -C '%s' B='%s' NVCC='%s' install DESTDIR='%s' prefix=" KV_PREFIX, kv_source("."), build, nvcc, prefix);
  CU_ASSERT_EQUAL(got, 0);
  if (got) fprintf(stderr, "%s", err);
  free(err);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && stage" KV_PREFIX "/bin/kvsim replay stage" KV_PREFIX "/share/kvroof/traces/samples/single_long_eagle.h5 -q -o inst.h5 --report inst",
                         kv_tmp(".")),
                  0);
  CU_ASSERT_EQUAL(access(kv_tmp("inst/inst.pdf"), F_OK), 0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && stage" KV_PREFIX "/bin/roofline --gpu rtx-5090 -o inst-r.h5 --report inst", kv_tmp(".")), 0);
  CU_ASSERT_EQUAL(access(kv_tmp("inst/inst-r.pdf"), F_OK), 0);
  installed_pages_are_there();
}

void suite_kvsim_cli(void) {
  static const kv_test_case cases[] = {{"usage", usage_errors},
                                       {"inputs stay", inputs_are_not_overwritten},
                                       {"full disk", a_full_disk},
                                       {"odd names", odd_names_in_json},
                                       {"signals", a_signal_leaves_nothing},
                                       {"memory", a_pool_beyond_the_memory_is_refused},
                                       {"signals while gnuplot draws", a_signal_stops_the_drawing},
                                       {"I/O", io_errors},
                                       {"inconsistent", inconsistent_traces},
                                       {"damaged", damaged_files},
                                       {"empty", an_empty_trace_is_valid},
                                       {"bit-identical", twice_is_bit_identical},
                                       {"layout", a_layout_holds_the_row},
                                       {"layout of a request that finishes", a_layout_of_a_finishing_request},
                                       {"units", every_dataset_has_units},
                                       {"other readers", other_readers_open_the_files},
                                       {"JSON", json_is_json},
                                       {"help", help_and_version},
                                       {"installed", installed_commands_work},
                                       {NULL, NULL}};
  kv_h5_quiet();
  kv_suite("kvsim_cli", cases);
}
