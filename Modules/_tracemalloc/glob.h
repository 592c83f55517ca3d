/* File name patterns: `*`, `?`, `[...]`, `[!...]`, case-sensitive, with the
 * meaning that Python's fnmatch.fnmatchcase() gives them, oddities included.
 *
 * A pattern is compiled once and matched many times.  It is cut at its stars
 * into parts of fixed length:
 *
 *      lib*site-[0-9]?*.py     ->   lib │ site-[0-9]? │ .py
 *                                  head │   middle    │ tail
 *
 * The head and the tail stand at the ends of the name; each middle part takes
 * the leftmost place after its predecessor, which is never wrong because parts
 * have a fixed length.  So nothing is ever tried twice.
 *
 * Cost, with n and m the code points of name and pattern: compiling O(m log m),
 * matching O(n + m).  One kind of part costs more: a middle part that has a
 * `?` or a set between literals and more than 64 characters needs another pass
 * of one machine word a code point for every 64 characters.  Memory: O(m).
 *
 * Python-free.  Memory comes from the arena.  No lock: a compiled pattern
 * caches what it learns of the names, so one thread uses it at a time.
 */
#ifndef TM_GLOB_H
#define TM_GLOB_H

#include "types.h"

struct tm_glob;

/* Compile `length` code points of `kind` bytes each (1, 2 or 4).  The pattern
   is not referenced afterwards.  The caller owns the result and gives it back
   with tm_glob_free().  NULL: no memory. */
struct tm_glob *tm_glob_compile(unsigned kind, const void *pattern,
                                size_t length);
void tm_glob_free(struct tm_glob *glob);        /* NULL is fine */

/* Whether the whole name matches.  Allocates nothing. */
bool tm_glob_match(struct tm_glob *glob, unsigned kind, const void *name,
                   size_t length);

/* Length of the name with which a file is compared: one less for a name that
   ends in .pyc or .pyo, so that byte code counts as its source.  Callers apply
   it to names and to patterns alike. */
size_t tm_glob_source_length(unsigned kind, const void *name, size_t length);

#endif /* TM_GLOB_H */
