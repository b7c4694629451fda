// LibTorch 2 computes LSTM and GRU cells of such devices by fused kernels, which it has for GPUs
// only. Their definitions, by other operators. A *gate* has one column per hidden unit; gates lie
// side by side, in LibTorch's order.
#include "virtual_devices/recurrent_cells.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace lockstep::virtual_devices {
namespace {

using at::Tensor;
using MaybeTensor = c10::optional<Tensor>;

Tensor with_bias(const Tensor& gates, const MaybeTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

Tensor sum_if(bool wanted, const Tensor& gates) {
  return wanted ? gates.sum(0) : Tensor();
}

Tensor through_sigmoid(const Tensor& gradient, const Tensor& y) {
  return gradient * y * (1 - y);
}

Tensor through_tanh(const Tensor& gradient, const Tensor& y) {
  return gradient * (1 - y * y);
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& of_input, const Tensor& of_hidden,
                                             const Tensor& cell, const MaybeTensor& input_bias,
                                             const MaybeTensor& hidden_bias) {
  const auto gates =
      (with_bias(of_input, input_bias) + with_bias(of_hidden, hidden_bias)).chunk(4, 1);
  const Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(), proposed = gates[2].tanh(),
               out = gates[3].sigmoid();
  const Tensor next = forget * cell + in * proposed;
  return {out * next.tanh(), next, at::cat({in, forget, proposed, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const MaybeTensor& of_hidden,
                                                      const MaybeTensor& of_next,
                                                      const Tensor& cell, const Tensor& next,
                                                      const Tensor& kept, bool has_bias) {
  const auto gates = kept.chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &proposed = gates[2], &out = gates[3];
  const Tensor squashed = next.tanh();
  Tensor dout = at::zeros_like(out), dnext = at::zeros_like(next);
  if (of_hidden && of_hidden->defined()) {
    dout = *of_hidden * squashed;
    dnext = through_tanh(*of_hidden * out, squashed);
  }
  if (of_next && of_next->defined()) dnext = dnext + *of_next;
  const Tensor dgates =
      at::cat({through_sigmoid(dnext * proposed, in), through_sigmoid(dnext * cell, forget),
               through_tanh(dnext * in, proposed), through_sigmoid(dout, out)},
              1);
  return {dgates, dnext * forget, sum_if(has_bias, dgates)};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& of_input, const Tensor& of_hidden,
                                    const Tensor& hidden, const MaybeTensor& input_bias,
                                    const MaybeTensor& hidden_bias) {
  const auto i = with_bias(of_input, input_bias).chunk(3, 1);
  const auto h = with_bias(of_hidden, hidden_bias).chunk(3, 1);
  const Tensor reset = (h[0] + i[0]).sigmoid(), update = (h[1] + i[1]).sigmoid();
  const Tensor proposed = (i[2] + h[2] * reset).tanh();
  return {(hidden - proposed) * update + proposed,
          at::cat({reset, update, proposed, hidden, h[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& gradient,
                                                                     const Tensor& kept,
                                                                     bool has_bias) {
  const auto parts = kept.chunk(5, 1);
  const Tensor &reset = parts[0], &update = parts[1], &proposed = parts[2], &hidden = parts[3];
  const Tensor dproposed = through_tanh(gradient * (1 - update), proposed);
  const Tensor dreset = through_sigmoid(dproposed * parts[4], reset);
  const Tensor dupdate = through_sigmoid(gradient * (hidden - proposed), update);
  const Tensor of_input = at::cat({dreset, dupdate, dproposed}, 1);
  const Tensor of_hidden = at::cat({dreset, dupdate, dproposed * reset}, 1);
  return {of_input, of_hidden, gradient * update, sum_if(has_bias, of_input),
          sum_if(has_bias, of_hidden)};
}

}  // namespace

void register_recurrent_cells(torch::Library& aten) {
  aten.impl("_thnn_fused_lstm_cell", lstm_cell);
  aten.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  aten.impl("_thnn_fused_gru_cell", gru_cell);
  aten.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace lockstep::virtual_devices
