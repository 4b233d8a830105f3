#include "backends/conformance/case_run.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/log.h"

namespace foretoken {
namespace {

/// FNV-1a: a seed that follows from the case's name alone.
uint64_t seed_of(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// Keeps the worst error and the first failure.
void merge(Comparison& into, const Comparison& other, size_t round) {
  if (into.failure.empty() && !other.failure.empty()) {
    into.failure = other.failure + " (inputs of round " + std::to_string(round) + ")";
  }
  if (other.relative_error >= into.relative_error) {
    into.relative_error = other.relative_error;
    into.tolerance = other.tolerance;
  }
}

/// Waits at the end of its scope, so that no work is left when an error takes the operands away.
class DrainedStream {
 public:
  explicit DrainedStream(Stream& stream) : stream_(stream) {}
  DrainedStream(const DrainedStream&) = delete;
  DrainedStream& operator=(const DrainedStream&) = delete;
  ~DrainedStream() {
    try {
      stream_.synchronize();
    } catch (const Error& error) {
      log().debug("conformance: {}", error.what());
    }
  }

 private:
  Stream& stream_;
};

}  // namespace

CaseRun::CaseRun(GpuBackend& backend, Stream& stream, const RunnableCase& test_case, uint64_t seed)
    : backend_(backend), stream_(stream), case_(test_case), seed_(seed_of(test_case.schema.name() + "/" + test_case.name)) {
  seed_ += kRounds * seed;
}

void CaseRun::prepare_rounds() {
  if (!rounds_.empty()) return;
  for (size_t i = 0; i < kRounds; ++i) {
    host_.begin(seed_ + i);
    host_op_ = case_.make(host_);
    host_op_->check();
    Round round{.initial = host_.images(), .expected = {}};
    host_op_->run_reference();
    round.expected = host_.images();
    rounds_.push_back(std::move(round));
  }
}

Availability CaseRun::accepts(const OpImplementation& implementation) {
  DeviceOp device(backend_);
  device.memory.begin(0);
  device.op = case_.make(device.memory);
  device.op->check();
  return implementation.accepts ? implementation.accepts(device.op->get()) : Availability::yes();
}

void CaseRun::prepare(DeviceOp& device, const OpImplementation& implementation) {
  device.memory.begin(0);
  device.op = case_.make(device.memory);
  device.num_operands = device.memory.size();
  const size_t scratch = implementation.workspace_bytes ? implementation.workspace_bytes(device.op->get()) : 0;
  if (scratch == 0) return;
  device.op->set_workspace(device.memory.workspace(scratch));
  stream_.upload(device.memory.poisoned(device.num_operands), device.memory.view(device.num_operands));
}

void CaseRun::upload(const DeviceOp& device, const Round& round) {
  for (size_t slot = 0; slot < device.num_operands; ++slot) stream_.upload(round.initial[slot], device.memory.view(slot));
}

Comparison CaseRun::check(const DeviceOp& device, const Round& round) {
  std::vector<ByteImage> actual;
  for (size_t slot = 0; slot < device.memory.size(); ++slot) {
    actual.emplace_back(device.memory.view(slot).bytes);
    stream_.download(device.memory.view(slot), actual.back());
  }
  if (actual.size() > device.num_operands) {
    const ByteImage scratch = std::move(actual.back());
    actual.pop_back();
    const size_t bytes = device.memory.operand_bytes(device.num_operands);
    std::vector<bool> writable(scratch.size(), false);
    std::fill_n(writable.begin() + OperandSet::kGuardBytes, bytes, true);
    const ByteImage initial = device.memory.poisoned(device.num_operands);
    const std::string stray = describe_stray_write("workspace", bytes, writable, initial, scratch);
    if (!stray.empty()) return {.failure = stray};
  }
  host_.restore(round.initial);
  const std::vector<const Tensor*> operands = host_op_->operands();
  const ComparedOp op{.schema = case_.schema,
                      .operands = operands,
                      .memory = host_,
                      .tolerance_override = case_.tolerance_override,
                      .accepts_id = [this](const std::string& operand, int64_t element, int64_t got) {
                        return host_op_->accepts_id(operand, element, got);
                      }};
  return compare_run(op, {.initial = round.initial, .expected = round.expected, .actual = actual});
}

std::vector<ModeResult> CaseRun::run(const OpImplementation& implementation) {
  std::vector<ModeResult> results{{.mode = "immediate", .comparison = {}}};
  try {
    prepare_rounds();
    DeviceOp device(backend_);
    const DrainedStream drained(stream_);
    prepare(device, implementation);
    const RecordFn launch = [&](CommandList& cmd) { implementation.launch(cmd, device.op->get()); };
    upload(device, rounds_[0]);
    stream_.run(launch);
    results.back().comparison = check(device, rounds_[0]);

    results.push_back({.mode = "replayed", .comparison = {}});
    const Program program = backend_.record("conformance " + case_.schema.name(), launch);
    for (size_t i = 1; i < kRounds; ++i) {
      upload(device, rounds_[i]);
      stream_.run(program);
      merge(results.back().comparison, check(device, rounds_[i]), i);
    }
  } catch (const Error& error) {
    results.back().comparison.failure = std::string(to_string(error.code())) + ": " + error.what();
  }
  return results;
}

CaseTiming CaseRun::time(const OpImplementation& implementation) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kSamples = 9;
  constexpr std::chrono::microseconds kSampleTime{500};
  prepare_rounds();
  DeviceOp device(backend_);
  const DrainedStream drained(stream_);
  prepare(device, implementation);
  upload(device, rounds_[0]);
  const Program program = backend_.record("conformance " + case_.schema.name(),
                                          [&](CommandList& cmd) { implementation.launch(cmd, device.op->get()); });
  const auto replay = [&](size_t times) {
    const Clock::time_point begin = Clock::now();
    for (size_t i = 0; i < times; ++i) stream_.run(program);
    stream_.synchronize();
    return Clock::now() - begin;
  };
  size_t times = 1;
  while (replay(times) < kSampleTime) times *= 2;
  std::vector<double> samples;
  for (size_t i = 0; i < kSamples; ++i) {
    samples.push_back(std::chrono::duration<double, std::micro>(replay(times)).count() / static_cast<double>(times));
  }
  std::ranges::nth_element(samples, samples.begin() + kSamples / 2);
  CaseTiming timing{.median_us = samples[kSamples / 2]};
  for (size_t slot = 0; slot < device.num_operands; ++slot) timing.operand_bytes += device.memory.operand_bytes(slot);
  return timing;
}

}  // namespace foretoken
