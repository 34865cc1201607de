/* kvsim sweep: traces x policies x pools x GPUs, one dataset. What is done is kept beside the output, so that a
 * sweep that was interrupted goes on where it stopped. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "kv_guard.h"
#include "kv_h5.h"
#include "kv_version.h"
#include "kvsim_commands.h"
#include "kvsim_gpu.h"
#include "kvsim_options.h"
#include "report.h"
#include "whatif_output.h"

#define POOLS_MOST 32u
#define TRACES_MOST 32u
#define CONVENTIONS "kvsweep-1"
#define STATE_MAGIC "kvsweep-1 state 2"

typedef struct arguments {
  kvsim_shared shared;
  const char *path[TRACES_MOST], *pool;
  uint32_t paths;
  bool restart;
} arguments;

enum { KEY_RESTART = 1000 };

static const struct argp_option options[] = {
    KVSIM_OPTION_POLICY(1),
    KVSIM_OPTION_GPU("", 1),
    KVSIM_OPTION_CALIBRATION(1),
    {"pool", 'P', "SLOTS,...", 0, "pool sizes (default: each recording's)", 1},
    KVSIM_OPTION_ROW_BYTES(1),
    KVSIM_OPTION_LAYERS(1),
    KVSIM_OPTION_PREFILL(1),
    KVSIM_OPTION_DRAFT(1),
    KVSIM_OPTION_OUTPUT("dataset", "the first trace's name with .kvsweep.h5", 2),
    KVSIM_OPTION_REPORT(2),
    {"restart", KEY_RESTART, 0, 0, "begin anew, and throw away what an earlier sweep left", 2},
    KVSIM_OPTION_JOBS(2),
    KVSIM_OPTION_QUIET("no progress, no summary", 2),
    KVSIM_OPTION_DRY_RUN("print what would be done and stop", 2),
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case 'P': a->pool = arg; break;
    case KEY_RESTART: a->restart = true; break;
    case ARGP_KEY_ARG:
      if (a->paths == TRACES_MOST) argp_error(state, "at most %u traces", TRACES_MOST);
      a->path[a->paths++] = arg;
      break;
    default: return kvsim_take_trace(&a->shared, key, arg, state);
  }
  return 0;
}

/* What a kept result belongs to; compared byte by byte. Policies by name: their addresses are another process's. */
typedef struct state_head {
  char magic[24], version[48], sha256[TRACES_MOST][65], policies[512];
  uint32_t pool[POOLS_MOST], draft_topk;
  uint64_t cell_bytes, cells, gpus;
  double row_bytes, layers;
  double rate[KVS_COSTS][2 + KVS_SHARES]; /* bandwidths, and what runs keep of them */
} state_head;

typedef struct plan {
  char *output, *report, *state, *command;
  kvs_swept_trace trace[TRACES_MOST];
  uint32_t traces, topk;
  kvs_priced_gpu gpu[KVS_COSTS];
  uint32_t gpus, cells, pools;
  uint32_t pool[POOLS_MOST];
  kvs_cell *cell; /* shared memory */
  size_t shared;  /* bytes */
  kvs_prices prices;
  kvs_cells_options run;
  kv_progress progress;
  FILE *kept;
  uint32_t kept_n; /* cells in it */
  state_head head;
  uint32_t done; /* cells done before this run */
  uint32_t ran, running; /* cells done, and of the stretch that runs now */
} plan;

/* ---- resolving ---- */

static kv_status resolve_pools(const arguments *a, plan *p, kv_error *err) {
  char *list = strdup(a->pool ? a->pool : ""), *rest = NULL;
  kv_status st = list ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (char *t = st ? NULL : strtok_r(list, ",", &rest); t && !st; t = strtok_r(NULL, ",", &rest)) {
    uint64_t slots;
    if (p->pools == POOLS_MOST) st = kv_fail(err, KV_ERR_USAGE, "--pool: at most %u sizes", POOLS_MOST);
    if (!st) st = kv_cli_count(t, "--pool", 1, 1u << 30, &slots, err);
    if (!st) p->pool[p->pools++] = (uint32_t)slots;
  }
  if (!st && !p->pools) p->pool[p->pools++] = 0;
  free(list);
  return st;
}

/* as-recorded and the oracle have the recording's pool; as-recorded is the first. */
static void add_cells(plan *p, uint32_t trace, const kvs_policy *const *policy, uint32_t policies) {
  kvs_swept_trace *t = &p->trace[trace];
  t->first_cell = p->cells;
  for (uint32_t i = 0; i < policies; i++)
    for (uint32_t k = 0; k < p->pools; k++) {
      bool fixed = policy[i] == &kvs_policy_as_recorded || policy[i]->costs_nothing;
      if (fixed && k) continue;
      kvs_cell *c = &p->cell[p->cells++];
      *c = (kvs_cell){.policy = policy[i], .settings = kvs_policy_settings_default(), .trace = trace};
      c->settings.draft_topk = p->topk;
      c->settings.capacity = fixed || p->pool[k] == t->info.pool_size ? 0 : p->pool[k];
    }
  t->cells = p->cells - t->first_cell;
}

static kv_status resolve_cells(const arguments *a, plan *p, kv_error *err) {
  const kvs_policy *policy[KVS_POLICIES];
  uint32_t policies;
  kv_status st = kvsim_policies(a->shared.policy, policy, &policies, err);
  if (!st) st = resolve_pools(a, p, err);
  if (st) return st;
  p->shared = (size_t)p->traces * policies * p->pools * sizeof *p->cell;
  p->cell = kv_guard_share(p->shared);
  if (!p->cell) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (uint32_t i = 0; i < p->traces; i++) add_cells(p, i, policy, policies);
  return KV_OK;
}

static kv_status small_number(const char *text, const char *option, uint64_t high, uint32_t *value, kv_error *err) {
  uint64_t v = *value;
  kv_status st = text ? kv_cli_count(text, option, 1, high, &v, err) : KV_OK;
  *value = (uint32_t)v;
  return st;
}

static void on_progress(void *arg, double fraction) {
  plan *p = arg;
  kv_progress_at(&p->progress, (p->ran + fraction * p->running) / p->cells);
}

static void on_finished(void *arg, const kvs_cell *cell) {
  plan *p = arg;
  uint64_t number = (uint64_t)(cell - p->cell);
  if (!p->kept || cell->status) return;
  if (fwrite(&number, sizeof number, 1, p->kept) != 1 || fwrite(cell, sizeof *cell, 1, p->kept) != 1 || fflush(p->kept) != 0) {
    (void)fclose(p->kept); /* the sweep itself goes on */
    p->kept = NULL;
    return;
  }
  p->kept_n++;
}

static kv_status open_trace(const arguments *a, uint32_t i, kvs_swept_trace *t, kv_error *err) {
  kvt_reader *reader;
  const char *base = strrchr(a->path[i], '/');
  t->path = a->path[i];
  t->name = base ? base + 1 : t->path;
  for (uint32_t k = 0; k < i; k++)
    if (kv_cli_same_file(a->path[k], t->path)) return kv_fail(err, KV_ERR_USAGE, "%s: is given twice", t->path);
  kv_status st = kvt_reader_open(t->path, &reader, &t->info, err);
  if (st) return st;
  kvt_reader_close(reader);
  t->every = (uint32_t)(t->info.steps / 256 + 1);
  return kv_sha256_file(t->path, t->sha256, err);
}

static size_t stem(const char *name) {
  size_t length = strlen(name);
  return length > 3 && !strcmp(name + length - 3, ".h5") ? length - 3 : length;
}

static kv_status resolve_names(const arguments *a, plan *p, kv_error *err) {
  const char *output = a->shared.output, *report = a->shared.report, *first = a->path[0];
  int ok = output ? asprintf(&p->output, "%s", output) : asprintf(&p->output, "%.*s.kvsweep.h5", (int)stem(first), first);
  if (ok >= 0) ok = report ? asprintf(&p->report, "%s", report) : asprintf(&p->report, "%.*s.report", (int)stem(p->output), p->output);
  if (ok < 0 || asprintf(&p->state, "%s.unfinished", p->output) < 0) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (uint32_t i = 0; i < p->traces; i++)
    if (kv_cli_same_file(p->output, a->path[i])) return kv_fail(err, KV_ERR_USAGE, "--output: is the trace itself");
  return kv_cli_not_input(p->output, a->shared.calibration, "calibration", err);
}

static kv_status resolve(const arguments *a, plan *p, kv_error *err) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  uint32_t jobs = processors > 0 ? (uint32_t)processors : 1, row = 1152, layers = 61, draft = 1;
  double us = 50;
  kv_status st = resolve_names(a, p, err);
  if (!st) st = small_number(a->shared.jobs, "--jobs", 64, &jobs, err);
  if (!st) st = small_number(a->shared.row_bytes, "--row-bytes", 1u << 20, &row, err);
  if (!st) st = small_number(a->shared.layers, "--layers", 1u << 16, &layers, err);
  p->topk = 1;
  if (!st) st = small_number(a->shared.draft_topk, "--draft-topk", KVSIM_BRANCHES_MOST, &p->topk, err);
  if (!st) st = small_number(a->shared.draft_layers, "--draft-layers", 1u << 16, &draft, err);
  if (!st) st = kvsim_real(a->shared.token_us, "--prefill-us", 0, 1e9, &us, err);
  p->prices = (kvs_prices){.row_bytes = row, .layers = layers, .draft_layers = draft, .token_seconds = us * 1e-6, .effect = KVS_EFFECT};
  p->run = (kvs_cells_options){.whatif = kvs_whatif_options_default(), .jobs = jobs, .arg = p, .progress = on_progress,
                               .finished = on_finished};
  kvs_whatif_options *w = &p->run.whatif;
  w->row_bytes = row;
  w->layers = layers;
  w->detail_every = 16;
  if (!st) st = kvsim_gpus(&(kvsim_pricing){a->shared.gpu, a->shared.calibration, row}, p->gpu, w->cost, &p->gpus, err);
  w->costs = p->gpus;
  return st ? st : resolve_cells(a, p, err);
}

/* ---- what an earlier sweep left ---- */

static void make_head(plan *p) {
  state_head *h = &p->head;
  size_t at = 0;
  memset(h, 0, sizeof *h);
  (void)snprintf(h->magic, sizeof h->magic, "%s", STATE_MAGIC);
  (void)snprintf(h->version, sizeof h->version, "%s", KV_VERSION);
  for (uint32_t i = 0; i < p->traces; i++) memcpy(h->sha256[i], p->trace[i].sha256, sizeof h->sha256[i]);
  for (uint32_t i = 0; i < p->trace[0].cells && at < sizeof h->policies; i++)
    if (!i || p->cell[i].policy != p->cell[i - 1].policy)
      at += (size_t)snprintf(h->policies + at, sizeof h->policies - at, "%s%s", at ? "," : "", p->cell[i].policy->name);
  memcpy(h->pool, p->pool, p->pools * sizeof *p->pool);
  h->draft_topk = p->topk;
  h->cell_bytes = sizeof *p->cell;
  h->cells = p->cells;
  h->gpus = p->gpus;
  h->row_bytes = p->prices.row_bytes;
  h->layers = p->prices.layers;
  for (uint32_t i = 0; i < p->gpus; i++) {
    h->rate[i][0] = p->gpu[i].read_bandwidth;
    h->rate[i][1] = p->gpu[i].copy_bandwidth;
    memcpy(&h->rate[i][2], p->gpu[i].run_share, sizeof p->gpu[i].run_share);
  }
}

static void take_kept(plan *p, uint64_t number, kvs_cell *kept) {
  kvs_cell *c = &p->cell[number];
  /* pointers of another process; the rest must be what is asked now */
  if (c->done || memcmp(&kept->settings, &c->settings, sizeof c->settings) || kept->result.page_size == 0) return;
  kept->policy = c->policy;
  *c = *kept;
  c->done = true;
  p->done++;
}

static void add(char *text, size_t size, const char *format, ...) {
  size_t at = strlen(text);
  va_list list;
  va_start(list, format);
  (void)vsnprintf(text + at, size - at, format, list);
  va_end(list);
}

/* Whole results in the file after its head. */
static unsigned long long count_kept(FILE *f, const state_head *h) {
  const long long record = (long long)(sizeof(uint64_t) + h->cell_bytes);
  struct stat sb;
  return fstat(fileno(f), &sb) || sb.st_size < (off_t)sizeof *h || record <= 0
             ? 0
             : (unsigned long long)((sb.st_size - (off_t)sizeof *h) / record);
}

/* Results cost time: another command throws them away only when it is told to. */
static kv_status another_sweep(const plan *p, const state_head *had, unsigned long long results, kv_error *err) {
  const state_head *h = &p->head;
  char why[700] = "";
  if (strncmp(had->version, h->version, sizeof h->version) != 0) add(why, sizeof why, ", by kvsim %.47s", had->version);
  if (memcmp(had->sha256, h->sha256, sizeof h->sha256) != 0) add(why, sizeof why, ", other traces");
  if (strncmp(had->policies, h->policies, sizeof h->policies) != 0) add(why, sizeof why, ", --policy %.511s", had->policies);
  if (memcmp(had->pool, h->pool, sizeof h->pool) != 0) add(why, sizeof why, ", another --pool");
  if (had->row_bytes != h->row_bytes) add(why, sizeof why, ", --row-bytes %.0f", had->row_bytes);
  if (had->layers != h->layers) add(why, sizeof why, ", --layers %.0f", had->layers);
  if (had->draft_topk != h->draft_topk) add(why, sizeof why, ", --draft-topk %u", had->draft_topk);
  if (had->gpus != h->gpus || memcmp(had->rate, h->rate, sizeof h->rate) != 0) add(why, sizeof why, ", another --gpu or --calibration");
  return kv_fail(err, KV_ERR_USAGE, "%s: holds %llu simulations of a sweep that was not finished, with other settings (%s); give "
                 "that command again, another --output, or --restart to throw them away",
                 p->state, results, *why ? why + 2 : "another build of kvsim");
}

static kv_status read_kept(plan *p, kv_error *err) {
  FILE *f = fopen(p->state, "rb");
  state_head h = {0};
  uint64_t number;
  kvs_cell *kept = malloc(sizeof *kept);
  kv_status st = kept ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  size_t got = f && !st ? fread(&h, 1, sizeof h, f) : 0;
  if (got && (strncmp(h.magic, STATE_MAGIC, sizeof h.magic) != 0))
    st = kv_fail(err, KV_ERR_USAGE, "%s: is not what this kvsim keeps of a sweep; --restart overwrites it", p->state);
  else if (got == sizeof h && memcmp(&h, &p->head, sizeof h) != 0) {
    unsigned long long results = count_kept(f, &h);
    if (results) st = another_sweep(p, &h, results, err);
  } else if (got == sizeof h)
    while (fread(&number, sizeof number, 1, f) == 1 && fread(kept, sizeof *kept, 1, f) == 1 && number < p->cells)
      take_kept(p, number, kept);
  free(kept);
  if (f) (void)fclose(f);
  return st;
}

/* Everything known goes to a new file, so that a record that was cut short does not stay in the middle. */
static void begin_keeping(plan *p) {
  p->kept = fopen(p->state, "wb");
  if (!p->kept) return;
  if (fwrite(&p->head, sizeof p->head, 1, p->kept) != 1) {
    (void)fclose(p->kept);
    p->kept = NULL;
  }
  for (uint32_t i = 0; i < p->cells; i++)
    if (p->cell[i].done) on_finished(p, &p->cell[i]);
}

/* ---- running ---- */

/* Runs the cells of a range that are not done: they must stand together, so they go through one by one stretch. */
static kv_status run_range(plan *p, uint32_t from, uint32_t to, kv_error *err) {
  kv_status st = KV_OK;
  for (uint32_t i = from, n; i < to && !st; i += n) {
    for (n = 1; i + n < to && p->cell[i + n].done == p->cell[i].done; n++) continue;
    p->running = n;
    if (!p->cell[i].done) st = kvs_cells_run(p->cell + i, n, &p->run, err);
    p->ran += n;
    for (uint32_t k = i; k < i + n && !st; k++)
      if (p->cell[k].status) st = kv_fail(err, p->cell[k].status, "%s", p->cell[k].err.text);
  }
  return st;
}

/* As recorded first: its busiest step is the one that all maps are of. */
static kv_status run_trace(plan *p, const kvs_swept_trace *t, kv_error *err) {
  uint32_t first = t->first_cell, end = first + t->cells;
  p->run.path = t->path;
  p->run.whatif.every = t->every;
  kv_status st = run_range(p, first, first + 1, err);
  for (uint32_t i = first + 1; i < end; i++)
    if (!p->cell[i].done) p->cell[i].map_step = p->cell[first].result.map_step;
  return st ? st : run_range(p, first + 1, end, err);
}

static kvs_judgement judge(const plan *p, uint32_t cell, uint32_t gpu) {
  kvs_prices prices = p->prices;
  prices.copy_bandwidth = p->gpu[gpu].copy_bandwidth;
  return kvs_judge(&p->cell[cell], &p->cell[p->trace[p->cell[cell].trace].first_cell], gpu, &prices);
}

static kv_status write_dataset(plan *p, const char *token_source, kv_error *err) {
  char verdict[256];
  uint32_t good = 0, judged = 0; /* a baseline or a bound is no choice */
  for (uint32_t i = 0; i < p->cells; i++)
    for (uint32_t g = 0; g < p->gpus; g++) {
      const char *one = judge(p, i, g).verdict;
      good += !strcmp(one, "do it");
      judged += strcmp(one, "baseline") != 0 && strcmp(one, "bound") != 0;
    }
  (void)snprintf(verdict, sizeof verdict, "%u of %u combinations of trace, policy, pool and GPU save at least %.0f %% of the time it takes to read the rows.",
                 good, judged, 100 * p->prices.effect);
  kvs_policy_settings settings = kvs_policy_settings_default();
  settings.draft_topk = p->topk;
  const kvs_whatif_head head = {.path = p->output, .command = p->command, .conventions = CONVENTIONS, .traced = p->trace,
                                .traces = p->traces, .memory_model = kvsim_memory_model(p->gpu, p->gpus), .token_source = token_source, .verdict = verdict,
                                .settings = &settings, .prices = p->prices, .gpu = p->gpu, .gpus = p->gpus};
  kv_status st = kvs_whatif_write(&head, p->cell, p->cells, 0, err);
  return st;
}

static void print_summary(const plan *p) {
  printf("%s: %u simulations (%u kept from before), %u traces, %u GPUs\n", p->output, p->cells, p->done, p->traces, p->gpus);
  for (uint32_t g = 0; g < p->gpus; g++) printf("  scatter on %s %s\n", p->gpu[g].key, p->gpu[g].memory_model);
  printf("  %-14s %10s %9s  ", "policy", "pool", "rows/run");
  for (uint32_t g = 0; g < p->gpus; g++) printf(" %-24.24s", p->gpu[g].key);
  printf("\n");
  for (uint32_t i = 0; i < p->cells; i++) {
    const kvs_whatif_result *r = &p->cell[i].result;
    const kvs_swept_trace *t = &p->trace[p->cell[i].trace];
    if (i == t->first_cell) printf("  %s\n", t->name);
    printf("  %-14s %10u ", p->cell[i].policy->name, r->capacity);
    if (r->fits)
      printf("%9.1f  ", r->runs ? (double)r->rows / (double)r->runs : 0);
    else
      printf("%9s  ", "-");
    for (uint32_t g = 0; g < p->gpus; g++) {
      kvs_judgement j = judge(p, i, g);
      if (isnan(j.net))
        printf(" %9s   %-12s", "-", j.verdict);
      else
        printf(" %+9.4f s %-12s", j.net, j.verdict);
    }
    printf("\n");
  }
}

static kv_status make_report(const plan *p, kv_error *err) {
  char share[4096];
  kv_status st = kv_cli_share("notebooks-free-reports", share, sizeof share, err);
  return st ? st : kvr_report(p->output, p->report, share, NULL, err);
}

static kv_status sweep(const arguments *a, plan *p, kv_error *err) {
  make_head(p);
  kv_status st = a->restart ? KV_OK : read_kept(p, err);
  if (st) return st;
  begin_keeping(p);
  const bool keeps = p->kept != NULL;
  kv_progress_begin(&p->progress, "sweep", a->shared.quiet);
  for (uint32_t i = 0; i < p->traces && !st; i++) st = run_trace(p, &p->trace[i], err);
  kv_progress_end(&p->progress);
  if (!st) st = write_dataset(p, a->shared.token_us ? "--prefill-us" : "assumed", err);
  if (p->kept) (void)fclose(p->kept);
  if (!st || (keeps && !p->kept_n)) (void)unlink(p->state);
  if (!st && !a->shared.quiet) print_summary(p);
  return st || a->shared.no_report ? st : make_report(p, err);
}

kv_status kvsim_sweep(int argc, char **argv, kv_error *err) {
  static const struct argp argp = {
      options, parse, "TRACE.h5...",
      "Run the schedule of each trace under policies x pool sizes, price it on GPUs, and write one dataset (kvsweep-1). "
      "Interrupted, it goes on where it stopped when the same command is given again.\v"
      KVSIM_MOVED "\n\n"
      "Examples:\n  kvsim sweep trace.h5 --gpu h200,sm_120 --pool 512Ki,1Mi,2Mi\n  kvsim sweep monday.h5 tuesday.h5 -o week.h5\n"
      "  kvsim sweep trace.h5 --policy fifo,compact --restart\n",
      NULL, NULL, NULL};
  arguments a = {0};
  plan p = {0};
  argp_err_exit_status = 2;
  p.command = kv_cli_command_line(argc, argv);
  (void)argp_parse(&argp, argc, argv, 0, NULL, &a);
  kv_status st = KV_OK;
  for (; p.traces < a.paths && !st; p.traces++) st = open_trace(&a, p.traces, &p.trace[p.traces], err);
  if (!st) st = resolve(&a, &p, err);
  if (!st && a.shared.dry_run)
    printf("%s: %u simulations of %u traces, priced on %u GPUs, %u at a time\n", p.output, p.cells, p.traces, p.gpus, p.run.jobs);
  else if (!st)
    st = sweep(&a, &p, err);
  kv_guard_unshare(p.cell, p.shared);
  free(p.output);
  free(p.report);
  free(p.state);
  free(p.command);
  return st;
}
