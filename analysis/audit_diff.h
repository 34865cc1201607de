/* audit_diff.h - two versions of a library compared. */
#ifndef KVA_AUDIT_DIFF_H
#define KVA_AUDIT_DIFF_H

#include <stdbool.h>
#include <stdio.h>

#include "audit.h"

/* Files are matched by their path below `before_root` and `after_root` (the arguments the audits were made from); two
 * single files match whatever they are called. Told: targets lost and gained, entries whose code is the same to the
 * byte, kernels gone, new and kept by name, and for sm != 0 the families whose counts by verdict differ. The JSON
 * form has schema audit-diff-1. Both audits need kva_audit_families. */
kv_status kva_tell_diff(FILE *out, const kva_audit *before, const char *before_root, const kva_audit *after,
                        const char *after_root, unsigned sm, bool as_json, kv_error *err);

#endif
