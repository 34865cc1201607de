/* kvr_audit.c - an audit-1 dataset (which GPUs a library's kernels run on) as tables for gnuplot.
 *
 *   audit-map.tsv    a line a file and compute capability: column, row, class, text. Classes: 0 no kernel, 1 all run
 *                    natively, 2 all run and some are compiled at load, 3 some run, 4 none runs
 *   audit-files.tsv  a line a file: row, name
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_job.h"
#include "kvr_text.h"

enum { MOST_FILES = 24, MOST_COLUMNS = 16, FAMILY_PAGES = 4 };
enum { M_FILE, M_SM, M_NATIVE, M_JIT, M_STUB, M_LARGE, M_CANNOT, M_COLUMNS };
static const char *const map_columns[] = {"file", "sm", "native", "jit", "compiled_out", "too_large", "cannot_run"};
enum { F_FILE, F_STUB, F_LARGE, F_CANNOT, F_COLUMNS };
static const char *const family_columns[] = {"file", "compiled_out", "too_large", "cannot_run"};

typedef struct words {
  char *text;
  size_t width;
  uint64_t n;
} words;

typedef struct audit {
  const kvr_job *job;
  char gpu[64];
  double not_read;
  kvr_table map, families;
  words file, family, verdict, why;
  bool asked; /* one GPU was asked about: there are families */
  double sm[MOST_COLUMNS];
  size_t columns;
  uint64_t left_out;
} audit;

static const char *word_at(const words *w, uint64_t i) {
  return i < w->n ? w->text + i * w->width : "";
}

/* Where the last `parts` of a path begin; a member of an archive stands behind a '!'. */
static const char *end_of(const char *path, int parts) {
  const char *c = path + strlen(path);
  if (c > path && (c[-1] == '/' || c[-1] == '!')) return path;
  while (c > path)
    if ((c[-1] == '/' || c[-1] == '!') && --parts == 0) break;
    else c--;
  return c;
}

/* A file's name, with the folder where another file has that name. */
static const char *name_of(const audit *a, uint64_t i) {
  const char *path = word_at(&a->file, i), *base = end_of(path, 1);
  for (uint64_t k = 0; k < a->file.n; k++)
    if (k != i && !strcmp(base, end_of(word_at(&a->file, k), 1))) return end_of(path, 2);
  return base;
}

static kv_status read_families(audit *a, kv_error *err) {
  const struct {
    const char *name;
    words *to;
  } columns[] = {{"families/family", &a->family}, {"families/verdict", &a->verdict}, {"families/why", &a->why}};
  kv_status st = kvr_table_load(&a->job->src, "families", family_columns, F_COLUMNS, &a->families, err);
  for (size_t i = 0; i < 3 && !st; i++)
    st = kvr_strings(&a->job->src, columns[i].name, a->families.rows, &columns[i].to->text, &columns[i].to->width,
                     &columns[i].to->n, err);
  return st;
}

static kv_status check_files(const audit *a, const kvr_table *t, kv_error *err) {
  for (uint64_t i = 0; i < t->rows; i++)
    if (!(t->value[0][i] >= 0 && t->value[0][i] < (double)a->file.n))
      return kv_fail(err, KV_ERR_INPUT, "%s: dataset '/%s/file' row %llu: %g names none of the %llu files", a->job->src.path,
                     t->group, (unsigned long long)i, t->value[0][i], (unsigned long long)a->file.n);
  return KV_OK;
}

static kv_status read_audit(audit *a, kv_error *err) {
  kv_status st = kvr_text_attribute(&a->job->src, "gpu", a->gpu, sizeof a->gpu, err);
  if (!st) st = kvr_number_attribute(&a->job->src, "not_read", &a->not_read, err);
  if (!st) st = kvr_strings(&a->job->src, "files/name", UINT64_MAX, &a->file.text, &a->file.width, &a->file.n, err);
  if (!st) st = kvr_table_load(&a->job->src, "map", map_columns, M_COLUMNS, &a->map, err);
  if (!st) st = check_files(a, &a->map, err);
  a->asked = H5Lexists(a->job->src.file, "families", H5P_DEFAULT) > 0;
  if (!st && a->asked) st = read_families(a, err);
  if (!st && a->asked) st = check_files(a, &a->families, err);
  return st;
}

/* Columns in the order in which the dataset names them. */
static size_t column_of(audit *a, double sm) {
  size_t c = 0;
  while (c < a->columns && a->sm[c] != sm) c++;
  if (c == a->columns && c < MOST_COLUMNS) a->sm[a->columns++] = sm;
  return c;
}

/* ---- the map ---- */

static int cell_class(const audit *a, uint64_t i, char *text, size_t size) {
  double *const *v = a->map.value;
  double runs = v[M_NATIVE][i] + v[M_JIT][i], all = runs + v[M_STUB][i] + v[M_LARGE][i] + v[M_CANNOT][i];
  const char *plain = all == 0 ? "no kernel" : runs == 0 ? "none" : runs == all && v[M_JIT][i] == 0 ? "native" : "";
  if (*plain) (void)snprintf(text, size, "%s", plain);
  else if (runs == all) (void)snprintf(text, size, v[M_NATIVE][i] > 0 ? "native + JIT" : "JIT");
  else if (all < 100) (void)snprintf(text, size, "%.0f of %.0f", runs, all);
  else (void)snprintf(text, size, runs < 0.01 * all ? "< 1 %%" : "%.0f %%", floor(100 * runs / all)); /* a part is never 100 % */
  return all == 0 ? 0 : runs == 0 ? 4 : runs < all ? 3 : v[M_JIT][i] > 0 ? 2 : 1;
}

static void put_cells(audit *a, FILE *f, uint64_t shown[5]) {
  for (uint64_t i = 0; i < a->map.rows; i++) {
    char text[100];
    size_t c = column_of(a, a->map.value[M_SM][i]);
    if (c == MOST_COLUMNS || a->map.value[M_FILE][i] >= MOST_FILES) {
      a->left_out++;
      continue;
    }
    int class = cell_class(a, i, text, sizeof text);
    kvr_put_cell(f, (double)c + 1);
    kvr_put_cell(f, a->map.value[M_FILE][i] + 1);
    kvr_put_cell(f, class);
    kvr_put_word(f, text);
    fputc('\n', f);
    shown[class]++;
  }
  if (a->map.rows == 0) fputs("NaN\tNaN\tNaN\t\n", f);
}

static void put_map_variables(const audit *a, uint64_t rows) {
  FILE *vars = a->job->vars;
  fprintf(vars, "array SM_NAME[%zu]\n", a->columns ? a->columns : 1);
  for (size_t c = 0; c < a->columns; c++) {
    char name[40], text[40];
    (void)snprintf(name, sizeof name, "SM_NAME[%zu]", c + 1);
    (void)snprintf(text, sizeof text, "sm_%.0f", a->sm[c]);
    kvr_put_text(vars, name, text);
  }
  kvr_put_number(vars, "AUDIT_COLUMNS", (double)a->columns);
  kvr_put_number(vars, "AUDIT_ROWS", (double)rows);
}

static kv_status put_map(audit *a, kv_error *err) {
  FILE *f = NULL;
  char rest[160] = "";
  uint64_t shown[5] = {0}, rows = a->file.n < MOST_FILES ? a->file.n : MOST_FILES;
  kv_status st = kvr_job_open(a->job, "audit-map.tsv", &f, err);
  if (st) return st;
  put_cells(a, f, shown);
  st = kvr_job_close(a->job, &f, err);
  if (!st) st = kvr_job_open(a->job, "audit-files.tsv", &f, err);
  if (st) return st;
  for (uint64_t i = 0; i < rows; i++) {
    char line[512];
    (void)kvr_wrap(name_of(a, i), 9.5, false, 190, 1, line, sizeof line);
    kvr_put_cell(f, (double)i + 1);
    kvr_put_word(f, line);
    fputc('\n', f);
  }
  if (rows == 0) fputs("NaN\t\n", f);
  put_map_variables(a, rows);
  if (a->left_out)
    (void)snprintf(rest, sizeof rest, " %s more cells are in /map of the dataset.", kvr_count((double)a->left_out).text);
  kvr_put_finding(a->job, "FIND_MAP",
                  "Files by compute capability: %s cells run natively, %s with code compiled at load, %s in part (the cell says how "
                  "many kernels), %s not at all. Read from the files, nothing was run.%s",
                  kvr_count((double)shown[1]).text, kvr_count((double)shown[2]).text, kvr_count((double)shown[3]).text,
                  kvr_count((double)shown[4]).text, rest);
  return kvr_job_close(a->job, &f, err);
}

/* ---- families that do not run on the GPU asked about ---- */

static bool fails(const audit *a, uint64_t i) {
  return a->families.value[F_STUB][i] + a->families.value[F_LARGE][i] + a->families.value[F_CANNOT][i] > 0;
}

/* How the table is set: the families' files are told where there are several. */
typedef struct table_style {
  double size;
  size_t lines; /* of a row, at most */
  bool files;
} table_style;

enum { C_FAMILY, C_FILE, C_VERDICT, C_WHY, C_TABLE };

/* One cell, wrapped; returns the height it takes. f NULL: only measures. */
static double put_cell(FILE *f, const table_style *s, int column, double y, bool bold, const char *text) {
  static const double x[2][C_TABLE] = {{36, 0, 296, 380}, {36, 222, 362, 438}}, wide[2][C_TABLE] = {{250, 0, 80, 426}, {178, 132, 72, 368}};
  char lines[1200], *line = lines;
  size_t n = kvr_wrap(text, s->size, bold, wide[s->files][column], s->lines, lines, sizeof lines);
  for (size_t i = 0; i < n; i++) {
    char *end = strchr(line, '\n');
    if (end) *end = '\0';
    const kvr_label label = {.x = x[s->files][column], .y = y + 1.3 * s->size * (double)i, .size = s->size, .bold = bold,
                             .colour = bold ? "#333333" : "#000000"};
    if (f) kvr_put_label(f, &label, line);
    if (end) line = end + 1;
  }
  return 1.3 * s->size * (double)(n ? n : 1);
}

static double put_row(FILE *f, const table_style *s, double y, const char *const cell[C_TABLE], bool bold) {
  double height = 0;
  for (int c = 0; c < C_TABLE; c++)
    if (c != C_FILE || s->files) height = fmax(height, put_cell(f, s, c, y, bold, cell[c]));
  return height + 0.3 * s->size;
}

/* Rows of the families that fail but for the first `skip`, down to the page's end; returns how many there was room for. */
static uint64_t put_rows(const audit *a, FILE *f, const table_style *s, uint64_t skip) {
  static const char *const head[C_TABLE] = {"family of kernels", "file", "verdict", "why"};
  double y = 92;
  uint64_t shown = 0;
  y += put_row(f, s, y, head, true);
  for (uint64_t i = 0; i < a->families.rows; i++) {
    if (!fails(a, i) || (skip && skip--)) continue;
    const char *const cell[C_TABLE] = {word_at(&a->family, i), name_of(a, (uint64_t)a->families.value[F_FILE][i]),
                                       word_at(&a->verdict, i), word_at(&a->why, i)};
    double height = put_row(NULL, s, y, cell, false);
    if (y + height > KVR_PAGE_HEIGHT - 42) return shown;
    (void)put_row(f, s, y, cell, false);
    y += height;
    shown++;
  }
  return shown;
}

/* The largest type, and the most lines a row, that show all of them on one page; else small type on several. */
static table_style choose_style(const audit *a, uint64_t failing) {
  static const double sizes[] = {10.5, 9.5, 8.5};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (size_t lines = 6; lines >= 3; lines--) {
      const table_style s = {sizes[k], lines, a->file.n > 1};
      if (put_rows(a, NULL, &s, 0) == failing) return s;
    }
  return (table_style){8.5, 3, a->file.n > 1};
}

/* A file of labels a page; *pages: how many pages of them there are, at least one. */
static kv_status put_families(const audit *a, size_t *pages, kv_error *err) {
  char rest[100] = "", file[40];
  uint64_t failing = 0, shown = 0;
  kv_status st = KV_OK;
  for (uint64_t i = 0; i < a->families.rows; i++) failing += fails(a, i) ? 1u : 0u;
  const table_style style = choose_style(a, failing);
  for (*pages = 0; !st && (!*pages || (shown < failing && *pages < FAMILY_PAGES)); ++*pages) {
    FILE *f;
    (void)snprintf(file, sizeof file, "family-labels-%zu.gp", *pages + 1);
    st = kvr_job_open(a->job, file, &f, err);
    if (!st && failing) shown += put_rows(a, f, &style, shown);
    if (!st) st = kvr_job_close(a->job, &f, err);
  }
  if (shown < failing)
    (void)snprintf(rest, sizeof rest, "; the first %llu are shown, the rest is in /families", (unsigned long long)shown);
  kvr_put_number(a->job->vars, "FAILING", (double)failing);
  kvr_put_number(a->job->vars, "ASKED", a->asked);
  if (!a->asked) kvr_put_finding(a->job, "FIND_FAMILIES", "No GPU was asked about (--gpu): the map is all there is.");
  else
    kvr_put_finding(a->job, "FIND_FAMILIES", "%s of %s families hold a kernel that does not run on %s%s.",
                    kvr_count((double)failing).text, kvr_count((double)a->families.rows).text, a->gpu, rest);
  return st;
}

/* ---- the first page ---- */

static kv_status write_cover(const audit *a, kv_error *err) {
  kvr_cover *c = calloc(1, sizeof *c);
  char history[2048] = "", files[1000] = "";
  size_t at = 0;
  double bad = 0, all = 0;
  if (!c) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", a->job->src.path);
  for (uint64_t i = 0; i < a->file.n && at + 120 < sizeof files; i++)
    at += (size_t)snprintf(files + at, sizeof files - at, "%s%.100s", at ? ", " : "", name_of(a, i));
  for (uint64_t i = 0; i < a->families.rows; i++) bad += fails(a, i), all++;
  kv_status st = kvr_text_attribute(&a->job->src, "history", history, sizeof history, err);
  c->kind = "WHICH GPUS THE KERNELS RUN ON  ·  roofline audit";
  (void)snprintf(c->title, sizeof c->title, "%llu file%s with device code%s%s", (unsigned long long)a->file.n,
                 a->file.n == 1 ? "" : "s", *a->gpu ? ", asked about " : "", a->gpu);
  if (!a->file.n)
    (void)snprintf(c->verdict, sizeof c->verdict, "No device code was found.");
  else if (a->asked && bad > 0)
    (void)snprintf(c->verdict, sizeof c->verdict, "%s of %s families of kernels do not run whole on %s.",
                   kvr_count(bad).text, kvr_count(all).text, a->gpu);
  else if (a->asked)
    (void)snprintf(c->verdict, sizeof c->verdict, "All %s families of kernels run on %s.", kvr_count(all).text, a->gpu);
  else
    (void)snprintf(c->verdict, sizeof c->verdict, "No GPU was asked about: the next page says which run what.");
  (void)snprintf(c->problem, sizeof c->problem,
                 "The problem: a library's kernels run on a GPU if it holds machine code for it, or PTX that the driver can "
                 "compile. Which do, and why do the others not?");
  kvr_cover_row(c, "Files", "%s", *files ? files : "none with device code");
  kvr_cover_row(c, "GPU", "%s", *a->gpu ? a->gpu : "none asked about");
  kvr_cover_row(c, "Not read", "%s damaged or unknown members", kvr_count(a->not_read).text);
  kvr_cover_row(c, "Not measured", "nothing was run: verdicts are read from the files alone");
  kvr_cover_row(c, "Made by", "%s", history);
  if (!st) st = kvr_cover_write(a->job, c, err);
  free(c);
  return st;
}

kv_status kvr_export_audit(kvr_job *job, kv_error *err) {
  static const kvr_page pages[2 + FAMILY_PAGES] = {{"cover.gp", "summary"},
                                                   {"audit-map.gp", "map"},
                                                   {"audit-families.gp", "families"},
                                                   {"audit-families.gp", "families-2"},
                                                   {"audit-families.gp", "families-3"},
                                                   {"audit-families.gp", "families-4"}};
  size_t of_families = 1;
  audit a = {.job = job, .not_read = NAN};
  job->pages = pages;
  kv_status st = read_audit(&a, err);
  if (!st) st = put_map(&a, err);
  if (!st) st = put_families(&a, &of_families, err);
  job->page_count = 2 + of_families;
  if (!st) st = write_cover(&a, err);
  if (!st) st = kvr_put_footer(job, a.gpu, "read from files, nothing run", err);
  free(a.file.text);
  free(a.family.text);
  free(a.verdict.text);
  free(a.why.text);
  kvr_table_close(&a.map);
  kvr_table_close(&a.families);
  return st;
}
