/* peer_kernel.h - a kernel of SGLang's as machine code beside its description (compile_sglang_extend.py), loaded and
 * launched as Triton's own launcher does; and this project's kernel launched with the same share of the L1.
 *
 * The description says which parameters the machine code has, in which order, and which numbers SGLang's launcher
 * passed; only the arrays are ours. So nothing of the call is written down a second time.
 */
#ifndef PEER_KERNEL_H
#define PEER_KERNEL_H

#include <stdbool.h>

#include <cuda.h>

#include "attention.h"

enum { PEER_PARAMS = 64 };

typedef struct peer_param {
  char name[32], type[16]; /* "K_Buffer", "*bf16" */
  double number;           /* of those that are no pointer */
} peer_param;

typedef struct peer_kernel {
  char sglang[32], triton[32], symbol[64];
  unsigned block_m, block_n, heads, queries, grid[3], threads, stages, shared, registers, stack;
  peer_param param[PEER_PARAMS];
  unsigned params;
  union {
    const void *pointer;
    int32_t integer;
    float real;
  } value[PEER_PARAMS];
  void *argument[PEER_PARAMS];
  CUmodule module;
  CUfunction function;
} peer_kernel;

/* Reads STEM.txt. KV_ERR_IO, KV_ERR_INPUT. Needs no GPU. */
kv_status peer_kernel_read(const char *stem, peer_kernel *kernel, kv_error *err);

/* Loads STEM.cubin. Triton's launcher asks for as much shared memory an SM as there is, which leaves the L1 least: with
 * `as_triton` so does this, without the driver chooses, as for this project's kernels. */
kv_status peer_kernel_load(const char *stem, bool as_triton, peer_kernel *kernel, kv_error *err);
void peer_kernel_close(peer_kernel *kernel); /* safe on a zeroed one */

typedef struct peer_array {
  const char *name, *type;
  const void *pointer;
} peer_array;

/* Gives every pointer parameter the array of its name. KV_ERR_INPUT where one is not there or of another type. */
kv_status peer_kernel_bind(peer_kernel *kernel, const peer_array *arrays, unsigned count, kv_error *err);
/* A kvk_enqueue; self is a peer_kernel. */
kv_status peer_kernel_enqueue(void *self, void *stream, kv_error *err);

/* This project's kernel. `kernel_params` belong to `graph`. */
typedef struct peer_ours {
  kvk_kind kind;
  const kvk_problem *problem;
  const kvk_options *options;
  bool more_l1; /* launched with the L1 that one block's shared memory leaves, not with kvk_launch()'s wish for the least */
  CUgraph graph;
  CUDA_KERNEL_NODE_PARAMS launch;
} peer_ours;

/* With more_l1: learns what kvk_launch() launches now, by capturing it; again after every change of the problem. */
kv_status peer_ours_prepare(peer_ours *ours, kv_error *err);
void peer_ours_close(peer_ours *ours);
/* A kvk_enqueue; self is a peer_ours. */
kv_status peer_ours_enqueue(void *self, void *stream, kv_error *err);

#endif
