// Whether a fused layer is anywhere slower than LibTorch's: convolutions of many shapes, and whole
// networks, each measured in turn with LibTorch's in its better layout (plain or channels_last), on
// one core. Prints the shapes below --below of LibTorch's speed, and the worst of all. A *cell* is
// one shape; its ratio is LibTorch's time divided by ours, medians of several rounds; what is below
// is measured again. The rule in kernels/convolution.cpp follows from this.
//
//     scripts/build release -DLOCKSTEP_BENCH=ON -- kernel_sweep
//     taskset -c 1 build/release/kernel_sweep [--quick] [--nets] [--below 0.95] [--all]
//                                             [--only k3s2] [--rounds 5]
//
// As on a processor without AVX-512: ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 before it.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/allocator.h"
#include "kernels/convolution.h"
#include "model/models.h"
#include "nn/layer.h"

namespace {

using namespace lockstep;
using kernels::ConvShape;
using kernels::ImageLayout;
using torch::Tensor;

struct Settings {
  bool quick = false;
  bool nets = false;
  bool all = false;
  double below = 0.95;
  int rounds = 5;
  std::string only;
};

// The processor's time, which other processes on it do not count towards.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

using Call = std::function<void()>;

double seconds_of(const Call& call, int calls) {
  const double began = now();
  for (int i = 0; i < calls; ++i) call();
  return (now() - began) / calls;
}

double median(std::vector<double> of) {
  std::nth_element(of.begin(), of.begin() + static_cast<long>(of.size() / 2), of.end());
  return of[of.size() / 2];
}

// Calls that are timed in turn, so that what slows the machine down slows all of them.
class Race {
 public:
  explicit Race(std::vector<Call> contestants) : contestants_(std::move(contestants)) {
    constexpr double kLeast = 3e-4;  // seconds of one measurement
    for (const Call& call : contestants_) {
      call();
      calls_.push_back(1 + static_cast<int>(kLeast / std::max(1e-7, seconds_of(call, 1))));
    }
  }

  // The times of each contestant.
  std::vector<std::vector<double>> run(int rounds) const {
    std::vector<std::vector<double>> times(contestants_.size());
    for (int round = 0; round < rounds; ++round)
      for (size_t i = 0; i < contestants_.size(); ++i)
        times[i].push_back(seconds_of(contestants_[i], calls_[i]));
    return times;
  }

 private:
  std::vector<Call> contestants_;
  std::vector<int> calls_;
};

// The time of the fastest other contestant divided by that of the first.
template <typename Statistic>
double ratio_of(const std::vector<std::vector<double>>& times, const Statistic& statistic) {
  double best = statistic(times[1]);
  for (size_t i = 2; i < times.size(); ++i) best = std::min(best, statistic(times[i]));
  return best / statistic(times[0]);
}

// LibTorch's time divided by ours. What seems slow is measured again, by the least of many rounds,
// since a neighbour on the machine can only make a round longer.
double ratio_of(const Call& ours, const std::vector<Call>& theirs, const Settings& settings) {
  constexpr int kMoreRounds = 4;
  std::vector<Call> contestants = {ours};
  contestants.insert(contestants.end(), theirs.begin(), theirs.end());
  const Race race(contestants);
  const double ratio = ratio_of(race.run(settings.rounds), median);
  if (ratio >= settings.below) return ratio;
  return ratio_of(race.run(kMoreRounds * settings.rounds),
                  [](const auto& of) { return *std::min_element(of.begin(), of.end()); });
}

using Layouts = std::vector<at::MemoryFormat>;
const Layouts kLayouts = {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast};

// LibTorch 1.13 with oneDNN 2.6 writes beyond its memory for the weights' gradient of filters of
// 1 x 1 over few channels, stride 2, channels_last.
Layouts layouts_for(const ConvShape& s) {
  return s.kernel == 1 && s.in_channels < 16 ? Layouts{kLayouts[0]} : kLayouts;
}

// Forward, input's gradient, weights' gradient, and the whole layer with BatchNorm and ReLU in both
// directions. Weights are new in every pass, as in training.
struct Ratios {
  double y = 0, dx = 0, dw = 0, layer = 0;
  std::string served_by;
};

Tensor plain_image(const ConvShape& s) {
  return torch::randn({s.samples, s.in_channels, s.in_height, s.in_width});
}

void measure_passes(const ConvShape& s, ImageLayout layout, const Settings& settings, Ratios& of) {
  const bool thin = layout == ImageLayout::plain;
  const Tensor x = plain_image(s);
  const Tensor w = torch::randn({s.out_channels, s.in_channels, s.kernel, s.kernel});
  const Tensor dy = torch::randn({s.samples, s.out_channels, s.out_height(), s.out_width()});
  const Tensor our_x = thin ? x : nn::blocked(x), our_dy = nn::blocked(dy);
  const Tensor y = torch::empty_like(our_dy), dx = torch::empty_like(our_x),
               dw = torch::empty_like(w);
  kernels::Convolution convolution(s, layout);
  const Tensor memory = torch::empty({convolution.scratch_bytes() + 64}, torch::kUInt8);
  auto* scratch = reinterpret_cast<std::byte*>(memory.data_ptr<uint8_t>());

  std::vector<Call> forward, input_gradient, weight_gradient;
  const int64_t stride = s.stride, padding = s.padding;
  for (const at::MemoryFormat format : layouts_for(s)) {
    const Tensor tx = x.contiguous(format), tw = w.contiguous(format), tdy = dy.contiguous(format);
    const auto backward = [=](std::array<bool, 3> mask) {
      at::convolution_backward(tdy, tx, tw, c10::nullopt, {stride, stride}, {padding, padding},
                               {1, 1}, false, {0, 0}, 1, mask);
    };
    forward.emplace_back([=] { at::conv2d(tx, tw, {}, stride, padding); });
    input_gradient.emplace_back([=] { backward({true, false, false}); });
    weight_gradient.emplace_back([=] { backward({false, true, false}); });
  }
  of.y = ratio_of(
      [&] {
        convolution.weights_changed();
        convolution.forward(nn::data(w), nn::data(our_x), nn::data(y), scratch);
      },
      forward, settings);
  if (!thin)
    of.dx = ratio_of(
        [&] {
          convolution.weights_changed();
          convolution.input_gradient(nn::data(w), nn::data(our_dy), nn::data(dx), scratch);
        },
        input_gradient, settings);
  of.dw = ratio_of(
      [&] {
        convolution.weight_gradient(nn::data(our_x), nn::data(our_dy), nn::data(dw), scratch);
      },
      weight_gradient, settings);
}

// One layer between others of its kind: where LibTorch computes a fused one, its images are
// converted on both sides.
struct WholeLayer {
  WholeLayer(const ConvShape& s, nn::Kernels kernels, at::MemoryFormat format)
      : conv(torch::nn::Conv2dOptions(s.in_channels, s.out_channels, s.kernel)
                 .stride(s.stride)
                 .padding(s.padding)
                 .bias(false)),
        bn(s.out_channels),
        layer(conv, bn, nn::Activation::relu, kernels),
        blocks(kernels == nn::Kernels::fused),
        x(plain_image(s)),
        dy(torch::randn({s.samples, s.out_channels, s.out_height(), s.out_width()})) {
    conv->to(torch::kFloat32);
    conv->weight.set_data(conv->weight.detach().contiguous(format));
    const bool thin = s.in_channels % 8 != 0;
    x = blocks && !thin ? nn::blocked(x) : x.contiguous(format);
    x.set_requires_grad(!thin);
    dy = blocks ? nn::blocked(dy) : dy.contiguous(format);
  }

  void operator()() {
    conv->weight.data_ptr<float>()[0] += 1e-3F;
    x.mutable_grad() = Tensor();
    for (Tensor parameter : {conv->weight, bn->weight, bn->bias})
      parameter.mutable_grad() = Tensor();
    Tensor y = layer(x);
    if (blocks) y = nn::blocked(y);
    y.backward(dy);
  }

  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d bn;
  nn::ConvBn layer;
  bool blocks;
  Tensor x;
  Tensor dy;
};

void measure_layer(const ConvShape& s, const Settings& settings, Ratios& of) {
  if (s.samples * s.out_height() * s.out_width() < 2) return;  // no variance
  WholeLayer ours(s, nn::Kernels::fused, at::MemoryFormat::Contiguous);
  std::vector<Call> theirs;
  for (const at::MemoryFormat format : layouts_for(s))
    theirs.emplace_back(
        [layer = std::make_shared<WholeLayer>(s, nn::Kernels::torch, format)] { (*layer)(); });
  of.layer = ratio_of([&] { ours(); }, theirs, settings);
  of.served_by = ours.layer.served_by();
}

std::string name_of(const ConvShape& s) {
  char name[96];
  std::snprintf(name, sizeof name, "k%lds%ld %3ld -> %-3ld %2ld x %-2ld batch %-3ld", s.kernel,
                s.stride, s.in_channels, s.out_channels, s.in_height, s.in_width, s.samples);
  return name;
}

struct Channels {
  int64_t in, out;
};

std::vector<ConvShape> grid(const Settings& settings) {
  constexpr double kMostOperations = 2e9;  // of one pass, which bounds the time
  constexpr double kMostNumbers = 8e6;     // of both images
  using Numbers = std::vector<int64_t>;
  const bool quick = settings.quick;
  const std::vector<Channels> channels =
      quick ? std::vector<Channels>{{3, 16}, {8, 8}, {32, 64}, {256, 256}, {512, 512}}
            : std::vector<Channels>{{1, 32},  {3, 16},    {8, 8},     {16, 32},
                                    {64, 64}, {128, 128}, {256, 512}, {512, 512}};
  const Numbers sides =
      quick ? Numbers{1, 2, 4, 8, 16, 32} : Numbers{1, 2, 3, 4, 5, 6, 8, 9, 16, 32, 56, 96};
  std::vector<ConvShape> cells;
  for (const int64_t kernel : quick ? Numbers{1, 3} : Numbers{1, 3, 5, 7})
    for (const int64_t stride : {1, 2})
      for (const Channels& c : channels)
        for (const int64_t side : sides)
          for (const int64_t batch : quick ? Numbers{1, 32} : Numbers{1, 8, 32, 128}) {
            const ConvShape s = {batch, c.in, side, side, c.out, kernel, stride, kernel / 2};
            const auto numbers =
                static_cast<double>(batch * side * side) * static_cast<double>(c.in + c.out);
            const bool rare = kernel > 3 && (c.in > 64 || batch == 8 || batch == 128);
            if (!rare && s.operations() <= kMostOperations && numbers <= kMostNumbers)
              cells.push_back(s);
          }
  return cells;
}

// What is below the limit, and the worst of each kind of measurement.
class Report {
 public:
  explicit Report(const Settings& settings) : settings_(settings) {}

  void add(const std::string& cell, const std::string& served_by,
           const std::vector<std::pair<const char*, double>>& ratios) {
    bool low = false;
    std::string line;
    for (const auto& [what, ratio] : ratios) {
      char text[32];
      ratio > 0 ? std::snprintf(text, sizeof text, " %s %5.2f", what, ratio)
                : std::snprintf(text, sizeof text, " %s     -", what);
      line += text;
      if (ratio == 0) continue;
      low |= ratio < settings_.below;
      by_kind_[what].push_back({ratio, cell + " by " + served_by});
    }
    if (low || settings_.all)
      std::printf("%s %-8s%s\n", cell.c_str(), served_by.c_str(), line.c_str());
    std::fflush(stdout);
  }

  void end() {
    constexpr size_t kWorst = 10;
    for (auto& [what, cells] : by_kind_) {
      std::sort(cells.begin(), cells.end(),
                [](const Cell& a, const Cell& b) { return a.ratio < b.ratio; });
      const auto below = std::count_if(cells.begin(), cells.end(), [&](const Cell& cell) {
        return cell.ratio < settings_.below;
      });
      std::printf("%s: %zu cells, median %.2f, %ld below %.2f; the worst:\n", what.c_str(),
                  cells.size(), cells[cells.size() / 2].ratio, below, settings_.below);
      for (size_t i = 0; i < std::min(kWorst, cells.size()); ++i)
        std::printf("  %.2f %s\n", cells[i].ratio, cells[i].name.c_str());
    }
  }

 private:
  struct Cell {
    double ratio;
    std::string name;
  };

  const Settings& settings_;
  std::map<std::string, std::vector<Cell>> by_kind_;
};

void sweep_shapes(const Settings& settings) {
  Report report(settings);
  for (const ConvShape& s : grid(settings)) {
    const std::string name = name_of(s);
    if (name.find(settings.only) == std::string::npos) continue;
    const ImageLayout layout = s.in_channels % 8 == 0 ? ImageLayout::blocked : ImageLayout::plain;
    Ratios of;
    of.served_by = kernels::serves(s, layout) ? to_string(kernels::method_for(s, layout)) : "torch";
    if (kernels::serves(s, layout)) measure_passes(s, layout, settings, of);
    measure_layer(s, settings, of);
    report.add(name, of.served_by,
               {{"y", of.y}, {"dx", of.dx}, {"dw", of.dw}, {"layer", of.layer}});
  }
  report.end();
}

Call pass_of(const std::string& name, int64_t channels, int64_t side, int64_t batch,
             nn::Kernels kernels, at::MemoryFormat format, std::string* served_by) {
  const ModelOptions options = {.name = name,
                                .inputs = {{"x", Type::f32, {channels, side, side}}},
                                .outputs = {{"scores", Type::f32, {10}}},
                                .kernels = kernels,
                                .options = {}};
  const std::shared_ptr<Model> model = model::make_model(options, 1);
  for (Tensor parameter : model->parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.detach().contiguous(format));
  const Tensor x = torch::randn({batch, channels, side, side}).contiguous(format);
  const Tensor labels = torch::randint(0, 10, {batch});
  return [=] {
    for (Tensor parameter : model->parameters()) {
      parameter.data_ptr<float>()[0] += 1e-6F;
      parameter.mutable_grad() = Tensor();
    }
    at::cross_entropy_loss(model->forward(x).only(), labels).backward();
    if (served_by == nullptr) return;
    served_by->clear();
    for (const auto& layer : model->kernels()) *served_by += layer.served_by[0];
  };
}

void sweep_nets(const Settings& settings) {
  struct Net {
    const char* name;
    int64_t channels;
    std::vector<int64_t> sides;
  };
  const std::vector<Net> nets = {{"resnet20", 3, {5, 8, 16, 32}},
                                 {"resnet18", 3, {9, 16, 32, 64}},
                                 {"convnet", 1, {10, 28, 64}}};
  Report report(settings);
  for (const Net& net : nets)
    for (const int64_t side : net.sides)
      for (const int64_t batch : {1, 8, 32, 128}) {
        if (side * side * batch * (net.name[6] == '1' ? 10 : 1) > 700'000) continue;
        char name[64];
        std::snprintf(name, sizeof name, "%s %2ld x %-2ld batch %-3ld", net.name, side, side,
                      batch);
        if (std::string(name).find(settings.only) == std::string::npos) continue;
        std::string served_by;
        const auto make = [&](nn::Kernels kernels, at::MemoryFormat format, std::string* to) {
          return pass_of(net.name, net.channels, side, batch, kernels, format, to);
        };
        const Call ours = make(nn::Kernels::fused, kLayouts[0], &served_by);
        const double ratio = ratio_of(ours,
                                      {make(nn::Kernels::torch, kLayouts[0], nullptr),
                                       make(nn::Kernels::torch, kLayouts[1], nullptr)},
                                      settings);
        report.add(name, served_by, {{"net", ratio}});
      }
  report.end();
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] { return ++i < argc ? argv[i] : ""; };
    if (flag == "--quick")
      settings.quick = true;
    else if (flag == "--nets")
      settings.nets = true;
    else if (flag == "--all")
      settings.all = true;
    else if (flag == "--below")
      settings.below = std::atof(value());
    else if (flag == "--rounds")
      settings.rounds = std::atoi(value());
    else if (flag == "--only")
      settings.only = value();
    else
      return std::fprintf(stderr, "kernel_sweep: unknown flag %s; see bench/kernel_sweep.cpp\n",
                          argv[i]),
             2;
  }
  torch::manual_seed(1);
  torch::set_num_threads(1);
  keep_freed_memory();  // as in training
  settings.nets ? sweep_nets(settings) : sweep_shapes(settings);
  return 0;
}
