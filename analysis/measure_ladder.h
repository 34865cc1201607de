/* measure_ladder.h - the ladder of a measured point, from the experiments: executed work as the launch
 * describes it (or as counters saw it), T5 from the warm run on few rows, T7 from the cold one.
 *
 * T6 is T7 here: the kernels of an operation are replayed as one graph, and no event stands between them. For
 * layouts other than contiguous T3 is not known; what scatter costs is the paired ratio to contiguous, which
 * stands as its gain.
 */
#ifndef KVA_MEASURE_LADDER_H
#define KVA_MEASURE_LADDER_H

#include "attribute.h"
#include "measure.h"

/* The row of the same kernel and problem run warm on few rows; NULL for none. */
const kva_measured_row *kva_measured_resident(const kva_measured *m, const kva_measured_row *r);
/* Work of the launch on the chip and on its busiest SM. */
kvm_work kva_measured_work(const kva_measured *m, const kva_measured_row *r);
/* Rungs alone, NaN where not known; only a cold graph row has T5 to T7. */
void kva_measured_rungs(const kva_measured *m, const kva_measured_row *r, const kvm_roofs *roofs,
                        double t[8]);
/* Shares, gains, intervals, verdict: the row must be a cold graph row. */
void kva_measured_attribute(const kva_measured *m, const kva_measured_row *r, const kvm_roofs *roofs,
                            const kvm_timing *ranges, kva_attribution *a);

#endif
