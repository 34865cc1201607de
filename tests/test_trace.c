/* The kvtrace-1 reader and writer: what goes in comes out; what is damaged is refused with a clear line. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kv_h5.h"
#include "kv_test.h"
#include "trace_fixture.h"

#define N(events) (uint32_t)(sizeof(events) / sizeof *(events))

static const fx events[] = {FX_STEP_AVAILABLE(1, 5), FX_ARRIVE(0, 3, 2), FX_START(0, 0, 0), FX_CALL(3, 1, 1),
                            FX_EXTEND(0, 0, 1, 3, 1, 2, 3), FX_INSERT(0, 0, 3), FX_STEP(2), FX_CALL(2, 1, 2),
                            FX_VERIFY(0, 3, 2, 2, 4, 5), FX_COMMIT(0, 3, 1, 1, 4), FX_FREE(0, KVT_FREE_REJECT, 9, 1, 5),
                            FX_FINISH(0, 4)};

static void write_fixture(const char *path) {
  kv_error err = {KV_OK, ""};
  kvt_info info = fx_info(KVT_ALLOC_TOKEN, 8, 1);
  CU_ASSERT_EQUAL(fx_write(path, &info, events, N(events), &err), KV_OK);
  if (err.text[0]) fprintf(stderr, "%s\n", err.text);
}

static kv_status read_all(const char *path, kvt_info *info, uint64_t *n, kv_error *err) {
  kvt_reader *r;
  kvt_batch b;
  kv_status st = kvt_reader_open(path, &r, info, err);
  *n = 0;
  if (st) return st;
  while ((st = kvt_reader_next(r, &b, err)) == KV_OK) *n += b.events;
  kvt_reader_close(r);
  return st == KV_END ? KV_OK : st;
}

static void what_is_written_is_read(void) {
  const char *path = kv_tmp("round.h5");
  kvt_reader *r;
  kvt_info info;
  kvt_batch b;
  kv_error err;
  write_fixture(path);
  CU_ASSERT_EQUAL_FATAL(kvt_reader_open(path, &r, &info, &err), KV_OK);
  CU_ASSERT_EQUAL(info.allocator, KVT_ALLOC_TOKEN);
  CU_ASSERT_EQUAL(info.pool_size, 8);
  CU_ASSERT_EQUAL(info.events, N(events));
  CU_ASSERT_EQUAL(info.requests, 8);
  CU_ASSERT_EQUAL(info.steps, 2);
  CU_ASSERT_STRING_EQUAL(info.origin, "simulated: a hand-made trace");
  CU_ASSERT_EQUAL_FATAL(kvt_reader_next(r, &b, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(b.events, N(events));
  uint32_t slot = 0;
  for (uint32_t i = 0; i < b.events; i++) {
    kvt_event e = kvt_batch_event(&b, i, slot);
    CU_ASSERT_EQUAL(e.kind, events[i].kind);
    CU_ASSERT_EQUAL(e.request, events[i].request);
    CU_ASSERT_EQUAL(e.count, events[i].n);
    CU_ASSERT_EQUAL(e.aux, events[i].aux);
    if (e.kind != KVT_STEP) CU_ASSERT_EQUAL(e.length, events[i].length);
    CU_ASSERT_EQUAL(memcmp(e.slots, events[i].slots, e.count * sizeof *e.slots), 0);
    slot += e.count;
  }
  CU_ASSERT_EQUAL(b.step_rows[0].available, 5);
  CU_ASSERT_EQUAL(b.step_rows[1].time_us, 2000);
  CU_ASSERT_EQUAL(kvt_reader_next(r, &b, &err), KV_END);
  kvt_reader_close(r);
}

/* An event of more slots than a batch holds comes in pieces that add up. */
static void long_events_come_in_pieces(void) {
  enum { SLOTS = 700000 };
  const char *path = kv_tmp("long.h5");
  kvt_info info = fx_info(KVT_ALLOC_TOKEN, SLOTS, 1), read;
  kvt_writer *w;
  kvt_reader *r;
  kvt_batch b;
  kv_error err = {KV_OK, ""};
  const kvt_writer_options o = {.plain = true, .creator = "test", .command = "test"};
  int32_t *slots = malloc(SLOTS * sizeof *slots);
  CU_ASSERT_PTR_NOT_NULL_FATAL(slots);
  for (int32_t i = 0; i < SLOTS; i++) slots[i] = i + 1;
  CU_ASSERT_EQUAL_FATAL(kvt_writer_open(path, &info, &o, &w, &err), KV_OK);
  const kvt_step row = {5, -1, -1, 0, -1, -1, -1};
  const kvt_event e[] = {{.kind = KVT_ARRIVE, .request = 0, .position = -1, .length = SLOTS, .aux = 0},
                         {.kind = KVT_START, .request = 0, .position = 0, .length = -1, .aux = -1},
                         {.kind = KVT_ALLOC_CALL, .request = -1, .position = 1, .length = SLOTS, .aux = 1},
                         {.kind = KVT_ALLOC_EXTEND, .request = 0, .length = -1, .aux = 1, .count = SLOTS, .slots = slots}};
  CU_ASSERT_EQUAL(kvt_writer_step(w, KVT_STEP_PREFILL, &row, &err), KV_OK);
  for (size_t i = 0; i < sizeof e / sizeof *e; i++) CU_ASSERT_EQUAL(kvt_writer_event(w, &e[i], &err), KV_OK);
  for (int i = 0; i < 8; i++) CU_ASSERT_EQUAL(kvt_writer_request(w, &(kvt_request){0, 0, SLOTS, 0, -1, 0}, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvt_writer_finish(w, false, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvt_reader_open(path, &r, &read, &err), KV_OK);
  kvs_replay_options options = kvs_replay_options_default();
  kvs_replay *replay;
  unsigned pieces = 0;
  CU_ASSERT_EQUAL_FATAL(kvs_replay_create(&read, &options, NULL, &replay, &err), KV_OK);
  while (kvt_reader_next(r, &b, &err) == KV_OK) {
    pieces += b.more;
    CU_ASSERT_EQUAL(kvs_replay_batch(replay, &b, &err), KV_OK);
  }
  CU_ASSERT_TRUE(pieces >= 2);
  CU_ASSERT_EQUAL(kvs_replay_finish(replay, &err), KV_OK);
  const kvs_row *row0 = kvs_replay_row(replay, 0, NULL);
  CU_ASSERT_EQUAL(row0->rows, SLOTS);
  CU_ASSERT_EQUAL(row0->runs, 1);
  CU_ASSERT_EQUAL(kvs_replay_get_totals(replay)->events[KVT_ALLOC_EXTEND], 1);
  kvs_replay_free(replay);
  kvt_reader_close(r);
  free(slots);
}

static void a_writer_abandoned_leaves_nothing(void) {
  const char *path = kv_tmp("abandoned.h5");
  kvt_info info = fx_info(KVT_ALLOC_TOKEN, 8, 1);
  kvt_writer *w;
  const kvt_writer_options o = {.creator = "test", .command = "test"};
  CU_ASSERT_EQUAL_FATAL(kvt_writer_open(path, &info, &o, &w, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvt_writer_finish(w, true, NULL), KV_OK);
  CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "ls %s*part", path), 2);
}

/* ---- damage ---- */

static void refuse(const char *path, kv_status status, const char *why) {
  kvt_info info;
  uint64_t n;
  kv_error err = {KV_OK, ""};
  kv_status st = read_all(path, &info, &n, &err);
  CU_ASSERT_EQUAL(st, status);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, why));
  if (st != status || !strstr(err.text, why)) fprintf(stderr, "%s: expected '%s', got %d '%s'\n", path, why, st, err.text);
}

static void files_of_another_kind_are_refused(void) {
  const char *path = kv_tmp("kind.h5");
  refuse(kv_tmp("no-such-file.h5"), KV_ERR_IO, "cannot be opened");
  refuse("/tmp", KV_ERR_IO, "is a folder");
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  refuse(path, KV_ERR_INPUT, "too short");
  fputs("not an HDF5 file at all\n", f);
  (void)fclose(f);
  refuse(path, KV_ERR_INPUT, "not an HDF5 file");
  kv_h5_out out;
  CU_ASSERT_EQUAL_FATAL(kv_h5_create(path, "kvtrace-2", "test", "test", &out, NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_commit(&out, NULL), KV_OK);
  refuse(path, KV_ERR_INPUT, "is 'kvtrace-2', not kvtrace-1");
}

/* Opens a fresh fixture to be spoilt. */
static hid_t spoil(const char *path) {
  write_fixture(path);
  return H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
}

static void put_column(hid_t f, const char *name, hid_t type, hsize_t n, const void *data) {
  if (H5Lexists(f, name, H5P_DEFAULT) > 0) (void)H5Ldelete(f, name, H5P_DEFAULT);
  CU_ASSERT_EQUAL(kv_h5_write(f, name, type, n, data, "1", "spoilt", KV_H5_SMALL, NULL), KV_OK);
}

static void spoilt_columns_are_refused(void) {
  static const int32_t zeros[32] = {0};
  static const double reals[32] = {0};
  const char *path = kv_tmp("spoilt.h5");
  hid_t f = spoil(path);
  (void)H5Ldelete(f, "events/count", H5P_DEFAULT);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "dataset /events/count is missing");
  f = spoil(path);
  put_column(f, "events/aux", H5T_STD_I32LE, 5, zeros);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "dataset /events/aux has 5 elements, /events/kind has 12");
  f = spoil(path);
  put_column(f, "events/request", H5T_IEEE_F64LE, 12, reals);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "does not hold signed integers of 32 bits");
  f = spoil(path);
  put_column(f, "events/slots", H5T_STD_I32LE, 2, zeros);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "the counts ask for more slots than /events/slots has (2)");
  f = spoil(path);
  put_column(f, "events/slots", H5T_STD_I32LE, 30, zeros);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "/events/slots has 30 elements, the counts add up to 7");
  f = spoil(path);
  put_column(f, "steps/time", H5T_STD_I64LE, 1, zeros);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "dataset /steps/requests has 2 elements, /steps/time has 1");
  static const uint32_t counts[12] = {UINT32_MAX, UINT32_MAX};
  f = spoil(path);
  put_column(f, "events/count", H5T_STD_U32LE, 12, counts);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "the counts ask for more slots");
}

static void spoilt_attributes_are_refused(void) {
  const char *path = kv_tmp("spoilt.h5");
  static const struct {
    const char *name;
    int64_t value;
    const char *why;
  } c[] = {{"pool_size", 0, "pool_size is out of range"},       {"pool_size", -1, "pool_size is out of range"},
           {"page_size", 0, "page_size is out of range"},       {"page_size", 3, "not a multiple of page_size"},
           {"pool_size", 1ll << 40, "pool_size is out of range"}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    hid_t f = spoil(path);
    CU_ASSERT_EQUAL(kv_h5_put_i64(f, c[i].name, c[i].value, NULL), KV_OK);
    (void)H5Fclose(f);
    refuse(path, KV_ERR_INPUT, c[i].why);
  }
  hid_t f = spoil(path);
  CU_ASSERT_EQUAL(kv_h5_put_str(f, "allocator", "magic", NULL), KV_OK);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "allocator is missing or unknown");
}

static void data_outside_the_file_are_refused(void) {
  const char *path = kv_tmp("links.h5");
  hid_t f = spoil(path);
  (void)H5Ldelete(f, "events/slots", H5P_DEFAULT);
  (void)H5Lcreate_external("elsewhere.h5", "/slots", f, "events/slots", H5P_DEFAULT, H5P_DEFAULT);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "is a link out of the file's own tree");
  f = spoil(path);
  (void)H5Ldelete(f, "events/slots", H5P_DEFAULT);
  (void)H5Lcreate_soft("/events/kind", f, "events/slots", H5P_DEFAULT, H5P_DEFAULT);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "is a link out of the file's own tree");
  f = spoil(path);
  (void)H5Ldelete(f, "events/slots", H5P_DEFAULT);
  hsize_t n = 7;
  hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &n, NULL);
  (void)H5Pset_external(dcpl, "/etc/passwd", 0, 28);
  (void)H5Dclose(H5Dcreate2(f, "events/slots", H5T_STD_I32LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT));
  (void)H5Pclose(dcpl);
  (void)H5Sclose(space);
  (void)H5Fclose(f);
  refuse(path, KV_ERR_INPUT, "keeps its data in another file");
}

static long load(const char *path, unsigned char **data) {
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fseek(f, 0, SEEK_END);
  long size = ftell(f);
  rewind(f);
  *data = malloc((size_t)size);
  CU_ASSERT_EQUAL(fread(*data, 1, (size_t)size, f), (size_t)size);
  (void)fclose(f);
  return size;
}

static void store(const char *path, const unsigned char *data, long size) {
  FILE *f = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  CU_ASSERT_EQUAL(fwrite(data, 1, (size_t)size, f), (size_t)size);
  (void)fclose(f);
}

/* Whatever is done to the bytes, the reader says OK, or KV_ERR_INPUT with a line that names the file. */
static void cut_and_flipped_files_never_crash(void) {
  const char *path = kv_tmp("whole.h5"), *bad = kv_tmp("flipped.h5");
  unsigned char *data;
  uint64_t seed = 99, n, refused = 0;
  write_fixture(path);
  long size = load(path, &data);
  (void)setenv("KVROOF_GUARD_SECONDS", "5", 1);
  for (unsigned i = 0; i < 250; i++) {
    kvt_info info;
    kv_error err = {KV_OK, ""};
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    long at = (long)((seed >> 33) % (uint64_t)size);
    unsigned char old = data[at];
    if (i % 5 == 0) {
      store(bad, data, at);
    } else {
      data[at] ^= (unsigned char)(1u << (seed >> 60 & 7));
      store(bad, data, size);
      data[at] = old;
    }
    kv_status st = read_all(bad, &info, &n, &err);
    CU_ASSERT_TRUE(st == KV_OK || st == KV_ERR_INPUT);
    refused += st == KV_ERR_INPUT;
    if (st) CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "flipped.h5"));
  }
  (void)unsetenv("KVROOF_GUARD_SECONDS");
  CU_ASSERT_TRUE(refused >= 50); /* every cut, and some flips */
  free(data);
}

static void lists_are_read(void) {
  const char *path = kv_tmp("lists.h5");
  static const int32_t list[] = {5, 4, 8};
  int32_t back[3] = {0};
  kvt_info info = fx_info(KVT_ALLOC_TOKEN, 8, 1), read;
  kvt_writer *w;
  uint64_t n;
  const kvt_writer_options o = {.creator = "test", .command = "test"};
  CU_ASSERT_EQUAL_FATAL(kvt_writer_open(path, &info, &o, &w, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvt_writer_list(w, "initial/free_list", list, 3, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvt_writer_source(w, "note", "kept", NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvt_writer_finish(w, false, NULL), KV_OK);
  CU_ASSERT_EQUAL(read_all(path, &read, &n, NULL), KV_OK); /* no events at all: valid */
  CU_ASSERT_EQUAL(n, 0);
  CU_ASSERT_EQUAL(read.initial_free, 3);
  CU_ASSERT_FALSE(read.has_final);
  CU_ASSERT_EQUAL(kvt_read_list(path, "initial/free_list", 3, back, NULL), KV_OK);
  CU_ASSERT_EQUAL(memcmp(list, back, sizeof list), 0);
}

void suite_trace(void) {
  static const kv_test_case cases[] = {{"round trip", what_is_written_is_read},
                                       {"long events", long_events_come_in_pieces},
                                       {"abandoned writer", a_writer_abandoned_leaves_nothing},
                                       {"lists", lists_are_read},
                                       {"other kinds", files_of_another_kind_are_refused},
                                       {"spoilt columns", spoilt_columns_are_refused},
                                       {"spoilt attributes", spoilt_attributes_are_refused},
                                       {"outside the file", data_outside_the_file_are_refused},
                                       {"cut and flipped", cut_and_flipped_files_never_crash},
                                       {NULL, NULL}};
  kv_h5_quiet();
  kv_suite("trace", cases);
}
