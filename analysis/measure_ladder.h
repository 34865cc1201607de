/* measure_ladder.h - the ladder of a measured operation, from its experiments: executed work as the launch
 * describes it and as counters saw it, T5 from the warm run on few rows, T6 and T7 from the cold one.
 *
 * Any kernel comes through kva_experiments_attribute(): the attention kernels (kva_measured_attribute) and
 * the planted ones (selftest.h) alike. T6 is T7 less the launches that the calibration measured apart; T5 is
 * the warm run less the same. What a layout costs (T3) is known where the calibration has gathered rows of
 * that size so, or that very list of slots, or where the memory model says it of a recorded one: the source
 * is told. For attention's layouts other than contiguous the paired ratio stands as the gain instead.
 */
#ifndef KVA_MEASURE_LADDER_H
#define KVA_MEASURE_LADDER_H

#include "attribute.h"
#include "card_memory.h"
#include "gpu.h"
#include "layout.h"
#include "measure.h"

/* The experiments of one operation, whatever its kernels. */
typedef struct kva_experiments {
  const char *name;
  const kvk_structure *structure;
  double sms, useful_bytes, useful_flops;
  const kvk_counters *counted; /* of the operation on contiguous rows, as work is no matter of the layout;
                                  NULL: not counted */
  bool counts_l1; /* L1 work is what was counted: of kernels whose accesses have no bank conflicts, which would
                     count as work */
  double scatter;             /* gather ceiling of contiguous rows over that of this layout; NaN: not known */
  kva_timing resident, whole; /* warm on few rows; cold */
  const double *gain;         /* as in kva_evidence */
  uint64_t seed;
} kva_experiments;
/* Bytes that the launch describes or, where more, that counters saw from memory and over the links. Of L1 and
 * shared memory the counted wavefronts, of the chip and of its busiest SM (what cp.async writes is not among
 * them), with counts_l1; else what is described: wavefronts that conflicts add are no work but serial. */
kvm_work kva_experiments_work(const kva_experiments *x);
/* Shares, gains, intervals, verdict. `ranges` gives what launches cost; NULL: T6 is T7. */
void kva_experiments_attribute(const kva_experiments *x, const kvm_roofs *roofs, const kvm_timing *ranges,
                               kva_attribution *a);
/* As kva_attribute_draws(). */
bool kva_experiments_draws(const kva_experiments *x, const kvm_roofs *roofs, const kvm_timing *ranges,
                           double nats[KVA_DRAWS][KVM_CAUSES], double whole[KVA_DRAWS]);

/* Bytes through L1 and shared memory by the kernel's structure. */
double kva_described_l1(const kvk_structure *s);
/* Whether a counter saw wavefronts. `c` may be NULL. */
bool kva_counts_l1(const kvk_counters *c);

/* The row of the same kernel and problem run warm on few rows; NULL for none. */
const kva_measured_row *kva_measured_resident(const kva_measured *m, const kva_measured_row *r);
/* What a recorded layout costs where memory binds: by the calibration's gather of the same slots, else by the
 * memory model of `gpu` and of its card. `card`, `layout`, `gathers` may be NULL. Where neither says it, *cost tells why. Errors as
 * kva_gather_of(). */
kv_status kva_layout_cost_of(const kvm_gpu *gpu, const kva_card_memory *card, const kva_layout *layout,
                             const kva_calibration *gathers, kva_layout_cost *cost, kv_error *err);
/* T3 / T2 of a place where memory binds; NaN where it is not known. *source (may be NULL) says whose it is,
 * or why it is not. */
double kva_measured_scatter(const kva_measured *m, kva_place place, const kva_calibration *gathers,
                            char source[KVA_COST_SOURCE]);
/* Work of the launch on the chip and on its busiest SM. */
kvm_work kva_measured_work(const kva_measured *m, const kva_measured_row *r);
/* Rungs alone, NaN where not known; only a cold graph row has T5 to T7. */
void kva_measured_rungs(const kva_measured *m, const kva_measured_row *r, const kvm_roofs *roofs,
                        const kvm_timing *ranges, const kva_calibration *gathers, double t[8]);
/* Shares, gains, intervals, verdict: the row must be a cold graph row. */
void kva_measured_attribute(const kva_measured *m, const kva_measured_row *r, const kvm_roofs *roofs,
                            const kvm_timing *ranges, const kva_calibration *gathers, kva_attribution *a);

#endif
