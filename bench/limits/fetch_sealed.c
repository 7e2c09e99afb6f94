/* fetch-sealed: pread of a cached file, AES-128-GCM in TLS records, send over loopback to a client that reads. The limit of
   a Fetch over TLS without kernel TLS. OpenSSL is loaded at run time, as by the broker. */
#include "loops.h"
#include "loop.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Option FETCH_SEALED_OPTIONS[] = {
    MIB_OPTION,
    COMMON_OPTIONS,
    {"piece_kib", 128, "the most that one send has"},
    {"file_mib", 512, "size of the cached file, which is sent again and again"},
};
const int FETCH_SEALED_OPTIONS_COUNT = sizeof FETCH_SEALED_OPTIONS / sizeof *FETCH_SEALED_OPTIONS;

enum { RECORD = 16 * KIB, HEADER = 5, TAG = 16, GET_TAG = 0x10 };
static const char *const CACHED = "cached";

static struct {
    void *state;
    const void *(*aes)(void);
    void *(*new_state)(void);
    int (*init)(void *, const void *, void *, const uint8_t *, const uint8_t *);
    int (*update)(void *, uint8_t *, int *, const uint8_t *, int);
    int (*final)(void *, uint8_t *, int *);
    int (*ctrl)(void *, int, int, void *);
} evp;

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL)
        die("libcrypto.so.3 has no %s", name);
    return found;
}

static void load(void) {
    static const uint8_t key[16] = {1}, nonce[12] = {2};
    void *library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        die("there is no libcrypto.so.3: install libssl3%s", "");
    *(void **)&evp.aes = function(library, "EVP_aes_128_gcm");
    *(void **)&evp.new_state = function(library, "EVP_CIPHER_CTX_new");
    *(void **)&evp.init = function(library, "EVP_EncryptInit_ex");
    *(void **)&evp.update = function(library, "EVP_EncryptUpdate");
    *(void **)&evp.final = function(library, "EVP_EncryptFinal_ex");
    *(void **)&evp.ctrl = function(library, "EVP_CIPHER_CTX_ctrl");
    evp.state = evp.new_state();
    evp.init(evp.state, evp.aes(), NULL, key, nonce);
}

static int seal(uint8_t *out, const uint8_t *data, int n, uint64_t number) {
    static const uint8_t header[HEADER] = {23, 3, 3, (RECORD + TAG) >> 8, (RECORD + TAG) & 255};
    uint8_t nonce[12] = {2};
    int size;
    memcpy(nonce + 4, &number, sizeof number);
    memcpy(out, header, HEADER);
    evp.init(evp.state, NULL, NULL, NULL, nonce);
    evp.update(evp.state, NULL, &size, header, HEADER);
    evp.update(evp.state, out + HEADER, &size, data, n);
    evp.final(evp.state, out + HEADER + n, &size);
    evp.ctrl(evp.state, GET_TAG, TAG, out + HEADER + n);
    return HEADER + n + TAG;
}

static void reader(int socket) {
    uint8_t *buffer = new_memory(MIB);
    uint32_t crc = 0;
    int64_t n;
    while ((n = check(recv(socket, buffer, MIB, 0), "recv")) > 0)
        if (option("verify"))
            crc = crc32c(crc, buffer, n);
    peer_report(&crc, sizeof crc);
}

static uint32_t send_sealed(int socket, int fd, int64_t start, int64_t end, uint32_t crc) {
    int64_t piece_bytes = positive("piece_kib") * KIB, file_bytes = positive("file_mib") * MIB;
    static uint8_t *plain, *sealed;
    if (plain == NULL) {
        plain = new_memory(piece_bytes);
        sealed = new_memory(2 * piece_bytes + MIB);
    }
    while (start < end) {
        int64_t wanted = piece_bytes < end - start ? piece_bytes : end - start, size = 0, sent = 0;
        int64_t n = check(pread(fd, plain, wanted, start % file_bytes), "pread");
        for (int64_t at = 0; at < n; at += RECORD)
            size += seal(sealed + size, plain + at, (int)(n - at < RECORD ? n - at : RECORD), (start + at) / RECORD);
        if (option("verify"))
            crc = crc32c(crc, sealed, size);
        while (sent < size)
            sent += check(send(socket, sealed + sent, size - sent, 0), "send");
        start += n;
    }
    return crc;
}

void fetch_sealed(void) {
    int64_t file_bytes = positive("file_mib") * MIB, warm_bytes = option("warm_mib") * MIB;
    int64_t end = warm_bytes + positive("mib") * MIB;
    uint32_t crc, received_crc32c;
    int fd = (int)check(open(CACHED, O_RDWR | O_CREAT | O_TRUNC, 0600), CACHED), socket;
    pattern_make(MIB);
    for (int64_t at = 0; at < file_bytes; at += MIB)
        check(pwrite(fd, pattern_at(at), MIB, at), "pwrite");
    load();
    socket = peer_start(reader);
    crc = send_sealed(socket, fd, 0, warm_bytes, 0);
    clock_start();
    crc = send_sealed(socket, fd, warm_bytes, end, crc);
    clock_stop();
    check(shutdown(socket, SHUT_WR), "shutdown");
    peer_read(&received_crc32c, sizeof received_crc32c);
    peer_wait();
    if (option("verify"))
        result_compare(crc, received_crc32c);
    close(fd);
    if (!option("keep"))
        unlink(CACHED);
    result_print("fetch-sealed", end - warm_bytes);
}
