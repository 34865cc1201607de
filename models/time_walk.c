#include "time_walk.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "time_sass.h"

/* ---- hints ---- */

enum { MOST_RULES = 128, MOST_PATH = 400000, WORD = 64, TEXT = 200 };
typedef enum rule_kind { TAKE, SKIP, RARE, NTH, TURNS, LOOP, LOAD, AWAIT, POST, LAND, CLASH, RULE_KINDS } rule_kind;
static const char *const rule_names[RULE_KINDS] = {"take", "skip",  "rare", "nth",  "turns", "loop",
                                                   "load", "await", "post", "land", "clash"};
static const bool rule_has_word[RULE_KINDS] = {[NTH] = true,  [TURNS] = true, [LOAD] = true, [AWAIT] = true,
                                               [POST] = true, [LAND] = true,  [CLASH] = true};

typedef struct rule {
  rule_kind kind;
  char word[WORD], text[TEXT];
  unsigned used; /* NTH, LOAD: times that it was the answer */
  unsigned most; /* LOAD: times that it may be; 0: any */
} rule;

typedef struct rules {
  size_t n;
  rule rule[MOST_RULES];
  char function[TEXT];
} rules;

typedef struct walker {
  const char *hints, *listing;
  FILE *out;
  kv_error *err;
  int number;        /* line of the hints */
  rules own, common; /* of the section, of [walk] */
  bool walking, in_walk;
  kvm_sass sass;
  uint32_t *path;          /* lines in the order in which they are executed */
  size_t steps, tile, end; /* path: first of the tile, first after it; tile == SIZE_MAX: no loop yet */
  uint32_t *turns;         /* made so far, by line of the closing branch */
} walker;

static kv_status refuse(walker *w, const char *what, const char *which) {
  return kv_fail(w->err, KV_ERR_INPUT, "%s: line %d: %s%.80s", w->hints, w->number, what, which);
}

/* KV_OK and *taken when `key` is a hint. */
static kv_status take_rule(walker *w, const char *key, const char *value, bool *taken) {
  rules *to = w->in_walk ? &w->common : &w->own;
  *taken = false;
  if (!strcmp(key, "function")) {
    (void)snprintf(to->function, sizeof to->function, "%s", value);
    *taken = true;
  }
  for (int k = 0; k < RULE_KINDS; k++) {
    if (strcmp(key, rule_names[k]) != 0) continue;
    if (to->n == MOST_RULES) return refuse(w, "too many hints", "");
    rule *r = &to->rule[to->n++];
    *r = (rule){.kind = (rule_kind)k};
    size_t word = rule_has_word[k] ? strcspn(value, " ") : 0;
    if (word >= sizeof r->word) return refuse(w, "not understood: ", value);
    memcpy(r->word, value, word);
    char *most = k == LOAD ? strchr(r->word, '@') : NULL;
    if (most) *most++ = '\0';
    if (most && sscanf(most, "%u", &r->most) != 1) return refuse(w, "no number behind @: ", value);
    value += word + strspn(value + word, " ");
    if (!*value || strlen(value) >= sizeof r->text)
      return refuse(w, "a hint needs the text of a source line", "");
    (void)snprintf(r->text, sizeof r->text, "%s", value);
    *taken = true;
  }
  return w->in_walk && !*taken ? refuse(w, "[walk] has hints alone, not ", key) : KV_OK;
}

/* The first hint that fits a line, of any of the kinds that `kinds` has a bit for, and is not used up. */
static rule *rule_for(walker *w, size_t line, unsigned kinds) {
  for (int k = 0; k < 2; k++) {
    rules *of = k ? &w->common : &w->own;
    for (size_t i = 0; i < of->n; i++)
      if (kinds >> of->rule[i].kind & 1 && !(of->rule[i].most && of->rule[i].used >= of->rule[i].most) &&
          kvm_sass_from(&w->sass, line, of->rule[i].text))
        return &of->rule[i];
  }
  return NULL;
}

/* ---- the path ---- */

static kv_status lost(walker *w, size_t line, const char *what) {
  const kvm_sass_line *l = &w->sass.line[line];
  const char *source = w->sass.source[l->source];
  return kv_fail(w->err, KV_ERR_INPUT, "%s: %.60s at %lx: %s; its source:\n%.300s", w->hints, l->text,
                 (unsigned long)l->address, what, source);
}

/* A backward branch closes a loop: the one over tiles, or one of a known number of turns. */
static size_t close_loop(walker *w, size_t at) {
  size_t head = w->sass.line[at].target;
  if (w->tile == SIZE_MAX && rule_for(w, at, 1u << LOOP)) {
    for (w->tile = 0; w->path[w->tile] != head; w->tile++)
      if (w->tile + 1 == w->steps) break;
    w->end = w->steps;
    return at + 1;
  }
  const rule *r = rule_for(w, at, 1u << TURNS);
  if (++w->turns[at] < (r ? strtoul(r->word, NULL, 10) : 1)) return head;
  w->turns[at] = 0;
  return at + 1;
}

/* Whether a branch stands in the line of the loop over tiles itself, not in what is called there. */
static bool is_of_loop(walker *w, size_t line) {
  const rule *r = rule_for(w, line, 1u << LOOP);
  const char *source = w->sass.source[w->sass.line[line].source], *text = r ? strstr(source, r->text) : NULL;
  return text && text < source + strcspn(source, "\n");
}

/* Whether a forward branch ahead of the loop over tiles leads to it: the loop's head lies at its target or behind, and not between. */
static bool leads_to_loop(walker *w, size_t at) {
  const size_t target = w->sass.line[at].target;
  bool behind = false;
  for (size_t i = at + 1; i < w->sass.n; i++) {
    const size_t head = w->sass.line[i].target;
    if (head == KVM_SASS_NOWHERE || head > i || head <= at || !is_of_loop(w, i)) continue;
    if (head < target) return false;
    behind = true;
  }
  return behind;
}

/* Whether code that seldom runs begins there: within a few instructions, for the assembler mixes them with others. */
static bool rare_from(walker *w, size_t at) {
  for (size_t i = at; i < at + 4 && i < w->sass.n; i++) {
    if (rule_for(w, i, 1u << RARE)) return true;
    if (w->sass.line[i].target != KVM_SASS_NOWHERE) return false;
  }
  return false;
}

/* Whether a guarded branch or EXIT is taken. */
static bool taken(walker *w, size_t at) {
  if (w->tile == SIZE_MAX && w->sass.line[at].target != KVM_SASS_NOWHERE && is_of_loop(w, at)) return leads_to_loop(w, at);
  rule *r = rule_for(w, at, 1u << TAKE | 1u << SKIP | 1u << NTH);
  if (!r) return w->sass.line[at].target != KVM_SASS_NOWHERE && rare_from(w, at + 1);
  return r->kind == TAKE || (r->kind == NTH && ++r->used == strtoul(r->word, NULL, 10));
}

static size_t next_line(walker *w, size_t at) {
  const kvm_sass_line *l = &w->sass.line[at];
  const char *op = kvm_sass_operation(l->text);
  if (l->target == KVM_SASS_NOWHERE || !strncmp(op, "BRA.DIV", 7)) return at + 1;
  bool always = !kvm_sass_guarded(l->text) && strncmp(op, "BRA.U", 5) != 0;
  if (always) return l->target;
  if (l->target <= at) return close_loop(w, at);
  return taken(w, at) ? l->target : at + 1;
}

static bool has_loop(const walker *w) {
  for (size_t i = 0; i < w->own.n; i++)
    if (w->own.rule[i].kind == LOOP) return true;
  for (size_t i = 0; i < w->common.n; i++)
    if (w->common.rule[i].kind == LOOP) return true;
  return false;
}

static kv_status find_path(walker *w) {
  w->steps = w->end = 0;
  w->tile = SIZE_MAX;
  for (size_t at = 0; at < w->sass.n; at = next_line(w, at)) {
    const char *text = w->sass.line[at].text;
    if (w->steps == MOST_PATH) return lost(w, at, "the path has no end: a loop without `turns`");
    w->path[w->steps++] = (uint32_t)at;
    if (!strncmp(kvm_sass_operation(text), "EXIT", 4) && (!kvm_sass_guarded(text) || taken(w, at))) break;
    if (!strncmp(text, "RET", 3)) return lost(w, at, "the path runs into a subroutine");
  }
  if (w->tile == SIZE_MAX && has_loop(w)) return lost(w, w->path[w->steps - 1], "the path ends without the loop that `loop` names");
  if (w->tile == SIZE_MAX) w->tile = w->end = w->steps;
  return KV_OK;
}

/* ---- words ---- */

/* `bar` with its number and warps where they are written in the instruction. */
static void barrier_word(const char *op, char *word, size_t size) {
  unsigned id = 0, threads = 0;
  const char *at = strchr(op, ' ');
  const char *name = !strncmp(op, "BAR.ARV", 7) ? "arrive" : "bar";
  if (at && sscanf(at, " %x, %x", &id, &threads) == 2 && id < 16 && threads >= 32)
    (void)snprintf(word, size, "%s.%u/%u", name, id, threads / 32);
  else (void)snprintf(word, size, "%s", name);
}

/* The next of the words between commas. */
static void word_in_turn(rule *r, char *word, size_t size) {
  unsigned n = 1, at = 0;
  const char *from = r->word;
  for (const char *c = r->word; *c; c++) n += *c == ',';
  for (at = r->used++ % n; at; at--) from = strchr(from, ',') + 1;
  (void)snprintf(word, size, "%.*s", (int)strcspn(from, ","), from);
}

/* Behind the word of an instruction that a hint tells bank conflicts of. */
static void add_clash(walker *w, size_t line, const char *plain, char *word, size_t size) {
  bool shared = !strncmp(plain, "lds", 3) || !strncmp(plain, "sts", 3) || !strncmp(plain, "cp", 2);
  rule *r = shared ? rule_for(w, line, 1u << CLASH) : NULL;
  char clash[WORD];
  if (!r) return;
  word_in_turn(r, clash, sizeof clash);
  if (!strcmp(clash, "1")) return;
  if (!word[0]) (void)snprintf(word, size, "%s", plain);
  size_t n = strlen(word);
  (void)snprintf(word + n, size - n, "#%.8s", clash);
}

/* The word for a line; word[0] 0: as its name tells. */
static kv_status find_word(walker *w, size_t line, char *word, size_t size) {
  const char *op = kvm_sass_operation(w->sass.line[line].text),
             *plain = kvm_sass_word(w->sass.line[line].text);
  bool asks = !strncmp(op, "SYNCS.PHASECHK", 14);
  /* one that only asks stands for the wait behind it where a hint names its mbarrier */
  bool waits = asks && (strstr(op, "TRYWAIT") || rule_for(w, line, 1u << AWAIT));
  rule_kind kind = !strncmp(plain, "ldg", 3) || !strncmp(plain, "cp", 2) ? LOAD
                   : waits                                               ? AWAIT
                   : !strncmp(op, "SYNCS.ARRIVE", 12)                    ? POST
                   : !strncmp(op, "ARRIVES.LDGSTSBAR", 17)               ? LAND
                                                                         : RULE_KINDS;
  word[0] = '\0';
  if (asks && !waits) (void)snprintf(word, size, "ask");
  if (!strncmp(plain, "bar", 3)) barrier_word(op, word, size);
  if (kind != LOAD) add_clash(w, line, plain, word, size);
  if (kind == RULE_KINDS || !strncmp(op, "LDL", 3)) return KV_OK;
  rule *r = rule_for(w, line, 1u << kind);
  if (!r) return lost(w, line, kind == LOAD ? "no `load` says what it finds" : "no hint names its mbarrier");
  char where[WORD];
  word_in_turn(r, where, sizeof where);
  if (kind == AWAIT && !strcmp(where, "ask")) {
    (void)snprintf(word, size, "ask");
    return KV_OK;
  }
  if (kind == LOAD) (void)snprintf(word, size, "%.*s.%.40s", (int)strcspn(plain, "."), plain, where);
  else (void)snprintf(word, size, "%s.%.40s", rule_names[kind], where);
  if (kind == LOAD) add_clash(w, line, plain, word, size);
  return KV_OK;
}

/* Whether step i of the path is a branch that is taken. */
static bool jumps(const walker *w, size_t i) {
  size_t next = i + 1 == w->end && w->tile < w->end ? w->path[w->tile]
                : i + 1 < w->steps                  ? w->path[i + 1]
                                                    : w->path[i] + 1;
  return w->sass.line[w->path[i]].target != KVM_SASS_NOWHERE && next != w->path[i] + 1;
}

static kv_status write_part(walker *w, const char *name, size_t from, size_t to) {
  kvm_sass_writer out = {.f = w->out};
  kv_status st = KV_OK;
  if (from == to) return KV_OK;
  fprintf(w->out, "%-5s =\n", name);
  for (size_t i = from; !st && i < to; i++) {
    char word[64];
    st = find_word(w, w->path[i], word, sizeof word);
    if (!word[0] && jumps(w, i)) (void)snprintf(word, sizeof word, "jump");
    if (!st) kvm_sass_put(&out, &w->sass.line[w->path[i]], word[0] ? word : NULL);
  }
  kvm_sass_end(&out);
  return st;
}

/* The end of a section that is walked: its programs. */
static kv_status finish_section(walker *w) {
  const char *function = w->own.function[0] ? w->own.function : w->common.function;
  if (!w->walking) return KV_OK;
  w->walking = false;
  kv_status st = kvm_sass_read(w->listing, function[0] ? function : NULL, &w->sass, w->err);
  if (st) return st;
  w->turns = calloc(w->sass.n, sizeof *w->turns);
  st = w->turns ? find_path(w) : kv_fail(w->err, KV_ERR_MEMORY, "out of memory");
  if (!st) st = write_part(w, "begin", 0, w->tile);
  if (!st) st = write_part(w, "tile", w->tile, w->end);
  if (!st) st = write_part(w, "end", w->end, w->steps);
  free(w->turns);
  w->turns = NULL;
  kvm_sass_free(&w->sass);
  return st;
}

/* ---- the file ---- */

static kv_status start_section(walker *w, const char *line) {
  kv_status st = finish_section(w);
  w->in_walk = !strncmp(line, "[walk]", 6);
  w->walking = !strncmp(line, "[warps ", 7) || !strncmp(line, "[merge ", 7);
  w->own.n = 0;
  for (size_t i = 0; i < w->common.n; i++) w->common.rule[i].used = 0;
  w->own.function[0] = '\0';
  if (!st && !w->in_walk) fprintf(w->out, "\n%s\n", line);
  return st;
}

/* Splits `key = value` in place; false for anything else. */
static bool split_entry(char *line, char **key, char **value) {
  char *equal = strchr(line, '=');
  if (!equal || isspace((unsigned char)line[0])) return false;
  *value = equal + 1 + strspn(equal + 1, " \t");
  while (equal > line && isspace((unsigned char)equal[-1])) equal--;
  *equal = '\0';
  *key = line;
  return true;
}

static kv_status take_hint_line(walker *w, char *line) {
  char copy[1024], *key, *value;
  bool taken = false;
  line[strcspn(line, "\r\n")] = '\0';
  if (line[0] == '[') return start_section(w, line);
  if (!line[0] || ((w->walking || w->in_walk) && line[0] == ';')) return KV_OK;
  (void)snprintf(copy, sizeof copy, "%s", line);
  kv_status st = KV_OK;
  if ((w->walking || w->in_walk) && split_entry(copy, &key, &value)) st = take_rule(w, key, value, &taken);
  else if (w->in_walk) st = refuse(w, "neither [section] nor hint = text: ", line);
  if (!st && !taken) fprintf(w->out, "%s\n", line);
  return st;
}

kv_status kvm_walk(const char *hints, const char *listing, FILE *out, kv_error *err) {
  walker *w = calloc(1, sizeof *w);
  char *line = NULL;
  size_t room = 0;
  kv_status st = KV_OK;
  FILE *f = w ? fopen(hints, "r") : NULL;
  if (!w) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  *w = (walker){.hints = hints, .listing = listing, .out = out, .err = err};
  w->path = malloc(MOST_PATH * sizeof *w->path);
  if (!w->path) st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
  else if (!f) st = kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", hints, strerror(errno));
  while (!st && getline(&line, &room, f) >= 0) {
    w->number++;
    st = take_hint_line(w, line);
  }
  if (!st) st = finish_section(w);
  if (f) (void)fclose(f);
  free(line);
  free(w->path);
  free(w);
  return st;
}
