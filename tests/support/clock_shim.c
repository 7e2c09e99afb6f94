/* Loaded before a program's libraries (LD_PRELOAD): shifts its time of day by the seconds in the file CLOCK_OFFSET_FILE names, eight
   bytes that others change while it runs. The steady clock stays as it is, as when somebody sets a machine's clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOCK_OFFSET_FILE");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (fd >= 0) {
        void *found = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
        if (found != MAP_FAILED)
            offset_s = found;
        close(fd);
    }
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int result = real_clock_gettime != NULL ? real_clock_gettime(id, now) : -1;
    if (result == 0 && offset_s != NULL && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += *offset_s;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &found) != 0)
        return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec found = {0};
    clock_gettime(CLOCK_REALTIME, &found);
    if (out != NULL)
        *out = found.tv_sec;
    return found.tv_sec;
}
