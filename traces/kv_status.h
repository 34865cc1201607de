/* kv_status.h - the status codes and the error record that every room of the library shares.
 *
 * Everything public in libkvroof that can fail returns a kv_status and, where the caller passes one, fills a
 * kv_error with one line of text: file, place, what is wrong, remedy. The library never prints and never
 * exits; the mains turn a status into an exit status with kv_exit_status().
 *
 * This header is the floor that all rooms stand on; it includes nothing of the project.
 */
#ifndef KV_STATUS_H
#define KV_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Values are pinned: they appear in JSON output and in datasets. */
typedef enum kv_status {
  KV_OK = 0,
  KV_END = 1,           /* no more items; not an error */
  KV_ERR_USAGE = 10,    /* an argument that cannot be meant: unknown option, GPU or request      -> exit 2 */
  KV_ERR_INPUT = 20,    /* a file that is damaged, of another kind or inconsistent               -> exit 3 */
  KV_ERR_DEVICE = 30,   /* no such device, driver too old, device lost                           -> exit 4 */
  KV_ERR_IO = 40,       /* missing file, full disk, unwritable output, missing gnuplot           -> exit 5 */
  KV_ERR_MEMORY = 41,   /* out of memory                                                         -> exit 5 */
  KV_ERR_INTERNAL = 50, /* a broken invariant of ours: please report                             -> exit 5 */
  KV_ERR_BAR = 60       /* a bar given on the command line was missed                            -> exit 1 */
} kv_status;

#define KV_ERROR_TEXT 640

/* Owned by the caller, no heap inside. text is always terminated, one line, no trailing newline. */
typedef struct kv_error {
  kv_status status;
  char text[KV_ERROR_TEXT];
} kv_error;

/* Fills *err (may be NULL) with a printf-formatted line and returns status, so that a function can end with
 * `return kv_fail(err, KV_ERR_INPUT, "%s: ...", path);`. An earlier text is overwritten. */
kv_status kv_fail(kv_error *err, kv_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* Exit status of the programs for a status: 0 done, 1 bar missed, 2 usage, 3 bad input, 4 device, 5 I/O. */
int kv_exit_status(kv_status status);

/* A short English name, for JSON ("bad input"). Never NULL; static storage. */
const char *kv_status_name(kv_status status);

#ifdef __cplusplus
}
#endif
#endif
