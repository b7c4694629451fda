#include "lockstep/main.h"

int main(int argc, char** argv) {
  return lockstep::main(argc, argv);
}
