"""What programs inside are told of brokers: where each is, and no key."""

import json
import tomllib
from typing import Any

from belljar.policy.services import service_from_data
from belljar.policy.variables import PLACEHOLDER
from belljar.sandbox.agentsettings import CODEX_FILE, agent_files, agent_variables


def services(**entries: dict[str, Any]):
    return [service_from_data(name, data) for name, data in entries.items()]


def opencode(variables: dict[str, str]) -> dict[str, str]:
    told = json.loads(variables["OPENCODE_CONFIG_CONTENT"])["provider"]
    return {name: provider["options"]["baseURL"] for name, provider in told.items()}


def test_every_program_is_told_in_its_own_way_where_a_provider_is():
    told = services(anthropic={}, openai={}, openrouter={}, gemini={"at": 8080})
    variables = agent_variables(told)
    assert variables["ANTHROPIC_BASE_URL"] == "http://anthropic.belljar.internal"
    assert variables["OPENAI_BASE_URL"] == "http://openai.belljar.internal/v1"
    assert opencode(variables) == {
        "anthropic": "http://anthropic.belljar.internal/v1",
        "openai": "http://openai.belljar.internal/v1",
        "openrouter": "http://openrouter.belljar.internal/api/v1",
        "google": "http://gemini.belljar.internal:8080/v1beta",
    }
    assert {value.endswith(PLACEHOLDER) for name, value in variables.items() if name.endswith("_KEY")} == {True}
    codex = tomllib.loads(agent_files(told)[CODEX_FILE].decode())
    assert codex["model_providers"][codex["model_provider"]]["base_url"] == variables["OPENAI_BASE_URL"]
    assert codex["web_search"] == "disabled"


def test_a_model_api_at_another_place_may_speak_either_language():
    told = services(models={"url": "https://models.example/api/v1"})
    variables = agent_variables(told)
    assert variables["MODELS_BASE_URL"] == variables["OPENAI_BASE_URL"] == "http://models.belljar.internal/api/v1"
    assert variables["ANTHROPIC_BASE_URL"] == "http://models.belljar.internal/api"
    assert opencode(variables) == dict.fromkeys(("anthropic", "openai"), variables["OPENAI_BASE_URL"])
    assert variables["OPENAI_BASE_URL"].encode() in agent_files(told)[CODEX_FILE]


def test_a_providers_own_broker_goes_before_one_that_may_be_like_it():
    told = services(models={"url": "https://models.example/v1"}, openai={"server_tools": "allow"})
    assert agent_variables(told)["OPENAI_BASE_URL"] == "http://openai.belljar.internal/v1"
    assert agent_variables(told)["ANTHROPIC_BASE_URL"] == "http://models.belljar.internal"
    assert "web_search" not in tomllib.loads(agent_files(told)[CODEX_FILE].decode())


def test_nothing_is_told_where_there_is_no_broker():
    told = services(database={"port": 5432})
    assert agent_variables(told) == {}
    assert agent_files(told) == agent_files(services(anthropic={})) == {}
