#include "models/model_weights.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "backends/ops.h"
#include "core/error.h"
#include "models/weight_map.h"
#include "models/weight_values.h"

namespace foretoken {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 30;  // small enough for devices with a limit per allocation
constexpr size_t kAlignment = 256;
constexpr size_t kUploadBytes = size_t{8} << 20;

/// Refuses formats that this device has no kernels for, before anything is allocated.
void check_formats(const GpuBackend& backend, const WeightSource& source, const std::vector<PlannedTensor>& tensors) {
  for (const PlannedTensor& planned : tensors) {
    if (planned.is_matrix) backend.capabilities().require_storable(planned.format, "tensor " + planned.name, source.name());
  }
}

/// Places every tensor in a chunk of memory and allocates the chunks; a tensor larger than a chunk gets one of its own.
class Placement {
 public:
  void place(PlannedTensor& planned) {
    const size_t bytes = (static_cast<size_t>(planned.bytes()) + kAlignment - 1) / kAlignment * kAlignment;
    if (chunks_.empty() || chunks_.back() + bytes > kChunkBytes) chunks_.push_back(0);
    places_.emplace_back(chunks_.size() - 1, chunks_.back());
    chunks_.back() += bytes;
    planned_.push_back(&planned);
  }

  [[nodiscard]] std::vector<Buffer> allocate(GpuBackend& backend) const {
    std::vector<Buffer> buffers;
    buffers.reserve(chunks_.size());
    for (const size_t bytes : chunks_) buffers.push_back(backend.allocate(bytes, MemoryKind::kDevice));
    for (size_t i = 0; i < planned_.size(); ++i) {
      const auto& [chunk, offset] = places_[i];
      *planned_[i]->slot = buffers[chunk].tensor(planned_[i]->dtype, planned_[i]->shape, offset);
    }
    return buffers;
  }

 private:
  std::vector<size_t> chunks_;                     // their bytes
  std::vector<std::pair<size_t, size_t>> places_;  // chunk, offset
  std::vector<PlannedTensor*> planned_;
};

/// Fills the placed tensors, in the order in which the source reads fastest.
class Uploader {
 public:
  Uploader(GpuBackend& backend, const WeightSource& source, const LoadOptions& options)
      : source_(source), options_(options), stream_(backend.create_stream()) {}

  void add(const PlannedTensor& planned) {
    for (const WeightPiece& piece : planned.pieces) {
      jobs_.push_back({.planned = &planned, .piece = &piece});
      total_ += piece.bytes;
    }
  }

  void run() {
    std::ranges::sort(jobs_, {}, [](const Job& job) { return std::tie(job.piece->tensor, job.piece->source_begin); });
    report(0);
    for (const Job& job : jobs_) {
      if (const auto recipe = recipe_for(job)) {
        generate(job, *recipe);
      } else if (job.planned->conversion != Conversion::kNone || job.piece->copies > 1) {
        upload_changed(job);
      } else {
        upload(job);
      }
    }
    stream_->synchronize();
  }

 private:
  struct Job {
    const PlannedTensor* planned = nullptr;
    const WeightPiece* piece = nullptr;
  };

  void report(uint64_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(done_, total_);
  }

  /// Refuses what no kernel can compute with, in bytes that begin at `begin` of the piece.
  void check(const Job& job, uint64_t begin, std::span<const std::byte> bytes) const {
    const SourceTensor& tensor = source_.tensors()[job.piece->tensor];
    if (tensor.dtype == DType::kE4M3) check_e4m3(tensor, job.piece->source_begin + begin, bytes);
    if (!job.planned->is_scale || tensor.dtype == DType::kE4M3) return;
    const bool divides = job.planned->part == WeightPart::kKvScales || job.planned->conversion == Conversion::kReciprocal;
    check_scales(tensor, job.piece->source_begin + begin, bytes, divides);
  }

  static BufferView destination(const Job& job, uint64_t begin, size_t bytes) {
    return job.planned->slot->view().slice(static_cast<size_t>(job.piece->target_begin + begin), bytes);
  }

  /// A recipe makes whole tensors of the dtype that the source declares.
  [[nodiscard]] std::optional<RandomRecipe> recipe_for(const Job& job) const {
    const SourceTensor& tensor = source_.tensors()[job.piece->tensor];
    const bool whole = job.piece->source_begin == 0 && job.piece->bytes == tensor.bytes && job.piece->copies == 1 &&
                       tensor.dtype == job.planned->dtype;
    return whole && job.planned->conversion == Conversion::kNone ? source_.recipe(job.piece->tensor) : std::nullopt;
  }

  void generate(const Job& job, const RandomRecipe& recipe) {
    const int64_t count = source_.tensors()[job.piece->tensor].shape.num_elements();
    const Tensor out(destination(job, 0, static_cast<size_t>(job.piece->bytes)), job.planned->dtype, {count});
    stream_->run([&](CommandList& cmd) {
      ops::dispatch(cmd, RandomFill{.out = out,
                                    .seed = recipe.seed,
                                    .tensor_id = recipe.tensor_id,
                                    .exponent = recipe.exponent,
                                    .offset = recipe.offset});
    });
    report(job.piece->bytes);
  }

  void upload(const Job& job) {
    for (uint64_t begin = 0; begin < job.piece->bytes; begin += kUploadBytes) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(kUploadBytes, job.piece->bytes - begin));
      const auto bytes = source_.read(job.piece->tensor, job.piece->source_begin + begin, count, scratch_);
      check(job, begin, bytes);
      stream_->upload(bytes, destination(job, begin, count));
      source_.release(bytes);
      report(count);
    }
  }

  /// For small pieces: norms, per-head constants, scales.
  void upload_changed(const Job& job) {
    const auto bytes = source_.read(job.piece->tensor, job.piece->source_begin, static_cast<size_t>(job.piece->bytes), scratch_);
    check(job, 0, bytes);
    const std::vector<std::byte> once = converted(job, bytes);
    std::vector<std::byte> repeated;
    repeated.reserve(once.size() * static_cast<size_t>(job.piece->copies));
    for (uint64_t copy = 0; copy < job.piece->copies; ++copy) repeated.insert(repeated.end(), once.begin(), once.end());
    stream_->upload(repeated, destination(job, 0, repeated.size()));
    source_.release(bytes);
    report(job.piece->bytes);
  }

  [[nodiscard]] std::vector<std::byte> converted(const Job& job, std::span<const std::byte> bytes) const {
    const Conversion conversion = job.planned->conversion;
    if (conversion == Conversion::kNone) return {bytes.begin(), bytes.end()};
    const size_t width = conversion == Conversion::kBf16ToF32 ? sizeof(uint16_t) : sizeof(float);
    std::vector<std::byte> result(bytes.size() / width * sizeof(float));
    for (size_t i = 0; i < bytes.size() / width; ++i) {
      uint16_t bits = 0;
      float value = 0.0F;
      if (conversion == Conversion::kBf16ToF32) {
        std::memcpy(&bits, bytes.data() + i * width, width);
        value = bf16_to_float(bits);
      } else {
        std::memcpy(&value, bytes.data() + i * width, width);
        value = 1.0F / value;
      }
      std::memcpy(result.data() + i * sizeof(float), &value, sizeof(float));
    }
    return result;
  }

  const WeightSource& source_;
  const LoadOptions& options_;
  std::unique_ptr<Stream> stream_;
  std::vector<Job> jobs_;
  std::vector<std::byte> scratch_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

LoadedModel load_model(GpuBackend& backend, const WeightSource& source, const ModelConfig& config, const LoadOptions& options) {
  const std::unique_ptr<WeightPlan> plan = plan_weights(source, config);
  if (plan->mtp && !options.load_mtp) {
    std::erase_if(plan->tensors, [](const PlannedTensor& planned) { return planned.draft; });
    plan->mtp.reset();
    plan->mtp_absent_reason = "the draft head was not loaded: no drafts were asked for";
  }
  check_formats(backend, source, plan->tensors);

  LoadedModel model;
  Placement placement;
  for (PlannedTensor& planned : plan->tensors) {
    if (planned.draft && options.draft_tensors_apart) {
      model.draft_buffers.push_back(backend.allocate(static_cast<size_t>(planned.bytes()), MemoryKind::kDevice));
      *planned.slot = model.draft_buffers.back().tensor(planned.dtype, planned.shape);
    } else {
      placement.place(planned);
    }
    model.weight_bytes += planned.bytes();
  }
  model.buffers = placement.allocate(backend);
  Uploader uploader(backend, source, options);  // after the buffers: on a throw its stream ends before they do
  for (const PlannedTensor& planned : plan->tensors) uploader.add(planned);
  uploader.run();

  model.config = config;
  model.target = std::move(plan->target);
  model.mtp = plan->mtp;
  model.mtp_absent_reason = std::move(plan->mtp_absent_reason);
  if (plan->tied_lm_head) {
    model.target.lm_head.weight = model.target.embed_tokens;
    model.target.lm_head.format = model.target.embed_tokens.dtype() == DType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16;
  }
  return model;
}

}  // namespace foretoken
