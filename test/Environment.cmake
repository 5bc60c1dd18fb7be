# Read by CTest before it runs anything: whoever runs the tests may have a machine of their own, and hosts differ.
set(ENV{COLOSSAL_MACHINE} cpu)
set(ENV{XDG_CONFIG_HOME} /nonexistent)
