#include "loop.h"
#include "crc32c.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, RECEIVE_BYTES = 256 * KIB, ADDED_MAX = 16 };

void die(const char *format, ...) {
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, error ? ": %s\n" : "\n", strerror(error));
    exit(1);
}

int64_t check(int64_t found, const char *what) {
    if (found < 0)
        die("%s", what);
    return found;
}

uint8_t *new_memory(int64_t size_bytes) {
    void *memory = NULL;
    errno = posix_memalign(&memory, PAGE_BYTES, (size_t)size_bytes);
    if (errno != 0)
        die("no memory for %lld bytes", (long long)size_bytes);
    memset(memory, 1, (size_t)size_bytes);
    return memory;
}

/* ---------------------------------------------------------------- options */

static Option *known;
static int known_count;

static Option *find(const char *name, size_t size) {
    for (int i = 0; i < known_count; i++)
        if (strlen(known[i].name) == size && memcmp(known[i].name, name, size) == 0)
            return &known[i];
    return NULL;
}

void options_parse(Option *options, int count, char **arguments) {
    known = options;
    known_count = count;
    for (; *arguments != NULL; arguments++) {
        const char *equals = strchr(*arguments, '=');
        char *end = NULL;
        Option *found = equals != NULL ? find(*arguments, (size_t)(equals - *arguments)) : NULL;
        errno = 0;
        if (found == NULL)
            die("unknown option %s", *arguments);
        found->value = strtoll(equals + 1, &end, 10);
        if (end == equals + 1 || *end != '\0' || found->value < 0)
            die("%s: not a number of at least 0", *arguments);
    }
}

int64_t option(const char *name) {
    Option *found = find(name, strlen(name));
    errno = 0;
    if (found == NULL)
        die("the loop has no option %s", name);
    return found->value;
}

int64_t positive(const char *name) {
    int64_t value = option(name);
    if (value == 0)
        die("%s must be greater than 0", name);
    return value;
}

int64_t whole(int64_t size_bytes, int64_t unit_bytes) {
    return (size_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

/* ---------------------------------------------------------------- test data */

static uint8_t *pattern;

void pattern_make(int64_t at_once_bytes) {
    uint64_t state = 0, word;
    pattern = new_memory(PATTERN_BYTES + at_once_bytes);
    for (int64_t at = 0; at < PATTERN_BYTES; at += 8) { /* splitmix64 */
        word = state += 0x9e3779b97f4a7c15u;
        word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
        word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
        word ^= word >> 31;
        memcpy(pattern + at, &word, sizeof word);
    }
    for (int64_t at = 0; at < at_once_bytes; at++)
        pattern[PATTERN_BYTES + at] = pattern[at];
}

const uint8_t *pattern_at(int64_t position) { return pattern + position % PATTERN_BYTES; }

uint32_t pattern_crc32c(int64_t size_bytes) {
    uint32_t crc = 0;
    for (int64_t at = 0; at < size_bytes; at += PATTERN_BYTES)
        crc = crc32c(crc, pattern, size_bytes - at < PATTERN_BYTES ? size_bytes - at : PATTERN_BYTES);
    return crc;
}

uint32_t crc32c(uint32_t crc, const uint8_t *data, int64_t size_bytes) {
    return crc32c_extend(crc, data, (size_t)size_bytes);
}

/* ---------------------------------------------------------------- peers */

static pid_t peer_pid;
static int report_pipe[2];

int peer_start(void (*peer)(int socket)) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int one = 1, client, server;
    int listener = (int)check(socket(AF_INET, SOCK_STREAM, 0), "socket");
    check(bind(listener, (struct sockaddr *)&address, size), "bind");
    check(listen(listener, 1), "listen");
    check(getsockname(listener, (struct sockaddr *)&address, &size), "getsockname");
    client = (int)check(socket(AF_INET, SOCK_STREAM, 0), "socket");
    check(connect(client, (struct sockaddr *)&address, size), "connect");
    server = (int)check(accept(listener, NULL, NULL), "accept");
    close(listener);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    check(pipe(report_pipe), "pipe");
    peer_pid = (pid_t)check(fork(), "fork");
    if (peer_pid == 0) {
        close(server);
        close(report_pipe[0]);
        peer(client);
        _exit(0);
    }
    close(client);
    close(report_pipe[1]);
    return server;
}

void peer_wait(void) {
    int status = 0;
    close(report_pipe[0]);
    check(waitpid(peer_pid, &status, 0), "waitpid");
    errno = 0;
    if (status != 0)
        die("the client's process failed");
}

void peer_report(const void *data, size_t size) {
    if (write(report_pipe[1], data, size) != (ssize_t)size)
        die("the client cannot report");
}

void peer_read(void *data, size_t size) {
    errno = 0;
    if (read(report_pipe[0], data, size) != (ssize_t)size)
        die("the client reports nothing");
}

void send_whole(int socket, const void *data, int64_t size_bytes) {
    const uint8_t *at = data;
    while (size_bytes > 0) {
        int64_t n = check(send(socket, at, (size_t)size_bytes, MSG_NOSIGNAL), "send");
        at += n;
        size_bytes -= n;
    }
}

void send_stream(int socket, int64_t start, int64_t end) {
    int64_t request_bytes = positive("request_kib") * KIB;
    for (int64_t at = start; at < end; at += request_bytes)
        send_whole(socket, pattern_at(at), end - at < request_bytes ? end - at : request_bytes);
}

void inlet_make(Inlet *inlet, int64_t unit_bytes) {
    int64_t units = unit_bytes < RECEIVE_BYTES ? RECEIVE_BYTES / unit_bytes : 1;
    *inlet = (Inlet){.unit_bytes = unit_bytes, .capacity = units * unit_bytes};
    inlet->buffer = new_memory(inlet->capacity);
}

int inlet_has_room(const Inlet *inlet) { return inlet->start == inlet->fill || inlet->fill < inlet->capacity; }

int64_t inlet_receive(Inlet *inlet, int flags) {
    int64_t n;
    if (inlet->start == inlet->fill)
        inlet->start = inlet->fill = 0;
    n = recv(inlet->socket, inlet->buffer + inlet->fill, (size_t)(inlet->capacity - inlet->fill), flags);
    if (n < 0 && (flags & MSG_DONTWAIT) && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (check(n, "recv") == 0) {
        errno = 0;
        die("the client ended early");
    }
    inlet->crc = crc32c(inlet->crc, inlet->buffer + inlet->fill, n);
    inlet->fill += n;
    inlet->received_bytes += n;
    return n;
}

const uint8_t *inlet_next(Inlet *inlet) {
    const uint8_t *unit = inlet->buffer + inlet->start;
    if (inlet->fill - inlet->start < inlet->unit_bytes)
        return NULL;
    inlet->start += inlet->unit_bytes;
    return unit;
}

/* ---------------------------------------------------------------- clock and results */

static double cpu_before, wall_before, cpu_s, wall_s;
static struct {
    const char *name;
    double value;
} added[ADDED_MAX];
static int added_count, verified;
static uint32_t verified_crc32c;

static double cpu_now(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

double wall_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void clock_start(void) {
    cpu_before = cpu_now();
    wall_before = wall_now();
}

void clock_stop(void) {
    wall_s = wall_now() - wall_before;
    cpu_s = cpu_now() - cpu_before;
}

void result_add(const char *name, double value) {
    errno = 0;
    if (added_count == ADDED_MAX)
        die("too many figures");
    added[added_count].name = name;
    added[added_count++].value = value;
}

void result_print(const char *loop, int64_t bytes) {
    double gb = (double)bytes / 1e9;
    printf("{\"loop\": \"%s\", \"options\": {", loop);
    for (int i = 0; i < known_count; i++)
        printf("%s\"%s\": %lld", i ? ", " : "", known[i].name, (long long)known[i].value);
    printf("}, \"bytes\": %lld, \"cpu_s\": %.6f, \"wall_s\": %.6f, ", (long long)bytes, cpu_s, wall_s);
    printf("\"cpu_s_per_gb\": %.6f, \"gb_per_s\": %.6f", cpu_s / gb, gb / wall_s);
    for (int i = 0; i < added_count; i++)
        printf(", \"%s\": %.15g", added[i].name, added[i].value);
    if (verified)
        printf(", \"crc32c\": %lu", (unsigned long)verified_crc32c);
    printf("}\n");
    fflush(stdout);
    added_count = verified = 0;
}

void result_compare(uint32_t sent_crc32c, uint32_t stored_crc32c) {
    errno = 0;
    if (sent_crc32c != stored_crc32c)
        die("what is stored is not what was sent: CRC-32C %08x, not %08x", stored_crc32c, sent_crc32c);
    verified = 1;
    verified_crc32c = sent_crc32c;
}
