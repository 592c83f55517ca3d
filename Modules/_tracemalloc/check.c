/* The engine's invariants, checked on demand by tests and at stop in debug
 * builds: bytes in the tables = live bytes = the public counter; no dangling
 * id.  Owns no data.
 */
#include "Python.h"
#include "pycore_frame.h"

#include "arenas.h"
#include "context.h"
#include "domains.h"
#include "engine.h"
#include "hook.h"
#include "site.h"
#include "stack.h"
#include "stats.h"
#include "sync.h"
#include "traces.h"

static void
context_exists(void *arg, uint32_t Py_UNUSED(domain), uintptr_t Py_UNUSED(addr),
               size_t Py_UNUSED(size), tm_ctx_t ctx)
{
    if (ctx == TM_CTX_NONE || ctx >= tm_context_end()) {
        *(const char **)arg = "trace with a dangling context";
    }
}

static const char *
check_all(void)
{
    const char *wrong = NULL;
    size_t bytes = 0, raw_bytes = 0;
    tm_traces_each(context_exists, &wrong);
    if (wrong == NULL) {
        wrong = tm_traces_check(&bytes, &raw_bytes);
    }
    if (wrong == NULL) {
        wrong = tm_domains_check(&raw_bytes);
    }
    if (wrong == NULL) {
        wrong = tm_context_check();
    }
    if (wrong == NULL) {
        wrong = tm_site_check();
    }
    if (wrong == NULL) {
        wrong = tm_stack_check(tm_context_end());
    }
    if (wrong == NULL) {
        wrong = tm_arenas_check();
    }
    if (wrong == NULL) {
        wrong = _PyTraceMalloc_CheckKnown();
    }
    if (wrong == NULL && bytes != tm_hot.bytes) {
        wrong = "bytes of slots and big table differ from the counter";
    }
    if (wrong == NULL && raw_bytes != tm_hot.raw_bytes) {
        wrong = "bytes of raw and domain tables differ from the counter";
    }
    return wrong;
}

const char *
tm_check(void)
{
    tm_sync_freeze_begin();
    const char *wrong = tm_is_tracing() ? check_all() : NULL;
    tm_sync_freeze_end();
    return wrong;
}
