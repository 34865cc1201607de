#include "time_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parameters ---- */

static const char *const parameter_names[KVM_PARAMETERS] = {
    "boost_clock",      "mma_clock",        "l1_latency",   "l2_latency",        "dram_latency",
    "smem_latency",     "shuffle_latency",  "mma_latency",  "sfu_latency",       "barrier_latency",
    "ldmatrix_latency", "mbarrier_latency", "mbarrier_hop", "branch_latency",    "copy_cycles",
    "mma_delay",        "cold_code",        "mma_rate",     "wave_rate",         "sfu_per_clk_sm",
    "sm_link_per_clk",  "l2_rate",          "link_rate",    "dram_rate",         "memory_line_bytes",
    "launch",           "next_launch",      "model_error"};
const char *kvm_parameter_name(kvm_parameter p) {
  return parameter_names[p];
}

static const char *const cause_names[] = {"path",   "work",           "scatter", "placement",
                                          "serial", "exposed memory", "overhead"};
const char *kvm_cause_name(kvm_cause c) {
  return cause_names[c];
}

static double spread_of(kvm_kind kind) {
  return kind == KVM_INFERENCE ? 0.10 : kind == KVM_FROM_MEMORY ? 0.20 : kind == KVM_PROBE ? 0 : 0.05;
}

static kvm_estimate estimate(double value, kvm_kind kind, const char *source) {
  double d = spread_of(kind);
  return (kvm_estimate){value, value * (1 - d), value * (1 + d), kind, source};
}

static const kvm_estimate unknown = {NAN, NAN, NAN, KVM_UNKNOWN, "not known"};

static kvm_estimate described(const kvm_gpu *gpu, const char *name) {
  const kvm_value *v = gpu ? kvm_gpu_value(gpu, name) : NULL;
  if (!v || !v->numeric || !(v->number > 0)) return unknown;
  kvm_estimate e = estimate(v->number, v->kind, v->source);
  if (v->ranged) {
    e.low = v->low;
    e.high = v->high;
  }
  return e;
}

/* A latency of the description: in cycles, else in seconds times the clock that it was measured at. */
static kvm_estimate own_value(const kvm_gpu *gpu, const char *name) {
  char in_seconds[KVM_NAME];
  kvm_estimate e = described(gpu, name);
  double clock = gpu ? kvm_gpu_number(gpu, "boost_clock") : NAN;
  (void)snprintf(in_seconds, sizeof in_seconds, "%s_ns", name);
  if (!isnan(e.value) || isnan(clock)) return e;
  e = described(gpu, in_seconds);
  e.value *= clock;
  e.low *= clock;
  e.high *= clock;
  return e;
}

static kvm_estimate from_roof(const kvm_ceiling *c) {
  if (isnan(c->rate)) return unknown;
  kvm_estimate e = estimate(c->rate, c->kind, c->source);
  if (!strcmp(c->name, "dram_bw_spec")) e.low = 0.8 * c->rate;
  e.high = c->kind == KVM_SPEC ? c->rate : e.high;
  return e;
}

/* What all SMs take of the same lines: where nobody measured it, up to what each takes alone, and at least
 * what the L2 gives of distinct lines. */
static kvm_estimate link_rate(const kvm_timing *t, const kvm_roofs *roofs) {
  const kvm_estimate *one = &t->p[KVM_P_SM_LINK];
  double all = t->sms * t->p[KVM_P_CLOCK].value;
  if (roofs->chip[KVM_LINK].kind == KVM_MEASURED) return from_roof(&roofs->chip[KVM_LINK]);
  if (isnan(all * one->value)) return unknown;
  return (kvm_estimate){all * one->value, fmin(all * one->low, t->p[KVM_P_L2_RATE].value), all * one->high,
                        KVM_INFERENCE, "SMs x what one of them can take; at least the rate of the L2"};
}

kvm_timing kvm_timing_of(const kvm_gpu *gpu, const kvm_gpu *pipes, const kvm_roofs *roofs) {
  kvm_timing t = {
      .sms = roofs->sms, .mma_best = roofs->mma_best.rate, .near_bytes = kvm_gpu_number(gpu, "smem_per_sm")};
  for (int i = 0; i < KVM_PARAMETERS; i++) {
    const char *name = parameter_names[i];
    kvm_estimate own = own_value(gpu, name), shared = described(pipes, name);
    /* the same card's own latency, with the range that its architecture's cards span */
    if (!isnan(own.value) && !isnan(shared.value) && shared.low <= own.value && own.value <= shared.high) {
      own.low = shared.low;
      own.high = shared.high;
    }
    t.p[i] = isnan(own.value) ? shared : own;
  }
  kvm_estimate slower = described(pipes, "mma_clock_share"), *clock = &t.p[KVM_P_CLOCK];
  if (isnan(t.p[KVM_P_MMA_CLOCK].value) && !isnan(slower.value))
    t.p[KVM_P_MMA_CLOCK] = (kvm_estimate){clock->value * slower.value, clock->value * slower.low,
                                          clock->value * slower.high, slower.kind, slower.source};
  t.p[KVM_P_MMA_RATE] = from_roof(&roofs->sm[KVM_MMA]);
  t.p[KVM_P_WAVE_RATE] = from_roof(&roofs->sm[KVM_L1]);
  t.p[KVM_P_L2_RATE] = from_roof(&roofs->chip[KVM_L2]);
  t.p[KVM_P_DRAM_RATE] = from_roof(&roofs->chip[KVM_DRAM]);
  if (isnan(t.p[KVM_P_WAVE_RATE].value) && !isnan(t.p[KVM_P_CLOCK].value))
    t.p[KVM_P_WAVE_RATE] =
        estimate(128 * t.p[KVM_P_CLOCK].value, KVM_INFERENCE, "128 B a cycle and SM at the boost clock");
  if (!isnan(roofs->sm[KVM_LINK].rate) && !isnan(t.p[KVM_P_CLOCK].value))
    t.p[KVM_P_SM_LINK] = estimate(roofs->sm[KVM_LINK].rate / t.p[KVM_P_CLOCK].value, roofs->sm[KVM_LINK].kind,
                                  roofs->sm[KVM_LINK].source);
  t.p[KVM_P_LINK_RATE] = link_rate(&t, roofs);
  return t;
}

const kvm_gpu *kvm_pipes_find(const kvm_gpus *pipes, int sm) {
  const kvm_gpu *below = NULL, *lowest = NULL;
  for (size_t i = 0; i < pipes->n; i++) {
    const kvm_gpu *g = &pipes->gpu[i];
    int a = kvm_gpu_sm(g);
    if (a <= sm && (!below || a > kvm_gpu_sm(below))) below = g;
    if (!lowest || a < kvm_gpu_sm(lowest)) lowest = g;
  }
  return below ? below : lowest;
}

void kvm_timing_set(kvm_timing *t, kvm_parameter p, double value, double low, double high,
                    const char *source) {
  t->p[p] = (kvm_estimate){value, low, high, KVM_MEASURED, source};
}

void kvm_roofs_complete(kvm_roofs *roofs, const kvm_timing *t) {
  const kvm_estimate *e = &t->p[KVM_P_SM_LINK];
  double rate = fmax(e->value, e->high) * t->p[KVM_P_CLOCK].value;
  if (isnan(roofs->sm[KVM_LINK].rate) && !isnan(rate))
    roofs->sm[KVM_LINK] = (kvm_ceiling){rate, e->kind, "sm_link_per_clk", e->source};
  if (isnan(roofs->chip[KVM_LINK].rate)) roofs->chip[KVM_LINK] = kvm_link_inferred(roofs);
}

kvm_parameter kvm_timing_missing(const kvm_timing *t) {
  for (int i = 0; i < KVM_P_MODEL; i++)
    if (isnan(t->p[i].value) && i != KVM_P_L2_RATE && i != KVM_P_LINK_RATE) return (kvm_parameter)i;
  return isnan(t->sms) ? KVM_P_CLOCK : KVM_PARAMETERS;
}

/* ---- work ---- */

kvm_work kvm_declared_work(const kvm_declared *kernel, const kvm_verify *problem, const kvm_gpu *gpu) {
  kvm_work w = kvm_structure_work(&kernel->structure, problem, gpu);
  kvm_program_work sum = {0};
  for (unsigned i = 0; i < kernel->merges; i++) {
    const kvm_merge *m = &kernel->merge[i];
    const kvm_structure s = {.threads = 32 * kvm_block_warps(&m->block),
                             .registers = m->registers,
                             .shared_bytes = m->shared_bytes};
    w.merge_per_sm[i] = kvm_structure_resident(&s, gpu);
  }
  if (!kvm_declared_applies(kernel, problem)) return w;
  for (unsigned r = 0; r < kernel->block.roles; r++) {
    const kvm_role *role = &kernel->block.role[r];
    kvm_program_work one = kvm_program_count(&role->tile);
    sum.waves += role->warps * one.waves;
    sum.mma += role->warps * one.mma;
    sum.row_bytes += role->warps * (one.row_bytes + one.again_bytes + one.store_bytes);
    sum.index_bytes += one.index_bytes; /* the warps of a block read the same slots, the L1 merges them */
  }
  if (!(w.tiles > 0) || !(sum.waves > 0)) return w;
  /* of blocks that want the same rows, the share that an L2 sees when they go in step */
  double apart = problem->tokens ? (double)problem->union_rows / (double)problem->tokens / (double)w.side : 1;
  double per[KVM_RESOURCES] = {0};
  per[KVM_LINK] = per[KVM_L2] = sum.row_bytes + sum.index_bytes;
  per[KVM_L1] = 128 * sum.waves;
  per[KVM_MMA] = 4096 * sum.mma;
  for (int r = KVM_L2; r < KVM_RESOURCES; r++) {
    double blocks = r == KVM_L2 ? apart : 1;
    w.chip[r] = w.tiles * per[r] * blocks + (r == KVM_MMA ? 0 : w.partial_bytes);
    w.sm[r] = isnan(w.sm[r]) ? NAN : w.busiest_tiles * per[r];
  }
  return w;
}

/* ---- simulations already made ---- */

struct kvm_memo_row {
  kvm_sm sm;
  const kvm_block *block;
  unsigned resident;
  kvm_misses misses;
  kvm_sm_time time;
};

void kvm_time_memo_free(kvm_time_memo *memo) {
  free(memo->row);
  *memo = (kvm_time_memo){0};
}

static kv_status run_sm(kvm_time_memo *memo, const kvm_sm *sm, const kvm_block *block, unsigned resident,
                        kvm_misses misses, kvm_sm_time *time, kv_error *err) {
  for (size_t i = 0; i < memo->rows; i++) {
    const struct kvm_memo_row *r = &memo->row[i];
    if (r->block != block || r->resident != resident || r->misses != misses ||
        memcmp(&r->sm, sm, sizeof *sm) != 0)
      continue;
    *time = r->time;
    return KV_OK;
  }
  kv_status st = kvm_sm_run(sm, block, resident, misses, time, err);
  if (st) return st;
  if (memo->rows == memo->room) {
    size_t room = memo->room ? 2 * memo->room : 64;
    struct kvm_memo_row *more = realloc(memo->row, room * sizeof *more);
    if (!more) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
    memo->row = more;
    memo->room = room;
  }
  memo->row[memo->rows++] = (struct kvm_memo_row){*sm, block, resident, misses, *time};
  return KV_OK;
}

/* ---- one time ---- */

/* A set of values to predict with, and what is relaxed. */
typedef struct trial {
  double v[KVM_PARAMETERS];
  double relief[KVM_RESOURCES]; /* pipes this many times faster (1) */
  kvm_misses misses;
  bool even;    /* every SM has the same share of the tiles */
  double merge; /* s, known already; NaN: not */
} trial;

/* The clock that the kernel's instructions get. */
static kvm_parameter clock_of(const kvm_question *q) {
  for (unsigned r = 0; r < q->kernel->block.roles; r++)
    for (size_t i = 0; i < q->kernel->block.role[r].tile.steps; i++)
      if (q->kernel->block.role[r].tile.step[i].op == KVM_MMA_OP) return KVM_P_MMA_CLOCK;
  return KVM_P_CLOCK;
}

/* The 64 rows that slots are aliased to lie in what the blocks' shared memory leaves of an SM's L1. */
enum { ALIASED_ROWS = 64 };
static bool rows_in_l1(const kvm_question *q) {
  const kvm_work *w = q->work;
  double resident = fmin(w->blocks_per_sm ? w->blocks_per_sm : 1, ceil((double)w->blocks / q->timing->sms));
  double left = q->timing->near_bytes - resident * q->kernel->structure.shared_bytes;
  return left >= ALIASED_ROWS * (double)kvm_declared_row_bytes(q->kernel);
}

/* A matrix unit takes an instruction every so many whole cycles. What a calibration has is its rate over
 * many, with ramps of the clock and ends of loops in it: 5.99 cycles for 6. So near it is that number;
 * further off, rate or clock are not known so well, and their average is kept. */
static const double NEARLY_WHOLE = 0.02;
static double whole_cycles(double interval) {
  double whole = round(interval);
  return fabs(interval - whole) <= NEARLY_WHOLE * whole ? whole : interval;
}

static kvm_sm machine_of(const kvm_question *q, const trial *x, double active) {
  const double *v = x->v;
  double clock = v[clock_of(q)];
  /* the memory keeps its own clock while matrix instructions slow the SM's down */
  double beyond_l2 = fmax(0, v[KVM_P_DRAM_LATENCY] - v[KVM_P_L2_LATENCY]) * clock / v[KVM_P_CLOCK];
  kvm_sm sm = {.l1_latency = v[KVM_P_L1_LATENCY],
               .l2_latency = v[KVM_P_L2_LATENCY],
               .dram_latency = v[KVM_P_L2_LATENCY] + beyond_l2,
               .shared_latency = v[KVM_P_SMEM_LATENCY],
               .shuffle_latency = v[KVM_P_SHUFFLE_LATENCY],
               .mma_latency = v[KVM_P_MMA_LATENCY],
               .sfu_latency = v[KVM_P_SFU_LATENCY],
               .barrier_latency = v[KVM_P_BARRIER_LATENCY],
               .rows_in_l1 = rows_in_l1(q),
               .ldmatrix_latency = v[KVM_P_LDMATRIX_LATENCY],
               .mbarrier_latency = v[KVM_P_MBARRIER_LATENCY],
               .mbarrier_hop = v[KVM_P_MBARRIER_HOP],
               .branch_latency = v[KVM_P_BRANCH_LATENCY],
               .mma_delay = v[KVM_P_MMA_DELAY],
               .copy_bytes = 512 / v[KVM_P_COPY_CYCLES],
               .line_bytes = v[KVM_P_LINE]};
  /* Blocks side by side want the same rows at about the same time: the L2 delivers each once. */
  double most = fmax(1, (double)q->work->blocks / q->problem->batch),
         at_once = q->work->aligned ? (double)q->work->side : 1;
  double l2 = fmin(v[KVM_P_L2_RATE] * fmax(1, fmin(at_once, most)), v[KVM_P_LINK_RATE]) / active / clock;
  /* a rate of the chip under load was reached at the clock of matrix instructions */
  sm.mma_interval = whole_cycles(4096 * 4 / (v[KVM_P_MMA_RATE] / v[KVM_P_MMA_CLOCK]) / x->relief[KVM_MMA]);
  sm.sfu_interval = 32 * 4 / v[KVM_P_SFU_RATE];
  sm.wave_interval =
      128 / (v[KVM_P_WAVE_RATE] / v[KVM_P_CLOCK]) / x->relief[KVM_L1]; /* cycles, whatever the clock */
  sm.link_bytes = v[KVM_P_SM_LINK] * x->relief[KVM_LINK];
  sm.l2_bytes = isnan(l2) ? 0 : l2 * x->relief[KVM_LINK];
  sm.dram_bytes = v[KVM_P_DRAM_RATE] / q->scatter / active / clock * fmax(1, fmin(q->work->sharing, most));
  return sm;
}

/* Blocks of one launch, `tiles` each on average, and how many an SM has room for. */
typedef struct launch {
  const kvm_block *block;
  double blocks, tiles, room;
} launch;

/* Cycles of a launch: full waves, and what is left over; *one: a full wave's. */
static kv_status launch_cycles(const launch *l, double sms, const kvm_sm *sm, kvm_misses misses,
                               kvm_time_memo *memo, double *cycles, kvm_sm_time *one, kv_error *err) {
  unsigned most = KVM_MAX_SM_WARPS / kvm_block_warps(l->block);
  double resident = fmax(1, fmin(fmin(l->room, ceil(l->blocks / sms)), most));
  kvm_sm_time last;
  kv_status st = run_sm(memo, sm, l->block, (unsigned)resident, misses, one, err);
  if (st) return st;
  double waves = floor(l->blocks / (sms * resident)), left = l->blocks - waves * sms * resident;
  *cycles = waves * (one->once + l->tiles * one->tile);
  if (!(left > 0)) return KV_OK;
  st = run_sm(memo, sm, l->block, (unsigned)fmin(fmax(1, ceil(left / sms)), resident), misses, &last, err);
  *cycles += last.once + l->tiles * last.tile;
  return st;
}

/* Cycles that a launch takes longer where its instructions come out of the memory: once each, the longest of its kinds of warps. */
static double code_cycles(const kvm_block *block, const trial *x) {
  double most = 0;
  for (unsigned r = 0; r < block->roles && x->misses != KVM_WARM; r++) {
    const kvm_role *role = &block->role[r];
    most = fmax(most, kvm_program_count(&role->begin).instructions + kvm_program_count(&role->tile).instructions +
                          kvm_program_count(&role->end).instructions);
  }
  return most * x->v[KVM_P_COLD_CODE];
}

/* What fails in a program says of which kernel it is. */
static kv_status of_kernel(const kvm_question *q, kv_status st, kv_error *err) {
  if (st != KV_ERR_INPUT || !err) return st;
  const kv_error bare = *err;
  return kv_fail(err, st, "kernel %s, tiles of %d, units of query rows %d (0: any): %s", q->kernel->name,
                 q->kernel->structure.tile_tokens, q->kernel->structure.units, bare.text);
}

/* s of the kernel. */
static kv_status kernel_time(const kvm_question *q, const trial *x, kvm_time_memo *memo, double *seconds,
                             kvm_sm_time *steady, kv_error *err) {
  const kvm_work *w = q->work;
  double sms = q->timing->sms, blocks = (double)w->blocks, longest = w->block_tiles, cycles = 0;
  double room = w->blocks_per_sm ? w->blocks_per_sm : 1, segments = w->block_segments;
  if (x->even) {
    blocks = fmax(1, fmin(sms * room, w->tiles));
    longest = w->tiles / blocks;
    segments = 1;
  }
  kvm_sm sm = machine_of(q, x, fmin(sms, blocks));
  kvm_sm_time one;
  const launch l = {&q->kernel->block, blocks, w->tiles / blocks, room};
  kv_status st = of_kernel(q, launch_cycles(&l, sms, &sm, x->misses, memo, &cycles, &one, err), err);
  if (st) return st;
  cycles = fmax(cycles, segments * one.once + longest * one.tile) + code_cycles(&q->kernel->block, x);
  *seconds = cycles / x->v[clock_of(q)];
  if (steady) *steady = one;
  return KV_OK;
}

/* Of the declared merges the first that may be used; NULL for none. */
static const kvm_merge *merge_of(const kvm_question *q, double units) {
  for (unsigned i = 0; i < q->kernel->merges; i++) {
    const kvm_merge *m = &q->kernel->merge[i];
    if (!m->room || units * m->teams <= floor(q->timing->sms * m->room / 100)) return m;
  }
  return NULL;
}

/* s of the merge: its own launch, whose blocks each sum up the partials of a unit of query rows, out of the
 * L2. */
static kv_status merge_time(const kvm_question *q, const trial *x, kvm_time_memo *memo, double *seconds,
                            kv_error *err) {
  const kvm_work *w = q->work;
  double pieces = (double)q->problem->batch * (double)w->side;
  const kvm_merge *m = merge_of(q, pieces * w->units);
  double rate = isnan(x->v[KVM_P_L2_RATE]) ? x->v[KVM_P_DRAM_RATE] : x->v[KVM_P_L2_RATE], cycles = 0;
  *seconds = 0;
  if (!(w->partial_bytes > 0) || q->kernel->launches < 2) return KV_OK;
  if (!m) { /* lengths, partial sums, partial results: three round trips one after the other */
    *seconds = 3 * x->v[KVM_P_L2_LATENCY] / x->v[KVM_P_CLOCK] + w->partial_bytes / 2 / rate;
    return KV_OK;
  }
  double blocks = pieces * w->units * m->teams;
  kvm_sm sm = machine_of(q, x, fmin(q->timing->sms, blocks));
  kvm_sm_time one;
  const launch l = {&m->block, blocks, fmax(1, ceil(ceil(w->segments / pieces) / (m->teams * m->at_once))),
                    w->merge_per_sm[m - q->kernel->merge]};
  kv_status st = of_kernel(q, launch_cycles(&l, q->timing->sms, &sm, KVM_WARM, memo, &cycles, &one, err), err);
  *seconds = (cycles + code_cycles(&m->block, x)) / x->v[clock_of(q)];
  return st;
}

static double launch_time(const kvm_question *q, const trial *x) {
  return x->v[KVM_P_LAUNCH] + (q->kernel->launches - 1) * x->v[KVM_P_NEXT_LAUNCH];
}

static kv_status whole_time(const kvm_question *q, const trial *x, kvm_time_memo *memo, double *seconds,
                            kv_error *err) {
  double merge = x->merge;
  kv_status st = kernel_time(q, x, memo, seconds, NULL, err);
  if (!st && isnan(merge)) st = merge_time(q, x, memo, &merge, err);
  *seconds += merge + launch_time(q, x);
  return st;
}

/* ---- gains and intervals ---- */

static kv_status find_gains(const kvm_question *q, const trial *base, kvm_time_memo *memo, kvm_prediction *p,
                            kv_error *err) {
  double t = NAN;
  const kvm_useful *u = q->useful;
  trial x = *base;
  x.relief[KVM_MMA] = fmax(1, q->timing->mma_best / q->timing->sms / base->v[KVM_P_MMA_RATE]);
  kv_status st = whole_time(q, &x, memo, &t, err);
  /* a faster pipe makes no kernel slower: where it comes out so, warps met in another order */
  p->gain[KVM_C_PATH] = fmax(1, p->whole / t);
  x = *base;
  x.relief[KVM_MMA] = fmax(1, q->work->chip[KVM_MMA] / u->flops);
  x.relief[KVM_L1] = fmax(1, q->work->chip[KVM_L1] / u->bytes);
  x.relief[KVM_LINK] = fmax(1, q->work->chip[KVM_LINK] / u->bytes);
  if (!st) st = whole_time(q, &x, memo, &t, err);
  p->gain[KVM_C_WORK] = fmax(1, p->whole / t);
  kvm_question contiguous = *q;
  contiguous.scatter = 1;
  if (!st) st = whole_time(&contiguous, base, memo, &t, err);
  p->gain[KVM_C_SCATTER] = fmax(1, p->whole / t);
  x = *base;
  x.even = true;
  if (!st && q->work->tiles > 0) st = whole_time(q, &x, memo, &t, err);
  p->gain[KVM_C_PLACEMENT] = q->work->tiles > 0 ? fmax(1, p->whole / t) : 1;
  p->gain[KVM_C_MEMORY] = p->whole / (p->whole - p->cold + p->resident);
  p->gain[KVM_C_OVERHEAD] = p->whole / p->cold;
  return st;
}

/* Whether a parameter can matter: some belong to one instruction, which the kernel may not have. */
static bool matters(const kvm_question *q, int p) {
  static const struct {
    int p;
    unsigned ops; /* a bit each */
  } only[] = {{KVM_P_SHUFFLE_LATENCY, 1u << KVM_SHFL},
              {KVM_P_SFU_LATENCY, 1u << KVM_SFU},
              {KVM_P_SFU_RATE, 1u << KVM_SFU},
              {KVM_P_MMA_LATENCY, 0}, /* machine code waits for products by counting cycles, see below */
              {KVM_P_BARRIER_LATENCY, 1u << KVM_BAR},
              {KVM_P_LDMATRIX_LATENCY, 1u << KVM_LDSM},
              {KVM_P_MBARRIER_LATENCY, 1u << KVM_AWAIT | 1u << KVM_ASK},
              {KVM_P_MBARRIER_HOP, 1u << KVM_AWAIT},
              {KVM_P_BRANCH_LATENCY, 1u << KVM_JUMP},
              {KVM_P_COPY_CYCLES, 1u << KVM_CP},
              {KVM_P_MMA_DELAY, 1u << KVM_MMA_OP}};
  const kvm_block *b = &q->kernel->block;
  for (size_t i = 0; i < sizeof only / sizeof *only; i++) {
    if (only[i].p != p) continue;
    for (unsigned r = 0; r < b->roles; r++)
      for (size_t k = 0; k < b->role[r].tile.steps; k++) {
        const kvm_step *s = &b->role[r].tile.step[k];
        if (only[i].ops >> s->op & 1 || (p == KVM_P_MMA_LATENCY && s->op == KVM_MMA_OP && s->set < KVM_MARKS))
          return true;
      }
    return false;
  }
  return true;
}

/* The kernel's time at the ends of the scatter's range, which hold `cold`. */
static kv_status find_ends(const kvm_question *q, const trial *base, kvm_time_memo *memo, kvm_prediction *p, kv_error *err) {
  kvm_question low = *q, high = *q;
  kv_status st = KV_OK;
  p->cold_low = p->cold_high = p->cold;
  low.scatter = q->scatter_low;
  high.scatter = q->scatter_high;
  if (low.scatter > 0 && low.scatter < q->scatter) st = kernel_time(&low, base, memo, &p->cold_low, NULL, err);
  if (!st && high.scatter > q->scatter) st = kernel_time(&high, base, memo, &p->cold_high, NULL, err);
  p->cold_low = fmin(p->cold, fmax(p->cold_low, p->aliased));
  p->cold_high = fmax(p->cold, p->cold_high);
  return st;
}

/* A parameter whose upper end changes the time by less is taken to change it as little at its lower end. */
static const double SLIGHT = 3e-3;

static kv_status find_interval(const kvm_question *q, const trial *base, kvm_time_memo *memo,
                               kvm_prediction *p, kv_error *err) {
  double sum = 0;
  kv_status st = KV_OK;
  p->dominating = KVM_P_CLOCK;
  for (int i = 0; !st && i < KVM_PARAMETERS; i++) {
    const kvm_estimate *e = &q->timing->p[i];
    double at[2] = {p->whole, p->whole};
    for (int end = 1; !st && i != KVM_P_MODEL && end >= 0; end--) {
      trial x = *base;
      x.v[i] = end ? e->high : e->low;
      bool slight = !end && fabs(log(at[1] / p->whole)) < SLIGHT;
      if (isfinite(x.v[i]) && x.v[i] != e->value && matters(q, i) && !slight)
        st = whole_time(q, &x, memo, &at[end], err);
      else if (slight) at[0] = p->whole * p->whole / at[1];
    }
    p->effect[i] = i == KVM_P_MODEL ? (isnan(e->value) ? 0 : e->value) : fabs(log(at[1] / at[0])) / 2;
    if (i != KVM_P_MODEL && p->effect[i] > p->effect[p->dominating]) p->dominating = (kvm_parameter)i;
    /* a range is taken as one standard deviation to either side times the square root of 3: nothing favours
     * its middle */
    sum += i == KVM_P_MODEL ? p->effect[i] * p->effect[i] : p->effect[i] * p->effect[i] / 3;
  }
  const double down = log(p->whole / (p->whole - p->cold + p->cold_low)),
               up = log((p->whole - p->cold + p->cold_high) / p->whole);
  p->low = p->whole * exp(-1.96 * sqrt(sum + down * down / 3));
  p->high = p->whole * exp(1.96 * sqrt(sum + up * up / 3));
  return st;
}

static const kvm_prediction nothing = {.resident = NAN,
                                       .aliased = NAN,
                                       .cold = NAN,
                                       .cold_low = NAN,
                                       .cold_high = NAN,
                                       .whole = NAN,
                                       .low = NAN,
                                       .high = NAN,
                                       .merge = NAN,
                                       .launches = NAN,
                                       .copying = NAN,
                                       .copying_even = NAN,
                                       .gain = {NAN, NAN, NAN, NAN, NAN, NAN, NAN}};

/* s that the copies of so many tiles keep one SM's copy unit. */
static double copying_time(const kvm_question *q, const trial *x, double tiles) {
  const kvm_block *b = &q->kernel->block;
  double bytes = 0;
  for (unsigned r = 0; r < b->roles; r++)
    for (size_t i = 0; i < b->role[r].tile.steps; i++)
      if (b->role[r].tile.step[i].op == KVM_CP)
        bytes += b->role[r].warps * b->role[r].tile.step[i].bytes * kvm_copy_passes(&b->role[r].tile.step[i]);
  return tiles * bytes / 512 * x->v[KVM_P_COPY_CYCLES] / x->v[clock_of(q)];
}

static double busiest_tiles(const kvm_question *q) {
  const double whole = q->work->block_tiles * fmax(1, floor((double)q->work->blocks / q->timing->sms));
  return fmin(whole, q->work->busiest_tiles); /* blocks of requests that differ in length are not all like the longest */
}

kv_status kvm_predict(const kvm_question *q, kvm_time_memo *memo, kvm_prediction *p, kv_error *err) {
  trial x = {.relief = {1, 1, 1, 1, 1}, .merge = NAN};
  *p = nothing;
  if (!kvm_declared_applies(q->kernel, q->problem) || !q->work->fits || !q->work->blocks) return KV_OK;
  if (kvm_timing_missing(q->timing) != KVM_PARAMETERS) return KV_OK;
  for (int i = 0; i < KVM_PARAMETERS; i++) x.v[i] = q->timing->p[i].value;
  kv_status st = kernel_time(q, &x, memo, &p->resident, NULL, err);
  x.misses = KVM_INDEX_MISS;
  if (!st) st = kernel_time(q, &x, memo, &p->aliased, NULL, err);
  x.misses = KVM_COLD;
  if (!st) st = kernel_time(q, &x, memo, &p->cold, &p->steady, err);
  /* misses make nothing faster: where it comes out so, warps met in another order */
  p->aliased = fmax(p->aliased, p->resident);
  p->cold = fmax(p->cold, p->aliased);
  if (!st) st = find_ends(q, &x, memo, p, err);
  if (!st) st = merge_time(q, &x, memo, &p->merge, err);
  if (st) return st;
  p->known = true;
  p->launches = launch_time(q, &x);
  p->copying = fmin(copying_time(q, &x, busiest_tiles(q)), p->resident);
  p->copying_even = fmin(copying_time(q, &x, q->work->tiles / q->timing->sms), p->copying);
  p->whole = p->cold + p->merge + p->launches;
  x.merge = p->merge; /* what a range or a relaxation does to it is left out: it is a few microseconds */
  if (q->interval) st = find_interval(q, &x, memo, p, err);
  if (!st && q->gains) st = find_gains(q, &x, memo, p, err);
  return st;
}

/* Raises a rung to what the copies need, and says so. */
static void raise_rung(kvm_ladder *ladder, int rung, double copying, bool sm) {
  if (!(copying > ladder->t[rung])) return;
  ladder->t[rung] = copying;
  ladder->binding = KVM_LINK;
  ladder->binding_sm = sm;
}

/* Neither the interval nor what is left without misses goes below what the work needs. */
static void keep_above_rungs(const double t[8], kvm_prediction *p) {
  if (!isnan(p->low) && !isnan(t[4])) p->low = fmax(p->low, fmin(t[4], p->whole));
  if (!isnan(p->gain[KVM_C_MEMORY])) p->gain[KVM_C_MEMORY] = fmax(1, t[7] / (t[7] - t[6] + fmin(t[5], t[6])));
}

void kvm_ladder_time(kvm_ladder *ladder, kvm_prediction *p) {
  if (!p->known) return;
  /* evenly spread they are work, on the busiest SM placement */
  raise_rung(ladder, 2, p->copying_even, false);
  raise_rung(ladder, 3, ladder->t[2], false);
  raise_rung(ladder, 4, isnan(ladder->t[3]) ? ladder->t[2] : ladder->t[3], false);
  raise_rung(ladder, 4, p->copying, true);
  double t4 = isnan(ladder->t[4]) ? 0 : ladder->t[4];
  ladder->t[5] = fmax(t4, p->resident);
  ladder->t[6] = p->cold;
  ladder->t[7] = p->whole;
  keep_above_rungs(ladder->t, p);
}
