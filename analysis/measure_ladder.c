#include "measure_ladder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "roof_gather.h"

const kva_measured_row *kva_measured_resident(const kva_measured *m, const kva_measured_row *r) {
  for (size_t i = 0; i < m->rows; i++) {
    const kva_measured_row *x = &m->row[i];
    if (x->kind == r->kind && x->experiment == KVA_WARM_GRAPH && x->batch == r->batch &&
        x->longest == r->longest && x->tokens == r->tokens)
      return x;
  }
  return NULL;
}

double kva_described_l1(const kvk_structure *s) {
  return s->smem_read_bytes + s->smem_write_bytes + s->l1_load_bytes;
}

bool kva_counts_l1(const kvk_counters *c) {
  return c && c->wavefronts > 0;
}

/* What several SMs read of the same lines meets on the way: the L2 gives at least what one of them takes. */
static void described(const kvk_structure *s, kvm_work *w) {
  const double own = s->partial_bytes + s->output_bytes;
  w->chip[KVM_DRAM] = s->unique_kv_bytes + own;
  w->chip[KVM_LINK] = s->link_bytes;
  w->chip[KVM_L2] = fmax(w->chip[KVM_DRAM], s->row_groups ? s->link_bytes / (double)s->row_groups : 0);
  w->chip[KVM_L1] = kva_described_l1(s);
  w->chip[KVM_MMA] = s->mma_flops;
}

static double larger(double described, double counted) {
  return counted > described ? counted : described;
}

kvm_work kva_experiments_work(const kva_experiments *x) {
  const kvk_structure *s = x->structure;
  const kvk_counters *c = x->counted;
  const double blocks = (double)s->blocks;
  kvm_work w = {.fits = true, .blocks = s->blocks, .busy_sms = fmin(blocks, x->sms)};
  described(s, &w);
  w.chip[KVM_DRAM] =
      fmax(w.chip[KVM_DRAM], x->useful_bytes); /* slot numbers and queries come from there too */
  if (c) {
    w.chip[KVM_DRAM] = larger(w.chip[KVM_DRAM], c->dram_read + c->dram_write);
    /* reads of the L2 are no such figure: where it is in two partitions, what one fetches from the other
     * counts again, and the L2's ceiling is in bytes that SMs got */
    w.chip[KVM_LINK] = larger(w.chip[KVM_LINK], c->link);
    w.chip[KVM_L2] = larger(w.chip[KVM_L2], s->row_groups ? c->link / (double)s->row_groups : 0);
  }
  const bool l1 = x->counts_l1 && kva_counts_l1(c);
  if (l1) w.chip[KVM_L1] = 128 * c->wavefronts;
  double share = s->tiles ? (double)s->tiles_per_block * ceil(blocks / x->sms) / (double)s->tiles
                          : 1 / fmax(1, w.busy_sms);
  for (int k = 0; k < KVM_RESOURCES; k++) w.sm[k] = w.chip[k] * fmin(1, share);
  if (c) w.sm[KVM_LINK] = larger(w.sm[KVM_LINK], c->link_max);
  if (l1 && c->wavefronts_max > 0) w.sm[KVM_L1] = 128 * c->wavefronts_max;
  return w;
}

static kvm_useful useful_of(const kva_experiments *x) {
  return (kvm_useful){.bytes = x->useful_bytes,
                      .flops = x->useful_flops,
                      .kv_bytes = x->structure->unique_kv_bytes,
                      .intensity = x->useful_flops / x->useful_bytes};
}

/* What a replayed operation of so many kernels spends on launching them. */
static kvm_estimate launches_of(const kvk_structure *s, const kvm_timing *ranges) {
  const kvm_estimate *one = ranges ? &ranges->p[KVM_P_LAUNCH] : NULL,
                     *next = ranges ? &ranges->p[KVM_P_NEXT_LAUNCH] : NULL;
  const double more = s->launches > 1 ? s->launches - 1 : 0;
  if (!one || isnan(one->value) || (more > 0 && isnan(next->value))) return (kvm_estimate){0};
  if (!(more > 0)) return *one;
  return (kvm_estimate){one->value + more * next->value, one->low + more * next->low,
                        one->high + more * next->high, KVM_MEASURED, next->source};
}

static kva_evidence evidence_of(const kva_experiments *x, const kvm_roofs *roofs, const kvm_timing *ranges,
                                const kvm_work *w, const kvm_useful *u) {
  return (kva_evidence){.useful = u,
                        .work = w,
                        .roofs = roofs,
                        .ranges = ranges,
                        .scatter = x->scatter,
                        .resident = x->resident,
                        .kernel = x->whole,
                        .whole = x->whole,
                        .launches = launches_of(x->structure, ranges),
                        .gain = x->gain,
                        .seed = x->seed};
}

void kva_experiments_attribute(const kva_experiments *x, const kvm_roofs *roofs, const kvm_timing *ranges,
                               kva_attribution *a) {
  const kvm_work w = kva_experiments_work(x);
  const kvm_useful u = useful_of(x);
  const kva_evidence e = evidence_of(x, roofs, ranges, &w, &u);
  kva_attribute(x->name, &e, a);
}

bool kva_experiments_draws(const kva_experiments *x, const kvm_roofs *roofs, const kvm_timing *ranges,
                           double nats[KVA_DRAWS][KVM_CAUSES], double whole[KVA_DRAWS]) {
  const kvm_work w = kva_experiments_work(x);
  const kvm_useful u = useful_of(x);
  const kva_evidence e = evidence_of(x, roofs, ranges, &w, &u);
  return kva_attribute_draws(&e, nats, whole);
}

/* ---- the attention kernels ---- */

/* Counters of the same kernel and problem on contiguous rows; NULL for none. */
static const kvk_counters *counted_of(const kva_measured *m, const kva_measured_row *r) {
  for (size_t i = 0; i < m->rows; i++) {
    const kva_measured_row *x = &m->row[i];
    if (x->counted && x->kind == r->kind && x->place == KVA_CONTIGUOUS && x->batch == r->batch &&
        x->longest == r->longest && x->tokens == r->tokens)
      return &x->counters;
  }
  return NULL;
}

kv_status kva_layout_cost_of(const kvm_gpu *gpu, const kva_card_memory *card, const kva_layout *l,
                             const kva_calibration *gathers, kva_layout_cost *cost, kv_error *err) {
  const uint32_t row_bytes = 2 * (KVK_LATENT + KVK_ROPE);
  uint64_t span = 0;
  kva_gather g;
  *cost = (kva_layout_cost){.scatter = NAN};
  if (!l) return KV_OK;
  for (uint64_t i = 0; i < l->tokens; i++)
    if ((uint64_t)l->slots[i] + 1 > span) span = (uint64_t)l->slots[i] + 1;
  cost->scatter = gathers ? kva_calibration_scatter_list(gathers, row_bytes, l->tokens, span) : NAN;
  if (!isnan(cost->scatter)) {
    (void)snprintf(cost->source, sizeof cost->source,
                   "gather of the same slots by the calibration, measured");
    return KV_OK;
  }
  kv_status st = kva_gather_of(gpu, card, l, row_bytes, &g, err);
  if (st) return st;
  cost->scatter = g.layout.at.scatter;
  if (isnan(cost->scatter)) (void)snprintf(cost->source, sizeof cost->source, "not known: %.200s", g.why);
  else
    (void)snprintf(cost->source, sizeof cost->source, "memory model of %.48s, %.300s", gpu->key, g.status);
  return KV_OK;
}

double kva_measured_scatter(const kva_measured *m, kva_place place, const kva_calibration *gathers,
                            char source[KVA_COST_SOURCE]) {
  static const uint32_t row_bytes = 2 * (KVK_LATENT + KVK_ROPE);
  double scatter = NAN;
  const char *text = "none: all slots stand for a few rows, which come from the L2";
  if (place == KVA_CONTIGUOUS) {
    scatter = 1;
    text = "1 by definition";
  }
  if (place == KVA_RANDOM) {
    scatter = gathers ? kva_calibration_scatter(gathers, row_bytes, 1) : NAN;
    text = isnan(scatter) ? "not known: no calibration with gathers of such rows"
                          : "gathers of the calibration, measured";
  }
  if (place == KVA_RECORDED) {
    scatter = m->recorded.scatter > 0 ? m->recorded.scatter : NAN;
    text = m->recorded.source[0] ? m->recorded.source
                                 : "not known: neither a gather of it nor a memory model was given";
  }
  if (source) (void)snprintf(source, KVA_COST_SOURCE, "%s", text);
  return scatter;
}

static kva_experiments experiments_of(const kva_measured *m, const kva_measured_row *r,
                                      const kva_calibration *gathers) {
  const kva_measured_row *resident = kva_measured_resident(m, r);
  return (kva_experiments){
      .name = kvk_kind_name(r->kind),
      .structure = &r->structure,
      .sms = m->origin.gpu.sms,
      .useful_bytes = r->useful_bytes,
      .useful_flops = r->useful_flops,
      .counted = counted_of(m, r),
      .counts_l1 = true,
      .scatter = kva_measured_scatter(m, r->place, gathers, NULL),
      .resident = {resident ? resident->seconds : NULL, resident ? (uint32_t)resident->time.n : 0, 0},
      .whole = {r->seconds, (uint32_t)r->time.n, 0},
      .seed = m->origin.seed};
}

kvm_work kva_measured_work(const kva_measured *m, const kva_measured_row *r) {
  const kva_experiments x = experiments_of(m, r, NULL);
  return kva_experiments_work(&x);
}

/* As kva_attribute() takes launches off. */
static double without(double seconds, double launches) {
  return launches > 0 ? fmax(seconds - launches, seconds / 100) : seconds;
}

void kva_measured_rungs(const kva_measured *m, const kva_measured_row *r, const kvm_roofs *roofs,
                        const kvm_timing *ranges, const kva_calibration *gathers, double t[8]) {
  const kva_measured_row *resident = kva_measured_resident(m, r);
  const kva_experiments x = experiments_of(m, r, gathers);
  kvm_work w = kva_experiments_work(&x);
  kvm_useful u = useful_of(&x);
  kvm_ladder l = kvm_ladder_of(&u, &w, roofs, x.scatter);
  memcpy(t, l.t, sizeof l.t);
  if (r->experiment != KVA_COLD_GRAPH) return;
  const double launches = launches_of(&r->structure, ranges).value;
  if (resident) t[5] = fmax(isnan(t[4]) ? 0 : t[4], without(resident->time.median, launches));
  t[6] = without(r->time.median, launches);
  t[7] = r->time.median;
}

void kva_measured_attribute(const kva_measured *m, const kva_measured_row *r, const kvm_roofs *roofs,
                            const kvm_timing *ranges, const kva_calibration *gathers, kva_attribution *a) {
  kva_experiments x = experiments_of(m, r, gathers);
  double gain[KVM_CAUSES];
  for (int i = 0; i < KVM_CAUSES; i++) gain[i] = NAN;
  if (r->place != KVA_CONTIGUOUS) gain[KVM_C_SCATTER] = r->to_contiguous.value;
  x.gain = gain;
  kva_experiments_attribute(&x, roofs, ranges, a);
}
