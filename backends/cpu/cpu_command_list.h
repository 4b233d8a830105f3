// The two command lists of the CPU: one runs each launch at once, the other keeps it.
#pragma once

#include <string>
#include <string_view>

#include "backends/command_list.h"
#include "backends/cpu/cpu_program.h"
#include "backends/cpu/kernel_entry.h"
#include "backends/launch_checks.h"

namespace foretoken::cpu {

/// What both lists share: the checks, and copies and fills as launches.
class CpuCommandList : public CommandList {
 public:
  CpuCommandList(const OpTable& ops, const Capabilities& capabilities) : ops_(ops), capabilities_(capabilities) {}

  void launch(const KernelCode& code, Grid grid, std::span<const std::byte> params, std::span<const Access> accesses) final;
  void copy(const BufferView& source, const BufferView& destination) final;
  void fill(const BufferView& destination, uint32_t pattern) final;
  [[nodiscard]] const OpTable& ops() const final { return ops_; }
  [[nodiscard]] const Capabilities& capabilities() const final { return capabilities_; }

 protected:
  /// Takes a checked launch of at least one item. `kernel_name` outlives the list.
  virtual void submit(KernelFn kernel, std::string_view kernel_name, std::span<const std::byte> params, uint32_t num_items,
                      std::span<const Access> accesses) = 0;

 private:
  const OpTable& ops_;
  const Capabilities& capabilities_;
};

/// Runs each launch through the pool before the call returns.
class ImmediateCommandList final : public CpuCommandList {
 public:
  /// `eager_label`: null, or the label of a Program that runs launch by launch, so that a fault is thrown (DeviceError) by the
  /// very call that caused it.
  ImmediateCommandList(const OpTable& ops, const Capabilities& capabilities, ThreadPool& pool, FaultSlot& fault,
                       const std::string* eager_label)
      : CpuCommandList(ops, capabilities), pool_(pool), fault_(fault), eager_label_(eager_label) {}

  void label(std::string_view text) override { label_ = text; }
  [[nodiscard]] bool is_recording() const override { return false; }

 protected:
  void submit(KernelFn kernel, std::string_view kernel_name, std::span<const std::byte> params, uint32_t num_items,
              std::span<const Access> accesses) override;

 private:
  ThreadPool& pool_;
  FaultSlot& fault_;
  const std::string* eager_label_;
  std::string label_;
  size_t num_launches_ = 0;
};

/// Appends each launch to a program.
class RecordingCommandList final : public CpuCommandList, public RefusesWhileRecording<RecordingCommandList> {
 public:
  RecordingCommandList(const OpTable& ops, const Capabilities& capabilities, CpuProgram& program)
      : CpuCommandList(ops, capabilities), RefusesWhileRecording(true), program_(program) {}

  void label(std::string_view text) override { program_.begin_label(text); }
  [[nodiscard]] bool is_recording() const override { return true; }

 protected:
  void submit(KernelFn kernel, std::string_view kernel_name, std::span<const std::byte> params, uint32_t num_items,
              std::span<const Access> accesses) override;

 private:
  CpuProgram& program_;
};

}  // namespace foretoken::cpu
