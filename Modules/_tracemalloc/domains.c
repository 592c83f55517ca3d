/* Tables of tracked domains (see domains.h).  A program has a handful of
   domains, so a sorted array with binary search serves. */
#include "Python.h"
#include "arena.h"
#include "domains.h"
#include "table.h"

#include <string.h>

struct domain { unsigned int id; struct tm_table *table; };

static struct domain *list;
static size_t count;

struct tm_table *
tm_domain_table(unsigned int domain, bool make)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (list[mid].id < domain) {
            low = mid + 1;
        }
        else {
            high = mid;
        }
    }
    if (low < count && list[low].id == domain) {
        return list[low].table;
    }
    if (!make) {
        return NULL;
    }
    struct tm_table *table = tm_calloc(1, sizeof(*table));
    struct domain *longer =
        table ? tm_realloc(list, (count + 1) * sizeof(*list)) : NULL;
    if (longer == NULL) {
        tm_free(table);
        return NULL;
    }
    list = longer;
    memmove(&list[low + 1], &list[low], (count - low) * sizeof(*list));
    list[low] = (struct domain){domain, table};
    count++;
    return table;
}

bool
tm_domains_next(uint32_t *domain)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].id > *domain) {
            *domain = list[i].id;
            return true;
        }
    }
    return false;
}

void
tm_domains_scan(tm_trace_cb cb, void *arg)
{
    for (size_t i = 0; i < count; i++) {
        tm_table_each(list[i].table, list[i].id, cb, arg);
    }
}

size_t
tm_domains_bound(void)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        n += list[i].table->count;
    }
    return n;
}

size_t
tm_domains_idle(void)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        n += tm_table_idle(list[i].table);
    }
    return n;
}

void
tm_domains_clear(void)
{
    for (size_t i = 0; i < count; i++) {
        tm_table_clear(list[i].table);
        tm_free(list[i].table);
    }
    tm_free(list);
    list = NULL;
    count = 0;
}

const char *
tm_domains_check(size_t *raw_bytes)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && list[i - 1].id >= list[i].id) {
            return "domains out of order";
        }
        const char *wrong = tm_table_check(list[i].table, raw_bytes);
        if (wrong != NULL) {
            return wrong;
        }
    }
    return NULL;
}
