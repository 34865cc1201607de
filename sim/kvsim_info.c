/* kvsim info: what a trace holds. Reads it whole, so it also says whether the file is sound. */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "kv_h5.h"
#include "kvsim_commands.h"
#include "kvsim_options.h"
#include "trace.h"

typedef struct arguments {
  kvsim_shared shared;
} arguments;

static const struct argp_option options[] = {KVSIM_OPTION_JSON("kvsim-info-1", 0), {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    default: return kvsim_take_trace(&a->shared, key, arg, state);
  }
  return 0;
}

typedef struct tally {
  uint64_t events[KVT_KINDS], slots[KVT_KINDS], freed[KVT_FREE_REASONS];
  int64_t last_time_us;
} tally;

static kv_status count(const char *path, kvt_info *info, tally *t, kv_error *err) {
  kvt_reader *reader;
  kvt_batch b;
  kv_status st = kvt_reader_open(path, &reader, info, err);
  if (st) return st;
  while ((st = kvt_reader_next(reader, &b, err)) == KV_OK) {
    for (uint32_t i = 0; i < b.events; i++) {
      t->events[b.kind[i]] += !(b.more && i + 1 == b.events);
      t->slots[b.kind[i]] += b.count[i];
      if (b.kind[i] == KVT_FREE) t->freed[b.aux[i]] += b.count[i];
    }
    if (b.steps) t->last_time_us = b.step_rows[b.steps - 1].time_us;
  }
  kvt_reader_close(reader);
  return st == KV_END ? KV_OK : st;
}

static void print_json(const char *path, const kvt_info *i, const tally *t) {
  json_t *kinds = json_object(), *freed = json_object();
  for (unsigned k = 1; k < KVT_KINDS; k++)
    json_object_set_new(kinds, kvt_kind_name((kvt_kind)k),
                        json_pack("{s:I,s:I}", "events", (json_int_t)t->events[k], "slots", (json_int_t)t->slots[k]));
  for (unsigned k = 0; k < KVT_FREE_REASONS; k++)
    json_object_set_new(freed, kvt_free_reason_name((kvt_free_reason)k), json_integer((json_int_t)t->freed[k]));
  json_t *root = json_pack(
      "{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s:o,s:o}", "schema", "kvsim-info-1", "trace", path, "origin",
      i->origin, "source", i->source, "allocator", kvt_allocator_name(i->allocator), "pool_size", (json_int_t)i->pool_size,
      "page_size", (json_int_t)i->page_size, "events", (json_int_t)i->events, "slots", (json_int_t)i->slots, "steps",
      (json_int_t)i->steps, "requests", (json_int_t)i->requests, "time_us", (json_int_t)t->last_time_us,
      "final_free_list", i->has_final, "kinds", kinds, "freed_slots", freed);
  if (root) json_dumpf(root, stdout, JSON_INDENT(2));
  json_decref(root);
  printf("\n");
}

static void print_table(const char *path, const kvt_info *i, const tally *t) {
  printf("%s: kvtrace-1\n  origin      %s\n  source      %s\n", path, i->origin, i->source[0] ? i->source : "-");
  printf("  pool        %u slots, pages of %u, allocator %s\n", i->pool_size, i->page_size, kvt_allocator_name(i->allocator));
  printf("  length      %" PRIu64 " events, %" PRIu64 " slots, %" PRIu64 " steps, %" PRIu64 " requests, %.1f s\n", i->events,
         i->slots, i->steps, i->requests, (double)t->last_time_us * 1e-6);
  printf("  final list  %s\n", i->has_final ? "recorded" : "not recorded");
  printf("\n  %-14s %12s %14s\n", "event", "events", "slots");
  for (unsigned k = 1; k < KVT_KINDS; k++)
    if (t->events[k])
      printf("  %-14s %12" PRIu64 " %14" PRIu64 "\n", kvt_kind_name((kvt_kind)k), t->events[k], t->slots[k]);
  for (unsigned k = 0; k < KVT_FREE_REASONS; k++)
    if (t->freed[k])
      printf("    freed: %-12s %20" PRIu64 "\n", kvt_free_reason_name((kvt_free_reason)k), t->freed[k]);
}

kv_status kvsim_info(int argc, char **argv, kv_error *err) {
  static const struct argp argp = {options, parse, "TRACE.h5", "What a kvtrace-1 file holds.\v"
                                   "Reads the whole file and checks its form; what the events do to the pool is checked by "
                                   "`kvsim replay`.", NULL, NULL, NULL};
  arguments a = {0};
  kvt_info info = {0};
  tally t = {0};
  argp_err_exit_status = 2;
  (void)argp_parse(&argp, argc, argv, 0, NULL, &a);
  kv_status st = count(a.shared.path, &info, &t, err);
  if (st) return st;
  char *name = strdup(a.shared.path); /* for JSON and the terminal; the file itself may be called anything */
  if (!name) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  kv_text_clean(name);
  if (a.shared.json)
    print_json(name, &info, &t);
  else
    print_table(name, &info, &t);
  free(name);
  return KV_OK;
}
