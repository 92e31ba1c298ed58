/* shim.c - counts the file-system calls of a program, and kills it or fails one of them: LD_PRELOAD=shim.so.
 *
 *     HOSTILE_UNDER=/abs/folder   only calls on files below this folder count (default: every file); several with ':'
 *     HOSTILE_DO=WHAT             kill: SIGKILL before the call; kill-after: after it
 *                                 EIO, EACCES, ENOSPC, EMFILE, EINTR: the call fails with this errno and does nothing (but
 *                                 close does close)
 *                                 short: a read or write takes only a part of its bytes
 *                                 WHAT+ : from that call on all, as on a full disk
 *     HOSTILE_AT=N                at the N-th call that WHAT can happen to, from 1; 0 or none: only count
 *     HOSTILE_COUNT=FILE          at the end the number of such calls is written there
 *     HOSTILE_ONLY=rename         only calls whose name begins so count
 *     HOSTILE_TRACE=FILE          every counted call is appended there: its number, its name, its path
 *
 * WHAT decides which calls count: ENOSPC only those that may need space, EMFILE only those that open, EINTR only those that a
 * signal can interrupt, short only reads and writes; all others every call.
 *
 * Calls are caught by their names in libc. The C library's own streams call below these names, so fopen and fdopen are replaced
 * by streams that use the functions here (fopencookie).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FDS = 4096, OPENS = 1, SPACE = 2, INTERRUPTIBLE = 4, BYTES = 8 };

static struct {
    int ready, error, kill, after, is_short, onward;
    unsigned counted; /* kinds of calls that count; 0: all */
    long at;
    char under[4][PATH_MAX];
    int under_count;
    const char *count, *trace, *only;
} plan;

static atomic_long calls;
static _Atomic unsigned char watched[FDS];

/* ----- the plan ----- */

static void read_plan(void) {
    static const struct {
        const char *name;
        int error;
        unsigned counted;
    } errors[] = {{"EIO", EIO, 0},
                  {"EACCES", EACCES, 0},
                  {"ENOSPC", ENOSPC, SPACE},
                  {"EMFILE", EMFILE, OPENS},
                  {"EINTR", EINTR, INTERRUPTIBLE}};
    const char *what = getenv("HOSTILE_DO"), *at = getenv("HOSTILE_AT"), *under = getenv("HOSTILE_UNDER");
    char name[32] = "", list[4 * PATH_MAX] = "", *rest;
    if (plan.ready) return;
    plan.ready = 1;
    plan.count = getenv("HOSTILE_COUNT"), plan.trace = getenv("HOSTILE_TRACE"), plan.only = getenv("HOSTILE_ONLY");
    plan.at = at ? strtol(at, NULL, 10) : 0;
    if (what) snprintf(name, sizeof name, "%s", what);
    plan.onward = *name && name[strlen(name) - 1] == '+';
    if (plan.onward) name[strlen(name) - 1] = 0;
    plan.kill = strcmp(name, "kill") == 0, plan.after = strcmp(name, "kill-after") == 0;
    plan.is_short = strcmp(name, "short") == 0;
    if (plan.is_short) plan.counted = BYTES;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(name, errors[i].name) == 0) plan.error = errors[i].error, plan.counted = errors[i].counted;
    snprintf(list, sizeof list, "%s", under ? under : "");
    for (char *one = strtok_r(list, ":", &rest); one && plan.under_count < 4; one = strtok_r(NULL, ":", &rest))
        snprintf(plan.under[plan.under_count++], PATH_MAX, "%s", one);
}

static int is_below(const char *path) {
    read_plan();
    for (int i = 0; i < plan.under_count; i++) {
        const size_t n = strlen(plan.under[i]);
        if (strncmp(path, plan.under[i], n) == 0 && (path[n] == 0 || path[n] == '/' || path[n] == '.')) return 1;
    }
    return plan.under_count == 0 && strncmp(path, "/proc", 5) != 0 && strncmp(path, "/sys", 4) != 0 &&
           strncmp(path, "/dev", 4) != 0;
}

/* The path as it would be from the root; ".." is left in it. */
static int is_watched_at(int dir, const char *path) {
    char whole[2 * PATH_MAX], link[64];
    if (*path == '/') return is_below(path);
    if (dir == AT_FDCWD) {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof here)) return 0;
        snprintf(whole, sizeof whole, "%s/%s", here, path);
        return is_below(whole);
    }
    char folder[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    const ssize_t n = readlink(link, folder, sizeof folder - 1);
    if (n < 0) return 0;
    folder[n] = 0;
    snprintf(whole, sizeof whole, "%s/%s", folder, path);
    return is_below(whole);
}

static int is_watched_fd(int fd) { return fd >= 0 && fd < FDS && watched[fd]; }
static void watch(int fd, int yes) {
    if (fd >= 0 && fd < FDS) watched[fd] = (unsigned char)yes;
}

/* ----- what happens ----- */

typedef enum outcome { GO, FAIL, SHORT, DIE_AFTER } outcome;

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

static void note(long n, const char *name, const char *path) {
    char line[PATH_MAX + 64];
    if (!plan.trace) return;
    const int bytes = snprintf(line, sizeof line, "%ld %s %s\n", n, name, path ? path : "");
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, plan.trace, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0) return;
    syscall(SYS_write, fd, line, (size_t)bytes);
    syscall(SYS_close, fd);
}

static outcome decide(int counts, unsigned kind, const char *name, const char *path) {
    if (!counts || (plan.counted && !(plan.counted & kind))) return GO;
    if (plan.only && strncmp(name, plan.only, strlen(plan.only)) != 0) return GO;
    const long n = atomic_fetch_add(&calls, 1) + 1;
    note(n, name, path);
    if (plan.at <= 0 || n < plan.at || (n > plan.at && !plan.onward)) return GO;
    if (plan.kill) die();
    if (plan.after) return DIE_AFTER;
    if (plan.is_short) return SHORT;
    if (!plan.error) return GO;
    errno = plan.error;
    return FAIL;
}

__attribute__((destructor)) static void report(void) {
    char text[32];
    if (!plan.count || calls == 0) return; /* a launcher has none of its own */
    const int n = snprintf(text, sizeof text, "%ld\n", (long)calls);
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, plan.count, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return;
    syscall(SYS_write, fd, text, (size_t)n);
    syscall(SYS_close, fd);
}

__attribute__((constructor)) static void start(void) { read_plan(); }

#define REAL(name)                 \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* A call that gives -1 on failure; the counted condition and the kind come first. */
#define CALL(counts, kind, path, expression)                      \
    const outcome v = decide((counts), (kind), __func__, (path)); \
    if (v == FAIL) return -1;                                     \
    const __typeof__(expression) result = (expression);           \
    if (v == DIE_AFTER) die();                                    \
    return result

/* ----- opening ----- */

static int opened(int dir, const char *path, int flags, mode_t mode, int at) {
    const int yes = is_watched_at(dir, path);
    const outcome v = decide(yes, OPENS | INTERRUPTIBLE | (flags & O_CREAT ? SPACE : 0u), at ? "openat" : "open", path);
    if (v == FAIL) return -1;
    const int fd = (int)syscall(SYS_openat, dir, path, flags, mode);
    if (fd >= 0) watch(fd, yes);
    if (v == DIE_AFTER) die();
    return fd;
}

#define MODE_OF(flags)                       \
    mode_t mode = 0;                         \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list args;                        \
        va_start(args, flags);               \
        mode = va_arg(args, mode_t);         \
        va_end(args);                        \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(AT_FDCWD, path, flags, mode, 0);
}
int open64(const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(AT_FDCWD, path, flags, mode, 0);
}
int openat(int dir, const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(dir, path, flags, mode, 1);
}
int openat64(int dir, const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(dir, path, flags, mode, 1);
}
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0, 0); }
int __openat_2(int dir, const char *path, int flags) { return opened(dir, path, flags, 0, 1); }

/* The descriptor is gone after a failed close, too, as on Linux. */
int close(int fd) {
    const int yes = is_watched_fd(fd);
    const outcome v = decide(yes, INTERRUPTIBLE, "close", NULL);
    const int why = errno;
    watch(fd, 0);
    const int result = (int)syscall(SYS_close, fd);
    if (v == DIE_AFTER) die();
    if (v != FAIL) return result;
    errno = why;
    return -1;
}

int dup(int fd) {
    const int copy = (int)syscall(SYS_dup, fd);
    watch(copy, is_watched_fd(fd));
    return copy;
}

/* ----- reading and writing ----- */

static size_t part_of(outcome v, size_t n) { return v == SHORT && n > 1 ? n / 2 : n; }

#define TRANSFER(kind, name, number, ...)                                                    \
    const outcome v = decide(is_watched_fd(fd), INTERRUPTIBLE | BYTES | (kind), name, NULL); \
    if (v == FAIL) return -1;                                                                \
    const ssize_t result = syscall(number, fd, bytes, part_of(v, n) __VA_ARGS__);            \
    if (v == DIE_AFTER) die();                                                               \
    return result

ssize_t read(int fd, void *bytes, size_t n) { TRANSFER(0u, "read", SYS_read, ); }
ssize_t __read_chk(int fd, void *bytes, size_t n, size_t most) {
    if (n > most) abort();
    TRANSFER(0u, "read", SYS_read, );
}
ssize_t pread(int fd, void *bytes, size_t n, off_t at) { TRANSFER(0u, "pread", SYS_pread64, , at); }
ssize_t pread64(int fd, void *bytes, size_t n, off64_t at) { TRANSFER(0u, "pread", SYS_pread64, , at); }
ssize_t write(int fd, const void *bytes, size_t n) { TRANSFER(SPACE, "write", SYS_write, ); }
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) { TRANSFER(SPACE, "pwrite", SYS_pwrite64, , at); }
ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) { TRANSFER(SPACE, "pwrite", SYS_pwrite64, , at); }

int fsync(int fd) { CALL(is_watched_fd(fd), SPACE | INTERRUPTIBLE, NULL, (int)syscall(SYS_fsync, fd)); }
int fdatasync(int fd) { CALL(is_watched_fd(fd), SPACE | INTERRUPTIBLE, NULL, (int)syscall(SYS_fdatasync, fd)); }
int ftruncate(int fd, off_t n) { CALL(is_watched_fd(fd), SPACE | INTERRUPTIBLE, NULL, (int)syscall(SYS_ftruncate, fd, n)); }
int ftruncate64(int fd, off64_t n) { CALL(is_watched_fd(fd), SPACE | INTERRUPTIBLE, NULL, (int)syscall(SYS_ftruncate, fd, n)); }
int flock(int fd, int how) { CALL(is_watched_fd(fd), INTERRUPTIBLE, NULL, (int)syscall(SYS_flock, fd, how)); }

/* ----- names ----- */

int rename(const char *from, const char *to) {
    CALL(is_watched_at(AT_FDCWD, from), SPACE, from, (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int renameat(int d1, const char *from, int d2, const char *to) {
    CALL(is_watched_at(d1, from), SPACE, from, (int)syscall(SYS_renameat2, d1, from, d2, to, 0));
}
int renameat2(int d1, const char *from, int d2, const char *to, unsigned flags) {
    CALL(is_watched_at(d1, from), SPACE, from, (int)syscall(SYS_renameat2, d1, from, d2, to, flags));
}
int link(const char *from, const char *to) {
    CALL(is_watched_at(AT_FDCWD, from), SPACE, from, (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int unlink(const char *path) { CALL(is_watched_at(AT_FDCWD, path), 0u, path, (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0)); }
int unlinkat(int dir, const char *path, int flags) {
    CALL(is_watched_at(dir, path), 0u, path, (int)syscall(SYS_unlinkat, dir, path, flags));
}
int rmdir(const char *path) {
    CALL(is_watched_at(AT_FDCWD, path), 0u, path, (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}
int mkdir(const char *path, mode_t mode) {
    CALL(is_watched_at(AT_FDCWD, path), SPACE, path, (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int mkdirat(int dir, const char *path, mode_t mode) {
    CALL(is_watched_at(dir, path), SPACE, path, (int)syscall(SYS_mkdirat, dir, path, mode));
}
int access(const char *path, int mode) {
    CALL(is_watched_at(AT_FDCWD, path), 0u, path, (int)syscall(SYS_faccessat, AT_FDCWD, path, mode));
}
int faccessat(int dir, const char *path, int mode, int flags) {
    REAL(faccessat);
    CALL(is_watched_at(dir, path), 0u, path, real(dir, path, mode, flags));
}
int stat(const char *path, struct stat *st) {
    REAL(stat);
    CALL(is_watched_at(AT_FDCWD, path), 0u, path, real(path, st));
}
int lstat(const char *path, struct stat *st) {
    REAL(lstat);
    CALL(is_watched_at(AT_FDCWD, path), 0u, path, real(path, st));
}
int fstat(int fd, struct stat *st) {
    REAL(fstat);
    CALL(is_watched_fd(fd), 0u, NULL, real(fd, st));
}
int fstatat(int dir, const char *path, struct stat *st, int flags) {
    REAL(fstatat);
    CALL(is_watched_at(dir, path), 0u, path, real(dir, path, st, flags));
}
int chmod(const char *path, mode_t mode) {
    REAL(chmod);
    CALL(is_watched_at(AT_FDCWD, path), 0u, path, real(path, mode));
}

/* ----- folders ----- */

DIR *opendir(const char *path) {
    REAL(opendir);
    const outcome v = decide(is_watched_at(AT_FDCWD, path), OPENS | INTERRUPTIBLE, "opendir", path);
    if (v == FAIL) return NULL;
    DIR *d = real(path);
    if (d) watch(dirfd(d), is_watched_at(AT_FDCWD, path));
    if (v == DIE_AFTER) die();
    return d;
}

static struct dirent *listed(DIR *d, struct dirent *(*next)(DIR *)) {
    const outcome v = decide(is_watched_fd(dirfd(d)), 0u, "readdir", NULL);
    if (v == FAIL) return NULL;
    struct dirent *e = next(d);
    if (v == DIE_AFTER) die();
    return e;
}

struct dirent *readdir(DIR *d) {
    REAL(readdir);
    return listed(d, real);
}

int closedir(DIR *d) {
    REAL(closedir);
    watch(dirfd(d), 0);
    return real(d);
}

/* ----- streams on the functions above ----- */

static struct {
    FILE *file;
    int fd;
} streams[FDS];
static atomic_int lock;

static void remember(FILE *f, int fd) {
    while (atomic_exchange(&lock, 1)) continue;
    for (int i = 0; i < FDS; i++)
        if (!streams[i].file) {
            streams[i].file = f, streams[i].fd = fd;
            break;
        }
    atomic_store(&lock, 0);
}

static ssize_t cookie_read(void *fd, char *bytes, size_t n) { return read((int)(long)fd, bytes, n); }
static ssize_t cookie_write(void *fd, const char *bytes, size_t n) {
    const ssize_t done = write((int)(long)fd, bytes, n);
    return done < 0 ? 0 : done; /* 0 is how a cookie says error; the stream calls again after a part */
}
static int cookie_seek(void *fd, off64_t *at, int whence) {
    const off64_t to = lseek64((int)(long)fd, *at, whence);
    if (to < 0) return -1;
    *at = to;
    return 0;
}
static int cookie_close(void *fd) {
    while (atomic_exchange(&lock, 1)) continue;
    for (int i = 0; i < FDS; i++)
        if (streams[i].file && streams[i].fd == (int)(long)fd) streams[i].file = NULL;
    atomic_store(&lock, 0);
    return close((int)(long)fd);
}

FILE *fdopen(int fd, const char *mode) {
    if (!is_watched_fd(fd)) {
        REAL(fdopen);
        return real(fd, mode);
    }
    const cookie_io_functions_t io = {cookie_read, cookie_write, cookie_seek, cookie_close};
    FILE *f = fopencookie((void *)(long)fd, mode, io);
    if (f) remember(f, fd);
    return f;
}

FILE *fopen(const char *path, const char *mode) {
    if (!is_watched_at(AT_FDCWD, path)) {
        REAL(fopen);
        return real(path, mode);
    }
    int flags = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
    if (*mode == 'w') flags |= O_CREAT | O_TRUNC;
    if (*mode == 'a') flags |= O_CREAT | O_APPEND;
    if (strchr(mode, 'x')) flags |= O_EXCL;
    if (strchr(mode, 'e')) flags |= O_CLOEXEC;
    const int fd = open(path, flags, 0666);
    return fd < 0 ? NULL : fdopen(fd, mode);
}
FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

int fileno(FILE *f) {
    REAL(fileno);
    for (int i = 0; i < FDS; i++)
        if (streams[i].file == f) return streams[i].fd;
    return real(f);
}
