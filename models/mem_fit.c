#include "mem_fit.h"

#include <errno.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem_cache.h"

/* ---- points ---- */

static bool parse_point(const char *line, kvm_mem_point *p) {
  unsigned long long footprint, in_flight;
  double rate;
  char kernel[16], set[16], more;
  if (sscanf(line, "%u %u %llu %llu %u %u %u %lf %15s %15s %c", &p->row_bytes, &p->run, &footprint,
             &in_flight, &p->sms, &p->batch, &p->threads, &rate, kernel, set, &more) != 10)
    return false;
  p->footprint = footprint;
  p->in_flight = in_flight;
  p->rate = rate * 1e9;
  p->aligned = true;
  p->fit = !strcmp(set, "fit");
  p->spoilt = !strcmp(set, "spoilt");
  return (p->fit || p->spoilt || !strcmp(set, "held")) && p->row_bytes >= 1 && p->row_bytes <= 65536 &&
         p->sms && p->batch && p->threads && in_flight && rate > 0 && isfinite(rate) &&
         footprint / p->row_bytes > p->run && footprint / p->row_bytes <= INT32_MAX + 1ull;
}

static bool parse_latency(const char *line, double *latency) {
  double ns;
  char more;
  if (sscanf(line, "latency %lf %c", &ns, &more) != 1 || !(ns > 0) || !isfinite(ns)) return false;
  *latency = ns * 1e-9;
  return true;
}

kv_status kvm_mem_points_load(const char *path, kvm_mem_points *points, kv_error *err) {
  char line[256];
  int number = 0;
  kv_status st = KV_OK;
  *points = (kvm_mem_points){NULL, 0, NAN};
  FILE *f = fopen(path, "r");
  if (!f) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  while (!st && fgets(line, sizeof line, f)) {
    kvm_mem_point p = {0};
    number++;
    if (line[0] == '#' || line[strspn(line, " \t\r\n")] == '\0') continue;
    if (parse_latency(line, &points->latency)) continue;
    kvm_mem_point *grown = realloc(points->point, (points->n + 1) * sizeof *grown);
    if (!grown) st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
    else points->point = grown;
    if (!st && !parse_point(line, &p))
      st = kv_fail(
          err, KV_ERR_INPUT,
          "%s: line %d is no point (row_bytes run footprint in_flight sms batch threads GB/s kernel set)",
          path, number);
    if (!st) points->point[points->n++] = p;
  }
  (void)fclose(f);
  if (st) kvm_mem_points_free(points);
  return st;
}

void kvm_mem_points_free(kvm_mem_points *points) {
  free(points->point);
  *points = (kvm_mem_points){NULL, 0, NAN};
}

bool kvm_mem_slower(const kvm_mem_points *points, size_t i) {
  const kvm_mem_point *p = &points->point[i];
  for (size_t k = 0; k < points->n; k++) {
    const kvm_mem_point *q = &points->point[k];
    if (q->row_bytes == p->row_bytes && q->run == p->run && q->footprint == p->footprint &&
        q->in_flight == p->in_flight && q->sms == p->sms && q->batch == p->batch && q->rate > p->rate)
      return true;
  }
  return false;
}

/* A pool about the L2's size or smaller is gone through once before, and then twice, so that what stays in
 * the L2 shows. */
static bool stays(const kvm_mem_point *p, const kvm_mem_params *params) {
  return p->footprint <= 2 * params->l2_whole;
}

static uint64_t rows_of(const kvm_mem_point *p, const kvm_mem_params *params, uint64_t sample) {
  uint64_t bytes = sample ? sample : UINT64_C(16) << 20, flying = p->in_flight * p->sms;
  if (2 * bytes < 11 * flying) bytes = 11 * flying / 2; /* what is in flight at first goes out in step */
  if (stays(p, params)) bytes = (bytes / p->footprint + 2) * p->footprint;
  return bytes / p->row_bytes;
}

/* The microbenchmark divides a place in the list by the row's length. Where that is no power of two its loop
 * has 71 instructions for 4 loads instead of 55 (nvcc 13.0, sm_90), and a warp alone on an H200 takes 33 ns
 * longer for them. */
#define DIVISION 8.2e-9 /* s a load */
#define EFFORT (71.0 / 55)

kv_status kvm_mem_predict(const kvm_mem_params *params, const kvm_mem_point *p, uint64_t sample, double *rate,
                          kv_error *err) {
  kvm_mem *mem = NULL;
  kvm_mem_result result;
  uint64_t n = rows_of(p, params, sample);
  bool divides = p->row_bytes & (p->row_bytes - 1);
  kvm_mem_pattern pattern = {p->footprint / p->row_bytes, p->run, p->aligned, 7};
  int32_t *slot = malloc(n * sizeof *slot);
  kv_status st =
      slot ? kvm_mem_create(params, &mem, err) : kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
  if (!st) {
    kvm_mem_layout(&pattern, slot, n);
    kvm_mem_rows rows = {.slot = slot,
                         .n = n,
                         .row_bytes = p->row_bytes,
                         .index_bytes = 4,
                         .in_flight = p->in_flight * p->sms,
                         .batch = p->batch,
                         .team = p->threads / 32,
                         .address = divides ? DIVISION : 0,
                         .effort = divides ? EFFORT : 1,
                         .sms = p->sms,
                         .footprint = p->footprint};
    kvm_mem_rows before = rows; /* what lies in the L2 from the pass before */
    before.n = p->footprint / p->row_bytes;
    if (stays(p, params)) st = kvm_mem_read(mem, &before, &result, err);
    if (!st) st = kvm_mem_read(mem, &rows, &result, err);
  }
  if (!st) *rate = result.rate;
  kvm_mem_free(mem);
  free(slot);
  return st;
}

/* ---- one card ---- */

static const kvm_mem_point *best_of(const kvm_mem_points *points, uint32_t sms, uint32_t row_bytes,
                                    uint32_t run) {
  const kvm_mem_point *best = NULL;
  for (size_t i = 0; i < points->n; i++) {
    const kvm_mem_point *p = &points->point[i];
    if (p->row_bytes == row_bytes && p->run == run && p->sms == sms && p->fit && p->in_flight >= 65536 &&
        p->footprint >= UINT64_C(4) << 30 && p->footprint <= UINT64_C(64) << 30 &&
        (!best || p->rate > best->rate))
      best = p;
  }
  return best;
}

static kv_status modelled_over_measured(const kvm_mem_params *p, const kvm_mem_point *point, double *ratio,
                                        kv_error *err) {
  kv_status st = kvm_mem_predict(p, point, 0, ratio, err);
  if (!st) *ratio /= point->rate;
  return st;
}

/* Of the three that tell a card. */
typedef struct telling {
  const kvm_mem_point *rows, *lines, *stream;
} telling;

static kv_status ratios(const kvm_mem_params *p, const telling *t, double *r, double *l, double *s,
                        kv_error *err) {
  kv_status st = modelled_over_measured(p, t->stream, s, err);
  if (!st) st = modelled_over_measured(p, t->lines, l, err);
  return st ? st : modelled_over_measured(p, t->rows, r, err);
}

kv_status kvm_mem_adapt(kvm_mem_params *params, const kvm_mem_points *points, kv_error *err) {
  enum { ROUNDS = 5 };
  kvm_mem_params p = *params;
  const telling t = {best_of(points, p.sms, 32, 1), best_of(points, p.sms, 128, 1), best_of(points, p.sms, 576, 0)};
  double r = 1, l = 1, s = 1;
  kv_status st = KV_OK;
  if (!t.rows || !t.lines || !t.stream)
    return kv_fail(err, KV_ERR_INPUT,
                   "memory model: no saturated gather of %s, so nothing tells this card's memory apart",
                   !t.rows    ? "random 32-byte rows"
                   : !t.lines ? "random 128-byte rows"
                              : "contiguous 576-byte rows");
  if (points->latency > p.far / 2 + kvm_dram_unloaded(&p, 1)) p.latency = points->latency;
  for (int i = 0; i < ROUNDS && !st; i++) {
    double line = KVM_LINE * p.channels / kvm_dram_stream(&p);
    st = ratios(&p, &t, &r, &l, &s, err);
    p.efficiency = fmin(p.efficiency / s, 1);
    p.act *= r;
    p.act_bus = fmax(p.act_bus + line * (l / s - 1), 0);
  }
  if (!st) st = ratios(&p, &t, &r, &l, &s, err);
  if (st) return st;
  if (!(fmax(fabs(r - 1), fmax(fabs(l - 1), fabs(s - 1))) < 0.03))
    return kv_fail(err, KV_ERR_INPUT,
                   "memory model: gives %.2f, %.2f and %.2f of this card's random 32-byte, 128-byte and contiguous "
                   "576-byte rows whatever its parameters, so they tell none",
                   r, l, s);
  *params = p;
  return KV_OK;
}

/* ---- the fit ---- */

enum { FREE = 7 };

static double *parameter(kvm_mem_params *p, int bit) {
  double *const at[FREE] = {&p->act,  &p->efficiency, &p->turn, &p->queueing,
                            &p->near, &p->sm_rate,    &p->issue};
  return at[bit];
}

typedef struct problem {
  kvm_mem_params start;
  const kvm_mem_points *points;
  unsigned which;
  uint64_t sample;
  unsigned evaluations;
} problem;

static kvm_mem_params at(const problem *b, const gsl_vector *x) {
  kvm_mem_params p = b->start;
  size_t i = 0;
  for (int bit = 0; bit < FREE; bit++)
    if (b->which >> bit & 1) *parameter(&p, bit) *= exp(gsl_vector_get(x, i++));
  if (p.efficiency > 1) p.efficiency = 1;
  return p;
}

static int residuals(const gsl_vector *x, void *arg, gsl_vector *f) {
  problem *b = arg;
  kvm_mem_params p = at(b, x);
  size_t row = 0;
  for (size_t i = 0; i < b->points->n; i++) {
    double rate;
    if (!b->points->point[i].fit) continue;
    if (kvm_mem_predict(&p, &b->points->point[i], b->sample, &rate, NULL)) return GSL_ENOMEM;
    b->evaluations++;
    gsl_vector_set(f, row++, log(rate / b->points->point[i].rate));
  }
  return GSL_SUCCESS;
}

/* Huber: residuals beyond 1.5 times the spread count less. */
static void weigh(const gsl_vector *f, gsl_vector *weight) {
  double sum = 0;
  for (size_t i = 0; i < f->size; i++) sum += fabs(gsl_vector_get(f, i));
  double limit = 1.5 * 1.2533 * sum / (double)f->size; /* mean absolute deviation to standard deviation */
  for (size_t i = 0; i < f->size; i++) {
    double r = fabs(gsl_vector_get(f, i));
    gsl_vector_set(weight, i, r <= limit ? 1 : limit / r);
  }
}

static void errors(const gsl_multifit_nlinear_workspace *w, unsigned which, kvm_mem_fitted *fitted) {
  const gsl_matrix *jacobian = gsl_multifit_nlinear_jac(w);
  gsl_matrix *covariance = gsl_matrix_alloc(jacobian->size2, jacobian->size2);
  double free = (double)(jacobian->size1 - jacobian->size2);
  double variance = free > 0 ? fitted->residual * fitted->residual * (double)jacobian->size1 / free : NAN;
  size_t i = 0;
  if (!covariance || gsl_multifit_nlinear_covar(jacobian, 0, covariance)) variance = NAN;
  for (int bit = 0; bit < FREE; bit++)
    if (which >> bit & 1) {
      fitted->error[bit] = isnan(variance) ? NAN : sqrt(variance * gsl_matrix_get(covariance, i, i));
      i++;
    }
  gsl_matrix_free(covariance);
}

/* Three rounds: the weights of each come from the residuals of the one before. `raw` ends as those of the
 * last. */
static int iterate(gsl_multifit_nlinear_workspace *w, gsl_multifit_nlinear_fdf *fdf, gsl_vector *x,
                   gsl_vector *weight, gsl_vector *raw) {
  int status = GSL_SUCCESS, info;
  gsl_vector_set_all(weight, 1);
  for (int round = 0; round < 3 && !status; round++) {
    status = gsl_multifit_nlinear_winit(x, weight, fdf, w);
    if (!status) status = gsl_multifit_nlinear_driver(3, 1e-3, 1e-6, 1e-6, NULL, NULL, &info, w);
    if (status == GSL_EMAXITER || status == GSL_ENOPROG)
      status = GSL_SUCCESS; /* the model has steps: no smooth end */
    gsl_vector_memcpy(x, gsl_multifit_nlinear_position(w));
    if (!status) status = residuals(x, fdf->params, raw);
    weigh(raw, weight);
  }
  return status;
}

static double root_mean_square(const gsl_vector *v) {
  double sum = 0;
  for (size_t i = 0; i < v->size; i++) sum += gsl_vector_get(v, i) * gsl_vector_get(v, i);
  return sqrt(sum / (double)v->size);
}

static kv_status solve(problem *b, size_t n, size_t unknowns, kvm_mem_fitted *fitted, kv_error *err) {
  gsl_multifit_nlinear_parameters how = gsl_multifit_nlinear_default_parameters();
  gsl_multifit_nlinear_fdf fdf = {.f = residuals, .n = n, .p = unknowns, .params = b};
  how.h_df = 0.03; /* steps of 3 %: below that the model's own grain shows */
  gsl_multifit_nlinear_workspace *w =
      gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &how, n, unknowns);
  gsl_vector *x = gsl_vector_calloc(unknowns), *weight = gsl_vector_alloc(n), *raw = gsl_vector_alloc(n);
  kv_status st = KV_OK;
  if (!w || !x || !weight || !raw) st = kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
  else if (iterate(w, &fdf, x, weight, raw))
    st = kv_fail(err, KV_ERR_INTERNAL, "memory model: the fit failed");
  if (!st) {
    fitted->params = at(b, x);
    fitted->residual = root_mean_square(raw);
    errors(w, b->which, fitted);
  }
  gsl_multifit_nlinear_free(w);
  gsl_vector_free(x);
  gsl_vector_free(weight);
  gsl_vector_free(raw);
  return st;
}

kv_status kvm_mem_fit(const kvm_mem_params *start, const kvm_mem_points *points, unsigned which,
                      uint64_t sample, kvm_mem_fitted *fitted, kv_error *err) {
  problem b = {*start, points, which & KVM_FIT_ALL, sample, 0};
  size_t n = 0, unknowns = (size_t)__builtin_popcount(b.which);
  *fitted = (kvm_mem_fitted){.params = *start, .error = {NAN, NAN, NAN, NAN, NAN, NAN, NAN}, .residual = NAN};
  for (size_t i = 0; i < points->n; i++) n += points->point[i].fit;
  if (!unknowns || n < unknowns)
    return kv_fail(err, KV_ERR_INPUT, "memory model: %zu points are too few to fit %zu parameters", n,
                   unknowns);
  gsl_error_handler_t *before = gsl_set_error_handler_off();
  kv_status st = solve(&b, n, unknowns, fitted, err);
  (void)gsl_set_error_handler(before);
  fitted->points = n;
  fitted->evaluations = b.evaluations;
  return st;
}
