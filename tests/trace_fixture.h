/* trace_fixture.h - small traces built from tables, in memory or as files. */
#ifndef TRACE_FIXTURE_H
#define TRACE_FIXTURE_H

#include "replay.h"
#include "trace.h"

/* One event; position, length and aux as the format has them for its kind; n slots. STEP: aux is the type, length the
 * slots said to be available after it (-1: not said), position the time in us (-1: as before). */
typedef struct fx {
  kvt_kind kind;
  int32_t request, position, length, aux;
  uint32_t n;
  int32_t slots[24];
} fx;

#define FX_STEP(type) {KVT_STEP, -1, -1, -1, type, 0, {0}}
#define FX_STEP_AVAILABLE(type, slots) {KVT_STEP, -1, -1, slots, type, 0, {0}}
#define FX_ARRIVE(r, prompt, output) {KVT_ARRIVE, r, -1, prompt, output, 0, {0}}
#define FX_START(r, n, ...) {KVT_START, r, 0, -1, -1, n, {__VA_ARGS__}}
#define FX_CALL(slots, requests, call) {KVT_ALLOC_CALL, -1, requests, slots, call, 0, {0}}
#define FX_EXTEND(r, pos, call, n, ...) {KVT_ALLOC_EXTEND, r, pos, -1, call, n, {__VA_ARGS__}}
#define FX_DECODE(r, pos, call, slot) {KVT_ALLOC_DECODE, r, pos, -1, call, 1, {slot}}
#define FX_VERIFY(r, pos, call, n, ...) {KVT_ALLOC_VERIFY, r, pos, -1, call, n, {__VA_ARGS__}}
#define FX_SPEC(r, pos, call, n, ...) {KVT_ALLOC_SPEC, r, pos, -1, call, n, {__VA_ARGS__}}
#define FX_COMMIT(r, pos, tokens, n, ...) {KVT_COMMIT, r, pos, tokens, -1, n, {__VA_ARGS__}}
#define FX_FREE(r, reason, group, n, ...) {KVT_FREE, r, -1, group, reason, n, {__VA_ARGS__}}
#define FX_REMAP(r, pos, n, ...) {KVT_REMAP, r, pos, -1, -1, n, {__VA_ARGS__}}
#define FX_INSERT(r, there, key) {KVT_INSERT, r, there, key, -1, 0, {0}}
#define FX_FINISH(r, rows) {KVT_FINISH, r, rows, -1, -1, 0, {0}}
#define FX_RETRACT(r, rows) {KVT_RETRACT, r, rows, -1, -1, 0, {0}}
#define FX_CLEAR {KVT_CLEAR, -1, -1, -1, -1, 0, {0}}

/* A pool and its allocator; requests: 8. */
kvt_info fx_info(kvt_allocator allocator, uint32_t pool, uint32_t page);

/* Checks form and runs the events over a fresh replay, as one batch. On success the caller frees *replay (also after
 * KV_ERR_INPUT, where it is at the event at fault; NULL when it could not be made). finish: ends the replay too. */
kv_status fx_run(const kvt_info *info, const kvs_replay_options *options, const fx *events, uint32_t n, bool finish,
                 kvs_replay **replay, kv_error *err);

/* Writes the events as a kvtrace-1 file. */
kv_status fx_write(const char *path, const kvt_info *info, const fx *events, uint32_t n, kv_error *err);

#endif
