/* A staged tail: one chunk for each partition in a recycled shared mapping, and one pwrite for each full chunk. */
#pragma once
#include "files.h"
#include <stdint.h>

typedef struct {
    Partitions partitions;
    int64_t chunk_bytes;
    int64_t *fill;
    uint8_t *chunks;
    int partition; /* that gets the next batch */
} Tail;

/* Makes the tail and its files by the options `partitions` and `chunk_kib`. */
void tail_make(Tail *tail);
/* Copies a batch into the chunk of the next partition. Chunks are written full, so a batch may begin in one and end in
   the next: then every write is aligned. */
void tail_append(Tail *tail, const uint8_t *batch, int64_t size_bytes);
/* Writes what is in the chunks. */
void tail_flush(Tail *tail);
/* Compares the files with the stream, if the option `verify` asks for it, and removes them. */
void tail_end(Tail *tail, int64_t batch_bytes, int64_t size_bytes);
