/* roofline - how far verify attention kernels are from what a GPU could do. See analysis/README.md. */
#include <argp.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "kv_clean.h"
#include "kv_version.h"
#include "measure_all.h"
#include "roof_run.h"
#include "roofline_commands.h"
#include "roofline_gpu.h"
#include "roofline_measure.h"
#include "roofline_model.h"
#include "roofline_print.h"
#if defined __has_include
#if __has_include("report.h")
#include "report.h"
#define HAVE_REPORT 1
#endif
#endif

/* ---- sub-commands ---- */

static const struct command {
  const char *name, *about;
  int (*run)(int argc, char **argv);
} commands[] = {{"list", "the GPUs described, or one description with its sources", roofline_list},
                {"calibrate", "measure the ceilings of the GPU that is here", roofline_calibrate},
                {"audit", "which machine code a library holds and where it can run", roofline_audit},
                {"compare", "two datasets, point by point", roofline_compare},
                {"validate", "the model against measured points", roofline_validate},
                {"diagnose", "what an imported profile says", roofline_diagnose},
                {"step", "a whole decode step", roofline_step},
                {"program", "a kernel's declaration from its machine code", roofline_program},
                {"selftest", "are planted causes named on the GPU that is here", roofline_selftest},
                {"report", "draw a dataset again", roofline_report}};

static void name_commands(char *text, size_t size, const char *format) {
  text[0] = '\0';
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (commands[i].run && strlen(text) + 100 < size)
      (void)snprintf(text + strlen(text), size - strlen(text), format, commands[i].name, commands[i].about);
}

static int run_command(int argc, char **argv) {
  char known[1200], program[64];
  kv_error err = {KV_OK, ""};
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    if (strcmp(argv[1], commands[i].name) != 0 || !commands[i].run) continue;
    (void)snprintf(program, sizeof program, "roofline %s", commands[i].name);
    argv[1] = program;
    return commands[i].run(argc - 1, argv + 1);
  }
  name_commands(known, sizeof known, " %s");
  return kv_cli_exit(
      "roofline",
      kv_fail(&err, KV_ERR_USAGE, "unknown command '%.60s'; there are:%s, and options alone (--help)",
              argv[1], known),
      &err);
}

/* ---- options ---- */

enum { MAX_PREFIXES = 1000 };
enum {
  O_HEADS = 1000,
  O_QUERIES,
  O_PREFIX,
  O_ROWS,
  O_SWEEP,
  O_LAYOUT,
  O_KERNEL,
  O_CALIBRATION,
  O_BATCH,
  O_LAYERS,
  O_LATENT,
  O_ROPE,
  O_JSON,
  O_REPORT,
  O_NO_REPORT,
  O_DRY,
  O_SEED
};

typedef struct options {
  const char *gpu, *rows, *layout, *kernel, *calibration, *output, *report;
  uint64_t heads, queries, batch, layers, latent, rope, seed;
  uint64_t prefix[MAX_PREFIXES];
  size_t prefixes;
  bool json, no_report, quiet, dry_run, batch_given, write;
  roofline_measure_options measure;
  kv_error err; /* the first bad option */
} options;

static kv_status add_prefix(options *o, uint64_t prefix) {
  if (o->prefixes == MAX_PREFIXES)
    return kv_fail(&o->err, KV_ERR_USAGE, "--prefix, --sweep: more than %d prefixes", MAX_PREFIXES);
  o->prefix[o->prefixes++] = prefix;
  return KV_OK;
}

/* prefix=LOW:HIGH doubles from LOW and ends with HIGH; prefix=LOW:HIGH:STEPS takes STEPS points in equal
 * ratios. */
static kv_status add_sweep(options *o, const char *text) {
  char low_text[32] = "", high_text[32] = "", steps_text[32] = "";
  uint64_t low = 0, high = 0, steps = 0;
  int used = 0, fields = sscanf(text, "prefix=%31[^:]:%31[^:]%n:%31[^:]%n", low_text, high_text, &used,
                                steps_text, &used);
  if (fields < 2 || text[used])
    return kv_fail(&o->err, KV_ERR_USAGE, "--sweep: '%.80s' is not prefix=LOW:HIGH or prefix=LOW:HIGH:STEPS",
                   text);
  kv_status st = kv_cli_count(low_text, "--sweep", 1, KVM_MAX_PREFIX, &low, &o->err);
  if (!st) st = kv_cli_count(high_text, "--sweep", low, KVM_MAX_PREFIX, &high, &o->err);
  if (!st && fields == 3) st = kv_cli_count(steps_text, "--sweep", 2, MAX_PREFIXES, &steps, &o->err);
  for (uint64_t p = low; !st && !steps && p < high; p *= 2) st = add_prefix(o, p);
  for (uint64_t i = 0; !st && i + 1 < steps; i++)
    st = add_prefix(
        o, (uint64_t)llround((double)low * pow((double)high / (double)low, (double)i / (double)(steps - 1))));
  return st ? st : add_prefix(o, high);
}

static kv_status parse_count(options *o, int key, const char *arg) {
  const struct {
    int key;
    const char *name;
    uint64_t low, high, *to;
  } count[] = {{O_HEADS, "--heads", 1, 4096, &o->heads},     {O_QUERIES, "--queries", 1, 4096, &o->queries},
               {O_BATCH, "--batch", 1, 65536, &o->batch},    {O_LAYERS, "--layers", 1, 100000, &o->layers},
               {O_LATENT, "--latent", 16, 8192, &o->latent}, {O_ROPE, "--rope", 0, 8192, &o->rope},
               {O_SEED, "--seed", 0, INT64_MAX, &o->seed}};
  for (size_t i = 0; i < sizeof count / sizeof *count; i++)
    if (count[i].key == key)
      return kv_cli_count(arg, count[i].name, count[i].low, count[i].high, count[i].to, &o->err);
  uint64_t prefix = 0;
  kv_status st = kv_cli_count(arg, "--prefix", 0, KVM_MAX_PREFIX, &prefix, &o->err);
  return st ? st : add_prefix(o, prefix);
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  if (o->err.status && key != ARGP_KEY_ARG) return 0; /* reported after parsing, as one line */
  switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->measure; return 0;
    case 'g': o->gpu = arg; return 0;
    case O_ROWS: o->rows = arg; return 0;
    case O_LAYOUT: o->layout = arg; return 0;
    case O_KERNEL:
      if (o->kernel) (void)kv_fail(&o->err, KV_ERR_USAGE, "--kernel: given twice; one kernel a run");
      o->kernel = arg;
      return 0;
    case O_CALIBRATION: o->calibration = arg; return 0;
    case 'o': o->output = arg; return 0;
    case O_REPORT: o->report = arg; return 0;
    case O_NO_REPORT: o->no_report = true; return 0;
    case O_JSON: o->json = true; return 0;
    case 'q': o->quiet = true; return 0;
    case O_DRY: o->dry_run = true; return 0;
    case O_SWEEP: (void)add_sweep(o, arg); return 0;
    case O_BATCH:
      o->batch_given = true;
      (void)parse_count(o, key, arg);
      return 0;
    case O_HEADS:
    case O_QUERIES:
    case O_PREFIX:
    case O_LAYERS:
    case O_LATENT:
    case O_ROPE:
    case O_SEED: (void)parse_count(o, key, arg); return 0;
    case ARGP_KEY_ARG:
      if (!o->err.status)
        (void)kv_fail(&o->err, KV_ERR_USAGE, "'%.60s': a command stands before all options", arg);
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option option_table[] = {
    {0, 0, 0, 0, "The GPU", 1},
    {"gpu", 'g', "NAME", 0,
     "key, product name, alias, sm_120, or a description file; default: the card that is here", 0},
    {"calibration", O_CALIBRATION, "FILE", 0,
     "dataset of `roofline calibrate` to model with; default: that of this GPU in models/measured; none: "
     "published values",
     0},
    {0, 0, 0, 0, "The problem", 2},
    {"heads", O_HEADS, "N", 0, "attention heads on this GPU (8)", 0},
    {"queries", O_QUERIES, "N", 0, "tree nodes a request (9)", 0},
    {"prefix", O_PREFIX, "N", 0, "tokens of the prefix (131072); may be given several times", 0},
    {"sweep", O_SWEEP, "prefix=LOW:HIGH[:STEPS]", 0,
     "a range of prefixes: doubling, or STEPS in equal ratios", 0},
    {"rows", O_ROWS, "KIND", 0, "rows of the pool: bf16, fp8, fp8-656 (bf16)", 0},
    {"latent", O_LATENT, "N", 0, "latent values a row (512)", 0},
    {"rope", O_ROPE, "N", 0, "rope values a row (64)", 0},
    {"batch", O_BATCH, "N", 0, "requests (1)", 0},
    {"layers", O_LAYERS, "N", 0, "layers of the model, recorded (61)", 0},
    {"layout", O_LAYOUT, "FILE", 0,
     "slots of real requests: a kvlayout-1 file of `kvsim replay --layout-out`", 0},
    {"kernel", O_KERNEL, "NAME|FILE", 0,
     "one more kernel: of models/kernels, or a declaration of your own (.ini, models/README.md)", 0},
    {0, 0, 0, 0, "Results", 3},
    {"output", 'o', "FILE", 0,
     "dataset (roofline-GPU.h5; with --json and --no-report none, unless something is measured)", 0},
    {"report", O_REPORT, "DIR", 0, "folder for the PDF and the PNGs (roofline-GPU-report)", 0},
    {"no-report", O_NO_REPORT, 0, 0, "draw nothing", 0},
    {"json", O_JSON, 0, 0, "JSON on stdout (schema roofline-1, version 1)", 0},
    {"quiet", 'q', 0, 0, "no table, no messages but errors", 0},
    {"dry-run", O_DRY, 0, 0, "say what would be done and written, and stop", 0},
    {"seed", O_SEED, "N", 0, "seed of whatever is random, recorded (1)", 0},
    {0, 0, 0, 0, 0, 0}};

/* ---- one run ---- */

static void default_names(options *o, const kvm_gpu *gpu, char output[300], char report[300]) {
  (void)snprintf(output, 300, "roofline-%s.h5", gpu->key);
  (void)snprintf(report, 300, "roofline-%s-report", gpu->key);
  o->write = o->output || !o->json || !o->no_report; /* a report is drawn from the dataset */
  if (!o->output) o->output = output;
  if (!o->report) o->report = report;
}

/* Sets row bytes and their name; a layout's row size decides where --rows is not given, and must agree where
 * it is. */
static kv_status set_rows(const options *o, const kva_layout *layout, kvm_verify *p, kva_run *run,
                          kv_error *err) {
  kvm_rows rows = KVM_ROWS_BF16;
  if (o->rows && !kvm_rows_parse(o->rows, &rows))
    return kv_fail(err, KV_ERR_USAGE, "--rows: '%.40s' is none of bf16, fp8, fp8-656", o->rows);
  p->row_bytes = kvm_rows_bytes(rows, p->latent, p->rope);
  run->dtype = kvm_rows_name(rows);
  if (!layout->requests || layout->row_bytes == p->row_bytes) return KV_OK;
  if (o->rows)
    return kv_fail(err, KV_ERR_USAGE, "--rows %s: rows of %u B, but %s has rows of %llu B", o->rows,
                   p->row_bytes, o->layout, (unsigned long long)layout->row_bytes);
  p->row_bytes = (uint32_t)layout->row_bytes;
  run->dtype = "other";
  for (int r = KVM_ROWS_BF16; r <= KVM_ROWS_FP8_656; r++)
    if (kvm_rows_bytes((kvm_rows)r, p->latent, p->rope) == p->row_bytes)
      run->dtype = kvm_rows_name((kvm_rows)r);
  return KV_OK;
}

static kv_status use_layout(const options *o, const kva_layout *layout, kvm_verify *p, kva_run *run,
                            kv_error *err) {
  kv_status st = kva_layout_count(layout, p->row_bytes, &run->layout, err);
  const char *base = strrchr(o->layout, '/');
  run->contiguous = false;
  run->layout_tokens = layout->tokens;
  (void)snprintf(run->layout_name, sizeof run->layout_name, "%.100s: %.100s step %lld",
                 base ? base + 1 : o->layout, layout->trace[0] ? layout->trace : "unnamed trace",
                 (long long)layout->step);
  for (char *c = run->layout_name; *c; c++)
    if (!isprint((unsigned char)*c)) *c = '?'; /* the trace's name is foreign text */
  p->batch = (uint32_t)layout->requests;
  p->tokens = layout->tokens;
  p->longest = run->layout.longest;
  p->union_rows = run->layout.union_rows;
  p->sectors = run->layout.sectors;
  return st;
}

/* The problems of a run, one a prefix; *problems is malloc'd. */
static kv_status make_problems(options *o, const kva_card_memory *card, kva_run *run, kvm_verify **problems, uint64_t *n, kv_error *err) {
  kva_layout layout = {0};
  kvm_verify p = {.heads = (uint32_t)o->heads,
                  .queries = (uint32_t)o->queries,
                  .batch = (uint32_t)o->batch,
                  .latent = (uint32_t)o->latent,
                  .rope = (uint32_t)o->rope};
  kv_status st = KV_OK;
  if (o->layout && (o->prefixes || o->batch_given))
    return kv_fail(err, KV_ERR_USAGE,
                   "--layout: the file says how long and how many the requests are; leave --prefix, --sweep "
                   "and --batch out");
  if (!o->prefixes) o->prefix[o->prefixes++] = 131072;
  if (o->layout) st = kva_layout_read(o->layout, &layout, err);
  if (!st) st = set_rows(o, &layout, &p, run, err);
  *problems = st ? NULL : calloc(o->prefixes, sizeof **problems);
  if (!st && !*problems) st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st && o->layout) st = use_layout(o, &layout, &p, run, err);
  if (!st) st = kva_gather_of(run->gpu, card, o->layout ? &layout : NULL, p.row_bytes, &run->gather, err);
  *n = o->layout ? 1 : o->prefixes;
  for (uint64_t i = 0; !st && i < *n; i++) {
    if (!o->layout) kvm_verify_uniform(&p, o->prefix[i]);
    st = kvm_verify_check(&p, err);
    (*problems)[i] = p;
  }
  kva_layout_free(&layout);
  return st;
}

#ifdef HAVE_REPORT
static kv_status draw(const options *o, const char *dataset, const char *folder, kv_error *err) {
  char style[4096];
  kv_status st = kv_cli_share("notebooks-free-reports/style.gp", style, sizeof style, err);
  if (st) return st;
  *strrchr(style, '/') = '\0';
  st = kvr_report(dataset, folder, style, &(kvr_options){0}, err);
  if (!st && !o->quiet) fprintf(stderr, "roofline: report in %s\n", folder);
  return st;
}
#else
static kv_status draw(const options *o, const char *dataset, const char *folder, kv_error *err) {
  (void)err, (void)folder;
  if (!o->quiet)
    fprintf(stderr, "roofline: this build draws no reports; %s holds all the numbers\n", dataset);
  return KV_OK;
}
#endif

static kv_status deliver(const options *o, const kva_run *run, const char *note, const char *command,
                         kv_error *err) {
  kv_status st = KV_OK;
  if (o->dry_run) {
    printf("%s: %s (%s, %s)%s\n", run->status, run->gpu->name, run->gpu->key, run->gpu->arch, note);
    printf("dry run: %llu points; would write %s%s%s\n", (unsigned long long)run->points,
           o->write ? o->output : "nothing", o->no_report ? "" : " and a report in ", o->no_report ? "" : o->report);
    return KV_OK;
  }
  if (o->json) st = roofline_print_json(run, note, err);
  else if (!o->quiet) roofline_print_table(run, note);
  if (!st && o->write) st = kva_run_write(run, o->output, command, err);
  if (!st && o->write && !o->quiet) fprintf(stderr, "roofline: wrote %s\n", o->output);
  if (!st && !o->no_report) st = draw(o, o->output, o->report, err);
  return st;
}

/* The kernels are specialised: anything else is modelled, and *why says so. */
static bool can_run(const kvm_verify *p, char *why, size_t size) {
  bool can = p->latent == KVK_LATENT && p->rope == KVK_ROPE && p->row_bytes == 2 * (KVK_LATENT + KVK_ROPE) &&
             p->heads <= KVK_MAX_HEADS && p->queries <= KVK_MAX_QUERIES;
  if (!can)
    (void)snprintf(why, size, "the kernels take bf16 rows of %d + %d values, %d heads and %d queries at most",
                   KVK_LATENT, KVK_ROPE, KVK_MAX_HEADS, KVK_MAX_QUERIES);
  return can;
}

/* What is read must not be written over. */
static kv_status check_output(const options *o, const char *output, kv_error *err) {
  const char *calibration = o->calibration ? o->calibration : o->measure.ceilings;
  kv_status st = kv_cli_not_input(output, calibration, "calibration", err);
  if (!st) st = kv_cli_not_input(output, o->layout, "layout", err);
  if (!st) st = kv_cli_not_input(output, o->kernel, "kernel", err);
  return st ? st : kv_cli_not_input(output, o->gpu, "GPU's description", err);
}

/* A dataset and a report a device. */
static kv_status deliver_measured(const options *o, const int *devices, int count, kv_error *err) {
  char path[4096], folder[4096];
  kv_status st = KV_OK;
  for (int i = 0; !st && i < count; i++) {
    kva_device_file(o->output, devices, i, path, sizeof path);
    kva_device_folder(o->report, devices, i, folder, sizeof folder);
    if (!o->quiet) fprintf(stderr, "roofline: wrote %s\n", path);
    if (!o->no_report) st = draw(o, path, folder, err);
  }
  return st;
}

static void print_dry(const options *o, const kva_run *run, const int *devices, int count) {
  char path[4096], folder[4096];
  printf("measured on device ");
  for (int i = 0; i < count; i++) printf("%s%d", i ? ", " : "", devices[i]);
  printf("%s: %s\n", count == 1 ? "" : o->measure.all ? " at once" : " one after the other", run->gpu->name);
  for (int i = 0; i < count; i++) {
    kva_device_file(o->output, devices, i, path, sizeof path);
    kva_device_folder(o->report, devices, i, folder, sizeof folder);
    printf("dry run: would write %s%s%s\n", path, o->no_report ? "" : " and a report in ", o->no_report ? "" : folder);
  }
}

/* Measures if this machine has the GPU; KV_END with the reason in *why if it has not. */
static kv_status measure(const options *o, const kva_run *run, const kvm_verify *problem, const kva_card_memory *card,
                         const char *command, char why[200], kv_error *err) {
  int devices[ROOFLINE_MOST_DEVICES], count = 0;
  kva_layout layout = {0};
  kv_status st = roofline_measure_devices(&o->measure, run->gpu, devices, &count, why, 200, err);
  if (!st && !can_run(problem, why, 200)) st = KV_END;
  if (st == KV_END && o->measure.counters)
    return kv_fail(err, KV_ERR_DEVICE, "--counters: nothing is measured here, so nothing can be counted: %s", why);
  if (st) return st;
  if (o->dry_run) {
    print_dry(o, run, devices, count);
    return KV_OK;
  }
  for (int i = 1; !st && i < count; i++) {
    char path[4096];
    kva_device_file(o->output, devices, i, path, sizeof path);
    st = check_output(o, path, err);
  }
  if (st) return st;
  if (o->layout) st = kva_layout_read(o->layout, &layout, err);
  const roofline_measure_run m = {.options = &o->measure,
                                  .gpu = run->gpu,
                                  .roofs = &run->roofs,
                                  .timing = &run->timing,
                                  .card = card,
                                  .heads = (uint32_t)o->heads,
                                  .queries = (uint32_t)o->queries,
                                  .batch = (uint32_t)o->batch,
                                  .layers = (uint32_t)o->layers,
                                  .prefix = o->prefix,
                                  .prefixes = o->prefixes,
                                  .layout = o->layout ? &layout : NULL,
                                  .layout_name = run->layout_name,
                                  .seed = o->seed,
                                  .output = o->output,
                                  .command = command,
                                  .json = o->json,
                                  .quiet = o->quiet};
  if (!st) st = roofline_measure(&m, devices, count, err);
  kva_layout_free(&layout);
  return st ? st : deliver_measured(o, devices, count, err);
}

static kv_status run_all(options *o, const char *command, kv_error *err) {
  char why[200] = "", note[420] = "";
  roofline_gpu chosen = {0};
  roofline_model model = {0};
  kvm_verify *problems = NULL;
  uint64_t n = 0;
  char output[300], report[300];
  kva_run run = {.layers = (uint32_t)o->layers, .seed = o->seed, .contiguous = true};
  kv_status st = KV_OK;
  if (o->calibration && o->measure.ceilings)
    st = kv_fail(err, KV_ERR_USAGE, "--ceilings, --calibration: both name a calibration; give one");
  if (!st) st = roofline_gpu_choose(o->gpu, &chosen, err);
  if (st) goto done;
  run.gpu = chosen.gpu;
  (void)snprintf(run.status, sizeof run.status, "%s", KVA_UNCALIBRATED);
  st = roofline_model_load(o->kernel, &model, err);
  if (!st) st = roofline_model_use(&model, &chosen.all, o->calibration ? o->calibration : o->measure.ceilings,
                                   &run, err);
  if (st) goto done;
  /* what the verdict of a measured run is held against belongs into its dataset */
  if (!o->measure.ceilings && model.calibration[0]) o->measure.ceilings = model.calibration;
  default_names(o, run.gpu, output, report);
  st = o->write && !o->dry_run ? check_output(o, o->output, err) : KV_OK;
  if (st) goto done;
  (void)snprintf(run.layout_name, sizeof run.layout_name, "contiguous");
  st = make_problems(o, &model.memory, &run, &problems, &n, err);
  if (!st) {
    st = measure(o, &run, &problems[0], &model.memory, command, why, err);
    if (st != KV_END) goto done;
    st = roofline_measure_modelled(&o->measure, run.gpu, why, &run.only, err);
    run.smem_limit = (uint32_t)o->measure.smem_limit;
    (void)snprintf(note, sizeof note, "%s; times of kernels are not measured: %s", chosen.note, why);
  }
  if (!st) st = kva_run_predict(&run, problems, n, err);
  if (!st && model.own && model.own->unset[0] && !o->quiet)
    fprintf(stderr, "roofline: %s: %s: taken as no wait\n", o->kernel, model.own->unset);
  if (!st) st = deliver(o, &run, note, command, err);
done:
  kva_run_free(&run);
  free(problems);
  roofline_model_free(&model);
  roofline_gpu_free(&chosen);
  return st;
}

const char *argp_program_version = "roofline (kvroof) " KV_VERSION;

/* --help ends with the commands that this build has. */
static char *help_filter(int key, const char *text, void *input) {
  char known[1500], *all = NULL;
  (void)input;
  if (key != ARGP_KEY_HELP_POST_DOC) return (char *)text;
  name_commands(known, sizeof known, "  roofline %-10s %s\n");
  if (asprintf(&all, "Commands (each with its own --help):\n%s\n%s", known, text) < 0) return NULL;
  return all;
}

int main(int argc, char **argv) {
  kv_clean_on_signals();
  static options o = {
      .heads = 8, .queries = 9, .batch = 1, .layers = 61, .latent = 512, .rope = 64, .seed = 1};
  static const struct argp_child children[] = {{&roofline_measure_argp, 0, NULL, 0}, {0}};
  static const struct argp parser = {
      .options = option_table,
      .children = children,
      .parser = parse_option,
      .args_doc = "",
      .help_filter = help_filter,
      .doc =
          "How far verify attention kernels are from what a GPU could do: useful work, ceilings, what each "
          "kernel's "
          "structure makes of it, and the floor under its time.\v"
          "Examples:\n"
          "  roofline --gpu sm_120 --sweep prefix=4096:189440\n"
          "  roofline --gpu h200 --heads 64 --rows fp8-656 --json --no-report\n"
          "  roofline --gpu \"RTX 5090\" --layout step.kvlayout.h5 --report out\n"
          "\nExit status: 0 done, 1 a bar was missed, 2 usage, 3 bad input, 4 no such device, 5 "
          "input/output."};
  kv_error err = {KV_OK, ""};
  argp_err_exit_status = kv_exit_status(KV_ERR_USAGE);
  if (argc > 1 && argv[1][0] != '-') return run_command(argc, argv);
  if (argp_parse(&parser, argc, argv, 0, NULL, &o)) return kv_exit_status(KV_ERR_USAGE);
  if (o.measure.err.status && !o.err.status) o.err = o.measure.err;
  if (o.err.status) return kv_cli_exit("roofline", o.err.status, &o.err);
  char *command = kv_cli_command_line(argc, argv);
  kv_status st = run_all(&o, command, &err);
  free(command);
  return kv_cli_exit("roofline", st, &err);
}
