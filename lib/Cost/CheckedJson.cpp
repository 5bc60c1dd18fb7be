// A pass over the text that keeps the keys of the objects it is in.
#include "colossal/Cost/CheckedJson.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace colossal::cost {

namespace {

using nlohmann::json;

class Keys : public nlohmann::json_sax<json> {
public:
  explicit Keys(std::string_view text) : text(text) {}
  JsonFlaw flaw;

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t &) override { return value(); }
  bool string(string_t &) override { return value(); }
  bool binary(binary_t &) override { return value(); }
  bool start_object(std::size_t) override {
    inside.push_back({true, {}, "", 0});
    return true;
  }
  bool start_array(std::size_t) override {
    inside.push_back({false, {}, "", 0});
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t &name) override {
    Level &level = inside.back();
    if (!level.seen.insert(name).second) {
      flaw = {place(), "key '" + name + "' stands twice"};
      return false;
    }
    level.key = name;
    return true;
  }
  bool parse_error(std::size_t position, const std::string &, const json::exception &) override {
    std::string_view before = text.substr(0, std::min(position > 0 ? position - 1 : 0, text.size()));
    auto line = std::count(before.begin(), before.end(), '\n') + 1;
    std::size_t start = before.rfind('\n');
    std::size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
    flaw = {"", "is not JSON: line " + std::to_string(line) + ", column " + std::to_string(column)};
    return false;
  }

private:
  struct Level {
    bool isObject;
    std::set<std::string> seen;
    std::string key;
    std::size_t index; ///< of the value at hand, in an array
  };
  bool value() {
    if (!inside.empty())
      ++inside.back().index;
    return true;
  }
  bool end() {
    inside.pop_back();
    return value();
  }
  /// Of the object at hand.
  std::string place() const {
    std::string path;
    for (std::size_t i = 0; i + 1 < inside.size(); ++i)
      path += inside[i].isObject ? (path.empty() ? "" : ".") + inside[i].key
                                 : "[" + std::to_string(inside[i].index) + "]";
    return path;
  }

  std::string_view text;
  std::vector<Level> inside;
};

} // namespace

JsonFlaw findJsonFlaw(std::string_view text) {
  Keys keys(text);
  json::sax_parse(text.begin(), text.end(), &keys);
  return keys.flaw;
}

} // namespace colossal::cost
