/* roofline_commands.h - the sub-commands of `roofline`, each in a file analysis/roofline_NAME.c of its own.
 *
 * A sub-command gets its own argc and argv (argv[0] is "roofline NAME"), parses them with argp, prints its
 * result on stdout and returns the exit status of kv_cli_exit(). To add one: declare it here, define it in
 * analysis/roofline_NAME.c, and give it a line in the table of roofline.c.
 *
 * All but `list` are weak references, so that the program links, and lists what it can do, whichever of them
 * a build contains: one that is not there is not listed and ends with exit status 2 like any unknown name.
 */
#ifndef ROOFLINE_COMMANDS_H
#define ROOFLINE_COMMANDS_H

int roofline_list(int argc, char **argv);

#define ROOFLINE_MAYBE __attribute__((weak))
int roofline_calibrate(int argc, char **argv) ROOFLINE_MAYBE; /* ceilings of the GPU that is here */
int roofline_audit(int argc, char **argv) ROOFLINE_MAYBE;     /* which machine code a library holds */
int roofline_compare(int argc, char **argv) ROOFLINE_MAYBE;   /* two datasets, point by point */
int roofline_validate(int argc, char **argv) ROOFLINE_MAYBE;  /* model against measured points */
int roofline_report(int argc, char **argv) ROOFLINE_MAYBE;    /* draws a dataset again */
int roofline_diagnose(int argc, char **argv) ROOFLINE_MAYBE;  /* an imported profile */
int roofline_step(int argc, char **argv) ROOFLINE_MAYBE;      /* a whole decode step */
int roofline_selftest(int argc, char **argv) ROOFLINE_MAYBE;  /* are planted causes named? */
int roofline_program(int argc, char **argv) ROOFLINE_MAYBE;   /* a kernel's declaration from its machine code */

#endif
