/*
 * Events on time: one every millisecond, and one that adds another.
 *
 *   c++ -std=c++17 ticker.cpp $(pkg-config --cflags --libs eigentime) -o ticker
 */
#include <eigentime.hpp>

#include <atomic>
#include <iostream>

using namespace std::chrono_literals;

int main() {
  eigentime::ticker ticker;
  for (const auto& lost : ticker.degradation()) {
    std::cout << "degraded=" << lost << '\n';
  }

  std::atomic<int> ticks{0};
  std::atomic<int> early{0};
  eigentime::event every = ticker.every(1ms, [&](const eigentime::tick& tick) {
    early += tick.miss() < 0ns;
    ticks += 1 + static_cast<int>(tick.missed);
  });

  /* Twenty events, each counted by itself. */
  eigentime::event counted = ticker.count_every(1ms);
  std::cout << "counted=" << counted.wait_past(19) << '\n';

  /* A callback may add events; `keep` lets one continue without its handle. */
  eigentime::event done = ticker.count_once(eigentime::instant::now() + 5ms);
  std::atomic<bool> chained{false};
  ticker
      .once(eigentime::instant::now() + 1ms,
            [&](const eigentime::tick&) {
              ticker.once(eigentime::instant::now(), [&](const eigentime::tick&) { chained = true; })
                  .keep();
            })
      .keep();
  done.wait_past(0);
  while (!chained) {
    counted.wait_past(counted.passed());
  }
  std::cout << "chained=" << chained << '\n';

  /* From here on it no longer runs. */
  every.remove();
  std::cout << "ticks=" << ticks << '\n' << "early=" << early << '\n';

  try {
    ticker.every(1us, [](const eigentime::tick&) {}).keep();
  } catch (const std::system_error& error) {
    std::cout << "refused=" << error.what() << '\n';
  }
}
