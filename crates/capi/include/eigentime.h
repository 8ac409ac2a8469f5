/*
 * libeigentime: a clock with a known error, sleeps and events on time.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Written from the Rust source by `make header`; eigentime.hpp is this for C++.
 *
 * Times are nanoseconds in 64 bits, unless they are instants, which are ticks. A pointer that is
 * handed over is null or points to what its type says; null is refused with EIGENTIME_INVALID, or
 * means nothing to do, or no report wanted, where that is said. A struct that begins with its size
 * is to be begun with its _INIT macro; so later versions can have more members. Calls that return an
 * eigentime_status leave the reason of a failure for eigentime_last_error. No call sets errno.
 */

#ifndef EIGENTIME_H
#define EIGENTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What an eigentime_reading begins with. */
#define EIGENTIME_READING_INIT { sizeof(eigentime_reading), 0, 0, 0, 0, 0, 0 }
/** What eigentime_sleeper_options begin with: all as it is by default. */
#define EIGENTIME_SLEEPER_OPTIONS_INIT \
  { sizeof(eigentime_sleeper_options), -1, -1, -1, 0, 0, -1, 0 }
/** What an eigentime_slept begins with. */
#define EIGENTIME_SLEPT_INIT { sizeof(eigentime_slept), 0, 0, 0, 0, 0, 0, EIGENTIME_ON_TIME, 0 }
/** What eigentime_sleeper_statistics begin with. */
#define EIGENTIME_SLEEPER_STATISTICS_INIT \
  { sizeof(eigentime_sleeper_statistics), 0, 0, 0, 0, 0, 0, 0, 0 }
/** What eigentime_ticker_options begin with: all as it is by default. */
#define EIGENTIME_TICKER_OPTIONS_INIT \
  { sizeof(eigentime_ticker_options), -1, -1, -1, -1, 0, 0, -1, 0, 0, 0 }
/** What eigentime_ticker_statistics begin with. */
#define EIGENTIME_TICKER_STATISTICS_INIT \
  { sizeof(eigentime_ticker_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/** What eigentime_event_options begin with: now, once, counted. */
#define EIGENTIME_EVENT_OPTIONS_INIT \
  { sizeof(eigentime_event_options), 0, 0, NULL, NULL, NULL, NULL, -1, 0 }
/** What eigentime_event_statistics begin with. */
#define EIGENTIME_EVENT_STATISTICS_INIT \
  { sizeof(eigentime_event_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, EIGENTIME_NOT_ENDED, 0 }


/**
 * As `eventfd`: one that the library makes, which does not block when it is read.
 */
#define EIGENTIME_NEW_EVENTFD -2

/**
 * The error of which nothing is known: the kernel says that its clock is not synchronized.
 */
#define EIGENTIME_UNBOUNDED UINT64_MAX

/**
 * The version of the header: incompatible changes.
 */
#define EIGENTIME_VERSION_MAJOR 0

/**
 * The version of the header: additions (before 1.0, incompatible changes, too).
 */
#define EIGENTIME_VERSION_MINOR 1

/**
 * The version of the header: corrections.
 */
#define EIGENTIME_VERSION_PATCH 0

/**
 * How a call ended. A failure is negative, and is an error number of errno.h with its sign turned.
 */
typedef enum eigentime_status {
  /**
   * It did what was asked.
   */
  EIGENTIME_OK = 0,
  /**
   * A signal handler ran: -EINTR.
   */
  EIGENTIME_INTERRUPTED = -4,
  /**
   * An argument is not one that the call can take: -EINVAL.
   */
  EIGENTIME_INVALID = -22,
  /**
   * A struct has members that only a later library knows, and they are not zero: -E2BIG.
   */
  EIGENTIME_TOO_NEW = -7,
  /**
   * The system refused what it takes, such as a thread or a descriptor: -EAGAIN.
   */
  EIGENTIME_REFUSED = -11,
  /**
   * Another event has what only one can have: -EBUSY.
   */
  EIGENTIME_TAKEN = -16,
  /**
   * The ticker has as many events as it was made for: -ENOSPC.
   */
  EIGENTIME_FULL = -28,
  /**
   * It did not happen in the time that was given: -ETIMEDOUT.
   */
  EIGENTIME_TIMED_OUT = -110,
  /**
   * The ticker was stopped, the event is over, or this is a fork of their process: -ECANCELED.
   */
  EIGENTIME_ENDED = -125,
} eigentime_status;

/**
 * Why nothing more comes from an event.
 */
typedef enum eigentime_ended {
  /**
   * It goes on.
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
   * For another reason: of a later version, or of an event that was not added from C.
   */
  EIGENTIME_ENDED_OTHERWISE = 4,
} eigentime_ended;

/**
 * What kept a sleep beyond its target.
 */
typedef enum eigentime_lateness {
  /**
   * Nothing: it ended on time, or its target had passed when it was asked for.
   */
  EIGENTIME_ON_TIME = 0,
  /**
   * The kernel woke it after the target already.
   */
  EIGENTIME_WOKEN_LATE = 1,
  /**
   * It was awake, and was kept off the processor.
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
   * The kernel's clock: the counter is not to be trusted, or this is a timeline of Eigentime's.
   */
  EIGENTIME_SOURCE_KERNEL = 2,
} eigentime_source;

/**
 * What a sleeper waits with in the kernel.
 */
typedef enum eigentime_kernel_wait {
  /**
   * A timerfd: no timer slack delays it, and the thread's is not touched. It takes a descriptor.
   */
  EIGENTIME_WAIT_TIMERFD = 0,
  /**
   * clock_nanosleep(2): no descriptor; the thread's timer slack is a nanosecond meanwhile.
   */
  EIGENTIME_WAIT_NANOSLEEP = 1,
} eigentime_kernel_wait;

/**
 * An event of a ticker.
 */
typedef struct eigentime_event eigentime_event;

/**
 * Ends sleeps on time. It belongs to one thread: what it learns is of that thread, it is used by
 * one at a time, and a real-time priority or a processor is given to the thread that makes it.
 */
typedef struct eigentime_sleeper eigentime_sleeper;

/**
 * A thread that delivers events on time. Many threads can use one.
 */
typedef struct eigentime_ticker eigentime_ticker;

/**
 * A thread that keeps the clock in order, so that no reader has to.
 */
typedef struct eigentime_upkeep_thread eigentime_upkeep_thread;

/**
 * An instant: a count of ticks of this process's clock. A later one is larger; what is between
 * two says `eigentime_between`, and what the kernel's clocks show says `eigentime_to_monotonic`
 * and its like. In another process the count means something else.
 */
typedef uint64_t eigentime_instant;

/**
 * A deadline that has come. Later versions can have more members at its end.
 */
typedef struct eigentime_tick {
  /**
   * The size of this struct.
   */
  size_t size;
  /**
   * The number of the event, from 1 on.
   */
  uint64_t event;
  /**
   * Which one of the event's deadlines, from 0 on, the missed ones counted.
   */
  uint64_t number;
  /**
   * The deadline: the start and `number` periods.
   */
  eigentime_instant due;
  /**
   * When it was seen that it has come.
   */
  eigentime_instant fired;
  /**
   * The deadlines since the last tick that were not delivered.
   */
  uint64_t missed;
  /**
   * How long the thread was kept from spinning before this tick, by something else that ran on
   * its processor.
   */
  int64_t stolen_ns;
} eigentime_tick;

/**
 * What is called when a deadline has come: on the ticker's thread, where nothing else is delivered
 * meanwhile. It may add and remove events. The tick is gone when it returns.
 */
typedef void (*eigentime_callback)(const struct eigentime_tick *tick, void *user);

/**
 * What is called once when a callback's `user` is needed no more.
 */
typedef void (*eigentime_release)(void *user);

/**
 * An event that is to be. `EIGENTIME_EVENT_OPTIONS_INIT` is one that has come now, once.
 */
typedef struct eigentime_event_options {
  /**
   * The size of this struct.
   */
  size_t size;
  /**
   * The time between two deadlines, in nanoseconds, from 10000 on; 0 if there is only one.
   */
  int64_t period_ns;
  /**
   * The first deadline; 0 for the usual one, which is a period from now, or now if there is
   * no period. If it is over, it gives the phase of an event with a period.
   */
  eigentime_instant start;
  /**
   * What it is called in texts; can be null.
   */
  const char *name;
  /**
   * What is called; null if there is no callback.
   */
  eigentime_callback callback;
  /**
   * What the callback is given.
   */
  void *user;
  /**
   * What is called once when `user` is needed no more, on whatever thread that is, also if the
   * event could not be added; can be null. (It is not called if it cannot be read: if the
   * options are null or too small.)
   */
  eigentime_release release;
  /**
   * If there is no callback: an eventfd, made with EFD_NONBLOCK, to which the number of deadlines
   * is added (the library keeps a copy), `EIGENTIME_NEW_EVENTFD`, or -1 for none. With neither it
   * is counted:
   * `eigentime_event_passed` and `eigentime_event_wait`.
   */
  int32_t eventfd;
  /**
   * If not 0: the one event of the ticker before whose deadlines it does nothing else.
   */
  int32_t shielded;
} eigentime_event_options;

/**
 * What was seen of an event.
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
   * The deadlines that were not, because a later one had come when there was time.
   */
  uint64_t missed;
  /**
   * How late the last delivery was; -1 if there was none.
   */
  int64_t last_miss_ns;
  /**
   * How late the latest delivery was.
   */
  int64_t worst_miss_ns;
  /**
   * The ticks before which the thread was kept from spinning.
   */
  uint64_t preempted;
  /**
   * For how long in all.
   */
  int64_t stolen_ns;
  /**
   * The longest time that a delivery took.
   */
  int64_t longest_delivery_ns;
  /**
   * The number of the event that was being delivered when this one was due; 0 if none was.
   */
  uint64_t delayed_by;
  /**
   * How many deadlines of others came while this one was being delivered.
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
   * Why nothing more will come, if so.
   */
  enum eigentime_ended ended;
  /**
   * Whether it is the shielded one.
   */
  int32_t shielded;
} eigentime_event_statistics;

/**
 * An instant, what the kernel's clocks show at it, and how well that is known.
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
   * How far `monotonic_ns` can be from the kernel's clock, before or after.
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
 * How a sleeper is to be. `EIGENTIME_SLEEPER_OPTIONS_INIT` asks for nothing.
 */
typedef struct eigentime_sleeper_options {
  /**
   * The size of this struct.
   */
  size_t size;
  /**
   * The share of sleeps that are to end on time, between 0 and 1; the default if negative.
   */
  double quantile;
  /**
   * The share of one CPU that may be spun away, between 0 and 1; the default if negative.
   */
  double cpu;
  /**
   * The longest that a sleep may spin, in nanoseconds; the default if negative.
   */
  int64_t max_guard_ns;
  /**
   * An `eigentime_kernel_wait`.
   */
  int32_t kernel_wait;
  /**
   * To be a real-time thread (SCHED_FIFO) of this priority, from 1 to 99; not if 0.
   */
  int32_t realtime;
  /**
   * To stay on this processor; not if negative.
   */
  int32_t pin;
  /**
   * To keep all processors out of idle states from which they wake late; not if 0.
   */
  int32_t hold_latency;
} eigentime_sleeper_options;

/**
 * How a sleep went.
 */
typedef struct eigentime_slept {
  /**
   * The size of this struct: `EIGENTIME_SLEPT_INIT` sets it.
   */
  size_t size;
  /**
   * When it was to end.
   */
  eigentime_instant target;
  /**
   * When it has ended.
   */
  eigentime_instant woke;
  /**
   * How late that was; never negative.
   */
  int64_t miss_ns;
  /**
   * How long it has spun.
   */
  int64_t spun_ns;
  /**
   * How late the kernel has ended its part; -1 if the sleep was too short for it to have one.
   */
  int64_t kernel_miss_ns;
  /**
   * How long before the target the kernel was to end its part.
   */
  int64_t guard_ns;
  /**
   * What kept it.
   */
  enum eigentime_lateness lateness;
  /**
   * Zero.
   */
  uint32_t reserved;
} eigentime_slept;

/**
 * What a sleeper's sleeps came to so far.
 */
typedef struct eigentime_sleeper_statistics {
  /**
   * The size of this struct: `EIGENTIME_SLEEPER_STATISTICS_INIT` sets it.
   */
  size_t size;
  /**
   * Sleeps that have ended by themselves.
   */
  uint64_t sleeps;
  /**
   * Of these: asked for when their target had passed.
   */
  uint64_t asked_late;
  /**
   * Of these: woken late by the kernel.
   */
  uint64_t woken_late;
  /**
   * Of these: kept off the processor while they were spinning.
   */
  uint64_t preempted;
  /**
   * Sleeps that a signal has ended.
   */
  uint64_t interrupted;
  /**
   * Of the sleeps that were asked for in time, how late the latest ended.
   */
  int64_t worst_ns;
  /**
   * How long it has slept altogether, from asking to waking.
   */
  int64_t slept_ns;
  /**
   * How long it has spun altogether.
   */
  int64_t spun_ns;
} eigentime_sleeper_statistics;

/**
 * How a ticker is to be. `EIGENTIME_TICKER_OPTIONS_INIT` asks for nothing.
 */
typedef struct eigentime_ticker_options {
  /**
   * The size of this struct.
   */
  size_t size;
  /**
   * The share of events that are to be on time, between 0 and 1; the default if negative.
   */
  double quantile;
  /**
   * The share of one CPU that may be spun away, between 0 and 1; all of it if negative.
   */
  double cpu;
  /**
   * The longest that it may spin for an event, in nanoseconds; the default if negative.
   */
  int64_t max_guard_ns;
  /**
   * How long before the deadlines of the shielded event nothing else is done, in nanoseconds;
   * the default, 10 µs, if negative.
   */
  int64_t shield_ns;
  /**
   * How many events it can have, 4096 at most; the default, 1024, if not positive.
   */
  int32_t capacity;
  /**
   * To be a real-time thread (SCHED_FIFO) of this priority, from 1 to 99; not if 0.
   */
  int32_t realtime;
  /**
   * To stay on this processor; not if negative.
   */
  int32_t pin;
  /**
   * To lock the thread's stack and its list of events into memory; not if 0.
   */
  int32_t lock_memory;
  /**
   * To keep processors out of deep idle states near deadlines; not if 0.
   */
  int32_t hold_latency;
  /**
   * Zero: without it later members would begin within this version's size.
   */
  int32_t reserved;
} eigentime_ticker_options;

/**
 * What a ticker has done so far.
 */
typedef struct eigentime_ticker_statistics {
  /**
   * The size of this struct: `EIGENTIME_TICKER_STATISTICS_INIT` sets it.
   */
  size_t size;
  /**
   * The events it has, and those that have ended and were not removed.
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
   * The time it has spun.
   */
  int64_t spun_ns;
  /**
   * The waits in the kernel.
   */
  uint64_t waits;
  /**
   * The time in those.
   */
  int64_t waited_ns;
  /**
   * How often it was kept from spinning.
   */
  uint64_t gaps;
  /**
   * How long in all.
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
 * Now, as cheaply as the processor can tell it: it may be read a few nanoseconds before what
 * stands in front of it in the program, or after what stands behind it. Like all reads, it can be
 * called from any thread, from a signal handler, and after a fork.
 */
eigentime_instant eigentime_now(void);

/**
 * Now, after all that the program has done so far, and before all that it does next.
 */
eigentime_instant eigentime_now_ordered(void);

/**
 * An instant of late, for next to nothing: the last one that anybody in the process kept.
 */
eigentime_instant eigentime_recent(void);

/**
 * The counter itself.
 */
uint64_t eigentime_raw(void);

/**
 * The counter itself, read in order.
 */
uint64_t eigentime_raw_ordered(void);

/**
 * Ticks in a second.
 */
double eigentime_frequency(void);

/**
 * CLOCK_MONOTONIC now, in nanoseconds; read as `eigentime_now` does.
 */
int64_t eigentime_monotonic_ns(void);

/**
 * CLOCK_MONOTONIC now, in nanoseconds; read as `eigentime_now_ordered` does.
 */
int64_t eigentime_monotonic_ordered_ns(void);

/**
 * CLOCK_MONOTONIC of late, in nanoseconds; read as `eigentime_recent` does.
 */
int64_t eigentime_monotonic_recent_ns(void);

/**
 * CLOCK_REALTIME now, in nanoseconds since 1970; read as `eigentime_now` does.
 */
int64_t eigentime_wall_ns(void);

/**
 * CLOCK_REALTIME now, in nanoseconds since 1970; read as `eigentime_now_ordered` does.
 */
int64_t eigentime_wall_ordered_ns(void);

/**
 * CLOCK_REALTIME of late, in nanoseconds since 1970; read as `eigentime_recent` does.
 */
int64_t eigentime_wall_recent_ns(void);

/**
 * What CLOCK_MONOTONIC shows at an instant, in nanoseconds.
 */
int64_t eigentime_to_monotonic(eigentime_instant instant);

/**
 * What CLOCK_REALTIME shows at an instant, in nanoseconds since 1970.
 */
int64_t eigentime_to_wall(eigentime_instant instant);

/**
 * What CLOCK_BOOTTIME shows at an instant, in nanoseconds.
 */
int64_t eigentime_to_boottime(eigentime_instant instant);

/**
 * The instant at which CLOCK_MONOTONIC shows so many nanoseconds; less than none is none.
 */
eigentime_instant eigentime_from_monotonic(int64_t monotonic_ns);

/**
 * The instant at which CLOCK_REALTIME, as it is set now, shows so many nanoseconds since 1970.
 */
eigentime_instant eigentime_from_wall(int64_t wall_ns);

/**
 * Nanoseconds from one instant to another; negative if the other is earlier.
 */
int64_t eigentime_between(eigentime_instant from, eigentime_instant to);

/**
 * The instant so many nanoseconds later, or earlier if they are negative; at most the last one
 * that there is, or the first.
 */
eigentime_instant eigentime_add(eigentime_instant instant, int64_t ns);

/**
 * Compares the clock with the kernel's now, rather than when it is due: for a program that has
 * a moment to spare, and does not want to do it in a read.
 */
void eigentime_upkeep(void);

/**
 * Says that this process makes, or will make, none but the most necessary system calls (under a
 * seccomp filter, say): from now on readings make none but clock_gettime, and leave the rest to
 * `eigentime_upkeep` and `eigentime_trust`.
 */
void eigentime_confine(void);

/**
 * Adds an event to a ticker, from any thread, also from a callback. If `event` is null, it goes on
 * until the ticker stops.
 */
enum eigentime_status eigentime_ticker_add(const struct eigentime_ticker *ticker,
                                           const struct eigentime_event_options *options,
                                           struct eigentime_event **event);

/**
 * Removes an event. After that its callback is not called any more, and has returned if it was
 * running (unless it is the one that calls this). Null is none.
 */
void eigentime_event_remove(struct eigentime_event *event);

/**
 * Lets an event go on until the ticker stops; what it was known by is gone. Null is none.
 */
void eigentime_event_keep(struct eigentime_event *event);

/**
 * The number of an event, from 1 on; 0 of null.
 */
uint64_t eigentime_event_number(const struct eigentime_event *event);

/**
 * The deadlines of an event that were delivered; 0 of null.
 */
uint64_t eigentime_event_fired(const struct eigentime_event *event);

/**
 * The deadlines of an event that were missed, up to the last that was delivered; 0 of null.
 */
uint64_t eigentime_event_missed(const struct eigentime_event *event);

/**
 * The deadlines that have come of an event that is counted, for the price of a load; 0 of others.
 */
uint64_t eigentime_event_passed(const struct eigentime_event *event);

/**
 * Sleeps until more than `number` deadlines have come of an event that is counted, and puts into
 * `passed`, if that is not null, how many it were then. EIGENTIME_TIMED_OUT after `timeout_ns`
 * nanoseconds, unless they are negative; EIGENTIME_ENDED if no more will come. It goes on after
 * signals. The event must not be removed meanwhile.
 */
enum eigentime_status eigentime_event_wait(const struct eigentime_event *event,
                                           uint64_t number,
                                           int64_t timeout_ns,
                                           uint64_t *passed);

/**
 * The eventfd of an event, which is the event's and closed when that is removed; -1 if it has none.
 */
int eigentime_event_fd(const struct eigentime_event *event);

/**
 * What was seen of an event.
 */
enum eigentime_status eigentime_event_get_statistics(const struct eigentime_event *event,
                                                     struct eigentime_event_statistics *statistics);

/**
 * Now, with all that is known of it; read as `eigentime_now` does.
 */
enum eigentime_status eigentime_read(struct eigentime_reading *reading);

/**
 * Now, with all that is known of it; read as `eigentime_now_ordered` does.
 */
enum eigentime_status eigentime_read_ordered(struct eigentime_reading *reading);

/**
 * All that is known of an instant.
 */
enum eigentime_status eigentime_read_at(eigentime_instant instant,
                                        struct eigentime_reading *reading);

/**
 * Makes a sleeper. Without options it asks for nothing. What was asked for and not granted, such as
 * a priority, is no failure: `eigentime_sleeper_degradation` tells it. What is impossible is one.
 */
enum eigentime_status eigentime_sleeper_new(const struct eigentime_sleeper_options *options,
                                            struct eigentime_sleeper **sleeper);

/**
 * Gives everything back that a sleeper has, and ends it. Null is none.
 */
void eigentime_sleeper_free(struct eigentime_sleeper *sleeper);

/**
 * Sleeps until an instant, whatever signals come; at once if it has passed. `slept` can be null.
 */
enum eigentime_status eigentime_sleep_until(struct eigentime_sleeper *sleeper,
                                            eigentime_instant target,
                                            struct eigentime_slept *slept);

/**
 * Sleeps for so many nanoseconds, whatever signals come; not at all if they are negative. `slept`
 * can be null.
 */
enum eigentime_status eigentime_sleep_for(struct eigentime_sleeper *sleeper,
                                          int64_t ns,
                                          struct eigentime_slept *slept);

/**
 * Sleeps until an instant or until a signal handler has run: EIGENTIME_INTERRUPTED, and
 * `remaining_ns` is what was left. (A handler that runs in the last moments, when the sleep is
 * spinning, does not end it.) `slept` and `remaining_ns` can be null; `slept` is left alone when
 * it is interrupted, and `remaining_ns` is 0 when it is not.
 */
enum eigentime_status eigentime_sleep_until_interruptible(struct eigentime_sleeper *sleeper,
                                                          eigentime_instant target,
                                                          struct eigentime_slept *slept,
                                                          int64_t *remaining_ns);

/**
 * How many wishes were not granted.
 */
size_t eigentime_sleeper_degradations(const struct eigentime_sleeper *sleeper);

/**
 * One of the wishes that were not granted, and why, in a sentence, as `snprintf` writes it. If
 * there is none with this index, it is empty.
 */
size_t eigentime_sleeper_degradation(const struct eigentime_sleeper *sleeper,
                                     size_t index,
                                     char *buffer,
                                     size_t size);

/**
 * What a sleeper's sleeps came to so far.
 */
enum eigentime_status eigentime_sleeper_get_statistics(const struct eigentime_sleeper *sleeper,
                                                       struct eigentime_sleeper_statistics *statistics);

/**
 * What went wrong in this thread's last call that failed: the value, the reason and the way out.
 * Empty before the first failure. The text is the library's: it is there until the thread ends,
 * and another one after the thread's next failure.
 */
const char *eigentime_last_error(void);

/**
 * What a status means, in a few words; also of a number that is none. It lasts as long as the
 * program.
 */
const char *eigentime_strerror(int32_t status);

/**
 * Starts a ticker. Without options it asks for nothing. What was asked for and not granted is no
 * failure: `eigentime_ticker_degradation` tells it.
 */
enum eigentime_status eigentime_ticker_start(const struct eigentime_ticker_options *options,
                                             struct eigentime_ticker **ticker);

/**
 * Stops a ticker, waits until its thread has ended (unless it is a callback that stops it), and
 * gives everything back. Its events end; they are still to be removed. Null is none.
 */
void eigentime_ticker_stop(struct eigentime_ticker *ticker);

/**
 * How many wishes were not granted.
 */
size_t eigentime_ticker_degradations(const struct eigentime_ticker *ticker);

/**
 * One of the wishes that were not granted, and why, in a sentence, as `snprintf` writes it. If
 * there is none with this index, it is empty.
 */
size_t eigentime_ticker_degradation(const struct eigentime_ticker *ticker,
                                    size_t index,
                                    char *buffer,
                                    size_t size);

/**
 * What a ticker has done so far.
 */
enum eigentime_status eigentime_ticker_get_statistics(const struct eigentime_ticker *ticker,
                                                      struct eigentime_ticker_statistics *statistics);

/**
 * The same for people, with a line for each event, as `snprintf` writes it.
 */
size_t eigentime_ticker_text(const struct eigentime_ticker *ticker, char *buffer, size_t size);

/**
 * What the clock reads now. It can change while the program runs.
 */
enum eigentime_source eigentime_trust(void);

/**
 * What the clock reads now and why, in a sentence, as `snprintf` writes it: at most `size` bytes
 * with the zero at the end, and the length that it has whole is returned.
 */
size_t eigentime_trust_text(char *buffer, size_t size);

/**
 * Starts a thread that compares the clock with the kernel's every `interval_ns` nanoseconds, from a
 * million on. Without it, a reading that comes when that is due, ten times a second at most, takes
 * a microsecond longer. `eigentime_recent` is as fresh as this interval.
 */
enum eigentime_status eigentime_upkeep_start(int64_t interval_ns,
                                             struct eigentime_upkeep_thread **thread);

/**
 * Ends it. Null is none.
 */
void eigentime_upkeep_stop(struct eigentime_upkeep_thread *thread);

/**
 * The version of the library, like "0.1.0". It lasts as long as the program.
 */
const char *eigentime_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EIGENTIME_H */
