#include "tail.h"
#include "loop.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const POOL = "pool";

void tail_make(Tail *tail) {
    int64_t pool_bytes;
    uint8_t *zeros;
    void *mapped;
    int fd;
    tail->partition = 0;
    tail->chunk_bytes = positive("chunk_kib") * KIB;
    partitions_make(&tail->partitions, (int)positive("partitions"));
    tail->fill = calloc((size_t)tail->partitions.count, sizeof *tail->fill);
    pool_bytes = tail->chunk_bytes * tail->partitions.count;
    if (tail->fill == NULL)
        die("no memory for the tail");
    /* Written once, so that no block is allocated and no page is new when the pool is used. */
    fd = (int)check(open(POOL, O_RDWR | O_CREAT | O_TRUNC, 0600), POOL);
    zeros = new_memory(tail->chunk_bytes);
    for (int i = 0; i < tail->partitions.count; i++)
        if (pwrite(fd, zeros, (size_t)tail->chunk_bytes, i * tail->chunk_bytes) != tail->chunk_bytes)
            die("the pool cannot be written");
    free(zeros);
    mapped = mmap(NULL, (size_t)pool_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (mapped == MAP_FAILED)
        die("mmap");
    close(fd);
    tail->chunks = mapped;
    memset(tail->chunks, 1, (size_t)pool_bytes);
}

static void write_chunk(Tail *tail, int partition) {
    partition_append(&tail->partitions, partition, tail->chunks + partition * tail->chunk_bytes, tail->fill[partition]);
    tail->fill[partition] = 0;
}

void tail_append(Tail *tail, const uint8_t *batch, int64_t size_bytes) {
    int partition = tail->partition;
    uint8_t *chunk = tail->chunks + partition * tail->chunk_bytes;
    tail->partition = partition + 1 == tail->partitions.count ? 0 : partition + 1;
    while (size_bytes > 0) {
        int64_t room = tail->chunk_bytes - tail->fill[partition];
        int64_t n = size_bytes < room ? size_bytes : room;
        memcpy(chunk + tail->fill[partition], batch, (size_t)n);
        tail->fill[partition] += n;
        batch += n;
        size_bytes -= n;
        if (tail->fill[partition] == tail->chunk_bytes)
            write_chunk(tail, partition);
    }
}

void tail_flush(Tail *tail) {
    for (int i = 0; i < tail->partitions.count; i++)
        if (tail->fill[i] > 0)
            write_chunk(tail, i);
}

void tail_end(Tail *tail, int64_t batch_bytes, int64_t size_bytes) {
    if (option("verify"))
        result_compare(pattern_crc32c(size_bytes), partitions_crc32c(&tail->partitions, batch_bytes, size_bytes));
    munmap(tail->chunks, (size_t)(tail->chunk_bytes * tail->partitions.count));
    free(tail->fill);
    unlink(POOL);
    partitions_end(&tail->partitions);
}
