# Open MPI and MPICH side by side, whichever of them find_package(MPI) would choose: the targets
# mpi_openmpi and mpi_mpich, and their launchers. Stops where one is missing: what is tested or
# compared must be there.
function(lockstep_find_mpi name header_folders library package launcher launcher_package)
  if(TARGET mpi_${name})
    return()
  endif()
  find_path(LOCKSTEP_${name}_HEADERS mpi.h PATHS ${header_folders} NO_DEFAULT_PATH)
  find_library(LOCKSTEP_${name}_LIBRARY ${library}
    HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/${name}/lib)
  find_program(LOCKSTEP_${name}_LAUNCHER ${launcher})
  if(NOT LOCKSTEP_${name}_HEADERS OR NOT LOCKSTEP_${name}_LIBRARY)
    message(FATAL_ERROR "There is no ${name} to test with. Install Debian's ${package}, or configure "
      "with -DLOCKSTEP_MPI=OFF.")
  endif()
  if(NOT LOCKSTEP_${name}_LAUNCHER)
    message(FATAL_ERROR "There is no ${launcher}. Install Debian's ${launcher_package}, or configure "
      "with -DLOCKSTEP_MPI=OFF.")
  endif()
  add_library(mpi_${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(mpi_${name} SYSTEM INTERFACE ${LOCKSTEP_${name}_HEADERS})
  target_compile_definitions(mpi_${name} INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
  target_link_libraries(mpi_${name} INTERFACE ${LOCKSTEP_${name}_LIBRARY})
endfunction()

lockstep_find_mpi(openmpi /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include
  mpi libopenmpi-dev mpirun.openmpi openmpi-bin)
# Later versions have their data types in a library of its own.
find_library(LOCKSTEP_openmpi_TYPES open_mpi HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/lib)
if(LOCKSTEP_openmpi_TYPES)
  target_link_libraries(mpi_openmpi INTERFACE ${LOCKSTEP_openmpi_TYPES})
endif()
lockstep_find_mpi(mpich /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/mpich
  mpich libmpich-dev mpiexec.mpich mpich)
