#include "writer.h"
#include "loop.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The write that is under way; there is at most one. */
static int file, direct;
static const uint8_t *write_data;
static int64_t write_bytes, write_position;

static void finished(int64_t written) {
    if (written < 0)
        errno = (int)-written;
    else
        errno = 0;
    if (written != write_bytes)
        die("a durable write of %lld bytes wrote %lld", (long long)write_bytes, (long long)written);
}

/* ---------------------------------------------------------------- the file */

static void open_direct(const char *path) {
    direct = 1;
    file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (file < 0 && errno == EINVAL) { /* some file systems lack it */
        direct = 0;
        file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    }
    check(file, path);
}

static void write_through(int64_t file_bytes) {
    uint8_t *zeros = new_memory(MIB);
    memset(zeros, 0, MIB);
    (void)!fallocate(file, 0, 0, file_bytes); /* not every file system can; the writes report a full disk */
    for (int64_t at = 0; at < file_bytes; at += MIB)
        if (pwrite(file, zeros, MIB, at) != MIB)
            die("the file cannot be written");
    check(fsync(file), "fsync");
    free(zeros);
}

/* ---------------------------------------------------------------- io_uring */

static struct {
    int fd; /* -1: a thread writes */
    struct io_uring_sqe *entries;
    unsigned *sq_tail, *sq_mask, *sq_array;
    unsigned *cq_head, *cq_tail, *cq_mask;
    struct io_uring_cqe *completions;
} ring = {.fd = -1};

static void *map_ring(size_t size, off_t offset) {
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, offset);
    if (mapped == MAP_FAILED)
        die("the rings of io_uring cannot be mapped");
    return mapped;
}

/* Returns 0 when the kernel has no io_uring or does not allow it. */
static int ring_open(void) {
    struct io_uring_params params = {0};
    size_t sq_bytes, cq_bytes;
    uint8_t *rings;
    ring.fd = (int)syscall(SYS_io_uring_setup, 1, &params);
    if (ring.fd < 0)
        return 0;
    if (!(params.features & IORING_FEAT_SINGLE_MMAP)) {
        close(ring.fd);
        ring.fd = -1;
        return 0;
    }
    sq_bytes = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    cq_bytes = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    rings = map_ring(sq_bytes > cq_bytes ? sq_bytes : cq_bytes, IORING_OFF_SQ_RING);
    ring.entries = map_ring(params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    ring.sq_tail = (unsigned *)(rings + params.sq_off.tail);
    ring.sq_mask = (unsigned *)(rings + params.sq_off.ring_mask);
    ring.sq_array = (unsigned *)(rings + params.sq_off.array);
    ring.cq_head = (unsigned *)(rings + params.cq_off.head);
    ring.cq_tail = (unsigned *)(rings + params.cq_off.tail);
    ring.cq_mask = (unsigned *)(rings + params.cq_off.ring_mask);
    ring.completions = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
    return 1;
}

static void ring_begin(void) {
    unsigned tail = *ring.sq_tail, index = tail & *ring.sq_mask;
    ring.entries[index] = (struct io_uring_sqe){
        .opcode = IORING_OP_WRITE,
        .fd = file,
        .addr = (uint64_t)(uintptr_t)write_data,
        .len = (uint32_t)write_bytes,
        .off = (uint64_t)write_position,
        .rw_flags = RWF_DSYNC,
    };
    ring.sq_array[index] = index;
    __atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
    check(syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0), "io_uring_enter");
}

static int ring_ended(void) {
    unsigned head = *ring.cq_head;
    if (head == __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE))
        return 0;
    finished(ring.completions[head & *ring.cq_mask].res);
    __atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
    return 1;
}

/* ---------------------------------------------------------------- a thread */

static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static int begun, stopping;    /* guarded by the lock */
static int64_t thread_written; /* handed over by the eventfd */
static int thread_event = -1;

static int64_t write_durably(void) {
    struct iovec part = {(void *)(uintptr_t)write_data, (size_t)write_bytes};
    ssize_t written = pwritev2(file, &part, 1, write_position, RWF_DSYNC);
    if (written < 0 && errno == EOPNOTSUPP) {
        written = pwrite(file, write_data, (size_t)write_bytes, write_position);
        if (written >= 0 && fdatasync(file) != 0)
            written = -1;
    }
    return written < 0 ? -errno : written;
}

static void *thread_run(void *unused) {
    uint64_t one = 1;
    int last;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!begun && !stopping)
            pthread_cond_wait(&work, &lock);
        begun = 0;
        last = stopping;
        pthread_mutex_unlock(&lock);
        if (last)
            return unused;
        thread_written = write_durably();
        if (write(thread_event, &one, sizeof one) != sizeof one)
            die("eventfd");
    }
}

static void thread_begin(void) {
    pthread_mutex_lock(&lock);
    begun = 1;
    pthread_mutex_unlock(&lock);
    pthread_cond_signal(&work);
}

static int thread_ended(void) {
    uint64_t count;
    if (read(thread_event, &count, sizeof count) != sizeof count)
        return 0;
    finished(thread_written);
    return 1;
}

/* ---------------------------------------------------------------- either */

void writer_open(const char *path, int64_t file_bytes, int with_io_uring) {
    open_direct(path);
    write_through(file_bytes);
    if (with_io_uring && ring_open())
        return;
    thread_event = (int)check(eventfd(0, EFD_NONBLOCK), "eventfd");
    errno = pthread_create(&thread, NULL, thread_run, NULL);
    if (errno != 0)
        die("pthread_create");
}

int writer_fd(void) { return ring.fd >= 0 ? ring.fd : thread_event; }

void writer_begin(const uint8_t *data, int64_t size_bytes, int64_t position) {
    write_data = data;
    write_bytes = size_bytes;
    write_position = position;
    if (ring.fd >= 0)
        ring_begin();
    else
        thread_begin();
}

int writer_ended(void) { return ring.fd >= 0 ? ring_ended() : thread_ended(); }

void writer_close(void) {
    result_add("with_o_direct", direct);
    result_add("with_io_uring", ring.fd >= 0);
    if (ring.fd >= 0) {
        close(ring.fd);
    } else {
        pthread_mutex_lock(&lock);
        stopping = 1;
        pthread_mutex_unlock(&lock);
        pthread_cond_signal(&work);
        pthread_join(thread, NULL);
    }
    close(file);
}
