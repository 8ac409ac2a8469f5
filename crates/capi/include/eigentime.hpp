/*
 * libeigentime for C++17: clocks for std::chrono, sleeps and events on time.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * This header is complete: it calls only the functions of eigentime.h, which documents them.
 * Failures are thrown as std::system_error, with the value, the reason and the remedy in what().
 */

#ifndef EIGENTIME_HPP
#define EIGENTIME_HPP

#include <eigentime.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace eigentime {

using nanoseconds = std::chrono::nanoseconds;

namespace detail {

/* Throws if a status is a failure. */
inline void check(eigentime_status status) {
  if (status != EIGENTIME_OK) {
    throw std::system_error(-static_cast<int>(status), std::generic_category(),
                            eigentime_last_error());
  }
}

/* The text that a function writes like snprintf does; it can change between two calls. */
template <typename Write>
std::string text(Write write) {
  std::string found(127, '\0');
  for (;;) {
    const std::size_t length = write(found.data(), found.size() + 1);
    const bool whole = length <= found.size();
    found.resize(length);
    if (whole) {
      return found;
    }
  }
}

inline std::optional<nanoseconds> bound(std::uint64_t ns) {
  if (ns == EIGENTIME_UNBOUNDED) {
    return std::nullopt;
  }
  constexpr std::uint64_t most = static_cast<std::uint64_t>(nanoseconds::max().count());
  return nanoseconds(static_cast<nanoseconds::rep>(ns < most ? ns : most));
}

/* Holds a duration in any unit, and every 64-bit count of nanoseconds exactly. */
using length = std::chrono::duration<long double, std::nano>;

/* This many whole nanoseconds, limited to what 64 bits can count, 292 years. */
inline nanoseconds clamped(long double whole) {
  if (std::isnan(whole)) {
    throw std::system_error(EINVAL, std::generic_category(),
                            "a length that is not a number: give one that is");
  }
  if (whole >= length(nanoseconds::max()).count()) {
    return nanoseconds::max();
  }
  if (whole <= length(nanoseconds::min()).count()) {
    return nanoseconds::min();
  }
  return nanoseconds(static_cast<nanoseconds::rep>(whole));
}

/* For waits, which must not be too short. */
inline nanoseconds rounded_up(length wait) { return clamped(std::ceil(wait.count())); }

/* For periods, whose errors add up: as a floating-point number, 0.0003 s is not exactly 300 µs. */
inline nanoseconds nearest(length period) { return clamped(std::round(period.count())); }

}  // namespace detail

/*
 * An instant: a count of ticks. The time points of the clocks below are converted from it; store
 * instants instead where many are taken.
 */
class instant {
 public:
  constexpr instant() noexcept = default;
  constexpr explicit instant(eigentime_instant ticks) noexcept : ticks_(ticks) {}

  static instant now() noexcept { return instant(eigentime_now()); }
  static instant now_ordered() noexcept { return instant(eigentime_now_ordered()); }
  static instant recent() noexcept { return instant(eigentime_recent()); }

  constexpr eigentime_instant ticks() const noexcept { return ticks_; }

  friend nanoseconds operator-(instant to, instant from) noexcept {
    return nanoseconds(eigentime_between(from.ticks_, to.ticks_));
  }
  friend instant operator+(instant from, nanoseconds ns) noexcept {
    return instant(eigentime_add(from.ticks_, ns.count()));
  }
  friend instant operator+(nanoseconds ns, instant from) noexcept { return from + ns; }
  friend instant operator-(instant from, nanoseconds ns) noexcept { return from + -ns; }
  instant& operator+=(nanoseconds ns) noexcept { return *this = *this + ns; }
  instant& operator-=(nanoseconds ns) noexcept { return *this = *this - ns; }

  friend constexpr bool operator==(instant a, instant b) noexcept { return a.ticks_ == b.ticks_; }
  friend constexpr bool operator!=(instant a, instant b) noexcept { return a.ticks_ != b.ticks_; }
  friend constexpr bool operator<(instant a, instant b) noexcept { return a.ticks_ < b.ticks_; }
  friend constexpr bool operator>(instant a, instant b) noexcept { return a.ticks_ > b.ticks_; }
  friend constexpr bool operator<=(instant a, instant b) noexcept { return a.ticks_ <= b.ticks_; }
  friend constexpr bool operator>=(instant a, instant b) noexcept { return a.ticks_ >= b.ticks_; }

 private:
  eigentime_instant ticks_ = 0;
};

/* CLOCK_MONOTONIC, a replacement for std::chrono::steady_clock. */
struct steady_clock {
  using duration = nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<steady_clock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept { return at(eigentime_monotonic_ns()); }
  static time_point now_ordered() noexcept { return at(eigentime_monotonic_ordered_ns()); }
  static time_point recent() noexcept { return at(eigentime_monotonic_recent_ns()); }

  static time_point from_instant(instant when) noexcept {
    return at(eigentime_to_monotonic(when.ticks()));
  }
  static instant to_instant(time_point when) noexcept {
    return instant(eigentime_from_monotonic(when.time_since_epoch().count()));
  }

 private:
  static constexpr time_point at(std::int64_t ns) noexcept { return time_point(duration(ns)); }
};

/* CLOCK_REALTIME, a replacement for std::chrono::system_clock. */
struct system_clock {
  using duration = nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<system_clock>;
  static constexpr bool is_steady = false;

  static time_point now() noexcept { return at(eigentime_wall_ns()); }
  static time_point now_ordered() noexcept { return at(eigentime_wall_ordered_ns()); }
  static time_point recent() noexcept { return at(eigentime_wall_recent_ns()); }

  static time_point from_instant(instant when) noexcept {
    return at(eigentime_to_wall(when.ticks()));
  }
  /* According to the wall clock as it is set now. */
  static instant to_instant(time_point when) noexcept {
    return instant(eigentime_from_wall(when.time_since_epoch().count()));
  }

  /* For std::chrono::clock_cast of C++20. */
  template <typename Duration>
  static constexpr std::chrono::time_point<std::chrono::system_clock, Duration> to_sys(
      std::chrono::time_point<system_clock, Duration> when) noexcept {
    return std::chrono::time_point<std::chrono::system_clock, Duration>(when.time_since_epoch());
  }
  template <typename Duration>
  static constexpr std::chrono::time_point<system_clock, Duration> from_sys(
      std::chrono::time_point<std::chrono::system_clock, Duration> when) noexcept {
    return std::chrono::time_point<system_clock, Duration>(when.time_since_epoch());
  }

  static std::time_t to_time_t(time_point when) noexcept {
    using standard = std::chrono::system_clock;
    return standard::to_time_t(std::chrono::floor<standard::duration>(to_sys(when)));
  }
  static time_point from_time_t(std::time_t when) noexcept {
    return from_sys(std::chrono::system_clock::from_time_t(when));
  }

 private:
  static constexpr time_point at(std::int64_t ns) noexcept { return time_point(duration(ns)); }
};

/* An instant, the kernel's clocks at that instant, and their error bounds. */
struct reading {
  eigentime::instant instant;
  steady_clock::time_point monotonic;
  system_clock::time_point wall;
  /* How far `monotonic` can be from the kernel's clock; nothing if there is no bound. */
  std::optional<nanoseconds> error;
  /* How far `wall` can be from the kernel's clock. */
  std::optional<nanoseconds> wall_error;
  /* How far `wall` can be from UTC; nothing if the kernel's clock is not synchronized. */
  std::optional<nanoseconds> utc_error;
};

namespace detail {

inline reading from_c(const eigentime_reading& found) {
  return reading{
      instant(found.instant),
      steady_clock::time_point(nanoseconds(found.monotonic_ns)),
      system_clock::time_point(nanoseconds(found.wall_ns)),
      bound(found.error_ns),
      bound(found.wall_error_ns),
      bound(found.utc_error_ns),
  };
}

}  // namespace detail

/* The current instant with its clock values and error bounds. */
inline reading read() {
  eigentime_reading found = EIGENTIME_READING_INIT;
  detail::check(eigentime_read(&found));
  return detail::from_c(found);
}

/* The same, read after everything before it in the program and before everything after it. */
inline reading read_ordered() {
  eigentime_reading found = EIGENTIME_READING_INIT;
  detail::check(eigentime_read_ordered(&found));
  return detail::from_c(found);
}

/* The clock values and error bounds of an instant. */
inline reading read_at(instant when) {
  eigentime_reading found = EIGENTIME_READING_INIT;
  detail::check(eigentime_read_at(when.ticks(), &found));
  return detail::from_c(found);
}

/* Whether the clock reads the processor's counter rather than the kernel's clock. */
inline bool counter_is_trusted() noexcept { return eigentime_trust() == EIGENTIME_SOURCE_COUNTER; }

/* What the clock reads, and why, as a sentence. */
inline std::string trust() { return detail::text(eigentime_trust_text); }

/* Compares the clock with the kernel's now instead of when it is next due. */
inline void upkeep() noexcept { eigentime_upkeep(); }

/* A thread that does the clock's upkeep, so that no reader has to. Destruction stops it. */
class upkeep_thread {
 public:
  explicit upkeep_thread(nanoseconds interval) {
    eigentime_upkeep_thread* started = nullptr;
    detail::check(eigentime_upkeep_start(interval.count(), &started));
    handle_.reset(started);
  }

 private:
  struct free {
    void operator()(eigentime_upkeep_thread* handle) const noexcept { eigentime_upkeep_stop(handle); }
  };
  std::unique_ptr<eigentime_upkeep_thread, free> handle_;
};

/* The version of the library. */
inline std::string version() { return eigentime_version(); }

/* Why a sleep ended after its target. */
enum class lateness {
  on_time = EIGENTIME_ON_TIME,
  woken_late = EIGENTIME_WOKEN_LATE,
  preempted = EIGENTIME_PREEMPTED,
};

/* The outcome of a sleep. */
struct slept {
  instant target;
  instant woke;
  nanoseconds miss;
  nanoseconds spun;
  /* How late the kernel ended its part; nothing if the sleep was too short to have one. */
  std::optional<nanoseconds> kernel_miss;
  nanoseconds guard;
  eigentime::lateness lateness;
};

/* Ends sleeps on time. It belongs to the thread that creates it. */
class sleeper {
 public:
  using options = eigentime_sleeper_options;
  /* The default options, which request no privileges. */
  static options defaults() noexcept { return EIGENTIME_SLEEPER_OPTIONS_INIT; }

  sleeper() : sleeper(defaults()) {}
  explicit sleeper(const options& asked) {
    eigentime_sleeper* made = nullptr;
    detail::check(eigentime_sleeper_new(&asked, &made));
    handle_.reset(made);
  }

  /* Sleeps regardless of signals. */
  slept sleep_until(instant target) {
    eigentime_slept report = EIGENTIME_SLEPT_INIT;
    detail::check(eigentime_sleep_until(handle_.get(), target.ticks(), &report));
    return from_c(report);
  }
  slept sleep_until(steady_clock::time_point target) {
    return sleep_until(steady_clock::to_instant(target));
  }
  /* According to the wall clock as it is set now. */
  slept sleep_until(system_clock::time_point target) {
    return sleep_until(system_clock::to_instant(target));
  }
  template <typename Rep, typename Period>
  slept sleep_for(std::chrono::duration<Rep, Period> length) {
    eigentime_slept report = EIGENTIME_SLEPT_INIT;
    const nanoseconds ns = detail::rounded_up(length);
    detail::check(eigentime_sleep_for(handle_.get(), ns.count(), &report));
    return from_c(report);
  }
  /* If a signal handler ends the sleep, returns nothing and stores the rest in `remaining`. */
  std::optional<slept> sleep_until_interruptible(instant target,
                                                 nanoseconds* remaining = nullptr) {
    eigentime_slept report = EIGENTIME_SLEPT_INIT;
    std::int64_t left = 0;
    const eigentime_status status =
        eigentime_sleep_until_interruptible(handle_.get(), target.ticks(), &report, &left);
    if (remaining != nullptr) {
      *remaining = nanoseconds(left);
    }
    if (status == EIGENTIME_INTERRUPTED) {
      return std::nullopt;
    }
    detail::check(status);
    return from_c(report);
  }

  /* The requests that were not granted, and why, as sentences. */
  std::vector<std::string> degradation() const {
    std::vector<std::string> found(eigentime_sleeper_degradations(handle_.get()));
    for (std::size_t i = 0; i < found.size(); i++) {
      found[i] = detail::text([&](char* buffer, std::size_t size) {
        return eigentime_sleeper_degradation(handle_.get(), i, buffer, size);
      });
    }
    return found;
  }

  eigentime_sleeper_statistics statistics() const {
    eigentime_sleeper_statistics found = EIGENTIME_SLEEPER_STATISTICS_INIT;
    detail::check(eigentime_sleeper_get_statistics(handle_.get(), &found));
    return found;
  }

  /* For functions of eigentime.h. */
  eigentime_sleeper* get() const noexcept { return handle_.get(); }

 private:
  struct free {
    void operator()(eigentime_sleeper* handle) const noexcept { eigentime_sleeper_free(handle); }
  };

  static slept from_c(const eigentime_slept& report) {
    std::optional<nanoseconds> kernel_miss;
    if (report.kernel_miss_ns >= 0) {
      kernel_miss = nanoseconds(report.kernel_miss_ns);
    }
    return slept{
        instant(report.target),        instant(report.woke),
        nanoseconds(report.miss_ns),   nanoseconds(report.spun_ns),
        kernel_miss,                   nanoseconds(report.guard_ns),
        lateness(report.lateness),
    };
  }

  std::unique_ptr<eigentime_sleeper, free> handle_;
};

/* A deadline that has passed. */
struct tick {
  /* The number of the event, from 1. */
  std::uint64_t event;
  /* Which of the event's deadlines, from 0, counting missed ones. */
  std::uint64_t number;
  instant due;
  /* When the ticker noticed that it had passed. */
  instant fired;
  /* The deadlines since the last tick that were not delivered. */
  std::uint64_t missed;
  /* How long the ticker was kept from spinning before it. */
  nanoseconds stolen;

  nanoseconds miss() const noexcept { return fired - due; }
};

/* A function for the ticker's thread. If it throws, the program terminates, as with std::thread. */
using callback = std::function<void(const tick&)>;

/* An event of a ticker. Destruction removes it; its callback is then no longer running. */
class event {
 public:
  /* No event. */
  event() noexcept = default;
  explicit event(eigentime_event* handle) noexcept : handle_(handle) {}

  std::uint64_t number() const noexcept { return eigentime_event_number(get()); }
  std::uint64_t fired() const noexcept { return eigentime_event_fired(get()); }
  std::uint64_t missed() const noexcept { return eigentime_event_missed(get()); }

  /* How many deadlines of a counted event have passed. */
  std::uint64_t passed() const noexcept { return eigentime_event_passed(get()); }
  /* Sleeps until more than `number` have passed, and returns how many have. */
  std::uint64_t wait_past(std::uint64_t number) const {
    std::uint64_t passed = 0;
    detail::check(eigentime_event_wait(get(), number, -1, &passed));
    return passed;
  }
  /* The same with a timeout; returns nothing if it expires. */
  template <typename Rep, typename Period>
  std::optional<std::uint64_t> wait_past_for(std::uint64_t number,
                                             std::chrono::duration<Rep, Period> timeout) const {
    const auto ns = detail::rounded_up(timeout).count();
    std::uint64_t passed = 0;
    const eigentime_status status = eigentime_event_wait(get(), number, ns < 0 ? 0 : ns, &passed);
    if (status == EIGENTIME_TIMED_OUT) {
      return std::nullopt;
    }
    detail::check(status);
    return passed;
  }

  /* The eventfd that is written to, which belongs to the event; -1 if it has none. */
  int fd() const noexcept { return eigentime_event_fd(get()); }

  eigentime_event_statistics statistics() const {
    eigentime_event_statistics found = EIGENTIME_EVENT_STATISTICS_INIT;
    detail::check(eigentime_event_get_statistics(get(), &found));
    return found;
  }

  void remove() noexcept { handle_.reset(); }
  /* Lets it continue until the ticker stops. */
  void keep() noexcept { eigentime_event_keep(handle_.release()); }

  /* For functions of eigentime.h. */
  eigentime_event* get() const noexcept { return handle_.get(); }

 private:
  struct free {
    void operator()(eigentime_event* handle) const noexcept { eigentime_event_remove(handle); }
  };
  std::unique_ptr<eigentime_event, free> handle_;
};

/* A thread that delivers events on time. Destruction stops it. */
class ticker {
 public:
  using options = eigentime_ticker_options;
  /* The default options, which request no privileges. */
  static options defaults() noexcept { return EIGENTIME_TICKER_OPTIONS_INIT; }

  ticker() : ticker(defaults()) {}
  explicit ticker(const options& asked) {
    eigentime_ticker* started = nullptr;
    detail::check(eigentime_ticker_start(&asked, &started));
    handle_.reset(started);
  }

  /* Calls `call` once per period, first a period from now. */
  template <typename Rep, typename Period>
  [[nodiscard]] event every(std::chrono::duration<Rep, Period> period, callback call) {
    return add(periodic(period), std::move(call));
  }
  /* Calls `call` once. */
  [[nodiscard]] event once(instant when, callback call) {
    return add(single(when), std::move(call));
  }
  /* Counts periods: see event::wait_past. */
  template <typename Rep, typename Period>
  [[nodiscard]] event count_every(std::chrono::duration<Rep, Period> period) {
    return add(periodic(period));
  }
  /* Counts one deadline. */
  [[nodiscard]] event count_once(instant when) { return add(single(when)); }

  /* For the other options of an event: a start, a name, an eventfd, the shield. */
  [[nodiscard]] event add(const eigentime_event_options& asked) {
    eigentime_event* added = nullptr;
    detail::check(eigentime_ticker_add(handle_.get(), &asked, &added));
    return event(added);
  }
  /* The same, with `call` as the callback. */
  [[nodiscard]] event add(eigentime_event_options asked, callback call) {
    if (!call) {
      throw std::system_error(EINVAL, std::generic_category(),
                              "a callback that holds no function: give one, or count");
    }
    asked.callback = called;
    asked.release = released;
    /* The library releases it, even if it rejects the event. */
    asked.user = new callback(std::move(call));
    return add(asked);
  }

  /* The requests that were not granted, and why, as sentences. */
  std::vector<std::string> degradation() const {
    std::vector<std::string> found(eigentime_ticker_degradations(handle_.get()));
    for (std::size_t i = 0; i < found.size(); i++) {
      found[i] = detail::text([&](char* buffer, std::size_t size) {
        return eigentime_ticker_degradation(handle_.get(), i, buffer, size);
      });
    }
    return found;
  }

  eigentime_ticker_statistics statistics() const {
    eigentime_ticker_statistics found = EIGENTIME_TICKER_STATISTICS_INIT;
    detail::check(eigentime_ticker_get_statistics(handle_.get(), &found));
    return found;
  }
  /* The statistics as text for people, with a line for each event. */
  std::string text() const {
    return detail::text([&](char* buffer, std::size_t size) {
      return eigentime_ticker_text(handle_.get(), buffer, size);
    });
  }

  /* For functions of eigentime.h. */
  eigentime_ticker* get() const noexcept { return handle_.get(); }

 private:
  struct free {
    void operator()(eigentime_ticker* handle) const noexcept { eigentime_ticker_stop(handle); }
  };

  template <typename Rep, typename Period>
  static eigentime_event_options periodic(std::chrono::duration<Rep, Period> period) {
    eigentime_event_options asked = EIGENTIME_EVENT_OPTIONS_INIT;
    asked.period_ns = detail::nearest(period).count();
    if (asked.period_ns == 0) {
      asked.period_ns = -1; /* To be rejected: 0 would mean once. */
    }
    return asked;
  }
  static eigentime_event_options single(instant when) {
    eigentime_event_options asked = EIGENTIME_EVENT_OPTIONS_INIT;
    asked.start = when.ticks();
    return asked;
  }

  static void called(const eigentime_tick* found, void* user) noexcept {
    (*static_cast<callback*>(user))(tick{found->event, found->number, instant(found->due),
                                         instant(found->fired), found->missed,
                                         nanoseconds(found->stolen_ns)});
  }
  static void released(void* user) noexcept { delete static_cast<callback*>(user); }

  std::unique_ptr<eigentime_ticker, free> handle_;
};

}  // namespace eigentime

#endif  // EIGENTIME_HPP
