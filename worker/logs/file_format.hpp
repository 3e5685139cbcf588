#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "worker/logs/record.hpp"

/// The bytes of each kind of log file. A file consists of parts, because an object store cannot append to an object:
/// the last part is replaced by a longer one, and a full part is never touched again. Pure.
///
/// TensorBoard's event files are a row of records, each a protocol buffer `Event` with its length and checksums before
/// and after it. Source: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto, and TFRecord.
namespace trainyard::logs {

/// The record with which each event file begins: its format's version.
[[nodiscard]] std::string event_file_version(Time time);

/// The record that makes TensorBoard drop what earlier attempts wrote for the steps after `start.step`.
[[nodiscard]] std::string event_of(const Start& start);

/// One record with the values of `record`, as scalars of type float. A value over steps has the tag NAME, others
/// "epoch/NAME" and "validation/NAME".
[[nodiscard]] std::string event_of_values(const Record& record);

/// One record with `image` as a PNG file, whose tag is the image's name. Errors: those of encode_png().
[[nodiscard]] Result<std::string> event_of_image(const snapshot::UnencodedImage& image, Time time);

/// `data` as one record of a TFRecord file.
[[nodiscard]] std::string to_record(std::string_view data);

/// Names one part. Names of one kind, sorted as texts, are in the order in which their parts were written, as far as
/// the runs' clocks agree.
struct PartName {
  Time run_began;  ///< Keeps runs of different jobs in one folder apart: their attempts begin at 1 each.
  std::int64_t attempt = 1;
  std::int64_t part = 1;  ///< From 1 in each attempt.
};

/// The part's key in the folder of log files.
[[nodiscard]] std::string key_of(api::LogFile file, const PartName& name);

/// The bytes with which each part begins.
[[nodiscard]] std::string header_of(api::LogFile file, Time time);
[[nodiscard]] std::string encode(api::LogFile file, const Start& start);
/// Images are written to `tensorboard` only. An image that cannot be encoded is left out, and a warning names it.
[[nodiscard]] std::string encode(api::LogFile file, const Record& record);

}  // namespace trainyard::logs
