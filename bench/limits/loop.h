/* What the bare loops share: options, test data, the clock, the peer's process and the JSON they print.

   A loop is the server. Its peer, the client, is a child process, whose processor time is not counted. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

/* Prints the message to standard error, with the text of errno unless that is 0, and ends the process. */
__attribute__((format(printf, 1, 2))) noreturn void die(const char *format, ...);
/* Returns `found`, or dies with `what` when it is negative. */
int64_t check(int64_t found, const char *what);
/* Returns touched memory, aligned to pages, so that no page fault is left for the clock. */
uint8_t *new_memory(int64_t size_bytes);

/* ---------------------------------------------------------------- options */

typedef struct {
    const char *name;
    int64_t value; /* the default, until options_parse replaces it */
    const char *help;
} Option;

#define MIB_OPTION {"mib", 2048, "MiB to move"}
/* Every loop has these. */
#define COMMON_OPTIONS                                                                                       \
    {"warm_mib", 64, "MiB moved before the clock starts"},                                                   \
    {"verify", 0, "1: compare what is stored or received with what was sent, after the clock"},              \
    {"keep", 0, "1: leave the files"}

/* Replaces values by arguments of the form name=value. Dies on an unknown name or a bad number. */
void options_parse(Option *options, int count, char **arguments);
int64_t option(const char *name);
/* The same; dies when it is 0. */
int64_t positive(const char *name);
/* Rounds up to whole units. */
int64_t whole(int64_t size_bytes, int64_t unit_bytes);

/* ---------------------------------------------------------------- test data */

/* The stream that is sent: pseudo-random, and repeated after a length that is no power of two, so that a piece
   at a wrong place is noticed. */
enum { PATTERN_BYTES = 1000000 };
/* Makes the pattern; `at_once_bytes`: the most that one call of pattern_at may be used for. */
void pattern_make(int64_t at_once_bytes);
const uint8_t *pattern_at(int64_t position);
/* CRC-32C of the stream from its start. */
uint32_t pattern_crc32c(int64_t size_bytes);
/* `crc` is what an earlier call returned for the bytes before these, or 0. */
uint32_t crc32c(uint32_t crc, const uint8_t *data, int64_t size_bytes);

/* ---------------------------------------------------------------- peers */

/* Starts a child process that runs `peer` on one end of a loopback connection; returns the other end. */
int peer_start(void (*peer)(int socket));
/* Waits for its end; dies when it failed. */
void peer_wait(void);
/* A peer hands one struct over to its parent, which reads it before peer_wait. */
void peer_report(const void *data, size_t size);
void peer_read(void *data, size_t size);
/* Sends the stream in pieces of request_kib up to `end`: the peer of loops that receive. */
void send_stream(int socket, int64_t start, int64_t end);
void send_whole(int socket, const void *data, int64_t size_bytes);

/* Receives the stream so that every unit (a piece, a batch, a request) lies whole in the buffer. */
typedef struct {
    int socket;
    int64_t unit_bytes;
    uint8_t *buffer;
    int64_t capacity; /* whole units */
    int64_t start;    /* of the units that inlet_next has not returned */
    int64_t fill;
    int64_t received_bytes;
    uint32_t crc; /* of all that was received */
} Inlet;

void inlet_make(Inlet *inlet, int64_t unit_bytes);
int inlet_has_room(const Inlet *inlet);
/* Receives once and continues the CRC. Returns the bytes; 0 with MSG_DONTWAIT when there are none. Dies at the end of
   the stream: a loop receives no more than is sent. */
int64_t inlet_receive(Inlet *inlet, int flags);
/* Returns the next whole unit, NULL if there is none. It is valid until the next call of inlet_receive. */
const uint8_t *inlet_next(Inlet *inlet);

/* ---------------------------------------------------------------- clock and results */

double wall_now(void);  /* seconds */
void clock_start(void); /* after the warm-up */
void clock_stop(void);
/* Adds a figure to the printed object. */
void result_add(const char *name, double value);
/* Prints one line of JSON: the loop, its options, bytes, cpu_s, wall_s, cpu_s_per_gb, gb_per_s and what was added. */
void result_print(const char *loop, int64_t bytes);
/* For `verify`: the result has the checksum `crc32c`. Dies when the two differ. */
void result_compare(uint32_t sent_crc32c, uint32_t stored_crc32c);
