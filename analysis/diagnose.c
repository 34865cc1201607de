#include "diagnose.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "csv.h"

/* ---- metrics ---- */

enum { NAMES = 6, FLOP_AN_INSTRUCTION = 4096 }; /* of m16n8k16 */
/* Several names, the first that is there counts; `kind`: b bytes, s time, p percent, h clock, c count. */
static const struct metric {
  const char *name;
  char kind;
  const char *in_ncu[NAMES];
} metrics[KVA_METRICS] = {
    {"duration",
     's',
     {"gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max", "Duration"}},
    {"dram bytes read", 'b', {"dram__bytes_read.sum", "lts__t_sectors_srcunit_ltcfabric_lookup_miss.sum"}},
    {"dram bytes written", 'b', {"dram__bytes_write.sum"}},
    {"L2 to SM bytes",
     'b',
     {"l1tex__m_xbar2l1tex_read_bytes.sum", "lts__t_bytes_srcunit_tex.sum", "lts__t_bytes.sum"}},
    {"L1/shared wavefronts",
     'c',
     {"l1tex__data_pipe_lsu_wavefronts.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"}},
    {"L1/shared wavefronts of the busiest SM",
     'c',
     {"l1tex__data_pipe_lsu_wavefronts.max", "l1tex__data_pipe_lsu_wavefronts_mem_shared.max"}},
    {"matrix instructions",
     'c',
     {"sm__inst_executed_pipe_tensor.sum", "sm__inst_executed_pipe_tensor_op_hmma.sum",
      "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum", "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
      "sm__ops_path_tensor_src_fp16_dst_fp32.sum", "sm__ops_path_tensor_src_fp16_dst_fp16.sum"}},
    {"matrix instructions of the busiest SM",
     'c',
     {"sm__inst_executed_pipe_tensor.max", "sm__inst_executed_pipe_tensor_op_hmma.max"}},
    {"issue slots",
     'p',
     {"smsp__issue_active.avg.pct_of_peak_sustained_active",
      "sm__inst_issued.avg.pct_of_peak_sustained_active", "smsp__issue_active.avg.per_cycle_active"}},
    {"L1/shared pipe",
     'p',
     {"l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_active",
      "l1tex__throughput.avg.pct_of_peak_sustained_active"}},
    {"matrix pipe",
     'p',
     {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
      "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
      "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"}},
    {"dram throughput",
     'p',
     {"dram__throughput.avg.pct_of_peak_sustained_elapsed",
      "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "DRAM Throughput"}},
    {"L2 throughput", 'p', {"lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2 Cache Throughput"}},
#define STALL(text, ncu)                                                                             \
  {                                                                                                  \
    text, 'c', {                                                                                     \
      "smsp__average_warps_issue_stalled_" ncu "_per_issue_active.ratio",                            \
          "smsp__average_warp_latency_issue_stalled_" ncu ".ratio",                                  \
          "smsp__average_warps_issue_stalled_" ncu ".ratio", "smsp__pcsamp_warps_issue_stalled_" ncu \
    }                                                                                                \
  }
    STALL("long scoreboard", "long_scoreboard"),
    STALL("short scoreboard", "short_scoreboard"),
    STALL("barrier", "barrier"),
    STALL("wait", "wait"),
    STALL("math pipe", "math_pipe_throttle"),
    STALL("MIO", "mio_throttle"),
    STALL("LG", "lg_throttle"),
    STALL("selected", "selected"),
    STALL("not selected", "not_selected"),
    STALL("no instruction", "no_instruction"),
    {"grid", 'c', {"launch__grid_size", "Grid Size"}},
    {"block", 'c', {"launch__block_size", "Block Size"}},
    {"registers", 'c', {"launch__registers_per_thread", "Registers Per Thread"}},
    {"shared memory a block",
     'b',
     {"launch__shared_mem_per_block", "launch__shared_mem_per_block_allocated"}},
    {"SMs", 'c', {"device__attribute_multiprocessor_count", "launch__sm_count", "# SMs"}},
    {"SM clock",
     'h',
     {"gpc__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second",
      "smsp__cycles_elapsed.avg.per_second", "SM Frequency"}},
    {"L2 hit rate", 'p', {"lts__t_sector_hit_rate.pct", "L2 Hit Rate"}},
    {"local memory", 'b', {"l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "lmem__bytes"}}};

const char *kva_metric_name(kva_metric m) {
  return metrics[m].name;
}

const char *kva_metric_text(kva_metric m, double value, char text[32]) {
  switch (metrics[m].kind) {
    case 's': (void)snprintf(text, 32, value < 1e-3 ? "%.4g us" : "%.4g ms", value * (value < 1e-3 ? 1e6 : 1e3)); break;
    case 'b': (void)snprintf(text, 32, value < 1e6 ? "%.0f B" : "%.4g MB", value < 1e6 ? value : value * 1e-6); break;
    case 'p': (void)snprintf(text, 32, "%.1f %%", value * 100); break;
    case 'h': (void)snprintf(text, 32, "%.0f MHz", value * 1e-6); break;
    default: (void)snprintf(text, 32, "%.6g", value); break;
  }
  return text;
}

/* Factor of ncu's unit words; NaN for one that cannot be. Old and new spellings. */
static double factor_of(const char *unit, char kind) {
  static const struct {
    const char *unit;
    double factor;
  } units[] = {{"byte", 1},
               {"Kbyte", 1e3},
               {"Mbyte", 1e6},
               {"Gbyte", 1e9},
               {"Tbyte", 1e12},
               {"B", 1},
               {"KB", 1e3},
               {"MB", 1e6},
               {"GB", 1e9},
               {"byte/block", 1},
               {"Kbyte/block", 1e3},
               {"nsecond", 1e-9},
               {"ns", 1e-9},
               {"usecond", 1e-6},
               {"us", 1e-6},
               {"msecond", 1e-3},
               {"ms", 1e-3},
               {"second", 1},
               {"s", 1},
               {"%", 0.01},
               {"Hz", 1},
               {"KHz", 1e3},
               {"MHz", 1e6},
               {"Ghz", 1e9},
               {"cycle/second", 1},
               {"cycle/nsecond", 1e9},
               {"cycle/usecond", 1e6},
               {"cycle/ns", 1e9},
               {"cycle/us", 1e6},
               {"cycle/s", 1}};
  if (kind == 'c') return 1;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (!strcasecmp(unit, units[i].unit)) return units[i].factor;
  if (kind == 'p') return 0.01; /* a percentage whatever the unit says, but for the per-cycle ratio */
  return unit[0] ? NAN : kind == 's' ? 1e-9 : 1;
}

/* "(8, 2, 1)", as ncu writes a grid and a block: how many there are; a plain number as it is. */
static double number_of(const char *value) {
  unsigned x = 0, y = 1, z = 1;
  if (value[0] != '(') return kva_csv_number(value);
  return sscanf(value, "(%u, %u, %u)", &x, &y, &z) >= 1 && x && y && z ? (double)x * y * z : NAN;
}

static void put(kva_profiled *k, size_t m, const char *name, const char *value, const char *unit) {
  double v = number_of(value), f = factor_of(unit, metrics[m].kind);
  if (metrics[m].kind == 'p' && strstr(name, "per_cycle")) f = 1;
  /* operations, one metric a type of operands: of a type that the kernel has not, nothing is learnt */
  if (strstr(name, "sm__ops_path_tensor") == name) f = v > 0 ? 1.0 / FLOP_AN_INSTRUCTION : NAN;
  if (!isnan(v) && !isnan(f)) k->m[m] = v * f;
}

/* Which metric (and which of its names) a column or row is; a better name wins over one read before. */
static bool find_metric(const char *name, size_t *metric, int *rank) {
  for (size_t m = 0; m < KVA_METRICS; m++)
    for (int r = 0; r < NAMES; r++)
      if (metrics[m].in_ncu[r] && !strcasecmp(name, metrics[m].in_ncu[r])) {
        *metric = m;
        *rank = r;
        return true;
      }
  return false;
}

/* ---- the two forms of csv ---- */

typedef struct reading {
  const kva_csv *csv;
  kva_profile *to;
  int rank[KVA_METRICS]; /* of the kernel being read */
} reading;

static kva_profiled *add_kernel(reading *r, const char *name, const char *device, kv_error *err) {
  kva_profiled *more = realloc(r->to->kernel, (r->to->n + 1) * sizeof *more);
  if (!more) {
    (void)kv_fail(err, KV_ERR_MEMORY, "out of memory");
    return NULL;
  }
  r->to->kernel = more;
  kva_profiled *k = &more[r->to->n++];
  memset(k, 0, sizeof *k);
  for (int i = 0; i < KVA_METRICS; i++) {
    k->m[i] = NAN;
    r->rank[i] = 99;
  }
  (void)snprintf(k->kernel, sizeof k->kernel, "%.255s", name);
  (void)snprintf(k->device, sizeof k->device, "%.127s", device);
  return k;
}

static void offer(reading *r, kva_profiled *k, const char *name, const char *value, const char *unit) {
  size_t m;
  int rank;
  if (!find_metric(name, &m, &rank) || rank >= r->rank[m]) return;
  double was = k->m[m];
  put(k, m, name, value, unit);
  if (k->m[m] == was || isnan(k->m[m])) return;
  r->rank[m] = rank;
}

static const char *const kernel_names[] = {"Kernel Name", "launch__kernel_name", NULL};
static const char *const device_names[] = {"device__attribute_display_name", "Device Name", NULL};

/* A row a kernel; the first row after the header holds units where its ID is empty. */
static kv_status read_wide(reading *r, kv_error *err) {
  const kva_csv *csv = r->csv;
  static const char *const id[] = {"ID", NULL};
  int name = kva_csv_column(csv, kernel_names), device = kva_csv_column(csv, device_names),
      number = kva_csv_column(csv, id);
  size_t units = csv->rows > 1 && number >= 0 && !kva_csv_cell(csv, 1, number)[0] ? 1 : 0;
  for (size_t row = units + 1; row < csv->rows; row++) {
    kva_profiled *k = add_kernel(r, kva_csv_cell(csv, row, name), kva_csv_cell(csv, row, device), err);
    if (!k) return KV_ERR_MEMORY;
    for (int c = 0; c < (int)csv->columns; c++)
      offer(r, k, kva_csv_cell(csv, 0, c), kva_csv_cell(csv, row, c), units ? kva_csv_cell(csv, 1, c) : "");
  }
  return KV_OK;
}

/* A row a metric: kernels are told apart by their ID. */
static kv_status read_long(reading *r, int metric, kv_error *err) {
  static const char *const id[] = {"ID", NULL}, *const value[] = {"Metric Value", "Value", NULL},
                           *const unit[] = {"Metric Unit", "Unit", NULL};
  const kva_csv *csv = r->csv;
  int number = kva_csv_column(csv, id), name = kva_csv_column(csv, kernel_names),
      v = kva_csv_column(csv, value), u = kva_csv_column(csv, unit);
  static const char *const sizes[][2] = {{"Grid Size", NULL}, {"Block Size", NULL}};
  const char *last = NULL;
  kva_profiled *k = NULL;
  if (v < 0) return kv_fail(err, KV_ERR_INPUT, "the csv has 'Metric Name' but no 'Metric Value'");
  for (size_t row = 1; row < csv->rows; row++) {
    const char *now = kva_csv_cell(csv, row, number);
    if (!last || strcmp(now, last) != 0) {
      k = add_kernel(r, kva_csv_cell(csv, row, name), "", err);
      if (!k) return KV_ERR_MEMORY;
      for (int i = 0; i < 2; i++)
        offer(r, k, sizes[i][0], kva_csv_cell(csv, row, kva_csv_column(csv, sizes[i])), "");
    }
    last = now;
    offer(r, k, kva_csv_cell(csv, row, metric), kva_csv_cell(csv, row, v), kva_csv_cell(csv, row, u));
  }
  return KV_OK;
}

kv_status kva_profile_read(const char *path, kva_profile *p, kv_error *err) {
  static const char *const metric[] = {"Metric Name", NULL};
  kva_csv csv;
  kv_error inner = {KV_OK, ""};
  memset(p, 0, sizeof *p);
  kv_status st = kva_csv_read(path, kernel_names, &csv, err);
  if (st) return st;
  reading r = {.csv = &csv, .to = p};
  int column = kva_csv_column(&csv, metric);
  st = kva_csv_decimal_points(&csv, path, err);
  if (st) {
    kva_csv_free(&csv);
    return st;
  }
  st = column >= 0 ? read_long(&r, column, &inner) : read_wide(&r, &inner);
  bool timed = false;
  for (size_t i = 0; i < p->n; i++) timed |= p->kernel[i].m[KVA_M_DURATION] > 0;
  if (st) st = kv_fail(err, st, "%s: %.400s", path, inner.text);
  else if (!timed)
    st = kv_fail(err, KV_ERR_INPUT,
                 "%s: no kernel with gpu__time_duration; profile with `ncu --set full --csv --page raw`",
                 path);
  kva_csv_free(&csv);
  if (st) kva_profile_free(p);
  return st;
}

void kva_profile_free(kva_profile *p) {
  free(p->kernel);
  *p = (kva_profile){0};
}

/* ---- judgement ---- */

static void say(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(char *text, size_t size, const char *format, ...) {
  size_t have = strlen(text);
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text + have, size - have, format, args);
  va_end(args);
}

static void list_missing(kva_profiled *k) {
  static const kva_metric wanted[] = {KVA_M_DRAM_READ, KVA_M_L2_BYTES, KVA_M_WAVEFRONTS, KVA_M_TENSOR,
                                      KVA_M_ISSUE,     KVA_M_LONG,     KVA_M_GRID};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (isnan(k->m[wanted[i]]))
      say(k->missing, sizeof k->missing, "%s%s (%s)", k->missing[0] ? ", " : "", metrics[wanted[i]].name,
          metrics[wanted[i]].in_ncu[0]);
}

static double or_zero(double v) {
  return isnan(v) ? 0 : v;
}

static unsigned bit(kvm_cause c) {
  return 1u << c;
}

/* Of which causes the csv tells nothing, or only a lower bound. Counters that are missing make T2 and T4
 * lower bounds, and a T1 that is none where the instructions are not known. Ladder of counted work. */
static void find_unknown(const kva_profiled *k, bool problem, bool foreign, const kvm_useful *u,
                         const kvm_work *w, const kvm_roofs *roofs, kva_evidence *e) {
  const kvm_ladder l = kvm_ladder_of(u, w, roofs, true);
  const double *m = k->m, visible = 1.1, slowest = u->flops / roofs->chip[KVM_MMA].rate;
  const bool tensor = !isnan(m[KVA_M_TENSOR]) && !foreign, pipes = !isnan(m[KVA_M_WAVEFRONTS]) && tensor,
             shared = !isnan(m[KVA_M_L2_BYTES]) && !isnan(m[KVA_M_DRAM_READ]), all = shared && pipes;
  /* Work of the SMs' pipes that is not known makes T4 / T2 no smaller, up to SMs / busy SMs; traffic may. */
  const bool whole = l.t[4] * w->busy_sms >= 0.99 * l.t[2] * roofs->sms, crowded = l.t[4] > visible * l.t[2],
             even = w->busy_sms >= roofs->sms;
  e->unknown |= bit(KVM_C_OVERHEAD); /* the duration is the kernel's alone */
  if (!problem || !tensor) e->unknown |= bit(KVM_C_PATH);
  if (!problem || foreign) e->unknown |= bit(KVM_C_WORK);
  else if (!all) e->at_least |= bit(KVM_C_WORK);
  if (!all && !(l.t[2] > visible * fmax(l.t[1], slowest))) e->unknown |= bit(KVM_C_WORK);
  const bool placed = !isnan(m[KVA_M_GRID]) || !isnan(m[KVA_M_WAVEFRONTS_MAX]) || !isnan(m[KVA_M_TENSOR_MAX]);
  if (!placed || (!shared && !even) || (!pipes && !whole && !crowded)) e->unknown |= bit(KVM_C_PLACEMENT);
  else if (!pipes && !whole) e->at_least |= bit(KVM_C_PLACEMENT);
  /* what lies between T4 and T5 is then partly placement, or work */
  if ((e->unknown & bit(KVM_C_PLACEMENT)) || (!all && !crowded)) e->unknown |= bit(KVM_C_SERIAL);
}

/* The work that was counted; a count that is missing takes no part. */
static kvm_work counted_work(const kva_profiled *k, const kvm_roofs *roofs) {
  double grid = k->m[KVA_M_GRID], sms = roofs->sms, busy = isnan(grid) ? sms : fmin(grid, sms);
  kvm_work w = {.fits = true, .blocks = (uint64_t)or_zero(grid), .busy_sms = busy};
  w.chip[KVM_DRAM] = or_zero(k->m[KVA_M_DRAM_READ]) + or_zero(k->m[KVA_M_DRAM_WRITE]);
  w.chip[KVM_LINK] = or_zero(k->m[KVA_M_L2_BYTES]);
  /* reads of the same lines by several SMs meet on the way: the L2 gives what memory gave it, and what one of them got */
  w.chip[KVM_L2] = fmax(w.chip[KVM_DRAM], busy > 0 ? w.chip[KVM_LINK] / busy : 0);
  w.chip[KVM_L1] = 128 * or_zero(k->m[KVA_M_WAVEFRONTS]);
  w.chip[KVM_MMA] = FLOP_AN_INSTRUCTION * or_zero(k->m[KVA_M_TENSOR]);
  for (int r = KVM_LINK; r < KVM_RESOURCES; r++) w.sm[r] = w.chip[r] / busy;
  if (k->m[KVA_M_WAVEFRONTS_MAX] > 0) w.sm[KVM_L1] = 128 * k->m[KVA_M_WAVEFRONTS_MAX];
  if (k->m[KVA_M_TENSOR_MAX] > 0) w.sm[KVM_MMA] = FLOP_AN_INSTRUCTION * k->m[KVA_M_TENSOR_MAX];
  return w;
}

/* Long scoreboard among all reasons that were counted. */
static double stall_share(const kva_profiled *k) {
  double sum = 0;
  for (int m = KVA_M_LONG; m <= KVA_M_OTHER; m++) sum += or_zero(k->m[m]);
  return sum > 0 ? or_zero(k->m[KVA_M_LONG]) / sum : NAN;
}

static void advise_idle_memory(kva_profiled *k, const kvm_work *w, const kvm_roofs *roofs) {
  const kva_cause *x = &k->a.cause[KVM_C_PLACEMENT];
  if (!(x->known && x->nats < 0.1) && w->busy_sms < 0.9 * roofs->sms)
    say(k->verdict, sizeof k->verdict,
        " %.0f of %.0f SMs get a block: an idle memory says nothing about latency here; split the work "
        "first.",
        w->busy_sms, roofs->sms);
  if (k->m[KVA_M_LOCAL] > 0.01 * w->chip[KVM_LINK] && k->m[KVA_M_LOCAL] > 1e6)
    say(k->verdict, sizeof k->verdict, " Registers are spilled (%.3g MB of local memory).",
        k->m[KVA_M_LOCAL] / 1e6);
  double top = 0;
  int which = -1;
  for (int m = KVA_M_LONG; m <= KVA_M_OTHER; m++)
    if (m != KVA_M_SELECTED && k->m[m] > top) {
      top = k->m[m];
      which = m;
    }
  if (which >= 0) say(k->verdict, sizeof k->verdict, " Most warps stall on %s.", metrics[which].name);
}

/* Counters of one launch, a problem and a GPU that cannot belong together. A ceiling may be some percent low,
 * and not by a factor of 2. */
static void find_impossible(kva_profiled *k, const kvm_verify *problem, const kvm_work *w, const kvm_roofs *roofs,
                            double floor) {
  const double duration = k->m[KVA_M_DURATION], rows = problem ? (double)problem->longest * problem->row_bytes : 0;
  /* every row comes to an SM at least once; rows of one byte a value are half as long */
  if (k->m[KVA_M_L2_BYTES] < 0.45 * rows)
    say(k->impossible, sizeof k->impossible,
        "%.4g MB came to the SMs, but the rows of one request alone take %.4g (or half of that in fp8): the csv and "
        "--prefix do not belong together, or not all of the kernel was counted.",
        k->m[KVA_M_L2_BYTES] * 1e-6, rows * 1e-6);
  else if (k->m[KVA_M_SMS] > 0 && k->m[KVA_M_SMS] != roofs->sms && !isnan(roofs->sms))
    say(k->impossible, sizeof k->impossible,
        "counted on a GPU of %.0f SMs, while the one that --gpu names has %.0f: give --gpu the GPU that was profiled (a "
        "description of its own where it is a part of one).",
        k->m[KVA_M_SMS], roofs->sms);
  else if (problem && duration < 0.95 * floor)
    say(k->impossible, sizeof k->impossible,
        "faster than its floor (%.4g us, at least %.4g): the csv and --prefix do not belong together, or the rows "
        "lay in the L2 already.",
        duration * 1e6, floor * 1e6);
  for (int r = 0; r < KVM_RESOURCES && !k->impossible[0]; r++)
    if (w->chip[r] / duration > 2 * roofs->chip[r].rate)
      say(k->impossible, sizeof k->impossible,
          "%.4g %s of %s were counted, more than twice the ceiling of %.4g: the csv's counters and its duration, or the "
          "csv and --gpu, do not belong together.",
          w->chip[r] / duration, kvm_resource_unit((kvm_resource)r), kvm_resource_name((kvm_resource)r),
          roofs->chip[r].rate);
}

/* Fewer operations than the problem has: whatever these instructions are, they are not mma.sync of this
 * problem. They take no part then. */
static bool take_out_foreign(const kva_profiled *k, const kvm_useful *u, kvm_work *w) {
  if (isnan(k->m[KVA_M_TENSOR]) || !(w->chip[KVM_MMA] < 0.99 * u->flops)) return false;
  w->chip[KVM_MMA] = w->sm[KVM_MMA] = 0;
  return true;
}

static void tell_foreign(kva_profiled *k, const kvm_useful *u) {
  say(k->verdict, sizeof k->verdict,
      " The matrix instructions counted would be %.3g GFLOP as mma.sync (%d each) of %.3g useful: they are "
      "others "
      "(wgmma, another type), or the problem is; so path and work are not known.",
      FLOP_AN_INSTRUCTION * k->m[KVA_M_TENSOR] * 1e-9, (int)FLOP_AN_INSTRUCTION, u->flops * 1e-9);
}

void kva_diagnose(kva_profiled *k, const kvm_verify *problem, const kvm_roofs *roofs,
                  const kvm_timing *ranges) {
  kvm_work w = counted_work(k, roofs);
  kvm_useful u = {.bytes = w.chip[KVM_DRAM], .flops = w.chip[KVM_MMA]};
  double duration = k->m[KVA_M_DURATION], resident = NAN;
  if (problem) u = kvm_verify_useful(problem);
  const bool foreign = problem && take_out_foreign(k, &u, &w);
  kvm_ladder l = kvm_ladder_of(&u, &w, roofs, true);
  k->long_share = stall_share(k);
  k->memory_low = 0;
  k->memory_high = NAN;
  if (!isnan(k->long_share) && l.t[4] > 0) {
    double exposed = fmax(0, duration - l.t[4]) * k->long_share;
    resident = duration - exposed;
    k->memory_high = exposed / duration;
  }
  kva_evidence e = {.useful = &u,
                    .work = &w,
                    .roofs = roofs,
                    .ranges = ranges,
                    .scatter = NAN,
                    .resident = {&resident, isnan(resident) ? 0u : 1u, log(duration / resident) / 2},
                    .kernel = {&duration, 1, 0},
                    .whole = {&duration, 1, 0},
                    .seed = 1};
  find_unknown(k, problem, foreign, &u, &w, roofs, &e);
  kva_attribute(k->kernel[0] ? k->kernel : "the kernel", &e, &k->a); /* counters do not tell the layout */
  list_missing(k);
  find_impossible(k, problem, &w, roofs, l.t[0]);
  (void)snprintf(k->verdict, sizeof k->verdict, "%s", k->impossible[0] ? k->impossible : k->a.verdict);
  if (k->impossible[0]) return;
  if (!problem)
    say(k->verdict, sizeof k->verdict,
        " The problem was not given, so executed work counts as useful: work and path cannot show.");
  if (foreign) tell_foreign(k, &u);
  if (!isnan(k->memory_high))
    say(k->verdict, sizeof k->verdict,
        " Exposed memory is an estimate from %.0f %% long-scoreboard stalls: between 0 and %.0f %% of the "
        "time; rerun with rows that stay in the L2 to know.",
        100 * k->long_share, 100 * k->memory_high);
  advise_idle_memory(k, &w, roofs);
}
