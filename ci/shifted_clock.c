/* Loaded by LD_PRELOAD: the time of day is $KCORE_SHIFT_S seconds ahead. Monotonic clocks go on as they are, unlike
 * under libfaketime 0.9.10, where locks of Python and Rust wait for the shift, or (without it) time.sleep() fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
#define OLDEST_TIME_OF_DAY_S 1000000000 /* A monotonic clock is far below. */

static time_t shift_s(void) {
    static time_t shift;
    if (!shift) shift = getenv("KCORE_SHIFT_S") ? atoll(getenv("KCORE_SHIFT_S")) : 0;
    return shift;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static typeof(&clock_gettime) next;
    if (!next) next = NEXT(clock_gettime);
    int code = next(clock, at);
    if (!code && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += shift_s();
    return code;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    static typeof(&gettimeofday) next;
    if (!next) next = NEXT(gettimeofday);
    int code = next(at, zone);
    if (!code) at->tv_sec += shift_s();
    return code;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

/* Deadlines by the time of day, as the kernel has it. */
static const struct timespec *real(const struct timespec *deadline, struct timespec *room) {
    *room = *deadline;
    if (room->tv_sec > OLDEST_TIME_OF_DAY_S) room->tv_sec -= shift_s();
    return room;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
    struct timespec room;
    return NEXT(sem_timedwait)(semaphore, real(deadline, &room));
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
    static typeof(&pthread_cond_timedwait) next;
    struct timespec room;
    /* Without a version dlsym() finds glibc's first one on x86-64, which takes another kind of condition. */
    if (!next) next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!next) next = NEXT(pthread_cond_timedwait);
    return next(condition, mutex, real(deadline, &room));
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict deadline) {
    struct timespec room;
    return NEXT(cnd_timedwait)(condition, mutex, real(deadline, &room));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline) {
    struct timespec room;
    return NEXT(pthread_mutex_timedlock)(mutex, real(deadline, &room));
}
