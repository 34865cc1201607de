/* The readers of request traces: what is in a file comes out, and what is wrong with one is said with its line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_test.h"
#include "workload.h"

static const char *file_of(const char *text) {
  const char *path = kv_tmp("workload.txt");
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  CU_ASSERT_TRUE(fputs(text, f) >= 0);
  CU_ASSERT_EQUAL(fclose(f), 0);
  return path;
}

static kv_status read_text(kvt_workload_format format, const char *text, kvt_workload *w, kv_error *err) {
  *err = (kv_error){KV_OK, ""};
  return kvt_workload_read(file_of(text), format, 0, 0, w, err);
}

static void mooncake(void) {
  kvt_workload w;
  kv_error err;
  CU_ASSERT_EQUAL(read_text(KVT_WORKLOAD_MOONCAKE,
                            "{\"timestamp\": 7000, \"input_length\": 513, \"output_length\": 0, \"hash_ids\": [3, 9]}\n\n"
                            "{\"timestamp\": 5000, \"input_length\": 512, \"output_length\": 8, \"hash_ids\": [3], \"more\": null}\n"
                            "{\"timestamp\": 5000.0, \"input_length\": 1, \"output_length\": 2}\n", &w, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(w.requests, 3);
  CU_ASSERT_EQUAL(w.request[0].row, 1); /* by arrival, then row */
  CU_ASSERT_EQUAL(w.request[0].arrival_us, 0);
  CU_ASSERT_EQUAL(w.request[0].said_ms, 5000);
  CU_ASSERT_EQUAL(w.request[0].hashes, 1);
  CU_ASSERT_EQUAL(w.request[1].row, 2);
  CU_ASSERT_EQUAL(w.request[1].hashes, 0);
  CU_ASSERT_EQUAL(w.request[2].arrival_us, 2000000);
  CU_ASSERT_EQUAL(w.request[2].output, 1); /* a server makes one token at least */
  CU_ASSERT_EQUAL(w.hash[w.request[2].first_hash + 1], 9);
  CU_ASSERT_PTR_NOT_NULL(strstr(w.source, "workload.txt, sha256 "));
  kvt_workload_free(&w);
}

static void azure(void) {
  kvt_workload w;
  kv_error err;
  CU_ASSERT_EQUAL(read_text(KVT_WORKLOAD_AZURE,
                            "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2024-02-28 23:59:59.5000000,374,44\r\n"
                            "2024-03-01 00:00:00.25,396,109\r\n", &w, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(w.requests, 2);
  CU_ASSERT_EQUAL(w.request[1].arrival_us, INT64_C(86400750000)); /* the 29th of February lies between */
  CU_ASSERT_EQUAL(w.request[1].input, 396);
  CU_ASSERT_EQUAL(w.request[1].output, 109);
  CU_ASSERT_EQUAL(w.request[1].hashes, 0);
  kvt_workload_free(&w);
}

static void csv(void) {
  kvt_workload w;
  kv_error err;
  CU_ASSERT_EQUAL(read_text(KVT_WORKLOAD_CSV, "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n24560,390,24950,62.9\n", &w, &err), KV_OK);
  CU_ASSERT_EQUAL(w.requests, 1);
  CU_ASSERT_EQUAL(w.request[0].input, 24560);
  CU_ASSERT_EQUAL(w.request[0].arrival_us, 0);
  kvt_workload_free(&w);
  CU_ASSERT_EQUAL(read_text(KVT_WORKLOAD_CSV, "id, \"arrived_at\" ,input_length,output_length\na,1.5,10,20\nb,1.25,30,40\n", &w, &err), KV_OK);
  CU_ASSERT_EQUAL(w.request[0].input, 30);
  CU_ASSERT_EQUAL(w.request[1].arrival_us, 250000);
  kvt_workload_free(&w);
  CU_ASSERT_EQUAL(read_text(KVT_WORKLOAD_CSV, "timestamp_ms,prompt_tokens,completion_tokens\n1.5,1,1\n4,1,1\n", &w, &err), KV_OK);
  CU_ASSERT_EQUAL(w.request[1].arrival_us, 2500);
  kvt_workload_free(&w);
}

static void skip_and_first(void) {
  kvt_workload w;
  kv_error err;
  const char *path = file_of("input_tokens,output_tokens\n1,1\n2,1\n3,1\n4,1\n");
  CU_ASSERT_EQUAL(kvt_workload_read(path, KVT_WORKLOAD_CSV, 1, 2, &w, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(w.requests, 2);
  CU_ASSERT_EQUAL(w.request[0].input, 2);
  CU_ASSERT_EQUAL(w.request[0].row, 1);
  kvt_workload_free(&w);
  CU_ASSERT_EQUAL(kvt_workload_read(path, KVT_WORKLOAD_CSV, 9, 0, &w, &err), KV_OK);
  CU_ASSERT_EQUAL(w.requests, 0);
  kvt_workload_free(&w);
}

static void wrong(void) {
  static const struct {
    kvt_workload_format format;
    const char *text, *says;
  } c[] = {
      {KVT_WORKLOAD_MOONCAKE, "TIMESTAMP,ContextTokens\n", "line 1: not a JSON object"},
      {KVT_WORKLOAD_MOONCAKE, "[1]\n", "line 1: not a JSON object"},
      {KVT_WORKLOAD_MOONCAKE, "{\"timestamp\": 1, \"input_length\": 5}\n", "output_length"},
      {KVT_WORKLOAD_MOONCAKE, "\n{\"timestamp\": -1, \"input_length\": 5, \"output_length\": 1}\n", "line 2: \"timestamp\""},
      {KVT_WORKLOAD_MOONCAKE, "{\"timestamp\": 1, \"input_length\": 1e300, \"output_length\": 1}\n", "input_length"},
      {KVT_WORKLOAD_MOONCAKE, "{\"timestamp\": 1, \"input_length\": 5.5, \"output_length\": 1}\n", "input_length"},
      {KVT_WORKLOAD_MOONCAKE, "{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 1}\n", "1 to 16,777,216"},
      {KVT_WORKLOAD_MOONCAKE, "{\"timestamp\": 1, \"input_length\": 513, \"output_length\": 1, \"hash_ids\": [1]}\n", "hash_ids"},
      {KVT_WORKLOAD_MOONCAKE, "{\"timestamp\": 1, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": [-1]}\n", "hash_ids"},
      {KVT_WORKLOAD_MOONCAKE, "{\"timestamp\": 1, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": {\"a\": 1}}\n", "hash_ids"},
      {KVT_WORKLOAD_MOONCAKE, "{\"timestamp\": 1, \"timestamp\": 2, \"input_length\": 5, \"output_length\": 1}\n", "line 1"},
      {KVT_WORKLOAD_AZURE, "", "is empty"},
      {KVT_WORKLOAD_AZURE, "a,b\n", "header"},
      {KVT_WORKLOAD_AZURE, "ContextTokens,GeneratedTokens\n1,1\n", "TIMESTAMP"},
      {KVT_WORKLOAD_AZURE, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-01 00:00:00,1,1\n", "line 2: the arrival"},
      {KVT_WORKLOAD_AZURE, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-01 00:00:00x,1,1\n", "line 2: the arrival"},
      {KVT_WORKLOAD_CSV, "input_tokens,output_tokens\n1\n", "fewer fields"},
      {KVT_WORKLOAD_CSV, "input_tokens,output_tokens\n1,x\n", "output length"},
      {KVT_WORKLOAD_CSV, "input_tokens,output_tokens\n1,99999999999999999999\n", "output length"},
      {KVT_WORKLOAD_CSV, "arrival_s,input_tokens,output_tokens\nnan,1,1\n", "arrival"},
      {KVT_WORKLOAD_CSV, "arrival_s,input_tokens,output_tokens\n1e30,1,1\n", "arrival"},
  };
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    kvt_workload w;
    kv_error err;
    CU_ASSERT_EQUAL(read_text(c[i].format, c[i].text, &w, &err), KV_ERR_INPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, c[i].says));
    if (!strstr(err.text, c[i].says)) fprintf(stderr, "case %zu: %s\n", i, err.text);
    CU_ASSERT_PTR_NULL(w.request);
  }
  kvt_workload w;
  kv_error err;
  CU_ASSERT_EQUAL(kvt_workload_read("/nonexistent", KVT_WORKLOAD_CSV, 0, 0, &w, &err), KV_ERR_IO);
  CU_ASSERT_EQUAL(kvt_workload_read("/", KVT_WORKLOAD_CSV, 0, 0, &w, &err), KV_ERR_IO);
}

/* Damaged in every byte of a small file: an answer or one line of an error, never more. */
static void damage(kvt_workload_format format, const char *good, unsigned *refused, unsigned *read) {
  static const char with[] = {'\0', '9', '"', ',', '{', '}', '[', '\n', '-', 'e', '.', (char)0xff};
  char text[512];
  size_t n = strlen(good);
  const char *path = kv_tmp("damaged.txt");
  for (size_t i = 0; i < n * sizeof with; i++) {
    kvt_workload w;
    kv_error err;
    memcpy(text, good, n);
    text[i / sizeof with] = with[i % sizeof with];
    FILE *f = fopen(path, "w");
    CU_ASSERT_EQUAL_FATAL(f ? fwrite(text, 1, n, f) : 0, n);
    (void)fclose(f);
    kv_status st = kvt_workload_read(path, format, 0, 0, &w, &err);
    CU_ASSERT_TRUE(st == KV_OK || st == KV_ERR_INPUT);
    *refused += st == KV_ERR_INPUT;
    *read += st == KV_OK;
    kvt_workload_free(&w);
  }
}

static void damaged(void) {
  unsigned refused = 0, read = 0;
  damage(KVT_WORKLOAD_MOONCAKE, "{\"timestamp\": 7000, \"input_length\": 513, \"output_length\": 4, \"hash_ids\": [3, 9]}\n"
                                "{\"timestamp\": 8000, \"input_length\": 2, \"output_length\": 4, \"hash_ids\": [3]}\n", &refused, &read);
  damage(KVT_WORKLOAD_AZURE, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.99,396,109\n",
         &refused, &read);
  CU_ASSERT_TRUE(refused > 1000 && read > 200);
  printf("(%u refused, %u read) ", refused, read);
}

/* Five requests by hand: 1 continues 0 (the same two full blocks, 1024 + 100 <= 1200); 2 continues none (0 is taken, 1
 * leaves no room); 3 continues 2, the latest with those blocks; 4 has one block in common with them, which is not enough. */
static void turns(void) {
  int64_t hash[] = {1, 2, 1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 9, 9};
  kvt_workload_request q[] = {{.row = 0, .input = 1024, .output = 100, .first_hash = 0, .hashes = 2, .predecessor = -1},
                              {.row = 1, .input = 1200, .output = 50, .first_hash = 2, .hashes = 3, .predecessor = -1},
                              {.row = 2, .input = 1100, .output = 5, .first_hash = 5, .hashes = 3, .predecessor = -1},
                              {.row = 3, .input = 1300, .output = 5, .first_hash = 8, .hashes = 3, .predecessor = -1},
                              {.row = 4, .input = 1400, .output = 5, .first_hash = 11, .hashes = 3, .predecessor = -1}};
  kvt_workload w = {.request = q, .requests = 5, .hash = hash, .hashes = 14};
  kv_error err;
  CU_ASSERT_EQUAL(kvt_workload_infer_turns(&w, &err), 2);
  CU_ASSERT_EQUAL(q[1].predecessor, 0);
  CU_ASSERT_EQUAL(q[2].predecessor, -1);
  CU_ASSERT_EQUAL(q[3].predecessor, 2);
  CU_ASSERT_EQUAL(q[4].predecessor, -1);
}

/* The sample holds whole sessions of the public trace; 100 of its 400 requests continue another. */
static void sample(void) {
  kvt_workload w;
  kv_error err;
  CU_ASSERT_EQUAL_FATAL(kvt_workload_read(kv_source("traces/samples/mooncake_sessions.jsonl"), KVT_WORKLOAD_MOONCAKE, 0, 0, &w, &err), KV_OK);
  CU_ASSERT_EQUAL(w.requests, 400);
  CU_ASSERT_EQUAL(kvt_workload_infer_turns(&w, &err), 100);
  CU_ASSERT_EQUAL(w.request[0].input, 16609);
  CU_ASSERT_EQUAL(w.request[10].predecessor, 1);
  kvt_workload_free(&w);
}

void suite_workload(void) {
  static const kv_test_case cases[] = {{"Mooncake", mooncake}, {"Azure", azure},   {"CSV", csv},     {"skip and first", skip_and_first},
                                       {"wrong", wrong},       {"damaged", damaged}, {"turns", turns}, {"sample", sample}, {NULL, NULL}};
  kv_suite("workload", cases);
}
