#pragma once

// As omp.h declares them, which not all of Clang's packages have.
extern "C" {
int omp_get_max_threads();
int omp_get_thread_num();
}
