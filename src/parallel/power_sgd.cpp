// PowerSGD. Words: a gradient of n x m (its first dimension by all others) is approximated by P
// Q^T, with P of n x r and Q of m x r. One step of subspace iteration a training step: P = M Q,
// summed over workers and orthogonalised; Q = M^T P, summed. Q is kept for the next step. M
// includes the `error`, what the step before left out, on this worker.
#include <torch/torch.h>

#include <algorithm>
#include <map>

#include "lockstep/gradient_hook.h"

namespace lockstep {
namespace {

struct Matrix {
  torch::Tensor error;  ///< as the gradient, n x m
  torch::Tensor q;
};

// Gram-Schmidt, column by column: for a few columns nothing is cheaper.
void orthogonalise(torch::Tensor& p) {
  constexpr double kTiny = 1e-12;  // a column of zeros stays one
  for (int64_t i = 0; i < p.size(1); ++i) {
    torch::Tensor column = p.select(1, i);
    column.div_(column.norm().add_(kTiny));
    if (i + 1 == p.size(1)) return;
    torch::Tensor rest = p.slice(1, i + 1);
    rest.sub_(torch::outer(column, column.matmul(rest)));
  }
}

class PowerSgd : public GradientHook {
 public:
  explicit PowerSgd(const PowerSgdOptions& options) : options_(options) {
    if (options.rank < 1) throw BadInput("PowerSGD of rank {}: expected at least 1", options.rank);
  }

  void reduce(GradientBucket& bucket, World& world) override {
    std::vector<torch::Tensor> vectors, matrices;
    for (const torch::Tensor& gradient : bucket.gradients)
      (shrinks(gradient) ? matrices : vectors).push_back(gradient);
    send_whole(vectors, world);
    send_thin(bucket.index, matrices, world);
  }

 private:
  bool shrinks(const torch::Tensor& gradient) const {
    if (gradient.dim() < 2) return false;
    const int64_t n = gradient.size(0);
    const int64_t m = gradient.numel() / n;
    return (n + m) * options_.rank < n * m;
  }

  static void send_whole(std::vector<torch::Tensor> gradients, World& world) {
    if (gradients.empty()) return;
    std::vector<torch::Tensor> means = gradients;
    average(means, world);
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i].copy_(means[i]);
  }

  // All P of a bucket travel as one message, and all Q.
  void send_thin(size_t bucket, std::vector<torch::Tensor>& gradients, World& world) {
    if (gradients.empty()) return;
    std::vector<Matrix>& matrices = matrices_[bucket];
    if (!fit(matrices, gradients)) matrices = first_matrices(gradients, bucket);
    std::vector<torch::Tensor> m, p, q;
    for (size_t i = 0; i < gradients.size(); ++i) {
      m.push_back(gradients[i].reshape({gradients[i].size(0), -1}) + matrices[i].error);
      p.push_back(m[i].matmul(matrices[i].q));
    }
    average(p, world);
    for (size_t i = 0; i < gradients.size(); ++i) {
      orthogonalise(p[i]);
      q.push_back(m[i].t().matmul(p[i]));
    }
    average(q, world);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const torch::Tensor approximation = p[i].matmul(q[i].t());
      matrices[i].error = m[i] - approximation;
      matrices[i].q = q[i];
      gradients[i].copy_(approximation.view(gradients[i].sizes()));
    }
  }

  // Buckets are cut anew after the first step.
  static bool fit(const std::vector<Matrix>& matrices,
                  const std::vector<torch::Tensor>& gradients) {
    return std::equal(matrices.begin(), matrices.end(), gradients.begin(), gradients.end(),
                      [](const Matrix& matrix, const torch::Tensor& gradient) {
                        return matrix.error.size(0) == gradient.size(0) &&
                               matrix.error.numel() == gradient.numel();
                      });
  }

  // One message, after which each part is a view of the mean.
  static void average(std::vector<torch::Tensor>& parts, World& world) {
    std::vector<torch::Tensor> flat;
    for (const torch::Tensor& part : parts) flat.push_back(part.reshape({-1}));
    torch::Tensor all = torch::cat(flat);
    world.all_reduce(all, Operation::mean);
    int64_t begin = 0;
    for (torch::Tensor& part : parts) {
      const int64_t count = part.numel();
      part = all.slice(0, begin, begin + count).view(part.sizes());
      begin += count;
    }
  }

  std::vector<Matrix> first_matrices(const std::vector<torch::Tensor>& gradients,
                                     size_t bucket) const {
    auto generator = at::detail::createCPUGenerator(options_.seed + bucket);
    std::vector<Matrix> matrices;
    for (const torch::Tensor& gradient : gradients) {
      const int64_t n = gradient.size(0);
      const int64_t m = gradient.numel() / n;
      matrices.push_back({torch::zeros({n, m}), torch::randn({m, options_.rank}, generator)});
    }
    return matrices;
  }

  const PowerSgdOptions options_;
  std::map<size_t, std::vector<Matrix>> matrices_;  ///< by bucket
};

}  // namespace

std::unique_ptr<GradientHook> power_sgd(const PowerSgdOptions& options) {
  return std::make_unique<PowerSgd>(options);
}

}  // namespace lockstep
