#include "gpu_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gpu_check(cudaError_t e, const char *what, const char *file, int line) {
  if (e == cudaSuccess) return;
  (void)fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, cudaGetErrorString(e));
  exit(4);
}

static void *copy_of(const void *from, size_t bytes) {
  void *to = NULL;
  GPU(cudaMalloc(&to, bytes + 16));
  if (bytes) GPU(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  return to;
}

static int32_t *shifted(const int32_t *slots, size_t n, int64_t shift) {
  int32_t *moved = malloc((n + 1) * sizeof *moved);
  if (!moved) abort();
  for (size_t i = 0; i < n; i++) moved[i] = slots[i] < 0 ? slots[i] : (int32_t)(slots[i] + shift);
  return moved;
}

void gpu_upload(const kvk_case *h, int64_t shift, int64_t pool_rows, gpu_case *d) {
  const kvk_problem *p = &h->problem;
  const size_t width = KVK_LATENT + KVK_ROPE, nodes = (size_t)p->batch * (size_t)p->queries, rows = nodes * (size_t)p->heads;
  int32_t *slots = shifted(h->slots, h->keys, shift), *tree = shifted(h->tree_slots, nodes, shift);
  memset(d, 0, sizeof *d);
  d->arrays[0] = copy_of(h->q, rows * width * 2);
  GPU(cudaMalloc(&d->arrays[1], (size_t)pool_rows * width * 2));
  GPU(cudaMemset(d->arrays[1], 0xff, (size_t)pool_rows * width * 2));
  GPU(cudaMemcpy((char *)d->arrays[1] + (size_t)shift * width * 2, h->kv, (size_t)h->pool_rows * width * 2, cudaMemcpyHostToDevice));
  d->arrays[2] = copy_of(h->indptr, ((size_t)p->batch + 1) * sizeof *h->indptr);
  d->arrays[3] = copy_of(slots, h->keys * sizeof *slots);
  d->arrays[4] = copy_of(tree, nodes * sizeof *tree);
  d->arrays[5] = copy_of(h->mask, h->mask_bytes);
  d->arrays[6] = copy_of(h->mask_indptr, (size_t)p->batch * sizeof *h->mask_indptr);
  GPU(cudaMalloc(&d->arrays[7], rows * KVK_LATENT * 2 + 16));
  GPU(cudaMalloc(&d->arrays[8], rows * sizeof(float) + 16));
  GPU(cudaMemset(d->arrays[7], 0xff, rows * KVK_LATENT * 2));
  GPU(cudaMemset(d->arrays[8], 0xff, rows * sizeof(float)));
  GPU(cudaDeviceSynchronize()); /* the kernels' stream does not wait for copies and fills of the default one */
  d->problem = *p;
  d->problem.q = d->arrays[0];
  d->problem.kv = d->arrays[1];
  d->problem.indptr = d->arrays[2];
  d->problem.slots = d->arrays[3];
  d->problem.tree_slots = p->tree_slots ? d->arrays[4] : NULL;
  d->problem.mask = d->arrays[5];
  d->problem.mask_indptr = d->arrays[6];
  d->problem.out = d->arrays[7];
  d->problem.lse = d->arrays[8];
  free(slots);
  free(tree);
}

void gpu_workspace(gpu_case *d, kvk_kind kind, const kvk_options *options) {
  kv_error err = {0};
  if (d->workspace) GPU(cudaFree(d->workspace));
  d->workspace = NULL;
  if (kvk_workspace_size(kind, &d->problem, options, &d->workspace_bytes, &err) != KV_OK) {
    (void)fprintf(stderr, "%s\n", err.text);
    exit(2);
  }
  GPU(cudaMalloc(&d->workspace, d->workspace_bytes + 16));
  GPU(cudaMemset(d->workspace, 0xff, d->workspace_bytes));
  GPU(cudaDeviceSynchronize());
}

void gpu_free(gpu_case *d) {
  for (int i = 0; i < 9; i++) GPU(cudaFree(d->arrays[i]));
  GPU(cudaFree(d->workspace));
  memset(d, 0, sizeof *d);
}
