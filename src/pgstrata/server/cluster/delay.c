/* Storage that answers later: preloaded into a server, it makes every wait for the disk longer.
 *
 * A read of a file in the delayed folders waits as it would for a device with nothing but the server's own
 * buffers before it: the page cache does not shorten it. As with a device,
 *   - reads that go on where the last of the file ended are read ahead, AHEAD bytes at a time;
 *   - what posix_fadvise has asked for is on its way from then on, so waits overlap.
 * A write is taken by the page cache at once; fsync, fdatasync and what waits like them are delayed, and
 * writes to files that were opened to wait (O_DSYNC, O_SYNC, O_DIRECT).
 *
 * PGSTRATA_IO_DELAY: nanoseconds; PGSTRATA_IO_DELAY_DATA and _WAL: the folders, as the kernel names them.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define AHEAD (128 * 1024) /* read_ahead_kb of Linux, unless somebody has set it */
#define PAGE 8192
#define ASKED 4096
#define FILES 512
#define SECOND 1000000000LL

static int64_t delay;
static const char *folders[2];

/* Of this process alone: a server's processes have one thread each. */
static struct { dev_t device; ino_t file; off_t page; int64_t there; } asked[ASKED];
static struct { dev_t device; ino_t file; off_t next, ahead; } files[FILES];

/* Copies: where the environment lies a server writes the titles of its processes. */
static const char *folder(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? strdup(value) : NULL;
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("PGSTRATA_IO_DELAY");
    delay = text ? strtoll(text, NULL, 10) : 0;
    folders[0] = folder("PGSTRATA_IO_DELAY_DATA");
    folders[1] = folder("PGSTRATA_IO_DELAY_WAL");
    /* Else the kernel lets every sleep take 50 us more. Children inherit it. */
    if (delay > 0)
        prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

static int64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * SECOND + at.tv_nsec;
}

static void wait_until(int64_t moment)
{
    struct timespec at = {moment / SECOND, moment % SECOND};
    int before = errno;
    /* A signal does not make a disk quicker. */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
    errno = before;
}

static int lies_in(const char *path, const char *folder)
{
    size_t length = folder ? strlen(folder) : 0;
    return length && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* Whether a descriptor is of a file in the delayed folders; what it is goes to `about`. */
static int delayed(int fd, struct stat *about)
{
    char link[32], path[PATH_MAX];
    int before = errno, found = 0;
    if (delay > 0 && fstat(fd, about) == 0 && S_ISREG(about->st_mode)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        if (length > 0) {
            path[length] = 0;
            found = lies_in(path, folders[0]) || lies_in(path, folders[1]);
        }
    }
    errno = before;
    return found;
}

static unsigned place_of(const struct stat *about, off_t page, unsigned places)
{
    uint64_t mixed = ((uint64_t) about->st_ino * 0x9E3779B97F4A7C15u) ^ ((uint64_t) page * 0xC2B2AE3D27D4EB4Fu);
    return (unsigned) ((mixed >> 32) % places);
}

/* Waits as a device would for these bytes. */
static void read_wait(int fd, off_t from, size_t length)
{
    struct stat about;
    if (length == 0 || !delayed(fd, &about))
        return;
    if (from < 0) {
        int before = errno;
        from = lseek(fd, 0, SEEK_CUR);
        errno = before;
        if (from < 0)
            from = 0;
    }
    if (from >= about.st_size)
        return; /* behind the end there is nothing to fetch */
    off_t end = from + (off_t) length;
    int64_t start = now(), until = start;
    unsigned file = place_of(&about, 0, FILES);
    int known = files[file].device == about.st_dev && files[file].file == about.st_ino;
    if (known && from == files[file].next) {
        if (end > files[file].ahead) {
            until = start + delay;
            files[file].ahead = end + AHEAD;
        }
    } else {
        for (off_t page = from / PAGE; page <= (end - 1) / PAGE; page++) {
            unsigned at = place_of(&about, page, ASKED);
            if (asked[at].there && asked[at].page == page && asked[at].file == about.st_ino
                && asked[at].device == about.st_dev) {
                if (asked[at].there > until)
                    until = asked[at].there;
                asked[at].there = 0;
            } else
                until = start + delay;
        }
        files[file].device = about.st_dev;
        files[file].file = about.st_ino;
        files[file].ahead = end;
    }
    files[file].next = end;
    if (until > start)
        wait_until(until);
}

static void sync_wait(int fd)
{
    struct stat about;
    if (delayed(fd, &about))
        wait_until(now() + delay);
}

static void write_wait(int fd)
{
    struct stat about;
    if (delay <= 0)
        return;
    int before = errno, flags = fcntl(fd, F_GETFL);
    errno = before;
    if (flags >= 0 && (flags & (O_DSYNC | O_SYNC | O_DIRECT)) && delayed(fd, &about))
        wait_until(now() + delay);
}

static void ask(int fd, off_t from, off_t length)
{
    struct stat about;
    if (!delayed(fd, &about))
        return;
    if (length == 0)
        length = about.st_size - from;
    int64_t there = now() + delay;
    off_t last = (from + length - 1) / PAGE;
    for (off_t page = from / PAGE; page <= last && page < from / PAGE + ASKED; page++) {
        unsigned at = place_of(&about, page, ASKED);
        if (asked[at].there > there - delay && asked[at].page == page && asked[at].file == about.st_ino
            && asked[at].device == about.st_dev)
            continue; /* on its way already */
        asked[at].device = about.st_dev;
        asked[at].file = about.st_ino;
        asked[at].page = page;
        asked[at].there = there;
    }
}

static size_t bytes_of(const struct iovec *parts, int count)
{
    size_t all = 0;
    for (int i = 0; i < count; i++)
        all += parts[i].iov_len;
    return all;
}

#define REAL(type, name, ...)                                                                                \
    static type (*real)(__VA_ARGS__);                                                                        \
    if (!real)                                                                                               \
        *(void **) &real = dlsym(RTLD_NEXT, name)

#define READ(name, offset)                                                                                   \
    ssize_t name(int fd, void *to, size_t length, offset from)                                               \
    {                                                                                                        \
        REAL(ssize_t, #name, int, void *, size_t, offset);                                                   \
        read_wait(fd, from, length);                                                                         \
        return real(fd, to, length, from);                                                                   \
    }
#define CHECKED_READ(name, offset)                                                                           \
    ssize_t name(int fd, void *to, size_t length, offset from, size_t room)                                  \
    {                                                                                                        \
        REAL(ssize_t, #name, int, void *, size_t, offset, size_t);                                           \
        read_wait(fd, from, length);                                                                         \
        return real(fd, to, length, from, room);                                                             \
    }
#define READ_PARTS(name, offset)                                                                             \
    ssize_t name(int fd, const struct iovec *parts, int count, offset from)                                  \
    {                                                                                                        \
        REAL(ssize_t, #name, int, const struct iovec *, int, offset);                                        \
        read_wait(fd, from, bytes_of(parts, count));                                                         \
        return real(fd, parts, count, from);                                                                 \
    }
#define WRITE(name, offset)                                                                                  \
    ssize_t name(int fd, const void *from, size_t length, offset to)                                         \
    {                                                                                                        \
        REAL(ssize_t, #name, int, const void *, size_t, offset);                                             \
        write_wait(fd);                                                                                      \
        return real(fd, from, length, to);                                                                   \
    }
#define WRITE_PARTS(name, offset)                                                                            \
    ssize_t name(int fd, const struct iovec *parts, int count, offset to)                                    \
    {                                                                                                        \
        REAL(ssize_t, #name, int, const struct iovec *, int, offset);                                        \
        write_wait(fd);                                                                                      \
        return real(fd, parts, count, to);                                                                   \
    }
#define SYNC(name)                                                                                           \
    int name(int fd)                                                                                         \
    {                                                                                                        \
        REAL(int, #name, int);                                                                               \
        sync_wait(fd);                                                                                       \
        return real(fd);                                                                                     \
    }
#define ASK(name, offset)                                                                                    \
    int name(int fd, offset from, offset length, int advice)                                                 \
    {                                                                                                        \
        REAL(int, #name, int, offset, offset, int);                                                          \
        if (advice == POSIX_FADV_WILLNEED)                                                                   \
            ask(fd, from, length);                                                                           \
        return real(fd, from, length, advice);                                                               \
    }

READ(pread, off_t)
READ(pread64, off64_t)
CHECKED_READ(__pread_chk, off_t)
CHECKED_READ(__pread64_chk, off64_t)
READ_PARTS(preadv, off_t)
READ_PARTS(preadv64, off64_t)
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)
WRITE_PARTS(pwritev, off_t)
WRITE_PARTS(pwritev64, off64_t)
SYNC(fsync)
SYNC(fdatasync)
SYNC(syncfs)
ASK(posix_fadvise, off_t)
ASK(posix_fadvise64, off64_t)

ssize_t read(int fd, void *to, size_t length)
{
    REAL(ssize_t, "read", int, void *, size_t);
    read_wait(fd, -1, length);
    return real(fd, to, length);
}

ssize_t __read_chk(int fd, void *to, size_t length, size_t room)
{
    REAL(ssize_t, "__read_chk", int, void *, size_t, size_t);
    read_wait(fd, -1, length);
    return real(fd, to, length, room);
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
    REAL(ssize_t, "readv", int, const struct iovec *, int);
    read_wait(fd, -1, bytes_of(parts, count));
    return real(fd, parts, count);
}

ssize_t write(int fd, const void *from, size_t length)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    write_wait(fd);
    return real(fd, from, length);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    write_wait(fd);
    return real(fd, parts, count);
}

int sync_file_range(int fd, off64_t from, off64_t length, unsigned flags)
{
    REAL(int, "sync_file_range", int, off64_t, off64_t, unsigned);
    if (flags & SYNC_FILE_RANGE_WAIT_AFTER)
        sync_wait(fd);
    return real(fd, from, length, flags);
}
