/* Makes chosen file operations below one folder fail, as a bad disk would; loaded by LD_PRELOAD.
 *
 * Nothing happens until `fault_arm` is called with a control block, which other processes may share.
 * The operations of each kind are counted there. From operation `number` of the chosen kinds on,
 * `times` of them go wrong: with an error number, half done, or by the death of this process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, CREATE, READ, WRITE, SYNC, RENAME, LINK, UNLINK, TRUNCATE, CLOSE, MKDIR, KINDS };
enum { FAIL, HALF, HALF_THEN_FAIL, DIE, DIE_HALFWAY };
enum { LONGEST = 4096 };

struct control {
    int kinds;            /* which operations: a bit for each kind */
    int action;
    int error;            /* the error number of FAIL */
    int reserved;
    long number;          /* the first operation that goes wrong, from 1 */
    long times;           /* how many do */
    atomic_long seen[KINDS];
    atomic_long counted;  /* how many there were of the chosen kinds */
    atomic_long done;     /* how many went wrong */
    char folder[LONGEST];
    char path[LONGEST];   /* of the first one */
};

static struct control *control;
static size_t folder_length;

void fault_arm(struct control *given) {
    folder_length = given ? strlen(given->folder) : 0;
    control = given;
}

static int is_below(const char *path) {
    return !strncmp(path, control->folder, folder_length) &&
           (path[folder_length] == '/' || !path[folder_length]);
}

/* Puts the path of an open file into `path`; the name of one that was removed goes on. */
static int of_file(int file, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, LONGEST - 1);
    path[length < 0 ? 0 : length] = 0;
    return is_below(path);
}

static int of_name(int folder, const char *name, char *path) {
    char base[LONGEST] = "";
    if (!name) return 0;
    if (name[0] != '/') {
        if (folder == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return 0;
        } else {
            of_file(folder, base);
        }
    }
    int length = snprintf(path, LONGEST, "%s%s%s", base, base[0] ? "/" : "", name);
    return length < LONGEST && is_below(path);
}

/* Counts an operation; says what is to become of it: -1 nothing, else an action. */
static int counted(int kind, const char *path) {
    atomic_fetch_add(&control->seen[kind], 1);
    if (!(control->kinds & 1 << kind)) return -1;
    long number = 1 + atomic_fetch_add(&control->counted, 1);
    if (number < control->number || number - control->number >= control->times) return -1;
    int is_first = !atomic_fetch_add(&control->done, 1);
    if (is_first) snprintf(control->path, LONGEST, "%s", path);
    if (control->action == DIE || (control->action == DIE_HALFWAY && kind != WRITE))
        kill(getpid(), SIGKILL);
    if (control->action == HALF_THEN_FAIL) return is_first && kind == WRITE ? HALF : FAIL;
    return control->action;
}

static int on_file(int kind, int file) {
    char path[LONGEST];
    int before = errno, action = -1;
    if (control && of_file(file, path)) action = counted(kind, path);
    errno = before;
    return action;
}

static int on_name(int kind, int folder, const char *name) {
    char path[LONGEST];
    int before = errno, action = -1;
    if (control && of_name(folder, name, path)) action = counted(kind, path);
    errno = before;
    return action;
}

/* Half of a write is a lawful answer; where there is nothing to halve nothing goes wrong. */
static int failed(int action) {
    if (action == FAIL) errno = control->error;
    return action == FAIL;
}

#define NEXT(type, name, ...)                                        \
    static type (*next)(__VA_ARGS__);                                \
    if (!next) next = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int kind_of_open(int flags) {
    return flags & (O_WRONLY | O_RDWR | O_CREAT) ? CREATE : OPEN;
}

#define OPENS(name)                                                          \
    int name(const char *path, int flags, ...) {                             \
        NEXT(int, #name, const char *, int, ...);                            \
        va_list given;                                                       \
        va_start(given, flags);                                              \
        mode_t mode = va_arg(given, mode_t);                                 \
        va_end(given);                                                       \
        if (failed(on_name(kind_of_open(flags), AT_FDCWD, path))) return -1; \
        return next(path, flags, mode);                                      \
    }
#define OPENS_AT(name)                                                     \
    int name(int folder, const char *path, int flags, ...) {               \
        NEXT(int, #name, int, const char *, int, ...);                     \
        va_list given;                                                     \
        va_start(given, flags);                                            \
        mode_t mode = va_arg(given, mode_t);                               \
        va_end(given);                                                     \
        if (failed(on_name(kind_of_open(flags), folder, path))) return -1; \
        return next(folder, path, flags, mode);                            \
    }
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

/* What programs call that were compiled with checks of their buffers. */
#define OPENS_CHECKED(name)                                                  \
    int name(const char *path, int flags) {                                  \
        NEXT(int, #name, const char *, int);                                 \
        if (failed(on_name(kind_of_open(flags), AT_FDCWD, path))) return -1; \
        return next(path, flags);                                            \
    }
OPENS_CHECKED(__open_2)
OPENS_CHECKED(__open64_2)

#define READS(name, parameters, arguments, types)     \
    ssize_t name parameters {                         \
        NEXT(ssize_t, #name, types);                  \
        if (failed(on_file(READ, file))) return -1;   \
        return next arguments;                        \
    }
#define LIST(...) __VA_ARGS__
READS(read, (int file, void *to, size_t size), (file, to, size), LIST(int, void *, size_t))
READS(pread, (int file, void *to, size_t size, off_t at), (file, to, size, at),
      LIST(int, void *, size_t, off_t))
READS(pread64, (int file, void *to, size_t size, off64_t at), (file, to, size, at),
      LIST(int, void *, size_t, off64_t))

/* Says how many bytes to write: all, half of them, or none (-1). */
static ssize_t allowed(int file, size_t size) {
    int action = on_file(WRITE, file);
    if (failed(action)) return -1;
    return action < 0 || size < 2 ? size : size / 2;
}

/* After half of a write the process may be dead. */
static ssize_t written(ssize_t given, size_t wanted) {
    if (control && given >= 0 && (size_t)given < wanted && control->action == DIE_HALFWAY)
        kill(getpid(), SIGKILL);
    return given;
}

#define WRITES(name, parameters, arguments, types)  \
    ssize_t name parameters {                       \
        NEXT(ssize_t, #name, types);                \
        size_t wanted = size;                       \
        ssize_t may = allowed(file, size);          \
        if (may < 0) return -1;                     \
        size = may;                                 \
        return written(next arguments, wanted);     \
    }
WRITES(write, (int file, const void *from, size_t size), (file, from, size),
       LIST(int, const void *, size_t))
WRITES(pwrite, (int file, const void *from, size_t size, off_t at), (file, from, size, at),
       LIST(int, const void *, size_t, off_t))
WRITES(pwrite64, (int file, const void *from, size_t size, off64_t at), (file, from, size, at),
       LIST(int, const void *, size_t, off64_t))
WRITES(sendfile, (int file, int from, off_t *at, size_t size), (file, from, at, size),
       LIST(int, int, off_t *, size_t))
WRITES(sendfile64, (int file, int from, off64_t *at, size_t size), (file, from, at, size),
       LIST(int, int, off64_t *, size_t))

ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(ssize_t, "writev", int, const struct iovec *, int);
    if (failed(on_file(WRITE, file))) return -1;
    return next(file, parts, count);
}

ssize_t copy_file_range(int from, off64_t *from_at, int file, off64_t *at, size_t size,
                        unsigned flags) {
    NEXT(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
    if (failed(on_file(WRITE, file))) return -1;
    return next(from, from_at, file, at, size, flags);
}

#define ON_FILE(name, kind, parameters, arguments, types) \
    int name parameters {                                 \
        NEXT(int, #name, types);                          \
        if (failed(on_file(kind, file))) return -1;       \
        return next arguments;                            \
    }
ON_FILE(fsync, SYNC, (int file), (file), LIST(int))
ON_FILE(fdatasync, SYNC, (int file), (file), LIST(int))
ON_FILE(ftruncate, TRUNCATE, (int file, off_t size), (file, size), LIST(int, off_t))
ON_FILE(ftruncate64, TRUNCATE, (int file, off64_t size), (file, size), LIST(int, off64_t))

int fallocate(int file, int mode, off_t at, off_t size) {
    NEXT(int, "fallocate", int, int, off_t, off_t);
    if (failed(on_file(TRUNCATE, file))) return -1;
    return next(file, mode, at, size);
}

int posix_fallocate(int file, off_t at, off_t size) {
    NEXT(int, "posix_fallocate", int, off_t, off_t);
    if (failed(on_file(TRUNCATE, file))) return control->error;
    return next(file, at, size);
}

/* A close that fails has closed all the same. */
int close(int file) {
    NEXT(int, "close", int);
    int is_bad = failed(on_file(CLOSE, file)), error = errno, closed = next(file);
    if (is_bad) errno = error;
    return is_bad ? -1 : closed;
}

#define ON_NAME(name, kind, parameters, folder, path, arguments, types) \
    int name parameters {                                               \
        NEXT(int, #name, types);                                        \
        if (failed(on_name(kind, folder, path))) return -1;             \
        return next arguments;                                          \
    }
ON_NAME(rename, RENAME, (const char *old, const char *to), AT_FDCWD, to, (old, to),
        LIST(const char *, const char *))
ON_NAME(renameat, RENAME, (int in, const char *old, int at, const char *to), at, to,
        (in, old, at, to), LIST(int, const char *, int, const char *))
ON_NAME(renameat2, RENAME, (int in, const char *old, int at, const char *to, unsigned flags), at,
        to, (in, old, at, to, flags), LIST(int, const char *, int, const char *, unsigned))
ON_NAME(link, LINK, (const char *old, const char *to), AT_FDCWD, to, (old, to),
        LIST(const char *, const char *))
ON_NAME(linkat, LINK, (int in, const char *old, int at, const char *to, int flags), at, to,
        (in, old, at, to, flags), LIST(int, const char *, int, const char *, int))
ON_NAME(unlink, UNLINK, (const char *path), AT_FDCWD, path, (path), LIST(const char *))
ON_NAME(unlinkat, UNLINK, (int at, const char *path, int flags), at, path, (at, path, flags),
        LIST(int, const char *, int))
ON_NAME(rmdir, UNLINK, (const char *path), AT_FDCWD, path, (path), LIST(const char *))
ON_NAME(mkdir, MKDIR, (const char *path, mode_t mode), AT_FDCWD, path, (path, mode),
        LIST(const char *, mode_t))
ON_NAME(mkdirat, MKDIR, (int at, const char *path, mode_t mode), at, path, (at, path, mode),
        LIST(int, const char *, mode_t))
