/* roofline calibrate - runs the microbenchmarks on a GPU of this machine and writes the dataset of its
 * ceilings. */
#include <argp.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "calibration_model.h"
#include "card_memory.h"
#include "cli.h"
#include "kv_guard.h"
#include "layout.h"
#include "report.h"
#include "roofline_commands.h"
#include "roofline_gpu.h"
#include "time_calibrate.h"

typedef struct options {
  int device;
  char only[256]; /* ",dram,l2," */
  const char *out, *layout, *gpu, *from, *report;
  kvk_ceiling_plan plan;
  bool json, quiet, dry_run, list, no_report;
  struct {
    char name[24];
    double value;
  } bar[16];
  int bars;
  kv_status status;
  kv_error *err;
} options;

enum {
  OPT_QUICK = 0x100,
  OPT_REPEATS,
  OPT_LIMIT,
  OPT_MEMORY,
  OPT_SEED,
  OPT_JSON,
  OPT_DRY,
  OPT_LIST,
  OPT_LAYOUT,
  OPT_REQUIRE,
  OPT_ONLY,
  OPT_FROM,
  OPT_REPORT,
  OPT_NO_REPORT
};

static const struct argp_option option_list[] = {
    {"device", 'd', "N", 0, "CUDA device number (0)", 0},
    {"gpu", 'g', "NAME", 0, "The first device whose product name holds NAME", 0},
    {"only", OPT_ONLY, "LIST", 0, "Microbenchmarks to run, separated by commas (all)", 0},
    {"list", OPT_LIST, 0, 0, "List the microbenchmarks and what bounds each", 0},
    {"output", 'o', "FILE", 0, "Dataset to write (ceilings.h5)", 0},
    {"report", OPT_REPORT, "DIR", 0, "Folder of the PDF and the PNGs (NAME-report)", 0},
    {"no-report", OPT_NO_REPORT, 0, 0, "Draw nothing", 0},
    {"from", OPT_FROM, "FILE", 0,
     "Measure nothing: take what this kvceilings-1 file has, and put the memory model's gathers and this card's memory "
     "parameters beside it",
     0},
    {"quick", OPT_QUICK, 0, 0, "The usual winners only: seconds instead of a minute or two", 0},
    {"repeats", OPT_REPEATS, "N", 0, "Timed runs a point, 3 to 64 (20)", 0},
    {"time-limit", OPT_LIMIT, "S", 0, "Seconds for one microbenchmark (120)", 0},
    {"memory", OPT_MEMORY, "BYTES", 0, "Take at most this much device memory (all but 4 GiB)", 0},
    {"layout", OPT_LAYOUT, "FILE", 0, "Gather the rows of this kvlayout-1 file too, as they lie", 0},
    {"require", OPT_REQUIRE, "NAME=RATE", 0,
     "Exit with status 1 if that ceiling of the chip is below RATE (B/s, FLOP/s)", 0},
    {"seed", OPT_SEED, "N", 0, "Seed of slot lists and statistics (1)", 0},
    {"json", OPT_JSON, 0, 0, "Print JSON instead of a table", 0},
    {"dry-run", OPT_DRY, 0, 0, "Say what would run, run nothing", 0},
    {"quiet", 'q', 0, 0, "No progress messages", 0},
    {0}};

static error_t fail(options *o, kv_status st) {
  o->status = st;
  return st ? EINVAL : 0;
}

static error_t parse_bar(options *o, const char *arg) {
  const char *equals = strchr(arg, '=');
  char *end = NULL;
  if (!equals || equals == arg || o->bars == 16 || (size_t)(equals - arg) >= sizeof o->bar[0].name)
    return fail(o, kv_fail(o->err, KV_ERR_USAGE, "--require %s: give NAME=RATE, e.g. dram=4.4e12", arg));
  o->bar[o->bars].value = strtod(equals + 1, &end);
  if (end == equals + 1 || *end || !(o->bar[o->bars].value > 0))
    return fail(o, kv_fail(o->err, KV_ERR_USAGE, "--require %s: the rate must be a positive number", arg));
  (void)snprintf(o->bar[o->bars++].name, sizeof o->bar[0].name, "%.*s", (int)(equals - arg), arg);
  return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  uint64_t n = 0;
  kv_status st = KV_OK;
  switch (key) {
    case 'd':
      st = kv_cli_count(arg, "--device", 0, 1023, &n, o->err);
      o->device = (int)n;
      break;
    case 'g': o->gpu = arg; break;
    case OPT_ONLY: (void)snprintf(o->only, sizeof o->only, ",%s,", arg); break;
    case 'o': o->out = arg; break;
    case OPT_FROM: o->from = arg; break;
    case OPT_REPORT: o->report = arg; break;
    case OPT_NO_REPORT: o->no_report = true; break;
    case 'q': o->quiet = true; break;
    case OPT_LIST: o->list = true; break;
    case OPT_QUICK: o->plan.quick = true; break;
    case OPT_JSON: o->json = true; break;
    case OPT_DRY: o->dry_run = true; break;
    case OPT_LAYOUT: o->layout = arg; break;
    case OPT_REQUIRE: return parse_bar(o, arg);
    case OPT_REPEATS:
      st = kv_cli_count(arg, "--repeats", 3, KVK_POINT_SAMPLES, &n, o->err);
      o->plan.repeats = (uint32_t)n;
      break;
    case OPT_LIMIT:
      st = kv_cli_count(arg, "--time-limit", 1, 86400, &n, o->err);
      o->plan.total_limit = (double)n;
      break;
    case OPT_MEMORY:
      st = kv_cli_count(arg, "--memory", 1u << 28, UINT64_C(1) << 42, &o->plan.most_memory, o->err);
      break;
    case OPT_SEED: st = kv_cli_count(arg, "--seed", 0, UINT32_MAX, &o->plan.seed, o->err); break;
    case ARGP_KEY_ARG:
      st = kv_fail(o->err, KV_ERR_USAGE, "'%s': no argument is expected; see --help", arg);
      break;
    default: return ARGP_ERR_UNKNOWN;
  }
  return fail(o, st);
}

static const char doc[] =
    "Measures what a GPU of this machine really reaches: DRAM, L2, link, shared memory, matrix units, "
    "latencies, launch "
    "overhead and the gather of rows.\v"
    "Examples:\n"
    "  roofline calibrate                       all of it on device 0, into ceilings.h5\n"
    "  roofline calibrate --only dram,mma --require dram=4.4e12\n"
    "  roofline calibrate --only gather --layout run.layout.h5\n"
    "  roofline calibrate --from old-ceilings.h5 -o ceilings.h5\n\n"
    "The dataset is written anew after each microbenchmark; its attribute `complete` says whether all is in "
    "it.";

static bool wanted(const options *o, const char *name) {
  char needle[32];
  (void)snprintf(needle, sizeof needle, ",%s,", name);
  return o->only[0] == '\0' || strstr(o->only, needle) != NULL;
}

/* Every name of --only must exist. */
static kv_status check_only(const options *o, kv_error *err) {
  char copy[256], *save = NULL;
  (void)snprintf(copy, sizeof copy, "%s", o->only);
  for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
    size_t i = 0;
    while (i < kvk_ceiling_count() && strcmp(kvk_ceiling_at(i)->name, word) != 0) i++;
    if (i == kvk_ceiling_count())
      return kv_fail(err, KV_ERR_USAGE,
                     "--only %s: no such microbenchmark; `roofline calibrate --list` shows them", word);
  }
  return KV_OK;
}

/* What is listed can run in a build with CUDA alone. */
static void tell_unbuilt(void) {
  if (!kvk_cuda_built())
    fprintf(stderr, "roofline: this kvroof was built without nvcc, so it can run none of these; install the CUDA toolkit and rebuild\n");
}

static void print_list(void) {
  for (size_t i = 0; i < kvk_ceiling_count(); i++) {
    const kvk_ceiling *e = kvk_ceiling_at(i);
    printf("%-10s %s\n           bound: %s\n", e->name, e->what, e->bound);
  }
}

/* ---- running ---- */

static kv_status choose(options *o, kv_error *err) {
  kvk_gpu gpu;
  const char *names[1] = {o->gpu};
  const kvk_gpu_wanted want = {0, 0, names, 1};
  int count = 0;
  kv_status st = kvk_gpu_count(&count, err);
  if (st) return st;
  if (!o->gpu)
    return o->device < count ? KV_OK
                             : kv_fail(err, KV_ERR_DEVICE, "--device %d: this machine has %d (0 to %d)",
                                       o->device, count, count - 1);
  st = kvk_gpu_find(&want, &gpu, err);
  if (st == KV_END)
    return kv_fail(err, KV_ERR_DEVICE, "--gpu %s: none of this machine's %d GPUs is that", o->gpu, count);
  o->device = gpu.device;
  return st;
}

typedef struct job {
  const options *o;
  kvk_device *device;
  kva_calibration c;
  char *command;
} job;

static kv_status run_one(job *j, const char *name, kv_error *err) {
  char note[160] = "";
  size_t before = j->c.rows;
  double start = kv_seconds();
  if (!j->o->quiet) fprintf(stderr, "roofline: %s ...", name);
  kv_status st =
      kvk_ceiling_run(j->device, name, &j->o->plan, kva_calibration_add, &j->c, note, sizeof note, err);
  if (st == KV_END) {
    (void)snprintf(note, sizeof note, "%s: this GPU, or this build, lacks the instruction", name);
    st = KV_OK;
  }
  kva_calibration_note(&j->c, note);
  if (!j->o->quiet)
    fprintf(stderr, " %zu points in %.1f s%s%s\n", j->c.rows - before, kv_seconds() - start,
            note[0] ? "; " : "", note);
  return st;
}

/* A microbenchmark that fails ends the run, but what came before, and its own points so far, are in the file.
 */
static kv_status run_all(job *j, kv_error *err) {
  kv_error second;
  kv_status st = KV_OK;
  for (size_t i = 0; !st && i < kvk_ceiling_count(); i++) {
    const char *name = kvk_ceiling_at(i)->name;
    if (!wanted(j->o, name)) continue;
    st = run_one(j, name, err);
    if (st) (void)snprintf(j->c.failure, sizeof j->c.failure, "%s", err->text);
    kv_status written = kva_calibration_write(&j->c, j->o->out, j->command, st ? &second : err);
    if (!st) st = written;
  }
  if (st) return st;
  j->c.complete = true;
  return kva_calibration_write(&j->c, j->o->out, j->command, err);
}

static kv_status check_bars(const options *o, const kva_calibration *c, kv_error *err) {
  kva_best best[KVA_BESTS];
  size_t n = kva_calibration_ceilings(c, best);
  for (int b = 0; b < o->bars; b++) {
    double value = NAN;
    for (size_t i = 0; i < n; i++)
      if (!best[i].one_sm && strcmp(best[i].name, o->bar[b].name) == 0) value = c->row[best[i].row].value;
    if (isnan(value))
      return kv_fail(err, KV_ERR_USAGE, "--require %s: was not measured in this run", o->bar[b].name);
    if (value < o->bar[b].value)
      return kv_fail(err, KV_ERR_BAR, "%s reached %.4g, below the %.4g that --require asks for",
                     o->bar[b].name, value, o->bar[b].value);
  }
  return KV_OK;
}

/* ---- telling ---- */

static void scaled(double value, const char *unit, char *text, size_t size) {
  static const char *const prefix[] = {"", "k", "M", "G", "T", "P"};
  int p = 0;
  while (p < 5 && value >= 1000) value /= 1000, p++;
  (void)snprintf(text, size, "%7.4g %s%s/s", value, prefix[p], unit[0] == '1' ? "" : unit);
}

static void print_memory(const kva_card_memory *m) {
  printf("memory model: %s", m->words);
  if (m->adapted)
    printf(": latency %.1f ns, activation %.3f ns, of the bus %.3f ns, efficiency %.4f", m->card.latency * 1e9,
           m->card.act * 1e9, m->card.act_bus * 1e9, m->card.efficiency);
  printf("\n");
}

static void print_table(const kva_calibration *c, const kva_card_memory *m) {
  kva_best best[KVA_BESTS];
  char status[320], text[40];
  size_t n = kva_calibration_ceilings(c, best);
  printf("%s\n\n%-6s %-5s %16s  %-18s %7s %6s  %s\n", kva_bench_status(&c->origin, status, sizeof status),
         "name", "scope", "ceiling", "95 % interval", "MHz", "W", "by");
  for (size_t i = 0; i < n; i++) {
    const kva_bench_row *r = &c->row[best[i].row];
    scaled(r->value, r->point.unit, text, sizeof text);
    printf("%-6s %-5s %16s  -%.2f %% +%.2f %%   %7.0f %6.0f  %s%s\n", best[i].name,
           best[i].one_sm ? "sm" : "chip", text, 100 * (1 - r->value_low / r->value),
           100 * (r->value_high / r->value - 1), r->point.state.sm_clock, r->point.state.power,
           r->point.variant, r->point.throttled ? " (throttled)" : "");
  }
  n = kva_calibration_latencies(c, best);
  for (size_t i = 0; i < n; i++) {
    const kva_bench_row *r = &c->row[best[i].row];
    char cycles[32] = "";
    if (isfinite(r->point.cycles)) (void)snprintf(cycles, sizeof cycles, "%.*f cycles", r->point.cycles < 10 ? 2 : 1, r->point.cycles);
    printf("%-18s %10.2f ns %16s  %s\n", best[i].name, r->value * 1e9, cycles, r->point.variant);
  }
  n = kva_calibration_sizes(c, best);
  for (size_t i = 0; i < n; i++)
    printf("%-18s %10.2f B                     %s\n", best[i].name, c->row[best[i].row].value,
           c->row[best[i].row].point.variant);
  print_memory(m);
  if (c->notes[0]) printf("left out: %s\n", c->notes);
}

static json_t *best_json(const kva_calibration *c, const kva_best *b) {
  const kva_bench_row *r = &c->row[b->row];
  json_t *o = json_pack("{s:s, s:s, s:f, s:f, s:f, s:s, s:b}", "name", b->name, "scope",
                        b->one_sm ? "sm" : "chip", "value", r->value, "low", r->value_low, "high",
                        r->value_high, "variant", r->point.variant, "throttled", (int)r->point.throttled);
  if (o && isfinite(r->point.cycles)) (void)json_object_set_new(o, "cycles", json_real(r->point.cycles));
  return o;
}

static json_t *memory_json(const kva_card_memory *m) {
  if (!m->adapted) return json_pack("{s:s, s:b}", "status", m->words, "adapted", 0);
  return json_pack("{s:s, s:b, s:f, s:f, s:f, s:f}", "status", m->words, "adapted", 1, "latency", m->card.latency,
                   "efficiency", m->card.efficiency, "act", m->card.act, "act_bus", m->card.act_bus);
}

static kv_status print_json(const kva_calibration *c, const kva_card_memory *m, kv_error *err) {
  kva_best best[KVA_BESTS];
  char status[320];
  json_t *ceilings = json_array(), *latencies = json_array(), *sizes = json_array();
  size_t n = kva_calibration_ceilings(c, best);
  for (size_t i = 0; i < n; i++) (void)json_array_append_new(ceilings, best_json(c, &best[i]));
  n = kva_calibration_latencies(c, best);
  for (size_t i = 0; i < n; i++) (void)json_array_append_new(latencies, best_json(c, &best[i]));
  n = kva_calibration_sizes(c, best);
  for (size_t i = 0; i < n; i++) (void)json_array_append_new(sizes, best_json(c, &best[i]));
  json_t *root =
      json_pack("{s:s, s:s, s:b, s:i, s:o, s:o, s:o, s:o}", "schema", "kvceilings-1", "status",
                kva_bench_status(&c->origin, status, sizeof status), "complete", (int)c->complete, "points",
                (int)c->rows, "ceilings", ceilings, "latencies", latencies, "sizes", sizes, "memory", memory_json(m));
  int rc = root ? json_dumpf(root, stdout, JSON_INDENT(2)) : -1;
  putchar('\n');
  json_decref(root);
  return rc == 0 ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "JSON: out of memory");
}

/* ---- the memory model beside it, and the report ---- */

static void on_progress(void *arg, size_t done, size_t all) {
  kv_progress_at(arg, (double)done / (double)all);
}

/* The model of the GPU that the file names; one that nobody describes has none, and the file says why. */
static kv_status add_model(const options *o, const char *in, const char *command, kv_error *err) {
  roofline_gpu described = {0};
  kva_calibrated about;
  kv_error why = {KV_OK, ""};
  kv_progress progress;
  kv_status st = kva_time_calibration_of(in, &about, err);
  if (st) return st;
  bool known = roofline_gpu_choose(about.gpu_name, &described, &why) == KV_OK;
  kva_model_plan plan = {.in = in, .out = o->out, .gpu = known ? described.gpu : NULL, .why = why.text, .command = command,
                         .progress = on_progress, .arg = &progress};
  kv_progress_begin(&progress, "memory model", o->quiet);
  st = kva_calibration_model(&plan, err);
  kv_progress_end(&progress);
  roofline_gpu_free(&described);
  return st;
}

static kv_status draw_report(const options *o, kv_error *err) {
  char share[4096], name[256], folder[300];
  if (o->no_report) return KV_OK;
  kv_status st = kv_cli_share("notebooks-free-reports", share, sizeof share, err);
  if (st) return st;
  kvr_report_name(o->out, name, sizeof name);
  (void)snprintf(folder, sizeof folder, "%s-report", name);
  const char *to = o->report ? o->report : folder;
  st = kvr_report(o->out, to, share, &(kvr_options){0}, err);
  if (!st && !o->quiet) fprintf(stderr, "roofline: report in %s\n", to);
  return st;
}

static kv_status tell(const options *o, const kva_calibration *c, kv_error *err) {
  kva_card_memory memory;
  kv_status st = kva_card_memory_read(o->out, &memory, err);
  if (st) return st;
  if (o->json) return print_json(c, &memory, err);
  print_table(c, &memory);
  return KV_OK;
}

static kv_status take_from(const options *o, const char *command, kv_error *err) {
  kva_calibration c = {0};
  kv_status st = kv_guard_check_h5(o->from, KVA_CEILINGS_CONVENTIONS, err);
  if (!st) st = add_model(o, o->from, command, err);
  if (!st) st = kva_calibration_read(o->out, &c, err);
  if (!st && (o->json || !o->quiet)) st = tell(o, &c, err);
  if (!st) st = check_bars(o, &c, err);
  kva_calibration_free(&c);
  return st;
}

/* ---- main ---- */

static kv_status measure(options *o, char *command, const kva_layout *layout, kv_error *err) {
  job j = {.o = o, .command = command};
  char note[KV_ERROR_TEXT] = "";
  if (layout->tokens) {
    o->plan.list = layout->slots;
    o->plan.list_count = layout->tokens;
    o->plan.list_row_bytes = (uint32_t)layout->row_bytes;
  }
  kv_status st = choose(o, err);
  if (!st) st = kvk_device_open(o->device, &j.device, note, sizeof note, err);
  if (st) return st;
  kva_bench_origin_of(j.device, &j.c.origin);
  j.c.origin.repeats = o->plan.repeats;
  j.c.origin.seed = o->plan.seed;
  kva_calibration_note(&j.c, note);
  st = run_all(&j, err);
  kvk_device_close(j.device);
  if (!st) st = add_model(o, o->out, NULL, err);
  if (j.c.rows) {
    kv_status told = tell(o, &j.c, st ? NULL : err);
    if (!st) st = told;
  }
  if (!st) st = check_bars(o, &j.c, err);
  kva_calibration_free(&j.c);
  return st;
}

static kv_status run(int argc, char **argv, kv_error *err) {
  options o = {.out = "ceilings.h5", .plan = {.repeats = 20, .total_limit = 120, .seed = 1}, .err = err};
  const struct argp argp = {option_list, parse, NULL, doc, NULL, NULL, NULL};
  kva_layout layout = {0};
  char *command = NULL;
  error_t parsed = argp_parse(&argp, argc, argv, 0, NULL, &o);
  kv_status st = o.status;
  if (!st && parsed) st = kv_fail(err, KV_ERR_USAGE, "see --help");
  if (!st) st = check_only(&o, err);
  if (!st && o.list) {
    print_list();
    tell_unbuilt();
    return KV_OK;
  }
  if (!st && !o.dry_run) st = kv_cli_not_input(o.out, o.from, "dataset of --from", err);
  if (!st && !o.dry_run) st = kv_cli_not_input(o.out, o.layout, "layout", err);
  if (!st && o.layout) st = kva_layout_read(o.layout, &layout, err);
  if (!st && o.dry_run && o.from) {
    printf("memory model beside what %s has, into %s\n", o.from, o.out);
  } else if (!st && o.dry_run) {
    for (size_t i = 0; i < kvk_ceiling_count(); i++)
      if (wanted(&o, kvk_ceiling_at(i)->name))
        printf("%-10s %s\n", kvk_ceiling_at(i)->name, kvk_ceiling_at(i)->what);
    tell_unbuilt();
  } else if (!st) {
    command = kv_cli_command_line(argc, argv);
    st = o.from ? take_from(&o, command, err) : measure(&o, command, &layout, err);
    kv_status drawn = !st || st == KV_ERR_BAR ? draw_report(&o, st ? NULL : err) : KV_OK;
    if (!st) st = drawn;
  }
  free(command);
  kva_layout_free(&layout);
  return st;
}

int roofline_calibrate(int argc, char **argv) {
  kv_error err = {KV_OK, ""};
  kv_status st = run(argc, argv, &err);
  return kv_cli_exit("roofline", st, &err);
}
