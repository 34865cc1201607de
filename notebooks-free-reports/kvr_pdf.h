/* kvr_pdf.h - the date inside a PDF that cairo wrote.
 */
#ifndef KVR_PDF_H
#define KVR_PDF_H

#include <time.h>

#include "kv_status.h"

/* Replaces the creation date, for which cairo takes the clock, by `when`: the bytes depend on the pages alone then.
 * cairo 1.16 writes the date as plain text; 1.18 packs it with other objects in a stream, which is packed again, and
 * the table of offsets with it. A PDF of another form is left as it is. KV_ERR_IO, KV_ERR_MEMORY. */
kv_status kvr_pdf_set_date(const char *path, time_t when, kv_error *err);

#endif
