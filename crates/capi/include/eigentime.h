/*
 * libeigentime: a clock with a known error, sleeps and events on time.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Generated from the Rust source by `make header`. eigentime.hpp is the interface for C++.
 *
 * Times are 64-bit nanoseconds, except instants, which are ticks. A pointer argument must be null
 * or point to an object of its type. Null is rejected with EIGENTIME_INVALID, unless the function's
 * comment says otherwise. Initialize a struct that begins with its size with its _INIT macro, so
 * that later versions can add members. If a call that returns an eigentime_status fails,
 * eigentime_last_error describes the failure. No call sets errno.
 */

#ifndef EIGENTIME_H
#define EIGENTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Initializes an eigentime_reading. */
#define EIGENTIME_READING_INIT { sizeof(eigentime_reading), 0, 0, 0, 0, 0, 0 }
/** Initializes eigentime_sleeper_options with the defaults. */
#define EIGENTIME_SLEEPER_OPTIONS_INIT \
  { sizeof(eigentime_sleeper_options), -1, -1, -1, 0, 0, -1, 0 }
/** Initializes an eigentime_slept. */
#define EIGENTIME_SLEPT_INIT { sizeof(eigentime_slept), 0, 0, 0, 0, 0, 0, EIGENTIME_ON_TIME, 0 }
/** Initializes eigentime_sleeper_statistics. */
#define EIGENTIME_SLEEPER_STATISTICS_INIT \
  { sizeof(eigentime_sleeper_statistics), 0, 0, 0, 0, 0, 0, 0, 0 }
/** Initializes eigentime_ticker_options with the defaults. */
#define EIGENTIME_TICKER_OPTIONS_INIT \
  { sizeof(eigentime_ticker_options), -1, -1, -1, -1, 0, 0, -1, 0, 0, 0 }
/** Initializes eigentime_ticker_statistics. */
#define EIGENTIME_TICKER_STATISTICS_INIT \
  { sizeof(eigentime_ticker_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/** Initializes eigentime_event_options: due once, now, and counted. */
#define EIGENTIME_EVENT_OPTIONS_INIT \
  { sizeof(eigentime_event_options), 0, 0, NULL, NULL, NULL, NULL, -1, 0 }
/** Initializes eigentime_event_statistics. */
#define EIGENTIME_EVENT_STATISTICS_INIT \
  { sizeof(eigentime_event_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, EIGENTIME_NOT_ENDED, 0 }


/**
 * A value of `eventfd`: the library creates an eventfd, with EFD_NONBLOCK.
 */
#define EIGENTIME_NEW_EVENTFD -2

/**
 * An error without a bound: the kernel reports that its clock is not synchronized.
 */
#define EIGENTIME_UNBOUNDED UINT64_MAX

/**
 * The major version of the header: incompatible changes.
 */
#define EIGENTIME_VERSION_MAJOR 0

/**
 * The minor version of the header: additions, and before 1.0 also incompatible changes.
 */
#define EIGENTIME_VERSION_MINOR 1

/**
 * The patch version of the header: corrections.
 */
#define EIGENTIME_VERSION_PATCH 0

/**
 * The result of a call. Failures are negated error numbers of errno.h.
 */
typedef enum eigentime_status {
  /**
   * The call succeeded.
   */
  EIGENTIME_OK = 0,
  /**
   * A signal handler ran: -EINTR.
   */
  EIGENTIME_INTERRUPTED = -4,
  /**
   * An argument is invalid: -EINVAL.
   */
  EIGENTIME_INVALID = -22,
  /**
   * A struct has nonzero members that only a later library knows: -E2BIG.
   */
  EIGENTIME_TOO_NEW = -7,
  /**
   * The system refused something that is needed, such as a thread or a descriptor: -EAGAIN.
   */
  EIGENTIME_REFUSED = -11,
  /**
   * Another event has what only one can have: -EBUSY.
   */
  EIGENTIME_TAKEN = -16,
  /**
   * The ticker has as many events as its capacity allows: -ENOSPC.
   */
  EIGENTIME_FULL = -28,
  /**
   * The timeout expired: -ETIMEDOUT.
   */
  EIGENTIME_TIMED_OUT = -110,
  /**
   * The ticker was stopped, the event has ended, or this process is a fork of theirs:
   * -ECANCELED.
   */
  EIGENTIME_ENDED = -125,
} eigentime_status;

/**
 * Why an event has ended.
 */
typedef enum eigentime_ended {
  /**
   * It has not ended.
   */
  EIGENTIME_NOT_ENDED = 0,
  /**
   * It had one deadline, which was delivered.
   */
  EIGENTIME_ENDED_DONE = 1,
  /**
   * The ticker was stopped.
   */
  EIGENTIME_ENDED_STOPPED = 2,
  /**
   * This process was forked from the one that has the ticker.
   */
  EIGENTIME_ENDED_FORKED = 3,
  /**
   * Another reason: one of a later version, or of an event that was not added from C.
   */
  EIGENTIME_ENDED_OTHERWISE = 4,
} eigentime_ended;

/**
 * Why a sleep ended after its target.
 */
typedef enum eigentime_lateness {
  /**
   * It ended on time, or its target had passed when it was requested.
   */
  EIGENTIME_ON_TIME = 0,
  /**
   * The kernel woke it after the target.
   */
  EIGENTIME_WOKEN_LATE = 1,
  /**
   * It was awake, and then something else ran on its processor.
   */
  EIGENTIME_PREEMPTED = 2,
} eigentime_lateness;

/**
 * What the clock reads.
 */
typedef enum eigentime_source {
  /**
   * The processor's counter, by which the kernel itself keeps time.
   */
  EIGENTIME_SOURCE_COUNTER = 1,
  /**
   * The kernel's clock: the counter cannot be trusted, or this is an Eigentime timeline.
   */
  EIGENTIME_SOURCE_KERNEL = 2,
} eigentime_source;

/**
 * The mechanism a sleeper waits with in the kernel.
 */
typedef enum eigentime_kernel_wait {
  /**
   * A timerfd: not subject to timer slack, so the thread's slack is not touched. It takes a
   * descriptor.
   */
  EIGENTIME_WAIT_TIMERFD = 0,
  /**
   * clock_nanosleep(2), which takes no descriptor. The thread's timer slack is a nanosecond
   * meanwhile.
   */
  EIGENTIME_WAIT_NANOSLEEP = 1,
} eigentime_kernel_wait;

/**
 * An event of a ticker.
 */
typedef struct eigentime_event eigentime_event;

/**
 * Ends sleeps on time. It belongs to one thread: what it learns applies to that thread, only one
 * thread may use it at a time, and a real-time priority or a processor is given to the thread that
 * creates it.
 */
typedef struct eigentime_sleeper eigentime_sleeper;

/**
 * A thread that delivers events on time. Many threads can use one.
 */
typedef struct eigentime_ticker eigentime_ticker;

/**
 * A thread that does the clock's upkeep, so that no reader has to.
 */
typedef struct eigentime_upkeep_thread eigentime_upkeep_thread;

/**
 * An instant: a count of ticks of this process's clock. Later instants are larger.
 * `eigentime_between` gives the time between two of them; `eigentime_to_monotonic` and the similar
 * functions give what the kernel's clocks show. The count has no meaning in another process.
 */
typedef uint64_t eigentime_instant;

/**
 * A deadline that has passed. Later versions may add members at the end.
 */
typedef struct eigentime_tick {
  /**
   * The size of this struct.
   */
  size_t size;
  /**
   * The number of the event, from 1.
   */
  uint64_t event;
  /**
   * Which of the event's deadlines, from 0, counting missed ones.
   */
  uint64_t number;
  /**
   * The deadline: the start plus `number` periods.
   */
  eigentime_instant due;
  /**
   * When the ticker noticed that it had passed.
   */
  eigentime_instant fired;
  /**
   * The deadlines since the last tick that were not delivered.
   */
  uint64_t missed;
  /**
   * How long the thread was kept from spinning before this tick, because something else ran on
   * its processor.
   */
  int64_t stolen_ns;
} eigentime_tick;

/**
 * A function that is called for each deadline, on the ticker's thread: nothing else is delivered
 * while it runs. It may add and remove events. The tick is valid until it returns.
 */
typedef void (*eigentime_callback)(const struct eigentime_tick *tick, void *user);

/**
 * A function that is called once, when a callback's `user` is no longer needed.
 */
typedef void (*eigentime_release)(void *user);

/**
 * The options of a new event. `EIGENTIME_EVENT_OPTIONS_INIT` describes one that is due once, now.
 */
typedef struct eigentime_event_options {
  /**
   * The size of this struct.
   */
  size_t size;
  /**
   * The time between two deadlines, in nanoseconds, at least 10000; 0 if there is only one.
   */
  int64_t period_ns;
  /**
   * The first deadline; 0 for the default, which is one period from now, or now if there is no
   * period. If it has passed, it sets the phase of a periodic event.
   */
  eigentime_instant start;
  /**
   * Its name in texts; can be null.
   */
  const char *name;
  /**
   * The callback; null if there is none.
   */
  eigentime_callback callback;
  /**
   * The argument of the callback.
   */
  void *user;
  /**
   * Called once, on any thread, when `user` is no longer needed, also if the event could not be
   * added; can be null. (It is not called if it cannot be read, because the options are null or
   * too small.)
   */
  eigentime_release release;
  /**
   * If there is no callback: an eventfd, created with EFD_NONBLOCK, to which the number of
   * deadlines is added (the library keeps a duplicate), `EIGENTIME_NEW_EVENTFD`, or -1 for none.
   * With neither a callback nor an eventfd, deadlines are counted: see `eigentime_event_passed`
   * and `eigentime_event_wait`.
   */
  int32_t eventfd;
  /**
   * If not 0, the ticker does nothing else shortly before this event's deadlines. Only one event
   * of a ticker can be shielded.
   */
  int32_t shielded;
} eigentime_event_options;

/**
 * The statistics of one event.
 */
typedef struct eigentime_event_statistics {
  /**
   * The size of this struct: `EIGENTIME_EVENT_STATISTICS_INIT` sets it.
   */
  size_t size;
  /**
   * The number of the event.
   */
  uint64_t event;
  /**
   * The deadlines that were delivered.
   */
  uint64_t fired;
  /**
   * The deadlines that were not, because a later one had passed before there was time.
   */
  uint64_t missed;
  /**
   * How late the last delivery was; -1 if there was none.
   */
  int64_t last_miss_ns;
  /**
   * The largest lateness of a delivery.
   */
  int64_t worst_miss_ns;
  /**
   * The ticks before which the thread was kept from spinning.
   */
  uint64_t preempted;
  /**
   * The total of those times.
   */
  int64_t stolen_ns;
  /**
   * The longest time that a delivery took.
   */
  int64_t longest_delivery_ns;
  /**
   * The number of the event whose delivery was running when this one was due; 0 if none was.
   */
  uint64_t delayed_by;
  /**
   * The deadlines of other events that came during this one's deliveries.
   */
  uint64_t delayed_others;
  /**
   * How often it was held back because it would have run into the shield window.
   */
  uint64_t withheld;
  /**
   * How often the eventfd could not be written to.
   */
  uint64_t undelivered;
  /**
   * Why the event has ended, if it has.
   */
  enum eigentime_ended ended;
  /**
   * Whether it is the shielded one.
   */
  int32_t shielded;
} eigentime_event_statistics;

/**
 * An instant, the kernel's clocks at that instant, and their error bounds.
 */
typedef struct eigentime_reading {
  /**
   * The size of this struct: `EIGENTIME_READING_INIT` sets it.
   */
  size_t size;
  /**
   * The instant itself.
   */
  eigentime_instant instant;
  /**
   * CLOCK_MONOTONIC, in nanoseconds.
   */
  int64_t monotonic_ns;
  /**
   * CLOCK_REALTIME, in nanoseconds since 1970.
   */
  int64_t wall_ns;
  /**
   * How far `monotonic_ns` can be from the kernel's clock, in either direction.
   */
  uint64_t error_ns;
  /**
   * How far `wall_ns` can be from the kernel's clock.
   */
  uint64_t wall_error_ns;
  /**
   * How far `wall_ns` can be from UTC, or `EIGENTIME_UNBOUNDED`.
   */
  uint64_t utc_error_ns;
} eigentime_reading;

/**
 * The options of a sleeper. `EIGENTIME_SLEEPER_OPTIONS_INIT` requests no privileges.
 */
typedef struct eigentime_sleeper_options {
  /**
   * The size of this struct.
   */
  size_t size;
  /**
   * The share of sleeps that should end on time, between 0 and 1; the default if negative.
   */
  double quantile;
  /**
   * The share of one CPU that may be spun away, between 0 and 1; the default if negative.
   */
  double cpu;
  /**
   * The longest time that a sleep may spin, in nanoseconds; the default if negative.
   */
  int64_t max_guard_ns;
  /**
   * An `eigentime_kernel_wait`.
   */
  int32_t kernel_wait;
  /**
   * If not 0: make the thread a real-time thread (SCHED_FIFO) with this priority, from 1 to 99.
   */
  int32_t realtime;
  /**
   * If not negative: keep the thread on this processor.
   */
  int32_t pin;
  /**
   * If not 0: keep all processors out of idle states with a high exit latency.
   */
  int32_t hold_latency;
} eigentime_sleeper_options;

/**
 * The outcome of a sleep.
 */
typedef struct eigentime_slept {
  /**
   * The size of this struct: `EIGENTIME_SLEPT_INIT` sets it.
   */
  size_t size;
  /**
   * The target.
   */
  eigentime_instant target;
  /**
   * When it ended.
   */
  eigentime_instant woke;
  /**
   * How late it ended; never negative.
   */
  int64_t miss_ns;
  /**
   * How long it spun.
   */
  int64_t spun_ns;
  /**
   * How late the kernel ended its part; -1 if the sleep was too short to have one.
   */
  int64_t kernel_miss_ns;
  /**
   * How long before the target the kernel was asked to end its part.
   */
  int64_t guard_ns;
  /**
   * The cause of its lateness.
   */
  enum eigentime_lateness lateness;
  /**
   * Zero.
   */
  uint32_t reserved;
} eigentime_slept;

/**
 * The totals of a sleeper's sleeps so far.
 */
typedef struct eigentime_sleeper_statistics {
  /**
   * The size of this struct: `EIGENTIME_SLEEPER_STATISTICS_INIT` sets it.
   */
  size_t size;
  /**
   * Sleeps that ended by themselves.
   */
  uint64_t sleeps;
  /**
   * Of these: requested after their target had passed.
   */
  uint64_t asked_late;
  /**
   * Of these: woken late by the kernel.
   */
  uint64_t woken_late;
  /**
   * Of these: preempted while spinning.
   */
  uint64_t preempted;
  /**
   * Sleeps ended by a signal.
   */
  uint64_t interrupted;
  /**
   * The largest lateness of the sleeps requested in time.
   */
  int64_t worst_ns;
  /**
   * The total time slept, from request to wake-up.
   */
  int64_t slept_ns;
  /**
   * The total time spun.
   */
  int64_t spun_ns;
} eigentime_sleeper_statistics;

/**
 * The options of a ticker. `EIGENTIME_TICKER_OPTIONS_INIT` requests no privileges.
 */
typedef struct eigentime_ticker_options {
  /**
   * The size of this struct.
   */
  size_t size;
  /**
   * The share of events that should be on time, between 0 and 1; the default if negative.
   */
  double quantile;
  /**
   * The share of one CPU that may be spun away, between 0 and 1; all of it if negative.
   */
  double cpu;
  /**
   * The longest time that it may spin for an event, in nanoseconds; the default if negative.
   */
  int64_t max_guard_ns;
  /**
   * How long before the deadlines of the shielded event the ticker does nothing else, in
   * nanoseconds; the default, 10 µs, if negative.
   */
  int64_t shield_ns;
  /**
   * How many events it can have, at most 4096; the default, 1024, if not positive.
   */
  int32_t capacity;
  /**
   * If not 0: make the ticker's thread a real-time thread (SCHED_FIFO) with this priority, from
   * 1 to 99.
   */
  int32_t realtime;
  /**
   * If not negative: keep the thread on this processor.
   */
  int32_t pin;
  /**
   * If not 0: lock the thread's stack and its list of events into memory.
   */
  int32_t lock_memory;
  /**
   * If not 0: keep processors out of deep idle states near deadlines.
   */
  int32_t hold_latency;
  /**
   * Zero. Without this padding, a later member would begin within this version's size.
   */
  int32_t reserved;
} eigentime_ticker_options;

/**
 * A ticker's statistics so far.
 */
typedef struct eigentime_ticker_statistics {
  /**
   * The size of this struct: `EIGENTIME_TICKER_STATISTICS_INIT` sets it.
   */
  size_t size;
  /**
   * The current events, including those that have ended but were not removed.
   */
  uint64_t events;
  /**
   * The deadlines that were delivered.
   */
  uint64_t fired;
  /**
   * The deadlines that were missed.
   */
  uint64_t missed;
  /**
   * The time spent spinning.
   */
  int64_t spun_ns;
  /**
   * The waits in the kernel.
   */
  uint64_t waits;
  /**
   * The time spent in those waits.
   */
  int64_t waited_ns;
  /**
   * How often it was kept from spinning.
   */
  uint64_t gaps;
  /**
   * The total of those gaps.
   */
  int64_t stolen_ns;
  /**
   * The longest of those gaps.
   */
  int64_t longest_gap_ns;
} eigentime_ticker_statistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The current instant, read as cheaply as possible: the processor may execute the read a few
 * nanoseconds before preceding instructions or after following ones. Like all functions that read
 * the clock, it can be called from any thread, in a signal handler and after a fork.
 */
eigentime_instant eigentime_now(void);

/**
 * The current instant, read after everything before it in the program and before everything after
 * it.
 */
eigentime_instant eigentime_now_ordered(void);

/**
 * A recent instant, at almost no cost: the last one that any thread of the process has recorded.
 */
eigentime_instant eigentime_recent(void);

/**
 * The raw counter.
 */
uint64_t eigentime_raw(void);

/**
 * The raw counter, read in program order.
 */
uint64_t eigentime_raw_ordered(void);

/**
 * Ticks per second.
 */
double eigentime_frequency(void);

/**
 * CLOCK_MONOTONIC now, in nanoseconds; read like `eigentime_now`.
 */
int64_t eigentime_monotonic_ns(void);

/**
 * CLOCK_MONOTONIC now, in nanoseconds; read like `eigentime_now_ordered`.
 */
int64_t eigentime_monotonic_ordered_ns(void);

/**
 * A recent CLOCK_MONOTONIC, in nanoseconds; read like `eigentime_recent`.
 */
int64_t eigentime_monotonic_recent_ns(void);

/**
 * CLOCK_REALTIME now, in nanoseconds since 1970; read like `eigentime_now`.
 */
int64_t eigentime_wall_ns(void);

/**
 * CLOCK_REALTIME now, in nanoseconds since 1970; read like `eigentime_now_ordered`.
 */
int64_t eigentime_wall_ordered_ns(void);

/**
 * A recent CLOCK_REALTIME, in nanoseconds since 1970; read like `eigentime_recent`.
 */
int64_t eigentime_wall_recent_ns(void);

/**
 * CLOCK_MONOTONIC at an instant, in nanoseconds.
 */
int64_t eigentime_to_monotonic(eigentime_instant instant);

/**
 * CLOCK_REALTIME at an instant, in nanoseconds since 1970.
 */
int64_t eigentime_to_wall(eigentime_instant instant);

/**
 * CLOCK_BOOTTIME at an instant, in nanoseconds.
 */
int64_t eigentime_to_boottime(eigentime_instant instant);

/**
 * The instant at which CLOCK_MONOTONIC shows this many nanoseconds; negative values count as 0.
 */
eigentime_instant eigentime_from_monotonic(int64_t monotonic_ns);

/**
 * The instant at which CLOCK_REALTIME, as it is set now, shows this many nanoseconds since 1970.
 */
eigentime_instant eigentime_from_wall(int64_t wall_ns);

/**
 * The nanoseconds from `from` to `to`; negative if `to` is earlier.
 */
int64_t eigentime_between(eigentime_instant from, eigentime_instant to);

/**
 * The instant this many nanoseconds later, or earlier if `ns` is negative, limited to the first
 * and the last instant.
 */
eigentime_instant eigentime_add(eigentime_instant instant, int64_t ns);

/**
 * Compares the clock with the kernel's now instead of when it is next due: for programs that have
 * a moment to spare now and want to keep this out of their reads.
 */
void eigentime_upkeep(void);

/**
 * Declares that this process makes, or will make, only essential system calls (under a seccomp
 * filter, for example). From now on, reading the clock makes no system call except clock_gettime,
 * and leaves the others to `eigentime_upkeep` and `eigentime_trust`.
 */
void eigentime_confine(void);

/**
 * Adds an event to a ticker; can be called from any thread, also from a callback. If `event` is
 * null, the event continues until the ticker stops.
 */
enum eigentime_status eigentime_ticker_add(const struct eigentime_ticker *ticker,
                                           const struct eigentime_event_options *options,
                                           struct eigentime_event **event);

/**
 * Removes an event. When this returns, its callback is not running and will not be called again
 * (unless the callback itself has called this). Null is ignored.
 */
void eigentime_event_remove(struct eigentime_event *event);

/**
 * Lets an event continue until the ticker stops. The pointer is then invalid. Null is ignored.
 */
void eigentime_event_keep(struct eigentime_event *event);

/**
 * The number of an event, from 1; 0 for null.
 */
uint64_t eigentime_event_number(const struct eigentime_event *event);

/**
 * The deadlines of an event that were delivered; 0 for null.
 */
uint64_t eigentime_event_fired(const struct eigentime_event *event);

/**
 * The deadlines of an event that were missed before the last one delivered; 0 for null.
 */
uint64_t eigentime_event_missed(const struct eigentime_event *event);

/**
 * How many deadlines of a counted event have passed, at the cost of a load; 0 for other events.
 */
uint64_t eigentime_event_passed(const struct eigentime_event *event);

/**
 * Sleeps until more than `number` deadlines of a counted event have passed, and stores their
 * number in `passed`, if that is not null. Returns EIGENTIME_TIMED_OUT after `timeout_ns`
 * nanoseconds (if negative, there is no timeout), and EIGENTIME_ENDED if no more deadlines will
 * come. Signals do not interrupt it. The event must not be removed meanwhile.
 */
enum eigentime_status eigentime_event_wait(const struct eigentime_event *event,
                                           uint64_t number,
                                           int64_t timeout_ns,
                                           uint64_t *passed);

/**
 * The eventfd of an event; -1 if it has none. It belongs to the event and is closed when that is
 * removed.
 */
int eigentime_event_fd(const struct eigentime_event *event);

/**
 * Gets the statistics of an event.
 */
enum eigentime_status eigentime_event_get_statistics(const struct eigentime_event *event,
                                                     struct eigentime_event_statistics *statistics);

/**
 * Gets the current instant with its clock values and error bounds; read like `eigentime_now`.
 */
enum eigentime_status eigentime_read(struct eigentime_reading *reading);

/**
 * Gets the current instant with its clock values and error bounds; read like
 * `eigentime_now_ordered`.
 */
enum eigentime_status eigentime_read_ordered(struct eigentime_reading *reading);

/**
 * Gets the clock values and error bounds of an instant.
 */
enum eigentime_status eigentime_read_at(eigentime_instant instant,
                                        struct eigentime_reading *reading);

/**
 * Creates a sleeper. If `options` is null, it requests no privileges. A request that is not
 * granted, such as a priority, is not a failure: `eigentime_sleeper_degradation` reports it. An
 * invalid request is a failure.
 */
enum eigentime_status eigentime_sleeper_new(const struct eigentime_sleeper_options *options,
                                            struct eigentime_sleeper **sleeper);

/**
 * Frees a sleeper and gives back everything it was granted. Null is ignored.
 */
void eigentime_sleeper_free(struct eigentime_sleeper *sleeper);

/**
 * Sleeps until an instant, regardless of signals; returns at once if it has passed. `slept` can be
 * null.
 */
enum eigentime_status eigentime_sleep_until(struct eigentime_sleeper *sleeper,
                                            eigentime_instant target,
                                            struct eigentime_slept *slept);

/**
 * Sleeps for this many nanoseconds, regardless of signals; not at all if `ns` is negative. `slept`
 * can be null.
 */
enum eigentime_status eigentime_sleep_for(struct eigentime_sleeper *sleeper,
                                          int64_t ns,
                                          struct eigentime_slept *slept);

/**
 * Sleeps until an instant, or until a signal handler has run. In the second case it returns
 * EIGENTIME_INTERRUPTED, stores the remaining time in `remaining_ns` and leaves `slept` unchanged;
 * otherwise `remaining_ns` is 0. (A handler that runs in the last moments, while the sleep spins,
 * does not end it.) `slept` and `remaining_ns` can be null.
 */
enum eigentime_status eigentime_sleep_until_interruptible(struct eigentime_sleeper *sleeper,
                                                          eigentime_instant target,
                                                          struct eigentime_slept *slept,
                                                          int64_t *remaining_ns);

/**
 * How many requests were not granted.
 */
size_t eigentime_sleeper_degradations(const struct eigentime_sleeper *sleeper);

/**
 * One of the requests that were not granted, and why, as a sentence, written like `snprintf` does;
 * empty if there is none with this index.
 */
size_t eigentime_sleeper_degradation(const struct eigentime_sleeper *sleeper,
                                     size_t index,
                                     char *buffer,
                                     size_t size);

/**
 * Gets the totals of a sleeper's sleeps so far.
 */
enum eigentime_status eigentime_sleeper_get_statistics(const struct eigentime_sleeper *sleeper,
                                                       struct eigentime_sleeper_statistics *statistics);

/**
 * Describes this thread's last failed call: the value, the reason and the remedy. Empty before the
 * first failure. The text belongs to the library; it remains valid until the thread ends, and the
 * thread's next failure overwrites it.
 */
const char *eigentime_last_error(void);

/**
 * The meaning of a status, in a few words; numbers that are no status have a text, too. It is
 * valid as long as the program runs.
 */
const char *eigentime_strerror(int32_t status);

/**
 * Starts a ticker. If `options` is null, it requests no privileges. A request that is not granted
 * is not a failure: `eigentime_ticker_degradation` reports it.
 */
enum eigentime_status eigentime_ticker_start(const struct eigentime_ticker_options *options,
                                             struct eigentime_ticker **ticker);

/**
 * Stops a ticker, waits until its thread has ended (unless a callback stops it), and frees it. Its
 * events end, but must still be removed. Null is ignored.
 */
void eigentime_ticker_stop(struct eigentime_ticker *ticker);

/**
 * How many requests were not granted.
 */
size_t eigentime_ticker_degradations(const struct eigentime_ticker *ticker);

/**
 * One of the requests that were not granted, and why, as a sentence, written like `snprintf` does;
 * empty if there is none with this index.
 */
size_t eigentime_ticker_degradation(const struct eigentime_ticker *ticker,
                                    size_t index,
                                    char *buffer,
                                    size_t size);

/**
 * Gets a ticker's statistics so far.
 */
enum eigentime_status eigentime_ticker_get_statistics(const struct eigentime_ticker *ticker,
                                                      struct eigentime_ticker_statistics *statistics);

/**
 * The statistics as text for people, with a line for each event, written like `snprintf` does.
 */
size_t eigentime_ticker_text(const struct eigentime_ticker *ticker, char *buffer, size_t size);

/**
 * What the clock reads now. It can change while the program runs.
 */
enum eigentime_source eigentime_trust(void);

/**
 * What the clock reads now, and why, as a sentence, written like `snprintf` does: at most `size`
 * bytes including the terminating null byte; returns the length of the whole text.
 */
size_t eigentime_trust_text(char *buffer, size_t size);

/**
 * Starts a thread that compares the clock with the kernel's every `interval_ns` nanoseconds, at
 * least a million. Without it, a reading that finds this due, at most ten times a second, takes a
 * microsecond longer. The thread also updates `eigentime_recent` at this interval.
 */
enum eigentime_status eigentime_upkeep_start(int64_t interval_ns,
                                             struct eigentime_upkeep_thread **thread);

/**
 * Stops the thread. Null is ignored.
 */
void eigentime_upkeep_stop(struct eigentime_upkeep_thread *thread);

/**
 * The version of the library, such as "0.1.0". It is valid as long as the program runs.
 */
const char *eigentime_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EIGENTIME_H */
