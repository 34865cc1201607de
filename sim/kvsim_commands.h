/* kvsim_commands.h - the sub-commands of kvsim. Each gets its own argv (argv[0] is "kvsim NAME") and returns a status
 * with one line of text in *err; kvsim.c turns it into the exit status. */
#ifndef KVSIM_COMMANDS_H
#define KVSIM_COMMANDS_H

#include "kv_status.h"

kv_status kvsim_info(int argc, char **argv, kv_error *err);
kv_status kvsim_replay(int argc, char **argv, kv_error *err);
kv_status kvsim_import(int argc, char **argv, kv_error *err);
kv_status kvsim_whatif(int argc, char **argv, kv_error *err);
kv_status kvsim_synth(int argc, char **argv, kv_error *err);
kv_status kvsim_diff(int argc, char **argv, kv_error *err);
kv_status kvsim_sweep(int argc, char **argv, kv_error *err);

#endif
