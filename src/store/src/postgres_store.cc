#include "engines.h"
namespace crosscheck::store {
base::Result<std::unique_ptr<Store>> open_postgresql(const std::string&, const OpenOptions&,
                                                     std::span<const Migration>) {
  return base::fail(base::Fault::unavailable, "PostgreSQL is not there yet");
}
}  // namespace crosscheck::store
