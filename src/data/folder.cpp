// The data set folder:DIR: PNG and JPEG images, one folder per class: DIR/CLASS/..., or
// DIR/train/CLASS/... with DIR/test/CLASS/... (or val). A split of up to 1 GiB is decoded into
// memory; images of larger ones are decoded whenever they are read. Option: image_size scales
// images (by their shorter side) and crops them to a centred square of this size; 0: images are
// used as they are, and must all have the same size.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "data/dataset.h"
#include "data/datasets.h"
#include "data/image.h"
#include "data/image_files.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestSide = 4096;

struct LabelledImage {
  fs::path file;
  int64_t label = 0;
  Image header = {};  ///< without pixels
};

struct Listing {
  std::vector<std::string> class_names;
  std::vector<LabelledImage> images;
};

Listing list_images(const fs::path& folder) {
  Listing listing;
  for (const auto& path : folders_in(folder)) {
    const auto label = static_cast<int64_t>(listing.class_names.size());
    listing.class_names.push_back(path.filename().string());
    const std::vector<fs::path> files = images_in(path);
    if (files.empty())
      throw BadInput(
          "{}: no .png, .jpg or .jpeg in this class's folder; add images or remove the folder",
          path.string());
    for (const auto& file : files)
      listing.images.push_back({file, label, read_image(file, Decode::header)});
  }
  if (listing.images.empty())
    throw BadInput(
        "{}: no class folders: expected CLASS/*.png or *.jpg, or the same under train "
        "and test",
        folder.string());
  return listing;
}

void require_one_size(const LabelledImage& first, const std::vector<LabelledImage>& images) {
  for (const auto& [file, label, header] : images)
    if (header.width != first.header.width || header.height != first.header.height)
      throw BadInput(
          "{} is {} x {}, {} is {} x {} (width x height); set data.options.image_size to scale "
          "and crop all to squares of one size",
          first.file.string(), first.header.width, first.header.height, file.string(), header.width,
          header.height);
}

bool all_grey(const std::vector<LabelledImage>& images) {
  return std::all_of(images.begin(), images.end(),
                     [](const LabelledImage& one) { return one.header.channels == 1; });
}

uintmax_t size_of(const fs::path& file) {
  std::error_code failure;
  const uintmax_t size = fs::file_size(file, failure);
  if (failure) throw BadInput("{}: cannot be read: {}", file.string(), failure.message());
  return size;
}

class FolderDataset final : public Dataset {
 public:
  FolderDataset(Listing listing, Shape shape, int64_t image_size)
      : images_(std::move(listing.images)),
        image_size_(image_size),
        fields_{{{"image", Type::u8, std::move(shape)}},
                {label_field(std::move(listing.class_names))}} {}

  int64_t size() const override { return static_cast<int64_t>(images_.size()); }
  const Fields& fields() const override { return fields_; }

  void write(int64_t index, const Sample& to) const override {
    const LabelledImage& one = images_[static_cast<size_t>(index)];
    Image image = read_image(one.file);
    if (image_size_ > 0) image = scale_to_square(image, image_size_);
    const Shape& shape = fields_.inputs[0].shape;
    if (image.height != shape[1] || image.width != shape[2])
      throw BadInput("{}: has changed since the start: it is {} x {} now, and was {} x {}",
                     one.file.string(), image.width, image.height, shape[2], shape[1]);
    write_planes(image, shape, to.as<uint8_t>(0));
    to.as<int64_t>(1)[0] = one.label;
  }

  // Of the files, since decoding all images would take minutes.
  std::string digest() const override {
    constexpr int64_t kFiles = 65'536;
    Digest digest(Digest::Kind::sha256);
    digest.add(to_string(fields_.inputs[0].shape) + "\n");
    for (const std::string& name : fields_.targets[0].categories) digest.add(name + "\n");
    for (const LabelledImage& one : images_)
      digest.add(
          fmt::format("{} {} {}\n", one.file.filename().string(), one.label, size_of(one.file)));
    for (const int64_t sample : spread_samples(*this, kFiles))
      digest.add(digest_file(Digest::Kind::sha256, images_[static_cast<size_t>(sample)].file));
    return digest.hex();
  }

 private:
  const std::vector<LabelledImage> images_;
  const int64_t image_size_;
  const Fields fields_;
};

// Another split may lack a class, but must not have additional ones.
void use_classes_of(const Listing& train, Listing& other, const fs::path& folder) {
  for (auto& one : other.images) {
    const std::string& name = other.class_names[static_cast<size_t>(one.label)];
    const auto found = std::find(train.class_names.begin(), train.class_names.end(), name);
    if (found == train.class_names.end())
      throw BadInput(
          "{}: class '{}' is not in the training split; add training images of it or remove it",
          folder.string(), name);
    one.label = found - train.class_names.begin();
  }
  other.class_names = train.class_names;
}

int64_t image_size_from(const Options& options) {
  const int64_t side = options.integer("image_size", 0);
  if (side < 0 || side > kLargestSide)
    throw BadInput("data.options.image_size = {}: expected 0 (as they are) to {}", side,
                   kLargestSide);
  return side;
}

Splits load_folder(const DatasetOptions& options) {
  const fs::path folder = folder_argument(options, "folder");
  const int64_t side = image_size_from(options.options);
  std::vector<fs::path> folders = {folder};
  if (fs::is_directory(folder / "train")) {
    folders[0] = folder / "train";
    for (const char* other : {"test", "val"})
      if (fs::is_directory(folder / other)) folders.push_back(folder / other);
  }
  std::vector<Listing> listings;
  for (const fs::path& split : folders) {
    listings.push_back(list_images(split));
    use_classes_of(listings.front(), listings.back(), split);
  }
  const LabelledImage first = listings[0].images.front();
  bool grey = true;
  for (const Listing& listing : listings) {
    if (side == 0) require_one_size(first, listing.images);
    grey = grey && all_grey(listing.images);
  }
  const Shape shape = {grey ? 1 : 3, side > 0 ? side : first.header.height,
                       side > 0 ? side : first.header.width};
  const auto make = [&](Listing& listing) {
    return in_memory_if_small(std::make_shared<FolderDataset>(std::move(listing), shape, side));
  };
  Splits splits;
  if (listings[0].class_names.size() == 1)
    splits.warnings.push_back(
        fmt::format("{}: '{}' is the only class: there is nothing to tell apart", folder.string(),
                    listings[0].class_names[0]));
  splits.train = make(listings[0]);
  if (listings.size() > 1) splits.test = make(listings[1]);
  if (listings.size() > 2) splits.validation = make(listings[2]);
  return splits;
}

const bool folder_added = datasets().add(
    {"folder",
     "your own images: DIR/CLASS/*.png|jpg, or DIR/train, test and val; option: image_size", "DIR",
     load_folder});

}  // namespace
}  // namespace lockstep::data
