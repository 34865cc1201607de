/* The kvceilings-1 file: calibration.h describes it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "kv_h5.h"

/* ---- columns of /microbenchmarks, one table for writing and reading ---- */

typedef enum column_type { TEXT, U32, U64, F64 } column_type;
typedef struct column {
  const char *name, *units, *long_name;
  column_type type;
  size_t offset; /* in kva_bench_row */
  size_t size;   /* of a text field */
} column;

#define POINT(field) offsetof(kva_bench_row, point.field)
#define ROW(field) offsetof(kva_bench_row, field)
#define TEXT_OF(field) sizeof(((kva_bench_row *)0)->point.field)

static const column columns[] = {
    {"name", "1", "Microbenchmark", TEXT, POINT(name), TEXT_OF(name)},
    {"variant", "1", "Instruction and configuration", TEXT, POINT(variant), TEXT_OF(variant)},
    {"unit", "1", "Unit of the work of a run", TEXT, POINT(unit), TEXT_OF(unit)},
    {"layout", "1", "Where the rows lie (gather)", TEXT, POINT(layout), TEXT_OF(layout)},
    {"row_bytes", "B", "Bytes a row (gather)", U32, POINT(row_bytes), 0},
    {"run_length", "1", "Rows side by side (gather); 0: all, or as listed", U32, POINT(run_length), 0},
    {"blocks", "1", "Blocks launched", U32, POINT(blocks), 0},
    {"threads", "1", "Threads a block", U32, POINT(threads), 0},
    {"in_flight", "B", "Bytes one SM asks for at a time", U64, POINT(in_flight), 0},
    {"footprint", "B", "Bytes the addresses spread over", U64, POINT(footprint), 0},
    {"work", "see unit", "Work of a run", F64, POINT(work), 0},
    {"load", "B/s", "Other traffic meanwhile", F64, POINT(load), 0},
    {"cycles", "1", "SM cycles a step", F64, POINT(cycles), 0},
    {"runs", "1", "Timed runs", U32, POINT(samples), 0},
    {"median", "s", "Median time of a run", F64, ROW(time.median), 0},
    {"minimum", "s", "Shortest time of a run", F64, ROW(time.minimum), 0},
    {"maximum", "s", "Longest time of a run", F64, ROW(time.maximum), 0},
    {"p10", "s", "Tenth percentile of the times", F64, ROW(time.p10), 0},
    {"p90", "s", "Ninetieth percentile of the times", F64, ROW(time.p90), 0},
    {"low", "s", "Lower end of the median's 95 % interval", F64, ROW(time.low), 0},
    {"high", "s", "Upper end of the median's 95 % interval", F64, ROW(time.high), 0},
    {"value", "see unit and kind", "Rate (unit/s) or latency (s a step)", F64, ROW(value), 0},
    {"value_low", "see unit and kind", "Lower end of the value's 95 % interval", F64, ROW(value_low), 0},
    {"value_high", "see unit and kind", "Upper end of the value's 95 % interval", F64, ROW(value_high), 0},
    {"sm_clock", "MHz", "Lowest SM clock read", F64, POINT(state.sm_clock), 0},
    {"memory_clock", "MHz", "Lowest memory clock read", F64, POINT(state.memory_clock), 0},
    {"power", "W", "Highest power read", F64, POINT(state.power), 0},
    {"temperature", "degC", "Highest temperature read", F64, POINT(state.temperature), 0},
    {"memory_busy", "percent", "Memory-controller utilisation", F64, POINT(state.memory_busy), 0},
    {"gpu_busy", "percent", "Time with a kernel resident", F64, POINT(state.gpu_busy), 0},
    {"throttle", "1", "NVML clocks-event reasons, bits", U64, POINT(state.throttle), 0},
};
enum { COLUMNS = sizeof columns / sizeof *columns };
#define GROUP "microbenchmarks/"

/* ---- writing ---- */

typedef struct buffers {
  const char **text;
  double *f64;
  uint64_t *u64;
  uint32_t *u32;
} buffers;

static void buffers_free(buffers *b) {
  free(b->text);
  free(b->f64);
  free(b->u64);
  free(b->u32);
}

static kv_status buffers_begin(buffers *b, size_t n, kv_error *err) {
  n = n ? n : 1;
  *b = (buffers){calloc(n, sizeof *b->text), calloc(n, sizeof *b->f64), calloc(n, sizeof *b->u64),
                 calloc(n, sizeof *b->u32)};
  if (b->text && b->f64 && b->u64 && b->u32) return KV_OK;
  buffers_free(b);
  *b = (buffers){0};
  return kv_fail(err, KV_ERR_MEMORY, "calibration: out of memory for %zu points", n);
}

static kv_status write_column(hid_t file, const kva_calibration *c, const column *col, buffers *b,
                              kv_error *err) {
  char path[64];
  (void)snprintf(path, sizeof path, GROUP "%s", col->name);
  for (size_t i = 0; i < c->rows; i++) {
    const char *at = (const char *)&c->row[i] + col->offset;
    if (col->type == TEXT) b->text[i] = at;
    if (col->type == F64) memcpy(&b->f64[i], at, sizeof *b->f64);
    if (col->type == U64) memcpy(&b->u64[i], at, sizeof *b->u64);
    if (col->type == U32) memcpy(&b->u32[i], at, sizeof *b->u32);
  }
  switch (col->type) {
    case TEXT: return kv_h5_write_strings(file, path, c->rows, b->text, col->long_name, err);
    case F64:
      return kv_h5_write(file, path, H5T_IEEE_F64LE, c->rows, b->f64, col->units, col->long_name, KV_H5_SMALL,
                         err);
    case U64:
      return kv_h5_write(file, path, H5T_STD_U64LE, c->rows, b->u64, col->units, col->long_name, KV_H5_SMALL,
                         err);
    default:
      return kv_h5_write(file, path, H5T_STD_U32LE, c->rows, b->u32, col->units, col->long_name, KV_H5_SMALL,
                         err);
  }
}

/* The three columns that are no plain field. */
static kv_status write_flags(hid_t file, const kva_calibration *c, buffers *b, kv_error *err) {
  for (size_t i = 0; i < c->rows; i++) b->text[i] = c->row[i].point.one_sm ? "sm" : "chip";
  kv_status st = kv_h5_write_strings(file, GROUP "scope", c->rows, b->text, "Whole chip or one SM", err);
  static const char *const kinds[] = {[KVK_RATE] = "rate", [KVK_LATENCY] = "latency", [KVK_SIZE] = "size"};
  for (size_t i = 0; i < c->rows; i++) b->text[i] = kinds[c->row[i].point.kind];
  if (!st)
    st = kv_h5_write_strings(file, GROUP "kind", c->rows, b->text, "What value is: rate, latency or size",
                             err);
  for (size_t i = 0; i < c->rows; i++)
    b->u32[i] = !c->row[i].point.state.throttle_known ? 2u : c->row[i].point.throttled ? 1u : 0u;
  if (!st)
    st = kv_h5_write(file, GROUP "throttled", H5T_STD_U32LE, c->rows, b->u32, "1",
                     "Throttled: 0 no, 1 yes, 2 unknown", KV_H5_SMALL, err);
  return st;
}

static kv_status write_samples(hid_t file, const kva_calibration *c, kv_error *err) {
  size_t total = 0, at = 0;
  kv_status st = KV_OK;
  for (size_t i = 0; i < c->rows; i++) total += c->row[i].point.samples;
  uint32_t *point = calloc(total ? total : 1, sizeof *point);
  double *seconds = calloc(total ? total : 1, sizeof *seconds);
  if (!point || !seconds)
    st = kv_fail(err, KV_ERR_MEMORY, "calibration: out of memory for %zu samples", total);
  for (size_t i = 0; !st && i < c->rows; i++)
    for (uint32_t s = 0; s < c->row[i].point.samples; s++, at++) {
      point[at] = (uint32_t)i;
      seconds[at] = c->row[i].point.seconds[s];
    }
  if (!st)
    st = kv_h5_write(file, "samples/point", H5T_STD_U32LE, total, point, "1", "Row of /microbenchmarks",
                     KV_H5_DEFLATE_1, err);
  if (!st)
    st = kv_h5_write(file, "samples/seconds", H5T_IEEE_F64LE, total, seconds, "s", "Time of one run",
                     KV_H5_DEFLATE_1, err);
  free(point);
  free(seconds);
  return st;
}

/* One of the two tables of bests. */
typedef struct best_table {
  size_t n;
  const char *name[KVA_BESTS], *scope[KVA_BESTS], *unit[KVA_BESTS], *kind[KVA_BESTS], *source[KVA_BESTS];
  double value[KVA_BESTS], low[KVA_BESTS], high[KVA_BESTS], cycles[KVA_BESTS];
  uint64_t footprint[KVA_BESTS];
  uint32_t point[KVA_BESTS];
  char texts[KVA_BESTS][128];
} best_table;

static void fill_table(const kva_calibration *c, const kva_best *best, size_t n, best_table *t) {
  t->n = n;
  for (size_t i = 0; i < n; i++) {
    const kva_bench_row *r = &c->row[best[i].row];
    t->name[i] = best[i].name;
    t->scope[i] = best[i].one_sm ? "sm" : "chip";
    t->unit[i] = strcmp(r->point.unit, "B") == 0      ? "B/s"
                 : strcmp(r->point.unit, "FLOP") == 0 ? "FLOP/s"
                                                      : "1/s";
    t->kind[i] = "measured";
    (void)snprintf(t->texts[i], sizeof t->texts[i], "%s: %s, %u x %u threads%s", r->point.name,
                   r->point.variant, r->point.blocks, r->point.threads,
                   r->point.throttled ? ", throttled" : "");
    t->source[i] = t->texts[i];
    t->value[i] = r->value;
    t->low[i] = r->value_low;
    t->high[i] = r->value_high;
    t->cycles[i] = r->point.cycles;
    t->footprint[i] = r->point.footprint;
    t->point[i] = (uint32_t)best[i].row;
  }
}

static kv_status put_strings(hid_t file, const char *group, const char *name, const best_table *t,
                             const char *const *values, const char *long_name, kv_error *err) {
  char path[64];
  (void)snprintf(path, sizeof path, "%s/%s", group, name);
  return kv_h5_write_strings(file, path, t->n, values, long_name, err);
}

static kv_status put_doubles(hid_t file, const char *group, const char *name, const best_table *t,
                             const double *values, const char *units, const char *long_name, kv_error *err) {
  char path[64];
  (void)snprintf(path, sizeof path, "%s/%s", group, name);
  return kv_h5_write(file, path, H5T_IEEE_F64LE, t->n, values, units, long_name, KV_H5_SMALL, err);
}

static kv_status write_table(hid_t file, const char *group, const best_table *t, const char *units,
                             kv_error *err) {
  char path[64];
  kv_status st = put_strings(file, group, "name", t, t->name, "What is limited", err);
  if (!st) st = put_strings(file, group, "scope", t, t->scope, "Whole chip or one SM", err);
  if (!st) st = put_strings(file, group, "kind", t, t->kind, "Kind of the value", err);
  if (!st) st = put_strings(file, group, "source", t, t->source, "Which microbenchmark reached it", err);
  if (!st) st = put_doubles(file, group, "value", t, t->value, units, "Best median", err);
  if (!st) st = put_doubles(file, group, "low", t, t->low, units, "Lower end of its 95 % interval", err);
  if (!st) st = put_doubles(file, group, "high", t, t->high, units, "Upper end of its 95 % interval", err);
  (void)snprintf(path, sizeof path, "%s/point", group);
  if (!st)
    st = kv_h5_write(file, path, H5T_STD_U32LE, t->n, t->point, "1", "Row of /microbenchmarks", KV_H5_SMALL,
                     err);
  return st;
}

static kv_status write_bests(hid_t file, const kva_calibration *c, kv_error *err) {
  kva_best best[KVA_BESTS];
  best_table *t = calloc(1, sizeof *t);
  if (!t) return kv_fail(err, KV_ERR_MEMORY, "calibration: out of memory");
  fill_table(c, best, kva_calibration_ceilings(c, best), t);
  kv_status st = write_table(file, "ceilings", t, "B/s, FLOP/s or 1/s, see unit", err);
  if (!st) st = put_strings(file, "ceilings", "unit", t, t->unit, "Unit of the rate", err);
  fill_table(c, best, kva_calibration_latencies(c, best), t);
  if (!st) st = write_table(file, "latencies", t, "s", err);
  if (!st)
    st = put_doubles(file, "latencies", "cycles", t, t->cycles, "1", "SM cycles, by the SM's counter", err);
  if (!st)
    st = kv_h5_write(file, "latencies/footprint", H5T_STD_U64LE, t->n, t->footprint, "B",
                     "Bytes the addresses spread over", KV_H5_SMALL, err);
  fill_table(c, best, kva_calibration_sizes(c, best), t);
  if (!st) st = write_table(file, "sizes", t, "B", err);
  free(t);
  return st;
}

static kv_status write_root(hid_t file, const kva_calibration *c, kv_error *err) {
  const kvk_gpu *g = &c->origin.gpu;
  char status[320], capability[16];
  int64_t throttled = 0;
  kv_status st = KV_OK;
  for (size_t i = 0; i < c->rows; i++) throttled += c->row[i].point.throttled;
  (void)snprintf(capability, sizeof capability, "%d.%d", g->major, g->minor);
  const struct {
    const char *name, *value;
  } text[] = {{"gpu_name", g->name},        {"status", kva_bench_status(&c->origin, status, sizeof status)},
              {"driver", c->origin.driver}, {"date", c->origin.date},
              {"notes", c->notes},          {"failure", c->failure},
              {"default", "ceilings"},      {"compute_capability", capability}};
  const struct {
    const char *name;
    int64_t value;
  } number[] = {{"cuda_driver", g->driver},
                {"cuda_runtime", g->runtime},
                {"sms", g->sms},
                {"memory", (int64_t)g->memory},
                {"l2", (int64_t)g->l2},
                {"shared_per_sm", (int64_t)g->shared_per_sm},
                {"sm_clock_max", g->sm_clock_khz / 1000},
                {"memory_clock_max", g->memory_clock_khz / 1000},
                {"memory_bus", g->memory_bus_bits},
                {"repeats", c->origin.repeats},
                {"seed", (int64_t)c->origin.seed},
                {"throttled_points", throttled},
                {"complete", c->complete ? 1 : 0}};
  for (size_t i = 0; !st && i < sizeof text / sizeof *text; i++)
    st = kv_h5_put_str(file, text[i].name, text[i].value, err);
  for (size_t i = 0; !st && i < sizeof number / sizeof *number; i++)
    st = kv_h5_put_i64(file, number[i].name, number[i].value, err);
  return st ? st : kv_h5_put_f64(file, "power_limit", c->origin.power_limit, err);
}

kv_status kva_calibration_write(const kva_calibration *c, const char *path, const char *command,
                                kv_error *err) {
  kv_h5_out out = {.file = -1};
  buffers b = {0};
  kv_status st = kv_h5_create(path, KVA_CEILINGS_CONVENTIONS, "roofline", command, &out, err);
  if (st) return st;
  st = buffers_begin(&b, c->rows, err);
  if (!st) st = write_root(out.file, c, err);
  if (!st) st = write_bests(out.file, c, err);
  for (size_t i = 0; !st && i < COLUMNS; i++) st = write_column(out.file, c, &columns[i], &b, err);
  if (!st) st = write_flags(out.file, c, &b, err);
  if (!st) st = write_samples(out.file, c, err);
  buffers_free(&b);
  if (!st) return kv_h5_commit(&out, err);
  kv_h5_abort(&out);
  return st;
}

/* ---- reading ---- */

static kv_status read_numbers(hid_t file, const char *path, const char *name, hid_t memory, uint64_t n,
                              void *values, kv_error *err) {
  hid_t dataset = -1;
  uint64_t length = 0;
  size_t elem = 0;
  kv_status st = kv_h5_open_column(file, path, name, &dataset, &length, &elem, err);
  if (st == KV_END)
    return kv_fail(err, KV_ERR_INPUT, "%s: lacks %s; is it a `roofline calibrate` dataset?", path, name);
  if (st) return st;
  if (length != n)
    st = kv_fail(err, KV_ERR_INPUT, "%s: %s has %llu rows where %llu are expected", path, name,
                 (unsigned long long)length, (unsigned long long)n);
  else if (n && H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
    st = kv_fail(err, KV_ERR_INPUT, "%s: %s cannot be read", path, name);
  (void)H5Dclose(dataset);
  return st;
}

/* Reads n strings into fields of `size` bytes, `stride` apart; longer ones are cut. */
static kv_status read_strings(hid_t file, const char *path, const char *name, uint64_t n, char *first,
                              size_t stride, size_t size, kv_error *err) {
  hid_t dataset = -1, type = -1, space = -1;
  char *texts = NULL;
  size_t width = 0;
  kv_status st = KV_OK;
  if (H5Lexists(file, name, H5P_DEFAULT) > 0) dataset = H5Dopen2(file, name, H5P_DEFAULT);
  if (dataset >= 0) type = H5Dget_type(dataset);
  if (dataset >= 0) space = H5Dget_space(dataset);
  if (type < 0 || space < 0 || H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) > 0 ||
      H5Sget_simple_extent_npoints(space) != (hssize_t)n) {
    st = kv_fail(err, KV_ERR_INPUT, "%s: %s is missing or no column of %llu strings", path, name,
                 (unsigned long long)n);
    goto done;
  }
  width = H5Tget_size(type);
  texts = width && width < 65536 ? malloc(n ? n * width : 1) : NULL;
  if (!texts) st = kv_fail(err, KV_ERR_MEMORY, "%s: %s: out of memory", path, name);
  else if (n && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts) < 0)
    st = kv_fail(err, KV_ERR_INPUT, "%s: %s cannot be read", path, name);
  for (uint64_t i = 0; !st && i < n; i++) {
    size_t length = strnlen(texts + i * width, width);
    if (length > size - 1) length = size - 1;
    memcpy(first + i * stride, texts + i * width, length);
    first[i * stride + length] = '\0';
  }
done:
  free(texts);
  if (space >= 0) (void)H5Sclose(space);
  if (type >= 0) (void)H5Tclose(type);
  if (dataset >= 0) (void)H5Dclose(dataset);
  return st;
}

static kv_status read_column(hid_t file, const char *path, const column *col, kva_calibration *c, buffers *b,
                             kv_error *err) {
  char name[64];
  kv_status st = KV_OK;
  (void)snprintf(name, sizeof name, GROUP "%s", col->name);
  char *first = (char *)c->row + col->offset;
  if (col->type == TEXT)
    return read_strings(file, path, name, c->rows, first, sizeof *c->row, col->size, err);
  if (col->type == F64) st = read_numbers(file, path, name, H5T_NATIVE_DOUBLE, c->rows, b->f64, err);
  if (col->type == U64) st = read_numbers(file, path, name, H5T_NATIVE_UINT64, c->rows, b->u64, err);
  if (col->type == U32) st = read_numbers(file, path, name, H5T_NATIVE_UINT32, c->rows, b->u32, err);
  for (size_t i = 0; !st && i < c->rows; i++) {
    char *at = first + i * sizeof *c->row;
    if (col->type == F64) memcpy(at, &b->f64[i], sizeof *b->f64);
    if (col->type == U64) memcpy(at, &b->u64[i], sizeof *b->u64);
    if (col->type == U32) memcpy(at, &b->u32[i], sizeof *b->u32);
  }
  return st;
}

static kv_status read_flags(hid_t file, const char *path, kva_calibration *c, buffers *b, kv_error *err) {
  enum { WIDTH = 16 };
  char *words = calloc(c->rows ? c->rows : 1, WIDTH);
  if (!words) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  kv_status st = read_strings(file, path, GROUP "scope", c->rows, words, WIDTH, WIDTH, err);
  for (size_t i = 0; !st && i < c->rows; i++) c->row[i].point.one_sm = strcmp(words + i * WIDTH, "sm") == 0;
  if (!st) st = read_strings(file, path, GROUP "kind", c->rows, words, WIDTH, WIDTH, err);
  for (size_t i = 0; !st && i < c->rows; i++)
    c->row[i].point.kind = strcmp(words + i * WIDTH, "rate") == 0   ? KVK_RATE
                           : strcmp(words + i * WIDTH, "size") == 0 ? KVK_SIZE
                                                                    : KVK_LATENCY;
  if (!st) st = read_numbers(file, path, GROUP "throttled", H5T_NATIVE_UINT32, c->rows, b->u32, err);
  for (size_t i = 0; !st && i < c->rows; i++) {
    c->row[i].point.throttled = b->u32[i] == 1;
    c->row[i].point.state.throttle_known = b->u32[i] != 2;
    c->row[i].time.n = c->row[i].point.samples;
    c->row[i].time.spread = (c->row[i].time.p90 - c->row[i].time.p10) / c->row[i].time.median;
  }
  free(words);
  return st;
}

static kv_status length_of(hid_t file, const char *path, const char *name, uint64_t most, uint64_t *n,
                           kv_error *err) {
  hid_t dataset = -1;
  size_t elem = 0;
  kv_status st = kv_h5_open_column(file, path, name, &dataset, n, &elem, err);
  if (st == KV_END)
    return kv_fail(err, KV_ERR_INPUT, "%s: lacks %s; is it a `roofline calibrate` dataset?", path, name);
  if (st) return st;
  (void)H5Dclose(dataset);
  return *n <= most ? KV_OK
                    : kv_fail(err, KV_ERR_INPUT, "%s: %s has %llu rows, more than any calibration", path,
                              name, (unsigned long long)*n);
}

static kv_status read_samples(hid_t file, const char *path, kva_calibration *c, kv_error *err) {
  uint64_t total = 0;
  uint32_t *point = NULL;
  double *seconds = NULL;
  kv_status st = length_of(file, path, "samples/point", (uint64_t)KVK_POINT_SAMPLES * (c->rows ? c->rows : 1),
                           &total, err);
  if (st) return st;
  point = calloc(total ? total : 1, sizeof *point);
  seconds = calloc(total ? total : 1, sizeof *seconds);
  if (!point || !seconds) st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  if (!st) st = read_numbers(file, path, "samples/point", H5T_NATIVE_UINT32, total, point, err);
  if (!st) st = read_numbers(file, path, "samples/seconds", H5T_NATIVE_DOUBLE, total, seconds, err);
  for (size_t i = 0; !st && i < c->rows; i++) c->row[i].point.samples = 0;
  for (uint64_t i = 0; !st && i < total; i++) {
    kvk_point *p = point[i] < c->rows ? &c->row[point[i]].point : NULL;
    if (!p || p->samples == KVK_POINT_SAMPLES)
      st = kv_fail(err, KV_ERR_INPUT,
                   "%s: samples/point[%llu] is %u: no such point, or more samples than one may have", path,
                   (unsigned long long)i, point[i]);
    else p->seconds[p->samples++] = seconds[i];
  }
  free(point);
  free(seconds);
  return st;
}

static kv_status read_root(hid_t file, const char *path, kva_calibration *c, kv_error *err) {
  kvk_gpu *g = &c->origin.gpu;
  int64_t n[8] = {0}, complete = 0, seed = 0, repeats = 0;
  char capability[16] = "", kind[64] = "";
  kv_status st = kv_h5_get_str(file, "Conventions", kind, sizeof kind, err);
  if (st == KV_END || (!st && strcmp(kind, KVA_CEILINGS_CONVENTIONS) != 0))
    return kv_fail(err, KV_ERR_INPUT,
                   "%s: Conventions is '%s', not %s; `roofline calibrate` writes such files", path, kind,
                   KVA_CEILINGS_CONVENTIONS);
  const struct {
    const char *name;
    int64_t *value;
  } number[] = {{"sms", &n[0]},
                {"memory", &n[1]},
                {"l2", &n[2]},
                {"cuda_driver", &n[3]},
                {"cuda_runtime", &n[4]},
                {"sm_clock_max", &n[5]},
                {"memory_clock_max", &n[6]},
                {"memory_bus", &n[7]},
                {"complete", &complete},
                {"seed", &seed},
                {"repeats", &repeats}};
  for (size_t i = 0; i < sizeof number / sizeof *number && (st == KV_OK || st == KV_END); i++)
    st = kv_h5_get_i64(file, number[i].name, number[i].value, err);
  if (!st || st == KV_END) st = kv_h5_get_f64(file, "power_limit", &c->origin.power_limit, err);
  if (!st || st == KV_END) st = kv_h5_get_str(file, "gpu_name", g->name, sizeof g->name, err);
  if (!st || st == KV_END) st = kv_h5_get_str(file, "driver", c->origin.driver, sizeof c->origin.driver, err);
  if (!st || st == KV_END) st = kv_h5_get_str(file, "date", c->origin.date, sizeof c->origin.date, err);
  if (!st || st == KV_END) st = kv_h5_get_str(file, "notes", c->notes, sizeof c->notes, err);
  if (!st || st == KV_END) st = kv_h5_get_str(file, "failure", c->failure, sizeof c->failure, err);
  if (!st || st == KV_END) st = kv_h5_get_str(file, "compute_capability", capability, sizeof capability, err);
  if (st && st != KV_END) return st;
  (void)sscanf(capability, "%d.%d", &g->major, &g->minor);
  g->sms = (int)n[0];
  g->memory = (uint64_t)n[1];
  g->l2 = (uint64_t)n[2];
  g->driver = (int)n[3];
  g->runtime = (int)n[4];
  g->sm_clock_khz = (int)n[5] * 1000;
  g->memory_clock_khz = (int)n[6] * 1000;
  g->memory_bus_bits = (int)n[7];
  c->origin.seed = (uint64_t)seed;
  c->origin.repeats = (uint32_t)repeats;
  c->complete = complete == 1;
  return KV_OK;
}

kv_status kva_calibration_read(const char *path, kva_calibration *c, kv_error *err) {
  buffers b = {0};
  uint64_t n = 0;
  kv_status st = KV_OK;
  *c = (kva_calibration){.origin.power_limit = NAN};
  kv_h5_quiet();
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened as HDF5", path);
  st = read_root(file, path, c, err);
  if (!st) st = length_of(file, path, GROUP "median", 1u << 20, &n, err);
  if (!st) c->row = calloc(n ? n : 1, sizeof *c->row);
  if (!st && !c->row)
    st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory for %llu points", path, (unsigned long long)n);
  c->rows = c->room = st ? 0 : n;
  if (!st) st = buffers_begin(&b, n, err);
  for (size_t i = 0; !st && i < COLUMNS; i++) st = read_column(file, path, &columns[i], c, &b, err);
  if (!st) st = read_flags(file, path, c, &b, err);
  if (!st) st = read_samples(file, path, c, err);
  buffers_free(&b);
  (void)H5Fclose(file);
  if (st) kva_calibration_free(c);
  return st;
}
