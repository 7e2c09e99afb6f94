/* Partition files as the broker appends to them: new pages, blocks reserved ahead, segments of 1 GiB. */
#pragma once
#include <stdint.h>

typedef struct {
    int fd;
    int64_t position;
    int64_t reserved_bytes; /* blocks are reserved up to this position */
    int number;             /* of the segment */
} PartitionFile;

typedef struct {
    int count;
    PartitionFile *files;
} Partitions;

/* Creates the first segment of each partition in the working directory. */
void partitions_make(Partitions *partitions, int count);
/* Appends with one pwrite. */
void partition_append(Partitions *partitions, int partition, const uint8_t *data, int64_t size_bytes);
/* Returns the CRC-32C of the stored stream, of which each unit went to the partitions in turn. */
uint32_t partitions_crc32c(const Partitions *partitions, int64_t unit_bytes, int64_t size_bytes);
/* Closes the files, and removes them unless the option `keep` is set. */
void partitions_end(Partitions *partitions);
