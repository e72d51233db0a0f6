#include "check.h"

#include <cmath>
#include <exception>

#include "crosscheck/base/json.h"

namespace crosscheck::store {

using base::fail;
using base::Fault;

base::Result<void> check_parameters(const Parameters& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Value& value = parameters[i].value();
    if (const auto* text = std::get_if<std::string>(&value)) {
      if (text->find('\0') != std::string::npos) {
        return fail(Fault::invalid_input,
                    "text for $" + std::to_string(i + 1) + " holds a NUL character");
      }
      if (!base::is_utf8(*text)) {
        return fail(Fault::invalid_input, "text for $" + std::to_string(i + 1) + " is not UTF-8");
      }
    } else if (const auto* real = std::get_if<double>(&value);
               real != nullptr && std::isnan(*real)) {
      return fail(Fault::invalid_input, "$" + std::to_string(i + 1) + " is not a number (NaN)");
    }
  }
  return {};
}

std::string summary(std::string_view sql) {
  constexpr std::size_t k_limit = 80;
  std::string out;
  for (const char c : sql) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out += blank ? ' ' : c;
    if (out.size() == k_limit) return out + "…";
  }
  return out;
}

thread_local bool InsideWrite::inside_ = false;

base::Result<void> InsideWrite::check() {
  if (inside_)
    return fail(Fault::internal, "write() was called inside the body of another write()");
  return {};
}

base::Result<void> guarded(const std::function<base::Result<void>(Tx&)>& body, Tx& tx) {
  try {
    return body(tx);
  } catch (const std::exception& error) {
    return fail(Fault::internal, std::string{"in a transaction: "} + error.what());
  } catch (...) {
    return fail(Fault::internal, "in a transaction: an unknown exception");
  }
}

}  // namespace crosscheck::store
