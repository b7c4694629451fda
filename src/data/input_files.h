#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::data {

/// Samples without targets, to be used with a trained model: images (PNG or JPEG, one sample each),
/// folders of images, and .npy arrays (any number of samples each).
class InputFiles final : public Dataset {
 public:
  /// `input` is the model's input, as its data set had it; `options` are those of that data set:
  /// image_size scales images, layout is that of .npy arrays. Throws BadInput with the file's name
  /// for one that does not exist, is neither an image nor an array, or does not fit `input`.
  InputFiles(const std::vector<std::filesystem::path>& paths, const Field& input,
             const Options& options);
  ~InputFiles() override;

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  const Fields& fields() const override { return fields_; }
  void write(int64_t index, const Sample& to) const override;

  /// "cat.png", or "x.npy[17]".
  std::string name(int64_t index) const;

 private:
  class File;
  class ImageFile;
  class ArrayFile;

  void add(const std::filesystem::path& path, const Options& options);

  const Fields fields_;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::pair<const File*, int64_t>> samples_;  ///< a file, and which of its samples
};

}  // namespace lockstep::data
