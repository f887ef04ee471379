"""What `spark-submit` is given: `ottla audit` with the session of its options.

    spark-submit --master yarn "$(python -m ottla.cli.submit --path)" --ledger hdfs:///ledger --topic orders ...

The arguments are those of `ottla audit`. `--path` alone says where this file is.
"""

from __future__ import annotations

import os
import sys

# Python looks for modules first where the file lies that it was given, and here `inspect` is a command of ours.
sys.path[:] = [
    each for each in sys.path if os.path.realpath(each or ".") != os.path.dirname(os.path.realpath(__file__))
]


def main() -> int:
    """The program; its exit status."""
    arguments = sys.argv[1:]
    if arguments == ["--path"]:
        sys.stdout.write(f"{__file__}\n")
        return 0
    from ottla.cli import main as run_command

    engine = [] if "--engine" in arguments else ["--engine", "spark"]
    return run_command(["audit", *arguments, *engine])


if __name__ == "__main__":
    sys.exit(main())
