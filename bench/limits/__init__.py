"""Runs bare C loops: what this machine can do without a broker, in the same round as the brokers.

`loops` compiles and runs them, `catalogue` names those beside the cases of the bench. `main.c` runs one
loop: `fetch.c`, `fetch_sealed.c` (over TLS), `produce.c` (also stored), `produce_staged.c`, `stage.c` or
`commit.c`. All share `loop.h`; `files.h` has partition files, `tail.h` the staged tail, `writer.h` durable
writes.
"""
