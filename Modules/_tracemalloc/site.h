/* Sites: interned (file, line) pairs, and for each code object that allocates
 * an array with the site of every instruction.
 *
 *   code object ──map──► tm_code_sites
 *                        ┌──────┬──────┬───────┬───┬───┬───┬───┬─
 *                        │ code │ file │ count │ e │ e │ e │ e │ ...
 *                        └──────┴──────┴───────┴───┴───┴───┴───┴─
 *   e: site id, or TM_LINE_PENDING | line while nothing was allocated there
 *
 * The line table of a code object is decoded once, in one pass.  File names
 * are copied by content: a subinterpreter's strings die before its traces do.
 *
 * Guard: the names lock.
 */
#ifndef TM_SITE_H
#define TM_SITE_H

#include "types.h"

#define TM_LINE_PENDING 0x80000000u

struct tm_code_sites {
    const void *code;           /* key; not a reference */
    const void *filename;       /* co_filename when the array was made */
    tm_file_t file;
    uint32_t count;             /* instructions (code units) */
    uint32_t entry[];
};

/* The site of instruction `index` of `code`, made when missing.  TM_SITE_ROOT: no
   memory. */
tm_site_t tm_site_make(PyCodeObject *code, int index);

/* Drop the array of a code object that dies or is renamed.  True if it had
   one: then caches keyed by its instructions must be dropped as well. */
bool tm_site_forget_code(PyCodeObject *code);

/* Forget everything (stop, clear).  Names lock held, no reader elsewhere. */
void tm_site_reset(void);

/* Number of ids in use is `end`: ids are 0 .. end-1. */
tm_site_t tm_site_end(void);
void tm_site_get(tm_site_t site, tm_file_t *file, uint32_t *lineno);
tm_file_t tm_file_end(void);
const struct tm_file *tm_file_get(tm_file_t file);

/* Invariants (debug builds); NULL or what is broken. */
const char *tm_site_check(void);

#endif /* TM_SITE_H */
