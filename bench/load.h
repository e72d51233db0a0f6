#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace crosscheck::bench {

// What came back of a load.
struct Load {
  std::vector<std::chrono::microseconds> latencies;  // in the order of the answers
  std::map<int, int> statuses;
  std::chrono::microseconds took{};
  std::string odd_answer;  // one with another status than the first one's

  // `share` in [0, 1]; 0 of no latencies.
  [[nodiscard]] std::chrono::microseconds percentile(double share) const;
  [[nodiscard]] double per_second() const;
};

// Sends `requests` (whole HTTP/1.1 requests, as bytes) over `connections` kept alive, each of which
// has one under way at a time. The connections stand before the clock starts. Throws when one
// breaks.
[[nodiscard]] Load send_all(std::uint16_t port, const std::vector<std::string>& requests,
                            std::size_t connections);

// A request without an answer's body: its status, or 0 when nobody answers.
[[nodiscard]] int status_of(std::uint16_t port, const std::string& request);

}  // namespace crosscheck::bench
