/* time_walk.h - a kernel's declaration from its machine code and a few hints: the path that each kind of warps takes.
 *
 * Machine code has every branch of the source, rare ones too, and says neither which way a branch goes nor where a load
 * hits. Hints say so by the text of the source lines that an instruction comes from (nvdisasm -gi), so they outlive a
 * new assembly and most edits of the kernel. A hints file looks like the declaration that comes out (time_kernel.h):
 * sections [kernel] and [structure] are copied; of [warps NAME] and [merge NAME] lines with one of these keys are hints
 * and all else is copied. In a section [walk] stand hints for all that follow; a section's own come first.
 *
 *     function = TEXT          walk the first function whose name has this in it
 *     take  = TEXT             a forward branch or exit of a source line with TEXT in it is taken; without a hint none is
 *     skip  = TEXT             it is not (ahead of a broader `take`)
 *     rare  = TEXT             code of a source line with TEXT in it seldom runs: a branch ahead of it jumps over it, whatever else
 *                              is said of none (where a compiler may leave such code in the way or put it elsewhere)
 *     nth   = N TEXT           of several there the N-th that the path comes to is
 *     turns = N TEXT           a loop closed there makes N turns (1)
 *     loop  = TEXT             the loop over tiles: what comes before is `begin`, one turn `tile`, what follows `end`;
 *                              a branch of the same line ahead of it goes the way that leads into it
 *     load  = WHERE TEXT       what a load or cp.async there finds: row, again, index/64, hot, ...
 *                              several with commas between take turns: row/512,hot/512 for a row in two halves
 *                              (words of the four below may take turns too); row@32: of the first 32 loads alone,
 *                              a later hint tells of the others (where a compiler gives two calls one line)
 *     clash = N TEXT           shared memory: lanes that want one bank (1); cp.async: passes (time_program.h)
 *     await = ID/N[-C] TEXT, post = ID TEXT, land = ID TEXT        an mbarrier's wait, arrival, arrival of copies; an instruction
 *                              that only asks is taken for the wait behind it; await = ask TEXT: what it waits for is there
 *
 * The first hint that fits counts. A load or an mbarrier without a hint is an error that names its source, so that an
 * edit of the kernel cannot go by unseen.
 */
#ifndef KVM_TIME_WALK_H
#define KVM_TIME_WALK_H

#include <stdio.h>

#include "kv_status.h"

/* Writes the declaration to `out`. KV_ERR_INPUT names the hints' line, or the instruction and its source. */
kv_status kvm_walk(const char *hints, const char *listing, FILE *out, kv_error *err);

#endif
