#include "crosscheck/github/payload.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <vector>

#include "crosscheck/base/json.h"

namespace crosscheck::github {

using base::Fault;
namespace json = base::json;

namespace {

constexpr std::size_t k_event_type_limit = 100;

// Null unless `value` is an object that has `key`.
json::value* member(json::value* value, std::string_view key) {
  json::object* object = value != nullptr ? value->if_object() : nullptr;
  return object != nullptr ? object->if_contains(key) : nullptr;
}

void remove(json::value* value, std::string_view key) {
  if (json::object* object = value != nullptr ? value->if_object() : nullptr) object->erase(key);
}

void drop_body(json::value& payload) { remove(member(&payload, "pull_request"), "body"); }

bool is_link(std::string_view key) {
  return key == "_links" || key == "url" || (key.ends_with("_url") && key != "html_url");
}

// API addresses: a third of every payload, and made from the names.
void drop_links(json::value& value) {
  if (auto* array = value.if_array()) {
    for (json::value& element : *array) drop_links(element);
  }
  auto* object = value.if_object();
  if (object == nullptr) return;
  std::vector<std::string> links;
  for (auto& [key, member] : *object) {
    if (is_link(key)) {
      links.emplace_back(key);
    } else {
      drop_links(member);
    }
  }
  for (const std::string& link : links) object->erase(link);
}

void drop_commits(json::value& payload) {
  remove(&payload, "commits");
  for (const std::string_view list : {"added", "removed", "modified"}) {
    remove(member(&payload, "head_commit"), list);
  }
}

// What downstream workflows read. A parent stands before its members, so that a null parent (the
// repository of a fork that is gone) stays null.
constexpr std::array k_kept = std::to_array<std::string_view>({
    "action",
    "number",
    "ref",
    "before",
    "after",
    "created",
    "deleted",
    "forced",
    "label.name",
    "pull_request.number",
    "pull_request.title",
    "pull_request.state",
    "pull_request.draft",
    "pull_request.merged",
    "pull_request.merge_commit_sha",
    "pull_request.html_url",
    "pull_request.user",
    "pull_request.user.login",
    "pull_request.head.ref",
    "pull_request.head.sha",
    "pull_request.head.repo",
    "pull_request.head.repo.full_name",
    "pull_request.base.ref",
    "pull_request.base.sha",
    "pull_request.base.repo.full_name",
    "repository.full_name",
    "sender.login",
});

void put(json::object& into, std::string_view path, const json::value& value) {
  json::object* object = &into;
  std::size_t dot = 0;
  while ((dot = path.find('.')) != std::string_view::npos) {
    json::value& member = (*object)[path.substr(0, dot)];
    object = member.is_object() ? &member.get_object() : &member.emplace_object();
    path.remove_prefix(dot + 1);
  }
  (*object)[path] = value;
}

void keep_only_what_is_read(json::value& payload) {
  json::object kept;
  for (const std::string_view path : k_kept) {
    const json::value* value = base::find(payload, path);
    if (value != nullptr && !value->is_structured()) put(kept, path, *value);
  }
  const json::value* labels = base::find(payload, "pull_request.labels");
  if (labels != nullptr && labels->is_array()) {
    json::array names;
    for (const json::value& label : labels->get_array()) {
      const json::value* name = base::find(label, "name");
      if (name != nullptr && name->is_string()) names.push_back(json::object{{"name", *name}});
    }
    put(kept, "pull_request.labels", names);
  }
  payload = std::move(kept);
}

void cut_texts(json::value& value, std::size_t limit) {
  if (auto* text = value.if_string(); text != nullptr && text->size() > limit) {
    std::size_t size = limit;
    while (size > 0 && (static_cast<unsigned char>((*text)[size]) & 0xC0U) == 0x80) --size;
    text->resize(size);
  } else if (auto* array = value.if_array()) {
    for (json::value& element : *array) cut_texts(element, limit);
  } else if (auto* object = value.if_object()) {
    for (auto& [key, member] : *object) cut_texts(member, limit);
  }
}

// Half of the labels, the last ones; false when there are none left.
bool drop_labels(json::value& payload) {
  json::value* labels = member(member(&payload, "pull_request"), "labels");
  json::array* names = labels != nullptr ? labels->if_array() : nullptr;
  if (names == nullptr || names->empty()) return false;
  names->resize(names->size() / 2);
  return true;
}

}  // namespace

base::Result<ClientPayload> make_client_payload(std::string_view event_type,
                                                std::string_view delivery_id,
                                                std::string_view webhook_body) {
  if (event_type.size() > k_event_type_limit || !base::is_utf8(event_type)) {
    return base::fail(Fault::invalid_input, "the event's type is too long or not UTF-8");
  }
  if (delivery_id.size() > k_delivery_id_limit || !base::is_utf8(delivery_id)) {
    return base::fail(
        Fault::invalid_input,
        fmt::format("the delivery id is over {} bytes or not UTF-8", k_delivery_id_limit));
  }
  auto parsed = base::parse_json(webhook_body, "webhook body");
  if (!parsed) return tl::unexpected{parsed.error()};
  if (!parsed->is_object()) {
    return base::fail(Fault::invalid_input, "webhook body: expected a JSON object");
  }
  json::value& payload = *parsed;

  const std::string front = fmt::format(R"({{"event_type":{},"delivery_id":{},"payload":)",
                                        json::serialize(json::string{event_type}),
                                        json::serialize(json::string{delivery_id}));
  ClientPayload result;
  const auto fits = [&](std::string_view body) {
    const std::string_view end = result.truncated ? R"(,"truncated":true})" : "}";
    if (front.size() + body.size() + end.size() > k_client_payload_limit) return false;
    result.text = front;
    result.text += body;
    result.text += end;
    return true;
  };
  const auto fits_now = [&] { return fits(json::serialize(payload)); };

  if (fits(webhook_body) || fits_now()) return result;
  result.truncated = true;
  for (const auto step : {drop_body, drop_links, drop_commits, keep_only_what_is_read}) {
    step(payload);
    if (fits_now()) return result;
  }
  // Beyond anything GitHub sends. Each of the texts is short after this, so without labels it fits.
  for (const std::size_t limit : {1024U, 256U}) {
    cut_texts(payload, limit);
    if (fits_now()) return result;
  }
  while (drop_labels(payload)) {
    if (fits_now()) return result;
  }
  return base::fail(Fault::internal, "a slimmed payload does not fit");
}

}  // namespace crosscheck::github
