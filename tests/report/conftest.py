"""A small private table, a model of it and rows made by the model."""

import pytest
from conftest import SCHEMA, make_table

from weft.encoding import Codec
from weft.evaluation.report import Report
from weft.evaluation.report.measure_report import measure_private, measure_releasable
from weft.marginals.records import Records
from weft.schema import Schema
from weft.synthesis.fitted import Fitted
from weft.synthesis.synthesizer import Synthesizer


@pytest.fixture(scope="session")
def fitted(table) -> Fitted:
    return Synthesizer(epsilon=2.0, method="privsyn", seed=1).fit(table, Schema.from_toml(SCHEMA)).fitted_


@pytest.fixture(scope="session")
def codec(fitted) -> Codec:
    return fitted.codec


@pytest.fixture(scope="session")
def real(table, codec) -> Records:
    return codec.encode(table)


@pytest.fixture(scope="session")
def synth(fitted) -> Records:
    import numpy as np

    return fitted.model.sample(300, np.random.default_rng(2))


@pytest.fixture(scope="session")
def private(real, synth, codec, fitted) -> Report:
    return measure_private(real, synth, codec, fitted)


@pytest.fixture(scope="session")
def releasable(fitted, synth) -> Report:
    return measure_releasable(fitted, synth)


@pytest.fixture(scope="session")
def wide_table():
    return make_table(500, seed=3)
