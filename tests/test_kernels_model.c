/* What models/ declares of this project's kernels, held against kvk_describe(): the two rooms do not know
 * each other, so nothing else keeps them together. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention.h"
#include "attn_shape.h"
#include "kv_test.h"
#include "time_kernel.h"

static kvm_gpus gpus;
static kvm_declared_set declared;

static const kvm_gpu *h200(void) {
  const kvm_gpu *gpu = NULL;
  if (!gpus.n) CU_ASSERT_EQUAL_FATAL(kvm_gpus_load(kv_source("models/gpus"), &gpus, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&gpus, "h200", &gpu, NULL), KV_OK);
  return gpu;
}

/* One problem: `batch` requests of `prefix` tokens. */
typedef struct shape {
  int heads, queries, batch;
  uint64_t prefix;
} shape;
enum { MOST_BATCH = 16 };

/* As launched on a GPU of architecture `sm`: 90 takes tiles of 32 keys, 120 of 16. */
static kvk_structure described(kvk_kind kind, const shape *x, int sm) {
  static const uint16_t value[8] __attribute__((aligned(16))) = {0};
  static const int32_t slot[1];
  uint64_t prefix[MOST_BATCH];
  kvk_structure s;
  kv_error err = {KV_OK, ""};
  for (int i = 0; i < x->batch; i++) prefix[i] = x->prefix;
  const kvk_problem p = {.batch = x->batch,
                         .queries = x->queries,
                         .heads = x->heads,
                         .latent = KVK_LATENT,
                         .rope = KVK_ROPE,
                         .q_row_stride = KVK_ROW_VALUES,
                         .kv_row_stride = KVK_ROW_VALUES,
                         .q = value,
                         .kv = value,
                         .tree_slots = slot,
                         .out = (uint16_t *)(uintptr_t)value,
                         .lse = (float *)(uintptr_t)value};
  const kvk_options o = kvk_default_options(132, sm / 10, sm % 10);
  CU_ASSERT_EQUAL(kvk_describe(kind, &p, &o, prefix, &s, &err), KV_OK);
  return s;
}

static kvm_verify problem_of(const shape *x) {
  kvm_verify p = kvm_verify_default(x->prefix);
  p.heads = (uint32_t)x->heads;
  p.queries = (uint32_t)x->queries;
  p.batch = (uint32_t)x->batch;
  kvm_verify_uniform(&p, x->prefix);
  return p;
}

static bool same(const char *what, const shape *x, double model, double kernel) {
  if (model == kernel) return true;
  printf("%d heads, %d queries, %d x %llu: %s is %g in models/, %g in kernels/\n", x->heads, x->queries,
         x->batch, (unsigned long long)x->prefix, what, model, kernel);
  return false;
}

static const shape shapes[] = {{8, 9, 1, 131072},  {8, 9, 1, 4096},    {16, 9, 1, 16384}, {64, 9, 1, 189440},
                               {4, 5, 1, 20000},   {20, 16, 3, 12000}, {8, 9, 4, 3000},   {64, 9, 16, 8192},
                               {1, 1, 1, 100},     {128, 32, 2, 5000}, {12, 7, 5, 777},   {32, 9, 1, 6000},
                               {8, 32, 1, 100000}, {3, 9, 7, 40},      {8, 9, 2, 0}};

static void extend_serial_is_what_it_says(void) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int tile = 32; tile <= 64; tile += 32) {
      const shape *x = &shapes[i];
      kvk_structure s = described(tile == 64 ? KVK_EXTEND_SERIAL_64 : KVK_EXTEND_SERIAL_32, x, 90);
      kvm_structure k = kvm_kernel(0, tile == 64 ? 90 : 120);
      kvm_verify p = problem_of(x);
      kvm_work w = kvm_structure_work(&k, &p, h200());
      CU_ASSERT(same("blocks", x, (double)w.blocks, (double)s.blocks));
      CU_ASSERT(same("tiles", x, w.tiles, (double)s.tiles));
      CU_ASSERT(same("tiles of a block", x, w.block_tiles, (double)s.tiles_per_block));
      /* of 32 keys warps 4 to 7 repeat the product with Q that 0 to 3 make: no work that the structure counts
       */
      CU_ASSERT(same("flops", x, w.chip[KVM_MMA],
                     s.mma_flops - (tile == 32 ? (double)s.tiles * 4 * 72 * 4096 : 0)));
      CU_ASSERT(same("shared memory", x, k.shared_bytes, s.smem) && same("threads", x, k.threads, s.threads));
      CU_ASSERT(same("rows", x, 8 * w.units, s.tile_rows) &&
                same("side", x, (double)w.side, (double)s.row_groups));
      /* but for the query rows, which are staged once */
      if (x->prefix >= 4096)
        CU_ASSERT_DOUBLE_EQUAL(w.chip[KVM_L1] / (s.smem_read_bytes + s.smem_write_bytes + s.l1_load_bytes), 1, 0.01);
    }
}

static void split_kernels_are_what_they_say(void) {
  for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++)
    for (unsigned kernel = 1; kernel <= 2; kernel++) {
      const shape *x = &shapes[i / 2];
      int sm = i % 2 ? 120 : 90;
      kvk_structure s = described(kernel == 1 ? KVK_SPLIT_PER_HEAD : KVK_SPLIT_VERIFY, x, sm);
      kvm_structure k = kvm_kernel(kernel, sm);
      kvm_verify p = problem_of(x);
      kvm_work w = kvm_structure_work(&k, &p, h200());
      double segments = (double)s.partials / s.used_rows;
      CU_ASSERT(same("rows", x, 8 * w.units, s.tile_rows) &&
                same("side", x, (double)w.side, (double)s.row_groups));
      CU_ASSERT(same("tiles", x, w.tiles, (double)s.tiles));
      CU_ASSERT(same("tiles of a block", x, w.block_tiles, (double)s.tiles_per_block));
      CU_ASSERT(same("segments", x, w.segments, segments));
      CU_ASSERT(same("partial bytes", x, w.partial_bytes, 2 * s.partial_bytes));
      CU_ASSERT(w.blocks <= s.blocks && (double)w.blocks * w.block_tiles >= w.tiles);
      CU_ASSERT(same("threads", x, k.threads, s.threads) && same("tokens", x, k.tile_tokens, s.tile_tokens));
      CU_ASSERT(same("stages", x, k.stages, s.stages));
      if (w.units == (kernel == 1 ? 2 : 6)) CU_ASSERT(same("shared memory", x, k.shared_bytes, s.smem));
      CU_ASSERT_EQUAL(s.tile_tokens, sm == 90 ? 32 : 16);
      /* two products of a tile of keys with 576 and 512 columns */
      CU_ASSERT(same("flops", x, w.chip[KVM_MMA], (double)s.tiles * s.tile_rows * s.tile_tokens * 2 * 1088));
    }
}

/* The busiest block's segments, by walking the list as sv_kernel() does. */
static void segments_of_a_block_are_counted(void) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const shape *x = &shapes[i];
    kvm_structure k = kvm_kernel(2, 90);
    kvm_verify p = problem_of(x);
    kvm_work w = kvm_structure_work(&k, &p, h200());
    uint64_t each = (x->prefix + (uint64_t)x->queries + k.tile_tokens - 1) / k.tile_tokens, lists = w.aligned ? 1 : w.side, most = 0;
    for (uint64_t at = 0, end; at < each * lists * (uint64_t)x->batch; at = end) {
      end = at + (uint64_t)w.block_tiles;
      if (end > each * lists * (uint64_t)x->batch) end = each * lists * (uint64_t)x->batch;
      uint64_t segments = (end - 1) / each - at / each + 1;
      if (segments > most) most = segments;
    }
    CU_ASSERT(most <= w.block_segments && w.block_segments <= most + 1);
  }
}

/* A program belongs to one number of units; between them the files cover all that the kernels are compiled
 * for. */
static void programs_cover_every_block(void) {
  CU_ASSERT_EQUAL_FATAL(kvm_declared_load_all(kv_source("models/kernels"), &declared, NULL), KV_OK);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (unsigned kernel = 1; kernel <= 2; kernel++) {
      static const char *const name[] = {"", "split_per_head", "split_verify"};
      kvm_verify p = problem_of(&shapes[i]);
      kvk_groups cut = kvk_cut_rows(kernel == 1 ? KVK_SPLIT_PER_HEAD : KVK_SPLIT_VERIFY, shapes[i].queries,
                                    shapes[i].heads);
      for (int wide = 0; wide < 2; wide++) {
        const double room = wide ? KVK_WIDE_LIMIT : KVK_SMEM_LIMIT;
        const kvm_declared *d = kvm_declared_for(&declared, name[kernel], 90, 0, &p, room);
        CU_ASSERT_PTR_NOT_NULL_FATAL(d);
        CU_ASSERT_EQUAL(d->structure.units, (uint32_t)cut.tiles8);
        CU_ASSERT_EQUAL(d->structure.shared_bytes,
                        wide ? KVK_WIDE_SMEM((uint32_t)cut.tiles8) : KVK_SPLIT_SMEM((uint32_t)cut.tiles8));
        CU_ASSERT(d->merges == 5 && d->launches == 2);
        CU_ASSERT_EQUAL(d->structure.tile_tokens, wide ? 32 : 16);
        for (unsigned r = 0; r < d->block.roles; r++) { /* value warps first; the score warps' last tile is apart */
          CU_ASSERT(d->block.role[r].tile.steps > 40);
          CU_ASSERT_EQUAL(d->block.role[r].fewer, r > 0);
        }
      }
    }
  kvm_declared_free_all(&declared);
  kvm_gpus_free(&gpus);
}

void suite_kernels_model(void) {
  static const kv_test_case cases[] = {{"extend_serial", extend_serial_is_what_it_says},
                                       {"split kernels", split_kernels_are_what_they_say},
                                       {"segments", segments_of_a_block_are_counted},
                                       {"programs", programs_cover_every_block},
                                       {NULL, NULL}};
  kv_suite("kernels_model", cases);
}
