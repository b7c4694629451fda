// A shared library that has nothing to do with Lockstep.
int something_else() {
  return 0;
}
