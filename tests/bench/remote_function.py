"""What mitogen runs on the host: a module of its own, which it sends there."""


def remote_eval(code):
    return repr(eval(code))
