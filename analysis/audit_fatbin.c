/* The fatbin container and the ELF files that hold it. */
#include <gelf.h>
#include <libelf.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#include "audit_container.h"
#include "audit_cubin.h"

enum { FATBIN_HEADER = 16, ENTRY_HEADER_MIN = 64 };
#define FATBIN_MAGIC 0xBA55ED50u
#define FLAG_LZ4 UINT64_C(0x2000)
#define FLAG_ZSTD UINT64_C(0x8000)
#define FLAG_OLD_PACKING UINT64_C(0x1000)
#define FLAG_A UINT64_C(0x100000)
#define FLAG_F UINT64_C(0x200000)

static uint16_t u16(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32(const unsigned char *p) { return (uint32_t)u16(p) | (uint32_t)u16(p + 2) << 16; }
static uint64_t u64(const unsigned char *p) { return (uint64_t)u32(p) | (uint64_t)u32(p + 4) << 32; }

static void note(kva_entries *e, const char *what, uint64_t offset) {
  if (!e->problem[0])
    (void)snprintf(e->problem, sizeof e->problem, "at offset %llu: %s", (unsigned long long)offset, what);
}

static kv_status push(kva_entries *e, const kva_entry *entry, kv_error *err) {
  if (e->count == e->capacity) {
    size_t capacity = e->capacity ? 2 * e->capacity : 64;
    kva_entry *more = realloc(e->entry, capacity * sizeof *more);
    if (!more) return kv_fail(err, KV_ERR_MEMORY, "list of fatbin entries: out of memory");
    e->entry = more;
    e->capacity = capacity;
  }
  e->entry[e->count++] = *entry;
  return KV_OK;
}

void kva_entries_free(kva_entries *e) {
  free(e->entry);
  *e = (kva_entries){0};
}

static kva_packing packing_of(uint64_t flags, const unsigned char *payload, uint64_t stored, uint32_t compressed) {
  if (!compressed) return KVA_PACK_NONE;
  if (flags & FLAG_ZSTD) return KVA_PACK_ZSTD;
  if (flags & FLAG_LZ4) return KVA_PACK_LZ4;
  return stored >= 4 && u32(payload) == 0xFD2FB528u ? KVA_PACK_ZSTD : KVA_PACK_UNKNOWN;
}

/* Reads the entry header at p, of which `room` bytes lie in the fatbin. What is wrong with it, or NULL. */
static const char *read_entry(const unsigned char *p, uint64_t room, kva_entry *entry, uint64_t *whole) {
  if (room < ENTRY_HEADER_MIN) return "an entry header is cut off";
  uint64_t header = u32(p + 4), padded = u64(p + 8), compressed = u32(p + 16);
  if (header < ENTRY_HEADER_MIN || header > room) return "an entry header's size is out of range";
  if (padded > room - header) return "an entry's payload reaches past its fatbin";
  if (compressed > padded) return "an entry's compressed size is larger than its payload";
  uint64_t flags = u64(p + 40);
  *entry = (kva_entry){.kind = u16(p),
                       .target = {u32(p + 28), flags & FLAG_A ? 'a' : flags & FLAG_F ? 'f' : '\0'},
                       .version_minor = u16(p + 24),
                       .version_major = u16(p + 26),
                       .flags = flags,
                       .payload = p + header,
                       .stored = compressed ? compressed : padded,
                       .size = compressed ? u64(p + 56) : padded};
  entry->packing = packing_of(flags, entry->payload, entry->stored, (uint32_t)compressed);
  *whole = header + padded;
  return NULL;
}

static kv_status list_fatbin(const kva_object *o, uint64_t at, uint64_t end, bool in_data, kva_entries *e,
                             kv_error *err) {
  while (at < end) {
    kva_entry entry;
    uint64_t whole = 0;
    const char *wrong = read_entry(o->data + at, end - at, &entry, &whole);
    if (wrong) {
      note(e, wrong, at);
      return KV_OK;
    }
    entry.offset = (uint64_t)(entry.payload - o->data);
    entry.in_data = in_data;
    kv_status st = push(e, &entry, err);
    if (st) return st;
    at += whole;
  }
  return KV_OK;
}

/* Plain data may hold the magic number by chance, or the tables of a compiler: there, a first entry of a known kind and
 * target must follow. */
static bool is_fatbin(const kva_object *o, uint64_t at, uint64_t end) {
  kva_entry entry;
  uint64_t whole, header = u16(o->data + at + 6);
  if (u16(o->data + at + 4) != 1 || header != FATBIN_HEADER) return false;
  if (read_entry(o->data + at + header, end - at - header, &entry, &whole)) return false;
  if (entry.kind != KVA_KIND_PTX && entry.kind != KVA_KIND_CODE && entry.kind != KVA_KIND_LTO) return false;
  return whole <= u64(o->data + at + 8) && entry.target.sm >= 10 && entry.target.sm < 1000;
}

/* A region holds fatbins one after the other, with zero bytes up to the next multiple of 8 (or more) between; plain
 * data holds anything between them. */
static kv_status list_region(const kva_object *o, uint64_t at, uint64_t end, bool in_data, kva_entries *e,
                             kv_error *err) {
  enum { STEP = 1 << 24 }; /* give back what was walked over: the kernel maps 64 KB round every header touched */
  const unsigned char *data = o->data;
  uint64_t held = at;
  while (at + FATBIN_HEADER <= end) {
    if (at - held > STEP) {
      kva_release(o, data + held, at - held);
      held = at;
    }
    if (u32(data + at) != FATBIN_MAGIC || u16(data + at + 4) == 0 || (in_data && !is_fatbin(o, at, end))) {
      if (!in_data && u64(data + at)) e->skipped += 8;
      at += 8;
      continue;
    }
    uint64_t header = u16(data + at + 6), size = u64(data + at + 8);
    if (header < FATBIN_HEADER || header > end - at || size > end - at - header) {
      note(e, "a fatbin reaches past its section", at);
      return KV_OK;
    }
    kv_status st = list_fatbin(o, at + header, at + header + size, in_data, e, err);
    if (st) return st;
    at = (at + header + size + 7) & ~UINT64_C(7);
  }
  if (in_data) kva_release(o, data + held, end - held);
  return KV_OK;
}

typedef struct region {
  uint64_t at, end;
} region;

/* The section called `name`; false if there is none with bytes in the file. */
static bool find_section(Elf *elf, size_t size, const char *name, region *r, kva_entries *e) {
  size_t strings;
  if (elf_getshdrstrndx(elf, &strings)) return false;
  for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s));) {
    GElf_Shdr h;
    if (!gelf_getshdr(s, &h) || h.sh_type == SHT_NOBITS || !h.sh_size) continue;
    const char *here = elf_strptr(elf, strings, h.sh_name);
    if (!here || strcmp(here, name)) continue;
    if (h.sh_offset > size || h.sh_size > size - h.sh_offset) {
      note(e, "the section with device code reaches past the end of the file", h.sh_offset);
      return false;
    }
    *r = (region){h.sh_offset, h.sh_offset + h.sh_size};
    return true;
  }
  return false;
}

/* Fatbins outside the two sections made for them. */
static kv_status list_data(const kva_object *o, Elf *elf, kva_entries *e, kv_error *err) {
  uint64_t left = o->size; /* sections that lie over each other are searched no further than the file is long */
  size_t strings;
  kv_status st = KV_OK;
  if (elf_getshdrstrndx(elf, &strings)) return KV_OK;
  for (Elf_Scn *s = NULL; !st && (s = elf_nextscn(elf, s));) {
    GElf_Shdr h;
    if (!gelf_getshdr(s, &h) || h.sh_type != SHT_PROGBITS || !(h.sh_flags & SHF_ALLOC)) continue;
    const char *name = elf_strptr(elf, strings, h.sh_name);
    if ((h.sh_flags & SHF_EXECINSTR) || !name || !strcmp(name, ".nv_fatbin") || !strcmp(name, "__nv_relfatbin")) continue;
    if (h.sh_offset > o->size || h.sh_size > left) continue;
    left -= h.sh_size;
    uint64_t room = o->size - h.sh_offset, bytes = h.sh_size < room ? h.sh_size : room;
    st = list_region(o, (h.sh_offset + 7) & ~UINT64_C(7), h.sh_offset + bytes, true, e, err);
  }
  return st;
}

static kv_status list_host(const kva_object *o, Elf *elf, kva_entries *e, kv_error *err) {
  static const struct {
    const char *section;
    kva_origin origin;
  } place[] = {{".nv_fatbin", KVA_LINKED}, {"__nv_relfatbin", KVA_RELOCATABLE}};
  for (size_t i = 0; i < 2 && !e->count; i++) {
    region r;
    if (!find_section(elf, o->size, place[i].section, &r, e)) continue;
    kv_status st = list_region(o, (r.at + 7) & ~UINT64_C(7), r.end, false, e, err);
    if (st) return st;
    if (e->count) e->origin = place[i].origin;
  }
  size_t sections = 1;
  kv_status st;
  if (e->count || elf_getshdrnum(elf, &sections) || sections) {
    st = list_data(o, elf, e, err);
  } else {
    st = list_region(o, 0, o->size, false, e, err); /* stripped of its section table: look for the magic number */
    e->skipped = 0;
  }
  if (e->count && e->origin == KVA_NO_DEVICE_CODE) e->origin = KVA_LINKED;
  return st;
}

static kv_status list_elf(const kva_object *o, kva_entries *e, kv_error *err) {
  const unsigned char *data = o->data;
  size_t size = o->size;
  kv_status st = KV_OK;
  (void)elf_version(EV_CURRENT);
  Elf *elf = elf_memory((char *)(uintptr_t)data, size); /* libelf only reads; its prototype lacks the const */
  GElf_Ehdr header;
  if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header)) {
    note(e, "an ELF header that libelf cannot read", 0);
  } else if (header.e_machine == KVA_EM_CUDA) {
    kva_entry entry = {.kind = KVA_KIND_CODE, .payload = data, .stored = size, .size = size, .bare = true};
    kva_cubin_target(elf, &header, &entry.target);
    e->origin = KVA_CUBIN;
    st = push(e, &entry, err);
  } else {
    st = list_host(o, elf, e, err);
  }
  if (elf) (void)elf_end(elf);
  return st;
}

/* PTX text starts, after comments and blanks, with .version. */
static bool is_ptx(const unsigned char *data, size_t size) {
  size_t at = 0, look = size < 65536 ? size : 65536;
  while (at < look) {
    if (data[at] == ' ' || data[at] == '\t' || data[at] == '\n' || data[at] == '\r') {
      at++;
    } else if (look - at > 2 && data[at] == '/' && data[at + 1] == '/') {
      while (at < look && data[at] != '\n') at++;
    } else {
      return look - at > 9 && !memcmp(data + at, ".version", 8);
    }
  }
  return false;
}

kv_status kva_list_entries(const kva_object *o, kva_entries *e, kv_error *err) {
  const unsigned char *data = o->data;
  size_t size = o->size;
  *e = (kva_entries){.origin = KVA_NO_DEVICE_CODE};
  kv_status st = KV_OK;
  if (size >= 4 && !memcmp(data, "\177ELF", 4)) {
    st = list_elf(o, e, err);
  } else if (size >= FATBIN_HEADER && u32(data) == FATBIN_MAGIC) {
    e->origin = KVA_FATBIN;
    st = list_region(o, 0, size, false, e, err);
  } else if (is_ptx(data, size)) {
    kva_entry entry = {.kind = KVA_KIND_PTX, .payload = data, .stored = size, .size = size, .bare = true};
    e->origin = KVA_PTX_TEXT;
    st = push(e, &entry, err);
  }
  if (st) kva_entries_free(e);
  return st;
}

void kva_buffer_free(kva_buffer *buffer) {
  if (buffer->data) (void)munmap(buffer->data, buffer->capacity);
  *buffer = (kva_buffer){0};
}

static kv_status room_for(kva_buffer *buffer, size_t size, kv_error *err) {
  if (buffer->capacity >= size) return KV_OK;
  kva_buffer_free(buffer);
  void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return kv_fail(err, KV_ERR_MEMORY, "out of memory for %zu bytes of unpacked code", size);
  *buffer = (kva_buffer){data, size};
  return KV_OK;
}

kv_status kva_unpack(const kva_entry *entry, kva_buffer *buffer, const unsigned char **data, size_t *size,
                     kv_error *err) {
  unsigned long long at = entry->offset, want = entry->size;
  *data = entry->payload;
  *size = (size_t)entry->stored;
  if (entry->packing == KVA_PACK_NONE) return KV_OK;
  if (entry->packing == KVA_PACK_UNKNOWN)
    return kv_fail(err, KV_ERR_INPUT, "offset %llu: packed in a way that is not known here (flags 0x%llx)", at,
                   (unsigned long long)entry->flags);
  uint64_t ratio = entry->packing == KVA_PACK_LZ4 ? 256 : KVA_RATIO_MAX;
  if (want == 0 || want > KVA_UNPACKED_MAX ||
      (want / ratio > entry->stored && (want > KVA_UNPACKED_FREE || entry->packing == KVA_PACK_LZ4)))
    return kv_fail(err, KV_ERR_INPUT, "offset %llu: %llu stored bytes said to unpack to %llu: refused", at,
                   (unsigned long long)entry->stored, want);
  if (entry->packing == KVA_PACK_ZSTD) {
    unsigned long long frame = ZSTD_getFrameContentSize(entry->payload, (size_t)entry->stored);
    if (frame != ZSTD_CONTENTSIZE_UNKNOWN && frame != want)
      return kv_fail(err, KV_ERR_INPUT, "offset %llu: the header says %llu unpacked bytes, the zstd frame does not",
                     at, want);
  }
  kv_status st = room_for(buffer, (size_t)want, err);
  if (st) return st;
  size_t got = 0;
  if (entry->packing == KVA_PACK_ZSTD) {
    got = ZSTD_decompress(buffer->data, (size_t)want, entry->payload, (size_t)entry->stored);
  } else if (entry->stored <= INT32_MAX) {
    int n = LZ4_decompress_safe((const char *)entry->payload, (char *)buffer->data, (int)entry->stored, (int)want);
    got = n > 0 ? (size_t)n : 0;
  }
  if (got != want)
    return kv_fail(err, KV_ERR_INPUT, "offset %llu: a %s stream that does not unpack to its %llu bytes", at,
                   entry->packing == KVA_PACK_ZSTD ? "zstd" : "LZ4", want);
  *data = buffer->data;
  *size = (size_t)want;
  return KV_OK;
}
