#include "kv_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv_h5.h"

#if defined(__SANITIZE_ADDRESS__)
#define LIMIT_MEMORY 0 /* the sanitizer reserves terabytes of address space */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LIMIT_MEMORY 0
#endif
#endif
#ifndef LIMIT_MEMORY
#define LIMIT_MEMORY 1
#endif

struct kv_guard {
  int pipe;
};

/* What the child sends: many ALIVE bytes, then one REPORT byte and a kv_error. */
enum { ALIVE = 'a', REPORT = 'r' };

int kv_guard_seconds(void) {
  const char *text = getenv("KVROOF_GUARD_SECONDS");
  int seconds = text ? atoi(text) : 0;
  return seconds > 0 ? seconds : KV_GUARD_SECONDS;
}

void kv_guard_alive(kv_guard *guard) {
  const char byte = ALIVE;
  ssize_t ignored = write(guard->pipe, &byte, 1);
  (void)ignored;
}

void kv_guard_child_limits(void) {
  const struct rlimit none = {0, 0};
  (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* a child that writes removes its output (kv_clean_on_signals) */
  (void)signal(SIGPIPE, SIG_IGN);
  (void)setrlimit(RLIMIT_CORE, &none);
#if LIMIT_MEMORY
  /* A damaged length must not take the machine's memory with it. */
  const struct rlimit memory = {(rlim_t)8 << 30, (rlim_t)8 << 30};
  (void)setrlimit(RLIMIT_AS, &memory);
#endif
}

kv_status kv_guard_explain(const char *path, int status, kv_error *err) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    return kv_fail(err, KV_ERR_INPUT,
                   "%s: reading it was given up (no progress, or out of memory); the file is damaged", path);
  if (WIFSIGNALED(status))
    return kv_fail(err, KV_ERR_INPUT, "%s: the HDF5 library crashed on it (signal %d); the file is damaged", path,
                   WTERMSIG(status));
  return kv_fail(err, KV_ERR_INPUT, "%s: the reading process ended early (status %d); the file is damaged", path,
                 WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void child_main(int pipe_out, kv_guard_fn fn, void *arg) {
  kv_guard guard = {pipe_out};
  kv_error err = {KV_OK, ""};
  kv_guard_child_limits();
  kv_status st = fn(&guard, arg, &err);
  err.status = st;
  (void)fcntl(pipe_out, F_SETFL, 0); /* the report must not be dropped */
  const char byte = REPORT;
  if (write(pipe_out, &byte, 1) == 1) {
    const char *from = (const char *)&err;
    size_t left = sizeof err;
    while (left) {
      ssize_t n = write(pipe_out, from, left);
      if (n <= 0) break;
      from += n;
      left -= (size_t)n;
    }
  }
  _exit(0);
}

/* Waits for the report. Returns false on end of file or after too long a silence. */
static bool await_report(int fd, kv_error *report) {
  char block[512];
  size_t have = 0;
  bool reporting = false;
  for (;;) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int ready = poll(&p, 1, kv_guard_seconds() * 1000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    ssize_t n = reporting ? read(fd, (char *)report + have, sizeof *report - have) : read(fd, block, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    if (!reporting) {
      reporting = block[0] == REPORT;
    } else {
      have += (size_t)n;
      if (have == sizeof *report) return true;
    }
  }
}

static void remove_part(const char *output, pid_t child) {
  char *part = NULL;
  if (!output || asprintf(&part, "%s.%ld.part", output, (long)child) < 0) return;
  (void)unlink(part);
  free(part);
}

kv_status kv_guard_run(kv_guard_fn fn, void *arg, const char *path, const char *output, kv_error *err) {
  int fd[2], status = 0;
  kv_error report = {KV_OK, ""};
  if (pipe(fd) != 0) return kv_fail(err, KV_ERR_IO, "pipe: %s", strerror(errno));
  (void)fcntl(fd[1], F_SETFL, O_NONBLOCK); /* signs of life are dropped, never waited for */
  fflush(NULL);
  pid_t child = fork();
  if (child < 0) {
    (void)close(fd[0]);
    (void)close(fd[1]);
    return kv_fail(err, KV_ERR_MEMORY, "fork: %s", strerror(errno));
  }
  if (child == 0) {
    (void)close(fd[0]);
    child_main(fd[1], fn, arg);
  }
  (void)close(fd[1]);
  bool reported = await_report(fd[0], &report);
  (void)close(fd[0]);
  if (!reported) (void)kill(child, SIGKILL);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!reported) {
    remove_part(output, child);
    return kv_guard_explain(path, status, err);
  }
  if (report.status && err) *err = report;
  return report.status;
}

void *kv_guard_share(uint64_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void kv_guard_unshare(void *memory, uint64_t bytes) {
  if (memory) (void)munmap(memory, bytes);
}

kv_status kv_guard_is_hdf5(const char *path, kv_error *err) {
  static const unsigned char magic[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  unsigned char head[8];
  struct stat sb;
  kv_status st = KV_OK;
  if (stat(path, &sb) != 0) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  if (!S_ISREG(sb.st_mode)) /* a pipe would block, and HDF5 must seek */
    return kv_fail(err, KV_ERR_IO, "%s: is %s; name a file", path, S_ISDIR(sb.st_mode) ? "a folder" : "no regular file");
  FILE *f = fopen(path, "rb");
  if (!f) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  if (fread(head, 1, sizeof head, f) != sizeof head)
    st = kv_fail(err, KV_ERR_INPUT, "%s: too short for an HDF5 file (%lld bytes)", path, (long long)sb.st_size);
  else if (memcmp(head, magic, sizeof magic) != 0)
    st = kv_fail(err, KV_ERR_INPUT, "%s: not an HDF5 file", path);
  (void)fclose(f);
  return st;
}

bool kv_conventions_match(const char *have, const char *want) {
  size_t n = strlen(want);
  return strncmp(have, want, n) == 0 && (have[n] == '\0' || have[n] == '.');
}

/* ---- kv_guard_check_h5 ---- */

typedef struct check_walk {
  kv_guard *guard;
  const char *path;
  kv_error *err;
  kv_status status;
} check_walk;

static kv_status read_to_end(hid_t dataset, const char *name, check_walk *w) {
  hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
  hssize_t points = H5Sget_simple_extent_npoints(space);
  size_t size = H5Tget_size(type);
  kv_status st = KV_OK;
  void *data = NULL;
  if (points < 0 || size == 0 || H5Tis_variable_str(type) > 0 || (uint64_t)points > (1ull << 31) / size)
    st = kv_fail(w->err, KV_ERR_INPUT, "%s: dataset '%s' is too large or of a kind we never write", w->path, name);
  else if (!(data = malloc((size_t)points * size + 1)))
    st = kv_fail(w->err, KV_ERR_MEMORY, "%s: out of memory", w->path);
  else if (points && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
    st = kv_fail(w->err, KV_ERR_INPUT, "%s: dataset '%s' cannot be read; the file is damaged", w->path, name);
  free(data);
  (void)H5Tclose(type);
  (void)H5Sclose(space);
  return st;
}

static herr_t check_link(hid_t loc, const char *name, const H5L_info_t *info, void *arg) {
  check_walk *w = arg;
  kv_guard_alive(w->guard);
  if (info->type != H5L_TYPE_HARD) {
    w->status = kv_fail(w->err, KV_ERR_INPUT, "%s: '%s' is a soft or external link; copy the data in", w->path, name);
    return -1;
  }
  hid_t object = H5Oopen(loc, name, H5P_DEFAULT);
  if (object < 0) {
    w->status = kv_fail(w->err, KV_ERR_INPUT, "%s: '%s' cannot be opened; the file is damaged", w->path, name);
    return -1;
  }
  if (H5Iget_type(object) == H5I_DATASET) {
    hid_t dcpl = H5Dget_create_plist(object);
    bool outside = H5Pget_external_count(dcpl) != 0 || H5Pget_layout(dcpl) == H5D_VIRTUAL;
    (void)H5Pclose(dcpl);
    w->status = outside ? kv_fail(w->err, KV_ERR_INPUT, "%s: dataset '%s' keeps its data in another file", w->path,
                                  name)
                        : read_to_end(object, name, w);
  }
  (void)H5Oclose(object);
  return w->status ? -1 : 0;
}

typedef struct check_args {
  const char *path, *conventions;
} check_args;

static kv_status check_in_child(kv_guard *guard, void *arg, kv_error *err) {
  const check_args *a = arg;
  char have[64] = "";
  kv_h5_quiet();
  hid_t file = H5Fopen(a->path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) return kv_fail(err, KV_ERR_INPUT, "%s: damaged: HDF5 cannot open it", a->path);
  kv_status st = kv_h5_get_str(file, "Conventions", have, sizeof have, err);
  if (st == KV_END || (!st && !kv_conventions_match(have, a->conventions)))
    return kv_fail(err, KV_ERR_INPUT, "%s: is '%s', not a %s file", a->path, have[0] ? have : "of no known kind",
                   a->conventions);
  if (st) return kv_fail(err, KV_ERR_INPUT, "%s: the attribute Conventions cannot be read", a->path);
  check_walk walk = {guard, a->path, err, KV_OK};
  if (H5Lvisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, check_link, &walk) < 0 && !walk.status)
    walk.status = kv_fail(err, KV_ERR_INPUT, "%s: damaged: its groups cannot be read", a->path);
  return walk.status;
}

kv_status kv_guard_check_h5(const char *path, const char *conventions, kv_error *err) {
  check_args args = {path, conventions};
  kv_status st = kv_guard_is_hdf5(path, err);
  return st ? st : kv_guard_run(check_in_child, &args, path, NULL, err);
}
