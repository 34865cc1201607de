#include "calibration_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card_memory.h"
#include "h5_add.h"
#include "kv_h5.h"

#define COLUMN "microbenchmarks/modelled"
#define SAMPLE (UINT64_C(8) << 20) /* B of rows that are followed through the model */

/* "ld.v4 x4": a warp's 32 threads ask for 4 times 16 bytes each. 0: the variant does not say. */
static uint32_t batch_of(const char *variant) {
  unsigned loads = 0;
  const char *x = strstr(variant, "ld.v4 x");
  return x && sscanf(x, "ld.v4 x%u", &loads) == 1 && loads <= 64 ? loads * 512 : 0;
}

/* Rows read with the hint that they are read once lie in what the slot list and earlier lists leave of the L2: pools about
 * its size then tell what ran before. Calibrations until 2026-11-29 have such points. */
static bool spoilt(const kvk_point *p) {
  return p->footprint > UINT64_C(8) << 20 && p->footprint < UINT64_C(64) << 20 && !strstr(p->variant, "rows stay");
}

bool kva_gather_point(const kva_bench_row *r, uint32_t sms, kvm_mem_point *q) {
  const kvk_point *p = &r->point;
  uint32_t batch = batch_of(p->variant);
  bool pattern = !strcmp(p->layout, "contiguous") || !strcmp(p->layout, "runs") || !strcmp(p->layout, "random");
  if (strcmp(p->name, "gather") != 0 || !pattern || !batch || !p->row_bytes || !p->in_flight || spoilt(p)) return false;
  if (p->footprint / p->row_bytes < (p->run_length ? p->run_length : 1) || p->footprint / p->row_bytes > INT32_MAX) return false;
  *q = (kvm_mem_point){.row_bytes = p->row_bytes,
                       .run = p->run_length,
                       .footprint = p->footprint,
                       .in_flight = p->in_flight,
                       .sms = p->one_sm ? 1 : p->blocks < sms ? p->blocks : sms,
                       .batch = batch,
                       .threads = p->threads,
                       .aligned = true,
                       .rate = r->value};
  return q->sms > 0;
}

/* ---- the card's own ---- */

/* Of a miss, s: the least of the pointer chases beyond the L2; NaN without one. */
static double latency_of(const kva_calibration *c) {
  double least = NAN;
  for (size_t i = 0; i < c->rows; i++)
    if (!strcmp(c->row[i].point.name, "latency_dram")) least = fmin(least, c->row[i].value);
  return least;
}

/* Takes over what the calibration tells of its card's memory. Where that is too little, *params is as before and *why says
 * what is lacking. */
static bool adapt(const kva_calibration *c, double latency, kvm_mem_params *params, kv_error *why) {
  kvm_mem_points points = {calloc(c->rows ? c->rows : 1, sizeof *points.point), 0, latency};
  if (!points.point) {
    (void)kv_fail(why, KV_ERR_MEMORY, "out of memory");
    return false;
  }
  for (size_t i = 0; i < c->rows; i++) {
    kvm_mem_point *p = &points.point[points.n];
    if (!kva_gather_point(&c->row[i], (uint32_t)c->origin.gpu.sms, p)) continue;
    p->fit = true; /* as far as it is one of the three that kvm_mem_adapt() looks at */
    points.n++;
  }
  bool done = !kvm_mem_adapt(params, &points, why);
  kvm_mem_points_free(&points);
  return done;
}

/* What is known of the memory: of the GPU by its description, and of this card. */
typedef struct known {
  bool model; /* else none of the rest, and why.text */
  kvm_mem_params params;
  kvm_mem_card card;
  kva_card_told told;
  kv_error why; /* why there is no model, or why it is not this card's */
  char words[400];
} known;

static void get_known(const kva_model_plan *plan, const kva_calibration *c, known *k) {
  static const char plain[] = "memory model: ";
  *k = (known){0};
  k->model = plan->gpu && !kvm_mem_params_of(plan->gpu, &k->params, &k->why);
  if (!k->model) {
    if (!plan->gpu) (void)snprintf(k->why.text, sizeof k->why.text, "%s", plan->why ? plan->why : "GPU not described");
    (void)snprintf(k->words, sizeof k->words, "none: %.300s", k->why.text);
    k->told.why = k->why.text;
    return;
  }
  const double latency = latency_of(c);
  k->told.described = kvm_mem_card_of(&k->params);
  const bool adapted = adapt(c, latency, &k->params, &k->why);
  k->card = kvm_mem_card_of(&k->params);
  k->told.card = adapted ? &k->card : NULL;
  k->told.chased = k->card.latency == latency;
  k->told.why = k->why.text + (strncmp(k->why.text, plain, sizeof plain - 1) ? 0 : sizeof plain - 1);
  (void)snprintf(k->words, sizeof k->words, "%.48s, %s%s", plan->gpu->key,
                 kvm_mem_kind(plan->gpu) == KVM_ASSUMED
                     ? "uncalibrated, some values assumed"
                     : "calibrated on gathers measured on an H200 (2026-11-29; models/measured lists which)",
                 adapted ? "; latency, activations and bus as this card's gathers tell" : "");
}

static kv_status predict_all(const kva_model_plan *plan, const kva_calibration *c, const kvm_mem_params *params,
                             double *modelled, kv_error *err) {
  kvm_mem_point q;
  kv_status st = KV_OK;
  for (size_t i = 0; i < c->rows && !st; i++) {
    modelled[i] = NAN;
    if (params && kva_gather_point(&c->row[i], (uint32_t)c->origin.gpu.sms, &q))
      st = kvm_mem_predict(params, &q, SAMPLE, &modelled[i], err);
    if (plan->progress) plan->progress(plan->arg, i + 1, c->rows);
  }
  return st;
}

/* ---- the column ---- */

typedef struct column {
  const double *modelled;
  size_t n;
  const known *known;
} column;

static kv_status add_column(void *user, hid_t file, kv_error *err) {
  const column *c = user;
  if (H5Lexists(file, COLUMN, H5P_DEFAULT) > 0) (void)H5Ldelete(file, COLUMN, H5P_DEFAULT);
  kv_status st =
      kv_h5_write(file, COLUMN, H5T_IEEE_F64LE, c->n, c->modelled, "see unit and kind",
                  "What the memory model gives for this gather; NaN: not modelled", KV_H5_SMALL, err);
  if (!st) st = kv_h5_put_str(file, "memory_model", c->known->words, err);
  return st ? st : kva_card_memory_write(file, &c->known->told, err);
}

kv_status kva_calibration_model(const kva_model_plan *plan, kv_error *err) {
  kva_calibration c;
  known k;
  double *modelled = NULL;
  kv_status st = kva_calibration_read(plan->in, &c, err);
  if (st) return st;
  get_known(plan, &c, &k);
  modelled = calloc(c.rows ? c.rows : 1, sizeof *modelled);
  if (!modelled) st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", plan->in);
  if (!st) st = predict_all(plan, &c, k.model ? &k.params : NULL, modelled, err);
  column to_add = {modelled, c.rows, &k};
  const kva_addition addition = {plan->in, plan->out, "the memory model", plan->command, add_column, &to_add};
  if (!st) st = kva_h5_add(&addition, err);
  free(modelled);
  kva_calibration_free(&c);
  return st;
}
