// Required operators that a device lacks: construction fails with operator, format, device and reason, and takes no memory.
#include <gmock/gmock.h>

#include "gated_cpu.h"
#include "models/checkpoint.h"
#include "tests/support/golden.h"

namespace foretoken::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr TargetRunnerOptions kRunner{.max_seq_len = 64, .prefill_chunk = 32};

/// A model whose weights are loaded, on a device that may lack operators.
class Loaded {
 public:
  Loaded(const std::string& name, Gate gate)
      : backend_(gated_cpu(std::move(gate))),
        stream_(backend_->create_stream()),
        model_(load_model(*backend_, Checkpoint(data_path(name)), load_model_config(data_path(name)))) {}

  [[nodiscard]] std::string refusal_of_runner(const TargetRunnerOptions& options = kRunner) {
    MetadataBuffer round;
    return refusal([&] { TargetRunner(*backend_, *stream_, model_.config, model_.target, options, round); });
  }
  [[nodiscard]] std::string refusal_of_head() {
    return refusal([&] {
      MtpHead(*backend_, model_.config, *model_.mtp, model_.target.embed_tokens, model_.target.lm_head,
              {.max_rows = 32, .max_seq_len = 64});
    });
  }

 private:
  template <class Fn>
  std::string refusal(const Fn& construct) {
    const size_t before = backend_->allocated_bytes();
    std::string message = refusal_of(construct);
    EXPECT_EQ(backend_->allocated_bytes(), before);
    return message;
  }

  std::unique_ptr<GpuBackend> backend_;
  std::unique_ptr<Stream> stream_;
  LoadedModel model_;
};

TEST(MissingOperator, OneRowKernelsAreNotEnoughToVerify) {
  Loaded loaded("tiny-dense", {.device_name = "device for one row", .one_row_only = {WeightFormat::kBF16}});
  EXPECT_THAT(loaded.refusal_of_runner(),
              AllOf(HasSubstr("target layer 0: in_proj_qkv (bf16), in_proj_z (bf16)"),
                    HasSubstr("linear_group on device for one row"), HasSubstr("bf16 weights take one row")));
  EXPECT_THAT(loaded.refusal_of_head(), AllOf(HasSubstr("mtp head: fc (bf16)"), HasSubstr("linear on device for one row"),
                                              HasSubstr("bf16 weights take one row")));
}

struct Missing {
  const char* name;  // of the operator
  const char* checkpoint;
  bool of_head;           // the draft head needs it
  bool of_target = true;  // and so does the target
};

class MissingOperatorTest : public ::testing::TestWithParam<Missing> {};

TEST_P(MissingOperatorTest, FailsConstruction) {
  const auto& [name, checkpoint, of_head, of_target] = GetParam();
  Loaded loaded(checkpoint, {.device_name = "poor device", .no_operator = {name}});
  const auto names_it = AllOf(HasSubstr(std::string(name) + " on poor device"), HasSubstr("no implementation"));
  if (of_target) {
    EXPECT_THAT(loaded.refusal_of_runner(), names_it);
  }
  if (of_head) {
    EXPECT_THAT(loaded.refusal_of_head(), names_it);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Operators, MissingOperatorTest,
    ::testing::Values(Missing{"linear", "tiny-dense", true}, Missing{"linear_silu_mul", "tiny-dense", true},
                      Missing{"embedding", "tiny-dense", false}, Missing{"mtp_input", "tiny-dense", true, false},
                      Missing{"rope_table", "tiny-dense", true}, Missing{"rms_norm", "tiny-dense", true},
                      Missing{"add_rms_norm", "tiny-dense", true}, Missing{"qk_norm_rope_cache", "tiny-dense", true},
                      Missing{"gated_attention", "tiny-dense", true}, Missing{"causal_conv1d_silu", "tiny-dense", false},
                      Missing{"gated_delta_rule", "tiny-dense", false}, Missing{"select_tokens", "tiny-dense", false},
                      Missing{"accept_drafts", "tiny-dense", false}, Missing{"moe_route", "tiny-moe", true},
                      Missing{"moe_experts_up", "tiny-moe", true}, Missing{"moe_experts_down", "tiny-moe", true}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(MissingOperator, WithoutArgmaxThereMustBeAFusedLmHead) {
  Loaded fused("tiny-dense", {.no_operator = {"argmax"}});
  TargetRunnerOptions with_logits = kRunner;
  with_logits.keep_logits = true;
  EXPECT_THAT(fused.refusal_of_runner(with_logits), HasSubstr("argmax on gated device: no implementation"));

  Loaded neither("tiny-dense", {.no_operator = {"argmax", "linear_argmax"}});
  EXPECT_THAT(neither.refusal_of_runner(), HasSubstr("argmax on gated device: no implementation"));
  EXPECT_THAT(neither.refusal_of_head(), HasSubstr("argmax on gated device: no implementation"));
}

}  // namespace
}  // namespace foretoken::test
