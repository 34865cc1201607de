/* roofline_print.h - a run as a table for people and as JSON for machines, on stdout. */
#ifndef ROOFLINE_PRINT_H
#define ROOFLINE_PRINT_H

#include "roof_run.h"

/* First line: measured or modelled, and which GPU; `note` (may be "") is added to it. */
void roofline_print_table(const kva_run *run, const char *note);
/* A line for each point whose program leaves products out: its time is below what they need. */
void roofline_print_incomplete(const kva_run *run);
/* One object: {"schema": "roofline-1", "schema_version": 1, ...}. Missing numbers are null. */
kv_status roofline_print_json(const kva_run *run, const char *note, kv_error *err);

#endif
