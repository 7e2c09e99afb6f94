/* A frame of the write-ahead log: what one group commit puts on the medium. Little-endian, as the machine is. */
#pragma once
#include <stdint.h>
#include <assert.h>

#define WAL_BLOCK 4096
#define WAL_MAGIC 0x314C4157u /* "WAL1" */
/* The last block of a segment holds a frame of this magic without entries: the checkpoint that was known when the log
   went on in another segment. So a segment is written over only after the medium says that it may be. */
#define WAL_TRAILER_MAGIC 0x54434157u /* "WACT" */

typedef struct {
    uint32_t magic;
    uint32_t crc;              /* CRC-32C of everything from here to the end of the payload */
    uint32_t payload_bytes;    /* entries, after this header */
    uint32_t frame_bytes;      /* header, payload and padding: whole blocks */
    uint64_t run;              /* random, chosen at each start */
    int64_t frame;             /* counts up over the life of a directory, without gaps within a run */
    int64_t checkpoint;        /* frames up to here were in synced partition files when this one was sealed */
    int64_t durable;           /* frames up to here were on the medium when this one was sealed */
    int32_t entries;
    int32_t reserved;
    uint64_t reserved2;
} WalFrameHeader;
static_assert(sizeof(WalFrameHeader) == 64, "a frame's header has 64 bytes");

typedef struct {
    uint8_t topic_id[16];
    int32_t partition;
    int16_t kind;              /* WAL_APPEND … */
    uint16_t moves;            /* of the partition between directories before it, since the start: orders entries of
                                  several write-ahead logs */
    int64_t offset;            /* of the first batch; or where the log is truncated or starts again */
    int64_t size_bytes;        /* of the batches that follow, padded to 8 */
    int64_t part_position;     /* WAL_PART: position of these bytes in the batch; else 0 */
} WalEntryHeader;
static_assert(sizeof(WalEntryHeader) == 48, "an entry's header has 48 bytes");
