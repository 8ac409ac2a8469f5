/*
 * libeigentime's clocks in place of those of std::chrono.
 *
 *   c++ -std=c++17 chrono.cpp $(pkg-config --cflags --libs eigentime) -o chrono
 */
#include <eigentime.hpp>

#include <chrono>
#include <iostream>
#include <thread>

using namespace std::chrono_literals;

/* Anything that takes a standard clock also takes these. */
template <typename Clock>
auto took(std::chrono::nanoseconds wait) {
  const auto start = Clock::now();
  std::this_thread::sleep_until(start + wait);
  return Clock::now() - start;
}

static void print(const char* name, const std::optional<std::chrono::nanoseconds>& error) {
  std::cout << name << "_error=";
  if (error) {
    std::cout << error->count() << '\n';
  } else {
    std::cout << "unbounded\n";
  }
}

int main() {
  std::cout << "version=" << eigentime::version() << '\n' << "trust=" << eigentime::trust() << '\n';

  /* For programs that read often: a thread, not a reading, compares the clock with the kernel's. */
  const eigentime::upkeep_thread upkeep(50ms);

  const auto steady = took<eigentime::steady_clock>(20ms);
  const auto system = took<eigentime::system_clock>(20ms);
  std::cout << "steady=" << steady.count() << '\n' << "system=" << system.count() << '\n';

  const auto now = eigentime::read();
  std::cout << "date=" << eigentime::system_clock::to_time_t(now.wall) << '\n';
  print("monotonic", now.error);
  print("wall", now.wall_error);
  print("utc", now.utc_error);

  const auto later = now.instant + 1500us;
  const auto between = eigentime::read_at(later).monotonic - now.monotonic;
  /* A sleep that ends on time, not some time later. */
  eigentime::sleeper sleeper;
  const auto until = eigentime::steady_clock::now() + 2ms;
  const auto slept = sleeper.sleep_until(until);
  std::cout << "early=" << (eigentime::steady_clock::from_instant(slept.woke) < until) << '\n'
            << "miss=" << slept.miss.count() << '\n';

  std::cout << "between=" << std::chrono::round<std::chrono::microseconds>(between).count() << '\n';
}
