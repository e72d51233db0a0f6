#include "crosscheck/store/outdated.h"

#include <fmt/format.h>

namespace crosscheck::store {

std::string is_superseded(std::string_view delivery) {
  return fmt::format(
      "EXISTS (SELECT 1 FROM deliveries o JOIN deliveries n ON n.pr_number = o.pr_number "
      "WHERE o.id = {} AND o.event_type = 'pull_request' AND n.event_type = 'pull_request' "
      "AND n.action IN ('synchronize', 'closed') AND {})",
      delivery, k_is_newer);
}

}  // namespace crosscheck::store
