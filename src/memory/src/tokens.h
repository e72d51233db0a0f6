#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crosscheck::memory {

// Words of code, in lower case: each as it is written and, where it consists of several, its parts:
// "torch.nn.TestCase_x" gives torch.nn.testcase_x, torch, nn, testcase_x, test, case, x. Distinct.
[[nodiscard]] std::vector<std::string> tokens_of(std::string_view text);
// The same, joined by spaces: what the full-text index is given.
[[nodiscard]] std::string token_text(std::string_view text);

}  // namespace crosscheck::memory
