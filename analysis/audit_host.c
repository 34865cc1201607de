#include "audit_host.h"

#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTE_DYNAMIC_SHARED = 8, NEAR = 40, WINDOW = 192, FAR = 400, SHARED_MOST = 256 * 1024, STEP = 1 << 22 };

/* Where a handle is taken from: the address of the stub itself, or of the slot of the global offset table that holds
 * it. Both are the same all over a library, so the address serves as a key. */
typedef struct handle {
  uint64_t key;
  uint32_t name;
} handle;

typedef struct host {
  const kva_object *object;
  const unsigned char *text;
  size_t size;
  uint64_t address; /* of text in memory */
  struct {
    uint64_t address, offset, size;
  } section[64]; /* what lies in memory, to find strings */
  size_t sections;
  handle *handle; /* [handles], sorted by key after the first pass */
  size_t handles, capacity;
} host;

static int32_t i32(const unsigned char *p) {
  return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

/* lea REG, [rip + x] or mov REG, [rip + x] with this ModRM register at `at`: the address meant, or 0. */
static uint64_t rip_load(const host *h, size_t at, unsigned reg) {
  if (at + 7 > h->size) return 0;
  const unsigned char *p = h->text + at;
  unsigned rex = reg < 8 ? 0x48 : 0x4c, modrm = 0x05 | (reg & 7) << 3;
  if (p[0] != rex || (p[1] != 0x8d && p[1] != 0x8b) || p[2] != modrm) return 0;
  return h->address + at + 7 + (uint64_t)(int64_t)i32(p + 3);
}

/* The zero-terminated string at an address; NULL if there is none. */
static const char *string_at(const host *h, uint64_t address, size_t *length) {
  for (size_t i = 0; i < h->sections; i++) {
    if (address < h->section[i].address || address - h->section[i].address >= h->section[i].size) continue;
    uint64_t inside = address - h->section[i].address, left = h->section[i].size - inside;
    const char *s = (const char *)h->object->data + h->section[i].offset + inside;
    *length = strnlen(s, left < KVA_NAME_MAX ? (size_t)left : KVA_NAME_MAX);
    return *length && *length < left ? s : NULL;
  }
  return NULL;
}

static bool add_handle(host *h, uint64_t key, uint32_t name) {
  if (h->handles == h->capacity) {
    size_t capacity = h->capacity ? 2 * h->capacity : 256;
    handle *more = realloc(h->handle, capacity * sizeof *more);
    if (!more) return false;
    h->handle = more;
    h->capacity = capacity;
  }
  h->handle[h->handles++] = (handle){key, name};
  return true;
}

/* The load of a register nearest to `at`, at most `reach` bytes before or after. 0 if there is none. */
static uint64_t nearest_load(const host *h, size_t at, unsigned reg, size_t before, size_t after) {
  for (size_t d = 1; d <= before || d <= after; d++) {
    uint64_t address = d <= after && at + d < h->size ? rip_load(h, at + d, reg) : 0;
    if (!address && d <= before && d <= at) address = rip_load(h, at - d, reg);
    if (address) return address;
  }
  return 0;
}

/* Gives back what a pass has walked over, every STEP bytes; what is looked back at is read again. */
static void walked(const host *h, size_t at, size_t *held) {
  if (at - *held < STEP) return;
  kva_release(h->object, h->text + *held, at - *held);
  *held = at;
}

/* First pass: __cudaRegisterFunction(fatbin, handle in rsi, name in rdx, ...). */
static bool find_handles(host *h, const kva_names *names) {
  size_t held = 0;
  for (size_t at = 0; at + 7 <= h->size; at++) {
    walked(h, at, &held);
    uint64_t address = h->text[at] == 0x48 ? rip_load(h, at, 2) : 0;
    size_t length = 0;
    uint32_t name;
    const char *s = address && h->text[at + 1] == 0x8d ? string_at(h, address, &length) : NULL;
    if (!s || !kva_names_find(names, s, length, &name)) continue;
    uint64_t key = nearest_load(h, at, 6, NEAR, NEAR);
    if (key && !add_handle(h, key, name)) return false;
  }
  return true;
}

static int by_key(const void *a, const void *b) {
  const handle *x = a, *y = b;
  return x->key < y->key ? -1 : x->key > y->key;
}

static const handle *handle_of(const host *h, uint64_t key) {
  handle wanted = {.key = key};
  return key && h->handles ? bsearch(&wanted, h->handle, h->handles, sizeof wanted, by_key) : NULL;
}

/* The arguments of a call, by the nearest loads before it. Compilers put other work between, so the window is wide; a
 * call of the same function in between ends it. */
typedef struct arguments {
  const handle *kernel;
  bool attribute; /* esi is 8 */
  uint32_t bytes; /* edx; 0 where it is no constant */
} arguments;

/* The handle in rdi: loaded there, or moved from a register that was loaded before. */
static const handle *handle_passed(const host *h, size_t call, size_t from) {
  for (size_t p = call; p-- > from;) {
    const handle *found = handle_of(h, rip_load(h, p, 7));
    const unsigned char *m = h->text + p; /* mov rdi, REG is 48 89 ModRM, 4c 89 ModRM for r8 to r15 */
    if (!found && (m[0] == 0x48 || m[0] == 0x4c) && m[1] == 0x89 && (m[2] & 0xc7) == 0xc7) {
      unsigned reg = (unsigned)(m[2] >> 3 & 7) + (m[0] == 0x4c ? 8 : 0);
      found = handle_of(h, nearest_load(h, p, reg, FAR, 0));
    }
    if (found) return found;
  }
  return NULL;
}

static arguments arguments_of(const host *h, size_t call, size_t from) {
  arguments a = {0};
  if (call - from > WINDOW) from = call - WINDOW;
  for (size_t p = call; p-- > from;) {
    if (p + 5 > call || h->text[p + 4] != 0) continue;
    if (!a.attribute && h->text[p] == 0xbe && i32(h->text + p + 1) == ATTRIBUTE_DYNAMIC_SHARED) a.attribute = true;
    int32_t v = h->text[p] == 0xba && !a.bytes ? i32(h->text + p + 1) : 0;
    if (v >= 16 && v <= SHARED_MOST) a.bytes = (uint32_t)v;
  }
  if (a.attribute) a.kernel = handle_passed(h, call, from);
  return a;
}

static int by_launch(const void *a, const void *b) {
  const kva_launch *x = a, *y = b;
  if (x->name != y->name) return x->name < y->name ? -1 : 1;
  return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

/* A call's target, by its entry in the linkage table; 0 for another instruction. */
static uint64_t call_target(const host *h, size_t at) {
  if (at + 5 > h->size || h->text[at] != 0xe8) return 0;
  uint64_t target = h->address + at + 5 + (uint64_t)(int64_t)i32(h->text + at + 1);
  return target;
}

/* What cudaFuncSetAttribute is, is not asked of the symbols (a stripped library has none, a static runtime no linkage
 * table): it is the function that is called most often with a kernel's handle and the number 8. */
static uint64_t find_setter(const host *h) {
  static const unsigned char wanted[] = {0xbe, ATTRIBUTE_DYNAMIC_SHARED, 0, 0, 0}; /* mov esi, 8 */
  struct {
    uint64_t target;
    size_t votes;
  } seen[32] = {{0, 0}};
  size_t best = 0, held = 0;
  for (size_t at = 0; at + sizeof wanted <= h->size; at++) {
    walked(h, at, &held);
    if (h->text[at] != wanted[0] || memcmp(h->text + at, wanted, sizeof wanted)) continue;
    size_t call = at + sizeof wanted, i = 0;
    while (call < at + NEAR && !call_target(h, call)) call++;
    uint64_t target = call < at + NEAR ? call_target(h, call) : 0;
    if (!target || !arguments_of(h, call, at > NEAR ? at - NEAR : 0).kernel) continue;
    while (i < 32 && seen[i].target && seen[i].target != target) i++;
    if (i == 32) continue;
    seen[i].target = target;
    if (++seen[i].votes > seen[best].votes) best = i;
  }
  return seen[best].target;
}

/* Second pass: cudaFuncSetAttribute(handle, 8, bytes). */
static bool find_launches(host *h, kva_launch **launch, size_t *count) {
  uint64_t setter = h->handles ? find_setter(h) : 0;
  size_t capacity = 0, n = 0, last = 0, held = 0;
  for (size_t at = 0; setter && at + 5 <= h->size; at++) {
    walked(h, at, &held);
    if (h->text[at] != 0xe8 || call_target(h, at) != setter) continue;
    arguments a = arguments_of(h, at, last);
    last = at + 5;
    if (!a.kernel || !a.bytes) continue;
    if (n == capacity) {
      capacity = capacity ? 2 * capacity : 64;
      kva_launch *more = realloc(*launch, capacity * sizeof *more);
      if (!more) return false;
      *launch = more;
    }
    (*launch)[n++] = (kva_launch){a.kernel->name, a.bytes};
  }
  if (n) qsort(*launch, n, sizeof **launch, by_launch);
  *count = 0;
  for (size_t i = 0; i < n; i++)
    if (!*count || (*launch)[*count - 1].name != (*launch)[i].name) (*launch)[(*count)++] = (*launch)[i];
  return true;
}

/* Finds .text and what else lies in memory; false where there is nothing to look at. */
static bool find_sections(host *h, Elf *elf) {
  size_t strings, size = h->object->size;
  GElf_Ehdr header;
  if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header) || header.e_machine != EM_X86_64) return false;
  if (elf_getshdrstrndx(elf, &strings)) return false;
  for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s));) {
    GElf_Shdr sh;
    if (!gelf_getshdr(s, &sh) || sh.sh_type == SHT_NOBITS || !(sh.sh_flags & SHF_ALLOC)) continue;
    if (sh.sh_offset > size || sh.sh_size > size - sh.sh_offset) continue;
    const char *name = elf_strptr(elf, strings, sh.sh_name);
    if (name && !strcmp(name, ".text")) {
      h->text = h->object->data + sh.sh_offset;
      h->size = (size_t)sh.sh_size;
      h->address = sh.sh_addr;
    } else if (name && strcmp(name, ".nv_fatbin") && h->sections < sizeof h->section / sizeof *h->section) {
      h->section[h->sections].address = sh.sh_addr;
      h->section[h->sections].offset = sh.sh_offset;
      h->section[h->sections++].size = sh.sh_size;
    }
  }
  return h->size > 0;
}

kv_status kva_host_launches(const kva_object *object, const kva_names *names, kva_launch **launch, size_t *count,
                            kv_error *err) {
  host h = {.object = object};
  bool fine = true;
  *launch = NULL;
  *count = 0;
  (void)elf_version(EV_CURRENT);
  Elf *elf = elf_memory((char *)(uintptr_t)object->data, object->size);
  if (elf && find_sections(&h, elf)) {
    fine = find_handles(&h, names);
    if (h.handles) qsort(h.handle, h.handles, sizeof *h.handle, by_key);
    if (fine) fine = find_launches(&h, launch, count);
    kva_release(object, h.text, h.size);
  }
  if (elf) (void)elf_end(elf);
  free(h.handle);
  if (fine) return KV_OK;
  free(*launch);
  *launch = NULL;
  return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", object->name);
}
