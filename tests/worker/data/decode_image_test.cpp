#include "worker/data/decode_image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/types.h>

#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "tests/worker/data/pictures.hpp"

namespace trainyard::data {
namespace {

using fakes::big_endian_text;
using fakes::jpeg_of;
using fakes::plain_picture;
using fakes::png_of;
using testing::HasSubstr;

Result<torch::Tensor> decode_text(const std::string& file) {
  return decode_image({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
}

torch::Tensor gradient(std::int64_t channels) {
  return torch::arange(5 * 7 * channels, torch::kInt32)
      .mul_(3)
      .remainder_(256)
      .to(torch::kUInt8)
      .view({5, 7, channels});
}

/// The largest difference of two pictures of one size.
int difference(const torch::Tensor& one, const torch::Tensor& other) {
  return (one.to(torch::kInt32) - other.to(torch::kInt32)).abs().max().item<int>();
}

TEST(DecodeImage, ReadsPngToTheSamePixels) {
  const torch::Tensor colors = gradient(3);
  EXPECT_TRUE(decode_text(png_of(colors))->equal(colors.permute({2, 0, 1})));
  const torch::Tensor gray = gradient(1);
  EXPECT_TRUE(decode_text(png_of(gray))->equal(gray.permute({2, 0, 1}).expand({3, 5, 7})));
  torch::Tensor transparent = gradient(4);
  EXPECT_TRUE(decode_text(png_of(transparent))->equal(transparent.slice(2, 0, 3).permute({2, 0, 1})))
      << "transparency is dropped";
}

/// A PNG of gray of `depth` bits, whose two rows of `width` pixels are `rows`, each with its filter.
std::string gray_png_of(std::uint32_t width, char depth, const std::string& rows) {
  return std::string{"\x89PNG\r\n\x1a\n"} +
         fakes::png_chunk("IHDR", big_endian_text(width) + big_endian_text(2) + depth + std::string(4, '\0')) +
         fakes::png_chunk("IDAT", fakes::deflated(rows)) + fakes::png_chunk("IEND", "");
}

TEST(DecodeImage, ReadsGrayOfAnyDepthAsEightBits) {
  // 16 bits are rounded, and not cut off: 0x00ff is nearly 1 of 255.
  const auto deep = decode_text(gray_png_of(2, 16, std::string("\0\x00\xff\x80\x80\0\xff\xff\x00\x00", 10)));
  ASSERT_TRUE(deep.has_value()) << deep.error().message;
  EXPECT_TRUE((*deep)[1].equal(torch::tensor({1, 128, 255, 0}, torch::kUInt8).view({2, 2}))) << *deep;
  const auto flat = decode_text(gray_png_of(3, 1, std::string("\0\xa0\0\x40", 4)));
  ASSERT_TRUE(flat.has_value()) << flat.error().message;
  EXPECT_TRUE((*flat)[2].equal(torch::tensor({255, 0, 255, 0, 255, 0}, torch::kUInt8).view({2, 3}))) << *flat;
  const torch::Tensor transparent = gradient(2);
  const auto opaque = decode_text(png_of(transparent));
  ASSERT_TRUE(opaque.has_value()) << opaque.error().message;
  EXPECT_TRUE(opaque->equal(transparent.slice(2, 0, 1).permute({2, 0, 1}).expand({3, 5, 7})));
}

TEST(CheckImageSize, TakesAsManyPixelsAsTheBoundWhateverTheirForm) {
  constexpr std::int64_t most = std::int64_t{1} << 26;
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  for (const auto& [width, height] :
       {std::pair{std::int64_t{8192}, std::int64_t{8192}}, {most, 1}, {1, most}, {1, 1}, {3, most / 3}}) {
    EXPECT_TRUE(check_image_size(width, height)) << width << " " << height;
  }
  for (const auto& [width, height] : {std::pair{std::int64_t{8193}, std::int64_t{8192}},
                                      {8192, 8193},
                                      {most + 1, 1},
                                      {1, most + 1},
                                      {0, 1},
                                      {1, 0},
                                      {-1, -1},
                                      {huge, huge}}) {
    const auto checked = check_image_size(width, height);
    ASSERT_FALSE(checked) << width << " " << height;
    EXPECT_EQ(checked.error().kind, ErrorKind::invalid);
  }
}

TEST(DecodeImage, ReadsJpegToNearlyTheSamePixels) {
  const auto color = decode_text(jpeg_of(plain_picture(9, 12, 200, 30, 90)));
  ASSERT_TRUE(color.has_value()) << color.error().message;
  ASSERT_EQ(color->sizes(), (torch::IntArrayRef{3, 9, 12}));
  EXPECT_LE(difference(*color, plain_picture(9, 12, 200, 30, 90).permute({2, 0, 1})), 2);
  const auto gray = decode_text(jpeg_of(plain_picture(4, 4, 70, 0, 0).slice(2, 0, 1)));
  EXPECT_LE(difference(*gray, plain_picture(4, 4, 70, 70, 70).permute({2, 0, 1})), 1);
  // Inverted: 255 is no ink. (255, 128, 0) of light under a black of 128.
  const torch::Tensor inks = torch::tensor({255, 128, 0, 128}, torch::kUInt8).expand({8, 8, 4});
  const auto printed = decode_text(jpeg_of(inks));
  ASSERT_TRUE(printed.has_value()) << printed.error().message;
  EXPECT_LE(difference(*printed, plain_picture(8, 8, 128, 64, 0).permute({2, 0, 1})), 2);
}

TEST(DecodeImage, ReadsTheInksOfEachFormOfCmyk) {
  const torch::Tensor light = torch::tensor({255, 128, 0, 128}, torch::kUInt8).expand({8, 8, 4});
  const torch::Tensor expected = plain_picture(8, 8, 128, 64, 0).permute({2, 0, 1});
  const auto ycck = decode_text(fakes::ycck_jpeg_of(light));
  ASSERT_TRUE(ycck.has_value()) << ycck.error().message;
  EXPECT_LE(difference(*ycck, expected), 3);
  const auto plain = decode_text(fakes::plain_cmyk_jpeg_of(255 - light));
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_LE(difference(*plain, expected), 3);
}

TEST(DecodeImage, ReadsAnInterlacedPng) {
  // Adam7: of 2 x 2 pixels its first pass has the one at the left above, the sixth that beside it, the last the second
  // row.
  const std::string rows = std::string("\0a\0b\0cd", 7);
  const std::string file =
      std::string{"\x89PNG\r\n\x1a\n"} +
      fakes::png_chunk("IHDR", big_endian_text(2) + big_endian_text(2) + std::string("\x08\0\0\0\x01", 5)) +
      fakes::png_chunk("IDAT", fakes::deflated(rows)) + fakes::png_chunk("IEND", "");
  const auto picture = decode_text(file);
  ASSERT_TRUE(picture.has_value()) << picture.error().message;
  EXPECT_TRUE((*picture)[0].equal(torch::tensor({'a', 'b', 'c', 'd'}, torch::kUInt8).view({2, 2}))) << *picture;
}

TEST(DecodeImage, RefusesAJpegOfManyScans) {
  const torch::Tensor picture = plain_picture(16, 16, 10, 200, 90);
  const auto usual = decode_text(fakes::jpeg_of_scans(picture, 1));
  ASSERT_TRUE(usual.has_value()) << usual.error().message;
  EXPECT_LE(difference(*usual, picture.permute({2, 0, 1})), 2);
  EXPECT_TRUE(decode_text(fakes::jpeg_of_scans(picture, 400)).has_value());
  const auto hostile = decode_text(fakes::jpeg_of_scans(picture, 501));
  ASSERT_FALSE(hostile.has_value());
  EXPECT_EQ(hostile.error().kind, ErrorKind::invalid);
  EXPECT_THAT(hostile.error().message, HasSubstr("it is a JPEG of more than 500 scans"));
}

/// Peak memory of the process.
std::int64_t peak_kib() {
  rusage usage{};
  EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss;
}

TEST(DecodeImage, SkipsTheTextsOfAPngWithoutInflatingThem) {
  const torch::Tensor picture = gradient(3);
  std::string png = png_of(picture);
  // 128 texts of 7 MiB each.
  const std::string text =
      fakes::png_chunk("zTXt", std::string("a\0\0", 3) + fakes::deflated(std::string(7U << 20, 'x')));
  std::string texts;
  for (int number = 0; number < 128; ++number) texts += text;
  constexpr std::size_t header_end = 33;
  png.insert(header_end, texts);
  const std::int64_t before = peak_kib();
  EXPECT_TRUE(decode_text(png)->equal(picture.permute({2, 0, 1})));
  EXPECT_LT(peak_kib() - before, 128 << 10);
}

TEST(DecodeImage, ReadsAPaletteWithTransparency) {
  const std::string file =
      std::string{"\x89PNG\r\n\x1a\n"} +
      fakes::png_chunk("IHDR", big_endian_text(2) + big_endian_text(1) + std::string("\x08\x03\0\0\0", 5)) +
      fakes::png_chunk("PLTE", "abcdef") + fakes::png_chunk("tRNS", "\x07") +
      fakes::png_chunk("IDAT", fakes::deflated(std::string("\0\x01\0", 3))) + fakes::png_chunk("IEND", "");
  const auto picture = decode_text(file);
  ASSERT_TRUE(picture.has_value()) << picture.error().message;
  const torch::Tensor expected = torch::tensor({'d', 'a', 'e', 'b', 'f', 'c'}, torch::kUInt8).view({3, 1, 2});
  EXPECT_TRUE(picture->equal(expected)) << *picture;
}

TEST(DecodeImage, SaysThatMemoryIsMissingWhereTheFileIsWhole) {
  const std::string png = png_of(gradient(3));
  const std::span bytes{reinterpret_cast<const std::uint8_t*>(png.data()), png.size()};
  const auto no_decoder = decode_png(bytes, [](std::size_t) -> void* { return nullptr; });
  ASSERT_FALSE(no_decoder.has_value());
  EXPECT_EQ(no_decoder.error().kind, ErrorKind::unavailable);
  // zlib's state is larger than that.
  const auto no_inflation =
      decode_png(bytes, [](std::size_t size) { return size > 4096 ? nullptr : std::malloc(size); });
  ASSERT_FALSE(no_inflation.has_value());
  EXPECT_EQ(no_inflation.error().kind, ErrorKind::unavailable);

  const std::string progressive = fakes::progressive_jpeg_of(plain_picture(256, 256, 1, 2, 3));
  // libjpeg's own bound, in KiB. It keeps all scans of a progressive picture in memory.
  ASSERT_EQ(setenv("JPEGMEM", "1", 1), 0);
  const auto jpeg = decode_text(progressive);
  ASSERT_EQ(unsetenv("JPEGMEM"), 0);
  ASSERT_FALSE(jpeg.has_value());
  EXPECT_EQ(jpeg.error().kind, ErrorKind::unavailable) << jpeg.error().message;
}

TEST(DecodeImage, ReadsAProgressiveJpeg) {
  const auto picture = decode_text(fakes::progressive_jpeg_of(plain_picture(65, 33, 9, 200, 30)));
  ASSERT_TRUE(picture.has_value()) << picture.error().message;
  EXPECT_LE(difference(*picture, plain_picture(65, 33, 9, 200, 30).permute({2, 0, 1})), 2);
}

TEST(DecodeImage, RefusesBrokenAndHugePictures) {
  const std::string jpeg = jpeg_of(plain_picture(64, 64, 200, 30, 90));
  const std::string png = png_of(torch::randint(0, 256, {64, 64, 3}, torch::kUInt8));
  // The height and width of a JPEG come after the marker of its frame.
  std::string huge_jpeg = jpeg;
  const std::size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  huge_jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  std::string harmed_png = png;
  harmed_png[png.size() / 2] ^= 1;
  std::string wide_png = png;
  wide_png.replace(16, 4, big_endian_text(1U << 24));
  const torch::Tensor noise = torch::randint(0, 256, {64, 64, 3}, torch::kUInt8);
  const std::string noise_jpeg = jpeg_of(noise);
  const std::string cut_noise = noise_jpeg.substr(0, noise_jpeg.size() / 2) + "\xff\xd9";
  const std::string progressive = fakes::progressive_jpeg_of(noise);
  const std::string cut_progressive = progressive.substr(0, progressive.size() - 600) + "\xff\xd9";
  struct Case {
    std::string what, file, message;
    ErrorKind kind;
  };
  const std::vector<Case> cases{
      {"nothing", "", "neither JPEG nor PNG", ErrorKind::corrupt},
      {"text", "hello, world", "neither JPEG nor PNG", ErrorKind::corrupt},
      {"the beginning of a JPEG", jpeg.substr(0, 4), "no whole JPEG", ErrorKind::corrupt},
      {"a cut JPEG", jpeg.substr(0, jpeg.size() / 2), "no whole JPEG", ErrorKind::corrupt},
      {"a JPEG without its last bytes", jpeg.substr(0, jpeg.size() - 2), "no whole JPEG", ErrorKind::corrupt},
      {"a JPEG that ends within its scan, with the mark of its end", cut_noise, "no whole JPEG", ErrorKind::corrupt},
      {"a progressive JPEG that ends so", cut_progressive, "no whole JPEG", ErrorKind::corrupt},
      {"a huge JPEG", huge_jpeg, "it has 65500 x 65500 pixels; from 1 to 67108864 are read", ErrorKind::invalid},
      {"the beginning of a PNG", png.substr(0, 8), "no whole PNG: it ends early", ErrorKind::corrupt},
      {"a cut PNG", png.substr(0, png.size() / 2), "no whole PNG", ErrorKind::corrupt},
      {"a harmed PNG", harmed_png, "no whole PNG", ErrorKind::corrupt},
      {"a PNG with a wrong header", wide_png, "no whole PNG", ErrorKind::corrupt},
  };
  for (const Case& c : cases) {
    const auto picture = decode_text(c.file);
    ASSERT_FALSE(picture.has_value()) << c.what;
    EXPECT_EQ(picture.error().kind, c.kind) << c.what << ": " << picture.error().message;
    EXPECT_THAT(picture.error().message, HasSubstr(c.message)) << c.what;
  }
}

TEST(DecodeImage, EndsWithAPictureOrAnErrorWhateverByteIsHarmed) {
  for (const std::string& whole : {jpeg_of(gradient(3)), png_of(gradient(3))}) {
    for (std::size_t place = 0; place < whole.size(); ++place) {
      std::string harmed = whole;
      harmed[place] = static_cast<char>(~harmed[place]);
      const auto picture = decode_text(harmed);
      if (picture) {
        EXPECT_EQ(picture->dim(), 3);
      }
      (void)decode_text(whole.substr(0, place));
    }
  }
}

}  // namespace
}  // namespace trainyard::data
