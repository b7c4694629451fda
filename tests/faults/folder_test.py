"""What users are promised when a run's folder is removed, full or read-only while a run needs it.

    folder_test.py LOCKSTEP TEST

Full and read-only file systems are mounted in a mount namespace of the test's own, which ends with it. Where that may
not be made, these tests end with 77, which ctest shows as skipped, and say why.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "beds"), str(TESTS)]
from mounts import why_not  # noqa: E402
from named_tests import SKIPPED, run_named  # noqa: E402

HANG_SECONDS = 60  # nothing here takes so long unless it hangs
TRAIN = ["train", "--data", "fashion-mnist", "--model", "convnet", "--batch", "64", "--shards", "2",
         "--set", "log.every_steps=1", "--set", "checkpoint.every_steps=5"]


class Run:
    """A run of many steps that has written a checkpoint."""

    def __init__(self, lockstep, out, *flags):
        self.out = Path(out)
        command = [lockstep, *TRAIN, "--steps", "100000", "--out", str(out), *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + HANG_SECONDS
        while not list(self.out.glob("checkpoints/*.safetensors")):
            assert self.process.poll() is None and time.monotonic() < deadline, self.end()
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def end(self):
        output, errors = self.process.communicate(timeout=HANG_SECONDS)
        return self.process.returncode, output, errors


def a_removed_folder_is_an_error(lockstep):
    for flags in (["--json"], ["--workers", "2"], ["--workers", "2", "--elastic", "--json"]):
        with tempfile.TemporaryDirectory() as folder, Run(lockstep, f"{folder}/run", *flags) as run:
            remove(run.out)
            code, _, errors = run.end()
            assert code == 1, (flags, code, errors)
            assert "was removed while" in errors and "start the run again" in errors, (flags, errors)
            assert not run.out.exists(), (flags, list(run.out.rglob("*")))


def remove(folder):
    """As rm -rf does it, which may have to try again because the run adds a file at that moment."""
    deadline = time.monotonic() + HANG_SECONDS
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        assert time.monotonic() < deadline, list(folder.rglob("*"))


def in_own_mounts(test):
    """Runs the test in a mount namespace, with a file system of 8 MB at a folder that it is given."""

    def run(lockstep):
        if os.environ.get("LOCKSTEP_OWN_MOUNTS") == test.__name__:
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)
                try:
                    return test(lockstep, Path(folder))
                finally:
                    subprocess.run(["umount", "--lazy", folder], check=True)
        if reason := why_not():
            print(f"no mounts of the test's own here: {reason}")
            sys.exit(SKIPPED)
        environment = {**os.environ, "LOCKSTEP_OWN_MOUNTS": test.__name__}
        sys.exit(subprocess.run(["unshare", "--mount", sys.executable, "-B", *sys.argv], env=environment).returncode)

    run.__name__ = test.__name__
    return run


def fill(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert "space" in str(error), error


@in_own_mounts
def a_full_disk_says_how_to_go_on(lockstep, small):
    for flags in (["--workers", "2"], ["--workers", "2", "--elastic"]):
        out = small / ("elastic" if "--elastic" in flags else "plain")
        with Run(lockstep, out, *flags) as run:
            fill(small / "filler")
            code, _, errors = run.end()
        assert code == 2, (flags, code, errors)
        assert "No space left" in errors and "free some space" in errors, (flags, errors)
        (small / "filler").unlink()
        again = subprocess.run([lockstep, "train", "--resume", "--out", str(out), "--json", *stop_after(out, 3)],
                               capture_output=True, text=True, timeout=HANG_SECONDS)
        assert f"lockstep train --resume --out {out}" in errors, (flags, errors)
        assert again.returncode == 0, (flags, again)
        shutil.rmtree(out)


def stop_after(out, steps):
    newest = max(out.glob("checkpoints/*.safetensors"))
    return ["--stop-at-step", str(int(newest.stem.removeprefix("step-")) + steps)]


@in_own_mounts
def a_read_only_folder_is_named(lockstep, small):
    with Run(lockstep, small / "run"):
        pass
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    for flags in ([], ["--elastic"]):
        command = [lockstep, "train", "--resume", "--out", str(small / "run"), *flags]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS)
        assert ended.returncode == 2, (flags, ended)
        assert "read-only" in ended.stderr and "mount it read-write" in ended.stderr, (flags, ended.stderr)
        assert "space" not in ended.stderr and "full" not in ended.stderr, (flags, ended.stderr)


if __name__ == "__main__":
    run_named(a_removed_folder_is_an_error, a_full_disk_says_how_to_go_on, a_read_only_folder_is_named)
