/* Stands in for Python.h where a room needs no more of Python than the names of
 * types in engine.h: such a room is fuzzed without an interpreter. */
#ifndef TM_STUB_PYTHON_H
#define TM_STUB_PYTHON_H

#define _Py_thread_local _Thread_local

typedef struct stub_object PyObject;
typedef struct stub_code PyCodeObject;
typedef struct stub_thread PyThreadState;

#endif /* TM_STUB_PYTHON_H */
