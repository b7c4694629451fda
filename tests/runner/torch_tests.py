"""Tests of LibTorch modules by name, though LibTorch is loaded twice a module and not once a test.

    torch_tests.py run PROGRAM HALF          runs half of a program's tests and writes PROGRAM.HALF.json
    torch_tests.py PROGRAM --gtest_list_tests
    torch_tests.py PROGRAM --gtest_filter=SUITE.TEST ...   tells how that one test has ended

The last two are how CMake's gtest_discover_tests calls a program through its launcher. A test that
failed, did not run, or ran before the program was built again fails.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

HALVES = 2


def results_of(program):
    """Of each test by name, from the halves that have run since the program was built."""
    built = max(path.stat().st_mtime_ns for path in [program, *program.parent.glob("liblockstep*.so")])
    results = {}
    for half in range(HALVES):
        file = Path(f"{program}.{half}.json")
        if not file.exists() or file.stat().st_mtime_ns < built:
            continue
        for suite in json.loads(file.read_text())["testsuites"]:
            results.update({f"{suite['name']}.{test['name']}": test for test in suite["testsuite"]})
    return results


def run_half(program, half):
    """Failures are told by the tests' own names; this fails where no test is to blame."""
    file = Path(f"{program}.{half}.json")
    file.unlink(missing_ok=True)
    shards = {"GTEST_TOTAL_SHARDS": str(HALVES), "GTEST_SHARD_INDEX": half}
    command = [program, "--gtest_brief=1", f"--gtest_output=json:{file}"]
    code = subprocess.run(command, env={**os.environ, **shards}).returncode
    if code == 1 and file.exists() and json.loads(file.read_text())["failures"] > 0:
        return 0
    return 0 if code == 0 and file.exists() else 1


def tell(program, name):
    test = results_of(program).get(name)
    if test is None or test["status"] != "RUN":
        print(f"{name} has not run since {program.name} was built")
        return 1
    for failure in test.get("failures", []):
        print(failure["failure"])
    print(f"took {test['time']}")
    if test["result"] == "SKIPPED":
        print("[  SKIPPED ]")
    return 1 if "failures" in test else 0


def main(first, *rest):
    if first == "run":
        return run_half(Path(rest[0]), rest[1])
    program, option = Path(first), rest[0]
    if option == "--gtest_list_tests":
        os.execv(program, [first, *rest])
    return tell(program, option.removeprefix("--gtest_filter="))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
