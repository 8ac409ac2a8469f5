/* Lengths that nanoseconds cannot count, or not exactly. */

#include <eigentime.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <ratio>
#include <system_error>
#include <thread>

using std::chrono::duration;
using std::chrono::hours;
using std::chrono::milliseconds;

static std::atomic<int> waiting{0};
static std::atomic<int> returned{0};

/* Begins a wait that is not to end while this program runs. */
template <typename Wait>
static void for_ever(Wait wait) {
  std::thread([wait] {
    waiting++;
    wait();
    returned++;
  }).detach();
}

/* What is said to a call; "taken" if it is done. */
template <typename Call>
static void said(const char* name, Call call) {
  try {
    call();
    std::printf("%s=taken\n", name);
  } catch (const std::system_error& error) {
    std::printf("%s=%s\n", name, error.what());
  }
}

int main() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  eigentime::ticker ticker;
  const eigentime::event longest = ticker.count_every(hours::max());
  const eigentime::event infinite = ticker.count_every(duration<double, std::milli>(1e300));

  for_ever([] { eigentime::sleeper().sleep_for(milliseconds::max()); });
  for_ever([] { eigentime::sleeper().sleep_for(hours::max()); });
  for_ever([] { eigentime::sleeper().sleep_for(duration<double>(1e300)); });
  for_ever([&] { longest.wait_past_for(0, hours::max()); });
  /* A busy host may take long to start a thread. */
  while (waiting.load() < 4) {
    std::this_thread::yield();
  }

  eigentime::sleeper sleeper;
  const auto before = eigentime::instant::now_ordered();
  const auto slept = sleeper.sleep_for(duration<double>(0.2));
  std::printf("short=%d\n", slept.woke - before < milliseconds(200));
  sleeper.sleep_for(hours::min());
  std::printf("past=%d\n", !longest.wait_past_for(0, hours::min()));
  std::printf("counted=%d\n", static_cast<int>(longest.passed() + infinite.passed()));
  std::printf("returned=%d\n", returned.load());

  /* The shortest period is 10 µs, so that 9,999 ns would be refused. */
  said("nearest", [&] { (void)ticker.count_every(duration<double, std::micro>(9.9997)); });
  said("nan", [&] { sleeper.sleep_for(duration<double>(nan)); });
  said("nan_timeout", [&] { longest.wait_past_for(0, duration<double>(nan)); });
  said("nan_period", [&] { (void)ticker.count_every(duration<double>(nan)); });
  said("negative", [&] { (void)ticker.count_every(hours::min()); });
  std::fflush(stdout);
  /* The threads wait on. */
  std::_Exit(0);
}
