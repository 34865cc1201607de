/* report.h - from a dataset to a report: one PDF of several pages and a PNG of each page.
 *
 * A report reads a kvsim-1 or roofline-1 file and nothing else, so that a figure can be redrawn later,
 * elsewhere, from the file alone. gnuplot draws it (pdfcairo and pngcairo, never the user's configuration)
 * from the scripts beside this file. Single-threaded, like the HDF5 underneath.
 */
#ifndef KVR_REPORT_H
#define KVR_REPORT_H

#include <stddef.h>

#include "kv_status.h"

/* Everything may be zero. */
typedef struct kvr_options {
  const char *name;    /* outputs are NAME.pdf, NAME-NN-figure.png; NULL: the dataset's name without .h5 */
  const char *gnuplot; /* program; NULL: gnuplot, looked up on PATH */
  double time_limit;   /* s that gnuplot may take; 0: 120 */
} kvr_options;

/* Draws the report of `dataset` into the folder `dir` (made where it does not exist). `share` is the folder
 * that holds style.gp and the figure scripts.
 *
 * Everything is made in a private folder inside `dir` and renamed when all of it is there: on an error `dir`
 * holds what it held before. Times and names on the pages are the dataset's own; the PDF's creation date is
 * SOURCE_DATE_EPOCH if set, else the dataset's file_time: the same file gives the same bytes.
 *
 * KV_ERR_INPUT: no HDF5 file, not one of the two kinds, a dataset missing (named) or of another length.
 * KV_ERR_IO: the file cannot be read, `dir` not written, gnuplot is missing (package gnuplot-nox), fails or
 * exceeds the limit. KV_ERR_USAGE: a name that holds a slash or is empty. No events, one point or no times at
 * all give a valid report that says so. */
kv_status kvr_report(const char *dataset, const char *dir, const char *share, const kvr_options *options,
                     kv_error *err);

/* The name that kvr_report gives its files when options->name is NULL: base name without .h5 or .hdf5. */
void kvr_report_name(const char *dataset, char *name, size_t size);

#endif
