#include "speculative/c_api/handles.h"

namespace foretoken::c_api {

HandleTable& HandleTable::instance() {
  static auto* table = new HandleTable;  // outlives every object's destructor at exit
  return *table;
}

uintptr_t HandleTable::add(std::shared_ptr<Object> object) {
  const std::lock_guard lock(mutex_);
  const uintptr_t handle = next_;
  objects_.emplace(handle, std::move(object));
  next_ += kStep;
  return handle;
}

std::shared_ptr<Object> HandleTable::find(uintptr_t handle, std::string_view kind) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(handle);
  if (found != objects_.end()) return found->second;
  const bool was_ours = handle >= kFirst && handle < next_ && (handle - kFirst) % kStep == 0;
  fail_handle(kind, handle == 0 ? "null" : was_ours ? "one that was freed" : "none of this library");
}

bool HandleTable::remove(uintptr_t handle) {
  std::shared_ptr<Object> object;  // destroyed after the table is unlocked
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return false;
  object = std::move(found->second);
  objects_.erase(found);
  return true;
}

void fail_handle(std::string_view kind, std::string_view got) {
  throw InvalidHandle("expected the handle of a " + std::string(kind) + ", got " + std::string(got));
}

}  // namespace foretoken::c_api
