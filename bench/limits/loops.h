/* The loops: each has its options and a function that runs it and prints its result. */
#pragma once
#include "loop.h"

extern Option FETCH_OPTIONS[], FETCH_SEALED_OPTIONS[], PRODUCE_OPTIONS[], STAGE_OPTIONS[], PRODUCE_STAGED_OPTIONS[], COMMIT_OPTIONS[],
    STORED_OPTIONS[];
extern const int FETCH_OPTIONS_COUNT, FETCH_SEALED_OPTIONS_COUNT, PRODUCE_OPTIONS_COUNT, STAGE_OPTIONS_COUNT, PRODUCE_STAGED_OPTIONS_COUNT,
    COMMIT_OPTIONS_COUNT, STORED_OPTIONS_COUNT;

void fetch(void);
void fetch_sealed(void);
void produce(void);
void stage(void);
void produce_staged(void);
void commit(void);
void stored(void);
