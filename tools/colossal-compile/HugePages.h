//===- HugePages.h - memory by the megabyte ---------------------------------===//
//
// A compilation takes its memory once and gives it back when it ends. In pages of 4 KiB it asks the system
// for each of tens of thousands of them, one fault at a time.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TOOLS_COLOSSALCOMPILE_HUGEPAGES_H
#define COLOSSAL_TOOLS_COLOSSALCOMPILE_HUGEPAGES_H

namespace colossal {

/// Lets the memory that is allocated from now on, up to some hundred megabytes, lie in huge pages where the
/// system has them for those who ask (/sys/kernel/mm/transparent_hugepage/enabled: madvise). Memory that
/// nobody asks for stays with the system. To be called before other threads are there.
void useHugePages();

} // namespace colossal

#endif // COLOSSAL_TOOLS_COLOSSALCOMPILE_HUGEPAGES_H
