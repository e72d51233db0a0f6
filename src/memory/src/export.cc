#include <algorithm>
#include <boost/json/serialize.hpp>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "impl.h"

namespace crosscheck::memory {
namespace {

using base::fail;
using base::Fault;
using base::Result;
namespace json = base::json;

json::array lines(std::string_view text) {
  json::array array;
  for (const std::string& line : split(text)) array.emplace_back(line);
  return array;
}

json::string text(SQLite::Statement& row, int column) { return json::string{text_of(row, column)}; }

}  // namespace

Result<std::string> Memory::exported() {
  return impl_->guard([&]() -> Result<std::string> {
    std::string all;
    std::size_t count = 0;
    const auto add = [&](const json::object& object) {
      all += json::serialize(object);
      all += '\n';
      ++count;
    };
    SQLite::Statement files{impl_->db(),
                            "SELECT id,path,size,digest,imports,stars,problem,rule FROM "
                            "memory_source ORDER BY path"};
    SQLite::Statement rows{
        impl_->db(),
        "SELECT id,class,name,first_line,line,last_line,decorators,instantiated,bases,uses,body,"
        "shape,apis,symbols,doc,comment,content,rule,vector FROM memory_definition d LEFT JOIN "
        "memory_test t ON t.definition = d.id LEFT JOIN memory_vector v ON v.definition = d.id "
        "WHERE "
        "source = ? ORDER BY id"};
    while (files.executeStep()) {
      add({{"source", text(files, 1)},
           {"size", files.getColumn(2).getInt64()},
           {"digest", base::to_hex(blob_of(files, 3))},
           {"imports", lines(text_of(files, 4))},
           {"stars", lines(text_of(files, 5))},
           {"problem", text(files, 6)},
           {"rule", text(files, 7)}});
      rows.reset();
      rows.bind(1, files.getColumn(0).getInt64());
      while (rows.executeStep()) {
        const Kind kind = kind_of(rows.getColumn(0).getInt64());
        json::object object{{"definition", text(rows, 2)},
                            {"class", text(rows, 1)},
                            {"kind", to_string(kind)},
                            {"first_line", rows.getColumn(3).getInt()},
                            {"line", rows.getColumn(4).getInt()},
                            {"last_line", rows.getColumn(5).getInt()},
                            {"decorators", lines(text_of(rows, 6))},
                            {"instantiated", lines(text_of(rows, 7))},
                            {"bases", lines(text_of(rows, 8))},
                            {"uses", lines(text_of(rows, 9))},
                            {"body", base::to_hex(blob_of(rows, 10))},
                            {"shape", base::to_hex(blob_of(rows, 11))},
                            {"apis", lines(text_of(rows, 12))},
                            {"symbols", lines(text_of(rows, 13))},
                            {"doc", text(rows, 14)},
                            {"comment", text(rows, 15)}};
        if (kind == Kind::test) {
          object["content"] = base::to_hex(blob_of(rows, 16));
          object["rule"] = text(rows, 17);
          object["vector"] = base::sha256_hex(blob_of(rows, 18));
        }
        add(object);
      }
    }
    SQLite::Statement variants{
        impl_->db(),
        "SELECT v.file,v.class,v.method,variant,op,dtype,device,node,v.line,s.path,d.class,d.name,"
        "d.line FROM memory_variant v LEFT JOIN memory_definition d ON d.id = v.definition LEFT "
        "JOIN memory_source s ON s.id = d.source ORDER BY v.file, v.node"};
    while (variants.executeStep()) {
      json::object object{{"variant", text(variants, 3)},
                          {"file", text(variants, 0)},
                          {"class", text(variants, 1)},
                          {"method", text(variants, 2)},
                          {"op", text(variants, 4)},
                          {"dtype", text(variants, 5)},
                          {"device", text(variants, 6)},
                          {"node", text(variants, 7)},
                          {"line", variants.getColumn(8).getInt64()}};
      if (!variants.getColumn(12).isNull())
        object["definition"] = {{"file", text(variants, 9)},
                                {"class", text(variants, 10)},
                                {"name", text(variants, 11)},
                                {"line", variants.getColumn(12).getInt()}};
      add(object);
    }
    all += json::serialize(json::object{{"end", count}}) + "\n";
    return all;
  });
}

Result<Explanation> Memory::explain(std::string_view what, const Narrowing& narrowing) {
  const auto stop = what.find("::");
  const std::string path{what.substr(0, stop)};
  const std::string name{stop == std::string_view::npos ? std::string_view{}
                                                        : what.substr(stop + 2)};
  auto all = sources();
  if (!all) return tl::unexpected(all.error());
  const auto source = std::ranges::find(*all, path, &Source::path);
  if (source == all->end())
    return fail(Fault::not_found, path + ": the memory has no such file",
                "name it relative to the indexed tree; crosscheck search file:NAME finds files");
  Explanation explanation;
  explanation.path = path;
  explanation.name = name;
  Verdict verdict;
  if (name.empty()) {
    explanation.line = 1;
    verdict = narrowing.file(*source);
  } else {
    const auto definition =
        std::ranges::find_if(source->facts.definitions,
                             [&](const Definition& one) { return qualified_name(one) == name; });
    if (definition == source->facts.definitions.end())
      return fail(Fault::not_found, path + " has no '" + name + "'",
                  "write FILE::Class::method, FILE::Class or FILE::function");
    explanation.kind = definition->kind;
    explanation.line = definition->line;
    verdict = narrowing.definition(*source, *definition);
  }
  for (const Definition& one : source->facts.definitions) {
    if (one.kind != Kind::test) continue;
    if (!name.empty() && qualified_name(one) != name && one.class_name != name) continue;
    ++explanation.tests;
    if (narrowing.definition(*source, one)) ++explanation.dropped_tests;
  }
  if (verdict) {
    explanation.rule = verdict.rule->id;
    explanation.reason = verdict.rule->reason;
    explanation.because = verdict.because;
    explanation.place = verdict.rule->place;
  }
  return explanation;
}

}  // namespace crosscheck::memory
