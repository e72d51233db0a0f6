#include "memory.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace refdev {
namespace {

constexpr std::size_t k_alignment = 256;
// Blocks of at least this size give their pages back to the host when they are freed.
constexpr std::size_t k_return_pages = std::size_t{1} << 20;

std::byte* map_range(std::size_t bytes, int protection) {
  void* range =
      ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return range == MAP_FAILED ? nullptr : static_cast<std::byte*>(range);
}

}  // namespace

Memory& Memory::instance() {
  // Never destroyed: tensors may outlive every static object.
  static auto* memory = new Memory();
  return *memory;
}

void Memory::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(device_ == nullptr, "refdev's memory is in use; its size can no longer be set");
  TORCH_CHECK(bytes >= k_alignment, "refdev needs at least ", k_alignment, " bytes of memory");
  stats_.limit = bytes / k_alignment * k_alignment;
}

void Memory::reserve() {
  device_ = map_range(stats_.limit, PROT_NONE);
  window_ = map_range(stats_.limit, PROT_READ | PROT_WRITE);
  TORCH_CHECK(device_ != nullptr && window_ != nullptr, "refdev cannot reserve ", stats_.limit,
              " bytes of address space; ask for less with \"memory_mib\" in its configuration");
  free_.emplace(0, stats_.limit);
}

void* Memory::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::size_t size = (bytes + k_alignment - 1) / k_alignment * k_alignment;
  const std::lock_guard lock(mutex_);
  if (device_ == nullptr) reserve();
  const auto block = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& candidate) { return candidate.second >= size; });
  TORCH_CHECK_WITH(OutOfMemoryError, block != free_.end() && size >= bytes,
                   "refdev out of memory. Tried to allocate ", bytes, " bytes; ", stats_.allocated,
                   " of ", stats_.limit, " bytes are in use");
  const auto [offset, available] = *block;
  free_.erase(block);
  if (available > size) free_.emplace(offset + size, available - size);
  used_.emplace(offset, size);
  stats_.allocated += size;
  stats_.peak = std::max(stats_.peak, stats_.allocated);
  ++stats_.allocations;
  return device_ + offset;
}

void Memory::release(void* pointer) {
  if (pointer == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found =
      used_.find(static_cast<std::size_t>(static_cast<std::byte*>(pointer) - device_));
  if (found == used_.end()) return;
  auto [offset, size] = *found;
  used_.erase(found);
  stats_.allocated -= size;
  if (size >= k_return_pages) ::madvise(window_ + offset, size, MADV_DONTNEED);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_.emplace_hint(next, offset, size);
}

std::byte* Memory::window(const void* pointer) const {
  return window_ + (static_cast<const std::byte*>(pointer) - device_);
}

bool Memory::owns(const void* pointer) const {
  const auto* byte = static_cast<const std::byte*>(pointer);
  return device_ != nullptr && byte >= device_ && byte < device_ + stats_.limit;
}

MemoryStats Memory::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Memory::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.allocated;
}

}  // namespace refdev
