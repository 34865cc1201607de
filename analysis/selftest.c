#include "selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure_ladder.h"

const char *kva_plant_experiment_name(kva_plant_experiment e) {
  static const char *const name[] = {"cold_graph", "warm_graph", "cold_eager", "replicated"};
  return (unsigned)e < KVA_PLANT_EXPERIMENTS ? name[e] : NULL;
}

void kva_planted_free(kva_planted *p) {
  for (size_t i = 0; i < p->rows; i++) free(p->row[i].seconds);
  free(p->row);
  *p = (kva_planted){0};
}

/* ---- judging ---- */

static const kva_plant_row *find(const kva_planted *p, const char *kernel, kva_plant_experiment e) {
  for (size_t i = 0; i < p->rows; i++)
    if (p->row[i].experiment == (uint32_t)e && !strcmp(p->row[i].kernel, kernel)) return &p->row[i];
  return NULL;
}

static kvm_cause cause_of(const char *name) {
  int c = 0;
  while (c < KVM_CAUSES && strcmp(kvm_cause_name((kvm_cause)c), name) != 0) c++;
  return (kvm_cause)c;
}

/* Counters of the kernel itself on contiguous rows, else of its control there. */
static const kvk_counters *counters_of(const kva_plant_row *row, const kva_plant_row *control) {
  const kva_plant_row *from = row->run == 0 ? row : control && control->run == 0 ? control : NULL;
  return from && from->counted ? &from->counters : NULL;
}

/* What a kernel is explained by. */
typedef struct judge {
  const kva_planted *p;
  const kva_calibration *calibration;
  const kvm_roofs *roofs;
  const kvm_timing *ranges;
} judge;

static kva_experiments experiments_of(const judge *j, const kva_plant_row *row,
                                      const kva_plant_row *control) {
  const kva_plant_row *resident = find(j->p, row->kernel, KVA_PLANT_RESIDENT);
  return (kva_experiments){
      .name = row->kernel,
      .structure = &row->structure,
      .sms = j->p->origin.gpu.sms,
      .useful_bytes = row->useful_bytes,
      .counted = counters_of(row, control),
      .scatter = kva_calibration_scatter(j->calibration, row->row_bytes, row->run),
      .resident = {resident ? resident->seconds : NULL, resident ? (uint32_t)resident->time.n : 0, 0},
      .whole = {row->seconds, (uint32_t)row->time.n, 0},
      .seed = j->p->origin.seed};
}

static void explain(const judge *j, const kva_plant_row *row, const kva_plant_row *control,
                    kva_attribution *a) {
  const kva_experiments x = experiments_of(j, row, control);
  kva_experiments_attribute(&x, j->roofs, j->ranges, a);
}

/* The share's interval, from draws that the kernel and its control have in common. Draws in which launches
 * take so long that the kernel would be faster than without its misses are none that the experiments allow.
 */
static void find_interval(const judge *j, kva_named *v) {
  static double nats[2][KVA_DRAWS][KVM_CAUSES],
      whole[2][KVA_DRAWS]; /* 50 KiB; HDF5 has us on one thread anyway */
  double share[KVA_DRAWS];
  const kva_experiments x[2] = {experiments_of(j, v->row, v->control), experiments_of(j, v->control, NULL)};
  v->share_low = v->share_high = v->share;
  for (int k = 0; k < 2; k++)
    if (!kva_experiments_draws(&x[k], j->roofs, j->ranges, nats[k], whole[k])) return;
  for (size_t i = 0; i < KVA_DRAWS; i++)
    share[i] = nats[0][i][KVM_C_MEMORY] < log(0.98)
                   ? NAN
                   : (nats[0][i][v->planted] - nats[1][i][v->planted]) / log(whole[0][i] / whole[1][i]);
  kva_draws_interval(share, KVA_DRAWS, v->share, &v->share_low, &v->share_high);
}

size_t kva_planted_judge(const kva_planted *p, const kva_calibration *calibration, const kvm_roofs *roofs,
                         const kvm_timing *ranges, kva_named named[KVA_MOST_PLANTED]) {
  const judge j = {p, calibration, roofs, ranges};
  size_t n = 0;
  for (size_t i = 0; i < p->rows && n < KVA_MOST_PLANTED; i++) {
    const kva_plant_row *row = &p->row[i];
    kva_attribution of_control;
    if (row->experiment != KVA_PLANT_COLD) continue;
    kva_named *v = &named[n++];
    *v = (kva_named){.row = row,
                     .planted = cause_of(row->cause),
                     .total = NAN,
                     .share = NAN,
                     .share_low = NAN,
                     .share_high = NAN,
                     .gain = NAN,
                     .realised = NAN};
    v->control = row->control[0] ? find(p, row->control, KVA_PLANT_COLD) : NULL;
    explain(&j, row, v->control, &v->a);
    for (int c = 0; c < KVM_CAUSES; c++)
      if (v->a.cause[c].known) v->worst = fmax(v->worst, exp(v->a.cause[c].nats));
    if (!v->control || v->planted == KVM_CAUSES) continue;
    explain(&j, v->control, NULL, &of_control);
    v->realised = row->time.median / v->control->time.median;
    v->total = log(v->realised);
    v->gain = v->a.cause[v->planted].gain;
    if (v->a.cause[v->planted].known && v->total > 0)
      v->share = (v->a.cause[v->planted].nats - of_control.cause[v->planted].nats) / v->total;
    if (isfinite(v->share)) find_interval(&j, v);
  }
  return n;
}

const char *kva_named_cause(const kva_named *v) {
  return v->worst > 1.1 && v->a.largest < KVM_CAUSES ? kvm_cause_name(v->a.largest) : "none";
}

kv_status kva_planted_bar(const kva_named *named, size_t n, double share, kv_error *err) {
  size_t planted = 0;
  for (size_t i = 0; i < n; i++) {
    const kva_named *v = &named[i];
    planted += v->planted != KVM_CAUSES;
    if (v->planted != KVM_CAUSES && v->a.largest != v->planted)
      return kv_fail(err, KV_ERR_BAR, "%s: %s was planted, %s is named", v->row->kernel, v->row->cause,
                     v->a.largest < KVM_CAUSES ? kvm_cause_name(v->a.largest) : "nothing");
    if (v->planted != KVM_CAUSES && (!(v->total > 0) || !isfinite(v->share)))
      return kv_fail(err, KV_ERR_BAR, "%s: takes %.3f of the time of its control %s: nothing slowed it down",
                     v->row->kernel, v->realised, v->row->control);
    if (v->planted != KVM_CAUSES && !(v->share >= share))
      return kv_fail(err, KV_ERR_BAR, "%s: %s explains %.1f %% of what was planted, the bar is %.0f %%",
                     v->row->kernel, v->row->cause, 100 * v->share, 100 * share);
    if (!strcmp(v->row->kernel, "copy") && (!(v->worst <= 1.1) || !v->a.whole))
      return kv_fail(err, KV_ERR_BAR, "copy: a factor of %.3f where none is above 1.1", v->worst);
  }
  return planted ? KV_OK : kv_fail(err, KV_ERR_BAR, "no planted kernel was measured");
}

/* ---- measuring ---- */

typedef struct job {
  const kva_planted_plan *plan;
  kva_planted *out;
  kvk_device *device;
  kvk_plants *plants;
} job;

static void note(kva_planted *p, const char *text) {
  size_t used = strlen(p->notes);
  if (text[0] && !strstr(p->notes, text))
    (void)snprintf(p->notes + used, sizeof p->notes - used, "%s%s", used ? "; " : "", text);
}

static kv_status new_row(kva_planted *p, kva_plant_row **row, kv_error *err) {
  if (p->rows == p->room) {
    size_t room = p->room ? 2 * p->room : 64;
    kva_plant_row *grown = realloc(p->row, room * sizeof *grown);
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "self-test: out of memory");
    p->row = grown;
    p->room = room;
  }
  *row = &p->row[p->rows];
  **row = (kva_plant_row){0};
  return KV_OK;
}

static kv_status finish(job *j, const kvk_planted_run *run, kva_plant_experiment experiment,
                        const kvk_series *series, kv_error *err) {
  const kvk_planted *k = kvk_planted_at(run->which);
  const kvk_planted_work w = kvk_planted_describe(run->which, kvk_device_gpu(j->device));
  kva_plant_row *row = NULL;
  kv_status st = new_row(j->out, &row, err);
  if (st) return st;
  (void)snprintf(row->kernel, sizeof row->kernel, "%s", k->name);
  (void)snprintf(row->what, sizeof row->what, "%s", k->what);
  (void)snprintf(row->cause, sizeof row->cause, "%s", k->cause);
  (void)snprintf(row->control, sizeof row->control, "%s", k->control ? k->control : "");
  row->experiment = (uint32_t)experiment;
  row->row_bytes = k->row_bytes;
  row->run = k->run;
  row->copies = run->copies;
  row->structure = w.structure;
  row->structure.name = NULL;
  row->useful_bytes = w.useful_bytes;
  row->state = series->state;
  st = kva_summarise(series->seconds, series->count, j->plan->seed + j->out->rows, &row->time, err);
  if (!st) row->seconds = malloc(series->count * sizeof *row->seconds);
  if (!st && !row->seconds) st = kv_fail(err, KV_ERR_MEMORY, "self-test: out of memory");
  if (st) return st;
  memcpy(row->seconds, series->seconds, series->count * sizeof *row->seconds);
  j->out->rows++;
  return KV_OK;
}

/* One interleaved series of one experiment over the kernels that it is for. */
static bool takes_part(const kvk_planted *k, kva_plant_experiment e) {
  if (e == KVA_PLANT_EAGER) return k->launches > 0 || !strcmp(k->name, "copy");
  if (e == KVA_PLANT_REPLICATED) return k->blocks == 1;
  return true;
}

static kv_status series_of(job *j, kva_plant_experiment e, kv_error *err) {
  const uint32_t repeats = j->plan->repeats ? j->plan->repeats : 25;
  const kvk_plan plan = {
      2, repeats, 3, j->plan->limit > 0 ? j->plan->limit : 20.0, e != KVA_PLANT_RESIDENT, j->plan->seed};
  enum { MOST = KVA_MOST_PLANTED };
  kvk_planted_run run[MOST];
  kvk_contender contender[MOST];
  kvk_series series[MOST];
  size_t n = 0;
  double *seconds = calloc((size_t)MOST * repeats, sizeof *seconds);
  if (!seconds) return kv_fail(err, KV_ERR_MEMORY, "self-test: out of memory");
  for (size_t i = 0; i < kvk_planted_count() && n < MOST; i++) {
    if (!takes_part(kvk_planted_at(i), e)) continue;
    const unsigned copies = e == KVA_PLANT_REPLICATED ? (unsigned)kvk_device_gpu(j->device)->sms : 1;
    run[n] = (kvk_planted_run){j->plants, i, e == KVA_PLANT_RESIDENT, copies};
    contender[n] =
        (kvk_contender){kvk_planted_at(i)->name, kvk_planted_enqueue, &run[n], e != KVA_PLANT_EAGER};
    series[n] = (kvk_series){.seconds = seconds + n * repeats};
    n++;
  }
  kv_status st = kvk_device_measure(j->device, contender, n, &plan, series, err);
  for (size_t i = 0; !st && i < n; i++) st = finish(j, &run[i], e, &series[i], err);
  free(seconds);
  return st;
}

/* A counter pass of the cold rows, after all timing. A loop of a thousand launches is beyond what can be
 * counted. */
static kv_status count_all(job *j, kv_error *err) {
  kvk_counting *counting = NULL;
  kv_error why = {KV_OK, ""};
  kv_status st = KV_OK;
  if (kvk_counting_open(j->device, NULL, &counting, &why)) {
    note(j->out, why.text);
    return KV_OK;
  }
  for (size_t i = 0; !st && i < j->out->rows; i++) {
    kva_plant_row *row = &j->out->row[i];
    const size_t which = kvk_planted_find(row->kernel);
    kvk_planted_run run = {j->plants, which, false, 1};
    const kvk_contender contender = {row->kernel, kvk_planted_enqueue, &run, false};
    if (row->experiment != KVA_PLANT_COLD || kvk_planted_at(which)->launches) continue;
    row->counted = kvk_counting_run(counting, &contender, &row->counters, &why) == KV_OK;
    if (!row->counted) note(j->out, why.text);
    st = kvk_device_wait(j->device, err);
  }
  kvk_counting_close(counting);
  return st;
}

kv_status kva_planted_measure(const kva_planted_plan *plan, int device, kva_planted *planted, kv_error *err) {
  job j = {.plan = plan, .out = planted};
  char text[KV_ERROR_TEXT] = "";
  kv_error local = {KV_OK, ""};
  if (!err) err = &local;
  *planted = (kva_planted){0};
  kv_status st = kvk_device_open(device, &j.device, text, sizeof text, err);
  if (st) return st;
  note(planted, text);
  kva_bench_origin_of(j.device, &planted->origin);
  planted->origin.repeats = plan->repeats ? plan->repeats : 25;
  planted->origin.seed = plan->seed;
  st = kvk_plants_open(j.device, plan->seed, &j.plants, err);
  for (int e = 0; !st && e < KVA_PLANT_EXPERIMENTS; e++) st = series_of(&j, (kva_plant_experiment)e, err);
  if (!st && plan->counters) st = count_all(&j, err);
  planted->complete = !st;
  if (st) (void)snprintf(planted->failure, sizeof planted->failure, "%s", err->text);
  kvk_plants_close(j.plants);
  kvk_device_close(j.device);
  return st;
}
