#include "gpu.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {"measured",    "probe",   "spec",   "inference",
                                         "from_memory", "assumed", "unknown"};
enum { KINDS = sizeof kind_names / sizeof *kind_names, MAX_LINES = 5000, MAX_VALUES = 200, MAX_ALIASES = 40 };

const char *kvm_kind_name(kvm_kind kind) {
  return (unsigned)kind < KINDS ? kind_names[kind] : "unknown";
}

const char *kvm_kind_words(kvm_kind kind, const char *source) {
  return kind == KVM_MEASURED && strncmp(source, "own ", 4) != 0 ? "measured by others" : kvm_kind_name(kind);
}

static const struct {
  const char *unit;
  double factor; /* to base units */
} units[] = {{"1", 1},        {"B", 1},           {"bit", 1},      {"GB/s", 1e9}, {"Gbit/s/pin", 1e9},
             {"MHz", 1e6},    {"ns", 1e-9},       {"cycles", 1},   {"W", 1},      {"TFLOP/s", 1e12},
             {"TOP/s", 1e12}, {"FLOP/clk/SM", 1}, {"B/clk/SM", 1}, {"FLOP/B", 1}, {"target", 1}};

/* 0 for a unit that is not in the table. */
static double unit_factor(const char *unit) {
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (!strcmp(unit, units[i].unit)) return units[i].factor;
  return 0;
}

/* ---- one file ---- */

typedef struct load {
  const char *path, *header; /* the section that names what is described: gpu, memory */
  FILE *file;
  kvm_gpu *gpu;
  kv_error *err;
  kv_status status;
  int line;
  char section[KVM_NAME];
  char key[16];                                 /* of the entry before, for continuation lines */
  char low[KVM_TEXT], high[KVM_TEXT], kind[24]; /* of the value being read */
  bool open;                                    /* a value is being read */
} load;

static int bad(load *l, const char *what, const char *which) {
  if (!l->status)
    l->status = kv_fail(l->err, KV_ERR_INPUT, "%s: line %d: %s%s%s", l->path, l->line, what, which ? " " : "",
                        which ? which : "");
  return 0;
}

/* inih hands a line that is longer than its buffer on in pieces, each taken for a line of its own; so it is
 * stopped here. The same goes for a NUL byte, which would hide the rest of a line. */
static char *next_line(char *text, int size, void *stream) {
  load *l = stream;
  if (l->status || !fgets(text, size, l->file)) return NULL;
  l->line++;
  size_t n = strlen(text);
  if ((n == 0 || text[n - 1] != '\n') && !feof(l->file)) {
    (void)bad(l, "is too long (more than 198 characters) or holds a NUL byte; go on in an indented line",
              NULL);
    return NULL;
  }
  if (l->line > MAX_LINES) {
    (void)bad(l, "a description of more than 5000 lines is none", NULL);
    return NULL;
  }
  return text;
}

static bool set(char *to, size_t size, const char *from) {
  return (size_t)snprintf(to, size, "%s", from) < size;
}

static bool word(const char *s) {
  for (; *s; s++)
    if (!isalnum((unsigned char)*s) && *s != '_') return false;
  return true;
}

static bool parse_number(const char *text, double factor, double *number) {
  char *end = NULL;
  errno = 0;
  double v = strtod(text, &end);
  /* only plain decimals: no "nan", "inf", hexadecimals or signs */
  if (end == text || *end || errno || !isfinite(v) || v < 0 || !isdigit((unsigned char)text[0]) ||
      strpbrk(text, "xX"))
    return false;
  *number = v * factor;
  return isfinite(*number);
}

/* What no card can have, a thousandfold beyond those there are: a slip of the pen, which would go on as a time. 0 is left to whom it
 * concerns; SMs come in whole ones. */
static int check_plausible(load *l, const kvm_value *v, double value) {
  static const struct {
    const char *unit;
    double least, most;
  } range[] = {{"GB/s", 1e-3, 1e8}, {"TFLOP/s", 1e-6, 1e8}, {"TOP/s", 1e-6, 1e8}, {"MHz", 1, 1e6}, {"W", 1e-3, 1e7}, {"ns", 1e-3, 1e6},
               {"cycles", 1e-3, 1e6}, {"B", 1e-3, 1e17}, {"1", 1e-12, 1e12}, {"B/clk/SM", 1e-3, 1e6}, {"FLOP/clk/SM", 1e-3, 1e8}};
  if (!strcmp(v->name, "sm_count") && v->text[0] && !(v->numeric && value >= 1 && value <= 10000 && value == floor(value)))
    return bad(l, "is no whole number of 1 to 10000:", v->name);
  for (size_t i = 0; v->numeric && value > 0 && i < sizeof range / sizeof *range; i++)
    if (!strcmp(v->unit, range[i].unit) && (value < range[i].least || value > range[i].most))
      return bad(l, "no card has such a value (unit or digits?):", v->name);
  return 1;
}

static int check_range(load *l, kvm_value *v, double factor) {
  v->ranged = l->low[0] || l->high[0];
  v->low = v->high = v->number;
  if (v->kind == KVM_ASSUMED && !v->ranged) return bad(l, "an assumed value needs low and high:", v->name);
  if (!v->ranged) return 1;
  if (!v->numeric || !parse_number(l->low, factor, &v->low) || !parse_number(l->high, factor, &v->high) ||
      v->low > v->number || v->number > v->high)
    return bad(l, "needs numbers low <= value <= high:", v->name);
  return 1;
}

/* Checks the value that just ended. */
static int end_value(load *l) {
  if (!l->open) return 1;
  l->open = false;
  kvm_value *v = &l->gpu->value[l->gpu->values - 1];
  int kind = 0;
  while (kind < KINDS && strcmp(kind_names[kind], l->kind) != 0) kind++;
  if (kind == KINDS)
    return bad(l, l->kind[0] ? "unknown kind before this line, in" : "no kind before this line, in", v->name);
  v->kind = (kvm_kind)kind;
  double factor = unit_factor(v->unit);
  if (factor == 0)
    return bad(l, v->unit[0] ? "unknown unit before this line, in" : "no unit before this line, in", v->name);
  if (!v->source[0]) return bad(l, "no source before this line, in", v->name);
  if ((v->kind == KVM_UNKNOWN) != (v->text[0] == '\0'))
    return bad(l, "kind unknown and a value exclude each other, in", v->name);
  v->numeric = parse_number(v->text, factor, &v->number);
  if (!v->numeric) v->number = NAN;
  if (!v->numeric && strcmp(v->unit, "1") != 0 && strcmp(v->unit, "target") != 0 && v->text[0])
    return bad(l, "is not a number of 0 or more:", v->name);
  if (!check_plausible(l, v, v->number / factor)) return 0;
  return check_range(l, v, factor);
}

static int begin_section(load *l, const char *section) {
  if (!end_value(l)) return 0;
  if (!section[0] || !set(l->section, sizeof l->section, section) || !word(section) || strlen(section) > 46)
    return bad(l, "a section is a name of at most 46 letters, digits and _, not", section);
  l->key[0] = '\0';
  if (!strcmp(section, l->header)) return 1;
  kvm_gpu *g = l->gpu;
  if (kvm_gpu_value(g, section)) return bad(l, "given twice:", section);
  if (g->values == MAX_VALUES) return bad(l, "more than 200 values", NULL);
  kvm_value *grown = realloc(g->value, (g->values + 1) * sizeof *grown);
  if (!grown) {
    l->status = kv_fail(l->err, KV_ERR_MEMORY, "%s: out of memory", l->path);
    return 0;
  }
  g->value = grown;
  grown[g->values] = (kvm_value){.kind = KVM_UNKNOWN, .number = NAN, .low = NAN, .high = NAN};
  (void)set(grown[g->values++].name, KVM_NAME, section);
  l->low[0] = l->high[0] = l->kind[0] = '\0';
  l->open = true;
  return 1;
}

static int add_alias(load *l, const char *text) {
  kvm_gpu *g = l->gpu;
  if (g->aliases == MAX_ALIASES) return bad(l, "more than 40 aliases", NULL);
  char(*grown)[KVM_TEXT] = realloc(g->alias, (g->aliases + 1) * sizeof *grown);
  if (!grown) {
    l->status = kv_fail(l->err, KV_ERR_MEMORY, "%s: out of memory", l->path);
    return 0;
  }
  g->alias = grown;
  return set(grown[g->aliases++], KVM_TEXT, text) ? 1 : bad(l, "too long an alias:", text);
}

static int gpu_entry(load *l, const char *key, const char *text) {
  kvm_gpu *g = l->gpu;
  if (!strcmp(key, "alias")) return add_alias(l, text);
  if (!strcmp(key, "name")) return set(g->name, sizeof g->name, text) ? 1 : bad(l, "too long:", key);
  if (!strcmp(key, "arch")) return set(g->arch, sizeof g->arch, text) ? 1 : bad(l, "too long:", key);
  if (strcmp(key, "arch_default") != 0) return bad(l, "unknown key (name, arch, arch_default, alias):", key);
  g->arch_default = !strcmp(text, "yes");
  return g->arch_default || !strcmp(text, "no") ? 1 : bad(l, "is yes or no:", key);
}

/* A source may go on over several lines; everything else is one line. */
static int value_entry(load *l, const char *key, const char *text) {
  kvm_value *v = &l->gpu->value[l->gpu->values - 1];
  const struct {
    const char *key;
    char *to;
    size_t size;
  } field[] = {{"value", v->text, sizeof v->text}, {"unit", v->unit, sizeof v->unit},
               {"kind", l->kind, sizeof l->kind},  {"low", l->low, sizeof l->low},
               {"high", l->high, sizeof l->high},  {"source", v->source, sizeof v->source}};
  for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
    if (strcmp(key, field[i].key) != 0) continue;
    bool again = field[i].to[0] != '\0';
    if (again && (strcmp(key, "source") != 0 || strcmp(l->key, "source") != 0))
      return bad(l, "given twice:", key);
    size_t have = strlen(field[i].to);
    if (again && have + 1 < field[i].size) field[i].to[have++] = ' ';
    return set(field[i].to + have, field[i].size - have, text) ? 1 : bad(l, "too long:", key);
  }
  return bad(l, "unknown key (value, unit, low, high, kind, source):", key);
}

static int entry(void *arg, const char *section, const char *key, const char *text) {
  load *l = arg;
  if (l->status) return 0;
  if (!section[0]) return bad(l, "stands before any [section]:", key);
  if (strcmp(section, l->section) != 0 && !begin_section(l, section)) return 0;
  if (!text[0]) return bad(l, "an empty entry; leave the line out when a value is not known:", key);
  int ok = l->open ? value_entry(l, key, text) : gpu_entry(l, key, text);
  (void)set(l->key, sizeof l->key, key);
  return ok;
}

static kv_status set_key(load *l) {
  const char *base = strrchr(l->path, '/');
  base = base ? base + 1 : l->path;
  size_t n = strlen(base);
  if (n > 4 && !strcmp(base + n - 4, ".ini")) n -= 4;
  if (n == 0 || n >= KVM_NAME)
    return kv_fail(l->err, KV_ERR_INPUT, "%s: the file's name is the key: 1 to 47 characters before .ini",
                   l->path);
  memcpy(l->gpu->key, base, n);
  return KV_OK;
}

static kv_status check_whole(load *l, int parsed) {
  /* inih goes on after a line that it cannot parse: of two errors the first is told */
  if (l->status && !(parsed > 0 && parsed < l->line)) return l->status;
  l->status = KV_OK;
  if (ferror(l->file)) return kv_fail(l->err, KV_ERR_IO, "%s: cannot be read: %s", l->path, strerror(errno));
  if (parsed > 0) {
    l->line = parsed;
    (void)bad(l, "is neither [section] nor key = value", NULL);
  } else if (!l->gpu->name[0] || (!l->gpu->arch[0] && !strcmp(l->header, "gpu"))) {
    l->status =
        kv_fail(l->err, KV_ERR_INPUT,
                "%s: the section [gpu] with name and arch is missing; is it a GPU description?", l->path);
    if (strcmp(l->header, "gpu") != 0)
      l->status =
          kv_fail(l->err, KV_ERR_INPUT, "%s: the section [%s] with name is missing", l->path, l->header);
  } else if (parsed < 0) {
    l->status = kv_fail(l->err, KV_ERR_MEMORY, "%s: out of memory", l->path);
  } else {
    (void)end_value(l);
  }
  return l->status;
}

static kv_status load_values(const char *path, const char *header, kvm_gpu *gpu, kv_error *err) {
  load l = {.path = path, .header = header, .gpu = gpu, .err = err};
  memset(gpu, 0, sizeof *gpu);
  l.file = fopen(path, "r");
  if (!l.file) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  kv_status st = set_key(&l);
  if (!st) st = check_whole(&l, ini_parse_stream(next_line, &l, entry, &l));
  (void)fclose(l.file);
  if (st) kvm_gpu_free(gpu);
  return st;
}

kv_status kvm_gpu_load(const char *path, kvm_gpu *gpu, kv_error *err) {
  return load_values(path, "gpu", gpu, err);
}

/* The value to be overridden by one of that name: none, or one without a value. */
static kvm_value *place_for(kvm_gpu *gpu, const char *name) {
  for (size_t i = 0; i < gpu->values; i++)
    if (!strcmp(gpu->value[i].name, name)) return gpu->value[i].kind == KVM_UNKNOWN ? &gpu->value[i] : NULL;
  return &gpu->value[gpu->values++];
}

kv_status kvm_gpu_complete(kvm_gpu *gpu, const char *path, const char *header, kv_error *err) {
  kvm_gpu more;
  kv_status st = load_values(path, header, &more, err);
  if (st) return st;
  kvm_value *grown = realloc(gpu->value, (gpu->values + more.values + 1) * sizeof *grown);
  if (!grown) st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  else gpu->value = grown;
  for (size_t i = 0; !st && i < more.values; i++) {
    kvm_value *to = place_for(gpu, more.value[i].name);
    if (to) *to = more.value[i];
  }
  kvm_gpu_free(&more);
  return st;
}

void kvm_gpu_free(kvm_gpu *gpu) {
  free(gpu->value);
  free(gpu->alias);
  memset(gpu, 0, sizeof *gpu);
}

const kvm_value *kvm_gpu_value(const kvm_gpu *gpu, const char *name) {
  for (size_t i = 0; i < gpu->values; i++)
    if (!strcmp(gpu->value[i].name, name)) return &gpu->value[i];
  return NULL;
}

double kvm_gpu_number(const kvm_gpu *gpu, const char *name) {
  const kvm_value *v = kvm_gpu_value(gpu, name);
  return v && v->numeric ? v->number : NAN;
}

int kvm_gpu_sm(const kvm_gpu *gpu) {
  int sm = 0, used = 0;
  return sscanf(gpu->arch, "sm_%3d%n", &sm, &used) == 1 && sm > 0 && !gpu->arch[used] ? sm : 0;
}

/* ---- the folder ---- */

static int ini_name(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return n > 4 && e->d_name[0] != '.' && !strcmp(e->d_name + n - 4, ".ini");
}

kv_status kvm_gpus_load(const char *folder, kvm_gpus *gpus, kv_error *err) {
  struct dirent **names = NULL;
  kv_status st = KV_OK;
  memset(gpus, 0, sizeof *gpus);
  int n = scandir(folder, &names, ini_name, alphasort);
  if (n < 0) return kv_fail(err, KV_ERR_IO, "%s: cannot be read: %s", folder, strerror(errno));
  gpus->gpu = calloc(n ? (size_t)n : 1, sizeof *gpus->gpu);
  if (!gpus->gpu) st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", folder);
  for (int i = 0; i < n; i++) {
    char *path = NULL;
    if (!st && asprintf(&path, "%s/%s", folder, names[i]->d_name) < 0)
      st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", folder);
    if (!st) st = kvm_gpu_load(path, &gpus->gpu[i], err);
    if (!st) gpus->n++;
    if (path) free(path);
    free(names[i]);
  }
  free(names);
  if (st) kvm_gpus_free(gpus);
  return st;
}

void kvm_gpus_free(kvm_gpus *gpus) {
  for (size_t i = 0; i < gpus->n; i++) kvm_gpu_free(&gpus->gpu[i]);
  free(gpus->gpu);
  memset(gpus, 0, sizeof *gpus);
}

/* ---- names ---- */

/* Lower case letters and digits only, without the words that every product name has. */
static void plain_name(const char *name, char plain[KVM_TEXT]) {
  size_t n = 0;
  for (const char *c = name; *c && n + 1 < KVM_TEXT; c++)
    if (isalnum((unsigned char)*c)) plain[n++] = (char)tolower((unsigned char)*c);
  plain[n] = '\0';
  static const char *const noise[] = {"nvidia", "geforce"};
  for (size_t i = 0; i < sizeof noise / sizeof *noise; i++) {
    size_t w = strlen(noise[i]);
    char *at = strstr(plain, noise[i]);
    if (at && plain[w]) memmove(at, at + w, strlen(at + w) + 1); /* a name of nothing else is left alone */
  }
}

static const char *name_of(const kvm_gpu *g, size_t i) {
  return i == 0 ? g->key : i == 1 ? g->name : i - 2 < g->aliases ? g->alias[i - 2] : NULL;
}

static bool is_called(const kvm_gpu *g, const char *plain) {
  char other[KVM_TEXT];
  const char *name;
  for (size_t i = 0; (name = name_of(g, i)); i++) {
    plain_name(name, other);
    if (!strcmp(plain, other)) return true;
  }
  return false;
}

/* Levenshtein distance of two plain names, which KVM_TEXT bounds. */
static unsigned distance(const char *a, const char *b) {
  unsigned row[KVM_TEXT + 1];
  size_t n = strlen(b);
  for (size_t j = 0; j <= n; j++) row[j] = (unsigned)j;
  for (size_t i = 1; a[i - 1]; i++) {
    unsigned before = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= n; j++) {
      unsigned change = before + (a[i - 1] != b[j - 1]),
               gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      before = row[j];
      row[j] = change < gap ? change : gap;
    }
  }
  return row[n];
}

/* Smaller is nearer; a name that contains the other counts as near. */
static unsigned nearness(const kvm_gpu *g, const char *plain) {
  unsigned best = 1000;
  char other[KVM_TEXT];
  const char *name;
  for (size_t i = 0; (name = name_of(g, i)); i++) {
    plain_name(name, other);
    bool within = strlen(plain) >= 3 && (strstr(other, plain) || strstr(plain, other));
    unsigned d = within ? 1 : distance(plain, other);
    if (d < best) best = d;
  }
  return best;
}

static kv_status suggest(const kvm_gpus *gpus, const char *name, const char *plain, kv_error *err) {
  char list[300] = "";
  for (unsigned d = 0; d <= 1 + strlen(plain) / 3; d++)
    for (size_t i = 0; i < gpus->n; i++)
      if (nearness(&gpus->gpu[i], plain) == d && strlen(list) + KVM_NAME + 3 < sizeof list)
        (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", list[0] ? ", " : "",
                       gpus->gpu[i].key);
  if (list[0])
    return kv_fail(err, KV_ERR_USAGE,
                   "--gpu: unknown GPU '%.60s'; did you mean %s? (`roofline list` shows all)", name, list);
  return kv_fail(err, KV_ERR_USAGE, "--gpu: unknown GPU '%.60s'; `roofline list` shows those described",
                 name);
}

int kvm_arch_number(const char *name) {
  int major = 0, minor = 0, sm = 0, used = 0;
  if (sscanf(name, "%2d.%1d%n", &major, &minor, &used) == 2 && !name[used] && major > 0 && minor >= 0)
    return 10 * major + minor;
  if (sscanf(name, "%*[a-zA-Z]_%3d%n", &sm, &used) != 1 || sm <= 0) return 0;
  if (strncasecmp(name, "sm_", 3) != 0 && strncasecmp(name, "compute_", 8) != 0) return 0;
  const char *rest = name + used;
  return !rest[0] || (strchr("af", rest[0]) && !rest[1]) ? sm : 0;
}

static const kvm_gpu *default_of(const kvm_gpus *gpus, int sm) {
  const kvm_gpu *any = NULL;
  for (size_t i = 0; i < gpus->n; i++) {
    const kvm_gpu *g = &gpus->gpu[i];
    if (kvm_gpu_sm(g) != sm) continue;
    if (g->arch_default) return g;
    if (!any) any = g;
  }
  return any;
}

kv_status kvm_gpus_find(const kvm_gpus *gpus, const char *name, const kvm_gpu **gpu, kv_error *err) {
  char plain[KVM_TEXT], list[300] = "";
  size_t found = 0;
  int sm = kvm_arch_number(name);
  *gpu = NULL;
  if (sm && (*gpu = default_of(gpus, sm))) return KV_OK;
  if (sm)
    return kv_fail(err, KV_ERR_USAGE,
                   "--gpu: no GPU of architecture sm_%d is described; `roofline list` shows those that are",
                   sm);
  plain_name(name, plain);
  if (!plain[0])
    return kv_fail(err, KV_ERR_USAGE, "--gpu: an empty name; `roofline list` shows the GPUs described");
  for (size_t i = 0; i < gpus->n; i++) {
    if (!is_called(&gpus->gpu[i], plain)) continue;
    *gpu = &gpus->gpu[i];
    if (strlen(list) + KVM_NAME + 3 < sizeof list)
      (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", found ? ", " : "",
                     gpus->gpu[i].key);
    found++;
  }
  if (found == 1) return KV_OK;
  *gpu = NULL;
  if (found > 1)
    return kv_fail(err, KV_ERR_USAGE, "--gpu: '%.60s' fits several: %s; name one of them", name, list);
  return suggest(gpus, name, plain, err);
}
