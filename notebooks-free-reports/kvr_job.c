#include "kvr_job.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_text.h"

#define LEFT 36.0                        /* pt from the page's edge */
#define WIDE (KVR_PAGE_WIDTH - 2 * LEFT) /* pt that a line may take */
#define KEYS 128.0                       /* pt of the column of keys */
#define MARK_WIDE 290.0                  /* pt that the footer's mark may take */
#define FOOTER 40.0                      /* pt kept free at the bottom */

kv_status kvr_job_open(const kvr_job *job, const char *file, FILE **f, kv_error *err) {
  char path[4096];
  *f = NULL;
  if (snprintf(path, sizeof path, "%s/%s", job->folder, file) < (int)sizeof path) *f = fopen(path, "we");
  if (!*f) return kv_fail(err, KV_ERR_IO, "%s/%s: cannot be written: %s", job->folder, file, strerror(errno));
  return KV_OK;
}

kv_status kvr_job_close(const kvr_job *job, FILE **f, kv_error *err) {
  if (!*f) return KV_OK;
  errno = 0;
  int bad = ferror(*f);
  bad |= fclose(*f);
  *f = NULL;
  if (!bad) return KV_OK;
  return kv_fail(err, KV_ERR_IO, "%s: cannot be written: %s", job->folder,
                 errno ? strerror(errno) : "write error");
}

void kvr_put_label(FILE *f, const kvr_label *label, const char *line) {
  fputs("set label ", f);
  kvr_put_quoted(f, line);
  fprintf(f, " at screen %.5f,%.5f left font FACE.\"%s,%g\" tc rgb \"%s\" front\n", label->x / KVR_PAGE_WIDTH,
          1 - label->y / KVR_PAGE_HEIGHT, label->bold ? ":Bold" : "", label->size, label->colour);
}

void kvr_put_finding(const kvr_job *job, const char *variable, const char *format, ...) {
  char text[1024], lines[1200];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  (void)kvr_wrap(text, 12, false, WIDE, 2, lines, sizeof lines);
  kvr_put_text(job->vars, variable, lines);
}

/* A mark that is too wide goes without the driver, which the first page has. */
static const char *fitting_mark(const char *mark, char text[900]) {
  const char *driver = strstr(mark, ", driver "), *after = driver ? strstr(driver + 2, ", ") : NULL;
  if (kvr_width(mark, 8.5, true) <= MARK_WIDE || !after) return mark;
  (void)snprintf(text, 900, "%.*s%.400s", (int)(driver - mark), mark, after);
  return text;
}

kv_status kvr_put_footer(const kvr_job *job, const char *gpu, const char *mark, kv_error *err) {
  char creator[128], version[128], host[256], when[64], foot[900], line[1000];
  kv_status st = kvr_text_attribute(&job->src, "creator", creator, sizeof creator, err);
  if (!st) st = kvr_text_attribute(&job->src, "creator_version", version, sizeof version, err);
  if (!st) st = kvr_text_attribute(&job->src, "host", host, sizeof host, err);
  if (!st) st = kvr_text_attribute(&job->src, "file_time", when, sizeof when, err);
  if (st) return st;
  (void)kvr_wrap(fitting_mark(mark, foot), 8.5, true, MARK_WIDE, 1, line, sizeof line);
  kvr_put_text(job->vars, "MARK", line);
  double left = WIDE - kvr_width(line, 8.5, true) - 50; /* 50 pt: the page's number and a gap */
  (void)snprintf(foot, sizeof foot, "%.120s  ·  %.60s  ·  %.60s %.60s  ·  host %.60s%s%.60s", job->name,
                 *when ? when : "undated", creator, version, *host ? host : "unknown",
                 *gpu ? "  ·  GPU " : "", gpu);
  (void)kvr_wrap(foot, 8.5, false, left, 1, line, sizeof line);
  kvr_put_text(job->vars, "FOOT", line);
  return KV_OK;
}

void kvr_cover_row(kvr_cover *cover, const char *key, const char *format, ...) {
  if (cover->rows == KVR_COVER_ROWS) return;
  char *value = cover->row[cover->rows].value;
  va_list args;
  va_start(args, format);
  (void)vsnprintf(value, sizeof cover->row[0].value, format, args);
  va_end(args);
  if (!*value) strcpy(value, "not recorded");
  (void)snprintf(cover->row[cover->rows].key, sizeof cover->row[0].key, "%s", key);
  cover->rows++;
}

/* ---- programs ---- */

static const char *origin_of(const char *program) {
  const char *comma = strstr(program, ", ");
  return comma ? comma + 2 : "";
}

static bool is_program(const kvr_program *p) {
  return *p->program && strncmp(p->program, "no program", 10) != 0;
}

/* The first entry of the list that is alike: of one origin, and of one kernel where `kernel` is set. */
static bool is_first(const kvr_program *list, size_t i, bool kernel) {
  for (size_t k = 0; k < i; k++)
    if (is_program(&list[k]) && !strcmp(origin_of(list[k].program), origin_of(list[i].program)) &&
        (!kernel || !strcmp(list[k].kernel, list[i].kernel)))
      return false;
  return is_program(&list[i]);
}

/* " or split_verify_5": the programs of entry i's kernel and origin, each once. */
static size_t put_programs_of(const kvr_program *list, size_t n, size_t i, char *text, size_t size) {
  size_t at = 0;
  const char *before = " by ";
  for (size_t k = i; k < n; k++) {
    bool alike = is_program(&list[k]) && !strcmp(list[k].kernel, list[i].kernel) &&
                 !strcmp(origin_of(list[k].program), origin_of(list[i].program));
    for (size_t j = i; alike && j < k; j++)
      alike = strcmp(list[j].kernel, list[k].kernel) != 0 || strcmp(list[j].program, list[k].program) != 0;
    if (!alike || at + 80 >= size) continue;
    at += (size_t)snprintf(text + at, size - at, "%s%.*s", before, (int)strcspn(list[k].program, ","), list[k].program);
    before = " or ";
  }
  return at;
}

void kvr_cover_programs(kvr_cover *c, const kvr_program *list, size_t n) {
  char text[1100] = "";
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    if (!is_first(list, i, false)) continue;
    const char *origin = origin_of(list[i].program), *before = at ? "; " : "";
    for (size_t k = i; k < n && at + 300 < sizeof text; k++) {
      if (!is_first(list, k, true) || strcmp(origin_of(list[k].program), origin) != 0) continue;
      at += (size_t)snprintf(text + at, sizeof text - at, "%s%.60s", before, list[k].kernel);
      at += put_programs_of(list, n, k, text + at, sizeof text - at - 100);
      before = ", ";
    }
    if (*origin && at + 100 < sizeof text) at += (size_t)snprintf(text + at, sizeof text - at, " (%.80s)", origin);
  }
  if (*text) kvr_cover_row(c, "Modelled", "%s", text);
}

/* ---- prices ---- */

/* "h200_sxm: modelled: ...; sm_120: ...", or one text where all GPUs have the same; `model` where the file tells no more. */
static kv_status memory_models(const kvr_source *src, const char *model, char *text, size_t size, kv_error *err) {
  char *key = NULL, *words = NULL;
  size_t key_width, width, at = 0;
  uint64_t n = 0, m = 0;
  (void)snprintf(text, size, "%s", model);
  if (H5Lexists(src->file, "gpus", H5P_DEFAULT) <= 0 || H5Lexists(src->file, "gpus/memory_model", H5P_DEFAULT) <= 0) return KV_OK;
  kv_status st = kvr_strings(src, "gpus/key", UINT64_MAX, &key, &key_width, &n, err);
  if (!st) st = kvr_strings(src, "gpus/memory_model", n, &words, &width, &m, err);
  bool differ = false;
  for (uint64_t i = 1; !st && i < m; i++) differ |= strcmp(words, words + i * width) != 0;
  for (uint64_t i = 0; !st && differ && i < m && at + 500 < size; i++)
    at += (size_t)snprintf(text + at, size - at, "%s%.47s: %.430s", at ? "; " : "", key + i * key_width, words + i * width);
  free(key);
  free(words);
  return st;
}

kv_status kvr_cover_prices(const kvr_job *job, kvr_cover *c, kv_error *err) {
  char model[512] = "", source[256] = "", text[1900];
  double seconds = NAN;
  kv_status st = kvr_text_attribute(&job->src, "memory_model", model, sizeof model, err);
  if (!st) st = kvr_text_attribute(&job->src, "token_source", source, sizeof source, err);
  if (!st) st = kvr_number_attribute(&job->src, "token_seconds", &seconds, err);
  if (!st) st = memory_models(&job->src, model, text, sizeof text, err);
  if (st) return st;
  kvr_cover_row(c, "Cost of scatter", "%s", text);
  if (isfinite(seconds)) kvr_cover_row(c, "A token again", "%s to compute (%s)", kvr_time(seconds).text, *source ? source : "source not recorded");
  else kvr_cover_row(c, "A token again", "%s", source);
  return KV_OK;
}

/* One set of sizes for the page. */
typedef struct cover_sizes {
  double verdict, problem, row;
  size_t verdict_lines, row_lines;
} cover_sizes;

typedef struct cover_pen {
  FILE *f;  /* NULL: only measure */
  double y; /* pt from the top */
} cover_pen;

static void put_lines(cover_pen *pen, double x, double size, bool bold, const char *colour,
                      const char *lines) {
  while (*lines) {
    size_t n = strcspn(lines, "\n");
    char line[1400];
    (void)snprintf(line, sizeof line, "%.*s", (int)n, lines);
    pen->y += 1.36 * size;
    if (pen->f) {
      const kvr_label label = {
          .x = x, .y = pen->y - 0.45 * size, .size = size, .bold = bold, .colour = colour};
      kvr_put_label(pen->f, &label, line);
    }
    lines += n + (lines[n] == '\n');
  }
}

static void put_box(const cover_pen *pen, double x0, double y0, double x1, double y1, const char *colour) {
  if (pen->f)
    fprintf(pen->f,
            "set object rectangle from screen %.5f,%.5f to screen %.5f,%.5f behind fs solid 1 noborder fc "
            "rgb \"%s\"\n",
            x0 / KVR_PAGE_WIDTH, 1 - y1 / KVR_PAGE_HEIGHT, x1 / KVR_PAGE_WIDTH, 1 - y0 / KVR_PAGE_HEIGHT,
            colour);
}

/* A size is too large while the verdict would have to be cut. */
static bool verdict_fits(const kvr_cover *c, const cover_sizes *s) {
  char lines[2400];
  return kvr_wrap(c->verdict, s->verdict, true, WIDE - 32, 99, lines, sizeof lines) <= s->verdict_lines;
}

static void lay_rows(const kvr_cover *c, const cover_sizes *s, cover_pen *pen) {
  char lines[2400];
  for (size_t i = 0; i < c->rows; i++) {
    cover_pen key = *pen;
    if (i % 2 == 0) { /* a light band on every second row guides the eye */
      size_t n = kvr_wrap(c->row[i].value, s->row, false, WIDE - KEYS - 8, s->row_lines, lines, sizeof lines);
      put_box(pen, LEFT, pen->y + 0.1 * s->row, LEFT + WIDE,
              pen->y + 1.36 * s->row * (double)n + 0.22 * s->row, "#f4f4f4");
    }
    put_lines(&key, LEFT + 4, s->row, true, "#333333", c->row[i].key);
    (void)kvr_wrap(c->row[i].value, s->row, false, WIDE - KEYS - 8, s->row_lines, lines, sizeof lines);
    put_lines(pen, LEFT + KEYS, s->row, false, "#000000", lines);
    pen->y += 0.12 * s->row;
  }
}

static void lay_verdict(const kvr_cover *c, const cover_sizes *s, cover_pen *pen) {
  char lines[2400];
  double top = pen->y;
  (void)kvr_wrap(c->verdict, s->verdict, true, WIDE - 32, s->verdict_lines, lines, sizeof lines);
  pen->y += 3;
  cover_pen measure = {.f = NULL, .y = pen->y};
  put_lines(&measure, 0, s->verdict, true, "", lines);
  put_box(pen, LEFT, top, LEFT + WIDE, measure.y + 8, "#eaf1f7");
  put_box(pen, LEFT, top, LEFT + 6, measure.y + 8, "#0072B2");
  put_lines(pen, LEFT + 18, s->verdict, true, "#000000", lines);
  pen->y += 14;
}

/* Returns the page's height in pt. */
static double lay_cover(const kvr_cover *c, const cover_sizes *s, FILE *f) {
  char lines[2400];
  cover_pen pen = {.f = f, .y = 16};
  put_lines(&pen, LEFT, 11, true, "#0072B2", c->kind);
  (void)kvr_wrap(c->title, 17, true, WIDE, 2, lines, sizeof lines);
  put_lines(&pen, LEFT, 17, true, "#000000", lines);
  pen.y += 9;
  if (*c->verdict) lay_verdict(c, s, &pen);
  (void)kvr_wrap(c->problem, s->problem, false, WIDE, 4, lines, sizeof lines);
  put_lines(&pen, LEFT, s->problem, false, "#000000", lines);
  pen.y += 8;
  lay_rows(c, s, &pen);
  return pen.y;
}

static bool rows_fit(const kvr_cover *c, const cover_sizes *s) {
  char lines[2400];
  for (size_t i = 0; i < c->rows; i++)
    if (kvr_wrap(c->row[i].value, s->row, false, WIDE - KEYS - 8, 99, lines, sizeof lines) > s->row_lines) return false;
  return true;
}

/* From size `first` on the first that shows every row whole, in as many lines as the page has room for, while it can be read
 * with ease; else size `first` with as much as there is room for. */
static cover_sizes with_whole_rows(const kvr_cover *c, const cover_sizes *sizes, size_t first, size_t last) {
  cover_sizes best = sizes[first];
  for (size_t i = first; i <= last && (i == first || sizes[i].row >= 9); i++) {
    cover_sizes s = sizes[i];
    while (!rows_fit(c, &s) && s.row_lines < 12) {
      s.row_lines++;
      if (lay_cover(c, &s, NULL) > KVR_PAGE_HEIGHT - FOOTER) {
        s.row_lines--;
        break;
      }
    }
    if (rows_fit(c, &s)) return s;
    if (i == first) best = s;
  }
  return best;
}

kv_status kvr_cover_write(const kvr_job *job, const kvr_cover *cover, kv_error *err) {
  static const cover_sizes sizes[] = {{24, 13, 11.5, 4, 3}, {21, 12.5, 11, 5, 3}, {18, 12, 10, 6, 3},
                                      {16, 11, 9, 7, 3},    {14, 10, 8.5, 10, 2}, {12, 9, 8, 15, 2},
                                      {11, 9, 7.5, 18, 2}};
  const size_t last = sizeof sizes / sizeof *sizes - 1;
  size_t i = 0;
  FILE *f;
  while (i < last &&
         (!verdict_fits(cover, &sizes[i]) || lay_cover(cover, &sizes[i], NULL) > KVR_PAGE_HEIGHT - FOOTER))
    i++;
  const cover_sizes used = with_whole_rows(cover, sizes, i, last);
  kv_status st = kvr_job_open(job, "cover-labels.gp", &f, err);
  if (st) return st;
  (void)lay_cover(cover, &used, f);
  return kvr_job_close(job, &f, err);
}
