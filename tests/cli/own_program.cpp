// A user's own program, for tests of `lockstep run`. Its first word says what it does.
#include <lockstep/world.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  const std::string deed = argc > 1 ? argv[1] : "";
  const std::string rank = std::getenv("RANK") == nullptr ? "0" : std::getenv("RANK");
  if (deed == "stay-away" && rank == "1") return 0;
  auto world = lockstep::init(argc, argv);
  std::printf("rank %d is here\n", world.rank());
  if (deed == "abort") std::abort();
  if (deed == "linger") pause();
  if (world.rank() == 1 && deed == "leave") return 0;
  if (world.rank() == 1 && deed == "fail") throw lockstep::BadInput("seven is too many");
  while (deed != "end") world.barrier();
  return 0;
}
