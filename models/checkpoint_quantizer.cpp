#include "models/checkpoint_quantizer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backends/ops.h"
#include "core/error.h"
#include "models/checkpoint.h"
#include "models/checkpoint_folder.h"
#include "models/checkpoint_json.h"
#include "models/quantize_plan.h"

namespace foretoken {
namespace {

constexpr uint64_t kCopyBytes = uint64_t{8} << 20;
/// A slice of a matrix: whole tiles of 128 rows, and more than one tile only while they fit in here.
constexpr int64_t kSliceBytes = int64_t{64} << 20;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

size_t bytes_of(const SafetensorsTensor& tensor) {
  return dtype_bytes(tensor.dtype, static_cast<size_t>(tensor.shape.num_elements()));
}

/// A file of a shard that is being written, and where a job's outputs are in it.
struct JobFile {
  SafetensorsWriter& writer;
  std::span<const size_t> outputs;  // their places among the file's tensors

  void append(size_t output, std::span<const std::byte> bytes) const { writer.append_to(outputs[output], bytes); }
};

/// Quantises matrices on a device, slice by slice.
class MatrixQuantizer {
 public:
  MatrixQuantizer(GpuBackend& backend, const WeightSource& source, const QuantizeOptions& options)
      : backend_(backend), source_(source), options_(options), stream_(backend.create_stream()) {
    ops::require_any<AbsMax, QuantizeFp8Row, QuantizeFp8Block, QuantizeNvfp4>(backend, "quantize");
    small_ = backend.allocate(2 * kSmallBytes);
  }

  /// `on_read(bytes)` is called when bytes of the source have been dealt with.
  void run(const QuantizeJob& job, const JobFile& file, const std::function<void(uint64_t)>& on_read) {
    begin(job);
    find_amax(job);
    for (int64_t slice = 0; slice < num_slices_; ++slice) {
      const Tensor x = load(job, slice);
      stream_->run([&](CommandList& cmd) { quantize(cmd, x); });
      download(codes(x.dim(0)), [&](std::span<const std::byte> bytes) { file.append(0, bytes); });
      download(scale(x.dim(0)), [&](std::span<const std::byte> bytes) { file.append(1, bytes); });
      on_read(x.bytes());
    }
    if (job.outputs.size() > 2) download(global_scale(), [&](std::span<const std::byte> bytes) { file.append(2, bytes); });
  }

 private:
  static constexpr size_t kSmallBytes = 256;

  void begin(const QuantizeJob& job) {
    dtype_ = *source_.tensors()[job.source].dtype;
    num_columns_ = job.num_columns;
    const auto row_bytes = static_cast<int64_t>(dtype_bytes(dtype_, static_cast<size_t>(num_columns_)));
    const int64_t tiles = std::max<int64_t>(1, kSliceBytes / row_bytes / kFp8BlockExtent);
    slice_rows_ = std::min(job.num_rows, tiles * kFp8BlockExtent);
    num_slices_ = ceil_div(job.num_rows, slice_rows_);
    loaded_slice_ = -1;
    reserve(x_, static_cast<size_t>(slice_rows_ * row_bytes));
    reserve(codes_, static_cast<size_t>(slice_rows_ * num_columns_));
    reserve(scale_,
            static_cast<size_t>(scale_shape(options_.format, {slice_rows_, num_columns_}).num_elements()) * sizeof(float));
    reserve(slice_amax_, static_cast<size_t>(num_slices_) * sizeof(float));
    const auto workspace_bytes = [&](const Shape& shape) {
      return ops::workspace_bytes(backend_.ops(), AbsMax{.x = Tensor::shape_only(dtype_, shape), .amax = {}, .workspace = {}});
    };
    reserve(workspace_, std::max(workspace_bytes({slice_rows_, num_columns_}), workspace_bytes({1, num_slices_})));
  }

  void reserve(Buffer& buffer, size_t bytes) {
    if (buffer.bytes() < bytes) buffer = backend_.allocate(bytes);
  }

  [[nodiscard]] Tensor codes(int64_t rows) const { return codes_.tensor(code_dtype(options_.format), {rows, num_columns_}); }
  [[nodiscard]] Tensor scale(int64_t rows) const {
    DType dtype = options_.format == WeightFormat::kNvfp4 ? DType::kE4M3 : DType::kF32;
    if (options_.format == WeightFormat::kFp8Block) dtype = options_.block_scale_dtype;
    return scale_.tensor(dtype, scale_shape(options_.format, {rows, num_columns_}));
  }
  [[nodiscard]] Tensor amax() const { return small_.tensor(DType::kF32, {1}); }
  [[nodiscard]] Tensor global_scale() const { return small_.tensor(DType::kF32, {1}, kSmallBytes); }
  [[nodiscard]] Tensor workspace() const {
    return workspace_ ? workspace_.tensor(DType::kU8, {static_cast<int64_t>(workspace_.bytes())}) : Tensor();
  }

  Tensor load(const QuantizeJob& job, int64_t slice) {
    const int64_t rows = std::min(slice_rows_, job.num_rows - slice * slice_rows_);
    const Tensor x = x_.tensor(dtype_, {rows, num_columns_});
    if (slice == loaded_slice_) return x;
    const uint64_t first = job.first_byte + dtype_bytes(dtype_, static_cast<size_t>(slice * slice_rows_ * num_columns_));
    const std::span<const std::byte> bytes = source_.read(job.source, first, x.bytes(), scratch_);
    stream_->upload(bytes, x.view());
    source_.release(bytes);
    loaded_slice_ = slice;
    return x;
  }

  /// Every format goes over the weights once before: a NaN or an infinity makes them worthless, and NVFP4 needs the magnitude.
  void find_amax(const QuantizeJob& job) {
    for (int64_t slice = 0; slice < num_slices_; ++slice) {
      const Tensor part = slice_amax_.tensor(DType::kF32, {1}, static_cast<size_t>(slice) * sizeof(float));
      const Tensor x = load(job, slice);
      stream_->run([&](CommandList& cmd) { ops::dispatch(cmd, AbsMax{.x = x, .amax = part, .workspace = workspace()}); });
    }
    const Tensor parts = slice_amax_.tensor(DType::kF32, {1, num_slices_});
    stream_->run([&](CommandList& cmd) { ops::dispatch(cmd, AbsMax{.x = parts, .amax = amax(), .workspace = workspace()}); });
    float value = 0.0F;
    stream_->download(amax().view(), std::as_writable_bytes(std::span(&value, 1)));
    if (std::isfinite(value)) return;
    const SourceTensor& tensor = source_.tensors()[job.source];
    throw Error(ErrorCode::kFormatError, {.what = "a weight is " + std::string(std::isnan(value) ? "NaN" : "infinite"),
                                          .where = "tensor " + tensor.name + " in " + tensor.origin,
                                          .expected = "finite weights"});
  }

  void quantize(CommandList& cmd, const Tensor& x) const {
    const Tensor codes = this->codes(x.dim(0));
    const Tensor scale = this->scale(x.dim(0));
    if (options_.format == WeightFormat::kFp8Row) {
      ops::dispatch(cmd, QuantizeFp8Row{.x = x, .codes = codes, .scale = scale});
    } else if (options_.format == WeightFormat::kFp8Block) {
      ops::dispatch(cmd, QuantizeFp8Block{.x = x, .codes = codes, .scale = scale});
    } else {
      ops::dispatch(cmd, QuantizeNvfp4{.x = x, .amax = amax(), .codes = codes, .scale = scale, .global_scale = global_scale()});
    }
  }

  template <class Use>
  void download(const Tensor& tensor, const Use& use) {
    result_.resize(tensor.bytes());
    stream_->download(tensor.view(), result_);
    use(std::span<const std::byte>(result_));
  }

  GpuBackend& backend_;
  const WeightSource& source_;
  const QuantizeOptions& options_;
  Buffer x_;
  Buffer codes_;
  Buffer scale_;
  Buffer slice_amax_;
  Buffer workspace_;
  Buffer small_;
  std::unique_ptr<Stream> stream_;  // before the memory that its work uses
  std::vector<std::byte> scratch_;
  std::vector<std::byte> result_;
  DType dtype_ = DType::kBF16;
  int64_t num_columns_ = 0;
  int64_t slice_rows_ = 0;
  int64_t num_slices_ = 0;
  int64_t loaded_slice_ = -1;
};

/// Writes the jobs' outputs, shard by shard.
class QuantizedWriter {
 public:
  QuantizedWriter(GpuBackend& backend, const WeightSource& source, const QuantizePlan& plan, const QuantizeOptions& options)
      : source_(source), plan_(plan), options_(options), quantizer_(backend, source, options) {
    for (const QuantizeJob& job : plan.jobs) {
      uint64_t bytes = 0;
      for (const SafetensorsTensor& tensor : job.outputs) bytes += bytes_of(tensor);
      job_bytes_.push_back(bytes);
      summary_.result_bytes += bytes;
      summary_.source_bytes += source_bytes(job);
      summary_.num_quantized += job.is_copy() ? 0 : 1;
    }
  }

  [[nodiscard]] const QuantizeSummary& summary() const { return summary_; }

  void write(const std::filesystem::path& directory) {
    const auto shards = split_shards(job_bytes_, options_.shard_bytes);
    std::map<std::string, std::string> weight_map;
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shard_name(i, shards.size());
      const std::span<const QuantizeJob> jobs =
          std::span(plan_.jobs).subspan(shards[i].first, shards[i].second - shards[i].first);
      write_shard(directory / name, jobs);
      for (const QuantizeJob& job : jobs) {
        for (const SafetensorsTensor& tensor : job.outputs) weight_map[tensor.name] = name;
      }
    }
    if (shards.size() > 1) write_shard_index(directory, weight_map, summary_.result_bytes);
  }

 private:
  [[nodiscard]] uint64_t source_bytes(const QuantizeJob& job) const {
    const SourceTensor& tensor = source_.tensors()[job.source];
    return job.is_copy() ? tensor.bytes : dtype_bytes(*tensor.dtype, static_cast<size_t>(job.num_rows * job.num_columns));
  }

  /// Wide dtypes first, so that every tensor is aligned in the file whatever sizes come before it.
  void write_shard(const std::filesystem::path& path, std::span<const QuantizeJob> jobs) {
    std::vector<SafetensorsTensor> tensors;
    for (const QuantizeJob& job : jobs) tensors.insert(tensors.end(), job.outputs.begin(), job.outputs.end());
    std::vector<size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return dtype_bits(tensors[i].dtype); });
    std::vector<SafetensorsTensor> declared;
    std::vector<size_t> place(tensors.size());
    for (const size_t i : order) {
      place[i] = declared.size();
      declared.push_back(tensors[i]);
    }
    SafetensorsWriter writer(path, declared);
    size_t first = 0;
    for (const QuantizeJob& job : jobs) {
      const JobFile file{.writer = writer, .outputs = std::span(place).subspan(first, job.outputs.size())};
      first += job.outputs.size();
      if (job.is_copy()) {
        copy(job, file);
      } else {
        quantizer_.run(job, file, [this](uint64_t bytes) { count(bytes); });
      }
    }
    writer.finish();
  }

  void copy(const QuantizeJob& job, const JobFile& file) {
    const uint64_t total = source_.tensors()[job.source].bytes;
    for (uint64_t at = 0; at < total; at += kCopyBytes) {
      const auto size = static_cast<size_t>(std::min(kCopyBytes, total - at));
      const std::span<const std::byte> bytes = source_.read(job.source, at, size, scratch_);
      file.append(0, bytes);
      source_.release(bytes);
      count(size);
    }
  }

  void count(uint64_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(done_, summary_.source_bytes);
  }

  const WeightSource& source_;
  const QuantizePlan& plan_;
  const QuantizeOptions& options_;
  MatrixQuantizer quantizer_;
  std::vector<uint64_t> job_bytes_;
  QuantizeSummary summary_;
  std::vector<std::byte> scratch_;
  uint64_t done_ = 0;
};

std::string quantized_config(const std::filesystem::path& model, const QuantizePlan& plan, const QuantizeOptions& options) {
  const std::filesystem::path path = model / "config.json";
  nlohmann::json config = parse_json(read_text_file(path), path.string());
  if (!config.is_object()) throw Error(ErrorCode::kFormatError, {.what = "not a JSON object", .where = path.string()});
  config["quantization_config"] = quantization_config(plan, options);
  const bool has_text = config.contains("text_config") && config["text_config"].is_object();
  if (has_text) config["text_config"].erase("quantization_config");
  if (plan.unties_lm_head) {
    config["tie_word_embeddings"] = false;
    if (has_text && config["text_config"].contains("tie_word_embeddings")) config["text_config"]["tie_word_embeddings"] = false;
  }
  return config.dump(2);
}

/// The tokenizer and other small files of the folder.
void copy_companions(const std::filesystem::path& from, const std::filesystem::path& to) {
  static constexpr std::string_view kExtensions[] = {".json", ".txt", ".jinja", ".model", ".tiktoken", ".md", ""};
  std::error_code error;
  for (std::filesystem::directory_iterator entry(from, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_ours = name == "config.json" || name.ends_with(".safetensors.index.json");
    const bool is_known = std::ranges::find(kExtensions, entry->path().extension().string()) != std::end(kExtensions);
    if (is_ours || !is_known || name.starts_with('.') || !entry->is_regular_file(error)) continue;
    std::filesystem::copy_file(entry->path(), to / name, error);
    if (error) break;
  }
  if (error) throw Error(ErrorCode::kDeviceError, {.what = "cannot copy a file: " + error.message(), .where = to.string()});
}

}  // namespace

QuantizeScope parse_quantize_scope(std::string_view list) {
  QuantizeScope scope{.target = false, .mtp = false, .lm_head = false};
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view word = list.substr(begin, end - begin);
    bool* part = word == "target" ? &scope.target : word == "mtp" ? &scope.mtp : word == "lm-head" ? &scope.lm_head : nullptr;
    if (part == nullptr) {
      throw Error(ErrorCode::kInvalidArgument, {.what = "no such part of a model",
                                                .where = "scope",
                                                .expected = "target, mtp, lm-head or several, with commas between",
                                                .got = "'" + std::string(word) + "'"});
    }
    *part = true;
    begin = end + 1;
  }
  return scope;
}

QuantizeSummary quantize_checkpoint(GpuBackend& backend, const std::filesystem::path& model, const std::filesystem::path& output,
                                    const QuantizeOptions& options) {
  const Checkpoint source(model);
  const QuantizePlan plan = plan_quantization(source, options);
  const std::string config = quantized_config(model, plan, options);
  QuantizedWriter writer(backend, source, plan, options);
  NewDirectory folder(output);
  folder.require_space(writer.summary().result_bytes, model.string());
  writer.write(folder.path());
  copy_companions(model, folder.path());
  write_text(folder.path() / "config.json", config);
  folder.keep();
  return writer.summary();
}

}  // namespace foretoken
