#include "time_program.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bytes a lane, or matrices, follow the name; waves: 128 B each. */
static const struct op_name {
  const char *name;
  kvm_op op;
  int bytes; /* a lane; 0: moves nothing */
} op_names[] = {
    {"alu", KVM_ALU, 0},    {"sfu", KVM_SFU, 0},       {"mma", KVM_MMA_OP, 0},    {"lds4", KVM_LDS, 4},
    {"lds8", KVM_LDS, 8},   {"lds16", KVM_LDS, 16},    {"sts4", KVM_STS, 4},      {"sts8", KVM_STS, 8},
    {"sts16", KVM_STS, 16}, {"ldsm1", KVM_LDSM, 4},    {"ldsm2", KVM_LDSM, 8},    {"ldsm4", KVM_LDSM, 16},
    {"stsm1", KVM_STSM, 4}, {"stsm2", KVM_STSM, 8},    {"stsm4", KVM_STSM, 16},   {"shfl", KVM_SHFL, 4},
    {"ldg4", KVM_LDG, 4},   {"ldg8", KVM_LDG, 8},      {"ldg16", KVM_LDG, 16},    {"stg4", KVM_STG, 4},
    {"stg8", KVM_STG, 8},   {"stg16", KVM_STG, 16},    {"cp4", KVM_CP, 4},        {"cp8", KVM_CP, 8},
    {"cp16", KVM_CP, 16},   {"commit", KVM_COMMIT, 0}, {"group", KVM_GROUP, 0},   {"bar", KVM_BAR, 0},
    {"ask", KVM_ASK, 0},    {"jump", KVM_JUMP, 0},     {"arrive", KVM_ARRIVE, 0}, {"post", KVM_POST, 0},
    {"land", KVM_LAND, 0},  {"await", KVM_AWAIT, 0}};
static const char *const where_names[] = {"hot", "row", "again", "index"};

typedef struct parser {
  const char *at;
  size_t word; /* number of the current one, for messages */
  kvm_program *to;
  size_t room;
  kv_error *err;
} parser;

static kv_status bad(const parser *p, const char *word, const char *what) {
  return kv_fail(p->err, KV_ERR_INPUT, "program: word %zu, '%.24s': %s", p->word, word, what);
}

static kv_status append(parser *p, const kvm_step *s) {
  kvm_program *to = p->to;
  if (to->steps == KVM_MAX_STEPS) return bad(p, "", "more than 100000 instructions");
  if (to->steps == p->room) {
    size_t room = p->room ? 2 * p->room : 256;
    kvm_step *more = realloc(to->step, room * sizeof *more);
    if (!more) return kv_fail(p->err, KV_ERR_MEMORY, "program: out of memory");
    to->step = more;
    p->room = room;
  }
  to->step[to->steps++] = *s;
  return KV_OK;
}

/* A number of 1 to 65535 at *c; 0 when there is none. */
static unsigned number(const char **c) {
  unsigned long v = 0;
  while (isdigit((unsigned char)**c) && v <= 65535) v = v * 10 + (unsigned long)(*(*c)++ - '0');
  return v > 65535 ? 0 : (unsigned)v;
}

static int mark(char c) {
  return c >= 'a' && c < 'a' + KVM_MARKS ? c - 'a' : -1;
}

/* What follows a name's dot: WHERE, or the number of a barrier. */
static kv_status parse_where(parser *p, const char *word, const char **c, kvm_step *s) {
  if (s->op == KVM_BAR || s->op == KVM_ARRIVE || s->op >= KVM_POST) {
    bool counts = s->op == KVM_BAR || s->op == KVM_ARRIVE || s->op == KVM_AWAIT;
    if (!isdigit((unsigned char)**c)) return bad(p, word, "a barrier's number is 0 to 15");
    unsigned id = number(c), warps = 0;
    if (**c == '/') {
      (*c)++;
      warps = number(c);
    }
    if (id >= KVM_BARRIERS || (counts ? warps < 1 || warps > 64 : warps != 0))
      return bad(p, word, "a barrier is ID/WARPS, 0 to 15 and 1 to 64; post and land have ID alone");
    if (s->op == KVM_AWAIT && **c == '-') {
      (*c)++;
      s->bytes = (uint16_t)number(c);
    }
    s->barrier = (uint8_t)id;
    s->barrier_warps = (uint8_t)warps;
    return KV_OK;
  }
  for (int i = 0; i < 4; i++) {
    size_t n = strlen(where_names[i]);
    if (strncmp(*c, where_names[i], n) != 0 || isalpha((unsigned char)(*c)[n])) continue;
    if (s->op != KVM_LDG && s->op != KVM_CP) return bad(p, word, "only ldg and cp say where");
    s->where = (uint8_t)i;
    *c += n;
    if (**c != '/') return KV_OK;
    (*c)++;
    unsigned bytes = number(c);
    if (!bytes) return bad(p, word, "bytes a warp are 1 to 65535");
    s->bytes = (uint16_t)bytes;
    s->waves = (uint8_t)((bytes + 127) / 128 > 255 ? 255 : (bytes + 127) / 128);
    return KV_OK;
  }
  return bad(p, word, "after the dot stands hot, row, again or index");
}

/* #CLASH of a shared-memory instruction. */
static kv_status parse_clash(parser *p, const char *word, const char **c, kvm_step *s) {
  bool shared = s->op == KVM_LDS || s->op == KVM_STS || s->op == KVM_LDSM || s->op == KVM_STSM;
  unsigned v = number(c);
  if (!shared && s->op != KVM_CP) return bad(p, word, "only lds, sts, ldsm, stsm and cp meet bank conflicts");
  if (v < 1 || v > 32) return bad(p, word, "a conflict is of 1 to 32 lanes");
  s->clash = (uint8_t)v;
  if (shared) s->waves = (uint8_t)(s->waves * v);
  return KV_OK;
}

/* #CLASH, *COUNT, :CYCLES and marks. */
static kv_status parse_rest(parser *p, const char *word, const char *c, const char *end, kvm_step *s) {
  bool cycles_given = false;
  while (c < end) {
    char kind = *c++;
    if (kind == '#') {
      kv_status st = parse_clash(p, word, &c, s);
      if (st) return st;
    } else if (kind == '*' || kind == ':') {
      bool digit = isdigit((unsigned char)*c);
      unsigned v = number(&c);
      if (!digit || (!v && !(kind == '*' && s->op == KVM_GROUP)))
        return bad(p, word, "a count or cycles of 1 to 65535 is missing");
      if (kind == '*') s->count = (uint16_t)v;
      else s->cycles = (uint16_t)v;
      cycles_given |= kind == ':';
    } else if (kind == '<') {
      if (mark(*c) < 0) return bad(p, word, "marks are a to f");
      while (c < end && mark(*c) >= 0) s->waits |= (uint8_t)(1u << mark(*c++));
    } else if (kind == '>' || kind == '^') {
      if (mark(*c) < 0) return bad(p, word, "marks are a to f");
      *(kind == '>' ? &s->set : &s->read) = (uint8_t)mark(*c++);
    } else return bad(p, word, "not understood; see time_program.h");
  }
  if (!cycles_given) s->cycles = s->op == KVM_GROUP || !s->count ? 1 : s->count;
  if (s->op != KVM_GROUP && s->cycles < s->count) return bad(p, word, "fewer cycles than instructions");
  return KV_OK;
}

/* One word: alike instructions that are not alu become steps of their own, the stalls spread evenly. */
static kv_status parse_word(parser *p, const char *end) {
  const char *word = p->at, *c = word;
  kvm_step s = {.set = KVM_NO_MARK, .read = KVM_NO_MARK, .count = 1, .clash = 1};
  const struct op_name *o = NULL;
  while (c < end && isalnum((unsigned char)*c)) c++;
  for (size_t i = 0; i < sizeof op_names / sizeof *op_names; i++)
    if (strlen(op_names[i].name) == (size_t)(c - word) &&
        !strncmp(word, op_names[i].name, (size_t)(c - word)))
      o = &op_names[i];
  if (!o) return bad(p, word, "no such instruction");
  s.op = (uint8_t)o->op;
  s.bytes = (uint16_t)(o->bytes * 32);
  s.waves = (uint8_t)(o->bytes / 4);
  if (*c == '.' && c < end) {
    c++;
    kv_status st = parse_where(p, word, &c, &s);
    if (st) return st;
  } else if (s.op == KVM_ARRIVE || s.op >= KVM_POST) return bad(p, word, "needs .ID");
  kv_status st = parse_rest(p, word, c, end, &s);
  if (st || s.op == KVM_ALU || s.op == KVM_GROUP) return st ? st : append(p, &s);
  unsigned n = s.count, left = s.cycles;
  s.count = 1;
  for (unsigned i = 0; !st && i < n; i++) {
    s.cycles = (uint16_t)(left / (n - i));
    left -= s.cycles;
    st = append(p, &s);
    s.waits = 0;
  }
  return st;
}

static void blanks(parser *p) {
  while (isspace((unsigned char)*p->at)) p->at++;
}

/* Words up to the end of the text or, inside a repeat, its bracket. */
static kv_status parse_words(parser *p, int depth) {
  kv_status st = KV_OK;
  for (blanks(p); !st && *p->at && *p->at != ')'; blanks(p)) {
    const char *end = p->at, *after = p->at;
    p->word++;
    unsigned times = number(&after);
    if (after > p->at) {
      size_t from = p->to->steps;
      const char *word = p->at;
      if (*after != '(' || !times || depth > 8)
        return bad(p, word, "a repeat is COUNT( ... ), at most 8 deep");
      p->at = after + 1;
      st = parse_words(p, depth + 1);
      if (!st && *p->at != ')') return bad(p, word, "the bracket is not closed");
      size_t to = p->to->steps;
      p->at += !st;
      for (unsigned i = 1; !st && i < times; i++)
        for (size_t k = from; !st && k < to; k++) {
          kvm_step copy = p->to->step[k];
          st = append(p, &copy);
        }
      continue;
    }
    while (*end && !isspace((unsigned char)*end) && *end != ')') end++;
    st = parse_word(p, end);
    p->at = end;
  }
  if (!st && !depth && *p->at == ')') return bad(p, p->at, "a bracket without COUNT(");
  return st;
}

kv_status kvm_program_parse(const char *text, kvm_program *program, kv_error *err) {
  *program = (kvm_program){0};
  parser p = {.at = text, .to = program, .err = err};
  kv_status st = parse_words(&p, 0);
  if (st) kvm_program_free(program);
  return st;
}

void kvm_program_free(kvm_program *program) {
  free(program->step);
  *program = (kvm_program){0};
}

double kvm_copy_passes(const kvm_step *cp) {
  return cp->clash > 1 && cp->bytes ? fmax(1, 128.0 * cp->clash / cp->bytes) : 1;
}

kvm_program_work kvm_program_count(const kvm_program *program) {
  kvm_program_work w = {0};
  for (size_t i = 0; i < program->steps; i++) {
    const kvm_step *s = &program->step[i];
    w.instructions += s->op == KVM_GROUP ? 1 : s->count;
    w.mma += s->op == KVM_MMA_OP;
    w.waves += (double)s->waves / (s->op == KVM_CP ? 1 : s->clash);
    w.barriers += s->op == KVM_BAR || s->op == KVM_ARRIVE || s->op >= KVM_POST;
    if (s->op == KVM_STG) w.store_bytes += s->bytes;
    if (s->op != KVM_LDG && s->op != KVM_CP) continue;
    if (s->where == KVM_ROW) w.row_bytes += s->bytes;
    if (s->where == KVM_AGAIN) w.again_bytes += s->bytes;
    if (s->where == KVM_INDEX) w.index_bytes += s->bytes;
  }
  return w;
}
