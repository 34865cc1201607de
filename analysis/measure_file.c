/* Measured points as a roofline-1 dataset: measure.h describes it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_h5.h"
#include "measure.h"
#include "measure_ladder.h"

typedef struct table {
  const kva_measured *m;
  hid_t file;
  const char **text;
  double *f64;
  uint64_t *u64;
  uint32_t *u32;
  kv_error *err;
} table;

static kv_status table_open(table *t, const kva_measured *m, kv_error *err) {
  size_t n = m->rows ? m->rows : 1;
  t->m = m;
  t->err = err;
  t->text = calloc(n, sizeof *t->text);
  t->f64 = calloc(n, sizeof *t->f64);
  t->u64 = calloc(n, sizeof *t->u64);
  t->u32 = calloc(n, sizeof *t->u32);
  return t->text && t->f64 && t->u64 && t->u32
             ? KV_OK
             : kv_fail(err, KV_ERR_MEMORY, "measured points: out of memory");
}

static void table_close(table *t) {
  free(t->text);
  free(t->f64);
  free(t->u64);
  free(t->u32);
}

/* ---- columns: one function gives any of them for a row ---- */

typedef double (*number_of)(const kva_measured *, const kva_measured_row *, const kva_floor_rates *);

static double useful_bytes(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) {
  (void)m, (void)f;
  return r->useful_bytes;
}
static double useful_flops(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) {
  (void)m, (void)f;
  return r->useful_flops;
}
static double intensity(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) {
  (void)m, (void)f;
  return r->useful_flops / r->useful_bytes;
}
static double link_bytes(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) {
  (void)m, (void)f;
  return r->counted && !isnan(r->counters.link) ? r->counters.link : r->structure.link_bytes;
}
static double l1_bytes(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) {
  (void)m, (void)f;
  return r->counted && kva_counts_l1(&r->counters) ? 128 * r->counters.wavefronts : kva_described_l1(&r->structure);
}
static double executed(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) {
  (void)m, (void)f;
  return r->structure.mma_flops;
}
static double unknown(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) {
  (void)m, (void)r, (void)f;
  return NAN;
}
#define RUNG(function, i)                                                                              \
  static double function(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) { \
    double t[8];                                                                                       \
    if (!f->roofs) return NAN;                                                                         \
    kva_measured_rungs(m, r, f->roofs, f->ranges, f->gathers, t);                                      \
    return t[i];                                                                                       \
  }
RUNG(rung1, 1)
RUNG(rung2, 2)
RUNG(rung3, 3)
RUNG(rung4, 4)
RUNG(rung5, 5)
RUNG(rung6, 6)
RUNG(rung7, 7)
static double floor_time(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) {
  (void)m;
  return isnan(f->dram) || isnan(f->mma_best)
             ? NAN
             : fmax(r->useful_bytes / f->dram, r->useful_flops / f->mma_best);
}
static double bandwidth(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) {
  (void)m, (void)f;
  return r->structure.unique_kv_bytes / r->time.median;
}
#define FIELD(function, field)                                                                         \
  static double function(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) { \
    (void)m, (void)f;                                                                                  \
    return r->field;                                                                                   \
  }
#define COUNTED(function, expression)                                                                  \
  static double function(const kva_measured *m, const kva_measured_row *r, const kva_floor_rates *f) { \
    (void)m, (void)f;                                                                                  \
    return r->counted ? (expression) : NAN;                                                            \
  }
COUNTED(dram_bytes, r->counters.dram_read + r->counters.dram_write)
COUNTED(l2_bytes, r->counters.l2_read)
COUNTED(link_max, r->counters.link_max)
COUNTED(wavefronts, r->counters.wavefronts)
COUNTED(wavefronts_max, r->counters.wavefronts_max)
COUNTED(instructions, r->counters.instructions)
COUNTED(instructions_max, r->counters.instructions_max)
COUNTED(cycles, r->counters.cycles)
COUNTED(issue_active, r->counters.issue_active_percent)
COUNTED(long_scoreboard, r->counters.long_scoreboard)
COUNTED(short_scoreboard, r->counters.short_scoreboard)
COUNTED(barrier, r->counters.barrier)
COUNTED(math_throttle, r->counters.math_throttle)
FIELD(median, time.median)
FIELD(low, time.low)
FIELD(high, time.high)
FIELD(minimum, time.minimum)
FIELD(p10, time.p10)
FIELD(p90, time.p90)
FIELD(ratio, to_contiguous.value)
FIELD(ratio_low, to_contiguous.low)
FIELD(ratio_high, to_contiguous.high)
FIELD(sm_clock, state.sm_clock)
FIELD(memory_clock, state.memory_clock)
FIELD(power, state.power)
FIELD(temperature, state.temperature)
FIELD(memory_busy, state.memory_busy)

static const struct {
  const char *name, *units, *long_name;
  number_of value;
} numbers[] = {
    {"useful_flops", "FLOP", "Useful operations", useful_flops},
    {"intensity", "FLOP/B", "Useful operations a useful byte", intensity},
    {"dram_bytes", "B", "Bytes read from and written to DRAM, counted", dram_bytes},
    {"l2_bytes", "B", "Bytes read from L2, counted", l2_bytes},
    {"link_bytes", "B", "Bytes from L2 into SMs, counted, else by the kernel's structure", link_bytes},
    {"counted_link_max", "B", "Bytes from L2 into the busiest SM", link_max},
    {"counted_wavefronts", "1", "L1 and shared-memory wavefronts", wavefronts},
    {"counted_wavefronts_max", "1", "L1 and shared-memory wavefronts of the busiest SM", wavefronts_max},
    {"counted_instructions", "1", "Warp instructions executed", instructions},
    {"counted_instructions_max", "1", "Warp instructions of the busiest SM", instructions_max},
    {"counted_cycles", "1", "SM cycles of the counted kernels", cycles},
    {"counted_issue_active", "percent", "Scheduler cycles that issued", issue_active},
    {"counted_long_scoreboard", "1", "Warps an issue that wait for L1, L2 or DRAM", long_scoreboard},
    {"counted_short_scoreboard", "1", "Warps an issue that wait for shared memory", short_scoreboard},
    {"counted_barrier", "1", "Warps an issue that wait at a barrier", barrier},
    {"counted_math_throttle", "1", "Warps an issue that wait for a math pipe", math_throttle},
    {"l1_bytes", "B", "Bytes through L1 and shared memory: counted wavefronts x 128, else by the kernel's structure", l1_bytes},
    {"executed_flops", "FLOP", "Matrix operations executed, padding included", executed},
    {"floor", "s", "T0: max(useful bytes / DRAM ceiling, useful flops / best matrix ceiling)", floor_time},
    {"t1", "s", "T1 of the ladder", rung1},
    {"t2", "s", "T2 of the ladder", rung2},
    {"t3", "s", "T3 of the ladder", rung3},
    {"t4", "s", "T4 of the ladder", rung4},
    {"t5", "s", "T5 of the ladder", rung5},
    {"t6", "s", "T6 of the ladder", rung6},
    {"t7", "s", "T7 of the ladder", rung7},
    {"time", "s", "Modelled time", unknown},
    {"measured", "s", "Median measured time of the whole operation", median},
    {"measured_low", "s", "Lower end of the median's 95 % interval", low},
    {"measured_high", "s", "Upper end of the median's 95 % interval", high},
    {"minimum", "s", "Shortest run", minimum},
    {"p10", "s", "Tenth percentile of the runs", p10},
    {"p90", "s", "Ninetieth percentile of the runs", p90},
    {"effective_bandwidth", "B/s", "Useful KV bytes over the measured time", bandwidth},
    {"to_contiguous", "1", "Time over that of the contiguous layout, paired", ratio},
    {"to_contiguous_low", "1", "Lower end of its 95 % interval", ratio_low},
    {"to_contiguous_high", "1", "Upper end of its 95 % interval", ratio_high},
    {"sm_clock", "MHz", "Lowest SM clock read", sm_clock},
    {"memory_clock", "MHz", "Lowest memory clock read", memory_clock},
    {"power", "W", "Highest power read", power},
    {"temperature", "degC", "Highest temperature read", temperature},
    {"memory_busy", "percent", "Memory-controller utilisation", memory_busy}};

static kv_status write_numbers(table *t, const kva_floor_rates *rates) {
  kv_status st = KV_OK;
  for (size_t c = 0; !st && c < sizeof numbers / sizeof *numbers; c++) {
    char path[64];
    (void)snprintf(path, sizeof path, "points/%s", numbers[c].name);
    for (size_t i = 0; i < t->m->rows; i++) t->f64[i] = numbers[c].value(t->m, &t->m->row[i], rates);
    st = kv_h5_write(t->file, path, H5T_IEEE_F64LE, t->m->rows, t->f64, numbers[c].units,
                     numbers[c].long_name, KV_H5_SMALL, t->err);
  }
  for (size_t i = 0; i < t->m->rows; i++) t->u64[i] = (uint64_t)useful_bytes(t->m, &t->m->row[i], rates);
  if (!st)
    st = kv_h5_write(t->file, "points/useful_bytes", H5T_STD_U64LE, t->m->rows, t->u64, "B", "Useful bytes",
                     KV_H5_SMALL, t->err);
  return st;
}

typedef uint64_t (*count_of)(const kva_measured *, const kva_measured_row *);
#define COUNT(function, expression)                                            \
  static uint64_t function(const kva_measured *m, const kva_measured_row *r) { \
    (void)m, (void)r;                                                          \
    return (uint64_t)(expression);                                             \
  }
/* Only kernels and layouts that were run get a row in /kernels and /layouts: a row's index is its rank among
 * those. */
static unsigned kind_of(const kva_measured_row *r) {
  return (unsigned)r->kind;
}
static unsigned layout_of(const kva_measured_row *r) {
  return (unsigned)r->experiment * KVA_PLACES + (unsigned)r->place;
}
static bool is_used(const kva_measured *m, unsigned (*of)(const kva_measured_row *), unsigned which) {
  for (size_t i = 0; i < m->rows; i++)
    if (of(&m->row[i]) == which) return true;
  return false;
}
static unsigned rank_of(const kva_measured *m, unsigned (*of)(const kva_measured_row *), unsigned which) {
  unsigned rank = 0;
  for (unsigned k = 0; k < which; k++) rank += is_used(m, of, k);
  return rank;
}
COUNT(kind, rank_of(m, kind_of, kind_of(r)))
COUNT(prefix, r->longest)
COUNT(tokens, r->tokens)
COUNT(heads, m->heads)
COUNT(queries, m->queries)
COUNT(batch, r->batch)
COUNT(place, rank_of(m, layout_of, layout_of(r)))
COUNT(blocks, r->structure.blocks)
COUNT(copies, r->copies)
COUNT(runs, r->time.n)
COUNT(no_binding, 0)
COUNT(throttled, !r->state.throttle_known ? 2 : r->throttled ? 1 : 0)

static const struct {
  const char *name, *units, *long_name;
  count_of value;
  bool wide;
} counts[] = {{"kernel", "1", "Row of /kernels", kind, false},
              {"prefix", "token", "Longest prefix of the batch", prefix, true},
              {"tokens", "token", "Prefix tokens over the batch", tokens, true},
              {"heads", "1", "Query heads on this GPU", heads, false},
              {"queries", "1", "Tree nodes a request", queries, false},
              {"batch", "1", "Requests", batch, false},
              {"layout", "1", "Row of /layouts", place, false},
              {"blocks", "1", "Thread blocks of the main kernel", blocks, true},
              {"copies", "1", "Times the request stands in the batch", copies, false},
              {"runs", "1", "Timed runs", runs, false},
              {"binding", "1", "Row of /resources", no_binding, false},
              {"throttled", "1", "Throttled: 0 no, 1 yes, 2 unknown", throttled, false}};

static kv_status write_counts(table *t) {
  kv_status st = KV_OK;
  for (size_t c = 0; !st && c < sizeof counts / sizeof *counts; c++) {
    char path[64];
    (void)snprintf(path, sizeof path, "points/%s", counts[c].name);
    for (size_t i = 0; i < t->m->rows; i++) {
      t->u64[i] = counts[c].value(t->m, &t->m->row[i]);
      t->u32[i] = (uint32_t)t->u64[i];
    }
    st = kv_h5_write(t->file, path, counts[c].wide ? H5T_STD_U64LE : H5T_STD_U32LE, t->m->rows,
                     counts[c].wide ? (const void *)t->u64 : (const void *)t->u32, counts[c].units,
                     counts[c].long_name, KV_H5_SMALL, t->err);
  }
  for (size_t i = 0; i < t->m->rows; i++) t->text[i] = kva_experiment_name(t->m->row[i].experiment);
  return st ? st
            : kv_h5_write_strings(t->file, "points/experiment", t->m->rows, t->text, "How it was run",
                                  t->err);
}

/* ---- names, ceilings, samples, root ---- */

/* Who says what T3 of each layout is; without ceilings there is no ladder at all. */
static kv_status write_sources(table *t, const kva_floor_rates *rates) {
  enum { LAYOUTS = KVA_EXPERIMENTS * KVA_PLACES };
  static char text[LAYOUTS][KVA_COST_SOURCE];
  const char *source[LAYOUTS];
  uint64_t n = 0;
  for (unsigned i = 0; i < LAYOUTS; i++) {
    if (!is_used(t->m, layout_of, i)) continue;
    (void)kva_measured_scatter(t->m, (kva_place)(i % KVA_PLACES), rates->gathers, text[n]);
    source[n] = rates->roofs ? text[n] : "not known: no ceilings";
    n++;
  }
  return kv_h5_write_strings(t->file, "layouts/t3_source", n, source,
                             "Who says what T3 is, or why it is not known", t->err);
}

static kv_status write_names(table *t) {
  static const char *const about[] = {"a block per request and head, whole prefix in tiles of 64",
                                      "the same in tiles of 32",
                                      "split prefix, rows fetched again by every head",
                                      "split prefix, rows shared by all queries and heads",
                                      "split_verify's loads alone",
                                      "split_verify's products alone",
                                      "merge of two partial results"};
  static const char *const how[KVA_EXPERIMENTS] = {"", ", eager", ", warm", ", replicated"};
  enum { LAYOUTS = KVA_EXPERIMENTS * KVA_PLACES };
  char layout[LAYOUTS][40];
  const char *name[KVK_KINDS], *text[KVK_KINDS], *layouts[LAYOUTS];
  uint64_t kinds = 0, n = 0;
  static const char *const resources[] = {"not attributed"};
  for (unsigned k = 0; k < KVK_KINDS; k++) {
    if (!is_used(t->m, kind_of, k)) continue;
    name[kinds] = kvk_kind_name((kvk_kind)k);
    text[kinds++] = about[k];
  }
  for (unsigned i = 0; i < LAYOUTS; i++) {
    if (!is_used(t->m, layout_of, i)) continue;
    (void)snprintf(layout[n], sizeof layout[n], "%s%s", kva_place_name((kva_place)(i % KVA_PLACES)),
                   how[i / KVA_PLACES]);
    layouts[n] = layout[n];
    n++;
  }
  kv_status st = kv_h5_write_strings(t->file, "kernels/name", kinds, name, "Kernel", t->err);
  if (!st)
    st = kv_h5_write_strings(t->file, "kernels/description", kinds, text, "What the kernel does", t->err);
  if (!st)
    st = kv_h5_write_strings(t->file, "layouts/name", n, layouts, "Where the rows lie and how it was run",
                             t->err);
  return st ? st
            : kv_h5_write_strings(t->file, "resources/name", 1, resources, "Resource that binds", t->err);
}

static kv_status write_ceilings(table *t, const kva_calibration *c) {
  kva_best best[KVA_BESTS];
  const char *name[KVA_BESTS], *scope[KVA_BESTS], *unit[KVA_BESTS], *kinds[KVA_BESTS], *source[KVA_BESTS];
  double value[KVA_BESTS];
  size_t n = c ? kva_calibration_ceilings(c, best) : 0;
  for (size_t i = 0; i < n; i++) {
    const kva_bench_row *r = &c->row[best[i].row];
    name[i] = best[i].name;
    scope[i] = best[i].one_sm ? "sm" : "chip";
    unit[i] = strcmp(r->point.unit, "B") == 0 ? "B/s" : strcmp(r->point.unit, "FLOP") == 0 ? "FLOP/s" : "1/s";
    kinds[i] = "measured";
    source[i] = r->point.variant;
    value[i] = r->value;
  }
  kv_status st = kv_h5_write_strings(t->file, "ceilings/name", n, name, "Resource", t->err);
  if (!st) st = kv_h5_write_strings(t->file, "ceilings/scope", n, scope, "Whole chip or one SM", t->err);
  if (!st) st = kv_h5_write_strings(t->file, "ceilings/unit", n, unit, "Unit of the rate", t->err);
  if (!st) st = kv_h5_write_strings(t->file, "ceilings/kind", n, kinds, "Kind of the value", t->err);
  if (!st)
    st =
        kv_h5_write_strings(t->file, "ceilings/source", n, source, "Which microbenchmark reached it", t->err);
  if (!st)
    st = kv_h5_write(t->file, "ceilings/value", H5T_IEEE_F64LE, n, value, "B/s, FLOP/s or 1/s, see unit",
                     "Best median", KV_H5_SMALL, t->err);
  return st;
}

static kv_status write_samples(table *t) {
  size_t total = 0, at = 0;
  for (size_t i = 0; i < t->m->rows; i++) total += t->m->row[i].time.n;
  uint32_t *point = calloc(total ? total : 1, sizeof *point);
  double *seconds = calloc(total ? total : 1, sizeof *seconds);
  kv_status st = point && seconds ? KV_OK : kv_fail(t->err, KV_ERR_MEMORY, "measured points: out of memory");
  for (size_t i = 0; !st && i < t->m->rows; i++)
    for (size_t s = 0; s < t->m->row[i].time.n; s++, at++) {
      point[at] = (uint32_t)i;
      seconds[at] = t->m->row[i].seconds[s];
    }
  if (!st)
    st = kv_h5_write(t->file, "samples/point", H5T_STD_U32LE, total, point, "1", "Row of /points",
                     KV_H5_DEFLATE_1, t->err);
  if (!st)
    st = kv_h5_write(t->file, "samples/seconds", H5T_IEEE_F64LE, total, seconds, "s", "Time of one run",
                     KV_H5_DEFLATE_1, t->err);
  free(point);
  free(seconds);
  return st;
}

static kv_status write_gpu(table *t) {
  const kvk_gpu *g = &t->m->origin.gpu;
  char value[6][32];
  const double none[6] = {NAN, NAN, NAN, NAN, NAN, NAN};
  const char *name[] = {"compute_capability", "sm_count", "memory", "l2", "sm_clock_max", "cuda_runtime"},
             *column[6];
  static const char *const unit[] = {"1", "1", "B", "B", "MHz", "1"}, *const kinds[] = {"probe", "probe",
                                                                                        "probe", "probe",
                                                                                        "probe", "probe"};
  static const char *const source[] = {"CUDA runtime", "CUDA runtime", "CUDA runtime",
                                       "CUDA runtime", "CUDA runtime", "CUDA runtime"};
  (void)snprintf(value[0], sizeof value[0], "%d.%d", g->major, g->minor);
  (void)snprintf(value[1], sizeof value[1], "%d", g->sms);
  (void)snprintf(value[2], sizeof value[2], "%llu", (unsigned long long)g->memory);
  (void)snprintf(value[3], sizeof value[3], "%llu", (unsigned long long)g->l2);
  (void)snprintf(value[4], sizeof value[4], "%d", g->sm_clock_khz / 1000);
  (void)snprintf(value[5], sizeof value[5], "%d", g->runtime);
  for (int i = 0; i < 6; i++) column[i] = value[i];
  kv_status st = kv_h5_write_strings(t->file, "gpu/name", 6, name, "Quantity", t->err);
  if (!st) st = kv_h5_write_strings(t->file, "gpu/value", 6, column, "Value", t->err);
  if (!st) st = kv_h5_write_strings(t->file, "gpu/unit", 6, unit, "Unit", t->err);
  if (!st) st = kv_h5_write_strings(t->file, "gpu/kind", 6, kinds, "Kind of the value", t->err);
  if (!st) st = kv_h5_write_strings(t->file, "gpu/source", 6, source, "Where the value comes from", t->err);
  if (!st)
    st = kv_h5_write(t->file, "gpu/low", H5T_IEEE_F64LE, 6, none, "see unit", "Low end of the range; NaN: none given", KV_H5_SMALL,
                     t->err);
  return st ? st
            : kv_h5_write(t->file, "gpu/high", H5T_IEEE_F64LE, 6, none, "see unit", "High end of the range; NaN: none given",
                          KV_H5_SMALL, t->err);
}

static kv_status write_root(table *t, const kva_measured_labels *labels) {
  const kva_measured *m = t->m;
  char status[320];
  const struct {
    const char *name, *value;
  } text[] = {{"gpu", labels->gpu_key ? labels->gpu_key : ""},
              {"gpu_name", m->origin.gpu.name},
              {"status", kva_bench_status(&m->origin, status, sizeof status)},
              {"driver", m->origin.driver},
              {"pci", m->origin.gpu.pci},
              {"date", m->origin.date},
              {"dtype", "bf16"},
              {"layout_source", labels->layout_source ? labels->layout_source : ""},
              {"verdict", labels->verdict ? labels->verdict : ""},
              {"notes", m->notes},
              {"failure", m->failure},
              {"calibration", labels->calibration && *labels->calibration ? labels->calibration : "none"},
              {"default", "points"}};
  const struct {
    const char *name;
    int64_t value;
  } number[] = {{"device", m->origin.gpu.device},
                {"devices_at_once", m->at_once},
                {"heads", m->heads},
                {"queries", m->queries},
                {"latent", KVK_LATENT},
                {"rope", KVK_ROPE},
                {"row_bytes", 2 * (KVK_LATENT + KVK_ROPE)},
                {"batch", m->rows ? m->row[0].batch : 0},
                {"layers", labels->layers},
                {"pool_rows", (int64_t)m->pool_rows},
                {"blocks_per_sm", m->blocks_per_sm},
                {"smem_limit", m->smem_limit},
                {"seed", (int64_t)m->origin.seed},
                {"complete", m->complete ? 1 : 0}};
  kv_status st = KV_OK;
  for (size_t i = 0; !st && i < sizeof text / sizeof *text; i++)
    st = kv_h5_put_str(t->file, text[i].name, text[i].value, t->err);
  for (size_t i = 0; !st && i < sizeof number / sizeof *number; i++)
    st = kv_h5_put_i64(t->file, number[i].name, number[i].value, t->err);
  return st ? st : kv_h5_put_f64(t->file, "power_limit", m->origin.power_limit, t->err);
}

static kva_floor_rates rates_of(const kva_calibration *c) {
  kva_best best[KVA_BESTS];
  kva_floor_rates f = {NAN, NAN, NULL, NULL, c};
  size_t n = c ? kva_calibration_ceilings(c, best) : 0;
  for (size_t i = 0; i < n; i++) {
    double value = c->row[best[i].row].value;
    bool matrix = strcmp(best[i].name, "mma") == 0 || strcmp(best[i].name, "wgmma") == 0;
    if (best[i].one_sm) continue;
    if (strcmp(best[i].name, "dram") == 0) f.dram = value;
    if (matrix) f.mma_best = fmax(f.mma_best, value); /* of NaN and a number the number */
  }
  return f;
}

kv_status kva_measured_write(const kva_measured *measured, const kva_calibration *calibration,
                             const kva_measured_labels *labels, const char *path, const char *command,
                             kv_error *err) {
  kva_floor_rates rates = rates_of(calibration);
  rates.roofs = labels->roofs;
  rates.ranges = labels->ranges;
  kv_h5_out out = {.file = -1};
  table t = {0};
  kv_status st = kv_h5_create(path, "roofline-1", "roofline", command, &out, err);
  if (st) return st;
  st = table_open(&t, measured, err);
  t.file = out.file;
  if (!st) st = write_root(&t, labels);
  if (!st) st = write_gpu(&t);
  if (!st) st = write_ceilings(&t, calibration);
  if (!st) st = write_names(&t);
  if (!st) st = write_sources(&t, &rates);
  if (!st) st = write_counts(&t);
  if (!st) st = write_numbers(&t, &rates);
  if (!st) st = write_samples(&t);
  table_close(&t);
  if (!st) return kv_h5_commit(&out, err);
  kv_h5_abort(&out);
  return st;
}
