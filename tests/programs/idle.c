// Waits that should be skipped: how many there were, and whether each ended in order and in time.
//
//   idle cron COUNT SECONDS        waits this many times for the next multiple of so many seconds
//   idle many PROCESSES COUNT      this many processes wait this often, for spans of their own; they
//                                  record when they woke, in shared memory; the first
//                                  reports when it has woken often
//   idle same PROCESSES            this many processes wait for the same instant
//   idle timers                    a timer descriptor every hour, a POSIX timer every two hours, the
//                                  interval timer every three, all for a day and a half
//   idle blocked                   a POSIX timer and the interval timer, every hour, whose signals
//                                  stay pending for an hour and a half before they are taken
//   idle descriptor                a process that has a timer descriptor and makes no other call
//                                  related to time, beside one that waits for days
//   idle orphaned                  a thread waits after its process's first thread has ended
//
// `many` and `same` print one line for each wake-up that was early, out of order or missing, and a
// digest of the order; the exit status is 1 if there was any.
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECOND = 1000000000, WAIT_BITSET_PRIVATE = 9 | 128, ANY_BIT = -1, MANY = 64 };

// A wait for an instant in the past does not wait.
struct wake {
    int64_t began, due, woke;
    uint32_t process;
    _Atomic uint32_t there;
};

struct log {
    _Atomic uint64_t count;
    struct wake wakes[];
};

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * SECOND + time.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "idle: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void until(int64_t due) {
    struct timespec time = {.tv_sec = due / SECOND, .tv_nsec = due % SECOND};
    if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        fail("clock_nanosleep");
}

static int cron(long count, long seconds) {
    time_t span = seconds;
    for (long wake = 0; wake < count; wake++) {
        struct timespec wall;
        clock_gettime(CLOCK_REALTIME, &wall);
        time_t next = wall.tv_sec / span * span + span;
        struct timespec left = {.tv_sec = next - wall.tv_sec};
        left.tv_nsec = -wall.tv_nsec;
        if (left.tv_nsec < 0) {
            left.tv_nsec += SECOND;
            left.tv_sec--;
        }
        nanosleep(&left, NULL);
        clock_gettime(CLOCK_REALTIME, &wall);
        if (wall.tv_sec < next || wall.tv_sec >= next + span) {
            printf("wake %ld: %lld, %lld s after its time\n", wake, (long long)wall.tv_sec,
                   (long long)(wall.tv_sec - next));
            return 1;
        }
    }
    printf("%ld wake-ups\n", count);
    return 0;
}

static void note(struct log *log, uint32_t process, int64_t began, int64_t due) {
    int64_t woke = now();
    struct wake *wake = &log->wakes[atomic_fetch_add(&log->count, 1)];
    wake->began = began;
    wake->due = due;
    wake->woke = woke;
    wake->process = process;
    atomic_store(&wake->there, 1);
}

static uint64_t next(uint64_t *state) {
    uint64_t word = *state;
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    return *state = word;
}

// The same with a futex that nothing wakes.
static void until_futex(int64_t due) {
    static uint32_t word;
    struct timespec time = {.tv_sec = due / SECOND, .tv_nsec = due % SECOND};
    syscall(SYS_futex, &word, WAIT_BITSET_PRIVATE, 0, &time, NULL, ANY_BIT);
    if (errno != ETIMEDOUT)
        fail("futex");
}

// Waits for instants that are 1 ms to 10 s apart, alternating between two ways.
static void wait_often(struct log *log, uint32_t process, uint64_t count, int64_t start) {
    uint64_t state = 0x9e3779b97f4a7c15u * (process + 1);
    int64_t due = start;
    for (uint64_t wake = 0; wake < count; wake++) {
        due += 1000000 + (int64_t)(next(&state) % (10ull * SECOND - 1000000));
        int64_t began = now();
        (wake % 2 == 0 ? until : until_futex)(due);
        note(log, process, began, due);
        if (process == 0 && wake == MANY)
            printf("has woken often\n");
    }
}

static volatile sig_atomic_t posix, interval;
static int64_t begin_of_timers;
static volatile int64_t latest;

static void count(int signal) {
    const int64_t hour = 3600 * (int64_t)SECOND;
    int64_t due = begin_of_timers + (signal == SIGUSR1 ? 2 * ++posix : 3 * ++interval) * hour;
    if (now() - due > latest)
        latest = now() - due;
}

static int timers(void) {
    const long hour = 3600, hours = 36;
    // Both signals arrive only while it waits.
    sigset_t both, none;
    sigemptyset(&none);
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGALRM);
    sigprocmask(SIG_BLOCK, &both, NULL);
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);

    int64_t begin = begin_of_timers = now();
    int descriptor = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec each = {.it_interval = {.tv_sec = hour}, .it_value = {.tv_sec = hour}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    if (descriptor < 0 || timerfd_settime(descriptor, 0, &each, NULL) != 0 ||
        timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        fail("timer");
    each.it_interval.tv_sec = each.it_value.tv_sec = 2 * hour;
    if (timer_settime(timer, 0, &each, NULL) != 0)
        fail("timer_settime");
    struct itimerval third = {.it_interval = {.tv_sec = 3 * hour}, .it_value = {.tv_sec = 3 * hour}};
    if (setitimer(ITIMER_REAL, &third, NULL) != 0)
        fail("setitimer");

    // Half an hour after the last one, so that all have come.
    int64_t end = begin + hours * hour * SECOND + hour / 2 * SECOND;
    uint64_t expirations = 0;
    while (now() < end) {
        struct pollfd one = {.fd = descriptor, .events = POLLIN};
        struct timespec left = {.tv_sec = (end - now()) / SECOND + 1};
        if (ppoll(&one, 1, &left, &none) == 1) {
            uint64_t ticks;
            if (read(descriptor, &ticks, sizeof ticks) != sizeof ticks)
                fail("read");
            expirations += ticks;
            int64_t late = now() - begin - (int64_t)expirations * hour * SECOND;
            if (late < 0 || late > 10 * (int64_t)SECOND) {
                printf("expiration %" PRIu64 " is %" PRId64 " ns late\n", expirations, late);
                return 1;
            }
        }
    }
    if (expirations != (uint64_t)hours || posix != hours / 2 || interval != hours / 3) {
        printf("%" PRIu64 " of the descriptor, %d of the POSIX timer, %d of the interval timer\n",
               expirations, (int)posix, (int)interval);
        return 1;
    }
    if (latest > 10 * (int64_t)SECOND) {
        printf("a signal is %" PRId64 " ns late\n", latest);
        return 1;
    }
    printf("%ld expirations\n", hours + hours / 2 + hours / 3);
    return 0;
}

static int judge(struct log *log, uint64_t expected, int64_t tolerance) {
    uint64_t count = log->count, early = 0, disordered = 0, late = 0, digest = 14695981039346656037u;
    int64_t worst = 0;
    struct wake *last = NULL;
    for (uint64_t index = 0; index < count; index++) {
        struct wake *wake = &log->wakes[index];
        digest = (digest ^ wake->process) * 1099511628211u;
        if (wake->woke < wake->due) {
            early++;
            printf("early: process %u by %" PRId64 " ns\n", wake->process, wake->due - wake->woke);
        }
        if (wake->woke - wake->due > worst)
            worst = wake->woke - wake->due;
        late += wake->woke - wake->due > tolerance;
        if (wake->began >= wake->due)
            continue;
        if (last != NULL && last->due > wake->due) {
            disordered++;
            printf("out of order: process %u after %u, which is due %" PRId64 " ns later\n",
                   wake->process, last->process, last->due - wake->due);
        }
        last = wake;
    }
    printf("%" PRIu64 " wake-ups of %" PRIu64 ", %" PRIu64 " early, %" PRIu64 " out of order, %" PRIu64
           " late; the latest by %" PRId64 " ns; order %016" PRIx64 "\n",
           count, expected, early, disordered, late, worst, digest);
    return count != expected || early || disordered || late;
}

/* Expirations that are pending while the clocks leap for something else. */
static int blocked(void) {
    const int64_t half = 1800 * (int64_t)SECOND;
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGALRM);
    sigprocmask(SIG_BLOCK, &both, NULL);
    int64_t begin = now();
    struct itimerspec each = {.it_interval = {.tv_sec = 3600}, .it_value = {.tv_sec = 3600}};
    struct itimerval same = {.it_interval = {.tv_sec = 3600}, .it_value = {.tv_sec = 3600}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &each, NULL) != 0 || setitimer(ITIMER_REAL, &same, NULL) != 0)
        fail("timer");
    until(begin + 3 * half);
    int taken = 0;
    for (int64_t due = 3 * half; due <= 6 * half; due += due == 3 * half ? half : 2 * half) {
        for (int each = 0; each < 2; each++) {
            siginfo_t info;
            int signal = sigwaitinfo(&both, &info);
            int64_t late = now() - begin - due;
            if (late < 0 || late > 10 * (int64_t)SECOND ||
                (signal == SIGUSR1 && info.si_overrun != 0)) {
                printf("signal %d is %" PRId64 " ns late\n", signal, late);
                return 1;
            }
            taken += signal == SIGUSR1 ? 1 : 100;
        }
    }
    if (taken != 303) {
        printf("others were taken: %d\n", taken);
        return 1;
    }
    printf("3 of each\n");
    return 0;
}

/* A child whose only calls related to time set and read a descriptor, beside longer sleeps. */
static int descriptor(void) {
    const long hour = 3600;
    int64_t begin = now();
    pid_t child = fork();
    if (child == 0) {
        struct itimerspec each = {.it_interval = {.tv_sec = hour}, .it_value = {.tv_sec = hour}};
        int timer = timerfd_create(CLOCK_MONOTONIC, 0);
        uint64_t ticks;
        if (timer < 0 || timerfd_settime(timer, 0, &each, NULL) != 0)
            fail("timer");
        for (int64_t tick = 1; tick <= 50; tick++) {
            if (read(timer, &ticks, sizeof ticks) != sizeof ticks)
                fail("read");
            int64_t late = now() - begin - tick * hour * SECOND;
            if (ticks != 1 || late < 0 || late > 10 * (int64_t)SECOND) {
                printf("%" PRIu64 " at once, %" PRId64 " ns late\n", ticks, late);
                _exit(1);
            }
        }
        _exit(0);
    }
    for (int day = 0; day < 3; day++)
        until(now() + 24 * hour * (int64_t)SECOND);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        return 1;
    printf("50 ticks\n");
    return 0;
}

static void *lives_on(void *begin) {
    until(*(int64_t *)begin + 24 * 3600 * (int64_t)SECOND);
    printf("a day\n");
    exit(0);
}

/* Its first thread ends, and another one lives on. */
static int orphaned(void) {
    static int64_t begin;
    pthread_t thread;
    begin = now();
    if (pthread_create(&thread, NULL, lives_on, &begin) != 0)
        fail("pthread_create");
    pthread_exit(NULL);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4 && strcmp(argv[1], "cron") == 0)
        return cron(atol(argv[2]), atol(argv[3]));
    if (argc == 2 && strcmp(argv[1], "timers") == 0)
        return timers();
    if (argc == 2 && strcmp(argv[1], "blocked") == 0)
        return blocked();
    if (argc == 2 && strcmp(argv[1], "descriptor") == 0)
        return descriptor();
    if (argc == 2 && strcmp(argv[1], "orphaned") == 0)
        return orphaned();
    int same = argc == 3 && strcmp(argv[1], "same") == 0;
    if (!same && !(argc == 4 && strcmp(argv[1], "many") == 0)) {
        fprintf(stderr, "usage: idle cron COUNT SECONDS | many PROCESSES COUNT | same PROCESSES | "
                        "timers | blocked | descriptor | orphaned\n");
        return 2;
    }
    uint64_t processes = strtoull(argv[2], NULL, 10);
    uint64_t each = same ? 1 : strtoull(argv[3], NULL, 10) / processes;
    size_t size = sizeof(struct log) + processes * each * sizeof(struct wake);
    struct log *log = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (log == MAP_FAILED)
        fail("mmap");
    int64_t start = now() + (int64_t)60 * SECOND;
    for (uint32_t process = 0; process < processes; process++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            if (same) {
                int64_t began = now();
                until(start);
                note(log, process, began, start);
            } else {
                wait_often(log, process, each, start);
            }
            _exit(0);
        }
    }
    int status, failed = 0;
    while (wait(&status) > 0)
        failed |= status;
    return judge(log, processes * each, 30 * (int64_t)SECOND) || failed;
}
