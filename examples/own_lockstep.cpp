// The program `lockstep` as one of your own: models, data sets and objectives that are linked in
// are known to every command.
//
//   build/examples/own_lockstep train recipes/fashion-convnet.toml
#include <lockstep/main.h>

int main(int argc, char** argv) {
  return lockstep::main(argc, argv);
}
