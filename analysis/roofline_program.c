/* roofline program - a kernel's declaration from its machine code, to be completed by hand. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "roofline_commands.h"
#include "time_sass.h"
#include "time_walk.h"

enum { O_FUNCTION = 1000, O_LOOP, O_LINES, O_HINTS, MOST_LOOPS = 200 };

typedef struct options {
  const char *file, *function, *hints;
  uint64_t loop, from, to;
  bool ranged;
  kv_error err;
} options;

static void lines(options *o, const char *arg) {
  unsigned long long from, to;
  char end;
  if (sscanf(arg, "%llu:%llu%c", &from, &to, &end) != 2 || from > to)
    (void)kv_fail(&o->err, KV_ERR_USAGE, "--lines: '%.40s' is not FROM:TO", arg);
  o->from = from;
  o->to = to;
  o->ranged = true;
}

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
    case O_FUNCTION: o->function = arg; return 0;
    case O_HINTS: o->hints = arg; return 0;
    case O_LOOP: (void)kv_cli_count(arg, "--loop", 1, MOST_LOOPS, &o->loop, &o->err); return 0;
    case O_LINES: lines(o, arg); return 0;
    case ARGP_KEY_ARG:
      if (o->file) (void)kv_fail(&o->err, KV_ERR_USAGE, "one listing; '%.60s' is one too many", arg);
      o->file = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option option_table[] = {
    {"function", O_FUNCTION, "NAME", 0, "the function whose name contains this (the first)", 0},
    {"loop", O_LOOP, "N", 0, "the loop to take, of the list that stands on stderr (the longest)", 0},
    {"lines", O_LINES, "FROM:TO", 0,
     "these instructions instead, counted from 0: for prologues, and to cut rare paths out", 0},
    {"hints", O_HINTS, "FILE", 0,
     "follow the branches as FILE says (models/time_walk.h); the listing is that of `nvdisasm -c -gi -hex`",
     0},
    {0, 0, 0, 0, 0, 0}};

static kv_status choose(options *o, const kvm_sass *s, kv_error *err) {
  kvm_sass_loop loop[MOST_LOOPS];
  size_t n = kvm_sass_loops(s, 16, loop, MOST_LOOPS), best = 0;
  if (n > MOST_LOOPS) n = MOST_LOOPS;
  fprintf(stderr, "%s: %zu instructions, %zu loops of 16 or more\n", s->function, s->n, n);
  for (size_t i = 0; i < n; i++) {
    fprintf(stderr, "  loop %zu: instructions %zu to %zu\n", i + 1, loop[i].from, loop[i].to);
    if (loop[i].to - loop[i].from > loop[best].to - loop[best].from) best = i;
  }
  if (o->ranged)
    return o->to < s->n
               ? KV_OK
               : kv_fail(err, KV_ERR_USAGE, "--lines: the function has instructions 0 to %zu", s->n - 1);
  if (!n)
    return kv_fail(err, KV_ERR_USAGE, "%s has no loop; name its instructions with --lines", s->function);
  if (o->loop > n) return kv_fail(err, KV_ERR_USAGE, "--loop: there are %zu", n);
  if (o->loop) best = o->loop - 1;
  o->from = loop[best].from;
  o->to = loop[best].to;
  return KV_OK;
}

static kv_status program(options *o, kv_error *err) {
  kvm_sass s;
  if (!o->file)
    return kv_fail(err, KV_ERR_USAGE,
                   "which listing? cuobjdump -sass my.cubin >my.sass; roofline program my.sass");
  if (o->hints) return kvm_walk(o->hints, o->file, stdout, err);
  kv_status st = kvm_sass_read(o->file, o->function, &s, err);
  if (st) return st;
  st = choose(o, &s, err);
  if (!st) {
    printf(
        "; instructions %llu to %llu of %s\n[kernel]\nname        = my_kernel\nlike        = "
        "split_verify\narch        = sm_90\n"
        "description = what it does\nsource      = where this comes from\n\n[structure]\nthreads = "
        "256\n\n[warps all]\ncount = 8\ntile =\n",
        (unsigned long long)o->from, (unsigned long long)o->to, s.function);
    kvm_sass_program(&s, (size_t)o->from, (size_t)o->to, stdout);
  }
  kvm_sass_free(&s);
  return st;
}

int roofline_program(int argc, char **argv) {
  static options o;
  static const struct argp parser = {
      .options = option_table,
      .parser = parse_option,
      .args_doc = "LISTING",
      .doc =
          "A kernel's declaration for `roofline --kernel`, from what `cuobjdump -sass` prints: instructions, "
          "stalls and marks of a loop "
          "as a program. Names, structure, and where loads hit are yours to fill in.\vExample:\n"
          "  cuobjdump -sass my.cubin >my.sass; roofline program my.sass --function attention >my.ini\n"};
  kv_error err = {KV_OK, ""};
  (void)argp_parse(&parser, argc, argv, 0, NULL, &o);
  kv_status st = o.err.status;
  if (st) err = o.err;
  else st = program(&o, &err);
  return kv_cli_exit("roofline program", st, &err);
}
