#include "apps/foretoken/output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"

namespace foretoken::cli {
namespace {

/// A file beside the wanted one, gone unless it takes its place.
class PartialFile {
 public:
  explicit PartialFile(const std::string& path) : path_(path), partial_path_(path + ".partial") {
    if (std::filesystem::is_directory(path)) fail(ErrorCode::kInvalidArgument, "cannot write the file: it is a directory");
    file_ = std::fopen(partial_path_.c_str(), "wb");
    if (file_ == nullptr) fail(ErrorCode::kInvalidArgument, std::string("cannot create the file: ") + std::strerror(errno));
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile() {
    if (file_ != nullptr) std::fclose(file_);
    std::remove(partial_path_.c_str());  // of no effect once it was renamed
  }

  void finish(std::string_view text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size();
    const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
    if (written && closed && std::rename(partial_path_.c_str(), path_.c_str()) == 0) return;
    fail(ErrorCode::kDeviceError, std::string("cannot complete the file: ") + std::strerror(errno));
  }

 private:
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const { throw Error(code, {.what = what, .where = path_}); }

  std::string path_;
  std::string partial_path_;
  std::FILE* file_ = nullptr;
};

}  // namespace

void check_writable(const std::string& path) { const PartialFile file(path); }

void write_file(const std::string& path, std::string_view text) { PartialFile(path).finish(text); }

}  // namespace foretoken::cli
