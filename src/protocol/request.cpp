#include "tensor_tracer/protocol/request.h"

#include <type_traits>
#include <utility>
#include <vector>

#include "tensor_tracer/protocol/message.h"

namespace tt::protocol {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxShownBytes = 64;  // of a name that came from outside

template <typename Value>
struct Plain {
  using Type = Value;
  static constexpr bool kIsOptional = false;
};
template <typename Value>
struct Plain<std::optional<Value>> {
  using Type = Value;
  static constexpr bool kIsOptional = true;
};

template <typename Limit>
std::string limits(double least, double most) {
  return json(static_cast<Limit>(least)).dump() + " to " + json(static_cast<Limit>(most)).dump();
}

/// The form that `given` should have; empty if `given` has this form.
template <typename Value>
std::string find_fault(const json& given, double least, double most) {
  const auto is_within = [&](double number) { return number >= least && number <= most; };
  if constexpr (std::is_same_v<Value, bool>) {
    return given.is_boolean() ? "" : "true or false";
  } else if constexpr (std::is_same_v<Value, std::string>) {
    const auto* text = given.get_ptr<const std::string*>();
    return text != nullptr && is_within(static_cast<double>(text->size()))
               ? ""
               : "a text of " + limits<std::size_t>(least, most) + " bytes";
  } else if constexpr (std::is_same_v<Value, std::uint64_t>) {
    return given.is_number_unsigned() && is_within(given.get<double>())
               ? ""
               : "a whole number from " + limits<std::uint64_t>(least, most);
  } else if constexpr (std::is_same_v<Value, double>) {
    return given.is_number() && is_within(given.get<double>())
               ? ""
               : "a number from " + limits<double>(least, most);
  }
  return "";
}

template <typename Request, typename Value>
base::Status read_member(const Field<Request, Value>& field, const json& params, Request& request) {
  using PlainValue = typename Plain<Value>::Type;
  const auto given = params.find(field.name);
  if (given == params.end()) {
    return Plain<Value>::kIsOptional
               ? base::Status()
               : base::invalid_argument(std::string(field.name), "is missing");
  }
  if (const auto fault = find_fault<PlainValue>(*given, field.least, field.most); !fault.empty())
    return base::invalid_argument(std::string(field.name), "must be " + fault);
  request.*field.member = given->template get<PlainValue>();
  return {};
}

template <typename Request>
base::Result<Request> read_params(const json& params) {
  return std::apply(
      [&](const auto&... field) -> base::Result<Request> {
        Request request;
        base::Status status = check_members(params, {field.name...});
        ((status = status.ok() ? read_member(field, params, request) : status), ...);
        return status.ok() ? base::Result<Request>(std::move(request)) : status.error();
      },
      Request::kFields);
}

template <typename Request>
json write_params(const Request& request) {
  json params = json::object();
  const auto write = [&](std::string_view name, const auto& value) {
    if constexpr (!Plain<std::remove_cvref_t<decltype(value)>>::kIsOptional)
      params[name] = value;
    else if (value)
      params[name] = *value;
  };
  std::apply([&](const auto&... field) { (write(field.name, request.*field.member), ...); },
             Request::kFields);
  return params;
}

/// Nothing if no row of the variant `Table` has this method.
template <typename Any, typename... Requests>
std::optional<base::Result<Any>> find_and_read(
    std::type_identity<std::variant<Requests...>> /*table*/, bool is_from_viewer,
    std::string_view method, const json& params) {
  std::optional<base::Result<Any>> found;
  const auto try_row = [&]<typename Request>(std::type_identity<Request>) {
    const Row& row = Request::kRow;
    if (row.method == method && (row.from_viewers || !is_from_viewer)) {
      auto request = read_params<Request>(params);
      found = request.ok()
                  ? base::Result<Any>(std::variant<Requests...>(std::move(request).value()))
                  : base::Result<Any>(request.error());
    }
  };
  (try_row(std::type_identity<Requests>()), ...);
  return found;
}

}  // namespace

base::Error unknown_method(std::string_view method) {
  return {.code = "unknown_method",
          .message = "there is no such request here",
          .where = std::string(method.substr(0, kMaxShownBytes)),
          .remedy = "see docs/protocol.md"};
}

bool needs_lease(std::string_view method) {
  const auto is_found = [&]<typename... Requests>(std::type_identity<std::variant<Requests...>>) {
    return ((Requests::kRow.method == method && Requests::kRow.needs_lease &&
             Requests::kRow.from_viewers) ||
            ...);
  };
  return is_found(std::type_identity<HubRequest>()) ||
         is_found(std::type_identity<TrainerRequest>());
}

base::Result<std::variant<HubRequest, TrainerRequest>> parse_viewer_request(std::string_view method,
                                                                            const json& params) {
  using Any = std::variant<HubRequest, TrainerRequest>;
  auto found = find_and_read<Any>(std::type_identity<HubRequest>(), true, method, params);
  if (!found)
    found = find_and_read<Any>(std::type_identity<TrainerRequest>(), true, method, params);
  return found ? std::move(*found) : unknown_method(method);
}

base::Result<TrainerRequest> parse_trainer_request(std::string_view method, const json& params) {
  auto found =
      find_and_read<TrainerRequest>(std::type_identity<TrainerRequest>(), false, method, params);
  return found ? std::move(*found) : unknown_method(method);
}

base::Result<ViewerHello> parse_viewer_hello(const json& params) {
  return read_params<ViewerHello>(params);
}

base::Result<WorkerHello> parse_worker_hello(const json& params) {
  return read_params<WorkerHello>(params);
}

base::Result<SetAlarm> parse_alarm(const json& params) { return read_params<SetAlarm>(params); }

const Row& row_of(const TrainerRequest& request) {
  return std::visit([](const auto& one) -> const Row& { return one.kRow; }, request);
}

json params_of(const TrainerRequest& request) {
  return std::visit([](const auto& one) { return write_params(one); }, request);
}

json params_of(const SetAlarm& alarm) { return write_params(alarm); }

std::string encode_request(std::uint64_t id, const TrainerRequest& request) {
  return encode_request(id, row_of(request).method, params_of(request));
}

}  // namespace tt::protocol
