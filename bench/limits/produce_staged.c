/* produce-staged: recv, CRC-32C, memcpy of each batch into its partition's chunk, one pwrite for each full chunk. The
   limit of a broker with a staged tail. */
#include "loop.h"
#include "loops.h"
#include "tail.h"
#include <unistd.h>

Option PRODUCE_STAGED_OPTIONS[] = {
    MIB_OPTION,
    COMMON_OPTIONS,
    {"batch_kib", 8, "size of a batch"},
    {"chunk_kib", 256, "size of a chunk"},
    {"request_kib", 64, "size of the client's sends"},
    {"partitions", 6, "chunks and files that get the batches in turn"},
};
const int PRODUCE_STAGED_OPTIONS_COUNT = sizeof PRODUCE_STAGED_OPTIONS / sizeof *PRODUCE_STAGED_OPTIONS;

static int64_t stream_end;

static void sender(int socket) { send_stream(socket, 0, stream_end); }

void produce_staged(void) {
    int64_t batch_bytes = positive("batch_kib") * KIB, warm_bytes = whole(option("warm_mib") * MIB, batch_bytes);
    int64_t at = 0;
    const uint8_t *batch;
    Tail tail;
    Inlet inlet;
    stream_end = warm_bytes + whole(positive("mib") * MIB, batch_bytes);
    pattern_make(positive("request_kib") * KIB);
    tail_make(&tail);
    inlet_make(&inlet, batch_bytes);
    inlet.socket = peer_start(sender);
    if (warm_bytes == 0)
        clock_start();
    while (at < stream_end) {
        inlet_receive(&inlet, 0);
        while ((batch = inlet_next(&inlet)) != NULL) {
            tail_append(&tail, batch, batch_bytes);
            at += batch_bytes;
            if (at == warm_bytes)
                clock_start();
        }
    }
    tail_flush(&tail);
    clock_stop();
    close(inlet.socket);
    peer_wait();
    tail_end(&tail, batch_bytes, stream_end);
    result_print("produce-staged", stream_end - warm_bytes);
}
