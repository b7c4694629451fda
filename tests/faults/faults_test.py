"""What users are promised when workers fail: an end in time, a name, an exit code, nothing left behind.

    faults_test.py LOCKSTEP TEST [SEED]

Deadlines count from the fault until the launcher has ended. They are what the documentation says
(others notice a dead process within a second, a stopped one after 10 s of silence, and then have
3 s to end by themselves) and a margin for a busy machine.
"""

import fcntl
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
from named_tests import run_named  # noqa: E402

FAULTS = int(os.environ.get("LOCKSTEP_FAULTS", "24"))
STOPS, RESUMES, LANES = 2, 4, 2
STEPS = 24
MARGIN = 6
DEAD_SECONDS = 1 + 3 + MARGIN
STOPPED_SECONDS = 10 + 3 + MARGIN
BUSY_SECONDS = 10  # of evaluation: a run that is asked to end ends after it, and shm hears silence after it
ORPHAN_SECONDS = 2
HANG_SECONDS = 60  # nothing here takes so long unless it hangs
HOST = socket.gethostname()


@dataclass
class Fault:
    number: int
    signal: signal.Signals
    rank: int | None  # None: the launcher
    workers: int
    transport: str
    moment: str  # loading, meeting, step or evaluation
    step: int
    delay: float  # seconds after the moment
    resume: int  # with so many workers, or 0: not at all

    @property
    def deadline(self):
        if self.rank is None:
            return ORPHAN_SECONDS
        if self.signal not in (signal.SIGSTOP, signal.SIGTERM):
            return DEAD_SECONDS
        seconds = STOPPED_SECONDS if self.signal == signal.SIGSTOP else DEAD_SECONDS
        return seconds + BUSY_SECONDS * (self.moment == "evaluation")


def random_fault(dice, number, evaluation_seconds):
    """The first few are SIGSTOPs, the next few are resumed."""
    stop, resume = number < STOPS, STOPS <= number < STOPS + RESUMES
    workers = dice.randint(2, 4)
    rank = None if not stop and dice.random() < 0.2 else dice.randrange(workers)
    kinds = [signal.SIGKILL, signal.SIGKILL, signal.SIGABRT, signal.SIGTERM]
    moments = ["meeting", "meeting", "step", "step", "evaluation"] + ["loading"] * 2 * (rank is None)
    if stop:
        moments = ["step", "evaluation"]  # workers wait 60 s for one that is stopped while they meet
    elif resume:
        moments = ["step"]
    moment = dice.choice(moments)
    longest = {"loading": 1, "meeting": 0.3, "step": 0.05, "evaluation": 0.3 * evaluation_seconds}[moment]
    return Fault(
        number=number,
        signal=signal.SIGSTOP if stop else signal.SIGKILL if rank is None else dice.choice(kinds),
        rank=rank,
        workers=workers,
        transport=dice.choice(["shm", "tcp"]),
        moment=moment,
        step=dice.randrange(1, STEPS - 5),
        delay=dice.uniform(0, longest),
        resume=dice.randint(1, 4) if resume else 0,
    )


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.005)
    return result


def processes_with(word):
    """Pids of all whose command line has the word; zombies have none."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and word.encode() in Path("/proc", entry, "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry))
        except OSError:
            pass  # it ended meanwhile
    return found


def is_free(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


class TrainingJob:
    """One run of `lockstep train`, whose --out tells its processes from all others."""

    def __init__(self, lockstep, out, workers, *flags):
        self.out, self.workers = out, workers
        self.errors = Path(f"{out}.stderr")
        self.results = Path(f"{out}.stdout")
        self.pids = []
        command = [lockstep, "train", "--out", str(out), "--workers", str(workers), "--json", *flags]
        with open(self.results, "w") as stdout, open(self.errors, "w") as stderr:
            self.launcher = subprocess.Popen(command, stdout=stdout, stderr=stderr, cwd=out.parent)

    def has_ended(self):
        return self.launcher.poll() is not None

    def find_workers(self):
        """Workers are forked in order of rank, after the guardian, and the kernel lists children in order of birth."""
        pid = self.launcher.pid
        try:
            pids = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:
            return False
        self.pids = pids[1:] if len(pids) == self.workers + 1 else []
        return self.pids

    def events(self):
        file = self.out / "events.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [json.loads(line) for line in lines]

    def has_come_to(self, fault):
        if fault.moment in ("loading", "meeting"):
            return True
        name, step = ("step", fault.step) if fault.moment == "step" else ("evaluate", 0)
        return any(event["event"] == name and event["step"] >= step for event in self.events())

    def wait_for(self, fault):
        if fault.moment != "loading":
            wait_until(lambda: self.has_ended() or self.find_workers(), HANG_SECONDS, "workers")
        wait_until(lambda: self.has_ended() or self.has_come_to(fault), HANG_SECONDS, fault.moment)
        time.sleep(fault.delay)

    def strike(self, fault):
        """Whether there was still somebody to strike."""
        if self.has_ended():
            return False
        os.kill(self.launcher.pid if fault.rank is None else self.pids[fault.rank], fault.signal)
        return True

    def result(self):
        return json.loads(self.results.read_text().splitlines()[-1])

    def end(self):
        self.launcher.kill()
        self.launcher.wait()


def recipe(transport):
    return [
        *("--data", "fashion-mnist", "--model", "convnet", "--batch", "32", "--shards", "4", "--steps", str(STEPS)),
        *("--set", "checkpoint.every_steps=2", "--set", "log.every_steps=1", "--transport", transport),
    ]


def undisturbed_result(lockstep, out, workers, *flags):
    job = TrainingJob(lockstep, out, workers, *flags)
    try:
        assert job.launcher.wait(HANG_SECONDS) == 0, job.errors.read_text()
        return job.result()
    finally:
        job.end()


def check_ending(fault, job, model):
    """The exit code and the message are those of the worker that was struck."""
    code, errors = job.launcher.returncode, job.errors.read_text()
    who = f"lockstep: rank {fault.rank} ({HOST}, pid {job.pids[fault.rank]}) "
    killed = f"was killed by signal {fault.signal.value} ({signal.strsignal(fault.signal)})"
    if fault.signal == signal.SIGSTOP:
        assert code == 128 + signal.SIGKILL, (code, errors)
        assert who + "did not end in time and was killed" in errors, errors
    elif fault.signal == signal.SIGTERM and code == 0:
        assert job.result()["model_sha256"] == model, "asked to end after the last step, it trained something else"
    elif fault.signal == signal.SIGTERM and who + killed not in errors:
        # It listened: all stop after the step under way, with a checkpoint, or at once while they meet.
        assert code == 128 + signal.SIGTERM, (code, errors)
        assert who + "ended with exit code 143" in errors, errors
        assert "interrupted while waiting" in errors or job.events()[-1]["event"] == "stopped", errors
    else:
        assert code == 128 + fault.signal, (code, errors)
        assert who + killed in errors, errors


def suffer(lockstep, folder, fault, model):
    """Seconds from the fault to the end, or None if the run had ended before."""
    out = folder / f"run-{fault.number}"
    job = TrainingJob(lockstep, out, fault.workers, *recipe(fault.transport))
    try:
        job.wait_for(fault)
        begin = time.monotonic()
        if not job.strike(fault):
            return None
        wait_until(job.has_ended, fault.deadline, "the launcher to end")
        if fault.rank is None:
            wait_until(lambda: not processes_with(str(out)), fault.deadline, "workers to end without a launcher")
        seconds = time.monotonic() - begin
        assert not processes_with(str(out)), f"left behind: {processes_with(str(out))}"
        if fault.rank is not None:
            check_ending(fault, job, model)
    finally:
        job.end()
    if fault.resume:
        # A process that dies gives its command line back before its files.
        wait_until(lambda: is_free(out), fault.deadline, "the run's folder to be free")
        resumed = undisturbed_result(lockstep, out, fault.resume, "--resume")["model_sha256"]
        assert resumed == model, f"resumed by {fault.resume} workers, it became another model: {resumed}, not {model}"
    return seconds


def random_faults_end_as_promised(lockstep, seed=None):
    seed = random.randrange(1 << 32) if seed is None else seed
    dice = random.Random(seed)
    shared_before = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory(prefix="lockstep-faults-") as name:
        folder = Path(name)
        undisturbed = undisturbed_result(lockstep, folder / "undisturbed", 2, *recipe("shm"))
        faults = [random_fault(dice, number, undisturbed["evaluation_seconds"]) for number in range(FAULTS)]

        def outcome(fault):
            try:
                seconds = suffer(lockstep, folder, fault, undisturbed["model_sha256"])
                assert seconds is not None, "the run had ended before the fault"
                return f"{seconds:5.2f} s  {fault}", False
            except Exception as error:
                return f"FAILED: {error}\n  {fault}", True

        with ThreadPoolExecutor(LANES) as lanes:
            outcomes = list(lanes.map(outcome, faults))
    for text, _ in outcomes:
        print(text)
    left = set(os.listdir("/dev/shm")) - shared_before
    failures = sum(failed for _, failed in outcomes)
    assert not failures, f"{failures} of {FAULTS} faults did not end as promised; seed {seed}"
    assert not left, f"left in /dev/shm: {left}; seed {seed}"


def ended(process):
    """Its exit code and stderr."""
    try:
        _, errors = process.communicate(timeout=HANG_SECONDS)
        return process.returncode, errors
    finally:
        process.kill()
        process.wait()


def run_two(lockstep, script):
    process = subprocess.Popen([lockstep, "run", "-n", "2", "--", "sh", "-c", script], stderr=subprocess.PIPE, text=True)
    return ended(process)


def an_exit_code_of_a_program_is_passed_on(lockstep):
    begin = time.monotonic()
    code, errors = run_two(lockstep, "if [ $RANK = 1 ]; then echo no room >&2; exit 3; fi; sleep 60")
    assert code == 3, (code, errors)
    assert f"lockstep: rank 1 ({HOST}, pid " in errors, errors
    assert "ended with exit code 3; end of its stderr:\n  no room\n" in errors, errors
    assert time.monotonic() - begin < DEAD_SECONDS


def an_uncaught_exception_is_shown(lockstep):
    program = f"exec {sys.executable} -c 'raise ValueError(\"seven is too many\")'"
    code, errors = run_two(lockstep, f"if [ $RANK = 0 ]; then {program}; fi; sleep 60")
    assert code == 1, (code, errors)
    message = errors[errors.index(f"lockstep: rank 0 ({HOST}, pid ") :]
    assert "ended with exit code 1; end of its stderr:\n  Traceback" in message, errors
    assert message.endswith("  ValueError: seven is too many\n"), errors


def start_by_hand(environments, command):
    """Workers without a launcher; {RANK} in the command becomes the worker's rank."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "LOCKSTEP_JOB_KEY": "k"}
    return [
        subprocess.Popen(
            [word.format(**environment) for word in command],
            env={**os.environ, **meeting, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for environment in environments
    ]


def bench(lockstep):
    return [lockstep, "bench", "all_reduce", "-b", "4K", "-e", "4K", "--batches", "1"]


def all_refuse(processes, *pieces):
    for code, errors in [ended(process) for process in processes]:
        assert code == 1, (code, errors)
        assert all(piece in errors for piece in pieces), errors


def a_wrong_world_size_is_refused(lockstep):
    processes = start_by_hand([{"RANK": "0", "WORLD_SIZE": "2"}, {"RANK": "1", "WORLD_SIZE": "3"}], bench(lockstep))
    first, second = (f"rank {rank} ({HOST}, pid {process.pid})" for rank, process in enumerate(processes))
    all_refuse(processes, f"{second} was started for a world of 3, and {first} for a world of 2")


def two_workers_of_one_rank_are_refused(lockstep):
    processes = start_by_hand([{"RANK": rank, "WORLD_SIZE": "3"} for rank in "011"], bench(lockstep))
    both = [f"rank 1 ({HOST}, pid {process.pid})" for process in processes[1:]]
    all_refuse(processes, "two workers have rank 1: ", *both)


def a_rank_that_does_not_come_is_named(lockstep):
    """Soon. That the wait ends after 60 s is the business of tests/launch, where it can be shorter."""
    (process,) = start_by_hand([{"RANK": "0", "WORLD_SIZE": "2"}], bench(lockstep))
    try:
        assert "waiting for rank 1 at 127.0.0.1:" in process.stderr.readline()
    finally:
        process.kill()
        process.wait()


def different_recipes_are_refused(lockstep):
    with tempfile.TemporaryDirectory(prefix="lockstep-faults-") as folder:
        command = [lockstep, "train", *recipe("tcp"), "--out", f"{folder}/run", "--lr", "0.{RANK}5"]
        processes = start_by_hand([{"RANK": rank, "WORLD_SIZE": "2"} for rank in "01"], command)
        all_refuse(processes, "ranks disagree on optimizer.lr: rank 0 has 0.05, rank 1 has 0.15")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # SIGABRT would leave files
    run_named(
        random_faults_end_as_promised,
        an_exit_code_of_a_program_is_passed_on,
        an_uncaught_exception_is_shown,
        a_wrong_world_size_is_refused,
        two_workers_of_one_rank_are_refused,
        a_rank_that_does_not_come_is_named,
        different_recipes_are_refused,
    )
