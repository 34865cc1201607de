/* The roofline-1 dataset of a run; its layout is in analysis/README.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "roof_run.h"

enum { CEILINGS = 2 * KVM_RESOURCES + 8 };

static kv_status put_root(const kva_run *run, hid_t file, kv_error *err) {
  const kvm_verify *p = &run->point[0].problem;
  const struct {
    const char *name, *value;
  } text[] = {{"gpu", run->gpu->key},    {"gpu_name", run->gpu->name}, {"gpu_arch", run->gpu->arch},
              {"status", run->status},   {"dtype", run->dtype},        {"layout_source", run->layout_name},
              {"verdict", run->verdict}, {"default", "points"},
              {"memory_model", run->gather.status},
              {"calibration", run->calibration[0] ? run->calibration : "none"}};
  const struct {
    const char *name;
    uint64_t value;
  } number[] = {{"heads", p->heads},     {"queries", p->queries},     {"latent", p->latent},
                {"rope", p->rope},       {"row_bytes", p->row_bytes}, {"batch", p->batch},
                {"layers", run->layers}, {"seed", run->seed}};
  kv_status st = KV_OK;
  for (size_t i = 0; !st && i < sizeof text / sizeof *text; i++)
    st = kv_h5_put_str(file, text[i].name, text[i].value, err);
  for (size_t i = 0; !st && i < sizeof number / sizeof *number; i++)
    st = kv_h5_put_i64(file, number[i].name, (int64_t)number[i].value, err);
  if (!st && run->smem_limit) st = kv_h5_put_i64(file, "smem_limit", run->smem_limit, err);
  return st;
}

/* ---- tables of strings ---- */

/* An end of a value's range in the unit that the value was described in. */
static double in_its_unit(const kvm_value *v, double end) {
  char text[40];
  double described = strtod(v->text, NULL);
  if (!v->numeric || !v->ranged) return NAN;
  (void)snprintf(text, sizeof text, "%.12g", described != 0 && v->number != 0 ? end / (v->number / described) : end);
  return strtod(text, NULL);
}

/* `low` and `high`: NaN where the description has no range. */
static kv_status write_ranges(const kvm_gpu *g, hid_t file, kv_error *err) {
  double *low = calloc(g->values + 1, sizeof *low), *high = calloc(g->values + 1, sizeof *high);
  kv_status st = low && high ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (size_t i = 0; !st && i < g->values; i++) {
    low[i] = in_its_unit(&g->value[i], g->value[i].low);
    high[i] = in_its_unit(&g->value[i], g->value[i].high);
  }
  if (!st)
    st = kv_h5_write(file, "gpu/low", H5T_IEEE_F64LE, g->values, low, "see unit", "Low end of the range; NaN: none given",
                     KV_H5_SMALL, err);
  if (!st)
    st = kv_h5_write(file, "gpu/high", H5T_IEEE_F64LE, g->values, high, "see unit", "High end of the range; NaN: none given",
                     KV_H5_SMALL, err);
  free(low);
  free(high);
  return st;
}

static kv_status write_gpu(const kva_run *run, hid_t file, kv_error *err) {
  const kvm_gpu *g = run->gpu;
  static const char *const column[] = {"name", "value", "unit", "kind", "source"};
  static const char *const what[] = {"Name of the described quantity",
                                     "Value as described, empty where it is missing", "Unit",
                                     "Kind of the value", "Where the value comes from"};
  const char **cell = calloc(g->values + 1, sizeof *cell);
  kv_status st = cell ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (int c = 0; !st && c < 5; c++) {
    char name[32];
    (void)snprintf(name, sizeof name, "gpu/%s", column[c]);
    for (size_t i = 0; i < g->values; i++) {
      const kvm_value *v = &g->value[i];
      cell[i] = c == 0   ? v->name
                : c == 1 ? v->text
                : c == 2 ? v->unit
                : c == 3 ? kvm_kind_words(v->kind, v->source)
                         : v->source;
    }
    st = kv_h5_write_strings(file, name, g->values, cell, what[c], err);
  }
  free(cell);
  return st ? st : write_ranges(g, file, err);
}

typedef struct ceiling_table {
  uint64_t n;
  const char *name[CEILINGS], *scope[CEILINGS], *unit[CEILINGS], *kind[CEILINGS], *source[CEILINGS];
  double value[CEILINGS];
} ceiling_table;

static void add_ceiling(ceiling_table *t, const char *name, const char *scope, const char *unit,
                        const kvm_ceiling *c) {
  if (isnan(c->rate) || t->n == CEILINGS) return;
  uint64_t i = t->n++;
  t->name[i] = name;
  t->scope[i] = scope;
  t->unit[i] = unit;
  t->value[i] = c->rate;
  t->kind[i] = kvm_kind_words(c->kind, c->source);
  t->source[i] = c->source;
}

static void add_described(ceiling_table *t, const kvm_gpu *gpu, const char *name, const char *value,
                          const char *unit) {
  const kvm_value *v = kvm_gpu_value(gpu, value);
  if (!v || !v->numeric) return;
  const kvm_ceiling c = {v->number, v->kind, v->name, v->source};
  add_ceiling(t, name, "chip", unit, &c);
}

static kv_status write_ceilings(const kva_run *run, hid_t file, kv_error *err) {
  ceiling_table t = {0};
  for (int r = 0; r < KVM_RESOURCES; r++) {
    const char *name = kvm_resource_name((kvm_resource)r), *unit = kvm_resource_unit((kvm_resource)r);
    add_ceiling(&t, name, "chip", unit, &run->roofs.chip[r]);
    add_ceiling(&t, name, "sm", unit, &run->roofs.sm[r]);
  }
  add_ceiling(&t, "mma_best", "chip", "FLOP/s", &run->roofs.mma_best);
  add_described(&t, run->gpu, "wgmma", "wgmma_bf16", "FLOP/s");
  add_described(&t, run->gpu, "fma", "fp32", "FLOP/s");
  add_described(&t, run->gpu, "dram_spec", "dram_bw_spec", "B/s");
  const kva_gather *g = &run->gather;
  kvm_kind kind = g->kind == KVM_ASSUMED ? KVM_ASSUMED : KVM_INFERENCE;
  const kvm_ceiling layout = {g->layout.at.ceiling, kind, "", g->status},
                    random = {g->random.at.ceiling, kind, "", g->status};
  add_ceiling(&t, "gather", "chip", "B/s", &layout);
  add_ceiling(&t, "gather_random", "chip", "B/s", &random);
  kv_status st = kv_h5_write_strings(file, "ceilings/name", t.n, t.name, "Resource", err);
  if (!st) st = kv_h5_write_strings(file, "ceilings/scope", t.n, t.scope, "Whole chip or one SM", err);
  if (!st)
    st = kv_h5_write(file, "ceilings/value", H5T_IEEE_F64LE, t.n, t.value, "B/s or FLOP/s, see unit",
                     "Best rate", KV_H5_SMALL, err);
  if (!st) st = kv_h5_write_strings(file, "ceilings/unit", t.n, t.unit, "Unit of the rate", err);
  if (!st) st = kv_h5_write_strings(file, "ceilings/kind", t.n, t.kind, "Kind of the value", err);
  if (!st)
    st = kv_h5_write_strings(file, "ceilings/source", t.n, t.source, "Where the value comes from", err);
  return st;
}

static kv_status write_names(const kva_run *run, hid_t file, kv_error *err) {
  const char *kernel[KVA_MAX_KERNELS], *about[KVA_MAX_KERNELS], *resource[2 * KVM_RESOURCES],
      *layout[1] = {run->layout_name}, *program[KVA_MAX_KERNELS];
  char words[KVA_MAX_KERNELS][160];
  kva_point p = {0};
  for (uint32_t k = 0; k < run->kernels; k++) {
    kernel[k] = run->kernel[k].name;
    about[k] = run->kernel[k].description;
    kva_program_words(run->point[k].program, words[k], sizeof words[k]);
    program[k] = words[k];
  }
  for (int r = 0; r < 2 * KVM_RESOURCES; r++) {
    p.ladder.binding = (kvm_resource)(r % KVM_RESOURCES);
    p.ladder.binding_sm = r >= KVM_RESOURCES;
    resource[r] = kva_point_binding(&p);
  }
  kv_status st = kv_h5_write_strings(file, "kernels/name", run->kernels, kernel, "Kernel", err);
  if (!st)
    st = kv_h5_write_strings(file, "kernels/description", run->kernels, about, "What the kernel does", err);
  if (!st)
    st = kv_h5_write_strings(file, "kernels/program", run->kernels, program,
                             "Program that the modelled times are made of, at the first prefix", err);
  if (!st)
    st = kv_h5_write_strings(file, "resources/name", 2 * KVM_RESOURCES, resource, "Resource that may bind",
                             err);
  if (!st) st = kv_h5_write_strings(file, "layouts/name", 1, layout, "Where the rows lie", err);
  return st;
}

static kv_status write_gather(const kva_run *run, hid_t file, kv_error *err) {
  const kva_gather_range *g = &run->gather.layout;
  const struct {
    const char *name, *long_name, *units;
    double value;
  } column[] = {
      {"layouts/scatter", "Time of a saturating gather over that of contiguous rows, modelled", "1",
       g->at.scatter},
      {"layouts/scatter_slow", "The same with every assumed value at its slow end", "1", g->slow.scatter},
      {"layouts/scatter_fast", "The same with every assumed value at its fast end", "1", g->fast.scatter},
      {"layouts/gather_ceiling", "Rate of a saturating gather of these rows, modelled", "B/s",
       g->at.ceiling}};
  kv_status st = KV_OK;
  for (size_t i = 0; !st && i < sizeof column / sizeof *column; i++)
    st = kv_h5_write(file, column[i].name, H5T_IEEE_F64LE, 1, &column[i].value, column[i].units,
                     column[i].long_name, KV_H5_SMALL, err);
  return st;
}

static kv_status write_layout(const kva_run *run, hid_t file, kv_error *err) {
  const kvm_verify *p = &run->point[0].problem;
  const struct {
    const char *name, *long_name, *units;
    uint64_t value;
  } column[] = {{"layouts/tokens", "Tokens over all requests", "token",
                 run->contiguous ? p->tokens : run->layout_tokens},
                {"layouts/rows", "Distinct rows over all requests", "row", p->union_rows},
                {"layouts/runs", "Runs of consecutive slots over all requests", "1",
                 run->contiguous ? p->batch : run->layout.runs},
                {"layouts/sectors", "Distinct 32-byte sectors", "1", p->sectors}};
  kv_status st = KV_OK;
  for (size_t i = 0; !st && !run->contiguous && i < sizeof column / sizeof *column; i++)
    st = kv_h5_write(file, column[i].name, H5T_STD_U64LE, 1, &column[i].value, column[i].units,
                     column[i].long_name, KV_H5_SMALL, err);
  return st;
}

/* ---- points ---- */

enum { U32 = 32, U64 = 64 };
typedef struct whole_column {
  const char *name, *units, *long_name;
  int bits;
  uint64_t (*get)(const kva_point *p);
} whole_column;
#define WHOLE(f, expression)              \
  static uint64_t f(const kva_point *p) { \
    return (uint64_t)(expression);        \
  }
WHOLE(w_kernel, p->kernel)
WHOLE(w_prefix, p->problem.longest)
WHOLE(w_heads, p->problem.heads)
WHOLE(w_queries, p->problem.queries)
WHOLE(w_batch, p->problem.batch)
WHOLE(w_layout, 0 * p->kernel)
WHOLE(w_blocks, p->work.blocks)
WHOLE(w_splits, p->work.splits)
WHOLE(w_per_sm, p->work.blocks_per_sm)
WHOLE(w_fits, p->work.fits)
WHOLE(w_useful, p->useful.bytes)
WHOLE(w_binding, p->ladder.binding + (p->ladder.binding_sm ? KVM_RESOURCES : 0))

#define REAL(f, expression) KVA_REAL(f, kva_point, p, expression)
REAL(r_kv, p->useful.kv_bytes)
REAL(r_flops, p->useful.flops)
REAL(r_intensity, p->useful.intensity)
REAL(r_dram, p->work.chip[KVM_DRAM])
REAL(r_l2, p->work.chip[KVM_L2])
REAL(r_link, p->work.chip[KVM_LINK])
REAL(r_l1, p->work.chip[KVM_L1])
REAL(r_mma, p->work.chip[KVM_MMA])
REAL(r_sm_link, p->work.sm[KVM_LINK])
REAL(r_sm_l1, p->work.sm[KVM_L1])
REAL(r_sm_mma, p->work.sm[KVM_MMA])
REAL(r_waves, p->work.waves)
REAL(r_t0, p->ladder.t[0])
REAL(r_t1, p->ladder.t[1])
REAL(r_t2, p->ladder.t[2])
REAL(r_t3, p->ladder.t[3])
REAL(r_t4, p->ladder.t[4])
REAL(r_t5, p->ladder.t[5])
REAL(r_t6, p->ladder.t[6])
REAL(r_t7, p->ladder.t[7])
REAL(r_time, kva_point_time(p))
REAL(r_bound, kva_point_bound(p))
REAL(r_time_low, p->prediction.known ? p->prediction.low : NAN)
REAL(r_time_high, p->prediction.known ? p->prediction.high : NAN)
REAL(r_busy_issue, p->prediction.known ? p->prediction.steady.issue : NAN)
REAL(r_busy_mma, p->prediction.known ? p->prediction.steady.mma : NAN)
REAL(r_busy_l1, p->prediction.known ? p->prediction.steady.l1 : NAN)
REAL(r_busy_link, p->prediction.known ? p->prediction.steady.link : NAN)
REAL(r_busy_dram, p->prediction.known ? p->prediction.steady.dram : NAN)
REAL(r_measured, p->measured)
REAL(r_low, p->measured_low)
REAL(r_high, p->measured_high)
REAL(r_bandwidth, kva_point_bandwidth(p))

static const whole_column whole_columns[] = {
    {"kernel", "1", "Row of /kernels", U32, w_kernel},
    {"prefix", "token", "Prefix of the longest request", U64, w_prefix},
    {"heads", "1", "Heads on this GPU", U32, w_heads},
    {"queries", "1", "Tree nodes a request", U32, w_queries},
    {"batch", "1", "Requests", U32, w_batch},
    {"layout", "1", "Row of /layouts", U32, w_layout},
    {"blocks", "1", "Thread blocks of the launch", U64, w_blocks},
    {"splits", "1", "Pieces of the longest prefix", U32, w_splits},
    {"blocks_per_sm", "1", "Blocks that an SM holds at once, 0 if not known", U32, w_per_sm},
    {"fits", "1", "1 if the block's shared memory fits this GPU", U32, w_fits},
    {"useful_bytes", "B", "Useful bytes U", U64, w_useful},
    {"binding", "1", "Row of /resources that sets the modelled time", U32, w_binding}};

static const kva_real_column real_columns[] = {
    {"useful_kv_bytes", "B", "Useful bytes of KV rows alone", r_kv},
    {"useful_flops", "FLOP", "Useful flops F", r_flops},
    {"intensity", "FLOP/B", "F / U", r_intensity},
    {"dram_bytes", "B", "Bytes from memory that the kernel's structure implies", r_dram},
    {"l2_bytes", "B", "Bytes at L2 that the kernel's structure implies", r_l2},
    {"link_bytes", "B", "Bytes between L2 and the SMs that the kernel's structure implies", r_link},
    {"l1_bytes", "B", "Bytes through the L1/shared-memory pipe that the kernel's structure implies", r_l1},
    {"executed_flops", "FLOP", "Flops executed, padding included", r_mma},
    {"sm_link_bytes", "B", "Link bytes of the busiest SM", r_sm_link},
    {"sm_l1_bytes", "B", "L1/shared-memory bytes of the busiest SM", r_sm_l1},
    {"sm_executed_flops", "FLOP", "Flops executed by the busiest SM", r_sm_mma},
    {"waves", "1", "Blocks over those that run at once", r_waves},
    {"floor", "s", "T0, the floor: useful work at the best rates", r_t0},
    {"t1", "s", "T1: with the instructions used", r_t1},
    {"t2", "s", "T2: with the work executed", r_t2},
    {"t3", "s", "T3: at the ceilings for this layout", r_t3},
    {"t4", "s", "T4: with the busiest SM's share", r_t4},
    {"t5", "s", "T5: with serial time inside a block", r_t5},
    {"t6", "s", "T6: with exposed memory", r_t6},
    {"t7", "s", "T7: whole operation", r_t7},
    {"time", "s", "Modelled time T7; NaN where the model gives none", r_time},
    {"time_at_least", "s", "Lower bound of the time, where the model gives no time; no prediction", r_bound},
    {"time_low", "s", "Modelled time, lower end of the interval", r_time_low},
    {"time_high", "s", "Modelled time, upper end of the interval", r_time_high},
    {"sm_issue_busy", "1", "Issue slots of the busiest SM in use, modelled", r_busy_issue},
    {"sm_mma_busy", "1", "Matrix units of the busiest SM in use, modelled", r_busy_mma},
    {"sm_l1_busy", "1", "L1/shared-memory pipe of the busiest SM in use, modelled", r_busy_l1},
    {"sm_link_busy", "1", "Link of the busiest SM in use, modelled", r_busy_link},
    {"sm_dram_busy", "1", "Memory share of the busiest SM in use, modelled", r_busy_dram},
    {"measured", "s", "Measured time, median", r_measured},
    {"measured_low", "s", "Measured time, lower end of the interval", r_low},
    {"measured_high", "s", "Measured time, upper end of the interval", r_high},
    {"effective_bandwidth", "B/s", "Useful KV bytes over the measured, else the modelled, time",
     r_bandwidth}};

static kv_status write_whole(const kva_run *run, hid_t file, const whole_column *c, uint64_t *buffer,
                             kv_error *err) {
  char name[64];
  uint32_t *narrow = (uint32_t *)(void *)buffer;
  (void)snprintf(name, sizeof name, "points/%s", c->name);
  for (uint64_t i = 0; i < run->points; i++) {
    uint64_t v = c->get(&run->point[i]);
    if (c->bits == U32) narrow[i] = (uint32_t)v;
    else buffer[i] = v;
  }
  return kv_h5_write(file, name, c->bits == U32 ? H5T_STD_U32LE : H5T_STD_U64LE, run->points, buffer,
                     c->units, c->long_name, KV_H5_SMALL, err);
}

/* nats, gain and their intervals, a column a cause: points/nats_serial, points/gain_serial_low, ... */
static kv_status write_causes(const kva_run *run, hid_t file, double *real, kv_error *err) {
  static const char *const part[] = {"nats_%s", "nats_%s_low", "nats_%s_high",
                                     "gain_%s", "gain_%s_low", "gain_%s_high"};
  kv_status st = KV_OK;
  for (int c = 0; !st && c < KVM_CAUSES; c++)
    for (int k = 0; !st && k < 6; k++) {
      char column[64], name[80], about[160];
      (void)snprintf(column, sizeof column, part[k],
                     c == KVM_C_MEMORY ? "memory" : kvm_cause_name((kvm_cause)c));
      (void)snprintf(name, sizeof name, "points/%s", column);
      (void)snprintf(about, sizeof about, "%s of %s, modelled%s",
                     k < 3 ? "Share (logarithm of the ladder's factor)" : "Time over time without this cause",
                     kvm_cause_name((kvm_cause)c),
                     k % 3 == 0   ? ""
                     : k % 3 == 1 ? ", lower end"
                                  : ", upper end");
      for (uint64_t i = 0; i < run->points; i++) {
        const kva_cause *x = &run->point[i].attribution.cause[c];
        const double v[6] = {x->nats, x->low, x->high, x->gain, x->gain_low, x->gain_high};
        real[i] = x->known ? v[k] : NAN;
      }
      st = kv_h5_write(file, name, H5T_IEEE_F64LE, run->points, real, "1", about, KV_H5_SMALL, err);
    }
  return st;
}

KVA_WORD(r_verdict, kva_point, p, p->attribution.verdict)

static kv_status write_points(const kva_run *run, hid_t file, kv_error *err) {
  kv_status st = KV_OK;
  uint64_t *whole = malloc(run->points * sizeof *whole);
  double *real = malloc(run->points * sizeof *real);
  if (!whole || !real) st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (size_t c = 0; !st && c < sizeof whole_columns / sizeof *whole_columns; c++)
    st = write_whole(run, file, &whole_columns[c], whole, err);
  if (!st)
    st = kva_write_reals(file, "points", real_columns, sizeof real_columns / sizeof *real_columns, run->points, run->point, err);
  if (!st) st = write_causes(run, file, real, err);
  static const kva_word_column verdict = {"verdict", "What the ladder says", r_verdict};
  if (!st) st = kva_write_words(file, "points", &verdict, 1, run->points, run->point, err);
  free(whole);
  free(real);
  return st;
}

kv_status kva_run_write(const kva_run *run, const char *path, const char *command, kv_error *err) {
  kv_h5_out out = {.file = -1};
  kv_status st = kv_h5_create(path, "roofline-1", "roofline", command, &out, err);
  if (st) return st;
  st = put_root(run, out.file, err);
  if (!st) st = write_gpu(run, out.file, err);
  if (!st) st = write_ceilings(run, out.file, err);
  if (!st) st = write_names(run, out.file, err);
  if (!st) st = write_layout(run, out.file, err);
  if (!st) st = write_gather(run, out.file, err);
  if (!st) st = write_points(run, out.file, err);
  if (!st) return kv_h5_commit(&out, err);
  kv_h5_abort(&out);
  return st;
}
