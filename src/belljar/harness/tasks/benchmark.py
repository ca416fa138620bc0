"""`BENCHMARK.yaml`: the name of a benchmark, and the images that its tasks can begin with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from belljar.harness.documents import StrictDocument
from belljar.harness.mappings import MappingKeys, StrictMapping, kind_of, name_problem, quote_key
from belljar.harness.tasks.model import BaseImage, Benchmark
from belljar.policy.language.syntax import Syntax

FILE_NAME: Final = "BENCHMARK.yaml"

_KEYS: Final = MappingKeys(("name", "base_images"), required=("name",))
_IMAGE_KEYS: Final = MappingKeys(
    ("official_image", "extra_packages", "pip_packages", "user_directive", "post_install_directive"),
    required=("official_image", "extra_packages"),
)


class LoadedBenchmark(NamedTuple):
    """A benchmark, and the entries of `base_images` as they are written, of which hashes are made."""

    benchmark: Benchmark
    specs: Mapping[str, Mapping[str, Any]]


def load_benchmark(directory: Path) -> LoadedBenchmark:
    """Read the `BENCHMARK.yaml` of a directory. Raises UnreadableDocumentError and InvalidDocumentError."""
    document = StrictDocument(directory / FILE_NAME, "benchmark", Syntax.YAML)
    keys = StrictMapping(document, "", document.data, _KEYS)
    name = keys.name("name")
    specs = _base_specs(keys)
    images = {key: _base_image(document, key, spec) for key, spec in specs.items()}
    document.check()
    return LoadedBenchmark(Benchmark(name=name, directory=directory, base_images=images), specs)


def _base_specs(keys: StrictMapping) -> dict[str, Any]:
    specs = keys.value("base_images")
    if specs is None:
        return {}
    if not isinstance(specs, dict):
        keys.fail("base_images", f"is {kind_of(specs)}; write a mapping of names to images")
        return {}
    for key in specs:
        if problem := name_problem(key):
            keys.fail(f"base_images.{quote_key(key)}", problem)
    return specs


def _base_image(document: StrictDocument, key: str, spec: object) -> BaseImage:
    keys = StrictMapping(document, f"base_images.{quote_key(key)}", spec, _IMAGE_KEYS)
    return BaseImage(
        key=key,
        official_image=keys.words("official_image"),
        extra_packages=keys.texts("extra_packages"),
        pip_packages=keys.texts("pip_packages"),
        user_directive=keys.text("user_directive"),
        post_install_directive=keys.text("post_install_directive"),
    )
