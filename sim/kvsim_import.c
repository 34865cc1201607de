/* kvsim import: recordings of other formats to kvtrace-1. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "import.h"
#include "kvsim_commands.h"

typedef struct arguments {
  const char *path, *output;
  bool plain, quiet;
} arguments;

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "kvtrace-1 file to write (default: the input's name with .kvtrace.h5)", 0},
    {"plain", 'p', 0, 0, "no compression, only a checksum: larger, and faster to replay", 0},
    {"quiet", 'q', 0, 0, "print nothing", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case 'o': a->output = arg; break;
    case 'p': a->plain = true; break;
    case 'q': a->quiet = true; break;
    case ARGP_KEY_ARG:
      if (a->path) argp_error(state, "one recording at a time");
      a->path = arg;
      break;
    case ARGP_KEY_NO_ARGS: argp_error(state, "name a recording"); break;
    default: return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

kv_status kvsim_import(int argc, char **argv, kv_error *err) {
  static const struct argp argp = {options, parse, "RECORDING.h5",
                                   "Convert a recording (sglang-kv-slot-recording/1) to a kvtrace-1 file.\v"
                                   "Nothing is lost: events, slots, steps, requests, both final lists and all attributes "
                                   "come over.\n\nExample:\n  kvsim import mixed_eagle.h5 -o mixed_eagle.kvtrace.h5", NULL, NULL, NULL};
  arguments a = {0};
  char *output = NULL, *command = kv_cli_command_line(argc, argv);
  argp_err_exit_status = 2;
  (void)argp_parse(&argp, argc, argv, 0, NULL, &a);
  size_t stem = strlen(a.path);
  if (stem > 3 && !strcmp(a.path + stem - 3, ".h5")) stem -= 3;
  if (a.output ? !(output = strdup(a.output)) : asprintf(&output, "%.*s.kvtrace.h5", (int)stem, a.path) < 0)
    return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  const kvt_writer_options w = {.plain = a.plain, .creator = "kvsim", .command = command};
  kv_status st = strcmp(output, a.path) ? kvt_import_recording(a.path, output, &w, err)
                                        : kv_fail(err, KV_ERR_USAGE, "--output: is the recording itself");
  if (!st && !a.quiet) printf("%s: written\n", output);
  free(output);
  free(command);
  return st;
}
