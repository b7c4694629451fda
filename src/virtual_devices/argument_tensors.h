#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <utility>
#include <vector>

namespace lockstep::virtual_devices {

/// Calls `action` for each defined tensor of an operator's argument or result.
template <typename Action>
void for_each_tensor(const c10::IValue& value, const Action& action) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) action(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector())
      if (tensor.defined()) action(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor && tensor->defined()) action(*tensor);
  }
}

/// Replaces the defined tensors of an argument or result by `change` of them.
template <typename Change>
void change_tensors(c10::IValue& value, const Change& change) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = change(value.toTensor());
  } else if (value.isTensorList()) {
    std::vector<at::Tensor> tensors = value.toTensorVector();
    for (at::Tensor& tensor : tensors)
      if (tensor.defined()) tensor = change(tensor);
    value = std::move(tensors);
  } else if (value.isOptionalTensorList()) {
    c10::List<c10::optional<at::Tensor>> tensors;
    for (const auto& tensor : value.toOptionalTensorVector())
      tensors.push_back(tensor && tensor->defined() ? c10::optional<at::Tensor>(change(*tensor))
                                                    : tensor);
    value = std::move(tensors);
  }
}

}  // namespace lockstep::virtual_devices
