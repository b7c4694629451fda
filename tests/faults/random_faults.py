"""Random faults in training jobs: what kills whom when, and what must be true afterwards.

Deadlines count from the fault until the launcher has ended. They are what the documentation says
(others notice a dead process within a second, a stopped one after the heartbeat timeout, and then
have 3 s to end by themselves) and a margin for a busy machine.
"""

import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

STOPS, RESUMES, LANES = 2, 4, 2
STEPS = 24
MARGIN = 6
DEAD_SECONDS = 1 + 3 + MARGIN
USUAL_SILENCE, SHORT_SILENCE = 10, 3
BUSY_SECONDS = 10  # of evaluation: a run that is asked to end ends after it, and shm hears silence after it
ORPHAN_SECONDS = 2
HANG_SECONDS = 60  # nothing here takes so long unless it hangs
HOST = socket.gethostname()
PIPELINES = [(2, 2), (3, 3), (4, 2)]  # workers, stages; the last is a grid of 2 x 2


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
    resume: tuple[str, ...] | None  # with these flags; None: not at all
    stages: int = 1
    silence: int = USUAL_SILENCE  # seconds without a heartbeat

    @property
    def deadline(self):
        if self.rank is None:
            return ORPHAN_SECONDS
        if self.signal not in (signal.SIGSTOP, signal.SIGTERM):
            return DEAD_SECONDS
        stopped = self.silence + 3 + MARGIN
        seconds = stopped if self.signal == signal.SIGSTOP else DEAD_SECONDS
        return seconds + BUSY_SECONDS * (self.moment == "evaluation")

    def recipe(self):
        flags = ["--workers", str(self.workers), "--stages", str(self.stages), "--silence", str(self.silence)]
        return [*recipe(self.transport), *flags]


def recipe(transport):
    return [
        *("--data", "fashion-mnist", "--model", "convnet", "--batch", "32", "--shards", "4", "--steps", str(STEPS)),
        *("--set", "checkpoint.every_steps=2", "--set", "log.every_steps=1", "--transport", transport),
    ]


def longest_delay(moment, evaluation_seconds):
    return {"loading": 1, "meeting": 0.3, "step": 0.05, "evaluation": 0.3 * evaluation_seconds}[moment]


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
    return Fault(
        number=number,
        signal=signal.SIGSTOP if stop else signal.SIGKILL if rank is None else dice.choice(kinds),
        rank=rank,
        workers=workers,
        transport=dice.choice(["shm", "tcp"]),
        moment=moment,
        step=dice.randrange(1, STEPS - 5),
        delay=dice.uniform(0, longest_delay(moment, evaluation_seconds)),
        resume=("--workers", str(dice.randint(1, 4))) if resume else None,
    )


def random_pipeline_fault(dice, number, evaluation_seconds):
    """A worker that is killed, or (every third) stopped; the run is resumed by a pipeline or by one worker."""
    stop = number % 3 == 2
    workers, stages = PIPELINES[number % len(PIPELINES)] if number < len(PIPELINES) else dice.choice(PIPELINES)
    moment = dice.choice(["step", "step", "step", "evaluation"] + ["meeting"] * (not stop))
    same = ("--workers", str(workers))
    return Fault(
        number=number,
        signal=signal.SIGSTOP if stop else signal.SIGKILL,
        rank=dice.randrange(workers),
        workers=workers,
        transport=dice.choice(["shm", "tcp"]),
        moment=moment,
        step=dice.randrange(1, STEPS - 5),
        delay=dice.uniform(0, longest_delay(moment, evaluation_seconds)),
        resume=dice.choice([same, ("--workers", "1"), ("--workers", "2", "--stages", "1")]),
        stages=stages,
        silence=SHORT_SILENCE,
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

    def __init__(self, lockstep, out, *flags):
        self.out = out
        self.errors = Path(f"{out}.stderr")
        self.results = Path(f"{out}.stdout")
        self.pids = []
        command = [str(Path(lockstep).resolve()), "train", "--out", str(out), "--json", *flags]
        with open(self.results, "w") as stdout, open(self.errors, "w") as stderr:
            self.launcher = subprocess.Popen(command, stdout=stdout, stderr=stderr, cwd=out.parent)

    def has_ended(self):
        return self.launcher.poll() is not None

    def find_workers(self, count):
        """Workers are forked in order of rank, after the guardian, and the kernel lists children in order of birth."""
        pid = self.launcher.pid
        try:
            pids = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:
            return False
        self.pids = pids[1:] if len(pids) == count + 1 else []
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
            wait_until(lambda: self.has_ended() or self.find_workers(fault.workers), HANG_SECONDS, "workers")
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


def undisturbed_result(lockstep, out, *flags):
    job = TrainingJob(lockstep, out, *flags)
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
    job = TrainingJob(lockstep, out, *fault.recipe())
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
    if fault.resume is not None:
        check_resumed(lockstep, out, fault, model)
    return seconds


def check_resumed(lockstep, out, fault, model):
    if out.exists():
        # A process that dies gives its command line back before its files.
        wait_until(lambda: is_free(out), fault.deadline, "the run's folder to be free")
        flags = ["--resume", *fault.resume]
    else:  # it was struck before it had a folder, and begins anew
        flags = fault.recipe()
    resumed = undisturbed_result(lockstep, out, *flags)["model_sha256"]
    assert resumed == model, f"resumed with {fault.resume}, it became another model: {resumed}, not {model}"


def all_end_as_promised(lockstep, make_fault, count, seed):
    """`count` random faults, of jobs of which two run at a time; `seed` is None for faults of today."""
    seed = random.randrange(1 << 32) if seed is None else seed
    dice = random.Random(seed)
    shared_before = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory(prefix="lockstep-faults-") as name:
        folder = Path(name)
        undisturbed = undisturbed_result(lockstep, folder / "undisturbed", "--workers", "2", *recipe("shm"))
        faults = [make_fault(dice, number, undisturbed["evaluation_seconds"]) for number in range(count)]

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
    assert not failures, f"{failures} of {count} faults did not end as promised; seed {seed}"
    assert not left, f"left in /dev/shm: {left}; seed {seed}"
