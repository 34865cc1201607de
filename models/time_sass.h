/* time_sass.h - a program read off machine code: the listing of `cuobjdump -sass` with the bits beside each
 * instruction.
 *
 * Each instruction of a listing carries how long its warp stalls after it, which mark (scoreboard) it sets
 * when its result arrives or its operands have been read, and which marks it waits for; the assembler chose
 * them, so a program made of them has the kernel's true dependent chain. sm_70 to sm_121 (128-bit
 * instructions). What no listing tells is where a load hits: loads of 16 B a lane become `row`, smaller ones
 * `index` of 32 B a warp, both to be judged by whoever declares the kernel; branches are not followed, so
 * rare paths inside a loop are for them to cut out.
 */
#ifndef KVM_TIME_SASS_H
#define KVM_TIME_SASS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kv_status.h"

#define KVM_SASS_NOWHERE UINT32_MAX

typedef struct kvm_sass_line {
  uint64_t address;
  char text[100];                  /* "@P0 LDG.E.128 R4, ..." */
  uint8_t stall, set, read, waits; /* set, read: 7 for none; waits: a bit a mark */
  uint32_t target;                 /* line that a branch goes to, KVM_SASS_NOWHERE for none */
  uint32_t source;                 /* of kvm_sass.source */
} kvm_sass_line;

/* Where an instruction comes from: the source lines from the innermost inlined call outwards, a line each. */
typedef struct kvm_sass {
  char function[200];
  kvm_sass_line *line; /* owned */
  size_t n;
  char **source; /* owned; source[0] is "" */
  size_t sources;
} kvm_sass;

/* Reads the first function whose name contains `function` (NULL: the first), of `cuobjdump -sass` or of
 * `nvdisasm -c -hex`; with `-gi` too each instruction's source lines are read from the files that the listing
 * names. KV_ERR_INPUT: no such function, or a listing without the bits. The caller frees. */
kv_status kvm_sass_read(const char *path, const char *function, kvm_sass *sass, kv_error *err);
void kvm_sass_free(kvm_sass *sass);

/* A loop: from the target of a backward branch to the branch. */
typedef struct kvm_sass_loop {
  size_t from, to; /* lines, both inside */
} kvm_sass_loop;
/* Loops of at least `least` lines, in the order of their branches; returns how many (at most `room` are
 * stored). */
size_t kvm_sass_loops(const kvm_sass *sass, size_t least, kvm_sass_loop *loop, size_t room);

/* The instruction of a line without its predicate; whether there is one that may hold it back. */
const char *kvm_sass_operation(const char *text);
bool kvm_sass_guarded(const char *text);
/* Whether one of the line's source lines has `text` in it. */
bool kvm_sass_from(const kvm_sass *sass, size_t line, const char *text);
/* The word of time_program.h for an instruction as no more than its name tells it. */
const char *kvm_sass_word(const char *text);

/* Words one after the other, alike ones of fixed latency together; zero it but for `f` before use. */
typedef struct kvm_sass_writer {
  FILE *f;
  size_t column;
  unsigned alus, cycles;   /* of a run of alu not written yet */
  unsigned waits;          /* its own */
  unsigned clock, free[2]; /* cycles so far; when the integer and the multiply pipe can take another */
} kvm_sass_writer;
/* `word` NULL: that of kvm_sass_word(). */
void kvm_sass_put(kvm_sass_writer *w, const kvm_sass_line *line, const char *word);
void kvm_sass_end(kvm_sass_writer *w);

/* Writes lines [from, to] as the words of time_program.h, lines of at most 110 characters indented by two. */
void kvm_sass_program(const kvm_sass *sass, size_t from, size_t to, FILE *f);

#endif
