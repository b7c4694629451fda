#include "data/folder.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "data/hold_out.h"
#include "data/image.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestSide = 4096;

struct LabelledImage {
  fs::path file;
  int32_t label = 0;
  Image image;
};

struct Listing {
  std::vector<std::string> class_names;
  std::vector<LabelledImage> images;  // not decoded yet
};

// What archives and file managers leave behind.
bool is_litter(const std::string& name) {
  return name.starts_with('.') || name == "__MACOSX";
}

// Sorted, so that the order does not depend on the file system.
template <typename Wanted>
std::vector<fs::path> sorted_entries(const fs::path& folder, Wanted wanted) {
  std::error_code failure;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, failure))
    if (!is_litter(entry.path().filename().string()) && wanted(entry))
      found.push_back(entry.path());
  if (failure) throw BadInput("{}: cannot be read: {}", folder.string(), failure.message());
  std::sort(found.begin(), found.end());
  return found;
}

bool is_image(const fs::directory_entry& entry) {
  std::string extension = entry.path().extension().string();
  for (char& letter : extension)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return entry.is_regular_file() &&
         (extension == ".png" || extension == ".jpg" || extension == ".jpeg");
}

Listing list_images(const fs::path& folder) {
  Listing listing;
  for (const auto& path :
       sorted_entries(folder, [](const auto& entry) { return entry.is_directory(); })) {
    const auto label = static_cast<int32_t>(listing.class_names.size());
    listing.class_names.push_back(path.filename().string());
    const std::vector<fs::path> files = sorted_entries(path, is_image);
    if (files.empty())
      throw BadInput(
          "{}: no .png, .jpg or .jpeg in this class's folder; add images or take it "
          "away",
          path.string());
    for (const auto& file : files) listing.images.push_back({file, label, {}});
  }
  if (listing.images.empty())
    throw BadInput(
        "{}: no class folders: expected CLASS/*.png or *.jpg, or the same under train "
        "and test",
        folder.string());
  return listing;
}

void decode(std::vector<LabelledImage>& images, int64_t image_size) {
  for (auto& [file, label, image] : images) {
    image = read_image(file);
    if (image_size > 0) image = scale_to_square(image, image_size);
  }
}

void require_one_size(const LabelledImage& first, const std::vector<LabelledImage>& images) {
  for (const auto& [file, label, image] : images)
    if (image.width != first.image.width || image.height != first.image.height)
      throw BadInput(
          "{} is {} x {}, {} is {} x {} (width x height): give data.image_size to scale "
          "and crop all to one square",
          first.file.string(), first.image.width, first.image.height, file.string(), image.width,
          image.height);
}

bool all_grey(const std::vector<LabelledImage>& images) {
  return std::all_of(images.begin(), images.end(),
                     [](const LabelledImage& one) { return one.image.channels == 1; });
}

// Appends the image plane by plane; a grey one gives its only plane for each channel.
void append_planes(const Image& image, int64_t channels, std::vector<uint8_t>& values) {
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t from = image.channels == 1 ? 0 : c;
    for (int64_t p = 0; p < image.width * image.height; ++p)
      values.push_back(image.pixels[static_cast<size_t>(p * image.channels + from)]);
  }
}

Dataset assemble(Listing listing, int64_t channels) {
  const Image& first = listing.images.front().image;
  Dataset dataset;
  dataset.shape = {channels, first.height, first.width};
  dataset.class_names = std::move(listing.class_names);
  std::vector<uint8_t> values;
  values.reserve(listing.images.size() * static_cast<size_t>(elements(dataset.shape)));
  for (auto& [file, label, image] : listing.images) {
    append_planes(image, channels, values);
    dataset.labels.push_back(label);
    image = {};  // so that the images and the data set are not both held to the end
  }
  dataset.values = std::move(values);
  return dataset;
}

// The test split may lack a class, but not have one of its own.
void use_classes_of(const Listing& train, Listing& test, const fs::path& folder) {
  for (auto& one : test.images) {
    const std::string& name = test.class_names[static_cast<size_t>(one.label)];
    const auto found = std::find(train.class_names.begin(), train.class_names.end(), name);
    if (found == train.class_names.end())
      throw BadInput(
          "{}: class '{}' is not in the training split; add training images of it or "
          "take it away",
          folder.string(), name);
    one.label = static_cast<int32_t>(found - train.class_names.begin());
  }
  test.class_names = train.class_names;
}

}  // namespace

Splits load_folder(const fs::path& folder, const SourceOptions& options) {
  if (options.image_size < 0 || options.image_size > kLargestSide)
    throw BadInput("data.image_size {}: expected 0 (as they are) to {}", options.image_size,
                   kLargestSide);
  const fs::path held = fs::is_directory(folder / "test") ? folder / "test" : folder / "val";
  const bool has_train = fs::is_directory(folder / "train");
  const bool has_test = has_train && fs::is_directory(held);

  Listing train = list_images(has_train ? folder / "train" : folder);
  decode(train.images, options.image_size);
  require_one_size(train.images.front(), train.images);
  const int64_t channels = all_grey(train.images) ? 1 : 3;
  if (!has_test)
    return hold_out(assemble(std::move(train), channels), options.test_fraction,
                    static_cast<uint64_t>(options.hold_out_seed));

  Listing test = list_images(held);
  use_classes_of(train, test, held);
  decode(test.images, options.image_size);
  require_one_size(train.images.front(), test.images);
  const int64_t both = std::max<int64_t>(channels, all_grey(test.images) ? 1 : 3);
  Splits splits;
  splits.train = assemble(std::move(train), both);
  splits.test = assemble(std::move(test), both);
  return splits;
}

}  // namespace lockstep::data
