"""A named test fails where its test failed, did not run, or ran before the program was built again."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RUNNER = Path(__file__).with_name("torch_tests.py")

# A test program of four tests: what is given as its WAY decides how it ends.
PROGRAM = """#!/bin/sh
file=${2#--gtest_output=json:}
echo half $GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS
[ "$WAY" = crash ] && kill -SEGV $$
cat results.$GTEST_SHARD_INDEX.json > "$file"
[ "$WAY" = leak ] && exit 23
exit ${CODE:-0}
"""


def results(name, failures=(), status="RUN", result="COMPLETED"):
    test = {"name": name, "status": status, "result": result, "time": "0.1s"}
    if failures:
        test["failures"] = [{"failure": text, "type": ""} for text in failures]
    return {"failures": int(bool(failures)), "testsuites": [{"name": "Suite", "testsuite": [test]}]}


class Bed:
    def __init__(self, folder):
        self.folder, self.program = folder, folder / "some_test"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def write(self, half, content):
        (self.folder / f"results.{half}.json").write_text(json.dumps(content))

    def call(self, *words, **variables):
        command = [sys.executable, "-B", RUNNER, *words]
        result = subprocess.run(command, cwd=self.folder, env={**os.environ, **variables}, capture_output=True, text=True)
        return result.returncode, result.stdout

    def run(self, half, **variables):
        return self.call("run", self.program, str(half), **variables)[0]

    def ended_well(self, name):
        code, said = self.call(self.program, f"--gtest_filter=Suite.{name}", "--gtest_also_run_disabled_tests")
        return code == 0, said


def main(folder):
    bed = Bed(folder)
    bed.write(0, results("Passes"))
    bed.write(1, results("Fails", failures=["seven is not eight"]))
    assert not bed.ended_well("Passes")[0], "has not run"
    assert bed.run(0) == 0 and bed.run(1, CODE="1") == 0, "failures are for the named tests to tell"
    assert bed.ended_well("Passes")[0]
    well, said = bed.ended_well("Fails")
    assert not well and "seven is not eight" in said, said
    assert not bed.ended_well("IsNotThere")[0]

    assert bed.run(0, CODE="1") == 1, "failed, though no test did"
    assert bed.run(0, WAY="leak") == 1
    assert bed.run(0, WAY="crash") == 1
    assert not bed.ended_well("Passes")[0], "a crash leaves no result"

    bed.write(0, results("Passes", status="NOTRUN"))
    assert bed.run(0) == 0 and not bed.ended_well("Passes")[0]
    bed.write(0, results("Passes", result="SKIPPED"))
    assert bed.run(0) == 0 and "[  SKIPPED ]" in bed.ended_well("Passes")[1]

    bed.write(0, results("Passes"))
    assert bed.run(0) == 0 and bed.ended_well("Passes")[0]
    later = (folder / "some_test.0.json").stat().st_mtime_ns + 10**9
    os.utime(bed.program, ns=(later, later))
    assert not bed.ended_well("Passes")[0], "the program is newer"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
