"""`python -m pgstrata`, and what the command `pgstrata` calls."""

# The built-in part of `signal`: to import the whole takes milliseconds, in which Ctrl-C is a traceback.
import _signal as signal  # type: ignore[import-not-found]
import gc
import os


def run() -> None:
    """Imports the command line and runs it. Ctrl-C before that ends the process without a traceback: nothing
    has begun."""
    # A shell's background job ignores the signal, and so do we.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Nearly all that is imported stays: looking for garbage among it takes a tenth of the CPU of a plan.
    gc.set_threshold(20_000, 50, 50)
    # Other packages' plug-ins of pydantic have no business here, and looking for them reads every package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from pgstrata.cli.main import main

    try:
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except KeyboardInterrupt:  # before the command has begun, or behind its end
        raise SystemExit(130) from None


if __name__ == "__main__":
    run()
