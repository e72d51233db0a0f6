// The operators that the device executes through the CPU, each registered by name, and the faults
// that can be injected into them. An operator that is not named stays missing, as on a device
// that has not got to it yet. Controlled through the operators `refdev::_…`.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "runtime.h"

namespace refdev {
namespace {

enum class Fault : std::uint8_t { wrong_value, raise, crash, hang };

// Written while the device is set up, before tensors exist; read by every fallback.
std::unordered_map<c10::OperatorName, Fault> g_faults;

c10::OperatorHandle find(const std::string& name) {
  const auto dot = name.find('.');
  const c10::OperatorName wanted(name.substr(0, dot),
                                 dot == std::string::npos ? "" : name.substr(dot + 1));
  const auto found = c10::Dispatcher::singleton().findSchema(wanted);
  TORCH_CHECK(found.has_value(), "there is no operator ", name);
  return *found;
}

const Fault* fault_of(const c10::OperatorHandle& op) {
  const auto found = g_faults.find(op.operator_name());
  return found == g_faults.end() ? nullptr : &found->second;
}

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Reads device memory from the host, which is what a bad kernel would do.
void crash() {
  void* pointer = Memory::instance().allocate(1);
  static_cast<void>(*static_cast<volatile char*>(pointer));
}

void perturb(const at::Tensor& result) {
  if (!result.defined() || !result.is_privateuseone() || result.numel() == 0) return;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor values = window(result);
  if (values.scalar_type() == c10::ScalarType::Bool) {
    values.logical_not_();
  } else if (values.is_floating_point() || values.is_complex()) {
    values.mul_(1.5).add_(1);
  } else {
    values.add_(1);
  }
}

void perturb_results(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const auto count = op.schema().returns().size();
  for (const auto& result : torch::jit::last(stack, count)) {
    if (result.isTensor()) perturb(result.toTensor());
    if (result.isTensorList()) {
      for (const at::Tensor& tensor : result.toTensorVector()) perturb(tensor);
    }
  }
}

// CPU kernels take CPU generators; none given means the device's, not the host's.
void replace_generators(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const auto first = stack.size() - arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& type = arguments[i].type();
    if (!type->isSubtypeOf(*c10::OptionalType::create(c10::GeneratorType::get()))) continue;
    auto& value = stack[first + i];
    if (value.isNone()) {
      value = host_generator(default_generator());
    } else if (value.isGenerator() && value.toGenerator().device() == k_device) {
      value = host_generator(value.toGenerator());
    }
  }
}

// `convolution` hands devices it does not know to these two, which have no CPU kernel.
const c10::OperatorHandle& executed_as(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  static const c10::OperatorHandle forward = find("aten::convolution");
  static const c10::OperatorHandle backward = find("aten::convolution_backward");
  const std::string& name = op.operator_name().name;
  if (name == "aten::convolution_overrideable") return forward;
  if (name != "aten::convolution_backward_overrideable") return op;
  const auto first = stack.end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const at::Tensor& weight = first[2].toTensor();
  const std::int64_t groups = first[8].toInt();
  const bool transposed = first[6].toBool();
  const std::vector<std::int64_t> bias{transposed ? weight.size(1) * groups : weight.size(0)};
  stack.insert(first + 3, c10::IValue(bias));
  return backward;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Fault* fault = fault_of(op);
  if (fault != nullptr) {
    switch (*fault) {
      case Fault::raise:
        TORCH_CHECK(false, "device error: ", c10::toString(op.operator_name()),
                    " failed on refdev:0 (injected)");
      case Fault::crash:
        crash();
        break;
      case Fault::hang:
        hang();
      case Fault::wrong_value:
        break;
    }
  }
  replace_generators(op, *stack);
  at::native::cpu_fallback(executed_as(op, *stack), stack);
  if (fault != nullptr) perturb_results(op, *stack);
}

void enable(const std::vector<std::string>& names) {
  static std::mutex mutex;
  static auto* registrations = new std::vector<torch::Library>();
  const std::lock_guard lock(mutex);
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                         __LINE__);
  for (const std::string& name : names) {
    find(name);
    library.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
  registrations->push_back(std::move(library));
}

void set_fault(const std::string& name, const std::string& kind) {
  static const std::unordered_map<std::string, Fault> kinds{{"wrong_value", Fault::wrong_value},
                                                            {"raise", Fault::raise},
                                                            {"crash", Fault::crash},
                                                            {"hang", Fault::hang}};
  const auto found = kinds.find(kind);
  TORCH_CHECK(found != kinds.end(), "there is no fault ", kind);
  g_faults[find(name).operator_name()] = found->second;
}

std::vector<std::int64_t> memory() {
  const MemoryStats stats = Memory::instance().stats();
  return {static_cast<std::int64_t>(stats.allocated), static_cast<std::int64_t>(stats.peak),
          static_cast<std::int64_t>(stats.allocations), static_cast<std::int64_t>(stats.limit)};
}

}  // namespace
}  // namespace refdev

TORCH_LIBRARY(refdev, m) {
  m.def("_enable(str[] operators) -> ()",
        [](const std::vector<std::string>& operators) { refdev::enable(operators); });
  m.def("_set_fault(str operator, str kind) -> ()",
        [](const std::string& name, const std::string& kind) { refdev::set_fault(name, kind); });
  m.def("_set_memory_limit(int bytes) -> ()", [](std::int64_t bytes) {
    TORCH_CHECK(bytes > 0, "the memory limit must be positive");
    refdev::Memory::instance().set_limit(static_cast<std::size_t>(bytes));
  });
  m.def("_memory() -> int[]", [] { return refdev::memory(); });
  m.def("_reset_peak_memory() -> ()", [] { refdev::Memory::instance().reset_peak(); });
  m.def("_manual_seed(int seed) -> ()", [](std::int64_t seed) {
    refdev::host_generator(refdev::default_generator())
        .set_current_seed(static_cast<std::uint64_t>(seed));
  });
  m.def("_initial_seed() -> int",
        [] { return static_cast<std::int64_t>(refdev::default_generator().current_seed()); });
  m.def("_get_rng_state() -> Tensor", [] { return refdev::default_generator().get_state(); });
  m.def("_set_rng_state(Tensor state) -> ()", [](const at::Tensor& state) {
    refdev::host_generator(refdev::default_generator()).set_state(state);
  });
}
