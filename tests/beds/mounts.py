"""Commands that run among mounts of their own, which end with them.

    subprocess.run(among_own_mounts("mount -t tmpfs tmpfs /dev/shm", [program, ...]))
"""

import subprocess


def why_not():
    """Why this machine cannot have mounts of a command's own; nothing where it can."""
    probe = subprocess.run(["unshare", "--mount", "mount", "--make-rprivate", "/"], capture_output=True, text=True)
    return probe.stderr.strip() or "unshare fails" if probe.returncode != 0 else None


def among_own_mounts(script, command):
    """The command after the shell's script, in a mount namespace of its own."""
    inside = f'mount --make-rprivate /\n{script}\nexec "$@"'
    return ["unshare", "--mount", "sh", "-e", "-c", inside, "sh", *command]
