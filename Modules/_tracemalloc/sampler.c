/* Distances between samples (see sampler.h).  Owner of its data: this room. */
#include "Python.h"
#include "pyatomic.h"
#include "sampler.h"

#include <math.h>

static uint64_t interval = 1;
static int64_t until_raw;
static uint64_t state = UINT64_C(0x243f6a8885a308d3);   /* atomic */

void
tm_sampler_plan(uint64_t bytes)
{
    interval = bytes;
}

uint64_t
tm_sampler_interval(void)
{
    return interval;
}

void
tm_sampler_seed(uint64_t seed)
{
    _Py_atomic_store_uint64(&state, seed);
    tm_hot.until = tm_sampler_draw();
    until_raw = tm_sampler_draw();
}

void
tm_sampler_start(void)
{
    tm_hot.sampling = interval > 1;
    tm_hot.until = until_raw = INT64_MAX;
    if (tm_hot.sampling) {
        tm_sampler_seed(_Py_atomic_load_uint64_relaxed(&state)
                        ^ (uint64_t)(uintptr_t)&state);
    }
}

/* Uniform 64 bits: a counter through the finalizer of SplitMix64 (G. Steele,
   D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t
random_bits(void)
{
    uint64_t x = _Py_atomic_add_uint64(&state, UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

int64_t
tm_sampler_draw(void)
{
    /* In (0, 1], so that the logarithm is finite; 53 bits are what a double
       holds. */
    double u = (double)((random_bits() >> 11) + 1) * 0x1p-53;
    double distance = -log(u) * (double)interval;
    return distance < 0x1p62 ? (int64_t)distance : (int64_t)1 << 62;
}

bool
tm_sampler_skips_raw(size_t size)
{
    if (size <= (size_t)INT64_MAX
        && (until_raw -= (int64_t)size) >= 0)
    {
        return true;
    }
    until_raw = tm_sampler_draw();
    return false;
}

double
tm_sampler_chance(uint64_t size, uint64_t every)
{
    return every <= 1 ? 1.0 : -expm1(-(double)size / (double)every);
}
