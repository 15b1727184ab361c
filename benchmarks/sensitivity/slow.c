/* A planted slowdown: preloaded into a server, it burns CPU for PGSTRATA_BURN_NS nanoseconds for every
 * message that a backend receives from its client, and does nothing else.
 *
 *     cc -O2 -shared -fPIC -o slow.so slow.c -ldl
 *
 * PostgreSQL reads from its client by recv(); only sockets that are connected to a client are slowed: the
 * server's other processes read their pipes by read(). A call that finds nothing (EAGAIN) costs nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

static long burn_ns;
static ssize_t (*real_recv)(int, void *, size_t, int);

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("PGSTRATA_BURN_NS");
    burn_ns = text ? atol(text) : 0;
    real_recv = (ssize_t(*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
}

static long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

ssize_t recv(int fd, void *buffer, size_t length, int flags) {
    ssize_t got = real_recv(fd, buffer, length, flags);
    if (got > 0 && burn_ns > 0) {
        long end = now_ns() + burn_ns;
        while (now_ns() < end) {
        }
    }
    return got;
}
