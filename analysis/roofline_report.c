/* roofline report - draws a dataset again. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "report.h"
#include "roofline_commands.h"

typedef struct options {
  const char *file, *folder;
  bool quiet;
  kv_error err;
} options;

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
    case 'o': o->folder = arg; return 0;
    case 'q': o->quiet = true; return 0;
    case ARGP_KEY_ARG:
      if (o->file) (void)kv_fail(&o->err, KV_ERR_USAGE, "one dataset; '%.60s' is one too many", arg);
      o->file = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option option_table[] = {
    {"output", 'o', "DIR", 0, "folder of the PDF and the PNGs (NAME-report)", 0},
    {"quiet", 'q', 0, 0, "no messages on stderr but errors", 0},
    {0, 0, 0, 0, 0, 0}};

static kv_status draw(const options *o, kv_error *err) {
  char style[4096], name[256], folder[300];
  if (!o->file) return kv_fail(err, KV_ERR_USAGE, "which dataset? roofline report FILE.h5");
  kv_status st = kv_cli_share("notebooks-free-reports/style.gp", style, sizeof style, err);
  if (st) return st;
  *strrchr(style, '/') = '\0';
  kvr_report_name(o->file, name, sizeof name);
  (void)snprintf(folder, sizeof folder, "%s-report", name);
  const char *to = o->folder ? o->folder : folder;
  st = kvr_report(o->file, to, style, &(kvr_options){0}, err);
  if (!st && !o->quiet) fprintf(stderr, "roofline report: in %s\n", to);
  return st;
}

int roofline_report(int argc, char **argv) {
  static options o;
  static const struct argp parser = {.options = option_table,
                                     .parser = parse_option,
                                     .args_doc = "FILE.h5",
                                     .doc =
                                         "Draws the report of a dataset of roofline (runs, calibrate, "
                                         "selftest, step, validate, compare, audit) or kvsim again.\v"
                                         "Example:\n  roofline validate -o v.h5 && roofline report v.h5\n"};
  kv_error err = {KV_OK, ""};
  (void)argp_parse(&parser, argc, argv, 0, NULL, &o);
  kv_status st = o.err.status;
  if (st) err = o.err;
  else st = draw(&o, &err);
  return kv_cli_exit("roofline report", st, &err);
}
