/* The wall clock of a process, moved while it runs: preloaded, it adds the seconds that a mapped file holds.
 *
 * The monotonic clock stays true, as it does when somebody sets a machine's clock. (libfaketime 0.9.10 either moves it
 * as well, which no machine does, or fails clock_nanosleep, on which Python sleeps.) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const long *ahead;

__attribute__((constructor)) static void open_offset(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) ahead = mapped;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *out) {
    int failed = (int)syscall(SYS_clock_gettime, id, out);
    if (!failed && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) out->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *out, void *zone) {
    int failed = (int)syscall(SYS_gettimeofday, out, zone);
    if (!failed && ahead && out) out->tv_sec += *ahead;
    return failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
