/* clang-format off */
/* time_kernel.h - a kernel declared in a text file (models/kernels/): its structure, and what its warps do a tile.
 *
 *     [kernel]
 *     name        = my_kernel
 *     like        = split_verify      ; a kernel of kvm_kernel() whose structure holds where nothing else is said
 *     arch        = sm_90             ; whose instructions these are
 *     description = one line
 *     source      = where the structure comes from
 *     unset_marks = no wait           ; see below; may be left out
 *     [structure]                     ; any field of kvm_structure by its name: tile_tokens, stages, threads, ...
 *     registers   = 255
 *     [warps main]                    ; one section a kind of warps, at most 4; programs as in time_program.h
 *     count       = 8
 *     begin       = ...               ; before the first tile; may be left out
 *     tile        = ...               ; each tile, may go on over indented lines
 *     end         = ...               ; after the last
 *     fewer       = 1                 ; tiles that stand in `end` and not in `tile`, 1 to 4; may be left out, and needs
 *                                       instructions in `end`
 *
 *     [merge main]                    ; of a split kernel: the launch that merges partial results, at most 5
 *     registers = 88, shared_bytes = ..., count = 16, begin, tile, end: a tile is one turn over the partials
 *     teams     = 8                   ; blocks a unit of 8 query rows, and parts that its partials are shared out to
 *     at_once   = 9                   ; partials a turn and team
 *     room      = 125                 ; used where its blocks are at most that many hundredths of the SMs (0: always);
 *                                       of several the first that may be used
 *     [merge main rest]               ; another kind of warps of the same launch
 *
 * `units` in [structure] says how many units of 8 query rows a block must have for the program to be its own: a kernel
 * that is compiled for several numbers has a file each, of the same name.
 *
 * All `.row` loads of a tile together must be at least tile_tokens x row_bytes: with fewer a kernel would be
 * faster than its rows allow, and the file is refused. A section must not be there twice.
 *
 * A wait for a mark that nothing in its kind of warps sets is refused. Machine code of which rare paths were cut out may
 * have one: with `unset_marks = no wait` it is no wait.
 *
 * A file without [warps ...] declares a structure alone: it gets T0 to T4 and no time.
 */
/* clang-format on */
#ifndef KVM_TIME_KERNEL_H
#define KVM_TIME_KERNEL_H

#include "time_sm.h"
#include "verify.h"

typedef struct kvm_merge {
  unsigned teams, at_once, room;
  uint32_t registers, shared_bytes;
  kvm_block block;
} kvm_merge;
enum { KVM_MAX_MERGES = 5 };

typedef struct kvm_declared {
  char key[KVM_NAME]; /* the file's name without .ini */
  char name[KVM_NAME], like[KVM_NAME], arch[16], description[200], source[KVM_SOURCE];
  kvm_structure structure; /* its name and description point into this struct: do not copy it */
  unsigned launches;       /* kernels of the whole operation (1) */
  char unset[100]; /* a mark that is waited for and never set, where the file allows it: no wait; "" for none
                    */
  kvm_block block;         /* roles 0: no program */
  unsigned merges;         /* 0: the merge is estimated from its bytes */
  kvm_merge merge[KVM_MAX_MERGES];
} kvm_declared;

/* Reads one file. KV_ERR_INPUT names file and line or section. On success the caller frees with
 * kvm_declared_free(). */
kv_status kvm_declared_load(const char *path, kvm_declared **kernel, kv_error *err);
void kvm_declared_free(kvm_declared *kernel); /* NULL is fine */

/* All files of a folder, sorted by key. */
typedef struct kvm_declared_set {
  kvm_declared **kernel;
  size_t n;
} kvm_declared_set;
kv_status kvm_declared_load_all(const char *folder, kvm_declared_set *set, kv_error *err);
void kvm_declared_free_all(kvm_declared_set *set);

/* The declaration of a kernel by its name for architecture `sm`: the same name (or, none being of that name,
 * the same `like` and, unless tile is 0, tile_tokens) with the nearest architecture: the highest that is not
 * above sm, else the lowest. NULL when there is none. */
const kvm_declared *kvm_declared_find(const kvm_declared_set *set, const char *name, int sm, uint32_t tile);
/* The same for one problem on a GPU whose blocks may have `shared` bytes of shared memory (NaN: not known): of several
 * that differ in `units` the one whose units the problem has, of several that differ in shared_bytes the one with
 * the most that such a block may have, as the launcher takes it. */
const kvm_declared *kvm_declared_for(const kvm_declared_set *set, const char *name, int sm, uint32_t tile,
                                     const kvm_verify *problem, double shared);

/* Bytes of the rows that a program loads: the structure's row_bytes, else 1152 (576 values of bf16). A
 * program says nothing of a problem with other rows: kvm_declared_applies() is false there, and without a
 * program. */
uint32_t kvm_declared_row_bytes(const kvm_declared *kernel);
bool kvm_declared_applies(const kvm_declared *kernel, const kvm_verify *problem);

#endif
