// A backend in host memory whose implementations are plain functions over operators: the references, or faulty variants of them.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>

#include "backends/backend.h"
#include "backends/kernel.h"
#include "core/error.h"

namespace foretoken::test {

/// A kernel that is any function of its parameter bytes.
class FunctionCode final : public KernelCode {
 public:
  using Function = std::function<void(const void* params)>;
  FunctionCode(std::string name, size_t params_bytes, Function function)
      : KernelCode(std::move(name), params_bytes), function_(std::move(function)) {}
  void operator()(const void* params) const { function_(params); }

 private:
  Function function_;
};

/// A launch function for OpTable::add that runs `body(op)` when the launch runs.
template <class Op, class Body>
auto launch_of(Body body) {
  static_assert(std::is_trivially_copyable_v<Op>);
  auto code = std::make_shared<FunctionCode>(Op::schema().name(), sizeof(Op),
                                             [body](const void* op) { body(*static_cast<const Op*>(op)); });
  return [code](CommandList& cmd, const Op& op) { cmd.launch(*code, {}, std::as_bytes(std::span(&op, 1)), accesses_of(op)); };
}

/// Every operator, through its reference.
[[nodiscard]] OpTable reference_table();

/// Runs what `table` holds, in host memory, on the calling thread. It has no events. Operands may lie in any memory whose
/// addresses are host pointers, so it can read another backend's weights where they are.
class ReferenceBackend final : public GpuBackend {
 public:
  explicit ReferenceBackend(OpTable table = reference_table());

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] Buffer allocate(size_t bytes, MemoryKind kind) override;
  [[nodiscard]] size_t allocated_bytes() const override { return 0; }  // not counted
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override;
  [[nodiscard]] std::unique_ptr<Event> create_event() override {
    throw Error(ErrorCode::kUnsupported, "the reference backend has no events");
  }
  [[nodiscard]] Program record(std::string_view label, const RecordFn& fn) override;
  [[nodiscard]] const OpTable& ops() const override { return table_; }

 private:
  OpTable table_;
  Capabilities capabilities_;
};

}  // namespace foretoken::test
