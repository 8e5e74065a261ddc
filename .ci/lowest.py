"""Write constraints for pip: the lowest versions that pyproject.toml allows, and the tested torch."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOUND = re.compile(r"([\w.-]+)(?:\[.*\])?>=([\w.]+)")


def lowest_versions() -> dict[str, str]:
    """The lowest version of each package in the dependencies and the extras; the highest of several."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, list[str]] = {}
    for line in sum(project["optional-dependencies"].values(), project["dependencies"]):
        if bound := BOUND.match(line):
            found.setdefault(bound[1].lower(), []).append(bound[2])
    return {
        name: max(versions, key=lambda one: [int(part) for part in one.split(".")])
        for name, versions in sorted(found.items())
    }


def main(path: Path) -> None:
    """Write the constraints, unless the file has them already: then nothing is installed again."""
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    lines = [f"{name}=={version}" for name, version in lowest_versions().items()]
    lines += [line for line in tested if line.startswith("torch==")]
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
