/* Stands in for pycore_code.h: as much of strings and code objects as the site
 * room reads.  A line table is an array with the line of each instruction. */
#ifndef TM_STUB_PYCORE_CODE_H
#define TM_STUB_PYCORE_CODE_H

#include <stdint.h>

typedef uint16_t _Py_CODEUNIT;

struct stub_object {            /* a string, or none at all */
    int is_str;
    unsigned kind;              /* 1, 2 or 4 */
    int ascii;
    long length;
    const void *data;
};

#define PyUnicode_Check(op)      ((op)->is_str)
#define PyUnicode_KIND(op)       ((op)->kind)
#define PyUnicode_IS_ASCII(op)   ((op)->ascii)
#define PyUnicode_GET_LENGTH(op) ((op)->length)
#define PyUnicode_DATA(op)       ((op)->data)

struct stub_code {
    struct stub_object *co_filename;
    int size;                   /* instructions */
    int known;                  /* of them the table covers so many */
    const int *line;            /* -1: none */
};

#define Py_SIZE(code) ((code)->size)

typedef struct {
    int ar_start, ar_end;       /* in bytes */
    int ar_line;
    const struct stub_code *code;
} PyCodeAddressRange;

static inline void
_PyCode_InitAddressRange(const struct stub_code *code,
                         PyCodeAddressRange *range)
{
    *range = (PyCodeAddressRange){0, 0, -1, code};
}

static inline int
_PyLineTable_NextAddressRange(PyCodeAddressRange *range)
{
    int i = range->ar_end / (int)sizeof(_Py_CODEUNIT), n = i;
    const struct stub_code *code = range->code;
    if (i >= code->known) {
        return 0;
    }
    while (n < code->known && code->line[n] == code->line[i]) {
        n++;
    }
    range->ar_start = range->ar_end;
    range->ar_end = n * (int)sizeof(_Py_CODEUNIT);
    range->ar_line = code->line[i];
    return 1;
}

#endif /* TM_STUB_PYCORE_CODE_H */
