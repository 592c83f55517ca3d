/* What the perf trampoline needs from Python/perfmap.c.  POSIX only. */

#ifndef Py_INTERNAL_PERFMAP_H
#define Py_INTERNAL_PERFMAP_H
#ifdef __cplusplus
extern "C" {
#endif

#ifndef Py_BUILD_CORE
#  error "this header requires Py_BUILD_CORE define"
#endif

/* Write the map entry of the trampoline of `co`, `size` bytes at `addr`.
   Leaves a pending exception alone; an entry that cannot be written is
   left out. */
extern void _PyPerf_WriteCode(const void *addr, unsigned int size,
                              PyCodeObject *co);

#ifdef __cplusplus
}
#endif
#endif   /* !Py_INTERNAL_PERFMAP_H */
