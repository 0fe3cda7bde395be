"""Looks for known vulnerabilities of the installed packages: `python -m snapline.devtools.audit`.

Needs access to an index with advisories. Where there is none it says so, and does not fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

TIMEOUT_S = 120.0
COMMAND = (sys.executable, "-m", "pip_audit", "--local", "--skip-editable", "--progress-spinner", "off", "-f", "json")


def main(command: Sequence[str] = COMMAND, timeout_s: float = TIMEOUT_S) -> int:
    """Returns 1 if a package has a known vulnerability, else 0."""
    try:
        # Its status is 1 for vulnerabilities and for all problems alike: only the report tells.
        made = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)  # noqa: S603
        packages = json.loads(made.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        print(f"packages not audited: no answer within {timeout_s:g} s")
        return 0
    except (ValueError, KeyError, TypeError):
        last = (made.stderr.strip().splitlines() or ["no report"])[-1]
        print(f"packages not audited: {last}")
        return 0
    found = [line for package in packages for line in _vulnerabilities(package)]
    for line in found:
        print(line)
    unknown = sum("skip_reason" in package for package in packages)
    print(f"{len(packages) - unknown} packages audited, {unknown} without advisories, {len(found)} vulnerabilities")
    return 1 if found else 0


def _vulnerabilities(package: dict[str, Any]) -> list[str]:
    name = f"{package['name']} {package.get('version', '')}"
    return [
        f"{name}: {item['id']}, fixed in {', '.join(item['fix_versions']) or 'no version'}"
        for item in package.get("vulns", ())
    ]


if __name__ == "__main__":
    sys.exit(main())
