"""Texts of source files: names in comments, which must not end them, and numbers as literals."""

import re
from dataclasses import replace
from typing import Any

from oda_rl.agents.policy_program import PolicyProgram

# What would end a comment, or a text in three quotes, and what compilers warn of within a comment
PYTHON_UNSAFE = re.compile(r'[\\"]')
C_UNSAFE = re.compile(r"\\|\*(?=/)|/(?=\*)|\?(?=\?)")
NOTHING_UNSAFE = re.compile("(?!)")
_SURROGATES = re.compile("[\ud800-\udfff]")


def with_safe_names(program: PolicyProgram, unsafe: re.Pattern[str]) -> PolicyProgram:
    r"""Return a copy in whose names the `unsafe` characters, and all unprintable ones, are escaped.

    Unprintable are line ends, other control characters, and those that change the direction of writing.
    Lone surrogates, which no encoding can store, become replacement characters: as escape sequences
    they would be read back as surrogates, and Python 3.13 compiles no docstring that has one.

    >>> escaped('a "name"\n', PYTHON_UNSAFE)
    'a \\x22name\\x22\\n'
    """
    return replace(
        program,
        name=escaped(program.name, unsafe),
        features=[escaped(name, unsafe) for name in program.features],
        action_names=[escaped(name, unsafe) for name in program.action_names],
    )


def escaped(text: str, unsafe: re.Pattern[str]) -> str:
    """Write the `unsafe` and the unprintable characters of a text as escape sequences of Python."""
    text = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
    text = unsafe.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def nested(numbers: Any, brackets: str) -> str:
    """A number or a nested list as a literal of Python or C."""
    if not isinstance(numbers, list):
        return repr(numbers).replace("inf", "inf" if brackets == "()" else "INFINITY")
    inner = ", ".join(nested(number, brackets) for number in numbers)
    return f"{brackets[0]}{inner}{',' if brackets == '()' and len(numbers) == 1 else ''}{brackets[1]}"
