/* kvr_run.h - running gnuplot: no shell, no user configuration, a time limit, its last words in the message.
 */
#ifndef KVR_RUN_H
#define KVR_RUN_H

#include <stdbool.h>

#include "kv_status.h"

typedef struct kvr_run_options {
  const char *program; /* looked up on PATH unless it holds a slash */
  const char *folder;  /* its working directory; gnuplot.err and gnuplot.out are written there */
  const char *script;  /* relative to folder */
  double time_limit;   /* s */
  const char *epoch;   /* SOURCE_DATE_EPOCH for it, seconds since 1970 as text */
} kvr_run_options;

/* Runs `program -d script` with LC_ALL=C.UTF-8 and without GNUTERM, GNUPLOT_* and FIT_* of the caller.
 * Returns when it has ended. KV_ERR_IO: not there (the message names the Debian package), non-zero status, a
 * signal, or the time limit (it is then killed); the message ends with the last line it wrote to stderr. */
kv_status kvr_run_gnuplot(const kvr_run_options *options, kv_error *err);

#endif
