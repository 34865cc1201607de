/* kvsim - what happened in a KV pool. The main: a table of sub-commands, and the one exit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "kv_clean.h"
#include "kv_version.h"
#include "kvsim_commands.h"

typedef struct command {
  const char *name;
  kv_status (*run)(int argc, char **argv, kv_error *err);
  const char *summary;
} command;

static const command commands[] = {
    {"replay", kvsim_replay, "replay a trace: pool state, scatter of every request, dataset, report"},
    {"whatif", kvsim_whatif, "the recorded schedule under other policies: scatter, cost, benefit, break-even"},
    {"info", kvsim_info, "what a trace holds"},
    {"import", kvsim_import, "a recording, a live recording's segments, or a public workload: to a kvtrace-1 file"},
    {"sweep", kvsim_sweep, "policies x pools x GPUs, one dataset; goes on where it was interrupted"},
    {"synth", kvsim_synth, "make up a trace from a seed, with known fragmentation"},
    {"diff", kvsim_diff, "where two traces or two datasets differ"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *to) {
  fprintf(to,
          "Usage: kvsim COMMAND [OPTION...] FILE\n"
          "Replays recorded KV-cache allocator traces and measures how scattered each request's rows are.\n\n"
          "Commands:\n");
  for (int i = 0; i < COMMANDS; i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
  fprintf(to,
          "\nOptions:\n"
          "  -h, --help       this text; `kvsim COMMAND --help` for a command's own\n"
          "  -V, --version    version\n\n"
          "Examples:\n"
          "  kvsim info trace.h5\n"
          "  kvsim replay trace.h5\n"
          "  kvsim replay trace.h5 --layout-out row.h5 --request 7 --step 900\n\n"
          "Exit status: 0 done, 1 a bar given on the command line was missed, 2 usage, 3 bad input, 4 no such\n"
          "device, 5 I/O or memory.\n");
}

static kv_status dispatch(int argc, char **argv, kv_error *err) {
  if (argc < 2) {
    help(stderr);
    return kv_fail(err, KV_ERR_USAGE, "name a command");
  }
  if (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "help")) {
    help(stdout);
    return KV_OK;
  }
  if (!strcmp(argv[1], "-V") || !strcmp(argv[1], "--version")) {
    printf("kvsim (kvroof) %s\nCopyright 2026 the kvroof authors. Licence Apache-2.0.\n", KV_VERSION);
    return KV_OK;
  }
  for (int i = 0; i < COMMANDS; i++)
    if (!strcmp(argv[1], commands[i].name)) {
      static char name[64];
      (void)snprintf(name, sizeof name, "kvsim %s", argv[1]);
      argv[1] = name;
      return commands[i].run(argc - 1, argv + 1, err);
    }
  return kv_fail(err, KV_ERR_USAGE, "unknown command '%s'; `kvsim --help` lists them", argv[1]);
}

int main(int argc, char **argv) {
  kv_error err = {KV_OK, ""};
  kv_clean_on_signals();
  kv_status st = dispatch(argc, argv, &err);
  return kv_cli_exit("kvsim", st, &err);
}
