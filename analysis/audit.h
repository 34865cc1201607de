/* audit.h - can a library's kernels run on this GPU? The audit of files and its verdicts.
 *
 * Three steps: collect (audit_collect.c: walk, unpack, read kernels), judge (audit_judge.c: one verdict a kernel and
 * GPU, gathered by family), tell (audit_text.c, audit_json.c, audit_h5.c). All is read from the files alone; nothing
 * is run.
 */
#ifndef KVA_AUDIT_H
#define KVA_AUDIT_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "audit_container.h"
#include "audit_host.h"
#include "audit_isa.h"
#include "audit_names.h"
#include "kv_status.h"

#define KVA_AUDIT_SCHEMA "audit-1" /* of the JSON and of the dataset */

/* ---- collect ---- */

/* A kernel as one entry holds it. -1 where unknown. */
typedef struct kva_variant {
  uint32_t name;  /* index in kva_audit.names */
  uint32_t entry; /* index in its file's entries */
  uint64_t features;
  int32_t registers, shared, stack, max_threads;
  uint32_t instructions;
  uint32_t traps;
  bool dynamic_shared;
  bool sass; /* features and counts are nvdisasm's, finer than our own count */
  uint16_t count[KVA_FEATURES]; /* saturates */
} kva_variant;

/* An entry, after its file was unmapped. */
typedef struct kva_held {
  unsigned kind;
  kva_target target;
  kva_packing packing;
  uint16_t version_major, version_minor;
  bool bare, in_data;
  uint64_t flags, stored, size;
  uint64_t code_hash; /* FNV-1a of the unpacked payload; 0 where not asked for */
  uint32_t kernels;
  char *problem; /* NULL if read whole */
} kva_held;

typedef struct kva_file {
  char *name;
  uint64_t bytes;
  kva_origin origin;
  kva_held *entry; /* [entries] */
  size_t entries;
  kva_variant *variant; /* [variants], by entry, then in the entry's order */
  size_t variants;
  kva_launch *launch; /* [launches], by name: shared memory that the host code asks for */
  size_t launches;
  char problem[256];
} kva_file;

typedef struct kva_audit {
  kva_file *file; /* [files] */
  size_t files, capacity;
  kva_names names;      /* kernels, mangled */
  kva_names families;
  uint32_t *family_of;  /* [names.count] after kva_audit_families */
  kva_walk_counts walked;
  char **problem; /* [problems]: one line each, file first */
  size_t problems;
} kva_audit;

typedef struct kva_collect_options {
  bool entries_only; /* list entries, unpack nothing */
  bool code;         /* count machine instructions */
  bool hash;         /* fill code_hash: for comparing versions */
  unsigned threads;  /* 0: one a processor */
  const regex_t *sass; /* non-NULL: kernels whose demangled name matches are put through nvdisasm too */
  void (*progress)(void *context, uint64_t files);
  void *context;
} kva_collect_options;

/* Adds what `path` (file, folder, archive, wheel) holds. A damaged member is noted in audit->problem and left out; a
 * path that cannot be opened is an error. Zero *audit first. */
kv_status kva_audit_add(kva_audit *audit, const char *path, const kva_collect_options *options, kv_error *err);
/* One object in memory; the same. */
kv_status kva_audit_add_memory(kva_audit *audit, const char *name, const unsigned char *data, size_t size,
                               const kva_collect_options *options, kv_error *err);
/* Fills families and family_of for the names seen so far. */
kv_status kva_audit_families(kva_audit *audit, kv_error *err);
void kva_audit_free(kva_audit *audit);

/* ---- judge ---- */

typedef enum kva_verdict {
  KVA_NATIVE, /* machine code runs */
  KVA_JIT,    /* PTX is compiled by the driver at load */
  KVA_STUB,   /* code is there for this GPU, but it is an empty body or a trap: compiled out */
  KVA_TOO_LARGE, /* code is there that runs, but the host asks for more shared memory than the GPU has */
  KVA_CANNOT, /* neither */
  KVA_VERDICTS
} kva_verdict;

typedef enum kva_rebuild {
  KVA_NOTHING,       /* runs as it is */
  KVA_FLAG,          /* another -gencode is enough */
  KVA_GUARD,         /* all its instructions exist, but code built for this very GPU is compiled out: a guard in the source */
  KVA_SMALLER_TILES, /* shared memory above the GPU's limit, static or asked for by the host code */
  KVA_REWRITE,       /* instructions that no target of this GPU has */
  KVA_UNKNOWN,       /* compiled out for every target in the file: the body is not there to look at */
  KVA_REBUILDS
} kva_rebuild;

const char *kva_verdict_name(kva_verdict verdict); /* "runs natively", ... */
const char *kva_verdict_key(kva_verdict verdict);  /* "native", ... for JSON */
const char *kva_rebuild_key(kva_rebuild rebuild);  /* "nothing", "flag", "guard", "smaller-tiles", "rewrite", "unknown" */

/* A kernel of a file, all its variants together. */
typedef struct kva_judged {
  uint32_t name, family;
  kva_verdict verdict;
  kva_rebuild rebuild;
  uint32_t variant;     /* the one that decides: it runs, or comes nearest (index in the file's variants) */
  uint32_t loaded;      /* the one that the driver takes; UINT32_MAX for KVA_CANNOT */
  uint32_t first, many; /* its variants: kva_judgement.order[first .. first + many) */
  uint32_t dynamic;     /* bytes of shared memory the host code asks for at launch; 0: not found */
  uint64_t missing;     /* features that no target of the GPU has, in the variant that needs the fewest */
  kva_target flag;      /* for KVA_FLAG: the target to build for */
} kva_judged;

/* A family of a file: what its kernels share. */
typedef struct kva_group {
  uint32_t family;
  uint32_t kernels[KVA_VERDICTS]; /* by verdict */
  uint32_t rebuild[KVA_REBUILDS];
  kva_verdict worst;
  kva_rebuild hardest;
  uint64_t missing;       /* union */
  uint64_t features;      /* union over all variants */
  uint64_t count[KVA_FEATURES];
  uint32_t example;       /* index in kva_judgement.kernel: the first with the worst verdict */
  uint64_t code_targets;  /* bit i: kva_judgement.target[i] has machine code of it */
  uint64_t ptx_targets;
  int32_t registers_low, registers_high, shared_high; /* over machine code; -1 unknown */
  uint32_t dynamic_high; /* bytes of shared memory asked for at launch; 0: not found */
  bool dynamic_shared;
} kva_group;

typedef struct kva_judgement {
  unsigned sm;
  const kva_limits *limits; /* NULL: not in our table */
  kva_judged *kernel;       /* [kernels], by family then name */
  size_t kernels;
  uint32_t *order;          /* variants grouped by kernel */
  kva_group *group;         /* [groups], worst verdict first, then by family name */
  size_t groups;
  kva_target target[64];    /* the distinct targets of the file; what is past 64 is left out of the bit sets */
  size_t targets;
} kva_judgement;

/* Judges the kernels of a file for compute capability sm; only those whose demangled name matches `only` (may be
 * NULL). Needs kva_audit_families. */
kv_status kva_judge(const kva_audit *audit, const kva_file *file, unsigned sm, const regex_t *only,
                    kva_judgement *judgement, kv_error *err);
void kva_judgement_free(kva_judgement *judgement);

/* All files' kernels held against one GPU: what --check says. */
typedef struct kva_checked {
  size_t kernels, idle; /* all; those that do not run */
  size_t picked;        /* of the idle: in plain data alone, where the library itself picks a kernel for the GPU it finds */
  uint32_t first;       /* name of the first idle one (index in kva_audit.names) */
} kva_checked;
kv_status kva_check(const kva_audit *audit, unsigned sm, const regex_t *only, kva_checked *checked, kv_error *err);

/* One sentence why a kernel's group has its verdict, and one what a rebuild takes. */
void kva_explain(const kva_audit *audit, const kva_file *file, const kva_judgement *judgement, const kva_group *group,
                 char *why, size_t why_size, char *rebuild, size_t rebuild_size);

/* The columns of the compatibility map. */
extern const unsigned kva_map_columns[];
extern const size_t kva_map_column_count;

/* ---- tell ---- */

typedef struct kva_tell {
  unsigned sm;          /* 0: map only */
  const regex_t *only;  /* --kernels; kernels are listed one by one then */
  bool every_family;    /* list families that run too */
  bool idle;            /* list the kernels that do not run, one by one */
  const char *command;  /* for the dataset's history */
} kva_tell;

kv_status kva_tell_text(FILE *out, const kva_audit *audit, const kva_tell *tell, kv_error *err);
kv_status kva_tell_json(FILE *out, const kva_audit *audit, const kva_tell *tell, kv_error *err);
kv_status kva_tell_h5(const char *path, const kva_audit *audit, const kva_tell *tell, kv_error *err);
/* The entries as `cuobjdump --list-elf --list-ptx` lists them. */
kv_status kva_tell_list(FILE *out, const kva_audit *audit, kv_error *err);

#endif
