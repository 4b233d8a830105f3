// The conformance runner itself: it must pass the references and catch every kind of fault.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "backends/conformance/conformance.h"
#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"
#include "core/error.h"
#include "core/op_case.h"
#include "tests/support/reference_backend.h"

namespace foretoken {
namespace {

using test::launch_of;
using test::reference_table;
using test::ReferenceBackend;

std::byte* data_of(const Tensor& tensor) { return reinterpret_cast<std::byte*>(tensor.address()); }

/// Runs the cases of Op through `body` alone.
template <class Op, class Body>
ConformanceReport run_with(Body body, ConformanceOptions options = {}) {
  OpTable table;
  table.add<Op>("faulty", launch_of<Op>(body));
  ReferenceBackend backend(std::move(table));
  options.op = Op::schema().name();
  return run_conformance(backend, options);
}

/// The failures of a faulty implementation, as one text.
template <class Op, class Body>
std::string failures_of(Body body, ConformanceOptions options = {}) {
  const ConformanceReport report = run_with<Op>(body, std::move(options));
  EXPECT_FALSE(report.passed());
  std::string text;
  for (const ConformanceEntry& entry : report.entries) {
    if (entry.outcome == ConformanceOutcome::kFailed) text += entry.case_name + "|" + entry.mode + "|" + entry.detail + "\n";
  }
  return text;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Reference : public testing::TestWithParam<std::string> {};

TEST_P(Reference, ConformsToItself) {
  ReferenceBackend backend(reference_table());
  ConformanceOptions options;
  options.op = GetParam();
  const ConformanceReport report = run_conformance(backend, options);
  EXPECT_TRUE(report.passed()) << report.to_table();
  EXPECT_GE(report.count(ConformanceOutcome::kPassed), 8U);
}

INSTANTIATE_TEST_SUITE_P(Operators, Reference, testing::ValuesIn(conformance_ops()),
                         [](const auto& param) { return param.param; });

TEST(Runner, ASeedGivesEveryCaseOtherContents) {
  const auto first_inputs = [](uint64_t seed) {
    std::vector<double> values;
    const ConformanceReport report = run_with<RmsNorm>(
        [&values](const RmsNorm& op) {
          values.push_back(HostTensor(op.x)(0, 0));
          reference(op);
        },
        {.case_contains = "T5_H2048", .seed = seed});
    EXPECT_TRUE(report.passed());
    return values;
  };
  EXPECT_EQ(first_inputs(0), first_inputs(0));
  EXPECT_NE(first_inputs(0), first_inputs(1));
}

TEST(Runner, TimesWhatPasses) {
  const ConformanceReport report =
      run_with<RmsNorm>([](const RmsNorm& op) { reference(op); }, {.case_contains = "T5_H2048", .timings = true});
  ASSERT_FALSE(report.timings.empty());
  EXPECT_EQ(report.timings[0].implementation, "faulty");
  EXPECT_GT(report.timings[0].median_us, 0.0);
  EXPECT_GE(report.timings[0].operand_bytes, 2U * 5 * 2048 * sizeof(uint16_t));
  EXPECT_EQ(nlohmann::json::parse(report.to_json())["timings"].size(), report.timings.size());

  const ConformanceReport wrong = run_with<RmsNorm>([](const RmsNorm&) {}, {.case_contains = "T5_H2048", .timings = true});
  EXPECT_FALSE(wrong.passed());
  EXPECT_TRUE(wrong.timings.empty());
}

TEST(Cases, HaveDistinctNames) {
  for_each_op([](auto tag) {
    using Op = typename decltype(tag)::type;
    std::set<std::string> names;
    for (const OpCase<Op>& one : Op::cases())
      EXPECT_TRUE(names.insert(one.name).second) << Op::schema().name() << " " << one.name;
  });
}

TEST(Runner, CatchesAWrongValue) {
  const std::string failures = failures_of<RmsNorm>([](const RmsNorm& op) {
    reference(op);
    const HostTensor out(op.out);
    out.set(out(0, 0) + 0.5, 0, 0);
  });
  EXPECT_TRUE(contains(failures, "T5_H2048|immediate|out: relative error")) << failures;
  EXPECT_TRUE(contains(failures, "T5_H2048|replayed|out: relative error")) << failures;
}

TEST(Runner, CatchesAnErrorJustBeyondTheBound) {
  const auto scaled = [](double factor) {
    return [factor](const RmsNorm& op) {
      reference(op);
      const HostTensor out(op.out);
      for (int64_t h = 0; h < out.dim(1); ++h) out.set(out(0, h) * factor, 0, h);
    };
  };
  ConformanceOptions options;
  options.case_contains = "T3_H5120";
  EXPECT_TRUE(contains(failures_of<RmsNorm>(scaled(1.0 + 1.2e-5), options), "relative error 1.2"));
  EXPECT_TRUE(run_with<RmsNorm>(scaled(1.0 + 0.8e-5), options).passed());
}

TEST(Runner, CatchesAnErrorSpreadOverTheWhole) {
  // Every element off by almost the bound of its row's largest one: each row passes, the mean does not.
  ConformanceOptions options;
  options.case_contains = "T3_H5120";
  const std::string failures = failures_of<RmsNorm>(
      [](const RmsNorm& op) {
        reference(op);
        const HostTensor out(op.out);
        for (int64_t t = 0; t < out.dim(0); ++t) {
          double largest = 0.0;
          for (int64_t h = 0; h < out.dim(1); ++h) largest = std::fmax(largest, std::fabs(out(t, h)));
          for (int64_t h = 0; h < out.dim(1); ++h) out.set(out(t, h) + 0.9e-5 * largest, t, h);
        }
      },
      options);
  EXPECT_TRUE(contains(failures, "normalised mean squared error")) << failures;
}

TEST(Runner, CatchesNan) {
  const std::string failures = failures_of<RmsNorm>([](const RmsNorm& op) {
    reference(op);
    HostTensor(op.out).set(std::nan(""), 0, 0);
  });
  EXPECT_TRUE(contains(failures, "T3_H5120|immediate|out: nan at [0, 0], expected")) << failures;
}

TEST(Runner, CatchesAMissingNan) {
  const std::string failures = failures_of<RmsNorm>([](const RmsNorm& op) {
    reference(op);
    const HostTensor out(op.out);
    for (int64_t t = 0; t < out.dim(0); ++t) {
      for (int64_t h = 0; h < out.dim(1); ++h) out.set(std::isnan(out(t, h)) ? 0.0 : out(t, h), t, h);
    }
  });
  EXPECT_TRUE(contains(failures, "nan_row|immediate|out: 0 at [1, 0], expected nan")) << failures;
  EXPECT_FALSE(contains(failures, "T3_H5120|")) << failures;
}

TEST(Runner, CatchesWritesIntoGuardZones) {
  const auto write_at = [](std::ptrdiff_t from_begin, bool from_end) {
    return [=](const RmsNorm& op) {
      reference(op);
      *(data_of(op.out) + (from_end ? static_cast<std::ptrdiff_t>(op.out.view().bytes) : 0) + from_begin) = std::byte{1};
    };
  };
  EXPECT_TRUE(contains(failures_of<RmsNorm>(write_at(-1, false)), "wrote 1 bytes before its start"));
  EXPECT_TRUE(contains(failures_of<RmsNorm>(write_at(-200, false)), "wrote 200 bytes before its start"));
  EXPECT_TRUE(contains(failures_of<RmsNorm>(write_at(0, true)), "T5_H2048|immediate|out: wrote past its end, at byte 40960"));
  EXPECT_TRUE(contains(failures_of<RmsNorm>(write_at(200, true)), "wrote past its end"));
}

TEST(Runner, CatchesWritesBetweenRows) {
  const std::string failures = failures_of<RmsNorm>([](const RmsNorm& op) {
    reference(op);
    if (!op.out.is_contiguous()) data_of(op.out)[dtype_bytes(op.out.dtype(), static_cast<size_t>(op.out.dim(1)))] = std::byte{7};
  });
  EXPECT_TRUE(contains(failures, "T4_H192_strided|immediate|out: changed byte 768, which is an input or between rows"))
      << failures;
  EXPECT_FALSE(contains(failures, "T3_H5120|")) << failures;
}

TEST(Runner, CatchesAChangedInput) {
  const std::string failures = failures_of<RmsNorm>([](const RmsNorm& op) {
    reference(op);
    HostTensor(op.weight).set(3.0, 0);
  });
  EXPECT_TRUE(contains(failures, "weight: changed byte")) << failures;
}

TEST(Runner, CatchesAStaleReplay) {
  // Remembers its first result for each output and gives it again.
  auto kept = std::make_shared<std::map<DeviceAddress, std::vector<std::byte>>>();
  const std::string failures = failures_of<RmsNorm>(
      [kept](const RmsNorm& op) {
        auto& first = (*kept)[op.out.address()];
        if (first.size() != op.out.view().bytes) {
          reference(op);
          first.assign(data_of(op.out), data_of(op.out) + op.out.view().bytes);
        }
        std::ranges::copy(first, data_of(op.out));
      },
      {.case_contains = "T16_H2560"});
  EXPECT_FALSE(contains(failures, "|immediate|")) << failures;
  EXPECT_TRUE(contains(failures, "|replayed|out: relative error")) << failures;
  EXPECT_TRUE(contains(failures, "(inputs of round 1)")) << failures;
}

TEST(Runner, CatchesOutputThatIsNeverWritten) {
  EXPECT_TRUE(contains(failures_of<RmsNorm>([](const RmsNorm&) {}), "out: nan at [0, 0], expected"));
}

TEST(Runner, CatchesAWrittenPaddingRow) {
  const std::string failures = failures_of<CausalConv1dSilu>([](const CausalConv1dSilu& op) {
    reference(op);
    const int64_t rows = HostTensor(op.query_start_loc).integer(op.query_start_loc.dim(0) - 1);
    if (rows < op.out.dim(0)) HostTensor(op.out).set(std::nan(""), op.out.dim(0) - 1, 0);
  });
  EXPECT_TRUE(contains(failures, "must stay as it was, bit for bit")) << failures;
  EXPECT_FALSE(contains(failures, "B1_")) << failures;
}

TEST(Runner, CatchesAStateThatMovesWhileRecording) {
  const std::string failures = failures_of<GatedDeltaRule>([](const GatedDeltaRule& op) {
    reference(op);
    if (op.update == StateUpdate::kRecord) {
      const int64_t slot = HostTensor(op.state_slots).integer(0);
      const HostTensor state(op.state);
      state.set(state(slot, 0, 0, 0) * 1.0000002, slot, 0, 0, 0);
    }
  });
  EXPECT_TRUE(contains(failures, "_record|immediate|state: the row at")) << failures;
}

TEST(Runner, CatchesAWorkspaceOverrun) {
  const auto faulty = [](size_t written) {
    OpTable table;
    table.add<Linear>("faulty", launch_of<Linear>([written](const Linear& op) {
                        reference(op);
                        for (size_t i = 0; i < written; ++i) data_of(op.workspace)[i] = std::byte{0};
                      }),
                      nullptr, [](const Linear&) { return size_t{100}; });
    ReferenceBackend backend(std::move(table));
    return run_conformance(backend, {.op = "linear", .case_contains = "T3_K33"});
  };
  EXPECT_TRUE(faulty(100).passed());
  const ConformanceReport report = faulty(101);
  EXPECT_FALSE(report.passed());
  EXPECT_TRUE(contains(report.to_table(), "workspace: wrote past its end, at byte 100 of 100"));
}

TEST(Runner, CatchesTheHigherIdOfATie) {
  const auto last_of_the_best = [](const HostTensor& logits, int64_t t) {
    int64_t best = 0;
    for (int64_t v = 0; v < logits.dim(1); ++v) {
      if (logits(t, v) >= logits(t, best)) best = v;
    }
    return static_cast<double>(best);
  };
  const std::string failures = failures_of<Argmax>([&](const Argmax& op) {
    for (int64_t t = 0; t < op.logits.dim(0); ++t) HostTensor(op.token_ids).set(last_of_the_best(HostTensor(op.logits), t), t);
  });
  EXPECT_TRUE(contains(failures, "ties|immediate|token_ids: ")) << failures;
  EXPECT_TRUE(contains(failures, "signed_zeros|")) << failures;

  const std::string fused = failures_of<LinearArgmax>(
      [](const LinearArgmax& op) {
        reference(op);
        for (int64_t t = 0; t < op.x.dim(0); ++t) {
          const std::vector<double> logits = reference_logits(op, t);
          const int64_t id = HostTensor(op.token_ids).integer(t);
          for (size_t n = 0; n < logits.size(); ++n) {
            if (logits[n] == logits[static_cast<size_t>(id)]) HostTensor(op.token_ids).set(static_cast<double>(n), t);
          }
        }
      },
      {.case_contains = "ties"});
  EXPECT_TRUE(contains(fused, "ties|immediate|token_ids: ")) << fused;
}

TEST(Runner, ReportsAnErrorAsAFailure) {
  const std::string failures = failures_of<RmsNorm>([](const RmsNorm&) { throw Error(ErrorCode::kDeviceError, "lost"); });
  EXPECT_TRUE(contains(failures, "|immediate|device error: lost")) << failures;
}

TEST(Expectations, AnOperatorWithoutImplementationNeedsAnEntry) {
  ReferenceBackend backend(OpTable{});
  const ConformanceReport missing = run_conformance(backend, {.op = "rope"});
  EXPECT_FALSE(missing.passed());
  EXPECT_TRUE(contains(missing.to_table(), "no implementation takes it and it is not listed as unsupported"));

  ConformanceOptions listed{.op = "rope"};
  listed.expectations =
      Expectations{.unsupported = {{.op = "rope", .case_contains = "", .reason = "no rotation"}}, .expected_failure = {}};
  const ConformanceReport report = run_conformance(backend, listed);
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.count(ConformanceOutcome::kUnsupported), report.entries.size());
  EXPECT_TRUE(contains(report.to_table(), "rope: no rotation"));
}

TEST(Expectations, ARefusalIsReportedWithItsReason) {
  OpTable table;
  const auto launch = launch_of<Rope>([](const Rope& op) { reference(op); });
  table.add<Rope>("picky", launch, [](const Rope&) { return Availability::no("not today"); });
  ReferenceBackend alone(table);
  const ConformanceReport refused = run_conformance(alone, {.op = "rope"});
  EXPECT_FALSE(refused.passed());
  EXPECT_TRUE(contains(refused.to_table(), "(picky: not today)"));

  table.add<Rope>("plain", launch);
  ReferenceBackend both(std::move(table));
  const ConformanceReport report = run_conformance(both, {.op = "rope"});
  EXPECT_TRUE(report.passed()) << report.to_table();
  EXPECT_EQ(report.count(ConformanceOutcome::kRefused) * 2, report.count(ConformanceOutcome::kPassed));
}

TEST(Expectations, AcceptingAnUnsupportedCaseFails) {
  ReferenceBackend backend(reference_table());
  ConformanceOptions options{.op = "rope"};
  options.expectations =
      Expectations{.unsupported = {{.op = "*", .case_contains = "act-bf16", .reason = "none"}}, .expected_failure = {}};
  EXPECT_TRUE(contains(run_conformance(backend, options).to_table(), "accepts a case that is listed as unsupported (none)"));
}

TEST(Expectations, AKnownFailureIsExpectedAndItsPassIsNot) {
  ConformanceOptions options;
  options.expectations = Expectations{
      .unsupported = {}, .expected_failure = {{.op = "rope", .case_contains = "", .reason = "#7: turns the wrong way"}}};
  const ConformanceReport failing = run_with<Rope>([](const Rope&) {}, options);
  EXPECT_TRUE(failing.passed()) << failing.to_table();
  EXPECT_EQ(failing.count(ConformanceOutcome::kExpectedFailure), failing.entries.size());
  const std::string passing = failures_of<Rope>([](const Rope& op) { reference(op); }, options);
  EXPECT_TRUE(contains(passing, "passes although it is listed as a failure: #7: turns the wrong way")) << passing;
}

TEST(Report, IsJson) {
  ReferenceBackend backend(reference_table());
  size_t seen = 0;
  ConformanceOptions options{.op = "select_tokens"};
  options.seen = [&seen](const ConformanceEntry&) { ++seen; };
  const ConformanceReport report = run_conformance(backend, options);
  const auto json = nlohmann::json::parse(report.to_json());
  EXPECT_EQ(json["backend"], "reference");
  EXPECT_EQ(json["passed"], true);
  EXPECT_EQ(json["entries"].size(), seen);
  EXPECT_EQ(json["counts"]["passed"], seen);
  EXPECT_EQ(json["entries"][0]["mode"], "immediate");
  EXPECT_EQ(json["entries"][1]["mode"], "replayed");
}

TEST(Report, RefusesAnUnknownOperator) {
  ReferenceBackend backend(reference_table());
  try {
    (void)run_conformance(backend, {.op = "softmax"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(contains(error.what(), "rms_norm")) << error.what();
  }
}

}  // namespace
}  // namespace foretoken
