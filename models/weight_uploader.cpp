#include "models/weight_uploader.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "backends/ops.h"
#include "models/weight_values.h"

namespace foretoken {
namespace {

constexpr size_t kUploadBytes = size_t{8} << 20;

/// Whether a piece is a source tensor and a planned one, as they are.
bool is_whole(const WeightPiece& piece, const PlannedTensor& planned, const SourceTensor& tensor) {
  return planned.conversion == Conversion::kNone && piece.copies == 1 && piece.source_begin == 0 && piece.bytes == tensor.bytes;
}

std::vector<std::byte> converted(Conversion conversion, std::span<const std::byte> bytes) {
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

/// Calls `fn` with the begin and the size of each part of `bytes` that is read at a time.
template <class Fn>
void for_each_chunk(uint64_t bytes, const Fn& fn) {
  for (uint64_t begin = 0; begin < bytes; begin += kUploadBytes) {
    fn(begin, static_cast<size_t>(std::min<uint64_t>(kUploadBytes, bytes - begin)));
  }
}

/// Bytes of the slot, from byte `begin` of a piece on.
BufferView destination(const PlannedTensor& planned, const WeightPiece& piece, uint64_t begin, size_t bytes) {
  return planned.slot->view().slice(static_cast<size_t>(piece.target_begin + begin), bytes);
}

}  // namespace

void check_formats(const GpuBackend& backend, const WeightSource& source, const std::vector<PlannedTensor>& tensors) {
  for (const PlannedTensor& planned : tensors) {
    if (planned.is_matrix) backend.capabilities().require_storable(planned.format, "tensor " + planned.name, source.name());
  }
}

Tensor resident_view(const WeightSource& source, const PlannedTensor& planned) {
  if (planned.pieces.size() != 1) return {};
  const WeightPiece& piece = planned.pieces.front();
  const Tensor* resident = source.resident(piece.tensor);
  if (resident == nullptr || !is_whole(piece, planned, source.tensors()[piece.tensor])) return {};
  return Tensor(resident->view(), planned.dtype, planned.shape);
}

void WeightUploader::fill(const PlannedTensor& planned) {
  for (const WeightPiece& piece : planned.pieces) {
    jobs_.push_back({.planned = &planned, .piece = &piece});
    total_ += piece.bytes;
  }
}

void WeightUploader::check(const PlannedTensor& planned) {
  for (const WeightPiece& piece : planned.pieces) jobs_.push_back({.planned = &planned, .piece = &piece, .is_in_place = true});
}

void WeightUploader::run() {
  std::ranges::sort(jobs_, {}, [](const Job& job) { return std::tie(job.piece->tensor, job.piece->source_begin); });
  report(0);
  for (const Job& job : jobs_) {
    const Tensor* resident = source_.resident(job.piece->tensor);
    if (job.is_in_place) {
      check_resident(job);
    } else if (const auto recipe = recipe_for(job)) {
      generate(job, *recipe);
    } else if (job.planned->conversion != Conversion::kNone || job.piece->copies > 1) {
      upload_changed(job);
    } else if (resident != nullptr) {
      copy_resident(job, *resident);
    } else {
      upload(job);
    }
  }
  stream_->synchronize();
}

void WeightUploader::report(uint64_t bytes) {
  done_ += bytes;
  if (progress_) progress_(done_, total_);
}

bool WeightUploader::has_checks(const Job& job) const {
  return job.planned->is_scale || source_.tensors()[job.piece->tensor].dtype == DType::kE4M3;
}

/// Refuses what no kernel can compute with, in bytes that begin at `begin` of the piece.
void WeightUploader::check(const Job& job, uint64_t begin, std::span<const std::byte> bytes) const {
  const SourceTensor& tensor = source_.tensors()[job.piece->tensor];
  if (tensor.dtype == DType::kE4M3) check_e4m3(tensor, job.piece->source_begin + begin, bytes);
  if (!job.planned->is_scale || tensor.dtype == DType::kE4M3) return;
  const bool divides = job.planned->part == WeightPart::kKvScales || job.planned->conversion == Conversion::kReciprocal;
  check_scales(tensor, job.piece->source_begin + begin, bytes, divides);
}

/// A recipe makes whole tensors of the dtype that the source declares.
std::optional<RandomRecipe> WeightUploader::recipe_for(const Job& job) const {
  const SourceTensor& tensor = source_.tensors()[job.piece->tensor];
  const bool fits = is_whole(*job.piece, *job.planned, tensor) && tensor.dtype == job.planned->dtype;
  return fits ? source_.recipe(job.piece->tensor) : std::nullopt;
}

void WeightUploader::generate(const Job& job, const RandomRecipe& recipe) {
  const int64_t count = source_.tensors()[job.piece->tensor].shape.num_elements();
  const Tensor out(destination(*job.planned, *job.piece, 0, static_cast<size_t>(job.piece->bytes)), job.planned->dtype, {count});
  stream_->run([&](CommandList& cmd) {
    ops::dispatch(cmd, RandomFill{.out = out,
                                  .seed = recipe.seed,
                                  .tensor_id = recipe.tensor_id,
                                  .exponent = recipe.exponent,
                                  .offset = recipe.offset});
  });
  report(job.piece->bytes);
}

void WeightUploader::upload(const Job& job) {
  for_each_chunk(job.piece->bytes, [&](uint64_t begin, size_t count) {
    const auto bytes = source_.read(job.piece->tensor, job.piece->source_begin + begin, count, scratch_);
    check(job, begin, bytes);
    stream_->upload(bytes, destination(*job.planned, *job.piece, begin, count));
    source_.release(bytes);
    report(count);
  });
}

void WeightUploader::check_resident(const Job& job) {
  if (!has_checks(job)) return;
  for_each_chunk(job.piece->bytes, [&](uint64_t begin, size_t count) {
    check(job, begin, source_.read(job.piece->tensor, job.piece->source_begin + begin, count, scratch_));
  });
}

void WeightUploader::copy_resident(const Job& job, const Tensor& resident) {
  check_resident(job);
  const auto bytes = static_cast<size_t>(job.piece->bytes);
  stream_->copy(resident.view().slice(static_cast<size_t>(job.piece->source_begin), bytes),
                destination(*job.planned, *job.piece, 0, bytes));
  report(bytes);
}

/// For small pieces: norms, per-head constants, scales.
void WeightUploader::upload_changed(const Job& job) {
  const auto bytes = source_.read(job.piece->tensor, job.piece->source_begin, static_cast<size_t>(job.piece->bytes), scratch_);
  check(job, 0, bytes);
  const std::vector<std::byte> once = converted(job.planned->conversion, bytes);
  std::vector<std::byte> repeated;
  repeated.reserve(once.size() * static_cast<size_t>(job.piece->copies));
  for (uint64_t copy = 0; copy < job.piece->copies; ++copy) repeated.insert(repeated.end(), once.begin(), once.end());
  stream_->upload(repeated, destination(*job.planned, *job.piece, 0, repeated.size()));
  source_.release(bytes);
  report(job.piece->bytes);
}

}  // namespace foretoken
