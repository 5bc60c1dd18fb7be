// The manual of a program whose options CLI11 reads.
#ifndef COLOSSAL_TOOLS_MANUAL_COMMANDLINE_H
#define COLOSSAL_TOOLS_MANUAL_COMMANDLINE_H

#include "tools/manual/Manual.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <sstream>

namespace colossal::tool {

inline ManualOption describeOption(const CLI::Option &option) {
  ManualOption described;
  for (const std::string &name : option.get_snames())
    described.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    described.names.push_back("--" + name);
  if (described.names.empty())
    described.names.push_back(option.get_name(true));
  described.text = option.get_description();
  if (option.get_items_expected_max() > 0) {
    // "TEXT:{local,mpi}" and the like: the type, and what checks say of themselves.
    std::string type = option.get_type_name();
    described.value = type.substr(0, type.find_first_of(": "));
    size_t begin = type.find('{'), end = type.rfind('}');
    if (begin != std::string::npos && end != std::string::npos) {
      std::istringstream list(type.substr(begin + 1, end - begin - 1));
      for (std::string choice; std::getline(list, choice, ',');)
        described.choices.push_back(choice);
    }
    if (described.value.empty())
      described.value = "VALUE";
    if (std::string given = option.get_default_str(); !given.empty())
      described.text += " [" + given + "]";
  }
  return described;
}

/// The options of `app`, which must stay as it is while its callbacks are not called.
inline Manual describeApp(const CLI::App &app, const std::string &name, const std::string &version) {
  Manual manual;
  manual.name = name;
  manual.version = version;
  std::string text = app.get_description();
  size_t end = text.find_first_of(".:;\n");
  manual.summary = text.substr(0, end);
  manual.description = text;
  manual.notes = app.get_footer();
  auto add = [&](const CLI::App &from, const std::string &title) {
    manual.groups.push_back({title, {}});
    for (const CLI::Option *option : from.get_options()) {
      if (option->get_group().empty()) // hidden
        continue;
      (option->get_positional() ? manual.arguments : manual.groups.back().options)
          .push_back(describeOption(*option));
    }
  };
  add(app, "Options");
  for (const CLI::App *part : app.get_subcommands([](const CLI::App *) { return true; })) {
    if (part->get_name().empty())
      add(*part, part->get_group());
    else
      manual.subcommands.push_back(describeApp(*part, part->get_name(), version));
  }
  return manual;
}

/// Whether the command line is `--write-manual FOLDER`, which it then does; `exitCode` is the program's.
inline bool writesManual(int argc, char **argv, const CLI::App &app, const std::string &name,
                         const std::string &version, int &exitCode) {
  if (argc != 3 || std::string(argv[1]) != "--write-manual")
    return false;
  std::string error = writeManual(describeApp(app, name, version), argv[2]);
  if (!error.empty())
    std::cerr << name + ": " + error + "\n";
  exitCode = error.empty() ? 0 : 3;
  return true;
}

} // namespace colossal::tool

#endif // COLOSSAL_TOOLS_MANUAL_COMMANDLINE_H
