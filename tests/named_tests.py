"""One test of a test program, by its name in ctest: PROGRAM LOCKSTEP TEST [SEED]."""

import sys

SKIPPED = 77  # as CMakeLists.txt's SKIP_RETURN_CODE


def run_named(*tests, needs=None, why_not=lambda: None):
    """Runs the function a_host_is_named as AHostIsNamed, or skips it where `why_not` has a reason."""
    if reason := why_not():
        print(f"no {needs} here: {reason}")
        sys.exit(SKIPPED)
    names = {"".join(word.capitalize() for word in test.__name__.split("_")): test for test in tests}
    _, lockstep, name, *seed = sys.argv
    names[name](lockstep, *map(int, seed))
