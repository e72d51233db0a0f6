#include "../src/meaning.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "../src/impl.h"
#include "crosscheck/base/digest.h"
#include "crosscheck/memory/memory.h"

namespace crosscheck::memory {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string_view bytes(const Vector& vector) {
  return {reinterpret_cast<const char*>(vector.data()), vector.size()};
}

Vector of(const std::vector<std::string>& words) {
  std::vector<WeightedWord> weighted;
  for (const std::string& word : words) weighted.push_back({word, 1});
  return sketch_of(weighted);
}

float likeness(const Vector& a, const Vector& b) {
  Vectors vectors;
  vectors.add(4, bytes(a));
  return vectors.likeness(b).at(0);
}

// Memories keep vectors: what is changed here needs another name for the parameters and another
// schema of the memory.
TEST(Sketch, IsTheSameEverywhere) {
  EXPECT_EQ(sketch_digest(), "e05be7dd5eb5c58d34f675b549446aac484c512105c12e768ac0f73318d897b2");
  EXPECT_EQ(base::sha256_hex(bytes(sketch_of(
                IndexedText{"testops test ops test_add add", "test_ops.py test_ops test ops py",
                            "onlycuda", "torch.add torch add", "self x", "adds things"}))),
            "42d9fd47e671646b1655c207983bb3c1120bed94fc5f85851e702a91f469fae8");
}

TEST(Sketch, WordsThatShareMostOfTheirPiecesAreAlike) {
  EXPECT_NEAR(likeness(of({"serialize"}), of({"serialize"})), 1, 1e-5);
  EXPECT_GT(likeness(of({"serialize"}), of({"serialization"})), 0.4);
  EXPECT_LT(std::abs(likeness(of({"serialize"}), of({"convolution"}))), 0.2);
  EXPECT_GT(likeness(of({"add", "view"}), of({"view"})), 0.4);
}

TEST(Sketch, OfNoWordsIsNone) {
  EXPECT_THAT(sketch_of(std::vector<WeightedWord>{}), IsEmpty());
  EXPECT_THAT(sketch_of(IndexedText{}), IsEmpty());
}

TEST(Quantised, KeepsTheDirection) {
  EXPECT_THAT(quantised(std::vector<float>{1, -0.5F, 0}), ElementsAre(127, -64, 0));
  EXPECT_THAT(quantised(std::vector<float>{0, 0}), IsEmpty());
  EXPECT_THAT(quantised(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()}), IsEmpty());
  EXPECT_THAT(quantised(std::vector<float>{1, std::numeric_limits<float>::infinity()}), IsEmpty());
  EXPECT_THAT(quantised(std::vector<float>{}), IsEmpty());
}

TEST(VectorsTest, OtherDimensionsAreLeftOut) {
  Vectors vectors;
  EXPECT_THAT(vectors.likeness(of({"add"})), IsEmpty());
  vectors.add(4, bytes(quantised(std::vector<float>{1, 0, 0})));
  vectors.add(8, bytes(quantised(std::vector<float>{1, 0})));
  vectors.add(12, {});
  vectors.add(16, bytes(quantised(std::vector<float>{0, 2, 0})));
  ASSERT_EQ(vectors.size(), 2U);
  EXPECT_EQ(vectors.id(1), 16);
  EXPECT_THAT(vectors.likeness(quantised(std::vector<float>{3, 0, 0})),
              ElementsAre(testing::FloatEq(1), testing::FloatEq(0)));
  EXPECT_THAT(vectors.likeness(quantised(std::vector<float>{3, 0})), IsEmpty());
}

TEST(Summary, SaysWhatTheAuthorWroteElseTheNameAndWhatIsUsed) {
  Definition test{.kind = Kind::test, .class_name = "TestOps", .name = "test_add_out"};
  EXPECT_EQ(summary_of(test), "Tests add out (TestOps)");
  test.apis = {"torch.abs", "torch.add", "torch.testing.assert_close", "torch.zeros"};
  test.decorators = {"onlyCUDA", "dtypes(torch.float)"};
  EXPECT_EQ(summary_of(test),
            "Tests add out (TestOps)\nUses torch.add, torch.abs, torch.zeros. Decorated with "
            "onlyCUDA, dtypes.");
  test.comment = "A comment";
  EXPECT_EQ(summary_of(test).substr(0, 10), "A comment\n");
  test.doc = "First v1.2 sentence. Second.";
  EXPECT_EQ(summary_of(test).substr(0, 21), "First v1.2 sentence.\n");
}

}  // namespace
}  // namespace crosscheck::memory
