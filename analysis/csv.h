/* csv.h - comma-separated tables as profilers write them: quoted cells, a preamble before the header, units.
 */
#ifndef KVA_CSV_H
#define KVA_CSV_H

#include <stddef.h>

#include "kv_status.h"

typedef struct kva_csv {
  char *text;  /* owned; cells point into it */
  char **cell; /* [rows][columns], "" where a row was shorter */
  size_t rows, columns;
} kva_csv; /* row 0 is the header */

/* Reads a file from the first row that has one of the cells named in `header` (NULL-terminated) on; what
 * stands before (a profiler's messages, a byte order mark) is passed over. KV_ERR_INPUT when there is no such
 * row, an unclosed quote, a row with more cells than the header, or more than 4096 columns, 1 M rows, 256
 * MiB. The caller frees. */
kv_status kva_csv_read(const char *path, const char *const *header, kva_csv *csv, kv_error *err);
void kva_csv_free(kva_csv *csv); /* safe on a zeroed one */

/* Column whose header is the first of `names` (NULL-terminated) that occurs, case apart; -1 for none. */
int kva_csv_column(const kva_csv *csv, const char *const *names);
const char *kva_csv_cell(const kva_csv *csv, size_t row, int column); /* "" for column -1 */
/* "1,234.5", "12 %" -> number; NaN where the cell is no number. A comma parts groups of three digits, or the
 * cell is none. */
double kva_csv_number(const char *text);
/* KV_ERR_INPUT, with row (the header is row 1) and column, where a cell is a number with a decimal comma
 * ("152,1", "20.454,00"): then "1,234" of the same file cannot be read either. */
kv_status kva_csv_decimal_points(const kva_csv *csv, const char *path, kv_error *err);

#endif
