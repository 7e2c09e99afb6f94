/* Notes which lines of native code run, in a build for `make coverage`: setup.py puts BOWSTRING_LINE where Cython would call
 * Python's tracer (directive `linetrace`). That one needs the GIL, and may collect garbage, in functions that hold a mutex:
 * they would wait for themselves. It would not see the threads of native code either.
 *
 * Each source has a file in the folder BOWSTRING_LINES, named as Cython names the source with `!` for `/`. Byte n of it
 * is 1 once line n has run, in any thread of any process. A line is written when it first runs in a process, so that
 * SIGKILL loses nothing. tests/coverage_report.py reads the files. */
#ifndef BOWSTRING_COVERAGE_LINES_H
#define BOWSTRING_COVERAGE_LINES_H

/* This comes before the modules' own headers, some of which need it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `where` is Cython's "__PYX_ERR(<number of the file>, <line>, <label>)": a module has lines of other files, too. */
static __attribute__((noinline, unused)) void bowstring_line(const char *const *files, const char *where, int line) {
    char path[1024];
    int error = errno;
    const char *number = strchr(where, '(');
    if (number != NULL && snprintf(path, sizeof path, "%s/%s", BOWSTRING_LINES, files[atoi(number + 1)]) < (int)sizeof path) {
        for (char *at = path + strlen(BOWSTRING_LINES) + 1; *at != 0; at++)
            if (*at == '/') *at = '!';
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0) {
            if (pwrite(fd, "\1", 1, line) != 1) { /* a full disk: the report has less */ }
            close(fd);
        }
    }
    errno = error;
}

/* Threads may write a line twice, which is harmless. */
#define BOWSTRING_LINE(files, where, line) \
    do { \
        static char noted; \
        if (__builtin_expect(!__atomic_load_n(&noted, __ATOMIC_RELAXED), 0)) { \
            __atomic_store_n(&noted, 1, __ATOMIC_RELAXED); \
            bowstring_line(files, where, line); \
        } \
    } while (0);

#endif
