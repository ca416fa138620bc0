"""The broker's peers: programs that put themselves between a client and a provider, and read what they relay.

Each leads to one provider over TLS, which it verifies, and is asked in plain HTTP. None has a network but loopback.
"""

from collections.abc import Callable
from pathlib import Path

from bench.fetching import PEERS, MissingError, from_pip, version_of
from bench.peers import Peer
from bench.relays import PATH


def mitmproxy(directory: Path, provider: str, authority: Path) -> Peer:
    """Mitmproxy as a reverse proxy that passes bodies on as they come."""
    program = str(from_pip("mitmproxy", "mitmproxy") / "bin" / "mitmdump")
    options = {"confdir": directory, "stream_large_bodies": 1, "ssl_verify_upstream_trusted_ca": authority}
    settings = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    return Peer(
        version_of(program, "--version"),
        "`reverse` mode with `stream_large_bodies`: no key is put in, and nothing is counted",
        [program, "--mode", f"reverse:{provider}", "--listen-host", "127.0.0.1", "--listen-port", "4007", *settings],
        4007,
    )


def litellm(directory: Path, provider: str, authority: Path) -> Peer:
    """LiteLLM's proxy, by the way on which it passes a provider's API through, if somebody has installed it."""
    programs = PEERS / "litellm" / "bin"
    if not (programs / "litellm").exists():
        raise MissingError("It is not installed at .cache/bench-peers/litellm, and too large to be fetched in passing.")
    (directory / "litellm.yaml").write_text("model_list: []\n")
    version = "import importlib.metadata; print(importlib.metadata.version('litellm'))"
    return Peer(
        version_of(str(programs / "python"), "-c", version),
        "pass-through of `/anthropic`: the key is put in, and usage counted when the answer has ended",
        [str(programs / "litellm"), "--config", "litellm.yaml", "--host", "127.0.0.1", "--port", "4008"],
        4008,
        environment={
            "ANTHROPIC_API_BASE": provider,
            "ANTHROPIC_API_KEY": "sk-bench",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # it would be fetched
            "LITELLM_TELEMETRY": "False",
            "NO_PROXY": "localhost",
            "SSL_CERT_FILE": str(authority),
        },
    )


RELAYS: dict[str, tuple[Callable[[Path, str, Path], Peer], str]] = {
    "mitmproxy": (mitmproxy, PATH),
    "LiteLLM": (litellm, f"/anthropic{PATH}"),
}
