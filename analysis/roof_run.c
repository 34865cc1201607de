#include "roof_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double kva_point_time(const kva_point *p) {
  for (int i = 4; i >= 0; i--)
    if (!isnan(p->ladder.t[i])) return p->ladder.t[i];
  return NAN;
}

double kva_point_bandwidth(const kva_point *p) {
  double t = isnan(p->measured) ? kva_point_time(p) : p->measured;
  return p->useful.kv_bytes > 0 && t > 0 ? p->useful.kv_bytes / t : NAN;
}

const char *kva_point_binding(const kva_point *p) {
  static const char *const one[] = {"dram of one SM", "l2 of one SM", "link of one SM", "l1 of one SM",
                                    "mma of one SM"};
  return p->ladder.binding_sm ? one[p->ladder.binding] : kvm_resource_name(p->ladder.binding);
}

static void predict_point(kva_run *run, uint32_t kernel, const kvm_verify *problem, kva_point *p) {
  const kvm_structure *k = &run->kernel[kernel];
  *p = (kva_point){
      .kernel = kernel, .problem = *problem, .measured = NAN, .measured_low = NAN, .measured_high = NAN};
  p->useful = kvm_structure_useful(k, problem);
  p->work = kvm_structure_work(k, problem, run->gpu);
  p->ladder = kvm_ladder_of(&p->useful, &p->work, &run->roofs, run->gather.layout.at.scatter);
  if (p->work.fits) return;
  for (int i = 1; i < 8; i++) p->ladder.t[i] = NAN; /* it cannot run there; the floor stands */
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

/* The slowest and the fastest attention kernel of one prefix, by their bounds; NULL where none has one. */
static void rank(const kva_run *run, const kva_point *first, const kva_point **slow, const kva_point **fast) {
  *slow = *fast = NULL;
  for (uint32_t k = 0; k < KVM_KERNELS; k++) {
    const kva_point *p = first + k;
    if (run->kernel[k].grid == KVM_GRID_ELEMENTS || isnan(p->ladder.t[4])) continue;
    if (!*slow || p->ladder.t[4] > (*slow)->ladder.t[4]) *slow = p;
    if (!*fast || p->ladder.t[4] < (*fast)->ladder.t[4]) *fast = p;
  }
}

static void judge_kernels(kva_run *run, const kva_point *slow, const kva_point *fast) {
  const double *t = slow->ladder.t;
  char time[32];
  size_t size = sizeof run->verdict;
  scaled_time(t[4], time);
  add(run->verdict, size,
      " %s needs at least %s, %.3gx that: work %.3gx, placement %.3gx (%.0f of %.0f SMs busy), bound by %s.",
      run->kernel[slow->kernel].name, time, t[4] / t[0], t[2] / t[0], t[4] / t[2], slow->work.busy_sms,
      run->roofs.sms, kva_point_binding(slow));
  scaled_time(fast->ladder.t[4], time);
  add(run->verdict, size, " The structure of %s allows %s (%s).", run->kernel[fast->kernel].name, time,
      kva_point_binding(fast));
}

/* What the layout costs where memory binds. */
static void judge_layout(kva_run *run) {
  const kva_gather_range *g = &run->gather.layout;
  size_t size = sizeof run->verdict;
  if (run->contiguous || isnan(g->at.scatter)) return;
  bool none = fmax(g->at.scatter, g->slow.scatter) < 1.05;
  add(run->verdict, size, " Scatter: %s, %.2f (%.2f to %.2f) where memory binds.",
      none ? "no effect" : "reading takes longer", g->at.scatter, fmin(g->fast.scatter, g->at.scatter),
      fmax(g->slow.scatter, g->at.scatter));
}

static void judge(kva_run *run, const kvm_verify *longest) {
  char time[32];
  size_t size = sizeof run->verdict;
  const kva_point *first = run->point, *slow, *fast;
  while (first->problem.longest != longest->longest) first += KVM_KERNELS;
  double floor = first->ladder.t[0];
  run->verdict[0] = '\0';
  if (isnan(floor)) {
    add(run->verdict, size,
        "No floor can be given: the memory bandwidth or the matrix rate of this GPU is not known.");
    return;
  }
  scaled_time(floor, time);
  add(run->verdict, size, "At %llu tokens the floor is %s (%s).", (unsigned long long)longest->longest, time,
      first->useful.bytes / run->roofs.chip[KVM_DRAM].rate >= floor ? "memory" : "matrix instructions");
  rank(run, first, &slow, &fast);
  if (slow) judge_kernels(run, slow, fast);
  judge_layout(run);
  add(run->verdict, size,
      " These are lower bounds; serial chains, exposed memory%s and launches come on top.",
      isnan(run->gather.layout.at.scatter) ? ", scatter" : "");
}

kv_status kva_run_predict(kva_run *run, const kvm_verify *problems, uint64_t n, kv_error *err) {
  const kvm_verify *longest = problems;
  run->roofs = kvm_roofs_of(run->gpu);
  for (unsigned k = 0; k < KVM_KERNELS; k++) run->kernel[k] = kvm_kernel(k, kvm_gpu_sm(run->gpu));
  run->point = calloc(n * KVM_KERNELS, sizeof *run->point);
  if (!run->point) return kv_fail(err, KV_ERR_MEMORY, "out of memory for %llu points", (unsigned long long)n);
  run->points = n * KVM_KERNELS;
  for (uint64_t i = 0; i < n; i++) {
    kv_status st = kvm_verify_check(&problems[i], err);
    if (st) {
      kva_run_free(run);
      return st;
    }
    if (problems[i].longest > longest->longest) longest = &problems[i];
    for (uint32_t k = 0; k < KVM_KERNELS; k++)
      predict_point(run, k, &problems[i], &run->point[i * KVM_KERNELS + k]);
  }
  judge(run, longest);
  return KV_OK;
}

void kva_run_free(kva_run *run) {
  free(run->point);
  run->point = NULL;
  run->points = 0;
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
}
