#include "roof_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double kva_point_time(const kva_point *p) {
  return p->work.fits ? p->ladder.t[7] : NAN;
}

double kva_point_bound(const kva_point *p) {
  if (!p->work.fits || !isnan(p->ladder.t[7])) return NAN;
  for (int i = 6; i >= 0; i--)
    if (!isnan(p->ladder.t[i])) return p->ladder.t[i];
  return NAN;
}

bool kva_point_incomplete(const kva_point *p) {
  return p->program && p->work.fits && p->work.chip[KVM_MMA] < 0.99 * p->useful.flops;
}

double kva_run_rows_bytes(const kva_run *run) {
  double most = 0;
  for (uint64_t i = 0; i < run->points; i++) {
    const kvm_verify *p = &run->point[i].problem;
    most = fmax(most, (double)p->row_bytes * (double)p->union_rows * run->layers);
  }
  return most;
}

double kva_run_memory(const kva_run *run) {
  return kvm_gpu_number(run->gpu, "mem_bytes");
}

double kva_point_bandwidth(const kva_point *p) {
  double t = isnan(p->measured) ? kva_point_time(p) : p->measured;
  return p->useful.kv_bytes > 0 && t > 0 ? p->useful.kv_bytes / t : NAN;
}

void kva_batch_words(uint32_t batch, uint64_t tokens, uint64_t longest, char words[KVA_BATCH_WORDS]) {
  if (batch == 1) (void)snprintf(words, KVA_BATCH_WORDS, "%llu tokens", (unsigned long long)longest);
  else if (tokens == batch * longest)
    (void)snprintf(words, KVA_BATCH_WORDS, "%u requests of %llu tokens", batch, (unsigned long long)longest);
  else
    (void)snprintf(words, KVA_BATCH_WORDS, "%u requests, longest %llu tokens (%llu in all)", batch,
                   (unsigned long long)longest, (unsigned long long)tokens);
}

const char *kva_point_binding(const kva_point *p) {
  static const char *const one[] = {"dram of one SM", "l2 of one SM", "link of one SM", "l1 of one SM",
                                    "mma of one SM"};
  return p->ladder.binding_sm ? one[p->ladder.binding] : kvm_resource_name(p->ladder.binding);
}

/* Time of the layout over that of contiguous rows, where memory binds; NaN where no memory model says. */
static double scatter_of(const kva_run *run) {
  return run->contiguous ? 1 : run->gather.layout.at.scatter;
}

/* The ends of what is assumed of it; both are the factor itself where nothing is. */
static double scatter_low(const kva_run *run) {
  return run->contiguous ? 1 : fmin(run->gather.layout.fast.scatter, run->gather.layout.at.scatter);
}

static double scatter_high(const kva_run *run) {
  return run->contiguous ? 1 : fmax(run->gather.layout.slow.scatter, run->gather.layout.at.scatter);
}

/* B of shared memory that a block may have; NaN: not known. */
static double shared_of_block(const kva_run *run) {
  const double has = kvm_gpu_number(run->gpu, "smem_per_block_optin");
  return run->smem_limit ? fmin(has, run->smem_limit) : has; /* fmin passes over what is not known */
}

/* The kernel's program for this problem: of several the one whose units of query rows it has. */
static const kvm_declared *program_for(const kva_run *run, uint32_t kernel, const kvm_verify *problem) {
  const kvm_declared *d = run->program[kernel];
  if (!d || !d->structure.units || d == run->own) return d;
  return kvm_declared_for(run->declared, d->name, kvm_gpu_sm(run->gpu), 0, problem,
                          shared_of_block(run));
}

/* No time is below what the work needs. A program that says so leaves work out, or its pipes are taken for
 * faster than the ceilings. */
static void keep_above_bounds(const kva_run *run, kva_point *p) {
  kvm_prediction *m = &p->prediction;
  double *t = p->ladder.t;
  if (!m->known || isnan(t[4])) return;
  p->raised = m->whole < 0.98 * t[4];
  m->cold_low = fmax(m->cold_low, kvm_ladder_of(&p->useful, &p->work, &run->roofs, scatter_low(run)).t[4]);
  m->cold_high = fmax(m->cold_high, kvm_ladder_of(&p->useful, &p->work, &run->roofs, scatter_high(run)).t[4]);
  t[6] = m->cold = fmax(m->cold, t[4]);
  t[7] = m->whole = fmax(m->whole, t[4]);
  m->low = fmax(m->low, t[4]);
  m->high = fmax(m->high, m->whole - m->cold + fmax(m->cold, m->cold_high));
}

static kv_status predict_time(kva_run *run, kva_point *p, kvm_time_memo *memo, kv_error *err) {
  const kvm_declared *program = program_for(run, p->kernel, &p->problem);
  const double scatter = scatter_of(run);
  if (isnan(scatter)) return KV_OK; /* no T3, so nothing above it */
  const kvm_question q = {program, &p->problem, &p->work,         &p->useful,       &run->timing,
                          scatter, true,        true, scatter_low(run), scatter_high(run)};
  kv_status st = kvm_predict(&q, memo, &p->prediction, err);
  if (!st) kvm_ladder_time(&p->ladder, &p->prediction);
  if (!st) keep_above_bounds(run, p);
  return st;
}

static void attribute(const kva_run *run, kva_point *p) {
  const double *t = p->ladder.t;
  double within = run->timing.p[KVM_P_MODEL].value;
  const kva_evidence e = {.useful = &p->useful,
                          .work = &p->work,
                          .roofs = &run->roofs,
                          .ranges = &run->timing,
                          .scatter = scatter_of(run),
                          .scatter_low = scatter_low(run),
                          .scatter_high = scatter_high(run),
                          .kernel_low = p->prediction.known ? p->prediction.cold_low : 0,
                          .kernel_high = p->prediction.known ? p->prediction.cold_high : 0,
                          .even = p->prediction.known ? p->prediction.copying_even : 0,
                          .busiest = p->prediction.known ? p->prediction.copying : 0,
                          .resident = {&t[5], isnan(t[5]) ? 0u : 1u, 0},
                          .kernel = {&t[6], isnan(t[6]) ? 0u : 1u, 0},
                          .whole = {&t[7], isnan(t[7]) ? 0u : 1u, 0},
                          .common_error = isnan(within) ? 0 : within,
                          .gain = p->prediction.known ? p->prediction.gain : NULL,
                          .seed = run->seed};
  kva_attribute(run->kernel[p->kernel].name, &e, &p->attribution);
  for (int c = 0; c < KVM_CAUSES && isnan(kva_point_time(p));
       c++) { /* gains are of a time, and there is none */
    kva_cause *x = &p->attribution.cause[c];
    x->gain = x->gain_low = x->gain_high = NAN;
  }
}

static kv_status predict_point(kva_run *run, uint32_t kernel, const kvm_verify *problem, kva_point *p,
                               kvm_time_memo *memo, kv_error *err) {
  const kvm_structure *k = &run->kernel[kernel];
  const kvm_declared *program = program_for(run, kernel, problem);
  kv_status st = KV_OK;
  *p = (kva_point){
      .kernel = kernel, .problem = *problem, .measured = NAN, .measured_low = NAN, .measured_high = NAN};
  p->program = program && program->block.roles ? program : NULL;
  p->useful = kvm_structure_useful(k, problem);
  p->work =
      program ? kvm_declared_work(program, problem, run->gpu) : kvm_structure_work(k, problem, run->gpu);
  p->work.fits &= !(kvm_structure_shared(program ? &program->structure : k, problem) > shared_of_block(run));
  p->ladder = kvm_ladder_of(&p->useful, &p->work, &run->roofs, scatter_of(run));
  p->prediction.known = false;
  if (!p->work.fits)
    for (int i = 1; i < 8; i++) p->ladder.t[i] = NAN; /* it cannot run there; the floor stands */
  else if (program) st = predict_time(run, p, memo, err);
  if (!st) attribute(run, p);
  return st;
}

static void add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t size, const char *format, ...) {
  size_t have = strlen(text);
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text + have, size - have, format, args);
  va_end(args);
}

static void scaled_time(double s, char text[32]) {
  static const struct {
    double above, unit;
    const char *name;
  } scale[] = {{1, 1, "s"}, {1e-3, 1e-3, "ms"}, {1e-6, 1e-6, "us"}, {0, 1e-9, "ns"}};
  size_t i = 0;
  while (s < scale[i].above) i++;
  (void)snprintf(text, 32, "%.3g %s", s / scale[i].unit, scale[i].name);
}

/* What attention kernels of one prefix are ranked by. */
static bool is_attention(const kva_run *run, const kva_point *p) {
  return run->kernel[p->kernel].grid != KVM_GRID_ELEMENTS && !isnan(p->ladder.t[4]);
}

/* A kernel that leaves work out is not the faster one for it. */
static bool faster(const kva_point *p, const kva_point *than, double (*of)(const kva_point *)) {
  if (!than || kva_point_incomplete(p) != kva_point_incomplete(than)) return !than || kva_point_incomplete(than);
  return of(p) < of(than);
}

/* The slowest and the fastest attention kernel of one prefix, by their times; where none has one, by their
 * bounds: a bound is never held against a time. NULL where there is neither. */
static void rank(const kva_run *run, const kva_point *first, const kva_point **slow, const kva_point **fast) {
  double (*of)(const kva_point *) = kva_point_bound;
  *slow = *fast = NULL;
  for (uint32_t k = 0; k < run->kernels; k++)
    if (is_attention(run, first + k) && !isnan(kva_point_time(first + k))) of = kva_point_time;
  for (uint32_t k = 0; k < run->kernels; k++) {
    const kva_point *p = first + k;
    if (!is_attention(run, p) || isnan(of(p))) continue;
    if (!*slow || of(p) > of(*slow)) *slow = p;
    if (faster(p, *fast, of)) *fast = p;
  }
}

/* T2 over T1, or which ceilings it would take: without them T2 is T1, which says nothing of the work. */
static void judge_work(kva_run *run, const kva_point *p) {
  const double *t = p->ladder.t;
  unsigned missing = p->ladder.missing & 0xffu;
  size_t size = sizeof run->verdict;
  const char *between = " (no ceiling of ";
  if (!missing) {
    add(run->verdict, size, "work %.3gx, placement %.3gx", t[2] / t[1], t[4] / t[2]);
    return;
  }
  add(run->verdict, size, "work unknown");
  for (int r = 0; r < KVM_RESOURCES; r++)
    if (missing >> r & 1) {
      add(run->verdict, size, "%s%s", between, kvm_resource_name((kvm_resource)r));
      between = ", ";
    }
  add(run->verdict, size, "), work and placement together at least %.3gx", t[4] / t[1]);
}

static void judge_slow(kva_run *run, const kva_point *slow) {
  const double *t = slow->ladder.t;
  char time[32];
  size_t size = sizeof run->verdict;
  if (slow->prediction.known) {
    scaled_time(kva_point_time(slow), time);
    add(run->verdict, size, " Modelled at %s a layer, %s", time, slow->attribution.verdict);
    return;
  }
  scaled_time(kva_point_bound(slow), time);
  add(run->verdict, size, " %s needs at least %s a layer, %.3gx that: ", run->kernel[slow->kernel].name, time,
      t[4] / t[0]);
  if (t[1] / t[0] > 1.005) add(run->verdict, size, "path %.3gx, ", t[1] / t[0]);
  judge_work(run, slow);
  add(run->verdict, size, " (%.0f of %.0f SMs busy), bound by %s.", slow->work.busy_sms, run->roofs.sms,
      kva_point_binding(slow));
}

/* Attention kernels that have a bound only, beside others that have times. */
static void judge_bounds(kva_run *run, const kva_point *first) {
  char time[32];
  const char *between = " Only a lower bound is known of ";
  for (uint32_t k = 0; k < run->kernels; k++) {
    if (!is_attention(run, first + k) || isnan(kva_point_bound(first + k))) continue;
    scaled_time(kva_point_bound(first + k), time);
    add(run->verdict, sizeof run->verdict, "%s%s (%s)", between, run->kernel[k].name, time);
    between = ", ";
  }
  if (*between == ',') add(run->verdict, sizeof run->verdict, ".");
}

static void judge_kernels(kva_run *run, const kva_point *first, const kva_point *slow,
                          const kva_point *fast) {
  char time[32];
  judge_slow(run, slow);
  scaled_time(fast->prediction.known ? kva_point_time(fast) : kva_point_bound(fast), time);
  add(run->verdict, sizeof run->verdict, " The structure of %s %s %s a layer (%s).",
      run->kernel[fast->kernel].name, fast->prediction.known ? "is modelled at" : "allows", time,
      kva_point_binding(fast));
  if (fast->prediction.known) judge_bounds(run, first);
  else
    add(run->verdict, sizeof run->verdict,
        " Times of kernels without a program are lower bounds; serial chains, exposed memory%s and launches "
        "come on top.",
        isnan(scatter_of(run)) ? ", scatter" : "");
}

/* What the layout costs where memory binds. */
static void judge_layout(kva_run *run) {
  const kva_gather_range *g = &run->gather.layout;
  size_t size = sizeof run->verdict;
  if (run->contiguous || isnan(g->at.scatter)) return;
  bool none = fmax(g->at.scatter, g->slow.scatter) < 1.05;
  add(run->verdict, size, " Scatter: %s, %.2f (%.2f to %.2f) where memory binds.",
      none ? "no effect" : "reading takes longer", g->at.scatter, scatter_low(run), scatter_high(run));
}

/* Times of rows that no card of this kind can hold are times of nothing. */
static void judge_memory(kva_run *run) {
  const double need = kva_run_rows_bytes(run), have = kva_run_memory(run);
  if (need > have)
    add(run->verdict, sizeof run->verdict, " But it does not fit the GPU's memory: the rows of all %u layers take %.1f GB of %.1f GB.",
        run->layers, need / 1e9, have / 1e9);
}

static void judge(kva_run *run, const kvm_verify *longest) {
  char time[32], words[KVA_BATCH_WORDS];
  size_t size = sizeof run->verdict;
  const kva_point *first = run->point, *slow, *fast;
  while (first->problem.longest != longest->longest) first += run->kernels;
  double floor = first->ladder.t[0];
  run->verdict[0] = '\0';
  if (isnan(floor)) {
    add(run->verdict, size,
        "No floor can be given: the memory bandwidth or the matrix rate of this GPU is not known.");
    return;
  }
  scaled_time(floor, time);
  kva_batch_words(longest->batch, longest->tokens, longest->longest, words);
  add(run->verdict, size, "At %s%s the floor is %s a layer (%s).", words, longest->batch > 1 ? "," : "", time,
      first->useful.bytes / run->roofs.chip[KVM_DRAM].rate >= floor ? "memory" : "matrix instructions");
  rank(run, first, &slow, &fast);
  if (slow) judge_kernels(run, first, slow, fast);
  else if (!first->work.fits)
    add(run->verdict, size, " No kernel fits: rows of this size need more shared memory.");
  judge_layout(run);
  judge_memory(run);
}

/* The kernels of this project for the GPU's architecture, with a program where one is declared, and the
 * user's. */
static void choose_kernels(kva_run *run) {
  int sm = kvm_gpu_sm(run->gpu);
  run->kernels = 0;
  for (unsigned which = 0; which < KVM_KERNELS; which++) {
    kvm_structure k = kvm_kernel(which, sm);
    if (run->only && !(run->only >> which & 1)) continue;
    const kvm_declared *d =
        run->declared ? kvm_declared_find(run->declared, k.name, sm, k.tile_tokens) : NULL;
    if (!d && run->declared) d = kvm_declared_find(run->declared, k.name, sm, 0);
    run->program[run->kernels] = d;
    run->kernel[run->kernels] = d ? d->structure : k;
    run->kernel[run->kernels++].name = k.name;
  }
  if (!run->own) return;
  run->program[run->kernels] = run->own;
  run->kernel[run->kernels++] = run->own->structure;
}

/* Of several programs of a kernel the one that this problem takes says what the kernel does. */
static void describe(kva_run *run, const kvm_verify *problem) {
  for (uint32_t k = 0; k < run->kernels; k++) {
    const kvm_declared *d = program_for(run, k, problem);
    if (d && d->description[0]) run->kernel[k].description = d->description;
  }
}

kv_status kva_run_predict(kva_run *run, const kvm_verify *problems, uint64_t n, kv_error *err) {
  const kvm_verify *longest = problems;
  kvm_time_memo memo = {0};
  kv_status st = KV_OK;
  if (!run->given) {
    run->roofs = kvm_roofs_of(run->gpu);
    run->timing = kvm_timing_of(run->gpu, run->pipes, &run->roofs);
    kvm_roofs_complete(&run->roofs, &run->timing);
  }
  kvm_roofs_for_rows(&run->roofs, run->gpu, problems);
  run->timing.mma_best = run->roofs.mma_best.rate;
  choose_kernels(run);
  describe(run, problems);
  run->point = calloc(n * run->kernels, sizeof *run->point);
  if (!run->point) return kv_fail(err, KV_ERR_MEMORY, "out of memory for %llu points", (unsigned long long)n);
  run->points = n * run->kernels;
  for (uint64_t i = 0; !st && i < n; i++) {
    st = kvm_verify_check(&problems[i], err);
    if (problems[i].longest > longest->longest) longest = &problems[i];
    for (uint32_t k = 0; !st && k < run->kernels; k++)
      st = predict_point(run, k, &problems[i], &run->point[i * run->kernels + k], &memo, err);
  }
  kvm_time_memo_free(&memo);
  if (st) kva_run_free(run);
  else judge(run, longest);
  return st;
}

void kva_run_free(kva_run *run) {
  free(run->point);
  run->point = NULL;
  run->points = 0;
}

void kva_program_words(const kvm_declared *d, char *text, size_t size) {
  if (!d) {
    (void)snprintf(text, size, "no program: structure alone");
    return;
  }
  const char *by = strstr(d->source, "Triton") ? "Triton's " : strstr(d->source, "nvcc") ? "nvcc's " : "";
  bool machine = *by || strstr(d->source, "machine code") || strstr(d->source, "instructions");
  (void)snprintf(text, size, machine ? "%s, %smachine code for %s" : "%s, %sdeclared for %s", d->key, by, d->arch);
}

void kva_run_borrowed(const kva_run *run, char *text, size_t size) {
  text[0] = '\0';
  for (uint32_t k = 0; k < run->kernels; k++) {
    const kvm_declared *d = run->program[k];
    if (!d || !d->block.roles || kvm_arch_number(d->arch) == kvm_gpu_sm(run->gpu)) continue;
    add(text, size, "%s%s (%s)", text[0] ? ", " : "", run->kernel[k].name, d->arch);
  }
}

void kva_run_missing(const kva_run *run, char *text, size_t size) {
  unsigned missing = 0;
  text[0] = '\0';
  for (uint64_t i = 0; i < run->points; i++) missing |= run->point[i].ladder.missing;
  if (isnan(run->roofs.mma_best.rate)) add(text, size, "best matrix rate");
  for (unsigned b = 0; b < 16; b++)
    if (missing >> b & 1)
      add(text, size, "%s%s%s", text[0] ? ", " : "", kvm_resource_name((kvm_resource)(b % 8)),
          b >= 8 ? " of one SM" : "");
  if (isnan(run->roofs.sms)) add(text, size, "%snumber of SMs", text[0] ? ", " : "");
  for (uint32_t k = 0; k < run->kernels && run->points; k++) {
    const kvm_declared *d = run->program[k];
    if (d && d->block.roles && !kvm_declared_applies(d, &run->point[0].problem))
      add(text, size, "%stime of %s (its program loads rows of %u B)", text[0] ? ", " : "",
          run->kernel[k].name, kvm_declared_row_bytes(d));
  }
  kvm_parameter p = kvm_timing_missing(&run->timing);
  if (run->declared && p != KVM_PARAMETERS)
    add(text, size, "%s%s of the time model", text[0] ? ", " : "", kvm_parameter_name(p));
}
