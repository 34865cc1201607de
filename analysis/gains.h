/* gains.h - predicted gain against realised gain of the fixes that our kernels let one make: two kernels that
 * differ by the fix alone, both measured on the same problem and layout in one file, and both predicted. Of
 * the planted gather (a block a request) also the same rows by more blocks.
 */
#ifndef KVA_GAINS_H
#define KVA_GAINS_H

#include <hdf5.h>

#include "validate.h"

typedef struct kva_gain {
  const char *fix; /* "more splits", "more stages", "splits", "shared reads" */
  const kva_reading *before, *after;
  double realised, low, high; /* time before / time after; low, high NaN without intervals */
  double predicted;           /* NaN where a kernel has no program */
} kva_gain;

/* Fills up to `room` (gain may be NULL with 0); returns how many there are. The readings must have been
 * validated (kva_validate). */
size_t kva_gains(const kva_readings *m, size_t sets, kva_gain *gain, size_t room);

/* Largest |predicted / realised - 1| of a fix (NULL: of all), NaN where none is predicted; *n: how many are.
 */
double kva_gains_worst(const kva_gain *gain, size_t gains, const char *fix, size_t *n);

/* /gains of a kvvalidate-1 dataset: fix, before, after, layout, prefix, heads, batch, realised, realised_low,
 * realised_high, predicted. */
kv_status kva_gains_write(hid_t file, const kva_gain *gain, size_t n, kv_error *err);

#endif
