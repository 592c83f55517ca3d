/* Thresholds and timers of scheduled tasks (see schedule.h).
   Owner of its data: this room. */
#include "Python.h"
#include "arena.h"
#include "schedule.h"
#include "sync.h"

#include <string.h>

struct task {
    void *handle, *owner;
    uint64_t delay;             /* seconds; 0: no timer */
    size_t threshold;           /* bytes; 0: none */
    size_t base;                /* traced size from which it counts */
    PyTime_t deadline;          /* nanoseconds, monotonic */
    bool due, running;
    bool called;                /* running, and its call has returned */
    bool gone;                  /* cancelled; the owner has yet to take it back */
};

static struct task *tasks;
static size_t ntasks, capacity;

void (*tm_schedule_request)(void);

#define NO_TICK (INT64_MAX / 2)
#define SECOND ((PyTime_t)1000000000)

static int64_t tick_length = NO_TICK;       /* what tm_hot.ticks started from */
static uint64_t ticked;                     /* allocations of earlier ticks */
static PyTime_t last_tick;

static PyTime_t
now(void)
{
    PyTime_t t;
    return PyTime_MonotonicRaw(&t) < 0 ? 0 : t;
}

static void
start_tick(int64_t length)
{
    ticked += (uint64_t)(tick_length - tm_hot.ticks);
    tick_length = length;
    tm_hot.ticks = length;
}

uint64_t
tm_schedule_allocations(void)
{
    return ticked + (uint64_t)(tick_length - tm_hot.ticks);
}

void
tm_schedule_start(void)
{
    tick_length = tm_hot.ticks = NO_TICK;
    ticked = 0;
}

/* The nearest marks and times of the tasks that wait. */
static void
arm(void)
{
    size_t high = SIZE_MAX, low = 0;
    bool timers = false;
    for (size_t i = 0; i < ntasks; i++) {
        const struct task *t = &tasks[i];
        if (t->due || t->running || t->gone) {
            continue;
        }
        timers |= t->delay != 0;
        if (t->threshold == 0) {
            continue;
        }
        if (t->base <= SIZE_MAX - t->threshold) {
            high = Py_MIN(high, t->base + t->threshold);
        }
        if (t->base > t->threshold) {
            low = Py_MAX(low, t->base - t->threshold);
        }
    }
    tm_hot.task_high = high;
    tm_hot.task_low = low;
    tm_marks_update();
    TM_SET(tm_hot.timers, timers);
    if (!timers) {
        start_tick(NO_TICK);
    }
    else if (tick_length == NO_TICK) {
        last_tick = now();
        start_tick(1);
    }
}

static struct task *
find(void *handle)
{
    for (size_t i = 0; i < ntasks; i++) {
        if (tasks[i].handle == handle) {
            return &tasks[i];
        }
    }
    return NULL;
}

static void
restart(struct task *t)
{
    t->due = t->running = t->called = t->gone = false;
    t->base = tm_live();
    if (t->delay != 0) {
        PyTime_t t0 = now();
        t->deadline = t->delay > (uint64_t)((INT64_MAX - t0) / SECOND)
                      ? INT64_MAX : t0 + (PyTime_t)t->delay * SECOND;
    }
    arm();
}

int
tm_schedule_add(void *handle, void *owner, uint64_t delay, size_t threshold)
{
    struct task *t = find(handle);
    int is_new = t == NULL;
    if (is_new) {
        if (ntasks == capacity) {
            size_t more = capacity ? capacity * 2 : 8;
            struct task *longer = tm_realloc(tasks, more * sizeof(*tasks));
            if (longer == NULL) {
                return -1;
            }
            tasks = longer;
            capacity = more;
        }
        t = &tasks[ntasks++];
        memset(t, 0, sizeof(*t));
        t->handle = handle;
        t->owner = owner;
    }
    t->delay = delay;
    t->threshold = threshold;
    restart(t);
    return is_new;
}

bool
tm_schedule_remove(void *handle)
{
    struct task *t = find(handle);
    if (t == NULL) {
        return false;
    }
    size_t after = ntasks - (size_t)(t - tasks) - 1;
    memmove(t, t + 1, after * sizeof(*t));      /* keeps the order */
    if (--ntasks == 0) {
        tm_free(tasks);
        tasks = NULL;
        capacity = 0;
    }
    arm();
    return true;
}

void *
tm_schedule_get(void *owner, size_t i)
{
    for (size_t k = 0; k < ntasks; k++) {
        if (tasks[k].owner == owner && !tasks[k].gone && i-- == 0) {
            return tasks[k].handle;
        }
    }
    return NULL;
}

void *
tm_schedule_take_due(void *owner)
{
    for (size_t i = 0; i < ntasks; i++) {
        if (tasks[i].due && !tasks[i].gone && tasks[i].owner == owner) {
            tasks[i].due = false;
            tasks[i].running = true;
            return tasks[i].handle;
        }
    }
    return NULL;
}

void
tm_schedule_called(void *handle)
{
    struct task *t = find(handle);
    if (t != NULL && t->running) {
        t->called = true;
    }
}

void
tm_schedule_rearm(void *owner)
{
    for (size_t i = 0; i < ntasks; i++) {
        if (tasks[i].called && tasks[i].owner == owner) {
            restart(&tasks[i]);
        }
    }
}

void
tm_schedule_cancel_all(void)
{
    for (size_t i = 0; i < ntasks; i++) {
        tasks[i].gone = true;
    }
    arm();
    if (ntasks != 0 && tm_schedule_request != NULL) {
        tm_schedule_request();
    }
}

void *
tm_schedule_gone(void *owner)
{
    for (size_t i = 0; i < ntasks; i++) {
        if (tasks[i].gone && tasks[i].owner == owner) {
            return tasks[i].handle;
        }
    }
    return NULL;
}

/* Mark what is due and ask for a safe point when something is. */
static void
look(size_t size, PyTime_t time)
{
    bool any = false;
    for (size_t i = 0; i < ntasks; i++) {
        struct task *t = &tasks[i];
        if (t->due || t->running || t->gone) {
            continue;
        }
        size_t moved = size > t->base ? size - t->base : t->base - size;
        t->due = (t->threshold != 0 && moved > t->threshold)
                 || (t->delay != 0 && time >= t->deadline);
        any |= t->due;
    }
    arm();
    if (any && tm_schedule_request != NULL) {
        tm_schedule_request();
    }
}

void
tm_schedule_look(size_t live)
{
    if (live > tm_hot.task_high || live < tm_hot.task_low) {
        look(live, INT64_MIN);
    }
}

#ifdef Py_GIL_DISABLED
void
tm_schedule_count_batch(struct tm_local *local)
{
    bool lock = tm_lock_marks();
    tm_hot.ticks -= local->allocations;
    local->allocations = 0;
    if (tm_hot.ticks < 0) {
        tm_schedule_tick();
    }
    tm_unlock_marks(lock);
}
#endif

/* A tick should take about a tenth of a second, whatever the program does. */
void
tm_schedule_tick(void)
{
    if (tick_length == NO_TICK) {
        start_tick(NO_TICK);
        return;
    }
    PyTime_t time = now(), took = time - last_tick;
    int64_t length = tick_length;
    last_tick = time;
    if (took < SECOND / 20) {
        length = Py_MIN(length * 2, 1 << 16);
    }
    else if (took > SECOND / 5) {
        length = Py_MAX((int64_t)((double)length * (SECOND / 10) / (double)took), 1);
    }
    start_tick(length);
    look(tm_live(), time);
}
