/* roofline compare - two datasets, before and after. */
#include <argp.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "compare.h"
#include "roofline_commands.h"

enum { O_JSON = 1000, O_FAIL };

typedef struct options {
  const char *file[2], *output;
  int files;
  double fail_above; /* NaN: no bar */
  bool json, quiet;
  kv_error err;
} options;

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  char *end;
  switch (key) {
    case 'o': o->output = arg; return 0;
    case 'q': o->quiet = true; return 0;
    case O_JSON: o->json = true; return 0;
    case O_FAIL:
      o->fail_above = strtod(arg, &end) / 100;
      if (end == arg || (*end && strcmp(end, "%") != 0) || !(o->fail_above >= 0))
        (void)kv_fail(&o->err, KV_ERR_USAGE, "--fail-above: '%.40s' is not a percentage", arg);
      return 0;
    case ARGP_KEY_ARG:
      if (o->files == 2)
        (void)kv_fail(&o->err, KV_ERR_USAGE, "two datasets, BEFORE and AFTER; '%.60s' is one too many", arg);
      else o->file[o->files++] = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option option_table[] = {
    {"fail-above", O_FAIL, "PERCENT", 0,
     "exit status 1 where a point got slower by more, its whole interval above 1", 0},
    {"output", 'o', "FILE", 0, "dataset (kvcompare-1)", 0},
    {"json", O_JSON, 0, 0, "JSON on stdout (schema roofline-compare, version 1)", 0},
    {"quiet", 'q', 0, 0, "no messages on stderr but errors", 0},
    {0, 0, 0, 0, 0, 0}};

static const char *word(const kva_pair *p) {
  return p->two_programs ? "two programs" : p->verdict > 0 ? "slower" : p->verdict < 0 ? "faster" : "undecided";
}

/* Which programs a name stands for, where before and after differ. */
static void print_programs(const kva_comparison *c) {
  for (size_t i = 0; i < c->n; i++) {
    const kva_pair *p = &c->pair[i];
    bool told = !p->program[0][0] || !p->program[1][0] || !strcmp(p->program[0], p->program[1]);
    for (size_t k = 0; !told && k < i; k++) told = !strcmp(c->pair[k].kernel, p->kernel);
    if (!told) printf("%s: %s: before %s; after %s\n", p->kernel,
                      p->two_programs ? "two programs" : "as each GPU takes it", p->program[0], p->program[1]);
  }
}

static void print_table(const options *o, const kva_comparison *c) {
  for (int i = 0; i < 2; i++)
    printf("%-7s %s: %s (%s)\n", i ? "after" : "before", o->file[i], c->gpu[i], c->status[i]);
  printf("\n%-20s %-22s %9s %5s %12s %12s %8s %17s  %s\n", "kernel", "layout", "prefix", "heads", "before us",
         "after us", "ratio", "interval", "");
  for (size_t i = 0; i < c->n; i++) {
    const kva_pair *p = &c->pair[i];
    char range[40] = "one model"; /* its errors are in common */
    if (!p->common) (void)snprintf(range, sizeof range, "%.3f .. %.3f", p->low, p->high);
    printf("%-20s %-22.22s %9llu %5u %12.2f %12.2f %8.3f %17s  %s\n", p->kernel, p->layout,
           (unsigned long long)p->prefix, p->heads, p->before * 1e6, p->after * 1e6, p->ratio, range,
           word(p));
  }
  printf("\n%zu points: %zu faster, %zu slower, %zu undecided", c->n, c->faster, c->slower, c->undecided);
  if (c->apart) printf(", %zu of two programs and not counted (--kernel models one program on both GPUs)", c->apart);
  if (!isnan(c->mean)) printf("; geometric mean %.3f", c->mean);
  if (c->only[0] || c->only[1]) printf("; with a time only before %zu, only after %zu (no such point in the other, or a bound alone)", c->only[0], c->only[1]);
  printf("\n");
  print_programs(c);
}

static kv_status print_json(const kva_comparison *c, kv_error *err) {
  json_t *points = json_array();
  for (size_t i = 0; i < c->n; i++) {
    const kva_pair *p = &c->pair[i];
    (void)json_array_append_new(
        points, json_pack("{s:s, s:s, s:s, s:s, s:I, s:i, s:b, s:f, s:f, s:f, s:f, s:f, s:s}", "kernel", p->kernel,
                          "program_before", p->program[0], "program_after", p->program[1],
                          "layout", p->layout, "prefix", (json_int_t)p->prefix, "heads", (int)p->heads,
                          "measured", p->measured, "before_s", p->before, "after_s", p->after, "ratio",
                          p->ratio, "ratio_low", p->low, "ratio_high", p->high, "verdict", word(p)));
  }
  json_t *root = json_pack("{s:s, s:i, s:o, s:i, s:i, s:i, s:i, s:o, s:i, s:i}", "schema", "roofline-compare",
                           "schema_version", 1, "points", points, "faster", (int)c->faster, "slower",
                           (int)c->slower, "undecided", (int)c->undecided, "two_programs",
                           (int)c->apart, "mean_ratio", isnan(c->mean) ? json_null() : json_real(c->mean),
                           "only_before", (int)c->only[0], "only_after", (int)c->only[1]);
  if (!root) return kv_fail(err, KV_ERR_INTERNAL, "the result cannot be written as JSON");
  (void)json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
  (void)putchar('\n');
  json_decref(root);
  return KV_OK;
}

static kv_status compare(const options *o, const char *command, kv_error *err) {
  kva_comparison c;
  if (o->files != 2)
    return kv_fail(err, KV_ERR_USAGE, "two datasets are needed: roofline compare BEFORE.h5 AFTER.h5");
  kv_status st = KV_OK;
  for (int i = 0; !st && i < 2; i++) st = kv_cli_not_input(o->output, o->file[i], "dataset", err);
  if (!st) st = kva_compare(o->file[0], o->file[1], &c, err);
  if (st) return st;
  if (o->json) st = print_json(&c, err);
  else print_table(o, &c);
  if (!st && o->output) st = kva_compare_write(&c, o->output, command, err);
  if (!st && o->output && !o->quiet) fprintf(stderr, "roofline compare: wrote %s\n", o->output);
  if (!st && c.worst > 1 + o->fail_above)
    st = kv_fail(err, KV_ERR_BAR, "slower by up to %.1f %%, the bar is %.1f %%", 100 * (c.worst - 1),
                 100 * o->fail_above);
  kva_compare_free(&c);
  return st;
}

int roofline_compare(int argc, char **argv) {
  static options o = {.fail_above = NAN};
  static const struct argp parser = {.options = option_table,
                                     .parser = parse_option,
                                     .args_doc = "BEFORE.h5 AFTER.h5",
                                     .doc =
                                         "Two roofline-1 datasets point by point: another kernel, driver, "
                                         "GPU or layout.\vMeasured times are set against "
                                         "measured ones, modelled against modelled. Two times that "
                                         "one model gives of one GPU err alike: their ratio has no interval.\nExample:\n  roofline "
                                         "compare old.h5 new.h5 --fail-above 5%\n"};
  kv_error err = {KV_OK, ""};
  char *command = kv_cli_command_line(argc, argv);
  (void)argp_parse(&parser, argc, argv, 0, NULL, &o);
  kv_status st = o.err.status;
  if (st) err = o.err;
  else st = compare(&o, command ? command : "roofline compare", &err);
  free(command);
  return kv_cli_exit("roofline compare", st, &err);
}
