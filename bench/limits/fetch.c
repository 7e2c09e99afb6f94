/* fetch: sendfile of a cached file over loopback to a client that reads. The limit of a Fetch from the page cache. */
#include "loops.h"
#include "loop.h"
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

Option FETCH_OPTIONS[] = {
    MIB_OPTION,
    COMMON_OPTIONS,
    {"piece_kib", 1024, "the most that one sendfile sends"},
    {"file_mib", 512, "size of the cached file, which is sent again and again"},
    {"write_bytes", MIB, "of each write to that file: the page cache keeps small and uneven ones in smaller folios"},
    {"receive_kib", 0, "the client's receive buffer, 64 of Java's consumer; 0: the system sizes it"},
};
const int FETCH_OPTIONS_COUNT = sizeof FETCH_OPTIONS / sizeof *FETCH_OPTIONS;

static const char *const CACHED = "cached";

static void reader(int socket) {
    uint8_t *buffer = new_memory(MIB);
    int receive_bytes = (int)(option("receive_kib") * KIB);
    uint32_t crc = 0;
    int64_t n;
    if (receive_bytes > 0)
        check(setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes), "SO_RCVBUF");
    while ((n = check(recv(socket, buffer, MIB, 0), "recv")) > 0)
        if (option("verify"))
            crc = crc32c(crc, buffer, n);
    peer_report(&crc, sizeof crc);
}

static int cached_file(int64_t size_bytes) {
    int64_t write_bytes = positive("write_bytes"), n;
    uint8_t *read_back = new_memory(write_bytes);
    int fd = (int)check(open(CACHED, O_RDWR | O_CREAT | O_TRUNC, 0600), CACHED);
    for (int64_t at = 0; at < size_bytes; at += n) {
        n = size_bytes - at < write_bytes ? size_bytes - at : write_bytes;
        n = check(pwrite(fd, pattern_at(at), (size_t)n, at), "pwrite");
        check(pread(fd, read_back, (size_t)n, at), "pread");
    }
    return fd;
}

static int64_t send_file(int socket, int fd, int64_t file_bytes, int64_t piece_bytes, int64_t start, int64_t end) {
    while (start < end) {
        off_t offset = start % file_bytes;
        int64_t n = file_bytes - offset < end - start ? file_bytes - offset : end - start;
        start += check(sendfile(socket, fd, &offset, (size_t)(n < piece_bytes ? n : piece_bytes)), "sendfile");
    }
    return start;
}

/* CRC-32C of the file, read again and again. */
static uint32_t expected_crc32c(int64_t file_bytes, int64_t size_bytes) {
    uint32_t crc = 0;
    for (int64_t at = 0; at < size_bytes; at += MIB)
        crc = crc32c(crc, pattern_at(at % file_bytes), size_bytes - at < MIB ? size_bytes - at : MIB);
    return crc;
}

void fetch(void) {
    int64_t file_bytes = positive("file_mib") * MIB, piece_bytes = positive("piece_kib") * KIB;
    int64_t warm_bytes = option("warm_mib") * MIB, end = warm_bytes + positive("mib") * MIB;
    uint32_t received_crc32c;
    int fd, socket;
    pattern_make(positive("write_bytes") > MIB ? option("write_bytes") : MIB);
    fd = cached_file(file_bytes);
    socket = peer_start(reader);
    send_file(socket, fd, file_bytes, piece_bytes, 0, warm_bytes);
    clock_start();
    send_file(socket, fd, file_bytes, piece_bytes, warm_bytes, end);
    clock_stop();
    check(shutdown(socket, SHUT_WR), "shutdown");
    peer_read(&received_crc32c, sizeof received_crc32c);
    peer_wait();
    if (option("verify"))
        result_compare(expected_crc32c(file_bytes, end), received_crc32c);
    close(fd);
    if (!option("keep"))
        unlink(CACHED);
    result_print("fetch", end - warm_bytes);
}
