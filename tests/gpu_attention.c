/* The attention kernels on a real GPU against the double-precision reference: `make test-gpu`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_device.h"
#include "planted.h"

static unsigned passed, failed;
static kvk_options options;
static cudaStream_t stream;

static void verdict(int ok, const char *name, const char *detail) {
  if (ok) passed++;
  else failed++;
  if (!ok || getenv("VERBOSE")) (void)printf("%s  %s  %s\n", ok ? "ok  " : "FAIL", name, detail);
  (void)fflush(stdout);
}

typedef struct result {
  uint16_t *out;
  float *lse;
  size_t rows;
} result;

static result download(const gpu_case *d) {
  const kvk_problem *p = &d->problem;
  result r = {.rows = (size_t)p->batch * (size_t)p->queries * (size_t)p->heads};
  r.out = malloc(r.rows * KVK_LATENT * 2 + 1);
  r.lse = malloc(r.rows * sizeof(float) + 1);
  if (!r.out || !r.lse) abort();
  GPU(cudaMemcpy(r.out, p->out, r.rows * KVK_LATENT * 2, cudaMemcpyDeviceToHost));
  GPU(cudaMemcpy(r.lse, p->lse, r.rows * sizeof(float), cudaMemcpyDeviceToHost));
  return r;
}

static void drop(result *r) {
  free(r->out);
  free(r->lse);
}

static int same(const result *a, const result *b) {
  return a->rows == b->rows && !memcmp(a->out, b->out, a->rows * KVK_LATENT * 2) && !memcmp(a->lse, b->lse, a->rows * sizeof(float));
}

static void launch(kvk_kind kind, gpu_case *d, const kvk_options *o) {
  kv_error err = {0};
  gpu_workspace(d, kind, o);
  if (kvk_launch(kind, &d->problem, o, d->workspace, d->workspace_bytes, stream, &err) != KV_OK) {
    (void)fprintf(stderr, "%s\n", err.text);
    exit(4);
  }
  GPU(cudaStreamSynchronize(stream));
}

/* The reference for heads 0, `step`, 2 step, ... of a case. */
typedef struct expected {
  double *out, *lse; /* [head / step][token] */
  int step;
} expected;

static kvk_problem one_head(const kvk_problem *p, int head) {
  kvk_problem part = *p;
  part.heads = 1;
  part.q += (int64_t)head * p->q_row_stride;
  part.q_row_stride *= p->heads;
  return part;
}

static expected expect(const kvk_case *h, int step) {
  const kvk_problem *p = &h->problem;
  const size_t tokens = (size_t)p->batch * (size_t)p->queries, most = tokens * (size_t)(p->heads / step + 1);
  expected e = {malloc(most * KVK_LATENT * sizeof *e.out + 8), malloc(most * sizeof *e.lse + 8), step};
  kv_error err = {0};
  if (!e.out || !e.lse) abort();
  for (int head = 0; head < p->heads; head += step) {
    kvk_problem part = one_head(p, head);
    const size_t at = (size_t)(head / step) * tokens;
    if (kvk_reference(&part, e.out + at * KVK_LATENT, e.lse + at, &err) != KV_OK) (void)fprintf(stderr, "%s\n", err.text), exit(5);
  }
  return e;
}

static void forget(expected *e) {
  free(e->out);
  free(e->lse);
}

static int agrees(const kvk_case *h, const result *r, const kvk_tolerance *t, const expected *e, char *text, size_t room) {
  const kvk_problem *p = &h->problem;
  const size_t tokens = (size_t)p->batch * (size_t)p->queries, heads = (size_t)p->heads;
  uint16_t *one = malloc(tokens * KVK_LATENT * 2 + 2);
  float *one_lse = malloc(tokens * sizeof *one_lse + 4);
  int ok = one && one_lse;
  kvk_difference worst = {0};
  for (size_t head = 0; ok && head < heads; head += (size_t)e->step) {
    kv_error err = {0};
    kvk_difference diff;
    kvk_problem part = one_head(p, (int)head);
    const size_t at = head / (size_t)e->step * tokens;
    for (size_t i = 0; i < tokens; i++) {
      memcpy(one + i * KVK_LATENT, r->out + (i * heads + head) * KVK_LATENT, KVK_LATENT * 2);
      one_lse[i] = r->lse[i * heads + head];
    }
    ok = kvk_compare(&part, one, one_lse, e->out + at * KVK_LATENT, e->lse + at, t, &diff, &err) == KV_OK;
    if (!ok) (void)snprintf(text, room, "head %zu: %s", head, err.text);
    if (diff.worst_out > worst.worst_out) worst.worst_out = diff.worst_out;
    if (diff.worst_lse > worst.worst_lse) worst.worst_lse = diff.worst_lse;
    if (diff.cosine > worst.cosine) worst.cosine = diff.cosine;
  }
  if (ok) (void)snprintf(text, room, "out %.2f lse %.3f of tolerance, cosine %.1e", worst.worst_out, worst.worst_lse, worst.cosine);
  free(one);
  free(one_lse);
  return ok;
}

static void make(const kvk_case_spec *s, kvk_case *h) {
  kv_error err = {0};
  if (kvk_case_make(s, h, &err) == KV_OK) return;
  (void)fprintf(stderr, "%s\n", err.text);
  exit(5);
}

static const kvk_kind all_kinds[] = {KVK_EXTEND_SERIAL_64, KVK_EXTEND_SERIAL_32, KVK_SPLIT_PER_HEAD, KVK_SPLIT_VERIFY};

/* Every kind (and split_verify in its deterministic mode) on one case. */
static void check_case(const char *name, const kvk_case *h, const kvk_tolerance *t, int step, int64_t shift, int64_t pool_rows) {
  gpu_case d;
  expected e = expect(h, step);
  gpu_upload(h, shift, pool_rows, &d);
  for (size_t i = 0; i < 5; i++) {
    kvk_options o = options;
    kvk_kind kind = i < 4 ? all_kinds[i] : KVK_SPLIT_VERIFY;
    char text[800], title[300];
    kv_error err = {0};
    if (i == 4) o.fixed_split_tokens = 256;
    if (kvk_check(kind, &d.problem, &o, &err) != KV_OK) continue; /* the 32x64 tile where it is not built */
    launch(kind, &d, &o);
    result r = download(&d);
    (void)snprintf(title, sizeof title, "%s, %s%s", name, kvk_kind_name(kind), i == 4 ? " fixed split" : "");
    verdict(agrees(h, &r, t, &e, text, sizeof text), title, text);
    drop(&r);
    GPU(cudaMemset(d.problem.out, 0xff, r.rows * KVK_LATENT * 2));
    GPU(cudaMemset(d.problem.lse, 0xff, r.rows * sizeof(float)));
    GPU(cudaDeviceSynchronize());
  }
  gpu_free(&d);
  forget(&e);
}

static void check_spec(const char *name, const kvk_case_spec *s, double max_value, double max_logit, int step) {
  kvk_case h;
  make(s, &h);
  const kvk_tolerance t = kvk_default_tolerance(max_value, max_logit);
  check_case(name, &h, &t, step, 0, h.pool_rows);
  kvk_case_free(&h);
}

static void lengths(void) {
  static const uint64_t all[] = {0, 1, 9, 15, 16, 17, 63, 64, 65, 100, 1000, 4096, 5003};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char name[80];
    (void)snprintf(name, sizeof name, "prefix %llu", (unsigned long long)all[i]);
    check_spec(name, &(kvk_case_spec){.batch = 1, .prefix = all + i, .queries = 9, .heads = 8, .slots = KVK_SLOTS_RANDOM,
               .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .poison = true, .seed = 11 + i}, 0.6, 1, 3);
  }
  check_spec("prefix 189440", &(kvk_case_spec){.batch = 1, .prefix = (uint64_t[]){189440}, .queries = 9, .heads = 8,
             .slots = KVK_SLOTS_RANDOM, .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_BITS, .poison = true, .seed = 5}, 0.6, 1, 7);
}

static void shapes(void) {
  static const int heads[] = {1, 8, 12, 16, 64, 128}, queries[] = {1, 4, 9, 16, 32};
  for (size_t i = 0; i < 6; i++)
    for (size_t j = 0; j < 5; j++) {
      char name[80];
      (void)snprintf(name, sizeof name, "%d heads, %d queries", heads[i], queries[j]);
      check_spec(name, &(kvk_case_spec){.batch = 2, .prefix = (uint64_t[]){333, 70}, .queries = queries[j], .heads = heads[i],
                 .slots = KVK_SLOTS_RANDOM, .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_BITS, .poison = true, .seed = 17 * i + j},
                 0.6, 1, heads[i] > 16 ? 21 : 5);
    }
}

static void layouts_and_trees(void) {
  static const char *const slots[] = {"contiguous", "reversed", "random", "repeated", "at the end"};
  static const char *const trees[] = {"no tree", "chain", "star", "random tree", "hidden query", "absent nodes"};
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 6; j++) {
      char name[80];
      (void)snprintf(name, sizeof name, "%s, %s", slots[i], trees[j]);
      check_spec(name, &(kvk_case_spec){.batch = 4, .prefix = (uint64_t[]){0, 150, 0, 77}, .queries = 9, .heads = 8,
                 .slots = (kvk_slots)i, .tree = (kvk_tree)j, .mask = KVK_MASK_FULL, .poison = true, .seed = 100u + (unsigned)(6 * i + j)},
                 0.6, 1, 3);
    }
}

static void batches(void) {
  uint64_t prefix[64];
  for (int n = 1; n <= 64; n *= 2) {
    char name[80];
    uint64_t state = (uint64_t)n;
    for (int i = 0; i < n; i++) prefix[i] = i % 3 == 1 ? 0 : kvk_random(&state) % 700;
    (void)snprintf(name, sizeof name, "ragged batch of %d", n);
    check_spec(name, &(kvk_case_spec){.batch = n, .prefix = prefix, .queries = 9, .heads = 8, .slots = KVK_SLOTS_RANDOM,
               .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .poison = true, .seed = 300u + (unsigned)n}, 0.6, 1, 5);
  }
}

/* One rope column of q and of every row shifts every logit by the same amount: about +-10000. */
static void hard_logits(void) {
  for (int sign = -1; sign <= 1; sign += 2) {
    kvk_case h;
    make(&(kvk_case_spec){.batch = 2, .prefix = (uint64_t[]){700, 31}, .queries = 9, .heads = 8, .slots = KVK_SLOTS_RANDOM,
         .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .magnitude = 1, .seed = 77}, &h);
    for (int64_t r = 0; r < h.pool_rows; r++) h.kv[r * 576 + 530] = kvk_to_bf16(370);
    for (int64_t r = 0; r < 2 * 9 * 8; r++) h.q[r * 576 + 530] = kvk_to_bf16((float)sign * 370.0f);
    const kvk_tolerance t = kvk_default_tolerance(5, 10000);
    check_case(sign < 0 ? "logits near -10000" : "logits near +10000", &h, &t, 7, 0, h.pool_rows);
    kvk_case_free(&h);
  }
  check_spec("peaked softmax", &(kvk_case_spec){.batch = 1, .prefix = (uint64_t[]){2000}, .queries = 9, .heads = 8,
             .slots = KVK_SLOTS_RANDOM, .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .magnitude = 2, .poison = true, .seed = 8}, 10, 60, 3);
}

/* Every value is a number, and no row comes out as if it had seen nothing. */
static int all_seen(const result *r) {
  for (size_t i = 0; i < r->rows * KVK_LATENT; i++)
    if (!isfinite(kvk_from_bf16(r->out[i])) || !(r->out[i] << 1 & 0xffff)) return 0;
  for (size_t i = 0; i < r->rows; i++)
    if (!isfinite(r->lse[i])) return 0;
  return 1;
}

/* Logits of which a rounding is worth more than a weight can hold, with both numbers of rows a block. No reference: which row is the largest
 * is a matter of digits that fp32 does not have. */
static void huge_logits(void) {
  for (int heads = 8; heads <= 16; heads += 8)
    for (int i = 0; i < 3; i++) {
      static const float large[] = {1e3f, 1e5f, 1e25f};
      kvk_case h;
      gpu_case d;
      make(&(kvk_case_spec){.batch = 1, .prefix = (uint64_t[]){3000}, .queries = 9, .heads = heads, .slots = KVK_SLOTS_RANDOM, .tree = KVK_TREE_RANDOM,
           .mask = KVK_MASK_TREE, .seed = 96}, &h);
      for (int64_t r = 0; r < h.pool_rows; r++) h.kv[r * 576 + 530] = kvk_to_bf16(1e6f * (float)(1 + r % 7));
      for (int64_t r = 0; r < 9 * heads; r++) h.q[r * 576 + 530] = kvk_to_bf16(large[i]);
      gpu_upload(&h, 0, h.pool_rows, &d);
      for (size_t k = 0; k < 4; k++) {
        char title[160];
        kv_error err = {0};
        if (kvk_check(all_kinds[k], &d.problem, &options, &err) != KV_OK) continue; /* see check_case() */
        launch(all_kinds[k], &d, &options);
        result r = download(&d);
        (void)snprintf(title, sizeof title, "logits of %g, %d heads, %s", 2.5e5 * (double)large[i], heads, kvk_kind_name(all_kinds[k]));
        verdict(all_seen(&r), title, "a value is missing or no number");
        drop(&r);
      }
      gpu_free(&d);
      kvk_case_free(&h);
    }
}

static void special_values(void) {
  static const float values[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 3; i++) {
    char name[80];
    kvk_case h;
    make(&(kvk_case_spec){.batch = 2, .prefix = (uint64_t[]){200, 90}, .queries = 9, .heads = 8, .slots = KVK_SLOTS_RANDOM,
         .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .seed = 78}, &h);
    h.kv[(int64_t)h.slots[77] * 576 + (i == 2 ? 5 : 560)] = kvk_to_bf16(values[i]);
    const kvk_tolerance t = kvk_default_tolerance(0.6, 1);
    (void)snprintf(name, sizeof name, "a referenced %g", (double)values[i]);
    check_case(name, &h, &t, 3, 0, h.pool_rows);
    kvk_case_free(&h);
  }
}

static void big_pool(void) {
  const int64_t rows = 7500000; /* 8.6 GB, 4.3 G values */
  size_t room = 0, total = 0;
  kvk_case h;
  GPU(cudaMemGetInfo(&room, &total));
  if (room < (size_t)rows * 1152 + ((size_t)1 << 30)) {
    (void)printf("skip  the pool of 8.6 GB: only %zu bytes are free\n", room);
    return;
  }
  make(&(kvk_case_spec){.batch = 2, .prefix = (uint64_t[]){300, 41}, .queries = 9, .heads = 8, .slots = KVK_SLOTS_END,
       .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .poison = true, .seed = 79}, &h);
  const kvk_tolerance t = kvk_default_tolerance(0.6, 1);
  check_case("the end of a pool of 4.3 G values", &h, &t, 3, rows - h.pool_rows, rows);
  kvk_case_free(&h);
}

static void masks_agree(void) {
  result first[4] = {{0}};
  for (int m = KVK_MASK_FULL; m <= KVK_MASK_BITS; m++)
    for (int k = 0; k < 4; k++) {
      kvk_case h;
      gpu_case d;
      kv_error err = {0};
      make(&(kvk_case_spec){.batch = 3, .prefix = (uint64_t[]){200, 0, 1000}, .queries = 9, .heads = 8, .slots = KVK_SLOTS_RANDOM,
           .tree = KVK_TREE_RANDOM, .mask = (kvk_mask)m, .seed = 80}, &h);
      gpu_upload(&h, 0, h.pool_rows, &d);
      if (kvk_check(all_kinds[k], &d.problem, &options, &err) == KV_OK) {
        launch(all_kinds[k], &d, &options);
        result r = download(&d);
        if (m == KVK_MASK_FULL) first[k] = r;
        else verdict(same(&first[k], &r), "mask encodings give identical bits", kvk_kind_name(all_kinds[k])), drop(&r);
      }
      gpu_free(&d);
      kvk_case_free(&h);
    }
  for (int k = 0; k < 4; k++) drop(&first[k]);
}

static void deterministic(void) {
  kvk_case h;
  gpu_case d;
  make(&(kvk_case_spec){.batch = 3, .prefix = (uint64_t[]){30000, 0, 11111}, .queries = 9, .heads = 8, .slots = KVK_SLOTS_RANDOM,
       .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .seed = 81}, &h);
  gpu_upload(&h, 0, h.pool_rows, &d);
  for (int mode = 0; mode < 2; mode++) {
    kvk_options o = options;
    o.fixed_split_tokens = mode ? 512 : 0;
    launch(KVK_SPLIT_VERIFY, &d, &o);
    result first = download(&d);
    int ok = 1;
    for (int run = 1; run < 100 && ok; run++) {
      launch(KVK_SPLIT_VERIFY, &d, &o);
      result again = download(&d);
      ok = same(&first, &again);
      drop(&again);
    }
    verdict(ok, "100 runs give identical bits", mode ? "fixed split" : "default");
    if (mode) { /* request 2 alone, same bits as in the batch */
      gpu_case alone = d;
      alone.problem.batch = 1;
      alone.problem.indptr += 2;
      alone.problem.q += (int64_t)2 * 9 * 8 * 576;
      alone.problem.tree_slots += 2 * 9;
      alone.problem.mask = (const uint8_t *)d.problem.mask + 2 * 81;
      alone.workspace = NULL;
      launch(KVK_SPLIT_VERIFY, &alone, &o);
      result one = download(&alone);
      verdict(!memcmp(one.out, first.out + (size_t)2 * 72 * 512, (size_t)72 * 512 * 2) && !memcmp(one.lse, first.lse + 2 * 72, 72 * sizeof(float)),
              "the batch around a request changes no bit", "fixed split");
      drop(&one);
      GPU(cudaFree(alone.workspace));
    }
    drop(&first);
  }
  gpu_free(&d);
  kvk_case_free(&h);
}

/* Captures on one case, then replays after every input has been replaced by another case's. */
static void graph_replay(kvk_kind kind) {
  kvk_case a, b;
  gpu_case da, db;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  kv_error err = {0};
  char text[800];
  kvk_case_spec s = {.batch = 3, .prefix = (uint64_t[]){2500, 0, 800}, .queries = 9, .heads = 8, .slots = KVK_SLOTS_RANDOM,
                     .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .seed = 82, .pool_rows = 8000};
  make(&s, &a);
  s.prefix = (uint64_t[]){17, 1900, 1300};
  s.seed = 83;
  make(&s, &b);
  gpu_upload(&a, 0, 8000, &da);
  gpu_upload(&b, 0, 8000, &db);
  if (kvk_check(kind, &da.problem, &options, &err) != KV_OK) return;
  gpu_workspace(&da, kind, &options);
  GPU(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  if (kvk_launch(kind, &da.problem, &options, da.workspace, da.workspace_bytes, stream, &err) != KV_OK) (void)fprintf(stderr, "%s\n", err.text);
  GPU(cudaStreamEndCapture(stream, &graph));
  GPU(cudaGraphInstantiate(&exec, graph, 0));
  const kvk_tolerance t = kvk_default_tolerance(0.6, 1);
  for (int turn = 0; turn < 3; turn++) {
    if (turn == 1) {
      const size_t bytes[7] = {(size_t)3 * 72 * 576 * 2, (size_t)8000 * 1152, 32, b.keys * 4, 27 * 4, 3 * 81, 24};
      for (int i = 0; i < 7; i++) GPU(cudaMemcpy(da.arrays[i], db.arrays[i], bytes[i], cudaMemcpyDeviceToDevice));
    }
    GPU(cudaMemset(da.problem.out, 0xff, (size_t)3 * 72 * 512 * 2));
    GPU(cudaDeviceSynchronize());
    GPU(cudaGraphLaunch(exec, stream));
    GPU(cudaStreamSynchronize(stream));
    result r = download(&da);
    expected e = expect(turn ? &b : &a, 3);
    verdict(agrees(turn ? &b : &a, &r, &t, &e, text, sizeof text), turn ? "graph replayed with other inputs" : "graph as captured", text);
    forget(&e);
    drop(&r);
  }
  GPU(cudaGraphExecDestroy(exec));
  GPU(cudaGraphDestroy(graph));
  gpu_free(&da);
  gpu_free(&db);
  kvk_case_free(&a);
  kvk_case_free(&b);
}

static void merge_states(void) {
  enum { ROWS = 300 };
  static uint16_t a[ROWS * 512], b[ROWS * 512], out[ROWS * 512];
  static float la[ROWS], lb[ROWS], lse[ROWS];
  static double ref[ROWS * 512], ref_lse[ROWS];
  uint64_t state = 9;
  for (int i = 0; i < ROWS * 512; i++) a[i] = kvk_to_bf16((float)kvk_normal(&state)), b[i] = kvk_to_bf16((float)kvk_normal(&state));
  for (int r = 0; r < ROWS; r++) {
    la[r] = r % 10 == 0 ? -INFINITY : (float)(3 * kvk_normal(&state));
    lb[r] = r % 15 == 0 ? -INFINITY : r % 7 == 0 ? INFINITY : (float)(3 * kvk_normal(&state));
    for (int i = 0; i < 512 && r % 10 == 0; i++) a[r * 512 + i] = 0x7fc0; /* an empty side holds anything */
  }
  kvk_merge m = {.rows = ROWS, .a = a, .b = b, .lse_a = la, .lse_b = lb}, d = m;
  kvk_reference_merge(&m, ref, ref_lse);
  void *p[6];
  const size_t bytes[6] = {sizeof a, sizeof b, sizeof la, sizeof lb, sizeof out, sizeof lse};
  const void *from[4] = {a, b, la, lb};
  for (int i = 0; i < 6; i++) {
    GPU(cudaMalloc(&p[i], bytes[i]));
    if (i < 4) GPU(cudaMemcpy(p[i], from[i], bytes[i], cudaMemcpyHostToDevice));
  }
  GPU(cudaDeviceSynchronize());
  d.a = p[0], d.b = p[1], d.lse_a = p[2], d.lse_b = p[3], d.out = p[4], d.out_lse = p[5];
  kv_error err = {0};
  int ok = kvk_launch_merge_state(&d, stream, &err) == KV_OK;
  GPU(cudaStreamSynchronize(stream));
  GPU(cudaMemcpy(out, p[4], sizeof out, cudaMemcpyDeviceToHost));
  GPU(cudaMemcpy(lse, p[5], sizeof lse, cudaMemcpyDeviceToHost));
  const kvk_problem shape = {.batch = ROWS, .queries = 1, .heads = 1, .latent = 512};
  const kvk_tolerance t = kvk_default_tolerance(5, 10);
  kvk_difference diff;
  ok = ok && kvk_compare(&shape, out, lse, ref, ref_lse, &t, &diff, &err) == KV_OK;
  verdict(ok, "merge_state, empty sides included", err.text);
  for (int i = 0; i < 6; i++) GPU(cudaFree(p[i]));
}

int main(int argc, char **argv) {
  kv_error err = {0};
  if (kvk_device_options(0, &options, &err) != KV_OK) {
    (void)printf("gpu-tests: skipped, no GPU: %s\n0 passed, 0 failed\n", err.text);
    return 0;
  }
  const char *only = argc > 1 ? argv[1] : "all";
  GPU(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const int quick = !strcmp(only, "quick"), small = !strcmp(only, "small"); /* for compute-sanitizer */
  if (quick) {
    layouts_and_trees();
  } else if (!small) {
    lengths();
    shapes();
    layouts_and_trees();
    batches();
    hard_logits();
    huge_logits();
    special_values();
    big_pool();
    deterministic();
    for (int k = 0; k < 4; k++) graph_replay(all_kinds[k]);
  }
  if (!small) masks_agree();
  merge_states();
  verdict(gpu_run_plants(stream) == kvk_planted_count(), "planted kernels run", "");
  (void)printf("%u passed, %u failed\n", passed, failed);
  return failed ? 1 : 0;
}
