#include "time_calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"

/* One of the two tables: names, scopes, values in columns. */
typedef struct table {
  uint64_t n;
  char *name, *scope;
  size_t name_width, scope_width;
  double *value, *low, *high, *cycles; /* cycles: latencies alone */
} table;

static void free_table(table *t) {
  free(t->name);
  free(t->scope);
  free(t->value);
  free(t->low);
  free(t->high);
  free(t->cycles);
  memset(t, 0, sizeof *t);
}

typedef enum table_kind { RATES, LATENCIES, SIZES } table_kind; /* scopes, cycles, neither */

static kv_status read_table(hid_t file, const char *path, const char *group, table_kind kind, table *t,
                            kv_error *err) {
  char name[64];
  uint64_t scopes = 0;
  const struct {
    const char *column;
    double **to;
  } reals[] = {{"value", &t->value}, {"low", &t->low}, {"high", &t->high}, {"cycles", &t->cycles}};
  (void)snprintf(name, sizeof name, "%s/name", group);
  kv_status st = kva_words(file, path, name, &t->n, &t->name, &t->name_width, err);
  (void)snprintf(name, sizeof name, "%s/scope", group);
  if (!st && kind == RATES) st = kva_words(file, path, name, &scopes, &t->scope, &t->scope_width, err);
  if (!st && kind == RATES && scopes != t->n)
    st = kv_fail(err, KV_ERR_INPUT, "%s: /%s has another length", path, name);
  for (int i = 0; !st && i < (kind == LATENCIES ? 4 : 3); i++) {
    (void)snprintf(name, sizeof name, "%s/%s", group, reals[i].column);
    st = kva_reals(file, path, name, &t->n, reals[i].to, err);
  }
  return st;
}

/* What a microbenchmark cannot have found. */
static kv_status check_table(const table *t, const char *path, const char *group, kv_error *err) {
  for (uint64_t i = 0; i < t->n; i++)
    if (!(t->value[i] > 0) || !isfinite(t->value[i]))
      return kv_fail(err, KV_ERR_INPUT,
                     "%s: /%s/value: %.40s is %g, no number above 0; calibrate anew, or leave this file out "
                     "(--calibration none)",
                     path, group, t->name + i * t->name_width, t->value[i]);
  return KV_OK;
}

/* Row of a name (and scope), or -1. */
static long row_of(const table *t, const char *name, const char *scope) {
  for (uint64_t i = 0; i < t->n; i++)
    if (!strcmp(t->name + i * t->name_width, name) &&
        (!scope || !strcmp(t->scope + i * t->scope_width, scope)))
      return (long)i;
  return -1;
}

typedef struct target {
  kvm_timing *timing;
  kvm_roofs *roofs;
  kva_calibrated *about;
  const char *path;
  kv_error *err; /* the first value that cannot be this GPU's */
} target;

/* A calibration and a description of one GPU differ by percents, some latencies by a factor; not by ten. */
static bool possible(const target *to, const char *name, const char *scope, double value, double described) {
  if (to->err->status || !(described > 0) || (value <= 10 * described && described <= 10 * value))
    return !to->err->status;
  (void)kv_fail(to->err, KV_ERR_INPUT,
                "%s: %s%s is %.4g, and %.4g by the description of the GPU: more than 10 times apart, so one of them is "
                "wrong; calibrate anew, or leave this file out (--calibration none)",
                to->path, name, scope, value, described);
  return false;
}

static void set(const target *to, kvm_parameter p, double value, double low, double high) {
  if (!(value > 0) || !isfinite(value)) return;
  if (!possible(to, kvm_parameter_name(p), "", value, to->timing->p[p].value)) return;
  low = isfinite(low) && low > 0 ? fmin(low, 0.99 * value) : 0.99 * value;
  high = isfinite(high) ? fmax(high, 1.01 * value) : 1.01 * value;
  kvm_timing_set(to->timing, p, value, low, high, to->about->source);
  to->about->values++;
}

static void take_clock(const target *to, const table *t, const char *chain, kvm_parameter p) {
  long i = row_of(t, chain, NULL);
  if (i >= 0) set(to, p, t->cycles[i] / t->value[i], NAN, NAN);
}

/* A latency measured in a loop that is not unrolled: what a turn's branch costs is no part of it. */
static void take_turn(const target *to, const table *t, const char *name, kvm_parameter p) {
  long i = row_of(t, name, NULL), branch = row_of(t, "branch_taken", NULL);
  if (i >= 0 && branch >= 0) set(to, p, t->cycles[i] - t->cycles[branch], NAN, NAN);
}

/* What another instruction beside an mma delays the matrix unit by: three of a kind after each mma, less the
 * mma alone in the same loop. A program does not say which kinds it has, so the mean stands for all, from the
 * least to the most. Zero is an answer too: that GPU has no such delay. */
static void take_delay(const target *to, const table *t) {
  static const char *const kind[] = {"mma_beside_fadd", "mma_beside_lop3", "mma_beside_iadd", "mma_beside_ffma"};
  enum { KINDS = sizeof kind / sizeof *kind, BESIDE = 3 };
  long alone = row_of(t, "mma_alone", NULL);
  double sum = 0, least = INFINITY, most = 0;
  for (int k = 0; k < KINDS; k++) {
    long i = row_of(t, kind[k], NULL);
    if (i < 0 || alone < 0) return;
    double delay = fmax(0, (t->cycles[i] - t->cycles[alone]) / BESIDE);
    if (!isfinite(delay)) return;
    sum += delay;
    least = fmin(least, delay);
    most = fmax(most, delay);
  }
  kvm_timing_set(to->timing, KVM_P_MMA_DELAY, sum / KINDS, least, most, to->about->source);
  to->about->values++;
}

/* What an instruction takes longer out of the memory: of a chain, whose own 4 cycles hide some of it, up to all that it takes. */
static void take_code(const target *to, const table *t) {
  long first = row_of(t, "fetch_first", NULL), again = row_of(t, "fetch_again", NULL);
  if (first < 0 || again < 0) return;
  double more = fmax(0, t->cycles[first] - t->cycles[again]);
  if (isfinite(more)) set(to, KVM_P_COLD_CODE, more, more / 2, fmax(more, t->cycles[first]));
}

static void take_latencies(const target *to, const table *t) {
  static const struct {
    const char *name;
    kvm_parameter p;
  } of[] = {{"chain_l1", KVM_P_L1_LATENCY},
            {"latency_l2", KVM_P_L2_LATENCY},
            {"latency_dram", KVM_P_DRAM_LATENCY},
            {"chain_lds", KVM_P_SMEM_LATENCY},
            {"chain_shfl", KVM_P_SHUFFLE_LATENCY},
            {"chain_barrier", KVM_P_BARRIER_LATENCY},
            {"chain_mma", KVM_P_MMA_LATENCY},
            {"chain_ex2", KVM_P_SFU_LATENCY},
            {"chain_ldmatrix4", KVM_P_LDMATRIX_LATENCY},
            {"branch_taken", KVM_P_BRANCH_LATENCY},
            {"copy_async", KVM_P_COPY_CYCLES}};
  take_clock(to, t, "chain_l1", KVM_P_CLOCK);
  take_clock(to, t, "chain_mma", KVM_P_MMA_CLOCK);
  for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
    long i = row_of(t, of[k].name, NULL);
    if (i >= 0)
      set(to, of[k].p, t->cycles[i], t->cycles[i] * t->low[i] / t->value[i],
          t->cycles[i] * t->high[i] / t->value[i]);
  }
  take_turn(to, t, "chain_mbarrier_test", KVM_P_MBARRIER_LATENCY);
  take_turn(to, t, "hop_mbarrier", KVM_P_MBARRIER_HOP);
  take_delay(to, t);
  take_code(to, t);
  long floor = row_of(t, "timer_floor", NULL), node = row_of(t, "launch_graph_node", NULL),
       eager = row_of(t, "launch_eager", NULL);
  if (floor >= 0) set(to, KVM_P_LAUNCH, t->value[floor], t->low[floor], t->high[floor]);
  if (node >= 0)
    set(to, KVM_P_NEXT_LAUNCH, t->value[node], t->low[node], eager >= 0 ? t->value[eager] / 4 : NAN);
}

static void take_ceiling(const target *to, const table *t, const char *name, const char *scope,
                         kvm_ceiling *roof, kvm_parameter p, double divide) {
  long i = row_of(t, name, scope);
  if (i < 0) return;
  if (roof && !possible(to, name, strcmp(scope, "sm") ? " of the chip" : " of one SM", t->value[i], roof->rate)) return;
  if (roof) *roof = (kvm_ceiling){t->value[i], KVM_MEASURED, "calibration", to->about->source};
  if (p < KVM_PARAMETERS && divide > 0)
    set(to, p, t->value[i] / divide, t->low[i] / divide, t->high[i] / divide);
}

static void take_ceilings(const target *to, const table *t) {
  kvm_roofs *r = to->roofs;
  double clock = to->timing->p[KVM_P_CLOCK].value;
  take_ceiling(to, t, "dram", "chip", &r->chip[KVM_DRAM], KVM_P_DRAM_RATE, 1);
  take_ceiling(to, t, "l2", "chip", &r->chip[KVM_L2], KVM_P_L2_RATE, 1);
  take_ceiling(to, t, "link", "chip", &r->chip[KVM_LINK], KVM_P_LINK_RATE, 1);
  take_ceiling(to, t, "l1", "chip", &r->chip[KVM_L1], KVM_PARAMETERS, 1);
  take_ceiling(to, t, "mma", "chip", &r->chip[KVM_MMA], KVM_PARAMETERS, 1);
  take_ceiling(to, t, "link", "sm", &r->sm[KVM_LINK], KVM_P_SM_LINK, clock);
  take_ceiling(to, t, "dram", "sm", &r->sm[KVM_DRAM], KVM_PARAMETERS, 1);
  take_ceiling(to, t, "l2", "sm", &r->sm[KVM_L2], KVM_PARAMETERS, 1);
  take_ceiling(to, t, "l1", "sm", &r->sm[KVM_L1], KVM_P_WAVE_RATE, 1);
  take_ceiling(to, t, "mma", "sm", &r->sm[KVM_MMA], KVM_P_MMA_RATE, 1);
  take_ceiling(to, t, "sfu", "sm", NULL, KVM_P_SFU_RATE, clock);
  kvm_ceiling wgmma = {NAN, KVM_UNKNOWN, "", ""};
  take_ceiling(to, t, "wgmma", "chip", &wgmma, KVM_PARAMETERS, 1);
  r->mma_best = wgmma.rate > r->chip[KVM_MMA].rate ? wgmma : r->chip[KVM_MMA];
  to->timing->mma_best = r->mma_best.rate;
}

/* Which card it was. Files that do not say leave zeros: nothing speaks against such a one. */
static void read_card(hid_t file, kva_calibrated *about) {
  char capability[16] = "";
  int major = 0, minor = 0;
  int64_t sms = 0, memory = 0, bus = 0, clock = 0;
  (void)kv_h5_get_str(file, "compute_capability", capability, sizeof capability, NULL);
  (void)kv_h5_get_i64(file, "sms", &sms, NULL);
  (void)kv_h5_get_i64(file, "memory", &memory, NULL);
  (void)kv_h5_get_i64(file, "memory_bus", &bus, NULL);
  (void)kv_h5_get_i64(file, "memory_clock_max", &clock, NULL);
  if (sscanf(capability, "%d.%d", &major, &minor) == 2) about->sm = 10 * major + minor;
  about->sms = (int)sms;
  about->memory = (double)memory;
  about->dram = 2e6 * (double)clock * (double)bus / 8; /* two bits a pin and clock */
}

static kv_status read_about(hid_t file, const char *path, kva_calibrated *about, kv_error *err) {
  memset(about, 0, sizeof *about);
  kv_status st = kv_h5_get_str(file, "gpu_name", about->gpu_name, sizeof about->gpu_name, err);
  if (st == KV_END) st = kv_fail(err, KV_ERR_INPUT, "%s: attribute gpu_name is missing", path);
  if (!st) (void)kv_h5_get_str(file, "status", about->status, sizeof about->status, err);
  if (!st) read_card(file, about);
  int64_t complete = 1;
  (void)kv_h5_get_i64(file, "complete", &complete, NULL);
  const size_t used = strlen(about->status);
  if (!complete)
    (void)snprintf(about->status + used, sizeof about->status - used,
                   ", broken off: what it lacks is taken from the description");
  const char *base = strrchr(path, '/');
  (void)snprintf(about->source, sizeof about->source, "own microbenchmarks (%.100s): %.200s",
                 base ? base + 1 : path, about->status);
  return st;
}

kv_status kva_time_calibration_of(const char *path, kva_calibrated *about, kv_error *err) {
  hid_t file;
  kv_status st = kva_open(path, "kvceilings-1", &file, err);
  if (st) return st;
  st = read_about(file, path, about, err);
  (void)H5Fclose(file);
  return st;
}

kv_status kva_time_calibrate(const char *path, kvm_timing *timing, kvm_roofs *roofs, kva_calibrated *about,
                             kv_error *err) {
  table latencies = {0}, ceilings = {0}, sizes = {0};
  hid_t file;
  kv_status st = kva_open(path, "kvceilings-1", &file, err);
  if (st) return st;
  st = read_about(file, path, about, err);
  if (!st) st = read_table(file, path, "latencies", LATENCIES, &latencies, err);
  if (!st) st = read_table(file, path, "ceilings", RATES, &ceilings, err);
  /* files before this microbenchmark lack the group */
  if (!st && H5Lexists(file, "sizes", H5P_DEFAULT) > 0)
    st = read_table(file, path, "sizes", SIZES, &sizes, err);
  if (!st) st = check_table(&latencies, path, "latencies", err);
  if (!st) st = check_table(&ceilings, path, "ceilings", err);
  if (!st) st = check_table(&sizes, path, "sizes", err);
  kv_error wrong = {KV_OK, ""};
  if (!st) {
    const target to = {timing, roofs, about, path, &wrong};
    take_latencies(&to, &latencies);
    take_ceilings(&to, &ceilings);
    long line = row_of(&sizes, "memory_line", NULL);
    if (line >= 0) set(&to, KVM_P_LINE, sizes.value[line], sizes.low[line], sizes.high[line]);
    st = wrong.status ? kv_fail(err, wrong.status, "%s", wrong.text) : KV_OK;
  }
  free_table(&latencies);
  free_table(&ceilings);
  free_table(&sizes);
  (void)H5Fclose(file);
  return st;
}
