/* import.h - recordings of other formats become kvtrace-1 files. */
#ifndef KVT_IMPORT_H
#define KVT_IMPORT_H

#include "kv_status.h"
#include "trace.h"

/* Converts a recording of format "sglang-kv-slot-recording/1" (made by running SGLang's own scheduler, allocator and
 * radix cache; traces/README.md maps its columns to ours) into a kvtrace-1 file. Every event, slot, step and
 * request, both final lists and all single attributes come over (arrays and datasets of other names do not); added are the ALLOC_CALL events, which only gather
 * what the rows of a call say. Runs in a watched child. KV_ERR_INPUT names the dataset and element at fault. */
kv_status kvt_import_recording(const char *path, const char *output, const kvt_writer_options *options, kv_error *err);

/* Joins the segments PREFIX.000000.h5, PREFIX.000001.h5, ... that traces/record_sglang.py writes into one kvtrace-1 file:
 * events and steps in their order, the requests of the last segment (each has those of all before it), the initial free
 * list of the first, and the final lists where the recording ended in order. *segments: how many there were. The files are
 * read as any trace is, in a forked child. KV_ERR_IO: no first segment. KV_ERR_INPUT: one that is missing before the last, is
 * damaged, or is of another server. */
kv_status kvt_import_segments(const char *prefix, const char *output, const kvt_writer_options *options,
                              uint32_t *segments, kv_error *err);

#endif
