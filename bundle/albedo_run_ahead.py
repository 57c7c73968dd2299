"""What becomes of a run(...) in its own expression: whether it is a side of `|`.

The program starts at once, before Python has come to the `|`, and it has to be started fittingly: the
right side with an input that is told a moment later (any other must find the end of its input at once,
and no pipe, which some programs take for data to wait for); the left side with its standard output apart
(any other has both streams in one, in their order). So the call looks at the instructions that follow it.
"""
import opcode
import sys

from _opcode import stack_effect

MAX_INSTRUCTIONS = 1000
_BINARY = opcode.opmap["BINARY_OP"]
_EXTENDED = opcode.opmap["EXTENDED_ARG"]
_ATTRIBUTES = {opcode.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opcode.opmap}
_JUMPS = {*opcode.hasjrel, *opcode.hasjabs}
_IGNORED = {opcode.opmap.get("CACHE", 0)}
_NAME_SHIFT = 1 if sys.version_info >= (3, 12) else 0


def sides(frame) -> tuple:
    """(whether it is on the right of a `|`, whether on the left of one or of `.pipe`) for the value of
    the call that `frame` is in. (False, False) for all that is not seen to be one."""
    try:
        return _sides(frame.f_code, frame.f_lasti + 2)
    except Exception:
        return False, False


def _sides(code, at: int) -> tuple:
    instructions = code.co_code
    right, depth, argument, followed = False, 1, 0, False
    for at in range(at, min(len(instructions), at + 2 * MAX_INSTRUCTIONS), 2):
        operation = instructions[at]
        if operation in _IGNORED:
            continue
        argument = argument << 8 | instructions[at + 1]
        if operation == _EXTENDED:
            continue
        if operation == _BINARY and opcode._nb_ops[argument][1] in ("|", "|="):
            if depth == 2:
                return right, True
            if depth == 1 and not followed:
                right, argument = True, 0  # what comes of it is the right side itself
                continue
        if operation in _ATTRIBUTES and depth == 1:
            return right, code.co_names[argument >> _NAME_SHIFT] == "pipe"
        if operation in _JUMPS:
            break
        depth += stack_effect(operation, argument if operation >= opcode.HAVE_ARGUMENT else None)
        argument, followed = 0, True
        if depth < 1:
            break
    return right, False
