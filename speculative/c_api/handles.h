// Handles of the C API are numbers that are looked up, never addresses that are followed: one that is null, stale or of another
// kind is an error.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace foretoken::c_api {

class Root;

/// What a handle stands for. Lives until its handle and every object made from it are gone.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  /// What it was made from in the end: its device.
  [[nodiscard]] virtual std::shared_ptr<Root> root() = 0;
};

/// Calls on a root and on the objects made from it run one after another; a callback may call back.
class Root : public Object {
 public:
  [[nodiscard]] std::recursive_mutex& mutex() { return mutex_; }
  /// Waits until nothing uses what is about to be freed; failures are logged.
  virtual void settle() noexcept = 0;

 private:
  std::recursive_mutex mutex_;
};

class InvalidHandle : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Every handle that was given out and not freed. Numbers are never used again. Thread-safe.
class HandleTable {
 public:
  static HandleTable& instance();

  [[nodiscard]] uintptr_t add(std::shared_ptr<Object> object);
  /// Throws InvalidHandle that says what was expected.
  [[nodiscard]] std::shared_ptr<Object> find(uintptr_t handle, std::string_view kind) const;
  /// Forgets a handle. False when it is gone already.
  bool remove(uintptr_t handle);

 private:
  mutable std::mutex mutex_;
  uintptr_t next_ = kFirst;
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> objects_;

  static constexpr uintptr_t kFirst = 0x10001;  // odd, and in no mapped page
  static constexpr uintptr_t kStep = 16;
};

[[noreturn]] void fail_handle(std::string_view kind, std::string_view got);

/// A new handle of `object`.
template <class Handle>
Handle* make_handle(std::shared_ptr<Object> object) {
  return reinterpret_cast<Handle*>(HandleTable::instance().add(std::move(object)));
}

/// The object of a handle, which must be a T. Throws InvalidHandle.
template <class T, class Handle>
std::shared_ptr<T> find(Handle* handle) {
  auto object = std::dynamic_pointer_cast<T>(HandleTable::instance().find(reinterpret_cast<uintptr_t>(handle), T::kKind));
  if (object == nullptr) fail_handle(T::kKind, "a handle of another kind");
  return object;
}

/// An object that nobody else works with: its root is locked while this lives.
template <class T>
class Locked {
 public:
  template <class Handle>
  explicit Locked(Handle* handle) : Locked(find<T>(handle)) {}
  explicit Locked(std::shared_ptr<T> object) : root_(object->root()), lock_(root_->mutex()), object_(std::move(object)) {}

  T* operator->() const { return object_.get(); }
  T& operator*() const { return *object_; }
  [[nodiscard]] const std::shared_ptr<T>& shared() const { return object_; }

 private:
  std::shared_ptr<Root> root_;
  std::unique_lock<std::recursive_mutex> lock_;
  std::shared_ptr<T> object_;  // given up before the lock
};

/// Gives a handle up; null is none. Throws InvalidHandle.
template <class T, class Handle>
void free_handle(Handle* handle) {
  if (handle == nullptr) return;
  Locked<T> object(handle);
  if (!HandleTable::instance().remove(reinterpret_cast<uintptr_t>(handle))) fail_handle(T::kKind, "one that was freed");
  object->root()->settle();
}

}  // namespace foretoken::c_api
