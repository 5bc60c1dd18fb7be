"""Has each program write its manual and completions, and looks for every option of its --help there.

    check_manual.py FOLDER PROGRAM...
"""
import pathlib
import re
import subprocess
import sys


def options(*command):
    text = subprocess.run([*command, "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    # A long name touches the dash before what it does.
    return set(re.findall(r"^ +(?:-\w,)?(--[a-z][\w-]+\w)", text, re.MULTILINE))


folder = pathlib.Path(sys.argv[1])
for program in sys.argv[2:]:
    subprocess.run([program, "--write-manual", str(folder)], check=True)
    page = (folder / "man/man1" / f"{program}.1").read_text()
    bash = (folder / "bash-completion/completions" / program).read_text()
    zsh = (folder / "zsh/site-functions" / f"_{program}").read_text()
    fish = (folder / "fish/vendor_completions.d" / f"{program}.fish").read_text()
    wanted = options(program)
    if program == "colossal-cost":
        for subcommand in ("machines", "predict", "calibrate"):
            wanted |= options(program, subcommand)
    if program == "colossal-opt":  # parameters of passes, which are no options of their own
        wanted = {name for name in wanted if name.startswith("--colossal-")} | {"--mesh", "--dim", "--memory", "--pass-pipeline"}
    assert wanted, program
    for name in wanted:
        if name in ("--help", "--help-list", "--help-hidden", "--help-list-hidden"):
            continue
        assert name.replace("-", r"\-") in page, f"{program}: {name} is not in its page"
        assert name in bash and name in zsh and f" -l {name[2:]} " in fish, f"{program}: {name} is not completed"
    subprocess.run(["bash", "-n", str(folder / "bash-completion/completions" / program)], check=True)
