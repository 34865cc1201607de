#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kv_version.h"

int kv_cli_exit(const char *program, kv_status status, const kv_error *err) {
  bool failed = status != KV_OK && status != KV_END;
  errno = 0;
  if ((fflush(stdout) != 0 || ferror(stdout)) && !failed) {
    fprintf(stderr, "%s: standard output: %s\n", program, errno ? strerror(errno) : "write error");
    return kv_exit_status(KV_ERR_IO);
  }
  if (failed) fprintf(stderr, "%s: %s\n", program, err && err->text[0] ? err->text : kv_status_name(status));
  return kv_exit_status(status);
}

/* The first whole number of a file, or of its line that begins with `key`; UINT64_MAX where there is none ("max"). */
static uint64_t number_in(const char *path, const char *key) {
  char line[256];
  uint64_t value = UINT64_MAX;
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f)) {
    unsigned long long v;
    if (strncmp(line, key, strlen(key)) != 0) continue;
    if (sscanf(line + strlen(key), "%llu", &v) == 1) value = v;
    break;
  }
  if (f) (void)fclose(f);
  return value;
}

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

uint64_t kv_cli_memory_left(void) {
  struct rlimit space;
  uint64_t available = number_in("/proc/meminfo", "MemAvailable:"), swap = number_in("/proc/meminfo", "SwapFree:");
  uint64_t left = available == UINT64_MAX ? available : 1024 * (available + (swap == UINT64_MAX ? 0 : swap));
  uint64_t limit = number_in("/sys/fs/cgroup/memory.max", ""), used = number_in("/sys/fs/cgroup/memory.current", "");
  if (limit != UINT64_MAX && used != UINT64_MAX) left = least(left, limit > used ? limit - used : 0);
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) left = least(left, space.rlim_cur);
  return left;
}

kv_status kv_cli_memory(uint64_t bytes, const char *what, kv_error *err) {
  uint64_t left = kv_cli_memory_left();
  if (bytes <= left) return KV_OK;
  return kv_fail(err, KV_ERR_MEMORY, "%s: needs %.1f GB of memory, %.1f GB are left on this machine", what, (double)bytes * 1e-9,
                 (double)left * 1e-9);
}

bool kv_cli_same_file(const char *a, const char *b) {
  struct stat x, y;
  if (!strcmp(a, b)) return true;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

kv_status kv_cli_not_input(const char *output, const char *input, const char *what, kv_error *err) {
  if (!output || !input || !kv_cli_same_file(output, input)) return KV_OK;
  return kv_fail(err, KV_ERR_USAGE, "--output: is the %s itself (%s); name another file", what, input);
}

static bool there(const char *root, const char *relative, char *path, size_t size) {
  int n = snprintf(path, size, "%s/%s", root, relative);
  return n > 0 && (size_t)n < size && access(path, R_OK) == 0;
}

kv_status kv_cli_share(const char *relative, char *path, size_t size, kv_error *err) {
  char root[4096];
  const char *env = getenv("KVROOF_SHARE");
  if (env && *env) {
    if (there(env, relative, path, size)) return KV_OK;
    return kv_fail(err, KV_ERR_IO, "%s: not found under KVROOF_SHARE=%s", relative, env);
  }
  ssize_t n = readlink("/proc/self/exe", root, sizeof root - 32);
  if (n > 0) {
    root[n] = '\0';
    char *slash = strrchr(root, '/');
    if (slash) {
      strcpy(slash, "/../share/kvroof");
      if (there(root, relative, path, size)) return KV_OK;
    }
  }
  bool from_source = n > 0 && !strncmp(root, KV_SOURCE_DIR "/", strlen(KV_SOURCE_DIR "/"));
  if (from_source && there(KV_SOURCE_DIR, relative, path, size)) return KV_OK; /* an older install must not shadow it */
  if (there(KV_PREFIX "/share/kvroof", relative, path, size)) return KV_OK;
  if (there(KV_SOURCE_DIR, relative, path, size)) return KV_OK;
  return kv_fail(err, KV_ERR_IO, "%s: not found (looked beside the program, in %s and in %s); set KVROOF_SHARE",
                 relative, KV_PREFIX "/share/kvroof", KV_SOURCE_DIR);
}

static double suffix_factor(const char *s) {
  static const struct {
    const char *name;
    double factor;
  } suffix[] = {{"", 1},     {"k", 1e3},      {"K", 1e3},       {"M", 1e6},         {"G", 1e9},
                {"Ki", 1024}, {"ki", 1024}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}};
  for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++)
    if (!strcmp(s, suffix[i].name)) return suffix[i].factor;
  return 0;
}

kv_status kv_cli_count(const char *text, const char *option, uint64_t low, uint64_t high, uint64_t *value,
                       kv_error *err) {
  char *end = NULL;
  errno = 0;
  unsigned long long whole = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
  double factor = end ? suffix_factor(end) : 0;
  if (!end || end == text || errno || factor == 0 || (double)whole * factor >= 1.8e19)
    return kv_fail(err, KV_ERR_USAGE, "%s: '%s' is not a whole number (suffixes k, M, G, Ki, Mi, Gi)", option,
                   text);
  uint64_t v = whole * (uint64_t)factor;
  if (v < low || v > high)
    return kv_fail(err, KV_ERR_USAGE, "%s: %s is out of range (%llu to %llu)", option, text,
                   (unsigned long long)low, (unsigned long long)high);
  *value = v;
  return KV_OK;
}

static bool plain_word(const char *s) {
  for (const char *c = s; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("-_./=:,+@%", *c)) return false;
  return *s != '\0';
}

/* A word as a shell takes it; control characters, which would break the line, become '?'. */
static char *quote(char *at, const char *word) {
  *at++ = '\'';
  for (const char *c = word; *c; c++) {
    if (*c == '\'')
      at = stpcpy(at, "'\\''");
    else
      *at++ = iscntrl((unsigned char)*c) ? '?' : *c;
  }
  *at++ = '\'';
  return at;
}

/* Where an absolute path may begin in a word: "/a", "--out=/a", "-o/a", "x,/a". */
static bool path_begins(const char *word, const char *at) {
  if (*at != '/') return false;
  return at == word || strchr("=,", at[-1]) || (at == word + 2 && word[0] == '-' && word[1] != '-');
}

/* A copy of word, in place of `to`, with the folders of absolute paths left out: they are of this machine
 * alone. */
static void leave_folders_out(const char *word, char *to) {
  const char *c = word;
  while (*c) {
    if (path_begins(word, c)) {
      const char *end = c + strcspn(c, ","), *name = end;
      while (name > c + 1 && name[-1] == '/') name--; /* "/a/b/" is named b */
      while (name > c && name[-1] != '/') name--;
      if (name < end && *name != '/') c = name;
    }
    *to++ = *c++;
  }
  *to = '\0';
}

char *kv_cli_command_line(int argc, char **argv) {
  size_t size = 1;
  for (int i = 0; i < argc; i++) size += 4 * strlen(argv[i]) + 3;
  char *line = calloc(1, size), *word = calloc(1, size), *at = line;
  for (int i = 0; line && word && i < argc; i++) {
    if (i) leave_folders_out(argv[i], word);
    else strcpy(word, strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0]);
    if (i) *at++ = ' ';
    at = i == 0 || plain_word(word) ? stpcpy(at, word) : quote(at, word); /* argv[0] is "kvsim replay" */
  }
  if (!word) {
    free(line);
    line = NULL;
  }
  free(word);
  return line;
}

double kv_seconds(void) {
  struct timespec ts;
  (void)clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

void kv_progress_begin(kv_progress *p, const char *label, bool quiet) {
  *p = (kv_progress){.label = label, .shown = !quiet && isatty(STDERR_FILENO), .started = kv_seconds()};
}

void kv_progress_at(kv_progress *p, double fraction) {
  double now = p->shown ? kv_seconds() : 0;
  if (!p->shown || now - p->last < 0.2) return;
  p->last = now;
  double f = fmin(fmax(fraction, 0), 1), spent = now - p->started;
  char bar[31];
  for (int i = 0; i < 30; i++) bar[i] = i < (int)(f * 30) ? '#' : '.';
  bar[30] = '\0';
  fprintf(stderr, "\r%s [%s] %3.0f %%  %.0f s left ", p->label, bar, 100 * f, f > 0.01 ? spent / f - spent : 0);
}

void kv_progress_end(kv_progress *p) {
  if (p->shown && p->last > 0) fprintf(stderr, "\r\033[K");
  p->shown = false;
}
