#include "models/synth.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/error.h"
#include "core/ops/random_fill.h"
#include "models/synth_shapes.h"

namespace foretoken {
namespace {

constexpr std::string_view kScheme = "synth:";
constexpr size_t kElementsPerThread = size_t{1} << 18;  // below this a thread costs more than it gains

[[noreturn]] void throw_option(std::string_view text, const std::string& what, const std::string& expected,
                               std::string_view got) {
  throw Error(ErrorCode::kInvalidArgument,
              {.what = what, .where = std::string(text), .expected = expected, .got = std::string(got)});
}

uint64_t parse_number(std::string_view text, std::string_view key, std::string_view value) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) {
    throw_option(text, "bad value of " + std::string(key), "a number", value);
  }
  return number;
}

void fill_elements(RandomRecipe recipe, DType dtype, uint64_t first, size_t count, std::byte* out) {
  const float scale = std::ldexp(1.0F, recipe.exponent);
  const auto value = [=](size_t i) {
    return static_cast<float>(random_weight_integer(recipe.seed, recipe.tensor_id, first + i)) * scale + recipe.offset;
  };
  if (dtype == DType::kBF16) {
    for (size_t i = 0; i < count; ++i) {
      const uint16_t bits = float_to_bf16(value(i));
      std::memcpy(out + i * sizeof(bits), &bits, sizeof(bits));
    }
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const float element = value(i);
    std::memcpy(out + i * sizeof(element), &element, sizeof(element));
  }
}

}  // namespace

bool is_synth_spec(std::string_view text) { return text.starts_with(kScheme); }

SynthSpec parse_synth_spec(std::string_view text) {
  std::string_view rest = is_synth_spec(text) ? text.substr(kScheme.size()) : text;
  const auto next_part = [&] {
    const size_t colon = rest.find(':');
    const std::string_view part = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon + 1);
    return part;
  };
  SynthSpec spec;
  spec.model = next_part();
  std::set<std::string_view> seen;
  while (!rest.empty()) {
    const std::string_view part = next_part();
    const std::string_view key = part.substr(0, part.find('='));
    const bool known = (key == "layers" || key == "seed") && part.size() > key.size();
    if (!known) throw_option(text, "unknown option of a synthetic model", "layers=N or seed=S", part);
    if (!seen.insert(key).second) throw_option(text, "option given twice", "each once", part);
    const uint64_t number = parse_number(text, key, part.substr(key.size() + 1));
    if (key == "seed") spec.seed = number;
    if (key == "layers" && (number == 0 || number > INT32_MAX)) {
      throw_option(text, "bad number of layers", "1 to the model's number", part);
    }
    if (key == "layers") spec.num_layers = static_cast<int64_t>(number);
  }
  (void)synth_config_json(spec);  // checks the name and the number of layers
  return spec;
}

ModelConfig synth_config(const SynthSpec& spec) { return SynthSource(spec).config(); }

SynthSource::SynthSource(const SynthSpec& spec)
    : SynthSource(synth_config_json(spec).dump(2), std::string(kScheme) + spec.model, spec.seed) {
  // Those of the released generation_config.json.
  config_.eos_token_ids =
      config_.family == ModelFamily::kQwen3Next ? std::vector<int32_t>{151645, 151643} : std::vector<int32_t>{248046, 248044};
}

SynthSource::SynthSource(std::string config_json, std::string name, uint64_t seed)
    : name_(std::move(name)), config_json_(std::move(config_json)), config_(parse_model_config(config_json_, name_)) {
  for (SynthTensor& item : synth_tensors(config_, name_, seed)) {
    tensors_.push_back(std::move(item.tensor));
    recipes_.push_back(item.recipe);
  }
  by_name_ = index_by_name(tensors_);
}

std::optional<size_t> SynthSource::find(std::string_view tensor_name) const {
  const auto found = by_name_.find(tensor_name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::span<const std::byte> SynthSource::read(size_t index, uint64_t begin, size_t count, std::vector<std::byte>& scratch) const {
  const SourceTensor& tensor = tensors_[index];
  check_source_range(tensor, begin, count);
  const DType dtype = *tensor.dtype;
  const size_t width = dtype_bytes(dtype, 1);
  const uint64_t first = begin / width;
  const auto elements = static_cast<size_t>((begin + count + width - 1) / width - first);
  scratch.resize(elements * width);
  const size_t wanted = elements / kElementsPerThread + 1;
  const size_t num_threads = std::min<size_t>(wanted, std::max(1U, std::thread::hardware_concurrency()));
  const auto fill_share = [&, share = (elements + num_threads - 1) / num_threads](size_t thread) {
    const size_t start = std::min(elements, thread * share);
    fill_elements(recipes_[index], dtype, first + start, std::min(share, elements - start), scratch.data() + start * width);
  };
  std::vector<std::jthread> threads;
  for (size_t thread = 1; thread < num_threads; ++thread) threads.emplace_back(fill_share, thread);
  fill_share(0);
  threads.clear();  // joins
  return std::span(scratch).subspan(static_cast<size_t>(begin - first * width), count);
}

}  // namespace foretoken
