/* import.h - recordings of other formats become kvtrace-1 files. */
#ifndef KVT_IMPORT_H
#define KVT_IMPORT_H

#include "kv_status.h"
#include "trace.h"

/* Converts a recording of format "sglang-kv-slot-recording/1" (made by running SGLang's own scheduler, allocator and
 * radix cache; traces/README.md maps its columns to ours) into a kvtrace-1 file. Nothing is lost: every event, slot,
 * step, request, both final lists and all attributes come over; added are the ALLOC_CALL events, which only gather
 * what the rows of a call say. Runs in a watched child. KV_ERR_INPUT names the dataset and element at fault. */
kv_status kvt_import_recording(const char *path, const char *output, const kvt_writer_options *options, kv_error *err);

#endif
