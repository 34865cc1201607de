/* clang-format off */
/* time_program.h - what one warp does a tile, as text: the dependent chain of a kernel's loop.
 *
 * A program is a list of words; each is an instruction (or several alike) that the warp issues in order:
 *
 *     NAME[.WHERE][#CLASH][*COUNT][:CYCLES][<LETTERS][>LETTER][^LETTER]        and  COUNT( words ... )
 *
 *     #CLASH    shared memory alone: lanes that want one bank, so that each of its wavefronts is served that
 *               many times (1). That is time and no work: the ladder's W counts a wavefront once. Of cp:
 *               in how many passes it writes shared memory (one for each 128 B that it moves). A pass writes
 *               within one line of 128 B; chunks of 16 B that change places there need no second one
 *     *COUNT    that many of them, one after the other (1)
 *     :CYCLES   cycles from the first of them to the warp's next instruction, in all (1 each): the scheduling
 *               stalls of fixed-latency instructions
 *     <abc      before the first of them, waits until everything that set marks a, b and c has arrived
 *     >a        sets mark a: the result has arrived
 *     ^b        sets mark b when the operands have been read (registers may be overwritten)
 *
 * Marks are the letters a to f, as many as an SM's warp has. Instructions:
 *
 *     alu       anything of fixed latency: arithmetic, moves, predicates
 *     sfu       special function (ex2, rcp)
 *     mma       mma.sync m16n8k16 of bf16, 4096 flops
 *     lds4 lds8 lds16, sts4 sts8 sts16             shared memory, bytes a lane
 *     ldsm1 ldsm2 ldsm4, stsm1 stsm2 stsm4         ldmatrix, stmatrix
 *     shfl      shuffle, vote over lanes
 *     ldg4 ldg8 ldg16, stg4 stg8 stg16             global memory, bytes a lane, lanes side by side
 *     cp4 cp8 cp16      cp.async to shared memory; `commit` ends a group, `group*N` waits for all groups but the
 *               last N
 *     bar, bar.ID/N, arrive.ID/N                   barrier of all warps of the block, or of N warps under a number
 *               0 to 15
 *     post.ID, land.ID  counts one up on an mbarrier 0 to 15 of the block: at once; when all cp of this warp so far
 *               have arrived
 *     await.ID/N, await.ID/N-C                     a warp's k-th await of that ID goes on once k x N - C have been
 *               counted
 *     ask       a look at an mbarrier without waiting
 *     jump      a branch that is taken
 *
 * WHERE says what a load or cp finds: .row new rows of the pool, .again rows that the block fetched before in
 * the same tile, .index slot numbers not read yet, .hot whatever lies in the L1. Stores need none. A lane's
 * bytes times 32 are moved; a number after a slash says otherwise: `ldg8.index/32` moves 32 bytes a warp
 * (lanes share addresses).
 */
/* clang-format on */
#ifndef KVM_TIME_PROGRAM_H
#define KVM_TIME_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "kv_status.h"

typedef enum kvm_op {
  KVM_ALU,
  KVM_SFU,
  KVM_MMA_OP,
  KVM_LDS,
  KVM_STS,
  KVM_LDSM,
  KVM_STSM,
  KVM_SHFL,
  KVM_LDG,
  KVM_STG,
  KVM_CP,
  KVM_COMMIT,
  KVM_GROUP,
  KVM_ASK,
  KVM_JUMP,
  KVM_BAR,
  KVM_ARRIVE,
  KVM_POST,
  KVM_LAND,
  KVM_AWAIT,
  KVM_OPS
} kvm_op;
typedef enum kvm_where { KVM_HOT, KVM_ROW, KVM_AGAIN, KVM_INDEX } kvm_where;

enum { KVM_MARKS = 6, KVM_NO_MARK = KVM_MARKS, KVM_BARRIERS = 16, KVM_MAX_STEPS = 100000 };

/* One instruction of a warp, or a run of `count` alu. */
typedef struct kvm_step {
  uint8_t op, where;
  uint8_t waits;                  /* bit i: mark i must have arrived */
  uint8_t set, read;              /* mark set by the result, by the operands read; KVM_NO_MARK for none */
  uint8_t barrier, barrier_warps; /* number; 0 warps: all of the block; of await: N */
  uint8_t waves;                  /* wavefronts of 128 B in the L1/shared-memory pipe, conflicts included */
  uint8_t clash;                  /* times each of them is served, 1: no conflicts; of cp: passes, 1: as few as can be */
  uint16_t bytes;                 /* a warp moves; of await: C */
  uint16_t count;                 /* instructions; KVM_GROUP: groups that may be open */
  uint16_t cycles;                /* until the warp's next instruction */
} kvm_step;

typedef struct kvm_program {
  kvm_step *step; /* owned */
  size_t steps;
} kvm_program;

/* KV_ERR_INPUT names the word and its number. Empty text gives an empty program. The caller frees. */
kv_status kvm_program_parse(const char *text, kvm_program *program, kv_error *err);
void kvm_program_free(kvm_program *program); /* safe on a zeroed one */

/* What one pass of a warp does. */
typedef struct kvm_program_work {
  double instructions, mma, waves;                         /* waves without conflicts */
  double row_bytes, again_bytes, index_bytes, store_bytes; /* rows and indices: as they cross L2 -> SM */
  double barriers;
} kvm_program_work;
kvm_program_work kvm_program_count(const kvm_program *program);
double kvm_copy_passes(const kvm_step *cp); /* for each 128 B that it moves; 1: as few as can be */

#endif
