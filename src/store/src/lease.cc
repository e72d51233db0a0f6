#include "crosscheck/store/lease.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <utility>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"

namespace crosscheck::store {
namespace {

using base::Result;

// Where process ids mean the same: one boot of one machine, one pid namespace.
const std::string& process_space() {
  static const std::string space = [] {
    std::string id = base::read_file("/proc/sys/kernel/random/boot_id", 64).value_or("");
    char link[64];
    const auto n = ::readlink("/proc/self/ns/pid", link, sizeof link);
    if (n > 0) id.append(link, static_cast<std::size_t>(n));
    return base::sha256_hex(id).substr(0, 16);
  }();
  return space;
}

}  // namespace

// "<process space>:<pid>:<random>".
std::string make_owner() {
  return process_space() + ":" + std::to_string(::getpid()) + ":" + base::random_hex(6);
}

bool is_dead_here(std::string_view owner) {
  const auto first = owner.find(':');
  const auto last = owner.rfind(':');
  if (first == std::string_view::npos || first == last) return false;
  if (owner.substr(0, first) != process_space()) return false;
  const std::string_view digits = owner.substr(first + 1, last - first - 1);
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  if (error != std::errc{} || end != digits.data() + digits.size() || pid <= 0) return false;
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

Lease::Lease(Store& store, const base::Clock& clock, std::string name, base::Duration length)
    : store_{store}, clock_{clock}, name_{std::move(name)}, length_{length}, owner_{make_owner()} {}

Result<bool> Lease::hold() {
  const base::Time now = clock_.now();
  // A lease that ends later than any can is of before a clock was set back.
  const Parameters free{name_, owner_, now, now + 2 * length_};
  const auto holder = store_.read_value([&](Tx& tx) {
    return tx.query(
        "SELECT owner FROM leases WHERE name = $1 AND owner <> $2 AND held_until > $3 "
        "AND held_until <= $4",
        free);
  });
  if (!holder) return tl::unexpected(holder.error());
  // Looking takes no place in the queue of writers.
  const bool is_held = !holder->empty();
  const std::string dead =
      is_held && is_dead_here(holder->front().text(0)) ? holder->front().text(0) : "";
  if (is_held && dead.empty()) return false;
  return store_.write_value([&](Tx& tx) -> Result<bool> {
    auto taken = tx.execute(
        "INSERT INTO leases (name, owner, held_until) VALUES ($1, $2, $5) ON CONFLICT (name) DO "
        "UPDATE SET owner = $2, held_until = $5 WHERE leases.owner IN ($2, $6) "
        "OR leases.held_until <= $3 OR leases.held_until > $4",
        {name_, owner_, now, now + 2 * length_, now + length_, dead});
    if (!taken) return tl::unexpected(taken.error());
    return *taken == 1;
  });
}

Result<void> Lease::release() {
  return store_.write([&](Tx& tx) -> Result<void> {
    auto gone = tx.execute("DELETE FROM leases WHERE name = $1 AND owner = $2", {name_, owner_});
    if (!gone) return tl::unexpected(gone.error());
    return {};
  });
}

}  // namespace crosscheck::store
