#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

namespace trainyard::fakes {

/// A JPEG file of `picture`, uint8 [H, W, C]: gray (1), red, green and blue (3), or Adobe's inverted CMYK (4).
[[nodiscard]] std::string jpeg_of(const torch::Tensor& picture);
/// A JPEG file of CMYK, uint8 [H, W, 4], as programs other than Adobe's write it: without their mark, and 0 is no ink.
[[nodiscard]] std::string plain_cmyk_jpeg_of(const torch::Tensor& picture);
/// A JPEG file of Adobe's inverted CMYK, uint8 [H, W, 4], whose inks are stored as luminance and colour (YCCK).
[[nodiscard]] std::string ycck_jpeg_of(const torch::Tensor& picture);
/// A JPEG file of several scans, each of which adds to the picture, of which the first is there `count` times.
[[nodiscard]] std::string jpeg_of_scans(const torch::Tensor& picture, int count);
/// A PNG file of `picture`, uint8 [H, W, C]: gray (1), with transparency (2), colours (3), with transparency (4).
[[nodiscard]] std::string png_of(const torch::Tensor& picture);
/// A chunk of a PNG file: its length, type, bytes and checksum.
[[nodiscard]] std::string png_chunk(const std::string& type, const std::string& bytes);
/// `bytes` compressed by zlib, as they are in a PNG's chunks.
[[nodiscard]] std::string deflated(const std::string& bytes);
/// A progressive JPEG file of `picture`, uint8 [H, W, 3].
[[nodiscard]] std::string progressive_jpeg_of(const torch::Tensor& picture);
/// The big-endian bytes of a 32-bit number.
[[nodiscard]] std::string big_endian_text(std::uint32_t number);
/// uint8 [height, width, 3] of one color.
[[nodiscard]] torch::Tensor plain_picture(std::int64_t height, std::int64_t width, int red, int green, int blue);

}  // namespace trainyard::fakes
