# The lit suite: passes and phases on small IR (*.mlir), and tools on small commands (*.test).
#
# Build with CMake, then `ctest -R lit` or `.venv/bin/lit -v build/test [--filter NAME]`. The values under `config.colossal_*`
# come from lit.site.cfg.py, which CMake writes.
import os

import lit.formats

config.name = "Colossal"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["CMakeLists.txt", "Models", "Inputs", "Benchmark", "cases"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.colossal_build, "test", "lit")

path = [os.path.join(config.colossal_build, "bin"), config.llvm_bin, os.environ.get("PATH", "")]
config.environment["PATH"] = os.pathsep.join(path)
# Whoever runs the tests may have a machine of their own, and hosts differ.
config.environment["COLOSSAL_MACHINE"] = "cpu"
config.environment["HOME"] = config.environment["XDG_CONFIG_HOME"] = os.path.join(config.test_exec_root, "no-home")
config.environment["ASAN_OPTIONS"] = "detect_leaks=0"
config.substitutions += [
    ("%models", os.path.join(config.test_source_root, "Models")),
    ("%build", config.colossal_build),
    ("%python", config.python),
    ("%tools", os.path.join(os.path.dirname(config.test_source_root), "tools")),
]

# A runtime-only build has no compiler to test.
if os.path.exists(os.path.join(config.colossal_build, "bin", "colossal-opt")):
    config.available_features.add("compiler")
if os.path.exists(os.path.join(config.colossal_build, "bin", "colossal-run")):
    config.available_features.add("runtime")
