#include "tests/support/gated_device.h"

#include <type_traits>
#include <utility>
#include <vector>

#include "backends/linear_group_parts.h"
#include "backends/moe_block_parts.h"
#include "backends/row_by_row.h"
#include "core/ops/all_ops.h"

namespace foretoken::test {
namespace {

constexpr WeightFormat kAllFormats[] = {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block,
                                        WeightFormat::kNvfp4};

/// The weights of an operator whose formats decide; of gate and up, which are alike, the first.
template <class Op>
std::vector<const LinearWeight*> weights_of(const Op& op) {
  if constexpr (std::is_same_v<Op, LinearGroup>) {
    std::vector<const LinearWeight*> weights;
    for (size_t i = 0; i < op.num_projections(); ++i) weights.push_back(&op.w[i]);
    return weights;
  } else {
    if constexpr (requires { op.w; }) return {&op.w};
    if constexpr (requires { op.gate_up; }) return {&op.gate_up};
    if constexpr (requires { op.down; }) return {&op.down};
    if constexpr (std::is_same_v<Op, LinearSiluMul>) return {&op.gate};
    return {};
  }
}

template <class Op>
constexpr bool kIsLinear = std::is_same_v<Op, Linear> || std::is_same_v<Op, LinearGroup> || std::is_same_v<Op, LinearSiluMul> ||
                           std::is_same_v<Op, LinearArgmax>;

template <class Op>
Availability passes(const Gate& gate, const Op& op) {
  for (const LinearWeight* w : weights_of(op)) {
    const std::string format(to_string(w->format));
    if (gate.not_storable.contains(w->format)) return Availability::no(gate_reason(w->format));
    if constexpr (kIsLinear<Op>) {
      if (gate.one_row_only.contains(w->format) && op.x.dim(0) > 1) return Availability::no(format + " weights take one row");
    }
    if (std::is_same_v<Op, LinearArgmax> && gate.no_fused_argmax.contains(w->format)) {
      return Availability::no("no kernel for " + format + " weights");
    }
  }
  return Availability::yes();
}

template <class Op>
void add_gated(OpTable& table, const OpTable& inner, const Gate& gate) {
  if (std::is_same_v<Op, MoeBlock>) return;  // its parts are gated
  if (gate.no_operator.contains(Op::schema().name())) return;
  for (const OpImplementation& implementation : inner.find(Op::schema().name())) {
    table.add<Op>(
        implementation.name, [&implementation](CommandList& cmd, const Op& op) { implementation.launch(cmd, &op); },
        [&implementation, &gate](const Op& op) {
          Availability passed = passes(gate, op);
          if (!passed || !implementation.accepts) return passed;
          return implementation.accepts(&op);
        },
        [&implementation](const Op& op) { return implementation.workspace_bytes ? implementation.workspace_bytes(&op) : 0; });
  }
}

/// A list of the device underneath, with the gated operators.
class GatedList final : public CommandList {
 public:
  GatedList(CommandList& inner, const OpTable& table, const Capabilities& capabilities)
      : inner_(inner), table_(table), capabilities_(capabilities) {}

  void launch(const KernelCode& code, Grid grid, std::span<const std::byte> params, std::span<const Access> accesses) override {
    inner_.launch(code, grid, params, accesses);
  }
  void copy(const BufferView& source, const BufferView& destination) override { inner_.copy(source, destination); }
  void fill(const BufferView& destination, uint32_t pattern) override { inner_.fill(destination, pattern); }
  void label(std::string_view text) override { inner_.label(text); }
  [[nodiscard]] bool is_recording() const override { return inner_.is_recording(); }
  [[nodiscard]] const OpTable& ops() const override { return table_; }
  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }

 private:
  CommandList& inner_;
  const OpTable& table_;
  const Capabilities& capabilities_;
};

class GatedBackend final : public GpuBackend {
 public:
  GatedBackend(std::unique_ptr<GpuBackend> inner, Gate gate)
      : inner_(std::move(inner)), gate_(std::move(gate)), capabilities_(inner_->capabilities()) {
    capabilities_.backend = "gated";
    capabilities_.device_name = gate_.device_name;
    for (WeightFormatSupport& support : capabilities_.weight_formats) {
      if (!gate_.not_storable.contains(support.format)) continue;
      support.storable = support.fast = support.native = Availability::no(gate_reason(support.format));
    }
    for_each_op([this](auto tag) { add_gated<typename decltype(tag)::type>(table_, inner_->ops(), gate_); });
    if (gate_.row_by_row) {
      add_row_by_row(table_);
      add_linear_group_parts(table_);
    }
    add_moe_block_parts(table_);
  }

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] Buffer allocate(size_t bytes, MemoryKind kind) override { return inner_->allocate(bytes, kind); }
  [[nodiscard]] Buffer adopt_memory(const NativeMemory& memory) override { return inner_->adopt_memory(memory); }
  [[nodiscard]] size_t allocated_bytes() const override { return inner_->allocated_bytes(); }
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override;
  [[nodiscard]] std::unique_ptr<Stream> adopt_stream(void* native) override;
  [[nodiscard]] std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  [[nodiscard]] Program record(std::string_view label, const RecordFn& fn) override { return inner_->record(label, gated(fn)); }
  [[nodiscard]] const OpTable& ops() const override { return table_; }

  /// `fn` on a list that knows the gated operators.
  [[nodiscard]] RecordFn gated(const RecordFn& fn) const {
    return [this, fn](CommandList& inner) {
      GatedList list(inner, table_, capabilities_);
      fn(list);
    };
  }

 private:
  std::unique_ptr<GpuBackend> inner_;
  Gate gate_;
  Capabilities capabilities_;
  OpTable table_;
};

class GatedStream final : public Stream {
 public:
  GatedStream(const GatedBackend& backend, std::unique_ptr<Stream> inner) : backend_(backend), inner_(std::move(inner)) {}

  void run(const RecordFn& fn) override { inner_->run(backend_.gated(fn)); }
  void run(const Program& program) override { inner_->run(program); }
  void upload(std::span<const std::byte> source, const BufferView& destination) override { inner_->upload(source, destination); }
  void download(const BufferView& source, std::span<std::byte> destination) override { inner_->download(source, destination); }
  void copy(const BufferView& source, const BufferView& destination) override { inner_->copy(source, destination); }
  void record(Event& event) override { inner_->record(event); }
  void wait(Event& event) override { inner_->wait(event); }
  void synchronize() override { inner_->synchronize(); }

 private:
  const GatedBackend& backend_;
  std::unique_ptr<Stream> inner_;
};

std::unique_ptr<Stream> GatedBackend::create_stream() { return std::make_unique<GatedStream>(*this, inner_->create_stream()); }

std::unique_ptr<Stream> GatedBackend::adopt_stream(void* native) {
  return std::make_unique<GatedStream>(*this, inner_->adopt_stream(native));
}

}  // namespace

Gate without_nvfp4() { return {.device_name = "device without NVFP4", .not_storable = {WeightFormat::kNvfp4}}; }

Gate nvfp4_one_row_only() { return {.device_name = "device for one row of NVFP4", .one_row_only = {WeightFormat::kNvfp4}}; }

Gate fp8_only() { return {.device_name = "device for FP8", .not_storable = {WeightFormat::kF32, WeightFormat::kNvfp4}}; }

Gate stores_nothing() {
  return {.device_name = "device for nothing", .not_storable = {std::begin(kAllFormats), std::end(kAllFormats)}};
}

Gate without_fused_argmax(WeightFormat format) {
  return {.device_name = "device without a fused LM head", .no_fused_argmax = {format}};
}

std::string gate_reason(WeightFormat format) { return "no unit for " + std::string(to_string(format)); }

std::unique_ptr<GpuBackend> make_gated_backend(std::unique_ptr<GpuBackend> inner, Gate gate) {
  return std::make_unique<GatedBackend>(std::move(inner), std::move(gate));
}

}  // namespace foretoken::test
