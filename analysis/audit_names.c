#include "audit_names.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kva_arena {
  struct kva_arena *next;
  size_t used, size;
  char bytes[];
};

static char *arena_copy(kva_names *names, const char *text, size_t length) {
  struct kva_arena *a = names->arena;
  if (!a || a->size - a->used < length + 1) {
    size_t size = length + 1 > 65536 ? length + 1 : 65536;
    a = malloc(sizeof *a + size);
    if (!a) return NULL;
    *a = (struct kva_arena){.next = names->arena, .size = size};
    names->arena = a;
  }
  char *copy = a->bytes + a->used;
  memcpy(copy, text, length);
  copy[length] = '\0';
  a->used += length + 1;
  return copy;
}

static uint32_t hash(const char *s, size_t n) {
  uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
  return (uint32_t)(h ^ h >> 32);
}

static uint32_t *find_slot(const kva_names *names, const char *text, size_t length) {
  uint32_t i = hash(text, length) & (names->slots - 1);
  while (names->slot[i]) {
    const char *there = names->text[names->slot[i] - 1];
    if (!strncmp(there, text, length) && !there[length]) break;
    i = (i + 1) & (names->slots - 1);
  }
  return &names->slot[i];
}

static bool grow(kva_names *names) {
  if (names->count + 1 < names->capacity) return true;
  uint32_t capacity = names->capacity ? 2 * names->capacity : 256;
  char **text = realloc(names->text, capacity * sizeof *text);
  if (!text) return false;
  names->text = text;
  uint32_t *slot = calloc(2 * (size_t)capacity, sizeof *slot);
  if (!slot) return false;
  free(names->slot);
  names->slot = slot;
  names->slots = 2 * capacity;
  names->capacity = capacity;
  for (uint32_t i = 0; i < names->count; i++) *find_slot(names, text[i], strlen(text[i])) = i + 1;
  return true;
}

kv_status kva_names_add(kva_names *names, const char *text, size_t length, uint32_t *index, kv_error *err) {
  length = strnlen(text, length < KVA_NAME_MAX ? length : KVA_NAME_MAX);
  if (!grow(names)) return kv_fail(err, KV_ERR_MEMORY, "kernel names: out of memory");
  uint32_t *slot = find_slot(names, text, length);
  if (!*slot) {
    char *copy = arena_copy(names, text, length);
    if (!copy) return kv_fail(err, KV_ERR_MEMORY, "kernel names: out of memory");
    names->text[names->count] = copy;
    *slot = ++names->count;
  }
  *index = *slot - 1;
  return KV_OK;
}

bool kva_names_find(const kva_names *names, const char *text, size_t length, uint32_t *index) {
  if (!names->count) return false;
  uint32_t slot = *find_slot(names, text, length);
  if (slot) *index = slot - 1;
  return slot != 0;
}

void kva_names_free(kva_names *names) {
  while (names->arena) {
    struct kva_arena *next = names->arena->next;
    free(names->arena);
    names->arena = next;
  }
  free(names->text);
  free(names->slot);
  *names = (kva_names){0};
}

typedef struct demangling {
  char *out;
  size_t used, size;
  jmp_buf full;
} demangling;

/* The callback form of libiberty's demangler keeps nothing on the heap, so leaving it by longjmp leaks nothing. */
static void take_piece(const char *piece, size_t n, void *context) {
  demangling *d = context;
  size_t room = d->size - 1 - d->used, take = n < room ? n : room;
  memcpy(d->out + d->used, piece, take);
  d->used += take;
  if (take < n) longjmp(d->full, 1);
}

/* libiberty refuses names above some 1,000 characters unless told not to guard its recursion, and CUTLASS kernels
 * have 3,000. Up to DEMANGLE_MAX the recursion stays within 2 MB of stack whatever the name holds. */
enum { DEMANGLE_MAX = 8192 };

void kva_demangle(const char *mangled, char *out, size_t size) {
  demangling d = {.out = out, .size = size};
  bool whole = false;
  if (!strncmp(mangled, "_Z", 2) && strlen(mangled) <= DEMANGLE_MAX) {
    if (setjmp(d.full) == 0)
      whole = cplus_demangle_v3_callback(mangled, DMGL_ANSI | DMGL_NO_RECURSE_LIMIT, take_piece, &d) != 0;
    else
      whole = true; /* cut */
  }
  if (whole)
    out[d.used] = '\0';
  else
    (void)snprintf(out, size, "%s", mangled);
}

/* Copies a qualified name up to its template arguments or its end; returns where it stopped. */
static const char *head(const char *s, char *out, size_t size) {
  size_t n = 0;
  int paren = 0;
  for (; *s && n + 1 < size; s++) {
    if (*s == '(') paren++;
    if (*s == ')' && paren) paren--;
    if (!paren && (*s == '<' || *s == ',' || *s == '>' || *s == ' ')) break;
    out[n++] = *s;
  }
  out[n] = '\0';
  return s;
}

/* "MainloopSm90TmaGmma" and the like among the template arguments: the word that holds Sm and a number after some
 * letters, nearest to the front. */
static void main_loop(const char *args, char *out, size_t size) {
  static const char *const word[] = {"Mainloop", "Kernel", "Collective"};
  out[0] = '\0';
  for (size_t w = 0; w < sizeof word / sizeof *word && !out[0]; w++)
    for (const char *at = args; (at = strstr(at, word[w])) && !out[0]; at++) {
      size_t n = 0;
      while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
      const char *sm = memmem(at, n, "Sm", 2);
      if (sm && (size_t)(sm - at) + 2 < n && isdigit((unsigned char)sm[2]))
        (void)snprintf(out, size, "%.*s", (int)n, at);
    }
}

void kva_family(const char *demangled, char *out, size_t size) {
  static const char *const shell[] = {"cutlass::device_kernel", "cutlass::Kernel", "cutlass::Kernel2"};
  char outer[512], inner[512] = "", loop[128] = "";
  if (!strncmp(demangled, "void ", 5)) demangled += 5;
  const char *args = head(demangled, outer, sizeof outer);
  bool shelled = false;
  for (size_t i = 0; i < sizeof shell / sizeof *shell; i++) shelled |= !strcmp(outer, shell[i]);
  if (shelled && *args == '<') {
    const char *rest = head(args + 1, inner, sizeof inner);
    if (strstr(inner, "enable_") && *rest == '<') rest = head(rest + 1, inner, sizeof inner); /* a guard round X */
    main_loop(rest, loop, sizeof loop);
  }
  (void)snprintf(out, size, inner[0] ? loop[0] ? "%s<%s> [%s]" : "%s<%s>" : "%s", outer, inner, loop);
}
