/* serving_trace.h - a simulated run written as a kvtrace-1 file. */
#ifndef KVS_SERVING_TRACE_H
#define KVS_SERVING_TRACE_H

#include "serving.h"

/* Serves the workload and writes what the allocator did to `path` (aside, renamed at the end), marked "simulated: ...",
 * with every option in /source_attributes, all requests, and the final lists. `progress` may be NULL. */
kv_status kvs_serve_to_trace(const kvt_workload *workload, const kvs_serving_options *options, const char *path,
                             const kvt_writer_options *writer, void (*progress)(void *arg, double fraction),
                             void *progress_arg, kvs_serving_totals *totals, kv_error *err);

#endif
