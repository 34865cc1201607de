#include "attribute.h"

#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- one ladder ---- */

typedef struct draw {
  kvm_roofs roofs;
  double scatter, t5, t6, t7;
} draw;

static void climb(const kva_evidence *e, const draw *d, double t[8]) {
  kvm_ladder l = kvm_ladder_of(e->useful, e->work, &d->roofs, true);
  memcpy(t, l.t, sizeof l.t);
  if (e->even > t[2]) t[2] = e->even;
  /* scatter raises what memory needs; T3 and T4 follow only where that exceeds the rest */
  double memory = e->work->chip[KVM_DRAM] / d->roofs.chip[KVM_DRAM].rate * d->scatter;
  t[3] = isnan(d->scatter) ? NAN : fmax(t[2], memory);
  if (!isnan(t[4])) t[4] = fmax(fmax(t[4], isnan(t[3]) ? t[2] : t[3]), e->busiest);
  t[5] = isnan(d->t5) ? NAN : fmax(isnan(t[4]) ? 0 : t[4], d->t5);
  t[6] = d->t6;
  t[7] = d->t7;
}

/* Shares between rungs that are both known. Without T3 the layout's share lies within placement's. */
static void shares(const double t[8], double nats[KVM_CAUSES]) {
  for (int i = 0; i < KVM_CAUSES; i++) {
    double below = i == KVM_C_PLACEMENT && isnan(t[3]) ? t[2] : t[i];
    nats[i] = below > 0 && t[i + 1] > 0 ? log(t[i + 1] / below) : NAN;
  }
}

/* How many times its even share the busiest SM has; NaN where that is not known. */
static double crowding(const kva_evidence *e) {
  double most = NAN;
  for (int r = 0; r < KVM_RESOURCES; r++)
    if (e->work->chip[r] > 0) most = fmax(most, e->work->sm[r] * e->roofs->sms / e->work->chip[r]);
  return most >= 1 ? most : NAN;
}

/* Gains by the ladder alone. Spread evenly, an SM's chains and misses shrink with its share of the work,
 * until a limit of the chip steps in. */
static void ladder_gains(const kva_evidence *e, const double t[8], double gain[KVM_CAUSES]) {
  const double chip = isnan(t[3]) ? t[2] : t[3], crowd = crowding(e),
               after = t[7] - t[6] + fmax(chip, t[6] / crowd);
  gain[KVM_C_PATH] = t[1] / t[0];
  gain[KVM_C_WORK] = t[2] / t[1];
  gain[KVM_C_SCATTER] = t[7] / (t[7] - (t[3] - t[2]));
  gain[KVM_C_PLACEMENT] = isnan(crowd) || isnan(t[7]) ? t[4] / chip : fmax(1, t[7] / after);
  gain[KVM_C_SERIAL] = t[7] / (t[7] - (t[5] - t[4]));
  gain[KVM_C_MEMORY] = t[7] / (t[7] - (t[6] - t[5]));
  gain[KVM_C_OVERHEAD] = t[7] / t[6];
}

/* The least time that the other causes need where one is taken out. */
static void what_stays(const kva_evidence *e, const draw *d, const double t[8], double stays[KVM_CAUSES]) {
  double with[8];
  draw best = *d, contiguous = *d;
  const double rate = d->roofs.chip[KVM_MMA].rate, faster = d->roofs.mma_best.rate / rate;
  if (faster > 1) {
    best.roofs.chip[KVM_MMA].rate *= faster;
    best.roofs.sm[KVM_MMA].rate *= faster;
  }
  climb(e, &best, with);
  stays[KVM_C_PATH] = with[4];
  stays[KVM_C_WORK] = t[1];
  contiguous.scatter = 1;
  climb(e, &contiguous, with);
  stays[KVM_C_SCATTER] = with[4];
  stays[KVM_C_PLACEMENT] = isnan(t[3]) ? t[2] : t[3];
  stays[KVM_C_SERIAL] = t[4];
  stays[KVM_C_MEMORY] = t[7] - t[6] + t[5];
  stays[KVM_C_OVERHEAD] = t[6];
}

/* No gain takes out more than there is. */
static double limited(double gain, double whole, double stays) {
  double most = fmax(1, whole / stays);
  return isnan(whole / stays) ? gain : fmin(gain, most);
}

static void bounded_gains(const kva_evidence *e, const draw *d, const double t[8], double gain[KVM_CAUSES]) {
  double stays[KVM_CAUSES];
  ladder_gains(e, t, gain);
  what_stays(e, d, t, stays);
  for (int i = 0; i < KVM_CAUSES; i++) gain[i] = limited(gain[i], t[7], stays[i]);
}

/* ---- draws ---- */

static double uniform(gsl_rng *rng, const kvm_estimate *x, double value) {
  if (isnan(value) || !(x->low > 0) || !(x->high >= x->low) || !(x->value > 0)) return value;
  return value * gsl_ran_flat(rng, x->low, x->high) / x->value;
}

static void draw_roofs(gsl_rng *rng, const kva_evidence *e, kvm_roofs *roofs) {
  static const struct {
    kvm_resource r;
    kvm_parameter p;
  } of[] = {{KVM_DRAM, KVM_P_DRAM_RATE},
            {KVM_L2, KVM_P_L2_RATE},
            {KVM_LINK, KVM_P_LINK_RATE},
            {KVM_L1, KVM_P_WAVE_RATE},
            {KVM_MMA, KVM_P_MMA_RATE}};
  *roofs = *e->roofs;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    kvm_estimate fallback = {1, 0.95, 1.05, KVM_INFERENCE, ""};
    const kvm_estimate *x = e->ranges ? &e->ranges->p[of[i].p] : &fallback;
    double was = roofs->chip[of[i].r].rate, now = uniform(rng, x, was), factor = was > 0 ? now / was : 1;
    roofs->chip[of[i].r].rate = now;
    roofs->sm[of[i].r].rate *= factor;
    if (of[i].r == KVM_MMA) roofs->mma_best.rate *= factor;
  }
}

static double draw_time(gsl_rng *rng, const kva_timing *x, double common) {
  double sample[64];
  if (!x->n) return NAN;
  uint32_t n = x->n < 64 ? x->n : 64;
  for (uint32_t i = 0; i < n; i++) sample[i] = x->samples[gsl_rng_uniform_int(rng, x->n)];
  gsl_sort(sample, 1, n);
  return gsl_stats_median_from_sorted_data(sample, 1, n) * exp(gsl_ran_gaussian(rng, x->log_error) + common);
}

static double centre(const kva_timing *x) {
  double sample[1024];
  if (!x->n) return NAN;
  uint32_t n = x->n < 1024 ? x->n : 1024;
  memcpy(sample, x->samples, n * sizeof *sample);
  gsl_sort(sample, 1, n);
  return gsl_stats_median_from_sorted_data(sample, 1, n);
}

static void interval(double *v, size_t n, double value, double *low, double *high) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++)
    if (isfinite(v[i])) v[kept++] = v[i];
  *low = *high = value;
  if (kept < 2) return;
  gsl_sort(v, 1, kept);
  *low = fmin(value, gsl_stats_quantile_from_sorted_data(v, 1, kept, 0.025));
  *high = fmax(value, gsl_stats_quantile_from_sorted_data(v, 1, kept, 0.975));
}

/* A sample without its launches. */
static double within(double sample, double launches) {
  return isnan(sample) || !(launches > 0) ? sample : fmax(sample - launches, sample / 100);
}

/* A scatter of its range, and the modelled times with it: they go straight from one end to the middle to the other. */
static void draw_scatter(gsl_rng *rng, const kva_evidence *e, draw *d) {
  const double low = e->scatter_low, high = e->scatter_high, at = e->scatter;
  d->scatter = at;
  if (!(low > 0) || !(high > low) || !(low <= at && at <= high)) return;
  d->scatter = gsl_ran_flat(rng, low, high);
  const bool above = d->scatter > at;
  const double end = above ? high : low, kernel = above ? e->kernel_high : e->kernel_low, middle = centre(&e->kernel);
  if (!(kernel > 0) || !(middle > 0) || end == at) return;
  const double more = (kernel / middle - 1) * (d->scatter - at) / (end - at) * d->t6;
  d->t6 += more;
  d->t7 += more;
}

static void draw_ladder(gsl_rng *rng, const kva_evidence *e, draw *d, double t[8]) {
  double common = gsl_ran_gaussian(rng, e->common_error);
  draw_roofs(rng, e, &d->roofs);
  double launches = uniform(rng, &e->launches, e->launches.value);
  d->t5 = within(draw_time(rng, &e->resident, common), launches);
  d->t6 = within(draw_time(rng, &e->kernel, common), launches);
  d->t7 = draw_time(rng, &e->whole, common);
  draw_scatter(rng, e, d);
  climb(e, d, t);
  if (!(e->common_error > 0)) return;
  for (int i = 6; i < 8; i++) /* a modelled time is kept above what the work needs; so is one that is drawn */
    if (t[i] < t[4]) t[i] = t[4];
}

/* Each draw begins anew, so that two operations have draw k of the ceilings in common. */
bool kva_attribute_draws(const kva_evidence *e, double nats[KVA_DRAWS][KVM_CAUSES], double whole[KVA_DRAWS]) {
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
  if (!rng) return false;
  for (size_t k = 0; k < KVA_DRAWS; k++) {
    double t[8];
    draw d;
    gsl_rng_set(rng, (unsigned long)(e->seed + k + 1)); /* 0 would stand for another seed */
    draw_ladder(rng, e, &d, t);
    shares(t, nats[k]);
    whole[k] = t[7];
  }
  gsl_rng_free(rng);
  return true;
}

void kva_draws_interval(double *v, size_t n, double value, double *low, double *high) {
  interval(v, n, value, low, high);
}

/* T7 with the worst of the scatter's range. */
static double slowest(const kva_evidence *e, double whole) {
  const double more = e->kernel_high - centre(&e->kernel);
  return e->kernel_high > 0 && more > 0 ? whole + more : whole;
}

/* A model that was asked at the ends of the scatter tells what they do to its gain: the ladder would have all of T3 in it. */
static void scatter_gain_of_model(const kva_evidence *e, kva_attribution *a) {
  kva_cause *c = &a->cause[KVM_C_SCATTER];
  const double whole = a->t[7], less = centre(&e->kernel) - e->kernel_low;
  if (!e->gain || isnan(e->gain[KVM_C_SCATTER]) || !(e->kernel_low > 0) || !(e->kernel_high > 0)) return;
  c->gain_low = fmin(c->gain, fmax(1, c->gain * (whole - fmax(0, less)) / whole));
  c->gain_high = c->gain * slowest(e, whole) / whole;
}

/* `ladder`: the gains that the ladder alone gives. */
static void find_intervals(const kva_evidence *e, const double ladder[KVM_CAUSES], kva_attribution *a) {
  static const size_t n = KVA_DRAWS;
  double nats[KVM_CAUSES][KVA_DRAWS], gain[KVM_CAUSES][KVA_DRAWS];
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
  if (!rng) return;
  gsl_rng_set(rng, (unsigned long)e->seed);
  for (size_t k = 0; k < n; k++) {
    double t[8], s[KVM_CAUSES], g[KVM_CAUSES];
    draw d;
    draw_ladder(rng, e, &d, t);
    shares(t, s);
    bounded_gains(e, &d, t, g);
    for (int i = 0; i < KVM_CAUSES; i++) {
      nats[i][k] = s[i];
      gain[i][k] = g[i];
    }
  }
  gsl_rng_free(rng);
  for (int i = 0; i < KVM_CAUSES; i++) {
    kva_cause *c = &a->cause[i];
    const double middle = ladder[i];
    if (!c->known) continue;
    interval(nats[i], n, c->nats, &c->low, &c->high);
    interval(gain[i], n, middle, &c->gain_low, &c->gain_high);
    if (middle > 0 && c->gain > 0) { /* the model's gain with the spread of the ladder's */
      c->gain_low *= c->gain / middle;
      c->gain_high *= c->gain / middle;
    }
    c->gain_low = fmax(c->gain_low, fmin(1, c->gain)); /* what takes a cause out makes nothing slower */
    c->gain_high = fmax(c->gain, limited(c->gain_high, slowest(e, a->t[7]), a->t[0]));
  }
  if (a->cause[KVM_C_SCATTER].known && e->scatter_high > e->scatter_low) scatter_gain_of_model(e, a);
}

/* ---- words ---- */

static void say(kva_attribution *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(kva_attribution *a, const char *format, ...) {
  size_t have = strlen(a->verdict);
  va_list args;
  va_start(args, format);
  (void)vsnprintf(a->verdict + have, sizeof a->verdict - have, format, args);
  va_end(args);
}

static void advise(kva_attribution *a, const kva_evidence *e, kvm_cause c) {
  const kva_cause *x = &a->cause[c];
  static const char *const fix[KVM_CAUSES] = {"the best instructions of this GPU gain",
                                              "executing only the useful work gains",
                                              "a contiguous layout gains",
                                              "splitting the prefix over all SMs gains",
                                              "taking out the chains and barriers inside a block gains",
                                              "hiding the misses gains",
                                              "one launch without gaps gains"};
  if (c == KVM_C_PLACEMENT) say(a, " (%.0f of %.0f SMs busy)", e->work->busy_sms, e->roofs->sms);
  if (c == KVM_C_WORK) {
    kvm_ladder l = kvm_ladder_of(e->useful, e->work, e->roofs, true);
    say(a, " (most of it %s)", kvm_resource_name(l.binding));
  }
  say(a, x->gain < 1.1 ? ", %s%s %.2fx" : ", %s%s %.2gx", fix[c], x->at_most ? " up to" : "", x->gain);
}

static const double EFFECT = 0.1;   /* nats; less is named where it is the largest share, else not */
static const double NOTHING = 5e-3; /* nats that round to none */

/* The largest share that is not said yet and is worth a word; -1: none. */
static int next_cause(const kva_attribution *a, const bool said[KVM_CAUSES]) {
  int best = -1;
  for (int i = 0; i < KVM_CAUSES; i++) {
    const kva_cause *x = &a->cause[i];
    if (said[i] || !x->known || !(x->nats > ((kvm_cause)i == a->largest ? NOTHING : EFFECT))) continue;
    if (best < 0 || x->nats > a->cause[best].nats) best = i;
  }
  return best;
}

/* A share that is small but a good part of all has an effect: of a kernel near its floor every share is
 * small. */
static bool no_effect(const kva_attribution *a, int c) {
  const kva_cause *x = &a->cause[c];
  const double most = fmin(EFFECT, fmax(NOTHING, log(a->t[7] / a->t[0]) / 4));
  return x->known && x->gain_high <= 1.1 && fabs(x->nats) <= most;
}

static void write_verdict(const char *name, const kva_evidence *e, kva_attribution *a) {
  bool said[KVM_CAUSES] = {false};
  if (isnan(a->t[0]) || isnan(a->t[7])) {
    say(a, "inconclusive: %s is not known; measure it",
        isnan(a->t[0]) ? "the floor" : "the time of the operation");
    return;
  }
  say(a, "%s is %.3gx (%.1f nats) above its floor", name, a->t[7] / a->t[0], log(a->t[7] / a->t[0]));
  for (int n = 0; n < 3; n++) {
    int best = next_cause(a, said);
    if (best < 0) break;
    const kva_cause *x = &a->cause[best];
    said[best] = true;
    say(a, x->nats > EFFECT ? "%s %s%s %.1f nats" : "%s %s%s %.2f nats", n ? ";" : ":",
        kvm_cause_name((kvm_cause)best), x->at_least ? " at least" : "", x->nats);
    advise(a, e, (kvm_cause)best);
  }
  bool first = true;
  for (int i = 0; i < KVM_CAUSES; i++)
    if (!said[i] && no_effect(a, i)) {
      say(a, "%s%s", first ? "; no effect: " : ", ", kvm_cause_name((kvm_cause)i));
      first = false;
    }
  for (int i = 0; i < KVM_CAUSES; i++)
    if (!a->cause[i].known) say(a, "; %s: not known", kvm_cause_name((kvm_cause)i));
  if (a->inconsistent)
    say(a,
        "; INCONSISTENT: the kernel is faster than without its misses, so a ceiling or an experiment is "
        "wrong");
  say(a, ".");
}

void kva_attribute(const char *name, const kva_evidence *e, kva_attribution *a) {
  double nats[KVM_CAUSES], gain[KVM_CAUSES], stays[KVM_CAUSES];
  const double launches = e->launches.value;
  draw d = {*e->roofs, e->scatter, within(centre(&e->resident), launches), within(centre(&e->kernel), launches),
            centre(&e->whole)};
  const unsigned missing = kvm_ladder_of(e->useful, e->work, e->roofs, 1).missing;
  *a = (kva_attribution){.largest = KVM_CAUSES, .whole = true};
  climb(e, &d, a->t);
  shares(a->t, nats);
  bounded_gains(e, &d, a->t, gain);
  what_stays(e, &d, a->t, stays);
  for (int i = 0; i < KVM_CAUSES; i++) {
    kva_cause *c = &a->cause[i];
    *c = (kva_cause){.known = !isnan(nats[i]) && !(e->unknown >> i & 1),
                     .at_least = e->at_least >> i & 1,
                     .nats = nats[i],
                     .gain = gain[i]};
    if (i == KVM_C_WORK && missing & 0xffu) c->known = false; /* T2 is T1 there, and says nothing */
    c->at_most = i == KVM_C_PATH || i == KVM_C_WORK || i == KVM_C_PLACEMENT;
    if (e->gain && !isnan(e->gain[i])) {
      c->gain = limited(e->gain[i], a->t[7], stays[i]);
      c->at_most = i == KVM_C_PLACEMENT;
    }
    a->whole = a->whole && c->known;
    if (!c->known) continue;
    a->nats += c->nats;
    if (a->largest == KVM_CAUSES || c->nats > a->cause[a->largest].nats) a->largest = (kvm_cause)i;
  }
  a->inconsistent = a->t[6] < a->t[5] * 0.98;
  find_intervals(e, gain, a);
  write_verdict(name, e, a);
}
