#include "kv_clean.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WATCHED 8
static char watched[WATCHED][PATH_MAX]; /* "" free */
static volatile pid_t working;

void kv_clean_watch(const char *path) {
  for (int i = 0; i < WATCHED; i++)
    if (!watched[i][0]) {
      (void)snprintf(watched[i], sizeof watched[i], "%s", path);
      return;
    }
}

void kv_clean_forget(const char *path) {
  for (int i = 0; i < WATCHED && path; i++)
    if (!strcmp(watched[i], path)) watched[i][0] = '\0';
}

void kv_clean_child(pid_t child) {
  working = child;
}

/* The kernel's own record: opendir() allocates, which a signal handler must not. */
typedef struct entry {
  uint64_t number;
  int64_t offset;
  unsigned short length;
  unsigned char type;
  char name[];
} entry;

static void empty_folder(int folder) {
  _Alignas(entry) char block[4096];
  for (long n; (n = syscall(SYS_getdents64, folder, block, sizeof block)) > 0;)
    for (long at = 0; at < n;) {
      const entry *e = (const entry *)(const void *)(block + at);
      if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0) (void)unlinkat(folder, e->name, 0);
      at += e->length;
    }
}

static void remove_path(const char *path) {
  if (unlink(path) == 0) return;
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  empty_folder(folder);
  (void)close(folder);
  (void)rmdir(path);
}

static void on_signal(int number) {
  if (working > 0) { /* first: it would go on writing into the folder */
    (void)kill(working, SIGKILL);
    (void)waitpid(working, NULL, 0);
  }
  for (int i = 0; i < WATCHED; i++)
    if (watched[i][0]) remove_path(watched[i]);
  (void)signal(number, SIG_DFL);
  (void)raise(number);
}

void kv_clean_on_signals(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (signal(numbers[i], on_signal) == SIG_IGN) (void)signal(numbers[i], SIG_IGN); /* nohup stays nohup */
  (void)signal(SIGXFSZ, SIG_IGN); /* a file size limit shows as a failed write */
  (void)signal(SIGPIPE, SIG_IGN); /* so does a reader of stdout that went away, and no dataset is lost for it */
}
