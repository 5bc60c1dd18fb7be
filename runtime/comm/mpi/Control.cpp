// What processes say to each other outside of any device's work, over MPI.
#include "runtime/comm/mpi/Mpi.h"

#include <algorithm>
#include <list>

namespace colossal::runtime {

namespace {

class MpiControl : public Control {
public:
  MpiControl() : control(everyone()), questions(everyone()) {
    MPI_Comm_rank(control, &self);
    MPI_Comm_size(control, &count);
    heard.resize(static_cast<size_t>(count));
  }
  /// The last that this process says to MPI.
  ~MpiControl() override { MPI_Finalize(); }

  uint32_t rank() const override { return static_cast<uint32_t>(self); }
  uint32_t size() const override { return static_cast<uint32_t>(count); }
  Status barrier() override { return check(MPI_Barrier(control), "MPI_Barrier"); }

  Status gather(const std::string &mine, std::vector<std::string> &all) override {
    all.clear();
    if (self != 0)
      return transferString(const_cast<std::string &>(mine), 0, true);
    all.resize(static_cast<size_t>(count));
    all[0] = mine;
    for (int peer = 1; peer < count; ++peer)
      COLOSSAL_RETURN_IF_ERROR(transferString(all[static_cast<size_t>(peer)], peer, false));
    return {};
  }

  Status broadcast(std::string &text) override {
    uint64_t length = text.size();
    COLOSSAL_MPI(MPI_Bcast(&length, 1, MPI_UINT64_T, 0, control));
    text.resize(length);
    for (uint64_t done = 0; done < length; done += mostAtOnce)
      COLOSSAL_MPI(MPI_Bcast(text.data() + done, static_cast<int>(std::min(mostAtOnce, length - done)),
                             MPI_BYTE, 0, control));
    return {};
  }

  void abort(int exitCode) override {
    if (count > 1)
      MPI_Abort(MPI_COMM_WORLD, exitCode);
  }

  void answer(const std::string &mine, bool ask) override {
    for (auto note = notes.begin(); note != notes.end();) {
      int done = 0;
      MPI_Test(&note->request, &done, MPI_STATUS_IGNORE);
      note = done ? notes.erase(note) : std::next(note);
    }
    for (int waiting = 1; waiting;) {
      MPI_Status status;
      if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, questions, &waiting, &status) != MPI_SUCCESS || !waiting)
        break;
      int length = 0;
      MPI_Get_count(&status, MPI_BYTE, &length);
      std::string text(static_cast<size_t>(std::max(0, length)), ' ');
      if (MPI_Recv(text.data(), length, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, questions,
                   MPI_STATUS_IGNORE) != MPI_SUCCESS)
        break;
      if (status.MPI_TAG == question)
        post(status.MPI_SOURCE, reply, mine);
      else
        heard[static_cast<size_t>(status.MPI_SOURCE)] = {std::chrono::steady_clock::now(), std::move(text)};
    }
    for (int peer = 0; ask && peer < count; ++peer)
      if (peer != self)
        post(peer, question, "");
  }

  std::vector<std::string> answers(std::chrono::milliseconds span) const override {
    std::vector<std::string> texts;
    for (const Heard &from : heard)
      texts.push_back(std::chrono::steady_clock::now() - from.at <= span ? from.text : "");
    return texts;
  }

private:
  static constexpr uint64_t mostAtOnce = 1 << 30; // counts are ints
  enum : int { question, reply };                 // tags
  static constexpr size_t longestNote = 1024;     // short enough to leave without its receiver's help

  struct Note {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Heard {
    std::chrono::steady_clock::time_point at{};
    std::string text;
  };

  /// To a process that takes nothing in any more this never completes, and need not.
  void post(int peer, int tag, const std::string &text) {
    notes.push_back({text.substr(0, longestNote), MPI_REQUEST_NULL});
    Note &note = notes.back();
    if (MPI_Isend(note.text.data(), static_cast<int>(note.text.size()), MPI_BYTE, peer, tag, questions,
                  &note.request) != MPI_SUCCESS)
      notes.pop_back();
  }

  Status transferString(std::string &text, int peer, bool sends) {
    uint64_t length = text.size();
    if (sends)
      COLOSSAL_MPI(MPI_Send(&length, 1, MPI_UINT64_T, peer, 0, control));
    else
      COLOSSAL_MPI(MPI_Recv(&length, 1, MPI_UINT64_T, peer, 0, control, MPI_STATUS_IGNORE));
    text.resize(length);
    for (uint64_t done = 0; done < length; done += mostAtOnce) {
      const int part = static_cast<int>(std::min(mostAtOnce, length - done));
      if (sends)
        COLOSSAL_MPI(MPI_Send(text.data() + done, part, MPI_BYTE, peer, 1, control));
      else
        COLOSSAL_MPI(MPI_Recv(text.data() + done, part, MPI_BYTE, peer, 1, control, MPI_STATUS_IGNORE));
    }
    return {};
  }

  MPI_Comm control, questions;
  int self = 0, count = 1;
  std::list<Note> notes;    // on their way
  std::vector<Heard> heard; // by rank
};

} // namespace

std::unique_ptr<Control> createMpiControl() {
  return std::make_unique<MpiControl>();
}

} // namespace colossal::runtime
