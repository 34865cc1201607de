#include "measure_ladder.h"

#include <math.h>
#include <string.h>

const kva_measured_row *kva_measured_resident(const kva_measured *m, const kva_measured_row *r) {
  for (size_t i = 0; i < m->rows; i++) {
    const kva_measured_row *x = &m->row[i];
    if (x->kind == r->kind && x->experiment == KVA_WARM_GRAPH && x->batch == r->batch &&
        x->longest == r->longest && x->tokens == r->tokens)
      return x;
  }
  return NULL;
}

kvm_work kva_measured_work(const kva_measured *m, const kva_measured_row *r) {
  const kvk_structure *s = &r->structure;
  double sms = m->origin.gpu.sms, blocks = (double)s->blocks, own = s->partial_bytes + s->output_bytes;
  kvm_work w = {.fits = true, .blocks = s->blocks, .busy_sms = fmin(blocks, sms)};
  w.chip[KVM_DRAM] = s->unique_kv_bytes + own;
  w.chip[KVM_L2] = w.chip[KVM_DRAM]; /* each line at least once: reads of several SMs meet on the way */
  w.chip[KVM_LINK] = s->link_bytes;
  w.chip[KVM_L1] = s->smem_read_bytes + s->smem_write_bytes;
  w.chip[KVM_MMA] = s->mma_flops;
  double share =
      s->tiles ? (double)s->tiles_per_block * ceil(blocks / sms) / (double)s->tiles : 1 / fmax(1, w.busy_sms);
  for (int k = KVM_L2; k < KVM_RESOURCES; k++) w.sm[k] = w.chip[k] * fmin(1, share);
  return w;
}

static kvm_useful useful_of(const kva_measured_row *r) {
  return (kvm_useful){.bytes = r->useful_bytes,
                      .flops = r->useful_flops,
                      .kv_bytes = r->structure.unique_kv_bytes,
                      .intensity = r->useful_flops / r->useful_bytes};
}

void kva_measured_rungs(const kva_measured *m, const kva_measured_row *r, const kvm_roofs *roofs,
                        double t[8]) {
  const kva_measured_row *resident = kva_measured_resident(m, r);
  kvm_work w = kva_measured_work(m, r);
  kvm_useful u = useful_of(r);
  kvm_ladder l = kvm_ladder_of(&u, &w, roofs, r->place == KVA_CONTIGUOUS);
  memcpy(t, l.t, sizeof l.t);
  if (r->experiment != KVA_COLD_GRAPH) return;
  if (resident) t[5] = fmax(isnan(t[4]) ? 0 : t[4], resident->time.median);
  t[6] = t[7] = r->time.median;
}

void kva_measured_attribute(const kva_measured *m, const kva_measured_row *r, const kvm_roofs *roofs,
                            const kvm_timing *ranges, kva_attribution *a) {
  const kva_measured_row *resident = kva_measured_resident(m, r);
  kvm_work w = kva_measured_work(m, r);
  kvm_useful u = useful_of(r);
  double gain[KVM_CAUSES];
  for (int i = 0; i < KVM_CAUSES; i++) gain[i] = NAN;
  if (r->place != KVA_CONTIGUOUS) gain[KVM_C_SCATTER] = r->to_contiguous.value;
  const kva_timing whole = {r->seconds, (uint32_t)r->time.n, 0};
  const kva_evidence e = {
      .useful = &u,
      .work = &w,
      .roofs = roofs,
      .ranges = ranges,
      .scatter = r->place == KVA_CONTIGUOUS ? 1 : NAN,
      .resident = {resident ? resident->seconds : NULL, resident ? (uint32_t)resident->time.n : 0, 0},
      .kernel = whole,
      .whole = whole,
      .gain = gain,
      .seed = m->origin.seed};
  kva_attribute(kvk_kind_name(r->kind), &e, a);
}
