#include "time_kernel.h"

#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one file ---- */

/* Texts are collected while the file is read and parsed at its end, so that keys may stand in any order. */
typedef struct reader {
  const char *path;
  kvm_declared *to;
  kv_error *err;
  kv_status status;
  char section[KVM_NAME], key[KVM_NAME];
  char *text[KVM_MAX_ROLES + KVM_MAX_MERGES * KVM_MAX_ROLES]
            [3]; /* begin, tile, end; merges' behind the roles' */
  unsigned count[KVM_MAX_ROLES + KVM_MAX_MERGES * KVM_MAX_ROLES], fewer[KVM_MAX_ROLES + KVM_MAX_MERGES * KVM_MAX_ROLES];
  char seen[KVM_MAX_ROLES + KVM_MAX_MERGES * KVM_MAX_ROLES][KVM_NAME]; /* sections of programs so far */
  size_t sections;
  bool lenient;                /* `unset_marks = no wait` */
  char (*fields)[2][KVM_NAME]; /* of [structure]: applied after `like` */
  size_t n_fields;
} reader;
enum { MAX_FIELDS = 32, MAX_PROGRAM = 1 << 20 };

static int fail(reader *r, const char *what, const char *which) {
  if (!r->status)
    r->status =
        kv_fail(r->err, KV_ERR_INPUT, "%s: [%.40s] %.40s: %s%.60s", r->path, r->section, r->key, what, which);
  return 0;
}

static int append_text(reader *r, char **to, const char *text) {
  size_t have = *to ? strlen(*to) : 0, more = strlen(text);
  if (have + more + 2 > MAX_PROGRAM) return fail(r, "too long", "");
  char *grown = realloc(*to, have + more + 2);
  if (!grown) {
    r->status = kv_fail(r->err, KV_ERR_MEMORY, "%s: out of memory", r->path);
    return 0;
  }
  if (have) grown[have++] = ' ';
  memcpy(grown + have, text, more + 1);
  *to = grown;
  return 1;
}

static int kernel_entry(reader *r, const char *key, const char *text) {
  kvm_declared *k = r->to;
  const struct {
    const char *key;
    char *to;
    size_t size;
  } field[] = {{"name", k->name, sizeof k->name},
               {"like", k->like, sizeof k->like},
               {"arch", k->arch, sizeof k->arch},
               {"description", k->description, sizeof k->description},
               {"source", k->source, sizeof k->source}};
  for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
    if (strcmp(key, field[i].key) != 0) continue;
    size_t have = strlen(field[i].to);
    if (have + strlen(text) + 2 > field[i].size) return fail(r, "too long", "");
    (void)snprintf(field[i].to + have, field[i].size - have, "%s%s", have ? " " : "", text);
    return 1;
  }
  if (!strcmp(key, "unset_marks")) {
    r->lenient = !strcmp(text, "no wait");
    return r->lenient ? 1 : fail(r, "`no wait`, or not there at all; not ", text);
  }
  if (strcmp(key, "launches") != 0)
    return fail(r, "unknown key (name, like, arch, description, source, launches, unset_marks)", "");
  k->launches = (unsigned)strtoul(text, NULL, 10);
  return k->launches >= 1 && k->launches <= 65536 ? 1 : fail(r, "1 to 65536, not ", text);
}

/* What a [merge ...] section has beside programs; -1: something else. */
static int merge_entry(reader *r, const char *key, const char *text) {
  kvm_merge *m = &r->to->merge[r->to->merges - 1];
  const struct {
    const char *key;
    unsigned *to;
  } field[] = {{"teams", &m->teams},
               {"at_once", &m->at_once},
               {"room", &m->room},
               {"registers", &m->registers},
               {"shared_bytes", &m->shared_bytes}};
  for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
    if (strcmp(key, field[i].key) != 0) continue;
    *field[i].to = (unsigned)strtoul(text, NULL, 10);
    return *field[i].to <= 1u << 20 ? 1 : fail(r, "too large: ", text);
  }
  return -1;
}

/* Digits and nothing else; UINT_MAX for any other text. */
static unsigned whole_number(const char *text) {
  if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 9) return UINT_MAX;
  return (unsigned)strtoul(text, NULL, 10);
}

static int warps_entry(reader *r, const char *key, const char *text) {
  static const char *const part[] = {"begin", "tile", "end"};
  bool merging = !strncmp(r->section, "merge", 5);
  int taken = merging ? merge_entry(r, key, text) : -1;
  if (taken >= 0) return taken;
  unsigned role = merging ? KVM_MAX_ROLES * r->to->merges + r->to->merge[r->to->merges - 1].block.roles - 1
                          : r->to->block.roles - 1;
  for (int i = 0; i < 3; i++)
    if (!strcmp(key, part[i])) return append_text(r, &r->text[role][i], text);
  if (!strcmp(key, "fewer")) {
    r->fewer[role] = whole_number(text);
    return r->fewer[role] >= 1 && r->fewer[role] <= KVM_MAX_FEWER ? 1 : fail(r, "1 to 4 whole tiles, not ", text);
  }
  if (strcmp(key, "count") != 0) return fail(r, "unknown key (count, fewer, begin, tile, end)", "");
  if (r->count[role]) return fail(r, "given twice; is the section there twice?", "");
  r->count[role] = whole_number(text);
  return r->count[role] >= 1 && r->count[role] <= 32 ? 1 : fail(r, "1 to 32 warps, not ", text);
}

/* A kind of warps has one section: a second one of its name would be taken for more warps. */
static int first_of_its_name(reader *r) {
  for (size_t i = 0; i < r->sections; i++)
    if (!strcmp(r->seen[i], r->section)) return fail(r, "the section is there twice", "");
  if (r->sections < sizeof r->seen / sizeof *r->seen) memcpy(r->seen[r->sections++], r->section, sizeof *r->seen);
  return 1;
}

static int new_section(reader *r, const char *section) {
  (void)snprintf(r->section, sizeof r->section, "%.47s", section);
  r->key[0] = '\0';
  if ((!strncmp(section, "merge", 5) || !strncmp(section, "warps", 5)) && !first_of_its_name(r)) return 0;
  if (!strncmp(section, "merge", 5)) {
    /* [merge NAME] and [merge NAME OTHER]: kinds of warps of the same launch */
    bool more = r->to->merges && strrchr(section, ' ') != strchr(section, ' ');
    if (!more && r->to->merges == KVM_MAX_MERGES) return fail(r, "more than 5 merges", "");
    if (!more) r->to->merge[r->to->merges++] = (kvm_merge){.teams = 1, .at_once = 1};
    kvm_block *b = &r->to->merge[r->to->merges - 1].block;
    if (b->roles == KVM_MAX_ROLES) return fail(r, "more than 4 kinds of warps", "");
    b->roles++;
    return 1;
  }
  if (strncmp(section, "warps", 5) != 0) return 1;
  if (r->to->block.roles == KVM_MAX_ROLES) return fail(r, "more than 4 kinds of warps", "");
  r->to->block.roles++;
  return 1;
}

static int entry(void *arg, const char *section, const char *key, const char *text) {
  reader *r = arg;
  if (r->status) return 0;
  if (strcmp(section, r->section) != 0 && !new_section(r, section)) return 0;
  (void)snprintf(r->key, sizeof r->key, "%.47s", key);
  /* a program may begin on the next line */
  bool program = !strncmp(section, "warps", 5) || !strncmp(section, "merge", 5);
  if (!text[0] && !program) return fail(r, "empty", "");
  if (!strcmp(section, "kernel")) return kernel_entry(r, key, text);
  if (program) return warps_entry(r, key, text);
  if (strcmp(section, "structure") != 0)
    return fail(r, "unknown section (kernel, structure, warps NAME, merge NAME)", "");
  if (r->n_fields == MAX_FIELDS) return fail(r, "too many fields", "");
  (void)snprintf(r->fields[r->n_fields][0], KVM_NAME, "%s", r->key);
  (void)snprintf(r->fields[r->n_fields++][1], KVM_NAME, "%.47s", text);
  return 1;
}

/* ---- the structure ---- */

#define WHOLE(f) \
  { #f, offsetof(kvm_structure, f) }
static const struct {
  const char *name;
  size_t offset;
} whole_fields[] = {WHOLE(block_rows),     WHOLE(pad_rows),       WHOLE(tile_tokens),  WHOLE(stages),
                    WHOLE(threads),        WHOLE(registers),      WHOLE(shared_bytes), WHOLE(k_reads),
                    WHOLE(v_reads),        WHOLE(q_reads),        WHOLE(score_bytes),  WHOLE(index_bytes),
                    WHOLE(block_elements), WHOLE(row_bytes),      WHOLE(min_tiles),    WHOLE(missing_units),
                    WHOLE(units),          WHOLE(launched_per_sm), WHOLE(word_loads)};
#define TRUTH(f) \
  { #f, offsetof(kvm_structure, f) }
static const struct {
  const char *name;
  size_t offset;
} truth_fields[] = {TRUTH(split), TRUTH(even), TRUTH(kv_apart), TRUTH(v_in_l1), TRUTH(through_registers),
                TRUTH(tree_apart)};
static const char *const grids[] = {"per_head", "packed", "elements"};

static int set_field(reader *r, const char *name, const char *text) {
  char *s = (char *)&r->to->structure, *end;
  (void)snprintf(r->section, sizeof r->section, "structure");
  (void)snprintf(r->key, sizeof r->key, "%s", name);
  unsigned long v = strtoul(text, &end, 10);
  for (size_t i = 0; i < sizeof whole_fields / sizeof *whole_fields; i++) {
    if (strcmp(name, whole_fields[i].name) != 0) continue;
    if (*end || end == text || v > 1u << 24) return fail(r, "no number up to 2^24: ", text);
    *(uint32_t *)(void *)(s + whole_fields[i].offset) = (uint32_t)v;
    return 1;
  }
  for (size_t i = 0; i < sizeof truth_fields / sizeof *truth_fields; i++) {
    if (strcmp(name, truth_fields[i].name) != 0) continue;
    if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0) return fail(r, "yes or no, not ", text);
    *(bool *)(s + truth_fields[i].offset) = text[0] == 'y';
    return 1;
  }
  for (int g = 0; !strcmp(name, "grid") && g < 3; g++)
    if (!strcmp(text, grids[g])) {
      r->to->structure.grid = (kvm_grid)g;
      return 1;
    }
  return fail(r, "no such field of a structure, or no such value: ", text);
}

static int like_sm(const char *arch) {
  return kvm_arch_number(arch);
}

static int start_structure(reader *r) {
  kvm_declared *k = r->to;
  (void)snprintf(r->section, sizeof r->section, "kernel");
  (void)snprintf(r->key, sizeof r->key, "like");
  k->structure = (kvm_structure){.pad_rows = 16, .stages = 1, .index_bytes = 4};
  for (unsigned i = 0; k->like[0] && i < KVM_KERNELS; i++) {
    kvm_structure s = kvm_kernel(i, like_sm(k->arch));
    if (!strcmp(s.name, k->like)) k->structure = s;
  }
  if (k->like[0] && !k->structure.name) return fail(r, "no such kernel: ", k->like);
  for (size_t i = 0; i < r->n_fields; i++)
    if (!set_field(r, r->fields[i][0], r->fields[i][1])) return 0;
  k->structure.name = k->name;
  k->structure.description = k->description;
  return 1;
}

static int check_structure(reader *r) {
  const kvm_structure *s = &r->to->structure;
  (void)snprintf(r->section, sizeof r->section, "structure");
  r->key[0] = '\0';
  if (!s->threads || s->threads > 1024) return fail(r, "threads: 1 to 1024", "");
  if (s->grid == KVM_GRID_ELEMENTS) return s->block_elements ? 1 : fail(r, "block_elements is missing", "");
  if (!s->tile_tokens || !s->pad_rows) return fail(r, "tile_tokens and pad_rows must be above 0", "");
  if (s->grid == KVM_GRID_PACKED && !s->block_rows) return fail(r, "block_rows is missing", "");
  unsigned warps = kvm_block_warps(&r->to->block);
  if (warps && warps * 32 != s->threads)
    return fail(r, "threads is not 32 times the warps of [warps ...]", "");
  return 1;
}

/* A program that fetches fewer new rows than its tile has would have a time below what the rows need. */
static kv_status check_rows(const reader *r) {
  const kvm_structure *s = &r->to->structure;
  const double wanted = (double)s->tile_tokens * kvm_declared_row_bytes(r->to);
  double loaded = 0;
  for (unsigned i = 0; i < r->to->block.roles; i++)
    loaded += r->to->block.role[i].warps * kvm_program_count(&r->to->block.role[i].tile).row_bytes;
  if (!r->to->block.roles || s->grid == KVM_GRID_ELEMENTS || loaded >= wanted) return KV_OK;
  return kv_fail(r->err, KV_ERR_INPUT,
                 "%s: [warps ...] tile: all warps together load %.0f B of new rows (`.row`) a tile, and a tile of "
                 "%u rows of %u B has %.0f: load each row once, or say tile_tokens or row_bytes in [structure]",
                 r->path, loaded, s->tile_tokens, kvm_declared_row_bytes(r->to), wanted);
}

/* Whether a word of a program, "alu*8:6<ce>a", waits for mark m. */
static bool waits_for(const char *word, const char *end, int m) {
  const char *at = memchr(word, '<', (size_t)(end - word));
  while (at && ++at < end && *at >= 'a' && *at < 'a' + KVM_MARKS)
    if (*at == 'a' + m) return true;
  return false;
}

/* The line on which the i-th section of `kind` first waits for mark m; 0: it cannot be found again. */
static int line_of_wait(const char *path, const char *kind, unsigned i, int m) {
  FILE *f = fopen(path, "r");
  char line[1024];
  int number = 0, found = 0;
  unsigned section = 0;
  while (f && !found && fgets(line, sizeof line, f)) {
    number++;
    line[strcspn(line, ";\r\n")] = '\0';
    if (line[0] == '[') section = strncmp(line + 1, kind, strlen(kind)) != 0 ? 0 : section + 1;
    static const char blanks[] = " \t=()";
    for (const char *word = line; section == i + 1 && *word && !found;) {
      const char *end = word + strcspn(word, blanks);
      if (waits_for(word, end, m)) found = number;
      word = end + strspn(end, blanks);
    }
  }
  if (f) (void)fclose(f);
  return found;
}

/* Marks that a kind of warps waits for and never sets: a bit each. */
static unsigned unset_marks(const kvm_role *role) {
  const kvm_program *program[3] = {&role->begin, &role->tile, &role->end};
  unsigned waits = 0, set = 0;
  for (int part = 0; part < 3; part++)
    for (size_t n = 0; n < program[part]->steps; n++) {
      const kvm_step *s = &program[part]->step[n];
      waits |= s->waits;
      set |= 1u << s->set | 1u << s->read;
    }
  return waits & ~set & ((1u << KVM_MARKS) - 1);
}

/* A wait for a mark that nothing sets is a slip of the pen, and would be no wait at all. Machine code that
 * was walked along one path may have them: its file says so. */
static kv_status check_marks(const reader *r) {
  kvm_declared *k = r->to;
  for (unsigned i = 0; i < k->block.roles; i++) {
    const unsigned unset = unset_marks(&k->block.role[i]);
    int m = 0;
    if (!unset) continue;
    while (!(unset >> m & 1)) m++;
    if (!k->unset[0])
      (void)snprintf(k->unset, sizeof k->unset,
                     "[warps ...] number %u waits for mark %c, which nothing in it sets", i + 1, 'a' + m);
    if (r->lenient) continue;
    char where[24] = "";
    const int line = line_of_wait(r->path, "warps", i, m);
    if (line) (void)snprintf(where, sizeof where, "line %d: ", line);
    return kv_fail(r->err, KV_ERR_INPUT,
                   "%s: %s%s: put `>%c` behind the instruction whose result is waited for, or take the `%c` "
                   "behind the `<` away; in "
                   "machine code whose other paths were cut out, say `unset_marks = no wait` in [kernel]",
                   r->path, where, k->unset, 'a' + m, 'a' + m);
  }
  return KV_OK;
}

static kv_status parse_block(reader *r, kvm_block *b, unsigned first, const char *section) {
  for (unsigned i = 0; i < b->roles; i++) {
    kvm_program *program[3] = {&b->role[i].begin, &b->role[i].tile, &b->role[i].end};
    b->role[i].warps = r->count[first + i];
    b->role[i].fewer = r->fewer[first + i];
    if (!r->count[first + i] || !r->text[first + i][1])
      return kv_fail(r->err, KV_ERR_INPUT, "%s: [%s ...] number %u needs count and tile", r->path, section,
                     i + 1);
    for (int k = 0; k < 3; k++) {
      const char *text = r->text[first + i][k];
      kv_error inner = {KV_OK, ""};
      kv_status st = kvm_program_parse(text ? text : "", program[k], &inner);
      if (st)
        return kv_fail(r->err, st, "%s: [%s ...] number %u: %.400s", r->path, section, i + 1, inner.text);
    }
    if (b->role[i].fewer && !kvm_program_count(&b->role[i].end).instructions)
      return kv_fail(r->err, KV_ERR_INPUT,
                     "%s: [%s ...] number %u: fewer = %u, but nothing stands in `end`: put the instructions of these tiles there, or take "
                     "`fewer` away", r->path, section, i + 1, b->role[i].fewer);
  }
  return KV_OK;
}

static kv_status parse_programs(reader *r) {
  kv_status st = parse_block(r, &r->to->block, 0, "warps");
  for (unsigned m = 0; !st && m < r->to->merges; m++)
    st = parse_block(r, &r->to->merge[m].block, KVM_MAX_ROLES * (m + 1), "merge");
  return st;
}

static kv_status read_file(reader *r) {
  FILE *f = fopen(r->path, "r");
  if (!f) return kv_fail(r->err, KV_ERR_IO, "%s: cannot be opened: %s", r->path, strerror(errno));
  int parsed = ini_parse_file(f, entry, r);
  bool unreadable = ferror(f);
  (void)fclose(f);
  if (unreadable) return kv_fail(r->err, KV_ERR_IO, "%s: cannot be read", r->path);
  if (r->status) return r->status;
  if (parsed)
    return kv_fail(r->err, KV_ERR_INPUT, "%s: line %d is neither [section] nor key = value", r->path, parsed);
  if (!r->to->name[0] || !kvm_arch_number(r->to->arch))
    return kv_fail(r->err, KV_ERR_INPUT,
                   "%s: [kernel] needs name and arch (sm_90); is it a kernel's declaration?", r->path);
  if (!start_structure(r)) return r->status;
  kv_status st = parse_programs(r);
  if (!st && !check_structure(r)) st = r->status;
  if (!st) st = check_rows(r);
  if (!st) st = check_marks(r);
  return st;
}

kv_status kvm_declared_load(const char *path, kvm_declared **kernel, kv_error *err) {
  *kernel = calloc(1, sizeof **kernel);
  reader r = {.path = path, .to = *kernel, .err = err, .fields = calloc(MAX_FIELDS, sizeof *r.fields)};
  kv_status st = *kernel && r.fields ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  if (!st) {
    const char *base = strrchr(path, '/');
    (void)snprintf((*kernel)->key, sizeof(*kernel)->key, "%.47s", base ? base + 1 : path);
    char *dot = strstr((*kernel)->key, ".ini");
    if (dot) *dot = '\0';
    (*kernel)->launches = 1;
    st = read_file(&r);
  }
  for (size_t i = 0; i < sizeof r.text / sizeof *r.text; i++)
    for (int k = 0; k < 3; k++) free(r.text[i][k]);
  free(r.fields);
  if (st) {
    kvm_declared_free(*kernel);
    *kernel = NULL;
  }
  return st;
}

void kvm_declared_free(kvm_declared *kernel) {
  if (kernel) kvm_block_free(&kernel->block);
  for (unsigned m = 0; kernel && m < kernel->merges; m++) kvm_block_free(&kernel->merge[m].block);
  free(kernel);
}

/* ---- the folder ---- */

static int ini_name(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return n > 4 && e->d_name[0] != '.' && !strcmp(e->d_name + n - 4, ".ini");
}

kv_status kvm_declared_load_all(const char *folder, kvm_declared_set *set, kv_error *err) {
  struct dirent **names = NULL;
  *set = (kvm_declared_set){0};
  int n = scandir(folder, &names, ini_name, alphasort);
  if (n < 0) return kv_fail(err, KV_ERR_IO, "%s: cannot be listed: %s", folder, strerror(errno));
  set->kernel = calloc((size_t)n + 1, sizeof *set->kernel);
  kv_status st = set->kernel ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (int i = 0; i < n; i++) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%.3800s/%s", folder, names[i]->d_name);
    if (!st) st = kvm_declared_load(path, &set->kernel[set->n], err);
    if (!st) set->n++;
    free(names[i]);
  }
  free(names);
  if (st) kvm_declared_free_all(set);
  return st;
}

void kvm_declared_free_all(kvm_declared_set *set) {
  for (size_t i = 0; i < set->n; i++) kvm_declared_free(set->kernel[i]);
  free(set->kernel);
  *set = (kvm_declared_set){0};
}

/* Is a's architecture nearer to sm than b's, or as near and a the one with more shared memory? */
static bool better(const kvm_declared *a, const kvm_declared *b, int sm) {
  int x = kvm_arch_number(a->arch), y = kvm_arch_number(b->arch);
  if (x == y) return a->structure.shared_bytes > b->structure.shared_bytes;
  if ((x <= sm) != (y <= sm)) return x <= sm;
  return x <= sm ? x > y : x < y;
}

const kvm_declared *kvm_declared_for(const kvm_declared_set *set, const char *name, int sm, uint32_t tile,
                                     const kvm_verify *problem, double shared) {
  const kvm_declared *best = NULL;
  for (int by_like = 0; by_like < 2 && !best; by_like++)
    for (size_t i = 0; i < set->n; i++) {
      const kvm_declared *k = set->kernel[i];
      if (strcmp(by_like ? k->like : k->name, name) != 0) continue;
      if (by_like && tile && k->structure.tile_tokens != tile) continue;
      if (problem && k->structure.units && k->structure.units != kvm_structure_units(&k->structure, problem))
        continue;
      if (k->structure.shared_bytes > shared) continue;
      if (!best || better(k, best, sm)) best = k;
    }
  return best;
}

const kvm_declared *kvm_declared_find(const kvm_declared_set *set, const char *name, int sm, uint32_t tile) {
  return kvm_declared_for(set, name, sm, tile, NULL, NAN);
}

uint32_t kvm_declared_row_bytes(const kvm_declared *kernel) {
  return kernel->structure.row_bytes ? kernel->structure.row_bytes : 2 * KVM_DECLARED_VALUES;
}

bool kvm_declared_applies(const kvm_declared *kernel, const kvm_verify *problem) {
  return kernel->block.roles > 0 && problem->row_bytes == kvm_declared_row_bytes(kernel);
}
