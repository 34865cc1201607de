#include "audit_source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A piece of a build file's text and where it stood. */
typedef struct piece {
  char *text;
  uint32_t file, line;
  bool conditional;
} piece;

typedef struct variable {
  char *name;
  piece *piece;
  size_t pieces;
  unsigned looked_at; /* last search that came by: a variable may name itself, and others many times over */
} variable;

typedef struct reader {
  kva_source *source;
  variable *variable;
  size_t variables;
  uint32_t file;
  unsigned search; /* number of the search at hand */
  bool failed;     /* out of memory */
} reader;

static uint32_t scope_of(reader *r, const char *name, size_t length, bool is_target) {
  static const char *const general[] = {"CMAKE_CUDA_FLAGS", "CMAKE_CUDA_ARCHITECTURES", "TORCH_CUDA_ARCH_LIST",
                                        "CUDA_ARCHITECTURES", "CUDAARCHS"};
  kva_source *s = r->source;
  for (size_t i = 0; i < s->scopes; i++)
    if (strlen(s->scope[i].name) == length && !memcmp(s->scope[i].name, name, length)) {
      s->scope[i].is_target |= is_target;
      return (uint32_t)i;
    }
  kva_scope *more = realloc(s->scope, (s->scopes + 1) * sizeof *more);
  char *copy = strndup(name, length);
  if (more) s->scope = more;
  if (!more || !copy) {
    free(copy);
    r->failed = true;
    return 0;
  }
  s->scope[s->scopes] = (kva_scope){.name = copy, .is_target = is_target};
  for (size_t i = 0; i < sizeof general / sizeof *general; i++) s->scope[s->scopes].general |= !strcmp(copy, general[i]);
  return (uint32_t)s->scopes++;
}

static void ask(reader *r, const piece *p, uint32_t scope, unsigned kind, kva_target target) {
  kva_source *s = r->source;
  if (s->count == s->capacity) {
    size_t capacity = s->capacity ? 2 * s->capacity : 64;
    kva_asked *more = realloc(s->asked, capacity * sizeof *more);
    if (!more) {
      r->failed = true;
      return;
    }
    s->asked = more;
    s->capacity = capacity;
  }
  s->asked[s->count++] = (kva_asked){p->file, p->line, scope, kind, target, p->conditional};
}

static bool word_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

/* A target name at s; its length, 0 for none. */
static size_t target_at(const char *s, kva_target *target, unsigned *kind) {
  char word[32];
  size_t n = 0;
  while (n < sizeof word - 1 && word_char(s[n])) n++;
  if (!n) return 0;
  memcpy(word, s, n);
  word[n] = '\0';
  if (word_char(s[n]) || !kva_target_parse(word, target)) return 0;
  *kind = !strncmp(word, "compute_", 8) ? KVA_KIND_PTX : !strncmp(word, "lto_", 4) ? KVA_KIND_LTO : KVA_KIND_CODE;
  return n;
}

/* After "code=": one target or several in brackets, with quotes or backslashes between. */
static void ask_codes(reader *r, const piece *p, uint32_t scope, const char *s) {
  bool list = false;
  for (; *s; s++) {
    kva_target target;
    unsigned kind;
    size_t n = target_at(s, &target, &kind);
    if (n) {
      ask(r, p, scope, kind, target);
      s += n - 1;
      if (!list) return;
    } else if (*s == '[') {
      list = true;
    } else if (!strchr("\\\"',", *s)) {
      return;
    }
  }
}

static void find_gencodes(reader *r, const piece *p, uint32_t scope) {
  for (const char *s = p->text; (s = strstr(s, "arch=compute_")); s += 5) {
    const char *code = s + 13;
    while (word_char(*code)) code++;
    if (!strncmp(code, ",code=", 6)) ask_codes(r, p, scope, code + 6);
  }
  static const char *const plain[] = {"-arch=sm_", "-arch sm_", "--gpu-architecture=sm_", "--gpu-architecture sm_"};
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    for (const char *s = p->text; (s = strstr(s, plain[i])); s++) { /* nvcc's short form: machine code and PTX */
      kva_target target;
      unsigned kind;
      if (!target_at(s + strlen(plain[i]) - 3, &target, &kind)) continue;
      ask(r, p, scope, KVA_KIND_CODE, target);
      ask(r, p, scope, KVA_KIND_PTX, target);
    }
}

/* CMake's "80;90a-real;120-virtual" and PyTorch's "8.0;9.0a+PTX": a number alone means both for CMake, machine code
 * alone for PyTorch. */
static void find_arch_list(reader *r, const piece *p, uint32_t scope) {
  for (const char *s = p->text; *s; s++) {
    kva_target target;
    unsigned kind;
    if (s > p->text && (word_char(s[-1]) || s[-1] == '{' || s[-1] == '-')) continue;
    size_t n = isdigit((unsigned char)*s) ? target_at(s, &target, &kind) : 0;
    if (!n || target.sm < 30 || target.sm > 200) continue;
    bool dotted = memchr(s, '.', n) != NULL, real = !strncmp(s + n, "-real", 5), virtual = !strncmp(s + n, "-virtual", 8);
    bool ptx = !strncmp(s + n, "+PTX", 4);
    if (!virtual) ask(r, p, scope, KVA_KIND_CODE, target);
    if (virtual || ptx || (!dotted && !real)) ask(r, p, scope, KVA_KIND_PTX, target);
    s += n - 1;
  }
}

static bool names_architectures(const char *name) {
  return strstr(name, "CUDA_ARCH") || strstr(name, "CUDAARCHS") || strstr(name, "_ARCHS") || strstr(name, "ARCH_LIST");
}

static bool ends(const char *name, const char *suffix) {
  size_t n = strlen(name), m = strlen(suffix);
  return n >= m && !strcmp(name + n - m, suffix);
}

typedef enum language { OTHER, CMAKE, NINJA, LINES } language;

static language language_of(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (!strcmp(name, "CMakeLists.txt") || ends(name, ".cmake")) return CMAKE;
  if (ends(name, ".ninja")) return NINJA;
  if (!strcmp(name, "setup.py") || !strcmp(name, "Makefile") || !strcmp(name, "makefile") || ends(name, ".mk")) return LINES;
  return OTHER;
}

/* ---- CMake ---- */

typedef struct command {
  char name[64];
  piece argument[512];
  size_t arguments;
} command;

static variable *variable_of(reader *r, const char *name, bool make) {
  for (size_t i = 0; i < r->variables; i++)
    if (!strcmp(r->variable[i].name, name)) return &r->variable[i];
  if (!make) return NULL;
  variable *more = realloc(r->variable, (r->variables + 1) * sizeof *more);
  char *copy = strdup(name);
  if (more) r->variable = more;
  if (!more || !copy) {
    free(copy);
    r->failed = true;
    return NULL;
  }
  r->variable[r->variables] = (variable){.name = copy};
  return &r->variable[r->variables++];
}

static void add_piece(reader *r, variable *v, const piece *p) {
  piece *more = v ? realloc(v->piece, (v->pieces + 1) * sizeof *more) : NULL;
  char *copy = strdup(p->text);
  if (more) v->piece = more;
  if (!more || !copy) {
    free(copy);
    r->failed = true;
    return;
  }
  v->piece[v->pieces] = *p;
  v->piece[v->pieces++].text = copy;
}

/* Looks for targets in a piece and in the variables it names. */
static void find_in_piece(reader *r, const piece *p, uint32_t scope, bool list, unsigned depth) {
  find_gencodes(r, p, scope);
  if (list) find_arch_list(r, p, scope);
  for (const char *s = p->text; depth < 64 && (s = strstr(s, "${")); s++) {
    char name[128];
    const char *end = strchr(s, '}');
    if (!end || (size_t)(end - s) - 2 >= sizeof name) continue;
    memcpy(name, s + 2, (size_t)(end - s) - 2);
    name[end - s - 2] = '\0';
    variable *v = variable_of(r, name, false);
    if (!v || v->looked_at == r->search) continue;
    v->looked_at = r->search;
    for (size_t i = 0; i < v->pieces; i++)
      find_in_piece(r, &v->piece[i], scope, list || names_architectures(name), depth + 1);
  }
}

/* Past a comment: to the end of the line, or of the brackets in #[[ ... ]]. */
static const char *skip_comment(const char *s, const char *end, uint32_t *line) {
  if (end - s > 3 && s[1] == '[' && s[2] == '[') {
    const char *close = memmem(s, (size_t)(end - s), "]]", 2), *stop = close ? close + 2 : end;
    for (; s < stop; s++) *line += *s == '\n';
    return stop;
  }
  while (s < end && *s != '\n') s++;
  return s;
}

/* Reads an argument list with the cursor after '('; returns where it ended. */
static const char *read_arguments(reader *r, const char *s, const char *end, uint32_t *line, bool conditional,
                                  command *c) {
  int depth = 1;
  while (s < end && depth) {
    if (*s == '\n') (*line)++;
    if (*s == '#') {
      s = skip_comment(s, end, line);
      continue;
    }
    if (*s == '(') depth++;
    if (*s == ')') depth--;
    if (isspace((unsigned char)*s) || *s == '(' || *s == ')') {
      s++;
      continue;
    }
    const char *start = s;
    uint32_t at = *line;
    if (*s == '"') {
      for (s++, start = s; s < end && *s != '"'; s++) {
        if (*s == '\\' && s + 1 < end) s++;
        if (*s == '\n') (*line)++;
      }
    } else {
      while (s < end && !isspace((unsigned char)*s) && *s != '(' && *s != ')' && *s != '"') s++;
    }
    if (c->arguments < sizeof c->argument / sizeof *c->argument) {
      char *text = strndup(start, (size_t)(s - start));
      if (!text) r->failed = true;
      else c->argument[c->arguments++] = (piece){text, r->file, at, conditional};
    }
    if (s < end && *s == '"') s++;
  }
  return s;
}

static bool is(const command *c, const char *name) { return !strcasecmp(c->name, name); }

/* Commands that name a build target first. */
static bool names_target(const command *c) {
  static const char *const name[] = {"target_compile_options", "set_target_properties", "python_add_library",
                                     "add_library", "add_executable", "cuda_add_library", "define_gpu_extension_target",
                                     "define_extension_target", "pybind11_add_module"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    if (is(c, name[i])) return c->arguments > 0;
  return false;
}

/* First pass: variables. Second pass: everything else. */
static void take_command(reader *r, const command *c, int pass) {
  bool set = is(c, "set"), append = is(c, "list") && c->arguments > 1 && !strcasecmp(c->argument[0].text, "APPEND");
  size_t first = append ? 1 : 0;
  if (set || append || is(c, "string")) {
    if (c->arguments <= first) return;
    const char *name = c->argument[first].text;
    variable *v = pass == 0 ? variable_of(r, name, true) : NULL;
    uint32_t scope = pass == 1 ? scope_of(r, name, strlen(name), false) : 0;
    for (size_t i = first + 1; i < c->arguments; i++) {
      if (pass == 0) add_piece(r, v, &c->argument[i]);
      if (pass == 1) {
        find_gencodes(r, &c->argument[i], scope);
        if (names_architectures(name)) find_arch_list(r, &c->argument[i], scope);
      }
    }
    return;
  }
  if (pass == 0 || !c->arguments) return;
  bool property = is(c, "set_property") && c->arguments > 1 && !strcasecmp(c->argument[0].text, "TARGET"), list = false;
  bool target = names_target(c) || property;
  const char *name = target ? c->argument[property ? 1 : 0].text : c->name;
  uint32_t scope = scope_of(r, name, strlen(name), target);
  for (size_t i = target ? 1 : 0; i < c->arguments; i++) {
    if (target && i + 1 < c->arguments && !strcmp(c->argument[i].text, "OUTPUT_NAME") && !r->failed) {
      free(r->source->scope[scope].output);
      r->source->scope[scope].output = strdup(c->argument[i + 1].text);
    }
    r->search++;
    find_in_piece(r, &c->argument[i], scope, list, 0);
    list = (list && target) || names_architectures(c->argument[i].text) || !strcmp(c->argument[i].text, "ARCHITECTURES");
  }
}

static void read_cmake(reader *r, const char *text, size_t size, int pass) {
  const char *s = text, *end = text + size;
  uint32_t line = 1;
  int conditions = 0;
  command *c = malloc(sizeof *c);
  if (!c) r->failed = true;
  while (c && s < end && !r->failed) {
    if (*s == '#') {
      s = skip_comment(s, end, &line);
      continue;
    }
    if (*s == '\n') line++;
    if (!isalpha((unsigned char)*s) && *s != '_') {
      s++;
      continue;
    }
    const char *start = s;
    while (s < end && (isalnum((unsigned char)*s) || *s == '_')) s++;
    size_t n = (size_t)(s - start);
    while (s < end && (*s == ' ' || *s == '\t')) s++;
    if (s == end || *s != '(' || n >= sizeof c->name) continue;
    memcpy(c->name, start, n);
    c->name[n] = '\0';
    c->arguments = 0;
    if (is(c, "endif") && conditions) conditions--;
    s = read_arguments(r, s + 1, end, &line, conditions > 0, c);
    if (is(c, "if")) conditions++;
    if (!is(c, "message")) take_command(r, c, pass);
    for (size_t i = 0; i < c->arguments; i++) free(c->argument[i].text);
  }
  free(c);
}

/* ---- ninja, Python, make: line by line ---- */

/* "CMakeFiles/NAME.dir/" in an object's path names its build target. */
static bool ninja_target(const char *line, const char **name, size_t *length) {
  const char *folder = strstr(line, "CMakeFiles/"), *dir = folder ? strstr(folder, ".dir/") : NULL;
  if (!dir) return false;
  *name = folder + 11;
  *length = (size_t)(dir - *name);
  return *length > 0;
}

/* NAME = ..., NAME += ..., NAME.append(...), NAME: ... at the start of a line. */
static bool assigned(const char *line, const char **name, size_t *length) {
  while (isspace((unsigned char)*line)) line++;
  size_t n = 0;
  while (isalnum((unsigned char)line[n]) || line[n] == '_') n++;
  if (!n) return false;
  const char *after = line + n;
  while (*after == ' ' || *after == '\t') after++;
  bool call = !strncmp(after, ".append(", 8) || !strncmp(after, ".extend(", 8);
  bool set = (*after == '=' && after[1] != '=') || !strncmp(after, "+=", 2) || !strncmp(after, ":=", 2);
  if (!call && !set) return false;
  *name = line;
  *length = n;
  return true;
}

static void read_lines(reader *r, const char *text, size_t size, bool ninja) {
  char scope_name[256] = "";
  bool is_target = false;
  uint32_t line = 1;
  for (const char *s = text, *end = text + size; s < end && !r->failed; line++) {
    const char *stop = memchr(s, '\n', (size_t)(end - s)), *name;
    size_t length, n = (size_t)((stop ? stop : end) - s);
    char *copy = strndup(s, n);
    if (!copy) {
      r->failed = true;
      return;
    }
    bool named = ninja ? !strncmp(copy, "build ", 6) && ninja_target(copy, &name, &length) : assigned(copy, &name, &length);
    if (named) {
      (void)snprintf(scope_name, sizeof scope_name, "%.*s", (int)(length < 255 ? length : 255), name);
      is_target = ninja;
    }
    const char *comment = ninja ? NULL : strchr(copy, '#');
    if (comment) copy[comment - copy] = '\0';
    piece p = {copy, r->file, line, false};
    if (strstr(copy, "arch") || strstr(copy, "ARCH")) {
      size_t before = r->source->count, scopes = r->source->scopes;
      uint32_t scope = scope_of(r, scope_name, strlen(scope_name), is_target);
      find_gencodes(r, &p, scope);
      if (names_architectures(scope_name)) find_arch_list(r, &p, scope);
      if (r->source->count == before && r->source->scopes > scopes) free(r->source->scope[--r->source->scopes].name);
    }
    free(copy);
    s += n + 1;
  }
}

static void read_text(reader *r, const char *path, const char *text, size_t size, int pass) {
  language l = language_of(path);
  if (l == CMAKE) read_cmake(r, text, size, pass);
  if (l == NINJA && pass == 1) read_lines(r, text, size, true);
  if (l == LINES && pass == 1) read_lines(r, text, size, false);
}

static bool add_path(reader *r, const char *path) {
  kva_source *s = r->source;
  char **more = realloc(s->path, (s->paths + 1) * sizeof *more), *copy = strdup(path);
  if (more) s->path = more;
  if (!more || !copy) {
    free(copy);
    r->failed = true;
    return false;
  }
  s->path[s->paths] = copy;
  r->file = (uint32_t)s->paths++;
  return true;
}

static int by_place(const void *a, const void *b) {
  const kva_asked *x = a, *y = b;
  if (x->file != y->file) return x->file < y->file ? -1 : 1;
  if (x->line != y->line) return x->line < y->line ? -1 : 1;
  if (x->scope != y->scope) return x->scope < y->scope ? -1 : 1;
  if (x->target.sm != y->target.sm) return x->target.sm < y->target.sm ? -1 : 1;
  return (int)x->kind - (int)y->kind;
}

static bool same_list(const kva_asked *a, const kva_asked *b) {
  return a->file == b->file && a->scope == b->scope && a->kind == b->kind && a->target.sm == b->target.sm &&
         a->target.suffix == b->target.suffix;
}

/* Drops what is said twice: the same line reached on two ways, and in a ninja file each object of a target. */
static void drop_repeats(kva_source *s) {
  size_t kept = 0;
  for (size_t i = 0; i < s->count; i++) {
    const kva_asked *a = &s->asked[i];
    bool ninja = language_of(s->path[a->file]) == NINJA, repeated = false;
    for (size_t k = kept; k-- > 0 && s->asked[k].file == a->file && (ninja || s->asked[k].line == a->line) && !repeated;)
      repeated = same_list(&s->asked[k], a);
    if (!repeated) s->asked[kept++] = *a;
  }
  s->count = kept;
}

static kv_status finish(reader *r, kv_error *err) {
  for (size_t i = 0; i < r->variables; i++) {
    for (size_t k = 0; k < r->variable[i].pieces; k++) free(r->variable[i].piece[k].text);
    free(r->variable[i].piece);
    free(r->variable[i].name);
  }
  free(r->variable);
  if (r->failed) {
    kva_source_free(r->source);
    return kv_fail(err, KV_ERR_MEMORY, "build files: out of memory");
  }
  if (r->source->count) qsort(r->source->asked, r->source->count, sizeof *r->source->asked, by_place);
  drop_repeats(r->source);
  return KV_OK;
}

kv_status kva_source_text(const char *name, const char *text, size_t size, kva_source *source, kv_error *err) {
  reader r = {.source = source};
  *source = (kva_source){0};
  if (add_path(&r, name))
    for (int pass = 0; pass < 2; pass++) read_text(&r, name, text, size, pass);
  return finish(&r, err);
}

static void read_path(reader *r, const char *path, int pass) {
  struct stat sb;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0 && fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_size > 0) {
    char *text = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (text != MAP_FAILED) {
      read_text(r, path, text, (size_t)sb.st_size, pass);
      (void)munmap(text, (size_t)sb.st_size);
    }
  }
  if (fd >= 0) (void)close(fd);
}

static int by_fts_name(const FTSENT **a, const FTSENT **b) { return strcmp((*a)->fts_name, (*b)->fts_name); }

kv_status kva_source_read(const char *path, kva_source *source, kv_error *err) {
  reader r = {.source = source};
  char *const roots[] = {(char *)(uintptr_t)path, NULL};
  *source = (kva_source){0};
  if (access(path, R_OK) != 0) return kv_fail(err, KV_ERR_IO, "%s: %s", path, strerror(errno));
  FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, by_fts_name);
  if (!tree) return kv_fail(err, KV_ERR_IO, "%s: %s", path, strerror(errno));
  for (FTSENT *e; !r.failed && (e = fts_read(tree));) {
    if (e->fts_info == FTS_D && !strcmp(e->fts_name, ".git")) (void)fts_set(tree, e, FTS_SKIP);
    if (e->fts_info == FTS_F && language_of(e->fts_path) != OTHER) (void)add_path(&r, e->fts_path);
  }
  (void)fts_close(tree);
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < source->paths && !r.failed; i++) {
      r.file = (uint32_t)i;
      read_path(&r, source->path[i], pass);
    }
  return finish(&r, err);
}

void kva_source_free(kva_source *s) {
  for (size_t i = 0; i < s->paths; i++) free(s->path[i]);
  for (size_t i = 0; i < s->scopes; i++) {
    free(s->scope[i].name);
    free(s->scope[i].output);
  }
  free(s->path);
  free(s->scope);
  free(s->asked);
  *s = (kva_source){0};
}

/* ---- comparing ---- */

static void print_target(FILE *out, unsigned kind, kva_target t) {
  char text[KVA_TARGET_TEXT];
  kva_target_text(t, text);
  (void)fprintf(out, kind == KVA_KIND_PTX ? " compute_%s" : kind == KVA_KIND_LTO ? " lto_%s" : " sm_%s", text + 3);
}

static bool same_target(const kva_asked *a, unsigned kind, kva_target t) {
  return a->kind == kind && a->target.sm == t.sm && a->target.suffix == t.suffix;
}

static bool asks(const kva_source *s, uint32_t scope, unsigned kind, kva_target t) {
  for (size_t i = 0; i < s->count; i++)
    if (s->asked[i].scope == scope && same_target(&s->asked[i], kind, t)) return true;
  return false;
}

static bool holds(const kva_file *file, const kva_asked *a) {
  for (size_t i = 0; i < file->entries; i++)
    if (same_target(a, file->entry[i].kind, file->entry[i].target)) return true;
  return false;
}

static bool serves(const kva_asked *a, unsigned sm) {
  return a->kind == KVA_KIND_PTX ? kva_ptx_compiles(a->target, sm) : a->kind == KVA_KIND_CODE && kva_code_runs(a->target, sm);
}

/* "flashmla_ops" builds flashmla_ops.abi3.so, libflashmla_ops.so, flashmla_ops. */
static bool builds(const char *target, const char *file) {
  const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file, *bang = strrchr(name, '!');
  if (bang) name = bang + 1;
  size_t n = strlen(target);
  if (!strncmp(name, "lib", 3) && !strncmp(name + 3, target, n) && (name[3 + n] == '.' || !name[3 + n])) return true;
  return !strncmp(name, target, n) && (name[n] == '.' || !name[n]);
}

static void tell_lists(FILE *out, const kva_source *s) {
  for (size_t i = 0; i < s->count; i++) {
    const kva_asked *a = &s->asked[i];
    bool first = i == 0 || s->asked[i - 1].file != a->file || s->asked[i - 1].line != a->line || s->asked[i - 1].scope != a->scope;
    if (first)
      (void)fprintf(out, "%s  %s:%u  %s%s%s:", i ? "\n" : "", s->path[a->file], a->line, s->scope[a->scope].is_target ? "target " : "",
                    s->scope[a->scope].name, a->conditional ? " (inside an if)" : "");
    print_target(out, a->kind, a->target);
  }
  (void)fprintf(out, s->count ? "\n" : "  no -gencode, -arch or architecture list found\n");
}

/* Does this list serve sm; and if not, which other list does? */
static size_t tell_gap(FILE *out, const kva_source *s, uint32_t scope, unsigned sm) {
  for (size_t i = 0; i < s->count; i++)
    if (s->asked[i].scope == scope && serves(&s->asked[i], sm)) return 0;
  for (size_t i = 0; i < s->count; i++) {
    const kva_asked *a = &s->asked[i];
    if (!serves(a, sm)) continue;
    (void)fprintf(out, "    nothing in this target's list serves sm_%u, but", sm);
    print_target(out, a->kind, a->target);
    (void)fprintf(out, " is in %s's (%s:%u)\n", s->scope[a->scope].name, s->path[a->file], a->line);
    return 1;
  }
  (void)fprintf(out, "    no list in these build files serves sm_%u\n", sm);
  return 1;
}

static size_t tell_pair(FILE *out, const kva_source *s, uint32_t scope, const kva_file *file, unsigned sm) {
  (void)fprintf(out, "  %s, built by target %s\n", file->name, s->scope[scope].name);
  bool said = false;
  for (size_t i = 0; i < s->count; i++)
    if (s->asked[i].scope == scope && !holds(file, &s->asked[i])) {
      if (!said) (void)fprintf(out, "    asked for, not in the binary:");
      said = true;
      print_target(out, s->asked[i].kind, s->asked[i].target);
    }
  if (said) (void)fputc('\n', out);
  said = false;
  for (size_t i = 0; i < file->entries; i++) {
    const kva_held *e = &file->entry[i];
    bool before = false;
    for (size_t k = 0; k < i && !before; k++)
      before = file->entry[k].kind == e->kind && file->entry[k].target.sm == e->target.sm && file->entry[k].target.suffix == e->target.suffix;
    if (before || asks(s, scope, e->kind, e->target)) continue;
    if (!said) (void)fprintf(out, "    in the binary, not asked for by this target:");
    said = true;
    print_target(out, e->kind, e->target);
  }
  if (said) (void)fputc('\n', out);
  return sm ? tell_gap(out, s, scope, sm) : 0;
}

kv_status kva_tell_source(FILE *out, const kva_source *s, const kva_audit *audit, unsigned sm, size_t *gaps,
                          kv_error *err) {
  size_t pairs = 0;
  *gaps = 0;
  (void)fprintf(out, "\nasked for in the build files\n");
  tell_lists(out, s);
  (void)fprintf(out, "against the binaries\n");
  for (size_t f = 0; f < audit->files; f++)
    for (size_t i = 0; i < s->scopes; i++)
      if (s->scope[i].is_target && builds(s->scope[i].output ? s->scope[i].output : s->scope[i].name, audit->file[f].name)) {
        *gaps += tell_pair(out, s, (uint32_t)i, &audit->file[f], sm);
        pairs++;
      }
  if (!pairs) (void)fprintf(out, "  no build target is named like an audited file\n");
  return ferror(out) ? kv_fail(err, KV_ERR_IO, "write error") : KV_OK;
}
