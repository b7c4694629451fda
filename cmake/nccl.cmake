# Sets LOCKSTEP_HAS_NCCL: whether the LibTorch at hand has c10d's ProcessGroupNCCL, and there is the
# nccl.h that its header includes (of LibTorch's NCCL; -DLOCKSTEP_NCCL_HEADERS=FOLDER says where).
# Most LibTorches have not, and this costs them nothing.
include(CheckCXXSourceCompiles)
include(CMakePushCheckState)

find_path(LOCKSTEP_NCCL_HEADERS nccl.h HINTS ENV NCCL_ROOT ENV CUDA_HOME PATH_SUFFIXES include
  DOC "The folder of nccl.h")
find_file(LOCKSTEP_NCCL_GROUP torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp
  HINTS ${TORCH_INCLUDE_DIRS} DOC "c10d's header for NCCL")
mark_as_advanced(LOCKSTEP_NCCL_HEADERS LOCKSTEP_NCCL_GROUP)

set(LOCKSTEP_HAS_NCCL OFF)
if(LOCKSTEP_NCCL_HEADERS AND LOCKSTEP_NCCL_GROUP)
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_LIBRARIES ${TORCH_LIBRARIES})
  set(CMAKE_REQUIRED_INCLUDES ${LOCKSTEP_NCCL_HEADERS})
  set(CMAKE_REQUIRED_DEFINITIONS -DUSE_C10D_NCCL)
  set(CMAKE_REQUIRED_QUIET ON)
  # Links, so that a LibTorch that has the header but not the class is found out.
  check_cxx_source_compiles("
    #include <torch/csrc/distributed/c10d/HashStore.hpp>
    #include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
    int main() {
      c10d::ProcessGroupNCCL group(c10::make_intrusive<c10d::HashStore>(), 0, 1);
    }" LOCKSTEP_NCCL_LINKS)
  cmake_pop_check_state()
  set(LOCKSTEP_HAS_NCCL ${LOCKSTEP_NCCL_LINKS})
endif()
