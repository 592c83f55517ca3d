"""The command line: python -m tracemalloc.

Only finds out which command is meant, and turns what can go wrong into an
exit status: 0 fine, 1 something about the data, 2 something about the
arguments.  Each command is a module with prepare(parser), which adds its
arguments, and run(options), which does the work and raises Failure.  It
returns the exit status, or a function that runs somebody's program.

A first argument that names no command belongs to "show", which therefore
needs no name: python -m tracemalloc FILE [FILE ...]
"""

import argparse
import os
import sys

# Name of the command: the module that has it.
COMMANDS = {"show": "_show", "run": "_run", "attach": "_attach"}
DEFAULT = "show"
OTHERS = ('"python -m tracemalloc run" traces a program from start to exit, '
          '"python -m tracemalloc attach" drives one that runs; each has its '
          'own --help.')


def _parser(name: str, module) -> argparse.ArgumentParser:
    program = "python -m tracemalloc"
    if name != DEFAULT:
        program += " " + name
    parser = argparse.ArgumentParser(
        prog=program, description=module.__doc__.partition("\n\n")[0],
        epilog=OTHERS if name == DEFAULT else None, allow_abbrev=False)
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


def _prepare_output():
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")
    elif hasattr(sys.stdout, "reconfigure"):
        # File names are not always text that the terminal can show.
        sys.stdout.reconfigure(errors="backslashreplace")


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return the exit status."""
    from tracemalloc._show import Failure
    try:
        name, module, arguments = _command(sys.argv[1:] if arguments is None
                                           else arguments)
        if not getattr(module, "QUIET", False):
            _prepare_output()
        options = _parser(name, module).parse_args(arguments)
        status = module.run(options) or 0
        if not callable(status):
            sys.stdout.flush()
            return status
    except Failure as failure:
        failure.show()
        return failure.status
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # Nothing can be written any more, and the interpreter must not try
        # when it exits.  A reader that has gone needs no message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 141
        Failure(error.strerror or str(error)).show()
        return 1
    # A program, whose exceptions are its own.
    return status() or 0


if __name__ == "__main__":
    sys.exit(main())
