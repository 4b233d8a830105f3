#include "tests/support/late_device.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/cpu_command_list.h"
#include "backends/view_checks.h"
#include "core/error.h"
#include "tests/support/late_memory.h"
#include "tests/support/late_queue.h"

namespace foretoken::test {
namespace {

thread_local int recordings_of_this_thread = 0;

void refuse_while_recording(const char* call) {
  if (recordings_of_this_thread > 0) throw Error(ErrorCode::kInvalidState, std::string(call) + " while a Program is recorded");
}

class LateBuffer final : public BufferHandle {
 public:
  LateBuffer(size_t bytes, LateMemory& memory) : bytes_(bytes), memory_(memory), data_(memory.allocate(bytes)) {}
  ~LateBuffer() override { memory_.free(data_, bytes_); }

  [[nodiscard]] size_t bytes() const override { return bytes_; }
  [[nodiscard]] DeviceAddress address() const override { return reinterpret_cast<DeviceAddress>(data_); }
  [[nodiscard]] MemoryKind kind() const override { return MemoryKind::kDevice; }
  [[nodiscard]] std::byte* host_data() const override { return nullptr; }

 private:
  size_t bytes_;
  LateMemory& memory_;
  std::byte* data_;
};

/// What an event shares with the work that completes it.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0;
  uint64_t completed = 0;
  std::chrono::steady_clock::time_point time{};
  std::optional<std::string> fault;

  void wait(uint64_t target) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return completed >= target; });
  }
};

class LateEvent final : public Event {
 public:
  [[nodiscard]] const std::shared_ptr<EventState>& state() const { return state_; }

  [[nodiscard]] bool is_complete() const override {
    const std::scoped_lock lock(state_->mutex);
    return state_->completed == state_->recorded;
  }

  void synchronize() override {
    refuse_while_recording("waiting for an event");
    uint64_t target = 0;
    {
      const std::scoped_lock lock(state_->mutex);
      target = state_->recorded;
    }
    state_->wait(target);
    const std::scoped_lock lock(state_->mutex);
    if (state_->fault) throw Error(ErrorCode::kDeviceError, *state_->fault);
  }

  [[nodiscard]] double elapsed_us(const Event& earlier) const override {
    const auto* start = dynamic_cast<const LateEvent*>(&earlier);
    if (start == nullptr) throw Error(ErrorCode::kInvalidArgument, "event of another backend");
    return std::chrono::duration<double, std::micro>(time() - start->time()).count();
  }

 private:
  [[nodiscard]] std::chrono::steady_clock::time_point time() const {
    const std::scoped_lock lock(state_->mutex);
    if (state_->recorded == 0 || state_->completed != state_->recorded) {
      throw Error(ErrorCode::kInvalidState, "elapsed time of an event that is not complete");
    }
    return state_->time;
  }

  std::shared_ptr<EventState> state_ = std::make_shared<EventState>();
};

/// Records into a list of the CPU, whatever it pretends to be.
class LateCommandList final : public CommandList {
 public:
  LateCommandList(CommandList& inner, const Capabilities& capabilities, bool recording)
      : inner_(inner), capabilities_(capabilities), recording_(recording) {}

  void launch(const KernelCode& code, Grid grid, std::span<const std::byte> params, std::span<const Access> accesses) override {
    inner_.launch(code, grid, params, accesses);
  }
  void copy(const BufferView& source, const BufferView& destination) override { inner_.copy(source, destination); }
  void fill(const BufferView& destination, uint32_t pattern) override { inner_.fill(destination, pattern); }
  void label(std::string_view text) override { inner_.label(text); }
  [[nodiscard]] bool is_recording() const override { return recording_; }
  [[nodiscard]] const OpTable& ops() const override { return inner_.ops(); }
  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }

 private:
  CommandList& inner_;
  const Capabilities& capabilities_;
  bool recording_;
};

class LateProgram final : public ProgramBody {
 public:
  LateProgram(std::string label, RecordFn function, Program inner)
      : ProgramBody(std::move(label), std::move(function)), inner_(std::make_shared<const Program>(std::move(inner))) {}

  [[nodiscard]] size_t num_launches() const override { return inner_->body().num_launches(); }
  [[nodiscard]] const std::shared_ptr<const Program>& inner() const { return inner_; }

 private:
  std::shared_ptr<const Program> inner_;  // shared with queued replays, which may outlive the owner
};

class LateStream final : public Stream {
 public:
  LateStream(cpu::CpuBackend& cpu, LateMemory& memory, const Capabilities& capabilities, const LateOptions& late)
      : cpu_(cpu),
        memory_(memory),
        capabilities_(capabilities),
        stream_(cpu.create_stream()),
        queue_(late.seed, late.max_delay_us) {}

  void run(const RecordFn& fn) override {
    refuse_while_recording("running work");
    auto program = std::make_shared<const Program>(cpu_.record("immediate", [&](CommandList& inner) {
      LateCommandList list(inner, capabilities_, /*recording=*/false);
      fn(list);
    }));
    push([this, program] { stream_->run(*program); });
  }

  void run(const Program& program) override {
    refuse_while_recording("running a Program");
    const auto* own = program ? dynamic_cast<const LateProgram*>(&program.body()) : nullptr;
    if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, "Program of another backend, or an empty one");
    push([this, inner = own->inner()] { stream_->run(*inner); });
  }

  void upload(std::span<const std::byte> source, const BufferView& destination) override {
    refuse_while_recording("upload");
    check_view(destination, "upload: destination");
    check_equal_sizes(source.size(), destination.bytes, "upload");
    push([this, destination, bytes = std::vector<std::byte>(source.begin(), source.end())] {
      stream_->upload(bytes, destination);
    });
  }

  void download(const BufferView& source, std::span<std::byte> destination) override {
    refuse_while_recording("download");
    check_view(source, "download: source");
    check_equal_sizes(source.bytes, destination.size(), "download");
    std::exception_ptr failure;
    push([this, source, destination, &failure] {
      try {
        stream_->download(source, destination);
      } catch (...) {
        failure = std::current_exception();
      }
    });
    queue_.wait_idle();
    if (failure) std::rethrow_exception(failure);
  }

  void copy(const BufferView& source, const BufferView& destination) override {
    run([&](CommandList& list) { list.copy(source, destination); });
  }

  void record(Event& event) override {
    refuse_while_recording("recording an event");
    const std::shared_ptr<EventState> state = own_state(event);
    uint64_t target = 0;
    {
      const std::scoped_lock lock(state->mutex);
      target = ++state->recorded;
    }
    push([this, state, target] {
      const auto inner = cpu_.create_event();
      stream_->record(*inner);
      std::optional<std::string> fault;
      try {
        inner->synchronize();
      } catch (const Error& error) {
        fault = error.what();
      }
      const std::scoped_lock lock(state->mutex);
      state->completed = target;
      state->time = std::chrono::steady_clock::now();
      state->fault = std::move(fault);
      state->changed.notify_all();
    });
  }

  void wait(Event& event) override {
    refuse_while_recording("waiting for an event");
    const std::shared_ptr<EventState> state = own_state(event);
    const std::scoped_lock lock(state->mutex);
    queue_.push([state, target = state->recorded] { state->wait(target); });
  }

  void synchronize() override {
    refuse_while_recording("synchronize");
    queue_.wait_idle();
    stream_->synchronize();
  }

 private:
  static std::shared_ptr<EventState> own_state(Event& event) {
    auto* own = dynamic_cast<LateEvent*>(&event);
    if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, "event of another backend");
    return own->state();
  }

  void push(std::function<void()> work) {
    queue_.push([this, work = std::move(work)] {
      const LateMemory::Open open(memory_);
      work();
    });
  }

  cpu::CpuBackend& cpu_;
  LateMemory& memory_;
  const Capabilities& capabilities_;
  std::unique_ptr<Stream> stream_;
  LateQueue queue_;  // last: its destructor runs what is left
};

class LateBackend final : public GpuBackend {
 public:
  LateBackend(const BackendOptions& options, const LateOptions& late)
      : cpu_(options, /*eager=*/false), capabilities_(cpu_.capabilities()), late_(late) {
    capabilities_.backend = "late";
    capabilities_.device_name = "late test device on " + cpu_.capabilities().device_name;
    capabilities_.kind = DeviceKind::kOther;
  }

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }

  [[nodiscard]] Buffer allocate(size_t bytes, MemoryKind kind) override {
    refuse_while_recording("allocating memory");
    if (kind == MemoryKind::kHostVisible) return cpu_.allocate(bytes, kind);
    return Buffer(std::make_unique<LateBuffer>(bytes, memory_));
  }

  /// Memory that the host touches as it likes, as a caller may.
  [[nodiscard]] Buffer adopt_memory(const NativeMemory& memory) override { return cpu_.adopt_memory(memory); }

  [[nodiscard]] size_t allocated_bytes() const override { return memory_.allocated_bytes() + cpu_.allocated_bytes(); }

  [[nodiscard]] std::unique_ptr<Stream> create_stream() override {
    LateOptions late = late_;
    late.seed += num_streams_++;
    return std::make_unique<LateStream>(cpu_, memory_, capabilities_, late);
  }

  [[nodiscard]] std::unique_ptr<Event> create_event() override { return std::make_unique<LateEvent>(); }

  [[nodiscard]] Program record(std::string_view label, const RecordFn& fn) override {
    refuse_while_recording("recording a second Program");
    Program inner = cpu_.record(label, [&](CommandList& list) {
      struct Scope {
        Scope() { ++recordings_of_this_thread; }
        ~Scope() { --recordings_of_this_thread; }
      } const scope;
      LateCommandList late(list, capabilities_, /*recording=*/true);
      fn(late);
    });
    return Program(std::make_unique<LateProgram>(std::string(label), fn, std::move(inner)));
  }

  [[nodiscard]] const OpTable& ops() const override { return cpu_.ops(); }

 private:
  cpu::CpuBackend cpu_;
  LateMemory memory_;
  Capabilities capabilities_;
  LateOptions late_;
  std::atomic<uint64_t> num_streams_ = 0;
};

}  // namespace

std::unique_ptr<GpuBackend> make_late_backend(const BackendOptions& options, const LateOptions& late) {
  return std::make_unique<LateBackend>(options, late);
}

}  // namespace foretoken::test
