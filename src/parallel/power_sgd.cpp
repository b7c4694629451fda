// PowerSGD. Words: a gradient M of n x m (its first dimension by all others) is approximated by P
// Q^T, with P of n x r and Q of m x r. Each training step does one step of subspace iteration: P =
// M Q, averaged over workers and orthogonalised; Q = M^T P, averaged. Q is kept for the next step.
// M includes the `error`, which is what this worker did not send in the step before. Both are kept
// per parameter, because buckets are rebuilt after the first step. f16 and bf16 gradients are
// computed in float.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lockstep/gradient_hook.h"

namespace lockstep {
namespace {

constexpr int64_t kHighestRank = 65536;

struct Matrix {
  torch::Tensor error;  ///< as the gradient, n x m
  torch::Tensor q;
};

torch::ScalarType type_to_compute_with(const torch::Tensor& gradient) {
  return gradient.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
}

bool is_finite(const torch::Tensor& values) {
  return std::isfinite(values.sum().item<double>());
}

// Gram-Schmidt, column by column, which is cheapest for a few columns.
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
    if (options.rank < 1 || options.rank > kHighestRank)
      throw BadInput("PowerSGD of rank {}: expected 1 to {}", options.rank, kHighestRank);
  }

  void reduce(GradientBucket& bucket, World& world) override {
    std::vector<torch::Tensor> vectors;
    std::vector<size_t> matrices;
    for (size_t i = 0; i < bucket.gradients.size(); ++i) {
      if (shrinks(bucket.gradients[i]))
        matrices.push_back(i);
      else
        vectors.push_back(bucket.gradients[i]);
    }
    send_whole(vectors, world);
    send_thin(bucket, matrices, world);
  }

 private:
  bool shrinks(const torch::Tensor& gradient) const {
    if (gradient.dim() < 2 || gradient.numel() == 0) return false;
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

  // All P of a bucket are sent as one message, and all Q as another.
  void send_thin(GradientBucket& bucket, const std::vector<size_t>& chosen, World& world) {
    if (chosen.empty()) return;
    std::vector<Matrix*> matrices;
    std::vector<torch::Tensor> m, p, q;
    for (const size_t i : chosen) {
      const torch::Tensor& gradient = bucket.gradients[i];
      Matrix& matrix = matrix_of(bucket.parameters[i], gradient);
      matrices.push_back(&matrix);
      m.push_back(gradient.reshape({gradient.size(0), -1}) + matrix.error);
      p.push_back(m.back().matmul(matrix.q));
    }
    average(p, world);
    for (size_t k = 0; k < chosen.size(); ++k) {
      orthogonalise(p[k]);
      q.push_back(m[k].t().matmul(p[k]));
    }
    average(q, world);
    for (size_t k = 0; k < chosen.size(); ++k) {
      const torch::Tensor approximation = p[k].matmul(q[k].t());
      torch::Tensor& gradient = bucket.gradients[chosen[k]];
      gradient.copy_(approximation.view(gradient.sizes()));
      keep(*matrices[k], m[k] - approximation, q[k], bucket.parameters[chosen[k]]);
    }
  }

  // A NaN or infinity here would spoil all later steps. Q is the same on all workers, so all make
  // the same decision about it; the error belongs to this worker alone.
  void keep(Matrix& matrix, const torch::Tensor& error, const torch::Tensor& q,
            size_t parameter) const {
    matrix.error = is_finite(error) ? error : torch::zeros_like(error);
    matrix.q = is_finite(q) ? q.clone() : first_q(parameter, q.size(0), q.options());
  }

  // Averages over workers as one message; afterwards each part is a view of it.
  static void average(std::vector<torch::Tensor>& parts, World& world) {
    std::vector<torch::Tensor> flat;
    for (const torch::Tensor& part : parts) flat.push_back(part.reshape({-1}));
    torch::Tensor all = torch::cat(flat);
    all.div_(world.size());  // before adding: a sum of f16 may overflow where the mean does not
    world.all_reduce(all, Operation::sum);
    int64_t begin = 0;
    for (torch::Tensor& part : parts) {
      const int64_t count = part.numel();
      part = all.slice(0, begin, begin + count).view(part.sizes());
      begin += count;
    }
  }

  Matrix& matrix_of(size_t parameter, const torch::Tensor& gradient) {
    Matrix& matrix = matrices_[parameter];
    if (matrix.error.defined()) return matrix;
    const int64_t n = gradient.size(0);
    const int64_t m = gradient.numel() / n;
    const auto type = type_to_compute_with(gradient);
    const auto options = gradient.options().dtype(type);
    matrix = {torch::zeros({n, m}, options), first_q(parameter, m, options)};
    return matrix;
  }

  // The same on all devices.
  torch::Tensor first_q(size_t parameter, int64_t m, const torch::TensorOptions& options) const {
    auto generator = at::detail::createCPUGenerator(options_.seed + parameter);
    return torch::randn({m, options_.rank}, generator, options.device(torch::kCPU))
        .to(options.device());
  }

  const PowerSgdOptions options_;
  std::map<size_t, Matrix> matrices_;  ///< by parameter
};

}  // namespace

std::unique_ptr<GradientHook> power_sgd(const PowerSgdOptions& options) {
  return std::make_unique<PowerSgd>(options);
}

}  // namespace lockstep
