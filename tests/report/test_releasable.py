"""Record and replay: the releasable edition must be a function of what the mechanisms released, and of nothing else."""

import dataclasses

import numpy as np
import pytest
from conftest import SCHEMA, make_table
from weft_lab.replay import replay

from weft.evaluation.report import render
from weft.evaluation.report.measure_report import measure_private, measure_releasable
from weft.privacy import Noise
from weft.privacy.mechanisms import Mechanisms
from weft.schema import Schema
from weft.synthesis.synthesizer import Synthesizer


def program(method, build):
    def run(data, release):
        synthesizer = Synthesizer(method=method, seed=5, epsilon=2.0).fit(
            data, Schema.from_toml(SCHEMA), release=release
        )
        fitted = synthesizer.fitted_
        synth = fitted.model.sample(200, np.random.default_rng(6))
        return build(fitted, synth, data)

    return run


def releasable(fitted, synth, data):
    table = fitted.codec.decode(synth, np.random.default_rng(7))
    report = measure_releasable(fitted, synth, table=table)
    report = dataclasses.replace(report, ledger=timeless(report.ledger))
    return {"page": render(report), "twin": report.to_dict()}


def leaky(fitted, synth, data):
    report = measure_private(fitted.codec.encode(data), synth, fitted.codec, fitted)
    report = dataclasses.replace(report, ledger=timeless(report.ledger), reference_rows=0)
    return {"page": render(report), "twin": report.to_dict()}


def timeless(ledger):
    return ledger | {"entries": [entry | {"time": ""} for entry in ledger["entries"]]}


@pytest.mark.parametrize("method", ["independent", "privsyn"])
def test_nothing_in_the_releasable_edition_comes_from_exact_data(method):
    table = make_table(300)
    for neighbour in (table.slice(1), table.slice(0, 299)):
        assert replay(program(method, releasable), table, neighbour, Mechanisms(Noise.seeded(0))) == []


def test_the_same_net_catches_the_private_edition():
    table = make_table(300)
    found = replay(program("independent", leaky), table, table.slice(1), Mechanisms(Noise.seeded(0)))
    assert found == ["page differs", "twin differs"]
