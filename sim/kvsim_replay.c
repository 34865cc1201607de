/* kvsim replay: runs a trace, writes the dataset, the layout asked for and the report, prints a table or JSON. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "kv_h5.h"
#include "kvsim_commands.h"
#include "kvsim_options.h"
#include "layout_write.h"
#include "replay.h"
#include "replay_output.h"
#include "report.h"
#include "trace.h"

/* A trace of at most so many steps is sampled at every step; a longer one about so many times. */
#define SMALL_STEPS 8192u
#define HASH_BYTES (64ll << 20)

typedef struct arguments {
  kvsim_shared shared;
  const char *layout, *request, *step, *milestone_rows, *allocator, *dram_row;
  bool permissive, sha256;
} arguments;

enum { KEY_LAYOUT = 1000, KEY_REQUEST, KEY_STEP, KEY_PERMISSIVE, KEY_MILESTONE, KEY_ALLOCATOR, KEY_DRAM, KEY_SHA };

static const struct argp_option options[] = {
    KVSIM_OPTION_OUTPUT("dataset", "the trace's name with .kvsim.h5", 1),
    KVSIM_OPTION_REPORT(1),
    KVSIM_OPTION_JSON_TABLE("kvsim-replay-1", 1),
    KVSIM_OPTION_QUIET("no table, no progress", 1),
    KVSIM_OPTION_EVERY("all of up to 8,192 steps, else about 8,192 of them", 2),
    KVSIM_OPTION_ROW_BYTES(2),
    {"dram-row", KEY_DRAM, "N", 0, "bytes of the address blocks counted as DRAM rows (default 1024, assumed)", 2},
    {"milestone-rows", KEY_MILESTONE, "N", 0, "rows from which a request's decode steps count (default 16384)", 2},
    {"layout-out", KEY_LAYOUT, "FILE", 0, "write the slots of --request after --step, or as it finishes in it, for the kernels (kvlayout-1)", 3},
    {"request", KEY_REQUEST, "R", 0, "request number, or `all`", 3},
    {"step", KEY_STEP, "S", 0, "scheduler step (default: the last)", 3},
    {"allocator", KEY_ALLOCATOR, "recorded|other", 0, "`other`: do not hold allocations against the recorded allocator's order", 4},
    {"permissive", KEY_PERMISSIVE, 0, 0, "count inconsistent events and skip them", 4},
    {"sha256", KEY_SHA, 0, 0, "hash the trace even if it is larger than 64 MiB", 4},
    KVSIM_OPTION_DRY_RUN("print what would be done and stop", 4),
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case KEY_DRAM: a->dram_row = arg; break;
    case KEY_MILESTONE: a->milestone_rows = arg; break;
    case KEY_LAYOUT: a->layout = arg; break;
    case KEY_REQUEST: a->request = arg; break;
    case KEY_STEP: a->step = arg; break;
    case KEY_PERMISSIVE: a->permissive = true; break;
    case KEY_ALLOCATOR: a->allocator = arg; break;
    case KEY_SHA: a->sha256 = true; break;
    default: return kvsim_take_trace(&a->shared, key, arg, state);
  }
  return 0;
}

/* Everything resolved: what the run will do. */
typedef struct plan {
  char *output, *report, *command;
  char *trace; /* base name, fit to print */
  char sha256[65];
  kvt_info info;
  kvs_replay_options replay;
  kvs_layout_options layout;
  uint64_t layout_step; /* 0: the last */
  const char *layout_path; /* where the layout goes in the end: a run that fails must not leave one */
  char *layout_aside;
  bool layout_done;
  uint32_t seen_first, seen_last; /* steps in which the layout's request ran */
  kvs_output *dataset;
  FILE *milestones;
} plan;

/* ---- resolving ---- */

static kv_status number(const char *text, const char *option, uint64_t low, uint64_t high, uint64_t preset, uint64_t *value,
                        kv_error *err) {
  *value = preset;
  return text ? kv_cli_count(text, option, low, high, value, err) : KV_OK;
}

static kv_status resolve_names(const arguments *a, plan *p, kv_error *err) {
  size_t stem = strlen(a->shared.path);
  if (stem > 3 && !strcmp(a->shared.path + stem - 3, ".h5")) stem -= 3;
  int ok = a->shared.output ? ((p->output = strdup(a->shared.output)) ? 1 : -1) : asprintf(&p->output, "%.*s.kvsim.h5", (int)stem, a->shared.path);
  if (ok < 0) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  stem = strlen(p->output);
  if (stem > 3 && !strcmp(p->output + stem - 3, ".h5")) stem -= 3;
  ok = a->shared.report ? ((p->report = strdup(a->shared.report)) ? 1 : -1) : asprintf(&p->report, "%.*s.report", (int)stem, p->output);
  if (ok < 0) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (kv_cli_same_file(p->output, a->shared.path)) return kv_fail(err, KV_ERR_USAGE, "--output: is the trace itself");
  const char *base = strrchr(a->shared.path, '/');
  p->trace = strdup(base ? base + 1 : a->shared.path);
  if (!p->trace) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  kv_text_clean(p->trace); /* it goes into JSON and datasets */
  return KV_OK;
}

static kv_status resolve_layout(const arguments *a, plan *p, kv_error *err) {
  uint64_t request;
  if (!a->layout) return a->request || a->step ? kv_fail(err, KV_ERR_USAGE, "--request and --step belong to --layout-out") : KV_OK;
  if (!a->request) return kv_fail(err, KV_ERR_USAGE, "--layout-out needs --request R (or `all`)");
  if (kv_cli_same_file(a->layout, a->shared.path) || kv_cli_same_file(a->layout, p->output))
    return kv_fail(err, KV_ERR_USAGE, "--layout-out: is the trace or the dataset itself");
  if (asprintf(&p->layout_aside, "%s.%ld.aside", a->layout, (long)getpid()) < 0) p->layout_aside = NULL;
  if (!p->layout_aside) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  p->layout_path = a->layout;
  p->layout = (kvs_layout_options){.path = p->layout_aside, .command = p->command, .trace = p->trace, .sha256 = p->sha256,
                                   .request = KVS_ALL_REQUESTS};
  kv_status st = number(a->step, "--step", 1, p->info.steps ? p->info.steps : 1, 0, &p->layout_step, err);
  if (st || !strcmp(a->request, "all")) return st;
  st = kv_cli_count(a->request, "--request", 0, p->info.requests ? p->info.requests - 1 : 0, &request, err);
  p->layout.request = (int32_t)request;
  return st;
}

static kv_status resolve_replay(const arguments *a, plan *p, kv_error *err) {
  kvs_replay_options *r = &p->replay;
  uint64_t every, row, dram, rows;
  uint64_t preset = p->info.steps <= SMALL_STEPS ? 1 : (p->info.steps + SMALL_STEPS - 1) / SMALL_STEPS;
  *r = kvs_replay_options_default();
  kv_status st = number(a->shared.every, "--every", 1, UINT32_MAX, preset, &every, err);
  if (!st) st = number(a->shared.row_bytes, "--row-bytes", 1, 1u << 20, r->geometry.row_bytes, &row, err);
  if (!st) st = number(a->dram_row, "--dram-row", 64, 1u << 20, r->geometry.dram_row_bytes, &dram, err);
  if (!st) st = number(a->milestone_rows, "--milestone-rows", 1, UINT32_MAX, r->milestone_rows, &rows, err);
  if (!st && a->allocator && strcmp(a->allocator, "recorded") && strcmp(a->allocator, "other"))
    st = kv_fail(err, KV_ERR_USAGE, "--allocator: '%s' is neither `recorded` nor `other`", a->allocator);
  if (st) return st;
  r->name = a->shared.path;
  r->every = (uint32_t)every;
  r->geometry.row_bytes = (uint32_t)row;
  r->geometry.dram_row_bytes = (uint32_t)dram;
  r->milestone_rows = rows;
  r->permissive = a->permissive;
  r->follow_order = !a->allocator || strcmp(a->allocator, "other");
  if (!r->follow_order) p->info.allocator = KVT_ALLOC_OTHER;
  return KV_OK;
}

/* Hashing a large trace takes longer than replaying it: it is done for small ones, and where a layout leaves this trace
 * behind. */
static kv_status hash_trace(const arguments *a, plan *p, kv_error *err) {
  struct stat sb;
  (void)snprintf(p->sha256, sizeof p->sha256, "not computed (over 64 MiB; --sha256)");
  if (stat(a->shared.path, &sb) == 0 && sb.st_size > HASH_BYTES && !a->sha256 && !a->layout) return KV_OK;
  return kv_sha256_file(a->shared.path, p->sha256, err);
}

/* ---- running ---- */

static bool request_runs(const kvs_replay *r, int32_t wanted) {
  for (uint32_t i = 0; i < kvs_replay_running(r); i++) {
    int32_t id;
    (void)kvs_replay_row(r, i, &id);
    if (id == wanted) return true;
  }
  return false;
}

static kv_status write_layout(plan *p, const kvs_replay *replay, kv_error *err) {
  kv_status st = kvs_layout_write(replay, &p->info, &p->replay.geometry, &p->layout, err);
  p->layout_done |= st == KV_OK;
  return st == KV_END ? KV_OK : st;
}

static uint64_t layout_step(const plan *p) { return p->layout_step ? p->layout_step : p->info.steps; }

/* A request that finishes within the step is gone at its end: what its last milestone saw stays. */
static kv_status on_milestone(plan *p, const kvs_replay *replay, const kvs_milestone *m, kv_error *err) {
  if (!p->layout.path || p->layout.request != m->request) return KV_OK;
  if (!p->seen_first) p->seen_first = m->step;
  p->seen_last = m->step;
  return m->step == layout_step(p) ? write_layout(p, replay, err) : KV_OK;
}

static kv_status on_step_end(void *arg, const kvs_replay *replay, uint32_t step, kv_error *err) {
  plan *p = arg;
  if (!p->layout.path) return KV_OK;
  if (p->layout.request != KVS_ALL_REQUESTS && request_runs(replay, p->layout.request)) {
    if (!p->seen_first) p->seen_first = step;
    p->seen_last = step;
  }
  return step == layout_step(p) ? write_layout(p, replay, err) : KV_OK;
}

/* The dataset's observer, with the layout's step hooked in beside it. */
typedef struct hooks {
  kvs_observer dataset;
  plan *plan;
  const kvs_replay *replay;
} hooks;

static kv_status hook_pool(void *arg, const kvs_pool_sample *s, kv_error *err) {
  const kvs_observer *o = &((hooks *)arg)->dataset;
  return o->pool(o->arg, s, err);
}
static kv_status hook_request(void *arg, uint32_t step, int32_t request, const kvs_measure *m, kv_error *err) {
  const kvs_observer *o = &((hooks *)arg)->dataset;
  return o->request(o->arg, step, request, m, err);
}
static kv_status hook_milestone(void *arg, const kvs_milestone *m, kv_error *err) {
  const hooks *h = arg;
  kv_status st = h->dataset.milestone(h->dataset.arg, m, err);
  return st ? st : on_milestone(h->plan, h->replay, m, err);
}
static kv_status hook_step(void *arg, const kvs_replay *r, uint32_t step, kv_error *err) {
  return on_step_end(((hooks *)arg)->plan, r, step, err);
}

static kv_status run_events(kvt_reader *reader, kvs_replay *replay, const plan *p, bool quiet, kv_error *err) {
  kvt_batch batch;
  kv_progress progress;
  kv_status st;
  kv_progress_begin(&progress, "replay", quiet);
  while ((st = kvt_reader_next(reader, &batch, err)) == KV_OK) {
    if ((st = kvs_replay_batch(replay, &batch, err))) break;
    kv_progress_at(&progress, p->info.events ? (double)(batch.first_event + batch.events) / (double)p->info.events : 1);
  }
  kv_progress_end(&progress);
  return st == KV_END ? kvs_replay_finish(replay, err) : st;
}

static kv_status read_initial(const plan *p, const char *path, int32_t **initial, kv_error *err) {
  *initial = NULL;
  if (!p->info.initial_free) return KV_OK;
  *initial = malloc(p->info.initial_free * sizeof **initial);
  if (!*initial) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  return kvt_read_list(path, "initial/free_list", p->info.initial_free, *initial, err);
}

/* A pool that the machine has no room for is told before anything is written. */
static kv_status check_memory(const arguments *a, const plan *p, kv_error *err) {
  char what[640];
  (void)snprintf(what, sizeof what, "%.500s: replaying a pool of %u slots", a->shared.path, p->info.pool_size);
  return kv_cli_memory(kvs_replay_bytes(&p->info, &p->replay), what, err);
}

/* ---- the recording's own final lists ---- */

typedef enum verdict { NOT_RECORDED, SAME, DIFFERENT, NOT_MODELLED } verdict;

static kv_status compare_list(const char *path, const char *name, uint64_t n, const int32_t *have, uint64_t have_n,
                              bool *same, kv_error *err) {
  *same = n == have_n;
  if (!n || !*same) return KV_OK;
  int32_t *said = malloc(n * sizeof *said);
  kv_status st = said ? kvt_read_list(path, name, n, said, err) : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st) *same = memcmp(said, have, n * sizeof *said) == 0;
  free(said);
  return st;
}

static kv_status compare_final(const char *path, const plan *p, const kvs_replay *r, verdict *v, kv_error *err) {
  const kvs_freelist *l = kvs_replay_get_freelist(r);
  *v = !p->info.has_final ? NOT_RECORDED : NOT_MODELLED;
  if (*v == NOT_RECORDED || l->kind == KVT_ALLOC_OTHER) return KV_OK;
  int32_t *have = malloc(((size_t)l->count + l->released) * sizeof *have + 1);
  bool list = false, release = false;
  if (!have) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  kvs_freelist_copy(l, have, have + l->count);
  kv_status st = compare_list(path, "final/free_list", p->info.final_free, have, l->count, &list, err);
  if (!st) st = compare_list(path, "final/release_list", p->info.final_release, have + l->count, l->released, &release, err);
  free(have);
  *v = list && release ? SAME : DIFFERENT;
  return st;
}

/* ---- telling ---- */

static const char *const verdict_text[] = {"not recorded", "identical to the recording", "DIFFERS from the recording",
                                           "not modelled (allocator other)"};

static void print_table(const plan *p, const kvs_replay *r, verdict final) {
  const kvs_replay_totals *t = kvs_replay_get_totals(r);
  const kvs_pool_sample *s = kvs_output_last(p->dataset);
  const kvs_scattered *list;
  uint32_t n = kvs_output_scattered(p->dataset, &list);
  printf("%s: %s\n", p->trace, p->info.origin);
  printf("  pool          %u slots (pages of %u), allocator %s, %u B a row and layer\n", p->info.pool_size, p->info.page_size,
         kvt_allocator_name(p->info.allocator), p->replay.geometry.row_bytes);
  printf("  replayed      %" PRIu64 " steps, %" PRIu64 " requests started, %" PRIu64 " finished, %" PRIu64
         " slots allocated, %" PRIu64 " freed (%.2f pool turnovers)\n",
         t->steps, t->started, t->finished, t->allocated, t->freed, (double)t->allocated / p->info.pool_size);
  printf("  at the end    %" PRIu64 " running, %.1f %% live, %.1f %% cached, %.1f %% free in %" PRIu64
         " runs by address (fragmentation %.3f)\n",
         (uint64_t)s->running, 100.0 * (double)s->live / p->info.pool_size, 100.0 * (double)s->cached / p->info.pool_size,
         100.0 * (double)s->free / p->info.pool_size, s->free_runs_address, s->fragmentation);
  printf("  free list     %s\n", verdict_text[final]);
  if (t->skipped) printf("  SKIPPED       %" PRIu64 " inconsistent events; first: %s\n", t->skipped, t->first_fault);
  if (n) printf("\n  most scattered (of 1,024 rows or more)\n  %8s %8s %-12s %9s %9s %10s %9s %10s\n", "request", "step", "at",
                "rows", "runs", "rows/run", "adjacent", "span");
  for (uint32_t i = 0; i < n; i++) {
    const kvs_milestone *m = &list[i].at;
    printf("  %8d %8u %-12s %9" PRIu64 " %9" PRIu64 " %10.1f %9.4f %10" PRIu64 "\n", m->request, m->step, m->event, m->rows,
           m->runs, m->mean_run, m->adjacent_fraction, m->span);
  }
  printf("\n  %s\n", kvs_output_verdict(p->dataset));
}

static void copy_milestones(FILE *from) {
  char line[512];
  bool first = true;
  rewind(from);
  while (fgets(line, sizeof line, from)) {
    line[strcspn(line, "\n")] = '\0';
    printf("%s\n  %s", first ? "" : ",", line);
    first = false;
  }
}

static void print_json(const plan *p, const kvs_replay *r, verdict final) {
  const kvs_replay_totals *t = kvs_replay_get_totals(r);
  const kvs_freelist *l = kvs_replay_get_freelist(r);
  json_t *head = json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "schema", "kvsim-replay-1",
                           "trace", p->trace, "trace_sha256", p->sha256, "allocator", kvt_allocator_name(p->info.allocator),
                           "verdict", kvs_output_verdict(p->dataset), "pool_size", (json_int_t)p->info.pool_size, "page_size",
                           (json_int_t)p->info.page_size, "every", (json_int_t)p->replay.every, "steps", (json_int_t)t->steps,
                           "requests_started", (json_int_t)t->started, "requests_finished", (json_int_t)t->finished,
                           "requests_retracted", (json_int_t)t->retracted, "slots_allocated", (json_int_t)t->allocated,
                           "slots_freed", (json_int_t)t->freed, "slots_free", (json_int_t)kvs_replay_get_pool(r)->free,
                           "skipped_events", (json_int_t)t->skipped);
  json_t *list = json_pack("{s:I,s:I,s:o}", "entries", (json_int_t)l->count, "waiting", (json_int_t)l->released,
                           "matches_recording", final == SAME        ? json_true()
                                                : final == DIFFERENT ? json_false()
                                                                     : json_null());
  json_object_set_new(head, "final_free_list", list);
  char *text = json_dumps(head, JSON_INDENT(1));
  /* the milestones are streamed: their number has no bound */
  if (text) {
    text[strlen(text) - 2] = '\0';
    printf("%s,\n \"milestones\": [", text);
    copy_milestones(p->milestones);
    printf("\n ]\n}\n");
  }
  free(text);
  json_decref(head);
}

static void print_plan(const arguments *a, const plan *p) {
  printf("trace           %s (sha256 %s)\n", a->shared.path, p->sha256);
  printf("dataset         %s\nreport          %s\n", p->output, a->shared.no_report ? "none" : p->report);
  printf("sampling        every %u of %" PRIu64 " steps\n", p->replay.every, p->info.steps);
  printf("geometry        row %u B, sector %u B, TLB page %u B, DRAM row %u B (assumed)\n", p->replay.geometry.row_bytes,
         p->replay.geometry.sector_bytes, p->replay.geometry.tlb_page_bytes, p->replay.geometry.dram_row_bytes);
  printf("memory          %.3g GB for the pool, %.3g GB left here\n", 1e-9 * (double)kvs_replay_bytes(&p->info, &p->replay),
         1e-9 * (double)kv_cli_memory_left());
  printf("allocator       %s%s\n", kvt_allocator_name(p->info.allocator), p->replay.follow_order ? "" : ", its order not checked");
  if (p->layout_path) printf("layout          %s\n", p->layout_path);
}

static kv_status make_report(const arguments *a, const plan *p, kv_error *err) {
  char share[4096];
  if (a->shared.no_report) return KV_OK;
  kv_status st = kv_cli_share("notebooks-free-reports", share, sizeof share, err);
  if (!st) st = kvr_report(p->output, p->report, share, NULL, err);
  if (st && err) { /* the data are safe: say so, since a report that fails looks like a run that failed */
    char text[KV_ERROR_TEXT];
    (void)snprintf(text, sizeof text, "%.500s (the dataset %.100s is written)", err->text, p->output);
    return kv_fail(err, st, "%s", text);
  }
  return st;
}

static kv_status layout_missing(const plan *p, kv_error *err) {
  if (!p->layout.path || p->layout_done) return KV_OK;
  unsigned long long step = (unsigned long long)layout_step(p);
  if (!p->seen_first)
    return kv_fail(err, KV_ERR_USAGE, "--request: request %d never runs at the end of a step", p->layout.request);
  return kv_fail(err, KV_ERR_USAGE, "--step: request %d does not run after step %llu (it does from step %u to %u)",
                 p->layout.request, step, p->seen_first, p->seen_last);
}

static kv_status put_layout(const plan *p, kv_error *err) {
  if (!p->layout_done || rename(p->layout_aside, p->layout_path) == 0) return KV_OK;
  return kv_fail(err, KV_ERR_IO, "%s: cannot be put in place: %s", p->layout_path, strerror(errno));
}

static kv_status replay_and_write(const arguments *a, plan *p, kvt_reader *reader, kv_error *err) {
  kvs_replay *replay = NULL;
  int32_t *initial = NULL;
  verdict final = NOT_RECORDED;
  hooks h = {.plan = p};
  const kvs_output_options o = {.path = p->output, .command = p->command, .trace = p->trace, .sha256 = p->sha256,
                                .every = p->replay.every, .milestones = p->milestones};
  kv_status st = read_initial(p, a->shared.path, &initial, err);
  if (!st) st = kvs_output_open(&o, &p->info, &p->replay.geometry, &p->dataset, &h.dataset, err);
  if (st) goto done;
  p->replay.observer = (kvs_observer){&h, hook_pool, hook_request, hook_milestone, hook_step};
  st = kvs_replay_create(&p->info, &p->replay, initial, &replay, err);
  h.replay = replay;
  if (!st) st = run_events(reader, replay, p, a->shared.quiet, err);
  if (!st) st = compare_final(a->shared.path, p, replay, &final, err);
  if (!st && final == DIFFERENT && !a->permissive)
    st = kv_fail(err, KV_ERR_INPUT, "%s: /final/free_list differs from what the events leave", a->shared.path);
  if (!st && p->milestones && (fflush(p->milestones) != 0 || ferror(p->milestones)))
    st = kv_fail(err, KV_ERR_IO, "the temporary file of the milestones cannot be written (is /tmp full?)");
  if (!st)
    st = kvs_output_finish(p->dataset, replay, err);
  else
    kvs_output_abandon(p->dataset);
  if (!st && a->shared.json)
    print_json(p, replay, final);
  else if (!st && !a->shared.quiet)
    print_table(p, replay, final);
  if (!st) st = put_layout(p, err);
  if (!st) st = layout_missing(p, err);
done:
  if (st && p->layout_aside) (void)unlink(p->layout_aside);
  free(initial);
  kvs_replay_free(replay);
  kvs_output_free(p->dataset);
  return st;
}

kv_status kvsim_replay(int argc, char **argv, kv_error *err) {
  static const struct argp argp = {
      options, parse, "TRACE.h5",
      "Replay a kvtrace-1 file: the pool's state, and at every sampled step how scattered each running request's rows are.\v"
      "Examples:\n  kvsim replay trace.h5\n  kvsim replay trace.h5 --every 64 --no-report --json\n"
      "  kvsim replay trace.h5 --layout-out row.h5 --request 7 --step 900\n", NULL, NULL, NULL};
  arguments a = {0};
  plan p = {0};
  kvt_reader *reader = NULL;
  argp_err_exit_status = 2;
  p.command = kv_cli_command_line(argc, argv);
  (void)argp_parse(&argp, argc, argv, 0, NULL, &a);
  kv_status st = resolve_names(&a, &p, err);
  if (!st) st = kvt_reader_open(a.shared.path, &reader, &p.info, err);
  if (!st) st = hash_trace(&a, &p, err);
  if (!st) st = resolve_replay(&a, &p, err);
  if (!st) st = resolve_layout(&a, &p, err);
  if (st) goto done;
  if (a.shared.dry_run) {
    print_plan(&a, &p);
    goto done;
  }
  st = check_memory(&a, &p, err);
  if (!st && a.shared.json && !(p.milestones = tmpfile())) st = kv_fail(err, KV_ERR_IO, "no temporary file for the milestones");
  if (!st) st = replay_and_write(&a, &p, reader, err);
  if (!st) st = make_report(&a, &p, err);
done:
  if (p.milestones) (void)fclose(p.milestones);
  kvt_reader_close(reader);
  free(p.output);
  free(p.trace);
  free(p.layout_aside);
  free(p.report);
  free(p.command);
  return st;
}
