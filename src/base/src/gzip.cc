#include "crosscheck/base/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

namespace crosscheck::base {
namespace {

constexpr int k_gzip_window = 15 + 16;  // zlib: the largest window, with gzip's header
constexpr std::size_t k_chunk = 64 * 1024;

// zlib counts in 32 bits: hands it the next part of `input`.
void refill(z_stream& stream, std::string_view& input) {
  if (stream.avail_in != 0) return;
  const std::size_t n = std::min<std::size_t>(input.size(), 1U << 30);
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input.data()));
  stream.avail_in = static_cast<uInt>(n);
  input.remove_prefix(n);
}

}  // namespace

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, k_gzip_window, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc{};
  }
  const std::unique_ptr<z_stream, decltype(&deflateEnd)> guard{&stream, &deflateEnd};
  std::string out;
  std::array<char, k_chunk> chunk;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    refill(stream, bytes);
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = k_chunk;
    status = deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
    out.append(chunk.data(), k_chunk - stream.avail_out);
  }
  return out;
}

Result<std::string> gunzip(std::string_view bytes, std::size_t limit) {
  z_stream stream{};
  if (inflateInit2(&stream, k_gzip_window) != Z_OK) throw std::bad_alloc{};
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> guard{&stream, &inflateEnd};
  std::string out;
  std::array<char, k_chunk> chunk;
  std::string_view input = bytes;
  // A gzip file may be several members, one after the other.
  bool in_member = true;
  bool more_inside = false;  // the output was full: zlib may hold more without new input
  while (true) {
    refill(stream, input);
    if (!in_member) {
      if (stream.avail_in == 0) return out;
      if (inflateReset(&stream) != Z_OK) return fail(Fault::internal, "zlib does not reset");
    }
    if (stream.avail_in == 0 && !more_inside) {
      return fail(Fault::invalid_input,
                  bytes.empty() ? "the gzip data is empty" : "the gzip data is cut off");
    }
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = k_chunk;
    const int status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      return fail(Fault::invalid_input,
                  fmt::format("not gzip data, or garbage after it: {} near byte {}",
                              stream.msg != nullptr ? stream.msg : "damaged",
                              bytes.size() - input.size() - stream.avail_in));
    }
    const std::size_t n = k_chunk - stream.avail_out;
    if (n > limit - out.size()) {
      return fail(Fault::too_large, fmt::format("unpacked, it is over {} bytes", limit));
    }
    out.append(chunk.data(), n);
    more_inside = stream.avail_out == 0;
    in_member = status != Z_STREAM_END;
  }
}

}  // namespace crosscheck::base
