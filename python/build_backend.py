"""The build of the package: that of scikit-build-core, which says how far it is, and first which package of Debian is missing."""

import contextlib
import pathlib
import shutil
import subprocess
import sysconfig
import threading

from scikit_build_core import build as backend
from scikit_build_core.build import *  # noqa: F403 - what else pip asks a backend for

ROOT = pathlib.Path(__file__).resolve().parent.parent


def missing_packages():
    """Of Debian, where this is a checkout on it: the source distribution brings the sources of libraries itself."""
    install = ROOT / "scripts/install"
    if not install.exists() or not shutil.which("dpkg-query"):
        return []
    header = pathlib.Path(sysconfig.get_path("include"), "Python.h")
    packages = [] if header.exists() else ["python3-dev"]
    return subprocess.run([install, "--missing", *packages], capture_output=True, text=True, check=True).stdout.split()


@contextlib.contextmanager
def progress():
    """Says on the terminal, if there is one, each tenth that is compiled: pip shows nothing of a build that goes well."""
    done = threading.Event()

    def watch(terminal):
        told = 0
        while not done.wait(1):
            for ninja in (ROOT / "build").glob("cp3*/build.ninja"):
                rules = sum(line.startswith("build ") and ".o: " in line for line in ninja.open())
                log = ninja.with_name(".ninja_log")
                made = sum(".o\t" in line for line in log.open()) if log.exists() else 0
                if rules and made * 10 // rules > told:
                    told = made * 10 // rules
                    print(f"\rqkv: {made} of {rules} files are compiled", file=terminal, flush=True)

    try:
        terminal = open("/dev/tty", "w")
    except OSError:
        terminal = None
    if terminal:
        threading.Thread(target=watch, args=(terminal,), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    missing = missing_packages()
    if missing:
        raise SystemExit(f"qkv: not installed: {' '.join(missing)}\nqkv: as root, this installs them: scripts/install {' '.join(missing)}")
    with progress():
        return backend.build_wheel(wheel_directory, config_settings, metadata_directory)
