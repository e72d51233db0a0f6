// The operators that the device executes itself: factories, copies, views, resizing. They touch
// memory and metadata and compute nothing.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <optional>

#include "kernels.h"
#include "memory.h"
#include "runtime.h"

namespace refdev {
namespace {

constexpr c10::DispatchKeySet k_keys(c10::DispatchKey::PrivateUse1);

void check_options(std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                   std::optional<bool> pinned) {
  TORCH_CHECK(layout.value_or(c10::Layout::Strided) == c10::Layout::Strided,
              "refdev has strided tensors only");
  TORCH_CHECK(!device || device->index() <= 0, "refdev has one device, 0; there is no ", *device);
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
}

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                 std::optional<bool> pinned, std::optional<c10::MemoryFormat> format) {
  check_options(layout, device, pinned);
  return at::detail::empty_generic(size, allocator(), k_keys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                         std::optional<c10::Device> device, std::optional<bool> pinned) {
  check_options(layout, device, pinned);
  return at::detail::empty_strided_generic(size, stride, allocator(), k_keys,
                                           c10::dtype_or_default(dtype));
}

// Grows the tensor's storage until its sizes and strides fit.
void grow(const at::Tensor& self) {
  if (self.numel() == 0) return;
  const std::size_t needed =
      at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.dtype().itemsize(),
                                       static_cast<std::size_t>(self.storage_offset()));
  auto* storage = self.storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) resize_storage(*storage, needed);
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size,
                         std::optional<c10::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  if (format) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    impl->empty_tensor_restride(*format);
  }
  grow(self);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset,
                        c10::IntArrayRef size, c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  at::native::resize_impl_cpu_(
      impl, size, stride.data() != nullptr ? at::OptionalIntArrayRef(stride) : std::nullopt,
      /*resize_storage=*/false);
  grow(self);
  return self;
}

at::Tensor& set_empty(at::Tensor& self) {
  at::Storage storage(at::Storage::use_byte_size_t(), 0, allocator(), true);
  return set_storage(self, std::move(storage), 0, {0}, {});
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool /*non_blocking*/) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor target = to.is_privateuseone() ? window(to) : to;
  target.copy_(self.is_privateuseone() ? window(self) : self);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (self.sizes() != to.sizes()) to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return at::_local_scalar_dense(window(self));
}

}  // namespace

at::Tensor window(const at::Tensor& tensor) {
  const auto options = tensor.options().device(c10::DeviceType::CPU);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  const auto offset = static_cast<std::size_t>(tensor.storage_offset()) * tensor.dtype().itemsize();
  std::byte* data = Memory::instance().window(tensor.storage().data()) + offset;
  at::Tensor view = at::from_blob(data, tensor.sizes(), tensor.strides(), options);
  if (tensor.is_conj()) view._set_conj(true);
  if (tensor.is_neg()) view._set_neg(true);
  return view;
}

}  // namespace refdev

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(refdev::empty));
  m.impl("empty_strided", TORCH_FN(refdev::empty_strided));
  m.impl("resize_", TORCH_FN(refdev::resize));
  m.impl("set_", TORCH_FN(refdev::set_empty));
  m.impl("set_.source_Storage", [](at::Tensor& self, at::Storage source) -> at::Tensor& {
    return at::native::set_(self, std::move(source));
  });
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(refdev::set_storage));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("_copy_from", TORCH_FN(refdev::copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(refdev::copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(refdev::local_scalar_dense));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
}

// Copies resolve these bits themselves. Their own fallback would clone, which copies, without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
