#include "actor.h"

#include <pwd.h>
#include <unistd.h>

#include <array>

#include "crosscheck/base/json.h"

namespace crosscheck::cli {

Actor command_line_actor() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  const uid_t uid = ::getuid();
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0) found = nullptr;
  const std::string login = found != nullptr ? found->pw_name : "uid " + std::to_string(uid);
  return {base::to_utf8(login, 64), base::to_utf8(host.data(), 255)};
}

}  // namespace crosscheck::cli
