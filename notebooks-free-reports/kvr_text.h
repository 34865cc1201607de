/* kvr_text.h - text for gnuplot: quoting, widths of the report's font, wrapping, numbers for people.
 *
 * Text that comes from a dataset is never trusted: control characters and broken UTF-8 become '?', and quotes
 * cannot end a gnuplot string.
 */
#ifndef KVR_TEXT_H
#define KVR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Page size in points: 16:10, as wide as A4 landscape. style.gp has the same. */
#define KVR_PAGE_WIDTH 842.0
#define KVR_PAGE_HEIGHT 526.0

/* Copies text into clean (size bytes, cut at a character), with control characters and bytes that are no
 * UTF-8 as
 * '?'; newlines are kept where keep_lines is set. */
void kvr_clean(const char *text, char *clean, size_t size, bool keep_lines);

/* Writes `name = 'text'` for gnuplot; a newline becomes a line break of the label. */
void kvr_put_text(FILE *f, const char *name, const char *text);
/* Writes text as a gnuplot string expression; nothing in it is expanded. */
void kvr_put_quoted(FILE *f, const char *text);
/* Writes `name = value`; NaN for what is not finite. */
void kvr_put_number(FILE *f, const char *name, double value);
/* Writes a number of a table (NaN for what is not finite), or a cell of text without tabs and double quotes.
 */
void kvr_put_cell(FILE *f, double value);
void kvr_put_word(FILE *f, const char *text);

/* Estimated width in points of one line of `text` in DejaVu Sans; within some 5 % for English, wide rather
 * than narrow for the rest. */
double kvr_width(const char *text, double size, bool bold);

/* Breaks text at blanks, but not before a % (words that are longer: anywhere) so that no line is wider than `width` points; at
 * most `lines` lines, the last cut with an ellipsis. Returns the number of lines in out. */
size_t kvr_wrap(const char *text, double size, bool bold, double width, size_t lines, char *out,
                size_t out_size);

/* Numbers for people, in buffers of the caller: 1234 -> "1,234", 12345678 -> "12.3 M", bytes -> "1,152 B",
 * "1.13 GiB", rates and the like -> "4.45 T". NaN -> "unknown". */
typedef struct kvr_word {
  char text[40];
} kvr_word;
kvr_word kvr_count(double value);
kvr_word kvr_tokens(double value); /* powers of two from 1024 as "1k", "128k", "1M"; others as kvr_count */
kvr_word kvr_bytes(double value);
kvr_word kvr_amount(double value); /* 3.26, 152, "16,600": three digits, in full */
kvr_word kvr_si(double value, const char *unit);
kvr_word kvr_time(double seconds); /* "44.5 us", "16.0 ms" */

#endif
