// docs/ops.md says what the declarations say.
#include "tests/unit/ops_page/ops_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/unit/ops_page/declaration.h"

namespace foretoken {
namespace {

TEST(OpsPage, PageInDocsIsUpToDate) {
  std::ifstream file(FORETOKEN_SOURCE "/docs/ops.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(ops_page(FORETOKEN_SOURCE), page)
      << "write it anew: build the target write_ops_page, tests/bin/write_ops_page > docs/ops.md";
}

TEST(OpsPage, ReadsCommentsAndFieldsOfAHeader) {
  const std::vector<OpHeader> headers = read_op_headers(FORETOKEN_SOURCE "/core/ops");
  const auto header = std::ranges::find(headers, "core/ops/rms_norm.h", &OpHeader::path);
  ASSERT_NE(header, headers.end());
  EXPECT_THAT(header->text, testing::HasSubstr("eps inside the root"));
  ASSERT_EQ(header->ops.size(), 2U);
  EXPECT_EQ(header->ops[1].type, "AddRmsNorm");
  EXPECT_THAT(header->ops[1].text, testing::StartsWith("residual += x;"));
  EXPECT_THAT(header->ops[1].fields, testing::HasSubstr("Tensor residual;  // [T, H], updated\n"));
  EXPECT_THAT(header->ops[1].fields, testing::Not(testing::HasSubstr("operands")));
}

TEST(OpsPage, NamesSchemasByTheirTypes) {
  EXPECT_EQ(schema_name("RmsNorm"), "rms_norm");
  EXPECT_EQ(schema_name("CausalConv1dSilu"), "causal_conv1d_silu");
}

}  // namespace
}  // namespace foretoken
