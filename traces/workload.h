/* workload.h - request traces: who asks when, how long prompt and answer are, which prompt blocks are shared.
 *
 * Three formats are read, all defensively (a file is judged line by line; nothing of it is trusted):
 *   Mooncake JSONL  one object a line: timestamp (ms), input_length, output_length, hash_ids (a number for each block of
 *                   512 prompt tokens, the last one possibly partial; equal numbers: equal prefix up to there)
 *   Azure CSV       TIMESTAMP,ContextTokens,GeneratedTokens with dates such as 2023-11-16 18:17:03.9799600
 *   generic CSV     a header line that names an input and an output length and, if it has one, an arrival time:
 *                   input_length | input_tokens | prompt_tokens | num_prefill_tokens | ContextTokens,
 *                   output_length | output_tokens | completion_tokens | num_decode_tokens | GeneratedTokens,
 *                   timestamp_ms | timestamp | arrived_at | arrival_s | TIMESTAMP (seconds but for the first; or dates);
 *                   without one all requests are there from the start
 */
#ifndef KVT_WORKLOAD_H
#define KVT_WORKLOAD_H

#include <stdint.h>

#include "kv_status.h"

#define KVT_BLOCK_TOKENS 512u
#define KVT_WORKLOAD_TOKENS (1u << 24) /* the longest prompt or answer believed */

typedef enum kvt_workload_format { KVT_WORKLOAD_MOONCAKE, KVT_WORKLOAD_AZURE, KVT_WORKLOAD_CSV } kvt_workload_format;

typedef struct kvt_workload_request {
  int32_t row;         /* of the file, from 0, header not counted */
  int64_t arrival_us;  /* since the first request of the file (>= 0) */
  int64_t said_ms;     /* the file's own number, floor of milliseconds; since the first request for dates */
  int32_t input;       /* prompt tokens, >= 1 */
  int32_t output;      /* answer tokens, >= 1 */
  uint64_t first_hash; /* its blocks: hash[first_hash .. first_hash + hashes) */
  uint32_t hashes;     /* 0: nothing known of its content, shared with nobody */
  int32_t predecessor; /* earlier turn of the same conversation: an index into request[], -1 none or not known */
} kvt_workload_request;

typedef struct kvt_workload {
  kvt_workload_format format;
  kvt_workload_request *request; /* in order of arrival, then row */
  uint32_t requests;
  int64_t *hash;
  uint64_t hashes;
  char source[512]; /* "file NAME, sha256 ..." */
} kvt_workload;

/* Reads at most `most` requests (0: all), skipping the first `skip`. KV_ERR_IO: cannot be opened. KV_ERR_INPUT names
 * file, line and what is wrong. Requests with an answer of 0 tokens count as 1: a server makes that one. */
kv_status kvt_workload_read(const char *path, kvt_workload_format format, uint32_t skip, uint32_t most,
                            kvt_workload *workload, kv_error *err);
void kvt_workload_free(kvt_workload *workload);

/* Guesses which requests continue an earlier one (sets predecessor): B follows A if A came before, A's full blocks are
 * the first of B's, and A's prompt and answer fit in B's prompt; among several the one with most blocks, then the
 * latest. A request is followed by at most one, and needs two full blocks (the first is often a system prompt that all
 * share). An inference: no such field is in the public traces. Returns how many were found, or KV_ERR_MEMORY through *err with UINT32_MAX. */
uint32_t kvt_workload_infer_turns(kvt_workload *workload, kv_error *err);

#endif
