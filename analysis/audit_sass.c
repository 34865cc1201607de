/* Machine code through nvdisasm, where it is installed: finer features than the opcode says, and a check on our own
 * count. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit_sass.h"

extern char **environ;

/* One mnemonic with modifiers ("UTMALDG.2D.MULTICAST") -> features. */
static uint64_t features_of(const char *op) {
  static const struct {
    const char *prefix, *part;
    kva_feature feature;
  } rule[] = {{"HGMMA", "", KVA_WGMMA},       {"QGMMA", "", KVA_WGMMA},
              {"IGMMA", "", KVA_WGMMA},       {"BGMMA", "", KVA_WGMMA},
              {"UTC", "", KVA_TCGEN05},       {"LDTM", "", KVA_TCGEN05},
              {"STTM", "", KVA_TCGEN05},      {"UTC", ".2CTA", KVA_CTA_GROUP2},
              {"HMMA", "", KVA_MMA},          {"IMMA", "", KVA_MMA_INT},
              {"DMMA", "", KVA_MMA_F64},      {"BMMA", "", KVA_MMA_SUBBYTE},
              {"QMMA.SF", "", KVA_MMA_SCALED}, {"OMMA", "", KVA_MMA_SCALED},
              {"QMMA.1", "", KVA_MMA_FP8},    {"LDGSTS", "", KVA_CP_ASYNC},
              {"UBLKCP", "", KVA_BULK},       {"UTMALDG", "", KVA_TMA},
              {"UTMASTG", "", KVA_TMA},       {"UTMAREDG", "", KVA_TMA},
              {"UTMALDG", ".MULTICAST", KVA_MULTICAST}, {"UBLKCP", ".MULTICAST", KVA_MULTICAST},
              {"UTMALDG", ".GATHER4", KVA_GATHER4},     {"UCGABAR", "", KVA_CLUSTER},
              {"STAS", "", KVA_ST_ASYNC},     {"USETMAXREG", "", KVA_SETMAXNREG},
              {"ELECT", "", KVA_ELECT},       {"ACQBULK", "", KVA_PDL},
              {"PREEXIT", "", KVA_PDL},       {"UGETNEXTWORKID", "", KVA_CLC},
              {"LDSM", "", KVA_LDMATRIX},     {"LDSM.8.MT1616", "", KVA_LDMATRIX_B8},
              {"STSM", "", KVA_STMATRIX},     {"LDG", ".ENL2.256", KVA_LD256},
              {"FFMA2", "", KVA_F32X2},       {"FADD2", "", KVA_F32X2},
              {"FMUL2", "", KVA_F32X2},       {"CREDUX", ".F32", KVA_REDUX_F32},
              {"LDGMC", "", KVA_MULTIMEM},    {"F2FP", ".E4M3", KVA_CVT_FP8},
              {"F2FP", ".E5M2", KVA_CVT_FP8}, {"F2FP", ".E2M1", KVA_CVT_FP4},
              {"F2FP", ".E2M3", KVA_CVT_FP4}, {"F2FP", ".E3M2", KVA_CVT_FP4}};
  uint64_t set = 0;
  for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
    if (!strncmp(op, rule[i].prefix, strlen(rule[i].prefix)) && strstr(op, rule[i].part)) set |= KVA_BIT(rule[i].feature);
  return set;
}

/* The opcode in a line that starts with its address as a comment: "0090  @!P0 LDG.E R2, ..."; false for others. */
static bool opcode_in(const char *line, char op[64]) {
  const char *s = line;
  while (isspace((unsigned char)*s)) s++;
  if (s[0] != '/' || s[1] != '*' || !isxdigit((unsigned char)s[2])) return false;
  s = strstr(s, "*/");
  if (!s) return false;
  for (s += 2; isspace((unsigned char)*s) || *s == '{';) s++;
  if (*s == '@') {
    while (*s && !isspace((unsigned char)*s)) s++;
    while (isspace((unsigned char)*s)) s++;
  }
  size_t n = 0;
  while (n < 63 && (isalnum((unsigned char)s[n]) || s[n] == '.' || s[n] == '_')) n++;
  memcpy(op, s, n);
  op[n] = '\0';
  return n > 0 && isupper((unsigned char)op[0]);
}

void kva_sass_line(const char *line, kva_sass_state *state, kva_sass_visit visit, void *context) {
  char op[64];
  if (!strncmp(line, ".text.", 6)) { /* ".text._Z5plainPfi:" */
    size_t n = strcspn(line + 6, ":\r\n");
    if (line[6 + n] == ':' && n < sizeof state->kernel) {
      kva_sass_end(state, visit, context);
      memcpy(state->kernel, line + 6, n);
      state->kernel[n] = '\0';
    }
    return;
  }
  if (!state->kernel[0] || !opcode_in(line, op)) return;
  uint64_t set = features_of(op);
  state->features |= set;
  for (unsigned f = 0; f < KVA_FEATURES; f++)
    if (set & KVA_BIT(f)) state->count[f]++;
}

void kva_sass_end(kva_sass_state *state, kva_sass_visit visit, void *context) {
  if (state->kernel[0]) visit(context, state);
  *state = (kva_sass_state){0};
}

/* nvdisasm reads files, not pipes. -1 with errno. */
static int scratch_copy(const unsigned char *data, size_t size, char path[256]) {
  const char *folder = getenv("TMPDIR");
  int n = snprintf(path, 256, "%s/kvroof-sass-XXXXXX", folder && *folder ? folder : "/tmp");
  if (n < 0 || n >= 256) return errno = ENAMETOOLONG, -1;
  int fd = mkostemp(path, O_CLOEXEC);
  while (fd >= 0 && size) {
    ssize_t w = write(fd, data, size);
    if (w <= 0) {
      (void)close(fd);
      (void)unlink(path);
      return -1;
    }
    data += w;
    size -= (size_t)w;
  }
  return fd;
}

/* Starts `nvdisasm -c PATH` with its output on a pipe and no messages. 0, or an errno. */
static int start(const char *path, pid_t *pid, FILE **out) {
  int ends[2];
  char *const argv[] = {"nvdisasm", "-c", (char *)(uintptr_t)path, NULL};
  posix_spawn_file_actions_t actions;
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  (void)posix_spawn_file_actions_init(&actions);
  (void)posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  int failed = posix_spawnp(pid, "nvdisasm", &actions, NULL, argv, environ);
  (void)posix_spawn_file_actions_destroy(&actions);
  (void)close(ends[1]);
  *out = failed ? NULL : fdopen(ends[0], "r");
  if (!*out) (void)close(ends[0]);
  return failed;
}

kv_status kva_sass(const unsigned char *data, size_t size, kva_sass_visit visit, void *context, kv_error *err) {
  char path[256], *line = NULL;
  size_t capacity = 0;
  pid_t pid;
  FILE *out = NULL;
  int fd = scratch_copy(data, size, path), code = 0;
  if (fd < 0) return kv_fail(err, KV_ERR_IO, "a scratch file for nvdisasm: %s", strerror(errno));
  (void)close(fd);
  int failed = start(path, &pid, &out);
  if (failed) {
    (void)unlink(path);
    return kv_fail(err, KV_ERR_IO, "nvdisasm: %s; --sass needs it in PATH", strerror(failed));
  }
  kva_sass_state *state = calloc(1, sizeof *state);
  while (state && out && getline(&line, &capacity, out) > 0) kva_sass_line(line, state, visit, context);
  if (state) kva_sass_end(state, visit, context);
  free(state);
  free(line);
  if (out) (void)fclose(out);
  (void)waitpid(pid, &code, 0);
  (void)unlink(path);
  return code == 0 ? KV_OK : kv_fail(err, KV_ERR_INPUT, "nvdisasm does not accept this machine code");
}
