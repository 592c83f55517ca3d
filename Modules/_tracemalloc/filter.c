/* Live filters (see filter.h).  Owner of its data: this room. */
#include "Python.h"
#include "arena.h"
#include "filter.h"
#include "glob.h"

static struct tm_filter *filters;       /* tm_filter_count of them */
static bool any_include, any_domain, any_all_frames;
static uint32_t changes;                /* how often they were replaced */

unsigned tm_filter_count;
uint8_t tm_filter_generation = 1;

bool
tm_filter_replace(struct tm_filter *list, size_t count)
{
    for (unsigned i = 0; i < tm_filter_count; i++) {
        tm_glob_free(filters[i].pattern);
    }
    tm_free(filters);
    filters = list;
    changes += changes != UINT32_MAX;   /* in vain after that many: see judged() */
    tm_filter_count = (unsigned)count;
    any_include = any_domain = any_all_frames = false;
    for (size_t i = 0; i < count; i++) {
        any_include |= list[i].include;
        any_domain |= list[i].domain >= 0;
        any_all_frames |= list[i].all_frames;
    }
    /* Generation 0 is that of nodes never judged. */
    tm_filter_generation = tm_filter_generation % 63 + 1;
    return tm_filter_generation == 1;
}

unsigned
tm_filter_depth(void)
{
    return any_all_frames ? TM_LIMIT_MAX : 1;
}

bool
tm_filter_by_domain(void)
{
    return any_domain;
}

static bool
name_matches(const struct tm_filter *filter, const struct tm_file *file)
{
    size_t length = tm_glob_source_length(file->kind, file->data, file->length);
    return tm_glob_match(filter->pattern, file->kind, file->data, length);
}

/* Which of the first 64 patterns match the name of a file.  There are many more
   contexts than files: each name is matched once. */
static uint64_t
judged(const struct tm_file *file)
{
    if (file->judged != changes || changes == UINT32_MAX) {
        struct tm_file *mine = (struct tm_file *)file;
        mine->judged = changes;
        mine->matches = 0;
        for (unsigned i = 0; i < tm_filter_count && i < 64; i++) {
            if (filters[i].pattern != NULL && name_matches(&filters[i], file)) {
                mine->matches |= (uint64_t)1 << i;
            }
        }
    }
    return file->matches;
}

static bool
frame_matches(const struct tm_filter *filter,
              const struct tm_filter_frame *frame)
{
    if (frame->file == NULL
        || (filter->line != 0 && filter->line != frame->line)) {
        return false;
    }
    ptrdiff_t i = filter - filters;
    return i < 64 ? judged(frame->file) >> i & 1
                  : name_matches(filter, frame->file);
}

/* Does the filter name this trace?  Whether that keeps or drops it is up to
   the caller. */
static bool
trace_matches(const struct tm_filter *filter, unsigned int domain,
              const struct tm_filter_frame *frames, unsigned count)
{
    if (filter->domain >= 0 && (uint64_t)filter->domain != domain) {
        return false;
    }
    if (filter->pattern == NULL) {
        return true;            /* a filter on the domain alone */
    }
    unsigned n = filter->all_frames ? count : count > 0;
    for (unsigned i = 0; i < n; i++) {
        if (frame_matches(filter, &frames[i])) {
            return true;
        }
    }
    return false;
}

bool
tm_filter_keeps(unsigned int domain, const struct tm_filter_frame *frames,
                unsigned count)
{
    bool included = !any_include;
    for (unsigned i = 0; i < tm_filter_count; i++) {
        const struct tm_filter *filter = &filters[i];
        if (filter->include && included) {
            continue;
        }
        if (trace_matches(filter, domain, frames, count)) {
            if (!filter->include) {
                return false;
            }
            included = true;
        }
    }
    return included;
}
