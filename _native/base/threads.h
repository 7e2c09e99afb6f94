/* Native threads of the broker: they never take the GIL. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Asks the scheduler to let this thread run soon and briefly instead of late and long, its share unchanged: on a
   busy machine it then waits a fraction of a millisecond for a processor where the usual slice makes it three.
   sched_setattr(2): Linux 6.12 and newer take the runtime of an ordinary thread as the slice it wishes; older ones
   pass over it, and where the call is not allowed everything stays as it was. */
static void ask_short_slice(void) {
#ifdef SYS_sched_setattr
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes;
    attributes.size = sizeof attributes;
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER)
        return;
    attributes.size = sizeof attributes;
    attributes.runtime = 100000; /* ns, the shortest there is */
    syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

/* For work in the background: this thread gets a third of a processor beside a busy thread of usual niceness, and all
   of an idle one. */
static void be_background(void) {
    id_t self = (id_t)syscall(SYS_gettid);
    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + 5);
}

/* Blocks signals, which the Python thread handles. Returns 0 or an errno. */
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
