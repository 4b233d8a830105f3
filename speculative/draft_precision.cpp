#include "speculative/draft_precision.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <ranges>
#include <span>
#include <type_traits>

#include "backends/ops.h"
#include "core/error.h"
#include "core/ops/quantize.h"
#include "layers/weight_operators.h"
#include "models/weight_converter.h"
#include "models/weight_rows.h"

namespace foretoken {
namespace {

struct PrecisionName {
  std::string_view name;
  std::optional<WeightFormat> format;
};
constexpr std::array<PrecisionName, 5> kPrecisionNames{{{"auto", std::nullopt},
                                                        {"bf16", WeightFormat::kBF16},
                                                        {"fp8", WeightFormat::kFp8Block},
                                                        {"nvfp4", WeightFormat::kNvfp4},
                                                        {"fp4", WeightFormat::kNvfp4}}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

const PrecisionName* find_precision(std::string_view name) {
  const auto found = std::ranges::find(kPrecisionNames, lower(name), &PrecisionName::name);
  return found == kPrecisionNames.end() ? nullptr : &*found;
}

[[noreturn]] void throw_unknown(std::string_view what, std::string_view expected, std::string_view got) {
  throw Error(ErrorCode::kInvalidArgument, {.what = "unknown " + std::string(what),
                                            .where = {},
                                            .expected = std::string(expected),
                                            .got = "'" + std::string(got) + "'"});
}

/// How a linear weight of the head is chosen for conversion.
enum class Role : uint8_t { kFc, kLinear, kExperts };

/// `Weight` is LinearWeight, const or not.
template <class Weight>
struct HeadLinear {
  Weight* weight = nullptr;
  Role role = Role::kLinear;
  std::string_view part{};
  int64_t row_groups = 1;
  std::vector<Tensor> norms{};  // those whose output, side by side, is the input; none: it comes from elsewhere
};

/// Every weight of a head (MtpWeights, const or not) that may be converted.
template <class Head, class Weight = std::conditional_t<std::is_const_v<Head>, const LinearWeight, LinearWeight>>
std::vector<HeadLinear<Weight>> head_linears(Head& head) {
  std::vector<HeadLinear<Weight>> all{
      {.weight = &head.fc, .role = Role::kFc, .part = "fc", .norms = {head.pre_fc_norm_embedding, head.pre_fc_norm_hidden}}};
  const auto add = [&all](std::string_view part, std::initializer_list<Weight*> weights, const std::vector<Tensor>& norms) {
    for (Weight* weight : weights) all.push_back({.weight = weight, .role = Role::kLinear, .part = part, .norms = norms});
  };
  const std::vector<Tensor> mlp_norm{head.layer.post_attention_layernorm};
  const auto add_mlp = [&](std::string_view part, auto& mlp) {
    add(part, {&mlp.gate_proj, &mlp.up_proj}, mlp_norm);
    add(part, {&mlp.down_proj}, {});
  };
  if (auto& attention = head.layer.self_attn) {
    add("self_attn", {&attention->q_proj, &attention->k_proj, &attention->v_proj}, {head.layer.input_layernorm});
    add("self_attn", {&attention->o_proj}, {});
  }
  if (auto& mlp = head.layer.mlp) add_mlp("mlp", *mlp);
  if (auto& moe = head.layer.moe) {
    // Gate and up rows of an expert are matrices of their own, as releases quantise them.
    all.push_back({.weight = &moe->gate_up_proj, .role = Role::kExperts, .part = "experts", .row_groups = 2, .norms = mlp_norm});
    all.push_back({.weight = &moe->down_proj, .role = Role::kExperts, .part = "experts"});
    add_mlp("shared_expert", moe->shared_expert);
  }
  return all;
}

/// What a weight of this format becomes; nothing when it stays.
std::optional<WeightFormat> new_format(Role role, WeightFormat stored, const DraftFormats& formats) {
  const auto wanted = role == Role::kFc ? formats.fc : role == Role::kExperts ? formats.experts : formats.linears;
  return wanted == stored ? std::nullopt : wanted;
}

/// The planned tensor of a weight's codes.
const PlannedTensor& planned(const WeightPlan& plan, const Tensor& slot) {
  const auto found = std::ranges::find(plan.tensors, &slot, &PlannedTensor::slot);
  if (found == plan.tensors.end()) throw Error(ErrorCode::kInternalError, "a weight of the draft head is not in the plan");
  return *found;
}

void check_columns(const PlannedTensor& tensor, std::optional<WeightFormat> format) {
  const int64_t columns = tensor.shape[tensor.shape.rank() - 1];
  if (format != WeightFormat::kNvfp4 || columns % kNvfp4Group == 0) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = "tensor " + tensor.name + " cannot become nvfp4",
                                            .where = "draft precision",
                                            .expected = "columns in groups of 16",
                                            .got = tensor.shape.to_string()});
}

/// The LM head as it is planned, or as it is where the plan only views it.
PlannedTensor stored_lm_head(const WeightPlan& plan) {
  const LinearWeight& there = plan.target.lm_head;
  if (!there.weight) return planned(plan, plan.tied_lm_head ? plan.target.embed_tokens : there.weight);
  PlannedTensor stored;
  stored.name = "lm_head";
  stored.dtype = there.weight.dtype();
  stored.shape = there.weight.shape();
  stored.format = there.format;
  return stored;
}

/// Whether the device makes FP8 blocks of such a matrix and drafts with them.
Availability runs_fp8_lm_head(const GpuBackend& backend, const PlannedTensor& lm_head) {
  const OpTable& table = backend.ops();
  const LinearWeight copy{.weight = Tensor::shape_only(DType::kE4M3, lm_head.shape),
                          .scale = Tensor::shape_only(DType::kF32, scale_shape(WeightFormat::kFp8Block, lm_head.shape)),
                          .global_scale = {},
                          .format = WeightFormat::kFp8Block};
  const QuantizeFp8Block quantize{
      .x = Tensor::shape_only(lm_head.dtype, lm_head.shape), .codes = copy.weight, .scale = copy.scale};
  const LinearArgmax pick = linear_argmax_over(copy, {.activation_dtype = backend.capabilities().activation_dtype({})});
  const Availability quantizes = table.availability(QuantizeFp8Block::schema().name(), &quantize);
  return quantizes ? table.availability(LinearArgmax::schema().name(), &pick) : quantizes;
}

/// A BF16 LM head up to this size stays in caches near the cores, from which it is read faster than FP8 is decoded.
constexpr uint64_t kCachedLmHeadBytes = uint64_t{4} << 20;

void choose_lm_head(const GpuBackend& backend, const WeightPlan& plan, const DraftLmHead& wanted, DraftFormats& formats) {
  const PlannedTensor stored = stored_lm_head(plan);
  if (wanted.choice == DraftLmHead::Choice::kCheckpoint) return;
  if (wanted.choice == DraftLmHead::Choice::kCopy) {
    backend.capabilities().require_storable(wanted.format, "the LM head for drafts", "draft precision");
    check_columns(stored, wanted.format);
    if (wanted.format != stored.format) formats.lm_head = wanted.format;
    return;
  }
  const auto share = [&formats](const std::string& reason) {
    formats.lm_head_reason = "drafts use the checkpoint's LM head: " + reason;
  };
  if (stored.format != WeightFormat::kBF16 && stored.format != WeightFormat::kF32) {
    return share("it is " + std::string(to_string(stored.format)) + " already");
  }
  const WeightFormatSupport fp8 = backend.capabilities().weight_format(WeightFormat::kFp8Block);
  if (!fp8.storable) return share("FP8: " + fp8.storable.reason());
  if (!fp8.fast) return share("FP8: " + fp8.fast.reason());
  if (const Availability runs = runs_fp8_lm_head(backend, stored); !runs) return share("FP8: " + runs.reason());
  if (dtype_bytes(stored.dtype, static_cast<size_t>(stored.shape.num_elements())) <= kCachedLmHeadBytes)
    return share("it is small enough for caches");
  formats.lm_head = WeightFormat::kFp8Block;
  formats.lm_head_reason = "drafts use an FP8 copy of the LM head, which this device is faster with";
}

bool points_into(const LinearWeight& weight, const Buffer& buffer) {
  const std::array parts{&weight.weight, &weight.scale, &weight.global_scale};
  return std::ranges::any_of(parts, [&buffer](const Tensor* part) { return part->view().buffer == buffer.view().buffer; });
}

/// How much the error of each column of a linear layer of `columns` inputs counts, on the device: an RMS norm makes inputs of
/// one size of which weight k makes 1 + weight[k] of that; without norms all count the same.
Buffer column_weights(GpuBackend& backend, Stream& stream, const std::vector<Tensor>& norms, int64_t columns) {
  std::vector<float> values(static_cast<size_t>(columns), norms.empty() ? 1.0F : 0.0F);
  size_t begin = 0;
  for (const Tensor& norm : norms) {
    const auto part = std::span(values).subspan(begin, static_cast<size_t>(norm.dim(0)));
    stream.download(norm.view(), std::as_writable_bytes(part));
    for (float& value : part) value = (1.0F + value) * (1.0F + value);
    begin += part.size();
  }
  Buffer buffer = backend.allocate(values.size() * sizeof(float));
  stream.upload(std::as_bytes(std::span(values)), buffer.view());
  return buffer;
}

bool is_every_token(std::span<const int32_t> vocab, int64_t vocab_size) {
  return std::ssize(vocab) == vocab_size &&
         std::ranges::equal(vocab, std::views::iota(int32_t{0}, static_cast<int32_t>(vocab_size)));
}

/// The first tokens need no map: row n is token n.
void add_token_map(GpuBackend& backend, Stream& stream, std::span<const int32_t> vocab, DraftHead& head) {
  if (vocab.back() == std::ssize(vocab) - 1) return;
  Buffer memory = backend.allocate(vocab.size_bytes());
  stream.upload(std::as_bytes(vocab), memory.view());
  stream.synchronize();
  head.token_map = memory.tensor(DType::kI32, {std::ssize(vocab)});
  head.buffers.push_back(std::move(memory));
}

/// Converts what `formats` says; `release` is given each original that the head no longer needs.
template <class Release>
DraftHead convert(GpuBackend& backend, Stream& stream, const DrafterWeights& loaded, const DraftFormats& formats,
                  std::span<const int32_t> vocab, const Release& release) {
  DraftHead head{
      .weights = loaded.mtp, .embed_tokens = loaded.shared.embed_tokens, .lm_head = loaded.shared.lm_head, .buffers = {}};
  const auto replace = [&](LinearWeight& weight, WeightFormat format, int64_t row_groups, const std::vector<Tensor>& norms) {
    const int64_t columns = weight.in_features();
    Buffer memory;
    Tensor column_weight;
    if (format == WeightFormat::kNvfp4) {
      memory = column_weights(backend, stream, norms, columns);
      column_weight = memory.tensor(DType::kF32, {columns});
    }
    ConvertedWeight converted = convert_weight(backend, stream, weight, format, row_groups, column_weight);
    head.buffers.push_back(std::move(converted.memory));
    return std::exchange(weight, converted.weight);
  };
  for (const auto& linear : head_linears(head.weights)) {
    const auto format = new_format(linear.role, linear.weight->format, formats);
    if (format) release(replace(*linear.weight, *format, linear.row_groups, linear.norms));
  }
  const WeightFormat lm_head_format = formats.lm_head.value_or(head.lm_head.format);
  ConvertedWeight rows;
  if (!vocab.empty() && !is_every_token(vocab, head.lm_head.out_features())) {
    rows = copy_rows(backend, stream, head.lm_head, vocab);
    head.lm_head = rows.weight;
    add_token_map(backend, stream, vocab, head);
  }
  if (head.lm_head.format != lm_head_format) {
    replace(head.lm_head, lm_head_format, 1, {head.weights.norm});
  } else if (rows.memory) {
    head.buffers.push_back(std::move(rows.memory));
  }
  const LinearWeight& lm_head = loaded.shared.lm_head;
  const bool is_tied = lm_head.weight.address() == head.embed_tokens.address();
  if (head.lm_head.weight.address() != lm_head.weight.address() && !is_tied) release(lm_head);
  return head;
}

/// Frees the buffers that an original lies in; returns whether there are any.
bool release_from(std::vector<Buffer>& buffers, const LinearWeight& original) {
  return std::erase_if(buffers, [&original](const Buffer& buffer) { return points_into(original, buffer); }) > 0;
}

}  // namespace

std::optional<WeightFormat> parse_draft_precision(std::string_view name) {
  const PrecisionName* found = find_precision(name);
  if (found == nullptr) throw_unknown("draft precision", "one of auto, bf16, fp8, nvfp4 (or fp4)", name);
  return found->format;
}

DraftLmHead parse_draft_lm_head(std::string_view name) {
  if (lower(name) == "checkpoint") return {.choice = DraftLmHead::Choice::kCheckpoint};
  const PrecisionName* found = find_precision(name);
  if (found == nullptr) throw_unknown("draft LM head", "one of auto, checkpoint, bf16, fp8, nvfp4 (or fp4)", name);
  if (!found->format) return {};
  return {.choice = DraftLmHead::Choice::kCopy, .format = *found->format};
}

std::string_view draft_precision_name(std::optional<WeightFormat> format) {
  const auto found = std::ranges::find(kPrecisionNames, format, &PrecisionName::format);
  return found == kPrecisionNames.end() ? to_string(*format) : found->name;
}

std::string_view draft_precision_name(const DraftLmHead& lm_head) {
  switch (lm_head.choice) {
    case DraftLmHead::Choice::kAuto: return "auto";
    case DraftLmHead::Choice::kCheckpoint: return "checkpoint";
    case DraftLmHead::Choice::kCopy: break;
  }
  return draft_precision_name(lm_head.format);
}

WeightFormat effective_precision(WeightFormat requested, bool is_dense_ffn) {
  return is_dense_ffn && requested == WeightFormat::kNvfp4 ? WeightFormat::kBF16 : requested;
}

DraftFormats choose_draft_formats(const GpuBackend& backend, const WeightPlan& plan, const DraftPrecision& wanted) {
  const auto check = [&backend](std::optional<WeightFormat> format, std::string_view what) {
    if (format) backend.capabilities().require_storable(*format, what, "draft precision");
  };
  check(wanted.linears, "the draft head");
  check(wanted.fc, "the draft head's fc");
  check(wanted.experts, "the draft head's experts");
  DraftFormats formats{.linears = wanted.linears, .fc = wanted.fc, .experts = wanted.experts ? wanted.experts : wanted.linears};
  for (const auto& linear : head_linears(plan.mtp.value())) {
    check_columns(planned(plan, linear.weight->weight), new_format(linear.role, linear.weight->format, formats));
  }
  choose_lm_head(backend, plan, wanted.lm_head, formats);
  return formats;
}

DraftHead make_draft_head(GpuBackend& backend, Stream& stream, const DrafterWeights& loaded, const DraftFormats& formats,
                          std::span<const int32_t> vocab) {
  return convert(backend, stream, loaded, formats, vocab, [](const LinearWeight&) {});
}

DraftHead replace_draft_head(GpuBackend& backend, Stream& stream, LoadedModel& model, const DraftFormats& formats,
                             std::span<const int32_t> vocab) {
  const auto release = [&model](const LinearWeight& original) {
    model.weight_bytes -= release_from(model.draft_buffers, original) ? original.bytes() : 0;
  };
  DraftHead head = convert(backend, stream, model.drafter(), formats, vocab, release);
  model.mtp = head.weights;
  for (const Buffer& buffer : head.buffers) model.weight_bytes += buffer.bytes();
  return head;
}

DraftHead replace_draft_head(GpuBackend& backend, Stream& stream, LoadedDrafter& drafter, const DraftFormats& formats,
                             std::span<const int32_t> vocab) {
  const auto release = [&drafter](const LinearWeight& original) { release_from(drafter.buffers, original); };
  DraftHead head = convert(backend, stream, drafter.weights, formats, vocab, release);
  drafter.weights = {.mtp = head.weights, .shared = {.embed_tokens = head.embed_tokens, .lm_head = head.lm_head}};
  return head;
}

std::vector<StoredFormats> stored_formats(const DraftHead& head) {
  std::vector<StoredFormats> parts;
  const auto add = [&parts](std::string_view name, WeightFormat format) {
    if (parts.empty() || parts.back().part != name) parts.push_back({.part = name, .formats = {}});
    std::string& formats = parts.back().formats;
    if (formats.find(to_string(format)) == std::string::npos)
      formats.append(formats.empty() ? "" : "+").append(to_string(format));
  };
  for (const auto& linear : head_linears(head.weights)) add(linear.part, linear.weight->format);
  add("lm_head", head.lm_head.format);
  return parts;
}

uint64_t draft_step_bytes(const DraftHead& head, const ModelConfig& config, int64_t num_rows) {
  const auto experts = static_cast<double>(std::max<int64_t>(config.num_experts, 1));
  const double active = static_cast<double>(config.num_experts_per_tok) / experts;
  const double hit = num_rows == 1 ? active : 1.0 - std::pow(1.0 - active, static_cast<double>(num_rows));
  uint64_t bytes = head.lm_head.bytes();
  for (const auto& linear : head_linears(head.weights)) {
    const uint64_t whole = linear.weight->bytes();
    bytes += linear.role == Role::kExperts ? static_cast<uint64_t>(static_cast<double>(whole) * hit) : whole;
  }
  const DecoderLayerWeights& layer = head.weights.layer;
  if (layer.moe) bytes += layer.moe->gate.bytes() + layer.moe->shared_expert_gate.bytes();
  for (const Tensor* norm :
       {&head.weights.pre_fc_norm_embedding, &head.weights.pre_fc_norm_hidden, &layer.input_layernorm,
        &layer.post_attention_layernorm, &layer.self_attn->q_norm, &layer.self_attn->k_norm, &head.weights.norm}) {
    bytes += norm->bytes();
  }
  const bool is_tied = head.lm_head.weight.address() == head.embed_tokens.address();
  return is_tied ? bytes : bytes + static_cast<uint64_t>(num_rows) * head.embed_tokens.rows(0, 1).bytes();
}

}  // namespace foretoken
