/* stage: only the append, without a client. Either each batch goes to its file with a pwrite, or it is copied into a
   chunk, and a full chunk goes to the file. What a staged tail saves, and which chunk size is best. */
#include "files.h"
#include "loop.h"
#include "loops.h"
#include "tail.h"

Option STAGE_OPTIONS[] = {
    MIB_OPTION,
    COMMON_OPTIONS,
    {"staged", 1, "1: through chunks; 0: a pwrite for each batch"},
    {"batch_kib", 8, "size of a batch"},
    {"chunk_kib", 256, "size of a chunk"},
    {"partitions", 6, "chunks and files that get the batches in turn"},
};
const int STAGE_OPTIONS_COUNT = sizeof STAGE_OPTIONS / sizeof *STAGE_OPTIONS;

static void stage_direct(int64_t batch_bytes, int64_t warm_bytes, int64_t end) {
    Partitions partitions;
    int partition = 0;
    partitions_make(&partitions, (int)positive("partitions"));
    for (int64_t at = 0; at < end; at += batch_bytes) {
        if (at == warm_bytes)
            clock_start();
        partition_append(&partitions, partition, pattern_at(at), batch_bytes);
        partition = partition + 1 == partitions.count ? 0 : partition + 1;
    }
    clock_stop();
    if (option("verify"))
        result_compare(pattern_crc32c(end), partitions_crc32c(&partitions, batch_bytes, end));
    partitions_end(&partitions);
}

static void stage_in_chunks(int64_t batch_bytes, int64_t warm_bytes, int64_t end) {
    Tail tail;
    tail_make(&tail);
    for (int64_t at = 0; at < end; at += batch_bytes) {
        if (at == warm_bytes)
            clock_start();
        tail_append(&tail, pattern_at(at), batch_bytes);
    }
    tail_flush(&tail);
    clock_stop();
    tail_end(&tail, batch_bytes, end);
}

void stage(void) {
    int64_t batch_bytes = positive("batch_kib") * KIB, warm_bytes = whole(option("warm_mib") * MIB, batch_bytes);
    int64_t end = warm_bytes + whole(positive("mib") * MIB, batch_bytes);
    pattern_make(batch_bytes);
    if (option("staged"))
        stage_in_chunks(batch_bytes, warm_bytes, end);
    else
        stage_direct(batch_bytes, warm_bytes, end);
    result_print("stage", end - warm_bytes);
}
