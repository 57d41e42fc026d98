"""A kind is one class and one line of the registry: a kind of this test's own goes all the way to a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from weft import Schema, Synthesizer
from weft.drafting.draft import draft
from weft.encoding import Codec
from weft.errors import DataError
from weft.evaluation.report.report_codes import label_codes
from weft.schema import KINDS, Column
from weft.schema.kinds.draft_facts import Guess
from weft.schema.kinds.kind import Label, Policies
from weft.values.storage import missing_of
from weft.values.text_numbers import is_text

ADDRESS = r"^(?P<net>[0-9]{1,3})\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}$"


class AddressCoder:
    """One code for each network, by the first number; the rest of an address is drawn anew."""

    def __init__(self, column):
        self._policies = Policies(column, 256)
        self.size = self._policies.size

    def encode(self, array):
        net = pc.struct_field(pc.extract_regex(array.cast(pa.string()), ADDRESS), "net").cast(pa.int64())
        codes = net.fill_null(-1).to_numpy(zero_copy_only=False).copy()
        return self._policies.settle(np.where(codes > 255, -1, codes), missing_of(array))

    def decode(self, codes, rng):
        rest = rng.integers(0, 256, (3, len(codes)))
        parts = [pa.array(part).cast(pa.string()) for part in (codes.astype(np.int64), *rest)]
        return pc.if_else(pa.array(~self._policies.is_missing(codes)), pc.binary_join_element_wise(*parts, "."), None)


@dataclass(frozen=True)
class Address(Column):
    """An address of the internet, of which the network is learned."""

    kind: ClassVar[str] = "ipv4"

    def plain_type(self):
        return pa.string()

    def coder(self, arrow_type, nan):
        if not is_text(arrow_type):
            raise self.unfit(arrow_type)
        return AddressCoder(self)

    def labels(self, arrow_type, size):
        return [Label(f"{net}.0.0.0", f"{net}.255.255.255", "bin") for net in range(256)]

    @property
    def outside_remedy(self):
        return "a value is no address. Mend it"

    @classmethod
    def recognise(cls, evidence):
        found = is_text(evidence.type) and len(evidence.values)
        if found and pc.all(pc.match_substring_regex(evidence.values, ADDRESS)).as_py():
            return Guess({"kind": cls.kind}, "Addresses of the internet.")
        return None


@pytest.fixture
def registered(monkeypatch):
    known = dict(KINDS)
    KINDS.clear()
    KINDS.update({"ipv4": Address} | known)
    yield
    KINDS.clear()
    KINDS.update(known)


SCHEMA = '[columns.seen]\nkind = "ipv4"\nmissing = true\n\n[columns.n]\nkind = "integer"\nrange = [0, 9]\n'


def test_a_new_kind_is_read_coded_named_and_released(registered, tmp_path):
    schema = Schema.from_toml(SCHEMA)
    assert Schema.from_toml(schema.to_toml()) == schema
    path = tmp_path / "rows.csv"
    path.write_text("seen,n\n" + "10.0.0.7,1\n10.9.9.9,2\n,3\n" * 200)
    made = Synthesizer(8.0, method="independent", noise_seed=1, journal=None).fit(path, schema)
    released = made.sample()
    assert released.schema.field("seen").type == pa.string()
    nets = pc.struct_field(pc.extract_regex(released["seen"].drop_null(), ADDRESS), "net").to_pylist()
    assert nets.count("10") > 350
    assert released["seen"].null_count > 150
    codec = made.fitted_.codec
    assert isinstance(codec, Codec) and codec.domain.size("seen") == 257
    assert [str(label) for label in label_codes(codec, "seen")[-2:]] == ["255.0.0.0 to 255.255.255.255", "missing"]


def test_a_new_kind_refuses_in_its_own_words(registered, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("seen,n\nS3CRET,1\n")
    with pytest.raises(DataError, match='column "seen": a value is no address'):
        Synthesizer(8.0, method="independent", journal=None).fit(path, Schema.from_toml(SCHEMA))


def test_a_draft_recognises_a_new_kind(registered):
    text = draft(pa.table({"seen": ["10.0.0.7", "192.168.0.1"] * 20}), "rows")
    column = Schema.from_toml(text).column("seen")
    assert column.kind == "ipv4" and column.from_data == ("kind", "missing")
