#include "measure.h"

#include <gsl/gsl_rng.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_VALUES = KVK_LATENT + KVK_ROPE, ROW_BYTES = 2 * ROW_VALUES, RESIDENT_ROWS = 64, MOST_COPIES = 64 };
#define ALL_PLACES ((1u << KVA_PLACES) - 1)
#define DEFAULT_KINDS                                                                   \
  (1u << KVK_EXTEND_SERIAL_64 | 1u << KVK_EXTEND_SERIAL_32 | 1u << KVK_SPLIT_PER_HEAD | \
   1u << KVK_SPLIT_VERIFY)

const char *kva_place_name(kva_place place) {
  static const char *const name[] = {"contiguous", "recorded", "random", "resident"};
  return (unsigned)place < KVA_PLACES ? name[place] : NULL;
}

const char *kva_experiment_name(kva_experiment experiment) {
  static const char *const name[] = {"cold_graph", "cold_eager", "warm_graph", "replicated"};
  return (unsigned)experiment < KVA_EXPERIMENTS ? name[experiment] : NULL;
}

/* ---- where the rows lie ---- */

/* The first `tokens` of a Fisher-Yates shuffle of the pool. */
static kv_status draw(uint64_t tokens, uint64_t pool_rows, uint64_t seed, int32_t *slots, kv_error *err) {
  int32_t *all = malloc((size_t)pool_rows * sizeof *all);
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
  kv_status st = KV_OK;
  if (!all || !rng) {
    st = kv_fail(err, KV_ERR_MEMORY, "measuring: out of memory for a pool of %llu rows",
                 (unsigned long long)pool_rows);
    goto done;
  }
  gsl_rng_set(rng, (unsigned long)(seed & 0xFFFFFFFFu));
  for (uint64_t i = 0; i < pool_rows; i++) all[i] = (int32_t)i;
  for (uint64_t i = 0; i < tokens; i++) {
    uint64_t j = i + gsl_rng_uniform_int(rng, (unsigned long)(pool_rows - i));
    slots[i] = all[j];
    all[j] = all[i];
  }
done:
  if (rng) gsl_rng_free(rng);
  free(all);
  return st;
}

kv_status kva_place_slots(kva_place place, uint64_t tokens, uint64_t pool_rows, const int32_t *recorded,
                          uint64_t seed, int32_t *slots, kv_error *err) {
  if (pool_rows > INT32_MAX || (place != KVA_RECORDED && tokens > pool_rows))
    return kv_fail(err, KV_ERR_USAGE,
                   "a pool of %llu rows does not hold %llu tokens (or is beyond 2^31): change --pool",
                   (unsigned long long)pool_rows, (unsigned long long)tokens);
  if (place == KVA_RECORDED && !recorded) return kv_fail(err, KV_ERR_USAGE, "no recorded layout was given");
  if (place == KVA_RECORDED) memcpy(slots, recorded, (size_t)tokens * sizeof *slots);
  if (place == KVA_CONTIGUOUS)
    for (uint64_t i = 0; i < tokens; i++) slots[i] = (int32_t)i;
  if (place != KVA_RANDOM && place != KVA_RESIDENT) return KV_OK;
  kv_status st = draw(tokens, pool_rows, seed, slots, err);
  for (uint64_t i = 0; !st && place == KVA_RESIDENT && i < tokens; i++) slots[i] %= RESIDENT_ROWS;
  return st;
}

/* ---- rows of the result ---- */

void kva_measured_free(kva_measured *m) {
  for (size_t i = 0; i < m->rows; i++) free(m->row[i].seconds);
  free(m->row);
  *m = (kva_measured){0};
}

static kv_status new_row(kva_measured *m, kva_measured_row **row, kv_error *err) {
  if (m->rows == m->room) {
    size_t room = m->room ? 2 * m->room : 32;
    kva_measured_row *grown = realloc(m->row, room * sizeof *grown);
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "measuring: out of memory for %zu points", room);
    m->row = grown;
    m->room = room;
  }
  *row = &m->row[m->rows];
  **row = (kva_measured_row){.to_contiguous = {NAN, NAN, NAN}};
  return KV_OK;
}

static void note(kva_measured *m, const char *text) {
  size_t used = strlen(m->notes);
  if (!strstr(m->notes, text))
    (void)snprintf(m->notes + used, sizeof m->notes - used, "%s%s", used ? "; " : "", text);
}

/* ---- what is on the device ---- */

typedef struct rig {
  const kva_measure_plan *plan;
  kva_measured *out;
  kvk_device *device;
  kvk_options options;
  void *pool;
  uint64_t pool_rows;
} rig;

/* One problem's arrays; `copies` times its requests. */
typedef struct setup {
  uint32_t batch, copies;
  uint64_t tokens, longest;
  uint64_t *lengths, *indptr; /* host */
  void *d_q, *d_out, *d_lse, *d_indptr, *d_tree, *d_slots[KVA_PLACES], *d_work;
  size_t out_bytes, work_bytes;
} setup;

/* A contender's operation. */
typedef struct operation {
  kvk_kind kind;
  kva_place place;
  kva_experiment experiment;
  kvk_problem problem;
  const rig *rig;
  const setup *setup;
} operation;

static void setup_close(rig *r, setup *s) {
  void *all[] = {s->d_q, s->d_out, s->d_lse, s->d_indptr, s->d_tree, s->d_work};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) kvk_device_free(r->device, all[i]);
  for (int p = 0; p < KVA_PLACES; p++) kvk_device_free(r->device, s->d_slots[p]);
  free(s->lengths);
  free(s->indptr);
  *s = (setup){0};
}

static kv_status set_lengths(const kva_problem *p, uint32_t copies, setup *s, kv_error *err) {
  s->copies = copies;
  s->batch = p->batch * copies;
  s->lengths = calloc(s->batch ? s->batch : 1, sizeof *s->lengths);
  s->indptr = calloc((size_t)s->batch + 1, sizeof *s->indptr);
  if (!s->lengths || !s->indptr)
    return kv_fail(err, KV_ERR_MEMORY, "measuring: out of memory for %u requests", s->batch);
  for (uint32_t i = 0; i < s->batch; i++) {
    s->lengths[i] = p->lengths ? p->lengths[i % p->batch] : p->prefix;
    s->indptr[i + 1] = s->indptr[i] + s->lengths[i];
    if (s->lengths[i] > s->longest) s->longest = s->lengths[i];
  }
  s->tokens = s->indptr[s->batch];
  return KV_OK;
}

static unsigned places_of(const rig *r, const kva_problem *p) {
  unsigned places = r->plan->places ? r->plan->places : ALL_PLACES;
  return p->recorded ? places : places & ~(1u << KVA_RECORDED);
}

static kv_status put_slots(rig *r, const kva_problem *p, setup *s, kva_place place, kv_error *err) {
  int32_t *slots = malloc((s->tokens ? (size_t)s->tokens : 1) * sizeof *slots);
  kv_status st = slots ? KV_OK
                       : kv_fail(err, KV_ERR_MEMORY, "measuring: out of memory for %llu slots",
                                 (unsigned long long)s->tokens);
  if (!st) st = kva_place_slots(place, s->tokens, r->pool_rows, p->recorded, r->plan->seed + 17, slots, err);
  if (!st) st = kvk_device_alloc(r->device, s->tokens * sizeof *slots, &s->d_slots[place], err);
  if (!st && s->tokens)
    st = kvk_device_put(r->device, s->d_slots[place], slots, s->tokens * sizeof *slots, err);
  free(slots);
  return st;
}

/* The tree's rows: the last of the pool; they are few and the same for all. */
static kv_status put_tree(rig *r, setup *s, kv_error *err) {
  size_t n = (size_t)s->batch * r->plan->queries;
  int32_t *tree = malloc((n ? n : 1) * sizeof *tree);
  kv_status st = tree ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "measuring: out of memory");
  for (size_t i = 0; !st && i < n; i++) tree[i] = (int32_t)(r->pool_rows - 1 - i % r->pool_rows);
  if (!st) st = kvk_device_alloc(r->device, n * sizeof *tree, &s->d_tree, err);
  if (!st && n) st = kvk_device_put(r->device, s->d_tree, tree, n * sizeof *tree, err);
  free(tree);
  return st;
}

static kv_status setup_open(rig *r, const kva_problem *p, uint32_t copies, unsigned places, setup *s,
                            kv_error *err) {
  *s = (setup){0};
  kv_status st = set_lengths(p, copies, s, err);
  const size_t rows = (size_t)s->batch * r->plan->queries * r->plan->heads;
  s->out_bytes = rows * KVK_LATENT * 2;
  if (!st) st = kvk_device_alloc(r->device, rows * ROW_BYTES, &s->d_q, err);
  if (!st) st = kvk_device_noise(r->device, s->d_q, rows * ROW_BYTES, r->plan->seed + 3, true, err);
  if (!st) st = kvk_device_alloc(r->device, s->out_bytes, &s->d_out, err);
  if (!st) st = kvk_device_alloc(r->device, rows * sizeof(float), &s->d_lse, err);
  if (!st) st = kvk_device_alloc(r->device, ((size_t)s->batch + 1) * sizeof *s->indptr, &s->d_indptr, err);
  if (!st)
    st = kvk_device_put(r->device, s->d_indptr, s->indptr, ((size_t)s->batch + 1) * sizeof *s->indptr, err);
  if (!st) st = put_tree(r, s, err);
  for (int place = 0; !st && place < KVA_PLACES; place++)
    if (places & 1u << place) st = put_slots(r, p, s, (kva_place)place, err);
  return st;
}

static kvk_problem problem_of(const rig *r, const setup *s, kva_place place) {
  return (kvk_problem){.batch = (int)s->batch,
                       .queries = (int)r->plan->queries,
                       .heads = (int)r->plan->heads,
                       .latent = KVK_LATENT,
                       .rope = KVK_ROPE,
                       .scale = 0.0721688f, /* 192^-1/2, as the model has it */
                       .q = s->d_q,
                       .q_row_stride = ROW_VALUES,
                       .kv = r->pool,
                       .kv_row_stride = ROW_VALUES,
                       .indptr = s->d_indptr,
                       .slots = s->d_slots[place],
                       .tree_slots = s->d_tree,
                       .mask_kind = KVK_MASK_CHAIN,
                       .prefix_capacity = s->tokens,
                       .out = s->d_out,
                       .lse = s->d_lse};
}

/* ---- which kernels ---- */

/* Says why a kernel is left out, or that it is in. */
static kv_status fits(rig *r, kvk_kind kind, const setup *s, bool *in, kv_error *err) {
  kv_error why = {KV_OK, ""};
  char text[KV_ERROR_TEXT + 64];
  kvk_structure structure;
  kvk_problem p = problem_of(r, s, KVA_CONTIGUOUS);
  *in = false;
  if (kvk_check(kind, &p, &r->options, &why)) {
    (void)snprintf(text, sizeof text, "%s left out: %s", kvk_kind_name(kind), why.text);
    note(r->out, text);
    return KV_OK;
  }
  kv_status st = kvk_describe(kind, &p, &r->options, s->lengths, &structure, err);
  if (st) return st;
  *in = r->plan->smem_limit == 0 || structure.smem <= r->plan->smem_limit;
  if (*in) return KV_OK;
  (void)snprintf(text, sizeof text, "%s left out: needs %u B of shared memory, more than --smem-limit",
                 kvk_kind_name(kind), structure.smem);
  note(r->out, text);
  return KV_OK;
}

static kv_status choose_kinds(rig *r, const setup *s, unsigned group, unsigned *kinds, kv_error *err) {
  const unsigned wanted = (r->plan->kinds ? r->plan->kinds : DEFAULT_KINDS) & group;
  kv_status st = KV_OK;
  *kinds = 0;
  for (int k = 0; !st && k < KVK_MERGE_STATE; k++) {
    bool in = false;
    if (!(wanted & 1u << k)) continue;
    st = fits(r, (kvk_kind)k, s, &in, err);
    if (in) *kinds |= 1u << k;
  }
  return st;
}

/* One workspace, as large as the greediest kernel wants: the runs of a series follow one another. */
static kv_status workspace(rig *r, setup *s, unsigned kinds, kv_error *err) {
  size_t most = 0;
  kv_status st = KV_OK;
  for (int k = 0; !st && k < KVK_MERGE_STATE; k++) {
    size_t bytes = 0;
    kvk_problem p = problem_of(r, s, KVA_CONTIGUOUS);
    if (kinds & 1u << k) st = kvk_workspace_size((kvk_kind)k, &p, &r->options, &bytes, err);
    if (bytes > most) most = bytes;
  }
  if (st || most <= s->work_bytes) return st;
  kvk_device_free(r->device, s->d_work);
  s->d_work = NULL;
  s->work_bytes = most;
  return kvk_device_alloc(r->device, most, &s->d_work, err);
}

/* ---- a series ---- */

static kv_status run_operation(void *self, void *stream, kv_error *err) {
  const operation *o = self;
  return kvk_launch(o->kind, &o->problem, &o->rig->options, o->setup->d_work, o->setup->work_bytes, stream,
                    err);
}

static bool is_poison(uint16_t v) {
  return (v & 0x7F80u) == 0x7F80u && (v & 0x7Fu) != 0;
}

/* Runs an operation once on a poisoned output: a value it did not write is still NaN. */
static kv_status check_written(rig *r, const setup *s, const operation *o, uint16_t *buffer, kv_error *err) {
  size_t bad = 0, n = s->out_bytes / 2;
  if (o->kind == KVK_LOAD_ONLY || o->kind == KVK_MMA_ONLY) return KV_OK;
  memset(buffer, 0xFF, s->out_bytes);
  kv_status st = kvk_device_put(r->device, s->d_out, buffer, s->out_bytes, err);
  if (!st) st = run_operation((void *)(uintptr_t)o, kvk_device_stream(r->device), err);
  if (!st) st = kvk_device_take(r->device, buffer, s->d_out, s->out_bytes, err);
  for (size_t i = 0; !st && i < n; i++) bad += is_poison(buffer[i]);
  if (!st && bad)
    st = kv_fail(err, KV_ERR_INTERNAL, "%s, %llu tokens, %s: %zu of %zu outputs were not written",
                 kvk_kind_name(o->kind), (unsigned long long)s->tokens, kva_place_name(o->place), bad, n);
  return st;
}

static kv_status finish_row(rig *r, const setup *s, const operation *o, const kvk_series *series,
                            kv_error *err) {
  kva_measured_row *row = NULL;
  kv_status st = new_row(r->out, &row, err);
  if (st) return st;
  row->kind = o->kind;
  row->place = o->place;
  row->experiment = o->experiment;
  row->batch = s->batch;
  row->copies = s->copies;
  row->longest = s->longest;
  row->tokens = s->tokens;
  row->state = series->state;
  row->throttled = series->throttled;
  st = kvk_describe(o->kind, &o->problem, &r->options, s->lengths, &row->structure, err);
  if (!st) st = kva_summarise(series->seconds, series->count, r->plan->seed + r->out->rows, &row->time, err);
  row->useful_bytes = row->structure.unique_kv_bytes + row->structure.output_bytes + 4.0 * (double)s->tokens +
                      (double)s->batch * r->plan->queries * r->plan->heads * ROW_BYTES;
  row->useful_flops = row->structure.useful_flops;
  if (!st) row->seconds = malloc(series->count * sizeof *row->seconds);
  if (!st && !row->seconds) st = kv_fail(err, KV_ERR_MEMORY, "measuring: out of memory");
  if (st) return st;
  memcpy(row->seconds, series->seconds, series->count * sizeof *row->seconds);
  r->out->rows++;
  return KV_OK;
}

/* Rows first..end of one series share their rounds, so they may be paired. */
static kv_status pair_rows(rig *r, size_t first, kv_error *err) {
  kv_status st = KV_OK;
  for (size_t i = first; !st && i < r->out->rows; i++)
    for (size_t j = first; !st && j < r->out->rows; j++) {
      kva_measured_row *a = &r->out->row[i], *b = &r->out->row[j];
      if (a->experiment != KVA_COLD_GRAPH || b->experiment != KVA_COLD_GRAPH || a->kind != b->kind ||
          b->place != KVA_CONTIGUOUS)
        continue;
      st = kva_ratio(a->seconds, a->time.n, b->seconds, b->time.n, 1, r->plan->seed + i, &a->to_contiguous,
                     err);
    }
  return st;
}

static kv_status run_series(rig *r, setup *s, operation *ops, size_t n, bool cold, kv_error *err) {
  const uint32_t repeats = r->plan->repeats ? r->plan->repeats : 50;
  kvk_plan plan = {2,    repeats,      3, r->plan->problem_limit > 0 ? r->plan->problem_limit : 20.0,
                   cold, r->plan->seed};
  kvk_contender *contenders = calloc(n, sizeof *contenders);
  kvk_series *series = calloc(n, sizeof *series);
  double *seconds = calloc(n * repeats, sizeof *seconds);
  uint16_t *buffer = malloc(s->out_bytes ? s->out_bytes : 1);
  size_t first = r->out->rows;
  kv_status st = KV_OK;
  if (!contenders || !series || !seconds || !buffer)
    st = kv_fail(err, KV_ERR_MEMORY, "measuring: out of memory for %zu runs", n);
  for (size_t i = 0; !st && i < n; i++) {
    contenders[i] = (kvk_contender){kvk_kind_name(ops[i].kind), run_operation, &ops[i],
                                    ops[i].experiment != KVA_COLD_EAGER};
    series[i].seconds = seconds + i * repeats;
    st = check_written(r, s, &ops[i], buffer, err);
  }
  if (!st && r->plan->before_series) r->plan->before_series(r->plan->user);
  if (!st) st = kvk_device_measure(r->device, contenders, n, &plan, series, err);
  for (size_t i = 0; !st && i < n; i++) st = finish_row(r, s, &ops[i], &series[i], err);
  if (!st) st = pair_rows(r, first, err);
  free(contenders);
  free(series);
  free(seconds);
  free(buffer);
  return st;
}

/* Fills ops with kinds x places of one experiment; returns how many. */
static size_t add_operations(const rig *r, const setup *s, unsigned kinds, unsigned places,
                             kva_experiment experiment, operation *ops) {
  size_t n = 0;
  for (int k = 0; k < KVK_MERGE_STATE; k++)
    for (int p = 0; p < KVA_PLACES; p++)
      if ((kinds & 1u << k) && (places & 1u << p))
        ops[n++] = (operation){(kvk_kind)k, (kva_place)p, experiment, problem_of(r, s, (kva_place)p), r, s};
  return n;
}

static kv_status measure_group(rig *r, const kva_problem *p, setup *s, unsigned group, kv_error *err) {
  operation ops[2 * KVK_KINDS * KVA_PLACES];
  const unsigned resident = 1u << KVA_RESIDENT, places = places_of(r, p);
  unsigned kinds = 0;
  kv_status st = choose_kinds(r, s, group, &kinds, err);
  if (st || !kinds) return st;
  st = workspace(r, s, kinds, err);
  size_t n = add_operations(r, s, kinds, places & ~resident, KVA_COLD_GRAPH, ops);
  if (r->plan->eager) n += add_operations(r, s, kinds, places & ~resident, KVA_COLD_EAGER, ops + n);
  if (!st && n) st = run_series(r, s, ops, n, true, err);
  n = add_operations(r, s, kinds, places & resident, KVA_WARM_GRAPH, ops);
  if (!st && n) st = run_series(r, s, ops, n, false, err);
  return st;
}

static uint64_t tokens_of(const kva_problem *p) {
  uint64_t tokens = p->lengths ? 0 : p->batch * p->prefix;
  for (uint32_t k = 0; p->lengths && k < p->batch; k++) tokens += p->lengths[k];
  return tokens;
}

/* The request 2, 4, ... times, for kernels whose one request leaves SMs idle, until a wave is full. */
static kv_status replicate(rig *r, const kva_problem *p, unsigned group, kv_error *err) {
  const unsigned contiguous = 1u << KVA_CONTIGUOUS;
  const uint64_t wave = (uint64_t)r->options.sms;
  kv_status st = KV_OK;
  for (uint32_t copies = 2; !st && copies <= MOST_COPIES; copies *= 2) {
    operation ops[KVK_KINDS];
    setup s = {0};
    unsigned kinds = 0;
    if ((uint64_t)p->batch * copies * r->plan->heads > wave || tokens_of(p) * copies > r->pool_rows) break;
    st = setup_open(r, p, copies, contiguous, &s, err);
    if (!st) st = choose_kinds(r, &s, group, &kinds, err);
    if (!st) st = workspace(r, &s, kinds, err);
    size_t n = add_operations(r, &s, kinds, contiguous, KVA_REPLICATED, ops);
    if (!st && n) st = run_series(r, &s, ops, n, true, err);
    setup_close(r, &s);
  }
  return st;
}

/* ---- a device ---- */

/* One counted run of each cold row of a problem: rows from `first` on. Timing is over by then: an enabled
 * profiler slows launches. Without counters the run goes on and the notes say why. */
static kv_status count_rows(rig *r, const setup *s, size_t first, kv_error *err) {
  kvk_counting *counting = NULL;
  kv_error why = {KV_OK, ""};
  if (r->plan->before_series) r->plan->before_series(r->plan->user); /* no other device is timed meanwhile */
  if (kvk_counting_open(r->device, NULL, &counting, &why)) {
    note(r->out, why.text);
    return KV_OK;
  }
  kv_status st = KV_OK;
  for (size_t i = first; !st && i < r->out->rows; i++) {
    kva_measured_row *row = &r->out->row[i];
    operation o = {row->kind, row->place, row->experiment, problem_of(r, s, row->place), r, s};
    const kvk_contender contender = {kvk_kind_name(row->kind), run_operation, &o, false};
    if (row->experiment != KVA_COLD_GRAPH) continue;
    row->counted = kvk_counting_run(counting, &contender, &row->counters, &why) == KV_OK;
    if (!row->counted) note(r->out, why.text);
    st = kvk_device_wait(r->device, err);
  }
  kvk_counting_close(counting);
  return st;
}

/* The serial kernels take a hundred times as long as the split ones, so the two have series of their own. */
#define SERIAL_GROUP (1u << KVK_EXTEND_SERIAL_64 | 1u << KVK_EXTEND_SERIAL_32)

static kv_status measure_problem(rig *r, const kva_problem *p, kv_error *err) {
  setup s;
  size_t first = r->out->rows;
  kv_status st = setup_open(r, p, 1, places_of(r, p), &s, err);
  if (!st) st = measure_group(r, p, &s, ~SERIAL_GROUP, err);
  if (!st) st = measure_group(r, p, &s, SERIAL_GROUP, err);
  if (!st && r->plan->counters) st = count_rows(r, &s, first, err);
  setup_close(r, &s);
  if (!st && r->plan->replicate) st = replicate(r, p, SERIAL_GROUP, err);
  return st;
}

/* Rows the problems need at least, and 2 Mi by default, if they fit. */
static kv_status open_pool(rig *r, kv_error *err) {
  const kva_measure_plan *plan = r->plan;
  uint64_t need = 1, room = kvk_device_room(r->device) / ROW_BYTES;
  for (size_t i = 0; i < plan->problems; i++) {
    const kva_problem *p = &plan->problem[i];
    const uint64_t tokens = tokens_of(p);
    if (tokens > need) need = tokens;
    for (uint64_t k = 0; p->recorded && k < tokens; k++)
      if ((uint64_t)p->recorded[k] + 1 > need) need = (uint64_t)p->recorded[k] + 1;
  }
  r->pool_rows = plan->pool_rows         ? plan->pool_rows
                 : need > (1u << 21)     ? need
                 : room / 2 < (1u << 21) ? room / 2
                                         : (1u << 21);
  if (r->pool_rows < need)
    return kv_fail(err, plan->pool_rows ? KV_ERR_USAGE : KV_ERR_MEMORY,
                   "the problems need a KV pool of %llu rows, but %s %llu", (unsigned long long)need,
                   plan->pool_rows ? "--pool gives" : "this GPU's free memory holds",
                   (unsigned long long)r->pool_rows);
  kv_status st = kvk_device_alloc(r->device, r->pool_rows * ROW_BYTES, &r->pool, err);
  return st ? st : kvk_device_noise(r->device, r->pool, r->pool_rows * ROW_BYTES, plan->seed + 5, true, err);
}

static kv_status measure_open(rig *r, int device, kv_error *err) {
  char text[KV_ERROR_TEXT] = "";
  kv_status st = kvk_device_open(device, &r->device, text, sizeof text, err);
  if (st) return st;
  const kvk_gpu *gpu = kvk_device_gpu(r->device);
  if (text[0]) note(r->out, text);
  kva_bench_origin_of(r->device, &r->out->origin);
  r->out->origin.repeats = r->plan->repeats ? r->plan->repeats : 50;
  r->out->origin.seed = r->plan->seed;
  r->options = kvk_default_options(gpu->sms, gpu->major, gpu->minor);
  if (r->plan->blocks_per_sm > 0) r->options.blocks = r->plan->blocks_per_sm * gpu->sms;
  return open_pool(r, err);
}

kv_status kva_measure(const kva_measure_plan *plan, int device, kva_measured *measured, kv_error *err) {
  rig r = {.plan = plan, .out = measured};
  kv_error local = {KV_OK, ""};
  if (!err) err = &local;
  *measured = (kva_measured){.heads = plan->heads,
                             .queries = plan->queries,
                             .blocks_per_sm = plan->blocks_per_sm,
                             .smem_limit = plan->smem_limit,
                             .recorded = plan->recorded,
                             .at_once = plan->at_once > 1 ? plan->at_once : 1};
  kv_status st = measure_open(&r, device, err);
  measured->pool_rows = r.pool_rows;
  for (size_t i = 0; !st && i < plan->problems; i++) {
    st = measure_problem(&r, &plan->problem[i], err);
    measured->complete = !st && i + 1 == plan->problems;
    if (!st && plan->after) st = plan->after(plan->user, measured, err);
  }
  if (st) (void)snprintf(measured->failure, sizeof measured->failure, "%s", err->text);
  if (r.device) kvk_device_free(r.device, r.pool);
  kvk_device_close(r.device);
  return st;
}
