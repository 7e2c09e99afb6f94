/* commit: recv, CRC-32C, copy into an aligned frame, durable write of a frame at a time to a pre-written file. The
   next frame gathers while one is on its way, and the client is answered when its bytes are on the medium. The limit of
   group commit. With staged=1 the batches also go through a staged tail to partition files, as a broker's must. */
#include "loop.h"
#include "loops.h"
#include "tail.h"
#include "writer.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Option COMMIT_OPTIONS[] = {
    MIB_OPTION,
    COMMON_OPTIONS,
    {"request_kib", 64, "size of a request"},
    {"in_flight", 5, "requests that the client sends before it waits for an answer"},
    {"frame_kib", 1024, "the most that one write takes"},
    {"file_mib", 64, "size of the pre-written file, which is written over again and again"},
    {"io_uring", 1, "0: a thread writes"},
    {"staged", 0, "1: batches go to partition files, too"},
    {"batch_kib", 8, "staged: size of a batch"},
    {"chunk_kib", 256, "staged: size of a chunk"},
    {"partitions", 6, "staged: chunks and files that get the batches in turn"},
};
const int COMMIT_OPTIONS_COUNT = sizeof COMMIT_OPTIONS / sizeof *COMMIT_OPTIONS;

static const char *const FRAMES = "frames";

/* Begins a frame; its requests follow, then zeros up to the next block. */
typedef struct {
    int64_t stream_position;
    int64_t payload_bytes;
    uint8_t reserved[48];
} FrameHeader;
_Static_assert(sizeof(FrameHeader) == 64, "as large as the write-ahead log's");

typedef struct {
    uint8_t *data;
    int64_t size_bytes; /* with the header; no more than that: the frame is empty */
    int64_t stream_position;
} Frame;

static int64_t request_bytes, warm_bytes, stream_end;

/* ---------------------------------------------------------------- the client */

typedef struct {
    double p50_ms, p99_ms, p999_ms, max_ms;
} Latencies;

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Keeps `in_flight` requests under way, and reports how long answers took. */
static void sender(int socket) {
    int64_t window = positive("in_flight") * request_bytes, sent = 0, durable = 0, answered;
    int64_t requests = stream_end / request_bytes, warm = warm_bytes / request_bytes, count = requests - warm;
    double *began = (double *)new_memory(requests * (int64_t)sizeof(double)), *took = began + warm;
    Latencies found;
    while (durable < stream_end) {
        for (; sent < stream_end && sent - durable < window; sent += request_bytes) {
            began[sent / request_bytes] = wall_now();
            send_whole(socket, pattern_at(sent), request_bytes);
        }
        if (check(recv(socket, &answered, sizeof answered, MSG_WAITALL), "recv") != sizeof answered)
            die("the server ended early");
        for (double now = wall_now(); durable < answered; durable += request_bytes)
            began[durable / request_bytes] = (now - began[durable / request_bytes]) * 1e3;
    }
    qsort(took, (size_t)count, sizeof *took, ascending);
    found = (Latencies){took[count / 2], took[count * 99 / 100], took[count * 999 / 1000], took[count - 1]};
    peer_report(&found, sizeof found);
}

/* ---------------------------------------------------------------- the server */

static int64_t frame_write(Frame *frame, int64_t position, int64_t file_bytes) {
    FrameHeader header = {.stream_position = frame->stream_position,
                          .payload_bytes = frame->size_bytes - (int64_t)sizeof header};
    int64_t padded = whole(frame->size_bytes, BLOCK_BYTES);
    memcpy(frame->data, &header, sizeof header);
    memset(frame->data + frame->size_bytes, 0, (size_t)(padded - frame->size_bytes));
    if (position + padded > file_bytes)
        position = 0;
    writer_begin(frame->data, padded, position);
    return position + padded;
}

static void wait_for(int socket, int receiving, int writing) {
    struct pollfd fds[2] = {{receiving ? socket : -1, POLLIN, 0}, {writing ? writer_fd() : -1, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR)
        die("poll");
}

static void stage_batches(Tail *tail, const uint8_t *request, int64_t batch_bytes) {
    for (int64_t at = 0; at < request_bytes; at += batch_bytes)
        tail_append(tail, request + at, batch_bytes);
}

/* Returns how much was durable when the clock started. */
static int64_t serve(Inlet *inlet, Tail *tail, int64_t frame_bytes, int64_t file_bytes) {
    Frame frames[2] = {{.data = new_memory(frame_bytes)}, {.data = new_memory(frame_bytes)}};
    Frame *open = &frames[0], *written = &frames[1], *other;
    int64_t position = 0, taken = 0, durable = 0, counted_from = -1, batch_bytes = option("batch_kib") * KIB;
    int64_t writes = 0;
    int writing = 0, moved, receiving;
    const uint8_t *request;
    open->size_bytes = written->size_bytes = sizeof(FrameHeader);
    while (durable < stream_end) {
        if (counted_from < 0 && durable >= warm_bytes) {
            counted_from = durable;
            writes = 0;
            clock_start();
        }
        moved = 0;
        if (writing && writer_ended()) {
            durable += written->size_bytes - (int64_t)sizeof(FrameHeader);
            send_whole(inlet->socket, &durable, sizeof durable);
            writing = 0;
            moved = 1;
        }
        if (!writing && open->size_bytes > (int64_t)sizeof(FrameHeader)) {
            position = frame_write(open, position, file_bytes);
            other = written, written = open, open = other;
            open->size_bytes = sizeof(FrameHeader);
            open->stream_position = taken;
            writing = moved = 1;
            writes++;
        }
        receiving = inlet->received_bytes < stream_end && inlet_has_room(inlet);
        if (receiving && inlet_receive(inlet, MSG_DONTWAIT) > 0)
            moved = 1;
        while (open->size_bytes + request_bytes <= frame_bytes && (request = inlet_next(inlet)) != NULL) {
            memcpy(open->data + open->size_bytes, request, (size_t)request_bytes);
            if (tail != NULL)
                stage_batches(tail, request, batch_bytes);
            open->size_bytes += request_bytes;
            taken += request_bytes;
            moved = 1;
        }
        if (!moved)
            wait_for(inlet->socket, receiving, writing);
    }
    if (tail != NULL)
        tail_flush(tail);
    clock_stop();
    result_add("mean_frame_kib", (double)(stream_end - counted_from) / (double)writes / KIB);
    return counted_from;
}

/* Returns the CRC-32C of the payloads of the frames in the file. */
static uint32_t frames_crc32c(int64_t frame_bytes) {
    uint8_t *frame = new_memory(frame_bytes);
    int fd = (int)check(open(FRAMES, O_RDONLY), FRAMES);
    uint32_t crc = 0;
    int64_t at = 0;
    errno = 0;
    for (int64_t found = 0; found < stream_end;) {
        FrameHeader header;
        if (pread(fd, &header, sizeof header, at) != sizeof header || header.stream_position != found ||
            header.payload_bytes <= 0 || header.payload_bytes > frame_bytes ||
            pread(fd, frame, (size_t)header.payload_bytes, at + (int64_t)sizeof header) != header.payload_bytes)
            die("no whole frame of the stream's byte %lld at %lld", (long long)found, (long long)at);
        crc = crc32c(crc, frame, header.payload_bytes);
        found += header.payload_bytes;
        at += whole((int64_t)sizeof header + header.payload_bytes, BLOCK_BYTES);
    }
    close(fd);
    free(frame);
    return crc;
}

static void check_options(int64_t frame_bytes, int64_t file_bytes) {
    int64_t most_bytes;
    errno = 0;
    if (request_bytes + (int64_t)sizeof(FrameHeader) > frame_bytes)
        die("a request of %lld KiB and the header do not fit into a frame of %lld KiB", (long long)request_bytes / KIB,
            (long long)frame_bytes / KIB);
    if (frame_bytes > file_bytes)
        die("the file is smaller than a frame");
    if (option("staged") && option("request_kib") % positive("batch_kib") != 0)
        die("a request must be whole batches");
    /* The worst case: each request is a frame of its own. */
    most_bytes = stream_end / request_bytes * whole(request_bytes + (int64_t)sizeof(FrameHeader), BLOCK_BYTES);
    if (option("verify") && most_bytes > file_bytes)
        die("verify needs a file that is not written over: a greater file_mib");
}

void commit(void) {
    int64_t frame_bytes = whole(positive("frame_kib") * KIB, BLOCK_BYTES), file_bytes = option("file_mib") * MIB;
    int64_t counted_from;
    int staged = option("staged") != 0;
    Latencies found;
    Inlet inlet;
    Tail tail;
    request_bytes = positive("request_kib") * KIB;
    warm_bytes = whole(option("warm_mib") * MIB, request_bytes);
    stream_end = warm_bytes + whole(positive("mib") * MIB, request_bytes);
    check_options(frame_bytes, file_bytes);
    pattern_make(request_bytes);
    if (staged)
        tail_make(&tail);
    writer_open(FRAMES, file_bytes, option("io_uring") != 0);
    inlet_make(&inlet, request_bytes);
    inlet.socket = peer_start(sender);
    counted_from = serve(&inlet, staged ? &tail : NULL, frame_bytes, file_bytes);
    peer_read(&found, sizeof found);
    close(inlet.socket);
    peer_wait();
    writer_close();
    result_add("p50_ms", found.p50_ms);
    result_add("p99_ms", found.p99_ms);
    result_add("p999_ms", found.p999_ms);
    result_add("max_ms", found.max_ms);
    if (option("verify"))
        result_compare(pattern_crc32c(stream_end), frames_crc32c(frame_bytes));
    if (staged)
        tail_end(&tail, option("batch_kib") * KIB, stream_end);
    if (!option("keep"))
        unlink(FRAMES);
    result_print("commit", stream_end - counted_from);
}
