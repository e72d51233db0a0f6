#pragma once

#include <ATen/core/Tensor.h>

namespace refdev {

// Returns a CPU tensor over the bytes of a device tensor, with its sizes and strides. It owns
// nothing: the device tensor must outlive it.
[[nodiscard]] at::Tensor window(const at::Tensor& tensor);

}  // namespace refdev
