/* Tables of the domains other than 0, as named by PyTraceMalloc_Track().
 * Guard of everything here: the raw lock. */
#ifndef TM_DOMAINS_H
#define TM_DOMAINS_H

#include "types.h"

struct tm_table;

/* The table of a domain (not 0).  With `make`, made when missing (NULL: no
   memory); without, NULL when nothing was ever tracked in it. */
struct tm_table *tm_domain_table(unsigned int domain, bool make);
/* The smallest domain above *domain, written there; false: there is none. */
bool tm_domains_next(uint32_t *domain);
void tm_domains_scan(tm_trace_cb cb, void *arg);
size_t tm_domains_bound(void);
size_t tm_domains_idle(void);       /* bytes of empty entries */
void tm_domains_clear(void);
const char *tm_domains_check(size_t *raw_bytes);

#endif /* TM_DOMAINS_H */
