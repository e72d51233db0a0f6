// What PyTorch asks of a device: memory, a guard, hooks, a generator. There is one device and one
// stream, and everything is done by the time a call returns.
#include "runtime.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "memory.h"

namespace refdev {
namespace {

constexpr auto k_aggregate = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

void release(void* pointer) { Memory::instance().release(pointer); }

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = Memory::instance().allocate(bytes);
    return {data, data, &release, k_device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    if (bytes == 0) return;
    std::memcpy(Memory::instance().window(to), Memory::instance().window(from), bytes);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const MemoryStats stats = Memory::instance().stats();
    c10::CachingDeviceAllocator::DeviceStats out;
    for (auto* bytes :
         {&out.allocated_bytes, &out.reserved_bytes, &out.active_bytes, &out.requested_bytes}) {
      (*bytes)[k_aggregate].current = static_cast<std::int64_t>(stats.allocated);
      (*bytes)[k_aggregate].peak = static_cast<std::int64_t>(stats.peak);
    }
    out.num_device_alloc = static_cast<std::int64_t>(stats.allocations);
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override { Memory::instance().reset_peak(); }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override {
    const MemoryStats stats = Memory::instance().stats();
    return {stats.limit - stats.allocated, stats.limit};
  }
};

void check_index(c10::DeviceIndex index) {
  TORCH_CHECK(index == -1 || index == 0, "refdev has one device, 0; there is no device ",
              static_cast<int>(index));
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return k_device.type(); }
  c10::Device exchangeDevice(c10::Device device) const override {
    check_index(device.index());
    return k_device;
  }
  c10::Device getDevice() const override { return k_device; }
  void setDevice(c10::Device device) const override { check_index(device.index()); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}

  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
  double elapsedTime(void*, void*, c10::DeviceIndex) const override { return 0.0; }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, k_device); }
};

// Draws its numbers from a CPU generator, since it is CPU kernels that consume them.
class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(at::Generator host)
      : GeneratorImpl(k_device, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}

  void set_current_seed(std::uint64_t seed) override { host_.set_current_seed(seed); }
  std::uint64_t current_seed() const override { return host_.current_seed(); }
  std::uint64_t seed() override { return host_.unsafeGetGeneratorImpl()->seed(); }
  void set_offset(std::uint64_t offset) override {
    host_.unsafeGetGeneratorImpl()->set_offset(offset);
  }
  std::uint64_t get_offset() const override { return host_.unsafeGetGeneratorImpl()->get_offset(); }
  void set_state(const c10::TensorImpl& state) override {
    host_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host_.unsafeGetGeneratorImpl()->get_state();
  }
  const at::Generator& host() const { return host_; }

 private:
  Generator* clone_impl() const override { return new Generator(host_.clone()); }

  at::Generator host_;
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return index <= 0; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex index) const override { check_index(index); }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    check_index(index);
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    check_index(index);
    return 0;
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    check_index(index);
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    check_index(index);
    return at::make_generator<Generator>(at::detail::createCPUGenerator());
  }
  c10::Device getDeviceFromPtr(void* data) const override {
    TORCH_CHECK(Memory::instance().owns(data), "the pointer is not refdev's");
    return k_device;
  }
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "refdev does not pin host memory");
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

Allocator g_allocator;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &g_allocator)
const c10::impl::DeviceGuardImplRegistrar g_guard(c10::DeviceType::PrivateUse1, new Guard());
const bool g_hooks = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();

}  // namespace

c10::Allocator* allocator() { return &g_allocator; }

void resize_storage(c10::StorageImpl& storage, std::size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  c10::DataPtr data = g_allocator.allocate(bytes);
  const std::size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) g_allocator.copy_data(data.get(), storage.data(), kept);
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

const at::Generator& default_generator() {
  static const at::Generator generator =
      at::make_generator<Generator>(at::detail::createCPUGenerator());
  return generator;
}

at::Generator host_generator(const at::Generator& generator) {
  return static_cast<const Generator*>(generator.unsafeGetGeneratorImpl())->host();
}

}  // namespace refdev
