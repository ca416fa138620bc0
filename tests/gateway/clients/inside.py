"""Programs inside of a sandbox, and whether anything of them has left it."""

from tests.universe import Contact, Sandbox, Universe, addresses


class Inside:
    """Runs programs in a sandbox."""

    def __init__(self, universe: Universe, sandbox: Sandbox) -> None:
        self._universe, self._sandbox = universe, sandbox

    def works(self, *command: str, **variables: str) -> str:
        """Run a program that succeeds, and return what it prints."""
        done = self._sandbox.run(command, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def is_denied(self, *command: str, **variables: str) -> str:
        """Run a program that fails while nobody hears of it, and return all that it says."""
        self._universe.wire.forget()
        said = self.fails(*command, **variables)
        assert self._universe.wire.contacts() == set(), said
        assert self._universe.gateway.seen == []
        return said

    def fails(self, *command: str, **variables: str) -> str:
        """Run a program that fails, and return all that it says."""
        done = self._sandbox.run(command, **variables)
        assert done.returncode != 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def has_reached(self, port: int) -> bool:
        """Tell whether somebody has connected to a port of the machine."""
        return Contact("tcp", addresses.MACHINE, port) in self._universe.wire.contacts()
