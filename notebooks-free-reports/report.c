#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kv_clean.h"
#include "kvr_job.h"
#include "kvr_pdf.h"
#include "kvr_run.h"
#include "kvr_text.h"

#define TIME_LIMIT 120.0

/* The scratch folder and what is published from it. */
typedef struct workshop {
  const char *dir;
  const char *name;
  char folder[PATH_MAX]; /* "" until it exists */
  bool made;             /* dir was not there before: it goes again unless something is published */
} workshop;

void kvr_report_name(const char *dataset, char *name, size_t size) {
  const char *base = strrchr(dataset, '/');
  (void)snprintf(name, size, "%s", base ? base + 1 : dataset);
  static const char *const ending[] = {".h5", ".hdf5"};
  for (size_t i = 0; i < 2; i++) {
    size_t n = strlen(name), m = strlen(ending[i]);
    if (n > m && !strcmp(name + n - m, ending[i])) name[n - m] = '\0';
  }
}

static kv_status make_folders(const char *dir, bool *made, kv_error *err) {
  char path[PATH_MAX];
  size_t n = strlen(dir);
  if (n == 0 || n + 64 > sizeof path)
    return kv_fail(err, KV_ERR_USAGE, "report folder '%s': not a usable path", dir);
  memcpy(path, dir, n + 1);
  for (size_t i = 1; i <= n; i++) {
    if (path[i] != '/' && path[i] != '\0') continue;
    path[i] = '\0';
    bool fresh = mkdir(path, 0777) == 0;
    *made |= fresh;
    if (!fresh && errno != EEXIST)
      return kv_fail(err, KV_ERR_IO, "%s: report folder cannot be made: %s", dir, strerror(errno));
    path[i] = i == n ? '\0' : '/';
  }
  return KV_OK;
}

/* Inside the target folder, so that the final renames stay within one file system. */
static kv_status open_workshop(workshop *w, kv_error *err) {
  kv_status st = make_folders(w->dir, &w->made, err);
  if (st) return st;
  (void)snprintf(w->folder, sizeof w->folder, "%s/.kvroof-report-XXXXXX", w->dir);
  if (mkdtemp(w->folder)) {
    kv_clean_watch(w->folder); /* first: what is watched is removed in this order */
    if (w->made) kv_clean_watch(w->dir);
    return KV_OK;
  }
  w->folder[0] = '\0';
  return kv_fail(err, KV_ERR_IO, "%s: report folder cannot be written: %s", w->dir, strerror(errno));
}

static void close_workshop(workshop *w) {
  char path[PATH_MAX + 300];
  DIR *d = w->folder[0] ? opendir(w->folder) : NULL;
  const struct dirent *e;
  while (d && (e = readdir(d))) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (snprintf(path, sizeof path, "%s/%s", w->folder, e->d_name) < (int)sizeof path) (void)unlink(path);
  }
  if (d) (void)closedir(d);
  if (w->folder[0]) (void)rmdir(w->folder);
  kv_clean_forget(w->folder);
  w->folder[0] = '\0';
  if (w->made) { /* only where it is empty */
    (void)rmdir(w->dir);
    kv_clean_forget(w->dir);
  }
}

/* Scripts are seen through links: whatever their folder is called, gnuplot gets plain names. */
static kv_status link_script(const workshop *w, const char *share, const char *script, kv_error *err) {
  char target[PATH_MAX], joined[PATH_MAX], link[PATH_MAX + 300];
  if (snprintf(joined, sizeof joined, "%s/%s", share, script) >= (int)sizeof joined ||
      !realpath(joined, target) || access(target, R_OK) != 0)
    return kv_fail(err, KV_ERR_IO,
                   "%s/%s: figure script cannot be read: %s; install anew or set KVROOF_SHARE", share, script,
                   strerror(errno));
  (void)snprintf(link, sizeof link, "%s/%s", w->folder, script);
  if (symlink(target, link) == 0 || errno == EEXIST) return KV_OK;
  return kv_fail(err, KV_ERR_IO, "%s: cannot be written: %s", w->folder, strerror(errno));
}

static kv_status link_scripts(const workshop *w, const char *share, kv_error *err) {
  DIR *d = opendir(share);
  const struct dirent *e;
  kv_status st = d ? KV_OK : link_script(w, share, "style.gp", err);
  while (!st && d && (e = readdir(d))) {
    size_t n = strlen(e->d_name);
    if (n > 3 && !strcmp(e->d_name + n - 3, ".gp")) st = link_script(w, share, e->d_name, err);
  }
  if (d) (void)closedir(d);
  return st ? st : link_script(w, share, "style.gp", err);
}

static void put_page(FILE *f, const kvr_page *page, size_t number) {
  fprintf(f, "PAGE = %zu\nreset\nload 'style.gp'\nload '%s'\n", number, page->script);
}

/* The pages are drawn twice, once as one PDF and once as pictures. */
static kv_status write_main(const kvr_job *job, kv_error *err) {
  FILE *f;
  kv_status st = kvr_job_open(job, "main.gp", &f, err);
  if (st) return st;
  fprintf(f, "PAGES = %zu\nload 'vars.gp'\nload 'style.gp'\n", job->page_count);
  fputs("set terminal pdfcairo @PDF_TERMINAL\nset output 'report.pdf'\n", f);
  for (size_t i = 0; i < job->page_count; i++) put_page(f, &job->pages[i], i + 1);
  fputs("set output\nset terminal pngcairo @PNG_TERMINAL\n", f);
  for (size_t i = 0; i < job->page_count; i++) {
    fprintf(f, "set output 'page-%02zu.png'\n", i + 1);
    put_page(f, &job->pages[i], i + 1);
    fputs("set output\n", f);
  }
  return kvr_job_close(job, &f, err);
}

static kv_status export_dataset(const char *dataset, kvr_job *job, kv_error *err) {
  char kind[64];
  kv_status st = kvr_source_open(dataset, &job->src, kind, sizeof kind, err);
  if (st) return st;
  st = kvr_job_open(job, "vars.gp", &job->vars, err);
  if (st) goto done;
  kvr_put_text(job->vars, "NAME", job->name);
  if (!strcmp(kind, "kvsim-1")) st = kvr_export_kvsim(job, err);
  else if (!strcmp(kind, "roofline-1")) st = kvr_export_roofline(job, err);
  else if (!strcmp(kind, "kvstep-1")) st = kvr_export_step(job, err);
  else if (!strcmp(kind, "kvvalidate-1")) st = kvr_export_validate(job, err);
  else if (!strcmp(kind, "kvcompare-1")) st = kvr_export_compare(job, err);
  else if (!strcmp(kind, "kvwhatif-1")) st = kvr_export_whatif(job, err);
  else if (!strcmp(kind, "audit-1")) st = kvr_export_audit(job, err);
  else if (!strcmp(kind, "kvsweep-1")) st = kvr_export_sweep(job, err);
  else if (!strcmp(kind, "kvplanted-1")) st = kvr_export_selftest(job, err);
  else if (!strcmp(kind, "kvceilings-1")) st = kvr_export_calibration(job, err);
  else
    st = kv_fail(err, KV_ERR_INPUT, "%s: is a '%.40s' file, of which there is no report; a report is made of a dataset of `kvsim replay`, `whatif` or "
                 "`sweep`, or of roofline",
                 dataset, kind);
  kv_status closed = kvr_job_close(job, &job->vars, st ? NULL : err);
  if (!st) st = closed;
done:
  if (job->vars) (void)fclose(job->vars);
  job->vars = NULL;
  kvr_source_close(&job->src);
  return st;
}

/* ---- what gnuplot left ---- */

/* What a whole file begins and ends with: a disk that fills up leaves a good beginning. */
typedef struct file_kind {
  const char *head, *tail;
  size_t head_size, tail_size;
} file_kind;

static kv_status check_made(const workshop *w, const char *file, const file_kind *kind, kv_error *err) {
  char path[PATH_MAX + 300], head[8] = {0}, tail[12] = {0};
  (void)snprintf(path, sizeof path, "%s/%s", w->folder, file);
  FILE *f = fopen(path, "re");
  bool good = f && fread(head, 1, kind->head_size, f) == kind->head_size &&
              !memcmp(head, kind->head, kind->head_size) && !fseek(f, -(long)kind->tail_size, SEEK_END) &&
              fread(tail, 1, kind->tail_size, f) == kind->tail_size &&
              !memcmp(tail, kind->tail, kind->tail_size);
  if (f) (void)fclose(f);
  if (good) return KV_OK;
  return kv_fail(err, KV_ERR_IO,
                 "%s: gnuplot ended without an error but wrote no whole %s (disk full? no cairo terminals? "
                 "Debian package gnuplot-nox has them)",
                 w->dir, file);
}

static kv_status check_all(const workshop *w, const kvr_job *job, kv_error *err) {
  static const file_kind pdf = {"%PDF-", "%%EOF\n", 5, 6},
                         png = {"\x89PNG\r\n\x1a\n", "IEND\xae\x42\x60\x82", 8, 8};
  kv_status st = check_made(w, "report.pdf", &pdf, err);
  for (size_t i = 0; i < job->page_count && !st; i++) {
    char file[32];
    (void)snprintf(file, sizeof file, "page-%02zu.png", i + 1);
    st = check_made(w, file, &png, err);
  }
  return st;
}

/* The dataset's time, not the clock's: the bytes depend on the dataset alone. */
static kv_status set_creation_date(const workshop *w, time_t when, kv_error *err) {
  char path[PATH_MAX + 300];
  (void)snprintf(path, sizeof path, "%s/report.pdf", w->folder);
  return kvr_pdf_set_date(path, when, err);
}

static kv_status publish_one(const workshop *w, const char *file, const char *ending, kv_error *err) {
  char from[PATH_MAX + 300], to[PATH_MAX + 600];
  (void)snprintf(from, sizeof from, "%s/%s", w->folder, file);
  (void)snprintf(to, sizeof to, "%s/%s%s", w->dir, w->name, ending);
  if (rename(from, to) == 0) return KV_OK;
  return kv_fail(err, KV_ERR_IO, "%s: cannot be put in place: %s", to, strerror(errno));
}

/* Pictures first: the PDF that people open appears when the rest is there. */
static kv_status publish(const workshop *w, const kvr_job *job, kv_error *err) {
  kv_status st = KV_OK;
  kv_clean_forget(w->dir); /* from here on it holds something to keep */
  for (size_t i = 0; i < job->page_count && !st; i++) {
    char file[32], ending[96];
    (void)snprintf(file, sizeof file, "page-%02zu.png", i + 1);
    (void)snprintf(ending, sizeof ending, "-%02zu-%s.png", i + 1, job->pages[i].figure);
    st = publish_one(w, file, ending, err);
  }
  return st ? st : publish_one(w, "report.pdf", ".pdf", err);
}

/* SOURCE_DATE_EPOCH, else the dataset's file_time, else 1970: never the clock. */
static time_t report_time(const char *file_time) {
  const char *epoch = getenv("SOURCE_DATE_EPOCH");
  struct tm tm = {0};
  if (epoch && *epoch) return (time_t)strtoll(epoch, NULL, 10);
  return strptime(file_time, "%Y-%m-%dT%H:%M:%SZ", &tm) ? timegm(&tm) : 0;
}

static kv_status read_time(const char *dataset, time_t *when, kv_error *err) {
  char kind[64], text[64];
  kvr_source src;
  kv_status st = kvr_source_open(dataset, &src, kind, sizeof kind, err);
  if (st) return st;
  st = kvr_text_attribute(&src, "file_time", text, sizeof text, err);
  if (!st) *when = report_time(text);
  kvr_source_close(&src);
  return st;
}

static kv_status draw(const workshop *w, const kvr_options *o, time_t when, kv_error *err) {
  char epoch[32];
  (void)snprintf(epoch, sizeof epoch, "%lld", (long long)when);
  const kvr_run_options run = {.program = o->gnuplot ? o->gnuplot : "gnuplot",
                               .folder = w->folder,
                               .script = "main.gp",
                               .time_limit = o->time_limit > 0 ? o->time_limit : TIME_LIMIT,
                               .epoch = epoch};
  return kvr_run_gnuplot(&run, err);
}

static kv_status choose_name(const char *dataset, const kvr_options *o, char *name, size_t size,
                             kv_error *err) {
  if (o->name) (void)snprintf(name, size, "%s", o->name);
  else kvr_report_name(dataset, name, size);
  if (*name && !strchr(name, '/')) return KV_OK;
  return kv_fail(err, KV_ERR_USAGE, "'%s' cannot name a report: it must be a file name without a slash",
                 name);
}

kv_status kvr_report(const char *dataset, const char *dir, const char *share, const kvr_options *options,
                     kv_error *err) {
  static const kvr_options defaults;
  const kvr_options *o = options ? options : &defaults;
  char name[256];
  time_t when = 0;
  workshop w = {.dir = dir, .name = name};
  kvr_job job = {.src = {.file = -1, .path = dataset}, .folder = w.folder, .name = name};
  kv_status st = choose_name(dataset, o, name, sizeof name, err);
  if (!st) st = read_time(dataset, &when, err);
  if (!st) st = open_workshop(&w, err);
  if (!st) st = export_dataset(dataset, &job, err);
  if (!st) st = link_scripts(&w, share, err);
  if (!st) st = write_main(&job, err);
  if (!st) st = draw(&w, o, when, err);
  if (!st) st = check_all(&w, &job, err);
  if (!st) st = set_creation_date(&w, when, err);
  if (!st) st = publish(&w, &job, err);
  close_workshop(&w);
  return st;
}
