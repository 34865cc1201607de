#include "audit_cubin.h"

#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of NVIDIA's ELF, as cuobjdump and nvdisasm print them. */
enum {
  STO_ENTRY = 0x10,        /* st_other of a kernel's symbol */
  OSABI_OLD = 0x33,        /* ABI 7, toolkits up to 12 */
  ATTR_MAX_THREADS = 0x05, /* .nv.info.KERNEL: three u32 */
  ATTR_FRAME_SIZE = 0x11,  /* .nv.info: symbol, bytes */
  ATTR_MIN_STACK = 0x12,
  ATTR_REGCOUNT = 0x2f,
  COMPAT_ARCH = 0x09, /* .nv.compat: 1 for 'a' */
  RESERVED_SHARED = 1024,
  FAULT_AROUND = 65536,
  GIVE_BACK = 8 << 20
};

static uint16_t u16(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32(const unsigned char *p) { return (uint32_t)u16(p) | (uint32_t)u16(p + 2) << 16; }

typedef struct bytes {
  const unsigned char *at;
  size_t size;
} bytes;

/* A section's bytes in the file; empty where it has none or lies outside. */
static bytes section_bytes(Elf *elf, const GElf_Shdr *h) {
  size_t size = 0;
  const char *raw = elf_rawfile(elf, &size);
  if (!raw || h->sh_type == SHT_NOBITS || h->sh_offset > size || h->sh_size > size - h->sh_offset)
    return (bytes){NULL, 0};
  return (bytes){(const unsigned char *)raw + h->sh_offset, (size_t)h->sh_size};
}

/* Walks the records of .nv.info and .nv.compat: u8 format, u8 attribute, u16 value or length. */
typedef struct record {
  unsigned format, attribute;
  uint16_t value;
  bytes more;
} record;

static bool next_record(bytes *left, record *r) {
  if (left->size < 4) return false;
  r->format = left->at[0];
  r->attribute = left->at[1];
  r->value = u16(left->at + 2);
  size_t more = r->format == 4 ? r->value : 0;
  if (more > left->size - 4) return false;
  r->more = (bytes){left->at + 4, more};
  *left = (bytes){left->at + 4 + more, left->size - 4 - more};
  return true;
}

static const char *section_name(Elf *elf, size_t strings, const GElf_Shdr *h) {
  const char *name = elf_strptr(elf, strings, h->sh_name);
  return name ? name : "";
}

/* .nv.compat starts with a zero byte pair in some toolkits; its records are of four bytes, so look at each. */
static int compat_arch(bytes b) {
  for (size_t i = 0; i + 4 <= b.size; i++)
    if (b.at[i] == 2 && b.at[i + 1] == COMPAT_ARCH) return b.at[i + 2];
  return -1;
}

void kva_cubin_target(Elf *elf, const GElf_Ehdr *header, kva_target *target) {
  bool old = header->e_ident[EI_OSABI] == OSABI_OLD;
  unsigned flags = header->e_flags, sm = old ? flags & 0xff : flags >> 8 & 0xff;
  bool a = old ? flags & 0x800 : flags & 0x8;
  size_t strings;
  *target = (kva_target){.sm = sm};
  if (elf_getshdrstrndx(elf, &strings)) strings = 0;
  for (Elf_Scn *s = NULL; strings && !a && (s = elf_nextscn(elf, s));) {
    GElf_Shdr h;
    if (!gelf_getshdr(s, &h)) continue;
    const char *name = section_name(elf, strings, &h);
    bytes b = section_bytes(elf, &h);
    char arch[32];
    if (!strcmp(name, ".nv.compat")) a = compat_arch(b) == 1;
    (void)snprintf(arch, sizeof arch, "sm_%ua", sm);
    if (!strcmp(name, ".note.nv.tkinfo") && b.at) a = memmem(b.at, b.size, arch, strlen(arch)) != NULL;
  }
  if (a) target->suffix = 'a';
}

/* What is known of the code in one section: a row of the cubin's table, by section index. */
typedef struct code_section {
  bytes text;
  int32_t registers, shared, max_threads;
  bool dynamic;
  bool entry; /* a kernel's; else a function that kernels call */
} code_section;

typedef struct cubin {
  const kva_cubin_options *options;
  Elf *elf;
  size_t strings, sections;
  code_section *section; /* [sections] */
  Elf_Scn *symbols;
  bytes info; /* .nv.info */
  int32_t *registers, *stack; /* [symbol_count], -1 unknown */
  size_t symbol_count;
  kva_kernel functions; /* what sections that are no kernel's hold together */
  size_t touched; /* bytes of the mapping in use, about */
} cubin;

static void take_kernel_info(code_section *s, bytes info) {
  for (record r; next_record(&info, &r);)
    if (r.attribute == ATTR_MAX_THREADS && r.more.size >= 12) {
      uint64_t n = (uint64_t)u32(r.more.at) * u32(r.more.at + 4) * u32(r.more.at + 8);
      if (n && n <= 1024) s->max_threads = (int32_t)n;
    }
}

/* .nv.shared.K and .nv.info.K name K's code section in sh_info. A .nv.shared.K of no static bytes is there because the
 * module has an extern array; whether K uses it, its instructions tell. */
static void take_section(cubin *c, const GElf_Shdr *h, size_t index) {
  const char *name = section_name(c->elf, c->strings, h);
  code_section *owner = h->sh_info < c->sections ? &c->section[h->sh_info] : NULL;
  uint64_t reserved = c->options->sm >= 90 ? RESERVED_SHARED : 0;
  if (!strncmp(name, ".text.", 6)) {
    c->section[index].text = section_bytes(c->elf, h);
    if (c->section[index].registers < 0 && h->sh_info >> 24) c->section[index].registers = (int32_t)(h->sh_info >> 24);
  } else if (!strcmp(name, ".nv.info")) {
    c->info = section_bytes(c->elf, h);
  } else if (owner && !strncmp(name, ".nv.info.", 9)) {
    take_kernel_info(owner, section_bytes(c->elf, h));
  } else if (owner && !strncmp(name, ".nv.shared.", 11)) {
    uint64_t bytes_static = h->sh_size > reserved ? h->sh_size - reserved : 0;
    owner->shared = bytes_static < INT32_MAX ? (int32_t)bytes_static : INT32_MAX;
    owner->dynamic = bytes_static == 0;
  }
  if (h->sh_type == SHT_SYMTAB) c->symbols = elf_getscn(c->elf, index);
}

static void take_symbol_info(cubin *c) {
  bytes left = c->info;
  for (record r; next_record(&left, &r);) {
    if (r.more.size < 8) continue;
    uint32_t symbol = u32(r.more.at), value = u32(r.more.at + 4);
    if (symbol >= c->symbol_count || value > INT32_MAX) continue;
    if (r.attribute == ATTR_REGCOUNT) c->registers[symbol] = (int32_t)value;
    if (r.attribute == ATTR_FRAME_SIZE || (r.attribute == ATTR_MIN_STACK && c->stack[symbol] < 0))
      c->stack[symbol] = (int32_t)value;
  }
}

/* Loads, stores, copies and barriers that go to shared memory, by the low nine bits of the opcode. */
static bool touches_shared(unsigned opcode) {
  switch (opcode & 0x1ff) {
    case 0x184: /* LDS */
    case 0x188: /* STS */
    case 0x18c: /* ATOMS */
    case 0x03b: /* LDSM */
    case 0x1ae: /* LDGSTS */
    case 0x1a7: /* SYNCS */
    case 0x1b2:
    case 0x1ba: /* UBLKCP */
    case 0x1b4: /* UTMALDG */
    case 0x1ea: /* UTC*MMA */
    case 0x1f0: /* HGMMA */
    case 0x1f3: return true;
    default: return false;
  }
}

/* What a pass over code sees besides the counts. */
typedef struct seen_in_code {
  bool shared; /* uses shared memory */
  bool calls;
} seen_in_code;

static seen_in_code count_instructions(bytes text, unsigned sm, kva_kernel *k) {
  seen_in_code seen = {false, false};
  enum { CALL_ABSOLUTE = 0x143, CALL_RELATIVE = 0x144 }; /* low nine bits */
  enum { NOP = 0x918, EXIT = 0x94d, TRAP = 0x95c, BRA = 0x947 };
  for (size_t i = 0; i + 16 <= text.size; i += 16) {
    unsigned opcode = u16(text.at + i) & 0xfffu;
    int f = kva_opcode_feature(opcode, sm);
    seen.shared |= touches_shared(opcode);
    seen.calls |= (opcode & 0x1ff) == CALL_ABSOLUTE || (opcode & 0x1ff) == CALL_RELATIVE;
    if (opcode == TRAP) k->traps++;
    if (opcode != NOP && opcode != BRA) k->instructions++;
    if (f >= 0) {
      k->count[f]++;
      k->features |= KVA_BIT(f);
    }
  }
  return seen;
}

/* Touching one page of a file maps the 64 KB round it, so pages go back by what was touched, the whole cubin at once. */
static void give_back(cubin *c) {
  size_t size = 0;
  const char *raw = elf_rawfile(c->elf, &size);
  if (c->options->mapped && raw && c->touched > GIVE_BACK) {
    kva_release(c->options->mapped, (const unsigned char *)raw, size);
    c->touched = 0;
  }
}

static void add_functions(const cubin *c, kva_kernel *k) {
  k->features |= c->functions.features;
  k->instructions += c->functions.instructions;
  k->traps += c->functions.traps;
  for (size_t f = 0; f < KVA_FEATURES; f++) k->count[f] += c->functions.count[f];
}

static void give_kernel(cubin *c, size_t index, const GElf_Sym *symbol, const char *name, kva_kernel_visit visit,
                        void *context) {
  const code_section *s = &c->section[symbol->st_shndx];
  int32_t registers = c->registers[index] >= 0 ? c->registers[index] : s->registers;
  kva_kernel k = {.name = name,
                  .name_length = strlen(name),
                  .registers = registers,
                  .shared = s->shared < 0 ? 0 : s->shared,
                  .stack = c->stack[index],
                  .max_threads = s->max_threads,
                  .dynamic_shared = s->dynamic};
  if (c->options->code && c->options->sm >= 70 && s->text.at) {
    seen_in_code seen = count_instructions(s->text, c->options->sm, &k);
    if (seen.calls) add_functions(c, &k);
    k.dynamic_shared &= seen.shared;
    c->touched += s->text.size + FAULT_AROUND;
  }
  visit(context, &k);
  give_back(c);
}

/* What is wrong, or NULL. */
static const char *read_sections(cubin *c) {
  if (elf_getshdrnum(c->elf, &c->sections) || elf_getshdrstrndx(c->elf, &c->strings)) return "no section table";
  c->section = calloc(c->sections + 1, sizeof *c->section);
  if (!c->section) return "out of memory";
  for (size_t i = 0; i < c->sections; i++)
    c->section[i] = (code_section){.registers = -1, .shared = -1, .max_threads = -1};
  for (Elf_Scn *s = NULL; (s = elf_nextscn(c->elf, s));) {
    GElf_Shdr h;
    size_t index = elf_ndxscn(s);
    if (!gelf_getshdr(s, &h) || index >= c->sections) return "a section header that libelf cannot read";
    take_section(c, &h, index);
    c->touched += 256;
    give_back(c);
  }
  return c->symbols ? NULL : "no symbol table";
}

static bool is_kernel(const cubin *c, const GElf_Sym *symbol) {
  return GELF_ST_TYPE(symbol->st_info) == STT_FUNC && (symbol->st_other & STO_ENTRY) &&
         symbol->st_shndx != SHN_UNDEF && symbol->st_shndx < c->sections;
}

static const char *read_symbols(cubin *c, kva_kernel_visit visit, void *context) {
  GElf_Shdr h;
  Elf_Data *data = elf_getdata(c->symbols, NULL);
  if (!data || !gelf_getshdr(c->symbols, &h)) return "a symbol table that libelf cannot read";
  c->symbol_count = data->d_size / gelf_fsize(c->elf, ELF_T_SYM, 1, EV_CURRENT);
  c->registers = malloc((c->symbol_count + 1) * sizeof *c->registers);
  c->stack = malloc((c->symbol_count + 1) * sizeof *c->stack);
  if (!c->registers || !c->stack) return "out of memory";
  memset(c->registers, 0xff, (c->symbol_count + 1) * sizeof *c->registers); /* all -1 */
  memset(c->stack, 0xff, (c->symbol_count + 1) * sizeof *c->stack);
  take_symbol_info(c);
  for (size_t i = 0; i < c->symbol_count; i++) {
    GElf_Sym symbol;
    if (!gelf_getsym(data, (int)i, &symbol)) return "a symbol that libelf cannot read";
    if (is_kernel(c, &symbol)) c->section[symbol.st_shndx].entry = true;
  }
  for (size_t i = 0; c->options->code && c->options->sm >= 70 && i < c->sections; i++)
    if (!c->section[i].entry && c->section[i].text.at)
      (void)count_instructions(c->section[i].text, c->options->sm, &c->functions);
  for (size_t i = 0; i < c->symbol_count; i++) {
    GElf_Sym symbol;
    if (!gelf_getsym(data, (int)i, &symbol) || !is_kernel(c, &symbol)) continue;
    const char *name = elf_strptr(c->elf, h.sh_link, symbol.st_name);
    if (!name) return "a kernel's name lies outside the string table";
    give_kernel(c, i, &symbol, name, visit, context);
  }
  return NULL;
}

kv_status kva_cubin_kernels(const unsigned char *data, size_t size, const kva_cubin_options *options,
                            kva_kernel_visit visit, void *context, kv_error *err) {
  (void)elf_version(EV_CURRENT);
  cubin c = {.options = options, .elf = elf_memory((char *)(uintptr_t)data, size)};
  GElf_Ehdr header;
  const char *wrong = "not an ELF file";
  if (c.elf && elf_kind(c.elf) == ELF_K_ELF && gelf_getehdr(c.elf, &header)) {
    wrong = header.e_machine == KVA_EM_CUDA ? read_sections(&c) : "an ELF file, but not of a GPU";
    if (!wrong) wrong = read_symbols(&c, visit, context);
  }
  free(c.section);
  free(c.registers);
  free(c.stack);
  if (c.elf) (void)elf_end(c.elf);
  return wrong ? kv_fail(err, KV_ERR_INPUT, "machine code: %s", wrong) : KV_OK;
}
