// linkKernels: lld in process.
//
// Calls into libc and libm are bound to stubs made on the spot, which carry the sonames only: no file of this
// machine and no symbol version of its libraries gets into the plan.
#include "colossal/Codegen/CPU/KernelCompiler.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>
#include <mutex>
#include <set>

LLD_HAS_DRIVER(elf)

namespace colossal::cpu {
namespace {

// Functions that generated code may call. Those of libm exist for double and, with an f after the name, for
// float.
constexpr llvm::StringLiteral libcFunctions[] = {"memcpy", "memset", "memmove", "memcmp"};
constexpr llvm::StringLiteral libmFunctions[] = {
    "acos",   "acosh", "asin",      "asinh", "atan",      "atan2",  "atanh",  "cbrt",      "ceil",
    "cos",    "cosh",  "erf",       "erfc",  "exp",       "exp2",   "exp10",  "expm1",     "fabs",
    "floor",  "fma",   "fmax",      "fmin",  "fmod",      "ldexp",  "lgamma", "log",       "log10",
    "log1p",  "log2",  "nearbyint", "pow",   "remainder", "rint",   "round",  "roundeven", "sin",
    "sincos", "sinh",  "sqrt",      "tan",   "tanh",      "tgamma", "trunc"};

/// A folder that disappears with its files.
class TemporaryFolder {
public:
  llvm::Error create() {
    if (std::error_code code = llvm::sys::fs::createUniqueDirectory("colossal-link", path))
      return llvm::createStringError(code, "cannot make a temporary folder for linking: " + code.message());
    return llvm::Error::success();
  }
  ~TemporaryFolder() {
    if (!path.empty())
      llvm::sys::fs::remove_directories(path);
  }
  std::string file(llvm::StringRef name) const {
    llvm::SmallString<128> result(path);
    llvm::sys::path::append(result, name);
    return std::string(result);
  }
  llvm::Error write(const std::string &path, llvm::StringRef content) const {
    std::error_code code;
    llvm::raw_fd_ostream stream(path, code);
    if (!code) {
      stream << content;
      stream.close();
      code = stream.error();
      stream.clear_error();
    }
    if (code)
      return llvm::createStringError(code, "cannot write " + path + ": " + code.message());
    return llvm::Error::success();
  }

private:
  llvm::SmallString<128> path;
};

/// lld keeps global state: one link at a time. After a crash inside it, it cannot be used again.
llvm::Error runLinker(llvm::ArrayRef<std::string> arguments) {
  static std::mutex mutex;
  static bool usable = true;
  std::lock_guard<std::mutex> lock(mutex);
  if (!usable)
    return llvm::createStringError("the linker crashed earlier in this process");
  std::vector<const char *> pointers = {"ld.lld"};
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  std::string output, errors;
  llvm::raw_string_ostream outputStream(output), errorStream(errors);
  lld::Result result = lld::lldMain(pointers, outputStream, errorStream, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0)
    return llvm::createStringError("linking the kernels failed: " + errors);
  return llvm::Error::success();
}

/// Names that the objects use and none of them defines.
llvm::Expected<std::set<std::string>> undefinedSymbols(llvm::ArrayRef<KernelObject> objects) {
  std::set<std::string> used, defined;
  for (const KernelObject &kernel : objects) {
    auto file =
        llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(kernel.object, kernel.symbol));
    if (!file)
      return file.takeError();
    for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
      llvm::Expected<llvm::StringRef> name = symbol.getName();
      llvm::Expected<uint32_t> flags = symbol.getFlags();
      if (!name)
        return name.takeError();
      if (!flags)
        return flags.takeError();
      if (name->empty() || *name == "_GLOBAL_OFFSET_TABLE_")
        continue;
      if (*flags & llvm::object::SymbolRef::SF_Undefined)
        used.insert(name->str());
      else if (*flags & llvm::object::SymbolRef::SF_Global)
        defined.insert(name->str());
    }
  }
  for (const std::string &name : defined)
    used.erase(name);
  return used;
}

/// A relocatable object without sections: lld wants an input file, even where a script defines all symbols.
std::string emptyObject() {
  llvm::ELF::Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, llvm::ELF::ElfMagic, 4);
  header.e_ident[llvm::ELF::EI_CLASS] = llvm::ELF::ELFCLASS64;
  header.e_ident[llvm::ELF::EI_DATA] = llvm::ELF::ELFDATA2LSB;
  header.e_ident[llvm::ELF::EI_VERSION] = llvm::ELF::EV_CURRENT;
  header.e_type = llvm::ELF::ET_REL;
  header.e_machine = llvm::ELF::EM_X86_64;
  header.e_version = llvm::ELF::EV_CURRENT;
  header.e_ehsize = sizeof(header);
  header.e_shentsize = sizeof(llvm::ELF::Elf64_Shdr);
  return std::string(reinterpret_cast<const char *>(&header), sizeof(header));
}

/// Makes a shared object of the soname that defines `names`, all absolute: enough for a linker to bind
/// against.
llvm::Expected<std::string> makeStub(const TemporaryFolder &folder, llvm::StringRef soname,
                                     const std::set<std::string> &names) {
  std::string path = folder.file(soname);
  std::string script = folder.file((soname + ".ld").str());
  std::string empty = folder.file((soname + ".o").str());
  std::string text;
  for (const std::string &name : names)
    text += name + " = 1;\n";
  if (llvm::Error error = folder.write(script, text))
    return error;
  if (llvm::Error error = folder.write(empty, emptyObject()))
    return error;
  if (llvm::Error error = runLinker(
          {"-shared", "-m", "elf_x86_64", "-soname", soname.str(), "--script", script, "-o", path, empty}))
    return error;
  return path;
}

} // namespace

llvm::Expected<std::string> linkKernels(llvm::ArrayRef<KernelObject> objects) {
  if (objects.empty())
    return std::string();
  TemporaryFolder folder;
  if (llvm::Error error = folder.create())
    return error;

  llvm::Expected<std::set<std::string>> undefined = undefinedSymbols(objects);
  if (!undefined)
    return undefined.takeError();
  std::set<std::string> libc, libm;
  std::string unknown;
  for (const std::string &name : *undefined) {
    llvm::StringRef base(name);
    auto isLibm = [](llvm::StringRef function) { return llvm::is_contained(libmFunctions, function); };
    if (llvm::is_contained(libcFunctions, base))
      libc.insert(name);
    else if (isLibm(base) || (base.consume_back("f") && isLibm(base)))
      libm.insert(name);
    else
      unknown += (unknown.empty() ? "" : ", ") + name;
  }
  if (!unknown.empty())
    return llvm::createStringError("generated kernels call functions that no processor provides: " + unknown);

  std::vector<std::string> arguments = {"-shared",
                                        "-m",
                                        "elf_x86_64",
                                        "--no-undefined",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "-z",
                                        "noexecstack",
                                        "-z",
                                        "now",
                                        "-z",
                                        "relro",
                                        "--gc-sections",
                                        "-s",
                                        "--threads=1"};
  unsigned index = 0;
  for (const KernelObject &kernel : objects) {
    std::string path = folder.file(std::to_string(index++) + ".o");
    if (llvm::Error error = folder.write(path, kernel.object))
      return error;
    arguments.push_back(path);
  }
  for (auto &[soname, names] : {std::pair("libm.so.6", libm), std::pair("libc.so.6", libc)}) {
    if (names.empty())
      continue;
    llvm::Expected<std::string> stub = makeStub(folder, soname, names);
    if (!stub)
      return stub.takeError();
    arguments.push_back(*stub);
  }
  std::string output = folder.file("kernels.so");
  arguments.insert(arguments.end(), {"-o", output});
  if (llvm::Error error = runLinker(arguments))
    return error;
  auto buffer = llvm::MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return llvm::createStringError(buffer.getError(), "cannot read " + output);
  return (*buffer)->getBuffer().str();
}

} // namespace colossal::cpu
