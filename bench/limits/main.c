/* Runs one bare loop in a directory of its own: limits LOOP DIRECTORY [name=value …]. */
#include "loops.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(void);
    Option *options;
    const int *count;
} LOOPS[] = {
    {"fetch", fetch, FETCH_OPTIONS, &FETCH_OPTIONS_COUNT},
    {"fetch-sealed", fetch_sealed, FETCH_SEALED_OPTIONS, &FETCH_SEALED_OPTIONS_COUNT},
    {"produce", produce, PRODUCE_OPTIONS, &PRODUCE_OPTIONS_COUNT},
    {"stage", stage, STAGE_OPTIONS, &STAGE_OPTIONS_COUNT},
    {"produce-staged", produce_staged, PRODUCE_STAGED_OPTIONS, &PRODUCE_STAGED_OPTIONS_COUNT},
    {"commit", commit, COMMIT_OPTIONS, &COMMIT_OPTIONS_COUNT},
    {"stored", stored, STORED_OPTIONS, &STORED_OPTIONS_COUNT},
};
enum { LOOPS_COUNT = sizeof LOOPS / sizeof *LOOPS };

static int usage(void) {
    printf("limits LOOP DIRECTORY [name=value …]\n");
    for (int i = 0; i < LOOPS_COUNT; i++) {
        printf("%s\n", LOOPS[i].name);
        for (int j = 0; j < *LOOPS[i].count; j++) {
            const Option *each = &LOOPS[i].options[j];
            printf("  %s=%lld  %s\n", each->name, (long long)each->value, each->help);
        }
    }
    return 2;
}

int main(int count, char **arguments) {
    if (count < 3)
        return usage();
    for (int i = 0; i < LOOPS_COUNT; i++)
        if (strcmp(LOOPS[i].name, arguments[1]) == 0) {
            options_parse(LOOPS[i].options, *LOOPS[i].count, arguments + 3);
            check(chdir(arguments[2]), arguments[2]);
            signal(SIGPIPE, SIG_IGN); /* sendfile reports that the client has ended */
            LOOPS[i].run();
            return 0;
        }
    errno = 0;
    die("there is no loop %s", arguments[1]);
}
