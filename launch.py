#!/usr/bin/env python3
"""Entry point. `python launch.py` prepares the environment and opens the page; `launch.py --help` lists the verbs.

This file uses only the standard library, because the interpreter may have no other packages. If packages in
requirements.txt are missing, they are installed into a new `.venv` once, and the command continues there.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "Scripts" if os.name == "nt" else "bin", "python")
INSIDE = "PMSACL_STUDIO_INSIDE"
ROOM = 10  # disk space in GB that the installation of torch with its CUDA libraries needs; 7 GB stay in use


class Cannot(Exception):
    """Raised if the environment cannot be prepared; the message says what is wrong and what to do."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def requirements(*parts):
    return os.path.join(ROOT, *parts, "requirements.txt")


def lacking(file):
    """Returns the lines of a requirements file that installed packages do not satisfy. Only >= and ~= are checked."""
    missing = []
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            requirement = re.match(r"([A-Za-z0-9._-]+)\s*(>=|~=)?\s*([0-9.]*)", line)
            if not requirement:
                continue
            name, sign, version = requirement.groups()
            try:
                have = numbers(importlib.metadata.version(name))
            except importlib.metadata.PackageNotFoundError:
                missing.append(line.strip())
                continue
            least = numbers(version)
            if sign and (have < least or (sign == "~=" and have[: len(least) - 1] != least[:-1])):
                missing.append(line.strip())
    return missing


def numbers(version):
    return tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:4])


def stamp(file):
    with open(file, "rb") as content:
        digest = hashlib.sha256(content.read()).hexdigest()[:12]
    return os.path.join(VENV, "studio-" + digest)


def run(command, why):
    """Runs a command, with its output on stderr. Raises Cannot with the message `why` if the command fails."""
    try:
        if subprocess.call(command, stdout=sys.stderr) == 0:
            return
    except OSError as error:
        raise Cannot(f"{why}: {error}") from None
    raise Cannot(why)


def make_venv():
    if os.path.exists(PYTHON):
        return
    if importlib.util.find_spec("ensurepip") is None:
        # Debian keeps this part of Python in a separate package.
        package = "python3-venv"
        if not (hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get")):
            raise Cannot(f"this Python cannot create environments; run as root: apt-get install {package}")
        say(f"Installing {package}")
        subprocess.call(["apt-get", "update", "-q"], stdout=sys.stderr)
        run(["apt-get", "install", "-y", "-q", package], f"apt-get could not install {package}")
    say(f"Creating the environment in {VENV} (once)")
    run([sys.executable, "-m", "venv", VENV], f"the environment {VENV} could not be created; is the disk full?")


def install(file):
    """Installs a requirements file into .venv, unless this version of the file has been installed before."""
    if os.path.exists(stamp(file)):
        return
    say(f"Installing {os.path.relpath(file, ROOT)} (once; this needs the network)")
    free = shutil.disk_usage(VENV).free / 1e9
    if file == requirements() and free < ROOM:
        # This is only a warning, because torch without CUDA needs far less.
        say(f"Only {free:.1f} GB are free on this disk; up to {ROOM} GB are needed while installing")
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "-q", "-r", file]
    run(pip, "pip could not install everything; check the network and the disk's free space, then run this again")
    with open(stamp(file), "w"):
        pass


def project_stamp():
    return os.path.join(VENV, "studio-project")  # links stay valid when the files change


def install_project():
    """Installs the project in editable mode, so that programs in .venv can import pmsacl_studio."""
    if os.path.exists(project_stamp()):
        return
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "-q", "--no-deps", "-e", ROOT]
    run(pip, "pip could not install the project itself; check the network, then run this again")
    with open(project_stamp(), "w"):
        pass


def reenter(argv):
    environment = dict(os.environ, **{INSIDE: "1"})
    command = [PYTHON, os.path.join(ROOT, "launch.py")] + argv
    if os.name == "nt":
        sys.exit(subprocess.call(command, env=environment))
    os.execve(PYTHON, command, environment)


def prepare(argv):
    """Installs missing requirements. If .venv is needed, this restarts the command there and does not return."""
    needed = [requirements()] + ([requirements("tests")] if argv[:1] == ["test"] else [])
    if os.environ.get(INSIDE) != "1" or "test" in argv[:1]:
        ours = os.path.realpath(sys.prefix) == os.path.realpath(VENV)
        if ours and all(os.path.exists(mark) for mark in [*map(stamp, needed), project_stamp()]):
            return
        if not ours and not os.path.exists(PYTHON) and not any(lacking(file) for file in needed):
            return  # this interpreter has everything already
        make_venv()
        for file in needed:
            install(file)
        install_project()
        if not ours:
            reenter(argv)


def main():
    if sys.version_info < (3, 10):  # noqa: UP036 - a sentence instead of a traceback
        say(f"PMSACL Studio needs Python 3.10 or newer; this is {sys.version.split()[0]}")
        return 2
    argv = sys.argv[1:]
    try:
        prepare(argv)
    except Cannot as error:
        say(f"Error: {error}")
        return 1
    except KeyboardInterrupt:
        say("Stopped; run the same command to continue")
        return 1
    sys.path.insert(0, ROOT)
    if os.path.isdir(os.path.join(ROOT, "tests", "tools")):
        from tests.tools import main as commands  # with the verbs for developers
    else:
        from app.commands import main as commands
    return commands(argv)


if __name__ == "__main__":
    sys.exit(main())
