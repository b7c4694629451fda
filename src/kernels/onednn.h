#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace lockstep::kernels {

/// What differs between oneDNN 2 and 3: which arguments describe a convolution, and in which order.

inline dnnl::primitive_attr with_our_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// `arguments` are x, weights, y, strides, and the padding before and behind.
template <typename... Arguments>
dnnl::convolution_forward::primitive_desc forward_convolution(const dnnl::engine& engine,
                                                              const Arguments&... arguments) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kKind, kAlgorithm, arguments..., with_our_scratch()};
#else
  return {{kKind, kAlgorithm, arguments...}, with_our_scratch(), engine};
#endif
}

/// `Backward` is dnnl::convolution_backward_data or dnnl::convolution_backward_weights.
template <typename Backward, typename... Arguments>
typename Backward::primitive_desc backward_convolution(
    const dnnl::engine& engine, const dnnl::convolution_forward::primitive_desc& forward,
    const Arguments&... arguments) {
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kAlgorithm, arguments..., forward, with_our_scratch()};
#else
  return {{kAlgorithm, arguments...}, with_our_scratch(), engine, forward};
#endif
}

}  // namespace lockstep::kernels
