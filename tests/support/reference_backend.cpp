#include "tests/support/reference_backend.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/reference/host_buffer.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken::test {
namespace {

using Work = std::function<void()>;

class ReferenceProgram final : public ProgramBody {
 public:
  using ProgramBody::ProgramBody;
  [[nodiscard]] size_t num_launches() const override { return work.size(); }
  std::vector<Work> work;
};

std::byte* host_pointer(const BufferView& view) { return reinterpret_cast<std::byte*>(view.address()); }

void copy_bytes(const BufferView& source, const BufferView& destination) {
  if (source.bytes != destination.bytes || source.overlaps(destination)) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "ranges of a copy",
                                              .expected = std::to_string(source.bytes) + " bytes that do not overlap",
                                              .got = std::to_string(destination.bytes) + " bytes"});
  }
  std::memcpy(host_pointer(destination), host_pointer(source), source.bytes);
}

void fill_bytes(const BufferView& destination, uint32_t pattern) {
  for (size_t i = 0; i < destination.bytes; i += sizeof(pattern))
    std::memcpy(host_pointer(destination) + i, &pattern, std::min(sizeof(pattern), destination.bytes - i));
}

/// Keeps work in `recorded`, or does it when that is null.
class ReferenceList final : public CommandList {
 public:
  ReferenceList(const ReferenceBackend& backend, std::vector<Work>* recorded) : backend_(backend), recorded_(recorded) {}

  void launch(const KernelCode& code, Grid, std::span<const std::byte> params, std::span<const Access>) override {
    const auto& function = dynamic_cast<const FunctionCode&>(code);
    if (recorded_ == nullptr) return function(params.data());
    recorded_->emplace_back([&function, kept = std::vector(params.begin(), params.end())] { function(kept.data()); });
  }
  void copy(const BufferView& source, const BufferView& destination) override {
    put([=] { copy_bytes(source, destination); });
  }
  void fill(const BufferView& destination, uint32_t pattern) override {
    put([=] { fill_bytes(destination, pattern); });
  }
  void label(std::string_view) override {}
  [[nodiscard]] bool is_recording() const override { return recorded_ != nullptr; }
  [[nodiscard]] const OpTable& ops() const override { return backend_.ops(); }
  [[nodiscard]] const Capabilities& capabilities() const override { return backend_.capabilities(); }

 private:
  void put(const Work& work) {
    if (recorded_ == nullptr) return work();
    recorded_->push_back(work);
  }

  const ReferenceBackend& backend_;
  std::vector<Work>* recorded_;
};

class ReferenceStream final : public Stream {
 public:
  explicit ReferenceStream(const ReferenceBackend& backend) : backend_(backend) {}

  void run(const RecordFn& fn) override {
    ReferenceList list(backend_, nullptr);
    fn(list);
  }
  void run(const Program& program) override {
    for (const Work& work : dynamic_cast<const ReferenceProgram&>(program.body()).work) work();
  }
  void upload(std::span<const std::byte> source, const BufferView& destination) override {
    std::memcpy(host_pointer(destination), source.data(), source.size());
  }
  void download(const BufferView& source, std::span<std::byte> destination) override {
    std::memcpy(destination.data(), host_pointer(source), destination.size());
  }
  void copy(const BufferView& source, const BufferView& destination) override { copy_bytes(source, destination); }
  void record(Event&) override {}
  void wait(Event&) override {}
  void synchronize() override {}

 private:
  const ReferenceBackend& backend_;
};

}  // namespace

ReferenceBackend::ReferenceBackend(OpTable table) : table_(std::move(table)) {
  capabilities_.backend = "reference";
  capabilities_.device_name = "float64 references";
  capabilities_.instruction_set = "none";
  capabilities_.activation_dtypes = {DType::kF32, DType::kBF16};
  for (const WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
    const Availability slow = Availability::no("float64 arithmetic");
    capabilities_.weight_formats.push_back({.format = format, .storable = Availability::yes(), .fast = slow, .native = slow});
  }
}

Buffer ReferenceBackend::allocate(size_t bytes, MemoryKind) { return Buffer(std::make_unique<HostBuffer>(bytes)); }

std::unique_ptr<Stream> ReferenceBackend::create_stream() { return std::make_unique<ReferenceStream>(*this); }

Program ReferenceBackend::record(std::string_view label, const RecordFn& fn) {
  auto body = std::make_unique<ReferenceProgram>(std::string(label), fn);
  ReferenceList list(*this, &body->work);
  fn(list);
  return Program(std::move(body));
}

OpTable reference_table() {
  OpTable table;
  for_each_op([&table](auto tag) {
    using Op = typename decltype(tag)::type;
    table.add<Op>("reference", launch_of<Op>([](const Op& op) { reference(op); }));
  });
  return table;
}

}  // namespace foretoken::test
