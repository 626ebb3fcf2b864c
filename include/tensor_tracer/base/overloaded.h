#pragma once

namespace tt::base {

/// The handlers of std::visit, one for each type:
///
///     std::visit(Overloaded{[](const A&) { … }, [](const B&) { … }}, variant);
template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace tt::base
