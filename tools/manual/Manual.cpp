// Manual pages and completions as text. roff and the shells each have their own idea of what must be escaped;
// each has its function here.
#include "tools/manual/Manual.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace colossal::tool {

namespace {

std::string replaceAll(std::string text, const std::string &what, const std::string &with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

std::string join(const std::vector<std::string> &parts, const std::string &between) {
  std::string all;
  for (const std::string &part : parts)
    all += (all.empty() ? "" : between) + part;
  return all;
}

std::vector<std::string> getLines(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

std::string inOneLine(const std::string &text) {
  return join(getLines(text), " ");
}

//===--- roff ---===//

/// A line of text: no character of it is a request.
std::string escapeRoff(const std::string &text) {
  std::string out = replaceAll(replaceAll(text, "\\", "\\e"), "-", "\\-");
  return !out.empty() && (out[0] == '.' || out[0] == '\'') ? "\\&" + out : out;
}

/// Paragraphs are filled; lines that begin with blanks, examples and tables, stay as they are.
std::string printRoffText(const std::string &text) {
  std::string out;
  bool isVerbatim = false;
  for (const std::string &line : getLines(text)) {
    bool isIndented = line.compare(0, 2, "  ") == 0;
    if (isIndented != isVerbatim && !line.empty()) {
      out += isIndented ? ".PP\n.nf\n" : ".fi\n.PP\n";
      isVerbatim = isIndented;
    }
    out += line.empty() ? (isVerbatim ? "\n" : ".PP\n") : escapeRoff(line) + "\n";
  }
  return out + (isVerbatim ? ".fi\n" : "");
}

std::string printRoffOption(const ManualOption &option) {
  std::string out = ".TP\n";
  for (size_t i = 0; i < option.names.size(); ++i)
    out += (i ? ", " : "") + ("\\fB" + escapeRoff(option.names[i]) + "\\fR");
  if (!option.value.empty())
    out += " \\fI" + escapeRoff(option.value) + "\\fR";
  out += "\n";
  for (const std::string &line : getLines(option.text))
    out += escapeRoff(line) + "\n";
  if (!option.choices.empty())
    out += "One of: " + escapeRoff(join(option.choices, ", ")) + ".\n";
  return out;
}

std::string printRoffOptions(const Manual &manual, const std::string &under) {
  std::string out;
  for (const ManualOption &option : manual.arguments) {
    ManualOption argument = option;
    argument.value.clear(); // its name says it
    out += printRoffOption(argument);
  }
  for (const ManualGroup &group : manual.groups) {
    if (group.options.empty())
      continue;
    if (&group != &manual.groups.front())
      out += under + " " + escapeRoff(group.title) + "\n";
    for (const ManualOption &option : group.options)
      out += printRoffOption(option);
  }
  return out;
}

//===--- shells ---===//

/// What is completed after `name`: a list of choices, files, or nothing in particular.
bool takesValue(const ManualOption &option) {
  return !option.value.empty();
}

std::vector<std::string> getNames(const Manual &manual) {
  std::vector<std::string> names;
  for (const ManualGroup &group : manual.groups)
    for (const ManualOption &option : group.options)
      names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::string getIdentifier(const std::string &name) {
  return "_" + replaceAll(name, "-", "_");
}

/// A shell's word in single quotes.
std::string quote(const std::string &text) {
  return "'" + replaceAll(text, "'", "'\\''") + "'";
}

std::string printBashCases(const Manual &manual, const std::string &indent) {
  std::string out = indent + "case $prev in\n";
  for (const ManualGroup &group : manual.groups)
    for (const ManualOption &option : group.options)
      if (takesValue(option))
        out += indent + "  " + join(option.names, "|") + ") COMPREPLY=($(compgen " +
               (option.choices.empty() ? "-f" : "-W " + quote(join(option.choices, " "))) +
               " -- \"$cur\")); return ;;\n";
  out += indent + "esac\n";
  out += indent + "case $cur in\n" + indent + "  -*) COMPREPLY=($(compgen -W " +
         quote(join(getNames(manual), " ")) + " -- \"$cur\")) ;;\n" + indent +
         "  *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n" + indent + "esac\n";
  return out;
}

/// Arguments of zsh's _arguments, each in quotes.
std::string printZshArguments(const Manual &manual) {
  auto text = [](const ManualOption &option) {
    std::string out = replaceAll(inOneLine(option.text), "\\", "\\\\");
    for (const char *special : {"[", "]", ":"})
      out = replaceAll(out, special, std::string("\\") + special);
    return out;
  };
  std::string out;
  for (const ManualGroup &group : manual.groups)
    for (const ManualOption &option : group.options)
      for (const std::string &name : option.names)
        out += " \\\n    " + quote("*" + name + "[" + text(option) + "]" +
                                   (!takesValue(option) ? ""
                                    : option.choices.empty()
                                        ? ":" + option.value + ":_files"
                                        : ":" + option.value + ":(" + join(option.choices, " ") + ")"));
  return out + " \\\n    '*:file:_files'\n";
}

std::string printFishOptions(const Manual &manual, const std::string &name, const std::string &condition) {
  std::string out;
  for (const ManualGroup &group : manual.groups)
    for (const ManualOption &option : group.options) {
      out += "complete -c " + name + condition;
      for (const std::string &one : option.names)
        out += one.compare(0, 2, "--") == 0 ? " -l " + one.substr(2)
               : one.size() == 2            ? " -s " + one.substr(1)
                                            : " -o " + one.substr(1);
      if (takesValue(option))
        out += option.choices.empty() ? " -r" : " -x -a " + quote(join(option.choices, " "));
      out += " -d " + quote(inOneLine(option.text)) + "\n";
    }
  return out;
}

} // namespace

std::string printManPage(const Manual &manual) {
  std::string title = manual.name;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string out = ".TH " + title + " 1 \"\" \"Colossal " + manual.version + "\" \"Colossal\"\n";
  out += ".SH NAME\n" + escapeRoff(manual.name) + " \\- " + escapeRoff(manual.summary) + "\n";
  out += ".SH SYNOPSIS\n.B " + escapeRoff(manual.name) + "\n";
  if (!manual.subcommands.empty())
    out += ".I SUBCOMMAND\n";
  for (const ManualOption &argument : manual.arguments)
    out += ".I " + escapeRoff(argument.names.front()) + "\n";
  out += "[\\fIOPTIONS\\fR]\n";
  out += ".SH DESCRIPTION\n" + printRoffText(manual.description);
  out += ".SH OPTIONS\n" + printRoffOptions(manual, ".SS");
  for (const Manual &part : manual.subcommands)
    out += ".SH SUBCOMMAND " + escapeRoff(part.name) + "\n" + printRoffText(part.description) +
           printRoffOptions(part, ".SS") + (part.notes.empty() ? "" : ".PP\n" + printRoffText(part.notes));
  if (!manual.notes.empty())
    out += ".SH NOTES\n" + printRoffText(manual.notes);
  return out;
}

std::string printBashCompletion(const Manual &manual) {
  std::string function = getIdentifier(manual.name);
  std::string out = "# bash completion of " + manual.name + "\n" + function +
                    "() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n";
  if (!manual.subcommands.empty()) {
    std::vector<std::string> names;
    out += "  case ${COMP_WORDS[1]} in\n";
    for (const Manual &part : manual.subcommands) {
      names.push_back(part.name);
      out += "  " + part.name + ")\n    if ((COMP_CWORD > 1)); then\n" + printBashCases(part, "      ") +
             "      return\n    fi ;;\n";
    }
    out += "  esac\n  COMPREPLY=($(compgen -W " +
           quote(join(names, " ") + " " + join(getNames(manual), " ")) + " -- \"$cur\"))\n";
  } else {
    out += printBashCases(manual, "  ");
  }
  return out + "}\ncomplete -o filenames -F " + function + " " + manual.name + "\n";
}

std::string printZshCompletion(const Manual &manual) {
  std::string out = "#compdef " + manual.name + "\n";
  if (manual.subcommands.empty())
    return out + "_arguments -s" + printZshArguments(manual);
  std::vector<std::string> names;
  out += "case ${words[2]} in\n";
  for (const Manual &part : manual.subcommands) {
    names.push_back(part.name);
    out += part.name + ")\n  shift words\n  (( CURRENT-- ))\n  _arguments -s" + printZshArguments(part) +
           "  ;;\n";
  }
  return out + "*)\n  _arguments '1:subcommand:(" + join(names, " ") + ")'" + printZshArguments(manual) +
         "  ;;\nesac\n";
}

std::string printFishCompletion(const Manual &manual) {
  std::string out = "# fish completion of " + manual.name + "\n";
  std::string whole;
  for (const Manual &part : manual.subcommands) {
    whole = " -n __fish_use_subcommand";
    out += "complete -c " + manual.name + whole + " -f -a " + part.name + " -d " +
           quote(inOneLine(part.summary)) + "\n" +
           printFishOptions(part, manual.name, " -n '__fish_seen_subcommand_from " + part.name + "'");
  }
  return out + printFishOptions(manual, manual.name, whole);
}

std::string writeManual(const Manual &manual, const std::string &folder) {
  const std::pair<std::string, std::string> files[] = {
      {"man/man1/" + manual.name + ".1", printManPage(manual)},
      {"bash-completion/completions/" + manual.name, printBashCompletion(manual)},
      {"zsh/site-functions/_" + manual.name, printZshCompletion(manual)},
      {"fish/vendor_completions.d/" + manual.name + ".fish", printFishCompletion(manual)}};
  for (const auto &[name, text] : files) {
    std::filesystem::path path = std::filesystem::path(folder) / name;
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file)
      return "cannot write " + path.string();
  }
  return "";
}

} // namespace colossal::tool
