#include "files.h"
#include "loop.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SEGMENT_BYTES = 1 << 30,
    /* Both as in _native/log/append.pyx. */
    RESERVE_MIN_BYTES = 1 << 20,
    RESERVE_MAX_BYTES = 16 << 20,
    NAME_BYTES = 64,
};

static const char *segment_name(char *out, int partition, int number) {
    snprintf(out, NAME_BYTES, "partition-%d-%d.log", partition, number);
    return out;
}

static void open_segment(PartitionFile *file, int partition) {
    char name[NAME_BYTES];
    file->fd = (int)check(open(segment_name(name, partition, file->number), O_RDWR | O_CREAT | O_TRUNC, 0600), name);
    file->position = file->reserved_bytes = 0;
}

void partitions_make(Partitions *partitions, int count) {
    partitions->count = count;
    partitions->files = calloc((size_t)count, sizeof(PartitionFile));
    if (partitions->files == NULL)
        die("no memory for %d partitions", count);
    for (int i = 0; i < count; i++)
        open_segment(&partitions->files[i], i);
}

/* Without it ext4 allocates each block when it is written back. Errors are ignored, as the broker does. */
static void reserve_ahead(PartitionFile *file, int64_t end) {
    int64_t step = end < RESERVE_MAX_BYTES ? end : RESERVE_MAX_BYTES;
    if (end <= file->reserved_bytes || end < RESERVE_MIN_BYTES)
        return;
    if (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, end, step) == 0)
        file->reserved_bytes = end + step;
}

void partition_append(Partitions *partitions, int partition, const uint8_t *data, int64_t size_bytes) {
    PartitionFile *file = &partitions->files[partition];
    if (file->position + size_bytes > SEGMENT_BYTES && file->position > 0) {
        check(ftruncate(file->fd, file->position), "ftruncate"); /* gives reserved blocks back */
        close(file->fd);
        file->number++;
        open_segment(file, partition);
    }
    reserve_ahead(file, file->position + size_bytes);
    while (size_bytes > 0) {
        int64_t n = check(pwrite(file->fd, data, (size_t)size_bytes, file->position), "pwrite");
        data += n;
        size_bytes -= n;
        file->position += n;
    }
}

/* Reads the next bytes of a partition, also across its segments. */
static void read_on(int *fd, int *number, int partition, uint8_t *data, int64_t size_bytes) {
    char name[NAME_BYTES];
    while (size_bytes > 0) {
        int64_t n;
        if (*fd < 0)
            *fd = (int)check(open(segment_name(name, partition, *number), O_RDONLY), name);
        n = check(read(*fd, data, (size_t)size_bytes), "read");
        data += n;
        size_bytes -= n;
        if (n == 0) { /* there must be another segment, or opening it fails */
            close(*fd);
            *fd = -1;
            ++*number;
        }
    }
}

uint32_t partitions_crc32c(const Partitions *partitions, int64_t unit_bytes, int64_t size_bytes) {
    int *fds = calloc((size_t)partitions->count, sizeof(int));
    int *numbers = calloc((size_t)partitions->count, sizeof(int));
    uint8_t *unit = new_memory(unit_bytes);
    uint32_t crc = 0;
    int partition = 0;
    errno = 0;
    if (fds == NULL || numbers == NULL)
        die("no memory");
    for (int i = 0; i < partitions->count; i++)
        fds[i] = -1;
    for (int64_t at = 0; at < size_bytes; at += unit_bytes) {
        int64_t n = size_bytes - at < unit_bytes ? size_bytes - at : unit_bytes;
        read_on(&fds[partition], &numbers[partition], partition, unit, n);
        crc = crc32c(crc, unit, n);
        partition = (partition + 1) % partitions->count;
    }
    for (int i = 0; i < partitions->count; i++)
        close(fds[i]);
    free(unit);
    free(numbers);
    free(fds);
    return crc;
}

void partitions_end(Partitions *partitions) {
    char name[NAME_BYTES];
    for (int i = 0; i < partitions->count; i++) {
        close(partitions->files[i].fd);
        for (int number = 0; number <= partitions->files[i].number && !option("keep"); number++)
            unlink(segment_name(name, i, number));
    }
    free(partitions->files);
}
