/* The path through machine code by hints (models/time_walk.h), on a listing made up by hand: a block of two
 * roles, a loop over tiles with a rare path, an inner loop, a wait, loads. And the mechanisms of time_sm.h
 * that such programs use. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_test.h"
#include "time_kernel.h"
#include "time_walk.h"

static FILE *listing_file;
static unsigned address;

/* An instruction as `nvdisasm -c -gi -hex` prints it, from line `source` of the file; 0: as the one before.
 */
static void listed(unsigned source, const char *text, unsigned stall, unsigned set, unsigned waits) {
  unsigned long long bits = (unsigned long long)(stall | set << 5 | 7u << 8 | waits << 11) << 41;
  if (source) fprintf(listing_file, "\t//## File \"%s\", line %u\n", kv_tmp("kernel.cu"), source);
  fprintf(listing_file, "        /*%04x*/   %s ;  /* 0x0000000000017b82 */\n    /* 0x%016llx */\n", address,
          text, bits);
  address += 16;
}

static void label(const char *name) {
  fprintf(listing_file, "%s:\n", name);
}

static void start_listing(const char *function) {
  listing_file = fopen(kv_tmp("kernel.sass"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(listing_file);
  address = 0;
  (void)fputs(function, listing_file);
}

static void write_kernel(void) {
  FILE *f = fopen(kv_tmp("kernel.cu"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fputs(
      "if (warp < 1) producer();\nfor (int c = 0; c < 3; c++) prepare();\nslot = slots[key];\ncopy(row);\n"
      "arrive(full);\nfor (int i = 0; i < tiles; i++)\nif (rare) repair();\nwait(full);\nmultiply();\nif "
      "(late) return;\n",
      f);
  (void)fclose(f);
  start_listing(".text._Z5otherv:\n");
  listed(1, "EXIT", 1, 7, 0);
  (void)fputs(".text._Z4minev:\n", listing_file);
  address = 0;
  listed(1, "@!P0 BRA `(.L_x_5)", 5, 7, 0); /* 0: the producer goes on, others leave for .L_x_5 */
  label(".L_x_1");
  listed(2, "IADD3 R1, R1, 0x1, RZ", 4, 7, 0);
  listed(0, "@P1 BRA `(.L_x_1)", 5, 7, 0);
  label(".L_x_2");
  listed(3, "LDG.E R2, desc[UR4][R2.64]", 1, 0, 0);
  listed(4, "LDGSTS.E.BYPASS.128 [R4], desc[UR4][R6.64]", 1, 7, 1);
  listed(5, "ARRIVES.LDGSTSBAR.64.ARVCNT [UR4+0x80]", 1, 7, 0);
  listed(6, "@P2 BRA `(.L_x_2)", 5, 7, 0);
  listed(0, "EXIT", 5, 7, 0);
  label(".L_x_5");
  listed(6, "FADD R1, R1, R2", 4, 7, 0);
  label(".L_x_6");
  listed(7, "@P3 BRA `(.L_x_8)", 5, 7, 0);
  label(".L_x_7");
  listed(8, "SYNCS.PHASECHK.TRANS64.TRYWAIT P4, [UR4+0x80], R9", 2, 1, 0);
  listed(0, "@!P4 BRA `(.L_x_7)", 5, 7, 2);
  listed(9, "HMMA.16816.F32.BF16 R8, R4, R6, R8", 6, 7, 0);
  listed(6, "@P5 BRA `(.L_x_6)", 5, 7, 0);
  listed(10, "@P6 EXIT", 1, 7, 0);
  listed(9, "FMUL R8, R8, R1", 4, 7, 0);
  listed(0, "EXIT", 5, 7, 0);
  label(".L_x_8");
  listed(7, "FMUL R9, R9, R1", 4, 7, 0);
  listed(0, "BRA `(.L_x_7)", 5, 7, 0);
  (void)fclose(listing_file);
}

static const char head[] =
    "[kernel]\nname = mine\nlike = split_verify\narch = sm_90\ndescription = d\nsource = "
    "s\n[structure]\nthreads = 64\ntile_tokens = 16\nrow_bytes = 32\n"
    "[walk]\nfunction = mine\nloop = for (int i = 0; i < tiles\n";
static const char producer[] =
    "[warps producer]\ncount = 1\nturns = 3 for (int c = 0\nload = index/64 slot = slots\nload = row "
    "copy(row)\n"
    "land = 2 arrive(full)\n";
static const char consumer[] = "[warps consumer]\ncount = 1\ntake = if (warp < 1)\nawait = 2/1 wait(full)\n";

/* What comes out of `hints`; the caller frees. */
static char *walked(const char *hints, kv_status *status, kv_error *err) {
  char *text = NULL;
  size_t size = 0;
  FILE *f = fopen(kv_tmp("k.hints"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fputs(hints, f);
  (void)fclose(f);
  f = open_memstream(&text, &size);
  *status = kvm_walk(kv_tmp("k.hints"), kv_tmp("kernel.sass"), f, err);
  (void)fclose(f);
  return text;
}

static void paths_follow_the_hints(void) {
  char hints[2000];
  kv_status st;
  kv_error err = {KV_OK, ""};
  write_kernel();
  (void)snprintf(hints, sizeof hints, "%s%s%s", head, producer, consumer);
  char *text = walked(hints, &st, &err);
  CU_ASSERT_EQUAL(st, KV_OK);
  if (st) printf("%s\n", err.text);
  /* three turns of the inner loop, two of them jumps; then one tile */
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "begin =\n  alu*2:9 jump:5 alu:4 jump:5 alu*2:9"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "tile  =\n  ldg4.index/64>a cp16.row<a land.2 jump:5"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "begin =\n  jump:5 alu:4"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "tile  =\n  alu:5 await.2/1:2>b alu:5<b mma:6 jump:5"));
  CU_ASSERT_PTR_NULL(strstr(text, "take"));
  kvm_declared *k = NULL;
  FILE *f = fopen(kv_tmp("mine.ini"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fputs(text, f);
  (void)fclose(f);
  CU_ASSERT_EQUAL_FATAL(kvm_declared_load(kv_tmp("mine.ini"), &k, &err), KV_OK);
  CU_ASSERT(k->block.roles == 2 && k->block.role[0].tile.steps == 4 && k->block.role[1].end.steps == 1);
  kvm_declared_free(k);
  free(text);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s program --hints %s %s", kv_program("roofline"), kv_tmp("k.hints"),
                         kv_tmp("kernel.sass")),
                  0);
}

/* row@1: the first load that fits alone; the hint behind it tells of the others. */
static void loads_of_one_line_are_told_apart(void) {
  kv_status st;
  char hints[2000];
  write_kernel();
  start_listing(".text._Z4minev:\n"); /* in place of that kernel's */
  label(".L_x_2");
  for (int i = 0; i < 3; i++) listed(4, "LDG.E R2, desc[UR4][R2.64]", 1, 0, 0);
  listed(6, "@P2 BRA `(.L_x_2)", 5, 7, 0);
  listed(0, "EXIT", 5, 7, 0);
  (void)fclose(listing_file);
  (void)snprintf(hints, sizeof hints, "%s[warps all]\ncount = 2\nload = row,again@2 copy(row)\nload = hot copy(row)\n", head);
  kv_error err = {KV_OK, ""};
  char *text = walked(hints, &st, &err);
  CU_ASSERT_EQUAL(st, KV_OK);
  const char *row = strstr(text, "ldg4.row"), *again = strstr(text, "ldg4.again"), *hot = strstr(text, "ldg4.hot");
  CU_ASSERT(row && again > row && hot > again);
  if (st) printf("%s\n", err.text);
  free(text);
}

/* Rare code, left in the way (a branch jumps over it) or put elsewhere (a branch would lead there); asking stands for the wait behind it. */
static void rare_code_is_left_out(void) {
  kv_status st;
  char hints[2000];
  write_kernel();
  start_listing(".text._Z4minev:\n"); /* in place of that kernel's */
  label(".L_x_1");
  listed(8, "SYNCS.PHASECHK.TRANS64 P0, [R5+URZ+0x90], R6", 4, 0, 0);
  listed(10, "@P1 BRA `(.L_x_2)", 5, 7, 0);
  listed(1, "IADD3 R1, R1, 0x1, RZ", 4, 7, 0);
  listed(7, "STS [R9], R1", 4, 7, 0);
  label(".L_x_2");
  listed(9, "HMMA.16816.F32.BF16 R8, R4, R6, R8", 6, 7, 0);
  listed(10, "@P2 BRA `(.L_x_3)", 5, 7, 0);
  listed(6, "@P3 BRA `(.L_x_1)", 5, 7, 0);
  listed(0, "EXIT", 5, 7, 0);
  label(".L_x_3");
  listed(7, "STS [R9], R2", 4, 7, 0);
  listed(0, "EXIT", 5, 7, 0);
  (void)fclose(listing_file);
  for (int asked = 0; asked < 2; asked++) {
    (void)snprintf(hints, sizeof hints, "%s[warps all]\ncount = 2\nrare = repair()\n%s", head,
                   asked ? "await = 0/1 wait(full)\n" : "");
    kv_error err = {KV_OK, ""};
    char *text = walked(hints, &st, &err);
    CU_ASSERT_EQUAL(st, KV_OK);
    if (st) printf("%s\n", err.text);
    const char *tile = text ? strstr(text, "tile ") : NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(tile);
    CU_ASSERT(strstr(tile, "mma") && !strstr(tile, "sts"));
    CU_ASSERT_PTR_NOT_NULL(strstr(tile, asked ? "await.0/1" : "ask"));
    free(text);
  }
}

static void bank_conflicts_are_told(void) {
  char hints[2000];
  kv_status st;
  write_kernel();
  start_listing(".text._Z4minev:\n"); /* in place of that kernel's */
  label(".L_x_6");
  listed(8, "LDSM.16.M88.4 R4, [R2]", 4, 7, 0);
  listed(0, "LDSM.16.M88.4 R8, [R2+0x80]", 4, 7, 0);
  listed(9, "STS [R2], R1", 4, 7, 0);
  listed(0, "HMMA.16816.F32.BF16 R8, R4, R6, R8", 6, 7, 0);
  listed(6, "@P5 BRA `(.L_x_6)", 5, 7, 0);
  listed(0, "EXIT", 5, 7, 0);
  (void)fclose(listing_file);
  (void)snprintf(hints, sizeof hints,
                 "%s[warps all]\ncount = 2\nclash = 1,2 wait(full)\nclash = 4 multiply()\n", head);
  char *text = walked(hints, &st, NULL);
  CU_ASSERT_EQUAL(st, KV_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "ldsm4:4 ldsm4#2:4 sts4#4:4 mma:6"));
  free(text);
}

/* The loop's own line has a guard ahead of it: taken where the loop lies at its target, not where it would skip the loop. */
static void a_guard_leads_into_the_loop(void) {
  for (int behind = 0; behind < 2; behind++) {
    char hints[2000];
    kv_status st;
    write_kernel();
    start_listing(".text._Z4minev:\n"); /* in place of that kernel's */
    listed(6, behind ? "@P0 BRA `(.L_x_1)" : "@P0 BRA `(.L_x_2)", 5, 7, 0);
    if (behind) listed(9, "BRA `(.L_x_2)", 5, 7, 0); /* the way past the loop comes first */
    label(".L_x_1");
    listed(9, "HMMA.16816.F32.BF16 R8, R4, R6, R8", 6, 7, 0);
    listed(6, "@P5 BRA `(.L_x_1)", 5, 7, 0);
    label(".L_x_2");
    listed(9, "FMUL R8, R8, R1", 4, 7, 0);
    listed(0, "EXIT", 5, 7, 0);
    (void)fclose(listing_file);
    (void)snprintf(hints, sizeof hints, "%s[warps all]\ncount = 2\n", head);
    char *text = walked(hints, &st, NULL);
    CU_ASSERT_EQUAL(st, KV_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, behind ? "begin =\n  jump:5" : "begin =\n  alu:5"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "tile  =\n  mma:6 jump:5"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "end   =\n  alu*2:9"));
    free(text);
  }
  write_kernel(); /* for those that follow */
}

static void rare_paths_and_early_ends_are_taken_when_told(void) {
  char hints[2000];
  kv_status st;
  (void)snprintf(hints, sizeof hints, "%s%stake = if (rare)\ntake = if (late)\n", head, consumer);
  char *text = walked(hints, &st, NULL);
  CU_ASSERT_EQUAL(st, KV_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "tile  =\n  jump:5 alu:4 jump:5 await.2/1:2>b")); /* there and back */
  const char *end = strstr(text, "end   =\n");
  CU_ASSERT_PTR_NOT_NULL(end);
  CU_ASSERT(end && !strncmp(end + 8, "  alu ", 6)); /* the EXIT alone */
  free(text);
}

static void what_the_hints_leave_open_is_named(void) {
  static const struct {
    const char *hints, *says;
  } bad[] = {
      {"[warps a]\ncount = 1\nload = row copy(row)\nland = 2 arrive(full)\n", "no `load` says"},
      {"[warps a]\ncount = 1\nload = row copy(row)\nload = index slot = slots\n",
       "no hint names its mbarrier"},
      {"[warps a]\ncount = 1\ntake = if (warp < 1)\n", "wait(full)"},
      {"[warps a]\ncount = 1\nfunction = other\n", "ends without the loop"},
      {"[walk]\ncount = 1\n", "[walk] has hints alone"},
      {"[warps a]\nfunction = nobody\n", "no function"},
      {"[warps a]\nload = row\n", "needs the text"},
      {"[warps a]\nload = row@x copy(row)\n", "no number behind @"},
      {"[warps a]\nturns = 1000000 for (int c = 0\nload = row copy(row)\nload = hot slot\nland = 2 arrive\n",
       "no end"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char hints[2000];
    kv_status st;
    kv_error err = {KV_OK, ""};
    (void)snprintf(hints, sizeof hints, "%s%s", head, bad[i].hints);
    free(walked(hints, &st, &err));
    CU_ASSERT_EQUAL(st, KV_ERR_INPUT);
    CU_ASSERT(strstr(err.text, bad[i].says) != NULL);
    if (!strstr(err.text, bad[i].says)) printf("%zu: %s\n", i, err.text);
  }
  CU_ASSERT_EQUAL(kvm_walk("/nonexistent", "/nonexistent", stdout, NULL), KV_ERR_IO);
}

/* ---- the machine ---- */

static const kvm_sm base = {.l1_latency = 40,
                            .l2_latency = 300,
                            .dram_latency = 700,
                            .shared_latency = 30,
                            .shuffle_latency = 25,
                            .mma_latency = 33,
                            .sfu_latency = 20,
                            .barrier_latency = 20,
                            .ldmatrix_latency = 36,
                            .mbarrier_latency = 30,
                            .mbarrier_hop = 70,
                            .branch_latency = 15,
                            .mma_interval = 8,
                            .sfu_interval = 8,
                            .wave_interval = 1,
                            .link_bytes = 64,
                            .dram_bytes = 16,
                            .line_bytes = 128};

static double tile_of(const kvm_sm *sm, unsigned warps, const char *tile, kvm_misses misses) {
  kvm_block b = {.roles = 1};
  kvm_sm_time t = {0};
  kv_error err = {KV_OK, ""};
  b.role[0].warps = warps;
  CU_ASSERT_EQUAL_FATAL(kvm_program_parse(tile, &b.role[0].tile, &err), KV_OK);
  CU_ASSERT_EQUAL(kvm_sm_run(sm, &b, 1, misses, &t, &err), KV_OK);
  kvm_block_free(&b);
  return t.tile;
}

static void branches_and_asking_cost_what_they_cost(void) {
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&base, 1, "10( alu jump:5 )", KVM_WARM), 10 * (1 + 15), 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&base, 1, "10( ask>a alu<a )", KVM_WARM), 10 * (30 + 1), 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&base, 1, "10( ldsm4>a alu<a )", KVM_WARM), 10 * (36 + 1),
                         1e-9); /* four wavefronts within */
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&base, 1, "10( lds4>a alu<a )", KVM_WARM), 10 * (30 + 1), 1e-9);
}

/* Two warps in turn: a hop to the other and a hop back, and an instruction each. */
static void arrivals_hop(void) {
  kvm_block b = {.roles = 2};
  kvm_sm_time t;
  b.role[0].warps = b.role[1].warps = 1;
  CU_ASSERT_EQUAL_FATAL(kvm_program_parse("post.0 await.1/1>a alu<a", &b.role[0].tile, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_program_parse("await.0/1>a alu<a post.1", &b.role[1].tile, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvm_sm_run(&base, &b, 1, KVM_WARM, &t, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(t.tile, 70 + 1 + 70 + 1, 1e-9);
  kvm_block_free(&b);
}

/* A warp whose last tile stands in `end` posts the last count there, so the one that waits for each gets all; the last takes
 * 500 cycles more than the others, once. */
static void the_last_tile_may_stand_apart(void) {
  kvm_block b = {.roles = 2};
  kvm_sm_time plain, apart;
  b.role[0].warps = b.role[1].warps = 1;
  CU_ASSERT_EQUAL_FATAL(kvm_program_parse("alu:100 post.0", &b.role[0].tile, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_program_parse("await.0/1>a alu<a", &b.role[1].tile, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvm_sm_run(&base, &b, 1, KVM_WARM, &plain, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_program_parse("alu:600 post.0", &b.role[0].end, NULL), KV_OK);
  b.role[0].fewer = 1;
  CU_ASSERT_EQUAL(kvm_sm_run(&base, &b, 1, KVM_WARM, &apart, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(apart.tile, plain.tile, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(apart.once, plain.once + 500, 1e-9);
  kvm_block_free(&b);
}

/* 8 rows of 512 B: 4096 B. Over a link of 64 B a cycle 64 cycles, from a memory share of 16 B a cycle 256 on
 * average, by a copy unit of 8 B a cycle 512; idle time before a burst counts for the shared one alone. */
static void shares_bind_on_average(void) {
  kvm_sm sm = base;
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 8, "cp16.row commit group*3", KVM_COLD), 256, 1e-6);
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 8, "cp16.row commit group*3", KVM_WARM), 64, 1e-6);
  double burst = tile_of(&sm, 8, "cp16.row commit group*0 alu:1000", KVM_COLD);
  CU_ASSERT(burst > 1000 + 700 && burst < 1000 + 700 + 100); /* latency and link, not the 256 of its share */
  sm.l2_bytes = 32;
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 8, "cp16.row commit group*3", KVM_WARM), 128, 1e-6);
  sm.copy_bytes = 8;
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 8, "cp16.row commit group*3", KVM_COLD), 512, 1e-6);
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 8, "cp16.row#6 commit group*3", KVM_COLD), 768,
                         1e-6); /* 6 passes for 4 */
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 8, "ldg16.row>a alu<a", KVM_WARM),
                         tile_of(&base, 8, "ldg16.row>a alu<a", KVM_WARM), 64);
}

/* ---- who goes, and what delays the matrix unit ---- */

/* Cycles a tile of two warps of one scheduler, which meet after each tile. */
static double pair_of(const kvm_sm *sm, const char *a, const char *b) {
  kvm_block block = {.roles = 3};
  kvm_sm_time t = {0};
  const char *text[3] = {a, "bar", b};
  char tile[3][4000];
  for (int r = 0; r < 3; r++) {
    block.role[r].warps = r == 1 ? 3 : 1; /* warps 1 to 3 keep the other schedulers */
    (void)snprintf(tile[r], sizeof tile[r], "%s%s", text[r], r == 1 ? "" : " bar");
    CU_ASSERT_EQUAL_FATAL(kvm_program_parse(tile[r], &block.role[r].tile, NULL), KV_OK);
  }
  CU_ASSERT_EQUAL(kvm_sm_run(sm, &block, 1, KVM_WARM, &t, NULL), KV_OK);
  kvm_block_free(&block);
  return t.tile - sm->barrier_latency;
}

/* A stream of 48 mma and then 1000 cycles of its own; beside it 96 mma with an instruction after each. */
static void an_unbroken_stream_keeps_the_unit(void) {
  kvm_sm sm = base;
  sm.mma_interval = 6;
  double beside = pair_of(&sm, "47( mma:6 ) mma alu:1000", "96( mma:3 alu:3 )");
  CU_ASSERT_DOUBLE_EQUAL(beside, 47 * 6 + 1 + 1000, 20); /* as if alone; shared it would be 48 * 12 + 1000 */
  double broken = pair_of(&sm, "48( mma:3 alu:3 ) alu:1000", "96( mma:3 alu:3 )");
  CU_ASSERT(broken > 48 * 12 - 30 + 1000); /* equal ones share it */
  double both = pair_of(&sm, "48( mma:6 )", "48( mma:6 )");
  CU_ASSERT_DOUBLE_EQUAL(both, 96 * 6, 6); /* nothing is lost between them */
}

/* Steps of 12 mma and some 37 cycles of other things, as machine code has them: alone behind the mma, or with ffma between.
 * Cycles a step of both warps on an H200 (2026-11-29, steps of roofline calibrate --only=turns): pure beside pure 155 and 155;
 * pure 132 beside 397 of mixed; pure 144 beside 216 of single; single beside single 185 and 185. So both are done at the same
 * time after 1 and 1 steps, 3 and 1, 3 and 2, 1 and 1. */
#define REST " alu*4:12 sts4^a alu:13 alu:5<a "
#define PURE "alu:5 11( mma:6 ) mma" REST
#define MIXED "alu*3:7 5( mma:3 alu:3 mma alu*2:5 ) mma:3 alu:3 mma alu*19:70 alu>a alu*2:4 alu*3:10<a sts4^a alu:13 alu:5<a "
#define SINGLE "alu*2:6 mma alu*2:5 3( mma:3 alu:3 mma alu*2:5 ) 4( mma:6 ) mma" REST
static void pairs_take_what_they_take(void) {
  static const struct {
    const char *a, *b;
    double cycles;
  } pair[] = {{PURE PURE PURE PURE, PURE PURE PURE PURE, 4 * 155},
              {PURE PURE PURE PURE PURE PURE, MIXED MIXED, 2 * 397},
              {PURE PURE PURE PURE PURE PURE, SINGLE SINGLE SINGLE SINGLE, 2 * 432},
              {SINGLE SINGLE SINGLE SINGLE, SINGLE SINGLE SINGLE SINGLE, 4 * 185}};
  kvm_sm sm = base;
  sm.mma_interval = 6;
  sm.mma_delay = 1.06;
  sm.shared_latency = 23;
  for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
    double ab = pair_of(&sm, pair[i].a, pair[i].b), ba = pair_of(&sm, pair[i].b, pair[i].a);
    if (getenv("KVROOF_VERBOSE")) printf("pair %zu: %g and %g, measured %g\n", i, ab, ba, pair[i].cycles);
    CU_ASSERT(fabs(ab / pair[i].cycles - 1) < 0.15 && fabs(ba / pair[i].cycles - 1) < 0.15);
  }
}

static void others_delay_the_matrix_unit(void) {
  kvm_sm sm = base;
  sm.mma_interval = 6;
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 1, "100( mma:3 alu*3:3 )", KVM_WARM), 100 * 6, 1e-9);
  sm.mma_delay = 1.06; /* parts of a cycle add up: 9.18 an mma, not 10 */
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 1, "100( mma:3 alu*3:3 )", KVM_WARM), 100 * (6 + 3 * 1.06), 2);
  CU_ASSERT_DOUBLE_EQUAL(pair_of(&sm, "100( mma:3 alu*3:3 )", "100( mma:3 alu*3:3 )"), 200 * (6 + 3 * 1.06), 20);
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 1, "100( mma:6 )", KVM_WARM), 100 * 6, 1e-9); /* alone: none */
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 1, "100( alu )", KVM_WARM), 100, 1e-9);       /* who has no mma does not care */
  sm.mma_interval = 6.5; /* issued at whole cycles, as often as the unit takes them */
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 1, "100( mma )", KVM_WARM), 650, 1);
}

/* A copy takes the unit 64 cycles here. 32 may wait; the warp that asks for more is held until the first of those has begun. */
static void copies_hold_their_warp_when_the_queue_is_full(void) {
  kvm_sm sm = base;
  sm.copy_bytes = 8;
#define THREE_THOUSAND " alu:1000 alu:1000 alu:1000"
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 1, "16( cp16.row:4 )" THREE_THOUSAND, KVM_WARM), 16 * 4 + 3000, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(tile_of(&sm, 1, "32( cp16.row:4 )" THREE_THOUSAND, KVM_WARM), 32 * 4 + 3000, 1e-9);
  double more = tile_of(&sm, 1, "36( cp16.row:4 )" THREE_THOUSAND, KVM_WARM);
  CU_ASSERT_DOUBLE_EQUAL(more, 3 * 64 + 3000, 16); /* after the 36th its warp goes on when the 4th begins */
}

void suite_time_walk(void) {
  static const kv_test_case cases[] = {{"paths", paths_follow_the_hints},
                                       {"rare paths", rare_paths_and_early_ends_are_taken_when_told},
                                       {"guards", a_guard_leads_into_the_loop},
                                       {"open ends", what_the_hints_leave_open_is_named},
                                       {"loads of one line", loads_of_one_line_are_told_apart},
                                        {"rare code", rare_code_is_left_out},
                                       {"bank conflicts", bank_conflicts_are_told},
                                       {"branches", branches_and_asking_cost_what_they_cost},
                                       {"hops", arrivals_hop},
                                       {"last tiles", the_last_tile_may_stand_apart},
                                       {"shares", shares_bind_on_average},
                                       {"turns", an_unbroken_stream_keeps_the_unit},
                                       {"pairs", pairs_take_what_they_take},
                                       {"delay", others_delay_the_matrix_unit},
                                       {"copy queue", copies_hold_their_warp_when_the_queue_is_full},
                                       {NULL, NULL}};
  kv_suite("time_walk", cases);
}
