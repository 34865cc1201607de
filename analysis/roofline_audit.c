/* roofline audit - can that library's kernels run on this GPU? */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "audit_diff.h"
#include "audit_source.h"
#include "cli.h"
#include "roofline_commands.h"
#include "roofline_gpu.h"

enum { MAX_FILES = 4096 };
enum { O_JSON = 1000, O_KERNELS, O_ALL, O_DIFF, O_SOURCE, O_LIST, O_SASS, O_CHECK };

typedef struct audit_options {
  const char *gpu, *kernels, *source, *output;
  const char *file[MAX_FILES];
  size_t files;
  bool json, all, diff, list, sass, check, quiet;
  char *command;
} audit_options;

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  audit_options *o = state->input;
  switch (key) {
    case 'g': o->gpu = arg; return 0;
    case 'o': o->output = arg; return 0;
    case 'q': o->quiet = true; return 0;
    case O_JSON: o->json = true; return 0;
    case O_KERNELS: o->kernels = arg; return 0;
    case O_ALL: o->all = true; return 0;
    case O_DIFF: o->diff = true; return 0;
    case O_SOURCE: o->source = arg; return 0;
    case O_LIST: o->list = true; return 0;
    case O_SASS: o->sass = true; return 0;
    case O_CHECK: o->check = true; return 0;
    case ARGP_KEY_ARG:
      if (o->files == MAX_FILES) return E2BIG;
      o->file[o->files++] = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

/* sm_120, 12.0, or the name of a GPU that is described. A bare architecture needs no description. */
static kv_status gpu_of(const char *name, unsigned *sm, kv_error *err) {
  kva_target t;
  *sm = 0;
  if (!name) return KV_OK;
  if (kva_target_parse(name, &t)) {
    *sm = t.sm;
    return KV_OK;
  }
  roofline_gpu chosen = {0};
  kv_status st = roofline_gpu_choose(name, &chosen, err);
  if (!st) *sm = (unsigned)kvm_gpu_sm(chosen.gpu);
  roofline_gpu_free(&chosen);
  if (!st && !*sm) st = kv_fail(err, KV_ERR_INPUT, "--gpu: the description of '%s' names no compute capability", name);
  return st;
}

static kv_status compile_regex(const char *text, regex_t *regex, kv_error *err) {
  char why[200];
  int code = regcomp(regex, text, REG_EXTENDED | REG_NOSUB);
  if (!code) return KV_OK;
  (void)regerror(code, regex, why, sizeof why);
  return kv_fail(err, KV_ERR_USAGE, "--kernels: '%.200s' is no extended regular expression: %s", text, why);
}

typedef struct shown_progress {
  kv_progress bar;
  size_t files;
} shown_progress;

static void show_progress(void *context, uint64_t files) {
  shown_progress *p = context;
  kv_progress_at(&p->bar, 1 - 1 / (1 + (double)files / 20)); /* how many there are is known at the end only */
}

static kv_status collect(kva_audit *audit, const char *const *files, size_t n, const audit_options *o,
                         const regex_t *only, kv_error *err) {
  shown_progress p = {.files = 0};
  kva_collect_options options = {
      .entries_only = o->list, .code = true, .hash = o->diff, .sass = o->sass ? only : NULL, .progress = show_progress, .context = &p};
  kv_status st = KV_OK;
  kv_progress_begin(&p.bar, "reading", o->quiet);
  for (size_t i = 0; i < n && !st; i++) st = kva_audit_add(audit, files[i], &options, err);
  kv_progress_end(&p.bar);
  return st ? st : kva_audit_families(audit, err);
}

/* Damage was told where it was met; the exit status says that the answer is not whole. */
static kv_status whole(const kva_audit *audit, kv_error *err) {
  if (!audit->problems) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT, "%s%s", audit->problem[0],
                 audit->problems > 1 ? " (and more, listed in the output)" : "");
}

static kv_status check(const kva_audit *audit, unsigned sm, const regex_t *only, kv_error *err) {
  kva_checked c;
  char first[200], picked[128] = "";
  kv_status st = kva_check(audit, sm, only, &c, err);
  if (st) return st;
  if (!c.kernels) return kv_fail(err, KV_ERR_BAR, "--check: no kernel to check");
  if (!c.idle) return KV_OK;
  kva_demangle(audit->names.text[c.first], first, sizeof first);
  if (c.picked)
    (void)snprintf(picked, sizeof picked, "; in plain data, where the library picks for the GPU it finds: %zu", c.picked);
  return kv_fail(err, KV_ERR_BAR, "--check: %zu of %zu kernels do not run on sm_%u; the first is %s%s", c.idle, c.kernels, sm,
                 first, picked);
}

static kv_status tell(const kva_audit *audit, const audit_options *o, unsigned sm, const regex_t *only, kv_error *err) {
  kva_tell t = {.sm = sm, .only = only, .every_family = o->all, .idle = o->check, .command = o->command};
  kv_status st = KV_OK;
  if (o->list)
    st = kva_tell_list(stdout, audit, err);
  else if (o->json)
    st = kva_tell_json(stdout, audit, &t, err);
  else
    st = kva_tell_text(stdout, audit, &t, err);
  if (!st && o->output) st = kva_tell_h5(o->output, audit, &t, err);
  return st;
}

static kv_status run_source(const kva_audit *audit, const audit_options *o, unsigned sm, kv_error *err) {
  kva_source source;
  size_t gaps;
  kv_status st = kva_source_read(o->source, &source, err);
  if (st) return st;
  st = kva_tell_source(stdout, &source, audit, sm, &gaps, err);
  kva_source_free(&source);
  return st;
}

static kv_status run_diff(const audit_options *o, unsigned sm, kv_error *err) {
  kva_audit before = {0}, after = {0};
  kv_status st = collect(&before, &o->file[0], 1, o, NULL, err);
  if (!st) st = collect(&after, &o->file[1], 1, o, NULL, err);
  if (!st) st = kva_tell_diff(stdout, &before, o->file[0], &after, o->file[1], sm, o->json, err);
  if (!st) st = whole(&before, err);
  if (!st) st = whole(&after, err);
  kva_audit_free(&before);
  kva_audit_free(&after);
  return st;
}

static kv_status run_audit(const audit_options *o, unsigned sm, const regex_t *only, kv_error *err) {
  kva_audit audit = {0};
  kv_status st = collect(&audit, o->file, o->files, o, only, err);
  if (!st) st = tell(&audit, o, sm, only, err);
  if (!st && o->source) st = run_source(&audit, o, sm, err);
  if (!st) st = whole(&audit, err);
  if (!st && o->check) st = check(&audit, sm, only, err);
  kva_audit_free(&audit);
  return st;
}

static kv_status usable(const audit_options *o, kv_error *err) {
  if (!o->files) return kv_fail(err, KV_ERR_USAGE, "name a file, folder or wheel to look into (--help)");
  if (o->diff && o->files != 2) return kv_fail(err, KV_ERR_USAGE, "--diff compares exactly two files, folders or wheels");
  if (o->diff && (o->output || o->source || o->list || o->check))
    return kv_fail(err, KV_ERR_USAGE, "--diff goes with --gpu and --json only");
  for (size_t i = 0; i < o->files; i++)
    if (kv_cli_not_input(o->output, o->file[i], "audited file", err)) return KV_ERR_USAGE;
  if (o->check && !o->gpu) return kv_fail(err, KV_ERR_USAGE, "--check needs --gpu");
  if (o->source && o->json) return kv_fail(err, KV_ERR_USAGE, "--source has no JSON form; leave out --json");
  if (o->sass && !o->kernels) return kv_fail(err, KV_ERR_USAGE, "--sass needs --kernels: it disassembles only those");
  return KV_OK;
}

static kv_status audit(const audit_options *o, kv_error *err) {
  unsigned sm;
  regex_t regex;
  kv_status st = usable(o, err);
  if (!st) st = gpu_of(o->gpu, &sm, err);
  if (st) return st;
  if (o->kernels && (st = compile_regex(o->kernels, &regex, err))) return st;
  st = o->diff ? run_diff(o, sm, err) : run_audit(o, sm, o->kernels ? &regex : NULL, err);
  if (o->kernels) regfree(&regex);
  return st;
}

int roofline_audit(int argc, char **argv) {
  static const struct argp_option table[] = {
      {"gpu", 'g', "NAME", 0, "the GPU asked about: sm_120, 12.0, or a described one (roofline list)", 0},
      {"kernels", O_KERNELS, "REGEX", 0, "only kernels whose demangled name matches; lists each with its resources", 0},
      {"all", O_ALL, 0, 0, "list the families that run too", 0},
      {"sass", O_SASS, 0, 0, "disassemble the kernels of --kernels with nvdisasm, if it is in PATH, as further evidence", 0},
      {"source", O_SOURCE, "DIR", 0, "compare with what the build files there ask nvcc for", 0},
      {"diff", O_DIFF, 0, 0, "compare two versions: roofline audit --diff A B", 0},
      {"check", O_CHECK, 0, 0, "exit status 1 if a kernel looked at does not run on the GPU; lists each that does not", 0},
      {"list", O_LIST, 0, 0, "only the entries, as cuobjdump --list-elf --list-ptx lists them; those it misses, in plain data, as `ELF data`, `PTX data`", 0},
      {"json", O_JSON, 0, 0, "JSON on stdout (schema audit-1)", 0},
      {"output", 'o', "FILE", 0, "dataset (audit-1)", 0},
      {"quiet", 'q', 0, 0, "no progress on stderr", 0},
      {0, 0, 0, 0, 0, 0}};
  static const struct argp parser = {
      .options = table,
      .parser = parse_option,
      .args_doc = "FILE...",
      .doc = "Which GPUs the kernels in libraries, programs, archives, fatbins, cubins, folders and Python wheels run "
             "on: natively, compiled at load, not at all; why; and what a rebuild takes. Needs neither a GPU nor the "
             "CUDA toolkit.\vExamples:\n"
             "  roofline audit sgl_kernel-*.whl --gpu sm_120\n"
             "  roofline audit libfoo.so --gpu sm_120 --kernels merge_state --check\n"
             "  roofline audit --diff foo-1.whl foo-2.whl --gpu sm_120\n"
             "  roofline audit libfoo.so --gpu sm_120 --source foo/"};
  audit_options *o = calloc(1, sizeof *o);
  kv_error err = {KV_OK, ""};
  kv_status st = o ? KV_OK : kv_fail(&err, KV_ERR_MEMORY, "out of memory");
  if (o && argp_parse(&parser, argc, argv, 0, NULL, o)) st = kv_fail(&err, KV_ERR_USAGE, "bad arguments");
  if (!st) {
    o->command = kv_cli_command_line(argc, argv);
    st = audit(o, &err);
    free(o->command);
  }
  free(o);
  return kv_cli_exit("roofline audit", st, &err);
}
