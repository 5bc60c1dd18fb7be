// A program's options as data, and its manual page and shell completions made of them. Each program writes
// its own when the build asks for it (`--write-manual FOLDER`, which --help does not list), so that what is
// installed says what the program does.
#ifndef COLOSSAL_TOOLS_MANUAL_MANUAL_H
#define COLOSSAL_TOOLS_MANUAL_MANUAL_H

#include <string>
#include <vector>

namespace colossal::tool {

struct ManualOption {
  std::vector<std::string> names;   ///< "-o", "--output"; of a positional argument its name
  std::string value;                ///< what it takes, as "FILE"; empty for a flag
  std::string text;                 ///< what it does
  std::vector<std::string> choices; ///< the values that it takes, where they are few
};

struct ManualGroup {
  std::string title;
  std::vector<ManualOption> options;
};

struct Manual {
  std::string name, version;
  std::string summary;     ///< a line
  std::string description; ///< paragraphs; lines that begin with two blanks stay as they are
  std::string notes;       ///< what stands after the options: exit codes, examples
  std::vector<ManualOption> arguments;
  std::vector<ManualGroup> groups;
  std::vector<Manual> subcommands;
};

/// A page for man(1), section 1. The same manual gives the same bytes.
std::string printManPage(const Manual &manual);
/// Completions: names of options, their choices, files elsewhere.
std::string printBashCompletion(const Manual &manual);
std::string printZshCompletion(const Manual &manual);
std::string printFishCompletion(const Manual &manual);

/// Writes all of these below `folder`, each where a system has its like below share/: man/man1/NAME.1,
/// bash-completion/completions/NAME, zsh/site-functions/_NAME, fish/vendor_completions.d/NAME.fish. Returns
/// what is wrong, or nothing.
std::string writeManual(const Manual &manual, const std::string &folder);

} // namespace colossal::tool

#endif // COLOSSAL_TOOLS_MANUAL_MANUAL_H
