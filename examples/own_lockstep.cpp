// Your own program with all commands of `lockstep`: they know the models, data sets and objectives
// that are linked in.
//
//   build/examples/own_lockstep train recipes/fashion-convnet.toml
#include <lockstep/main.h>

int main(int argc, char** argv) {
  return lockstep::main(argc, argv);
}
