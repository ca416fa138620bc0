"""Databases, by their names: protocols that the gateway does not know."""

import pytest

from tests.gateway.clients import servers
from tests.universe import addresses
from tests.universe.machines import USER


@pytest.fixture(scope="module")
def database(machine, whole_universe):
    with servers.postgres(machine, whole_universe.certificates):
        yield


@pytest.fixture(scope="module")
def store(machine):
    with servers.redis(machine):
        yield


def psql(host: str, statement: str, **settings: str) -> list[str]:
    parameters = {"host": host, "user": USER, "dbname": "postgres", "connect_timeout": "10", **settings}
    connection = " ".join(f"{name}={value}" for name, value in parameters.items())
    return [servers.program("psql", "postgresql-client"), "--no-psqlrc", "-tAc", statement, connection]


def redis_cli(host: str, *command: str) -> list[str]:
    return [servers.program("redis-cli", "redis-tools"), "-h", host, *command]


@pytest.mark.parametrize("tls", ["disable", "verify-full"])
def test_psql(database, enter, universe, tls):
    inside = enter("db.machine.test:5432")
    settings = {"sslmode": tls, "sslrootcert": str(universe.certificates.path)}
    rows = inside.works(*psql("db.machine.test", "select n, n * n from generate_series(1, 5000) n", **settings))
    assert rows.splitlines() == [f"{n}|{n * n}" for n in range(1, 5001)]
    encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
    assert inside.works(*psql("db.machine.test", encrypted, **settings)) == ("f\n" if tls == "disable" else "t\n")
    assert inside.has_reached(5432)

    inside.is_denied(*psql("other.machine.test", "select 1", sslmode=tls))
    inside.is_denied(*psql(addresses.MACHINE, "select 1", sslmode=tls))


def test_psql_where_only_the_web_is_granted(database, enter):
    inside = enter("db.machine.test")
    inside.is_denied(*psql("db.machine.test", "select 1"))
    assert enter("db.machine.test:5432").works(*psql("db.machine.test", "select 1")) == "1\n"


def test_redis_cli(store, enter):
    inside = enter("store.machine.test:6379")
    assert inside.works(*redis_cli("store.machine.test", "set", "key", "x" * 100_000)) == "OK\n"
    assert inside.works(*redis_cli("store.machine.test", "get", "key")) == "x" * 100_000 + "\n"
    assert inside.has_reached(6379)

    inside.is_denied(*redis_cli("other.machine.test", "get", "key"))
    inside.is_denied(*redis_cli(addresses.MACHINE, "get", "key"))
