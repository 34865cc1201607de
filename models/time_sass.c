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
  if (sscanf(text, " /*%lx*/ %199[^;];", &line->address, body) != 2) return false;
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
  if (sscanf(text, " Function : %199s", name) != 1) return inside;
  if (s->n || (wanted && !strstr(name, wanted))) return false;
  (void)snprintf(s->function, sizeof s->function, "%s", name);
  return true;
}

kv_status kvm_sass_read(const char *path, const char *function, kvm_sass *s, kv_error *err) {
  char *text = NULL;
  size_t size = 0, room = 0;
  bool inside = false, half = false;
  uint64_t bits = 0;
  kv_status st = KV_OK;
  memset(s, 0, sizeof *s);
  FILE *f = fopen(path, "r");
  if (!f) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  while (!st && getline(&text, &size, f) >= 0) {
    kvm_sass_line line;
    inside = in_function(text, function, s, inside);
    if (inside && instruction(text, &line)) {
      st = add(s, &line, &room, err);
      half = true;
    } else if (inside && half && comment_bits(text, &bits)) {
      take_bits(&s->line[s->n - 1], bits);
      half = false;
    }
  }
  free(text);
  (void)fclose(f);
  if (!st && !s->n)
    st = kv_fail(err, KV_ERR_INPUT, "%s: no function%s%.80s; is it what `cuobjdump -sass` prints?", path,
                 function ? " with " : "", function ? function : "");
  if (!st && half)
    st = kv_fail(err, KV_ERR_INPUT, "%s: the instructions come without their bits; use `cuobjdump -sass`",
                 path);
  if (st) kvm_sass_free(s);
  return st;
}

void kvm_sass_free(kvm_sass *s) {
  free(s->line);
  memset(s, 0, sizeof *s);
}

/* ---- loops ---- */

/* The instruction after a predicate. */
static const char *operation(const char *text) {
  if (*text != '@') return text;
  const char *blank = strchr(text, ' ');
  return blank ? blank + strspn(blank, " ") : text;
}

size_t kvm_sass_loops(const kvm_sass *s, size_t least, kvm_sass_loop *loop, size_t room) {
  size_t found = 0;
  for (size_t i = 0; i < s->n; i++) {
    const char *op = operation(s->line[i].text), *target = strncmp(op, "BRA", 3) ? NULL : strstr(op, "0x");
    uint64_t address = target ? strtoull(target, NULL, 16) : UINT64_MAX;
    if (address > s->line[i].address) continue;
    for (size_t k = 0; k <= i; k++)
      if (s->line[k].address == address && i - k + 1 >= least) {
        if (found < room) loop[found] = (kvm_sass_loop){k, i};
        found++;
        break;
      }
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
             {"SHFL", NULL, "shfl"},          {"BAR", NULL, "bar"},           {"MUFU", NULL, "sfu"}};

static const char *word_of(const char *text) {
  const char *op = operation(text);
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

typedef struct writer {
  FILE *f;
  size_t column;
  unsigned alus, cycles; /* of a run of alu not written yet */
  unsigned waits;        /* its own */
} writer;

static void put(writer *w, const char *word) {
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

static void flush_alus(writer *w) {
  char word[64] = "alu";
  if (!w->alus) return;
  if (w->alus > 1) (void)snprintf(word + strlen(word), 16, "*%u", w->alus);
  if (w->cycles > w->alus) (void)snprintf(word + strlen(word), 16, ":%u", w->cycles);
  marks(word, sizeof word, w->waits);
  put(w, word);
  w->alus = w->cycles = w->waits = 0;
}

void kvm_sass_program(const kvm_sass *s, size_t from, size_t to, FILE *f) {
  writer w = {.f = f};
  for (size_t i = from; i <= to && i < s->n; i++) {
    const kvm_sass_line *l = &s->line[i];
    const char *name = word_of(l->text);
    unsigned stall = l->stall ? l->stall : 1;
    bool plain = !strcmp(name, "alu") && l->set > 5 && l->read > 5 &&
                 strncmp(operation(l->text), "DEPBAR.LE SB0", 13) != 0;
    if (!plain || l->waits || w.cycles > 60000) flush_alus(&w);
    if (plain) {
      w.waits |= l->waits;
      w.alus++;
      w.cycles += stall;
      continue;
    }
    char word[80];
    unsigned open = 0;
    (void)snprintf(word, sizeof word - 20, "%s", name);
    if (sscanf(operation(l->text), "DEPBAR.LE SB0, %x", &open) == 1)
      (void)snprintf(word, sizeof word - 20, "group*%u", open);
    if (stall > 1) (void)snprintf(word + strlen(word), 8, ":%u", stall);
    marks(word, sizeof word, l->waits);
    if (l->set < 6) (void)snprintf(word + strlen(word), 4, ">%c", 'a' + l->set);
    if (l->read < 6) (void)snprintf(word + strlen(word), 4, "^%c", 'a' + l->read);
    put(&w, word);
  }
  flush_alus(&w);
  fputc('\n', f);
}
