/* produce: recv, CRC-32C, one pwrite for each piece into new pages. The limit of a broker that appends what it
   receives. stored: the same in steps that standard input asks for, while the files stay and grow. */
#include "files.h"
#include "loop.h"
#include "loops.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PRODUCE_PARAMETERS                                                                                   \
    {"piece_kib", 256, "size of a pwrite"},                                                                  \
    {"request_kib", 64, "size of the client's sends"},                                                       \
    {"partitions", 6, "files that get the pieces in turn"}

Option PRODUCE_OPTIONS[] = {MIB_OPTION, COMMON_OPTIONS, PRODUCE_PARAMETERS};
const int PRODUCE_OPTIONS_COUNT = sizeof PRODUCE_OPTIONS / sizeof *PRODUCE_OPTIONS;
Option STORED_OPTIONS[] = {COMMON_OPTIONS, PRODUCE_PARAMETERS};
const int STORED_OPTIONS_COUNT = sizeof STORED_OPTIONS / sizeof *STORED_OPTIONS;

static int64_t stream_start, stream_end;

static void sender(int socket) { send_stream(socket, stream_start, stream_end); }

/* Receives the stream from `start` to `end`, both whole pieces, and counts from `counted_from` on. */
static void receive(Partitions *partitions, Inlet *inlet, int64_t start, int64_t counted_from, int64_t end) {
    int64_t at = start;
    int partition = (int)(start / inlet->unit_bytes % partitions->count);
    const uint8_t *piece;
    stream_start = start;
    stream_end = end;
    inlet->socket = peer_start(sender);
    if (counted_from == start)
        clock_start();
    while (at < end) {
        inlet_receive(inlet, 0);
        while ((piece = inlet_next(inlet)) != NULL) {
            partition_append(partitions, partition, piece, inlet->unit_bytes);
            partition = partition + 1 == partitions->count ? 0 : partition + 1;
            at += inlet->unit_bytes;
            if (at == counted_from)
                clock_start();
        }
    }
    clock_stop();
    close(inlet->socket);
    peer_wait();
}

static void compare(const Partitions *partitions, const Inlet *inlet) {
    if (option("verify"))
        result_compare(pattern_crc32c(inlet->received_bytes),
                       partitions_crc32c(partitions, inlet->unit_bytes, inlet->received_bytes));
}

void produce(void) {
    int64_t piece_bytes = positive("piece_kib") * KIB;
    int64_t warm_bytes = whole(option("warm_mib") * MIB, piece_bytes);
    int64_t end = warm_bytes + whole(positive("mib") * MIB, piece_bytes);
    Partitions partitions;
    Inlet inlet;
    pattern_make(positive("request_kib") * KIB);
    partitions_make(&partitions, (int)positive("partitions"));
    inlet_make(&inlet, piece_bytes);
    receive(&partitions, &inlet, 0, warm_bytes, end);
    compare(&partitions, &inlet);
    partitions_end(&partitions);
    result_print("produce", end - warm_bytes);
}

/* Reads lines with a number of MiB, and prints the result of each step. Ends with its input. */
void stored(void) {
    int64_t piece_bytes = positive("piece_kib") * KIB;
    int64_t at = whole(option("warm_mib") * MIB, piece_bytes);
    Partitions partitions;
    Inlet inlet;
    char line[64];
    pattern_make(positive("request_kib") * KIB);
    partitions_make(&partitions, (int)positive("partitions"));
    inlet_make(&inlet, piece_bytes);
    if (at > 0)
        receive(&partitions, &inlet, 0, at, at);
    while (fgets(line, sizeof line, stdin) != NULL) {
        int64_t step = whole(strtoll(line, NULL, 10) * MIB, piece_bytes);
        errno = 0;
        if (step <= 0)
            die("a step must be a number of MiB greater than 0");
        receive(&partitions, &inlet, at, at, at + step);
        at += step;
        compare(&partitions, &inlet);
        result_add("stored_bytes", (double)at);
        result_print("stored", step);
    }
    partitions_end(&partitions);
}
