// The generation engine of the C API.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "foretoken/engine.h"
#include "speculative/c_api/device.h"
#include "speculative/engine.h"

namespace foretoken::c_api {

class EngineObject final : public DeviceChild {
 public:
  static constexpr std::string_view kKind = "engine";

  /// Loads the model. Throws what Engine throws.
  EngineObject(const std::shared_ptr<DeviceObject>& on_device, const foretoken_engine_options& options);

  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] GenerationEngine& generator() { return engine_->generator(); }
  [[nodiscard]] const std::string& notes() const { return notes_; }
  /// Throws Unsupported for a model without one.
  [[nodiscard]] const Tokenizer& tokenizer() const;
  /// Queues a request. Throws InvalidArgument.
  RequestId submit(std::span<const int32_t> prompt, const foretoken_request* request);

 private:
  /// What callbacks know of their request: its id from before the first of them on.
  struct Ticket {
    RequestId id = 0;
    bool is_cancelled = false;  // by a callback; none is called afterwards
  };

  /// A caller's request in the engine's terms.
  [[nodiscard]] GenerationOptions generation_options(const foretoken_request& request, const std::shared_ptr<Ticket>& ticket);

  std::unique_ptr<Engine> engine_;
  std::string notes_;
};

class ResultObject final : public DeviceChild {
 public:
  static constexpr std::string_view kKind = "result";

  ResultObject(std::shared_ptr<DeviceObject> device, GenerationResult made)
      : DeviceChild(std::move(device)), result(std::move(made)) {}

  GenerationResult result;
};

}  // namespace foretoken::c_api
