/* kv_guard.h - HDF5 1.10 crashes or hangs on some damaged files, so whatever reads a file that we did not just
 * write ourselves does it in a forked, watched child: a crash or a hang there becomes KV_ERR_INPUT here.
 */
#ifndef KV_GUARD_H
#define KV_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_status.h"

/* Seconds without a sign of life after which a child is taken for hung. KVROOF_GUARD_SECONDS overrides it. */
#define KV_GUARD_SECONDS 60

/* What a guarded function gets. Call kv_guard_alive() at least every few seconds. */
typedef struct kv_guard kv_guard;
void kv_guard_alive(kv_guard *guard);

typedef kv_status (*kv_guard_fn)(kv_guard *guard, void *arg, kv_error *err);

/* Runs fn(guard, arg, err) in a forked child and returns what it returned, its error text included. `arg` is the
 * parent's memory as it was at the call; what the child changes is seen here only if it lies in memory of
 * kv_guard_share(). A signal or a hang is KV_ERR_INPUT with "`path`: ..."; outputs the child had begun with
 * kv_h5_create() beside `output` (may be NULL) are removed then. */
kv_status kv_guard_run(kv_guard_fn fn, void *arg, const char *path, const char *output, kv_error *err);

/* Anonymous memory shared with children forked later, zeroed; NULL if there is none. */
void *kv_guard_share(uint64_t bytes);
void kv_guard_unshare(void *memory, uint64_t bytes);

/* KV_ERR_IO if `path` is missing, unreadable or a folder; KV_ERR_INPUT if it is no HDF5 file (by its signature).
 * Touches no HDF5 code. */
kv_status kv_guard_is_hdf5(const char *path, kv_error *err);

/* Opens `path` in a child, checks that its root attribute Conventions is `conventions` (e.g. "kvlayout-1"), that
 * no link or dataset leads out of the file, and reads every dataset to its end. After KV_OK the caller may open
 * the file in its own process. Costs one read of the file: for files of some megabytes. */
kv_status kv_guard_check_h5(const char *path, const char *conventions, kv_error *err);

/* True when `have` (a file's Conventions) names the same format and major version as `want` ("kvtrace-1"). */
bool kv_conventions_match(const char *have, const char *want);

/* For a process that forks its own long-running reader (trace_reader.c): limits and death with the parent. To be
 * called in the child first. */
void kv_guard_child_limits(void);
/* One line for a child that ended by itself: `status` is waitpid's. */
kv_status kv_guard_explain(const char *path, int status, kv_error *err);
int kv_guard_seconds(void);

#endif
