#include "models/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace foretoken {
namespace {

/// The 8-byte length and the JSON, padded with spaces so that the data starts at a multiple of 8.
std::string header_text(const std::vector<SafetensorsTensor>& tensors, const std::string& where, uint64_t& data_bytes) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::set<std::string_view> names{"__metadata__"};
  data_bytes = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw Error(ErrorCode::kInvalidArgument,
                  {.what = "tensor name is reserved or declared twice", .where = where, .got = tensor.name});
    }
    if (tensor.dtype == DType::kE2M1) {
      throw Error(ErrorCode::kInvalidArgument, {.what = "a safetensors file holds packed E2M1 as U8",
                                                .where = where + ": tensor " + tensor.name,
                                                .expected = "U8",
                                                .got = "E2M1"});
    }
    const uint64_t begin = data_bytes;
    data_bytes += dtype_bytes(tensor.dtype, static_cast<size_t>(tensor.shape.num_elements()));
    const std::vector<int64_t> extents(tensor.shape.extents().begin(), tensor.shape.extents().end());
    const nlohmann::json members{{"dtype", to_string(tensor.dtype)}, {"shape", extents}, {"data_offsets", {begin, data_bytes}}};
    json.append(",").append(nlohmann::json(tensor.name).dump()).append(":").append(members.dump());
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(json.size() >> (8 * i) & 0xffU);
  return text + json;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, const std::vector<SafetensorsTensor>& tensors)
    : path_(std::move(path)), partial_path_(path_.string() + ".partial") {
  const std::string header = header_text(tensors, path_.string(), bytes_left_);
  uint64_t begin = header.size();
  for (const SafetensorsTensor& tensor : tensors) {
    const uint64_t end = begin + dtype_bytes(tensor.dtype, static_cast<size_t>(tensor.shape.num_elements()));
    tensors_.push_back({.next = begin, .end = end});
    begin = end;
  }
  std::error_code error;
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error)
    throw Error(ErrorCode::kInvalidArgument, {.what = "cannot write here: " + error.message(), .where = folder.string()});
  if (space.available < header.size() + bytes_left_) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "not enough disk space",
                                              .where = path_.string(),
                                              .expected = std::to_string(header.size() + bytes_left_) + " bytes",
                                              .got = std::to_string(space.available)});
  }
  fd_ = ::open(partial_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = std::string("cannot create the file: ") + std::strerror(errno), .where = partial_path_.string()});
  }
  try {
    write(header.data(), header.size());
  } catch (...) {
    ::close(fd_);
    ::unlink(partial_path_.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(partial_path_.c_str());
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > bytes_left_) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "more bytes than the declared tensors hold",
                                              .where = path_.string(),
                                              .expected = "at most " + std::to_string(bytes_left_),
                                              .got = std::to_string(bytes.size())});
  }
  write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bytes_left_ -= bytes.size();
}

void SafetensorsWriter::append_to(size_t index, std::span<const std::byte> bytes) {
  TensorBytes& tensor = tensors_.at(index);
  if (bytes.size() > tensor.end - tensor.next) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "more bytes than declared tensor " + std::to_string(index) + " holds",
                                              .where = path_.string(),
                                              .expected = "at most " + std::to_string(tensor.end - tensor.next),
                                              .got = std::to_string(bytes.size())});
  }
  if (::lseek(fd_, static_cast<off_t>(tensor.next), SEEK_SET) < 0) {
    throw Error(ErrorCode::kDeviceError,
                {.what = std::string("seek failed: ") + std::strerror(errno), .where = partial_path_.string()});
  }
  write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  tensor.next += bytes.size();
  bytes_left_ -= bytes.size();
}

void SafetensorsWriter::finish() {
  if (fd_ < 0 || bytes_left_ != 0) {
    throw Error(ErrorCode::kInvalidState,
                {.what = fd_ < 0 ? "the file is finished already" : std::to_string(bytes_left_) + " declared bytes are missing",
                 .where = path_.string()});
  }
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  if (closed && ::rename(partial_path_.c_str(), path_.c_str()) == 0) return;
  const std::string reason = std::strerror(errno);
  ::unlink(partial_path_.c_str());
  throw Error(ErrorCode::kDeviceError, {.what = "cannot complete the file: " + reason, .where = path_.string()});
}

void SafetensorsWriter::write(const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(fd_, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw Error(ErrorCode::kDeviceError,
                  {.what = std::string("write failed: ") + std::strerror(errno), .where = partial_path_.string()});
    }
    data += written;
    bytes -= static_cast<size_t>(written);
  }
}

}  // namespace foretoken
