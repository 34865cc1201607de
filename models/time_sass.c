#include "time_sass.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading a listing ---- */

/* The upper half's bits 41 to 57: stall 4, yield 1, set 3, read 3, waits 6. */
static void take_bits(kvm_sass_line *line, uint64_t upper) {
  uint64_t c = upper >> 41;
  line->stall = (uint8_t)(c & 15);
  line->set = (uint8_t)(c >> 5 & 7);
  line->read = (uint8_t)(c >> 8 & 7);
  line->waits = (uint8_t)(c >> 11 & 63);
}

/* The 64 bits in the comment at the end of a line of a listing. */
static bool comment_bits(const char *text, uint64_t *bits) {
  const char *at = strstr(text, "/* 0x");
  return at && sscanf(at, "/* 0x%16lx */", bits) == 1;
}

/* "  /0060/   LDG.E R4, [R2] ;  / 0x... /": the instruction between the address and the semicolon. */
static bool instruction(const char *text, kvm_sass_line *line) {
  char body[200];
  memset(line, 0, sizeof *line);
  if (!strchr(text, ';') || sscanf(text, " /*%lx*/ %199[^;];", &line->address, body) != 2) return false;
  size_t n = strlen(body);
  while (n && isspace((unsigned char)body[n - 1])) body[--n] = '\0';
  (void)snprintf(line->text, sizeof line->text, "%.99s", body);
  return n > 0;
}

static kv_status add(kvm_sass *s, const kvm_sass_line *line, size_t *room, kv_error *err) {
  if (s->n == *room) {
    size_t more = *room ? 2 * *room : 1024;
    kvm_sass_line *grown = more > 1u << 20 ? NULL : realloc(s->line, more * sizeof *grown);
    if (!grown)
      return kv_fail(err, KV_ERR_MEMORY, "a listing of more than a million instructions, or out of memory");
    s->line = grown;
    *room = more;
  }
  s->line[s->n++] = *line;
  return KV_OK;
}

/* "Function : NAME" or ".text.NAME:" begins a function; true while the wanted one is being read. */
static bool in_function(const char *text, const char *wanted, kvm_sass *s, bool inside) {
  char name[200];
  if (sscanf(text, " Function : %199s", name) != 1 && sscanf(text, ".text.%199[^:]:", name) != 1)
    return inside;
  if (s->n || (wanted && !strstr(name, wanted))) return false;
  (void)snprintf(s->function, sizeof s->function, "%s", name);
  return true;
}

const char *kvm_sass_operation(const char *text) {
  if (*text != '@') return text;
  const char *blank = strchr(text, ' ');
  return blank ? blank + strspn(blank, " ") : text;
}

bool kvm_sass_guarded(const char *text) {
  return *text == '@' && strncmp(text, "@PT ", 4) != 0;
}

bool kvm_sass_from(const kvm_sass *s, size_t line, const char *text) {
  return strstr(s->source[s->line[line].source], text) != NULL;
}

/* ---- labels and sources ---- */

enum { MOST_LABELS = 20000, MOST_FILES = 64, MOST_CHAIN = 4000 };

/* A source file that the listing names, in memory. */
typedef struct source_file {
  char path[512], *text;
  size_t size;
} source_file;

typedef struct reading {
  kvm_sass *to;
  size_t room, labels, files;
  struct {
    char name[32];
    uint32_t line;
  } * label;
  source_file *file;
  char chain[MOST_CHAIN]; /* source lines of the next instruction */
  bool half, fresh;       /* fresh: the chain belongs to the instruction to come */
} reading;

static const source_file *open_source(reading *r, const char *path) {
  for (size_t i = 0; i < r->files; i++)
    if (!strcmp(r->file[i].path, path)) return &r->file[i];
  if (r->files == MOST_FILES) return NULL;
  source_file *s = &r->file[r->files++];
  (void)snprintf(s->path, sizeof s->path, "%s", path);
  FILE *f = fopen(path, "r"), *m = open_memstream(&s->text, &s->size);
  char block[4096];
  for (size_t n; f && m && (n = fread(block, 1, sizeof block, f)) > 0;) (void)fwrite(block, 1, n, m);
  if (f) (void)fclose(f);
  if (m) (void)fclose(m);
  return s;
}

/* Line `number` of a source file, appended to the chain without its indent. */
static void append_source(reading *r, const char *path, unsigned number) {
  const source_file *s = open_source(r, path);
  const char *at = s ? s->text : NULL;
  for (unsigned i = 1; at && i < number; i++) {
    at = strchr(at, '\n');
    at = at ? at + 1 : NULL;
  }
  if (!at) return;
  at += strspn(at, " \t");
  size_t have = strlen(r->chain);
  (void)snprintf(r->chain + have, sizeof r->chain - have, "%.*s\n", (int)strcspn(at, "\n"), at);
}

/* `//## File "x.cu", line 9 inlined at "y.cu", line 7`: the innermost line first, then one more comment a
 * call. */
static bool take_source(reading *r, const char *text) {
  char path[512];
  unsigned number;
  if (sscanf(text, " //## File \"%511[^\"]\", line %u", path, &number) != 2) return false;
  if (!r->fresh) r->chain[0] = '\0';
  r->fresh = true;
  append_source(r, path, number);
  return true;
}

static bool take_label(reading *r, const char *text) {
  char name[32];
  if (text[0] != '.' || sscanf(text, "%31[.A-Za-z0-9_]:", name) != 1 || r->labels == MOST_LABELS)
    return false;
  (void)snprintf(r->label[r->labels].name, sizeof name, "%s", name);
  r->label[r->labels++].line = (uint32_t)r->to->n;
  return true;
}

/* The number of the chain among the listing's sources; 0 when there is none, or no room. */
static uint32_t keep_source(reading *r) {
  kvm_sass *s = r->to;
  if (!r->chain[0]) return 0;
  if (s->sources && !strcmp(s->source[s->sources - 1], r->chain)) return (uint32_t)s->sources - 1;
  char **more = realloc(s->source, (s->sources + 2) * sizeof *more), *copy = strdup(r->chain);
  if (more) s->source = more;
  if (!more || !copy) {
    free(copy);
    return 0;
  }
  s->source[s->sources++] = copy;
  return (uint32_t)s->sources - 1;
}

static kv_status take_line(reading *r, const char *text, kv_error *err) {
  kvm_sass_line line;
  uint64_t bits = 0;
  if (take_source(r, text) || take_label(r, text)) return KV_OK;
  if (instruction(text, &line)) {
    line.target = KVM_SASS_NOWHERE;
    line.source = keep_source(r);
    r->half = true;
    r->fresh = false;
    return add(r->to, &line, &r->room, err);
  }
  if (r->half && comment_bits(text, &bits)) {
    take_bits(&r->to->line[r->to->n - 1], bits);
    r->half = false;
  }
  return KV_OK;
}

/* Branches name an address (0x...) or a label (`(.L_x_1)). */
static void resolve(reading *r) {
  kvm_sass *s = r->to;
  for (size_t i = 0; i < s->n; i++) {
    const char *op = kvm_sass_operation(s->line[i].text),
               *at = strncmp(op, "BRA", 3) ? NULL : strstr(op, "0x");
    char name[32];
    uint64_t address = at ? strtoull(at, NULL, 16) : UINT64_MAX;
    for (size_t k = 0; at && k < s->n; k++)
      if (s->line[k].address == address) s->line[i].target = (uint32_t)k;
    at = strncmp(op, "BRA", 3) ? NULL : strstr(op, "`(");
    if (!at || sscanf(at, "`(%31[.A-Za-z0-9_])", name) != 1) continue;
    for (size_t k = 0; k < r->labels; k++)
      if (!strcmp(r->label[k].name, name)) s->line[i].target = r->label[k].line;
    if (s->line[i].target >= s->n) s->line[i].target = KVM_SASS_NOWHERE;
  }
}

static kv_status read_lines(reading *r, FILE *f, const char *function, kv_error *err) {
  char *text = NULL;
  size_t size = 0;
  bool inside = false;
  kv_status st = KV_OK;
  while (!st && getline(&text, &size, f) >= 0) {
    inside = in_function(text, function, r->to, inside);
    if (inside) st = take_line(r, text, err);
  }
  free(text);
  if (!st) resolve(r);
  return st;
}

kv_status kvm_sass_read(const char *path, const char *function, kvm_sass *s, kv_error *err) {
  reading r = {.to = s};
  memset(s, 0, sizeof *s);
  FILE *f = fopen(path, "r");
  if (!f) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  r.label = calloc(MOST_LABELS, sizeof *r.label);
  r.file = calloc(MOST_FILES, sizeof *r.file);
  s->source = calloc(1, sizeof *s->source);
  if (s->source) s->source[0] = strdup("");
  s->sources = 1;
  kv_status st = r.label && r.file && s->source && s->source[0]
                     ? read_lines(&r, f, function, err)
                     : kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  (void)fclose(f);
  for (size_t i = 0; r.file && i < r.files; i++) free(r.file[i].text);
  free(r.file);
  free(r.label);
  if (!st && !s->n)
    st = kv_fail(err, KV_ERR_INPUT, "%s: no function%s%.80s; is it what `cuobjdump -sass` prints?", path,
                 function ? " with " : "", function ? function : "");
  if (!st && r.half)
    st = kv_fail(err, KV_ERR_INPUT, "%s: the instructions come without their bits; use `cuobjdump -sass`",
                 path);
  if (st) kvm_sass_free(s);
  return st;
}

void kvm_sass_free(kvm_sass *s) {
  for (size_t i = 0; s->source && i < s->sources; i++) free(s->source[i]);
  free(s->source);
  free(s->line);
  memset(s, 0, sizeof *s);
}

/* ---- loops ---- */

size_t kvm_sass_loops(const kvm_sass *s, size_t least, kvm_sass_loop *loop, size_t room) {
  size_t found = 0;
  for (size_t i = 0; i < s->n; i++) {
    size_t k = s->line[i].target;
    if (k > i || i - k + 1 < least) continue;
    if (found < room) loop[found] = (kvm_sass_loop){k, i};
    found++;
  }
  return found;
}

/* ---- words ---- */

static const struct {
  const char *begins, *holds, *word; /* first match counts; holds NULL: anything */
} words[] = {{"HMMA", NULL, "mma"},           {"LDSM", ".4", "ldsm4"},        {"LDSM", ".2", "ldsm2"},
             {"LDSM", NULL, "ldsm1"},         {"STSM", ".4", "stsm4"},        {"STSM", ".2", "stsm2"},
             {"STSM", NULL, "stsm1"},         {"LDGSTS", ".128", "cp16.row"}, {"LDGSTS", ".64", "cp8.row"},
             {"LDGSTS", NULL, "cp4.row"},     {"LDGDEPBAR", NULL, "commit"},  {"LDG", ".128", "ldg16.row"},
             {"LDG", ".64", "ldg8.index/32"}, {"LDG", NULL, "ldg4.index/32"}, {"LDL", NULL, "ldg4.hot"},
             {"STG", ".128", "stg16"},        {"STG", ".64", "stg8"},         {"STG", NULL, "stg4"},
             {"STS", ".128", "sts16"},        {"STS", ".64", "sts8"},         {"STS", NULL, "sts4"},
             {"LDS", ".128", "lds16"},        {"LDS", ".64", "lds8"},         {"LDS", NULL, "lds4"},
             {"SHFL", NULL, "shfl"},          {"BAR", NULL, "bar"},           {"MUFU", NULL, "sfu"},
             {"MOVM", NULL, "shfl"},          {"I2F", NULL, "sfu"},           {"F2I", NULL, "sfu"}};

const char *kvm_sass_word(const char *text) {
  const char *op = kvm_sass_operation(text);
  size_t n = strcspn(op, " ");
  char name[64];
  (void)snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), op);
  if (!strncmp(text, "@!PT", 4)) return "alu"; /* never executed */
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strncmp(name, words[i].begins, strlen(words[i].begins)) &&
        (!words[i].holds || strstr(name, words[i].holds)))
      return words[i].word;
  return "alu";
}

static void put(kvm_sass_writer *w, const char *word) {
  if (w->column + strlen(word) + 1 > 110 || !w->column)
    w->column = (size_t)fprintf(w->f, "%s ", w->column ? "\n " : " ");
  w->column += (size_t)fprintf(w->f, "%s ", word);
}

static void marks(char *text, size_t size, unsigned waits) {
  size_t n = strlen(text);
  if (!waits) return;
  text[n++] = '<';
  for (unsigned i = 0; i < 6 && n + 2 < size; i++)
    if (waits >> i & 1) text[n++] = (char)('a' + i);
  text[n] = '\0';
}

static void flush_alus(kvm_sass_writer *w) {
  char word[64] = "alu";
  if (!w->alus) return;
  if (w->alus > 1) (void)snprintf(word + strlen(word), 16, "*%u", w->alus);
  if (w->cycles > w->alus) (void)snprintf(word + strlen(word), 16, ":%u", w->cycles);
  marks(word, sizeof word, w->waits);
  put(w, word);
  w->alus = w->cycles = w->waits = 0;
}

/* The pipe of half rate that an instruction goes to: 0 integers and logic, 1 integer products; -1 another. */
static int half_rate(const char *op) {
  static const char *const integer[] = {"IADD",  "VIADD", "LOP",  "SHF",   "SHL",    "SHR",   "LEA",
                                        "ISETP", "SEL",   "PRMT", "IMNMX", "VIMNMX", "FMNMX", "FSETP",
                                        "FSEL",  "PLOP",  "MOV",  "IABS",  "BREV",   "FLO",   "F2FP"};
  for (size_t i = 0; i < sizeof integer / sizeof *integer; i++)
    if (!strncmp(op, integer[i], strlen(integer[i]))) return 0;
  return strncmp(op, "IMAD", 4) ? -1 : 1;
}

/* Two cycles for an instruction of a pipe of half rate: the stall of the one before grows where it must. */
static unsigned keep_rate(kvm_sass_writer *w, const char *op, unsigned stall) {
  int pipe = half_rate(op);
  unsigned late = pipe >= 0 && w->free[pipe] > w->clock ? w->free[pipe] - w->clock : 0;
  if (pipe >= 0) w->free[pipe] = w->clock + late + 2;
  w->clock += late + stall;
  return late + stall;
}

void kvm_sass_put(kvm_sass_writer *w, const kvm_sass_line *l, const char *given) {
  const char *name = given ? given : kvm_sass_word(l->text), *op = kvm_sass_operation(l->text);
  unsigned stall = keep_rate(w, op, l->stall ? l->stall : 1), open = 0;
  bool plain = !strcmp(name, "alu") && l->set > 5 && l->read > 5 && strncmp(op, "DEPBAR.LE SB0", 13) != 0;
  if (!plain || l->waits || w->cycles > 60000) flush_alus(w);
  if (plain) {
    w->waits |= l->waits;
    w->alus++;
    w->cycles += stall;
    return;
  }
  char word[80];
  (void)snprintf(word, sizeof word - 20, "%.50s", name);
  if (sscanf(op, "DEPBAR.LE SB0, %x", &open) == 1) (void)snprintf(word, sizeof word - 20, "group*%u", open);
  if (stall > 1) (void)snprintf(word + strlen(word), 16, ":%u", stall);
  marks(word, sizeof word, l->waits);
  if (l->set < 6) (void)snprintf(word + strlen(word), 4, ">%c", 'a' + l->set);
  if (l->read < 6) (void)snprintf(word + strlen(word), 4, "^%c", 'a' + l->read);
  put(w, word);
}

void kvm_sass_end(kvm_sass_writer *w) {
  flush_alus(w);
  fputc('\n', w->f);
}

void kvm_sass_program(const kvm_sass *s, size_t from, size_t to, FILE *f) {
  kvm_sass_writer w = {.f = f};
  for (size_t i = from; i <= to && i < s->n; i++) kvm_sass_put(&w, &s->line[i], NULL);
  kvm_sass_end(&w);
}
