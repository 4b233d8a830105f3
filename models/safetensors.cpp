#include "models/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "core/error.h"

namespace foretoken {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference reader
constexpr size_t kLengthBytes = 8;

[[noreturn]] void throw_open(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ErrorCode::kInvalidArgument, {.what = "cannot open the file: " + reason, .where = path.string()});
}

/// A file descriptor, closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) throw_open(path, std::strerror(errno));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

uint64_t read_little_endian(const std::byte* bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  const Descriptor file(path_);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_open(path_, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw_open(path_, "not a regular file");
  size_ = static_cast<size_t>(status.st_size);
  const std::string origin = path_.string();
  if (size_ < kLengthBytes) {
    throw Error(ErrorCode::kFormatError, {.what = "too short for a safetensors file",
                                          .where = origin,
                                          .expected = "at least 8 bytes",
                                          .got = std::to_string(size_)});
  }
  void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapping == MAP_FAILED) throw_open(path_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapping);
  try {
    const uint64_t header_bytes = read_little_endian(data_);
    if (header_bytes > kMaxHeaderBytes || header_bytes > size_ - kLengthBytes) {
      throw Error(ErrorCode::kFormatError,
                  {.what = "header length at byte 0 is too large",
                   .where = origin,
                   .expected = "at most " + std::to_string(std::min<uint64_t>(kMaxHeaderBytes, size_ - kLengthBytes)) + " bytes",
                   .got = std::to_string(header_bytes)});
    }
    const std::string_view text(reinterpret_cast<const char*>(data_ + kLengthBytes), static_cast<size_t>(header_bytes));
    SafetensorsHeader header = parse_safetensors_header(text, size_, origin);
    entries_ = std::move(header.entries);
    metadata_ = std::move(header.metadata);
    for (size_t i = 0; i < entries_.size(); ++i) by_name_.emplace(entries_[i].name, i);
  } catch (...) {
    ::munmap(mapping, size_);
    throw;
  }
  ::madvise(mapping, size_, MADV_SEQUENTIAL);  // advice only: a refusal changes nothing but speed
}

SafetensorsFile::~SafetensorsFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      entries_(std::move(other.entries_)),
      by_name_(std::move(other.by_name_)),
      metadata_(std::move(other.metadata_)) {}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return {data_ + entry.file_offset, static_cast<size_t>(entry.bytes)};
}

bool SafetensorsFile::contains(std::span<const std::byte> range) const {
  const std::less_equal<> before;
  return before(data_, range.data()) && before(range.data() + range.size(), data_ + size_);
}

void SafetensorsFile::release(std::span<const std::byte> range) const {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = static_cast<size_t>(range.data() - data_);
  const size_t first = (begin + page - 1) / page * page;
  const size_t last = (begin + range.size()) / page * page;
  if (first < last) ::madvise(const_cast<std::byte*>(data_ + first), last - first, MADV_DONTNEED);
}

}  // namespace foretoken
