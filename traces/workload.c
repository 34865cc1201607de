#include "workload.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_h5.h"

#define LINE_MOST (4u << 20) /* bytes of a line */
#define FIELDS_MOST 64
#define ARRIVAL_MOST_US (INT64_C(1) << 53) /* about 285 years: any arrival fits a double exactly */

typedef struct source {
  const char *path;
  kvt_workload *w;
  uint32_t room;
  uint64_t hash_room;
  uint32_t line; /* 1-based */
  /* CSV: columns, -1 none */
  int input, output, arrival;
  int arrival_ms; /* the arrival column is in milliseconds */
} source;

static kv_status bad(const source *s, kv_error *err, const char *what) {
  return kv_fail(err, KV_ERR_INPUT, "%s: line %u: %s", s->path, s->line, what);
}

static kv_status add(source *s, const kvt_workload_request *q, kv_error *err) {
  kvt_workload *w = s->w;
  if (q->input < 1 || q->input > (int32_t)KVT_WORKLOAD_TOKENS || q->output < 0 || q->output > (int32_t)KVT_WORKLOAD_TOKENS)
    return bad(s, err, "a prompt must have 1 to 16,777,216 tokens, an answer at most as many");
  if (w->requests == s->room) {
    uint32_t room = s->room ? s->room * 2 : 1024;
    kvt_workload_request *grown = room > s->room && room < INT32_MAX ? realloc(w->request, room * sizeof *grown) : NULL;
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory for the requests", s->path);
    w->request = grown;
    s->room = room;
  }
  kvt_workload_request *to = &w->request[w->requests++];
  *to = *q;
  to->output += to->output == 0;
  to->predecessor = -1;
  return KV_OK;
}

/* ---- Mooncake ---- */

static kv_status whole(const source *s, const json_t *object, const char *name, int64_t most, int64_t *value, kv_error *err) {
  const json_t *v = json_object_get(object, name);
  char text[96];
  double number = json_is_number(v) ? json_number_value(v) : NAN;
  if (number >= 0 && number <= (double)most && number == floor(number)) {
    *value = (int64_t)number;
    return KV_OK;
  }
  (void)snprintf(text, sizeof text, "\"%s\" is missing or no whole number from 0 to %lld", name, (long long)most);
  return bad(s, err, text);
}

static kv_status hashes_of(source *s, const json_t *list, kvt_workload_request *q, kv_error *err) {
  kvt_workload *w = s->w;
  size_t n = json_array_size(list);
  q->first_hash = w->hashes;
  q->hashes = (uint32_t)n;
  if (!list) return KV_OK;
  if (!json_is_array(list) || n != ((uint32_t)q->input + KVT_BLOCK_TOKENS - 1) / KVT_BLOCK_TOKENS)
    return bad(s, err, "\"hash_ids\" is not a list with one number for each 512 prompt tokens");
  if (w->hashes + n > s->hash_room) {
    uint64_t room = (w->hashes + n) * 2;
    int64_t *grown = realloc(w->hash, room * sizeof *grown);
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory for the block hashes", s->path);
    w->hash = grown;
    s->hash_room = room;
  }
  for (size_t i = 0; i < n; i++) {
    const json_t *v = json_array_get(list, i);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
      return bad(s, err, "\"hash_ids\" holds something that is no number from 0 to 2147483647");
    w->hash[w->hashes++] = json_integer_value(v);
  }
  return KV_OK;
}

static kv_status mooncake_line(source *s, char *line, kvt_workload_request *q, kv_error *err) {
  json_error_t json;
  int64_t input = 0, output = 0;
  json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &json);
  if (!json_is_object(object)) {
    json_decref(object);
    return bad(s, err, "not a JSON object with timestamp, input_length, output_length (Mooncake JSONL)");
  }
  kv_status st = whole(s, object, "timestamp", ARRIVAL_MOST_US / 1000, &q->said_ms, err);
  if (!st) st = whole(s, object, "input_length", KVT_WORKLOAD_TOKENS, &input, err);
  if (!st) st = whole(s, object, "output_length", KVT_WORKLOAD_TOKENS, &output, err);
  q->arrival_us = q->said_ms * 1000;
  q->input = (int32_t)input;
  q->output = (int32_t)output;
  if (!st) st = hashes_of(s, json_object_get(object, "hash_ids"), q, err);
  json_decref(object);
  return st;
}

/* ---- CSV ---- */

static int split(char *line, char **field) {
  int n = 0;
  for (char *at = line; at && n < FIELDS_MOST; n++) {
    char *comma = strchr(at, ',');
    if (comma) *comma = '\0';
    while (isspace((unsigned char)*at) || *at == '"') at++;
    for (size_t k = strlen(at); k && (isspace((unsigned char)at[k - 1]) || at[k - 1] == '"');) at[--k] = '\0';
    field[n] = at;
    at = comma ? comma + 1 : NULL;
  }
  return n;
}

static bool one_of(const char *name, const char *const *names) {
  for (; *names; names++)
    if (!strcasecmp(name, *names)) return true;
  return false;
}

static kv_status csv_header(source *s, char *line, kv_error *err) {
  static const char *const inputs[] = {"input_length", "input_tokens", "prompt_tokens", "num_prefill_tokens", "ContextTokens", NULL};
  static const char *const outputs[] = {"output_length", "output_tokens", "completion_tokens", "num_decode_tokens", "GeneratedTokens", NULL};
  static const char *const arrivals[] = {"timestamp_ms", "timestamp", "arrived_at", "arrival_s", NULL};
  char *field[FIELDS_MOST];
  int n = split(line, field);
  s->input = s->output = s->arrival = -1;
  for (int i = 0; i < n; i++) {
    if (one_of(field[i], inputs)) s->input = i;
    if (one_of(field[i], outputs)) s->output = i;
    if (!one_of(field[i], arrivals)) continue;
    s->arrival = i;
    s->arrival_ms = !strcasecmp(field[i], "timestamp_ms");
  }
  if (s->input < 0 || s->output < 0)
    return bad(s, err, "the header names no input and output length (input_length,output_length, ContextTokens,"
                       "GeneratedTokens or num_prefill_tokens,num_decode_tokens)");
  if (s->w->format == KVT_WORKLOAD_AZURE && s->arrival < 0) return bad(s, err, "the header names no TIMESTAMP");
  return KV_OK;
}

static bool whole_number(const char *text, int64_t most, int64_t *value) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (end == text || *end || errno || v < 0 || v > most) return false;
  *value = v;
  return true;
}

/* Days since 1970-01-01 of a proleptic Gregorian date. */
static int64_t days(int64_t y, int64_t m, int64_t d) {
  y -= m <= 2;
  int64_t era = y / 400, of_era = y - era * 400;
  int64_t of_year = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* "2023-11-16 18:17:03.9799600" or seconds -> microseconds, fractions cut. */
static bool instant(const char *text, bool ms, int64_t *us) {
  int y, mo, d, h, mi, se, used = 0;
  char *end;
  if (sscanf(text, "%4d-%2d-%2d%*1[ T]%2d:%2d:%2d%n", &y, &mo, &d, &h, &mi, &se, &used) == 6 && used) {
    if (y < 1970 || mo < 1 || mo > 12 || d < 1 || d > 31 || h < 0 || h > 23 || mi < 0 || mi > 59 || se < 0 || se > 60)
      return false;
    *us = (((days(y, mo, d) * 24 + h) * 60 + mi) * 60 + se) * 1000000;
    text += used;
    if (*text == '.') {
      int64_t unit = 100000;
      for (text++; isdigit((unsigned char)*text); text++, unit /= 10) *us += (*text - '0') * unit;
    }
    return !*text || !strcmp(text, "Z") || !strcmp(text, "+00:00");
  }
  double v = strtod(text, &end) * (ms ? 1e3 : 1e6);
  if (end == text || *end || !(v >= 0 && v <= (double)ARRIVAL_MOST_US)) return false;
  *us = (int64_t)v;
  return true;
}

static kv_status csv_line(source *s, char *line, kvt_workload_request *q, kv_error *err) {
  char *field[FIELDS_MOST];
  int n = split(line, field);
  int64_t input, output;
  if (n <= s->input || n <= s->output || n <= s->arrival) return bad(s, err, "has fewer fields than the header");
  if (!whole_number(field[s->input], KVT_WORKLOAD_TOKENS, &input)) return bad(s, err, "the input length is no number of tokens");
  if (!whole_number(field[s->output], KVT_WORKLOAD_TOKENS, &output)) return bad(s, err, "the output length is no number of tokens");
  if (s->arrival >= 0 && !instant(field[s->arrival], s->arrival_ms, &q->arrival_us))
    return bad(s, err, "the arrival is neither a date (2023-11-16 18:17:03.97) nor a number >= 0");
  q->input = (int32_t)input;
  q->output = (int32_t)output;
  return KV_OK;
}

/* ---- all ---- */

static int by_arrival(const void *a, const void *b) {
  const kvt_workload_request *p = a, *q = b;
  if (p->arrival_us != q->arrival_us) return p->arrival_us < q->arrival_us ? -1 : 1;
  return p->row < q->row ? -1 : p->row > q->row;
}

static void finish(kvt_workload *w) {
  if (!w->requests) return;
  qsort(w->request, w->requests, sizeof *w->request, by_arrival);
  int64_t first = w->request[0].arrival_us;
  for (uint32_t i = 0; i < w->requests; i++) {
    w->request[i].arrival_us -= first;
    if (w->format != KVT_WORKLOAD_MOONCAKE) w->request[i].said_ms = w->request[i].arrival_us / 1000;
  }
}

static kv_status read_lines(source *s, FILE *f, uint32_t skip, uint32_t most, kv_error *err) {
  char *line = NULL;
  size_t room = 0;
  ssize_t length;
  int32_t row = -1;
  bool header = s->w->format != KVT_WORKLOAD_MOONCAKE;
  kv_status st = KV_OK;
  while (!st && (!most || s->w->requests < most) && (length = getline(&line, &room, f)) >= 0) {
    s->line++;
    if (length > (ssize_t)LINE_MOST || memchr(line, '\0', (size_t)length)) {
      st = bad(s, err, "is too long or holds a zero byte: not a text file");
      break;
    }
    if (line[strspn(line, " \t\r\n")] == '\0') continue;
    if (header) {
      st = csv_header(s, line, err);
      header = false;
      continue;
    }
    if ((uint32_t)++row < skip) continue;
    kvt_workload_request q = {.row = row};
    st = s->w->format == KVT_WORKLOAD_MOONCAKE ? mooncake_line(s, line, &q, err) : csv_line(s, line, &q, err);
    if (!st) st = add(s, &q, err);
  }
  if (!st && ferror(f)) st = kv_fail(err, KV_ERR_IO, "%s: %s", s->path, strerror(errno));
  if (!st && header) st = kv_fail(err, KV_ERR_INPUT, "%s: is empty; a header line is expected", s->path);
  free(line);
  return st;
}

kv_status kvt_workload_read(const char *path, kvt_workload_format format, uint32_t skip, uint32_t most,
                            kvt_workload *w, kv_error *err) {
  char sha[65];
  source s = {.path = path, .w = w, .input = -1, .output = -1, .arrival = -1};
  *w = (kvt_workload){.format = format};
  FILE *f = fopen(path, "r");
  if (!f) return kv_fail(err, KV_ERR_IO, "%s: %s", path, strerror(errno));
  kv_status st = read_lines(&s, f, skip, most, err);
  (void)fclose(f);
  if (!st) st = kv_sha256_file(path, sha, err);
  if (!st) {
    const char *base = strrchr(path, '/');
    (void)snprintf(w->source, sizeof w->source, "%.200s, sha256 %s", base ? base + 1 : path, sha);
    finish(w);
  } else {
    kvt_workload_free(w);
  }
  return st;
}

void kvt_workload_free(kvt_workload *w) {
  free(w->request);
  free(w->hash);
  *w = (kvt_workload){0};
}

/* ---- turns of a conversation ---- */

/* Requests without a successor yet, by the hash of their full blocks; newest first in a bucket. */
typedef struct turns {
  int32_t *bucket, *next;
  uint64_t *key; /* of each request's full blocks */
  uint32_t mask;
} turns;

static uint64_t step_key(uint64_t key, int64_t hash) {
  key = (key ^ (uint64_t)hash) * 0x9e3779b97f4a7c15u;
  return key ^ key >> 31;
}

static bool continues(const kvt_workload *w, const kvt_workload_request *a, const kvt_workload_request *b, uint32_t blocks) {
  return (uint32_t)a->input / KVT_BLOCK_TOKENS == blocks && (int64_t)a->input + a->output <= b->input &&
         memcmp(w->hash + a->first_hash, w->hash + b->first_hash, blocks * sizeof *w->hash) == 0;
}

static int32_t take_turn(turns *t, const kvt_workload *w, const kvt_workload_request *b, uint32_t blocks, uint64_t key) {
  for (int32_t *at = &t->bucket[key & t->mask]; *at >= 0; at = &t->next[*at]) {
    int32_t a = *at;
    if (t->key[a] != key || !continues(w, &w->request[a], b, blocks)) continue;
    *at = t->next[a];
    return a;
  }
  return -1;
}

static void follow(turns *t, const kvt_workload *w, uint32_t i, uint64_t *keys) {
  kvt_workload_request *q = &w->request[i];
  uint32_t full = (uint32_t)q->input / KVT_BLOCK_TOKENS < q->hashes ? (uint32_t)q->input / KVT_BLOCK_TOKENS : q->hashes;
  keys[0] = 0;
  for (uint32_t k = 0; k < full; k++) keys[k + 1] = step_key(keys[k], w->hash[q->first_hash + k]);
  for (uint32_t k = full; k >= 2 && q->predecessor < 0; k--) q->predecessor = take_turn(t, w, q, k, keys[k]);
  if (full < 2) return;
  t->key[i] = keys[full];
  t->next[i] = t->bucket[keys[full] & t->mask];
  t->bucket[keys[full] & t->mask] = (int32_t)i;
}

uint32_t kvt_workload_infer_turns(kvt_workload *w, kv_error *err) {
  uint32_t found = 0, size = 1024;
  while (size < w->requests) size *= 2;
  turns t = {malloc(size * sizeof(int32_t)), malloc(w->requests * sizeof(int32_t) + 1), malloc(w->requests * sizeof(uint64_t) + 1), size - 1};
  uint64_t *keys = malloc((KVT_WORKLOAD_TOKENS / KVT_BLOCK_TOKENS + 2) * sizeof *keys);
  if (t.bucket && t.next && t.key && keys) {
    memset(t.bucket, 0xff, size * sizeof(int32_t));
    for (uint32_t i = 0; i < w->requests; i++) follow(&t, w, i, keys);
    for (uint32_t i = 0; i < w->requests; i++) found += w->request[i].predecessor >= 0;
  } else {
    (void)kv_fail(err, KV_ERR_MEMORY, "out of memory for the turns of %u requests", w->requests);
    found = UINT32_MAX;
  }
  free(t.bucket);
  free(t.next);
  free(t.key);
  free(keys);
  return found;
}
