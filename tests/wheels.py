"""Check that all that `make demo` installs has wheels for every platform and Python: `make wheels`.

Runs in an environment as `make demo` makes it, and asks the package index for wheels of the versions in it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PLATFORMS = {
    "Linux x86-64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64"),
    "Linux ARM": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64"),
    "macOS ARM": ("macosx_14_0_arm64",),
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def installed_versions() -> str:
    """Return the packages of this environment with their versions, a line each, without the project's own."""
    command = [sys.executable, "-m", "pip", "freeze", "--exclude-editable", "--quiet"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def missing_wheels(requirements: Path, platforms: tuple[str, ...], python: str) -> str:
    """Return pip's sentence about the first package without a wheel; empty if all have one."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
    command += ["--only-binary", ":all:", "--python-version", python, "--target", str(requirements.parent / "none")]
    command += [word for platform in platforms for word in ("--platform", platform)]
    answer = subprocess.run([*command, "-r", str(requirements)], check=False, capture_output=True, text=True)
    errors = [line for line in answer.stderr.splitlines() if line.startswith("ERROR")]
    return "" if answer.returncode == 0 else (errors or ["ERROR: pip said nothing"])[-1]


def main() -> int:
    """Print a line for each platform and Python; return 1 if a wheel is missing."""
    missing = 0
    with tempfile.TemporaryDirectory(prefix="rw-wheels-") as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(installed_versions())
        for name, platforms in PLATFORMS.items():
            for python in PYTHONS:
                error = missing_wheels(requirements, platforms, python)
                missing += bool(error)
                print(f"{name}, Python {python}: {error or 'all wheels are there'}", flush=True)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
