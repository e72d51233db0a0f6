#include "crosscheck/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

#include "crosscheck/base/json.h"

namespace crosscheck::base::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  // Never destroyed: a static object's destructor may still log.
  static spdlog::logger& instance = *[] {
    auto made = std::make_unique<spdlog::logger>("crosscheck",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    made->set_level(spdlog::level::info);
    return made.release();
  }();
  return instance;
}

// One line whatever the value holds, so that nobody can write a second record.
void append_value(std::string& line, std::string_view value) {
  const bool plain = !value.empty() && value.find_first_of(" \"=\\\n\t") == std::string_view::npos;
  if (plain) {
    line += value;
    return;
  }
  line += '"';
  for (const char c : value) {
    switch (c) {
      case '"':
        line += "\\\"";
        break;
      case '\\':
        line += "\\\\";
        break;
      case '\n':
        line += "\\n";
        break;
      case '\t':
        line += "\\t";
        break;
      default:
        line += c;
    }
  }
  line += '"';
}

}  // namespace

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

bool parse_level(std::string_view name, Level& level) {
  for (const auto& [known, value] :
       {std::pair{"debug", Level::debug}, std::pair{"info", Level::info},
        std::pair{"warning", Level::warning}, std::pair{"error", Level::error},
        std::pair{"off", Level::off}}) {
    if (name == known) {
      level = value;
      return true;
    }
  }
  return false;
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  if (level == Level::off || !logger().should_log(to_spdlog(level))) return;
  std::string line{event};
  for (const Field& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, to_utf8(field.value));
  }
  logger().log(to_spdlog(level), spdlog::string_view_t{line});
}

}  // namespace crosscheck::base::log
