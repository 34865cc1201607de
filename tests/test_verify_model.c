/* The verify problem in numbers. Expected values are computed by hand from the definitions, or measured
 * elsewhere. */
#include <math.h>
#include <string.h>

#include "kv_test.h"
#include "verify.h"

static kvm_gpus all;
static const kvm_gpu *gpu(const char *name) {
  const kvm_gpu *g = NULL;
  if (!all.n) CU_ASSERT_EQUAL_FATAL(kvm_gpus_load(kv_source("models/gpus"), &all, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&all, name, &g, NULL), KV_OK);
  return g;
}

static kvm_ladder ladder(const char *name, unsigned kernel, const kvm_verify *p, kvm_work *w) {
  const kvm_gpu *g = gpu(name);
  kvm_roofs roofs = kvm_roofs_of(g);
  kvm_structure k = kvm_kernel(kernel, kvm_gpu_sm(g));
  kvm_useful u = kvm_structure_useful(&k, p);
  *w = kvm_structure_work(&k, p, g);
  return kvm_ladder_of(&u, w, &roofs, 1);
}

#define NEAR(a, b, rel) CU_ASSERT(fabs((a) - (b)) <= (rel)*fabs(b))

static void useful_work_of_eight_heads_at_131072(void) {
  kvm_verify p = kvm_verify_default(131072);
  kvm_useful u = kvm_verify_useful(&p);
  CU_ASSERT_DOUBLE_EQUAL(u.kv_bytes, 150994944, 0); /* 131072 x 1152 */
  CU_ASSERT_DOUBLE_EQUAL(u.query_bytes, 82944, 0);  /* 72 x 576 x 2 */
  CU_ASSERT_DOUBLE_EQUAL(u.output_bytes, 74016, 0); /* 72 x (512 x 2 + 4) */
  CU_ASSERT_DOUBLE_EQUAL(u.index_bytes, 524288, 0); /* 131072 x 4 */
  CU_ASSERT_DOUBLE_EQUAL(u.mask_bytes, 18, 0);      /* 9 rows of 2 bytes */
  CU_ASSERT_DOUBLE_EQUAL(u.bytes, 151676210, 0);
  CU_ASSERT_DOUBLE_EQUAL(u.flops, 20535312384.0, 0); /* 2 x 72 x 131072 x 1088 */
  NEAR(u.flops / u.kv_bytes, 136.0, 1e-12);          /* 2176 x 72 / 1152 */
  NEAR(u.intensity, 135.389, 1e-5);
}

static void row_sizes_are_those_of_the_formats(void) {
  kvm_rows rows;
  CU_ASSERT_EQUAL(kvm_rows_bytes(KVM_ROWS_BF16, 512, 64), 1152);
  CU_ASSERT_EQUAL(kvm_rows_bytes(KVM_ROWS_FP8, 512, 64), 576);
  CU_ASSERT_EQUAL(kvm_rows_bytes(KVM_ROWS_FP8_656, 512, 64), 656);
  CU_ASSERT(kvm_rows_parse("fp8-656", &rows) && rows == KVM_ROWS_FP8_656);
  CU_ASSERT_FALSE(kvm_rows_parse("fp4", &rows));
}

static void shared_rows_count_once_and_flops_every_time(void) {
  kvm_verify p = kvm_verify_default(0);
  p.batch = 2;
  p.tokens = 3000;
  p.longest = 2000;
  p.union_rows = 2200;
  p.sectors = 2200 * 36;
  kvm_useful u = kvm_verify_useful(&p);
  CU_ASSERT_DOUBLE_EQUAL(u.kv_bytes, 2200.0 * 1152, 0);
  CU_ASSERT_DOUBLE_EQUAL(u.flops, 2.0 * 72 * 3000 * 1088, 0);
  CU_ASSERT_DOUBLE_EQUAL(u.index_bytes, 12000, 0);
}

/* The floors of the H200 with its measured ceilings: 4.70807 TB/s, wgmma 954.579, mma.sync 645.972 TFLOP/s.
 */
static void floors_of_the_h200(void) {
  kvm_verify p = kvm_verify_default(131072);
  kvm_work w;
  kvm_ladder l = ladder("h200", 2, &p, &w);
  kvm_useful u = kvm_verify_useful(&p);
  NEAR(u.kv_bytes / 4.70807e12, 32.07e-6, 1e-3); /* the KV alone: 32.1 us */
  NEAR(l.t[0], 32.2162e-6, 1e-5);                /* with queries, outputs, indices */
  CU_ASSERT_DOUBLE_EQUAL(l.t[0], l.t[1],
                         0); /* 20.5 GFLOP take 31.8 us with mma.sync: memory stays the floor */
  p.heads = 64;
  l = ladder("h200", 2, &p, &w);
  NEAR(l.t[0], 172.10e-6, 1e-4); /* 164.28 GFLOP / 954.579 TFLOP/s */
  NEAR(l.t[1], 254.32e-6, 1e-4); /* ... / 645.972 */
}

/* T3 of rows that take twice as long: 151.7 MB of useful bytes and the tree's rows at 4.71 / 2 TB/s. */
static void a_scattered_layout_raises_t3(void) {
  kvm_verify p = kvm_verify_default(131072);
  const kvm_gpu *g = gpu("h200");
  kvm_roofs roofs = kvm_roofs_of(g);
  kvm_structure k = kvm_kernel(2, 90);
  kvm_useful u = kvm_structure_useful(&k, &p);
  kvm_work w = kvm_structure_work(&k, &p, g);
  kvm_ladder one = kvm_ladder_of(&u, &w, &roofs, 1), two = kvm_ladder_of(&u, &w, &roofs, 2),
             unknown = kvm_ladder_of(&u, &w, &roofs, NAN), many = kvm_ladder_of(&u, &w, &roofs, 100);
  CU_ASSERT_DOUBLE_EQUAL(one.t[3], one.t[2], 0);
  NEAR(many.t[3], 100 * w.chip[KVM_DRAM] / 4.70807e12, 1e-12);
  CU_ASSERT(two.t[3] >= two.t[2] && two.t[3] <= many.t[3] && many.t[4] >= many.t[3]);
  CU_ASSERT(many.binding == KVM_DRAM && !many.binding_sm);
  CU_ASSERT(isnan(unknown.t[3]) && !isnan(unknown.t[4]));
}

static void ridge_points(void) {
  kvm_roofs ws = kvm_roofs_of(gpu("sm_120")), h200 = kvm_roofs_of(gpu("h200"));
  NEAR(kvm_ridge(&ws), 281.1, 1e-3);   /* 503.8 / 1.792 */
  NEAR(kvm_ridge(&h200), 202.75, 1e-3); /* 954.579 / 4.70807 */
  CU_ASSERT_EQUAL(ws.chip[KVM_DRAM].kind, KVM_SPEC);
  CU_ASSERT_EQUAL(h200.chip[KVM_DRAM].kind, KVM_MEASURED);
  NEAR(h200.sm[KVM_MMA].rate, 645.972e12 / 132, 1e-9);
  CU_ASSERT(isnan(h200.sm[KVM_DRAM].rate));
  NEAR(h200.chip[KVM_LINK].rate, 24.2297e12, 1e-9);
  CU_ASSERT(isnan(ws.chip[KVM_LINK].rate)); /* the L2's rate bounds no link */
}

static void missing_ceilings_stay_missing(void) {
  kvm_verify p = kvm_verify_default(131072);
  kvm_work w;
  kvm_roofs b200 = kvm_roofs_of(gpu("b200")), gb10 = kvm_roofs_of(gpu("gb10"));
  CU_ASSERT(isnan(b200.chip[KVM_MMA].rate)); /* mma.sync there: nobody published it */
  CU_ASSERT(isnan(b200.chip[KVM_L2].rate) && isnan(b200.chip[KVM_LINK].rate));
  CU_ASSERT_EQUAL(b200.chip[KVM_L2].kind, KVM_UNKNOWN);
  CU_ASSERT(isnan(gb10.chip[KVM_L1].rate));
  kvm_ladder l = ladder("b200", 0, &p, &w);
  CU_ASSERT(l.missing & 1u << KVM_MMA);
  CU_ASSERT(l.missing & 1u << KVM_L2);
  CU_ASSERT(l.missing & 1u << (8 + KVM_LINK));
  CU_ASSERT_FALSE(l.missing & 1u << KVM_DRAM);
  CU_ASSERT(l.t[0] > 0 && l.t[4] >= l.t[2] && isnan(l.t[5]) && isnan(l.t[7]));
}

/* Counters on an H200 at 131072, 8 heads, 8 blocks: 152 MB from DRAM, over the link 2.290 GB (h200-verify-8.h5), as SGLang's Triton kernel
 * (sglang_extend_h200_counters.tsv); with more of the L1, which holds V then, 1.23 GB. */
static void serial_kernel_against_its_counters(void) {
  kvm_verify p = kvm_verify_default(131072);
  kvm_work w;
  kvm_ladder l = ladder("h200", 0, &p, &w);
  CU_ASSERT_EQUAL(w.blocks, 8);
  CU_ASSERT_EQUAL(w.blocks_per_sm, 1); /* 255 registers x 256 threads fill the 65536 */
  CU_ASSERT_DOUBLE_EQUAL(w.busy_sms, 8, 0);
  NEAR(w.waves, 8.0 / 132, 1e-12);
  NEAR(w.chip[KVM_DRAM], 152e6, 0.01);
  NEAR(w.chip[KVM_LINK], 2.290e9, 0.02);
  /* a row's 1152 + slot 4 + V 1024 a token and head; queries and output once */
  CU_ASSERT_DOUBLE_EQUAL(w.chip[KVM_LINK], 8.0 * 131081 * 2180 + 82944 + 74016, 0);
  kvm_structure held = kvm_kernel(0, 90);
  held.v_in_l1 = true;
  kvm_work less = kvm_structure_work(&held, &p, gpu("h200"));
  NEAR(less.chip[KVM_LINK], 1.228e9, 0.02);
  CU_ASSERT_DOUBLE_EQUAL(w.chip[KVM_LINK] - less.chip[KVM_LINK], 8.0 * 131081 * 1024, 0);
  CU_ASSERT_DOUBLE_EQUAL(less.chip[KVM_L1], w.chip[KVM_L1], 0); /* the L1 has V's loads either way */
  CU_ASSERT_DOUBLE_EQUAL(w.chip[KVM_MMA], 8.0 * 131136 * 32 * 2 * 1088,
                         0); /* 9 rows padded to 32, one tail tile */
  NEAR(w.sm[KVM_MMA], w.chip[KVM_MMA] / 8, 1e-12);
  NEAR(l.t[4] / l.t[2], 16.5, 0.01); /* 8 of 132 SMs */
  CU_ASSERT(l.binding == KVM_L1 && l.binding_sm);
  CU_ASSERT(l.t[4] < 20.454e-3); /* what was measured: a bound must lie below */
}

static void more_heads_cost_nothing_while_they_fit_one_wave(void) {
  kvm_verify p = kvm_verify_default(131072);
  kvm_work w;
  double eight = ladder("h200", 0, &p, &w).t[4];
  p.heads = 64;
  NEAR(ladder("h200", 0, &p, &w).t[4], eight, 1e-9);
  p.heads = 133; /* one SM gets a second block */
  NEAR(ladder("h200", 0, &p, &w).t[4], 2 * eight, 0.01);
}

static void tiles_follow_the_architecture(void) {
  CU_ASSERT_EQUAL(kvm_kernel(0, 90).tile_tokens, 64);
  CU_ASSERT_EQUAL(kvm_kernel(0, 120).tile_tokens, 32);
  CU_ASSERT_EQUAL(kvm_kernel(0, 89).tile_tokens, 32);
  CU_ASSERT_EQUAL(kvm_kernel(0, 80).tile_tokens, 64);
}

static void every_kernel_fits_a_hundred_kilobytes(void) {
  kvm_verify p = kvm_verify_default(1000);
  for (unsigned k = 0; k < KVM_KERNELS; k++) {
    kvm_structure s = kvm_kernel(k, 120);
    CU_ASSERT(kvm_structure_work(&s, &p, gpu("sm_120")).fits);
  }
  kvm_structure large = kvm_kernel(0, 90);
  CU_ASSERT_FALSE(kvm_structure_work(&large, &p, gpu("sm_120")).fits);
}

static void split_verify_shares_rows_and_fills_the_gpu(void) {
  kvm_verify p = kvm_verify_default(131072);
  kvm_work w;
  kvm_ladder l = ladder("sm_120", 2, &p, &w);
  CU_ASSERT_EQUAL(w.splits, 94); /* 2 groups of 36 rows on 188 SMs */
  CU_ASSERT_DOUBLE_EQUAL(w.block_tiles, 88,
                         0);      /* 8193 tiles of a group, the tree's among them, / 94 = 87.2 */
  CU_ASSERT_EQUAL(w.blocks, 188); /* 8193 / 88 = 93.1: 94 blocks for either group */
  CU_ASSERT(w.aligned && w.segments == 188 && w.block_segments == 1);
  CU_ASSERT_DOUBLE_EQUAL(w.chip[KVM_MMA], 2.0 * (131072 + 16) * 40 * 2 * 1088, 0); /* 36 rows padded to 40 */
  double partial = 2.0 * 188 * 40 * 1028; /* written and read: bf16 and a logarithm, padding too */
  CU_ASSERT_DOUBLE_EQUAL(w.chip[KVM_LINK], 2.0 * 131081 * 1156 + 94.0 * (82944 + 74016) + partial, 1);
  /* what both groups want meets on the way: the L2 gives it once at least */
  CU_ASSERT_DOUBLE_EQUAL(w.chip[KVM_L2], 131081.0 * 1156 + 82944 + 74016 + partial, 1);
  CU_ASSERT_EQUAL(l.binding, KVM_DRAM);
}

/* What our own kernels took on an H200 (models/measured/h200-verify-8.h5, -64.h5, contiguous, cold; extend_serial with the more L1 that it
 * had before): no bound may lie above. */
static void bounds_lie_below_what_was_measured(void) {
  static const struct {
    unsigned kernel;
    uint32_t heads;
    uint64_t prefix;
    double measured;
  } of[] = {{0, 8, 4096, 534.3e-6},  {0, 8, 131072, 16.555e-3}, {0, 64, 131072, 16.351e-3},
            {1, 8, 4096, 15.7e-6},   {1, 8, 131072, 179.0e-6},  {1, 64, 131072, 1293e-6},
            {2, 8, 4096, 12.8e-6},   {2, 8, 131072, 69.7e-6},   {2, 64, 4096, 26.0e-6},
            {2, 64, 131072, 406e-6}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    kvm_verify p = kvm_verify_default(of[i].prefix);
    kvm_work w;
    p.heads = of[i].heads;
    kvm_ladder l = ladder("h200", of[i].kernel, &p, &w);
    CU_ASSERT(l.t[0] > 0 && l.t[4] < of[i].measured);
  }
}

/* One request of 100000 tokens and nine of 100: blocks take equal shares of all tiles, so none has more than
 * the rest, whoever is the longest. */
static void a_ragged_batch_is_split_evenly(void) {
  kvm_verify p = kvm_verify_default(100000);
  p.batch = 10;
  p.tokens = p.union_rows = 100900;
  p.sectors = p.union_rows * 36;
  kvm_structure k = kvm_kernel(2, 90);
  kvm_work w = kvm_structure_work(&k, &p, gpu("h200"));
  CU_ASSERT_DOUBLE_EQUAL(w.tiles, 2 * ((100900 + 90) / 32.0 + 5), 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(w.block_tiles, 48, 0); /* half of 6322 tiles on 66 SMs: 47.9 */
  CU_ASSERT_DOUBLE_EQUAL(w.busy_sms, 132, 0);
}

/* One request of 39150 tokens and 46 of 64, a block a head: the longest block takes as long as if it were alone, not as often as an
 * SM has blocks. A batch of equal ones does come in whole blocks. */
static void a_ragged_batch_waits_for_its_longest(void) {
  kvm_verify alone = kvm_verify_default(39150), ragged = alone, equal = alone;
  kvm_work one, few, many;
  ragged.batch = equal.batch = 47;
  ragged.tokens = ragged.union_rows = 39150 + 46 * 64;
  ragged.sectors = ragged.union_rows * 36;
  equal.tokens = equal.union_rows = 47 * 39150;
  equal.sectors = equal.union_rows * 36;
  const kvm_ladder l = ladder("h200", 0, &alone, &one), r = ladder("h200", 0, &ragged, &few), e = ladder("h200", 0, &equal, &many);
  CU_ASSERT_EQUAL(few.blocks, 376);
  CU_ASSERT_DOUBLE_EQUAL(few.busiest_tiles, one.block_tiles, 0);
  CU_ASSERT_DOUBLE_EQUAL(many.busiest_tiles, 3 * one.block_tiles, 1e-9 * one.block_tiles); /* 376 blocks on 132 SMs */
  NEAR(r.t[4], l.t[4], 0.01);
  NEAR(e.t[4], 3 * l.t[4], 0.01);
}

/* Rows of a byte a value may meet instructions of fp8: the floor must not lie above those. */
static void rows_of_fp8_have_the_rate_of_fp8(void) {
  kvm_verify p = kvm_verify_default(131072);
  kvm_roofs r = kvm_roofs_of(gpu("h200")), of_bf16 = r;
  kvm_roofs_for_rows(&of_bf16, gpu("h200"), &p);
  CU_ASSERT_DOUBLE_EQUAL(of_bf16.mma_best.rate, r.mma_best.rate, 0);
  p.row_bytes = kvm_rows_bytes(KVM_ROWS_FP8_656, 512, 64);
  kvm_roofs_for_rows(&r, gpu("h200"), &p);
  CU_ASSERT_DOUBLE_EQUAL(r.mma_best.rate, kvm_gpu_number(gpu("h200"), "fp8_dense"), 1);
  CU_ASSERT(r.mma_best.rate > 1.5 * of_bf16.mma_best.rate);
}

/* sm_120's structure: 94 KiB for 576 values are 187 for 1152, which an H200's block may have, and 1376 for 9216, which none may.
 */
static void shared_memory_follows_the_row(void) {
  kvm_verify p = kvm_verify_default(4096);
  kvm_structure k = kvm_kernel(2, 120);
  CU_ASSERT_EQUAL(kvm_structure_work(&k, &p, gpu("h200")).blocks_per_sm, 1);
  p.latent = 1024;
  p.rope = 128;
  p.row_bytes = kvm_rows_bytes(KVM_ROWS_BF16, p.latent, p.rope);
  CU_ASSERT(kvm_structure_work(&k, &p, gpu("h200")).fits);
  CU_ASSERT_FALSE(kvm_structure_work(&k, &p, gpu("sm_120")).fits);
  p.latent = 8192;
  p.rope = 1024;
  CU_ASSERT_FALSE(kvm_structure_work(&k, &p, gpu("h200")).fits);
}

static void the_ladder_never_falls(void) {
  static const char *const names[] = {"sm_120",   "h200", "h100", "a100", "l40s",
                                      "rtx 4090", "b200", "b300", "gb10", "rtx 5090"};
  static const uint64_t prefix[] = {0, 1, 9, 31, 64, 4096, 131072, 189440, KVM_MAX_PREFIX};
  static const uint32_t heads[] = {1, 8, 12, 64, 128, 4096};
  for (size_t g = 0; g < sizeof names / sizeof *names; g++)
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
      for (size_t h = 0; h < sizeof heads / sizeof *heads; h++)
        for (unsigned k = 0; k < KVM_KERNELS; k++) {
          kvm_verify p = kvm_verify_default(prefix[i]);
          kvm_work w;
          p.heads = heads[h];
          kvm_ladder l = ladder(names[g], k, &p, &w);
          CU_ASSERT(l.t[0] > 0 && l.t[0] <= l.t[1] && l.t[1] <= l.t[2] && l.t[2] == l.t[3] &&
                    l.t[3] <= l.t[4]);
          CU_ASSERT(isfinite(l.t[4]) && w.blocks >= 1 && w.splits >= 1);
        }
}

static void merge_state_moves_three_results(void) {
  kvm_verify p = kvm_verify_default(131072);
  kvm_structure k = kvm_kernel(3, 90);
  kvm_useful u = kvm_structure_useful(&k, &p);
  CU_ASSERT_DOUBLE_EQUAL(u.bytes, 222048, 0);                          /* 3 x 72 x (1024 + 4) */
  CU_ASSERT_EQUAL(kvm_structure_work(&k, &p, gpu("h200")).blocks, 72); /* 72 x 512 / 512 */
}

static void problems_out_of_range_are_refused(void) {
  kvm_verify p = kvm_verify_default(0);
  CU_ASSERT_EQUAL(kvm_verify_check(&p, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(kvm_verify_useful(&p).flops, 0, 0);
  CU_ASSERT_DOUBLE_EQUAL(kvm_verify_useful(&p).intensity, 0, 0);
  kvm_verify bad[7];
  for (int i = 0; i < 7; i++) bad[i] = p;
  bad[0].heads = 0;
  bad[1].queries = 5000;
  bad[2].batch = 0;
  bad[3].latent = 0;
  bad[4].row_bytes = 0;
  bad[5].tokens = KVM_MAX_PREFIX + 1;
  bad[6].union_rows = 1;
  for (int i = 0; i < 7; i++) CU_ASSERT_EQUAL(kvm_verify_check(&bad[i], NULL), KV_ERR_USAGE);
}

static void free_descriptions(void) {
  kvm_gpus_free(&all);
}

void suite_verify_model(void) {
  static const kv_test_case cases[] = {{"useful work", useful_work_of_eight_heads_at_131072},
                                       {"row sizes", row_sizes_are_those_of_the_formats},
                                       {"shared rows", shared_rows_count_once_and_flops_every_time},
                                       {"floors", floors_of_the_h200},
                                       {"scattered layout", a_scattered_layout_raises_t3},
                                       {"ridge points", ridge_points},
                                       {"missing ceilings", missing_ceilings_stay_missing},
                                       {"serial kernel", serial_kernel_against_its_counters},
                                       {"one wave", more_heads_cost_nothing_while_they_fit_one_wave},
                                       {"tiles", tiles_follow_the_architecture},
                                       {"shared memory", every_kernel_fits_a_hundred_kilobytes},
                                       {"split_verify", split_verify_shares_rows_and_fills_the_gpu},
                                       {"below measured", bounds_lie_below_what_was_measured},
                                       {"ragged batch", a_ragged_batch_is_split_evenly},
                                       {"ragged batch, a block a request", a_ragged_batch_waits_for_its_longest},
                                       {"fp8 rows", rows_of_fp8_have_the_rate_of_fp8},
                                       {"row size", shared_memory_follows_the_row},
                                       {"ladder", the_ladder_never_falls},
                                       {"merge_state", merge_state_moves_three_results},
                                       {"out of range", problems_out_of_range_are_refused},
                                       {"clean up", free_descriptions},
                                       {NULL, NULL}};
  kv_suite("verify_model", cases);
}
