/* gpu.h - descriptions of GPUs: small text files (models/gpus/), one value a section, each with unit, kind
 * and source.
 *
 * A value that nobody has published is there without a `value` line and stays missing: callers report it,
 * nothing is filled in. Guesses exist only as kind `assumed`, with a range. Numbers are handed out in base
 * units (B, B/s, FLOP/s, Hz, s); the text as written is kept beside.
 */
#ifndef KVM_GPU_H
#define KVM_GPU_H

#include <stdbool.h>
#include <stddef.h>

#include "kv_status.h"

/* Where a value comes from, in falling order of trust but for UNKNOWN. */
typedef enum kvm_kind {
  KVM_MEASURED = 0,    /* by a benchmark, of ours or published */
  KVM_PROBE = 1,       /* tried out with a tool (the assembler accepts it) */
  KVM_SPEC = 2,        /* a maker's table */
  KVM_INFERENCE = 3,   /* computed from other values; the source says how */
  KVM_FROM_MEMORY = 4, /* common knowledge, not looked up */
  KVM_ASSUMED = 5,     /* a guess with a range */
  KVM_UNKNOWN = 6      /* no value */
} kvm_kind;
const char *kvm_kind_name(kvm_kind kind);
/* The same for people: "measured by others" where the source of a measured value does not begin with "own". */
const char *kvm_kind_words(kvm_kind kind, const char *source);

#define KVM_NAME 48
#define KVM_TEXT 96
#define KVM_SOURCE 512

typedef struct kvm_value {
  char name[KVM_NAME];     /* "dram_bw_spec" */
  char text[KVM_TEXT];     /* as written; "" when missing */
  char unit[24];           /* as written: "GB/s", "cycles", "1" */
  char source[KVM_SOURCE]; /* never "" */
  kvm_kind kind;           /* KVM_UNKNOWN exactly when there is no value */
  bool numeric;            /* text is a number; else a word ("GDDR7", "yes", "sm_90a") */
  bool ranged;             /* low and high were given */
  double number;           /* in base units; NaN unless numeric */
  double low, high;        /* in base units; = number without a range */
} kvm_value;

typedef struct kvm_gpu {
  char key[KVM_NAME];  /* the file's name without .ini: "h200_sxm" */
  char name[KVM_TEXT]; /* "NVIDIA H200 SXM 141 GB" */
  char arch[16];       /* "sm_90" */
  bool arch_default;   /* the card that a bare `sm_90` means */
  char (*alias)[KVM_TEXT];
  size_t aliases;
  kvm_value *value; /* in the file's order */
  size_t values;
} kvm_gpu;

/* Reads one description. KV_ERR_INPUT names file, line and remedy: a line that is too long, an unknown key,
 * kind or unit, a value twice, a number that is negative, not finite or outside its range, a source that is
 * missing. On success *gpu is the caller's, to be given to kvm_gpu_free(); on failure it holds nothing. */
kv_status kvm_gpu_load(const char *path, kvm_gpu *gpu, kv_error *err);
void kvm_gpu_free(kvm_gpu *gpu); /* safe on a zeroed one */
/* Adds the values of a description of something on the card (its memory): a file whose section [header] holds
 * a name. What *gpu has a value for already stays. Moves the values: pointers into them are void. Errors as
 * kvm_gpu_load().
 */
kv_status kvm_gpu_complete(kvm_gpu *gpu, const char *path, const char *header, kv_error *err);

/* The value of that name, or NULL if the description does not list it. A listed one may still be KVM_UNKNOWN.
 */
const kvm_value *kvm_gpu_value(const kvm_gpu *gpu, const char *name);
/* The number in base units; NaN when it is missing, unknown or no number. */
double kvm_gpu_number(const kvm_gpu *gpu, const char *name);
/* Is `name` an architecture (sm_120, sm_120a, compute_90, 12.0)? Its number (120, 90) or 0. */
int kvm_arch_number(const char *name);
/* 120 for "sm_120", 90 for "sm_90"; 0 if the architecture is not of that form. */
int kvm_gpu_sm(const kvm_gpu *gpu);

/* All descriptions of a folder, sorted by key. */
typedef struct kvm_gpus {
  kvm_gpu *gpu;
  size_t n;
} kvm_gpus;
kv_status kvm_gpus_load(const char *folder, kvm_gpus *gpus, kv_error *err);
void kvm_gpus_free(kvm_gpus *gpus);

/* Finds a GPU by key, name, alias, a driver's product name or an architecture (sm_120, sm_120a, 12.0: its
 * default card). Case, blanks, dashes, underscores, "NVIDIA" and "GeForce" do not matter. *gpu points into
 * *gpus. KV_ERR_USAGE for none, with the nearest names, and for a name that fits several, with all of them.
 */
kv_status kvm_gpus_find(const kvm_gpus *gpus, const char *name, const kvm_gpu **gpu, kv_error *err);

#endif
