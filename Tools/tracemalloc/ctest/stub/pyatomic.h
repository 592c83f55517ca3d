/* Stands in for pyatomic.h: the few operations that rooms use, by the compiler's
 * own builtins. */
#ifndef TM_STUB_PYATOMIC_H
#define TM_STUB_PYATOMIC_H

#include <stdint.h>
#include <sys/types.h>

typedef ssize_t Py_ssize_t;
#define PY_SSIZE_T_MAX ((Py_ssize_t)(SIZE_MAX >> 1))

static inline void *
_Py_atomic_load_ptr_acquire(const void *place)
{
    return __atomic_load_n((void *const *)place, __ATOMIC_ACQUIRE);
}

static inline void
_Py_atomic_store_ptr_release(void *place, void *value)
{
    __atomic_store_n((void **)place, value, __ATOMIC_RELEASE);
}

static inline uint32_t
_Py_atomic_load_uint32_acquire(const uint32_t *place)
{
    return __atomic_load_n(place, __ATOMIC_ACQUIRE);
}

static inline void
_Py_atomic_store_uint32_release(uint32_t *place, uint32_t value)
{
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
}

static inline uint64_t
_Py_atomic_load_uint64_relaxed(const uint64_t *place)
{
    return __atomic_load_n(place, __ATOMIC_RELAXED);
}

static inline void
_Py_atomic_store_uint64(uint64_t *place, uint64_t value)
{
    __atomic_store_n(place, value, __ATOMIC_SEQ_CST);
}

static inline uint64_t
_Py_atomic_exchange_uint64(uint64_t *place, uint64_t value)
{
    return __atomic_exchange_n(place, value, __ATOMIC_SEQ_CST);
}

static inline uint64_t
_Py_atomic_add_uint64(uint64_t *place, uint64_t value)
{
    return __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST);
}

static inline Py_ssize_t
_Py_atomic_load_ssize_relaxed(const Py_ssize_t *place)
{
    return __atomic_load_n(place, __ATOMIC_RELAXED);
}

static inline Py_ssize_t
_Py_atomic_add_ssize(Py_ssize_t *place, Py_ssize_t value)
{
    return __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST);
}

#endif /* TM_STUB_PYATOMIC_H */
