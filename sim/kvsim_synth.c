/* kvsim synth: a trace made up from a seed, with what is known about its runs. */
#include <argp.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "kvsim_commands.h"
#include "kvsim_options.h"
#include "synth.h"

typedef struct arguments {
  kvsim_shared shared;
  const char *pattern, *pool, *requests, *rows, *run, *actions, *allocator;
  bool plain;
} arguments;

enum { KEY_POOL = 1000, KEY_REQUESTS, KEY_ROWS, KEY_RUN, KEY_ACTIONS, KEY_ALLOCATOR, KEY_PLAIN };

static const struct argp_option options[] = {
    KVSIM_OPTION_OUTPUT("trace", "PATTERN.kvtrace.h5", 1),
    KVSIM_OPTION_SEED("seed (default 1); the same seed gives the same trace", 1),
    {"pool", KEY_POOL, "SLOTS", 0, "slots of the pool (default 65536)", 1},
    {"requests", KEY_REQUESTS, "N", 0, "requests (default 4; a workload has as many as come)", 1},
    {"rows", KEY_ROWS, "N", 0, "rows of a request (default 4096)", 1},
    {"run", KEY_RUN, "N", 0, "blocks: run length; geometric: mean run length (default 16)", 1},
    {"actions", KEY_ACTIONS, "N", 0, "workload: actions (default 2000)", 1},
    {"allocator", KEY_ALLOCATOR, "NAME", 0, "workload: sglang-token (default), sglang-token-sorted or other", 1},
    {"plain", KEY_PLAIN, 0, 0, "no compression", 2},
    KVSIM_OPTION_JSON("kvsim-synth-1", 2),
    KVSIM_OPTION_QUIET("print nothing", 2),
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case KEY_POOL: a->pool = arg; break;
    case KEY_REQUESTS: a->requests = arg; break;
    case KEY_ROWS: a->rows = arg; break;
    case KEY_RUN: a->run = arg; break;
    case KEY_ACTIONS: a->actions = arg; break;
    case KEY_ALLOCATOR: a->allocator = arg; break;
    case KEY_PLAIN: a->plain = true; break;
    case ARGP_KEY_ARG:
      if (a->pattern) argp_error(state, "one pattern at a time");
      a->pattern = arg;
      break;
    case ARGP_KEY_NO_ARGS: argp_error(state, "name a pattern: contiguous, comb, blocks, random, geometric or workload"); break;
    default: return kvsim_take_shared(&a->shared, key, arg);
  }
  return 0;
}

static kv_status number(const char *text, const char *option, uint64_t high, uint32_t *value, kv_error *err) {
  uint64_t v = *value;
  kv_status st = text ? kv_cli_count(text, option, 1, high, &v, err) : KV_OK;
  *value = (uint32_t)v;
  return st;
}

static kv_status resolve(const arguments *a, kvs_synth_options *o, kv_error *err) {
  int pattern = 0;
  *o = kvs_synth_options_default();
  while (pattern < KVS_PATTERNS && strcmp(a->pattern, kvs_pattern_name[pattern])) pattern++;
  if (pattern == KVS_PATTERNS)
    return kv_fail(err, KV_ERR_USAGE, "'%s' is no pattern; known are contiguous, comb, blocks, random, geometric, workload", a->pattern);
  o->pattern = (kvs_pattern)pattern;
  kv_status st = a->shared.seed ? kv_cli_count(a->shared.seed, "--seed", 0, UINT64_MAX / 2, &o->seed, err) : KV_OK;
  if (!st) st = number(a->pool, "--pool", 1u << 30, &o->pool, err);
  if (!st) st = number(a->requests, "--requests", 1u << 20, &o->requests, err);
  if (!st) st = number(a->rows, "--rows", 1u << 30, &o->rows, err);
  if (!st) st = number(a->run, "--run", 1u << 30, &o->run, err);
  if (!st) st = number(a->actions, "--actions", 1u << 24, &o->actions, err);
  if (!st && a->allocator) st = kvt_allocator_parse(a->allocator, &o->allocator, err);
  return st;
}

static json_t *truth_json(const kvs_truth *t) {
  json_t *runs = json_array();
  for (uint32_t r = 0; r < t->requests; r++) json_array_append_new(runs, json_integer((json_int_t)t->runs[r]));
  return json_pack("{s:o,s:o}", "expected_runs", isnan(t->expected_runs) ? json_null() : json_real(t->expected_runs), "runs",
                   t->runs ? runs : (json_decref(runs), json_null()));
}

static void print(const arguments *a, const kvs_synth_options *o, const kvs_tape *t, const kvs_truth *truth, const char *path) {
  if (!a->shared.json) {
    printf("%s: %s, seed %llu: %llu events, %llu steps, %llu requests", path, a->pattern, (unsigned long long)o->seed,
           (unsigned long long)t->info.events, (unsigned long long)t->info.steps, (unsigned long long)t->info.requests);
    if (!isnan(truth->expected_runs)) printf("; %.6g runs a row expected, %llu in request 0", truth->expected_runs, (unsigned long long)truth->runs[0]);
    printf("\n");
    return;
  }
  json_t *j = json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:I}", "schema", "kvsim-synth-1", "trace", path, "pattern", a->pattern, "seed",
                        (json_int_t)o->seed, "events", (json_int_t)t->info.events, "steps", (json_int_t)t->info.steps, "requests",
                        (json_int_t)t->info.requests);
  json_t *known = truth_json(truth);
  json_object_update(j, known);
  json_decref(known);
  (void)json_dumpf(j, stdout, JSON_INDENT(1));
  printf("\n");
  json_decref(j);
}

static kv_status write(const arguments *a, const kvs_tape *tape, const kvs_truth *truth, const char *path, const char *command, kv_error *err) {
  const kvt_writer_options w = {.plain = a->plain, .creator = "kvsim", .command = command};
  kvt_writer *writer;
  json_t *known = truth_json(truth);
  char *text = json_dumps(known, JSON_COMPACT);
  kv_status st = kvs_tape_write(tape, path, &w, &writer, err);
  if (!st && text && strlen(text) < 60000) st = kvt_writer_source(writer, "truth", text, err);
  if (!st) st = kvt_writer_finish(writer, false, err);
  else (void)kvt_writer_finish(writer, true, NULL);
  free(text);
  json_decref(known);
  return st;
}

kv_status kvsim_synth(int argc, char **argv, kv_error *err) {
  static const struct argp argp = {
      options, parse, "PATTERN",
      "Make up a trace whose fragmentation is known beforehand: contiguous, comb, blocks, random, geometric; or a workload "
      "of a random server.\v"
      "What is known (runs of each row) is printed with --json and kept in the trace's /source_attributes/truth.\n\n"
      "Examples:\n  kvsim synth blocks --run 16 --rows 4096 -o blocks.h5 --json\n  kvsim synth workload --seed 7 --actions 10k\n",
      NULL, NULL, NULL};
  arguments a = {0};
  kvs_synth_options o;
  kvs_tape tape = {0};
  kvs_truth truth = {0};
  char path[512];
  argp_err_exit_status = 2;
  char *command = kv_cli_command_line(argc, argv);
  (void)argp_parse(&argp, argc, argv, 0, NULL, &a);
  kv_status st = resolve(&a, &o, err);
  (void)snprintf(path, sizeof path, a.shared.output ? "%s" : "%s.kvtrace.h5", a.shared.output ? a.shared.output : a.pattern);
  if (!st) st = kvs_synth(&o, &tape, &truth, err);
  if (!st) st = write(&a, &tape, &truth, path, command, err);
  if (!st && !a.shared.quiet) print(&a, &o, &tape, &truth, path);
  kvs_tape_free(&tape);
  kvs_truth_free(&truth);
  free(command);
  return st;
}
