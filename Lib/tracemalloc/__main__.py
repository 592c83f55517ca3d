"""The command line: python -m tracemalloc.

Only finds out which command is meant, and turns what can go wrong into an
exit status: 0 fine, 1 something about the data, 2 something about the
arguments.  Each command is a module with prepare(parser), which adds its
arguments, and run(options), which does the work and raises Failure.

A first argument that names no command belongs to "show", which therefore
needs no name: python -m tracemalloc FILE [FILE ...]
"""

import argparse
import os
import sys

# Name of the command: the module that has it.
COMMANDS = {"show": "_show"}
DEFAULT = "show"


def _parser(name: str, module) -> argparse.ArgumentParser:
    program = "python -m tracemalloc"
    if name != DEFAULT:
        program += " " + name
    parser = argparse.ArgumentParser(
        prog=program, description=module.__doc__.partition("\n\n")[0],
        allow_abbrev=False)
    module.prepare(parser)
    return parser


def _command(arguments: list[str]):
    """Split the arguments into a command and what is left for it."""
    name = DEFAULT
    if arguments and arguments[0] in COMMANDS and (
            arguments[0] != DEFAULT or not os.path.exists(DEFAULT)):
        name, *arguments = arguments
    module = __import__(f"tracemalloc.{COMMANDS[name]}", fromlist=("run",))
    return name, module, arguments


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return the exit status."""
    from tracemalloc._show import Failure
    if arguments is None:
        arguments = sys.argv[1:]
    name, module, arguments = _command(arguments)
    options = _parser(name, module).parse_args(arguments)
    try:
        status = module.run(options) or 0
        sys.stdout.flush()
        return status
    except Failure as failure:
        print(f"tracemalloc: {failure}", file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone.  Nothing may be written any more,
        # not even by the interpreter when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())
