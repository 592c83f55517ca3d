/* Allocator wrappers: which one is linked, and the generic ones.
 *
 * Over plain pymalloc the MEM and OBJ hooks are fused with it
 * (Objects/obmalloc_trace.h); over any other allocator a generic wrapper does
 * the same with the table.  Guard: the GIL.
 */
#ifndef TM_HOOK_H
#define TM_HOOK_H

#include "types.h"

/* Shut (or open) a gate.  A GIL and the raw lock are held. */
void tm_hook_gate(unsigned bit, bool shut);

/* Provided beside pymalloc: the first gate has shut, or the last one opened. */
void _PyTraceMalloc_GateMoves(void);

/* Provided beside pymalloc: what is wrong with what it remembers of pools and
   objects, or NULL.  The GIL is held. */
const char *_PyTraceMalloc_CheckKnown(void);

/* Link the hooks of all three domains; idempotent.  Hooks that could not be
   unlinked earlier (somebody wrapped them) are found again, not doubled. */
void tm_hook_link(void);
/* Unlink those that are still outermost.  The others stay, as pass-through. */
void tm_hook_unlink(void);

/* A fused hook runs while tracing is off: maybe it is being looked for. */
void tm_hook_seen(void);

/* Provided beside pymalloc.  Is this plain pymalloc?  Then its fused form is
   written over it. */
bool _PyTraceMalloc_FuseWithPymalloc(PyMemAllocatorEx *allocator);

/* Provided beside pymalloc.  Are these fused hooks that record in the other way,
   exactly or by samples, than tracing does now? */
bool _PyTraceMalloc_FusedOtherwise(const PyMemAllocatorEx *ours);

/* Provided beside pymalloc: the RAW hook is linked, now or since earlier, and what is
   below it.  A GIL is held. */
void _PyTraceMalloc_RawLinked(const PyMemAllocatorEx *ours,
                              const PyMemAllocatorEx *below);

/* For measurements, while tracing is off: hooks of the MEM and OBJ domains that
   do nothing but call what is below.  Idempotent. */
void tm_hook_null(bool on);

#endif /* TM_HOOK_H */
