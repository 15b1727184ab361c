/* A planted slowdown: preloaded into a server, it goes round PGSTRATA_BURN times in a loop for every message
 * that a backend receives from its client, lets every fdatasync, by which WAL is synced, and every
 * pwrite to a file of pg_wal take PGSTRATA_WAL_NS nanoseconds longer, and does nothing else. Rounds are counted
 * and not timed: reading the clock would take as long as a small slowdown, so that a tenth of the rounds would
 * cost more than a tenth. The delay of WAL spins: a sleep takes 50 us and more beyond what it is asked for,
 * and what comes behind it is slower, too.
 *
 *     cc -O2 -shared -fPIC -o slow.so slow.c -ldl
 *
 * PostgreSQL reads from its client by recv(); only sockets that are connected to a client are slowed: the
 * server's other processes read their pipes by read(). A call that finds nothing (EAGAIN) costs nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static long burn, wal_ns;
static ssize_t (*real_recv)(int, void *, size_t, int);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fdatasync)(int);

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("PGSTRATA_BURN");
    burn = text ? atol(text) : 0;
    text = getenv("PGSTRATA_WAL_NS");
    wal_ns = text ? atol(text) : 0;
    real_recv = (ssize_t(*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
    real_pwrite = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
    real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
}

static long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void spin(long ns) {
    long end = now_ns() + ns;
    while (now_ns() < end) {
    }
}

static int is_wal(int fd) {
    char place[64], path[512];
    snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(place, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return strstr(path, "/pg_wal/") != NULL;
}

int fdatasync(int fd) {
    int done = real_fdatasync(fd);
    if (wal_ns > 0)
        spin(wal_ns);
    return done;
}

ssize_t pwrite64(int fd, const void *buffer, size_t length, off_t at) {
    ssize_t done = real_pwrite(fd, buffer, length, at);
    if (wal_ns > 0 && is_wal(fd))
        spin(wal_ns);
    return done;
}

ssize_t pwrite(int fd, const void *buffer, size_t length, off_t at) {
    return pwrite64(fd, buffer, length, at);
}

ssize_t recv(int fd, void *buffer, size_t length, int flags) {
    ssize_t got = real_recv(fd, buffer, length, flags);
    for (long round = got > 0 ? burn : 0; round > 0; round--)
        __asm__ volatile("");
    return got;
}
