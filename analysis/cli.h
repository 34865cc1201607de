/* cli.h - what the two programs share on the command line: one error exit, progress, where data files lie.
 * Only the mains and this file print.
 */
#ifndef KV_CLI_H
#define KV_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_status.h"

/* The one exit of a main: flushes stdout (a full disk there is KV_ERR_IO), prints `program: text` on stderr
 * for a failure, returns the exit status (0 done, 1 bar missed, 2 usage, 3 bad input, 4 device, 5 I/O). */
int kv_cli_exit(const char *program, kv_status status, const kv_error *err);

/* Finds a data file or folder of ours, e.g. "models/gpus" or "notebooks-free-reports/style.gp": under
 * $KVROOF_SHARE if set, else beside the running program (PROGRAM/../share/kvroof), else the installed prefix,
 * else the source tree it was built from. KV_ERR_IO when nowhere. */
kv_status kv_cli_share(const char *relative, char *path, size_t size, kv_error *err);

/* True when both name the same existing file (by device and inode), or are the same text: an output must not be an
 * input. */
bool kv_cli_same_file(const char *a, const char *b);

/* KV_ERR_USAGE "--output: is the WHAT itself" where both name the same file; either may be NULL. */
kv_status kv_cli_not_input(const char *output, const char *input, const char *what, kv_error *err);

/* "12k", "4M", "2Gi", "131072" -> number. k, M, G are powers of 1000; Ki, Mi, Gi of 1024. */
kv_status kv_cli_count(const char *text, const char *option, uint64_t low, uint64_t high, uint64_t *value,
                       kv_error *err);

/* Memory that a program may still take here: what the machine has left (free, caches, swap), a control group's limit, a
 * limit on address space, whichever is least. UINT64_MAX where nothing tells. */
uint64_t kv_cli_memory_left(void);
/* KV_ERR_MEMORY where `what` needs more than that: the message names both. To be asked before allocating. */
kv_status kv_cli_memory(uint64_t bytes, const char *what, kv_error *err);

/* argv joined with spaces (quoted where needed) for a dataset's history; of absolute paths the last name
 * alone, as their folders are this machine's. The caller frees. NULL on no memory. */
char *kv_cli_command_line(int argc, char **argv);

/* A progress bar with ETA on stderr; nothing unless stderr is a terminal and quiet is false. */
typedef struct kv_progress {
  const char *label;
  bool shown;
  double started; /* s, monotonic */
  double last;
} kv_progress;
void kv_progress_begin(kv_progress *p, const char *label, bool quiet);
void kv_progress_at(kv_progress *p, double fraction);
void kv_progress_end(kv_progress *p);

/* Monotonic seconds. */
double kv_seconds(void);

#endif
