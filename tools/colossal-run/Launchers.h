// What launchers of many processes (mpirun, srun) say in the environment.
#ifndef COLOSSAL_TOOLS_COLOSSAL_RUN_LAUNCHERS_H
#define COLOSSAL_TOOLS_COLOSSAL_RUN_LAUNCHERS_H

#include <string>

namespace colossal::runtime {

/// Under a launcher of processes that are to be ranks, each of which would run the whole plan by itself: says
/// so, once. The variables are those by which a launcher tells a process its place: Open MPI's, those of PMI
/// (MPICH, Intel MPI, Cray), MVAPICH's and Slurm's of a step (a batch script, which has others, is one
/// process).
void warnOfCopies(const std::string &communicator, const std::string &path);

} // namespace colossal::runtime

#endif // COLOSSAL_TOOLS_COLOSSAL_RUN_LAUNCHERS_H
