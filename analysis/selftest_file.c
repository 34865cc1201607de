/* The kvplanted-1 file: selftest.h describes it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "h5_add.h"
#include "selftest.h"

typedef enum column_type { TEXT, U32, U64, I32, SIZE, F64 } column_type;
typedef struct column {
  const char *name, *units, *long_name;
  column_type type;
  size_t offset; /* in kva_plant_row */
} column;

#define ROW(field) offsetof(kva_plant_row, field)
#define COUNTED(field) \
  { "counted_" #field, "see name", "Counter " #field " (NaN: not counted)", F64, ROW(counters.field) }

static const column columns[] = {
    {"kernel", "1", "Kernel", TEXT, ROW(kernel)},
    {"what", "1", "What it does", TEXT, ROW(what)},
    {"cause", "1", "Cause that was planted", TEXT, ROW(cause)},
    {"control", "1", "The kernel without it", TEXT, ROW(control)},
    {"experiment", "1", "0 cold graph, 1 warm graph on aliased slots, 2 cold eager, 3 replicated", U32,
     ROW(experiment)},
    {"row_bytes", "B", "Bytes a row", U32, ROW(row_bytes)},
    {"run", "1", "Rows side by side; 0: all", U32, ROW(run)},
    {"copies", "1", "Of the operation, side by side", U32, ROW(copies)},
    {"blocks", "1", "Blocks launched", U64, ROW(structure.blocks)},
    {"threads", "1", "Threads a block", I32, ROW(structure.threads)},
    {"warps", "1", "Warps a block", I32, ROW(structure.warps)},
    {"shared", "B", "Shared memory a block", U32, ROW(structure.smem)},
    {"tile_tokens", "1", "Rows a loop turn", I32, ROW(structure.tile_tokens)},
    {"stages", "1", "Tiles in flight", I32, ROW(structure.stages)},
    {"row_groups", "1", "Blocks that fetch each row", U64, ROW(structure.row_groups)},
    {"tiles", "1", "Loop turns over all blocks", U64, ROW(structure.tiles)},
    {"tiles_per_block", "1", "Of the busiest block", U64, ROW(structure.tiles_per_block)},
    {"launches", "1", "Kernels of the operation", I32, ROW(structure.launches)},
    {"unique_bytes", "B", "Rows, each once", F64, ROW(structure.unique_kv_bytes)},
    {"link_bytes", "B", "From L2 to the SMs", F64, ROW(structure.link_bytes)},
    {"shared_read", "B", "Shared memory read, without conflicts", F64, ROW(structure.smem_read_bytes)},
    {"shared_write", "B", "Shared memory written", F64, ROW(structure.smem_write_bytes)},
    {"useful_bytes", "B", "Rows once and their slots", F64, ROW(useful_bytes)},
    {"runs", "1", "Timed runs", SIZE, ROW(time.n)},
    {"median", "s", "Median time", F64, ROW(time.median)},
    {"low", "s", "Lower end of the median's 95 % interval", F64, ROW(time.low)},
    {"high", "s", "Upper end of the median's 95 % interval", F64, ROW(time.high)},
    {"minimum", "s", "Shortest time", F64, ROW(time.minimum)},
    {"maximum", "s", "Longest time", F64, ROW(time.maximum)},
    {"p10", "s", "Tenth percentile", F64, ROW(time.p10)},
    {"p90", "s", "Ninetieth percentile", F64, ROW(time.p90)},
    {"sm_clock", "MHz", "Lowest SM clock read", F64, ROW(state.sm_clock)},
    {"memory_clock", "MHz", "Lowest memory clock read", F64, ROW(state.memory_clock)},
    {"power", "W", "Highest power read", F64, ROW(state.power)},
    {"temperature", "degC", "Highest temperature read", F64, ROW(state.temperature)},
    {"throttle", "1", "NVML clocks-event reasons, bits", U64, ROW(state.throttle)},
    {"counted", "1", "1: the counters are known", U32, ROW(counted)},
    COUNTED(dram_read),
    COUNTED(dram_write),
    COUNTED(l2_read),
    COUNTED(link),
    COUNTED(link_max),
    COUNTED(wavefronts),
    COUNTED(wavefronts_max),
    COUNTED(instructions),
    COUNTED(issue_active_percent),
    COUNTED(long_scoreboard),
    COUNTED(short_scoreboard),
    COUNTED(barrier),
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* All numbers are stored as doubles: the largest here is below 2^53. */
static double get(const kva_plant_row *row, const column *c) {
  const char *at = (const char *)row + c->offset;
  bool counter = !strncmp(c->name, "counted_", 8);
  if (counter && !row->counted) return NAN;
  switch (c->type) {
    case U32: return *(const uint32_t *)(const void *)at;
    case U64: return (double)*(const uint64_t *)(const void *)at;
    case I32: return *(const int *)(const void *)at;
    case SIZE: return (double)*(const size_t *)(const void *)at;
    default: return *(const double *)(const void *)at;
  }
}

static void put(kva_plant_row *row, const column *c, double v) {
  char *at = (char *)row + c->offset;
  switch (c->type) {
    case U32: *(uint32_t *)(void *)at = (uint32_t)v; break;
    case U64: *(uint64_t *)(void *)at = (uint64_t)v; break;
    case I32: *(int *)(void *)at = (int)v; break;
    case SIZE: *(size_t *)(void *)at = (size_t)v; break;
    default: *(double *)(void *)at = v; break;
  }
}

/* ---- writing ---- */

static kv_status write_points(hid_t file, const kva_planted *p, kv_error *err) {
  const char **text = calloc(p->rows + 1, sizeof *text);
  double *value = calloc(p->rows + 1, sizeof *value);
  kv_status st = text && value ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "self-test: out of memory");
  for (size_t c = 0; !st && c < COLUMNS; c++) {
    char path[64];
    (void)snprintf(path, sizeof path, "points/%s", columns[c].name);
    for (size_t i = 0; i < p->rows; i++)
      if (columns[c].type == TEXT) text[i] = (const char *)&p->row[i] + columns[c].offset;
      else value[i] = get(&p->row[i], &columns[c]);
    st = columns[c].type == TEXT ? kv_h5_write_strings(file, path, p->rows, text, columns[c].long_name, err)
                                 : kv_h5_write(file, path, H5T_IEEE_F64LE, p->rows, value, columns[c].units,
                                               columns[c].long_name, KV_H5_SMALL, err);
  }
  free(text);
  free(value);
  return st;
}

static kv_status write_samples(hid_t file, const kva_planted *p, kv_error *err) {
  size_t total = 0, at = 0;
  for (size_t i = 0; i < p->rows; i++) total += p->row[i].time.n;
  uint32_t *point = calloc(total + 1, sizeof *point);
  double *seconds = calloc(total + 1, sizeof *seconds);
  kv_status st = point && seconds ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "self-test: out of memory");
  for (size_t i = 0; !st && i < p->rows; i++)
    for (size_t s = 0; s < p->row[i].time.n; s++, at++) {
      point[at] = (uint32_t)i;
      seconds[at] = p->row[i].seconds[s];
    }
  if (!st)
    st = kv_h5_write(file, "samples/point", H5T_STD_U32LE, total, point, "1", "Row of /points", KV_H5_SMALL,
                     err);
  if (!st)
    st = kv_h5_write(file, "samples/seconds", H5T_IEEE_F64LE, total, seconds, "s", "Time of one run",
                     KV_H5_DEFLATE_1, err);
  free(point);
  free(seconds);
  return st;
}

static kv_status write_root(hid_t file, const kva_planted *p, kv_error *err) {
  const kvk_gpu *g = &p->origin.gpu;
  char status[320], capability[16];
  (void)snprintf(capability, sizeof capability, "%d.%d", g->major, g->minor);
  const struct {
    const char *name, *value;
  } text[] = {{"gpu_name", g->name},
              {"status", kva_bench_status(&p->origin, status, sizeof status)},
              {"driver", p->origin.driver},
              {"date", p->origin.date},
              {"compute_capability", capability},
              {"notes", p->notes},
              {"failure", p->failure},
              {"default", "points"}};
  const struct {
    const char *name;
    int64_t value;
  } number[] = {{"sms", g->sms},
                {"sm_clock_max", g->sm_clock_khz / 1000},
                {"memory_clock_max", g->memory_clock_khz / 1000},
                {"cuda_driver", g->driver},
                {"cuda_runtime", g->runtime},
                {"repeats", p->origin.repeats},
                {"seed", (int64_t)p->origin.seed},
                {"complete", p->complete ? 1 : 0}};
  kv_status st = KV_OK;
  for (size_t i = 0; !st && i < sizeof text / sizeof *text; i++)
    st = kv_h5_put_str(file, text[i].name, text[i].value, err);
  for (size_t i = 0; !st && i < sizeof number / sizeof *number; i++)
    st = kv_h5_put_i64(file, number[i].name, number[i].value, err);
  return st ? st : kv_h5_put_f64(file, "power_limit", p->origin.power_limit, err);
}

kv_status kva_planted_write(const kva_planted *p, const char *path, const char *command, kv_error *err) {
  kv_h5_out out = {.file = -1};
  kv_status st = kv_h5_create(path, KVA_PLANTED_CONVENTIONS, "roofline", command, &out, err);
  if (st) return st;
  st = write_root(out.file, p, err);
  if (!st) st = write_points(out.file, p, err);
  if (!st) st = write_samples(out.file, p, err);
  if (!st) return kv_h5_commit(&out, err);
  kv_h5_abort(&out);
  return st;
}

/* ---- the judgement ---- */

#define NAMED(f, expression) KVA_REAL(f, kva_named, v, expression)
NAMED(j_time, v->row->time.median)
NAMED(j_low, v->row->time.low)
NAMED(j_high, v->row->time.high)
NAMED(j_control, v->control ? v->control->time.median : NAN)
NAMED(j_control_low, v->control ? v->control->time.low : NAN)
NAMED(j_control_high, v->control ? v->control->time.high : NAN)
NAMED(j_share, v->share)
NAMED(j_share_low, v->share_low)
NAMED(j_share_high, v->share_high)
NAMED(j_total, v->total)
NAMED(j_gain, v->gain)
NAMED(j_realised, v->realised)
NAMED(j_worst, v->worst)
NAMED(j_t0, v->a.t[0])
NAMED(j_t1, v->a.t[1])
NAMED(j_t2, v->a.t[2])
NAMED(j_t3, v->a.t[3])
NAMED(j_t4, v->a.t[4])
NAMED(j_t5, v->a.t[5])
NAMED(j_t6, v->a.t[6])
NAMED(j_t7, v->a.t[7])
KVA_WORD(j_kernel, kva_named, v, v->row->kernel)
KVA_WORD(j_planted, kva_named, v, v->row->cause)
KVA_WORD(j_named, kva_named, v, kva_named_cause(v))
KVA_WORD(j_without, kva_named, v, v->row->control)
KVA_WORD(j_verdict, kva_named, v, v->a.verdict)

static kv_status write_judged(hid_t file, const kva_judgement *j, kv_error *err) {
  static const kva_word_column word[] = {{"kernel", "Kernel", j_kernel},
                                         {"planted", "Cause that was planted; empty: none", j_planted},
                                         {"named", "Cause with the largest share; none: no factor above 1.1", j_named},
                                         {"control", "The kernel without the cause; empty: none", j_without},
                                         {"verdict", "What the ladder says", j_verdict}};
  static const kva_real_column real[] = {{"time", "s", "Median time", j_time},
                                         {"time_low", "s", "Lower end of its 95 % interval", j_low},
                                         {"time_high", "s", "Upper end of its 95 % interval", j_high},
                                         {"control_time", "s", "Median time of the control", j_control},
                                         {"control_time_low", "s", "Lower end of its 95 % interval", j_control_low},
                                         {"control_time_high", "s", "Upper end of its 95 % interval", j_control_high},
                                         {"share", "1", "Share of ln(time / control_time) that the planted cause explains", j_share},
                                         {"share_low", "1", "Lower end of its 95 % interval", j_share_low},
                                         {"share_high", "1", "Upper end of its 95 % interval", j_share_high},
                                         {"total", "1", "ln(time / control_time)", j_total},
                                         {"gain", "1", "Predicted gain of taking the cause out", j_gain},
                                         {"realised", "1", "time / control_time", j_realised},
                                         {"worst", "1", "Largest factor of the ladder", j_worst},
                                         {"t0", "s", "T0 of the ladder", j_t0},
                                         {"t1", "s", "T1 of the ladder", j_t1},
                                         {"t2", "s", "T2 of the ladder", j_t2},
                                         {"t3", "s", "T3 of the ladder", j_t3},
                                         {"t4", "s", "T4 of the ladder", j_t4},
                                         {"t5", "s", "T5 of the ladder", j_t5},
                                         {"t6", "s", "T6 of the ladder", j_t6},
                                         {"t7", "s", "T7 of the ladder", j_t7}};
  kv_status st = kva_write_words(file, "judged", word, sizeof word / sizeof *word, j->n, j->named, err);
  return st ? st : kva_write_reals(file, "judged", real, sizeof real / sizeof *real, j->n, j->named, err);
}

static kv_status add_judgement(void *user, hid_t file, kv_error *err) {
  const kva_judgement *j = user;
  if (H5Lexists(file, "judged", H5P_DEFAULT) > 0 && H5Ldelete(file, "judged", H5P_DEFAULT) < 0)
    return kv_fail(err, KV_ERR_INPUT, "/judged cannot be replaced");
  kv_status st = kv_h5_put_str(file, "calibration", j->calibration, err);
  if (!st) st = kv_h5_put_f64(file, "bar", j->bar, err);
  return st ? st : write_judged(file, j, err);
}

kv_status kva_planted_add(const char *from, const char *to, const kva_judgement *j, kv_error *err) {
  kva_judgement copy = *j;
  const kva_addition addition = {from, to, "the judgement", j->command, add_judgement, &copy};
  return kva_h5_add(&addition, err);
}

/* ---- reading ---- */

static kv_status read_column(hid_t file, const char *path, const column *c, kva_planted *p, kv_error *err) {
  char name[64], *words = NULL;
  double *value = NULL;
  uint64_t n = c->type == TEXT ? 0 : p->rows;
  size_t width = 0;
  (void)snprintf(name, sizeof name, "points/%s", c->name);
  kv_status st = c->type == TEXT ? kva_words(file, path, name, &n, &words, &width, err)
                                 : kva_reals(file, path, name, &n, &value, err);
  if (!st && n != p->rows) st = kv_fail(err, KV_ERR_INPUT, "%s: /%s has another length", path, name);
  for (size_t i = 0; !st && i < p->rows; i++) {
    if (c->type == TEXT)
      (void)snprintf((char *)&p->row[i] + c->offset, KVA_PLANT_TEXT, "%.79s", words + i * width);
    else if (c->type != F64 && !(value[i] >= 0 && value[i] < 9007199254740992.0))
      st = kv_fail(err, KV_ERR_INPUT, "%s: /%s[%zu] is %g, not a count", path, name, i, value[i]);
    else put(&p->row[i], c, value[i]);
  }
  free(words);
  free(value);
  return st;
}

/* Samples of a point follow one another, `runs` of them. */
static kv_status read_samples(hid_t file, const char *path, kva_planted *p, kv_error *err) {
  uint64_t n = KVA_ANY_LENGTH, at = 0;
  double *seconds = NULL, *point = NULL;
  kv_status st = kva_reals(file, path, "samples/seconds", &n, &seconds, err);
  if (!st) st = kva_reals(file, path, "samples/point", &n, &point, err);
  for (size_t i = 0; !st && i < p->rows; i++) {
    const size_t runs = p->row[i].time.n;
    if (!runs || runs > n - at || point[at] != (double)i || point[at + runs - 1] != (double)i) {
      st = kv_fail(err, KV_ERR_INPUT, "%s: /samples does not hold the %zu runs of point %zu", path, runs, i);
      break;
    }
    p->row[i].seconds = malloc(runs * sizeof *seconds);
    if (!p->row[i].seconds) st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
    else memcpy(p->row[i].seconds, seconds + at, runs * sizeof *seconds);
    at += runs;
  }
  free(seconds);
  free(point);
  return st;
}

static kv_status read_root(hid_t file, const char *path, kva_planted *p, kv_error *err) {
  int64_t sms = 0, clock = 0, seed = 0, complete = 0, repeats = 0;
  kv_status st = kv_h5_get_str(file, "gpu_name", p->origin.gpu.name, sizeof p->origin.gpu.name, err);
  if (!st) st = kv_h5_get_i64(file, "sms", &sms, err);
  if (!st && sms < 1) st = kv_fail(err, KV_ERR_INPUT, "%s: attribute sms is %lld", path, (long long)sms);
  if (!st) st = kv_h5_get_i64(file, "sm_clock_max", &clock, err);
  if (!st) st = kv_h5_get_i64(file, "seed", &seed, err);
  if (!st) st = kv_h5_get_i64(file, "repeats", &repeats, err);
  if (!st) st = kv_h5_get_i64(file, "complete", &complete, err);
  if (!st) st = kv_h5_get_str(file, "driver", p->origin.driver, sizeof p->origin.driver, err);
  if (!st) st = kv_h5_get_str(file, "date", p->origin.date, sizeof p->origin.date, err);
  if (!st) st = kv_h5_get_f64(file, "power_limit", &p->origin.power_limit, err);
  if (st == KV_END) st = kv_fail(err, KV_ERR_INPUT, "%s: an attribute of a self-test is missing", path);
  p->origin.gpu.sms = (int)sms;
  p->origin.gpu.sm_clock_khz = (int)clock * 1000;
  p->origin.seed = (uint64_t)seed;
  p->origin.repeats = (uint32_t)repeats;
  p->complete = complete == 1;
  return st;
}

/* A median that is not the samples' own would be judged beside a ladder that is made of them. */
static kv_status check_times(const char *path, const kva_planted *p, kv_error *err) {
  for (size_t i = 0; i < p->rows; i++) {
    const kva_plant_row *r = &p->row[i];
    const double time[] = {r->time.median, r->time.low, r->time.high, r->time.minimum, r->time.maximum};
    static const char *const name[] = {"median", "low", "high", "minimum", "maximum"};
    for (size_t t = 0; t < sizeof time / sizeof *time; t++)
      if (!(time[t] > 0) || !isfinite(time[t]))
        return kv_fail(err, KV_ERR_INPUT, "%s: /points/%s[%zu] (%s) is %g, not a time above 0", path, name[t], i,
                       r->kernel, time[t]);
    for (size_t s = 0; s < r->time.n; s++)
      if (!(r->seconds[s] > 0) || !isfinite(r->seconds[s]))
        return kv_fail(err, KV_ERR_INPUT, "%s: /samples/seconds: run %zu of point %zu (%s) is %g, not a time above 0",
                       path, s, i, r->kernel, r->seconds[s]);
    const double median = kva_quantile(r->seconds, r->time.n, 0.5);
    if (!(fabs(r->time.median - median) <= 1e-6 * median))
      return kv_fail(err, KV_ERR_INPUT, "%s: /points/median[%zu] (%s) is %g s, that of its samples %g s", path, i,
                     r->kernel, r->time.median, median);
  }
  return KV_OK;
}

kv_status kva_planted_read(const char *path, kva_planted *p, kv_error *err) {
  hid_t file;
  uint64_t n = KVA_ANY_LENGTH;
  double *median = NULL;
  *p = (kva_planted){0};
  kv_status st = kva_open(path, KVA_PLANTED_CONVENTIONS, &file, err);
  if (st) return st;
  st = read_root(file, path, p, err);
  if (!st) st = kva_reals(file, path, "points/median", &n, &median, err);
  if (!st) p->row = calloc((size_t)n + 1, sizeof *p->row);
  if (!st && !p->row) st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  p->rows = p->room = st ? 0 : (size_t)n;
  for (size_t c = 0; !st && c < COLUMNS; c++) st = read_column(file, path, &columns[c], p, err);
  if (!st) st = read_samples(file, path, p, err);
  if (!st) st = check_times(path, p, err);
  free(median);
  (void)H5Fclose(file);
  if (st) kva_planted_free(p);
  return st;
}
