/* Kernels and their instructions from PTX text: one pass over its statements. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_cubin.h"

/* A position in the text. Statements end with ';', blocks are braces; comments are skipped as blanks. */
typedef struct cursor {
  const char *at, *end;
} cursor;

static void skip_blanks(cursor *c) {
  while (c->at < c->end) {
    if (isspace((unsigned char)*c->at)) {
      c->at++;
    } else if (c->end - c->at > 1 && c->at[0] == '/' && c->at[1] == '/') {
      const char *line = memchr(c->at, '\n', (size_t)(c->end - c->at));
      c->at = line ? line + 1 : c->end;
    } else if (c->end - c->at > 1 && c->at[0] == '/' && c->at[1] == '*') {
      const char *close = memmem(c->at + 2, (size_t)(c->end - c->at) - 2, "*/", 2);
      c->at = close ? close + 2 : c->end;
    } else {
      return;
    }
  }
}

/* The next run of characters of a name, an opcode or a number; length 0 at other characters. A table, because PTX of
 * hundreds of megabytes passes through here. */
static size_t word_length(const cursor *c) {
#define TEN 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
#define LETTERS TEN, TEN, 1, 1, 1, 1, 1, 1
  static const unsigned char in_word[256] = {['$'] = 1, ['%'] = 1, ['.'] = 1,        ['0'] = TEN, [':'] = 1,
                                             ['A'] = LETTERS,      ['_'] = 1, ['a'] = LETTERS};
  size_t n = 0, room = (size_t)(c->end - c->at);
  while (n < room && in_word[(unsigned char)c->at[n]]) n++;
  return n;
#undef LETTERS
#undef TEN
}

static bool is_word(const cursor *c, size_t n, const char *word) { return n == strlen(word) && !memcmp(c->at, word, n); }

/* Everything up to and past the next ';' or up to a brace. */
static void skip_statement(cursor *c) {
  while (c->at < c->end && *c->at != ';' && *c->at != '{' && *c->at != '}') {
    if (*c->at == '"') { /* a string may hold any of them */
      const char *close = memchr(c->at + 1, '"', (size_t)(c->end - c->at) - 1);
      c->at = close ? close : c->end - 1;
    }
    c->at++;
  }
  if (c->at < c->end && *c->at == ';') c->at++;
}

/* Bytes of `.shared .align 16 .b8 name[2][512];` with the cursor after .shared; 0 for one without a size. */
static uint64_t shared_bytes(cursor c) {
  uint64_t element = 1, total = 1;
  bool sized = false, array = false;
  while (c.at < c.end && *c.at != ';') {
    size_t n = word_length(&c);
    if (n > 2 && *c.at == '.' && strchr("bfsu", c.at[1]) && isdigit((unsigned char)c.at[2])) {
      element = strtoull(c.at + 2, NULL, 10) / 8;
    } else if (*c.at == '[') {
      array = true;
      c.at++;
      skip_blanks(&c);
      uint64_t k = 0;
      for (; c.at < c.end && isdigit((unsigned char)*c.at); c.at++) k = k < UINT32_MAX ? 10 * k + (uint64_t)(*c.at - '0') : k;
      sized |= k > 0;
      total = total < UINT32_MAX ? total * (k ? k : 1) : total;
      continue;
    } else if (*c.at == '=') {
      break;
    }
    c.at += n ? n : 1;
  }
  return array && !sized ? 0 : element * total;
}

/* A shared array declared at module level: it belongs to the kernels that name it. */
typedef struct shared_array {
  const char *name;
  size_t length;
  uint64_t bytes; /* 0: extern, given at launch */
} shared_array;

typedef struct module {
  shared_array array[64]; /* more than these go unnoticed */
  size_t arrays;
  kva_kernel *kernel;
  size_t count, capacity;
  kva_kernel functions; /* what the module's .func bodies hold together */
  bool failed;          /* out of memory */
  bool *calls;          /* [capacity]: kernel has a call */
  cursor *body;         /* [capacity] */
} module;

static void add_features(kva_kernel *to, uint64_t set) {
  to->features |= set;
  for (unsigned f = 0; f < KVA_FEATURES; f++)
    if (set & KVA_BIT(f)) to->count[f]++;
}

/* One statement inside a body. */
static void body_statement(cursor *c, kva_kernel *k, bool *calls) {
  if (*c->at == '@') { /* a guard */
    c->at++;
    if (c->at < c->end && *c->at == '!') c->at++;
    c->at += word_length(c);
    skip_blanks(c);
  }
  size_t n = word_length(c);
  const char *word = c->at;
  if (n && *word == '.') {
    if (is_word(c, n, ".shared")) {
      cursor after = {word + n, c->end};
      uint64_t bytes = shared_bytes(after);
      k->shared = (int32_t)((uint64_t)k->shared + bytes < INT32_MAX ? (uint64_t)k->shared + bytes : INT32_MAX);
      k->dynamic_shared |= bytes == 0;
    }
  } else if (n && isalpha((unsigned char)*word)) {
    k->instructions++;
    add_features(k, kva_ptx_features(word, n));
    if (n >= 4 && !memcmp(word, "call", 4)) *calls = true;
    if (is_word(c, n, "trap")) k->traps++;
    const char *stop = memchr(word, ';', (size_t)(c->end - word));
    size_t length = (size_t)((stop ? stop : c->end) - word);
    if (length > 12 && length < 4096 && memmem(word, length, "%cluster_", 9)) add_features(k, KVA_BIT(KVA_CLUSTER));
  }
  if (n == 0 && c->at < c->end && *c->at != ';' && *c->at != '{' && *c->at != '}') c->at++;
  skip_statement(c);
}

/* A body in braces, with the cursor on the first. */
static void read_body(cursor *c, kva_kernel *k, bool *calls) {
  size_t depth = 0;
  while (c->at < c->end) {
    skip_blanks(c);
    if (c->at >= c->end) return;
    if (*c->at == '{') {
      depth++;
      c->at++;
    } else if (*c->at == '}') {
      c->at++;
      if (--depth == 0) return;
    } else {
      size_t n = word_length(c);
      const char *colon = n ? memchr(c->at, ':', n) : NULL;
      if (colon && colon + 1 == c->at + n && c->at[0] != '.') /* a label */
        c->at += n;
      else
        body_statement(c, k, calls);
    }
  }
}

static kva_kernel *new_kernel(module *m) {
  if (m->count == m->capacity) {
    size_t capacity = m->capacity ? 2 * m->capacity : 16;
    kva_kernel *kernel = realloc(m->kernel, capacity * sizeof *kernel);
    if (kernel) m->kernel = kernel;
    bool *calls = realloc(m->calls, capacity * sizeof *calls);
    if (calls) m->calls = calls;
    cursor *body = realloc(m->body, capacity * sizeof *body);
    if (body) m->body = body;
    if (!kernel || !calls || !body) {
      m->failed = true;
      return NULL;
    }
    m->capacity = capacity;
  }
  m->calls[m->count] = false;
  m->body[m->count] = (cursor){NULL, NULL};
  m->kernel[m->count] = (kva_kernel){.registers = -1, .stack = -1, .max_threads = -1};
  return &m->kernel[m->count++];
}

/* After .entry or .func: parameters in parentheses (for .func also a result before the name), directives, then a
 * body or ';'. */
static void read_function(cursor *c, module *m, bool entry) {
  kva_kernel *k = entry ? new_kernel(m) : &m->functions;
  bool ignored = false, *calls = entry && k ? &m->calls[m->count - 1] : &ignored;
  if (!k) return;
  skip_blanks(c);
  size_t n = word_length(c);
  if (entry) {
    k->name = c->at;
    k->name_length = n;
  }
  while (c->at < c->end && *c->at != '{' && *c->at != ';') {
    n = word_length(c);
    if (entry && (is_word(c, n, ".maxntid") || is_word(c, n, ".reqntid"))) {
      uint64_t threads = 1;
      c->at += n;
      for (skip_blanks(c); c->at < c->end && (isdigit((unsigned char)*c->at) || strchr(", \t", *c->at));) {
        uint64_t x = 0;
        while (c->at < c->end && isdigit((unsigned char)*c->at)) x = x < 100000 ? 10 * x + (uint64_t)(*c->at++ - '0') : (c->at++, x);
        if (x && threads < 100000) threads *= x;
        while (c->at < c->end && strchr(", \t", *c->at) && *c->at) c->at++;
      }
      k->max_threads = threads <= 1024 ? (int32_t)threads : -1;
    } else if (is_word(c, n, ".reqnctapercluster")) {
      add_features(k, KVA_BIT(KVA_CLUSTER));
      c->at += n;
    } else {
      c->at += n ? n : 1;
    }
    skip_blanks(c);
  }
  const char *start = c->at;
  if (c->at < c->end && *c->at == '{') read_body(c, k, calls);
  if (entry) m->body[m->count - 1] = (cursor){start, c->at};
}

/* The array's name is the last word before its brackets. */
static void add_array(module *m, cursor c, uint64_t bytes) {
  shared_array a = {.bytes = bytes};
  while (c.at < c.end && *c.at != '[' && *c.at != ';') {
    size_t n = word_length(&c);
    if (n) a = (shared_array){c.at, n, bytes};
    c.at += n ? n : 1;
  }
  if (a.length && m->arrays < sizeof m->array / sizeof *m->array) m->array[m->arrays++] = a;
}

static bool names_array(cursor body, const shared_array *a) {
  while (body.at && body.at < body.end) {
    const char *hit = memmem(body.at, (size_t)(body.end - body.at), a->name, a->length);
    if (!hit) return false;
    cursor word = {hit, body.end};
    if (word_length(&word) == a->length) return true;
    body.at = hit + a->length;
  }
  return false;
}

static void read_module(cursor *c, module *m, kva_target *target) {
  bool external = false;
  while (c->at < c->end) {
    skip_blanks(c);
    size_t n = word_length(c);
    if (is_word(c, n, ".target")) {
      char text[32];
      c->at += n;
      skip_blanks(c);
      n = word_length(c);
      (void)snprintf(text, sizeof text, "%.*s", (int)(n < 31 ? n : 31), c->at);
      (void)kva_target_parse(text, target);
      c->at += n;
    } else if (is_word(c, n, ".entry") || is_word(c, n, ".func")) {
      bool entry = n == 6;
      c->at += n;
      read_function(c, m, entry);
      if (m->failed) return;
      external = false;
    } else if (is_word(c, n, ".extern")) {
      external = true;
      c->at += n;
    } else if (is_word(c, n, ".shared")) {
      cursor after = {c->at + n, c->end};
      add_array(m, after, external ? 0 : shared_bytes(after));
      skip_statement(c);
      external = false;
    } else if (c->at < c->end && (*c->at == ';' || *c->at == '}')) {
      external = false;
      c->at++;
    } else if (c->at < c->end) {
      c->at += n ? n : 1;
    }
  }
}

static void give_kernels(module *m, kva_kernel_visit visit, void *context) {
  for (size_t i = 0; i < m->count; i++) {
    kva_kernel *k = &m->kernel[i];
    if (m->calls[i]) {
      k->features |= m->functions.features;
      k->traps += m->functions.traps;
      k->instructions += m->functions.instructions; /* a body may be in a function of its own */
      for (unsigned f = 0; f < KVA_FEATURES; f++) k->count[f] += m->functions.count[f];
    }
    uint64_t shared = (uint64_t)k->shared;
    for (size_t a = 0; a < m->arrays; a++)
      if (names_array(m->body[i], &m->array[a])) {
        shared += m->array[a].bytes;
        k->dynamic_shared |= m->array[a].bytes == 0;
      }
    k->shared = shared < INT32_MAX ? (int32_t)shared : INT32_MAX;
    if (k->name_length) visit(context, k);
  }
}

kv_status kva_ptx_kernels(const char *text, size_t size, kva_target *target, kva_kernel_visit visit, void *context,
                          kv_error *err) {
  cursor c = {text, text + strnlen(text, size)}; /* PTX in a fatbin ends with a zero byte */
  module m = {0};
  read_module(&c, &m, target);
  if (!m.failed) give_kernels(&m, visit, context);
  free(m.kernel);
  free(m.calls);
  free(m.body);
  return m.failed ? kv_fail(err, KV_ERR_MEMORY, "PTX: out of memory") : KV_OK;
}
