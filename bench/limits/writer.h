/* Durable writes to a pre-written file, one at a time, while the caller goes on: as _native/wal does them, with
   O_DIRECT and RWF_DSYNC, by io_uring or, where the kernel refuses that, by a thread. */
#pragma once
#include <stdint.h>

enum { BLOCK_BYTES = 4096 };

/* Creates the file and writes all of it once, so that later writes change no metadata. */
void writer_open(const char *path, int64_t file_bytes, int with_io_uring);
/* Readable when a write has ended. */
int writer_fd(void);
/* Begins a write of whole blocks; `data` is aligned to a block and must stay until the write has ended. */
void writer_begin(const uint8_t *data, int64_t size_bytes, int64_t position);
/* Returns 1 once after each write that is on the medium, 0 before. Dies when the write failed. */
int writer_ended(void);
/* Adds to the result how it wrote, and ends. */
void writer_close(void);
