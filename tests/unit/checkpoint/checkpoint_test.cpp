#include "models/checkpoint.h"

#include <gmock/gmock.h>

#include "tests/unit/checkpoint/editable_checkpoint.h"
#include "tests/unit/checkpoint/test_files.h"

namespace foretoken {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kShard1 = "model-00001-of-00002.safetensors";
constexpr const char* kShard2 = "model-00002-of-00002.safetensors";

/// A copy of tiny-moe, which has two shards, for a test to spoil.
class Sharded : public testing::Test {
 protected:
  Sharded() { std::filesystem::copy(test::bundled("tiny-moe"), folder_.path(), std::filesystem::copy_options::recursive); }
  void write_index(const nlohmann::json& weight_map) {
    test::write_file(folder_.path() / kIndex, nlohmann::json{{"weight_map", weight_map}}.dump());
  }
  nlohmann::json weight_map() { return nlohmann::json::parse(test::read_file(folder_.path() / kIndex))["weight_map"]; }
  std::string error() {
    return error_of(ErrorCode::kFormatError, [&] { Checkpoint checkpoint(folder_.path()); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(Sharded, AllTensorsOfAllShards) {
  const Checkpoint checkpoint(folder_.path());
  EXPECT_EQ(checkpoint.tensors().size(), weight_map().size());
  const auto index = checkpoint.find("mtp.fc.weight");
  ASSERT_TRUE(index);
  EXPECT_EQ(checkpoint.tensors()[*index].shape, Shape({192, 384}));
  std::vector<std::byte> scratch;
  EXPECT_EQ(checkpoint.read(*index, 192 * 384 * 2 - 6, 6, scratch).size(), 6U);
  error_of(ErrorCode::kInvalidArgument, [&] { (void)checkpoint.read(*index, 192 * 384 * 2 - 6, 7, scratch); });
  EXPECT_FALSE(checkpoint.find("mtp.fc"));
}

TEST_F(Sharded, MissingShard) {
  std::filesystem::remove(folder_.path() / kShard2);
  EXPECT_THAT(error(), AllOf(HasSubstr("shard is missing"), HasSubstr(kShard2), HasSubstr(kIndex)));
}

TEST_F(Sharded, TruncatedShard) {
  std::filesystem::resize_file(folder_.path() / kShard2, std::filesystem::file_size(folder_.path() / kShard2) - 1);
  EXPECT_THAT(error(), AllOf(HasSubstr(kShard2), HasSubstr("past the end of the file")));
}

TEST_F(Sharded, TensorNotInItsShard) {
  nlohmann::json map = weight_map();
  map["mtp.extra.weight"] = kShard1;
  write_index(map);
  EXPECT_THAT(error(), AllOf(HasSubstr("mtp.extra.weight"), HasSubstr("not in the shard")));
}

TEST_F(Sharded, TensorInTheWrongShard) {
  nlohmann::json map = weight_map();
  map["lm_head.weight"] = kShard1;
  write_index(map);
  EXPECT_THAT(error(), AllOf(HasSubstr("lm_head.weight"), HasSubstr(kShard1)));
}

TEST_F(Sharded, TensorThatTheIndexDoesNotKnow) {
  nlohmann::json map = weight_map();
  map.erase("mtp.norm.weight");
  write_index(map);
  EXPECT_THAT(error(), AllOf(HasSubstr("mtp.norm.weight"), HasSubstr("expected a tensor of the index")));
}

TEST_F(Sharded, TensorInTwoShards) {
  test::write_tensors(folder_.path() / "third.safetensors",
                      {{"mtp.norm.weight", test::zeros(DType::kBF16, {192})}, {"visual.x", test::zeros(DType::kBF16, {1})}});
  nlohmann::json map = weight_map();
  map["visual.x"] = "third.safetensors";
  write_index(map);
  EXPECT_THAT(error(), AllOf(HasSubstr("mtp.norm.weight"), HasSubstr(std::string("only in ") + kShard2)));
}

TEST_F(Sharded, ShardNamesStayInTheDirectory) {
  for (const nlohmann::json& name : {nlohmann::json("../x.safetensors"), nlohmann::json("/etc/passwd"), nlohmann::json(3)}) {
    nlohmann::json map = weight_map();
    map["lm_head.weight"] = name;
    write_index(map);
    EXPECT_THAT(error(), HasSubstr("bad shard of tensor lm_head.weight"));
    std::filesystem::copy_file(test::bundled("tiny-moe") / kIndex, folder_.path() / kIndex,
                               std::filesystem::copy_options::overwrite_existing);
  }
}

TEST_F(Sharded, IndexThatIsNoIndex) {
  for (const char* text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})"}) {
    test::write_file(folder_.path() / kIndex, text);
    EXPECT_THAT(error(), HasSubstr(kIndex));
  }
}

TEST(Checkpoint, SeparateMtpFileIsReadToo) {
  const test::TemporaryFolder folder;
  test::EditableCheckpoint checkpoint(test::bundled("tiny-dense"));
  std::map<std::string, test::HostTensor> head;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with("mtp.")) head[name] = tensor;
  }
  const size_t all = checkpoint.tensors.size();
  checkpoint.erase_prefix("mtp.");
  checkpoint.write(folder.path());
  test::write_tensors(folder.path() / "mtp.safetensors", head);
  EXPECT_EQ(Checkpoint(folder.path()).tensors().size(), all);

  head["model.language_model.norm.weight"] = test::zeros(DType::kBF16, {192});
  test::write_tensors(folder.path() / "mtp.safetensors", head);
  EXPECT_THAT(error_of(ErrorCode::kFormatError, [&] { Checkpoint twice(folder.path()); }),
              AllOf(HasSubstr("model.language_model.norm.weight"), HasSubstr("twice"), HasSubstr("mtp.safetensors")));
}

TEST(Checkpoint, DirectoryWithoutWeights) {
  const test::TemporaryFolder folder;
  error_of(ErrorCode::kInvalidArgument, [&] { Checkpoint checkpoint(folder.path() / "absent"); });
  EXPECT_THAT(error_of(ErrorCode::kFormatError, [&] { Checkpoint checkpoint(folder.path()); }), HasSubstr("model.safetensors"));
}

}  // namespace
}  // namespace foretoken
