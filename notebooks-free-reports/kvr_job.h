/* kvr_job.h - what the two kinds of report share: the job being done, the first page, tables for gnuplot.
 *
 * An exporter turns a dataset into tables (NAME.tsv), variables (vars.gp) and the first page
 * (cover-labels.gp) in the job's folder, and names the pages; the figure scripts see nothing else.
 */
#ifndef KVR_JOB_H
#define KVR_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "kv_status.h"
#include "kvr_table.h"

typedef struct kvr_page {
  const char *script; /* in the folder of scripts */
  const char *figure; /* the word in NAME-NN-figure.png */
} kvr_page;

typedef struct kvr_job {
  kvr_source src;
  const char *folder; /* private and temporary */
  const char *name;   /* of the dataset, for people */
  FILE *vars;         /* vars.gp */
  const kvr_page *pages;
  size_t page_count;
} kvr_job;

/* The first page, collected row by row. */
#define KVR_COVER_ROWS 24
typedef struct kvr_cover {
  const char *kind; /* "Pool replay" */
  char title[512];  /* what was looked at */
  char verdict[2048]; /* "": no box */
  char problem[1024];
  size_t rows;
  struct {
    char key[40], value[2000];
  } row[KVR_COVER_ROWS];
} kvr_cover;

/* Adds a row; one too many is dropped (the callers' number is fixed). An empty value becomes "not recorded".
 */
void kvr_cover_row(kvr_cover *cover, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What stands behind a modelled time: "extend_serial" and "extend_serial_32x64, nvcc's machine code for sm_90". */
typedef struct kvr_program {
  const char *kernel, *program;
} kvr_program;
/* The row "Modelled": kernels with their programs, those of one origin together; nothing without programs. */
void kvr_cover_programs(kvr_cover *cover, const kvr_program *list, size_t n);
/* Rows of a priced dataset (kvwhatif-1, kvsweep-1): what scatter costs on each GPU, by /gpus/memory_model, and what computing
 * a token again does. */
kv_status kvr_cover_prices(const kvr_job *job, kvr_cover *cover, kv_error *err);
/* Lays the page out into cover-labels.gp: sizes shrink until it fits. */
kv_status kvr_cover_write(const kvr_job *job, const kvr_cover *cover, kv_error *err);

/* One line of text on a page: position in points from the page's top left, y at the middle of the line. */
typedef struct kvr_label {
  double x, y, size;
  bool bold;
  const char *colour;
} kvr_label;
void kvr_put_label(FILE *f, const kvr_label *label, const char *line);

/* Opens FOLDER/file for writing; closing it is where a full disk shows. */
kv_status kvr_job_open(const kvr_job *job, const char *file, FILE **f, kv_error *err);
kv_status kvr_job_close(const kvr_job *job, FILE **f, kv_error *err);

/* The line under a page's title: wrapped to two lines, as a variable. */
void kvr_put_finding(const kvr_job *job, const char *variable, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* FOOT, the footer's text (dataset, creator, host, GPU, date), and MARK ("measured", "modelled", ...). */
kv_status kvr_put_footer(const kvr_job *job, const char *gpu, const char *mark, kv_error *err);

/* The exporters; job->pages and job->page_count are theirs to set. */
kv_status kvr_export_kvsim(kvr_job *job, kv_error *err);
kv_status kvr_export_roofline(kvr_job *job, kv_error *err);
kv_status kvr_export_step(kvr_job *job, kv_error *err);     /* kvstep-1 */
kv_status kvr_export_validate(kvr_job *job, kv_error *err); /* kvvalidate-1 */
kv_status kvr_export_compare(kvr_job *job, kv_error *err);  /* kvcompare-1 */
kv_status kvr_export_whatif(kvr_job *job, kv_error *err);   /* kvwhatif-1 */
kv_status kvr_export_audit(kvr_job *job, kv_error *err);    /* audit-1 */
kv_status kvr_export_sweep(kvr_job *job, kv_error *err);       /* kvsweep-1 */
kv_status kvr_export_selftest(kvr_job *job, kv_error *err);    /* kvplanted-1 */
kv_status kvr_export_calibration(kvr_job *job, kv_error *err); /* kvceilings-1 */

#endif
