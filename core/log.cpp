#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace foretoken {
namespace {

std::string requested_level() {
  const char* value = std::getenv("FORETOKEN_LOG");
  return value == nullptr ? "" : value;
}

std::shared_ptr<spdlog::logger> make_logger() {
  auto logger = std::make_shared<spdlog::logger>("foretoken", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%n: %^%l%$: %v");
  const std::string level = requested_level();
  if (level.empty()) {
    logger->set_level(spdlog::level::warn);
  } else if (level == "dispatch") {
    logger->set_level(spdlog::level::info);
  } else {
    logger->set_level(spdlog::level::from_str(level));
  }
  return logger;
}

}  // namespace

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> logger = make_logger();
  return *logger;
}

bool log_dispatch() {
  static const bool enabled = requested_level() == "dispatch";
  return enabled;
}

}  // namespace foretoken
