#include "tests/conformance/operators/oracle_backend.h"

#include <cstring>
#include <vector>

#include "backends/cpu/reference/host_buffer.h"
#include "backends/cpu/reference/reference.h"

namespace foretoken::test {
namespace {

struct Launch {
  const FunctionCode* code;
  std::vector<std::byte> params;
};

class OracleProgram final : public ProgramBody {
 public:
  using ProgramBody::ProgramBody;
  [[nodiscard]] size_t num_launches() const override { return launches.size(); }
  std::vector<Launch> launches;
};

std::byte* host_pointer(const BufferView& view) { return reinterpret_cast<std::byte*>(view.address()); }

/// Keeps launches in `recorded`, or runs them when that is null.
class OracleList final : public CommandList {
 public:
  OracleList(const OracleBackend& backend, std::vector<Launch>* recorded) : backend_(backend), recorded_(recorded) {}

  void launch(const KernelCode& code, Grid, std::span<const std::byte> params, std::span<const Access>) override {
    const auto& function = dynamic_cast<const FunctionCode&>(code);
    if (recorded_ == nullptr) return function(params.data());
    recorded_->push_back({.code = &function, .params = {params.begin(), params.end()}});
  }
  void copy(const BufferView&, const BufferView&) override { refuse(); }
  void fill(const BufferView&, uint32_t) override { refuse(); }
  void label(std::string_view) override {}
  [[nodiscard]] bool is_recording() const override { return recorded_ != nullptr; }
  [[nodiscard]] const OpTable& ops() const override { return backend_.ops(); }
  [[nodiscard]] const Capabilities& capabilities() const override { return backend_.capabilities(); }

 private:
  [[noreturn]] static void refuse() { throw Error(ErrorCode::kUnsupported, "the oracle backend only launches"); }

  const OracleBackend& backend_;
  std::vector<Launch>* recorded_;
};

class OracleStream final : public Stream {
 public:
  explicit OracleStream(const OracleBackend& backend) : backend_(backend) {}

  void run(const RecordFn& fn) override {
    OracleList list(backend_, nullptr);
    fn(list);
  }
  void run(const Program& program) override {
    for (const Launch& launch : dynamic_cast<const OracleProgram&>(program.body()).launches) (*launch.code)(launch.params.data());
  }
  void upload(std::span<const std::byte> source, const BufferView& destination) override {
    std::memcpy(host_pointer(destination), source.data(), source.size());
  }
  void download(const BufferView& source, std::span<std::byte> destination) override {
    std::memcpy(destination.data(), host_pointer(source), destination.size());
  }
  void copy(const BufferView& source, const BufferView& destination) override {
    std::memcpy(host_pointer(destination), host_pointer(source), source.bytes);
  }
  void record(Event&) override {}
  void wait(Event&) override {}
  void synchronize() override {}

 private:
  const OracleBackend& backend_;
};

}  // namespace

OracleBackend::OracleBackend(OpTable table) : table_(std::move(table)) {
  capabilities_.backend = "oracle";
  capabilities_.device_name = "float64 references";
  capabilities_.instruction_set = "none";
}

Buffer OracleBackend::allocate(size_t bytes, MemoryKind) { return Buffer(std::make_unique<HostBuffer>(bytes)); }

std::unique_ptr<Stream> OracleBackend::create_stream() { return std::make_unique<OracleStream>(*this); }

Program OracleBackend::record(std::string_view label, const RecordFn& fn) {
  auto body = std::make_unique<OracleProgram>(std::string(label), fn);
  OracleList list(*this, &body->launches);
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
