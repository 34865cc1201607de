/* kv_clean.h - what a signal must not leave behind: outputs being written, scratch folders, a child at work.
 *
 * What is watched is removed when SIGINT, SIGTERM or SIGHUP ends the program. Single-threaded.
 */
#ifndef KV_CLEAN_H
#define KV_CLEAN_H

#include <sys/types.h>

/* For a main: on SIGINT, SIGTERM and SIGHUP the child is killed and what is watched is removed before the program dies
 * of the signal; SIGXFSZ and SIGPIPE are ignored, so that a file size limit and a reader that went away show as failed
 * writes. */
void kv_clean_on_signals(void);

/* Watches a file, or a folder that holds files alone: these go with it. It need not exist yet, or any more. */
void kv_clean_watch(const char *path);
void kv_clean_forget(const char *path); /* NULL and what is not watched are fine */

/* The child that works in a watched folder; 0: none. */
void kv_clean_child(pid_t child);

#endif
