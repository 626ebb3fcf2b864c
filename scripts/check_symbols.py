"""Checks that another libtorch has every symbol that a library takes from the libtorch it was linked with.

    scripts/check_symbols.py LIBRARY FOLDER-OF-ITS-LIBTORCH FOLDER-OF-THE-OTHER
"""

import subprocess
import sys
from pathlib import Path


def symbols(library: Path, *, defined: bool) -> set[str]:
    option = "--defined-only" if defined else "--undefined-only"
    command = ("nm", "--dynamic", "--format=just-symbols", option, str(library))
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {line.partition("@")[0] for line in listed.split()}


def given_by(folder: Path) -> set[str]:
    libraries = sorted(folder.glob("lib*.so"))
    if not libraries:
        sys.exit(f"no library in {folder}")
    return set().union(*(symbols(library, defined=True) for library in libraries))


def main() -> int:
    library, own, other = (Path(argument) for argument in sys.argv[1:4])
    needed = symbols(library, defined=False) & given_by(own)
    missing = sorted(needed - given_by(other))
    for name in missing:
        print(f"{other} does not have {name}")
    print(f"symbols: {library.name} takes {len(needed)} from libtorch, {len(missing)} of them are missing")
    return 0 if needed and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
