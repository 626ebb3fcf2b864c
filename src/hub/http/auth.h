#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

/// Access to the hub by token: docs/protocol.md, "Connecting". Pure functions; thread: any.
namespace tt::hub {

/// The rights that a token gives.
enum class Right { kView, kControl, kWork };

/// Compares in a time that depends only on the lengths.
bool equal_constant_time(std::string_view a, std::string_view b);

using Names = std::span<const std::string>;

/// True for localhost, 127.0.0.1, [::1] or one of `others`, with any port or without one. Any other
/// name may be a name that a stranger's DNS points to this machine.
bool host_allowed(std::string_view host, Names others = {});

/// `origin` is the header that a browser sent, if any. `host` has passed host_allowed. True if the
/// origin is http:// with `host`, or one of `others`.
bool origin_allowed(std::optional<std::string_view> origin, std::string_view host,
                    Names others = {});

/// The token of "Bearer <token>".
std::optional<std::string_view> bearer_token(std::string_view authorization);

/// The value of `name` in the query of a request's target, without decoding: a token needs no
/// escaping.
std::optional<std::string_view> query_value(std::string_view target, std::string_view name);

/// The value of one cookie of a Cookie header.
std::optional<std::string_view> cookie_value(std::string_view header, std::string_view name);

}  // namespace tt::hub
