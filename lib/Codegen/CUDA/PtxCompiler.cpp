// Jobs of a pool, each with a context of its own, and the assembler.
#include "PtxCompiler.h"

#include "BlockTeam.h"
#include "Toolkit.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/ThreadPool.h"

#include <atomic>
#include <deque>
#include <map>

using namespace mlir;
using namespace colossal::nvidia;

namespace {

llvm::Expected<std::string> compileBytecode(StringRef bytecode, const Chip &chip, StringRef symbol) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.disableMultithreading(); // what keeps attributes and types apart takes locks until it hears so
  loadKernelDialects(context);
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  Block block;
  if (failed(readBytecodeFile(llvm::MemoryBufferRef(bytecode, symbol), &block, config)) || block.empty())
    return llvm::createStringError("kernel " + symbol.str() + " cannot be read back");
  return compileKernel(cast<ModuleOp>(block.front()), chip, symbol);
}

} // namespace

struct PtxCompiler::Implementation {
  struct Job {
    std::string bytecode, symbol, error;
    std::vector<std::string> texts; // by chip
  };
  void run(Job &job) {
    if (stopping)
      return;
    for (const Chip &chip : chips) {
      llvm::Expected<std::string> text = compileBytecode(job.bytecode, chip, job.symbol);
      if (!text) {
        job.error = llvm::toString(text.takeError());
        break;
      }
      job.texts.push_back(std::move(*text));
    }
    std::string().swap(job.bytecode);
  }

  std::vector<Chip> chips;
  std::map<std::string, std::string> symbols; // digest of the content -> symbol
  std::deque<Job> jobs;
  std::atomic<bool> stopping = false; // what waits is not compiled any more
  std::unique_ptr<llvm::StdThreadPool>
      pool; // null: all on the caller's thread; ends before what its tasks use
};

PtxCompiler::PtxCompiler(std::vector<Chip> chips, unsigned threads)
    : implementation(std::make_unique<Implementation>()) {
  implementation->chips = std::move(chips);
  if (threads)
    implementation->pool = std::make_unique<llvm::StdThreadPool>(llvm::hardware_concurrency(threads));
}

PtxCompiler::~PtxCompiler() {
  implementation->stopping = true;
}

size_t PtxCompiler::kernels() const {
  return implementation->jobs.size();
}

std::string PtxCompiler::add(ModuleOp module, StringRef name) {
  Implementation &state = *implementation;
  std::string bytecode;
  llvm::raw_string_ostream stream(bytecode);
  (void)writeBytecodeToFile(module, stream); // fails for versions that are asked for only
  llvm::SHA256 hash;
  for (const Chip &chip : state.chips)
    hash.update(chip.name);
  hash.update(bytecode);
  const std::string digest = llvm::toHex(hash.final(), /*LowerCase=*/true).substr(0, 16);
  std::string symbol;
  for (char c : name)
    symbol += llvm::isAlnum(c) || c == '_' ? c : '_';
  auto [known, inserted] = state.symbols.try_emplace(digest, symbol + "_" + digest);
  if (!inserted)
    return known->second;
  std::string invalid;
  {
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
      llvm::raw_string_ostream(invalid) << diagnostic << "\n";
      return success();
    });
    if (succeeded(verify(module)))
      invalid.clear();
  }
  state.jobs.push_back({std::move(bytecode), known->second, "", {}});
  Implementation::Job &job = state.jobs.back();
  if (!invalid.empty())
    job.error = "kernel " + job.symbol + " is invalid: " + invalid;
  else if (state.pool)
    state.pool->async([&state, &job] { state.run(job); });
  else
    state.run(job);
  return known->second;
}

llvm::Expected<std::vector<std::string>> PtxCompiler::finish() {
  Implementation &state = *implementation;
  if (state.pool)
    state.pool->wait();
  std::map<std::string, const Implementation::Job *> jobs;
  std::string errors;
  for (const Implementation::Job &job : state.jobs) {
    if (!job.error.empty())
      errors += (errors.empty() ? "" : "\n") + job.error;
    jobs[job.symbol] = &job;
  }
  if (!errors.empty())
    return llvm::createStringError(errors);
  std::vector<std::string> all;
  for (auto [i, chip] : llvm::enumerate(state.chips)) {
    std::string &text = all.emplace_back(jobs.empty() ? "" : ptxHeader(chip));
    for (const auto &[symbol, job] : jobs)
      text += job->texts[i];
  }
  return all;
}

llvm::Expected<std::string> colossal::nvidia::assemble(StringRef ptx, const Chip &chip) {
  const std::string program = findAssembler();
  if (program.empty())
    return std::string();
  llvm::SmallString<128> source, object, words;
  for (auto [path, ending] :
       {std::pair(&source, "ptx"), std::pair(&object, "cubin"), std::pair(&words, "txt")})
    if (std::error_code error = llvm::sys::fs::createTemporaryFile("colossal-kernels", ending, *path))
      return llvm::createStringError("no temporary file for ptxas: " + error.message());
  llvm::FileRemover removers[] = {llvm::FileRemover(source), llvm::FileRemover(object),
                                  llvm::FileRemover(words)};
  {
    std::error_code error;
    llvm::raw_fd_ostream file(source, error);
    file << ptx;
    file.close();
    if (error || file.has_error())
      return llvm::createStringError("kernels cannot be written to " + source.str().str() + " for ptxas");
  }
  const std::string architecture = "-arch=" + chip.name;
  const StringRef arguments[] = {program, architecture, source, "-o", object};
  const std::optional<StringRef> redirects[] = {std::nullopt, StringRef(words), StringRef(words)};
  const int code = llvm::sys::ExecuteAndWait(program, arguments, std::nullopt, redirects);
  if (code != 0) {
    auto said = llvm::MemoryBuffer::getFile(words);
    return llvm::createStringError(
        program + " refuses the kernels: " + (said ? (*said)->getBuffer().substr(0, 2000).str() : ""));
  }
  auto bytes = llvm::MemoryBuffer::getFile(object, /*IsText=*/false);
  if (!bytes)
    return llvm::createStringError("what " + program + " made cannot be read: " + bytes.getError().message());
  return (*bytes)->getBuffer().str();
}
