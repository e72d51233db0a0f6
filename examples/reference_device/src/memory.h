#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

namespace refdev {

struct MemoryStats {
  std::size_t allocated = 0;    // bytes in use
  std::size_t peak = 0;         // most bytes in use since the last reset
  std::size_t allocations = 0;  // since the process began
  std::size_t limit = 0;        // bytes there are
};

// The device's memory: a range of addresses that nothing on the host may read or write, so that a
// CPU kernel handed a device pointer dies instead of quietly working. The bytes lie in a second
// range, the window, through which copies go. Thread-safe.
class Memory {
 public:
  static Memory& instance();

  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Bytes of device memory there shall be; before the first allocation.
  void set_limit(std::size_t bytes);

  // Returns a device pointer, null for no bytes. Throws c10::OutOfMemoryError.
  [[nodiscard]] void* allocate(std::size_t bytes);
  void release(void* pointer);

  // Returns where the host finds what lies at a device pointer.
  [[nodiscard]] std::byte* window(const void* pointer) const;
  [[nodiscard]] bool owns(const void* pointer) const;

  [[nodiscard]] MemoryStats stats() const;
  void reset_peak();

 private:
  Memory() = default;
  ~Memory() = default;
  void reserve();

  mutable std::mutex mutex_;
  std::byte* device_ = nullptr;
  std::byte* window_ = nullptr;
  std::map<std::size_t, std::size_t> free_;            // offset → bytes, never adjacent
  std::unordered_map<std::size_t, std::size_t> used_;  // offset → bytes
  MemoryStats stats_{0, 0, 0, std::size_t{4} << 30};
};

}  // namespace refdev
