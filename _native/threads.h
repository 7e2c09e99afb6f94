/* Native threads of the broker: they never take the GIL. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <signal.h>

/* Signals are for the Python thread. 0 or an errno. */
static int start_thread(pthread_t *thread, void *(*run)(void *), void *argument, const char *name) {
    sigset_t all, old;
    int error;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!error)
        pthread_setname_np(*thread, name);
    return error;
}
