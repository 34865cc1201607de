#include "kvr_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kv_clean.h"

#define MISSING \
  "gnuplot is not installed or not on PATH; reports need it (Debian and Ubuntu package: gnuplot-nox)"

static bool dropped(const char *variable) {
  static const char *const prefix[] = {
      "GNUTERM=", "GNUPLOT_", "GDFONTPATH=", "FIT_", "LC_ALL=", "SOURCE_DATE_EPOCH="};
  for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
    if (!strncmp(variable, prefix[i], strlen(prefix[i]))) return true;
  return false;
}

/* The array is the caller's to free; its strings belong to the environment, to epoch and to this file. */
static char **child_environment(char *epoch) {
  static char locale[] = "LC_ALL=C.UTF-8";
  size_t n = 0, kept = 0;
  while (environ[n]) n++;
  char **list = calloc(n + 3, sizeof *list);
  if (!list) return NULL;
  for (size_t i = 0; i < n; i++)
    if (!dropped(environ[i])) list[kept++] = environ[i];
  list[kept++] = locale;
  list[kept] = epoch;
  return list;
}

/* Files are opened after the change of folder, in the order in which the actions are added. */
static int spawn_actions(posix_spawn_file_actions_t *actions, const char *folder) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  int bad = posix_spawn_file_actions_init(actions);
  if (bad) return bad;
  bad = posix_spawn_file_actions_addchdir_np(actions, folder);
  if (!bad) bad = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (!bad) bad = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "gnuplot.out", flags, 0600);
  if (!bad) bad = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "gnuplot.err", flags, 0600);
  if (bad) (void)posix_spawn_file_actions_destroy(actions);
  return bad;
}

static kv_status start(const kvr_run_options *o, pid_t *pid, kv_error *err) {
  posix_spawn_file_actions_t actions;
  char epoch[64];
  char *argv[] = {strdup(o->program), strdup("-d"), strdup(o->script), NULL};
  (void)snprintf(epoch, sizeof epoch, "SOURCE_DATE_EPOCH=%s", o->epoch);
  char **environment = child_environment(epoch);
  int bad = !argv[0] || !argv[1] || !argv[2] || !environment ? ENOMEM : spawn_actions(&actions, o->folder);
  if (!bad) {
    bad = posix_spawnp(pid, o->program, &actions, NULL, argv, environment);
    (void)posix_spawn_file_actions_destroy(&actions);
  }
  free(environment);
  for (size_t i = 0; i < 3; i++) free(argv[i]);
  if (bad == ENOENT) return kv_fail(err, KV_ERR_IO, MISSING);
  if (bad == ENOMEM) return kv_fail(err, KV_ERR_MEMORY, "gnuplot: out of memory");
  if (bad) return kv_fail(err, KV_ERR_IO, "%s: cannot be started: %s", o->program, strerror(bad));
  return KV_OK;
}

static double now(void) {
  struct timespec ts;
  (void)clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Polls rather than taking over SIGCHLD or an alarm, which belong to the program. Returns false on the time
 * limit. */
static bool wait_until(pid_t pid, double deadline, int *status) {
  const struct timespec nap = {.tv_nsec = 5000000};
  for (;;) {
    pid_t got = waitpid(pid, status, WNOHANG);
    if (got == pid) return true;
    if (got < 0 && errno != EINTR) {
      *status =
          0x7f00; /* somebody else reaped it (SIGCHLD ignored): take the missing output as the verdict */
      return true;
    }
    if (now() > deadline) {
      (void)kill(pid, SIGKILL);
      (void)waitpid(pid, status, 0);
      return false;
    }
    (void)nanosleep(&nap, NULL);
  }
}

/* The last line with anything in it; gnuplot ends its messages with an empty one. */
static void last_words(const char *folder, char *words, size_t size) {
  char path[4096], line[512];
  (void)snprintf(words, size, "it said nothing");
  if (snprintf(path, sizeof path, "%s/gnuplot.err", folder) >= (int)sizeof path) return;
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f)) {
    char *from = line + strspn(line, " \t\r\n");
    from[strcspn(from, "\r\n")] = '\0';
    if (*from) (void)snprintf(words, size, "%s", from);
  }
  if (f) (void)fclose(f);
}

kv_status kvr_run_gnuplot(const kvr_run_options *options, kv_error *err) {
  pid_t pid = -1;
  int status = 0;
  char words[300];
  kv_status st = start(options, &pid, err);
  if (st) return st;
  kv_clean_child(pid);
  bool ended = wait_until(pid, now() + options->time_limit, &status);
  kv_clean_child(0);
  if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0) return KV_OK;
  last_words(options->folder, words, sizeof words);
  if (!ended)
    return kv_fail(err, KV_ERR_IO, "gnuplot: stopped after %g s without an end; its last line: %s",
                   options->time_limit, words);
  if (WIFSIGNALED(status))
    return kv_fail(err, KV_ERR_IO, "gnuplot: ended by signal %d; its last line: %s", WTERMSIG(status), words);
  if (WEXITSTATUS(status) == 127 && !strcmp(words, "it said nothing"))
    return kv_fail(err, KV_ERR_IO, MISSING);
  return kv_fail(err, KV_ERR_IO, "gnuplot: failed with status %d; its last line: %s", WEXITSTATUS(status),
                 words);
}
