#include "models/safetensors.h"

#include <gmock/gmock.h>

#include <cstring>

#include "models/safetensors_writer.h"
#include "tests/unit/checkpoint/test_files.h"

namespace foretoken {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

std::string with_length(const std::string& header, size_t data_bytes) {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 0xffU);
  return file + header + std::string(data_bytes, 'x');
}

struct HostileHeader {
  const char* name;
  std::string header;
  size_t data_bytes;
  const char* message;  // part of it
};

std::string tensor(const char* dtype, const char* shape, const char* offsets) {
  return std::string(R"({"dtype":")") + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

class Hostile : public testing::TestWithParam<HostileHeader> {};

TEST_P(Hostile, IsAFormatErrorThatNamesTheFile) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "hostile.safetensors";
  test::write_file(path, with_length(GetParam().header, GetParam().data_bytes));
  const std::string message = error_of(ErrorCode::kFormatError, [&] { SafetensorsFile file(path); });
  EXPECT_THAT(message, AllOf(HasSubstr("hostile.safetensors"), HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Headers, Hostile,
    testing::Values(
        HostileHeader{"Empty", "", 0, "not valid JSON"}, HostileHeader{"NotJson", "{\"a\":", 0, "not valid JSON"},
        HostileHeader{"NotAnObject", "[1]", 0, "not a JSON object"}, HostileHeader{"Number", "12", 0, "not a JSON object"},
        HostileHeader{"NotUtf8", "{\"a\xff\":{}}", 0, "not valid JSON"},
        HostileHeader{"TrailingText", "{} x", 0, "not valid JSON"},
        HostileHeader{"MetadataType", R"({"__metadata__":[]})", 0, "__metadata__"},
        HostileHeader{"MetadataMember", R"({"__metadata__":{"format":1}})", 0, "expected a string, got 1"},
        HostileHeader{"TensorType", R"({"a":3})", 0, "header member a"},
        HostileHeader{"MissingMember", R"({"a":{"dtype":"F32","shape":[1]}})", 4, "tensor a: tensor lacks a member"},
        HostileHeader{"UnknownMember", R"({"a":{"dtype":"F32","stride":[1]}})", 4, "got stride"},
        HostileHeader{"MemberTwice", R"({"a":{"dtype":"F32","dtype":"F32"}})", 4, "twice"},
        HostileHeader{"NameTwice", "{\"a\":" + tensor("U8", "[1]", "[0,1]") + ",\"a\":" + tensor("U8", "[1]", "[1,2]") + "}", 2,
                      "twice"},
        HostileHeader{"UnknownDtype", "{\"a\":" + tensor("F7", "[1]", "[0,1]") + "}", 1, "tensor a: unknown dtype"},
        HostileHeader{"NegativeExtent", "{\"a\":" + tensor("U8", "[-1]", "[0,1]") + "}", 1, "got -1"},
        HostileHeader{"FractionalExtent", "{\"a\":" + tensor("U8", "[1.5]", "[0,1]") + "}", 1, "got 1.5"},
        HostileHeader{"HugeExtent", "{\"a\":" + tensor("U8", "[18446744073709551615]", "[0,1]") + "}", 1, "too large"},
        HostileHeader{"Overflow", "{\"a\":" + tensor("F32", "[4294967296,4294967296]", "[0,4]") + "}", 4, "overflows"},
        HostileHeader{"TooManyExtents", "{\"a\":" + tensor("U8", "[1,1,1,1,1,1]", "[0,1]") + "}", 1, "too many extents"},
        HostileHeader{"DeepShape", "{\"a\":" + tensor("U8", "[[[[[1]]]]]", "[0,1]") + "}", 1, "got an array"},
        HostileHeader{"OneOffset", "{\"a\":" + tensor("U8", "[1]", "[0]") + "}", 1, "too short"},
        HostileHeader{"ThreeOffsets", "{\"a\":" + tensor("U8", "[1]", "[0,1,2]") + "}", 1, "too many numbers"},
        HostileHeader{"Backwards", "{\"a\":" + tensor("U8", "[1]", "[1,0]") + "}", 1, "run backwards"},
        HostileHeader{"WrongSize", "{\"a\":" + tensor("F32", "[2]", "[0,4]") + "}", 4, "expected 8 bytes for F32 [2], got 4"},
        HostileHeader{"HalfByte", "{\"a\":" + tensor("F4", "[3]", "[0,1]") + "}", 1, "do not match the shape"},
        HostileHeader{"Truncated", "{\"a\":" + tensor("U8", "[9]", "[0,9]") + "}", 8, "past the end of the file"},
        HostileHeader{"FarAway", "{\"a\":" + tensor("U8", "[1]", "[18446744073709551614,18446744073709551615]") + "}", 8,
                      "past the end of the file"},
        HostileHeader{"Overlap", "{\"a\":" + tensor("U8", "[4]", "[0,4]") + ",\"b\":" + tensor("U8", "[4]", "[2,6]") + "}", 6,
                      "tensor b: tensor overlaps"},
        HostileHeader{"Hole", "{\"a\":" + tensor("U8", "[4]", "[0,4]") + ",\"b\":" + tensor("U8", "[4]", "[5,9]") + "}", 9,
                      "tensor b: unused bytes"},
        HostileHeader{"HoleAtTheStart", "{\"a\":" + tensor("U8", "[4]", "[1,5]") + "}", 5, "tensor a: unused bytes"},
        HostileHeader{"TrailingBytes", "{\"a\":" + tensor("U8", "[4]", "[0,4]") + "}", 5, "after the last tensor"},
        HostileHeader{"DeepNesting", std::string(100000, '['), 0, "not a JSON object"}),
    [](const auto& param) { return param.param.name; });

TEST(Safetensors, HeaderLengthBeyondTheFileOrTheLimit) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.safetensors";
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), std::string("\x03\0\0\0\0\0\0\0{}", 10)}) {
    test::write_file(path, bytes);
    EXPECT_THAT(error_of(ErrorCode::kFormatError, [&] { SafetensorsFile file(path); }), HasSubstr("header length"));
  }
  test::write_file(path, "1234567");
  EXPECT_THAT(error_of(ErrorCode::kFormatError, [&] { SafetensorsFile file(path); }), HasSubstr("too short"));
}

TEST(Safetensors, NamesInMessagesShowTheirControlCharacters) {
  const std::string header = "{\"a\\u0000\\u001b[2J\":" + tensor("F7", "[1]", "[0,1]") + "}";
  const std::string message =
      error_of(ErrorCode::kFormatError, [&] { (void)parse_safetensors_header(header, 8 + header.size() + 1, "memory"); });
  EXPECT_THAT(message, HasSubstr("tensor a\\x00\\x1b[2J: unknown dtype"));
}

TEST(Safetensors, FileThatCannotBeOpened) {
  const test::TemporaryFolder folder;
  error_of(ErrorCode::kInvalidArgument, [&] { SafetensorsFile file(folder.path() / "absent"); });
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { SafetensorsFile file(folder.path()); }),
              HasSubstr("not a regular file"));
}

TEST(Safetensors, ForeignDtypesAndEmptyTensorsAreListed) {
  const std::string header = "{\"h\":" + tensor("F16", "[2]", "[0,4]") + ",\"empty\":" + tensor("F32", "[0,7]", "[4,4]") + "}";
  const SafetensorsHeader parsed = parse_safetensors_header(header, 8 + header.size() + 4, "memory");
  ASSERT_EQ(parsed.entries.size(), 2U);
  EXPECT_EQ(parsed.entries[0].dtype, std::nullopt);
  EXPECT_EQ(parsed.entries[0].dtype_name, "F16");
  EXPECT_EQ(parsed.entries[1].bytes, 0U);
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::string bytes = "0123456789abcdef";
  SafetensorsWriter writer(path, {{.name = "x \"quoted\"", .dtype = DType::kF32, .shape = {1, 2}},
                                  {.name = "y", .dtype = DType::kBF16, .shape = {4}}});
  writer.append(std::as_bytes(std::span(bytes).first(3)));
  writer.append(std::as_bytes(std::span(bytes).subspan(3)));
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish();

  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_EQ(file.entries()[0].file_offset % 8, 0U);
  EXPECT_EQ(file.find("x \"quoted\"")->shape, Shape({1, 2}));
  EXPECT_EQ(file.find("y")->dtype, DType::kBF16);
  EXPECT_EQ(file.find("z"), nullptr);
  EXPECT_EQ(std::memcmp(file.bytes(*file.find("y")).data(), bytes.data() + 8, 8), 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(SafetensorsWriter, TensorsMayBeWrittenSideBySide) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::string bytes = "0123456789ab";
  const auto part = [&](size_t begin, size_t count) { return std::as_bytes(std::span(bytes)).subspan(begin, count); };
  SafetensorsWriter writer(path,
                           {{.name = "x", .dtype = DType::kF32, .shape = {2}}, {.name = "y", .dtype = DType::kU8, .shape = {4}}});
  writer.append_to(1, part(8, 1));
  writer.append_to(0, part(0, 5));
  writer.append_to(1, part(9, 3));
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { writer.append_to(1, part(0, 1)); }), HasSubstr("tensor 1"));
  EXPECT_THAT(error_of(ErrorCode::kInvalidState, [&] { writer.finish(); }), HasSubstr("3 declared bytes"));
  writer.append_to(0, part(5, 3));
  writer.finish();
  const SafetensorsFile file(path);
  EXPECT_EQ(std::memcmp(file.bytes(*file.find("x")).data(), bytes.data(), 8), 0);
  EXPECT_EQ(std::memcmp(file.bytes(*file.find("y")).data(), bytes.data() + 8, 4), 0);
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenItFails) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::string bytes = "0123456789";
  {
    SafetensorsWriter writer(path, {{.name = "x", .dtype = DType::kF32, .shape = {2}}});
    error_of(ErrorCode::kInvalidArgument, [&] { writer.append(std::as_bytes(std::span(bytes))); });
    writer.append(std::as_bytes(std::span(bytes).first(4)));
    EXPECT_THAT(error_of(ErrorCode::kInvalidState, [&] { writer.finish(); }), HasSubstr("4 declared bytes"));
  }
  const std::vector<SafetensorsTensor> too_big{{.name = "x", .dtype = DType::kF32, .shape = {1LL << 50}}};
  EXPECT_THAT(error_of(ErrorCode::kInvalidArgument, [&] { SafetensorsWriter(path, too_big); }), HasSubstr("disk space"));
  const std::vector<SafetensorsTensor> twice{{.name = "x", .shape = {1}}, {.name = "x", .shape = {1}}};
  error_of(ErrorCode::kInvalidArgument, [&] { SafetensorsWriter(path, twice); });
  error_of(ErrorCode::kInvalidArgument, [&] { SafetensorsWriter(folder.path() / "no" / "a", {}); });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace foretoken
