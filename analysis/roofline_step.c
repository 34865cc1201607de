/* roofline step - a whole decode step over a sweep of contexts. */
#include <argp.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "decode_step.h"
#include "roofline_commands.h"
#include "roofline_gpu.h"
#include "roofline_model.h"
#include "roofline_print.h"

enum { MAX_PREFIXES = 200 };
enum {
  O_HEADS = 1000,
  O_QUERIES,
  O_PREFIX,
  O_LAYERS,
  O_BASE,
  O_COMPONENTS,
  O_PROFILE,
  O_STEPS,
  O_ATTENTION,
  O_ACCEPT,
  O_KERNEL,
  O_JSON,
  O_CALIBRATION,
  O_BATCH
};

typedef struct options {
  const char *gpu, *components, *profile, *attention, *kernel, *output, *calibration;
  uint64_t heads, queries, layers, batch, prefix[MAX_PREFIXES];
  size_t prefixes;
  double base, steps, accepted;
  bool json, quiet, based; /* --base-ms was given */
  kv_error err;
} options;

static void real(options *o, const char *arg, const char *name, double least, double *to) {
  char *end;
  *to = strtod(arg, &end);
  if (end == arg || *end || !(*to >= least) || !isfinite(*to))
    (void)kv_fail(&o->err, KV_ERR_USAGE, "%s: '%.40s' is not a number of %g or more", name, arg, least);
}

static void count(options *o, const char *arg, const char *name, uint64_t high, uint64_t *to) {
  (void)kv_cli_count(arg, name, 1, high, to, &o->err);
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  if (o->err.status) return 0;
  switch (key) {
    case 'g': o->gpu = arg; return 0;
    case 'o': o->output = arg; return 0;
    case 'q': o->quiet = true; return 0;
    case O_JSON: o->json = true; return 0;
    case O_COMPONENTS: o->components = arg; return 0;
    case O_PROFILE: o->profile = arg; return 0;
    case O_ATTENTION: o->attention = arg; return 0;
    case O_KERNEL:
      if (o->kernel) (void)kv_fail(&o->err, KV_ERR_USAGE, "--kernel: given twice; one kernel a run");
      o->kernel = arg;
      return 0;
    case O_CALIBRATION: o->calibration = arg; return 0;
    case O_HEADS: count(o, arg, "--heads", 4096, &o->heads); return 0;
    case O_QUERIES: count(o, arg, "--queries", 4096, &o->queries); return 0;
    case O_BATCH: count(o, arg, "--batch", 65536, &o->batch); return 0;
    case O_LAYERS: count(o, arg, "--layers", 100000, &o->layers); return 0;
    case O_BASE:
      o->based = true;
      real(o, arg, "--base-ms", 0, &o->base);
      return 0;
    case O_STEPS: real(o, arg, "--steps", 1, &o->steps); return 0;
    case O_ACCEPT: real(o, arg, "--accepted", 1, &o->accepted); return 0;
    case O_PREFIX:
      if (o->prefixes == MAX_PREFIXES)
        (void)kv_fail(&o->err, KV_ERR_USAGE, "--prefix: more than %d", (int)MAX_PREFIXES);
      else count(o, arg, "--prefix", KVM_MAX_PREFIX, &o->prefix[o->prefixes++]);
      return 0;
    case ARGP_KEY_ARG: (void)kv_fail(&o->err, KV_ERR_USAGE, "'%.60s' is no option", arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option option_table[] = {
    {"gpu", 'g', "NAME", 0, "the GPU, as for roofline", 0},
    {"calibration", O_CALIBRATION, "FILE", 0, "as for roofline", 0},
    {"layers", O_LAYERS, "N", 0, "layers (61)", 0},
    {"heads", O_HEADS, "N", 0, "heads on this GPU (8)", 0},
    {"queries", O_QUERIES, "N", 0, "tree nodes a request (9)", 0},
    {"batch", O_BATCH, "N", 0, "requests (1)", 0},
    {"prefix", O_PREFIX, "N", 0,
     "context (k is 1000, Ki 1024); may be given several times (4Ki doubling to 128Ki, and 185Ki)", 0},
    {"kernel", O_KERNEL, "NAME|FILE", 0,
     "this attention kernel alone: a name of models/kernels, or a declaration of your own (.ini)", 0},
    {"base-ms", O_BASE, "MS", 0, "the rest of the step, whatever the context (8)", 0},
    {"components", O_COMPONENTS, "FILE", 0, "the rest by component: lines `name ms [us_per_1k_tokens]`", 0},
    {"profile", O_PROFILE, "CSV", 0,
     "the rest from a kernel summary: nsys stats cuda_gpu_kern_sum, or a torch profiler's key averages", 0},
    {"steps", O_STEPS, "N", 0, "decode steps that the profile spans (1)", 0},
    {"attention", O_ATTENTION, "WORDS", 0,
     "kernels of the profile with one of these words in their name are the attention (" KVA_ATTENTION_NAMES
     "; communication is none of it); '' if it has none",
     0},
    {"accepted", O_ACCEPT, "N", 0, "tokens accepted a step and request, the model's own one included (1)", 0},
    {"output", 'o', "FILE", 0, "dataset (kvstep-1)", 0},
    {"json", O_JSON, 0, 0, "JSON on stdout (schema roofline-step, version 1)", 0},
    {"quiet", 'q', 0, 0, "no messages on stderr but errors", 0},
    {0, 0, 0, 0, 0, 0}};

/* ---- one run ---- */

static kv_status read_rest(const options *o, kva_step_rest *rest, double *left_out, kv_error *err) {
  *left_out = NAN;
  if (o->components && o->profile)
    return kv_fail(err, KV_ERR_USAGE, "--components and --profile: give one of them");
  if (o->based && (o->components || o->profile))
    return kv_fail(err, KV_ERR_USAGE, "--base-ms and --%s: both say what the rest of the step takes; give one of them%s",
                   o->components ? "components" : "profile",
                   o->components ? ", or put a line `rest MS` into the file" : "");
  if (o->components) return kva_step_read(o->components, rest, err);
  if (o->profile) return kva_step_profile(o->profile, o->steps, o->attention, rest, left_out, err);
  memset(rest, 0, sizeof *rest);
  rest->n = 1;
  (void)snprintf(rest->component[0].name, sizeof rest->component[0].name, "rest");
  rest->component[0].fixed = o->base * 1e-3;
  (void)snprintf(rest->source, sizeof rest->source, "--base-ms %g", o->base);
  return KV_OK;
}

static kv_status predict(const options *o, kva_run *run, kv_error *err) {
  kvm_verify *problem = calloc(o->prefixes, sizeof *problem);
  if (!problem) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (size_t i = 0; i < o->prefixes; i++) {
    problem[i] = kvm_verify_default(o->prefix[i]);
    problem[i].heads = (uint32_t)o->heads;
    problem[i].queries = (uint32_t)o->queries;
    problem[i].batch = (uint32_t)o->batch;
    kvm_verify_uniform(&problem[i], o->prefix[i]);
  }
  kv_status st = kva_run_predict(run, problem, o->prefixes, err);
  free(problem);
  return st;
}

/* Points whose kernel has a time and is wanted, kernel by kernel. */
static size_t collect(const options *o, const kva_run *run, const kva_step_rest *rest, kva_step_point *to) {
  size_t n = 0;
  for (uint32_t k = 0; k < run->kernels; k++) {
    bool wanted = !o->kernel || (run->own ? k + 1 == run->kernels : !strcmp(o->kernel, run->kernel[k].name));
    for (uint64_t i = 0; wanted && i < run->points; i++) {
      const kva_point *p = &run->point[i];
      if (p->kernel != k || !p->prediction.known || run->kernel[k].grid == KVM_GRID_ELEMENTS) continue;
      to[n] = (kva_step_point){.prefix = p->problem.longest,
                               .attention = p->prediction.whole,
                               .low = p->prediction.low,
                               .high = p->prediction.high,
                               .floor = p->ladder.t[0]};
      (void)snprintf(to[n].kernel, sizeof to[n].kernel, "%.47s", run->kernel[k].name);
      kva_program_words(p->program, to[n].program, sizeof to[n].program);
      kva_step_sum(&to[n++], (uint32_t)o->layers, rest, o->accepted);
    }
  }
  return n;
}

/* Why no row has a time. */
static kv_status no_time(const options *o, const kva_run *run, kv_error *err) {
  const kva_point *last = &run->point[run->kernels - 1];
  if (run->own && !last->work.fits)
    return kv_fail(err, KV_ERR_USAGE, "--kernel %s: it does not fit: its blocks take %u B of shared memory, those of %s may have %.0f",
                   o->kernel, run->own->structure.shared_bytes, run->gpu->key,
                   kvm_gpu_number(run->gpu, "smem_per_block_optin"));
  return kv_fail(err, KV_ERR_USAGE, "--kernel: no kernel%s%s has a modelled time on this GPU", o->kernel ? " " : "",
                 o->kernel ? o->kernel : "");
}

static void print_memory(const kva_run *run) {
  const double need = kva_run_rows_bytes(run), have = kva_run_memory(run);
  if (need > have)
    printf("\nmemory   does not fit: the rows of all %u layers take %.1f GB, the card has %.1f GB", run->layers, need / 1e9,
           have / 1e9);
}

static void print_table(const options *o, const kva_run *run, const char *note, const kva_step_rest *rest,
                        double left_out, const kva_step_point *p, size_t n) {
  printf("%s: %s (%s, %s)%s\n", run->status, run->gpu->name, run->gpu->key, run->gpu->arch, note);
  printf("step     %llu layers, %llu heads x %llu queries, %llu request%s, %g tokens accepted a step\n",
         (unsigned long long)o->layers, (unsigned long long)o->heads, (unsigned long long)o->queries,
         (unsigned long long)o->batch, o->batch == 1 ? "" : "s", o->accepted);
  printf("rest     from %s:", rest->source);
  for (uint32_t i = 0; i < rest->n; i++)
    printf("%s %s %.3f ms%s", i ? "," : "", rest->component[i].name, rest->component[i].fixed * 1e3,
           rest->component[i].per_token > 0 ? " + context" : "");
  if (!isnan(left_out)) printf("; its attention, %.3f ms a step, is replaced by the model's", left_out * 1e3);
  print_memory(run);
  printf("\n\n%-16s %9s %12s %10s %10s %23s %10s %8s %14s\n", "kernel", "context", "a layer ms", "rest ms",
         "step ms", "interval ms", "tokens/s", "share", "at floor ms");
  for (size_t i = 0; i < n; i++) {
    char range[64];
    (void)snprintf(range, sizeof range, "%.1f .. %.1f", p[i].step_low * 1e3, p[i].step_high * 1e3);
    printf("%-16s %9llu %12.4f %10.2f %10.2f %23s %10.3g %7.1f%% %14.2f\n", p[i].kernel,
           (unsigned long long)p[i].prefix, p[i].attention * 1e3, kva_step_rest_time(rest, p[i].prefix) * 1e3,
           p[i].step * 1e3, range, p[i].tokens, 100 * p[i].share, p[i].best * 1e3);
  }
  for (size_t i = 0; i < n; i++)
    if (!i || strcmp(p[i].kernel, p[i - 1].kernel) != 0 || strcmp(p[i].program, p[i - 1].program) != 0)
      printf("%-16s program: %s\n", p[i].kernel, p[i].program);
}

static kv_status print_json(const options *o, const kva_run *run, const kva_step_rest *rest,
                            const kva_step_point *p, size_t n, kv_error *err) {
  json_t *points = json_array(), *parts = json_array();
  for (size_t i = 0; i < n; i++)
    (void)json_array_append_new(
        points, json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "kernel", p[i].kernel, "program", p[i].program, "prefix",
                          (json_int_t)p[i].prefix, "attention_s", p[i].attention, "step_s", p[i].step,
                          "step_low_s", p[i].step_low, "step_high_s", p[i].step_high, "tokens_per_s",
                          p[i].tokens, "attention_share", p[i].share, "step_at_floor_s", p[i].best));
  for (uint32_t i = 0; i < rest->n; i++)
    (void)json_array_append_new(
        parts, json_pack("{s:s, s:f, s:f}", "name", rest->component[i].name, "fixed_s",
                         rest->component[i].fixed, "per_token_s", rest->component[i].per_token));
  json_t *root =
      json_pack("{s:s, s:i, s:b, s:s, s:s, s:i, s:f, s:s, s:o, s:o}", "schema", "roofline-step", "schema_version",
                1, "rows_fit_memory", !(kva_run_rows_bytes(run) > kva_run_memory(run)), "status", run->status, "gpu", run->gpu->key, "layers", (int)o->layers, "accepted",
                o->accepted, "rest_source", rest->source, "components", parts, "points", points);
  if (!root) return kv_fail(err, KV_ERR_INTERNAL, "the result cannot be written as JSON");
  (void)json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
  (void)putchar('\n');
  json_decref(root);
  return KV_OK;
}

static kv_status check_options(const options *o, kv_error *err) {
  const struct {
    const char *file, *what;
  } input[] = {{o->components, "file of --components"},
               {o->profile, "profile"},
               {o->calibration, "calibration"},
               {kva_is_declaration(o->kernel) ? o->kernel : NULL, "kernel"}};
  kv_status st = KV_OK;
  if (o->accepted > (double)o->queries + 1)
    return kv_fail(err, KV_ERR_USAGE,
                   "--accepted: %g tokens a step and request, of %llu tree nodes (--queries) and the model's own one at "
                   "most %llu",
                   o->accepted, (unsigned long long)o->queries, (unsigned long long)o->queries + 1);
  for (size_t i = 0; !st && i < sizeof input / sizeof *input; i++)
    st = kv_cli_not_input(o->output, input[i].file, input[i].what, err);
  return st;
}

static kv_status step(options *o, const char *command, kv_error *err) {
  static const uint64_t usual[] = {4096, 8192, 16384, 32768, 65536, 131072, 189440};
  roofline_gpu chosen = {0};
  roofline_model model = {0};
  kva_step_rest rest;
  kva_step_point *point = NULL;
  double left_out;
  kva_run run = {.layers = (uint32_t)o->layers, .seed = 1, .contiguous = true, .dtype = "bf16"};
  (void)snprintf(run.status, sizeof run.status, "%s", KVA_UNCALIBRATED);
  if (!o->prefixes)
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) o->prefix[o->prefixes++] = usual[i];
  kv_status st = check_options(o, err);
  if (!st) st = read_rest(o, &rest, &left_out, err);
  if (!st) st = roofline_gpu_choose(o->gpu, &chosen, err);
  run.gpu = chosen.gpu;
  if (!st) st = roofline_model_load(o->kernel, &model, err);
  if (!st) st = roofline_model_use(&model, &chosen.all, o->calibration, &run, err);
  if (!st) st = predict(o, &run, err);
  if (!st && model.own && model.own->unset[0] && !o->quiet)
    fprintf(stderr, "roofline step: %s: %s: taken as no wait\n", o->kernel, model.own->unset);
  point = st ? NULL : calloc(run.points + 1, sizeof *point);
  size_t n = point ? collect(o, &run, &rest, point) : 0;
  if (!st && !point) st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st && !n) st = no_time(o, &run, err);
  if (!st && o->json) st = print_json(o, &run, &rest, point, n, err);
  else if (!st) print_table(o, &run, chosen.note, &rest, left_out, point, n);
  if (!st && !o->json) roofline_print_incomplete(&run);
  if (!st && o->output) {
    const kva_step_labels labels = {run.gpu->key, run.status, run.calibration, (uint32_t)o->layers, o->accepted};
    st = kva_step_write(point, n, &rest, &labels, o->output, command, err);
    if (!st && !o->quiet) fprintf(stderr, "roofline step: wrote %s\n", o->output);
  }
  free(point);
  kva_run_free(&run);
  roofline_model_free(&model);
  roofline_gpu_free(&chosen);
  return st;
}

int roofline_step(int argc, char **argv) {
  static options o = {.heads = 8,
                      .queries = 9,
                      .layers = 61,
                      .batch = 1,
                      .base = 8,
                      .steps = 1,
                      .accepted = 1,
                      .attention = KVA_ATTENTION_NAMES};
  static const struct argp parser = {
      .options = option_table,
      .parser = parse_option,
      .doc =
          "A whole decode step: layers times the modelled verify attention, and the rest of the "
          "step.\vExamples:\n"
          "  roofline step --gpu sm_120 --layers 61 --base-ms 8 --accepted 3.2\n"
          "  roofline step --gpu h200 --profile kernels.csv --steps 100 --prefix 128Ki -o step.h5\n"};
  kv_error err = {KV_OK, ""};
  char *command = kv_cli_command_line(argc, argv);
  (void)argp_parse(&parser, argc, argv, 0, NULL, &o);
  kv_status st = o.err.status;
  if (st) err = o.err;
  else st = step(&o, command ? command : "roofline step", &err);
  free(command);
  return kv_cli_exit("roofline step", st, &err);
}
