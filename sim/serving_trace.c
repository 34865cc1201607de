#include "serving_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const format_name[] = {"Mooncake JSONL", "Azure CSV", "CSV"};

typedef struct output {
  kvt_writer *writer;
  void (*progress)(void *arg, double fraction);
  void *progress_arg;
} output;

static kv_status write_step(void *arg, kvt_step_type type, const kvt_step *row, kv_error *err) {
  return kvt_writer_step(((output *)arg)->writer, type, row, err);
}
static kv_status write_event(void *arg, const kvt_event *event, kv_error *err) {
  return kvt_writer_event(((output *)arg)->writer, event, err);
}
static void tell_progress(void *arg, double fraction) {
  const output *o = arg;
  if (o->progress) o->progress(o->progress_arg, fraction);
}

static kv_status put(kvt_writer *w, const char *name, double value, kv_error *err) {
  char text[64];
  (void)snprintf(text, sizeof text, "%.15g", value);
  return kvt_writer_source(w, name, text, err);
}

static kv_status write_settings(kvt_writer *w, const kvt_workload *load, const kvs_serving_options *o, kv_error *err) {
  const struct {
    const char *name;
    double value;
    bool speculates; /* says something only then */
  } number[] = {{"chunked_prefill_size", o->chunk, false}, {"max_prefill_tokens", o->max_prefill, false},
                {"max_running_requests", o->max_running, false}, {"speculative_num_steps", o->draft_steps, true},
                {"speculative_eagle_topk", o->draft_topk, true}, {"speculative_num_draft_tokens", o->draft_tokens, true},
                {"acceptance", o->acceptance, true}, {"seed", (double)o->seed, false}, {"time_scale", o->time_scale, false},
                {"think_s", o->think_s, false}, {"prefill_s", o->prefill_s, false}, {"prefill_token_s", o->prefill_token_s, false},
                {"decode_s", o->decode_s, false}, {"decode_request_s", o->decode_request_s, false}, {"idle_s", o->idle_s, false}};
  kv_status st = kvt_writer_source(w, "workload", load->source, err);
  if (!st) st = kvt_writer_source(w, "workload_format", format_name[load->format], err);
  if (!st) st = kvt_writer_source(w, "speculation", kvs_speculation_name(o->speculation), err);
  if (!st) st = kvt_writer_source(w, "eviction", o->evict_shortfall ? "what is missing" : "as much as is needed", err);
  if (!st) st = kvt_writer_source(w, "model", "serving loop modelled after SGLang 0.5.9", err);
  for (size_t i = 0; i < sizeof number / sizeof *number && !st; i++)
    if (!number[i].speculates || o->speculation) st = put(w, number[i].name, number[i].value, err);
  return st;
}

static kv_status write_requests(kvt_writer *w, const kvt_workload *load, kv_error *err) {
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < load->requests && !st; i++) {
    const kvt_workload_request *q = &load->request[i];
    const kvt_request row = {q->row, q->said_ms <= INT32_MAX ? (int32_t)q->said_ms : -1, q->input, q->output, q->predecessor, 0};
    st = kvt_writer_request(w, &row, err);
  }
  return st;
}

static void describe(const kvt_workload *load, const kvs_serving_options *o, kvt_info *info) {
  uint32_t turns = 0;
  for (uint32_t i = 0; i < load->requests; i++) turns += load->request[i].predecessor >= 0;
  *info = (kvt_info){.allocator = o->allocator, .page_size = o->page_size, .first_slot = o->page_size, .pool_size = o->pool_size};
  (void)snprintf(info->origin, sizeof info->origin,
                 "simulated: serving loop modelled after SGLang 0.5.9; workload %.120s (%s, %u requests, %u inferred turns); "
                 "speculation %s; seed %" PRIu64 "; time x %g; %u running at most, chunk %u",
                 load->source, format_name[load->format], load->requests, turns, kvs_speculation_name(o->speculation), o->seed,
                 o->time_scale, o->max_running, o->chunk);
  (void)snprintf(info->source, sizeof info->source, "%s", load->source);
}

kv_status kvs_serve_to_trace(const kvt_workload *load, const kvs_serving_options *o, const char *path,
                             const kvt_writer_options *writer, void (*progress)(void *arg, double fraction),
                             void *progress_arg, kvs_serving_totals *totals, kv_error *err) {
  output out = {.progress = progress, .progress_arg = progress_arg};
  const kvs_serving_sink sink = {&out, write_step, write_event, tell_progress};
  kvs_final_lists final = {0};
  kvt_info info;
  describe(load, o, &info);
  kv_status st = kvt_writer_open(path, &info, writer, &out.writer, err);
  if (!st) st = kvs_serve(load, o, &sink, totals, &final, err);
  if (!st) st = write_requests(out.writer, load, err);
  if (!st) st = kvt_writer_list(out.writer, "final/free_list", final.free_list, final.free_n, err);
  if (!st) st = kvt_writer_list(out.writer, "final/release_list", final.release_list, final.release_n, err);
  if (!st) st = write_settings(out.writer, load, o, err);
  kv_status finished = kvt_writer_finish(out.writer, st != KV_OK, st ? NULL : err);
  free(final.free_list);
  free(final.release_list);
  return st ? st : finished;
}
