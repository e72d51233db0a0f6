#include "github_answer.h"

#include <utility>

namespace crosscheck::relay {
namespace {

Answer::Kind kind_of(github::CallAnswer::Kind kind) {
  using Theirs = github::CallAnswer::Kind;
  switch (kind) {
    case Theirs::sent:
      return Answer::Kind::sent;
    case Theirs::rejected:
      return Answer::Kind::rejected;
    case Theirs::retry_later:
      return Answer::Kind::retry_later;
    case Theirs::uncertain:
      return Answer::Kind::uncertain;
  }
  return Answer::Kind::uncertain;
}

}  // namespace

Answer answer_of(github::CallAnswer answer) {
  return {kind_of(answer.kind), answer.not_before, std::move(answer.reason),
          std::move(answer.content)};
}

}  // namespace crosscheck::relay
