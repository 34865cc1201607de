/* kvsim whatif: the recorded schedule under other policies; a table, a dataset, a report. */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "kv_guard.h"
#include "kv_h5.h"
#include "kvsim_commands.h"
#include "kvsim_gpu.h"
#include "kvsim_options.h"
#include "report.h"
#include "whatif_output.h"

#define SERIES 512u  /* samples a policy, about */
#define DETAILS 16u  /* of these in detail */

typedef struct arguments {
  kvsim_shared shared;
  const char *pool, *low, *high, *limit, *gap, *budget, *trace_out, *effect, *heads, *queries;
} arguments;

enum { KEY_POOL = 1000, KEY_LOW, KEY_HIGH, KEY_LIMIT, KEY_GAP, KEY_BUDGET, KEY_TRACE, KEY_EFFECT, KEY_HEADS, KEY_QUERIES };

static const struct argp_option options[] = {
    KVSIM_OPTION_POLICY(1),
    KVSIM_OPTION_GPU("; the first one is the table's", 1),
    KVSIM_OPTION_CALIBRATION(1),
    KVSIM_OPTION_ROW_BYTES(1),
    KVSIM_OPTION_LAYERS(1),
    {"heads", KEY_HEADS, "N", 0, "heads on the GPU, for the kernels' times (default 8)", 1},
    {"queries", KEY_QUERIES, "N", 0, "queries a request, for the kernels' times (default 9)", 1},
    {"pool", KEY_POOL, "SLOTS", 0, "give the policies (not as-recorded, not oracle) a pool of another size", 1},
    KVSIM_OPTION_PREFILL(2),
    {"low-water", KEY_LOW, "SHARE", 0, "low-water: evict when less of the pool is free (default 0.05)", 2},
    {"high-water", KEY_HIGH, "SHARE", 0, "low-water: until so much is (default 0.10)", 2},
    {"scatter-limit", KEY_LIMIT, "SHARE", 0, "relocation: broken neighbours a row that start a pass (default 0.05)", 2},
    {"pass-gap", KEY_GAP, "STEPS", 0, "relocate-full: steps between passes at least (default 64)", 2},
    {"budget", KEY_BUDGET, "ROWS", 0, "relocate-step, -idle: rows copied a step at most (default 512)", 2},
    KVSIM_OPTION_DRAFT(2),
    {"effect", KEY_EFFECT, "SHARE", 0, "less than so much of the reading time is no effect (default 0.01)", 2},
    KVSIM_OPTION_OUTPUT("dataset", "the trace's name with .kvwhatif.h5", 3),
    KVSIM_OPTION_REPORT(3),
    KVSIM_OPTION_JSON_TABLE("kvsim-whatif-1", 3),
    KVSIM_OPTION_QUIET("no table, no progress", 3),
    KVSIM_OPTION_EVERY("about 512 samples; at most 1,024 are kept", 3),
    {"trace-out", KEY_TRACE, "FILE", 0, "write the simulation of the one --policy as a kvtrace-1 file, and nothing else", 3},
    KVSIM_OPTION_JOBS(4),
    KVSIM_OPTION_DRY_RUN("print what would be done and stop", 4),
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case KEY_POOL: a->pool = arg; break;
    case KEY_HEADS: a->heads = arg; break;
    case KEY_QUERIES: a->queries = arg; break;
    case KEY_LOW: a->low = arg; break;
    case KEY_HIGH: a->high = arg; break;
    case KEY_LIMIT: a->limit = arg; break;
    case KEY_GAP: a->gap = arg; break;
    case KEY_BUDGET: a->budget = arg; break;
    case KEY_EFFECT: a->effect = arg; break;
    case KEY_TRACE: a->trace_out = arg; break;
    default: return kvsim_take_trace(&a->shared, key, arg, state);
  }
  return 0;
}

typedef struct plan {
  char *output, *report, *command;
  const char *trace;
  char sha256[65], verdict[1024];
  kvt_info info;
  const kvs_policy *policy[KVS_POLICIES];
  kvs_priced_gpu gpu[KVS_COSTS];
  uint32_t policies, gpus;
  kvs_policy_settings settings;
  kvs_prices prices;
  kvs_cells_options run;
  kvs_cell *cell; /* shared memory */
  kv_progress progress;
  uint32_t heads, queries, kernels;
  kvs_kernel_time *kernel;
} plan;

/* ---- resolving ---- */

static kv_status number(const char *text, const char *option, uint64_t low, uint64_t high, uint32_t *value, kv_error *err) {
  uint64_t v = *value;
  kv_status st = text ? kv_cli_count(text, option, low, high, &v, err) : KV_OK;
  *value = (uint32_t)v;
  return st;
}

static kv_status resolve_names(const arguments *a, plan *p, kv_error *err) {
  size_t stem = strlen(a->shared.path);
  if (stem > 3 && !strcmp(a->shared.path + stem - 3, ".h5")) stem -= 3;
  int ok = a->shared.output ? ((p->output = strdup(a->shared.output)) ? 1 : -1) : asprintf(&p->output, "%.*s.kvwhatif.h5", (int)stem, a->shared.path);
  if (ok < 0) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  stem = strlen(p->output);
  if (stem > 3 && !strcmp(p->output + stem - 3, ".h5")) stem -= 3;
  ok = a->shared.report ? ((p->report = strdup(a->shared.report)) ? 1 : -1) : asprintf(&p->report, "%.*s.report", (int)stem, p->output);
  if (ok < 0) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (a->trace_out && a->shared.output)
    return kv_fail(err, KV_ERR_USAGE, "--trace-out writes a trace and no dataset: leave --output out, or run twice");
  if (kv_cli_same_file(p->output, a->shared.path) || (a->trace_out && kv_cli_same_file(a->trace_out, a->shared.path)))
    return kv_fail(err, KV_ERR_USAGE, "%s: is the trace itself", a->trace_out ? "--trace-out" : "--output");
  kv_status st = kv_cli_not_input(p->output, a->shared.calibration, "calibration", err);
  if (!st) st = kv_cli_not_input(a->trace_out, a->shared.calibration, "calibration", err);
  if (st) return st;
  const char *base = strrchr(a->shared.path, '/');
  p->trace = base ? base + 1 : a->shared.path;
  return KV_OK;
}

static kv_status resolve_settings(const arguments *a, plan *p, kv_error *err) {
  kvs_policy_settings *s = &p->settings;
  uint32_t row = 1152, layers = 61, draft = 1;
  double us = 50;
  *s = kvs_policy_settings_default();
  p->prices.effect = KVS_EFFECT;
  kv_status st = number(a->pool, "--pool", 1, 1u << 30, &s->capacity, err);
  if (!st) st = kvsim_real(a->low, "--low-water", 0, 1, &s->low_water, err);
  if (!st) st = kvsim_real(a->high, "--high-water", 0, 1, &s->high_water, err);
  if (!st) st = kvsim_real(a->limit, "--scatter-limit", 0, 1, &s->scatter_limit, err);
  if (!st) st = kvsim_real(a->effect, "--effect", 0, 1, &p->prices.effect, err);
  if (!st) st = number(a->gap, "--pass-gap", 1, UINT32_MAX, &s->pass_gap, err);
  if (!st) st = number(a->budget, "--budget", 2, 1u << 24, &s->budget, err);
  if (!st) st = number(a->shared.draft_topk, "--draft-topk", 1, KVSIM_BRANCHES_MOST, &s->draft_topk, err);
  if (!st) st = number(a->shared.draft_layers, "--draft-layers", 1, 1u << 16, &draft, err);
  if (!st) st = number(a->shared.row_bytes, "--row-bytes", 1, 1u << 20, &row, err);
  if (!st) st = number(a->shared.layers, "--layers", 1, 1u << 16, &layers, err);
  if (!st) st = kvsim_real(a->shared.token_us, "--prefill-us", 0, 1e9, &us, err);
  p->heads = 8;
  p->queries = 9;
  if (!st) st = number(a->heads, "--heads", 1, 4096, &p->heads, err);
  if (!st) st = number(a->queries, "--queries", 1, 4096, &p->queries, err);
  if (!st && s->high_water < s->low_water) st = kv_fail(err, KV_ERR_USAGE, "--high-water: is below --low-water");
  p->prices.row_bytes = row;
  p->prices.layers = layers;
  p->prices.draft_layers = draft;
  p->prices.token_seconds = us * 1e-6;
  return st;
}

static void on_progress(void *arg, double fraction) { kv_progress_at(&((plan *)arg)->progress, fraction); }

static kv_status resolve_run(const arguments *a, plan *p, kv_error *err) {
  kvs_whatif_options *w = &p->run.whatif;
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  uint32_t jobs = processors > 0 ? (uint32_t)processors : 1;
  kv_status st = number(a->shared.jobs, "--jobs", 1, 64, &jobs, err);
  *w = kvs_whatif_options_default();
  w->row_bytes = p->prices.row_bytes;
  w->layers = p->prices.layers;
  w->every = (uint32_t)((p->info.steps + SERIES - 1) / SERIES);
  if (!w->every) w->every = 1;
  if (!st) st = number(a->shared.every, "--every", 1, UINT32_MAX, &w->every, err);
  uint64_t samples = p->info.steps / w->every;
  w->detail_every = samples > DETAILS ? (uint32_t)(samples / DETAILS) : 1;
  p->run.path = a->shared.path;
  p->run.jobs = jobs;
  p->run.arg = p;
  p->run.progress = on_progress;
  if (!st) st = kvsim_gpus(&(kvsim_pricing){a->shared.gpu, a->shared.calibration, p->prices.row_bytes}, p->gpu, w->cost, &p->gpus, err);
  w->costs = p->gpus;
  p->prices.copy_bandwidth = p->gpu[0].copy_bandwidth;
  return st ? st : kvsim_policies(a->shared.policy, p->policy, &p->policies, err);
}

/* ---- running ---- */

/* The baseline goes first: its map's step is everybody's. */
static kv_status simulate(const arguments *a, plan *p, kv_error *err) {
  p->cell = kv_guard_share(p->policies * sizeof *p->cell);
  if (!p->cell) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (uint32_t i = 0; i < p->policies; i++) p->cell[i] = (kvs_cell){.policy = p->policy[i], .settings = p->settings};
  kv_progress_begin(&p->progress, "as-recorded", a->shared.quiet);
  kv_status st = kvs_cells_run(p->cell, 1, &p->run, err);
  kv_progress_end(&p->progress);
  if (!st && p->cell[0].status) st = kv_fail(err, p->cell[0].status, "%s", p->cell[0].err.text);
  for (uint32_t i = 1; i < p->policies; i++) p->cell[i].map_step = p->cell[0].result.map_step;
  if (st || p->policies == 1) return st;
  kv_progress_begin(&p->progress, "what if", a->shared.quiet);
  st = kvs_cells_run(p->cell + 1, p->policies - 1, &p->run, err);
  kv_progress_end(&p->progress);
  for (uint32_t i = 1; i < p->policies && !st; i++)
    if (p->cell[i].status) st = kv_fail(err, p->cell[i].status, "%s", p->cell[i].err.text);
  return st;
}

static kvs_judgement judge_on(const plan *p, uint32_t i, uint32_t gpu) {
  kvs_prices prices = p->prices;
  prices.copy_bandwidth = p->gpu[gpu].copy_bandwidth;
  return kvs_judge(&p->cell[i], &p->cell[0], gpu, &prices);
}

static kvs_judgement judge(const plan *p, uint32_t i) { return judge_on(p, i, 0); }

static uint64_t mismatches(const plan *p) { return p->cell[0].result.tally.mismatches + p->cell[0].list_mismatches; }

/* Of a card whose memory is partly assumed the figure is no bound: roofline has its ends. */
static void say_scatter(const plan *p, double percent, char *text, size_t size) {
  const char *whose = p->gpu[0].memory[0] ? p->gpu[0].memory : p->gpu[0].memory_model, *by = p->gpu[0].memory[0] ? "modelled; memory: " : "";
  if (strstr(p->gpu[0].memory_model, "assumed"))
    (void)snprintf(text, size, " Scatter costs %.2f %% of that time as recorded (%s%s): no bound, values of %s's memory are assumed; `roofline --gpu %s --layout` "
                               "says what they may be worth.", percent, by, whose, p->gpu[0].key, p->gpu[0].key);
  else
    (void)snprintf(text, size, " Scatter costs %.2f %% of that time as recorded: no policy, and no kernel, can gain more by it (%s%s).", percent, by, whose);
}

static void say_verdict(plan *p) {
  const kvs_cell *base = &p->cell[0];
  uint32_t best = 0;
  double most = 0, floor = base->result.read_floor[0], read = base->result.read_seconds[0];
  if (!(read > 0)) {
    (void)snprintf(p->verdict, sizeof p->verdict,
                   "This trace reads no rows in decode steps: what scatter costs, and what a policy saves, is not known.");
    return;
  }
  uint32_t tried = 0, fit = 0;
  for (uint32_t i = 1; i < p->policies; i++) {
    kvs_judgement j = judge(p, i);
    if (!p->policy[i]->costs_nothing) tried++, fit += isnan(j.net) ? 0 : 1;
    if (!strcmp(j.verdict, "do it") && j.net > most) most = j.net, best = i;
  }
  const size_t size = sizeof p->verdict;
  int at = best ? snprintf(p->verdict, size, "Do it: %s saves %.3g s net of %.3g s of reading rows on %s (%.1f %%).",
                           p->policy[best]->name, most, read, p->gpu[0].key, 100 * most / read)
           : tried && !fit
               ? snprintf(p->verdict, size, "No policy tried here fits this pool: a schedule that breaks off is not compared.")
               : snprintf(p->verdict, size, "No policy tried here saves %.0f %% of the time it takes to read the rows on %s.",
                          100 * p->prices.effect, p->gpu[0].key);
  say_scatter(p, 100 * (read - floor) / read, p->verdict + at, size - (size_t)at);
}

/* ---- telling ---- */

static void number_or_dash(double v, const char *format, char *out, size_t size) {
  if (isnan(v))
    (void)snprintf(out, size, "-");
  else
    (void)snprintf(out, size, format, v);
}

/* Whether scatter is anything to each kernel at all: what the best policy and the bound would save it. */
static void print_kernels(const plan *p) {
  if (!p->kernels) return;
  printf("\n  floors of a mean decode step of %u heads x %u queries on %s (modelled, of declared structures by the description: no time is\n  below them, how far above it lies they do not say; `roofline` has times, by a calibration where there is one)\n", p->heads, p->queries,
         p->gpu[0].key);
  for (uint32_t i = 0; i < p->kernels; i++) {
    const kvs_kernel_time *base = &p->kernel[i], *best = NULL;
    if (base->policy || base->gpu) continue;
    for (uint32_t k = 0; k < p->kernels; k++)
      if (!p->kernel[k].gpu && !strcmp(p->kernel[k].kernel, base->kernel) && (!best || p->kernel[k].saved_step > best->saved_step))
        best = &p->kernel[k];
    printf("  %-16s floor %10.3f ms, set by %-5s best saving %.3f ms of it (%s)\n", base->kernel, base->step * 1e3, base->bound,
           best->saved_step * 1e3, best->saved_step > 0 ? p->policy[best->policy]->name : "none");
  }
}

static void print_misfit(const char *name, const char *verdict, uint32_t step) {
  printf("  %-14s %9s %8s %8s %9s %9s %10s %9s %9s %9s %10s  %s (step %u)\n", name, "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", verdict,
         step);
}

static void print_table(const plan *p) {
  const kvs_cell *b = &p->cell[0];
  printf("%s: %s\n", p->trace, p->info.origin);
  printf("  pool %u slots (pages of %u), allocator %s; %.0f B a row, %.0f layers; %s: reads %.0f GB/s from %s,\n"
         "  copies %.0f GB/s from %s; a token computed again %.0f us\n",
         p->info.pool_size, p->info.page_size, kvt_allocator_name(p->info.allocator), p->prices.row_bytes, p->prices.layers,
         p->gpu[0].name, p->gpu[0].read_bandwidth * 1e-9, p->gpu[0].read_source, p->gpu[0].copy_bandwidth * 1e-9,
         p->gpu[0].copy_source, p->prices.token_seconds * 1e6);
  printf("  scatter %s\n", p->gpu[0].memory_model);
  printf("  as recorded: %" PRIu64 " slots differ%s\n\n", mismatches(p), b->list_compared ? ", final lists included" : "");
  printf("  %-14s %9s %8s %8s %9s %9s %10s %9s %9s %9s %10s  %s\n", "policy", "rows/run", "lost", "evicted", "refilled", "moved",
         "read s", "saved s", "move s", "net s", "even step", "verdict");
  for (uint32_t i = 0; i < p->policies; i++) {
    const kvs_whatif_result *r = &p->cell[i].result;
    kvs_judgement j = judge(p, i);
    char even[32];
    number_or_dash(j.break_even, "%.0f", even, sizeof even);
    if (!r->fits) {
      print_misfit(p->policy[i]->name, j.verdict, r->short_step);
      continue;
    }
    printf("  %-14s %9.1f %7.2f%% %8" PRIu64 " %9" PRIu64 " %9" PRIu64 " %10.3f %9.4f %9.4f %9.4f %10s  %s\n", p->policy[i]->name,
           r->runs ? (double)r->rows / (double)r->runs : 0, r->capacity ? 100 * r->waste_mean / r->capacity : 0, r->tally.evicted,
           r->tally.refilled, r->tally.moved + r->tally.copied + r->tally.tails, j.read, j.saved, j.move + j.recompute, j.net, even, j.verdict);
  }
  printf("  rows/run: over decode steps; `kvsim replay` counts the rows of prefill steps too\n");
  print_kernels(p);
  printf("\n  %s\n", p->verdict);
}

static json_t *real_or_null(double v) { return isfinite(v) ? json_real(v) : json_null(); }

/* What a policy comes to on a GPU. */
static void add_price(json_t *o, const plan *p, uint32_t i, uint32_t gpu) {
  const kvs_judgement j = judge_on(p, i, gpu);
  json_object_set_new(o, "read_seconds", real_or_null(j.read));
  json_object_set_new(o, "moved_bytes", real_or_null(j.moved_bytes));
  json_object_set_new(o, "move_seconds", real_or_null(j.move));
  json_object_set_new(o, "recompute_seconds", real_or_null(j.recompute));
  json_object_set_new(o, "saved_seconds", real_or_null(j.saved));
  json_object_set_new(o, "saved_seconds_a_step", real_or_null(j.saved_step));
  json_object_set_new(o, "net_seconds", real_or_null(j.net));
  json_object_set_new(o, "break_even_steps", real_or_null(j.break_even));
  json_object_set_new(o, "verdict", json_string(j.verdict));
  json_t *kernels = json_object();
  for (uint32_t k = 0; k < p->kernels; k++)
    if (p->kernel[k].policy == i && p->kernel[k].gpu == gpu)
      json_object_set_new(kernels, p->kernel[k].kernel,
                          json_pack("{s:s,s:s,s:o,s:o}", "kind", "floor", "bound", p->kernel[k].bound, "step_at_least_seconds",
                                    real_or_null(p->kernel[k].step), "saved_of_floor_seconds_a_step", real_or_null(p->kernel[k].saved_step)));
  json_object_set_new(o, "kernels", kernels);
}

static json_t *policy_json(const plan *p, uint32_t i) {
  const kvs_cell *c = &p->cell[i];
  const kvs_whatif_result *r = &c->result;
  json_t *o = json_pack("{s:s,s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f}", "policy", c->policy->name, "fits", r->fits,
                        "pool", (json_int_t)r->capacity, "page_size", (json_int_t)r->page_size, "rows", (json_int_t)r->rows, "runs",
                        (json_int_t)r->runs, "evicted", (json_int_t)r->tally.evicted, "refilled", (json_int_t)r->tally.refilled,
                        "moved", (json_int_t)r->tally.moved, "copied", (json_int_t)r->tally.copied, "tails", (json_int_t)r->tally.tails, "passes",
                        (json_int_t)r->tally.passes, "mismatches", (json_int_t)(r->tally.mismatches + c->list_mismatches),
                        "slot_operations", (json_int_t)(r->tally.allocated + r->tally.freed), "memory_bytes",
                        (json_int_t)c->memory_bytes, "seconds", c->seconds, "waste_mean", r->waste_mean);
  json_object_set_new(o, "short_step", r->fits ? json_null() : json_integer(r->short_step));
  json_object_set_new(o, "mean_run", r->fits && r->runs ? json_real((double)r->rows / (double)r->runs) : json_null());
  add_price(o, p, i, 0);
  return o;
}

/* Each GPU of --gpu, the first one too: its bandwidths, its memory model, what each policy comes to on it. */
static json_t *gpus_json(const plan *p) {
  json_t *list = json_array();
  for (uint32_t g = 0; g < p->gpus; g++) {
    const kvs_priced_gpu *x = &p->gpu[g];
    json_t *policies = json_array();
    for (uint32_t i = 0; i < p->policies; i++) {
      json_t *o = json_pack("{s:s}", "policy", p->policy[i]->name);
      add_price(o, p, i, g);
      json_array_append_new(policies, o);
    }
    json_array_append_new(list, json_pack("{s:s,s:s,s:f,s:s,s:f,s:s,s:s,s:o}", "gpu", x->key, "name", x->name, "read_bandwidth",
                                          x->read_bandwidth, "read_source", x->read_source, "copy_bandwidth", x->copy_bandwidth,
                                          "copy_source", x->copy_source, "memory_model", x->memory_model, "policies", policies));
  }
  return list;
}

static void print_json(const plan *p) {
  json_t *list = json_array(), *lists = p->cell[0].list_compared ? json_boolean(p->cell[0].list_mismatches == 0) : json_null();
  for (uint32_t i = 0; i < p->policies; i++) json_array_append_new(list, policy_json(p, i));
  json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:f,s:f,s:f,s:I,s:o,s:s,s:o,s:o}", "schema", "kvsim-whatif-1", "trace", p->trace, "trace_sha256",
                        p->sha256, "allocator", kvt_allocator_name(p->info.allocator), "gpu", p->gpu[0].key, "memory_model",
                        kvsim_memory_model(p->gpu, p->gpus), "row_bytes", p->prices.row_bytes, "layers", p->prices.layers, "token_seconds",
                        p->prices.token_seconds, "mismatches", (json_int_t)mismatches(p), "final_lists_match", lists, "verdict",
                        p->verdict, "policies", list, "gpus", gpus_json(p));
  (void)json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  printf("\n");
  json_decref(o);
}

static void print_plan(const arguments *a, const plan *p) {
  printf("trace           %s (sha256 %s)\n", a->shared.path, p->sha256);
  printf("dataset         %s\nreport          %s\n", p->output, a->shared.no_report ? "none" : p->report);
  printf("sampling        every %u of %" PRIu64 " steps, %u processes\n", p->run.whatif.every, p->info.steps, p->run.jobs);
  for (uint32_t i = 0; i < p->policies; i++) printf("policy          %-14s %s\n", p->policy[i]->name, p->policy[i]->summary);
  for (uint32_t i = 0; i < p->gpus; i++)
    printf("gpu             %s: reads %.0f GB/s, %s; copies %.0f GB/s, %s\n", p->gpu[i].key, p->gpu[i].read_bandwidth * 1e-9,
           p->gpu[i].read_source, p->gpu[i].copy_bandwidth * 1e-9, p->gpu[i].copy_source);
  for (uint32_t i = 0; i < p->gpus; i++) printf("scatter         %s: %s\n", p->gpu[i].key, p->gpu[i].memory_model);
}

static kv_status make_report(const arguments *a, const plan *p, kv_error *err) {
  char share[4096];
  if (a->shared.no_report) return KV_OK;
  kv_status st = kv_cli_share("notebooks-free-reports", share, sizeof share, err);
  return st ? st : kvr_report(p->output, p->report, share, NULL, err);
}

static kv_status write_dataset(plan *p, const char *token_source, kv_error *err) {
  const kvs_whatif_head head = {.path = p->output, .command = p->command, .conventions = KVS_WHATIF_CONVENTIONS, .trace = p->trace,
                                .sha256 = p->sha256, .info = &p->info, .memory_model = kvsim_memory_model(p->gpu, p->gpus),
                                .token_source = token_source, .verdict = p->verdict, .settings = &p->settings,
                                .prices = p->prices, .every = p->run.whatif.every, .gpu = p->gpu, .gpus = p->gpus,
                                .kernel = p->kernel, .kernels = p->kernels, .heads = p->heads, .queries = p->queries};
  return kvs_whatif_write(&head, p->cell, p->policies, 0, err);
}

/* ---- one simulation as a trace ---- */

typedef struct telling {
  kvs_told told;
} telling;

static kv_status tell(void *arg, const kvt_event *e, const kvt_step *row, kv_error *err) {
  return kvs_told_event(&((telling *)arg)->told, e, row, err);
}

static kv_status write_trace(const arguments *a, plan *p, kv_error *err) {
  telling t = {0};
  kvt_reader *reader = NULL;
  kvs_whatif *f = NULL;
  kvt_batch b;
  int32_t *initial = NULL;
  kvs_whatif_options w = p->run.whatif;
  const kvs_policy *policy = a->shared.policy ? kvs_policy_find(a->shared.policy) : NULL;
  if (!policy || policy->costs_nothing)
    return kv_fail(err, KV_ERR_USAGE, "--trace-out: needs one --policy, and one that places tokens");
  w.every = 0;
  w.detail_every = 0;
  w.name = a->shared.path;
  w.settings = p->settings;
  w.arg = &t;
  w.tell = tell;
  if (p->info.initial_free && !(initial = malloc(p->info.initial_free * sizeof *initial))) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  kv_status st = p->info.initial_free ? kvt_read_list(a->shared.path, "initial/free_list", p->info.initial_free, initial, err) : KV_OK;
  if (!st) st = kvt_reader_open(a->shared.path, &reader, &p->info, err);
  if (!st) st = kvs_whatif_create(&p->info, policy, &w, initial, &f, err);
  if (!st) st = kvs_told_open(a->trace_out, p->command, &p->info, policy, initial, kvs_whatif_get_world(f), &t.told, err);
  while (!st && (st = kvt_reader_next(reader, &b, err)) == KV_OK) st = kvs_whatif_batch(f, &b, err);
  if (st == KV_END) st = kvs_whatif_finish(f, err);
  if (!st && !kvs_whatif_get_result(f)->fits)
    st = kv_fail(err, KV_ERR_USAGE, "--trace-out: the schedule does not fit policy %s (step %u)", policy->name,
                 kvs_whatif_get_result(f)->short_step);
  if (t.told.writer) {
    kv_status closed = kvs_told_close(&t.told, kvs_whatif_get_world(f), st != KV_OK, st ? NULL : err);
    if (!st) st = closed;
  }
  kvs_whatif_free(f);
  kvt_reader_close(reader);
  free(initial);
  if (!st && !a->shared.quiet) printf("%s: written\n", a->trace_out);
  return st;
}

static kv_status whole(const arguments *a, plan *p, kv_error *err) {
  kv_status st = simulate(a, p, err);
  if (st) return st;
  say_verdict(p);
  st = kvsim_kernel_times(p->gpu, p->gpus, p->cell, p->policies, &p->prices, p->heads, p->queries, &p->kernel, &p->kernels, err);
  if (st) return st;
  st = write_dataset(p, a->shared.token_us ? "--prefill-us" : "assumed", err);
  if (st) return st;
  if (a->shared.json)
    print_json(p);
  else if (!a->shared.quiet)
    print_table(p);
  return make_report(a, p, err);
}

static kv_status read_head(const char *path, kvt_info *info, kv_error *err) {
  kvt_reader *reader;
  kv_status st = kvt_reader_open(path, &reader, info, err);
  if (!st) kvt_reader_close(reader);
  return st;
}

kv_status kvsim_whatif(int argc, char **argv, kv_error *err) {
  static const struct argp argp = {
      options, parse, "TRACE.h5",
      "Run the recorded schedule (who arrives, hits, allocates and frees, and how much) under other allocation and "
      "defragmentation policies: scatter, capacity, what moving costs, what it saves, after how many steps it has paid.\v"
      "Times saved are those of a kernel at the memory roof: a kernel that something else binds gains less.\n\n"
      KVSIM_MOVED "\n\n"
      "Examples:\n  kvsim whatif trace.h5\n  kvsim whatif trace.h5 --policy fifo,pages-64,relocate-full --gpu sm_120,h200\n"
      "  kvsim whatif trace.h5 --policy as-recorded --json --no-report\n  kvsim whatif trace.h5 --row-bytes 128 --pool 2M\n",
      NULL, NULL, NULL};
  arguments a = {0};
  plan p = {0};
  argp_err_exit_status = 2;
  p.command = kv_cli_command_line(argc, argv);
  (void)argp_parse(&argp, argc, argv, 0, NULL, &a);
  kv_status st = resolve_names(&a, &p, err);
  if (!st) st = read_head(a.shared.path, &p.info, err);
  if (!st) st = kv_sha256_file(a.shared.path, p.sha256, err);
  if (!st) st = resolve_settings(&a, &p, err);
  if (!st) st = resolve_run(&a, &p, err);
  if (!st && a.shared.dry_run)
    print_plan(&a, &p);
  else if (!st)
    st = a.trace_out ? write_trace(&a, &p, err) : whole(&a, &p, err);
  kv_guard_unshare(p.cell, p.policies * sizeof *p.cell);
  free(p.kernel);
  free(p.output);
  free(p.report);
  free(p.command);
  return st;
}
