/* A planted code path: preloaded into a server, it executes PGSTRATA_BURN more times around a loop of two
 * instructions whenever a backend asks for the time, which it does a fixed number of times for each message.
 *
 *     cc -O2 -shared -fPIC -o burn.so burn.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>

static long rounds;
static int (*real_gettimeofday)(struct timeval *, void *);

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("PGSTRATA_BURN");
    rounds = text ? atol(text) : 0;
    real_gettimeofday = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
}

__attribute__((noinline)) void burn(long n) {
    for (; n > 0; n--)
        __asm__ volatile("" : "+r"(n));
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    burn(rounds);
    return real_gettimeofday(time, zone);
}
