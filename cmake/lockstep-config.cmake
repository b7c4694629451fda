# What `find_package(lockstep)` reads: finds what users of its headers need, then lockstep::lockstep.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(fmt)
find_dependency(Torch)
include(${CMAKE_CURRENT_LIST_DIR}/lockstep-targets.cmake)
