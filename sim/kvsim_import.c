/* kvsim import: recordings of other formats, and workloads through the serving loop, to kvtrace-1. */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "import.h"
#include "kv_guard.h"
#include "kvsim_commands.h"
#include "kvsim_options.h"
#include "serving_trace.h"

typedef struct arguments {
  kvsim_shared shared; /* its path: the input */
  bool plain;
  bool workload; /* path is a workload of this format, else a recording */
  bool segments; /* path is the prefix of a live recording's segments */
  kvt_workload_format format;
  const char *pool, *page, *chunk, *max_running, *speculation, *draft, *acceptance, *seed, *time_scale, *step_time, *turns,
      *first, *skip, *evict;
  bool need_sort;
  const char *serving_option; /* the first option given that only a workload takes */
} arguments;

enum {
  MOONCAKE = 0x100, AZURE, CSV, POOL, PAGE, NEED_SORT, CHUNK, MAX_RUNNING, SPECULATION, DRAFT, ACCEPTANCE, SEED, TIME_SCALE,
  STEP_TIME, TURNS, FIRST, SKIP, EVICT, JSON, SEGMENTS
};

static const struct argp_option options[] = {
    KVSIM_OPTION_OUTPUT("kvtrace-1 file", "the input's name with .kvtrace.h5", 1),
    {"plain", 'p', 0, 0, "no compression, only a checksum: larger, and faster to replay", 1},
    KVSIM_OPTION_QUIET("print nothing", 1),
    {"json", JSON, 0, 0, "what was simulated, as JSON (kvsim-import-1)", 1},
    KVSIM_OPTION_DRY_RUN("read and check everything, write nothing", 1),
    {"segments", SEGMENTS, "PREFIX", 0, "join the segments PREFIX.NNNNNN.h5 of a server recorded with traces/record_sglang.py", 1},
    {0, 0, 0, 0, "A workload, served by the model of SGLang's loop (instead of a recording):", 2},
    {"mooncake", MOONCAKE, "FILE", 0, "Mooncake trace: JSON lines with timestamp, input_length, output_length, hash_ids", 2},
    {"azure", AZURE, "FILE", 0, "Azure LLM inference trace: TIMESTAMP,ContextTokens,GeneratedTokens", 2},
    {"csv", CSV, "FILE", 0, "CSV whose header names input and output lengths and, maybe, arrivals", 2},
    {"skip", SKIP, "N", 0, "leave out the first N requests", 2},
    {"first", FIRST, "N", 0, "then take N requests (default: all)", 2},
    {"turns", TURNS, "none|infer", 0, "guess which requests continue an earlier one; they hit its answer and wait for it (none)", 2},
    {"time-scale", TIME_SCALE, "X", 0, "multiply arrivals by X (1); 0: all at once", 2},
    {0, 0, 0, 0, "The server:", 3},
    {"pool", POOL, "N", 0, "slots (1Mi)", 3},
    {"page", PAGE, "N", 0, "slots a page (1: the token allocator)", 3},
    {"need-sort", NEED_SORT, 0, 0, "sort the free list when it runs short, as SGLang does with disaggregation", 3},
    {"chunk", CHUNK, "N", 0, "prefill tokens a step (8192)", 3},
    {"max-running", MAX_RUNNING, "N", 0, "requests at a time (48)", 3},
    {"speculation", SPECULATION, "none|v1|v2", 0, "EAGLE v1: rejected slots freed each step; v2: slots ahead (none)", 3},
    {"draft", DRAFT, "STEPS,TOPK,TOKENS", 0, "draft tree (v1: 7,2,9; v2: 5,1,6)", 3},
    {"acceptance", ACCEPTANCE, "P", 0, "probability that the likeliest draft token is right (v1: 0.78, v2: 0.8)", 3},
    {"evict", EVICT, "need|shortfall", 0, "evict as much as a call needs, or what is missing (newer SGLang) (need)", 3},
    {"step-time", STEP_TIME, "P,T,D,R", 0, "ms of a prefill step, of a token of it, of a decode step, of a request of it (20,0.05,22,0.4)", 3},
    {"seed", SEED, "N", 0, "of the acceptance (1)", 3},
    {0}};

static void choose_workload(arguments *a, kvt_workload_format format, const char *path, const struct argp_state *state) {
  if (a->shared.path) argp_error(state, "one input at a time");
  a->shared.path = path;
  a->workload = true;
  a->format = format;
}

static const char **text_option(arguments *a, int key) {
  switch (key) {
    case POOL: return &a->pool;
    case PAGE: return &a->page;
    case CHUNK: return &a->chunk;
    case MAX_RUNNING: return &a->max_running;
    case SPECULATION: return &a->speculation;
    case DRAFT: return &a->draft;
    case ACCEPTANCE: return &a->acceptance;
    case SEED: return &a->seed;
    case TIME_SCALE: return &a->time_scale;
    case STEP_TIME: return &a->step_time;
    case TURNS: return &a->turns;
    case FIRST: return &a->first;
    case SKIP: return &a->skip;
    case EVICT: return &a->evict;
    default: return NULL;
  }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  const char **text = text_option(a, key);
  if (text) *text = arg;
  if ((text || key == NEED_SORT) && !a->serving_option)
    for (const struct argp_option *o = options; o->name || o->doc; o++)
      if (o->key == key) a->serving_option = o->name;
  if (text) return 0;
  switch (key) {
    case 'p': a->plain = true; break;
    case JSON: a->shared.json = true; break;
    case NEED_SORT: a->need_sort = true; break;
    case MOONCAKE: choose_workload(a, KVT_WORKLOAD_MOONCAKE, arg, state); break;
    case AZURE: choose_workload(a, KVT_WORKLOAD_AZURE, arg, state); break;
    case CSV: choose_workload(a, KVT_WORKLOAD_CSV, arg, state); break;
    case SEGMENTS: a->segments = true; /* fall through */
    case ARGP_KEY_ARG:
      if (a->shared.path) argp_error(state, "one input at a time");
      a->shared.path = arg;
      break;
    case ARGP_KEY_END:
      if (!a->shared.path) argp_error(state, "name a recording, --segments of one, or a workload with --mooncake, --azure or --csv");
      break;
    default: return kvsim_take_shared(&a->shared, key, arg);
  }
  return 0;
}

/* ---- the server's settings ---- */

static kv_status count(const char *text, const char *name, uint64_t low, uint64_t high, uint32_t *value, kv_error *err) {
  uint64_t v = *value;
  kv_status st = text ? kv_cli_count(text, name, low, high, &v, err) : KV_OK;
  *value = (uint32_t)v;
  return st;
}

/* `n` numbers from 0 to `most`, comma-separated. */
static kv_status numbers(const char *text, const char *name, double most, int n, double *value, kv_error *err) {
  const char *at = text;
  for (int i = 0; i < n && at; i++) {
    char *end;
    value[i] = strtod(at, &end);
    if (end == at || *end != (i + 1 < n ? ',' : '\0') || !(value[i] >= 0 && value[i] <= most))
      return kv_fail(err, KV_ERR_USAGE, "%s: '%s' is not %d number%s from 0 to %g", name, text, n, n > 1 ? "s, comma-separated," : "", most);
    at = end + 1;
  }
  return KV_OK;
}

static kv_status word(const char *text, const char *name, const char *const *words, int n, int *value, kv_error *err) {
  for (int i = 0; i < n && text; i++)
    if (!strcmp(text, words[i])) {
      *value = i;
      return KV_OK;
    }
  return text ? kv_fail(err, KV_ERR_USAGE, "%s: '%s' is none of those that --help lists", name, text) : KV_OK;
}

static kv_status resolve_speculation(const arguments *a, kvs_serving_options *o, kv_error *err) {
  static const char *const words[] = {"none", "v1", "v2"};
  int speculation = KVS_SPEC_NONE;
  kv_status st = word(a->speculation, "--speculation", words, 3, &speculation, err);
  o->speculation = (kvs_speculation)speculation;
  if (o->speculation == KVS_SPEC_V2) o->draft_steps = 5, o->draft_topk = 1, o->draft_tokens = 6, o->acceptance = 0.8;
  double draft[3] = {o->draft_steps, o->draft_topk, o->draft_tokens};
  if (!st) st = numbers(a->draft, "--draft", KVS_DRAFT_MOST, 3, draft, err);
  if (!st) st = numbers(a->acceptance, "--acceptance", 1, 1, &o->acceptance, err);
  o->draft_steps = (uint32_t)draft[0];
  o->draft_topk = (uint32_t)draft[1];
  o->draft_tokens = (uint32_t)draft[2];
  if (!st && (a->draft || a->acceptance) && !o->speculation)
    st = kv_fail(err, KV_ERR_USAGE, "--draft and --acceptance need --speculation v1 or v2");
  return st;
}

static kv_status resolve(const arguments *a, kvs_serving_options *o, kv_error *err) {
  static const char *const evict[] = {"need", "shortfall"};
  int shortfall = 0;
  *o = kvs_serving_options_default();
  double ms[4] = {o->prefill_s * 1e3, o->prefill_token_s * 1e3, o->decode_s * 1e3, o->decode_request_s * 1e3};
  kv_status st = resolve_speculation(a, o, err);
  if (!st) st = count(a->pool, "--pool", 1, INT32_MAX / 2, &o->pool_size, err);
  if (!st) st = count(a->page, "--page", 1, 65536, &o->page_size, err);
  if (!st) st = count(a->chunk, "--chunk", 1, INT32_MAX / 2, &o->chunk, err);
  if (!st) st = count(a->max_running, "--max-running", 1, 65535, &o->max_running, err);
  if (!st && a->seed) st = kv_cli_count(a->seed, "--seed", 0, UINT32_MAX, &o->seed, err);
  if (!st) st = numbers(a->time_scale, "--time-scale", 1e6, 1, &o->time_scale, err);
  if (!st) st = numbers(a->step_time, "--step-time", 1e6, 4, ms, err);
  if (!st) st = word(a->evict, "--evict", evict, 2, &shortfall, err);
  if (a->step_time) o->prefill_s = ms[0] / 1e3, o->prefill_token_s = ms[1] / 1e3, o->decode_s = ms[2] / 1e3, o->decode_request_s = ms[3] / 1e3;
  o->evict_shortfall = shortfall;
  o->pool_size -= o->pool_size % o->page_size;
  if (o->max_prefill < o->chunk) o->max_prefill = o->chunk;
  o->allocator = o->page_size > 1 ? (a->need_sort ? KVT_ALLOC_PAGED_SORTED : KVT_ALLOC_PAGED)
                                  : (a->need_sort ? KVT_ALLOC_TOKEN_SORTED : KVT_ALLOC_TOKEN);
  return st;
}

static kv_status read_workload(const arguments *a, kvt_workload *w, uint32_t *turns, kv_error *err) {
  static const char *const words[] = {"none", "infer"};
  uint32_t first = 0, skip = 0;
  int infer = 0;
  kv_status st = count(a->first, "--first", 1, INT32_MAX, &first, err);
  if (!st) st = count(a->skip, "--skip", 0, INT32_MAX, &skip, err);
  if (!st) st = word(a->turns, "--turns", words, 2, &infer, err);
  if (!st) st = kvt_workload_read(a->shared.path, a->format, skip, first, w, err);
  *turns = !st && infer ? kvt_workload_infer_turns(w, err) : 0;
  return *turns == UINT32_MAX ? KV_ERR_MEMORY : st;
}

/* ---- telling ---- */

static void print_text(const arguments *a, const char *output, const kvt_workload *w, uint32_t turns, const kvs_serving_options *o,
                       const kvs_serving_totals *t) {
  printf("%s: %s\n", output, a->shared.dry_run ? "would be written" : "written");
  printf("  workload    %u requests, %u inferred turns, %s\n", w->requests, turns, w->source);
  printf("  server      %u slots, pages of %u, %s, speculation %s\n", o->pool_size, o->page_size, kvt_allocator_name(o->allocator),
         kvs_speculation_name(o->speculation));
  if (a->shared.dry_run) return;
  printf("  simulated   %" PRIu64 " steps in %.0f s of the model's time, %" PRIu64 " requests finished, %" PRIu64 " retracted\n", t->steps,
         t->seconds, t->finished, t->retracted);
  printf("  slots       %" PRIu64 " allocated (%.2f pool turnovers), %" PRIu64 " freed, %" PRIu64 " of them evicted; %.1f %% of prompts hit\n",
         t->allocated, (double)t->allocated / o->pool_size, t->freed, t->evicted,
         t->prompt_tokens ? 100.0 * (double)t->hit_tokens / (double)t->prompt_tokens : 0);
  if (t->verify_steps) printf("  accepted    %.2f tokens a verify step\n", (double)t->accepted_tokens / (double)t->verify_steps);
}

static void print_json(const char *output, const kvt_workload *w, uint32_t turns, const kvs_serving_options *o, const kvs_serving_totals *t) {
  json_t *j = json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f}", "schema", "kvsim-import-1",
                        "output", output, "workload", w->source, "requests", (json_int_t)w->requests, "turns", (json_int_t)turns,
                        "pool_size", (json_int_t)o->pool_size, "page_size", (json_int_t)o->page_size, "allocator",
                        kvt_allocator_name(o->allocator), "speculation", kvs_speculation_name(o->speculation), "seed",
                        (json_int_t)o->seed, "steps", (json_int_t)t->steps, "finished", (json_int_t)t->finished, "retracted",
                        (json_int_t)t->retracted, "slots_allocated", (json_int_t)t->allocated, "slots_freed", (json_int_t)t->freed,
                        "slots_evicted", (json_int_t)t->evicted, "prompt_tokens", (json_int_t)t->prompt_tokens, "hit_tokens",
                        (json_int_t)t->hit_tokens, "verify_steps", (json_int_t)t->verify_steps, "accepted_tokens",
                        (json_int_t)t->accepted_tokens, "simulated_s", t->seconds);
  char *text = json_dumps(j, JSON_INDENT(1));
  if (text) printf("%s\n", text);
  free(text);
  json_decref(j);
}

static void show(void *arg, double fraction) { kv_progress_at(arg, fraction); }

static kv_status import_workload(const arguments *a, const char *output, const kvt_writer_options *writer, kv_error *err) {
  kvs_serving_options o;
  kvt_workload w = {0};
  kvs_serving_totals t = {0};
  uint32_t turns = 0;
  kv_progress bar;
  kv_status st = resolve(a, &o, err);
  if (!st) st = read_workload(a, &w, &turns, err);
  if (!st && !a->shared.dry_run) {
    kv_progress_begin(&bar, "serve", a->shared.quiet);
    st = kvs_serve_to_trace(&w, &o, output, writer, show, &bar, &t, err);
    kv_progress_end(&bar);
  }
  if (!st && a->shared.json)
    print_json(output, &w, turns, &o, &t);
  else if (!st && !a->shared.quiet)
    print_text(a, output, &w, turns, &o, &t);
  kvt_workload_free(&w);
  return st;
}

static kv_status import_recording(const arguments *a, const char *output, const kvt_writer_options *writer, kv_error *err) {
  if (a->serving_option) return kv_fail(err, KV_ERR_USAGE, "--%s is for workloads; a recording has its own", a->serving_option);
  uint32_t segments;
  if (!a->segments && kv_guard_check_h5(a->shared.path, "kvtrace-1", NULL) == KV_OK)
    return kv_fail(err, KV_ERR_INPUT, "%s: is a kvtrace-1 trace already: give it to kvsim replay, whatif or sweep as it is", a->shared.path);
  kv_status st = a->shared.dry_run    ? KV_OK
                 : a->segments ? kvt_import_segments(a->shared.path, output, writer, &segments, err)
                               : kvt_import_recording(a->shared.path, output, writer, err);
  json_t *said = json_pack("{s:s,s:s}", "schema", "kvsim-import-1", "output", output);
  if (!st && a->shared.json && json_dumpf(said, stdout, JSON_INDENT(1)) == 0) printf("\n");
  json_decref(said);
  if (!st && !a->shared.quiet && !a->shared.json) printf("%s: %s\n", output, a->shared.dry_run ? "would be written" : "written");
  return st;
}

static kv_status name_output(const arguments *a, char **output, kv_error *err) {
  const char *slash = strrchr(a->shared.path, '/'), *dot = strrchr(slash ? slash : a->shared.path, '.');
  size_t stem = !a->segments && dot && dot > (slash ? slash + 1 : a->shared.path) ? (size_t)(dot - a->shared.path) : strlen(a->shared.path);
  if (a->shared.output ? !(*output = strdup(a->shared.output)) : asprintf(output, "%.*s.kvtrace.h5", (int)stem, a->shared.path) < 0)
    return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  return !kv_cli_same_file(*output, a->shared.path) ? KV_OK : kv_fail(err, KV_ERR_USAGE, "--output: is the input itself");
}

kv_status kvsim_import(int argc, char **argv, kv_error *err) {
  static const struct argp argp = {
      options, parse, "RECORDING.h5\n--segments PREFIX\n--mooncake|--azure|--csv FILE",
      "Convert a recording (sglang-kv-slot-recording/1) to a kvtrace-1 file, or serve a workload with a model of SGLang's "
      "loop and write what its allocator does, marked as simulated.\v"
      "Nothing of a recording is lost: events, slots, steps, requests, both final lists and all attributes come over. A "
      "simulated trace depends on workload, options and seed alone.\n\nExamples:\n"
      "  kvsim import mixed_eagle.h5 -o mixed_eagle.kvtrace.h5\n"
      "  kvsim import --segments /data/run1.tp0 -o run1.h5\n"
      "  kvsim import --mooncake conversation_trace.jsonl --speculation v1\n"
      "  kvsim import --csv mine.csv --page 64 --pool 512Ki -o mine.h5", NULL, NULL, NULL};
  arguments a = {0};
  char *output = NULL, *command = kv_cli_command_line(argc, argv);
  argp_err_exit_status = 2;
  (void)argp_parse(&argp, argc, argv, 0, NULL, &a);
  kv_status st = name_output(&a, &output, err);
  const kvt_writer_options w = {.plain = a.plain, .creator = "kvsim", .command = command};
  if (!st) st = a.workload ? import_workload(&a, output, &w, err) : import_recording(&a, output, &w, err);
  free(output);
  free(command);
  return st;
}
