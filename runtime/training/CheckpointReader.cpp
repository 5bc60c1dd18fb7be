// A manifest, read as an attacker's, and elements out of the boxes that it names.
#include "runtime/training/Checkpoint.h"
#include "runtime/training/CheckpointFolder.h"

#include "colossal/Plan/OutputFile.h"

#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <unistd.h>

namespace colossal::runtime {

namespace {

using nlohmann::json;

constexpr uint64_t mostElements = uint64_t(1) << 46;

/// What a file of the checkpoint is, whatever is wrong in it, and whoever has made it so.
Status bad(const std::string &what) {
  return {Code::Io, what};
}

/// A JSON library's words without the number that it begins with: "key 'step' not found".
std::string describe(const json::exception &error) {
  const std::string text = error.what();
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

std::string digestOf(const SafetensorsFile &file) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(file.mapped().data(), file.mapped().size()));
  std::string text;
  for (unsigned char byte : canonical.digest) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

bool typeNamed(const std::string &name, plan::DataType &type) {
  for (int value = plan::F32; value < plan::STRING; ++value) {
    type = static_cast<plan::DataType>(value);
    if (name == plan::dataTypeName(type) && !plan::isNarrow(type))
      return true;
  }
  return false;
}

Status readBox(const json &rows, uint64_t elements, StateBox &box) {
  uint64_t whole = 1;
  for (const json &row : rows) {
    const auto values = row.get<std::vector<uint64_t>>();
    if (values.size() != 3 || values[0] == 0 || values[0] > mostElements || values[1] > values[0] ||
        values[2] > values[0] - values[1] || (whole *= values[0]) > mostElements)
      return bad("a box is out of range");
    box.dims.push_back({values[0], values[1], values[2]});
  }
  return whole == elements && box.dims.size() <= 64 ? Status() : bad("a box is of another shape");
}

/// Whether boxes that have `elements` in all meet nowhere.
bool areDisjoint(const std::vector<Checkpoint::Saved::Part> &parts) {
  for (size_t a = 0; a < parts.size(); ++a)
    for (size_t b = a + 1; b < parts.size(); ++b) {
      const auto &first = parts[a].box.dims, &second = parts[b].box.dims;
      bool meet = first.size() == second.size();
      for (size_t d = 0; d < first.size() && meet; ++d) {
        if (first[d].global != second[d].global)
          return false; // refined in different ways: nobody writes so
        meet = first[d].start < second[d].start + second[d].valid &&
               second[d].start < first[d].start + first[d].valid;
      }
      if (meet || first.size() != second.size())
        return false;
    }
  return true;
}

Status readState(const json &row, const std::vector<std::unique_ptr<SafetensorsFile>> &files,
                 Checkpoint::Saved &state) {
  plan::State &description = state.description;
  description.set_name(row.at("name").get<std::string>());
  const std::string kind = row.at("kind").get<std::string>();
  description.set_kind(kind == "parameter" ? plan::State::PARAMETER
                       : kind == "slot"    ? plan::State::SLOT
                                           : plan::State::STATISTIC);
  description.set_parameter(row.at("parameter").get<std::string>());
  description.set_slot(row.value("slot", ""));
  for (const std::string &name : row.value("tied", std::vector<std::string>()))
    description.add_tied(name);
  for (const std::string &name : row.value("transposed", std::vector<std::string>()))
    description.add_transposed(name);
  state.shape = row.at("shape").get<std::vector<uint64_t>>();
  uint64_t elements = 0, held = 0;
  if (!typeNamed(row.at("type").get<std::string>(), state.type) ||
      !tensorElements(state.type, state.shape, elements))
    return bad("its type or shape is not valid");
  const uint64_t size = plan::elementBytes(state.type);
  for (const json &part : row.at("parts")) {
    Checkpoint::Saved::Part read;
    const auto file = part.at("file").get<size_t>();
    if (file >= files.size())
      return bad("there is no file " + std::to_string(file));
    read.file = files[file].get();
    COLOSSAL_RETURN_IF_ERROR(readBox(part.at("box"), elements, read.box));
    const auto name = part.at("tensor").get<std::string>();
    const auto entry = read.file->entries().find(name);
    if (entry == read.file->entries().end() || entry->second.type != state.type ||
        entry->second.bytes != read.box.elements() * size)
      return bad("tensor '" + name + "' of " + read.file->mapped().path() + " is not what the manifest says");
    read.offset = entry->second.offset;
    held += read.box.elements();
    state.parts.push_back(std::move(read));
  }
  if (held != elements || !areDisjoint(state.parts))
    return bad("its parts do not hold each element once");
  return {};
}

/// "a, b and 3 more"
std::string listNames(const std::vector<std::string> &names) {
  constexpr size_t most = 3;
  std::string text;
  for (size_t i = 0; i < std::min(most, names.size()); ++i)
    text += (i ? ", " : "") + names[i];
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more" : text;
}

const plan::Program *findRole(const plan::Plan &plan, plan::Program::Role role) {
  for (const plan::Program &program : plan.programs())
    if (program.role() == role)
      return &program;
  return nullptr;
}

} // namespace

Status Checkpoint::openOne(const std::string &folder, std::unique_ptr<Checkpoint> &checkpoint) {
  std::unique_ptr<Checkpoint> opened(new Checkpoint);
  opened->folder = folder;
  Status status;
  try {
    status = opened->readManifest();
  } catch (const json::exception &error) {
    status = bad("its manifest.json is damaged: " + describe(error));
  }
  if (!status.ok())
    return {status.code(), "checkpoint " + folder + ": " + status.message()};
  checkpoint = std::move(opened);
  return {};
}

std::string Checkpoint::findWholeBefore(const std::string &damaged) {
  std::map<uint64_t, std::string> found;
  if (!listCheckpoints(runFolder(damaged), found).ok())
    return "";
  bool isBefore = false;
  for (auto each = found.rbegin(); each != found.rend(); ++each) {
    std::unique_ptr<Checkpoint> opened;
    if (isBefore && openOne(each->second, opened).ok())
      return each->second;
    isBefore |= plan::isSameFile(each->second, damaged);
  }
  return "";
}

Status Checkpoint::open(const std::string &folder, std::unique_ptr<Checkpoint> &checkpoint) {
  std::string one = folder;
  if (::access((folder + "/" + manifestName).c_str(), F_OK) != 0) {
    std::map<uint64_t, std::string> found;
    COLOSSAL_RETURN_IF_ERROR(listCheckpoints(folder, found));
    if (found.empty())
      return {Code::NotFound, "there is no checkpoint in " + folder +
                                  ": neither a manifest.json nor a folder step-N that has one"};
    one = found.rbegin()->second;
  }
  Status status = openOne(one, checkpoint);
  if (status.ok())
    return status;
  const std::string before = findWholeBefore(one);
  return before.empty()
             ? status
             : Status(status.code(), status.message() + ". " + before + ", before it, is whole: --resume " +
                                         before + " goes on from there");
}

Status Checkpoint::readManifest() {
  MappedFile mapped;
  COLOSSAL_RETURN_IF_ERROR(MappedFile::open(folder + "/" + manifestName, mapped));
  const char *begin = reinterpret_cast<const char *>(mapped.data());
  const json manifest = json::parse(begin, begin + mapped.size(), nullptr, false);
  if (manifest.is_discarded())
    return bad("its manifest.json is damaged: it is no JSON, or only a part of it");
  if (!manifest.is_object() || manifest.value("format", "") != "colossal-checkpoint")
    return bad("its manifest.json is not that of a checkpoint");
  if (manifest.at("version").get<uint64_t>() != 1)
    return {Code::Unsupported, "it has version " + manifest.at("version").dump() + "; this runtime reads 1"};
  atStep = manifest.at("step").get<uint64_t>();
  trainedBy = manifest.at("optimizer").get<std::string>();
  trainedFor = manifest.at("loss").get<std::string>();
  modelPath = manifest.at("model").get<std::string>();
  text = manifest.at("notes").get<std::string>();
  for (const json &row : manifest.at("files")) {
    const std::string name = row.at("name").get<std::string>();
    if (name.empty() || name.find('/') != std::string::npos)
      return bad("a file has the name '" + name + "'");
    auto file = std::make_unique<SafetensorsFile>();
    const std::string path = folder + "/" + name;
    if (Status status = SafetensorsFile::open(path, *file); !status.ok())
      return bad(name + " is damaged, or not there: " + status.message());
    if (file->mapped().size() != row.at("bytes").get<uint64_t>() ||
        digestOf(*file) != row.at("xxh3_128").get<std::string>())
      return {Code::Io, name + " is damaged: its size or digest is not what was written"};
    files.push_back(std::move(file));
  }
  std::set<std::string> names;
  for (const json &row : manifest.at("states")) {
    Saved state;
    Status status = readState(row, files, state);
    const std::string name = state.description.name();
    if (status.ok() && !names.insert(name).second)
      status = bad("it is there twice");
    if (!status.ok())
      return {status.code(), "state '" + name + "': " + status.message()};
    saved.push_back(std::move(state));
  }
  return {};
}

std::vector<std::string> Checkpoint::paths() const {
  std::vector<std::string> all = {folder + "/" + manifestName};
  for (const std::unique_ptr<SafetensorsFile> &file : files)
    all.push_back(file->mapped().path());
  return all;
}

Status Checkpoint::compare(const plan::Plan &plan) const {
  const plan::Program *restore = findRole(plan, plan::Program::RESTORE);
  if (!restore)
    return {Code::InvalidArgument, "the plan trains nothing: it was not compiled with --training"};
  std::string differences;
  const auto differ = [&](const std::string &text) {
    differences += (differences.empty() ? "" : "; ") + text;
  };
  if (plan.has_training() && plan.training().optimizer() != trainedBy)
    differ("it is of training by " + trainedBy + ", and the plan trains by " + plan.training().optimizer());
  std::map<std::string, const Saved *> here;
  for (const Saved &state : saved)
    here[state.description.name()] = &state;
  std::vector<std::string> missing, shaped, further;
  for (const plan::Binding &binding : restore->inputs()) {
    const auto found = here.find(binding.name());
    const std::vector<uint64_t> shape(binding.shape().begin(), binding.shape().end());
    if (found == here.end())
      missing.push_back("'" + binding.name() + "'");
    else if (found->second->type != binding.type() || found->second->shape != shape)
      shaped.push_back("'" + binding.name() + "' (" +
                       describeType(found->second->type, found->second->shape) + " there, " +
                       describeType(binding.type(), shape) + " in the plan)");
    if (found != here.end())
      here.erase(found);
  }
  for (const auto &[name, state] : here)
    further.push_back("'" + name + "'");
  if (!missing.empty())
    differ("it lacks " + listNames(missing));
  if (!further.empty())
    differ("it has " + listNames(further) + ", which the plan does not");
  if (!shaped.empty())
    differ("other types or shapes have " + listNames(shaped));
  return differences.empty() ? Status()
                             : Status(Code::InvalidArgument,
                                      "checkpoint " + folder +
                                          " is of another model or optimizer than the plan: " + differences);
}

void Checkpoint::numberAs(const plan::Plan &plan) {
  std::map<std::string, size_t> numbers;
  for (size_t i = 0; i < saved.size(); ++i)
    numbers[saved[i].description.name()] = i;
  order.clear();
  for (const plan::State &state : plan.states())
    order.push_back(numbers.at(state.name()));
}

Status Checkpoint::read(uint32_t state, uint64_t first, uint64_t count, std::byte *elements) const {
  return readSaved(order[state], first, count, elements);
}

Status Checkpoint::readSaved(size_t index, uint64_t first, uint64_t count, std::byte *elements) const {
  const Saved &state = saved[index];
  const uint64_t size = plan::elementBytes(state.type);
  size_t part = 0; // the last one that had an element mostly has the next
  while (count > 0) {
    uint64_t at = 0, run = 0;
    size_t tried = 0;
    while (tried < state.parts.size() && !state.parts[part].box.find(first, at, run)) {
      part = (part + 1) % state.parts.size();
      ++tried;
    }
    if (tried == state.parts.size())
      return {Code::Internal,
              "no part of state '" + state.description.name() + "' has element " + std::to_string(first)};
    const uint64_t length = std::min(run, count);
    const Saved::Part &from = state.parts[part];
    std::memcpy(elements, from.file->mapped().data() + from.offset + at * size, length * size);
    elements += length * size;
    first += length, count -= length;
  }
  return {};
}

} // namespace colossal::runtime
