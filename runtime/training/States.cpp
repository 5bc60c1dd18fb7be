// The programs that save and restore are bindings; their bodies, mostly empty, are run around them.
#include "runtime/training/States.h"

#include <mutex>

namespace colossal::runtime {

namespace {

Status findRole(const plan::Plan &plan, plan::Program::Role role, int &program) {
  for (program = 0; program < plan.programs_size(); ++program)
    if (plan.programs(program).role() == role)
      return {};
  return {Code::InvalidArgument, "the plan holds no states: it was not compiled with --training"};
}

Status resolve(const plan::Box &box, const plan::MeshPosition &position, StateBox &resolved) {
  resolved.dims.clear();
  for (const plan::BoxDim &dim : box.dims()) {
    int64_t start = 0, valid = 0;
    COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(dim.start(), position, nullptr, start));
    COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(dim.valid(), position, nullptr, valid));
    resolved.dims.push_back(
        {dim.global(), valid > 0 ? static_cast<uint64_t>(start) : 0, static_cast<uint64_t>(valid)});
  }
  return {};
}

/// What a rank holds of a state.
struct Held {
  uint32_t rank;
  const plan::BoundShard *shard;
  StateBox box;
};

/// Those that give a state, by rank.
Status giversOf(const std::vector<plan::StageView> &stages,
                const std::vector<std::vector<plan::BoundShard>> &shards, const plan::Binding &binding,
                uint32_t state, std::vector<Held> &givers) {
  std::map<std::vector<uint64_t>, std::vector<Held>> copies;
  for (const plan::StageView &stage : stages)
    for (const plan::BoundShard &shard : shards[stage.index]) {
      if (shard.binding != &binding)
        continue;
      for (uint64_t rank = stage.firstRank; rank < stage.firstRank + stage.ranks; ++rank) {
        Held held{static_cast<uint32_t>(rank), &shard, {}};
        COLOSSAL_RETURN_IF_ERROR(resolve(*shard.box, stage.positionOf(rank), held.box));
        if (held.box.elements() == 0)
          continue;
        std::vector<uint64_t> key;
        for (const StateBox::Dim &dim : held.box.dims)
          key.insert(key.end(), {dim.global, dim.start, dim.valid});
        copies[key].push_back(std::move(held));
      }
    }
  for (auto &[key, ranks] : copies)
    givers.push_back(std::move(ranks[state % ranks.size()]));
  return {};
}

} // namespace

uint64_t StateBox::elements() const {
  uint64_t count = 1;
  for (const Dim &dim : dims)
    count *= dim.valid;
  return count;
}

bool StateBox::find(uint64_t global, uint64_t &at, uint64_t &run) const {
  uint64_t stride = 1, place = 1; // of one index: in the tensor, in the box
  uint64_t rest = global;
  bool whole = true; // all dimensions so far are held from end to end
  at = 0, run = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    const Dim &dim = dims[d];
    const uint64_t index = rest % dim.global;
    rest /= dim.global;
    if (index < dim.start || index >= dim.start + dim.valid)
      return false;
    at += (index - dim.start) * place;
    if (whole)
      run = (dim.start + dim.valid - index) * stride - global % stride;
    whole = whole && dim.start == 0 && dim.valid == dim.global;
    stride *= dim.global;
    place *= dim.valid;
  }
  return true;
}

Status takeStates(Session &session, RankParts &given, RankParts &taken) {
  given.clear(), taken.clear();
  int program = 0;
  COLOSSAL_RETURN_IF_ERROR(findRole(session.plan(), plan::Program::SAVE, program));
  const std::vector<plan::StageView> &stages = session.stages();
  std::vector<std::vector<plan::BoundShard>> shards;
  bool runs = false;
  for (const plan::StageView &stage : stages) {
    shards.push_back(stage.outputs(program));
    runs |= !stage.body(program).empty();
  }
  std::map<uint32_t, std::vector<const plan::BoundShard *>> places; // by rank, as `given`
  const auto &bindings = session.plan().programs(program).outputs();
  for (int state = 0; state < bindings.size(); ++state) {
    std::vector<Held> givers;
    COLOSSAL_RETURN_IF_ERROR(
        giversOf(stages, shards, bindings.Get(state), static_cast<uint32_t>(state), givers));
    for (Held &giver : givers) {
      given[giver.rank].push_back({static_cast<uint32_t>(state), std::move(giver.box), {}});
      places[giver.rank].push_back(giver.shard);
    }
  }
  std::mutex mutex;
  return session.onEachRank([&](Rank &rank) -> Status {
    if (runs)
      COLOSSAL_RETURN_IF_ERROR(rank.run(program, 0));
    auto found = given.find(rank.rank());
    if (found == given.end())
      return {};
    std::vector<StatePart> parts = found->second;
    for (size_t p = 0; p < parts.size(); ++p) {
      const plan::BoundShard &shard = *places.at(rank.rank())[p];
      const uint64_t size = plan::elementBytes(shard.binding->type());
      ResolvedBox box;
      COLOSSAL_RETURN_IF_ERROR(ResolvedBox::resolve(*shard.box, rank.ownMeshPosition(), nullptr, box));
      parts[p].bytes.resize(box.validElements() * size);
      auto *packed = reinterpret_cast<std::byte *>(parts[p].bytes.data());
      COLOSSAL_RETURN_IF_ERROR(rank.read(*shard.buffer, box.localBytes(size),
                                         [&](const std::byte *host, uint64_t begin, uint64_t end) {
                                           box.pack(host, {begin / size, end / size}, packed, size);
                                           return Status();
                                         }));
    }
    std::lock_guard<std::mutex> lock(mutex);
    taken[rank.rank()] = std::move(parts);
    return {};
  });
}

Status putStates(Session &session, const StateReader &reader) {
  int program = 0;
  COLOSSAL_RETURN_IF_ERROR(findRole(session.plan(), plan::Program::RESTORE, program));
  bool runs = false;
  for (const plan::StageView &stage : session.stages())
    runs |= !stage.body(program).empty();
  const auto &bindings = session.plan().programs(program).inputs();
  return session.onEachRank([&](Rank &rank) -> Status {
    for (const plan::BoundShard &shard : rank.ownStage().inputs(program)) {
      uint32_t state = 0;
      while (&bindings.Get(static_cast<int>(state)) != shard.binding)
        ++state;
      ResolvedBox box;
      COLOSSAL_RETURN_IF_ERROR(ResolvedBox::resolve(*shard.box, rank.ownMeshPosition(), nullptr, box));
      const uint64_t size = plan::elementBytes(shard.binding->type());
      COLOSSAL_RETURN_IF_ERROR(
          rank.write(*shard.buffer, box.localBytes(size), [&](std::byte *host, uint64_t begin, uint64_t end) {
            if (box.padded())
              std::memset(host, 0, end - begin);
            Status status;
            box.forRows({begin / size, end / size},
                        [&](uint64_t from, uint64_t to, uint64_t, uint64_t length) {
                          if (status.ok())
                            status = reader.read(state, from, length, host + to * size);
                        });
            return status;
          }));
    }
    return runs ? rank.run(program, 0) : Status();
  });
}

} // namespace colossal::runtime
