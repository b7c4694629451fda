#include "data/input_files.h"

#include <algorithm>
#include <utility>

#include "data/dataset.h"
#include "data/image_files.h"
#include "data/npy_inputs.h"
#include "lockstep/error.h"

namespace lockstep::data {

namespace fs = std::filesystem;

class InputFiles::File {
 public:
  virtual ~File() = default;
  virtual int64_t samples() const = 0;
  virtual std::string name(int64_t sample) const = 0;
  virtual void write(int64_t sample, const Sample& to) const = 0;
};

namespace {

bool has_equal_channels(const Image& image) {
  const auto& pixels = image.pixels;
  for (size_t i = 0; i + 2 < pixels.size(); i += 3)
    if (pixels[i] != pixels[i + 1] || pixels[i] != pixels[i + 2]) return false;
  return true;
}

}  // namespace

/// An image; it is decoded when it is read.
class InputFiles::ImageFile final : public File {
 public:
  ImageFile(fs::path path, const Shape& shape, int64_t image_size)
      : path_(std::move(path)), shape_(shape), image_size_(image_size) {
    const Image header = read_image(path_, Decode::header);
    if (image_size_ == 0 && (header.height != shape_[1] || header.width != shape_[2]))
      throw BadInput(
          "{} is {} x {} (width x height), but the model was trained on {} x {}: scale it first, "
          "or train with data.options.image_size, which scales images",
          path_.string(), header.width, header.height, shape_[2], shape_[1]);
  }

  int64_t samples() const override { return 1; }
  std::string name(int64_t) const override { return path_.string(); }
  void write(int64_t, const Sample& to) const override {
    Image image = read_image(path_);
    if (image_size_ > 0) image = scale_to_square(image, image_size_);
    if (image.height != shape_[1] || image.width != shape_[2])
      throw BadInput("{}: has changed since the start", path_.string());
    if (shape_[0] == 1 && image.channels == 3 && !has_equal_channels(image))
      throw BadInput(
          "{} is in colour, but the model was trained on grey images: convert it to grey first",
          path_.string());
    write_planes(image, shape_, to.as<uint8_t>(0));
  }

 private:
  const fs::path path_;
  const Shape& shape_;
  const int64_t image_size_;
};

class InputFiles::ArrayFile final : public File {
 public:
  ArrayFile(const fs::path& path, const Field& input, ChannelOrder layout) : array_(path, layout) {
    if (array_.shape() != input.shape) refuse_shape(path, input.shape);
    if (array_.type() != input.type)
      throw BadInput(
          "{}: is {}, but the model was trained on {}: bytes are scaled to 0..1 and floats are "
          "not, so save it as {}",
          path.string(), array_.type() == Type::u8 ? "uint8" : "not uint8",
          input.type == Type::u8 ? "uint8" : "float32",
          input.type == Type::u8 ? "uint8" : "float32");
  }

  int64_t samples() const override { return array_.samples(); }
  std::string name(int64_t sample) const override {
    return fmt::format("{}[{}]", array_.array().path().string(), sample);
  }
  void write(int64_t sample, const Sample& to) const override { array_.write(sample, to); }

 private:
  // Both shapes as they are in files: a channels_last model's arrays have channels last.
  [[noreturn]] void refuse_shape(const fs::path& path, const Shape& trained_on) const {
    const Shape& in_file = array_.array().shape();
    const Shape expected = array_.shape_in_file(trained_on);
    throw BadInput("{}: samples are {}, but the model was trained on {}{}{}", path.string(),
                   to_string(in_file), to_string(expected),
                   expected == trained_on ? "" : " (channels_last, as its data)",
                   in_file.size() + 1 == expected.size() ? "; save a single sample as x[None]"
                   : in_file == trained_on               ? "; save np.moveaxis(x, -3, -1)"
                                                         : "");
  }

  const NpyInputs array_;
};

InputFiles::InputFiles(const std::vector<fs::path>& paths, const Field& input,
                       const Options& options)
    : fields_{{input}, {}} {
  for (const fs::path& path : paths) {
    if (!fs::exists(path)) throw BadInput("{}: no such file", path.string());
    if (!fs::is_directory(path)) {
      add(path, options);
      continue;
    }
    const std::vector<fs::path> images = images_in(path);
    if (images.empty()) throw BadInput("{}: no .png, .jpg or .jpeg in this folder", path.string());
    for (const fs::path& image : images) add(image, options);
  }
  for (const auto& file : files_)
    for (int64_t sample = 0; sample < file->samples(); ++sample)
      samples_.emplace_back(file.get(), sample);
  if (samples_.empty()) throw BadInput("no samples: expected images or .npy arrays");
}

InputFiles::~InputFiles() = default;

void InputFiles::add(const fs::path& path, const Options& options) {
  const Field& input = fields_.inputs[0];
  if (path.extension() == ".npy") {
    files_.push_back(std::make_unique<ArrayFile>(path, input, layout_from(options)));
    return;
  }
  if (input.type != Type::u8 || input.shape.size() != 3)
    throw BadInput("{}: the model's input '{}' is {} of {}, not an image: expected .npy arrays",
                   path.string(), input.name, to_string(input.shape),
                   input.type == Type::u8 ? "bytes" : "numbers");
  files_.push_back(
      std::make_unique<ImageFile>(path, input.shape, options.integer("image_size", 0)));
}

void InputFiles::write(int64_t index, const Sample& to) const {
  const auto& [file, sample] = samples_[static_cast<size_t>(index)];
  try {
    file->write(sample, to);
  } catch (const BadInput& error) {  // which has the file's name, and the sample's number in it
    throw UnreadableSample("{}", error.what());
  }
}

std::string InputFiles::name(int64_t index) const {
  const auto& [file, sample] = samples_[static_cast<size_t>(index)];
  return file->name(sample);
}

}  // namespace lockstep::data
