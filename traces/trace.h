/* trace.h - the kvtrace-1 format: what a KV-slot allocator did, event by event. traces/README.md is its
 * specification; this header is the manual of the reader and the writer.
 *
 * A trace is a stream of events, each with up to `count` slots, in the order in which the serving process ran
 * them. The stream is causal: a reader needs nothing but what came before (an allocator call announces its total,
 * an arriving request its lengths), so that memory does not grow with the length of a trace.
 */
#ifndef KVT_TRACE_H
#define KVT_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_status.h"

#define KVT_CONVENTIONS "kvtrace-1"

/* Event kinds; the numbers are part of the format. "row" is a request's list of slots, one per token position. */
typedef enum kvt_kind {
  KVT_STEP = 1,         /* a scheduler step begins; aux: kvt_step_type; one row of /steps each             */
  KVT_ARRIVE = 2,       /* request enters the queue; length: prompt tokens, aux: output tokens (-1 unknown)*/
  KVT_START = 3,        /* request admitted; slots: prefix-cache hit, row positions 0..count-1             */
  KVT_ALLOC_EXTEND = 4, /* slots: new, row positions position.. (prefill); aux: allocator call             */
  KVT_ALLOC_DECODE = 5, /* slots: one new, row position `position`; aux: allocator call                    */
  KVT_ALLOC_VERIFY = 6, /* slots: a draft tree's block, not in the row yet; position: committed length     */
  KVT_COMMIT = 7,       /* slots: accepted, become row positions position..; with count 0 the row's own
                           slots position..position+length-1 become valid; length: tokens committed        */
  KVT_FREE = 8,         /* slots: given back, in order; aux: kvt_free_reason; length: free group or -1;
                           position: 0 a segment of a row (KVT_ALLOC_PAGED_SEGMENT), else -1              */
  KVT_REMAP = 9,        /* slots: row positions position.. now point at these (the prefix cache's)         */
  KVT_INSERT = 10,      /* row inserted in the prefix cache; position: length already there, length: key   */
  KVT_DRAFT_TEMP = 11,  /* length: slots a draft phase took and gave back (net zero)                       */
  KVT_FINISH = 12,      /* request done, its row now belongs to the prefix cache; position: its length     */
  KVT_RETRACT = 13,     /* request back to the queue, its own slots were freed; position: its length       */
  KVT_ALLOC_SPEC = 14,  /* slots: new, row positions position.., owned but not valid yet (spec v2)         */
  KVT_ALLOC_CALL = 15,  /* one allocator call begins; length: its slots, position: its requests, aux: call */
  KVT_CLEAR = 16,       /* the pool is emptied: every slot free, list ascending (flush_cache)       */
  KVT_MOVE = 17,        /* relocation; slots: pairs a, b, one after the other: what lies in a and in b change places;
                           one of them may be free. Rows follow. Only with allocator `other`               */
  KVT_KINDS = 18
} kvt_kind;

typedef enum kvt_step_type { KVT_STEP_DRAIN = 0, KVT_STEP_PREFILL = 1, KVT_STEP_DECODE = 2 } kvt_step_type;

typedef enum kvt_free_reason {
  KVT_FREE_OTHER = 0,
  KVT_FREE_REJECT = 1,    /* rejected draft nodes */
  KVT_FREE_DUPLICATE = 2, /* the prefix cache holds these tokens already */
  KVT_FREE_TAIL = 3,      /* not cacheable rest of a finished row */
  KVT_FREE_EVICT = 4,     /* evicted from the prefix cache */
  KVT_FREE_OVER = 5,      /* allocated ahead (spec v2), never used */
  KVT_FREE_RETRACT = 6,   /* request retracted */
  KVT_FREE_REASONS = 7
} kvt_free_reason;

/* How the recorded allocator hands out slots: what a replay holds every allocation against. */
typedef enum kvt_allocator {
  KVT_ALLOC_OTHER = 0,         /* unknown: allocations are taken as recorded */
  KVT_ALLOC_TOKEN = 1,         /* SGLang TokenToKVPoolAllocator: FIFO of slots */
  KVT_ALLOC_TOKEN_SORTED = 2,  /* the same with need_sort: frees set aside, merged and sorted when short */
  KVT_ALLOC_PAGED = 3,         /* SGLang PagedTokenToKVPoolAllocator: freed pages, ascending, go to the head */
  KVT_ALLOC_PAGED_SORTED = 4,  /* the same with need_sort */
  /* vLLM's BlockPool: one queue of all blocks that no request holds, cached or not. Blocks are taken from its head (what is
   * cached there is evicted: FREE with reason evict before the ALLOC), a prefix hit takes its blocks out of the middle,
   * a row's end appends its blocks, last first. */
  KVT_ALLOC_VLLM = 5,
  KVT_ALLOC_VLLM_FRONT = 6,    /* the same, but blocks that are not cached go to the queue's head (newer vLLM: 0.24, not 0.20) */
  /* SGLang 0.5.17 and newer: pages that are freed as a segment of a row (FREE with position 0) go to the head in the row's order, before
   * the others of their group; sorted: the order in which they wait does not matter, lists of it are ascending. */
  KVT_ALLOC_PAGED_SEGMENT = 7,
  KVT_ALLOC_PAGED_SEGMENT_SORTED = 8,
  KVT_ALLOCATORS = 9
} kvt_allocator;

/* "sglang-token", "sglang-token-sorted", "sglang-paged", "sglang-paged-sorted", "vllm", "vllm-front", "sglang-paged-segment",
 * "sglang-paged-segment-sorted", "other"; "STEP", "ARRIVE", ...;
 * "reject", ... Static storage; NULL for a number that is none. */
const char *kvt_allocator_name(kvt_allocator allocator);
const char *kvt_kind_name(kvt_kind kind);
const char *kvt_free_reason_name(kvt_free_reason reason);
/* KV_ERR_USAGE for a name that is none. */
kv_status kvt_allocator_parse(const char *name, kvt_allocator *allocator, kv_error *err);
/* False for SGLang's token allocators with pages of more than one slot: they know none. */
bool kvt_allocator_fits(kvt_allocator allocator, uint32_t page_size);
/* True for vLLM's: what is cached and idle is in the allocator's queue too. */
bool kvt_allocator_queues(kvt_allocator allocator);
/* True for the kinds whose slots were handed out by the allocator. */
bool kvt_is_alloc(kvt_kind kind);

/* What stands at the head of a trace. Slots are numbered first_slot .. first_slot + pool_size - 1; page p holds
 * slots p * page_size ..; first_slot equals page_size (page 0 is the padding page). */
typedef struct kvt_info {
  kvt_allocator allocator;
  uint32_t page_size;   /* slots a page, >= 1 */
  uint32_t first_slot;  /* = page_size */
  uint32_t pool_size;   /* slots, a multiple of page_size, >= 1 */
  uint64_t events;      /* 0 in a writer's argument */
  uint64_t slots;       /* over all events; 0 in a writer's argument */
  uint64_t steps;
  uint64_t requests;
  uint64_t initial_free; /* entries of /initial/free_list, 0: ascending */
  uint64_t final_free, final_release;
  bool has_final;        /* the recording ends with its allocator's lists */
  char origin[512];      /* "recorded: ..." or "simulated: ..." */
  char source[512];      /* "file NAME, sha256 ..." of what it was imported from, or "" */
} kvt_info;

typedef struct kvt_step {
  int64_t time_us;     /* since the start of the recording, not decreasing */
  int32_t requests;    /* running, after the step; -1 unknown, as all below */
  int32_t tokens;      /* processed in the step */
  int32_t available;   /* slots in the allocator's lists */
  int32_t evictable;   /* slots of the prefix cache that could be evicted */
  int32_t protected_;  /* slots of the prefix cache that running requests lock */
  int32_t waiting;     /* requests in the queue */
} kvt_step;

/* Metadata of a request, one row of /requests; -1 where unknown. */
typedef struct kvt_request {
  int32_t trace_row;
  int32_t timestamp_ms;
  int32_t input_length;
  int32_t output_length;
  int32_t predecessor;
  int32_t injected;
} kvt_request;

typedef struct kvt_event {
  kvt_kind kind;
  uint32_t step;
  int32_t request; /* -1: none */
  int32_t position;
  int32_t length;
  int32_t aux;
  uint32_t count;
  const int32_t *slots; /* count of them */
} kvt_event;

/* ---- reading ---- */

/* A stretch of the stream, as columns. Everything is read-only and valid until the next kvt_reader_next().
 * An event with more slots than a batch holds comes in pieces: `more` is set on all but the last piece, and
 * position moves on by the slots already given where it counts rows. */
typedef struct kvt_batch {
  uint64_t first_event; /* number of the first event in the file */
  uint64_t first_slot;  /* element of /events/slots of the first slot */
  uint32_t events;
  uint32_t slots;
  uint32_t steps;       /* rows of step_rows: one for each KVT_STEP event here, in order */
  bool more;            /* the last event goes on in the next batch */
  const uint8_t *kind;
  const uint32_t *step;
  const int32_t *request;
  const int32_t *position;
  const int32_t *length;
  const int32_t *aux;
  const uint32_t *count;
  const int32_t *slot;
  const kvt_step *step_rows;
} kvt_batch;

typedef struct kvt_reader kvt_reader;

/* Opens a trace for one pass. The file is read by a forked process that stays ahead by a few batches, so that
 * HDF5's decompression overlaps the caller's work and a file that crashes HDF5 cannot take the caller with it.
 * `info` is filled. KV_ERR_IO: no such file. KV_ERR_INPUT: not HDF5, not kvtrace-1, a column of another length
 * or type, a pool of 0, data outside the file. The caller closes *reader. */
kv_status kvt_reader_open(const char *path, kvt_reader **reader, kvt_info *info, kv_error *err);

/* The next batch, checked for form: known kinds, steps that rise by one with each STEP, requests within the table,
 * time that does not run backwards, counts that fit. Slots are not checked here: sim/ does. KV_END after the last. */
kv_status kvt_reader_next(kvt_reader *reader, kvt_batch *batch, kv_error *err);

/* The event `i` of a batch, its slots beginning at `slot` of the batch. */
kvt_event kvt_batch_event(const kvt_batch *batch, uint32_t i, uint32_t slot);

/* Stops the reading process and frees; NULL is allowed. */
void kvt_reader_close(kvt_reader *reader);

/* Checks one batch for form; kvt_reader_next() does this. `state` is zeroed before the first batch. Exposed for
 * producers that are not files (the fuzzer, the simulator of serving loops). `path` is for messages. */
typedef struct kvt_check {
  uint64_t steps_seen;
  int64_t last_time_us;
} kvt_check;
kv_status kvt_check_batch(const kvt_batch *batch, const kvt_info *info, const char *path, kvt_check *state,
                          kv_error *err);

/* Reads the list "initial/free_list", "final/free_list" or "final/release_list" into out[n], n from kvt_info
 * (slots, or pages where page_size > 1). */
kv_status kvt_read_list(const char *path, const char *name, uint64_t n, int32_t *out, kv_error *err);

/* ---- writing ---- */

typedef struct kvt_writer kvt_writer;

typedef struct kvt_writer_options {
  bool plain;          /* no compression (fletcher32): a hot file; else shuffle + deflate-1 */
  bool unfiltered;     /* with plain: no checksum either */
  const char *creator; /* "kvsim" */
  const char *command; /* for the history attribute */
} kvt_writer_options;

/* Begins `path` (written aside, renamed by kvt_writer_finish). */
kv_status kvt_writer_open(const char *path, const kvt_info *info, const kvt_writer_options *options,
                          kvt_writer **writer, kv_error *err);
kv_status kvt_writer_event(kvt_writer *writer, const kvt_event *event, kv_error *err);
/* Appends the STEP event and its row of /steps; steps are numbered 1, 2, ... by the writer. */
kv_status kvt_writer_step(kvt_writer *writer, kvt_step_type type, const kvt_step *row, kv_error *err);
/* Requests are numbered in the order of these calls; all must have been added when the writer is finished. */
kv_status kvt_writer_request(kvt_writer *writer, const kvt_request *request, kv_error *err);
/* name: "initial/free_list", "final/free_list" or "final/release_list". */
kv_status kvt_writer_list(kvt_writer *writer, const char *name, const int32_t *values, uint64_t n, kv_error *err);
/* A string attribute of the group /source_attributes: what an importer found in its source and has no place for. */
kv_status kvt_writer_source(kvt_writer *writer, const char *name, const char *value, kv_error *err);
/* Closes, renames and frees; on failure (and when `abandon`) nothing is left behind. NULL is allowed. */
kv_status kvt_writer_finish(kvt_writer *writer, bool abandon, kv_error *err);

#endif
