/* io_uring for the write-ahead log, through the C functions that the PyPI package liburing exports.

   Two kinds of rings: the write-ahead log's thread waits for its writes (ring_write); a reactor starts writes
   (ring_start), is told by an eventfd, and collects the results later (ring_reap). A ring belongs to one thread. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <linux/io_uring.h>
#ifndef RWF_DSYNC
#define RWF_DSYNC 2
#endif
/* Linux 6.1: results are collected when the thread asks for them, so that they do not interrupt it. */
#ifndef IORING_SETUP_TASKRUN_FLAG
#define IORING_SETUP_TASKRUN_FLAG (1U << 9)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

typedef struct {
    void *library;
    int (*submit)(void *ring);
    int (*submit_and_wait)(void *ring, unsigned n);
    struct io_uring_sqe *(*get_sqe)(void *ring);
    int (*wait_cqe)(void *ring, struct io_uring_cqe **cqe);
    int (*peek_cqe)(void *ring, struct io_uring_cqe **cqe);
    void (*cqe_seen)(void *ring, struct io_uring_cqe *cqe);
    void (*queue_exit)(void *ring);
    int depth;
    int on_their_way;                   /* started and not collected */
    /* liburing's struct io_uring has 216 bytes in 2.x; the spare room is for later versions. */
    uint64_t ring[128];
} Ring;

/* With an `event_fd` (else -1), it is written to when a write has ended. */
static Ring *ring_open(const char *path, unsigned depth, int event_fd, const char **why) {
    Ring *r = (Ring *)calloc(1, sizeof(Ring));
    int (*init)(unsigned, void *, unsigned);
    int (*tell)(void *, int);
    int error;
    if (r == NULL) { *why = "no memory"; return NULL; }
    r->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (r->library == NULL) { *why = "the package liburing cannot be loaded"; free(r); return NULL; }
    r->depth = (int)depth;
    init = (int (*)(unsigned, void *, unsigned))dlsym(r->library, "io_uring_queue_init");
    tell = (int (*)(void *, int))dlsym(r->library, "io_uring_register_eventfd");
    r->submit = (int (*)(void *))dlsym(r->library, "io_uring_submit");
    r->submit_and_wait = (int (*)(void *, unsigned))dlsym(r->library, "io_uring_submit_and_wait");
    r->get_sqe = (struct io_uring_sqe *(*)(void *))dlsym(r->library, "io_uring_get_sqe");
    r->wait_cqe = (int (*)(void *, struct io_uring_cqe **))dlsym(r->library, "io_uring_wait_cqe");
    r->peek_cqe = (int (*)(void *, struct io_uring_cqe **))dlsym(r->library, "io_uring_peek_cqe");
    r->cqe_seen = (void (*)(void *, struct io_uring_cqe *))dlsym(r->library, "io_uring_cqe_seen");
    r->queue_exit = (void (*)(void *))dlsym(r->library, "io_uring_queue_exit");
    if (!init || !tell || !r->submit || !r->submit_and_wait || !r->get_sqe || !r->wait_cqe || !r->peek_cqe
            || !r->cqe_seen || !r->queue_exit) {
        *why = "the package liburing is too old: it lacks a function";
        dlclose(r->library);
        free(r);
        return NULL;
    }
    error = -EINVAL;
    if (event_fd >= 0)
        error = init(depth, r->ring,
                     IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
    if (error == -EINVAL)
        error = init(depth, r->ring, 0);
    if (error == 0 && event_fd >= 0) {
        error = tell(r->ring, event_fd);
        if (error != 0)
            r->queue_exit(r->ring);
    }
    if (error != 0) {
        *why = error == -EPERM || error == -ENOSYS ? "the kernel does not allow io_uring here" : strerror(-error);
        dlclose(r->library);
        free(r);
        return NULL;
    }
    return r;
}

static void ring_close(Ring *r) {
    r->queue_exit(r->ring);
    dlclose(r->library);
    free(r);
}

static int ring_fill(Ring *r, int fd, uint8_t *data, int64_t size, int64_t position, uint64_t tag) {
    struct io_uring_sqe *sqe = r->get_sqe(r->ring);
    if (sqe == NULL)
        return -EIO;
    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = IORING_OP_WRITE;
    sqe->fd = fd;
    sqe->addr = (uint64_t)(uintptr_t)data;
    sqe->len = (uint32_t)size;
    sqe->off = (uint64_t)position;
    sqe->rw_flags = RWF_DSYNC;
    sqe->user_data = tag;
    return 0;
}

/* Submits all writes and waits for all. done[] gets the bytes that each wrote, so short writes can be finished. */
static int ring_write(Ring *r, int n, const int *fds, uint8_t *const *data, const int64_t *sizes,
                      const int64_t *positions, int64_t *done) {
    struct io_uring_cqe *cqe;
    int i, error = 0, result, submitted = 0;
    for (i = 0; i < n; i++) {
        error = ring_fill(r, fds[i], data[i], sizes[i], positions[i], (uint64_t)i);
        if (error != 0)
            return error;
    }
    while (submitted < n) {             /* the kernel may take some of them first */
        result = r->submit_and_wait(r->ring, (unsigned)n);
        if (result > 0)
            submitted += result;
        else if (result != -EINTR)
            return result < 0 ? result : -EIO;
    }
    for (i = 0; i < n; i++) {
        do
            result = r->wait_cqe(r->ring, &cqe);
        while (result == -EINTR);
        if (result < 0)
            return result;
        if (cqe->res == -EINTR || cqe->res == -EAGAIN)
            ;                       /* not written: the caller writes it with pwrite */
        else if (cqe->res < 0)
            error = cqe->res;
        else
            done[cqe->user_data] = cqe->res;
        r->cqe_seen(r->ring, cqe);
    }
    return error;
}

static int ring_has_room(const Ring *r, int n) { return r->on_their_way + n <= r->depth; }

/* Starts writes without waiting for them; tags[i] comes back from ring_reap. There must be room. 0 or a negated errno;
   after an error some may have been started. */
static int ring_start(Ring *r, int n, const int *fds, uint8_t *const *data, const int64_t *sizes,
                      const int64_t *positions, const uint64_t *tags) {
    const struct timespec pause = {0, 1000000};
    int i, error, submitted = 0, tries = 0;
    for (i = 0; i < n; i++) {
        error = ring_fill(r, fds[i], data[i], sizes[i], positions[i], tags[i]);
        if (error != 0)
            return error;
    }
    while (submitted < n) {
        int result = r->submit(r->ring);
        if (result > 0) {
            submitted += result;
            r->on_their_way += result;
        } else if (result == -EINTR)
            ;
        else if ((result == -EAGAIN || result == -EBUSY) && ++tries < 1000)
            nanosleep(&pause, NULL);    /* the kernel is short of memory */
        else
            return result < 0 ? result : -EIO;
    }
    return 0;
}

/* Collects a write that has ended: its tag, and the bytes that it wrote or a negated errno. False: none has ended. */
static int ring_reap(Ring *r, int wait, uint64_t *tag, int *result) {
    struct io_uring_cqe *cqe = NULL;
    int error;
    if (r->on_their_way == 0)
        return 0;
    do
        error = wait ? r->wait_cqe(r->ring, &cqe) : r->peek_cqe(r->ring, &cqe);
    while (error == -EINTR);
    if (error != 0 || cqe == NULL)
        return 0;
    *tag = cqe->user_data;
    *result = cqe->res;
    r->cqe_seen(r->ring, cqe);
    r->on_their_way--;
    return 1;
}
