#include "backends/vulkan/vulkan_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/view_checks.h"
#include "backends/vulkan/vulkan_buffer.h"
#include "backends/vulkan/vulkan_error.h"
#include "backends/vulkan/vulkan_event.h"
#include "backends/vulkan/vulkan_program.h"
#include "core/error.h"
#include "core/log.h"

namespace foretoken::vulkan {
namespace {

constexpr size_t kAlignment = 256;

VulkanEvent& own_event(Event& event) {
  auto* own = dynamic_cast<VulkanEvent*>(&event);
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, "event of another backend");
  return *own;
}

void refuse_while_recording(std::string_view call) { VulkanCommandList::refuse_while_recording(call); }

}  // namespace

VulkanStream::VulkanStream(const ListContext& context, bool synchronous)
    : context_(context),
      device_(context.device),
      synchronous_(synchronous),
      timeline_(std::make_shared<Timeline>(context.device)),
      pool_(context.device.make_command_pool()) {}

VulkanStream::~VulkanStream() {
  try {
    timeline_->wait(submitted_, recent_work());
  } catch (const std::exception& error) {
    log().warn("{}", error.what());
  }
}

void VulkanStream::run(const RecordFn& fn) {
  refuse_while_recording("running work");
  remember("immediate work");
  run_list(fn, "immediate");
}

void VulkanStream::run(const Program& program) {
  refuse_while_recording("running a Program");
  const auto* own = program ? dynamic_cast<const VulkanProgram*>(&program.body()) : nullptr;
  if (own == nullptr) throw Error(ErrorCode::kInvalidArgument, program ? "Program of another backend" : "empty Program");
  remember(own->label());
  if (synchronous_) {
    run_list(own->function(), "program '" + own->label() + "'");
  } else {
    submit(own->commands(), own->label());
  }
}

void VulkanStream::upload(std::span<const std::byte> source, const BufferView& destination) {
  refuse_while_recording("upload");
  check_view(destination, "upload: destination");
  check_equal_sizes(source.size(), destination.bytes, "upload");
  if (source.empty()) return;
  const BufferPlace place = place_of(destination, "upload: destination");
  for (size_t done = 0; done < source.size();) {
    if (used_ == kStagedBytes) {
      half_ = 1 - half_;
      used_ = 0;
    }
    Staged& half = upload_[half_];
    Memory& memory = used_ == 0 ? free_memory(half) : *half.memory;
    const size_t bytes = std::min(source.size() - done, kStagedBytes - used_);
    std::memcpy(memory.host_data() + used_, source.data() + done, bytes);
    begin().copy_staged(memory.buffer(), place.buffer, {.srcOffset = used_, .dstOffset = place.offset + done, .size = bytes});
    submit_begun("upload");
    half.value = submitted_;
    done += bytes;
    used_ = std::min(kStagedBytes, used_ + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
}

void VulkanStream::download(const BufferView& source, std::span<std::byte> destination) {
  refuse_while_recording("download");
  check_view(source, "download: source");
  check_equal_sizes(source.bytes, destination.size(), "download");
  if (!destination.empty()) {
    const BufferPlace place = place_of(source, "download: source");
    Memory& memory = free_memory(download_);
    for (size_t done = 0; done < destination.size();) {
      const size_t bytes = std::min(destination.size() - done, kStagedBytes);
      begin().copy_staged(place.buffer, memory.buffer(), {.srcOffset = place.offset + done, .dstOffset = 0, .size = bytes});
      submit_begun("download");
      wait_for_all();
      std::memcpy(destination.data() + done, memory.host_data(), bytes);
      done += bytes;
    }
    return;
  }
  wait_for_all();
}

void VulkanStream::copy(const BufferView& source, const BufferView& destination) {
  run([&](CommandList& list) { list.copy(source, destination); });
}

void VulkanStream::record(Event& event) {
  refuse_while_recording("recording an event");
  VulkanEvent& own = own_event(event);
  Commands& commands = begin();
  if (own.queries() != VK_NULL_HANDLE) commands.write_timestamp(own.queries());
  submit_begun("event");
  own.recorded(timeline_, submitted_);
}

void VulkanStream::wait(Event& event) {
  refuse_while_recording("waiting for an event");
  const VulkanEvent& own = own_event(event);
  if (own.timeline() != nullptr && own.timeline() != timeline_) waits_.push_back({own.timeline(), own.value()});
}

void VulkanStream::synchronize() {
  refuse_while_recording("synchronize");
  wait_for_all();
}

Commands& VulkanStream::begin() {
  if (slots_.empty() || (slots_.size() < kMaxSlots && !timeline_->reached(slots_.front().value))) {
    slots_.push_back({.commands = Commands(device_, pool_.get()), .value = 0});
  } else {
    timeline_->wait(slots_.front().value, recent_work());
    slots_.push_back(std::move(slots_.front()));
    slots_.pop_front();
  }
  slots_.back().commands.begin(VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
  return slots_.back().commands;
}

void VulkanStream::submit_begun(std::string_view work) {
  Slot& slot = slots_.back();
  slot.commands.end();
  submit(slot.commands.get(), work);
  slot.value = submitted_;
}

void VulkanStream::submit(VkCommandBuffer commands, std::string_view work) {
  std::vector<VkSemaphore> semaphores;
  std::vector<uint64_t> values;
  for (const Wait& wait : waits_) {
    semaphores.push_back(wait.timeline->semaphore());
    values.push_back(wait.value);
  }
  const std::vector<VkPipelineStageFlags> stages(waits_.size(), VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  const VkSemaphore own = timeline_->semaphore();
  const uint64_t promised = submitted_ + 1;
  VkTimelineSemaphoreSubmitInfo timelines{};
  timelines.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timelines.waitSemaphoreValueCount = static_cast<uint32_t>(values.size());
  timelines.pWaitSemaphoreValues = values.data();
  timelines.signalSemaphoreValueCount = 1;
  timelines.pSignalSemaphoreValues = &promised;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &timelines;
  info.waitSemaphoreCount = static_cast<uint32_t>(semaphores.size());
  info.pWaitSemaphores = semaphores.data();
  info.pWaitDstStageMask = stages.data();
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &own;
  device_.submit(info, work);
  submitted_ = promised;
  waits_.clear();
}

void VulkanStream::run_list(const RecordFn& fn, const std::string& owner) {
  Commands& commands = begin();
  VulkanCommandList::RunNow run_now;
  if (synchronous_) {
    run_now = [this, &commands](std::string_view work) {
      submit_begun(work);
      timeline_->wait(submitted_, work);
      commands.begin(VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    };
  }
  VulkanCommandList list(context_, commands, /*records=*/false, owner, std::move(run_now));
  try {
    fn(list);
  } catch (...) {  // what came before the fault runs, as on a list that launches at once
    submit_begun(owner);
    throw;
  }
  submit_begun(owner);
}

Memory& VulkanStream::free_memory(Staged& staged) const {
  if (staged.memory == nullptr) staged.memory = std::make_unique<Memory>(device_, kStagedBytes, MemoryKind::kHostVisible);
  timeline_->wait(staged.value, recent_work());
  return *staged.memory;
}

void VulkanStream::remember(std::string_view work) {
  const auto known = recent_.begin() + static_cast<std::ptrdiff_t>(std::min(num_recent_, kRemembered));
  if (std::find(recent_.begin(), known, work) != known) return;
  recent_[num_recent_++ % kRemembered] = work;
}

void VulkanStream::wait_for_all() {
  timeline_->wait(submitted_, recent_work());
  num_recent_ = 0;
  device_.check_validation();
}

std::string VulkanStream::recent_work() const {
  std::string work;
  for (size_t i = 0; i < std::min(num_recent_, kRemembered); ++i) work += (i == 0 ? "'" : ", '") + recent_[i] + "'";
  return "work since the last wait: " + (work.empty() ? "copies" : work);
}

}  // namespace foretoken::vulkan
