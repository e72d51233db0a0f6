#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>

namespace refdev {

inline const c10::Device k_device{c10::DeviceType::PrivateUse1, 0};

[[nodiscard]] c10::Allocator* allocator();

// Gives `storage` memory for `bytes`, keeping what fits of its contents.
void resize_storage(c10::StorageImpl& storage, std::size_t bytes);

// The device's own generator, and the CPU generator that draws its numbers.
[[nodiscard]] const at::Generator& default_generator();
[[nodiscard]] at::Generator host_generator(const at::Generator& generator);

}  // namespace refdev
