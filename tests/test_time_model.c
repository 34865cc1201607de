/* The time model: programs, one SM, kernels' declarations, T5 to T7. Expected cycles are worked out by hand
 * from the rules in time_sm.h; the machine below has round numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kv_test.h"
#include "time_model.h"
#include "time_sass.h"

#define NEAR(a, b, rel) CU_ASSERT(fabs((a) - (b)) <= (rel)*fabs((double)(b)))

/* ---- programs ---- */

static kvm_program program(const char *text) {
  kvm_program p;
  kv_error err = {KV_OK, ""};
  kv_status st = kvm_program_parse(text, &p, &err);
  if (st) printf("%s\n", err.text);
  CU_ASSERT_EQUAL_FATAL(st, KV_OK);
  return p;
}

static void words_become_steps(void) {
  kvm_program p =
      program("alu*9:26<ab ldg16.row*2:8>c^d 3( mma:7<c 2( ldsm4>e ) ) bar.3/4 cp16.row commit group*1");
  CU_ASSERT_EQUAL(p.steps, 1 + 2 + 9 + 4);
  CU_ASSERT(p.step[0].op == KVM_ALU && p.step[0].count == 9 && p.step[0].cycles == 26 &&
            p.step[0].waits == 3);
  CU_ASSERT(p.step[1].op == KVM_LDG && p.step[1].where == KVM_ROW && p.step[1].bytes == 512 &&
            p.step[1].waves == 4);
  CU_ASSERT(p.step[1].cycles == 4 && p.step[1].set == 2 && p.step[1].read == 3);
  CU_ASSERT(p.step[3].op == KVM_MMA_OP && p.step[3].cycles == 7 && p.step[3].waits == 4);
  CU_ASSERT(p.step[4].op == KVM_LDSM && p.step[5].op == KVM_LDSM && p.step[6].op == KVM_MMA_OP);
  CU_ASSERT(p.step[12].barrier == 3 && p.step[12].barrier_warps == 4);
  CU_ASSERT(p.step[15].op == KVM_GROUP && p.step[15].count == 1);
  kvm_program_work w = kvm_program_count(&p);
  CU_ASSERT_DOUBLE_EQUAL(w.mma, 3, 0);
  CU_ASSERT_DOUBLE_EQUAL(w.waves, 2 * 4 + 6 * 4 + 4, 0);
  CU_ASSERT_DOUBLE_EQUAL(w.row_bytes, 3 * 512, 0);
  kvm_program_free(&p);
  p = program("ldg8.index/32>a");
  CU_ASSERT(p.step[0].bytes == 32 && p.step[0].waves == 1);
  kvm_program_free(&p);
}

static void bad_words_are_named(void) {
  static const char *const bad[] = {"foo",
                                    "alu*0",
                                    "alu*",
                                    "mma>g",
                                    "mma<",
                                    "ldg16.rows",
                                    "lds4.row",
                                    "bar.16/4",
                                    "bar.1/0",
                                    "bar.x",
                                    "arrive",
                                    "3( mma",
                                    "mma )",
                                    "0( mma )",
                                    "3 mma",
                                    "alu*9:5",
                                    "alu;",
                                    "mma*70000",
                                    "99999( 9999( mma ) )",
                                    "ldg8.index/0",
                                    "1(1(1(1(1(1(1(1(1(1( mma ))))))))))",
                                    "post",
                                    "post.1/2",
                                    "await.1",
                                    "land.16"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kvm_program p;
    kv_error err = {KV_OK, ""};
    CU_ASSERT_EQUAL(kvm_program_parse(bad[i], &p, &err), KV_ERR_INPUT);
    CU_ASSERT(strstr(err.text, "word") && !p.step);
  }
}

/* ---- machine code ---- */

/* An instruction as cuobjdump -sass prints it; the bits as the assembler packs them. */
static void listed(FILE *f, unsigned address, const char *text, unsigned stall, unsigned set, unsigned read,
                   unsigned waits) {
  fprintf(f, "        /*%04x*/                   %s ;   /* 0x0000000000017b82 */\n", address, text);
  fprintf(f, "                                    /* 0x%016llx */\n",
          (unsigned long long)(stall | set << 5 | read << 8 | waits << 11) << 41 | 0x1ffffffffffull);
}

static void a_listing_becomes_a_program(void) {
  char path[300], out[300], text[400] = "";
  kvm_sass s;
  kvm_sass_loop loop[4];
  (void)snprintf(path, sizeof path, "%s", kv_tmp("k.sass"));
  (void)snprintf(out, sizeof out, "%s", kv_tmp("k.words"));
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs("\tcode for sm_90\n\t\tFunction : other\n", f);
  listed(f, 0, "EXIT", 1, 7, 7, 0);
  fputs("\t\tFunction : _Z4mine\n", f);
  listed(f, 0x00, "S2R R1, SR_TID.X", 2, 0, 7, 0);
  listed(f, 0x10, "IADD3 R1, R1, 0x1, RZ", 4, 7, 7, 0);
  listed(f, 0x20, "IMAD R2, R1, 0x4, RZ", 5, 7, 7, 0);
  listed(f, 0x30, "@!P0 LDG.E.128 R4, desc[UR4][R2.64]", 1, 3, 1, 0);
  listed(f, 0x40, "HMMA.16816.F32.BF16 R8, R4, R6, R8", 6, 7, 7, 8);
  listed(f, 0x50, "DEPBAR.LE SB0, 0x2", 1, 7, 7, 0);
  listed(f, 0x60, "@P0 BRA 0x10", 5, 7, 7, 0);
  (void)fclose(f);
  CU_ASSERT_EQUAL_FATAL(kvm_sass_read(path, "mine", &s, NULL), KV_OK);
  CU_ASSERT(s.n == 7 && !strcmp(s.function, "_Z4mine"));
  CU_ASSERT_EQUAL(kvm_sass_loops(&s, 2, loop, 4), 1);
  CU_ASSERT(loop[0].from == 1 && loop[0].to == 6);
  f = fopen(out, "w+");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  kvm_sass_program(&s, 1, 6, f);
  rewind(f);
  CU_ASSERT_PTR_NOT_NULL(fgets(text, sizeof text, f));
  (void)fclose(f);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "alu*2:9 ldg16.row>d^b mma:6<d group*2 alu:5"));
  kvm_program p = program(text); /* and is one */
  CU_ASSERT_EQUAL(p.steps, 5);
  kvm_program_free(&p);
  kvm_sass_free(&s);
  CU_ASSERT_EQUAL(kvm_sass_read(path, "nobody", &s, NULL), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(kvm_sass_read(kv_source("LICENSE"), NULL, &s, NULL), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(kvm_sass_read("/nonexistent", NULL, &s, NULL), KV_ERR_IO);
  CU_ASSERT_EQUAL(
      kv_run(NULL, NULL, "%s program %s --function mine --lines 1:6", kv_program("roofline"), path), 0);
  CU_ASSERT_EQUAL(
      kv_run(NULL, NULL, "%s program %s --function mine --lines 1:60", kv_program("roofline"), path), 2);
}

/* ---- one SM ---- */

static const kvm_sm round_sm = {.l1_latency = 40,
                                .l2_latency = 300,
                                .dram_latency = 700,
                                .shared_latency = 30,
                                .shuffle_latency = 25,
                                .mma_latency = 33,
                                .sfu_latency = 20,
                                .barrier_latency = 20,
                                .ldmatrix_latency = 28,
                                .mbarrier_latency = 0,
                                .mbarrier_hop = 29,
                                .branch_latency = 15,
                                .mma_interval = 8,
                                .sfu_interval = 8,
                                .wave_interval = 1,
                                .link_bytes = 64,
                                .dram_bytes = 16,
                                .line_bytes = 128};

static kvm_sm_time run(unsigned warps, const char *tile, unsigned resident, bool misses) {
  const kvm_misses which = misses ? KVM_COLD : KVM_WARM;
  kvm_block b = {.roles = 1};
  kvm_sm_time t = {0};
  kv_error err = {KV_OK, ""};
  b.role[0].warps = warps;
  b.role[0].tile = program(tile);
  kv_status st = kvm_sm_run(&round_sm, &b, resident, which, &t, &err);
  if (st) printf("%s\n", err.text);
  CU_ASSERT_EQUAL(st, KV_OK);
  kvm_block_free(&b);
  return t;
}

static void issue_slots_bind(void) {
  CU_ASSERT_DOUBLE_EQUAL(run(1, "alu*100:400", 1, true).tile, 400, 1e-9); /* one warp: its own stalls */
  CU_ASSERT_DOUBLE_EQUAL(run(8, "100( alu:4 )", 1, true).tile, 400,
                         1e-9); /* two a scheduler still fit in between */
  CU_ASSERT_DOUBLE_EQUAL(run(32, "100( alu:4 )", 1, true).tile, 800, 8); /* eight do not: 8 x 100 slots */
  NEAR(run(32, "100( alu:4 )", 1, true).issue, 1, 0.02);
}

static void pipes_bind(void) {
  CU_ASSERT_DOUBLE_EQUAL(run(4, "mma*100", 1, true).tile, 800, 1e-9); /* a scheduler each: 100 x 8 */
  CU_ASSERT_DOUBLE_EQUAL(run(8, "mma*100", 1, true).tile, 1600, 8);
  CU_ASSERT_DOUBLE_EQUAL(run(4, "mma*100", 2, true).tile, 1600,
                         1e-6); /* two blocks beside each other are the same */
  CU_ASSERT_DOUBLE_EQUAL(run(8, "ldsm4*50", 1, true).tile, 1600,
                         1e-6); /* 8 x 50 x 4 wavefronts, one a cycle */
  NEAR(run(8, "ldsm4*50", 1, true).l1, 1, 0.01);
  CU_ASSERT_DOUBLE_EQUAL(run(8, "ldg16.again*10>a alu<a", 4, true).tile, 2560,
                         1); /* 4 x 8 x 10 x 512 B at 64 B a cycle */
  NEAR(run(8, "ldg16.again*10>a alu<a", 4, true).link, 1, 0.001);
  CU_ASSERT_DOUBLE_EQUAL(run(8, "ldg16.row*10>a alu<a", 4, true).tile, 10240,
                         1); /* at 16 B a cycle from memory */
  CU_ASSERT_DOUBLE_EQUAL(run(4, "sfu*10", 1, true).tile, 80, 1e-9);
}

/* latency (issue and one wavefront within it), 32 B at 64 B a cycle of link; the waiting alu goes with the next whole cycle */
static void dependent_loads_take_their_latency(void) {
  CU_ASSERT_DOUBLE_EQUAL(run(1, "10( ldg8.hot/32>a alu<a )", 1, true).tile, 10 * (40 + 1), 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(run(1, "10( ldg8.index/32>a alu<a )", 1, false).tile, 10 * (1 + 300 + 1), 1e-9);
  /* of 8 sectors of 32 B two begin a line of 128 B and come from memory */
  CU_ASSERT_DOUBLE_EQUAL(run(1, "8( ldg8.index/32>a alu<a )", 1, true).tile,
                         8 * (1 + 1) + 6 * 300 + 2 * 700, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(run(1, "10( shfl>a alu<a )", 1, true).tile, 10 * (25 + 1), 1e-9);
  /* a row: three wavefronts more than one, 512 B over the link at 64 B a cycle, then the latency; 16 B a
   * cycle is what memory gives on average and no delay for a single row */
  CU_ASSERT_DOUBLE_EQUAL(run(1, "ldg16.row>a alu<a", 1, true).tile, 3 + 8 + 700 + 1, 1e-9);
}

static void stages_hide_latency(void) {
  double one = run(4, "cp16.row*4 commit group*0 alu*200", 1, false).tile;
  double two = run(4, "cp16.row*4 commit group*1 alu*200", 1, false).tile;
  double three = run(4, "cp16.row*4 commit group*2 alu*200", 1, false).tile;
  CU_ASSERT(one > 500 && two < one - 150 && three < two);
  NEAR(three, 206, 0.03); /* nothing but its own instructions: 4 + 1 + 1 + 200 */
}

static void barriers_wait_for_the_last(void) {
  kvm_block b = {.roles = 2};
  kvm_sm_time t;
  b.role[0].warps = b.role[1].warps = 1;
  b.role[0].tile = program("alu*10 bar");
  b.role[1].tile = program("alu*100 bar");
  CU_ASSERT_EQUAL(kvm_sm_run(&round_sm, &b, 1, KVM_COLD, &t, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(t.tile, 120, 1e-9); /* 100, then the barrier's 20 */
  kvm_block_free(&b);
  b = (kvm_block){.roles = 2};
  b.role[0].warps = b.role[1].warps = 1;
  b.role[0].tile = program("bar.2/2 alu*50 arrive.1/2"); /* goes on */
  b.role[1].tile = program("arrive.2/2 bar.1/2 alu*200");
  CU_ASSERT_EQUAL(kvm_sm_run(&round_sm, &b, 1, KVM_COLD, &t, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(t.tile, 20 + 50 + 20 + 200, 1e-9);
  kvm_block_free(&b);
}

/* A producer two tiles ahead of a consumer that takes 400 cycles: the consumer sets the pace, never starving.
 */
static void counters_hold_a_ring_together(void) {
  kvm_block b = {.roles = 2};
  kvm_sm_time t;
  b.role[0].warps = b.role[1].warps = 1;
  b.role[0].tile = program("await.1/1-2 cp16.row land.0");
  b.role[1].tile = program("await.0/1 alu*400 post.1");
  CU_ASSERT_EQUAL(kvm_sm_run(&round_sm, &b, 1, KVM_WARM, &t, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(t.tile, 402, 0.5); /* await, 400, post */
  kvm_program_free(&b.role[0].tile);
  b.role[0].tile = program("await.1/1-1 cp16.row land.0"); /* one ahead only: each tile waits for its row */
  CU_ASSERT_EQUAL(kvm_sm_run(&round_sm, &b, 1, KVM_WARM, &t, NULL), KV_OK);
  CU_ASSERT(t.tile > 402 + 300);
  kvm_program_free(&b.role[0].tile);
  /* Three tiles ahead, and both want the one matrix pipe of a scheduler: 60 products of 8 cycles take turns,
   * then the consumer computes. No tile counts that had the pipe alone, since the producer was done. */
  kvm_program_free(&b.role[1].tile);
  b.role[0].tile = program("await.1/4-12 mma*30 post.0");
  b.role[1].tile = program("await.0/4 mma*30 alu*200 post.1");
  b.role[0].warps = b.role[1].warps = 4;
  CU_ASSERT_EQUAL(kvm_sm_run(&round_sm, &b, 1, KVM_WARM, &t, NULL), KV_OK);
  CU_ASSERT(t.tile > 650 && t.tile < 60 * 8 + 200 + 20);
  kvm_program_free(&b.role[0].tile);
  b.role[0].tile = program("alu"); /* nobody counts */
  CU_ASSERT_EQUAL(kvm_sm_run(&round_sm, &b, 1, KVM_WARM, &t, NULL), KV_ERR_INPUT);
  kvm_block_free(&b);
}

static void what_cannot_go_on_is_refused(void) {
  kvm_block b = {.roles = 1};
  kvm_sm_time t;
  kv_error err = {KV_OK, ""};
  b.role[0].warps = 4;
  b.role[0].tile = program("bar.1/5 alu");
  CU_ASSERT_EQUAL(kvm_sm_run(&round_sm, &b, 1, KVM_COLD, &t, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "barrier"));
  CU_ASSERT_EQUAL(kvm_sm_run(&round_sm, &b, 17, KVM_COLD, &t, &err), KV_ERR_INPUT); /* 68 warps */
  CU_ASSERT_EQUAL(kvm_sm_run(&round_sm, &b, 0, KVM_COLD, &t, &err), KV_ERR_INPUT);
  kvm_block_free(&b);
}

static void what_happens_once_is_apart(void) {
  kvm_block b = {.roles = 1};
  kvm_sm_time t;
  b.role[0].warps = 1;
  b.role[0].begin = program("alu*70");
  b.role[0].tile = program("alu*10");
  b.role[0].end = program("alu*33");
  CU_ASSERT_EQUAL(kvm_sm_run(&round_sm, &b, 1, KVM_COLD, &t, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(t.tile, 10, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(t.once, 103, 1e-9);
  kvm_block_free(&b);
}

/* ---- declarations ---- */

static kvm_gpus gpus, pipes;
static kvm_declared_set declared;
static void load(void) {
  kv_error err = {KV_OK, ""};
  if (gpus.n) return;
  kv_status st = kvm_gpus_load(kv_source("models/gpus"), &gpus, &err);
  if (!st) st = kvm_gpus_load(kv_source("models/pipes"), &pipes, &err);
  if (!st) st = kvm_declared_load_all(kv_source("models/kernels"), &declared, &err);
  if (st) printf("%s\n", err.text);
  CU_ASSERT_EQUAL_FATAL(st, KV_OK);
}

static kv_status load_text(const char *text, kvm_declared **k, kv_error *err) {
  const char *path = kv_tmp("kernel.ini");
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fputs(text, f);
  (void)fclose(f);
  return kvm_declared_load(path, k, err);
}

#define OWN \
  "[kernel]\nname = mine\nlike = split_verify\narch = sm_90\n[structure]\nthreads = 256\ntile_tokens = 32\n"

static void a_kernel_of_ones_own(void) {
  kvm_declared *k;
  kv_error err = {KV_OK, ""};
  CU_ASSERT_EQUAL_FATAL(
      load_text("[kernel]\nname = mine\nlike = split_verify\narch = sm_90\ndescription = d\nsource = s\n"
                "launches = 2\n[structure]\nthreads = 128\ntile_tokens = 32\neven = yes\n"
                "[warps load]\ncount = 1\ntile = cp16.row*72 commit\n  group*1\n[warps math]\ncount = 3\nfewer = 1\n"
                "begin = alu*5\ntile = mma*8\nend = mma*8\n",
                &k, &err),
      KV_OK);
  CU_ASSERT_STRING_EQUAL(k->structure.name, "mine");
  CU_ASSERT(k->structure.tile_tokens == 32 && k->structure.even &&
            k->structure.split); /* split is split_verify's */
  CU_ASSERT(k->launches == 2 && k->block.roles == 2 && k->block.role[0].tile.steps == 74 &&
            k->block.role[1].tile.steps == 8 && k->block.role[0].fewer == 0 && k->block.role[1].fewer == 1);
  kvm_declared_free(k);
}

/* A wait for what nothing sets is refused with its line, unless the file says that it is none. */
static void marks_that_nothing_sets_are_refused(void) {
  kvm_declared *k;
  kv_error err = {KV_OK, ""};
  CU_ASSERT_EQUAL(
      load_text(
          OWN
          "; alu<e\n[merge a]\ncount = 1\ntile = alu<e\n[warps all]\ncount = 8\nbegin = ldg8.index>a alu<a\n"
          "tile = cp16.row*9<a ; alu<e\n  alu*3:9 2( alu<be alu>b )\n",
          &k, &err),
      KV_ERR_INPUT);
  char where[80];
  int line = 1;
  for (const char *c = OWN
       "; alu<e\n[merge a]\ncount = 1\ntile = alu<e\n[warps all]\ncount = 8\nbegin = \ntile = \n";
       *c; c++)
    line += *c == '\n';
  (void)snprintf(where, sizeof where, ".ini: line %d: [warps ...] number 1 ", line);
  if (!strstr(err.text, where)) printf("%s, not %s\n", err.text, where);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, where));
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "waits for mark e, which nothing in it sets: put `>e` behind"));
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "say `unset_marks = no wait` in [kernel]"));
  CU_ASSERT_EQUAL_FATAL(load_text("[kernel]\nunset_marks = no wait\n" OWN
                                  "[warps all]\ncount = 8\ntile = ldg8.index>a cp16.row*9<a alu<e\n",
                                  &k, &err),
                        KV_OK);
  CU_ASSERT_STRING_EQUAL(k->unset, "[warps ...] number 1 waits for mark e, which nothing in it sets");
  kvm_declared_free(k);
  CU_ASSERT_EQUAL(
      load_text("[kernel]\nunset_marks = yes\n" OWN "[warps all]\ncount = 8\ntile = cp16.row*9\n", &k, &err),
      KV_ERR_INPUT);
  CU_ASSERT_EQUAL_FATAL(
      load_text(OWN "[warps all]\ncount = 8\nbegin = alu>e\ntile = cp16.row*9^b alu<be\n", &k, NULL), KV_OK);
  CU_ASSERT_STRING_EQUAL(k->unset, "");
  kvm_declared_free(k);
}

static void bad_declarations_are_named(void) {
  static const struct {
    const char *text, *says;
  } bad[] = {
      {"", "name and arch"},
      {"[kernel]\nname = x\narch = sm_90\nlike = nope\n[structure]\nthreads = 32\n", "no such kernel"},
      {"[kernel]\nname = x\narch = sm_90\n[structure]\nthreads = 0\n", "threads"},
      {"[kernel]\nname = x\narch = sm_90\nlike = split_verify\n[structure]\nbogus = 1\n", "bogus"},
      {"[kernel]\nname = x\narch = sm_90\nlike = split_verify\n[structure]\nsplit = maybe\n", "yes or no"},
      {"[kernel]\nname = x\narch = sm_90\nlike = split_verify\n[warps a]\ncount = 2\ntile = mma\n",
       "32 times"},
      {"[kernel]\nname = x\narch = sm_90\nlike = split_verify\n[warps a]\ncount = 8\n",
       "needs count and tile"},
      {"[kernel]\nname = x\narch = sm_90\nlike = split_verify\n[warps a]\ncount = 8\ntile = mmma\n",
       "no such instruction"},
      {OWN "[warps all]\ncount = 8\ntile =\n", "load 0 B of new rows"},
      {OWN "[warps all]\ncount = 8\ntile = bar bar bar\n", "load 0 B of new rows"},
      {OWN "[warps all]\ncount = 8\ntile = cp16.row*4\n", "load 16384 B of new rows"},
      {OWN "[warps all]\ncount = 8\ntile = cp16.again*9\n", "tile of 32 rows of 1152 B has 36864"},
      {OWN "[warps all]\ncount = 8\ntile = cp16.row*9\n[warps all]\ncount = 8\ntile = alu\n", "twice"},
      {OWN "[warps all]\ncount = 4\ntile = cp16.row*18\n[warps b]\ncount = 4\ntile = alu\n"
           "[warps all]\ncount = 4\ntile = alu\n",
       "the section is there twice"},
      {OWN "[warps all]\ncount = 8\nfewer = 5\ntile = cp16.row*9\n", "1 to 4 whole tiles"},
      {OWN "[warps all]\ncount = 8\nfewer = no\ntile = cp16.row*9\n", "1 to 4 whole tiles"},
      {OWN "[warps all]\ncount = 8\nfewer = 4x\ntile = cp16.row*9\nend = cp16.row*9\n", "1 to 4 whole tiles, not 4x"},
      {OWN "[warps all]\ncount = 8\nfewer = 1.5\ntile = cp16.row*9\nend = cp16.row*9\n", "1 to 4 whole tiles, not 1.5"},
      {OWN "[warps all]\ncount = 8.5\ntile = cp16.row*9\n", "1 to 32 warps, not 8.5"},
      {OWN "[warps all]\ncount = 8\nfewer = 4\ntile = cp16.row*9\n", "number 1: fewer = 4, but nothing stands in `end`"},
      {OWN "[merge main]\ncount = 8\nfewer = 1\ntile = alu\n[warps all]\ncount = 8\ntile = cp16.row*9\n", "[merge ...] number 1: fewer = 1"},
      {"[kernel]\nname = x\nfoo = y\n", "foo"},
      {"[other]\nname = x\n", "unknown section"},
      {"nonsense\n", "neither"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kvm_declared *k = NULL;
    kv_error err = {KV_OK, ""};
    CU_ASSERT_EQUAL(load_text(bad[i].text, &k, &err), KV_ERR_INPUT);
    CU_ASSERT(strstr(err.text, "kernel.ini") && strstr(err.text, bad[i].says) && !k);
    if (!strstr(err.text, bad[i].says)) printf("%zu: %s\n", i, err.text);
  }
  kvm_declared *k = NULL;
  CU_ASSERT_EQUAL(kvm_declared_load("/nonexistent.ini", &k, NULL), KV_ERR_IO);
}

static void the_nearest_architecture_is_taken(void) {
  load();
  CU_ASSERT_STRING_EQUAL(kvm_declared_find(&declared, "sglang_extend_32x32", 120, 0)->arch, "sm_120");
  CU_ASSERT_STRING_EQUAL(kvm_declared_find(&declared, "sglang_extend_32x32", 121, 0)->arch, "sm_120");
  CU_ASSERT_STRING_EQUAL(kvm_declared_find(&declared, "sglang_extend_32x32", 100, 0)->arch, "sm_90");
  CU_ASSERT_STRING_EQUAL(kvm_declared_find(&declared, "sglang_extend_32x32", 80, 0)->arch, "sm_90");
  CU_ASSERT_PTR_NULL(kvm_declared_find(&declared, "nope", 90, 0));
  CU_ASSERT_EQUAL(kvm_gpu_sm(kvm_pipes_find(&pipes, 89)), 80);
  CU_ASSERT_EQUAL(kvm_gpu_sm(kvm_pipes_find(&pipes, 103)), 90);
  CU_ASSERT_EQUAL(kvm_gpu_sm(kvm_pipes_find(&pipes, 75)), 80);
}

/* ---- predictions ---- */

typedef struct asked {
  kvm_work work;
  kvm_useful useful;
  kvm_timing timing;
  kvm_ladder ladder;
  kvm_prediction p;
} asked;

static void ask(const char *gpu_name, const kvm_declared *k, const kvm_verify *problem, asked *a) {
  const kvm_gpu *gpu;
  kvm_time_memo memo = {0};
  load();
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&gpus, gpu_name, &gpu, NULL), KV_OK);
  kvm_roofs roofs = kvm_roofs_of(gpu);
  a->timing = kvm_timing_of(gpu, kvm_pipes_find(&pipes, kvm_gpu_sm(gpu)), &roofs);
  kvm_roofs_complete(&roofs, &a->timing);
  a->work = kvm_declared_work(k, problem, gpu);
  a->useful = kvm_structure_useful(&k->structure, problem);
  a->ladder = kvm_ladder_of(&a->useful, &a->work, &roofs, true);
  const kvm_question q = {k, problem, &a->work, &a->useful, &a->timing, 1, true, true, 0, 0};
  CU_ASSERT_EQUAL_FATAL(kvm_predict(&q, &memo, &a->p, NULL), KV_OK);
  kvm_ladder_time(&a->ladder, &a->p);
  kvm_time_memo_free(&memo);
}

static const kvm_declared *named(const char *name, int sm) {
  load();
  const kvm_declared *k = kvm_declared_find(&declared, name, sm, 0);
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  return k;
}

/* Counters of the Triton kernel on an H200: 152 MB from DRAM and 108.5 M shared-memory wavefronts at 131072
 * with 8 heads, 15 % of issue slots in use. All 151 MB of rows came from memory, so the run to compare with
 * is the cold one; this test once scaled to a warm L2, and met the counters only with a link of 64 B a cycle,
 * half of what one SM of this GPU really takes (sm_link_bw). The counters are those of the February 2025
 * kernel, 15.83 ms long: its 48 % of the L1/shared-memory pipe are these wavefronts over 8 SMs and that time,
 * and the kernel of the program, which took 20.454 ms, has the same wavefronts to spread over more cycles. */
static void the_program_has_the_work_that_counters_show(void) {
  kvm_verify p = kvm_verify_default(131072);
  asked a;
  ask("h200", named("sglang_extend_32x64", 90), &p, &a);
  NEAR(a.work.chip[KVM_L1] / 128, 108.5e6, 0.03);
  NEAR(a.work.chip[KVM_MMA], 8.0 * 2049 * 32 * 64 * 2 * 1088,
       1e-9);                                          /* 8 heads x tiles x 32 x 64 x 1088 x 2 */
  NEAR(108.5e6 / 8 / (15.83e-3 * 1.79e9), 0.48, 0.01); /* 1.79 GHz: the clock under matrix instructions */
  NEAR(a.p.steady.l1, 108.5e6 / 8 / (20.454e-3 * 1.79e9), 0.08); /* the tile is modelled so much too short */
  NEAR(a.p.steady.issue, 0.15, 0.1);
}

/* The description of the H200 has its latencies in nanoseconds, as measured; sm_90's in general are longer.
 */
static void a_description_s_own_latency_counts(void) {
  kvm_verify p = kvm_verify_default(4096);
  asked a;
  ask("h200", named("sglang_extend_32x64", 90), &p, &a);
  NEAR(a.timing.p[KVM_P_DRAM_LATENCY].value, 333e-9 * 1980e6, 1e-9); /* 659 cycles, not sm_90's 690 */
  NEAR(a.timing.p[KVM_P_L2_LATENCY].value, 140e-9 * 1980e6, 1e-9);
  NEAR(a.timing.p[KVM_P_SM_LINK].value, 241.815e9 / 1980e6, 1e-9);
}

/* Instructions out of the memory cost their cycles once a launch, where the L2 was flushed alone. */
static void cold_code_costs_once(void) {
  kvm_verify p = kvm_verify_default(131072);
  const kvm_declared *k = named("sglang_extend_32x64", 90);
  const kvm_role *role = &k->block.role[0];
  asked a;
  kvm_time_memo memo = {0};
  kvm_prediction with, without;
  ask("h200", k, &p, &a);
  kvm_question q = {k, &p, &a.work, &a.useful, &a.timing, 1, false, false, 0, 0};
  CU_ASSERT(k->block.roles == 1 && k->launches == 1);
  CU_ASSERT_EQUAL_FATAL(kvm_predict(&q, &memo, &with, NULL), KV_OK);
  const double each = a.timing.p[KVM_P_COLD_CODE].value, clock = a.timing.p[KVM_P_MMA_CLOCK].value;
  a.timing.p[KVM_P_COLD_CODE].value = 0;
  CU_ASSERT_EQUAL_FATAL(kvm_predict(&q, &memo, &without, NULL), KV_OK);
  double n = kvm_program_count(&role->begin).instructions + kvm_program_count(&role->tile).instructions +
             kvm_program_count(&role->end).instructions;
  CU_ASSERT(each > 1 && n > 1000);
  NEAR(with.cold - without.cold, n * each / clock, 1e-6);
  NEAR(with.aliased - without.aliased, n * each / clock, 1e-6);
  CU_ASSERT_DOUBLE_EQUAL(with.resident, without.resident, 0);
  kvm_time_memo_free(&memo);
}

static void ladder_climbs(void) {
  kvm_verify p = kvm_verify_default(131072);
  asked a;
  ask("h200", named("sglang_extend_32x64", 90), &p, &a);
  for (int i = 1; i < 8; i++) CU_ASSERT(a.ladder.t[i] >= a.ladder.t[i - 1]);
  CU_ASSERT(a.p.low < a.p.whole && a.p.whole < a.p.high);
  CU_ASSERT(a.p.gain[KVM_C_PLACEMENT] > 12 && a.p.gain[KVM_C_PLACEMENT] < 16.5); /* 8 of 132 SMs */
  CU_ASSERT(a.p.gain[KVM_C_MEMORY] < 1.25 && a.p.gain[KVM_C_MEMORY] > 1.02);
  kvm_prediction low = a.p; /* of a range so wide that its lower end would be below what the work needs */
  low.low = a.ladder.t[4] / 2;
  kvm_ladder_time(&a.ladder, &low);
  CU_ASSERT_EQUAL(low.low, a.ladder.t[4]);
  p.heads = 64;
  asked b;
  ask("h200", named("sglang_extend_32x64", 90), &p, &b);
  NEAR(b.p.whole, a.p.whole, 0.05); /* heads that fit one wave cost nothing */
  p.heads = 160;
  ask("h200", named("sglang_extend_32x64", 90), &p, &b);
  NEAR(b.p.whole, 2 * a.p.whole, 0.1); /* two waves */
}

static void a_prediction_is_quick(void) {
  kvm_verify p = kvm_verify_default(189440);
  struct timespec from, to;
  double best = 1;
  asked a;
  load();
  for (int i = 0; i < 3; i++) {
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    ask("sm_120", named("sglang_extend_32x32", 120), &p, &a);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    best = fmin(best, (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
  }
  if (!getenv("KVROOF_SAN") || !*getenv("KVROOF_SAN")) CU_ASSERT(best < 0.1); /* with gains and interval */
}

/* The Triton kernel's program loads rows of 1152 B; what it would do with others, nobody wrote down. */
static void a_program_is_for_its_rows_alone(void) {
  kvm_verify p = kvm_verify_default(131072);
  asked a;
  p.row_bytes = kvm_rows_bytes(KVM_ROWS_FP8_656, p.latent, p.rope);
  kvm_verify_uniform(&p, 131072);
  const kvm_declared *k = named("sglang_extend_32x64", 90);
  ask("h200", k, &p, &a);
  CU_ASSERT(!a.p.known && isnan(a.ladder.t[7]) && a.ladder.t[4] > 0);
  NEAR(a.work.chip[KVM_LINK], 8.0 * 131081 * (656 + 656 * 512.0 / 576 + 8) + 82944 + 74016, 1e-9);
  p.latent = 8192;
  p.rope = 1024;
  p.row_bytes = kvm_rows_bytes(KVM_ROWS_BF16, p.latent, p.rope);
  ask("h200", k, &p, &a);
  CU_ASSERT(!a.p.known && !a.work.fits);
}

static void without_a_latency_there_is_no_time(void) {
  kvm_verify p = kvm_verify_default(4096);
  const kvm_gpu *gpu;
  kvm_time_memo memo = {0};
  kvm_prediction out;
  load();
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&gpus, "h200", &gpu, NULL), KV_OK);
  const kvm_declared *k = named("sglang_extend_32x64", 90);
  kvm_roofs roofs = kvm_roofs_of(gpu);
  kvm_timing timing = kvm_timing_of(gpu, NULL, &roofs);
  CU_ASSERT_NOT_EQUAL(kvm_timing_missing(&timing), KVM_PARAMETERS);
  kvm_work w = kvm_declared_work(k, &p, gpu);
  kvm_useful u = kvm_structure_useful(&k->structure, &p);
  const kvm_question q = {k, &p, &w, &u, &timing, 1, true, true, 0, 0};
  CU_ASSERT_EQUAL(kvm_predict(&q, &memo, &out, NULL), KV_OK);
  CU_ASSERT(!out.known && isnan(out.whole));
}

void suite_time_model(void) {
  static const kv_test_case cases[] = {{"words become steps", words_become_steps},
                                       {"bad words", bad_words_are_named},
                                       {"machine code", a_listing_becomes_a_program},
                                       {"issue slots", issue_slots_bind},
                                       {"pipes", pipes_bind},
                                       {"dependent loads", dependent_loads_take_their_latency},
                                       {"stages", stages_hide_latency},
                                       {"barriers", barriers_wait_for_the_last},
                                       {"counters", counters_hold_a_ring_together},
                                       {"no progress", what_cannot_go_on_is_refused},
                                       {"once", what_happens_once_is_apart},
                                       {"own kernel", a_kernel_of_ones_own},
                                       {"bad declarations", bad_declarations_are_named},
                                       {"unset marks", marks_that_nothing_sets_are_refused},
                                       {"architectures", the_nearest_architecture_is_taken},
                                       {"work and counters", the_program_has_the_work_that_counters_show},
                                       {"own latencies", a_description_s_own_latency_counts},
                                       {"ladder", ladder_climbs},
                                       {"cold code", cold_code_costs_once},
                                       {"quick", a_prediction_is_quick},
                                       {"other rows", a_program_is_for_its_rows_alone},
                                       {"missing latency", without_a_latency_there_is_no_time},
                                       {NULL, NULL}};
  kv_suite("time_model", cases);
}
