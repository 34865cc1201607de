/* Times of the attention kernels: one CUDA graph of the whole operation, L2 flushed before each run, median.
 *
 * gpu-bench-attn [key=value ...]: kind=split_verify,... heads=8,16 prefix=4096,... batch=1 queries=9 reps=30
 * slots=random,contiguous,resident blocks=0 min=0 fixed=0 pool=2000000
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_device.h"

typedef struct setup {
  long heads[16], prefix[16], batch[16], min[16], blocks[16];
  int n_heads, n_prefix, n_batch, n_min, n_blocks, queries, reps, fixed;
  long pool;
  char kinds[300], slots[100];
} setup;

static int numbers(const char *text, long *to) {
  int n = 0;
  for (char *end; n < 16 && *text; text = *end ? end + 1 : end) to[n++] = strtol(text, &end, 10);
  return n;
}

static void parse(int argc, char **argv, setup *s) {
  for (int i = 1; i < argc; i++) {
    const char *eq = strchr(argv[i], '=');
    if (!eq) continue;
    const char *v = eq + 1;
    const size_t n = (size_t)(eq - argv[i]);
    if (!strncmp(argv[i], "heads", n)) s->n_heads = numbers(v, s->heads);
    else if (!strncmp(argv[i], "prefix", n)) s->n_prefix = numbers(v, s->prefix);
    else if (!strncmp(argv[i], "batch", n)) s->n_batch = numbers(v, s->batch);
    else if (!strncmp(argv[i], "min", n)) s->n_min = numbers(v, s->min);
    else if (!strncmp(argv[i], "blocks", n)) s->n_blocks = numbers(v, s->blocks);
    else if (!strncmp(argv[i], "queries", n)) s->queries = atoi(v);
    else if (!strncmp(argv[i], "reps", n)) s->reps = atoi(v);
    else if (!strncmp(argv[i], "fixed", n)) s->fixed = atoi(v);
    else if (!strncmp(argv[i], "pool", n)) s->pool = atol(v);
    else if (!strncmp(argv[i], "kind", n)) (void)snprintf(s->kinds, sizeof s->kinds, "%s", v);
    else if (!strncmp(argv[i], "slots", n)) (void)snprintf(s->slots, sizeof s->slots, "%s", v);
  }
}

typedef struct arena {
  uint16_t *kv, *q, *out;
  float *lse;
  uint64_t *indptr;
  int32_t *slots[3], *tree;
  uint8_t *mask;
  void *flush, *workspace;
  size_t workspace_bytes;
  cudaStream_t stream;
  cudaEvent_t from, to;
} arena;

enum { MOST_KEYS = 400000, MOST_BATCH = 64, MOST_HEADS = 128 };
static const size_t FLUSH = (size_t)192 << 20;

static void fill_pool(arena *a, long pool) {
  const size_t piece = (size_t)20000 * 576;
  uint16_t *host = malloc(piece * 2);
  uint64_t state = 1;
  if (!host) abort();
  for (size_t i = 0; i < piece; i++) host[i] = kvk_to_bf16((float)(0.1 * kvk_normal(&state)));
  GPU(cudaMalloc((void **)&a->kv, (size_t)pool * 1152));
  for (long r = 0; r < pool; r += 20000) {
    size_t rows = (size_t)(pool - r < 20000 ? pool - r : 20000);
    GPU(cudaMemcpy(a->kv + (size_t)r * 576, host, rows * 1152, cudaMemcpyHostToDevice));
  }
  GPU(cudaMalloc((void **)&a->q, (size_t)MOST_BATCH * 32 * MOST_HEADS * 1152));
  GPU(cudaMemcpy(a->q, host, (size_t)20000 * 1152, cudaMemcpyHostToDevice));
  free(host);
}

static void fill_slots(arena *a, long pool) {
  int32_t *order = malloc((size_t)pool * 4), *host = malloc((MOST_KEYS + 2048) * sizeof *host);
  uint64_t state = 2;
  if (!order || !host) abort();
  for (long i = 0; i < pool; i++) order[i] = (int32_t)i;
  for (long i = 0; i < MOST_KEYS + 2048; i++) {
    long j = i + (long)(kvk_random(&state) % (uint64_t)(pool - i));
    int32_t t = order[i];
    order[i] = order[j], order[j] = t;
  }
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < MOST_KEYS + 2048; i++) host[i] = k == 0 ? order[i] : k == 1 ? i + 1000 : order[i] % 64;
    GPU(cudaMalloc((void **)&a->slots[k], (MOST_KEYS + 2048) * 4));
    GPU(cudaMemcpy(a->slots[k], host, (MOST_KEYS + 2048) * 4, cudaMemcpyHostToDevice));
  }
  a->tree = a->slots[0] + MOST_KEYS;
  free(order);
  free(host);
}

static void build(arena *a, const setup *s) {
  GPU(cudaStreamCreateWithFlags(&a->stream, cudaStreamNonBlocking));
  GPU(cudaEventCreate(&a->from));
  GPU(cudaEventCreate(&a->to));
  fill_pool(a, s->pool);
  fill_slots(a, s->pool);
  GPU(cudaMalloc((void **)&a->out, (size_t)MOST_BATCH * 32 * MOST_HEADS * 1024));
  GPU(cudaMalloc((void **)&a->lse, (size_t)MOST_BATCH * 32 * MOST_HEADS * 4));
  GPU(cudaMalloc((void **)&a->indptr, (MOST_BATCH + 1) * 8));
  GPU(cudaMalloc(&a->flush, FLUSH));
  GPU(cudaMemset(a->flush, 1, FLUSH));
  GPU(cudaDeviceSynchronize()); /* the stream does not wait for the default one */
}

static int ascending(const void *x, const void *y) {
  float a = *(const float *)x, b = *(const float *)y;
  return a < b ? -1 : a > b;
}

static cudaGraphExec_t capture(arena *a, kvk_kind kind, const kvk_problem *p, const kvk_options *o) {
  kv_error err = {0};
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  size_t bytes = 0;
  if (kvk_workspace_size(kind, p, o, &bytes, &err) != KV_OK) return NULL;
  if (bytes > a->workspace_bytes) {
    GPU(cudaFree(a->workspace));
    GPU(cudaMalloc(&a->workspace, bytes));
    a->workspace_bytes = bytes;
  }
  GPU(cudaStreamBeginCapture(a->stream, cudaStreamCaptureModeGlobal));
  if (kvk_launch(kind, p, o, a->workspace, a->workspace_bytes, a->stream, &err) != KV_OK) (void)fprintf(stderr, "%s\n", err.text), exit(4);
  GPU(cudaStreamEndCapture(a->stream, &graph));
  GPU(cudaGraphInstantiate(&exec, graph, 0));
  GPU(cudaGraphDestroy(graph));
  return exec;
}

static void measure(arena *a, const setup *s, kvk_kind kind, const kvk_options *o, int heads, long prefix, int batch, int layout) {
  uint64_t indptr[MOST_BATCH + 1];
  for (int i = 0; i <= batch; i++) indptr[i] = (uint64_t)i * (uint64_t)prefix;
  GPU(cudaMemcpy(a->indptr, indptr, ((size_t)batch + 1) * 8, cudaMemcpyHostToDevice));
  GPU(cudaDeviceSynchronize());
  const kvk_problem p = {.batch = batch, .queries = s->queries, .heads = heads, .latent = 512, .rope = 64, .scale = 0.0721688f,
                         .q = a->q, .q_row_stride = 576, .kv = a->kv, .kv_row_stride = 576, .indptr = a->indptr,
                         .slots = a->slots[layout], .tree_slots = a->tree, .mask_kind = KVK_MASK_CHAIN,
                         .prefix_capacity = (uint64_t)batch * (uint64_t)prefix, .out = a->out, .lse = a->lse};
  cudaGraphExec_t exec = capture(a, kind, &p, o);
  if (!exec) return;
  float ms[200];
  int reps = s->reps > 200 ? 200 : s->reps;
  for (int r = -3; r < reps; r++) {
    if (!getenv("NO_FLUSH")) gpu_flush(a->flush, FLUSH, a->stream);
    GPU(cudaEventRecord(a->from, a->stream));
    GPU(cudaGraphLaunch(exec, a->stream));
    GPU(cudaEventRecord(a->to, a->stream));
    GPU(cudaStreamSynchronize(a->stream));
    if (r >= 0) GPU(cudaEventElapsedTime(&ms[r], a->from, a->to));
  }
  GPU(cudaGraphExecDestroy(exec));
  qsort(ms, (size_t)reps, sizeof *ms, ascending);
  const double flops = 2.0 * s->queries * heads * batch * (double)(prefix + s->queries) * 1088, bytes = 1152.0 * batch * (double)prefix;
  const double us = 1e3 * (double)ms[reps / 2];
  (void)printf("%-20s h%-3d b%-2d L%-6ld %-10s blocks %-3d min %-4d  %9.2f us (%.2f..%.2f)  %6.0f GB/s %5.0f TFLOPS\n", kvk_kind_name(kind), heads,
               batch, prefix, layout == 0 ? "random" : layout == 1 ? "contiguous" : "resident", o->blocks, o->min_split_tokens, us,
               1e3 * (double)ms[0], 1e3 * (double)ms[reps * 9 / 10], bytes / us * 1e-3, flops / us * 1e-6);
  (void)fflush(stdout);
}

int main(int argc, char **argv) {
  setup s = {.heads = {8, 16, 64}, .prefix = {4096, 16384, 65536, 131072, 189440}, .batch = {1}, .min = {0}, .blocks = {0},
             .n_heads = 3, .n_prefix = 5, .n_batch = 1, .n_min = 1, .n_blocks = 1, .queries = 9, .reps = 30, .pool = 2000000,
             .kinds = "split_verify", .slots = "random"};
  kvk_options o;
  kv_error err = {0};
  arena a = {0};
  parse(argc, argv, &s);
  if (kvk_device_options(0, &o, &err) != KV_OK) {
    (void)printf("gpu-bench-attn: skipped, no GPU: %s\n", err.text);
    return 0;
  }
  build(&a, &s);
  for (int kind = 0; kind < KVK_MERGE_STATE; kind++) {
    char padded[320], name[80];
    (void)snprintf(padded, sizeof padded, ",%s,", s.kinds);
    (void)snprintf(name, sizeof name, ",%s,", kvk_kind_name((kvk_kind)kind));
    if (!strstr(padded, name)) continue;
    for (int l = 0; l < 3; l++) {
      if (!strstr(s.slots, l == 0 ? "random" : l == 1 ? "contiguous" : "resident")) continue;
      for (int b = 0; b < s.n_batch; b++)
        for (int h = 0; h < s.n_heads; h++)
          for (int n = 0; n < s.n_prefix; n++)
            for (int m = 0; m < s.n_min; m++)
                for (int k = 0; k < s.n_blocks; k++) {
                  o.min_split_tokens = (int)s.min[m];
                  o.blocks = (int)s.blocks[k];
                  o.fixed_split_tokens = s.fixed;
                  measure(&a, &s, (kvk_kind)kind, &o, (int)s.heads[h], s.prefix[n], (int)s.batch[b], l);
                }
    }
  }
  return 0;
}
