#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/config/model.h"

// Changes of a configuration in place: comments, order and every byte that a change is not about
// stay as they are.
namespace crosscheck::config {

// What an entry is to say of a test.
struct Decision {
  Mode mode = Mode::mandatory_success;
  std::optional<Rationale> rationale = {};
  friend bool operator==(const Decision&, const Decision&) = default;
};

// Collects changes to one file of a configuration and applies them at once. The configuration must
// have loaded without errors, and outlive the editor. What stands in another of its files is
// refused
// (`conflict`): it is changed there.
class Editor {
 public:
  // Of the configuration's first file.
  explicit Editor(const Config& config) : Editor{*config.documents.front()} {}
  explicit Editor(const Document& document) : document_{document} {}

  // Of a whole entry. Nothing removes the key, where it has a line to itself without a comment;
  // otherwise the default is written out.
  [[nodiscard]] base::Result<void> set_mode(const Entry& entry, std::optional<Mode> mode);
  // Replaces the whole value: comments inside it go with it.
  [[nodiscard]] base::Result<void> set_rationale(const Entry& entry,
                                                 const std::optional<Rationale>& rationale);
  // Behind the file's last entry. Names are [Class::]method.
  [[nodiscard]] base::Result<void> add_entry(const FileEntry& file,
                                             const std::vector<std::string>& names,
                                             const Decision& decision);
  // With its own lines; comment lines above it stay.
  [[nodiscard]] base::Result<void> remove_entry(const FileEntry& file, const Entry& entry);

  // Decides about one name of an entry, or, where the file does not list it, about a new one. A
  // name that shares its entry with others moves into an entry behind it, which keeps the entry's
  // other keys; the comment in its line moves along. Names that are decided alike share one.
  [[nodiscard]] base::Result<void> decide(const FileEntry& file, std::string_view name,
                                          const Decision& decision);
  // The same for a name of this entry, which may have a condition.
  [[nodiscard]] base::Result<void> decide(const FileEntry& file, const Entry& entry,
                                          const Name& name, const Decision& decision);
  // Lists a further name: in an entry behind this one, which has its other keys.
  [[nodiscard]] base::Result<void> split(const FileEntry& file, const Entry& entry,
                                         std::string_view name, const Decision& decision);
  // Writes a name otherwise, and decides about it anew where a decision is given. Not together with
  // another change of that name.
  [[nodiscard]] base::Result<void> rename(const FileEntry& file, const Entry& entry,
                                          const Name& name, std::string_view to,
                                          const std::optional<Decision>& decision);
  // Takes one name out of the file, with its entry if it is the only one.
  [[nodiscard]] base::Result<void> remove(const FileEntry& file, std::string_view name);
  [[nodiscard]] base::Result<void> remove(const FileEntry& file, const Entry& entry,
                                          const Name& name);

  // The file's new text; `conflict` if two changes are about the same bytes.
  [[nodiscard]] base::Result<std::string> apply();

 private:
  struct Splice {
    std::size_t offset = 0;
    std::size_t removed = 0;
    std::string inserted = {};
  };
  struct Pending {
    std::string name;
    std::optional<Decision> decision;  // nothing: remove
    std::string renamed = {};          // how it is to be written; empty: as it is
  };
  struct PendingOfEntry {
    std::vector<Pending> listed;
    std::vector<Pending> split;  // each with a decision
  };
  struct PendingOfFile {
    std::map<const Entry*, PendingOfEntry> entries;
    std::vector<std::pair<Decision, std::vector<std::string>>> whole;  // entries to add
    std::vector<Pending> added;
  };
  // A name that gets an entry of its own, and what stands behind it in its line.
  struct Moved {
    std::string text;
    std::string behind = {};
  };

  enum class Others : std::uint8_t { none, added };

  [[nodiscard]] const Document& document() const { return document_; }
  [[nodiscard]] std::string_view source() const { return document().source(); }
  [[nodiscard]] base::Result<void> own(Node node) const;
  [[nodiscard]] std::string_view newline() const;
  [[nodiscard]] std::size_t line_end(std::size_t byte) const;
  [[nodiscard]] std::size_t column(std::size_t byte) const;
  [[nodiscard]] bool has_comment_lines(std::size_t from, std::size_t to) const;
  void replace(std::size_t from, std::size_t to, std::string text);
  void insert_lines(std::size_t after, const std::vector<std::string>& lines);
  void remove_lines(std::size_t from, std::size_t to);
  [[nodiscard]] base::Result<void> remove_key(Node mapping, Node key);
  void insert_key(Node after, const std::vector<std::string>& lines, const std::string& in_flow,
                  bool flow, std::size_t indent);
  [[nodiscard]] base::Result<void> remove_items(Node list, const std::vector<Node>& items);
  [[nodiscard]] Node home(const FileEntry& file, const Entry& entry) const;
  [[nodiscard]] base::Result<void> remove_entries(Node file,
                                                  const std::vector<const Entry*>& entries,
                                                  Others others);
  [[nodiscard]] base::Result<void> remove_names(const Entry& entry,
                                                const std::vector<const Name*>& names);
  void write_entries(const FileEntry& file,
                     const std::vector<std::pair<Decision, std::vector<std::string>>>& entries);
  void add_behind(Node tests, const Entry& entry, const std::vector<Moved>& names,
                  const Decision& decision);
  [[nodiscard]] base::Result<void> settle(Node tests, const Entry& entry,
                                          const PendingOfEntry& pending,
                                          std::vector<const Entry*>& gone);
  [[nodiscard]] base::Result<void> settle_all();

  const Document& document_;
  std::vector<Splice> splices_;
  std::map<const FileEntry*, PendingOfFile> pending_;
  std::set<std::uint32_t> emptied_;  // lists in flow style that lose all they had
};

}  // namespace crosscheck::config
