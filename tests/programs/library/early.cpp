/* Many short sleeps, and how many of them the kernel's own clock shows to have ended early. */

#include <eigentime.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

/* By a system call, which nothing in the process can be in front of. */
static nanoseconds kernel_now() {
  std::timespec now;
  if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) != 0) {
    std::_Exit(2);
  }
  return seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

template <typename Sleep>
static int is_early(nanoseconds length, Sleep sleep) {
  const nanoseconds end = kernel_now() + length;
  sleep(end);
  return kernel_now() < end;
}

int main() {
  const int rounds = 4000;
  int relative = 0, absolute = 0, timed = 0;
  eigentime::sleeper sleeper;
  for (int round = 0; round < rounds; round++) {
    const microseconds length(10 + round % 7);
    relative += is_early(length, [&](nanoseconds) { sleeper.sleep_for(length); });
    absolute += is_early(length, [&](nanoseconds) {
      sleeper.sleep_until(eigentime::instant::now() + length);
    });
    timed += is_early(length, [&](nanoseconds end) {
      sleeper.sleep_until(eigentime::steady_clock::time_point(end));
    });
  }
  std::printf("rounds=%d\nrelative=%d\nabsolute=%d\ntimed=%d\n", rounds, relative, absolute, timed);
}
