// A recorded sequence of launches that a stream replays.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backends/command_list.h"

namespace foretoken {

/// What a backend keeps of a recording. Keeps the recorded function too: FORETOKEN_EAGER=1 runs it launch by launch instead.
class ProgramBody {
 public:
  ProgramBody(std::string label, RecordFn function) : label_(std::move(label)), function_(std::move(function)) {}
  ProgramBody(const ProgramBody&) = delete;
  ProgramBody& operator=(const ProgramBody&) = delete;
  virtual ~ProgramBody() = default;

  [[nodiscard]] const std::string& label() const { return label_; }
  [[nodiscard]] const RecordFn& function() const { return function_; }
  [[nodiscard]] virtual size_t num_launches() const = 0;

 private:
  std::string label_;
  RecordFn function_;
};

/// Move-only owner of a recording. Replays read what device memory holds at that time; addresses are fixed. All buffers that it
/// touches, and its backend, must outlive it.
class Program {
 public:
  Program() = default;
  explicit Program(std::unique_ptr<ProgramBody> body) : body_(std::move(body)) {}

  [[nodiscard]] explicit operator bool() const { return body_ != nullptr; }
  [[nodiscard]] const ProgramBody& body() const { return *body_; }

 private:
  std::unique_ptr<ProgramBody> body_;
};

}  // namespace foretoken
