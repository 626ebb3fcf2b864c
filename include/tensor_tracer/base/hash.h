#pragma once

#include <cstdint>
#include <string_view>

namespace tt::base {

/// FNV-1a of the text.
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// Mixes two numbers into one 64-bit number (the finaliser of SplitMix64, Steele et al. 2014).
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15 + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace tt::base
