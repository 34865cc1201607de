/* measure_all.h - several GPUs: where those that measure at once meet, and what their files are called.
 *
 * The ranks of tensor parallelism run in step. So that devices measured at once disturb one another as those
 * do, all of them wait before each series until the last has come; one that failed or is done is waited for
 * no more.
 */
#ifndef KVA_MEASURE_ALL_H
#define KVA_MEASURE_ALL_H

#include <stddef.h>

#include "kv_status.h"

typedef struct kva_meeting kva_meeting;

/* For so many ranks, a thread each. */
kv_status kva_meeting_open(int ranks, kva_meeting **meeting, kv_error *err);
/* Returns when every rank that has not left has called it as often. */
void kva_meeting_wait(kva_meeting *meeting);
/* This rank comes no more. */
void kva_meeting_leave(kva_meeting *meeting);
void kva_meeting_close(kva_meeting *meeting); /* NULL is fine */

/* The file of the i-th of `devices`: OUTPUT itself of the first, "-gpuN" before the suffix of the others. */
void kva_device_file(const char *output, const int *devices, int i, char *path, size_t size);
/* The same for a folder: "-gpuN" at its end. */
void kva_device_folder(const char *folder, const int *devices, int i, char *path, size_t size);

#endif
