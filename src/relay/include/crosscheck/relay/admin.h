#pragma once

#include <optional>
#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/net/http.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// A request that changes something, before its token is looked at: from a script (`Authorization:
// Bearer`), or from a form of these pages (field `token`). A browser that sends it for another
// site's page is refused. Pure.
struct AdminRequest {
  std::string token;
  bool is_form = false;  // a person waits for a page
};
[[nodiscard]] base::Result<AdminRequest> read_admin_request(const net::Request& request);

// What people do on `/ops`. POST /ops/replay: `dispatch=ID`, `call=ID`, `report=ID`,
// `delivery=ID` or `all_dead=1` in a form. With a form's token it leads back to /ops, with a bearer
// it answers JSON. Thread-safe.
class AdminHandler {
 public:
  AdminHandler(store::Store& store, const base::Clock& clock) : store_{store}, clock_{clock} {}
  // Nothing for other paths and for reads.
  [[nodiscard]] std::optional<net::Response> handle(const net::Request& request);

 private:
  store::Store& store_;
  const base::Clock& clock_;
};

}  // namespace crosscheck::relay
