/* roofline validate - the model against measured points. */
#include <argp.h>
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "gains.h"
#include "roofline_commands.h"
#include "roofline_gpu.h"
#include "roofline_model.h"
#include "validate.h"

enum { MAX_FILES = 64, O_JSON = 1000, O_MAPE, O_WORST, O_LEAST, O_CALIBRATION, O_GAIN };

typedef struct options {
  const char *file[MAX_FILES], *output, *calibration;
  size_t files;
  double mape, worst, gain;
  uint64_t least;
  bool json, quiet;
  kv_error err;
} options;

static void percent(options *o, const char *arg, const char *name, double *to) {
  char *end;
  *to = strtod(arg, &end) / 100;
  if (end == arg || (*end && strcmp(end, "%") != 0) || !(*to > 0))
    (void)kv_fail(&o->err, KV_ERR_USAGE, "%s: '%.40s' is not a percentage above 0", name, arg);
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
    case 'o': o->output = arg; return 0;
    case 'q': o->quiet = true; return 0;
    case O_JSON: o->json = true; return 0;
    case O_CALIBRATION: o->calibration = arg; return 0;
    case O_MAPE: percent(o, arg, "--mape", &o->mape); return 0;
    case O_WORST: percent(o, arg, "--worst", &o->worst); return 0;
    case O_GAIN: percent(o, arg, "--gain", &o->gain); return 0;
    case O_LEAST:
      if (!o->err.status) (void)kv_cli_count(arg, "--from", 0, KVM_MAX_PREFIX, &o->least, &o->err);
      return 0;
    case ARGP_KEY_ARG:
      if (o->files == MAX_FILES) (void)kv_fail(&o->err, KV_ERR_USAGE, "more than %d files", (int)MAX_FILES);
      else o->file[o->files++] = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0, "dataset of points and scores (kvvalidate-1)", 0},
    {"mape", O_MAPE, "PERCENT", 0, "bar on the mean absolute error of all points: exit status 1 above it", 0},
    {"worst", O_WORST, "PERCENT", 0, "bar on the largest absolute error", 0},
    {"gain", O_GAIN, "PERCENT", 0, "bar on predicted over realised gain of each fix", 0},
    {"from", O_LEAST, "TOKENS", 0, "leave shorter prefixes out", 0},
    {"calibration", O_CALIBRATION, "FILE", 0,
     "dataset of `roofline calibrate`; none: published values; default: that of the GPU in models/measured",
     0},
    {"json", O_JSON, 0, 0, "JSON on stdout (schema roofline-validate, version 1)", 0},
    {"quiet", 'q', 0, 0, "no messages on stderr but errors", 0},
    {0, 0, 0, 0, 0, 0}};

/* ---- the sets ---- */

static int measured_name(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return (n > 4 && !strcmp(e->d_name + n - 4, ".tsv")) ||
         (n > 3 && !strcmp(e->d_name + n - 3, ".h5") && !strstr(e->d_name, "-ceilings.h5"));
}

/* Text of each file that a folder gave; the arguments' own are the caller's. */
typedef char names_of_files[MAX_FILES][4352];

static kv_status add_folder(const char *folder, names_of_files path, options *o, kv_error *err) {
  struct dirent **names = NULL;
  kv_status st = KV_OK;
  int n = scandir(folder, &names, measured_name, alphasort);
  if (n < 0) return kv_fail(err, KV_ERR_IO, "%s: cannot be listed", folder);
  for (int i = 0; i < n; i++) {
    if (o->files == MAX_FILES) st = kv_fail(err, KV_ERR_USAGE, "more than %d files", (int)MAX_FILES);
    else {
      (void)snprintf(path[o->files], sizeof path[0], "%.4090s/%.250s", folder, names[i]->d_name);
      o->file[o->files] = path[o->files];
      o->files++;
    }
    free(names[i]);
  }
  free(names);
  if (!st && !n)
    st = kv_fail(err, KV_ERR_INPUT, "%s: a folder without a measured file (.tsv, .h5 but *-ceilings.h5)", folder);
  return st;
}

/* Arguments that are folders give their files; without an argument models/measured does. */
static kv_status list_files(names_of_files path, options *o, kv_error *err) {
  char folder[4096];
  const char *given[MAX_FILES];
  const size_t n = o->files;
  struct stat about;
  memcpy(given, o->file, sizeof given);
  o->files = 0;
  kv_status st = n ? KV_OK : kv_cli_share("models/measured", folder, sizeof folder, err);
  if (!st && !n) st = add_folder(folder, path, o, err);
  for (size_t i = 0; !st && i < n; i++) {
    if (!stat(given[i], &about) && S_ISDIR(about.st_mode)) st = add_folder(given[i], path, o, err);
    else if (o->files == MAX_FILES) st = kv_fail(err, KV_ERR_USAGE, "more than %d files", (int)MAX_FILES);
    else o->file[o->files++] = given[i];
  }
  for (size_t i = 0; !st && i < o->files; i++) {
    st = kv_cli_not_input(o->output, o->file[i], "measurement", err);
    for (size_t k = 0; !st && k < i; k++)
      if (kv_cli_same_file(o->file[k], o->file[i]))
        st = kv_fail(err, KV_ERR_USAGE, "%s: given twice (%s), its points would count twice", o->file[i], o->file[k]);
  }
  return st ? st : kv_cli_not_input(o->output, o->calibration, "calibration", err);
}

static void drop_short(kva_readings *m, uint64_t least, uint64_t *longest) {
  size_t kept = 0;
  for (size_t i = 0; i < m->n; i++) {
    if (m->sample[i].problem.longest > *longest) *longest = m->sample[i].problem.longest;
    if (m->sample[i].problem.longest >= least) m->sample[kept++] = m->sample[i];
  }
  m->n = kept;
}

static kv_status validate_one(kva_readings *m, const kvm_gpus *gpus, const options *o, roofline_model *model,
                              kv_error *err) {
  const kvm_gpu *gpu;
  kv_status st = kvm_gpus_find(gpus, m->gpu, &gpu, err);
  if (st) return kv_fail(err, KV_ERR_INPUT, "%s: its GPU '%.40s' is not described", m->path, m->gpu);
  kvm_roofs roofs;
  kvm_timing timing;
  st = roofline_model_timing(model, gpus, gpu, o->calibration, &roofs, &timing, err);
  if (st) return st;
  return kva_validate(m, gpu, &model->declared, &timing, &roofs, err);
}

/* ---- results ---- */

/* "15 of 39 points skipped, no program declared: split_verify, flashmla". */
static void print_skipped(const kva_readings *m, size_t skipped) {
  const char *before = ": ";
  printf("  %zu of %zu points skipped, no program declared", skipped, m->n);
  for (size_t i = 0; i < m->n; i++) {
    bool said = !isnan(m->sample[i].predicted);
    for (size_t k = 0; !said && k < i; k++)
      said = isnan(m->sample[k].predicted) && !strcmp(m->sample[k].kernel, m->sample[i].kernel);
    if (said) continue;
    printf("%s%s", before, m->sample[i].kernel);
    before = ", ";
  }
  printf("\n");
}

static void print_points(const kva_readings *m) {
  size_t skipped = 0;
  for (size_t i = 0; i < m->n; i++) skipped += isnan(m->sample[i].predicted) ? 1 : 0;
  const char *base = strrchr(m->path, '/');
  printf("%s (%s)\n", m->status, base ? base + 1 : m->path);
  if (m->what[0] || m->how[0]) printf("  %s; %s\n", m->what, m->how);
  if (skipped) print_skipped(m, skipped);
  if (skipped == m->n) {
    printf("\n");
    return;
  }
  printf("%-24s %5s %7s %5s %9s %-17s %12s %12s %23s %8s  %s\n", "kernel", "heads", "queries", "batch",
         "prefix", "layout", "measured us", "predicted us", "interval us", "error", "widest parameter");
  for (size_t i = 0; i < m->n; i++) {
    const kva_reading *s = &m->sample[i];
    if (isnan(s->predicted)) continue;
    char range[64];
    (void)snprintf(range, sizeof range, "%.1f .. %.1f", s->predicted_low * 1e6, s->predicted_high * 1e6);
    printf("%-24s %5u %7u %5u %9llu %-17s %12.1f %12.1f %23s %+7.1f%%  %s\n", s->kernel, s->problem.heads,
           s->problem.queries, s->problem.batch, (unsigned long long)s->problem.longest, s->layout,
           s->measured * 1e6, s->predicted * 1e6, range, 100 * (s->predicted / s->measured - 1),
           kvm_parameter_name(s->dominating));
  }
  printf("\n");
}

static void print_scores(const kva_score *score, size_t n) {
  printf("%-36s %6s %8s %8s %8s %9s %8s %8s\n", "", "points", "MAPE", "worst", "bias", "repeats", "inside",
         "skipped");
  for (size_t i = 0; i < n; i++) {
    const kva_score *s = &score[i];
    char spread[16] = "-";
    if (!isnan(s->spread)) (void)snprintf(spread, sizeof spread, "%.1f%%", 100 * s->spread);
    if (s->n)
      printf("%-36s %6zu %7.1f%% %7.1f%% %+7.1f%% %9s %7.0f%% %8zu\n", s->name, s->n, 100 * s->mape,
             100 * s->worst, 100 * s->bias, spread, 100 * s->covered, s->skipped);
    else
      printf("%-36s %6d %8s %8s %8s %9s %8s %8zu  no program declared\n", s->name, 0, "-", "-", "-", spread,
             "-", s->skipped);
  }
}

static bool same_fix(const kva_gain *a, const kva_gain *b) {
  return !strcmp(a->fix, b->fix) && !strcmp(a->before->kernel, b->before->kernel) &&
         !strcmp(a->after->kernel, b->after->kernel);
}

/* One line for the pairs that are like gain[at] and have a prediction; nothing where an earlier one is like it. */
static void print_fix(const kva_gain *gain, size_t n, size_t at) {
  double sum = 0, worst = -1;
  size_t pairs = 0, most = at;
  for (size_t i = 0; i < n; i++) {
    if (isnan(gain[i].predicted) || !same_fix(&gain[i], &gain[at])) continue;
    if (i < at) return;
    double off = fabs(gain[i].predicted / gain[i].realised - 1);
    sum += off;
    pairs++;
    if (off > worst) worst = off, most = i;
  }
  const kva_gain *g = &gain[most];
  const kvm_verify *p = &g->before->problem;
  printf("%-13s %-22s %-22s %5zu %6.1f%% %+7.1f%%  %.2f for %.2f: %u heads, %llu tokens, batch %u, %s\n", g->fix,
         g->before->kernel, g->after->kernel, pairs, 100 * sum / (double)pairs,
         100 * (g->predicted / g->realised - 1), g->predicted, g->realised, p->heads, (unsigned long long)p->longest,
         p->batch, g->before->layout);
}

/* Gains of the fixes that two measured kernels differ by. */
static void print_gains(const kva_gain *gain, size_t n) {
  size_t known = 0;
  (void)kva_gains_worst(gain, n, NULL, &known);
  printf("\ngains: %zu pairs of measured kernels that differ by one fix, %zu of them predicted (each: --json, -o)\n", n,
         known);
  if (known)
    printf("%-13s %-22s %-22s %5s %7s %8s  %s\n", "fix", "before", "after", "pairs", "mean", "worst",
           "predicted for realised");
  for (size_t i = 0; i < n; i++)
    if (!isnan(gain[i].predicted)) print_fix(gain, n, i);
}

static json_t *number(double v) {
  return isfinite(v) ? json_real(v) : json_null();
}

static json_t *gains_json(const kva_gain *gain, size_t n) {
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++)
    (void)json_array_append_new(
        list, json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:f, s:o}", "fix", gain[i].fix, "before",
                        gain[i].before->kernel, "after", gain[i].after->kernel, "layout",
                        gain[i].before->layout, "heads", (int)gain[i].before->problem.heads, "prefix",
                        (json_int_t)gain[i].before->problem.longest, "realised", gain[i].realised,
                        "predicted", number(gain[i].predicted)));
  return list;
}

static kv_status print_json(const kva_readings *m, size_t sets, const kva_score *score, size_t n,
                            json_t *gains, const char *calibration, kv_error *err) {
  json_t *points = json_array(), *scores = json_array();
  for (size_t k = 0; k < sets; k++)
    for (size_t i = 0; i < m[k].n; i++) {
      const kva_reading *s = &m[k].sample[i];
      (void)json_array_append_new(
          points, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:f, s:o, s:o, s:o}", "gpu", m[k].gpu,
                            "kernel", s->kernel, "layout", s->layout, "heads", (int)s->problem.heads,
                            "queries", (int)s->problem.queries, "batch", (int)s->problem.batch, "prefix",
                            (json_int_t)s->problem.longest, "measured_s", s->measured, "predicted_s",
                            number(s->predicted), "low_s", number(s->predicted_low), "high_s",
                            number(s->predicted_high)));
    }
  for (size_t i = 0; i < n; i++)
    (void)json_array_append_new(
        scores, json_pack("{s:s, s:i, s:i, s:o, s:o, s:o, s:o}", "name", score[i].name, "points",
                          (int)score[i].n, "skipped", (int)score[i].skipped, "mape", number(score[i].mape),
                          "worst", number(score[i].worst), "bias", number(score[i].bias), "covered",
                          number(score[i].covered)));
  json_t *root = json_pack("{s:s, s:i, s:s, s:o, s:o, s:o}", "schema", "roofline-validate", "schema_version",
                           1, "calibration", calibration, "points", points, "scores", scores, "gains", gains);
  if (!root) return kv_fail(err, KV_ERR_INTERNAL, "the result cannot be written as JSON");
  (void)json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
  (void)putchar('\n');
  json_decref(root);
  return KV_OK;
}

static kv_status judge(const options *o, const kva_score *all, const kva_gain *gain, size_t gains,
                       kv_error *err) {
  size_t known;
  const double off = kva_gains_worst(gain, gains, NULL, &known);
  if (!all->n)
    return kv_fail(err, KV_ERR_INPUT, "no measured point has a kernel with a program in models/kernels");
  if (o->mape > 0 && all->mape > o->mape)
    return kv_fail(err, KV_ERR_BAR, "mean absolute error %.1f %% is above %.1f %%", 100 * all->mape,
                   100 * o->mape);
  if (o->worst > 0 && all->worst > o->worst)
    return kv_fail(err, KV_ERR_BAR, "largest absolute error %.1f %% is above %.1f %%", 100 * all->worst,
                   100 * o->worst);
  if (o->gain > 0 && !known)
    return kv_fail(err, KV_ERR_INPUT, "--gain: no pair of kernels that differ by a fix");
  if (o->gain > 0 && off > o->gain)
    return kv_fail(err, KV_ERR_BAR, "a predicted gain is %.1f %% off, the bar is %.1f %%", 100 * off,
                   100 * o->gain);
  return KV_OK;
}

static kv_status validate_all(options *o, const char *command, kv_error *err) {
  static names_of_files path;
  uint64_t longest = 0;
  size_t kept = 0;
  char calibration[400] = "none: published values (models/gpus, models/pipes)";
  kva_readings *m = calloc(MAX_FILES, sizeof *m);
  kva_score score[KVA_MAX_SCORES];
  kvm_gpus gpus = {0};
  roofline_model model = {0};
  kv_status st = m ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st) st = list_files(path, o, err);
  if (!st) st = roofline_gpus(&gpus, err);
  if (!st) st = roofline_model_load(NULL, &model, err);
  for (size_t i = 0; !st && i < o->files; i++) {
    st = kva_readings_load(o->file[i], &m[i], err);
    if (!st) drop_short(&m[i], o->least, &longest);
    kept += m[i].n;
    if (!st) st = validate_one(&m[i], &gpus, o, &model, err);
    if (!st && model.calibrated.values)
      (void)snprintf(calibration, sizeof calibration, "%s", model.calibrated.source);
  }
  if (!st && o->least > longest && !kept)
    st = kv_fail(err, KV_ERR_INPUT, "--from %llu: no point is that long; the longest prefix is %llu",
                 (unsigned long long)o->least, (unsigned long long)longest);
  size_t n = st ? 0 : kva_scores(m, o->files, score), gains = st ? 0 : kva_gains(m, o->files, NULL, 0);
  kva_gain *gain = calloc(gains + 1, sizeof *gain);
  if (!st && !gain) st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st) (void)kva_gains(m, o->files, gain, gains);
  if (!st && o->json) st = print_json(m, o->files, score, n, gains_json(gain, gains), calibration, err);
  else if (!st) {
    printf("modelled; calibration: %s\n\n", calibration);
    for (size_t i = 0; i < o->files; i++) print_points(&m[i]);
    print_scores(score, n);
    print_gains(gain, gains);
  }
  if (!st && o->output) st = kva_validate_write(m, o->files, calibration, o->output, command, err);
  if (!st && o->output && !o->quiet) fprintf(stderr, "roofline validate: wrote %s\n", o->output);
  if (!st) st = judge(o, &score[0], gain, gains, err);
  free(gain);
  for (size_t i = 0; m && i < MAX_FILES; i++) kva_readings_free(&m[i]);
  free(m);
  roofline_model_free(&model);
  kvm_gpus_free(&gpus);
  return st;
}

int roofline_validate(int argc, char **argv) {
  static options o;
  static const struct argp parser = {.options = option_table,
                                     .parser = parse_option,
                                     .args_doc = "[FILE|FOLDER...]",
                                     .doc =
                                         "The model against measured points: kvmeasured-1 text or roofline-1 "
                                         "datasets, or folders of them; without a file all of "
                                         "models/measured.\vExamples:\n  roofline validate\n  roofline "
                                         "validate --mape 12% --worst 30% my.tsv -o v.h5\n"};
  kv_error err = {KV_OK, ""};
  char *command = kv_cli_command_line(argc, argv);
  (void)argp_parse(&parser, argc, argv, 0, NULL, &o);
  kv_status st = o.err.status;
  if (st) err = o.err;
  else st = validate_all(&o, command ? command : "roofline validate", &err);
  free(command);
  return kv_cli_exit("roofline validate", st, &err);
}
