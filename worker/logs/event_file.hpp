#pragma once

#include <string>
#include <string_view>

#include "common/result.hpp"
#include "worker/logs/record.hpp"

/// TensorBoard's event files: a row of records, each a protocol buffer `Event` with its length and checksums before and
/// after it. Source: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto and the TFRecord format.
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

}  // namespace trainyard::logs
