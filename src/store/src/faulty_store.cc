#include "crosscheck/store/faulty_store.h"

namespace crosscheck::store {

using base::Result;

namespace {

class FaultyTx final : public Tx {
 public:
  FaultyTx(FaultyStore& store, Tx& inner) : store_{store}, inner_{inner} {}
  Result<std::vector<Row>> query(std::string_view sql, const Parameters& parameters) override {
    if (auto ok = step(); !ok) return tl::unexpected(ok.error());
    return inner_.query(sql, parameters);
  }
  Result<std::int64_t> execute(std::string_view sql, const Parameters& parameters) override {
    if (auto ok = step(); !ok) return tl::unexpected(ok.error());
    return inner_.execute(sql, parameters);
  }
  void notify(std::string_view channel) override { inner_.notify(channel); }

  // The commit's turn: as in a real store, a transaction that has failed does not get there.
  Result<void> commit() { return step(); }

 private:
  Result<void> step() {
    if (!doomed_) return doomed_;
    return doomed_ = store_.step();
  }

  FaultyStore& store_;
  Tx& inner_;
  Result<void> doomed_;
};

}  // namespace

void FaultyStore::fail_at(std::int64_t n, base::Fault fault) {
  fault_ = fault;
  fail_at_ = n;
}

Result<void> FaultyStore::step() {
  const std::int64_t call = ++calls_;
  if (call != fail_at_) return {};
  return base::fail(fault_, "call " + std::to_string(call) + " to the store was made to fail");
}

Result<void> FaultyStore::write(const std::function<Result<void>(Tx&)>& body) {
  return inner_.write([&](Tx& tx) -> Result<void> {
    FaultyTx faulty{*this, tx};
    if (auto done = body(faulty); !done) return done;
    return faulty.commit();
  });
}

Result<void> FaultyStore::read(const std::function<Result<void>(Tx&)>& body) {
  return inner_.read([&](Tx& tx) -> Result<void> {
    FaultyTx faulty{*this, tx};
    if (auto done = body(faulty); !done) return done;
    return faulty.commit();
  });
}

bool FaultyStore::wait_for(std::string_view channel, base::Duration timeout) {
  return inner_.wait_for(channel, timeout);
}
void FaultyStore::interrupt() { inner_.interrupt(); }
Engine FaultyStore::engine() const { return inner_.engine(); }
std::size_t FaultyStore::waiting_writes() const { return inner_.waiting_writes(); }

}  // namespace crosscheck::store
